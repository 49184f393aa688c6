use std::time::{Duration, Instant};

use lockyard::{Lease, Owner};
use lockyard_testkit::{Server, eventually_async};

use crate::support::{SOON, client, ms, soon, travelled, until_waiting, wait};

// Red if `parse` in lockyard-lock mixes fields up.
#[tokio::test]
async fn inspect_tells_who_holds_and_who_waits() {
    let server = Server::start().unwrap();
    let [a, b] = [client(&server.url()).await, client(&server.url()).await];
    let empty = a.lock("x").inspect().await.unwrap();
    assert!(empty.holders.is_empty() && empty.waiters.is_empty() && empty.waiting == 0);
    assert!(!a.lock("x").is_locked().await.unwrap());

    let owner = a.owner();
    let before = Instant::now();
    let lock = a
        .lock("x")
        .with_owner(&owner)
        .with_lease(Lease::Fixed(ms(50_000)));
    let guards = [lock.acquire().await.unwrap(), lock.acquire().await.unwrap()];
    tokio::time::sleep(ms(30)).await;
    let called = b
        .lock("x")
        .with_lease(Lease::Fixed(ms(20_000)))
        .reenter(&travelled(&owner))
        .await
        .unwrap()
        .unwrap();
    let mut waiters = Vec::new();
    let mut owners = Vec::new();
    for number in 0..4 {
        let waiting = if number % 2 == 0 { &a } else { &b };
        owners.push(waiting.owner());
        waiters.push(wait(&waiting.lock("x").with_owner(&owners[number])));
        until_waiting(&a.lock("x"), number as u64 + 1).await;
        tokio::time::sleep(ms(20)).await;
    }
    for seen_by in [&a, &b] {
        eventually_async(SOON, async || {
            seen_by.lock("x").hold_count(&owner).await.unwrap() == 3
        })
        .await;
        let info = seen_by.lock("x").inspect().await.unwrap();
        let elapsed = before.elapsed();
        assert!(seen_by.lock("x").is_locked().await.unwrap());
        let [first, second] = &info.holders[..] else {
            panic!("{info:?}")
        };
        assert_eq!((first.count, second.count), (2, 1));
        assert_eq!((&first.owner, &second.owner), (&owner, &owner));
        assert_eq!((first.token, second.token), (None, None));
        assert!(
            first.held_for > second.held_for && first.held_for <= elapsed + ms(2),
            "{info:?}"
        );
        assert!(second.held_for >= ms(80), "{info:?}");
        assert!(
            first.remaining > ms(40_000) && first.remaining <= ms(50_000),
            "{info:?}"
        );
        assert!(
            second.remaining > ms(10_000) && second.remaining <= ms(20_000),
            "{info:?}"
        );
        assert_eq!(info.waiting, 4);
        let queue: Vec<&Owner> = info.waiters.iter().map(|waiter| &waiter.owner).collect();
        assert_eq!(queue, owners.iter().collect::<Vec<_>>());
        let waited: Vec<Duration> = info.waiters.iter().map(|waiter| waiter.waited).collect();
        assert!(
            waited.is_sorted_by(|longer, shorter| *longer > *shorter + ms(15)),
            "{waited:?}"
        );
        assert!(waited[0] < elapsed && waited[3] >= ms(20), "{waited:?}");
        // Clients have names of their own, and one name each.
        let clients: Vec<&str> = info.waiters.iter().map(|waiter| &*waiter.client).collect();
        assert_eq!([clients[0], clients[1]], [clients[2], clients[3]]);
        assert_ne!(clients[0], clients[1]);
        assert_eq!([&*first.client, &*second.client], [clients[0], clients[1]]);
        assert!(
            server
                .keys(&format!("*{}*", first.client))
                .unwrap()
                .is_empty()
        );
    }
    called.release().await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiter in waiters {
        soon(waiter).await.unwrap().release().await.unwrap();
    }
    let fenced = a.lock("x").fenced().acquire().await.unwrap();
    let info = b.lock("x").inspect().await.unwrap();
    assert_eq!(info.holders[0].token, fenced.token());
    assert_eq!(info.holders[0].owner, fenced.owner());
    fenced.release().await.unwrap();
}

// Red if `inspect` shows what its deadline has ended (`retain` in lockyard-lock).
#[tokio::test]
async fn what_has_run_out_is_not_held_by_anybody() {
    let server = Server::start().unwrap();
    let (holder, other) = (client(&server.url()).await, client(&server.url()).await);
    let owner = holder.owner();
    let lock = holder.lock("x").with_owner(&owner);
    let long = lock
        .clone()
        .with_lease(Lease::Fixed(ms(90_000)))
        .acquire()
        .await
        .unwrap();
    // The other client's hold keeps nothing of the first's, and runs out inside the key that stays.
    let short = other
        .lock("x")
        .with_lease(Lease::Fixed(ms(300)))
        .reenter(&travelled(&owner))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    eventually_async(SOON, async || short.is_lost()).await;
    eventually_async(SOON, async || lock.hold_count(&owner).await.unwrap() == 1).await;
    assert_eq!(lock.inspect().await.unwrap().holders.len(), 1);
    long.release().await.unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 0);
    // A waiter's look would drop it; nobody has to look for it to be over.
    assert!(!other.lock("x").is_locked().await.unwrap());
}
