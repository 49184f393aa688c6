use lockyard_testkit::Server;

use super::bare::{Acquired, Bare, GRANT, Id, LEASE, NEVER, Renewed, batch, id};

fn held() -> Acquired {
    Acquired::Held(String::new())
}

// Red without the line that compares with `valid` in acquire.lua.
#[test]
fn an_acquire_after_its_validity_is_stale_and_writes_nothing() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let valid = server.time_micros().unwrap();
    for mode in ["try", "wait", "reenter"] {
        for one in [id("a:1", "c", 1), id("a:1", "c", 1).fenced()] {
            let answer = lock.acquire_late(&one, mode, valid, 0);
            assert_eq!(answer.unwrap(), Acquired::Stale, "{mode} {one:?}");
        }
    }
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());

    // Neither does it when there is something to re-enter, or a queue to join.
    assert_eq!(lock.acquire(&id("a:1", "c", 2), "try"), held());
    let before = lock.dump();
    for mode in ["try", "wait", "reenter"] {
        for owner in ["a:1", "b:1"] {
            let answer = lock.acquire_late(&id(owner, "c", 3), mode, valid, 0);
            assert_eq!(answer.unwrap(), Acquired::Stale, "{mode} {owner}");
        }
    }
    assert_eq!(lock.dump(), before);
}

// Red with HSET in place of HSETNX in `put`.
#[test]
fn a_second_copy_of_an_acquire_changes_nothing() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (one, two) = (id("a:1", "c", 1).fenced(), id("b:1", "c", 2));
    let first = lock.acquire(&one, "wait");
    lock.acquire(&two, "wait");
    let before = (lock.holds(), lock.queue());
    assert_eq!(lock.acquire(&one, "wait"), first);
    assert!(matches!(
        lock.acquire(&two, "wait"),
        Acquired::Queued { .. }
    ));
    assert_eq!((lock.holds(), lock.queue()), before);
}

// Red when a release removes whatever its owner holds.
#[test]
fn a_late_copy_of_a_release_frees_no_newer_hold() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (old, new) = (id("a:1", "c", 1), id("a:1", "c", 2));
    lock.acquire(&old, "try");
    assert_eq!(lock.release(&old), batch(&[1]));
    lock.acquire(&new, "try");
    let before = lock.dump();
    assert_eq!(lock.release(&old), batch(&[0]));
    assert_eq!(lock.release_many(&[&old, &old]), batch(&[0, 0]));
    assert_eq!(lock.dump(), before);
}

// What is released by force are the holds that were seen, and none that came after.
// Red when it publishes though the hold is gone.
#[test]
fn a_late_copy_of_a_forced_release_frees_no_newer_hold() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (old, new) = (id("a:1", "c", 1), id("b:1", "d", 2));
    let mut inboxes = ["c", "d"].map(|client| lock.inbox(&server.url(), client));
    lock.acquire(&old, "try");
    lock.acquire(&new, "wait");
    let seen = lock.held();
    assert_eq!(lock.force(&seen), batch(&[1]));
    let before = lock.dump();
    assert_eq!(lock.force(&seen), batch(&[0]));
    assert_eq!(lock.dump(), before);
    let [revoked, granted] = inboxes.each_mut().map(|inbox| inbox.drain(&server));
    assert_eq!(revoked, [format!("revoked {}", old.hold())]);
    assert!(
        granted.len() == 1 && granted[0].starts_with("granted "),
        "{granted:?}"
    );
}

// Red when a release removes whatever its owner holds.
#[test]
fn a_release_ends_one_hold_of_an_owner_and_no_other() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (outer, inner, ten) = (id("a:1", "c", 1), id("a:1", "d", 1), id("a:10", "c", 1));
    assert_eq!(lock.acquire(&outer, "try"), held());
    assert_eq!(lock.acquire(&inner, "reenter"), held());
    assert_eq!(lock.acquire(&ten, "reenter"), Acquired::Busy);
    assert_eq!(lock.release(&inner), batch(&[1]));
    assert_eq!(lock.release(&inner), batch(&[0]));
    assert_eq!(lock.held(), [outer.hold()]);
}

// Red when extending makes a value for an id that has none.
#[test]
fn a_renewal_of_an_absent_id_writes_nothing() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let absent = id("a:1", "c", 1);
    let gone = |ids: usize| batch(&vec![Renewed::Gone; ids]);
    assert_eq!(lock.renew(&[&absent, &absent.clone().fenced()]), gone(2));
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());

    // Neither beside another hold of its owner: presence of the id alone decides.
    lock.acquire(&id("a:1", "c", 2), "try");
    let before = lock.dump();
    assert_eq!(lock.renew(&[&absent]), gone(1));
    assert_eq!(lock.dump(), before);
}

#[test]
fn nothing_is_left_behind_by_what_finds_nothing() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let one = id("a:1", "c", 1);
    assert_eq!(lock.release(&one), batch(&[0]));
    assert_eq!(lock.release_many(&[&one, &one]), batch(&[0, 0]));
    assert_eq!(lock.force(&[one.hold()]), batch(&[0]));
    assert_eq!(lock.acquire(&one, "reenter"), Acquired::Busy);
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red without `math.max` in `extend`.
#[test]
fn a_renewal_never_shortens_a_lease() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let one = id("a:1", "c", 1);
    lock.acquire(&one, "try");
    let deadline = |lock: &Bare| {
        let holds = lock.holds();
        let mut parts = holds[&one.hold()]
            .split(':')
            .map(|part| part.parse::<u64>().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    };
    let (_, first) = deadline(&lock);
    let ttl = server.ttl_ms(&lock.keys[0]).unwrap();

    // Zero asks only; the count is written all the same, as it is and not one more.
    for (lease, count) in [(0, 1), (1, 3), (0, 2)] {
        lock.renew_all(&[(&lock, &one, lease, count)]);
        assert_eq!(deadline(&lock), (count, first));
    }
    assert!(server.ttl_ms(&lock.keys[0]).unwrap() > ttl - 60_000);

    lock.renew_all(&[(&lock, &one, 2 * LEASE, 1)]);
    let (_, second) = deadline(&lock);
    assert!((first + LEASE - 1000..first + LEASE + 60_000).contains(&second));
    assert!(server.ttl_ms(&lock.keys[0]).unwrap() > (2 * LEASE - 60_000) as i64);
}

// Red when `grow` sets a time to live of zero.
#[test]
fn a_renewal_that_only_asks_leaves_a_permanent_key() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let one = id("a:1", "c", 1);
    lock.acquire(&one, "try");
    server.command(&["PERSIST", &lock.keys[0]]).unwrap();
    let renewed = lock.renew_all(&[(&lock, &one, 0, 2)]);
    assert_eq!(renewed.each, [Renewed::Held(String::new())]);
    assert_eq!(lock.holds().len(), 1);
}

// A paused grantee stands in the way for the waiter timeout, not for its lease.
// Red when `grant` writes the full lease.
#[test]
fn a_hold_written_by_another_has_the_shorter_lease_until_it_is_renewed() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (one, two) = (id("a:1", "c", 1), id("b:1", "d", 2));
    let mut inbox = lock.inbox(&server.url(), "d");
    lock.acquire(&one, "try");
    lock.acquire(&two, "wait");
    lock.release(&one);
    let value = lock.holds().remove(&two.hold()).unwrap();
    let numbers: Vec<u64> = value.split(':').map(|part| part.parse().unwrap()).collect();
    assert_eq!(numbers[1] - numbers[2], GRANT);

    // The message tells when it was written, and the hold counts from then.
    let message = inbox.next();
    let us: u64 = message.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(message, format!("granted {us} {}", two.entry()));
    assert_eq!(us / 1000, numbers[2]);

    assert_eq!(lock.renew(&[&two]).each, [Renewed::Held(String::new())]);
    let value = lock.holds().remove(&two.hold()).unwrap();
    let deadline: u64 = value.split(':').nth(1).unwrap().parse().unwrap();
    assert!(deadline >= numbers[2] + LEASE);
}

// Red when a ticket is the time alone.
#[test]
fn a_ticket_is_a_place_in_the_order_of_arrival() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let ids: Vec<_> = (0..4)
        .map(|seq| id(&format!("a:{seq}"), "c", seq))
        .collect();
    lock.acquire(&ids[0], "try");
    let ticket = |answer| match answer {
        Acquired::Queued { ticket, .. } => ticket,
        other => panic!("{other:?}"),
    };
    let before = server.time_micros().unwrap();
    let first = ticket(lock.acquire(&ids[1], "wait"));
    assert!((before..server.time_micros().unwrap()).contains(&first));
    let second = ticket(lock.acquire(&ids[2], "wait"));
    assert!(second > first);

    // Its place is gone, but not its ticket.
    lock.release(&ids[1]);
    let again = lock.acquire_late(&ids[3], "wait", NEVER, first).unwrap();
    assert_eq!(ticket(again), first);
    assert_eq!(lock.queue(), [ids[3].entry(), ids[2].entry()]);

    // A server whose clock has gone back still puts newcomers behind those who wait.
    let future = (NEVER / 2).to_string();
    lock.command::<()>(&["ZADD", &lock.keys[1], &future, &ids[2].entry()])
        .unwrap();
    let last = ticket(lock.acquire(&id("a:9", "c", 9), "wait"));
    assert_eq!(last, NEVER / 2 + 1);
}

// Red when the clients, or what they ask for, are not compared.
#[test]
fn a_place_tells_right_behind_whom_of_the_same_client_it_is() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    lock.acquire(&id("a:0", "c", 0), "try");
    let behind = |waiter: &Id, ticket| match lock.acquire_late(waiter, "wait", NEVER, ticket) {
        Ok(Acquired::Queued { behind, .. }) => behind,
        other => panic!("{other:?}"),
    };
    let first = id("a:1", "c", 1);
    assert_eq!(behind(&first, 0), None);
    assert_eq!(behind(&id("a:2", "c", 2), 0), Some(1));
    assert_eq!(behind(&id("a:3", "d", 3), 0), None);
    assert_eq!(behind(&id("a:4", "c", 4), 0), None);
    assert_eq!(behind(&id("a:5", "c", 5).fenced(), 0), None);
    assert_eq!(behind(&id("a:6", "c", 6), 0), None);
    // Where it comes with an old ticket, others may stand.
    lock.release(&first);
    assert_eq!(behind(&id("a:7", "c", 7), 1), None);
    assert_eq!(behind(&id("a:8", "c", 8), 0), Some(6));
}

// Red without `leave` where acquire.lua re-enters.
#[test]
fn a_second_copy_that_finds_its_owner_inside_leaves_no_place_in_the_queue() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let (stranger, there, here) = (id("s:1", "s", 1), id("a:1", "d", 2), id("a:1", "c", 3));
    let _inbox = lock.inbox(&server.url(), "d");
    lock.acquire(&stranger, "try");
    for waiter in [&there, &here] {
        assert!(matches!(
            lock.acquire(waiter, "wait"),
            Acquired::Queued { .. }
        ));
    }
    lock.release(&stranger);
    assert_eq!(lock.held(), [there.hold()]);
    assert_eq!(lock.queue(), [here.entry()]);
    assert_eq!(lock.acquire(&here, "wait"), held());
    assert_eq!(lock.held(), [here.hold(), there.hold()]);
    assert_eq!(lock.queue(), Vec::<String>::new());
    lock.release_many(&[&there, &here]);
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}
