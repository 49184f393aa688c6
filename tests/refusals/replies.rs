//! What the server says, put into its mouth by a proxy.

use std::time::{Duration, Instant};

use lockyard::{Client, HoldState};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};

use crate::refusals::{SLACK, assert_tells, is_script, renewed};
use crate::support::{SOON, connect, ms, soon};

/// One kind of trouble that passes: try ends with it, whoever waits gets through, and a holder keeps its hold.
async fn check_passing(server: Server, text: &str, advice: &str) {
    let proxy = Proxy::start(&server).unwrap();
    let timeout = ms(1500);
    let client = connect(&proxy.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap();
    let lease = ms(6000);
    let held = client
        .lock("held")
        .with_lease(renewed(lease))
        .acquire()
        .await
        .unwrap();
    let taken = Instant::now();
    let lock = client.lock("x");
    let rule = proxy.always(is_script, Action::error(text));

    let start = Instant::now();
    let (tried, waited, inspected) = tokio::join!(
        lock.try_acquire(),
        lock.try_acquire_for(timeout),
        lock.inspect()
    );
    assert!(start.elapsed() < timeout + SLACK, "{:?}", start.elapsed());
    for error in [tried.err(), waited.err(), inspected.err()] {
        assert_tells(&error.unwrap(), "Refused", advice, text, true);
    }

    // The holder hears of it at the first renewal.
    eventually_async(SOON, async || held.state() != HoldState::Held).await;
    assert_eq!(held.state(), HoldState::Unsure);
    let waiting = lock.clone();
    let waiter = tokio::spawn(async move { waiting.acquire().await?.release().await });
    let waiting = lock.clone();
    let other = tokio::spawn(async move {
        waiting
            .try_acquire_for(Duration::MAX)
            .await?
            .unwrap()
            .release()
            .await
    });
    let refused = rule.fired();
    rule.wait_fired_async(refused + 3, SOON).await;
    assert!(!waiter.is_finished() && !other.is_finished());
    rule.remove();

    soon(waiter).await.unwrap().unwrap();
    soon(other).await.unwrap().unwrap();
    eventually_async(SOON, async || held.state() == HoldState::Held).await;
    if let Some(rest) = (lease + ms(200)).checked_sub(taken.elapsed()) {
        assert!(tokio::time::timeout(rest, held.lost()).await.is_err());
    }
    assert_eq!(held.state(), HoldState::Held);
    held.release().await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red when one of these kinds is not transient.
#[tokio::test]
async fn trouble_that_passes_is_told_and_waited_for() {
    let cases = [
        (
            "LOADING Redis is loading the dataset in memory",
            "still loading its data; try again",
        ),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL",
            "slow script blocks it; try again",
        ),
        (
            "READONLY You can't write against a read only replica.",
            "connect to the primary",
        ),
        (
            "MISCONF Redis is configured to save RDB snapshots, but fails",
            "cannot write for now; try again",
        ),
        (
            "NOREPLICAS Not enough good replicas to write.",
            "cannot write for now; try again",
        ),
        (
            "CLUSTERDOWN The cluster is down",
            "cannot write for now; try again",
        ),
        (
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "cannot write for now; try again",
        ),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "try again",
        ),
    ];
    // Together, as they mostly wait.
    let together = tokio::task::LocalSet::new();
    let cases = cases.map(|(text, advice)| (Server::start().unwrap(), text, advice));
    let checks = cases
        .map(|(server, text, advice)| together.spawn_local(check_passing(server, text, advice)));
    together.await;
    for check in checks {
        check.await.unwrap();
    }
}

// Red when the last fault is told, whatever it is.
#[tokio::test]
async fn what_the_server_said_is_told_though_it_is_out_of_reach_by_now() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let timeout = ms(1500);
    let client = connect(&proxy.url(), |options| options.operation_timeout(timeout))
        .await
        .unwrap();
    let text = "LOADING Redis is loading the dataset in memory";
    let rule = proxy.always(is_script, Action::error(text));
    let lock = client.lock("x");
    let (tried, inspected, ()) = tokio::join!(lock.try_acquire(), lock.inspect(), async {
        rule.wait_fired_async(2, SOON).await;
        server.kill();
    });
    for error in [tried.err(), inspected.err()] {
        assert_tells(&error.unwrap(), "Refused", "still loading", text, true);
    }
}

/// Trouble that waiting does not end is told at once, by the waiting forms as well.
async fn check_lasting(text: &str, advice: &str, retryable: bool) {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = Client::connect(&proxy.url()).await.unwrap();
    let lock = client.lock("x");
    let rule = proxy.always(is_script, Action::error(text));
    let start = Instant::now();
    let errors = [
        soon(lock.acquire()).await.err(),
        lock.try_acquire().await.err(),
        soon(lock.try_acquire_for(Duration::MAX)).await.err(),
        lock.inspect().await.err(),
        lock.force_release().await.err(),
    ];
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    for error in errors {
        assert_tells(&error.unwrap(), "Refused", advice, text, retryable);
    }
    rule.remove();
    lock.acquire().await.unwrap().release().await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_missing_right_is_told_at_once() {
    check_lasting(
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "documentation lists the rights",
        false,
    )
    .await;
}

#[tokio::test]
async fn an_unknown_error_is_told_at_once() {
    check_lasting(
        "ERR something that nobody has ever heard of",
        "see the source",
        false,
    )
    .await;
}

// Red when OOM is waited out.
#[tokio::test]
async fn want_of_memory_is_told_at_once() {
    check_lasting(
        "OOM command not allowed when used memory > 'maxmemory'.",
        "out of memory",
        true,
    )
    .await;
}
