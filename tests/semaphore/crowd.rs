use lockyard_testkit::{Server, eventually_async};

use super::{until_waiting, wants};
use crate::support::{SOON, assert_quick_scripts, cache_scripts, no_keys, patient, soon};

const PERMITS: &str = "lockyard:semaphore.permits:{api}";

/// Writes permits of a client that is gone, which all ended long ago; all but the first 10 000 hold one.
fn crash(server: &Server, holds: usize) {
    let member = |number: usize| {
        let id = format!(
            "67e55044-10b1-426f-9247-bb680e5fe0c8:{number}/67e55044-10b1-426f-9247-bb680e5fe0c8.{number}"
        );
        format!("{id}|{}", if number < 10_000 { 2 } else { 1 })
    };
    let members: Vec<String> = (0..holds).map(member).collect();
    for some in members.chunks(1000) {
        let mut words = vec!["ZADD", PERMITS];
        words.extend(some.iter().flat_map(|member| ["1", member.as_str()]));
        server.command(&words).unwrap();
    }
}

fn left(server: &Server) -> u64 {
    server.query(&["ZCARD", PERMITS]).unwrap()
}

// Red if `prune` in semaphore.lua removes all that are over at once, or does not say `more`.
#[tokio::test]
async fn twenty_thousand_permits_of_a_crashed_client_come_back_by_short_scripts() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let (one, two) = (patient(&server.url()).await, patient(&server.url()).await);
    let (api, other) = (one.semaphore("api", 30_000), two.semaphore("api", 30_000));
    crash(&server, 20_000);
    // Those that are over do not count, whether they have been removed or not.
    assert_eq!(api.available_permits().await.unwrap(), 30_000);
    // Others acquire all the while: what a thousand of them had is free each time.
    let mut held = Vec::new();
    for removed in 1..=20 {
        held.push(soon(other.acquire_many(500)).await.unwrap());
        assert_eq!(left(&server), 20_000 - removed * 1000 + removed);
    }
    assert_eq!(api.available_permits().await.unwrap(), 20_000);
    // A waiter's looks bring them back, one after another.
    crash(&server, 20_000);
    server
        .command(&["DEL", "lockyard:semaphore:{api}"])
        .unwrap();
    let scripts = server.scripts().unwrap();
    let all = wants(&api, 20_000);
    let all = soon(all).await.unwrap().unwrap();
    let scripts = server.scripts().unwrap() - scripts;
    assert!((10..=25).contains(&scripts), "{scripts} scripts");
    let more = wants(&other, 1);
    until_waiting(&api, 1).await;
    all.release().await.unwrap();
    held.push(soon(more).await.unwrap().unwrap());
    eventually_async(SOON, async || {
        drop(api.try_acquire().await.unwrap());
        left(&server) <= held.len() as u64 + 1
    })
    .await;
    for permit in held {
        permit.release().await.unwrap();
    }
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
    no_keys(&server);
    assert_quick_scripts(&server);
}
