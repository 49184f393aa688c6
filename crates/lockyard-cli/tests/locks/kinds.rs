use std::time::Duration;

use lockyard::Rate;
use lockyard_testkit::{Server, eventually_async};
use serde_json::{Value, json};

use crate::support::{SOON, code, text};
use crate::{call, client, hold, objects, take_ms, take_text};

const HOUR: u64 = 3_600_000;

#[tokio::test]
async fn ls_lists_each_kind_that_is_in_use() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let rw = client.rw_lock("rw");
    let semaphore = client.semaphore("semaphore", 3);
    let guards = (
        hold(&client, "same").await,
        client.rw_lock("same").write().await.unwrap(),
        rw.read().await.unwrap(),
        rw.read().await.unwrap(),
        semaphore.acquire_many(2).await.unwrap(),
    );
    let waiting = tokio::spawn(async move { semaphore.acquire_many(2).await });
    client.latch("latch").try_set_count(4).await.unwrap();
    let rate = Rate::per_hour(1).burst(2);
    client.rate_limiter("rate", rate).acquire(2).await.unwrap();
    // None of these is in use any more.
    client
        .rw_lock("free")
        .read()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let free = client.semaphore("free", 3);
    free.set_limit(2).await.unwrap();
    free.acquire().await.unwrap().release().await.unwrap();
    client.latch("open").try_set_count(1).await.unwrap();
    client.latch("open").count_down().await.unwrap();
    let named = client.semaphore("semaphore", 3);
    eventually_async(SOON, async || named.inspect().await.unwrap().waiting == 1).await;

    let mut rows = objects(&call(&server, &["ls", "--json"]));
    rows.sort_by_key(|row| (row["name"].to_string(), row["kind"].to_string()));
    let row = |row: &Value| {
        let field = |name: &str| row[name].as_u64();
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let of = (text("kind"), text("name"), row["owner"].is_string());
        (of, field("holds"), field("waiting"), field("count"))
    };
    let found: Vec<_> = rows.iter().map(row).collect();
    let row = |kind: &str, name: &str, owned, holds, waiting, count| {
        (
            (kind.to_owned(), name.to_owned(), owned),
            Some(holds),
            Some(waiting),
            count,
        )
    };
    let expected = [
        row("latch", "latch", false, 0, 0, Some(4)),
        row("rate", "rate", false, 0, 0, Some(2)),
        row("rw", "rw", false, 2, 0, None),
        row("lock", "same", true, 1, 0, None),
        row("rw", "same", true, 1, 0, None),
        row("semaphore", "semaphore", false, 2, 1, None),
    ];
    assert_eq!(found, expected);
    for (at, most) in [(1, 2 * HOUR), (2, 30_000), (4, 30_000), (5, 30_000)] {
        take_ms(&mut rows[at], "remaining_ms", 10_000, most);
    }

    let only = objects(&call(&server, &["ls", "--json", "--kind", "rw"]));
    assert_eq!(only.len(), 2, "{only:?}");
    assert!(only.iter().all(|row| row["kind"] == "rw"));
    let table = call(&server, &["ls"]);
    let table = text(&table.stdout);
    for part in [
        "kind",
        "4 to count down",
        "2 owed",
        "2 readers",
        "2 permits",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    waiting.abort();
    drop(guards);
}

#[tokio::test]
async fn inspect_tells_of_a_read_write_lock() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let lock = client.rw_lock("x");
    let reading = lock.read().await.unwrap();
    let writer = lock.clone();
    let waiting = tokio::spawn(async move { writer.write().await });
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    let mut object = objects(&call(&server, &["inspect", "x", "--kind", "rw", "--json"])).remove(0);
    let reader = &mut object["readers"][0];
    take_ms(reader, "remaining_ms", 10_000, 30_000);
    take_text(reader, "client");
    let waiter = &mut object["waiters"][0];
    take_ms(waiter, "waited_ms", 0, 20_000);
    take_text(waiter, "client");
    take_text(waiter, "owner");
    let reader = reading.owner().to_string();
    assert_eq!(
        object,
        json!({
            "kind": "rw",
            "name": "x",
            "holders": [],
            "readers": [{ "owner": reader, "client": null, "remaining_ms": null }],
            "waiters": [{ "owner": null, "client": null, "waited_ms": null, "writes": true }],
            "waiting": 1,
        })
    );
    let page = call(&server, &["inspect", "x", "--kind", "rw"]);
    let page = text(&page.stdout);
    for part in ["read by", &reader, ", to write"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    waiting.abort();
}

#[tokio::test]
async fn inspect_tells_of_a_semaphore() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let semaphore = client.semaphore("x", 9);
    let permit = semaphore.acquire_many(2).await.unwrap();
    let inspect = || {
        objects(&call(
            &server,
            &["inspect", "x", "--kind", "semaphore", "--json"],
        ))
        .remove(0)
    };
    // How many there are is known only if it is stored.
    assert_eq!(inspect()["limit"], Value::Null);
    semaphore.set_limit(3).await.unwrap();
    let other = semaphore.clone();
    let waiting = tokio::spawn(async move { other.acquire_many(3).await });
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == 1
    })
    .await;
    let mut object = inspect();
    take_ms(&mut object["permits"][0], "remaining_ms", 10_000, 30_000);
    take_text(&mut object["permits"][0], "client");
    take_ms(&mut object["waiters"][0], "waited_ms", 0, 20_000);
    take_text(&mut object["waiters"][0], "client");
    assert_eq!(
        object,
        json!({
            "kind": "semaphore",
            "name": "x",
            "limit": 3,
            "held": 2,
            "permits": [{ "client": null, "permits": 2, "remaining_ms": null }],
            "waiters": [{ "client": null, "waited_ms": null, "permits": 3 }],
            "waiting": 1,
        })
    );
    let page = call(&server, &["inspect", "x", "--kind", "semaphore"]);
    let page = text(&page.stdout);
    for part in ["2 permits of 3 are held", "for 3 permits"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    waiting.abort();
    drop(permit);
}

#[tokio::test]
async fn inspect_tells_of_latches_and_rates() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    client.latch("x").try_set_count(4).await.unwrap();
    client.latch("x").count_down().await.unwrap();
    let rate = Rate::new(1, Duration::from_millis(HOUR)).burst(2);
    client.rate_limiter("x", rate).acquire(2).await.unwrap();
    let inspect = |name, kind| {
        objects(&call(&server, &["inspect", name, "--kind", kind, "--json"])).remove(0)
    };
    let latch = json!({ "kind": "latch", "name": "x", "count": 3 });
    assert_eq!(inspect("x", "latch"), latch);
    let mut object = inspect("x", "rate");
    take_ms(&mut object, "clears_in_ms", HOUR, 2 * HOUR);
    let owed = json!({ "kind": "rate", "name": "x", "owed": 2, "clears_in_ms": null });
    assert_eq!(object, owed);
    // To look takes nothing.
    assert_eq!(inspect("x", "rate")["owed"], 2);
    for (name, kind, says) in [
        ("x", "latch", "3 are left to count down of x\n"),
        ("y", "latch", "y is open\n"),
        ("x", "rate", "2 permits are owed of x, nothing in 1h"),
        ("y", "rate", "nothing is owed of y\n"),
        ("y", "rw", "nobody holds y\nnobody waits for y\n"),
        ("y", "semaphore", "nobody holds y\nnobody waits for y\n"),
    ] {
        let output = call(&server, &["inspect", name, "--kind", kind]);
        assert_eq!(code(&output), Some(0), "{kind}");
        assert!(
            text(&output.stdout).starts_with(says),
            "{kind}: {}",
            text(&output.stdout)
        );
    }
}

// Red without `hint`.
#[tokio::test]
async fn who_asks_for_another_kind_is_told_of_those_in_use() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    client.latch("x").try_set_count(4).await.unwrap();
    let permit = client.semaphore("x", 3).acquire().await.unwrap();
    let writing = client.rw_lock("x").write().await.unwrap();
    let hint = |kind| format!("lockyard: x is in use as another kind: --kind {kind}\n");
    let output = call(&server, &["inspect", "x"]);
    assert_eq!(text(&output.stdout), "nobody holds x\nnobody waits for x\n");
    let hints = ["rw", "semaphore", "latch"].map(hint).concat();
    assert_eq!(text(&output.stderr), hints);
    let output = call(&server, &["unlock", "x", "--force"]);
    assert_eq!(code(&output), Some(1));
    let nobody = "lockyard: nobody holds x\n";
    // Of what it can take away.
    assert_eq!(text(&output.stderr), nobody.to_owned() + &hint("rw"));
    let output = call(&server, &["inspect", "x", "--kind", "latch"]);
    assert_eq!(text(&output.stderr), "");
    drop((permit, writing));
}
