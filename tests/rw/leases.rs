use std::collections::BTreeMap;
use std::time::Duration;

use lockyard::{HoldState, Lease};
use lockyard_testkit::{Proxy, Server, eventually_async};
use tokio::time::Instant;

use super::{reads, until_waiting, writes};
use crate::contract::site::Site;
use crate::scripts::bare::{Bare, Id, LEASE, id};
use crate::scripts::family::Family;
use crate::support::{SOON, client, ms, patient, soon};

/// The deadlines of all who read, by their hold ids.
fn deadlines(server: &Server) -> BTreeMap<String, u64> {
    let words = ["ZRANGE", "lockyard:rw.readers:{x}", "0", "-1", "WITHSCORES"];
    server.query(&words).unwrap()
}

// Red when the key's time to live is that of a reader alone.
#[tokio::test]
async fn each_reader_has_its_own_lease() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, patient(&server.url()).await);
    let lock = one.rw_lock("x");
    let long = lock.clone().with_lease(Lease::Fixed(ms(60_000)));
    let short = lock.clone().with_lease(Lease::Fixed(ms(500)));
    let long = long.read().await.unwrap();
    let short = short.read().await.unwrap();
    let renewed = lock.clone().with_lease(Lease::Renewed(ms(600)));
    let renewed = renewed.read().await.unwrap();
    let writer = writes(&two.rw_lock("x"));
    soon(short.lost()).await;
    eventually_async(SOON, async || lock.reader_count().await.unwrap() == 2).await;
    assert_eq!(long.state(), HoldState::Held);
    assert_eq!(renewed.state(), HoldState::Held);
    assert!(long.remaining() > ms(30_000));
    long.release().await.unwrap();
    assert!(!writer.is_finished());
    renewed.release().await.unwrap();
    soon(writer).await.unwrap().release().await.unwrap();
}

// Red if a renewal of one reader gives all their leases anew.
#[tokio::test]
async fn a_dead_readers_hold_ends_with_its_own_lease_whoever_renews() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let (lives, waits) = (client(&server.url()).await, patient(&server.url()).await);
    let dies = client(&proxy.url()).await.rw_lock("x");
    let lock = lives.rw_lock("x").with_lease(Lease::Renewed(ms(600)));
    let dead = dies.with_lease(Lease::Renewed(ms(1500))).read().await;
    let dead = dead.unwrap();
    let mine: Vec<String> = deadlines(&server).into_keys().collect();
    let mut living = Vec::new();
    for _ in 0..5 {
        living.push(lock.read().await.unwrap());
    }
    // A cut connection, and no way back, is all that the server sees of a killed process.
    drop(proxy);
    let last = deadlines(&server)[&mine[0]];
    let died = Instant::now();
    eventually_async(SOON, async || {
        let deadline = deadlines(&server).get(&mine[0]).copied();
        assert!(deadline.is_none_or(|deadline| deadline == last));
        lock.reader_count().await.unwrap() == 5
    })
    .await;
    assert!(died.elapsed() < ms(1500 + 1500), "{:?}", died.elapsed());
    assert!(dead.is_lost());
    let writer = writes(&waits.rw_lock("x"));
    until_waiting(&lock, 1).await;
    for reader in living {
        assert_eq!(reader.state(), HoldState::Held);
        assert!(!writer.is_finished());
        reader.release().await.unwrap();
    }
    soon(writer).await.unwrap().release().await.unwrap();
}

// Red without `GT` in `put` of rw.lua: then each check of a fixed lease ends it.
#[test]
fn neither_a_check_nor_a_late_renewal_shortens_a_readers_lease() {
    let server = Server::start().unwrap();
    let lock = Bare::of(Family::Rw, &server.url());
    let reader = Id {
        reads: true,
        ..id("a:1", "c", 1)
    };
    lock.acquire(&reader, "try");
    let before = lock.readers();
    for lease in [0, LEASE / 2] {
        lock.renew_all(&[(&lock, &reader, lease, 1)]);
        assert_eq!(lock.readers(), before);
    }
    lock.renew_all(&[(&lock, &reader, 2 * LEASE, 1)]);
    let later = |(one, other): (u64, u64)| other > one + LEASE / 2;
    let pairs = before.into_values().zip(lock.readers().into_values());
    assert!(pairs.into_iter().all(later));
}

// Red if `put` of a reader sets the deadlines of others.
#[tokio::test]
async fn a_short_lease_shortens_no_other_and_a_long_one_lengthens_none() {
    let server = Server::start().unwrap();
    let lock = client(&server.url()).await.rw_lock("x");
    let mut guards = Vec::new();
    let mut before = BTreeMap::new();
    let mut longest = 0;
    for lease in [60_000, 2_000, 600_000, 20_000, 1_000_000] {
        let lock = lock.clone().with_lease(Lease::Fixed(ms(lease)));
        guards.push(lock.read().await.unwrap());
        let after = deadlines(&server);
        assert!(before.iter().all(|(id, until)| after[id] == *until));
        assert_eq!(after.len(), guards.len());
        longest = longest.max(lease as i64);
        let ttl = server.ttl_ms("lockyard:rw.readers:{x}").unwrap();
        assert!((longest - 5_000..=longest).contains(&ttl), "{ttl}");
        before = after;
    }
    // Nor does a shorter one of the same owner.
    let short = lock.with_owner(&guards[0].owner());
    let short = short.with_lease(Lease::Fixed(ms(1_000)));
    let nested = short.read().await.unwrap();
    let after = deadlines(&server);
    assert!(before.iter().all(|(id, until)| after[id] == *until));
    nested.release().await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    super::no_keys(&server);
}

/// How long after the end of the last reader's hold a writer enters that has waited for it.
async fn enters_after(site: &Site, releases: bool) -> Duration {
    const LEASE: Duration = ms(400);
    let (holder, waits) = (site.client().await, site.patient().await);
    let lock = holder.rw_lock("x").with_lease(Lease::Fixed(LEASE));
    let first = lock.read().await.unwrap();
    let last = lock.read().await.unwrap();
    let acquired = Instant::now();
    let writer = writes(&waits.rw_lock("x"));
    until_waiting(&lock, 1).await;
    let over = if releases {
        first.release().await.unwrap();
        let released = Instant::now();
        last.release().await.unwrap();
        released
    } else {
        std::mem::forget((first, last));
        acquired + LEASE
    };
    let writing = soon(writer).await.unwrap();
    let took = over.elapsed();
    writing.release().await.unwrap();
    took
}

// Red if the look that finds them gone comes by the waiter timeout alone (`look_in` in waiter.lua).
#[tokio::test(start_paused = true)]
async fn a_writer_enters_within_100_ms_after_the_last_reader() {
    let site = Site::memory();
    for releases in [true, false] {
        let took = enters_after(&site, releases).await;
        assert!(took <= ms(100), "{took:?}, released: {releases}");
    }
}

// Red as above.
#[tokio::test]
async fn a_writer_enters_mostly_within_100_ms_after_the_last_reader_on_a_server() {
    let site = Site::server();
    for releases in [true, false] {
        let mut took = Vec::new();
        for _ in 0..7 {
            took.push(enters_after(&site, releases).await);
        }
        took.sort();
        // A busy machine may be late, but not each time.
        assert!(took[3] <= ms(100), "{took:?}, released: {releases}");
    }
}

// Red if a grant is written with the full lease of a reader that may be cut off.
#[tokio::test]
async fn readers_that_are_granted_together_have_their_own_full_leases_soon_after() {
    let server = Server::start().unwrap();
    let (holder, waits) = (client(&server.url()).await, client(&server.url()).await);
    let lock = holder.rw_lock("x");
    let writing = lock.write().await.unwrap();
    let leases = [20_000, 60_000, 40_000];
    let readers = leases.map(|lease| {
        let lock = waits.rw_lock("x");
        reads(&lock.with_lease(Lease::Fixed(ms(lease))))
    });
    until_waiting(&lock, 3).await;
    writing.release().await.unwrap();
    for (reader, lease) in readers.into_iter().zip(leases) {
        let reader = soon(reader).await.unwrap();
        let whole = ms(lease - 10_000)..=ms(lease);
        eventually_async(SOON, async || whole.contains(&reader.remaining())).await;
        reader.release().await.unwrap();
    }
}
