use lockyard_testkit::Server;

use super::bare::{Acquired, Bare, LEASE, NEVER, Renewed, batch, id};

fn held() -> Acquired {
    Acquired::Held(String::new())
}

fn number(token: &str) -> u64 {
    token.strip_prefix(':').unwrap().parse().unwrap()
}

/// Values that no script has written; a hold without a deadline would keep the lock for ever.
const GARBAGE: [&str; 14] = [
    "", ":", "::", "1", "1:", "1::", "1:abc:5", "x:9:5", "1:-9:5", "1:1e99:5", "1:nan:5",
    "1:0x9:5", " 1:9:5", "1:9",
];

// Red when `prune` leaves what it cannot read.
#[test]
fn a_hold_with_a_garbage_value_is_removed() {
    let server = Server::start().unwrap();
    for value in GARBAGE {
        for mode in ["try", "wait"] {
            let lock = Bare::new(&server.url());
            let garbage = id("g:1", "g", 1);
            lock.set_value(&garbage.hold(), value);
            let one = id("a:1", "c", 1);
            assert_eq!(lock.acquire(&one, mode), held(), "{mode} over {value:?}");
            assert_eq!(lock.held(), [one.hold()]);
        }
    }
}

// In a value that lacks its end the deadline may be good: it must not spoil the answers for the others.
// Red when `prune` reads no further than the deadline.
#[test]
fn a_hold_whose_value_was_cut_off_is_removed() {
    let server = Server::start().unwrap();
    let now = server.time_micros().unwrap() / 1000;
    for rest in ["", ":", ":x", ":-1", ":since"] {
        let value = format!("1:{}{rest}", now + LEASE);
        let locks = [
            Bare::new(&server.url()),
            Bare::new(&server.url()),
            Bare::new(&server.url()),
        ];
        let one = id("a:1", "c", 1);
        for lock in &locks {
            lock.acquire(&one, "try");
        }
        locks[1].set_value(&one.hold(), &value);
        let renewed = locks[0].renew_all(&[
            (&locks[0], &one, LEASE, 1),
            (&locks[1], &one, LEASE, 1),
            (&locks[2], &one, LEASE, 1),
        ]);
        let held = Renewed::Held(String::new());
        assert_eq!(renewed.each, [held.clone(), Renewed::Gone, held], "{value}");
        assert_eq!(
            locks[1].acquire(&id("b:1", "c", 2), "try"),
            Acquired::Held(String::new())
        );
    }
}

#[test]
fn a_renewal_of_a_hold_with_a_garbage_value_says_gone() {
    let server = Server::start().unwrap();
    for value in GARBAGE {
        let lock = Bare::new(&server.url());
        let (one, other) = (id("a:1", "c", 1), id("a:1", "c", 2));
        lock.acquire(&one, "try");
        lock.acquire(&other, "try");
        lock.set_value(&one.hold(), value);
        let each = vec![Renewed::Gone, Renewed::Held(String::new())];
        assert_eq!(lock.renew(&[&one, &other]), batch(&each), "{value:?}");
    }
}

// Somebody else's field is no hold id, and has no inbox to be told in.
// Red when it publishes without a client.
#[test]
fn force_removes_whatever_stands_in_the_hash() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (one, two) = (id("a:1", "c", 1), id("b:1", "d", 2));
    let mut inboxes = [
        lock.inbox(&server.url(), "c"),
        lock.inbox(&server.url(), "d"),
    ];
    lock.acquire(&one, "try");
    lock.acquire(&two, "wait");
    for field in ["", "mode", "a/b", "a.b", "/.", "a:1/"] {
        lock.set_value(field, &format!("1:{NEVER}:1"));
    }
    assert_eq!(lock.force(&lock.held()), batch(&[1; 7]));
    assert_eq!(lock.held(), [two.hold()]);
    assert_eq!(inboxes[0].next(), format!("revoked {}", one.hold()));
    assert!(inboxes[1].next().starts_with("granted "));
}

// A member that is no entry can never be granted, so it counts as dead.
// Red without `hold and` in `grant`, and when lease and grant need not be numbers there.
#[test]
fn a_foreign_member_in_the_queue_is_removed_when_its_turn_comes() {
    let server = Server::start().unwrap();
    for member in [
        "",
        "foreign",
        "a/b",
        "|",
        "a:1/c.1",
        "a:1/c.1|-",
        "a:1/c.1|-|1|x|y",
        "a:1/c.1|-|1||",
    ] {
        for way in ["release", "look", "try", "wait", "force"] {
            let lock = Bare::new(&server.url());
            let (one, two) = (id("h:1", "h", 1), id("w:1", "w", 2));
            let _inboxes = [
                lock.inbox(&server.url(), "w"),
                lock.inbox(&server.url(), "c"),
            ];
            lock.acquire(&one, "try");
            lock.command::<()>(&["ZADD", &lock.keys[1], "1", member])
                .unwrap();
            lock.acquire(&two, "wait");
            lock.command::<()>(&["ZADD", &lock.keys[2], &NEVER.to_string(), "c"])
                .unwrap();
            if way != "release" && way != "force" {
                lock.expire(&one.hold());
            }
            let late = id("z:1", "z", 3);
            match way {
                "release" => assert_eq!(lock.release(&one).each, [1]),
                "force" => assert_eq!(lock.force(&lock.held()).each, [1]),
                "look" => assert_eq!(lock.renew(&[&two]).each, [Renewed::Held(String::new())]),
                "try" => assert_eq!(lock.acquire(&late, "try"), Acquired::Busy),
                _ => assert!(matches!(
                    lock.acquire(&late, "wait"),
                    Acquired::Queued { .. }
                )),
            }
            let holder: Vec<String> = lock.held();
            assert_eq!(holder, [two.hold()], "{way} over {member:?}");
        }
    }
}

// What somebody has made permanent must not stay for ever.
// Red without `grow` in `put`, in joining the queue, or without PEXPIRE in `mint`.
#[test]
fn a_key_without_a_ttl_gets_one_again() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (one, two, three) = (
        id("a:1", "c", 1).fenced(),
        id("b:1", "d", 2),
        id("e:1", "e", 3),
    );
    lock.acquire(&one, "try");
    lock.acquire(&two, "wait");
    let persist = || {
        for key in &lock.keys[..4] {
            server.command(&["PERSIST", key]).unwrap();
            assert_eq!(server.ttl_ms(key).unwrap(), -1);
        }
    };
    let healed = |keys: &[usize]| {
        for key in keys {
            assert!(
                server.ttl_ms(&lock.keys[*key]).unwrap() > 0,
                "{}",
                lock.keys[*key]
            );
        }
    };
    // A renewal mends the holds' key, a look or a newcomer those of the queue, a new token its own.
    persist();
    lock.renew(&[&one]);
    healed(&[0]);
    persist();
    lock.renew(&[&two]);
    healed(&[1, 2]);
    persist();
    lock.acquire(&three, "wait");
    healed(&[1, 2]);
    lock.release_many(&[&two, &three]);
    lock.release(&one);
    lock.acquire(&id("b:1", "d", 4).fenced(), "try");
    healed(&[0, 3]);
}

// A hold that is over ends with the next command, whatever its key's TTL.
#[test]
fn a_lock_whose_key_stays_for_ever_is_free_when_its_holds_are_over() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (one, two) = (id("a:1", "c", 1), id("b:1", "d", 2));
    lock.acquire(&one, "try");
    lock.expire(&one.hold());
    server.command(&["PERSIST", &lock.keys[0]]).unwrap();
    assert_eq!(lock.acquire(&two, "try"), held());
    assert!(server.ttl_ms(&lock.keys[0]).unwrap() > 0);
}

// Lua's numbers are doubles, which skip every second number from 2^53 on.
// Red with `tonumber` around the token in `mint`.
#[test]
fn fencing_tokens_grow_beyond_what_a_double_can_count() {
    let server = Server::start().unwrap();
    for start in [
        "9007199254740991",
        "9007199254740993",
        "9223372036854775000",
    ] {
        let lock = Bare::new(&server.url());
        server.command(&["SET", &lock.keys[3], start]).unwrap();
        let _inbox = lock.inbox(&server.url(), "c");
        let mut last: u64 = start.parse().unwrap();
        for round in 0..5 {
            let (one, two) = (
                id("a:1", "c", 2 * round).fenced(),
                id("b:1", "c", 2 * round + 1).fenced(),
            );
            let Acquired::Held(token) = lock.acquire(&one, "try") else {
                panic!("not held");
            };
            lock.acquire(&two, "wait");
            lock.release(&one);
            let Renewed::Held(granted) = lock.renew(&[&two]).each.remove(0) else {
                panic!("not granted");
            };
            assert_eq!(
                (number(&token), number(&granted)),
                (last + 1, last + 2),
                "after {last}"
            );
            assert!(lock.holds()[&two.hold()].ends_with(&granted));
            lock.release(&two);
            last += 2;
        }
    }
}

// Red with `tostring(us)` in `mint`, and when it sets the time whatever the last token was.
#[test]
fn fencing_tokens_begin_with_the_servers_time_and_grow_though_they_are_minted_at_once() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let mut last = server.time_micros().unwrap();
    for round in 0..50 {
        let one = id("a:1", "c", round).fenced();
        let Acquired::Held(token) = lock.acquire(&one, "try") else {
            panic!("not held");
        };
        assert!(number(&token) > last);
        last = number(&token);
        lock.release(&one);
    }
    assert!(last <= server.time_micros().unwrap());
    assert!(server.ttl_ms(&lock.keys[3]).unwrap() > 86_000_000);

    // A clock that was set back cannot make them smaller.
    let ahead = last + 3_600_000_000;
    server
        .command(&["SET", &lock.keys[3], &ahead.to_string()])
        .unwrap();
    let token = lock.acquire(&id("a:1", "c", 99).fenced(), "try");
    assert_eq!(token, Acquired::Held(format!(":{}", ahead + 1)));
}

// Red without answer 5 in acquire.lua, and in renew.lua.
#[test]
fn a_re_entry_has_the_token_of_the_hold_and_is_refused_without_one() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let token = lock.acquire(&id("a:1", "c", 1).fenced(), "try");
    assert_eq!(lock.acquire(&id("a:1", "d", 1).fenced(), "reenter"), token);
    assert_eq!(lock.acquire(&id("a:1", "e", 1), "try"), token);

    let lock = Bare::new(&server.url());
    lock.acquire(&id("a:1", "c", 1), "try");
    let before = lock.dump();
    for mode in ["try", "wait", "reenter"] {
        let fenced = id("a:1", "d", 1).fenced();
        assert_eq!(lock.acquire(&fenced, mode), Acquired::Unfenced, "{mode}");
    }
    assert_eq!(lock.dump(), before);

    // Nor does a waiter enter that way, when its owner holds meanwhile without one; it gives up its place.
    let (waiter, holder) = (id("b:1", "d", 2).fenced(), id("a:1", "c", 1));
    let _inbox = lock.inbox(&server.url(), "e");
    lock.acquire(&id("b:1", "e", 3), "wait");
    lock.acquire(&waiter, "wait");
    lock.release(&holder);
    assert_eq!(lock.renew(&[&waiter]).each, [Renewed::Unfenced]);
    assert_eq!(lock.held(), [id("b:1", "e", 3).hold()]);
    assert_eq!(lock.queue(), Vec::<String>::new());
}

// To begin anew would break what tokens are for.
#[test]
fn a_last_token_that_is_no_number_is_an_error_and_stays_as_it_is() {
    let server = Server::start().unwrap();
    for value in ["abc", "", "9223372036854775807", "99999999999999999999"] {
        let lock = Bare::new(&server.url());
        server.command(&["SET", &lock.keys[3], value]).unwrap();
        for mode in ["try", "wait"] {
            let fenced = id("a:1", "c", 1).fenced();
            assert!(
                lock.acquire_late(&fenced, mode, NEVER, 0).is_err(),
                "{value:?}"
            );
        }
        assert_eq!((lock.held(), lock.queue()), (vec![], vec![]), "{value:?}");
        let stays: String = server.query(&["GET", &lock.keys[3]]).unwrap();
        assert_eq!(stays, value);
        assert_eq!(lock.acquire(&id("a:1", "c", 2), "try"), held());
    }
}
