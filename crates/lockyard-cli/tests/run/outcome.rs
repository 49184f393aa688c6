use std::fs;

use lockyard_testkit::Server;
use serde_json::Value;

use crate::support::{PROGRAM, code, lockyard, output, run, text};

#[test]
fn the_status_is_that_of_the_command() {
    let server = Server::start().unwrap();
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let output = output(run(&server.url(), &["--name", "x"], script));
        assert_eq!(code(&output), Some(expected), "{script}");
        assert_eq!(text(&output.stderr), "", "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_started_has_the_status_that_shells_give() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    fs::write(&plain, "no program").unwrap();
    for (command, expected, says) in [
        (
            "/nonexistent",
            127,
            "cannot start /nonexistent: No such file",
        ),
        (plain.to_str().unwrap(), 126, "Permission denied"),
    ] {
        let output = output(lockyard(
            &server.url(),
            &["run", "--name", "x", "--", command],
        ));
        assert_eq!(code(&output), Some(expected), "{command}");
        let errors = text(&output.stderr);
        assert!(errors.contains(says), "{errors}");
        assert_eq!(server.keys("*").unwrap(), ["lockyard:lock.fence:{x}"]);
    }
}

#[test]
fn what_it_cannot_do_has_a_status_of_its_own() {
    let server = Server::builder().password("sesame").start().unwrap();
    let url = server.url();
    let wrong = url.replace("sesame", "opensesame");
    let long = "x".repeat(1025);
    for (url, options, says) in [
        (&*url, &["--nam", "x"][..], "--name"),
        (&url, &[], "--name"),
        (&url, &["--name", "x", "--wait", "soon"], "such as 500ms"),
        (
            &url,
            &["--name", "x", "--wait", "1s", "--no-wait"],
            "cannot be used with",
        ),
        (
            &url,
            &["--name", "x", "--lease", "1ms"],
            "between 10 ms and 10 years",
        ),
        (&url, &["--name", "x", "--prefix", "{"], "a prefix has"),
        (&url, &["--name", ""], "a name is not empty"),
        (&url, &["--name", "a{b"], "hash tag"),
        (&url, &["--name", &long], "1024 bytes"),
        (
            &wrong,
            &["--name", "x"],
            "the user or the password is wrong",
        ),
        (
            "redis://:sesame@127.0.0.1:1",
            &["--name", "x"],
            "unreachable",
        ),
        (
            "postgres://:sesame@127.0.0.1:1",
            &["--name", "x"],
            "expected redis://",
        ),
        ("redis://:sesame@[", &["--name", "x"], "expected redis://"),
        ("", &["--name", "x"], "expected redis://"),
    ] {
        let output = output(run(url, options, "echo ran"));
        assert_eq!(code(&output), Some(125), "{options:?}");
        let errors = text(&output.stderr);
        assert!(errors.contains(says), "{options:?}: {errors}");
        assert!(!errors.contains("sesame"), "{options:?}: {errors}");
        assert_eq!(text(&output.stdout), "", "{options:?}");
    }
}

#[test]
fn a_foreign_owner_in_the_environment_is_refused_before_anything_is_sent() {
    let mut command = run("redis://127.0.0.1:1", &["--name", "x"], "echo ran");
    command.env("LOCKYARD_OWNER", "me");
    let output = output(command);
    assert_eq!(code(&output), Some(125));
    let errors = text(&output.stderr);
    assert!(
        errors.contains(r#"LOCKYARD_OWNER: invalid owner "me""#),
        "{errors}"
    );
}

#[test]
fn the_url_is_not_in_the_help() {
    for url in ["redis://:sesame@127.0.0.1:1", "sesame"] {
        for command in ["run", "ls", "inspect", "unlock"] {
            let output = output(lockyard(url, &[command, "--help"]));
            assert_eq!(code(&output), Some(0));
            assert!(text(&output.stdout).contains("LOCKYARD_URL"), "{command}");
            assert!(!text(&output.stdout).contains("sesame"), "{command}");
        }
    }
}

#[test]
fn the_command_is_told_of_the_hold() {
    let server = Server::start().unwrap();
    let options = ["--name", "nightly", "--prefix", "shop:"];
    let script = format!(
        "echo $LOCKYARD_NAME $LOCKYARD_OWNER $LOCKYARD_TOKEN $LOCKYARD_URL $LOCKYARD_PREFIX
         {PROGRAM} inspect nightly --json"
    );
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let output = output(run(&server.url(), &options, &script));
        assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
        let (words, inspected) = text(&output.stdout).split_once('\n').unwrap();
        let inspected: Value = serde_json::from_str(inspected).unwrap();
        let holder = &inspected["holders"][0];
        let words: Vec<&str> = words.split(' ').collect();
        assert_eq!(words[0], "nightly");
        assert_eq!(words[1], holder["owner"]);
        assert_eq!(words[2], holder["token"].to_string());
        assert_eq!(words[3..], [&server.url(), "shop:"]);
        tokens.push(words[2].parse::<u64>().unwrap());
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");
}

#[test]
fn the_command_has_the_input_and_the_arguments_as_they_are() {
    let server = Server::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, "from outside").unwrap();
    let arguments = [
        "--",
        "sh",
        "-c",
        r#"printf '%s|' "$@"; cat"#,
        "sh",
        "--name",
        "a b",
        "",
    ];
    let mut command = lockyard(
        &server.url(),
        &[&["run", "--name", "x"], &arguments[..]].concat(),
    );
    command.stdin(fs::File::open(path).unwrap());
    assert_eq!(text(&output(command).stdout), "--name|a b||from outside");
}

#[test]
fn the_lock_is_free_when_the_command_has_ended_whatever_it_left_behind() {
    let server = Server::start().unwrap();
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
    let output = output(run(&server.url(), &["--name", "x"], script));
    assert_eq!(code(&output), Some(0));
    assert_eq!(server.keys("*").unwrap(), ["lockyard:lock.fence:{x}"]);
    let left = text(&output.stdout).trim();
    let killed = std::process::Command::new("kill")
        .args(["-9", left])
        .status();
    assert!(killed.unwrap().success(), "it was left alone");
}
