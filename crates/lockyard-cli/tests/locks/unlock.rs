use std::process::Stdio;
use std::time::Duration;

use lockyard::Lease;
use lockyard_testkit::{Server, eventually_async};
use serde_json::json;

use crate::support::{Process, SOON, code, lockyard, run, text};
use crate::{call, client, fields, hold, objects};

#[tokio::test]
async fn unlock_refuses_without_force_and_says_who_would_lose_the_lock() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let guard = hold(&client, "x").await;
    let owner = guard.owner().to_string();
    let output = call(&server, &["unlock", "x"]);
    assert_eq!(code(&output), Some(1));
    assert_eq!(text(&output.stdout), "");
    let errors = text(&output.stderr);
    assert!(
        errors.contains(&format!("x is held by {owner}")),
        "{errors}"
    );
    assert!(errors.contains("--force"), "{errors}");

    let output = call(&server, &["unlock", "x", "--json"]);
    assert_eq!(code(&output), Some(1));
    let object = objects(&output).remove(0);
    assert_eq!(object["released"], false);
    assert_eq!(object["holders"][0]["owner"], owner);
    assert!(client.lock("x").is_locked().await.unwrap());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn unlock_with_force_takes_the_lock_away_and_says_from_whom() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    for arguments in [
        &["unlock", "x", "--force"][..],
        &["unlock", "x", "--force", "--json"],
    ] {
        let guard = hold(&client, "x").await;
        let output = call(&server, arguments);
        assert_eq!(code(&output), Some(0));
        assert!(text(&output.stdout).contains(&guard.owner().to_string()));
        assert_eq!(text(&output.stderr), "");
        tokio::time::timeout(SOON, guard.lost()).await.unwrap();
        if arguments.len() == 4 {
            let object = objects(&output).remove(0);
            assert_eq!(fields(&object), ["holders", "kind", "name", "released"]);
            assert_eq!(object["released"], true);
        }
    }
}

#[tokio::test]
async fn the_status_is_the_same_if_nobody_reads() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let guard = hold(&client, "x").await;
    for (arguments, expected) in [
        (&["unlock", "x", "--json"][..], 1),
        (&["unlock", "x", "--json", "--force"], 0),
    ] {
        let mut command = lockyard(&server.url(), arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), Some(expected), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
    drop(guard);
}

#[tokio::test]
async fn unlock_of_a_free_lock_changes_nothing() {
    let server = Server::start().unwrap();
    for arguments in [&["unlock", "x"][..], &["unlock", "x", "--force"]] {
        let output = call(&server, arguments);
        assert_eq!(code(&output), Some(1));
        assert_eq!(text(&output.stderr), "lockyard: nobody holds x\n");
    }
    let output = call(&server, &["unlock", "x", "--force", "--json"]);
    assert_eq!(code(&output), Some(1));
    let nobody = json!({ "kind": "lock", "name": "x", "released": false, "holders": [] });
    assert_eq!(objects(&output), [nobody]);
    assert!(server.keys("*").unwrap().is_empty());
}

#[tokio::test]
async fn the_first_waiter_gets_a_lock_that_is_taken_away() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let lock = client
        .lock("x")
        .with_lease(Lease::Renewed(Duration::from_secs(60)));
    let guard = lock.acquire().await.unwrap();
    let mut waiting = Process::start(run(&server.url(), &["--name", "x"], "echo in"));
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    assert_eq!(code(&call(&server, &["unlock", "x", "--force"])), Some(0));
    waiting.hears("in");
    assert_eq!(waiting.code(), Some(0));
    drop(guard);
}

#[tokio::test]
async fn unlock_with_force_takes_a_read_write_lock_away_from_readers_and_writer() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let lock = client.rw_lock("x");
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    // The lock of the same name is another thing.
    let guard = hold(&client, "x").await;
    let output = call(&server, &["unlock", "x", "--kind", "rw"]);
    assert_eq!(code(&output), Some(1));
    let errors = text(&output.stderr);
    assert!(errors.contains("x is held by 2 readers"), "{errors}");
    let output = call(
        &server,
        &["unlock", "x", "--kind", "rw", "--force", "--json"],
    );
    assert_eq!(code(&output), Some(0));
    let object = objects(&output).remove(0);
    assert_eq!(
        (&object["kind"], &object["released"]),
        (&json!("rw"), &json!(true))
    );
    assert_eq!(object["readers"].as_array().unwrap().len(), 2);
    for reader in &readers {
        tokio::time::timeout(SOON, reader.lost()).await.unwrap();
    }
    let writing = lock.write().await.unwrap();
    let output = call(&server, &["unlock", "x", "--kind", "rw", "--force"]);
    assert_eq!(code(&output), Some(0));
    assert!(text(&output.stdout).contains(&writing.owner().to_string()));
    tokio::time::timeout(SOON, writing.lost()).await.unwrap();
    assert!(!guard.is_lost());
    guard.release().await.unwrap();
}
