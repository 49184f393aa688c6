use std::io::Write;
use std::process::Stdio;

use lockyard::Client;
use lockyard_testkit::{Server, eventually_async};

use crate::support::{PROGRAM, Process, SOON, code, output, run, text};

const ONE_OF_TWO: [&str; 4] = ["--name", "x", "--permits", "1/2"];

#[tokio::test]
async fn as_many_commands_run_at_once_as_there_are_permits() {
    let server = Server::start().unwrap();
    let url = server.url();
    let semaphore = Client::connect(&url).await.unwrap().semaphore("x", 2);
    let start = || {
        let mut command = run(&url, &ONE_OF_TWO, "echo in; read line; exit 7");
        command.stdin(Stdio::piped());
        Process::start_with_input(command)
    };
    let mut inside = [start(), start()];
    for (run, _) in &inside {
        run.hears("in");
    }
    let refused = output(run(&url, &[&ONE_OF_TWO[..], &["--no-wait"]].concat(), ""));
    assert_eq!(code(&refused), Some(124));
    let errors = text(&refused.stderr);
    assert!(errors.contains("there were not enough permits"), "{errors}");

    let (mut third, mut third_input) = start();
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == 1
    })
    .await;
    let (first, its_input) = &mut inside[0];
    writeln!(its_input).unwrap();
    // The status is the command's, and its permit goes to the one that waits.
    assert_eq!(first.code(), Some(7));
    third.hears("in");
    assert_eq!(semaphore.inspect().await.unwrap().held, 2);
    let (second, its_input) = &mut inside[1];
    writeln!(its_input).unwrap();
    writeln!(third_input).unwrap();
    assert_eq!((second.code(), third.code()), (Some(7), Some(7)));
}

#[tokio::test]
async fn a_command_takes_as_many_permits_as_it_asks_for_and_gives_them_back() {
    let server = Server::start().unwrap();
    let options = ["--name", "x", "--permits", "2/3"];
    let script =
        format!("{PROGRAM} run --name x --permits 2/3 --no-wait -- true 2>/dev/null; echo $?");
    let output = output(run(&server.url(), &options, &script));
    // Permits are not re-entered.
    assert_eq!(text(&output.stdout), "124\n");
    assert_eq!(code(&output), Some(0));
    let client = Client::connect(&server.url()).await.unwrap();
    let held = client.semaphore("x", 3).inspect().await.unwrap().held;
    assert_eq!(held, 0);
}

#[test]
fn a_command_whose_permits_are_lost_gets_term() {
    let server = Server::start().unwrap();
    let script = "trap 'echo TERM; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let options = [&ONE_OF_TWO[..], &["--lease", "900ms"]].concat();
    let mut run = Process::start(run(&server.url(), &options, script));
    run.hears("ready");
    server
        .command(&["DEL", "lockyard:semaphore.permits:{x}"])
        .unwrap();
    run.hears("TERM");
    assert_eq!(run.code(), Some(123));
}

#[test]
fn a_command_under_permits_has_no_owner_and_no_token_of_its_own() {
    let server = Server::start().unwrap();
    let told = "echo $LOCKYARD_NAME,$LOCKYARD_OWNER,$LOCKYARD_TOKEN";
    let inner = output(run(&server.url(), &ONE_OF_TWO, told));
    assert_eq!(text(&inner.stdout), "x,,\n");
    // The lock around it can still be entered by its owner.
    let script =
        format!("echo $LOCKYARD_OWNER; {PROGRAM} run --name x --permits 1/2 -- sh -c '{told}'");
    let both = output(run(&server.url(), &["--name", "around"], &script));
    let (owner, told) = text(&both.stdout).split_once('\n').unwrap();
    assert_eq!(told, format!("x,{owner},\n"));
    assert!(!owner.is_empty());
}

#[tokio::test]
async fn permits_that_can_never_be_had_are_an_error() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    client.semaphore("stored", 5).set_limit(1).await.unwrap();
    for (name, permits, says) in [
        ("x", "3/2", "of 2 permits a command can take 1 to 2, not 3"),
        ("x", "0/2", "1 to 2, not 0"),
        ("x", "two", "expected N/M, such as 1/3"),
        ("stored", "2/5", "2 (at least 1, at most 1)"),
    ] {
        let output = output(run(
            &server.url(),
            &["--name", name, "--permits", permits],
            "echo ran",
        ));
        assert_eq!(code(&output), Some(125), "{permits}");
        let errors = text(&output.stderr);
        assert!(errors.contains(says), "{permits}: {errors}");
        assert_eq!(text(&output.stdout), "", "{permits}");
    }
}
