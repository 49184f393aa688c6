//! The rights that suffice, and what is lost without the one or other.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockyard::fred::types::RespVersion;
use lockyard::fred::types::config::Config;
use lockyard::{Client, ClientOptions, Error, HoldState, Lease, Rate};
use lockyard_testkit::{Server, eventually_async};

use crate::support::{SOON, client, ms, variant};

/// What the connections need, beside AUTH and HELLO, which everybody may.
const CONNECTION: &str =
    "+ping +hello +time +select +client|setname +client|id +subscribe +unsubscribe";
/// What runs and is told.
const SCRIPTS: &str = "+eval +evalsha +publish";
/// What scripts do with data.
const DATA: [&str; 21] = [
    "del",
    "exists",
    "get",
    "hdel",
    "hget",
    "hgetall",
    "hmget",
    "hset",
    "hsetnx",
    "incr",
    "pexpire",
    "pttl",
    "set",
    "zadd",
    "zcard",
    "zcount",
    "zrange",
    "zrem",
    "zremrangebyrank",
    "zremrangebyscore",
    "zscore",
];
/// The keys and channels, for the default prefix.
const PLACES: &str = "~lockyard:* resetchannels &lockyard:*";

fn rights() -> String {
    let data: Vec<String> = DATA.iter().map(|command| format!("+{command}")).collect();
    format!("{PLACES} {CONNECTION} {SCRIPTS} {}", data.join(" "))
}

/// T, after a third of which a waiter looks.
const WAITER_TIMEOUT: Duration = Duration::from_secs(3);

/// A line of an ACL file for a user without any right but these.
fn user(name: &str, rights: &str) -> String {
    format!("user {name} on >secret resetkeys resetchannels -@all {rights}")
}

async fn connect(server: &Server, user: &str, version: RespVersion) -> Result<Client, Error> {
    let mut config = Config::from_url(&format!("{}/0", server.url_for(user, "secret"))).unwrap();
    config.version = version;
    Client::with_options(ClientOptions::from_config(config).waiter_timeout(WAITER_TIMEOUT)).await
}

/// What the server refused this user, as `reason object`.
fn denied(server: &Server, user: &str) -> Vec<String> {
    let log: Vec<std::collections::HashMap<String, lockyard_testkit::redis::Value>> =
        server.query(&["ACL", "LOG", "1000"]).unwrap();
    let text = |value: &lockyard_testkit::redis::Value| {
        lockyard_testkit::redis::from_redis_value_ref::<String>(value).unwrap()
    };
    let log = log.iter().filter(|entry| text(&entry["username"]) == user);
    log.map(|entry| format!("{} {}", text(&entry["reason"]), text(&entry["object"])))
        .collect()
}

/// How long a step may take that fails without one of the rights.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why something failed.
type Failure = String;

fn failure(error: impl std::fmt::Debug) -> Failure {
    format!("{error:?}")
}

fn sure(is_so: bool, what: &str) -> Result<(), Failure> {
    if is_so { Ok(()) } else { Err(what.to_owned()) }
}

async fn in_time<T, E: std::fmt::Debug>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure> {
    tokio::time::timeout(PATIENCE, work)
        .await
        .map_err(failure)?
        .map_err(failure)
}

/// Waits in another task.
fn wait(
    client: &Client,
    name: &str,
) -> tokio::task::JoinHandle<Result<lockyard::LockGuard, Error>> {
    let lock = client
        .lock(name)
        .with_lease(Lease::Renewed(ms(900)))
        .fenced();
    tokio::spawn(async move { lock.acquire().await })
}

async fn queued(client: &Client, name: &str) -> Result<(), Failure> {
    let start = Instant::now();
    while client.lock(name).inspect().await.map_err(failure)?.waiting == 0 {
        sure(start.elapsed() < PATIENCE, "nobody came to wait")?;
        tokio::time::sleep(ms(2)).await;
    }
    Ok(())
}

/// Locks, waits, renews, re-enters, releases, gives up, loses, and passes on by force; and what others do.
async fn everything(
    server: &Server,
    one: &Client,
    two: &Client,
    name: &str,
) -> Result<(), Failure> {
    let lock = one.lock(name).with_lease(Lease::Renewed(ms(900)));
    let key = |part: &str| format!("lockyard:lock{part}:{{{name}}}");
    in_time(lock.acquire())
        .await?
        .release()
        .await
        .map_err(failure)?;
    server.flush_scripts().map_err(failure)?;

    // A last token from the future, so that the next is counted up.
    let future = (server.time_micros().unwrap() + 3_600_000_000).to_string();
    server.command(&["SET", &key(".fence"), &future]).unwrap();
    let guard = in_time(lock.clone().fenced().acquire()).await?;
    sure(
        guard
            .token()
            .is_some_and(|token| token.get().to_string() > future),
        "no token",
    )?;
    server.command(&["DEL", &key(".fence")]).unwrap();
    let waiter = wait(two, name);
    queued(one, name).await?;
    sure(
        in_time(lock.try_acquire_for(ms(20))).await?.is_none(),
        "two hold",
    )?;
    sure(
        tokio::time::timeout(ms(2000), guard.lost()).await.is_err(),
        "it was not renewed",
    )?;
    in_time(guard.release()).await?;
    let guard = in_time(waiter).await?.map_err(failure)?;

    // By force, with somebody waiting.
    let waiter = wait(one, name);
    queued(one, name).await?;
    sure(in_time(lock.force_release()).await?, "nothing was forced")?;
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
    lost.map_err(failure)?;
    let guard = in_time(waiter).await?.map_err(failure)?;
    in_time(guard.release()).await?;

    // One owner, in two clients, several times.
    let owner = one.owner();
    let outer = in_time(lock.clone().with_owner(&owner).acquire()).await?;
    let inner = in_time(lock.clone().with_owner(&owner).acquire()).await?;
    let far = in_time(two.lock(name).reenter(&owner))
        .await?
        .ok_or("not entered")?;
    sure(in_time(lock.hold_count(&owner)).await? == 3, "miscounted")?;
    in_time(inner.release()).await?;
    in_time(far.release()).await?;
    drop(outer);
    eventually_async(SOON, async || !lock.is_locked().await.unwrap_or(true)).await;

    // An administrator deletes it.
    let guard = in_time(lock.acquire()).await?;
    server.command(&["DEL", &key("")]).unwrap();
    tokio::time::timeout(PATIENCE, guard.lost())
        .await
        .map_err(failure)?;
    in_time(two.lock(name).acquire())
        .await?
        .release()
        .await
        .map_err(failure)?;
    sure(!in_time(lock.is_locked()).await?, "somebody is left")?;
    read_and_write(server, one, two, name).await?;
    permit(one, name).await?;
    limit(one, name).await?;
    count_down(server, one, two, name).await
}

/// Sets, counts down, waits and opens.
async fn count_down(
    server: &Server,
    one: &Client,
    two: &Client,
    name: &str,
) -> Result<(), Failure> {
    let latch = two.latch(name);
    let wait = tokio::spawn({
        let latch = one.latch(name).with_life_time(ms(3000));
        sure(in_time(latch.try_set_count(2)).await?, "not set")?;
        async move { latch.wait().await }
    });
    in_time(latch.count_down()).await?;
    let ttl = server.ttl_ms(&format!("lockyard:latch.ops:{{{name}}}"));
    sure(ttl.map_err(failure)? > 0, "kept for ever")?;
    // The second may be refused where the first was not.
    in_time(latch.count_down()).await?;
    in_time(wait).await?.map_err(failure)?;
    // What keeps a second copy of the setting away is gone after one operation timeout.
    eventually_async(SOON, async || {
        let key = format!("lockyard:latch:{{{name}}}");
        server.query::<u64>(&["EXISTS", &key]).unwrap() == 0
    })
    .await;
    // Opened later than a copy could come, it is gone at once.
    let soon_over = one.latch(name).with_life_time(ms(20_000));
    sure(in_time(soon_over.try_set_count(1)).await?, "not set")?;
    server
        .command(&["HSET", &format!("lockyard:latch:{{{name}}}"), "valid", "1"])
        .unwrap();
    in_time(latch.count_down()).await?;
    sure(in_time(latch.count()).await? == 0, "still counting")
}

/// Holds permits, and releases the last of them.
async fn permit(client: &Client, name: &str) -> Result<(), Failure> {
    let semaphore = client.semaphore(name, 2);
    let permit = in_time(semaphore.acquire()).await?;
    in_time(permit.release()).await
}

/// Reads together, after a reader that is gone, and writes alone; goes from one to the other, and loses all by force.
async fn read_and_write(
    server: &Server,
    one: &Client,
    two: &Client,
    name: &str,
) -> Result<(), Failure> {
    let (lock, other) = (one.rw_lock(name), two.rw_lock(name));
    let readers = format!("lockyard:rw.readers:{{{name}}}");
    server.command(&["ZADD", &readers, "1", "gone"]).unwrap();
    let writing = in_time(lock.write()).await?;
    let waiting = tokio::spawn(async move { other.read().await });
    let start = Instant::now();
    while in_time(lock.inspect()).await?.waiting == 0 {
        sure(start.elapsed() < PATIENCE, "nobody came to read")?;
        tokio::time::sleep(ms(2)).await;
    }
    let reading = in_time(writing.downgrade()).await?;
    let beside = in_time(waiting).await?.map_err(failure)?;
    sure(in_time(lock.reader_count()).await? == 2, "miscounted")?;
    in_time(beside.release()).await?;
    let writing = in_time(reading.try_upgrade()).await?;
    in_time(writing.ok_or("not alone")?.release()).await?;
    sure(in_time(lock.force_release()).await?, "nobody read")?;
    let lost = tokio::time::timeout(PATIENCE, reading.lost()).await;
    lost.map_err(failure)
}

/// Takes permits at once, waits for some, and is denied some.
async fn limit(client: &Client, name: &str) -> Result<(), Failure> {
    let limiter = client.rate_limiter(name, Rate::per_second(20).burst(2));
    for _ in 0..3 {
        in_time(limiter.acquire(1)).await?;
    }
    let denied = in_time(limiter.try_acquire(2)).await?;
    let after = denied.retry_after().ok_or("not denied")?;
    // What is owed is then gone, and its key with it.
    tokio::time::sleep(after + ms(110)).await;
    Ok(())
}

#[test]
fn the_documentation_lists_just_these_rights() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/lockyard/src/lib.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split_once("//! # Redis").unwrap().1;
    let section = section.split_once("//! # ").unwrap().0;
    let listed = |text: &str| -> BTreeSet<String> {
        let words = text.split([' ', '`', '\n', '.', ',']);
        let right = |word: &&str| word.starts_with('+');
        words.filter(right).map(str::to_owned).collect()
    };
    assert_eq!(listed(section), listed(&rights()));
    assert!(section.contains("`~lockyard:* &lockyard:*`"));
}

async fn check_suffices(version: RespVersion) {
    let server = Server::builder()
        .acl(user("clerk", &rights()))
        .start()
        .unwrap();
    let one = connect(&server, "clerk", version.clone()).await.unwrap();
    let two = connect(&server, "clerk", version).await.unwrap();
    everything(&server, &one, &two, "x").await.unwrap();
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
    // fred would like to know the server's version, and goes without.
    assert_eq!(denied(&server, "clerk"), ["command info"]);
    assert_eq!(server.keys("*").unwrap(), ["lockyard:lock.fence:{x}"]);
}

// Red when acquire.lua calls TYPE as well.
#[tokio::test]
async fn the_documented_rights_suffice() {
    check_suffices(RespVersion::RESP2).await;
}

#[tokio::test]
async fn the_documented_rights_suffice_with_resp3() {
    check_suffices(RespVersion::RESP3).await;
}

// Red with a right in the list that no script uses, as DEL was.
#[tokio::test]
async fn each_of_the_documented_rights_to_data_is_needed() {
    let mut builder = Server::builder();
    for command in DATA {
        builder = builder.acl(user(command, &format!("{} -{command}", rights())));
    }
    let server = builder.start().unwrap();
    let server = std::rc::Rc::new(server);
    let together = tokio::task::LocalSet::new();
    let without = DATA.map(|command| {
        let server = server.clone();
        together.spawn_local(async move {
            let one = connect(&server, command, RespVersion::RESP2).await.unwrap();
            let two = connect(&server, command, RespVersion::RESP2).await.unwrap();
            everything(&server, &one, &two, command).await.err()
        })
    });
    together.await;
    for (command, failure) in DATA.into_iter().zip(without) {
        let failure = failure.await.unwrap();
        assert!(failure.is_some(), "{command} is not needed");
        let denied = denied(&server, command);
        assert!(
            denied.contains(&format!("command {command}")),
            "{command}: {failure:?} {denied:?}"
        );
    }
}

// Red when only NOPERM counts as a missing right.
#[tokio::test]
async fn a_missing_right_to_data_is_told() {
    // Refused inside the script, where the reply does not begin with NOPERM.
    for (command, fenced) in [("hset", false), ("hgetall", true)] {
        let rights = format!("{} -{command}", rights());
        let server = Server::builder()
            .acl(user("clerk", &rights))
            .start()
            .unwrap();
        let client = connect(&server, "clerk", RespVersion::RESP2).await.unwrap();
        let lock = client.lock("x");
        let lock = if fenced { lock.fenced() } else { lock };
        assert_lacks_right(&lock.acquire().await.unwrap_err());
        assert_lacks_right(&lock.try_acquire().await.unwrap_err());
        assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
    }
}

// Red if `force_release` in core's runtime.rs does not read the answers.
#[tokio::test]
async fn a_release_by_force_without_the_right_to_it_is_refused() {
    let server = Server::builder()
        .acl(user("clerk", &format!("{} -hdel", rights())))
        .start()
        .unwrap();
    let clerk = connect(&server, "clerk", RespVersion::RESP2).await.unwrap();
    let holder = client(&server.url()).await;
    let guard = holder.lock("x").acquire().await.unwrap();
    let refused = async || clerk.lock("x").force_release().await.unwrap_err();
    assert_lacks_right(&refused().await);
    // With somebody waiting, the script goes on after the refusal.
    let waiter = wait(&holder, "x");
    queued(&holder, "x").await.unwrap();
    assert_lacks_right(&refused().await);
    assert!(clerk.lock("x").is_locked().await.unwrap());
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
    let guard = in_time(waiter).await.unwrap().unwrap();
    guard.release().await.unwrap();
}

#[track_caller]
fn assert_lacks_right(error: &Error) {
    assert_eq!(variant(error), "Refused", "{error:?}");
    let advice = "the user lacks a right; the documentation lists the rights";
    assert!(error.to_string().contains(advice), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_key_beyond_the_rights_is_refused_and_told() {
    let elsewhere = rights().replace("~lockyard:*", "~other:*");
    let server = Server::builder()
        .acl(user("clerk", &elsewhere))
        .start()
        .unwrap();
    let client = connect(&server, "clerk", RespVersion::RESP2).await.unwrap();
    let lock = client.lock("x");
    for error in [
        lock.try_acquire().await.err(),
        lock.acquire().await.err(),
        lock.inspect().await.err(),
        lock.force_release().await.err(),
    ] {
        assert_lacks_right(&error.unwrap());
    }
}

/// A lock whose waiters hear nothing is still a lock, and a waiter gets it within `bound`.
async fn check_deaf(rights: &str, version: RespVersion, queues: bool, bound: Duration) {
    let server = Server::builder()
        .acl(user("clerk", rights))
        .start()
        .unwrap();
    let one = connect(&server, "clerk", version.clone()).await.unwrap();
    let two = connect(&server, "clerk", version).await.unwrap();
    let lock = one.lock("x").with_lease(Lease::Renewed(ms(1500)));
    let guard = lock.acquire().await.unwrap();
    assert!(
        two.lock("x")
            .try_acquire_for(ms(50))
            .await
            .unwrap()
            .is_none()
    );
    let other = two.lock("x");
    let waiter = tokio::spawn(async move { other.acquire().await });
    assert!(tokio::time::timeout(ms(700), guard.lost()).await.is_err());
    assert_eq!(guard.state(), HoldState::Held);
    assert!(!waiter.is_finished());
    assert_eq!(lock.inspect().await.unwrap().waiting, u64::from(queues));
    let start = Instant::now();
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiter)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(start.elapsed() < bound, "{:?}", start.elapsed());

    // The holder learns of force at its next check.
    assert!(lock.force_release().await.unwrap());
    let waiting = lock.acquire().await.unwrap();
    waiting.release().await.unwrap();
    drop(guard);
    let guard = lock.acquire().await.unwrap();
    assert!(two.lock("x").force_release().await.unwrap());
    tokio::time::timeout(PATIENCE, guard.lost()).await.unwrap();
    drop(guard);
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

/// Both versions of the protocol spin.
async fn check_spinning(rights: &str) {
    let bound = ms(250) + ms(1500);
    tokio::join!(
        check_deaf(rights, RespVersion::RESP2, false, bound),
        check_deaf(rights, RespVersion::RESP3, false, bound),
    );
}

// Red when a client whose inbox is not confirmed queues.
#[tokio::test]
async fn without_the_right_to_subscribe_it_locks_and_spins() {
    check_spinning(&rights().replace("+subscribe", "")).await;
}

// Red when a client whose inbox is not confirmed queues.
#[tokio::test]
async fn without_a_channel_it_locks_and_spins() {
    check_spinning(&rights().replace("&lockyard:*", "")).await;
}

// Red with `redis.call` instead of `redis.pcall` for PUBLISH.
#[tokio::test]
async fn without_the_right_to_publish_it_locks_and_waiters_look() {
    check_deaf(
        &rights().replace("+publish", ""),
        RespVersion::RESP2,
        true,
        WAITER_TIMEOUT / 3 + ms(1500),
    )
    .await;
}

/// A latch whose waiters hear nothing is still a latch.
async fn check_deaf_latch(rights: &str, version: RespVersion) {
    let server = Server::builder()
        .acl(user("clerk", rights))
        .start()
        .unwrap();
    let one = connect(&server, "clerk", version.clone()).await.unwrap();
    let two = connect(&server, "clerk", version).await.unwrap();
    for _ in 0..2 {
        let (latch, lock) = (one.latch("x"), one.lock("x"));
        latch.try_set_count(1).await.unwrap();
        let waiting = two.latch("x");
        let wait = tokio::spawn(async move { waiting.wait().await });
        // The inbox stands all the same.
        let guard = in_time(lock.acquire()).await.unwrap();
        let waiter = wait_for_lock(&two).await;
        in_time(guard.release()).await.unwrap();
        in_time(waiter)
            .await
            .unwrap()
            .unwrap()
            .release()
            .await
            .unwrap();
        assert!(!wait.is_finished());
        latch.count_down().await.unwrap();
        in_time(wait).await.unwrap().unwrap();
    }
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

async fn wait_for_lock(
    client: &Client,
) -> tokio::task::JoinHandle<Result<lockyard::LockGuard, Error>> {
    let waiter = wait(client, "x");
    queued(client, "x").await.unwrap();
    waiter
}

// Red when a refused channel takes the inbox down, or is taken for one that is heard.
#[tokio::test]
async fn without_the_right_to_its_channel_a_latch_is_looked_at() {
    let rights = rights().replace("&lockyard:*", "&lockyard:inbox:*");
    tokio::join!(
        check_deaf_latch(&rights, RespVersion::RESP2),
        check_deaf_latch(&rights, RespVersion::RESP3),
    );
}

// Red with `redis.call` instead of `redis.pcall` for PUBLISH.
#[tokio::test]
async fn without_the_right_to_publish_a_latch_is_looked_at() {
    let rights = rights().replace("+publish", "");
    check_deaf_latch(&rights, RespVersion::RESP2).await;
}

#[tokio::test]
async fn both_protocol_versions_are_spoken_to_a_server_without_users() {
    let server = Server::start().unwrap();
    let check = async |version: RespVersion, name: &str| {
        let connect = async || {
            let mut config = Config::from_url(&server.url()).unwrap();
            config.version = version.clone();
            let options = ClientOptions::from_config(config);
            Client::with_options(options).await.unwrap()
        };
        let (one, two) = (connect().await, connect().await);
        everything(&server, &one, &two, name).await.unwrap();
    };
    tokio::join!(
        check(RespVersion::RESP2, "two"),
        check(RespVersion::RESP3, "three")
    );
}
