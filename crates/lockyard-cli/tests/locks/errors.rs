use lockyard_testkit::Server;

use crate::call;
use crate::support::{code, lockyard, output, text};

#[test]
fn what_cannot_be_done_is_said_without_the_password() {
    let server = Server::builder().password("sesame").start().unwrap();
    let url = server.url();
    let wrong = url.replace("sesame", "opensesame");
    for (url, arguments, says) in [
        (&*url, &["inspect", ""][..], "a name is not empty"),
        (&url, &["inspect", "{}"], "hash tag"),
        (&url, &["unlock", "a}", "--force"], "hash tag"),
        (&url, &["inspect"], "<NAME>"),
        (
            &url,
            &["inspect", "x", "--kind", "door"],
            "possible values: lock, rw, semaphore",
        ),
        (
            &url,
            &["unlock", "x", "--kind", "latch"],
            "possible values: lock, rw",
        ),
        (&url, &["inspect", "{}", "--kind", "rate"], "hash tag"),
        (&url, &["ls", "--limit", "0"], "0 is not in 1..=1000000"),
        (&url, &["ls", "--prefix", "{"], "a prefix has"),
        (&wrong, &["ls"], "the user or the password is wrong"),
        (
            &wrong,
            &["inspect", "x"],
            "the user or the password is wrong",
        ),
        ("redis://:sesame@127.0.0.1:1", &["ls"], "unreachable"),
        (
            "http://:sesame@127.0.0.1:1",
            &["unlock", "x"],
            "expected redis://",
        ),
        ("sesame", &["ls"], "expected redis://"),
    ] {
        let output = output(lockyard(url, arguments));
        assert_eq!(code(&output), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let errors = text(&output.stderr);
        assert!(errors.contains(says), "{arguments:?}: {errors}");
        assert!(!errors.contains("sesame"), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_key_with_other_data_is_an_error_and_stays_as_it_is() {
    let server = Server::start().unwrap();
    for (kind, key) in [
        ("rw", "rw.readers"),
        ("semaphore", "semaphore.permits"),
        ("latch", "latch"),
        ("rate", "rate"),
    ] {
        let key = format!("lockyard:{key}:{{x}}");
        server.command(&["SET", &key, "1"]).unwrap();
        let output = call(&server, &["inspect", "x", "--kind", kind]);
        assert_eq!(code(&output), Some(2), "{kind}");
        let errors = text(&output.stderr);
        assert!(
            errors.contains("holds data of another type"),
            "{kind}: {errors}"
        );
    }
    server.command(&["SET", "lockyard:lock:{x}", "1"]).unwrap();
    for arguments in [&["inspect", "x"][..], &["unlock", "x", "--force"]] {
        let output = call(&server, arguments);
        assert_eq!(code(&output), Some(2));
        assert!(text(&output.stderr).contains("holds data of another type"));
    }
    assert_eq!(
        server
            .query::<String>(&["GET", "lockyard:lock:{x}"])
            .unwrap(),
        "1"
    );
}

#[test]
fn without_a_server_named_the_error_says_how_to_name_one() {
    let mut command = lockyard("", &["ls"]);
    command.env_remove("LOCKYARD_URL");
    let output = output(command);
    assert_eq!(code(&output), Some(2));
    assert!(text(&output.stderr).contains("--url <URL>"));
}

#[test]
fn completions_and_help_are_for_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = output(lockyard("", &["completions", shell]));
        assert_eq!(code(&output), Some(0), "{shell}");
        let script = text(&output.stdout);
        for word in ["run", "inspect", "unlock", "no-wait", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}
