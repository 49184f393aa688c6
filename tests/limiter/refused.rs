use std::time::Duration;

use lockyard::{Error, Rate, RateLimiter};
use lockyard_testkit::{Proxy, Server};

use super::{SLOW, assert_debt};
use crate::support::{SOON, chain, client, soon, variant};

/// What each form of a call fails with.
async fn errors(limiter: &RateLimiter, permits: u32) -> Vec<Error> {
    vec![
        limiter.try_acquire(permits).await.unwrap_err(),
        limiter.acquire(permits).await.unwrap_err(),
        limiter.try_acquire_for(permits, SOON).await.unwrap_err(),
    ]
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = client(&proxy.url()).await;
    let before = server.scripts().unwrap();
    let second = Duration::from_secs(1);
    let decade = 10 * 365 * 24 * 3600;
    let rates = [
        (Rate::per_second(0), "at least one permit in its period"),
        (Rate::new(1, Duration::ZERO), "longer than nothing"),
        (
            Rate::per_second(1).burst(0),
            "a burst is at least one permit",
        ),
        (Rate::per_second(1_000_000_001), "at least a nanosecond"),
        (
            Rate::new(u32::MAX, Duration::from_nanos(1)),
            "at least a nanosecond",
        ),
        (Rate::new(1, Duration::MAX), "within 10 years"),
        (Rate::per_second(1).burst(decade + 1), "within 10 years"),
    ];
    for (rate, reason) in rates {
        for error in errors(&client.rate_limiter("x", rate), 1).await {
            assert_eq!(variant(&error), "InvalidRate");
            assert!(error.to_string().contains(reason), "{error}");
            assert!(!error.is_retryable());
        }
    }
    for permits in [0, 6, u32::MAX] {
        for error in errors(&client.rate_limiter("x", SLOW), permits).await {
            assert_eq!(
                error.to_string(),
                format!("invalid number of permits for \"x\": {permits} (at least 1, at most 5)")
            );
        }
    }
    for name in ["", "{", "a{}", &"x".repeat(1025)] {
        for error in errors(&client.rate_limiter(name, SLOW), 1).await {
            assert_eq!(variant(&error), "InvalidName");
        }
    }
    assert_eq!(server.scripts().unwrap(), before);
    // What is just within the bounds is served.
    for (number, rate) in [
        Rate::new(1_000_000_000, second),
        Rate::new(1, second).burst(decade),
        Rate::new(1, Duration::from_secs(decade.into())),
        Rate::new(u32::MAX, Duration::from_secs(5)),
    ]
    .into_iter()
    .enumerate()
    {
        let limiter = client.rate_limiter(format!("y{number}"), rate);
        let most = rate.max_burst();
        assert!(
            limiter.try_acquire(most).await.unwrap().is_allowed(),
            "{rate:?}"
        );
        let forever = limiter.try_acquire_for(1, Duration::ZERO).await;
        assert!(forever.unwrap().quota().limit == most);
    }
}

// Red when a value of another type counts as nothing owed.
#[tokio::test]
async fn a_key_of_another_type_is_told_and_left_as_it_is() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    server.command(&["SET", "lockyard:rate:{x}", "1"]).unwrap();
    let limiter = client.rate_limiter("x", SLOW);
    for error in errors(&limiter, 1).await {
        assert_eq!(variant(&error), "WrongType");
        assert!(chain(&error)[1].contains("WRONGTYPE"), "{error:?}");
    }
    let kept: String = server.query(&["GET", "lockyard:rate:{x}"]).unwrap();
    assert_eq!(kept, "1");
}

// Red when the one that is refused fails the command.
#[tokio::test]
async fn a_key_of_another_type_spares_calls_that_go_along() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    server.command(&["SET", "lockyard:rate:{0}", "1"]).unwrap();
    let calls = (0..30).map(|number| {
        let limiter = client.rate_limiter((number % 3).to_string(), SLOW);
        async move { limiter.try_acquire(1).await }
    });
    for (number, answer) in soon(futures_util::future::join_all(calls))
        .await
        .into_iter()
        .enumerate()
    {
        assert_eq!(answer.is_err(), number % 3 == 0, "{number}: {answer:?}");
    }
    assert_debt(&server, "1", 5.0);
}

// Red without the guards against what is no number.
#[tokio::test]
async fn what_is_no_number_of_ours_counts_as_nothing_owed() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let limiter = client.rate_limiter("x", SLOW);
    let fields = ["at", "debt", "interval"];
    for field in fields {
        for value in ["", "x", "nan"] {
            server.command(&["DEL", "lockyard:rate:{x}"]).unwrap();
            limiter.acquire(1).await.unwrap();
            server
                .command(&["HSET", "lockyard:rate:{x}", field, value])
                .unwrap();
            let decision = limiter.try_acquire(1).await.unwrap();
            assert!(decision.is_allowed(), "{field} = {value:?}: {decision:?}");
        }
    }
}

// Red when a wait is not bounded in the script.
#[tokio::test]
async fn nobody_waits_for_longer_than_ten_years() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let years = Duration::from_secs(4 * 365 * 24 * 3600);
    let limiter = client.rate_limiter("x", Rate::new(1, years));
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut wait = Box::pin(limiter.acquire(1));
        // The first is served, the next wait for four and eight years.
        let until = async { while limiter.try_acquire(1).await.unwrap().is_allowed() {} };
        tokio::select! {
            biased;
            _ = wait.as_mut() => {}
            () = until => waiting.push(wait),
        }
    }
    let error = soon(limiter.acquire(1)).await.unwrap_err();
    assert_eq!(variant(&error), "InvalidRate", "{error:?}");
    let denied = soon(limiter.try_acquire_for(1, Duration::MAX))
        .await
        .unwrap();
    let after = denied.retry_after().unwrap();
    assert!(
        after <= years * 3 && after > years * 3 - Duration::from_secs(60),
        "{after:?}"
    );
}

#[tokio::test]
async fn a_flushed_script_cache_changes_nothing() {
    let server = Server::start().unwrap();
    let limiter = client(&server.url()).await.rate_limiter("x", SLOW);
    for owed in 1..=3 {
        assert!(limiter.try_acquire(1).await.unwrap().is_allowed());
        server.flush_scripts().unwrap();
        assert_debt(&server, "x", owed.into());
    }
}
