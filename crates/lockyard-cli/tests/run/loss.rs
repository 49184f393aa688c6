use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lockyard::Client;
use lockyard_testkit::{Server, eventually, eventually_async};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PROGRAM, Process, SOON, code, is_gone, is_idle, output, run, text};

/// Says TERM and ends well after it.
const GENTLE: &str = "trap 'echo TERM; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
/// It and its child ignore TERM; says who the child is.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo $!; wait";
const QUICK: [&str; 6] = ["--name", "x", "--lease", "900ms", "--grace", "300ms"];

#[tokio::test]
async fn a_command_whose_hold_was_taken_away_gets_term() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let mut run = Process::start(run(&server.url(), &["--name", "x"], GENTLE));
    run.hears("ready");
    assert!(lock.force_release().await.unwrap());
    run.hears("TERM");
    assert_eq!(run.code(), Some(123));
}

#[tokio::test]
async fn a_stubborn_command_and_its_children_are_killed_after_the_grace() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let mut run = Process::start(run(&server.url(), &QUICK, STUBBORN));
    let child = run.next();
    let start = Instant::now();
    assert!(lock.force_release().await.unwrap());
    assert_eq!(run.code(), Some(123));
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "{:?}",
        start.elapsed()
    );
    eventually(SOON, || is_gone(&child));
}

#[tokio::test]
async fn a_child_that_outlives_the_command_is_killed_after_the_grace() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let script = "(trap '' TERM; exec sleep 1000) & echo $!; sleep 0.1; wait";
    let mut run = Process::start(run(&server.url(), &QUICK, script));
    let child = run.next();
    eventually(SOON, || ignores_term(&child));
    assert!(lock.force_release().await.unwrap());
    assert_eq!(run.code(), Some(123));
    eventually(SOON, || is_gone(&child));
}

#[tokio::test]
async fn a_command_that_stands_still_is_ended_too() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let options = ["--name", "x", "--grace", "1000s"];
    let mut run = Process::start(run(&server.url(), &options, "echo $$; kill -STOP $$"));
    let command = run.next();
    assert!(lock.force_release().await.unwrap());
    assert_eq!(run.code(), Some(123));
    eventually(SOON, || is_gone(&command));
}

#[tokio::test]
async fn without_a_grace_the_command_is_killed_at_once() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let options = ["--name", "x", "--grace", "0"];
    let mut run = Process::start(run(&server.url(), &options, STUBBORN));
    let child = run.next();
    assert!(lock.force_release().await.unwrap());
    assert_eq!(run.code(), Some(123));
    eventually(SOON, || is_gone(&child));
}

#[test]
fn a_command_whose_server_has_died_gets_term_when_the_lease_is_over() {
    let server = Server::start().unwrap();
    let mut run = Process::start(run(&server.url(), &QUICK, GENTLE));
    run.hears("ready");
    let start = Instant::now();
    server.kill();
    run.hears("TERM");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(500), "{took:?}");
    assert_eq!(run.code(), Some(123));
}

#[test]
fn a_loss_that_nobody_reads_of_ends_the_command_as_well() {
    let server = Server::start().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let script = format!("exec 2>/dev/null; {GENTLE}");
    let mut command = run(&server.url(), &QUICK, &script);
    command.stderr(writer);
    let mut run = Process::start(command);
    run.hears("ready");
    drop(reader);
    server.kill();
    run.hears("TERM");
    assert_eq!(run.code(), Some(123));
}

#[test]
fn a_command_that_takes_its_own_lock_away_has_lost_it() {
    let server = Server::start().unwrap();
    let script = format!("trap '' TERM; {PROGRAM} unlock x --force >/dev/null; exit 0");
    let output = output(run(&server.url(), &["--name", "x"], &script));
    assert_eq!(code(&output), Some(123));
    let errors = text(&output.stderr);
    assert!(errors.contains(r#"the hold of "x" is lost"#), "{errors}");
}

#[test]
fn a_loss_counts_also_if_only_the_release_tells_of_it() {
    let server = Server::start().unwrap();
    let mut command = run(
        &server.url(),
        &["--name", "x"],
        "echo in; read line; exit 0",
    );
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let (mut run, mut input) = Process::start_with_input(command);
    run.hears("in");
    // A deleted key sends no message, and the next renewal is 10 s away.
    server.command(&["DEL", "lockyard:lock:{x}"]).unwrap();
    writeln!(input).unwrap();
    assert_eq!(run.code(), Some(123));
}

#[tokio::test]
async fn when_lockyard_is_killed_the_command_gets_term_and_the_lease_ends() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let mut killed = Process::start(run(&server.url(), &QUICK, GENTLE));
    killed.hears("ready");
    killed.kill_when_idle();
    killed.hears("TERM");
    // The hold itself stays until its lease is over.
    eventually_async(SOON, async || !lock.is_locked().await.unwrap()).await;
    assert_eq!(
        code(&output(run(
            &server.url(),
            &["--name", "x", "--no-wait"],
            ""
        ))),
        Some(0)
    );
}

#[test]
fn when_lockyard_is_killed_a_stubborn_command_is_killed_with_its_children() {
    let server = Server::start().unwrap();
    let mut killed = Process::start(run(&server.url(), &QUICK, STUBBORN));
    let child = killed.next();
    killed.kill_when_idle();
    eventually(SOON, || is_gone(&child));
}

#[test]
fn what_is_sent_to_lockyards_group_leaves_the_watch_alone() {
    let server = Server::start().unwrap();
    let script = format!("trap 'echo USR1' USR1; {GENTLE}");
    let mut command = run(&server.url(), &QUICK, &script);
    command.process_group(0);
    let mut killed = Process::start(command);
    killed.hears("ready");
    killed.signal_group(Signal::USR1);
    // It reached lockyard, which passed it on.
    killed.hears("USR1");
    killed.kill_when_idle();
    killed.hears("TERM");
}

#[tokio::test]
async fn a_run_whose_watch_was_killed_during_the_wait_has_failed() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let guard = lock.acquire().await.unwrap();
    let mut command = run(&server.url(), &["--name", "x"], "exec sleep 1000");
    command.stderr(Stdio::piped());
    let mut run = Process::start(command);
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    run.kill_children();
    guard.release().await.unwrap();
    assert_eq!(run.code(), Some(125));
    assert!(!lock.is_locked().await.unwrap());
}

#[test]
fn a_run_waits_for_the_lease_of_one_that_was_killed_and_no_longer() {
    let server = Server::start().unwrap();
    let mut killed = Process::start(run(&server.url(), &QUICK, GENTLE));
    killed.hears("ready");
    let mut next = Process::start(run(&server.url(), &QUICK, "echo in"));
    let start = Instant::now();
    killed.kill_when_idle();
    next.hears("in");
    assert_eq!(next.code(), Some(0));
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_command_whose_lockyard_is_paused_gets_term_when_the_lease_is_over() {
    let server = Server::start().unwrap();
    let mut paused = Process::start(run(&server.url(), &QUICK, GENTLE));
    paused.hears("ready");
    let start = Instant::now();
    eventually(SOON, || is_idle(&paused.id()));
    paused.signal(Signal::STOP);
    paused.hears("TERM");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(400), "{took:?}");
    paused.signal(Signal::CONT);
    assert_eq!(paused.code(), Some(123));
}

#[test]
fn a_stubborn_command_whose_lockyard_is_paused_is_killed_with_its_children() {
    let server = Server::start().unwrap();
    let paused = Process::start(run(&server.url(), &QUICK, STUBBORN));
    let child = paused.next();
    eventually(SOON, || is_idle(&paused.id()));
    paused.signal(Signal::STOP);
    eventually(SOON, || is_gone(&child));
}

// Red at times when the watch does not look once more for what was written while it stood still itself.
#[tokio::test]
async fn a_watch_that_stood_still_beyond_the_lease_ends_nothing() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let mut run = Process::start(run(&server.url(), &QUICK, "echo ready; exec sleep 3"));
    run.hears("ready");
    run.signal_child(Signal::STOP);
    let beyond = Duration::from_millis(1500);
    eventually_async(SOON, async || {
        lock.inspect().await.unwrap().holders[0].held_for > beyond
    })
    .await;
    run.signal_child(Signal::CONT);
    assert_eq!(run.code(), Some(0));
}

// Red when the watch is waited for before the lock is released.
#[tokio::test]
async fn a_watch_that_stands_still_holds_up_no_release() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let mut run = Process::start(run(&server.url(), &QUICK, "echo ready; sleep 0.5"));
    run.hears("ready");
    run.signal_child(Signal::STOP);
    assert_eq!(run.code(), Some(0));
    assert!(!lock.is_locked().await.unwrap());
}

// Red when the watch gives a grace of its own after the one that was running.
#[tokio::test]
async fn a_command_whose_lockyard_is_paused_after_a_loss_has_one_grace() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let script = "trap 'echo TERM' TERM; echo $$; while :; do sleep 0.02; done";
    let options = ["--name", "x", "--grace", "4s"];
    let paused = Process::start(run(&server.url(), &options, script));
    let command = paused.next();
    assert!(lock.force_release().await.unwrap());
    paused.hears("TERM");
    let start = Instant::now();
    paused.signal(Signal::STOP);
    eventually(SOON, || is_gone(&command));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(7), "{took:?}");
}

#[tokio::test]
async fn a_command_that_stands_still_keeps_its_lock() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let mut run = Process::start(run(&server.url(), &QUICK, "echo $$; kill -STOP $$"));
    let command = run.next();
    let beyond = Duration::from_millis(2000);
    eventually_async(SOON, async || {
        lock.inspect().await.unwrap().holders[0].held_for > beyond
    })
    .await;
    kill_process(
        Pid::from_raw(command.parse().unwrap()).unwrap(),
        Signal::CONT,
    )
    .unwrap();
    assert_eq!(run.code(), Some(0));
}

#[test]
fn a_run_that_was_paused_beyond_its_lease_ends_its_command() {
    let server = Server::start().unwrap();
    let mut paused = Process::start(run(&server.url(), &QUICK, GENTLE));
    paused.hears("ready");
    paused.signal(Signal::STOP);
    // The other gets in when the lease is over, while the first command still runs.
    let mut next = Process::start(run(&server.url(), &["--name", "x"], "echo in"));
    next.hears("in");
    assert_eq!(next.code(), Some(0));
    paused.signal(Signal::CONT);
    paused.hears("TERM");
    assert_eq!(paused.code(), Some(123));
}

fn ignores_term(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap_or("0").trim(), 16).unwrap();
    mask & (1 << 14) != 0
}
