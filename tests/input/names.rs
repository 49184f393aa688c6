//! Names and prefixes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lockyard::Client;
use lockyard_testkit::{Server, eventually_async};

use crate::support::{SOON, connect, ms, variant};

fn good_names() -> Vec<String> {
    let names = [
        "a",
        " ",
        "  a b  ",
        "\0",
        "a\0b",
        "\n",
        "a\nb",
        "a\r\nb",
        "$-1\r\n",
        "\u{1}\u{7f}",
        "naïve",
        "名前",
        "🦀",
        "\u{202e}x",
        "a|b|-|1|2|3",
        "a/b.1",
        "a:b::c",
        "*",
        "?[a-z]",
        "%s%d",
        "\\",
        "\"'",
        "granted 1 x",
        "mode",
        "lockyard:lock:x",
        "lock.queue:x",
        "{b}",
        "order:{42}",
        "{42}:order",
        "a{\0}b",
        "{\r\n}",
    ];
    let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
    names.extend([
        "x".repeat(1024),
        "é".repeat(512),
        format!("{{{}}}", "x".repeat(1022)),
    ]);
    names
}

// Red when names are trimmed.
#[tokio::test]
async fn odd_names_are_locks_of_their_own() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let mut guards = Vec::new();
    for name in good_names() {
        let guard = client.lock(&name).try_acquire().await.unwrap();
        let guard = guard.unwrap_or_else(|| panic!("{name:?} is another name's lock"));
        assert_eq!(guard.name(), name);
        assert!(other.lock(&name).is_locked().await.unwrap(), "{name:?}");
        guards.push(guard);
    }
    for guard in guards {
        let waiting = other.lock(guard.name()).fenced();
        let waiter = tokio::spawn(async move { waiting.acquire().await });
        let lock = client.lock(guard.name());
        eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
        guard.release().await.unwrap();
        tokio::time::timeout(SOON, waiter)
            .await
            .unwrap()
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    let keys = server.query::<Vec<Vec<u8>>>(&["KEYS", "*"]).unwrap();
    assert!(
        keys.iter()
            .all(|key| key.starts_with(b"lockyard:lock.fence:")),
        "{keys:?}"
    );
}

// Red without the length, or with any braces taken.
#[tokio::test]
async fn bad_names_are_refused_by_every_call_before_anything_is_sent() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let before = server.commandstats().unwrap();

    async fn check(client: &Client, name: &str) {
        let lock = client.lock(name);
        let owner = client.owner();
        assert_eq!(lock.name(), name);
        let errors = [
            lock.acquire().await.err(),
            lock.clone().fenced().acquire().await.err(),
            lock.try_acquire().await.err(),
            lock.try_acquire_for(Duration::ZERO).await.err(),
            lock.try_acquire_for(Duration::MAX).await.err(),
            lock.reenter(&owner).await.err(),
            lock.is_locked().await.err(),
            lock.hold_count(&owner).await.err(),
            lock.inspect().await.err(),
            lock.force_release().await.err(),
        ];
        for error in errors {
            let error = error.unwrap_or_else(|| panic!("{name:?} is taken"));
            assert_eq!(variant(&error), "InvalidName", "{name:?}");
            assert!(!error.is_retryable());
            let text = error.to_string();
            assert!(
                text.contains("a name ") || text.contains("braces in a name "),
                "{text}"
            );
            assert!(
                text.len() < 600 && !text.contains('\0') && !text.contains('\n'),
                "{text:?}"
            );
        }
    }
    for name in [
        "", "{", "}", "{}", "}{", "a{", "a}", "a{}", "{}a", "a{b", "a}b{c", "{a}{b}", "{a}b{c}",
        "{{a}}", "{a}}", "{{a}", "{}{a}", "{a}{}", "a}{b}", "{\0", "{\n}}",
    ] {
        check(&client, name).await;
    }
    for name in [
        "x".repeat(1025),
        "é".repeat(513),
        "\0".repeat(1 << 20),
        format!("{{{}}}", "x".repeat(1023)),
    ] {
        check(&client, &name).await;
    }
    let sent = |stats: &BTreeMap<String, u64>| -> u64 {
        let ours = ["eval", "evalsha", "time", "publish", "exists"];
        ours.iter().filter_map(|name| stats.get(*name)).sum()
    };
    assert_eq!(sent(&server.commandstats().unwrap()), sent(&before));
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red when the inbox of another client is guessed by the prefix up to its first colon.
#[tokio::test]
async fn odd_prefixes_are_kept_apart_and_waiters_are_told() {
    let server = Server::start().unwrap();
    let long = "p".repeat(256);
    let prefixes = [
        "",
        ":",
        "::",
        "a:",
        "a:b:",
        " ",
        "\0",
        "\r\n",
        "日本:",
        "*",
        "lockyard:lock.queue:",
        "lockyard:inbox:",
        "%",
        &long,
    ];
    let mut held = Vec::new();
    for prefix in prefixes {
        let client = connect(&server.url(), |options| options.prefix(prefix))
            .await
            .unwrap();
        let other = connect(&server.url(), |options| options.prefix(prefix))
            .await
            .unwrap();
        let guard = client.lock("x").try_acquire().await.unwrap();
        let guard = guard.unwrap_or_else(|| panic!("{prefix:?} is another prefix"));
        assert_eq!(
            server
                .query::<u64>(&["EXISTS", &format!("{prefix}lock:{{x}}")])
                .unwrap(),
            1
        );
        let waiter = tokio::spawn(async move { other.lock("x").acquire().await });
        eventually_async(SOON, async || {
            client.lock("x").inspect().await.unwrap().waiting == 1
        })
        .await;
        let start = Instant::now();
        guard.release().await.unwrap();
        let next = tokio::time::timeout(SOON, waiter)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        // By message, and not by a look after a third of 10 s.
        assert!(
            start.elapsed() < ms(2500),
            "{prefix:?}: {:?}",
            start.elapsed()
        );
        held.push(next);
    }
    for guard in held {
        guard.release().await.unwrap();
    }
    assert_eq!(server.query::<u64>(&["DBSIZE"]).unwrap(), 0);
}
