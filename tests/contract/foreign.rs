//! Keys that hold data of another type, which is nobody's but the application's.

use std::time::Duration;

use futures_util::future::join_all;
use lockyard::{Client, ClientOptions, Error, HoldState};
use lockyard_testkit::{Server, eventually_async};

use crate::contract::exclusive::{Exclusive, Guard, Single};
use crate::refusals::{assert_tells, renewed};
use crate::support::{SOON, cache_scripts, connect, ms, soon};

/// Data of an application, which stays as it is.
struct Foreign<'a> {
    server: &'a Server,
    key: String,
}

impl<'a> Foreign<'a> {
    /// Stands at the key, whatever was there before.
    fn put(server: &'a Server, key: &str) -> Self {
        server.command(&["DEL", key]).unwrap();
        server.command(&["RPUSH", key, "some", "data"]).unwrap();
        Self {
            server,
            key: key.to_owned(),
        }
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let data: Vec<String> = self
            .server
            .query(&["LRANGE", &self.key, "0", "-1"])
            .unwrap();
        assert_eq!(data, ["some", "data"], "{}", self.key);
        assert_eq!(self.server.ttl_ms(&self.key).unwrap(), -1, "{}", self.key);
    }

    /// Nothing else is there.
    async fn assert_alone(&self) {
        eventually_async(SOON, async || {
            self.server.keys("*").unwrap() == [&*self.key]
        })
        .await;
        self.assert_untouched();
    }

    fn remove(self) {
        self.server.command(&["DEL", &self.key]).unwrap();
    }
}

#[track_caller]
fn assert_wrong_type<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert_tells(
        &result.unwrap_err(),
        "WrongType",
        "use another name or prefix",
        "WRONGTYPE",
        false,
    );
}

/// Tries all that takes a lock, in all ways.
async fn assert_not_taken<M: Single>(lock: &M) {
    assert_wrong_type(soon(lock.acquire()).await);
    assert_wrong_type(soon(lock.try_acquire()).await);
    assert_wrong_type(soon(lock.try_acquire_for(Duration::ZERO)).await);
    assert_wrong_type(soon(lock.try_acquire_for(SOON * 2)).await);
}

/// What is at a key is told to whoever takes or inspects the lock, and stays as it is.
async fn assert_reported_and_left_alone<M: Single>(key: &str) {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = M::of(&client, "x");
    let foreign = Foreign::put(&server, key);
    for lock in M::of_each_kind(&client, ["x"; 3]) {
        assert_not_taken(&lock).await;
    }
    assert_wrong_type(lock.inspect().await);
    foreign.assert_alone().await;
    foreign.remove();
    lock.acquire().await.unwrap().release().await.unwrap();
}

// Red when the error of a script is answered as text, or WRONGTYPE is like any other error.
pub(crate) async fn foreign_data_at_the_lock_is_reported_and_left_alone<M: Single>() {
    assert_reported_and_left_alone::<M>(&M::key("x")).await;
}

// Red when the script ends at the first of many that fails, and when all are told what befell one.
pub(crate) async fn foreign_data_at_one_of_many_is_reported_to_who_takes_that<M: Single>() {
    let server = Server::start().unwrap();
    cache_scripts(&server);
    let client = Client::connect(&server.url()).await.unwrap();
    let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let foreign = Foreign::put(&server, &M::key("30"));
    let acquire = async |name: &String| M::of(&client, name).acquire().await;
    let before = server.scripts().unwrap();
    let answers = soon(join_all(names.iter().map(acquire))).await;
    // Most went together.
    assert!(server.scripts().unwrap() - before < 20);
    for (name, answer) in names.iter().zip(answers) {
        match &**name {
            "30" => assert_wrong_type(answer),
            _ => answer.unwrap().release().await.unwrap(),
        }
    }
    foreign.assert_alone().await;
}

// Red when WRONGTYPE is like any other error.
pub(crate) async fn foreign_data_is_reported_to_who_asks_about_owners<M: Exclusive>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = M::of(&client, "x");
    let foreign = Foreign::put(&server, &M::key("x"));
    assert_wrong_type(lock.reenter(&client.owner()).await);
    assert_wrong_type(lock.is_locked().await);
    assert_wrong_type(lock.hold_count(&client.owner()).await);
    assert_wrong_type(lock.force_release().await);
    foreign.assert_alone().await;
    foreign.remove();
    let foreign = Foreign::put(&server, &M::part("queue", "x"));
    assert_wrong_type(lock.is_locked().await);
    foreign.assert_alone().await;
}

// Red when WRONGTYPE is like any other error.
pub(crate) async fn foreign_data_at_the_queue_is_reported_and_left_alone<M: Single>() {
    assert_reported_and_left_alone::<M>(&M::part("queue", "x")).await;
}

// Red when `leave` deletes `alive` whatever it is.
pub(crate) async fn foreign_data_among_the_signs_of_life_is_reported_to_who_waits_and_left_alone<
    M: Exclusive,
>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let foreign = Foreign::put(&server, &M::part("alive", "x"));
    for lock in [M::of(&client, "x"), M::of(&client, "x").fenced()] {
        // Who does not wait has nothing to do with it.
        let guard = lock.acquire().await.unwrap();
        assert!(M::of(&other, "x").try_acquire().await.unwrap().is_none());
        assert_wrong_type(soon(M::of(&other, "x").acquire()).await);
        assert_wrong_type(soon(M::of(&other, "x").try_acquire_for(SOON)).await);
        // Their places go in the background.
        eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 0).await;
        foreign.assert_untouched();
        guard.release().await.unwrap();
        foreign.assert_untouched();
        // Nor does a dropped guard, nor one that was lost.
        drop(lock.acquire().await.unwrap());
        eventually_async(SOON, async || !lock.is_locked().await.unwrap()).await;
        foreign.assert_untouched();
        let guard = lock.acquire().await.unwrap();
        assert!(lock.force_release().await.unwrap());
        soon(guard.lost()).await;
        guard.release().await.unwrap_err();
    }
    server.command(&["DEL", &M::part("fence", "x")]).unwrap();
    foreign.assert_alone().await;
}

pub(crate) async fn foreign_data_at_the_fencing_token_is_reported_to_who_wants_one_and_left_alone<
    M: Exclusive,
>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = M::of(&client, "x");
    let foreign = Foreign::put(&server, &M::part("fence", "x"));
    assert_not_taken(&lock.clone().fenced()).await;
    foreign.assert_alone().await;
    let guard = soon(lock.acquire()).await.unwrap();
    assert!(lock.is_locked().await.unwrap());
    assert!(lock.force_release().await.unwrap());
    soon(guard.lost()).await;
    lock.acquire().await.unwrap().release().await.unwrap();
    foreign.assert_alone().await;
}

/// A waiter that stands in the queue when foreign data comes is told, and others get the lock.
async fn check_waiter<M: Single>(key: &str, waiting: impl Fn(&Client) -> M) {
    let server = Server::start().unwrap();
    let quick = |options: ClientOptions| options.waiter_timeout(ms(900));
    let client = connect(&server.url(), quick).await.unwrap();
    let other = connect(&server.url(), quick).await.unwrap();
    let guard = M::of(&client, "x").acquire().await.unwrap();
    let waiting = waiting(&other);
    let waiter = tokio::spawn(async move { waiting.acquire().await });
    let lock = M::of(&client, "x");
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    let foreign = Foreign::put(&server, key);
    // Whatever the release says of the waiter it could not serve, it releases.
    let _ = soon(guard.release()).await;
    assert_wrong_type(soon(waiter).await.unwrap());
    foreign.assert_alone().await;
    foreign.remove();
    for lock in M::of_each_kind(&client, ["x"; 3]) {
        let guard = soon(lock.acquire()).await.unwrap();
        guard.release().await.unwrap();
    }
}

// Red without `pcall` around each id in renew.lua, or when release.lua deletes the key.
pub(crate) async fn a_waiter_is_told_of_foreign_data_at_the_lock<M: Exclusive>() {
    check_waiter::<M>(&M::key("x"), |client| M::of(client, "x")).await;
}

// Red without `pcall` around each id in renew.lua.
pub(crate) async fn a_waiter_is_told_of_foreign_data_at_the_queue<M: Single>() {
    check_waiter::<M>(&M::part("queue", "x"), |client| M::of(client, "x")).await;
}

// Red when `leave` deletes `alive` whatever it is.
pub(crate) async fn a_waiter_is_told_of_foreign_data_among_the_signs_of_life<M: Single>() {
    check_waiter::<M>(&M::part("alive", "x"), |client| M::of(client, "x")).await;
}

// Red without `pcall` around each id in renew.lua.
pub(crate) async fn a_waiter_is_told_of_foreign_data_at_its_fencing_token<M: Exclusive>() {
    check_waiter::<M>(&M::part("fence", "x"), |client| M::of(client, "x").fenced()).await;
}

// Red without `pcall` around each id in renew.lua.
pub(crate) async fn foreign_data_at_one_lock_stops_the_renewal_of_no_other<M: Single>() {
    let server = Server::start().unwrap();
    let client = connect(&server.url(), |options| options.lease(renewed(ms(900))))
        .await
        .unwrap();
    let mut guards = Vec::new();
    for name in ["a", "x", "b", "c"] {
        guards.push(M::of(&client, name).acquire().await.unwrap());
    }
    let foreign = Foreign::put(&server, &M::key("x"));
    soon(guards[1].lost()).await;
    assert!(
        tokio::time::timeout(ms(1800), guards[0].lost())
            .await
            .is_err()
    );
    for (at, guard) in guards.into_iter().enumerate() {
        assert_eq!(
            guard.state(),
            if at == 1 {
                HoldState::Lost
            } else {
                HoldState::Held
            }
        );
        assert_eq!(guard.release().await.is_ok(), at != 1);
    }
    foreign.assert_alone().await;
}

// Red when release.lua deletes the key instead of the hold's field.
pub(crate) async fn a_release_leaves_alone_what_the_application_wrote_over_the_lock<
    M: Exclusive,
>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    for key in [&M::key("x"), &M::part("queue", "x")] {
        for fenced in [false, true] {
            let lock = if fenced {
                M::of(&client, "x").fenced()
            } else {
                M::of(&client, "x")
            };
            let guard = lock.acquire().await.unwrap();
            let foreign = Foreign::put(&server, key);
            let released = soon(guard.release()).await;
            // What stands in the queue's place is no affair of the holder's.
            if *key == M::key("x") {
                assert_wrong_type(released);
            } else {
                released.unwrap();
            }
            foreign.assert_untouched();
            foreign.remove();
            let guard = soon(lock.acquire()).await.unwrap();
            let foreign = Foreign::put(&server, key);
            drop(guard);
            let unlocked = async || {
                server
                    .query::<u64>(&["HLEN", &M::key("x")])
                    .map_or(true, |len| len == 0)
            };
            eventually_async(SOON, unlocked).await;
            foreign.assert_untouched();
            foreign.remove();
            server.command(&["DEL", &M::part("fence", "x")]).unwrap();
        }
    }
    client.shutdown().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

pub(crate) async fn a_plain_text_over_a_held_lock_ends_the_hold_with_its_lease<M: Single>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = M::of(&client, "x").with_lease(renewed(ms(600)));
    let guard = lock.acquire().await.unwrap();
    server.command(&["SET", &M::key("x"), "mine"]).unwrap();
    soon(guard.lost()).await;
    assert!(matches!(
        guard.release().await,
        Err(Error::LeaseLost { .. })
    ));
    assert_wrong_type(lock.acquire().await);
    assert_eq!(
        server.query::<String>(&["GET", &M::key("x")]).unwrap(),
        "mine"
    );
}
