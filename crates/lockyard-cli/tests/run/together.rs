use std::fs;

use lockyard::Client;
use lockyard_testkit::{Server, eventually_async};

use crate::support::{PROGRAM, Process, SOON, code, output, run, text};

#[test]
fn two_runs_exclude_each_other() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    let inside = inside.display();
    let script = format!("mkdir {inside} && sleep 0.05 && rmdir {inside}");
    let mut runs: Vec<Process> = (0..8)
        .map(|_| Process::start(run(&server.url(), &["--name", "x"], &script)))
        .collect();
    for run in &mut runs {
        assert_eq!(run.code(), Some(0));
    }
}

#[test]
fn a_wait_that_is_over_has_a_status_of_its_own() {
    let server = Server::start().unwrap();
    let url = server.url();
    let holder = Process::start(run(&url, &["--name", "x"], "echo in; exec sleep 1000"));
    holder.hears("in");
    for options in [
        &["--name", "x", "--no-wait"][..],
        &["--name", "x", "--wait", "0"],
        &["--name", "x", "--wait", "150ms"],
    ] {
        let output = output(run(&url, options, "echo ran"));
        assert_eq!(code(&output), Some(124), "{options:?}");
        assert_eq!(text(&output.stdout), "", "{options:?}");
        let errors = text(&output.stderr);
        assert!(
            errors.contains(r#""x" was not acquired in time"#),
            "{errors}"
        );
    }
    // Whoever has gave up has left the queue as well.
    assert!(
        !server
            .keys("*")
            .unwrap()
            .iter()
            .any(|key| key.contains("queue"))
    );
    assert_eq!(
        code(&output(run(&url, &["--name", "y", "--no-wait"], ""))),
        Some(0)
    );
}

#[tokio::test]
async fn without_a_wait_it_waits_until_its_turn() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let guard = lock.acquire().await.unwrap();
    let mut waiting = Process::start(run(&server.url(), &["--name", "x"], "echo in"));
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    assert!(waiting.is_running());
    guard.release().await.unwrap();
    waiting.hears("in");
    assert_eq!(waiting.code(), Some(0));
}

#[test]
fn a_nested_run_enters_the_hold_around_it() {
    let server = Server::start().unwrap();
    let script = format!(
        "echo $LOCKYARD_OWNER $LOCKYARD_TOKEN
         {PROGRAM} run --name x --no-wait -- sh -c 'echo $LOCKYARD_OWNER $LOCKYARD_TOKEN; exit 3'
         inner=$?
         echo $inner
         LOCKYARD_OWNER= {PROGRAM} run --name x --no-wait -- echo ran 2>/dev/null
         echo $?
         {PROGRAM} inspect x --json | grep -c $LOCKYARD_OWNER"
    );
    let output = output(run(&server.url(), &["--name", "x"], &script));
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    // The inner one has ended, and the outer hold is still there.
    assert_eq!(lines[1..], [lines[0], "3", "124", "1"]);
}

#[tokio::test]
async fn it_enters_the_hold_of_a_service_that_hands_its_owner_over() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let owner = client.owner();
    let lock = client.lock("x").with_owner(&owner);
    let guard = lock.clone().fenced().acquire().await.unwrap();
    let mut command = run(
        &server.url(),
        &["--name", "x", "--no-wait"],
        "echo $LOCKYARD_TOKEN",
    );
    command.env("LOCKYARD_OWNER", owner.to_string());
    let mut inner = Process::start(command);
    assert_eq!(inner.next(), guard.token().unwrap().to_string());
    assert_eq!(inner.code(), Some(0));
    assert!(lock.is_locked().await.unwrap());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_whose_server_is_away_says_so_and_goes_on_waiting() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("x");
    let guard = lock.acquire().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let errors = folder.path().join("errors");
    let mut command = run(&server.url(), &["--name", "x"], "echo in");
    command.stderr(fs::File::create(&errors).unwrap());
    let mut waiting = Process::start(command);
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    server.kill();
    // The next look fails, and a warning tells of it.
    eventually_async(SOON, async || {
        fs::read_to_string(&errors).unwrap().contains("WARN")
    })
    .await;
    assert!(waiting.is_running());
    // All data is lost, so the lock is free.
    server.restart().unwrap();
    waiting.hears("in");
    assert_eq!(waiting.code(), Some(0));
    drop(guard);
}
