use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use lockyard::Client;
use lockyard_testkit::{Server, eventually, eventually_async};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PROGRAM, Process, SOON, is_gone, is_idle, run};

/// Says each signal that it gets, and ends after TERM.
const LISTENER: &str = "
    for signal in HUP INT QUIT USR1 USR2; do trap \"echo $signal\" $signal; done
    trap 'echo TERM; exit 9' TERM
    echo ready
    while :; do sleep 0.02; done";

/// The same command, started by another program.
fn started_by(program: &str, options: &[&str], command: &Command) -> Command {
    let mut starter = Command::new(program);
    starter.args(options).arg(command.get_program());
    starter.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => starter.env(name, value),
            None => starter.env_remove(name),
        };
    }
    starter
}

/// The same command, with no signal ignored, as some are for what a script starts in the background.
fn heedful(command: &Command) -> Command {
    started_by("env", &["--default-signal"], command)
}

#[test]
fn each_signal_reaches_the_command_once() {
    let server = Server::start().unwrap();
    let mut run = Process::start(heedful(&run(&server.url(), &["--name", "x"], LISTENER)));
    run.hears("ready");
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::TERM, "TERM"),
    ] {
        run.signal(signal);
        run.hears(name);
    }
    assert_eq!(run.code(), Some(9));
    assert_eq!(server.keys("*").unwrap(), ["lockyard:lock.fence:{x}"]);
}

#[test]
fn a_signal_reaches_what_the_command_has_started() {
    let server = Server::start().unwrap();
    let script =
        "sh -c 'trap \"echo child; exit\" TERM; echo ready; while :; do sleep 0.02; done' & wait";
    let mut run = Process::start(run(&server.url(), &["--name", "x"], script));
    run.hears("ready");
    run.signal(Signal::TERM);
    run.hears("child");
    assert_eq!(run.code(), Some(128 + 15));
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_the_queue() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let guard = lock.acquire().await.unwrap();
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let mut waiting =
            Process::start(heedful(&run(&server.url(), &["--name", "x"], "echo ran")));
        eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
        waiting.signal(signal);
        assert_eq!(waiting.code(), Some(128 + number));
        assert_eq!(lock.inspect().await.unwrap().waiting, 0);
    }
    guard.release().await.unwrap();
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let server = Server::start().unwrap();
    let script = "
        trap '' HUP
        exec \"$PROGRAM\" run --name x -- sh -c '
            trap \"exit 9\" USR1
            grep -q \"^SigIgn:.*[13579bdf]$\" /proc/self/status && echo ignored
            while :; do sleep 0.02; done'";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .env("PROGRAM", PROGRAM)
        .env("LOCKYARD_URL", server.url());
    let mut run = Process::start(command);
    run.hears("ignored");
    run.signal(Signal::HUP);
    run.signal(Signal::USR1);
    assert_eq!(run.code(), Some(9));
}

/// How `unshare` leaves the session, as a container's programs may, where this is permitted.
fn out_of_the_session() -> Vec<&'static str> {
    let known = [
        vec!["--fork", "--pid"],
        vec!["--fork", "--pid", "--user", "--map-root-user"],
        vec!["--fork"],
    ];
    let is_permitted = |options: &Vec<_>| {
        let status = Command::new("unshare").args(options).arg("true").status();
        status.is_ok_and(|status| status.success())
    };
    known.into_iter().find(is_permitted).unwrap()
}

#[test]
fn a_hang_up_reaches_the_command_of_a_session_that_is_out_of_sight() {
    let server = Server::start().unwrap();
    let run = run(&server.url(), &["--name", "x"], LISTENER);
    let run = started_by("unshare", &out_of_the_session(), &run);
    let mut run = Process::start(heedful(&run));
    run.hears("ready");
    run.signal_child(Signal::HUP);
    run.hears("HUP");
    run.signal_child(Signal::TERM);
    run.hears("TERM");
    assert_eq!(run.code(), Some(9));
}

/// Whether a process stands still.
fn is_stopped(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.contains(") T "))
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

#[test]
fn a_stop_stops_the_command_as_well_and_a_continue_continues_both() {
    let server = Server::start().unwrap();
    let script = "trap 'exit 9' USR1; echo $$; while :; do :; done";
    let mut run = Process::start(run(&server.url(), &["--name", "x"], script));
    let command = run.next();
    eventually(SOON, || is_idle(&run.id()));
    for _ in 0..2 {
        run.signal(Signal::TSTP);
        eventually(SOON, || is_stopped(&command) && is_stopped(&run.id()));
        run.signal(Signal::CONT);
        eventually(SOON, || !is_stopped(&command) && !is_stopped(&run.id()));
    }
    run.signal(Signal::USR1);
    assert_eq!(run.code(), Some(9));
}

#[test]
fn a_command_that_was_stopped_beyond_its_lease_is_ended() {
    let server = Server::start().unwrap();
    let options = ["--name", "x", "--lease", "900ms", "--grace", "300ms"];
    let script = "trap 'echo TERM; exit 0' TERM; echo $$; while :; do :; done";
    let mut run = Process::start(run(&server.url(), &options, script));
    let command = run.next();
    eventually(SOON, || is_idle(&run.id()));
    run.signal(Signal::TSTP);
    eventually(SOON, || is_stopped(&command));
    run.hears("TERM");
    run.signal(Signal::CONT);
    assert_eq!(run.code(), Some(123));
}

/// Runs the program on a terminal of its own, in the foreground.
fn on_a_terminal(server: &Server, command: &str) -> (Process, impl Write + use<>) {
    shell_on_a_terminal(server, &format!("exec {PROGRAM} run --name x -- {command}"))
}

/// Runs a shell script on a terminal of its own.
fn shell_on_a_terminal(server: &Server, script: &str) -> (Process, impl Write + use<>) {
    let mut terminal = Command::new("script");
    terminal
        .args(["--quiet", "--return", "--command", script])
        .arg("/dev/null")
        .env("LOCKYARD_URL", server.url())
        .env("SHELL", "/bin/sh");
    let mut terminal = heedful(&terminal);
    terminal.stdin(Stdio::piped());
    Process::start_with_input(terminal)
}

#[test]
fn a_command_in_the_foreground_reads_from_the_terminal() {
    let server = Server::start().unwrap();
    let (mut run, mut keys) =
        on_a_terminal(&server, "sh -c 'echo ready; read line; echo got $line'");
    run.hears("ready");
    writeln!(keys, "hello").unwrap();
    // The terminal shows what is typed.
    run.hears("hello");
    run.hears("got hello");
    assert_eq!(run.code(), Some(0));
}

#[test]
fn a_key_reaches_a_command_in_the_foreground_once() {
    let server = Server::start().unwrap();
    let listener = "sh -c '
        trap \"echo INT\" INT; trap \"echo USR1\" USR1; trap \"exit 9\" QUIT
        echo $PPID
        while :; do :; done'";
    let (mut run, mut keys) = on_a_terminal(&server, listener);
    let lockyard = pid(&run.next());
    for _ in 0..3 {
        keys.write_all(b"\x03").unwrap();
        run.hears("^CINT");
        // What lockyard made of the key comes before what it is sent later.
        kill_process(lockyard, Signal::USR1).unwrap();
        run.hears("USR1");
    }
    keys.write_all(b"\x1c").unwrap();
    assert_eq!(run.code(), Some(9));
}

#[test]
fn what_a_process_sends_reaches_a_command_in_the_foreground_once() {
    let server = Server::start().unwrap();
    let listener = "sh -c '
        for signal in HUP INT TERM USR1; do trap \"echo $signal\" $signal; done
        trap \"exit 9\" QUIT
        echo $PPID
        while :; do :; done'";
    let (mut run, _keys) = on_a_terminal(&server, listener);
    let lockyard = pid(&run.next());
    for (signal, name) in [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
    ] {
        kill_process(lockyard, signal).unwrap();
        run.hears(name);
        kill_process(lockyard, Signal::USR1).unwrap();
        run.hears("USR1");
    }
    kill_process(lockyard, Signal::QUIT).unwrap();
    assert_eq!(run.code(), Some(9));
}

#[test]
fn a_terminal_that_hangs_up_tells_a_command_in_the_foreground_once() {
    // Lockyard leads the session, or the shell does that it is a job of.
    for (before, after) in [("exec", ""), ("set -m;", "; true")] {
        let server = Server::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let heard = folder.path().join("heard");
        let script = format!(
            "{before} {PROGRAM} run --name x -- sh -c '
            for signal in HUP USR1; do trap \"echo $signal >> {heard}\" $signal; done
            trap \"exit 9\" TERM
            echo $PPID $$
            while :; do :; done' {after}",
            heard = heard.display()
        );
        let (run, _keys) = shell_on_a_terminal(&server, &script);
        let pids = run.next();
        let (lockyard, command) = pids.split_once(' ').unwrap();
        // The terminal goes with the program that it belongs to.
        run.signal(Signal::KILL);
        let hears = |name| fs::read_to_string(&heard).is_ok_and(|text| text.contains(name));
        eventually(SOON, || hears("HUP"));
        // What lockyard made of the hang-up comes before what it is sent later.
        kill_process(pid(lockyard), Signal::USR1).unwrap();
        eventually(SOON, || hears("USR1"));
        assert_eq!(fs::read_to_string(&heard).unwrap(), "HUP\nUSR1\n");
        kill_process(pid(lockyard), Signal::TERM).unwrap();
        eventually(SOON, || is_gone(command) && is_gone(lockyard));
    }
}

/// A shell that has lockyard run a command in the foreground, and continues both when they were stopped.
fn job_control(lease: &str) -> String {
    format!(
        "set -m
        {PROGRAM} run --name x --lease {lease} --grace 300ms -- sh -c '
            trap \"exit 0\" TERM; trap \"exit 9\" USR1
            echo $PPID $$
            while :; do :; done'
        read line
        fg >/dev/null
        echo status $?"
    )
}

#[test]
fn a_key_stops_a_command_in_the_foreground_and_fg_continues_it() {
    let server = Server::start().unwrap();
    let (mut run, mut keys) = shell_on_a_terminal(&server, &job_control("30s"));
    let pids = run.next();
    let (lockyard, command) = pids.split_once(' ').unwrap();
    eventually(SOON, || is_idle(lockyard));
    keys.write_all(b"\x1a").unwrap();
    eventually(SOON, || is_stopped(lockyard) && is_stopped(command));
    writeln!(keys).unwrap();
    eventually(SOON, || !is_stopped(lockyard) && !is_stopped(command));
    kill_process(pid(lockyard), Signal::USR1).unwrap();
    run.hears_of("status 9");
    assert_eq!(run.code(), Some(0));
}

#[test]
fn a_command_that_a_key_stopped_beyond_its_lease_is_ended() {
    let server = Server::start().unwrap();
    let (mut run, mut keys) = shell_on_a_terminal(&server, &job_control("900ms"));
    let pids = run.next();
    let (lockyard, command) = pids.split_once(' ').unwrap();
    eventually(SOON, || is_idle(lockyard));
    keys.write_all(b"\x1a").unwrap();
    eventually(SOON, || is_stopped(lockyard));
    eventually(SOON, || is_gone(command));
    writeln!(keys).unwrap();
    run.hears_of("status 123");
    assert_eq!(run.code(), Some(0));
}

#[tokio::test]
async fn a_command_in_the_foreground_is_ended_after_a_loss() {
    let server = Server::start().unwrap();
    let lock = Client::connect(&server.url()).await.unwrap().lock("x");
    let (mut run, keys) = on_a_terminal(&server, "sh -c 'echo $$; while :; do sleep 0.02; done'");
    let command = run.next();
    assert!(lock.force_release().await.unwrap());
    assert_eq!(run.code(), Some(123));
    assert!(is_gone(&command));
    drop(keys);
}
