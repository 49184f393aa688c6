use std::pin::pin;
use std::time::Instant;

use lockyard::HoldState;
use lockyard_testkit::redis::Value;
use lockyard_testkit::{Action, eventually_async};

use super::{Line, VALID, until_after};
use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::support::{SOON, Script, ms, soon, while_waiting};

/// How an acquire was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Held,
    Queued,
    Busy,
    Stale,
}

fn answer(reply: &Value) -> Answer {
    match reply {
        Value::Int(_) => Answer::Held,
        Value::Array(parts) => match parts[1] {
            Value::Int(1) => Answer::Held,
            Value::Int(2) => Answer::Queued,
            Value::Int(3) => Answer::Busy,
            Value::Int(4) => Answer::Stale,
            _ => panic!("{reply:?}"),
        },
        _ => panic!("{reply:?}"),
    }
}

impl<M: Single> Line<M> {
    /// Has what the proxy has copied arrive again, and answers how that went; `None` if it came too late.
    fn arrives_again(&self) -> Option<Vec<Answer>> {
        let replies = self.proxy.resend_copies().unwrap();
        let answers: Vec<Answer> = replies.iter().map(answer).collect();
        (!answers.contains(&Answer::Stale)).then_some(answers)
    }

    /// Acquires a lock behind the proxy, which copies the command.
    async fn acquire_copied(&self, lock: &M) -> M::Guard {
        self.proxy.once(Script::Acquire.calls(), Action::Copy);
        soon(lock.acquire()).await.unwrap()
    }

    /// Waits a moment behind the proxy, which copies the command that joins the queue.
    async fn give_up_copied(&self) -> Option<()> {
        self.proxy.once(Script::Acquire.calls(), Action::Copy);
        let lock = M::of(&self.client, "x");
        assert!(lock.try_acquire_for(ms(50)).await.ok()?.is_none());
        self.until_waiting(0).await;
        Some(())
    }
}

/// Runs a test anew while it says that a busy machine took too long for it.
async fn in_time(test: impl AsyncFn() -> Option<()>) {
    for _ in 0..10 {
        if test().await.is_some() {
            return;
        }
    }
    panic!("the machine is too busy");
}

// Red without the second release, when the acquire can no longer come.
pub(crate) async fn an_acquire_that_arrives_again_after_its_release_leaves_no_phantom<M: Single>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let locks = M::of_each_kind(&line.client, ["x", "fenced", "named"]);
        let copies = locks.len() + 1;
        for lock in locks {
            let guard = line.acquire_copied(&lock).await;
            guard.release().await.ok()?;
        }
        line.proxy.once(Script::Acquire.calls(), Action::Copy);
        let tried = M::of(&line.client, "tried");
        let tried = tried.try_acquire().await.ok()?.unwrap();
        tried.release().await.ok()?;
        assert_eq!(line.arrives_again()?, vec![Answer::Held; copies]);
        assert_eq!(line.keys().len(), copies * M::keys("x").len());
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red without a validity in acquire.lua.
pub(crate) async fn an_acquire_that_arrives_after_its_validity_is_refused<M: Single>() {
    let line = Line::<M>::new().await;
    for lock in M::of_each_kind(&line.client, ["x", "y", "z"]) {
        drop(line.acquire_copied(&lock).await);
    }
    until_after(Instant::now(), VALID + VALID / 16).await;
    assert_eq!(line.arrives_again(), None);
    line.nothing_is_left().await;
}

/// Has an old acquire arrive again while there is a newer hold, and the second release come after it.
async fn leaves_alone<M: Single>(line: &Line<M>, newer: &M::Guard, expected: Answer) -> Option<()> {
    let holds = line.holds("x");
    assert_eq!(line.arrives_again()?, [expected]);
    assert_eq!(line.holds("x"), holds);
    line.until_waiting(0).await;
    until_after(Instant::now(), VALID + VALID / 8).await;
    assert_eq!(line.holds("x"), holds);
    assert_eq!(newer.state(), HoldState::Held);
    Some(())
}

// Red without the second release, when the acquire can no longer come.
pub(crate) async fn an_acquire_that_arrives_again_takes_no_newer_hold_of_its_client<M: Single>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let lock = M::of(&line.client, "x");
        line.acquire_copied(&lock).await.release().await.ok()?;
        let newer = soon(lock.acquire()).await.unwrap();
        leaves_alone::<M>(&line, &newer, Answer::Queued).await?;
        drop(newer);
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red if a busy answer writes a hold in acquire.lua.
pub(crate) async fn an_acquire_that_arrives_again_takes_no_newer_hold_of_another_client<
    M: Single,
>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        line.proxy.once(Script::Acquire.calls(), Action::Copy);
        let first = M::of(&line.client, "x").try_acquire().await.ok()?.unwrap();
        first.release().await.ok()?;
        let newer = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        leaves_alone::<M>(&line, &newer, Answer::Busy).await?;
        drop(newer);
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red without the second release, when the acquire can no longer come.
pub(crate) async fn an_acquire_that_arrives_again_does_not_add_to_a_newer_hold_of_its_owner<
    M: Exclusive,
>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let owner = line.client.owner();
        let lock = M::of(&line.client, "x").with_owner(&owner);
        line.acquire_copied(&lock).await.release().await.ok()?;
        let newer = soon(lock.acquire()).await.unwrap();
        // It enters beside the owner's newer hold, and goes without it.
        assert_eq!(line.arrives_again()?, [Answer::Held]);
        eventually_async(SOON, async || line.holds("x").len() == 1).await;
        assert_eq!(newer.state(), HoldState::Held);
        let lock = M::of(&line.other, "x");
        assert_eq!(lock.hold_count(&owner).await.unwrap(), 1);
        assert!(lock.try_acquire().await.unwrap().is_none());
        drop(newer);
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red if `put` in acquire.lua counts up what is there.
pub(crate) async fn an_acquire_that_arrives_again_while_it_holds_changes_nothing<M: Single>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let guard = line.acquire_copied(&M::of(&line.client, "x")).await;
        let holds = line.holds("x");
        assert_eq!(line.arrives_again()?, [Answer::Held]);
        assert_eq!(line.holds("x"), holds);
        drop(guard);
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red without the release of what comes back in inbox.rs.
pub(crate) async fn a_place_that_comes_back_is_given_up_when_its_turn_comes<M: Single>() {
    // The second release comes too late for this.
    let line = Line::<M>::patient().await;
    let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
    line.give_up_copied().await.unwrap();
    assert_eq!(line.arrives_again().unwrap(), [Answer::Queued]);
    let next = M::of(&line.other, "x");
    let mut next = pin!(next.acquire());
    while_waiting(next.as_mut(), line.until_waiting(2)).await;
    holder.release().await.unwrap();
    soon(next).await.unwrap().release().await.unwrap();
    line.nothing_is_left().await;
}

// Red without the second release, when the acquire can no longer come.
pub(crate) async fn a_place_that_comes_back_goes_when_its_validity_is_over<M: Single>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let holder = soon(M::of(&line.other, "x").acquire()).await.unwrap();
        line.give_up_copied().await?;
        assert_eq!(line.arrives_again()?, [Answer::Queued]);
        line.until_waiting(0).await;
        assert_eq!(holder.state(), HoldState::Held);
        holder.release().await.unwrap();
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red without the second release of a hold that is lost.
pub(crate) async fn a_lost_hold_that_comes_back_goes_although_its_guard_is_left<M: Exclusive>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let guard = line.acquire_copied(&M::of(&line.client, "x")).await;
        assert!(M::of(&line.other, "x").force_release().await.unwrap());
        soon(guard.lost()).await;
        assert_eq!(line.arrives_again()?, [Answer::Held]);
        line.nothing_is_left().await;
        drop(guard);
        Some(())
    })
    .await;
}

// Red if what is given up later goes later.
pub(crate) async fn phantoms_go_in_the_order_in_which_their_commands_were_sent<M: Single>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let start = Instant::now();
        let first = line.acquire_copied(&M::of(&line.client, "x")).await;
        until_after(start, VALID * 2 / 3).await;
        let second = line.acquire_copied(&M::of(&line.client, "y")).await;
        second.release().await.ok()?;
        first.release().await.ok()?;
        assert_eq!(line.arrives_again()?, [Answer::Held; 2]);
        eventually_async(SOON, async || line.holds("x").is_empty()).await;
        assert!(!line.holds("y").is_empty());
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}

// Red without trying again in releases.rs.
pub(crate) async fn a_phantom_goes_even_if_its_second_release_meets_trouble<M: Single>() {
    in_time(async || {
        let line = Line::<M>::new().await;
        let guard = line.acquire_copied(&M::of(&line.client, "x")).await;
        guard.release().await.ok()?;
        let trouble = Action::error("LOADING on purpose");
        let trouble = line.proxy.times(2, Script::Release.calls(), trouble);
        assert_eq!(line.arrives_again()?, [Answer::Held]);
        trouble.wait_fired_async(1, SOON).await;
        line.nothing_is_left().await;
        Some(())
    })
    .await;
}
