//! What stands on the server, literally: it is part of semver, for clients of several versions meet there.

use std::time::Duration;

use lockyard::{Client, ClientOptions, Lease, LockGuard};
use lockyard_testkit::{Server, eventually_async};

use crate::scripts::bare::Inbox;

const SOON: Duration = Duration::from_secs(10);

/// Leases and timeouts of lengths of their own, and so long that none is renewed and nobody looks meanwhile:
/// whatever happens here happens by message.
const LEASE: Duration = Duration::from_secs(9000);
const WAITER: Duration = Duration::from_secs(3000);
const FIXED: Duration = Duration::from_secs(600);

async fn client(server: &Server, prefix: &str) -> Client {
    let options = ClientOptions::from_url(&server.url()).unwrap();
    let options = options
        .prefix(prefix)
        .lease(Lease::Renewed(LEASE))
        .waiter_timeout(WAITER);
    Client::with_options(options).await.unwrap()
}

/// Has a client wait for a lock, and returns when it stands in the queue.
async fn wait_in_queue(lock: lockyard::Lock, place: u64) -> tokio::task::JoinHandle<LockGuard> {
    let waiter = lock.clone();
    let waiter = tokio::spawn(async move { waiter.acquire().await.unwrap() });
    eventually_async(SOON, async || {
        lock.inspect().await.unwrap().waiting == place
    })
    .await;
    waiter
}

/// Has a client wait for permits, and returns when it stands in the queue.
async fn wait_for_permits(
    semaphore: lockyard::Semaphore,
    permits: u32,
    place: u64,
) -> tokio::task::JoinHandle<lockyard::SemaphorePermit> {
    let waiter = semaphore.clone();
    let waiter = tokio::spawn(async move { waiter.acquire_many(permits).await.unwrap() });
    eventually_async(SOON, async || {
        semaphore.inspect().await.unwrap().waiting == place
    })
    .await;
    waiter
}

async fn soon<T>(task: tokio::task::JoinHandle<T>) -> T {
    tokio::time::timeout(SOON, task)
        .await
        .expect("no message")
        .unwrap()
}

/// Writes letters for the clients, and words for what is different in each run.
struct Words(Vec<(String, &'static str)>);

impl Words {
    fn read(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (client, letter) in &self.0 {
            text = text.replace(client, letter);
        }
        let mut read = String::new();
        let mut rest = text.as_str();
        while let Some(start) = rest.find(|char: char| char.is_ascii_digit()) {
            let (before, number) = rest.split_at(start);
            let end = number
                .find(|char: char| !char.is_ascii_digit())
                .unwrap_or(number.len());
            let counts = self.0.iter().any(|(_, letter)| {
                before.ends_with(&format!("{letter}:")) || before.ends_with(&format!("{letter}."))
            });
            read += before;
            read += match end {
                13 => "<ms>",
                16 => "<µs>",
                _ if counts => "<n>",
                _ => &number[..end],
            };
            rest = &number[end..];
        }
        read + rest
    }

    /// All keys with their types and contents, and their TTLs rounded up to a hundred seconds.
    fn picture(&self, server: &Server) -> String {
        let mut picture = String::new();
        for key in server.keys("*").unwrap() {
            let kind: String = server.query(&["TYPE", &key]).unwrap();
            let ttl = server.ttl_ms(&key).unwrap();
            assert!(ttl > 0, "{key} has no TTL");
            picture += &format!(
                "{key} ({kind}, {} s)\n",
                (ttl as u64).div_ceil(100_000) * 100
            );
            let pairs: Vec<String> = match kind.as_str() {
                "hash" => server.query(&["HGETALL", &key]).unwrap(),
                "zset" => server
                    .query(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])
                    .unwrap(),
                _ => vec![server.query(&["GET", &key]).unwrap()],
            };
            for pair in pairs.chunks(2) {
                picture += &format!("    {}\n", self.read(&pair.join(" = ")));
            }
        }
        picture
    }
}

// Whoever changes a line of this makes old and new versions of the library misunderstand each other.
#[tokio::test]
async fn keys_values_entries_and_messages_are_what_they_are() {
    let server = Server::start().unwrap();
    let (a, b) = (
        client(&server, "lockyard:").await,
        client(&server, "lockyard:").await,
    );
    let owner = a.owner();
    let (lock, waiting) = (
        a.lock("stock:42").with_owner(&owner).fenced(),
        b.lock("stock:42"),
    );

    let outer = lock.acquire().await.unwrap();
    let inner = lock.acquire().await.unwrap();
    let plain = wait_in_queue(waiting.clone(), 1).await;
    let fenced = waiting.clone().fenced().with_lease(Lease::Fixed(FIXED));
    let fenced = wait_in_queue(fenced, 2).await;
    eventually_async(SOON, async || {
        let counts: Vec<String> = server
            .query(&["HVALS", "lockyard:lock:{stock:42}"])
            .unwrap();
        counts[0].starts_with("2:")
    })
    .await;

    let info = lock.inspect().await.unwrap();
    let (a_id, b_id) = (
        info.holders[0].client.clone(),
        info.waiters[0].client.clone(),
    );
    let mut inboxes =
        [&a_id, &b_id].map(|id| Inbox::open(&server.url(), &format!("lockyard:inbox:{id}")));
    let words = Words(vec![(a_id, "A"), (b_id, "B")]);
    assert_eq!(
        words.picture(&server),
        "\
lockyard:lock.alive:{stock:42} (zset, 3000 s)
    B = <ms>
lockyard:lock.fence:{stock:42} (string, 86400 s)
    <µs>
lockyard:lock.queue:{stock:42} (zset, 3000 s)
    B:<n>/B.<n>|-|1|9000000|3000000 = <µs>
    B:<n>/B.<n>|f|1|600000|600000 = <µs>
lockyard:lock:{stock:42} (hash, 9000 s)
    A:<n>/A.<n> = 2:<ms>:<ms>:<µs>
"
    );
    let token: u64 = server
        .query(&["GET", "lockyard:lock.fence:{stock:42}"])
        .unwrap();
    assert_eq!(outer.token().unwrap().get(), token);

    inner.release().await.unwrap();
    outer.release().await.unwrap();
    let plain = soon(plain).await;
    assert_eq!(
        words.read(&inboxes[1].next()),
        "granted <µs> B:<n>/B.<n>|-|1|9000000|3000000"
    );
    assert_eq!(
        words.picture(&server),
        "\
lockyard:lock.alive:{stock:42} (zset, 3000 s)
    B = <ms>
lockyard:lock.fence:{stock:42} (string, 86400 s)
    <µs>
lockyard:lock.queue:{stock:42} (zset, 3000 s)
    B:<n>/B.<n>|f|1|600000|600000 = <µs>
lockyard:lock:{stock:42} (hash, 3000 s)
    B:<n>/B.<n> = 1:<ms>:<ms>
"
    );

    plain.release().await.unwrap();
    let fenced = soon(fenced).await;
    let message = inboxes[1].next();
    assert_eq!(
        words.read(&message),
        "granted <µs> B:<n>/B.<n>|f|1|600000|600000:<µs>"
    );
    let token = fenced.token().unwrap().to_string();
    assert!(message.ends_with(&format!(":{token}")));
    assert!(lock.force_release().await.unwrap());
    assert_eq!(words.read(&inboxes[1].next()), "revoked B:<n>/B.<n>");
    tokio::time::timeout(SOON, fenced.lost()).await.unwrap();
    assert_eq!(
        words.picture(&server),
        "\
lockyard:lock.fence:{stock:42} (string, 86400 s)
    <µs>
"
    );
    assert_eq!(inboxes[0].drain(&server), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_latch_keeps_and_says_is_what_it_is() {
    let server = Server::start().unwrap();
    let client = client(&server, "lockyard:").await;
    let latch = client.latch("order:{42}");
    let channel = "lockyard:latch.open:order:{42}";
    let mut inbox = Inbox::open(&server.url(), channel);
    let guard = client.lock("x").acquire().await.unwrap();
    let name = guard.owner().to_string();
    let words = Words(vec![(name.split(':').next().unwrap().to_owned(), "A")]);
    guard.release().await.unwrap();
    latch.try_set_count(7).await.unwrap();
    latch.count_down_by(3).await.unwrap();
    assert_eq!(
        words.picture(&server),
        "\
lockyard:latch.ops:order:{42} (hash, 2592000 s)
    A = 3
lockyard:latch:order:{42} (hash, 2592000 s)
    count = 4
    incarnation = A.<n>
    valid = <µs>
"
    );
    latch.count_down_by(4).await.unwrap();
    assert_eq!(words.read(&inbox.next()), "open A.<n>");
    // For as long as a second copy of the setting might come.
    assert_eq!(
        words.picture(&server),
        "\
lockyard:latch:order:{42} (hash, 100 s)
    count = 0
    incarnation = A.<n>
    valid = <µs>
"
    );
}

// The debt is in permits, the interval in µs a permit.
#[tokio::test]
async fn what_a_limiter_keeps_is_what_it_is() {
    let server = Server::start().unwrap();
    let client = client(&server, "lockyard:").await;
    let rate = lockyard::Rate::per_hour(3).burst(7);
    client
        .rate_limiter("order:{42}", rate)
        .acquire(2)
        .await
        .unwrap();
    assert_eq!(
        Words(Vec::new()).picture(&server),
        "\
lockyard:rate:order:{42} (hash, 2400 s)
    at = <µs>
    debt = 2
    interval = 1200000000
"
    );
}

// As above.
#[tokio::test]
async fn keys_values_entries_and_messages_of_readers_and_writers_are_what_they_are() {
    let server = Server::start().unwrap();
    let (a, b) = (
        client(&server, "lockyard:").await,
        client(&server, "lockyard:").await,
    );
    let (lock, waiting) = (a.rw_lock("stock:42"), b.rw_lock("stock:42"));
    let queued = async |place: u64| {
        eventually_async(SOON, async || {
            lock.inspect().await.unwrap().waiting == place
        })
        .await;
    };

    let writing = lock.clone().fenced().write().await.unwrap();
    let fixed = waiting.clone().with_lease(Lease::Fixed(FIXED));
    let reader = tokio::spawn(async move { fixed.read().await.unwrap() });
    queued(1).await;
    let telling = waiting.clone().fenced();
    let telling = tokio::spawn(async move { telling.read().await.unwrap() });
    queued(2).await;
    let next = waiting.clone();
    let next = tokio::spawn(async move { next.write().await.unwrap() });
    queued(3).await;
    let info = lock.inspect().await.unwrap();
    let (a_id, b_id) = (
        info.writers[0].client.clone(),
        info.waiters[0].client.clone(),
    );
    let mut inbox = Inbox::open(&server.url(), &format!("lockyard:inbox:{b_id}"));
    let words = Words(vec![(a_id, "A"), (b_id, "B")]);
    assert_eq!(
        words.picture(&server),
        "\
lockyard:rw.alive:{stock:42} (zset, 3000 s)
    B = <ms>
lockyard:rw.fence:{stock:42} (string, 86400 s)
    <µs>
lockyard:rw.queue:{stock:42} (zset, 3000 s)
    B:<n>/B.<n>|r|1|600000|600000 = <µs>
    B:<n>/B.<n>|s|1|9000000|3000000 = <µs>
    B:<n>/B.<n>|-|1|9000000|3000000 = <µs>
lockyard:rw:{stock:42} (hash, 9000 s)
    A:<n>/A.<n> = 1:<ms>:<ms>:<µs>
"
    );

    writing.release().await.unwrap();
    let (reader, telling) = (soon(reader).await, soon(telling).await);
    assert_eq!(
        words.read(&inbox.next()),
        "granted <µs> B:<n>/B.<n>|r|1|600000|600000 B:<n>/B.<n>|s|1|9000000|3000000:<µs>"
    );
    assert_eq!(
        words.picture(&server),
        "\
lockyard:rw.alive:{stock:42} (zset, 3000 s)
    B = <ms>
lockyard:rw.fence:{stock:42} (string, 86400 s)
    <µs>
lockyard:rw.queue:{stock:42} (zset, 3000 s)
    B:<n>/B.<n>|-|1|9000000|3000000 = <µs>
lockyard:rw.readers:{stock:42} (zset, 3000 s)
    B:<n>/B.<n> = <ms>
    B:<n>/B.<n> = <ms>
"
    );

    assert!(lock.force_release().await.unwrap());
    let mut told = [inbox.next(), inbox.next(), inbox.next()].map(|text| words.read(&text));
    told.sort();
    assert_eq!(
        told,
        [
            "granted <µs> B:<n>/B.<n>|-|1|9000000|3000000",
            "revoked B:<n>/B.<n>",
            "revoked B:<n>/B.<n>"
        ]
    );
    tokio::time::timeout(SOON, async { tokio::join!(reader.lost(), telling.lost()) })
        .await
        .unwrap();
    soon(next).await.release().await.unwrap();
    assert_eq!(
        words.picture(&server),
        "\
lockyard:rw.fence:{stock:42} (string, 86400 s)
    <µs>
"
    );
}

// As above: the sum of the permits is a cache, and an entry's kind is how many its handle names.
#[tokio::test]
async fn keys_values_entries_and_messages_of_a_semaphore_are_what_they_are() {
    let server = Server::start().unwrap();
    let (a, b) = (
        client(&server, "lockyard:").await,
        client(&server, "lockyard:").await,
    );
    let (api, waiting) = (a.semaphore("stock:42", 7), b.semaphore("stock:42", 5));

    let held = api.acquire_many(4).await.unwrap();
    let fixed = waiting.clone().with_lease(Lease::Fixed(FIXED));
    let two = wait_for_permits(fixed, 2, 1).await;
    let three = wait_for_permits(waiting, 3, 2).await;
    let info = api.inspect().await.unwrap();
    let (a_id, b_id) = (
        info.permits[0].client.clone(),
        info.waiters[0].client.clone(),
    );
    let mut inbox = Inbox::open(&server.url(), &format!("lockyard:inbox:{b_id}"));
    let words = Words(vec![(a_id, "A"), (b_id, "B")]);
    assert_eq!(
        words.picture(&server),
        "\
lockyard:semaphore.alive:{stock:42} (zset, 3000 s)
    B = <ms>
lockyard:semaphore.permits:{stock:42} (zset, 9000 s)
    A:<n>/A.<n>|4 = <ms>
lockyard:semaphore.queue:{stock:42} (zset, 3000 s)
    B:<n>/B.<n>|5|2|600000|600000 = <µs>
    B:<n>/B.<n>|5|3|9000000|3000000 = <µs>
lockyard:semaphore:{stock:42} (string, 9100 s)
    4
"
    );

    api.set_limit(6).await.unwrap();
    let two = soon(two).await;
    assert_eq!(
        words.read(&inbox.next()),
        "granted <µs> B:<n>/B.<n>|5|2|600000|600000"
    );
    let (one, other) = two.split(1).await.unwrap();
    assert_eq!(
        words.picture(&server),
        "\
lockyard:semaphore.alive:{stock:42} (zset, 3000 s)
    B = <ms>
lockyard:semaphore.limit:{stock:42} (string, 2592000 s)
    6
lockyard:semaphore.permits:{stock:42} (zset, 9000 s)
    B:<n>/B.<n>|1 = <ms>
    B:<n>/B.<n>|1 = <ms>
    A:<n>/A.<n>|4 = <ms>
lockyard:semaphore.queue:{stock:42} (zset, 3000 s)
    B:<n>/B.<n>|5|3|9000000|3000000 = <µs>
lockyard:semaphore:{stock:42} (string, 9100 s)
    6
"
    );

    held.release().await.unwrap();
    let three = soon(three).await;
    assert_eq!(
        words.read(&inbox.next()),
        "granted <µs> B:<n>/B.<n>|5|3|9000000|3000000"
    );
    other.forget().await.unwrap();
    for permit in [one, three] {
        permit.release().await.unwrap();
    }
    assert_eq!(
        words.picture(&server),
        "\
lockyard:semaphore.limit:{stock:42} (string, 2592000 s)
    5
"
    );
    assert_eq!(inbox.drain(&server), Vec::<String>::new());
}

// An owner outside any scope is named after its only hold.
#[tokio::test]
async fn an_anonymous_owner_has_the_number_of_its_hold() {
    let server = Server::start().unwrap();
    let client = client(&server, "lockyard:").await;
    let guard = client.lock("x").acquire().await.unwrap();
    let holds: Vec<String> = server.query(&["HKEYS", "lockyard:lock:{x}"]).unwrap();
    let (owner, local) = holds[0].split_once('/').unwrap();
    assert_eq!(owner, guard.owner().to_string());
    assert_eq!(owner.replace(':', "."), local);
}

// Red without the tag, and when a name that brings one is changed.
#[tokio::test]
async fn a_name_is_tagged_whole_unless_it_brings_a_tag() {
    let server = Server::start().unwrap();
    let names = [
        ("stock:42", "lock:{stock:42}"),
        ("order:{42}", "lock:order:{42}"),
        ("{42}:lines", "lock:{42}:lines"),
        ("a:{b:c}:d", "lock:a:{b:c}:d"),
        ("two words|1/2.3", "lock:{two words|1/2.3}"),
    ];
    for prefix in ["lockyard:", "app:prod:", ""] {
        let client = client(&server, prefix).await;
        for (name, key) in names {
            let guard = client.lock(name).acquire().await.unwrap();
            assert_eq!(server.keys("*").unwrap(), [format!("{prefix}{key}")]);
            guard.release().await.unwrap();
        }
    }
}

// Red when the inbox's prefix is always the default one.
#[tokio::test]
async fn parts_carry_the_prefix_and_the_tag_of_their_lock() {
    let server = Server::start().unwrap();
    let client = client(&server, "app:prod:").await;
    let lock = client.lock("order:{42}");
    let guard = lock.clone().fenced().acquire().await.unwrap();
    let waiter = wait_in_queue(lock, 1).await;
    let parts = ["lock.alive", "lock.fence", "lock.queue", "lock"];
    assert_eq!(
        server.keys("*").unwrap(),
        parts.map(|part| format!("app:prod:{part}:order:{{42}}"))
    );
    let channels: Vec<String> = server.query(&["PUBSUB", "CHANNELS", "*"]).unwrap();
    let holder = client
        .lock("order:{42}")
        .inspect()
        .await
        .unwrap()
        .holders
        .remove(0)
        .client;
    assert_eq!(channels, [format!("app:prod:inbox:{holder}")]);
    guard.release().await.unwrap();
    soon(waiter).await.release().await.unwrap();
}

// `x` is tagged whole, and `{x}` brings that tag: it is one key, and meant to be.
#[tokio::test]
async fn a_name_and_the_same_name_in_braces_are_one_lock() {
    let server = Server::start().unwrap();
    let client = client(&server, "lockyard:").await;
    let guard = client.lock("x").acquire().await.unwrap();
    assert!(client.lock("{x}").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

// Red when kind and part are joined with a colon.
#[tokio::test]
async fn no_name_hits_a_key_of_another_lock() {
    let server = Server::start().unwrap();
    let client = client(&server, "lockyard:").await;
    let lock = client.lock("x");
    let guard = lock.clone().fenced().acquire().await.unwrap();
    let waiter = wait_in_queue(lock, 1).await;
    let names = [
        "queue:{x}",
        ".queue:{x}",
        "lock.queue:{x}",
        "lockyard:lock.queue:{x}",
        "{x}.queue",
        "{x}:queue",
        "{x}:fence",
        "lock.alive:{x}",
        "fence:{x}",
        "lock:{x}",
        "x.queue",
        "x:queue",
        "inbox:x",
    ];
    let mut guards = Vec::new();
    for name in names {
        let guard = client.lock(name).fenced().try_acquire().await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("{name:?} is held")));
    }
    guard.release().await.unwrap();
    soon(waiter).await.release().await.unwrap();
    for guard in guards {
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn locks_of_two_prefixes_have_nothing_to_do_with_each_other() {
    let server = Server::start().unwrap();
    let (a, b) = (client(&server, "a:").await, client(&server, "a:b:").await);
    let (one, two) = (a.lock("x"), b.lock("x"));
    let first = one.acquire().await.unwrap();
    let second = two
        .try_acquire()
        .await
        .unwrap()
        .expect("the other prefix's lock is free");
    let waiters = (
        wait_in_queue(one.clone(), 1).await,
        wait_in_queue(two.clone(), 1).await,
    );
    first.release().await.unwrap();
    let first = soon(waiters.0).await;
    assert_eq!(two.inspect().await.unwrap().waiting, 1);
    assert!(one.force_release().await.unwrap());
    tokio::time::timeout(SOON, first.lost()).await.unwrap();
    assert!(!second.is_lost());
    second.release().await.unwrap();
    soon(waiters.1).await.release().await.unwrap();
}

// Messages know no databases: they go to a client, and each client is in one.
#[tokio::test]
async fn locks_of_two_databases_have_nothing_to_do_with_each_other() {
    let server = Server::start().unwrap();
    let client = async |database: u32| {
        let options = ClientOptions::from_url(&format!("{}/{database}", server.url())).unwrap();
        Client::with_options(options.waiter_timeout(WAITER))
            .await
            .unwrap()
    };
    let (one, two) = (client(0).await.lock("x"), client(1).await.lock("x"));
    let first = one.acquire().await.unwrap();
    let second = two
        .try_acquire()
        .await
        .unwrap()
        .expect("the other database's lock is free");
    let waiters = (
        wait_in_queue(one.clone(), 1).await,
        wait_in_queue(two.clone(), 1).await,
    );
    second.release().await.unwrap();
    soon(waiters.1).await.release().await.unwrap();
    assert_eq!(one.inspect().await.unwrap().waiting, 1);
    first.release().await.unwrap();
    soon(waiters.0).await.release().await.unwrap();
}

// Names and prefixes may look like entries and messages, for nothing is ever read out of a key or a channel.
// Red when a message is not what its client expects, down to the weight.
#[tokio::test]
async fn no_name_or_prefix_confuses_a_message() {
    let server = Server::start().unwrap();
    let names = [
        "app:prod:x",
        "a|f|1|1|1",
        "a/b.c",
        "granted 1 x",
        "revoked x",
        "*",
        "%s %d",
        "nul\0",
        "line\r\nbreak",
        " ",
        "größe 🦀",
        &"long".repeat(256),
    ];
    for prefix in ["app:prod:", "a|b/c.d e\r\n\0:", "inbox:", "[*]?^$%"] {
        let (a, b) = (client(&server, prefix).await, client(&server, prefix).await);
        for name in names {
            let (mine, other) = (a.lock(name), b.lock(name));
            let guard = mine.acquire().await.unwrap();
            let waiter = wait_in_queue(other.clone().fenced(), 1).await;
            guard.release().await.unwrap();
            let guard = soon(waiter).await;
            assert!(guard.token().is_some());
            assert!(mine.force_release().await.unwrap(), "{prefix:?} {name:?}");
            tokio::time::timeout(SOON, guard.lost())
                .await
                .expect("revoked");
        }
    }
}
