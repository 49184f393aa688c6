use std::time::Instant;

use lockyard_testkit::redis::Value;
use lockyard_testkit::{Action, eventually_async};

use super::{KEY, Line, until_seen};
use crate::contract::late::VALID;
use crate::support::{SOON, Script, drop_after, ms, soon, variant};

/// Waits until a latch is at this count.
async fn until_count(line: &Line, count: u64) {
    let latch = line.other.latch("x");
    eventually_async(SOON, async || latch.count().await.unwrap() == count).await;
}

// Red when the clients' parts are not kept.
#[tokio::test]
async fn a_count_down_that_arrives_again_counts_nothing() {
    let line = Line::patient().await;
    let latch = line.client.latch("x");
    latch.try_set_count(9).await.unwrap();
    line.proxy.times(2, Script::Down.calls(), Action::Copy);
    latch.count_down().await.unwrap();
    latch.count_down_by(2).await.unwrap();
    line.other.latch("x").count_down().await.unwrap();
    let answers = line.proxy.resend_copies().unwrap();
    assert_eq!(answers, [Value::Int(5), Value::Int(5)]);
    // Nor for a latch that was set later.
    line.proxy.once(Script::Down.calls(), Action::Copy);
    assert_eq!(latch.count_down_by(5).await.unwrap(), 0);
    assert!(latch.try_set_count(4).await.unwrap());
    assert_eq!(line.proxy.resend_copies().unwrap(), [Value::Int(-1)]);
    until_count(&line, 4).await;
}

// Red when a range is sent but once, or as the next one.
#[tokio::test]
async fn a_count_down_whose_reply_is_lost_counts_once() {
    for loss in [
        Action::SwallowReply,
        Action::CutBeforeReply,
        Action::DropCommand,
        Action::DelayReply(VALID * 3 / 2),
        Action::error("LOADING on purpose"),
    ] {
        let line = Line::new().await;
        let latch = line.client.latch("x");
        latch.try_set_count(9).await.unwrap();
        let rule = line.proxy.once(Script::Down.calls(), loss.clone());
        match soon(latch.count_down()).await {
            Ok(left) => assert_eq!(left, 8),
            Err(error) => {
                assert_eq!(variant(&error), "OutcomeUnknown", "{loss:?} {error:?}");
                assert!(!error.is_retryable());
            }
        }
        assert_eq!(rule.fired(), 1);
        until_count(&line, 8).await;
        // The connection may not have been made anew yet.
        if let Err(error) = soon(latch.count_down_by(2)).await {
            assert_eq!(variant(&error), "OutcomeUnknown", "{loss:?} {error:?}");
        }
        until_count(&line, 6).await;
    }
}

// Red when a count-down is sent for a latch that was seen before it was called only: if that was over by then, an
// answer that is lost leaves open whether it had its part in it.
#[tokio::test]
async fn a_count_down_counts_though_what_its_client_knew_is_over() {
    let line = Line::new().await;
    let (latch, other) = (line.client.latch("x"), line.other.latch("x"));
    for loss in [
        Action::CutBeforeReply,
        Action::DropCommand,
        Action::error("LOADING on purpose"),
    ] {
        assert!(other.try_set_count(2).await.unwrap());
        assert_eq!(latch.count_down().await.unwrap(), 1);
        assert_eq!(other.count_down().await.unwrap(), 0);
        assert!(other.try_set_count(1).await.unwrap());
        line.proxy.once(Script::Down.calls(), loss.clone());
        if let Err(error) = soon(latch.count_down()).await {
            assert_eq!(variant(&error), "OutcomeUnknown", "{loss:?}");
        }
        soon(other.wait()).await.unwrap();
    }
}

// Red when who calls has to wait for the connection.
#[tokio::test]
async fn a_count_down_goes_on_while_the_server_is_away() {
    let line = Line::new().await;
    let latch = line.client.latch("x");
    latch.try_set_count(9).await.unwrap();
    latch.count_down().await.unwrap();
    line.proxy.refuse();
    line.proxy.cut();
    let error = soon(latch.count_down_by(3)).await.unwrap_err();
    assert_eq!(variant(&error), "OutcomeUnknown");
    until_count(&line, 8).await;
    line.proxy.accept().unwrap();
    until_count(&line, 5).await;
}

// Red when a dropped count-down is forgotten, or made twice.
#[tokio::test]
async fn a_count_down_is_made_once_wherever_it_is_dropped() {
    let line = Line::patient().await;
    let latch = line.client.latch("x");
    latch.try_set_count(1000).await.unwrap();
    let mut left = 1000;
    for polls in 0.. {
        let completed = drop_after(polls, latch.count_down_by(10)).await.is_some();
        if polls > 0 {
            left -= 10;
        }
        until_count(&line, left).await;
        if completed {
            assert!(polls > 1, "it never waited for anything");
            break;
        }
    }
}

// Red when a setting is sent again, and when what has come of it is not looked for.
#[tokio::test]
async fn a_setting_whose_reply_is_lost_is_found_or_told() {
    for (loss, is_set) in [
        (Action::SwallowReply, None),
        (Action::CutBeforeReply, Some(true)),
        (Action::DropCommand, None),
        (Action::error("LOADING on purpose"), Some(true)),
    ] {
        let line = Line::new().await;
        let latch = line.client.latch("x");
        line.proxy.once(Script::Set.calls(), loss.clone());
        let answer = soon(latch.try_set_count(3)).await;
        match (is_set, answer) {
            (Some(expected), answer) => assert_eq!(answer.unwrap(), expected, "{loss:?}"),
            // Whether the connection is made anew in time to see it, is not said.
            (None, Ok(is_set)) => assert!(is_set, "{loss:?}"),
            (None, Err(error)) => assert_eq!(variant(&error), "OutcomeUnknown", "{loss:?}"),
        }
        let count = line.other.latch("x").count().await.unwrap();
        assert_eq!(
            count,
            if loss == Action::DropCommand { 0 } else { 3 },
            "{loss:?}"
        );
    }
}

// Red when the script does not ask for the validity, and when nothing keeps a copy away after the latch has opened.
#[tokio::test]
async fn a_setting_that_arrives_again_sets_nothing() {
    let line = Line::new().await;
    let latch = line.client.latch("x");
    line.proxy.once(Script::Set.calls(), Action::Copy);
    let sent = Instant::now();
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(latch.count_down_by(2).await.unwrap(), 0);
    let answers = line.proxy.resend_copies().unwrap();
    if sent.elapsed() < VALID {
        assert!(matches!(&answers[..], [Value::Array(parts)] if parts[1] == Value::Int(1)));
    }
    assert_eq!(latch.count().await.unwrap(), 0);
    eventually_async(SOON, async || line.keys().is_empty()).await;

    line.proxy.once(Script::Set.calls(), Action::Copy);
    let sent = Instant::now();
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(latch.count_down_by(2).await.unwrap(), 0);
    eventually_async(SOON, async || sent.elapsed() > VALID + ms(20)).await;
    let answers = line.proxy.resend_copies().unwrap();
    assert!(matches!(&answers[..], [Value::Array(parts)] if parts[1] == Value::Int(0)));
    assert!(line.keys().is_empty());
}

// Red when what is found for one count-down holds for those that come while it is looked for.
#[tokio::test]
async fn a_count_down_that_begins_while_the_latch_is_set_counts() {
    let line = Line::patient().await;
    let latch = line.client.latch("x");
    let late = Action::DelayReply(ms(300));
    let look = line.proxy.once(Script::Count.calls(), late);
    let mut first = Box::pin(latch.count_down());
    let looked = look.wait_fired_async(1, SOON);
    crate::support::while_waiting(first.as_mut(), looked).await;
    assert!(line.other.latch("x").try_set_count(5).await.unwrap());
    let second = latch.count_down();
    let (first, second) = soon(async { tokio::join!(first, second) }).await;
    assert_eq!((first.unwrap(), second.unwrap()), (0, 4));
}

// Red when the look's answer counts though a message about it has come before.
#[tokio::test]
async fn a_look_whose_answer_is_late_keeps_nobody_waiting() {
    let line = Line::patient().await;
    let latch = line.client.latch("x");
    let other = line.other.latch("x");
    other.try_set_count(1).await.unwrap();
    let late = Action::DelayReply(ms(300));
    let look = line.proxy.once(Script::Count.calls(), late);
    let mut wait = Box::pin(latch.wait());
    let looked = look.wait_fired_async(1, SOON);
    crate::support::while_waiting(wait.as_mut(), looked).await;
    other.count_down().await.unwrap();
    soon(wait).await.unwrap();
}

#[tokio::test]
async fn a_wait_leaves_nothing_wherever_it_is_dropped() {
    let line = Line::patient().await;
    let latch = line.client.latch("x");
    latch.try_set_count(1).await.unwrap();
    for polls in 0..8 {
        let dropped = tokio::time::timeout(ms(200), drop_after(polls, latch.wait())).await;
        assert!(!matches!(dropped, Ok(Some(_))));
        super::until_listening(&line.server, 0).await;
    }
    assert_eq!(line.keys(), [KEY]);
    let mut wait = Box::pin(latch.wait());
    until_seen(&line, wait.as_mut()).await;
    latch.count_down().await.unwrap();
    soon(wait).await.unwrap();
}
