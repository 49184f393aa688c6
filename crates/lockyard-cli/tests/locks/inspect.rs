use lockyard_testkit::{Server, eventually_async};
use serde_json::json;

use crate::support::{Process, SOON, code, run, text};
use crate::{call, client, hold, objects, take_ms, take_text};

#[tokio::test]
async fn inspect_has_its_fields() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let owner = client.owner();
    let lock = client.lock("x").with_owner(&owner).fenced();
    let guards = [lock.acquire().await.unwrap(), lock.acquire().await.unwrap()];
    let mut waiting = Process::start(run(&server.url(), &["--name", "x"], "echo in"));
    eventually_async(SOON, async || {
        // Another process learns of nested guards some milliseconds later.
        let output = call(&server, &["inspect", "x", "--json"]);
        let object = &objects(&output)[0];
        object["waiting"] == 1 && object["holders"][0]["count"] == 2
    })
    .await;

    let output = call(&server, &["inspect", "x", "--json"]);
    assert_eq!(code(&output), Some(0));
    let mut object = objects(&output).remove(0);
    let holder = &mut object["holders"][0];
    take_ms(holder, "held_ms", 0, 20_000);
    take_ms(holder, "remaining_ms", 10_000, 30_000);
    take_text(holder, "client");
    let waiter = &mut object["waiters"][0];
    take_ms(waiter, "waited_ms", 0, 20_000);
    take_text(waiter, "client");
    take_text(waiter, "owner");
    assert_eq!(
        object,
        json!({
            "kind": "lock",
            "name": "x",
            "holders": [{
                "owner": owner.to_string(),
                "client": null,
                "count": 2,
                "held_ms": null,
                "remaining_ms": null,
                "token": guards[0].token().unwrap().get(),
            }],
            "waiters": [{ "owner": null, "client": null, "waited_ms": null }],
            "waiting": 1,
        })
    );
    drop(guards);
    waiting.hears("in");
    assert_eq!(waiting.code(), Some(0));
}

#[tokio::test]
async fn a_free_lock_has_nobody() {
    let server = Server::start().unwrap();
    let output = call(&server, &["inspect", "x", "--json"]);
    let free = json!({ "kind": "lock", "name": "x", "holders": [], "waiters": [], "waiting": 0 });
    assert_eq!(objects(&output), [free]);
    let output = call(&server, &["inspect", "x"]);
    assert_eq!(code(&output), Some(0));
    assert_eq!(text(&output.stdout), "nobody holds x\nnobody waits for x\n");
}

#[tokio::test]
async fn the_tables_are_for_people() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let guard = hold(&client, "odd\u{1b}[31m\n").await;
    let output = call(&server, &["inspect", "odd\u{1b}[31m\n"]);
    let table = text(&output.stdout);
    assert!(table.contains(&guard.owner().to_string()), "{table}");
    assert!(table.contains("lease left"), "{table}");
    let output = call(&server, &["ls"]);
    let table = text(&output.stdout);
    assert!(table.contains(r"odd\u{1b}[31m\n"), "{table}");
    // What a name contains does not reach the terminal as it is.
    assert!(!table.contains('\x1b'), "{table}");
}
