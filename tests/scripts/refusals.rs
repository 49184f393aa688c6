use lockyard_testkit::Server;
use lockyard_testkit::redis::RedisResult;

use super::bare::{Acquired, Bare, Id, LEASE, NEVER, Renewed, batch, id};

/// Three locks, each with a hold and a waiter that lives; a key of the second then has another type.
struct Three {
    locks: [Bare; 3],
    holder: Id,
    waiter: Id,
}

fn three(server: &Server) -> Three {
    let prefix = lockyard_testkit::fresh_prefix();
    let lock = |name| Bare::named(&server.url(), &prefix, name);
    let locks = [lock("one"), lock("two"), lock("three")];
    let (holder, waiter) = (id("h:1", "h", 1).fenced(), id("w:1", "w", 2).fenced());
    for lock in &locks {
        lock.acquire(&holder, "try");
        lock.acquire(&waiter, "wait");
    }
    Three {
        locks,
        holder,
        waiter,
    }
}

impl Three {
    fn spoil(&self, server: &Server, part: usize) {
        let key = &self.locks[1].keys[part];
        server.command(&["DEL", key]).unwrap();
        server.command(&["RPUSH", key, "another", "type"]).unwrap();
    }

    fn holder_of(&self, lock: usize) -> Vec<String> {
        self.locks[lock].held()
    }
}

// Red without `pcall` round each id in renew.lua.
#[test]
fn a_key_of_another_type_leaves_the_other_renewals_of_a_batch_unharmed() {
    let server = Server::start().unwrap();
    for part in 0..4 {
        let three = three(&server);
        three.spoil(&server, part);
        let [one, two, last] = &three.locks;
        let entry = |lock| (lock, &three.holder, 2 * LEASE, 7);
        let renewed = one.renew_all(&[entry(one), entry(two), entry(last)]);
        assert!(
            matches!(renewed.each[0], Renewed::Held(_))
                && matches!(renewed.each[2], Renewed::Held(_))
        );
        match &renewed.each[1] {
            Renewed::Error(error) => assert!(
                part == 0 && error.starts_with("WRONGTYPE"),
                "{part}: {error}"
            ),
            // A hold does not mind what its queue looks like.
            answer => assert!(
                part > 0 && matches!(answer, Renewed::Held(_)),
                "{part}: {answer:?}"
            ),
        }
        for lock in [one, last] {
            assert!(
                lock.holds()[&three.holder.hold()].starts_with("7:"),
                "{part}"
            );
        }
    }
}

// Red without `pcall` round each id in renew.lua.
#[test]
fn a_key_of_another_type_leaves_the_other_looks_of_a_batch_unharmed() {
    let server = Server::start().unwrap();
    for part in 0..4 {
        let three = three(&server);
        let [one, two, last] = &three.locks;
        for lock in &three.locks {
            lock.expire(&three.holder.hold());
        }
        three.spoil(&server, part);
        let look = |lock| (lock, &three.waiter, LEASE, 1);
        let looks = one.renew_all(&[look(one), look(two), look(last)]);
        assert!(
            matches!(&looks.each[0], Renewed::Held(token) if token.len() > 1),
            "{part}: {looks:?}"
        );
        assert!(
            matches!(&looks.each[2], Renewed::Held(token) if token.len() > 1),
            "{part}: {looks:?}"
        );
        let told =
            matches!(&looks.each[1], Renewed::Error(error) if error.starts_with("WRONGTYPE"));
        assert!(told, "{part}: {looks:?}");
    }
}

// Red without `pcall` round each lock in release.lua, and without that round `grant`.
#[test]
fn a_key_of_another_type_leaves_the_other_releases_of_a_batch_unharmed() {
    let server = Server::start().unwrap();
    for part in 0..4 {
        let three = three(&server);
        let [one, two, last] = &three.locks;
        let _inbox = one.inbox(&server.url(), "w");
        three.spoil(&server, part);
        let entry = three.holder.entry();
        let entries: &[&str] = &[&entry];
        let released = one.try_release(&[(one, entries), (two, entries), (last, entries)]);
        // What stands in the way of a grant is no affair of the holder's.
        let second = if part == 0 { -1 } else { 1 };
        let each = vec![1, second, 1];
        assert_eq!(released.unwrap(), batch(&each), "{part}");
        for lock in [0, 2] {
            assert_eq!(three.holder_of(lock), [three.waiter.hold()], "{part}");
        }
        // Whatever the error was, the hold itself is gone.
        if part > 0 {
            assert_eq!(three.holder_of(1), Vec::<String>::new(), "{part}");
        }
    }
}

// Red when release.lua answers the text of an error, and when the last waiter's leaving takes `alive` by DEL.
#[test]
fn a_key_of_another_type_is_an_error_for_one_lock_and_stays_as_it_is() {
    let server = Server::start().unwrap();
    for part in 0..4 {
        let lock = Bare::new(&server.url());
        let (holder, waiter) = (id("h:1", "h", 1), id("w:1", "w", 2).fenced());
        lock.acquire(&holder, "try");
        lock.acquire(&waiter, "wait");
        let key = &lock.keys[part];
        server.command(&["DEL", key]).unwrap();
        server.command(&["RPUSH", key, "another", "type"]).unwrap();

        // Its place may be there all the same; a client releases an id whose acquire has failed.
        let late = id("z:1", "z", 3);
        let queued = lock.acquire_late(&late, "wait", NEVER, 0);
        assert_eq!(is_wrong_type(queued), part < 3, "{key}");
        let [entry, first, second] = [holder, waiter, late].map(|id| id.entry());
        let release = |entries: &[&str]| lock.try_release(&[(&lock, entries)]);
        let forced = release(&["!h:1/h.9"]);
        let released = release(&[&entry]);
        let left = release(&[&first, &second]);
        assert_eq!(is_wrong_type(forced), part == 0, "{key}");
        assert_eq!(is_wrong_type(released), part == 0, "{key}");
        assert_eq!(is_wrong_type(left), part < 2, "{key}");

        let stays: Vec<String> = lock.command(&["LRANGE", key, "0", "-1"]).unwrap();
        assert_eq!(stays, ["another", "type"], "{key}");
    }
}

fn is_wrong_type<T>(answer: RedisResult<T>) -> bool {
    answer.is_err_and(|error| error.code() == Some("WRONGTYPE"))
}

// Red with `flags=allow-oom` at acquire.lua, and without it at renew.lua and release.lua.
#[test]
fn a_full_server_refuses_acquires_and_lets_go_on_what_is_there() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let free = Bare::new(&server.url());
    let (one, two, three) = (
        id("a:1", "c", 1).fenced(),
        id("b:1", "d", 2).fenced(),
        id("e:1", "e", 3),
    );
    let mut inbox = lock.inbox(&server.url(), "d");
    lock.acquire(&one, "try");
    lock.acquire(&two, "wait");
    server.fill().unwrap();

    let before = (lock.dump(), free.dump());
    for lock in [&lock, &free] {
        for mode in ["try", "wait", "reenter"] {
            let error = lock.acquire_late(&three, mode, NEVER, 0).unwrap_err();
            assert_eq!(error.code(), Some("OOM"), "{mode}: {error}");
        }
    }
    assert_eq!((lock.dump(), free.dump()), before);

    // The hold is renewed, the waiter looks, and is granted when the hold is released.
    assert!(matches!(
        lock.renew(&[&one, &two]).each[..],
        [Renewed::Held(_), Renewed::Queued]
    ));
    assert_eq!(lock.release(&one), batch(&[1]));
    assert!(inbox.next().starts_with("granted "));
    assert!(matches!(lock.renew(&[&two]).each[..], [Renewed::Held(_)]));
    assert_eq!(lock.force(&lock.held()), batch(&[1]));
    assert_eq!(inbox.next(), format!("revoked {}", two.hold()));
    server.unfill().unwrap();
    assert_eq!(lock.acquire(&three, "try"), Acquired::Held(String::new()));
}

// Red with `redis.call` in place of `redis.pcall` for PUBLISH.
#[test]
fn without_the_right_to_publish_a_release_leaves_the_waiter_queued() {
    let rights = ["-publish &*", "+publish resetchannels"];
    for right in rights {
        let server = Server::builder()
            .acl(format!("user mute on >pw ~* +@all {right}"))
            .start()
            .unwrap();
        let mute = Bare::new(&server.url_for("mute", "pw"));
        let (one, two) = (id("a:1", "c", 1), id("b:1", "d", 2).fenced());
        let mut inbox = mute.inbox(&server.url(), "d");
        mute.acquire(&one, "try");
        mute.acquire(&two, "wait");

        assert_eq!(mute.release(&one), batch(&[1]), "{right}");
        assert_eq!(
            (mute.holds().len(), mute.queue()),
            (0, vec![two.entry()]),
            "{right}"
        );
        assert_eq!(
            mute.acquire(&id("e:1", "e", 3), "try"),
            Acquired::Busy,
            "{right}"
        );

        // It finds out by looking; and a hold is released by force without a word.
        assert!(
            matches!(mute.renew(&[&two]).each[..], [Renewed::Held(_)]),
            "{right}"
        );
        assert_eq!(mute.force(&mute.held()), batch(&[1]), "{right}");
        assert_eq!(inbox.drain(&server), Vec::<String>::new(), "{right}");
    }
}
