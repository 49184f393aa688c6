use std::io::{BufRead, BufReader};
use std::process::Stdio;

use lockyard::{Client, ClientOptions, LockGuard};
use lockyard_testkit::{Server, eventually_async};
use serde_json::{Value, json};

use crate::support::{Process, SOON, code, lockyard, output, run, text};
use crate::{call, client, hold, objects, take_ms};

#[tokio::test]
async fn ls_lists_what_is_held_or_waited_for() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let mut held = Vec::new();
    for name in ["b", "a", "order:{42}"] {
        held.push(hold(&client, name).await);
    }
    hold(&client, "free").await.release().await.unwrap();
    let waiter = Process::start(run(&server.url(), &["--name", "b"], ""));
    let lock = client.lock("b");
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;

    let mut rows = objects(&call(&server, &["ls", "--json"]));
    rows.sort_by_key(|row| row["name"].to_string());
    for row in &mut rows {
        take_ms(row, "held_ms", 0, 20_000);
        take_ms(row, "remaining_ms", 10_000, 30_000);
    }
    let row = |name, guard: &LockGuard, waiting| {
        let owner = guard.owner().to_string();
        json!({
            "kind": "lock",
            "name": name,
            "holds": 1,
            "owner": owner,
            "held_ms": null,
            "remaining_ms": null,
            "waiting": waiting,
            "count": null,
        })
    };
    let expected = [
        row("a", &held[1], 0),
        row("b", &held[0], 1),
        row("order:{42}", &held[2], 0),
    ];
    assert_eq!(rows, expected);
    let table = call(&server, &["ls"]);
    let names: Vec<&str> = text(&table.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    assert_eq!(names[1..], ["a", "b", "order:{42}"]);
    drop(waiter);
}

#[tokio::test]
async fn ls_leaves_out_what_is_no_lock_of_this_prefix() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let guard = hold(&client, "x").await;
    let other = ClientOptions::from_url(&server.url())
        .unwrap()
        .prefix("lockyard:shop:");
    let other = Client::with_options(other).await.unwrap();
    let _other = hold(&other, "other").await;
    for key in [
        "lockyard:lock:",
        "lockyard:lock:y",
        "lockyard:lock:{a}{b}",
        "lockyard:locks:{y}",
        "lockXard:lock:{y}",
    ] {
        server.command(&["SET", key, "1"]).unwrap();
    }
    server
        .command(&[&b"SET"[..], b"lockyard:lock:{\xff}", b"1"])
        .unwrap();
    // Its hold has run out, as a crash leaves it; the clock is the server's.
    server
        .command(&[
            "HSET",
            "lockyard:lock:{run out}",
            "67e55044-10b1-426f-9247-bb680e5fe0c8:7/c.1",
            "1:1:1",
        ])
        .unwrap();
    let rows = objects(&call(&server, &["ls", "--json"]));
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["name"], "x");
    // A lock whose key holds other data is told of, and does not hide the others.
    server.command(&["SET", "lockyard:lock:{z}", "1"]).unwrap();
    let output = call(&server, &["ls", "--json"]);
    assert_eq!(code(&output), Some(0));
    assert!(text(&output.stderr).contains(r#"a key of "z" holds data of another type"#));
    assert_eq!(text(&output.stdout).lines().count(), 1);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn ls_tells_of_a_key_that_it_does_not_understand_and_goes_on() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(hold(&client, &number.to_string()).await);
    }
    let key = "lockyard:lock:{foreign}";
    server.command(&["HSET", key, "field", "value"]).unwrap();
    let output = call(&server, &["ls", "--json"]);
    assert_eq!(code(&output), Some(0));
    let errors = text(&output.stderr);
    assert!(
        errors.contains(r#"unexpected reply for "foreign""#),
        "{errors}"
    );
    assert_eq!(text(&output.stdout).lines().count(), 100);
}

#[tokio::test]
async fn a_prefix_is_taken_literally() {
    let server = Server::start().unwrap();
    let mut guards = Vec::new();
    for prefix in ["a*[b]?\\^-:", "axb:", "a*b:"] {
        let options = ClientOptions::from_url(&server.url())
            .unwrap()
            .prefix(prefix);
        let client = Client::with_options(options).await.unwrap();
        guards.push((prefix, hold(&client, prefix).await));
    }
    for (prefix, _) in &guards {
        let rows = objects(&call(&server, &["ls", "--json", "--prefix", prefix]));
        let names: Vec<&Value> = rows.iter().map(|row| &row["name"]).collect();
        assert_eq!(names, [prefix]);
    }
}

#[tokio::test]
async fn ls_lists_no_more_than_its_limit_and_says_so() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let mut guards = Vec::new();
    for number in 0..20 {
        guards.push(hold(&client, &number.to_string()).await);
    }
    let output = call(&server, &["ls", "--json", "--limit", "7"]);
    assert_eq!(code(&output), Some(0));
    assert_eq!(text(&output.stdout).lines().count(), 7);
    assert!(text(&output.stderr).contains("more than 7 names"));
    assert_eq!(
        objects(&call(&server, &["ls", "--json", "--limit", "20"])).len(),
        20
    );
}

#[tokio::test]
async fn ls_finds_few_locks_among_many_keys() {
    let server = Server::start().unwrap();
    let fill = "for i = 1, 20000 do redis.call('SET', 'k' .. i, i) end";
    server.command(&["EVAL", fill, "0"]).unwrap();
    let client = client(&server).await;
    let _guards = [hold(&client, "a").await, hold(&client, "b").await];
    assert_eq!(objects(&call(&server, &["ls", "--json"])).len(), 2);
    // A server's keys are looked at in steps, so that others are not kept waiting.
    assert!(server.commandstats().unwrap()["scan"] >= 20);
}

#[tokio::test]
async fn a_reader_that_has_had_enough_is_no_error() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let mut guards = Vec::new();
    for number in 0..2000 {
        guards.push(hold(&client, &number.to_string()).await);
    }
    let mut command = lockyard(&server.url(), &["ls", "--json", "--limit", "5000"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with('{'), "{first}");
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
    assert_eq!(code(&output), Some(0));
}

#[tokio::test]
async fn only_ls_needs_the_right_to_scan() {
    let server = Server::builder()
        .acl("user ops on >sesame ~lockyard:* &lockyard:* +@all -scan")
        .start()
        .unwrap();
    let url = server.url_for("ops", "sesame");
    for command in [
        &["inspect", "x"][..],
        &["unlock", "x"],
        &["run", "--name", "x", "--", "true"],
    ] {
        let output = output(lockyard(&url, command));
        assert!(
            !text(&output.stderr).contains("permission"),
            "{}",
            text(&output.stderr)
        );
    }
    let output = output(lockyard(&url, &["ls"]));
    assert_eq!(code(&output), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("+scan"), "{errors}");
    assert!(!errors.contains("sesame"), "{errors}");
}
