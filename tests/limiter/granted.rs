use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockyard::{Decision, Rate};
use lockyard_testkit::{Server, eventually_async};

use super::{HOUR, SLOW, assert_debt};
use crate::support::{SOON, begin, cache_scripts, client, ms, soon, while_waiting};

fn close(found: Duration, expected: Duration) -> bool {
    found <= expected && found > expected - Duration::from_secs(30)
}

// Red when the burst is one permit larger, and when a permit is owed for half its time.
#[tokio::test]
async fn a_burst_is_granted_at_once_and_then_one_each_interval() {
    let server = Server::start().unwrap();
    let limiter = client(&server.url()).await.rate_limiter("x", SLOW);
    for left in [4, 3, 2, 1, 0] {
        let decision = limiter.try_acquire(1).await.unwrap();
        assert!(decision.is_allowed());
        let quota = decision.quota();
        assert_eq!((quota.limit, quota.remaining), (5, left));
        assert!(close(quota.reset, HOUR * (5 - left)), "{quota:?}");
    }
    for permits in [1, 2, 5] {
        let decision = limiter.try_acquire(permits).await.unwrap();
        let Decision::Denied { retry_after, quota } = decision else {
            panic!("{decision:?}");
        };
        assert!(close(retry_after, HOUR * permits), "{retry_after:?}");
        assert_eq!(quota.remaining, 0);
    }
    assert_debt(&server, "x", 5.0);
}

// Red when a wait is not slept, and when it counts from nothing.
#[tokio::test]
async fn whoever_waits_is_served_when_its_permits_are_due() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", Rate::per_second(20).burst(2));
    let start = Instant::now();
    for taken in 1..=8u32 {
        soon(limiter.acquire(1)).await.unwrap();
        let due = ms(50) * taken.saturating_sub(2);
        assert!(start.elapsed() >= due, "{taken}: {:?}", start.elapsed());
    }
    soon(limiter.acquire(2)).await.unwrap();
    assert!(start.elapsed() >= ms(400));
}

// Red when whoever waits asks again instead of taking its permits.
#[tokio::test]
async fn order_of_arrival_is_order_of_service() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let rate = Rate::per_second(10).burst(3);
    let (one, two) = (one.rate_limiter("x", rate), two.rate_limiter("x", rate));
    one.acquire(3).await.unwrap();
    let (mut big, mut small) = (pin!(one.acquire(3)), pin!(two.acquire(1)));
    while_waiting(big.as_mut(), until_debt(&server, 5.0)).await;
    while_waiting(small.as_mut(), until_debt(&server, 6.0)).await;
    // Nobody gets anything in between, though there is room for one.
    assert!(!two.try_acquire(1).await.unwrap().is_allowed());
    tokio::select! {
        biased;
        _ = small.as_mut() => panic!("the later one overtook"),
        granted = soon(big) => { granted.unwrap(); }
    }
    soon(small).await.unwrap();
}

/// Waits until more than so many are owed.
async fn until_debt(server: &Server, permits: f64) {
    eventually_async(SOON, async || super::debt(server, "x") > permits).await;
}

// Red when a call whose wait is too short takes its permits all the same.
#[tokio::test]
async fn a_wait_that_would_be_in_vain_ends_at_once_and_takes_nothing() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", SLOW);
    limiter.acquire(5).await.unwrap();
    let decision = soon(limiter.try_acquire_for(2, HOUR)).await.unwrap();
    assert!(
        close(decision.retry_after().unwrap(), HOUR * 2),
        "{decision:?}"
    );
    assert_debt(&server, "x", 5.0);
    let quick = client.rate_limiter("y", Rate::per_second(20).burst(1));
    quick.acquire(1).await.unwrap();
    let start = Instant::now();
    let decision = soon(quick.try_acquire_for(1, SOON)).await.unwrap();
    assert!(decision.is_allowed() && decision.retry_after().is_none());
    assert!(start.elapsed() >= ms(40));
}

// Red when a look takes a permit, and when it forgets the time that has passed.
#[tokio::test]
async fn inspect_tells_what_is_owed_and_takes_nothing() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", SLOW);
    let info = limiter.inspect().await.unwrap();
    assert_eq!((info.owed, info.clears_in), (0, Duration::ZERO));
    limiter.acquire(3).await.unwrap();
    // Whatever the handle's own rate is.
    let other = client.rate_limiter("x", Rate::per_second(0));
    for _ in 0..3 {
        let info = other.inspect().await.unwrap();
        assert_eq!(info.owed, 3);
        assert!(close(info.clears_in, HOUR * 3), "{info:?}");
    }
    assert_debt(&server, "x", 3.0);
    let quick = client.rate_limiter("y", Rate::per_second(20).burst(2));
    quick.acquire(2).await.unwrap();
    eventually_async(SOON, async || quick.inspect().await.unwrap().owed == 1).await;
    eventually_async(SOON, async || quick.inspect().await.unwrap().owed == 0).await;
    server.command(&["SET", "lockyard:rate:{z}", "1"]).unwrap();
    let error = client.rate_limiter("z", SLOW).inspect().await.unwrap_err();
    assert!(
        matches!(error, lockyard::Error::WrongType { .. }),
        "{error:?}"
    );
}

// Red without PEXPIRE.
#[tokio::test]
async fn nothing_is_left_when_nothing_is_owed() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", Rate::per_second(50).burst(10));
    limiter.acquire(10).await.unwrap();
    let ttl = server.ttl_ms("lockyard:rate:{x}").unwrap();
    assert!((1..=201).contains(&ttl), "{ttl}");
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
    // A call that is denied is not remembered either.
    let slow = client.rate_limiter("y", SLOW);
    slow.acquire(4).await.unwrap();
    let before = server.ttl_ms("lockyard:rate:{y}").unwrap();
    assert!(!slow.try_acquire(5).await.unwrap().is_allowed());
    assert!(server.ttl_ms("lockyard:rate:{y}").unwrap() <= before);
}

// Red when a debt is kept in time rather than permits, and when a changed rate is not written by who is denied.
#[tokio::test]
async fn a_changed_rate_keeps_what_has_been_granted() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let slow = client.rate_limiter("x", SLOW);
    slow.acquire(5).await.unwrap();
    let quick = client.rate_limiter("x", Rate::per_second(10).burst(5));
    let decision = quick.try_acquire(5).await.unwrap();
    let wait = decision.retry_after().expect("five are owed");
    assert!(wait <= ms(500) && wait > ms(490), "{wait:?}");
    // It is paid back at the new rate from now on.
    let decision = soon(quick.try_acquire_for(5, ms(600))).await.unwrap();
    assert!(decision.is_allowed());
    let decision = slow.try_acquire(1).await.unwrap();
    assert!(!decision.is_allowed(), "{decision:?}");
}

// Red when permits that had been waited for cost another command.
#[tokio::test]
async fn a_call_is_one_script_also_when_it_waits() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", Rate::per_second(20).burst(1));
    let before = server.scripts().unwrap();
    soon(limiter.acquire(1)).await.unwrap();
    soon(limiter.acquire(1)).await.unwrap();
    let decision = soon(limiter.try_acquire_for(1, SOON)).await.unwrap();
    assert!(decision.is_allowed());
    assert!(!limiter.try_acquire(1).await.unwrap().is_allowed());
    assert_eq!(server.scripts().unwrap() - before, 4);
}

// Red when each call goes alone, when answers are handed out in another order, and when a script forgets what it has
// granted to the call before.
#[tokio::test]
async fn many_calls_at_once_go_in_a_few_commands_and_count_one_by_one() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let client = client(&server.url()).await;
    let names = ["a", "b", "c"];
    let calls = (0..90).map(|number| {
        let limiter = client.rate_limiter(names[number % 3], SLOW);
        async move {
            (
                number % 3,
                limiter.try_acquire(1).await.unwrap().is_allowed(),
            )
        }
    });
    let before = server.scripts().unwrap();
    let answers = soon(join_all(calls)).await;
    let scripts = server.scripts().unwrap() - before;
    assert!(scripts <= 10, "{scripts}");
    for name in 0..3 {
        let mine = answers.iter().filter(|(other, _)| *other == name);
        let allowed: Vec<bool> = mine.map(|(_, allowed)| *allowed).collect();
        let first = allowed.iter().take_while(|allowed| **allowed).count();
        assert_eq!((allowed.len(), first), (30, 5), "{allowed:?}");
        assert!(!allowed[5..].contains(&true));
    }
}

#[tokio::test]
async fn limiters_of_two_names_and_a_lock_of_the_same_have_nothing_to_do_with_each_other() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let guard = client.lock("x").acquire().await.unwrap();
    for name in ["x", "y"] {
        let limiter = client.rate_limiter(name, SLOW);
        assert!(limiter.try_acquire(5).await.unwrap().is_allowed());
        assert!(!limiter.try_acquire(1).await.unwrap().is_allowed());
    }
    guard.release().await.unwrap();
}

// Red when a sleeping call does not ask whether the client is shut down.
#[tokio::test]
async fn a_shutdown_ends_waits() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", SLOW);
    limiter.acquire(5).await.unwrap();
    let mut waiting = pin!(limiter.acquire(1));
    while_waiting(waiting.as_mut(), until_debt(&server, 5.5)).await;
    begin(waiting.as_mut()).await;
    client.shutdown().await.unwrap();
    let error = soon(waiting).await.unwrap_err();
    assert!(matches!(error, lockyard::Error::Closed), "{error:?}");
    let error = limiter.try_acquire(1).await.unwrap_err();
    assert!(matches!(error, lockyard::Error::Closed), "{error:?}");
}

// Red when what is owed outgrows an integer.
#[tokio::test]
async fn a_rate_that_is_lowered_a_millionfold_is_still_answered() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let most = 10_000_000;
    let fast = client.rate_limiter("x", Rate::per_second(most).burst(most));
    assert!(fast.try_acquire(most).await.unwrap().is_allowed());
    let slow = client.rate_limiter("x", SLOW);
    let decision = slow.try_acquire(1).await.unwrap();
    let after = decision.retry_after().unwrap();
    assert!(after > Duration::from_secs(365 * 24 * 3600), "{after:?}");
    assert!(slow.inspect().await.unwrap().owed > 1_000_000);
    let left = server.ttl_ms("lockyard:rate:{x}").unwrap();
    assert!(left > 0, "{left}");
}
