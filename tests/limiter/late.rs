use std::pin::pin;
use std::time::Instant;

use lockyard::{Error, Lock, RateLimiter};
use lockyard_testkit::redis::Value;
use lockyard_testkit::{Action, eventually_async};

use super::{SLOW, assert_debt, debt};
use crate::contract::late::{self, VALID};
use crate::support::{SOON, Script, drop_after, ms, soon, variant, while_waiting};

/// Any lock, only for the line.
type Line = late::Line<Lock>;

fn limiter(line: &Line) -> RateLimiter {
    line.client.rate_limiter("x", SLOW)
}

/// What the copies that were made were answered.
fn answers(line: &Line) -> Vec<Value> {
    let values = line.proxy.resend_copies().unwrap();
    let second = |value: Value| match value {
        Value::Array(mut parts) => parts.remove(1),
        other => panic!("{other:?}"),
    };
    values.into_iter().map(second).collect()
}

// Red when the script does not ask for the validity.
#[tokio::test]
async fn a_copy_that_arrives_after_the_operation_timeout_takes_nothing() {
    let line = Line::new().await;
    line.proxy.once(Script::Take.calls(), Action::Copy);
    let sent = Instant::now();
    soon(limiter(&line).acquire(1)).await.unwrap();
    eventually_async(SOON, async || sent.elapsed() > VALID + ms(20)).await;
    assert_eq!(answers(&line), [Value::Int(0)]);
    assert_debt(&line.server, "x", 1.0);
}

// Red when a command without an answer is sent again.
#[tokio::test]
async fn a_call_whose_reply_is_lost_is_told_and_counts_once() {
    for loss in [
        Action::SwallowReply,
        Action::CutBeforeReply,
        Action::DelayReply(VALID * 3 / 2),
    ] {
        let line = Line::new().await;
        let limiter = limiter(&line);
        line.proxy.once(Script::Take.calls(), loss.clone());
        let error = soon(limiter.acquire(2)).await.unwrap_err();
        assert_eq!(variant(&error), "OutcomeUnknown", "{loss:?}");
        assert!(!error.is_retryable());
        assert_debt(&line.server, "x", 2.0);
        // It goes on as before.
        soon(until_served(&limiter)).await;
        assert_debt(&line.server, "x", 3.0);
    }
}

/// Takes one permit, however often the connection has to be made anew for it.
async fn until_served(limiter: &RateLimiter) {
    while let Err(error) = limiter.acquire(1).await {
        let told = ["Unreachable", "OutcomeUnknown"];
        assert!(told.contains(&&*variant(&error)), "{error:?}");
    }
}

// Red when a refusal of the whole command ends the call.
#[tokio::test]
async fn a_server_that_is_loading_is_asked_again() {
    let line = Line::new().await;
    let loading = Action::error("LOADING on purpose");
    line.proxy.times(3, Script::Take.calls(), loading);
    assert!(
        soon(limiter(&line).try_acquire(1))
            .await
            .unwrap()
            .is_allowed()
    );
    assert_debt(&line.server, "x", 1.0);
}

// Red when a call fails as soon as there is no connection.
#[tokio::test]
async fn a_wait_outlasts_a_server_that_is_away() {
    let line = Line::new().await;
    let limiter = limiter(&line);
    line.proxy.refuse();
    line.proxy.cut();
    until_no_connection(&limiter).await;
    let mut waiting = pin!(limiter.acquire(1));
    while_waiting(waiting.as_mut(), tokio::time::sleep(VALID)).await;
    let start = Instant::now();
    let error = soon(limiter.try_acquire_for(1, ms(300))).await.unwrap_err();
    assert_eq!(variant(&error), "Unreachable");
    assert!(start.elapsed() >= ms(300));
    line.proxy.accept().unwrap();
    soon(waiting).await.unwrap();
    assert_debt(&line.server, "x", 1.0);
}

/// Waits until the client has noticed that it has no connection: what it sends before that may be lost.
async fn until_no_connection(limiter: &RateLimiter) {
    eventually_async(SOON, async || {
        let start = Instant::now();
        let answer = limiter.try_acquire(1).await;
        let away = matches!(
            answer,
            Err(Error::Unreachable { .. } | Error::OutcomeUnknown { .. })
        );
        assert!(away, "{answer:?}");
        start.elapsed() >= VALID
    })
    .await;
}

// Red when a call that is dropped before it is sent goes out all the same.
#[tokio::test]
async fn a_dropped_call_takes_its_permits_once_or_not_at_all() {
    let line = Line::patient().await;
    let limiter = limiter(&line);
    for polls in 0.. {
        line.server.command(&["DEL", "lockyard:rate:{x}"]).unwrap();
        let completed = drop_after(polls, limiter.acquire(1)).await.is_some();
        // The reply to what goes next over the same connection says that it has arrived.
        line.client.lock("x").inspect().await.unwrap();
        let owed = debt(&line.server, "x");
        // At first it may have to ask for the server's time.
        let expected = match polls {
            0 => owed == 0.0,
            _ if completed => owed == 1.0,
            _ => owed == 0.0 || owed == 1.0,
        };
        assert!(expected, "{polls}: {owed}");
        if completed {
            assert!(polls > 1, "it never waited for anything");
            break;
        }
    }
    // Whoever waits has taken its permits: dropped, they stay spent, and nobody is told another time.
    line.server.command(&["DEL", "lockyard:rate:{x}"]).unwrap();
    limiter.acquire(5).await.unwrap();
    let mut waiting = Box::pin(limiter.acquire(3));
    let owed = async || debt(&line.server, "x") > 7.0;
    while_waiting(waiting.as_mut(), eventually_async(SOON, owed)).await;
    drop(waiting);
    line.client.lock("x").inspect().await.unwrap();
    assert_debt(&line.server, "x", 8.0);
}
