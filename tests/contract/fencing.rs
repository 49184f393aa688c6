use lockyard::{Error, FencingToken, HoldState};
use lockyard_testkit::{Server, eventually_async};

use crate::contract::exclusive::{Exclusive, Guard, Owned};
use crate::contract::site::Site;
use crate::support::{SOON, client, ms, soon, travelled, until_waiting, wait};

// Red if `mint` takes the server's time alone (the clock goes back below), or grants mint nothing.
pub(crate) async fn fencing_tokens_grow_from_hold_to_hold<M: Exclusive>() {
    let server = Server::start().unwrap();
    let (a, b) = (client(&server.url()).await, client(&server.url()).await);
    let mut last = None;
    let mut grows = |token: Option<FencingToken>| {
        assert!(token.is_some() && token > last, "{token:?} after {last:?}");
        last = token;
    };
    for round in 0..20 {
        let taker = if round % 2 == 0 { &a } else { &b };
        let guard = M::of(taker, "x").fenced().acquire().await.unwrap();
        grows(guard.token());
        // One that was granted to a waiter, and one without waiters.
        let waiter = wait(&M::of(&a, "x").fenced());
        until_waiting(&M::of(&a, "x"), 1).await;
        guard.release().await.unwrap();
        let granted = soon(waiter).await.unwrap();
        grows(granted.token());
        granted.release().await.unwrap();
        let tried = M::of(&b, "x")
            .fenced()
            .try_acquire()
            .await
            .unwrap()
            .unwrap();
        grows(tried.token());
        tried.release().await.unwrap();
        match round {
            // As after a failover, or by an operator: the key is gone, and the clock goes on.
            5 => drop(server.command(&["DEL", &M::part("fence", "x")]).unwrap()),
            10 => server.flush_all().unwrap(),
            15 => {
                server.restart().unwrap();
                eventually_async(SOON, async || M::of(&b, "x").try_acquire().await.is_ok()).await;
            }
            // As if the clock had gone back an hour.
            7 => {
                let ahead = (server.time_micros().unwrap() + 3_600_000_000).to_string();
                server
                    .command(&["SET", &M::part("fence", "x"), &ahead])
                    .unwrap();
                let guard = M::of(&a, "x").fenced().acquire().await.unwrap();
                assert!(guard.token().unwrap().get() > ahead.parse().unwrap());
                guard.release().await.unwrap();
                server.command(&["DEL", &M::part("fence", "x")]).unwrap();
            }
            _ => {}
        }
        eventually_async(SOON, async || {
            matches!(M::of(&a, "x").is_locked().await, Ok(false))
        })
        .await;
    }
    let ttl = server.ttl_ms(&M::part("fence", "x")).unwrap();
    assert!(ttl > 80_000_000, "{ttl}");
    assert_eq!(server.keys("*").unwrap(), [M::part("fence", "x")]);
}

// Red if a re-entry mints (acquire.lua), or a nested guard has no token (core's `nest`).
pub(crate) async fn a_fenced_re_entry_has_the_token_of_the_hold<M: Exclusive>(site: Site) {
    let (a, b) = (site.client().await, site.client().await);
    let owner = a.owner();
    let here = M::of(&a, "x").with_owner(&owner);
    let there = M::of(&b, "x").with_owner(&travelled(&owner));
    let outer = here.clone().fenced().acquire().await.unwrap();
    let token = outer.token();
    assert!(token.is_some());
    let mut inner = Vec::new();
    for lock in [
        here.clone().fenced(),
        here.clone(),
        there.clone().fenced(),
        there.clone(),
    ] {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(guard.token(), token);
        inner.push(guard);
    }
    assert_eq!(
        M::of(&b, "x")
            .reenter(&travelled(&owner))
            .await
            .unwrap()
            .unwrap()
            .token(),
        token
    );
    assert!(
        M::of(&a, "x")
            .holders()
            .await
            .unwrap()
            .iter()
            .all(|holder| holder.token == token)
    );
    // It stays when the first guard ends.
    outer.release().await.unwrap();
    let again = here.clone().fenced().acquire().await.unwrap();
    assert_eq!(again.token(), token);
    again.release().await.unwrap();
    for guard in inner {
        guard.release().await.unwrap();
    }
    eventually_async(SOON, async || !M::of(&a, "x").is_locked().await.unwrap()).await;
    let next = here.fenced().acquire().await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

// Red if acquire.lua or core's `nest` does not compare kinds.
pub(crate) async fn a_fenced_re_entry_into_an_unfenced_hold_is_refused<M: Exclusive>(site: Site) {
    let [a, b, stranger] = [
        site.client().await,
        site.client().await,
        site.client().await,
    ];
    let owner = a.owner();
    let outer = M::of(&a, "x").with_owner(&owner).acquire().await.unwrap();
    assert_eq!(outer.token(), None);
    for nested in [&a, &b] {
        let lock = M::of(nested, "x").with_owner(&travelled(&owner)).fenced();
        for result in [
            lock.acquire().await.map(Some),
            lock.try_acquire().await,
            lock.try_acquire_for(ms(50)).await,
            lock.reenter(&owner).await,
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::NotFenced { .. }), "{error:?}");
            assert!(!error.is_retryable());
        }
    }
    assert_eq!(M::of(&a, "x").hold_count(&owner).await.unwrap(), 1);
    assert_eq!(outer.state(), HoldState::Held);
    outer.release().await.unwrap();
    // One that waits learns it when its owner is let in through another client.
    let held = M::of(&stranger, "x").acquire().await.unwrap();
    let first = wait(&M::of(&a, "x").with_owner(&owner));
    until_waiting(&M::of(&a, "x"), 1).await;
    let fenced = M::of(&b, "x").with_owner(&travelled(&owner)).fenced();
    let second = tokio::spawn(async move { fenced.acquire().await });
    until_waiting(&M::of(&a, "x"), 2).await;
    held.release().await.unwrap();
    let first = soon(first).await.unwrap();
    assert!(matches!(
        soon(second).await.unwrap(),
        Err(Error::NotFenced { .. })
    ));
    first.release().await.unwrap();
    eventually_async(SOON, async || {
        M::of(&a, "x").inspect().await.unwrap().waiting == 0
    })
    .await;
    assert!(!M::of(&a, "x").is_locked().await.unwrap());
}
