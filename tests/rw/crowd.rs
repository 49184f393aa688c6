use lockyard::Client;
use lockyard_testkit::Server;
use tokio::time::Instant;

use super::{reads, until_waiting, writes};
use crate::scripts::bare::{Acquired, Bare, batch, id};
use crate::scripts::family::Family;
use crate::support::{SOON, assert_quick_scripts, cache_scripts, patient, soon};

fn publishes(server: &Server) -> u64 {
    let stats = server.commandstats().unwrap();
    stats.get("publish").copied().unwrap_or_default()
}

// Red if the grant block sends a message for each reader, or `more` is not followed up.
#[tokio::test]
async fn a_thousand_readers_behind_a_writer_enter_by_a_few_scripts_and_messages() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let holder = patient(&server.url()).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(patient(&server.url()).await);
    }
    let lock = holder.rw_lock("x");
    let writing = lock.write().await.unwrap();
    let readers: Vec<_> = (0..1000)
        .map(|number| reads(&clients[number % 4].rw_lock("x")))
        .collect();
    until_waiting(&lock, 1000).await;
    let (scripts, messages) = (server.scripts().unwrap(), publishes(&server));
    writing.release().await.unwrap();
    let mut inside = Vec::new();
    for reader in readers {
        inside.push(soon(reader).await.unwrap());
    }
    // Looks and renewals come after minutes and seconds; all that ran was to let them in.
    let scripts = server.scripts().unwrap() - scripts;
    let messages = publishes(&server) - messages;
    assert!(scripts <= 11, "{scripts} scripts");
    assert!(messages <= 4 * scripts, "{messages} messages");
    assert_eq!(lock.reader_count().await.unwrap(), 1000);
    assert_quick_scripts(&server);
}

/// The µs that the server has spent on EVAL.
fn spent(server: &Server) -> u64 {
    let info: String = server.query(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find(|line| line.starts_with("cmdstat_eval:"));
    let usec = line.and_then(|line| line.split("usec=").nth(1)).unwrap();
    usec.split(',').next().unwrap().parse().unwrap()
}

/// The median time, in µs, that the server takes to hand a lock on while so many wait.
fn hand_over(server: &Server, family: Family, waiting: usize) -> u64 {
    const ROUNDS: usize = 101;
    let lock = Bare::of(family, &server.url());
    let _inbox = lock.inbox(&server.url(), "c");
    let ids: Vec<_> = (0..=waiting + ROUNDS)
        .map(|number| id(&format!("a:{number}"), "c", number))
        .collect();
    let mut took = Vec::new();
    for (at, waiter) in ids.iter().enumerate() {
        let held = lock.acquire(waiter, "wait");
        assert_eq!(at > 0, matches!(held, Acquired::Queued { .. }));
        if at > waiting {
            let before = spent(server);
            assert_eq!(lock.release(&ids[at - waiting - 1]), batch(&[1]));
            took.push(spent(server) - before);
        }
    }
    took.sort();
    took[took.len() / 2]
}

// Red if the grant block or acquire reads the whole queue.
#[test]
fn a_hand_over_before_ten_thousand_takes_at_most_twice_as_long_as_before_ten() {
    let server = Server::start().unwrap();
    for family in [Family::Lock, Family::Rw] {
        // Others may have the processor during one of them, but not each time.
        let pairs = (0..8).map(|_| {
            let few = hand_over(&server, family, 10);
            (few, hand_over(&server, family, 10_000))
        });
        let mut seen = Vec::new();
        let alike = pairs
            .inspect(|pair| seen.push(*pair))
            .any(|(few, many)| many <= 2 * few);
        assert!(
            alike,
            "µs before ten and before ten thousand: {seen:?}, {family:?}"
        );
    }
}

/// Adds members to a sorted set, a thousand at a time.
fn add(server: &Server, key: &str, members: impl Iterator<Item = (String, String)>) {
    let members: Vec<_> = members.collect();
    for some in members.chunks(1000) {
        let mut words = vec!["ZADD".to_owned(), key.to_owned()];
        for (score, member) in some {
            words.extend([score.clone(), member.clone()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        server.command(&words).unwrap();
    }
}

fn hold(number: usize) -> String {
    format!(
        "67e55044-10b1-426f-9247-bb680e5fe0c8:{number}/00000000-0000-4000-8000-000000000000.{number}"
    )
}

async fn pair(server: &Server) -> (Client, Client) {
    (patient(&server.url()).await, patient(&server.url()).await)
}

// Red if `prune` in rw.lua removes all that are over at once, or does not say `more`.
#[tokio::test]
async fn twenty_thousand_expired_readers_are_cleaned_up_by_short_scripts() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let (one, two) = pair(&server).await;
    let lock = one.rw_lock("x");
    let expired = || {
        let readers = (0..20_000).map(|number| ("1".to_owned(), hold(number)));
        add(&server, "lockyard:rw.readers:{x}", readers);
    };
    let left = || {
        let words = ["ZCARD", "lockyard:rw.readers:{x}"];
        server.query::<u64>(&words).unwrap()
    };
    // Readers enter all the while.
    expired();
    for removed in 1..=20 {
        let reading = two.rw_lock("x").try_read().await.unwrap();
        reading.expect("nobody writes").release().await.unwrap();
        assert_eq!(left(), 20_000 - removed * 1000);
    }
    // A writer's looks clean up, one after another.
    expired();
    let scripts = server.scripts().unwrap();
    let began = Instant::now();
    let writing = soon(writes(&lock)).await.unwrap();
    assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    let scripts = server.scripts().unwrap() - scripts;
    assert!((20..=25).contains(&scripts), "{scripts} scripts");
    assert_eq!(left(), 0);
    writing.release().await.unwrap();
    super::no_keys(&server);
    assert_quick_scripts(&server);
}

// Red if the grant block has no budget, or `more` is not followed up.
#[tokio::test]
async fn twenty_thousand_dead_waiters_are_cleaned_up_by_short_scripts_and_the_living_enter() {
    const QUEUE: &str = "lockyard:rw.queue:{x}";
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let (one, two) = pair(&server).await;
    let lock = one.rw_lock("x");
    let holder = lock.write().await.unwrap();
    let mut living = Vec::new();
    for at in 0..4 {
        living.push(writes(&two.rw_lock("x")));
        until_waiting(&lock, at + 1).await;
    }
    let words = ["ZRANGE", QUEUE, "0", "-1", "WITHSCORES"];
    let tickets: Vec<(String, f64)> = server.query(&words).unwrap();
    let dead = |number: usize| {
        // Between the living, 5 000 behind each; those of one ticket stand in the order of their names.
        let ticket = tickets[number / 5_000].1 + 1.0;
        let kind = if number.is_multiple_of(3) { "-" } else { "r" };
        let entry = format!("{}|{kind}|1|30000|10000", hold(number));
        (format!("{ticket}"), entry)
    };
    add(&server, QUEUE, (0..20_000).map(dead));
    let scripts = server.scripts().unwrap();
    let mut held = holder;
    for waiter in living {
        let began = Instant::now();
        held.release().await.unwrap();
        held = soon(waiter).await.unwrap();
        assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    }
    held.release().await.unwrap();
    let gone = async || server.keys("*").unwrap().is_empty();
    lockyard_testkit::eventually_async(SOON, gone).await;
    assert_quick_scripts(&server);
    // A hundred of them each.
    let scripts = server.scripts().unwrap() - scripts;
    assert!((200..=220).contains(&scripts), "{scripts} scripts");
}
