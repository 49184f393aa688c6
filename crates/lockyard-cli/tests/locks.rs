//! `lockyard ls`, `inspect`, `unlock` and `completions` from outside.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

mod support;

/// One lock, as JSON and for people.
#[path = "locks/inspect.rs"]
mod inspect;

/// All locks under a prefix, and what is none.
#[path = "locks/ls.rs"]
mod ls;

/// Read-write locks, semaphores, latches and rate limiters.
#[path = "locks/kinds.rs"]
mod kinds;

/// A lock taken away, or not.
#[path = "locks/unlock.rs"]
mod unlock;

/// What all of them refuse, and the completions.
#[path = "locks/errors.rs"]
mod errors;

use std::process::Output;

use lockyard::{Client, LockGuard};
use lockyard_testkit::Server;
use serde_json::Value;

use crate::support::{lockyard, output, text};

fn call(server: &Server, arguments: &[&str]) -> Output {
    output(lockyard(&server.url(), arguments))
}

/// The objects on standard output, one a line.
#[track_caller]
fn objects(output: &Output) -> Vec<Value> {
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn fields(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Takes a number out, which is to be between these.
#[track_caller]
fn take_ms(object: &mut Value, field: &str, least: u64, most: u64) {
    let ms = object[field].take().as_u64().unwrap();
    assert!((least..=most).contains(&ms), "{field}: {ms}");
}

/// Takes a text out, which cannot be foreseen.
fn take_text(object: &mut Value, field: &str) -> String {
    let text = object[field].take();
    text.as_str().unwrap().to_owned()
}

async fn client(server: &Server) -> Client {
    Client::connect(&server.url()).await.unwrap()
}

async fn hold(client: &Client, name: &str) -> LockGuard {
    client.lock(name).acquire().await.unwrap()
}
