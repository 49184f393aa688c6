use lockyard_testkit::Server;

use super::bare::{Acquired, Bare, Batch, Id, Inbox, Renewed, batch, id};

/// A lock that is held, and waiters `0..waiting` for it, each of a client of its own and none alive.
fn crowd(server: &Server, waiting: usize) -> (Bare, Id, Vec<Id>) {
    let lock = Bare::new(&server.url());
    let holder = id("h:0", "h", 0);
    lock.acquire(&holder, "try");
    let ids: Vec<Id> = (0..waiting)
        .map(|at| id(&format!("w:{at}"), &format!("w{at}"), at))
        .collect();
    for id in &ids {
        assert!(matches!(lock.acquire(id, "wait"), Acquired::Queued { .. }));
    }
    (lock, holder, ids)
}

fn listen(server: &Server, lock: &Bare, id: &Id) -> Inbox {
    lock.inbox(&server.url(), &id.client)
}

// Red when a waiter without receivers is passed over but keeps its place.
#[test]
fn waiters_that_nobody_hears_are_removed_and_the_next_is_served() {
    let server = Server::start().unwrap();
    let (lock, first, ids) = crowd(&server, 42);
    let mut inbox = listen(&server, &lock, &ids[40]);
    assert_eq!(lock.release(&first), batch(&[1]));
    assert_eq!(lock.held(), [ids[40].hold()]);
    assert_eq!(lock.queue(), [ids[41].entry()]);
    assert!(inbox.next().starts_with("granted "));
}

// Red without the comparison with `alive`: a client may hear and yet stand still.
#[test]
fn waiters_that_were_silent_for_too_long_are_removed_and_the_next_is_served() {
    let server = Server::start().unwrap();
    let (lock, first, ids) = crowd(&server, 3);
    let mut inboxes: Vec<Inbox> = ids.iter().map(|id| listen(&server, &lock, id)).collect();
    lock.silence(&ids[0].client);
    lock.command::<()>(&["ZREM", &lock.keys[2], &ids[1].client])
        .unwrap();
    lock.release(&first);
    assert_eq!(lock.held(), [ids[2].hold()]);
    assert_eq!(lock.queue(), Vec::<String>::new());
    let heard: Vec<usize> = inboxes
        .iter_mut()
        .map(|inbox| inbox.drain(&server).len())
        .collect();
    assert_eq!(heard, [0, 0, 1]);
}

// Red when a look does not write `alive`.
#[test]
fn a_look_is_a_sign_of_life() {
    let server = Server::start().unwrap();
    let (lock, first, ids) = crowd(&server, 2);
    let _inboxes: Vec<Inbox> = ids.iter().map(|id| listen(&server, &lock, id)).collect();
    lock.silence(&ids[0].client);
    assert_eq!(lock.renew(&[&ids[0]]).each, [Renewed::Queued]);
    lock.release(&first);
    assert_eq!(lock.held(), [ids[0].hold()]);
}

// Red without the budget: a script would run as long as there are dead waiters.
#[test]
fn a_script_removes_at_most_a_hundred_dead_waiters_and_says_that_there_are_more() {
    let server = Server::start().unwrap();
    let (lock, first, ids) = crowd(&server, 251);
    let _inbox = listen(&server, &lock, &ids[250]);
    assert_eq!(
        lock.release(&first),
        Batch {
            more: true,
            each: vec![1]
        }
    );
    assert_eq!((lock.held(), lock.queue().len()), (vec![], 151));

    // The same command again goes on, and a look as well.
    assert_eq!(
        lock.release(&first),
        Batch {
            more: true,
            each: vec![0]
        }
    );
    assert_eq!((lock.held(), lock.queue().len()), (vec![], 51));
    assert_eq!(lock.renew(&[&first]), batch(&[Renewed::Gone]));
    assert_eq!(
        (lock.held(), lock.queue().len()),
        (vec![ids[250].hold()], 0)
    );
}

// Red without the budget.
#[test]
fn a_look_behind_many_dead_waiters_says_that_there_are_more() {
    let server = Server::start().unwrap();
    let (lock, first, ids) = crowd(&server, 151);
    lock.expire(&first.hold());
    let look = lock.renew(&[&ids[150]]);
    assert_eq!(
        look,
        Batch {
            more: true,
            each: vec![Renewed::Queued]
        }
    );
    assert_eq!(lock.queue().len(), 51);
    let look = lock.renew(&[&ids[150]]);
    assert_eq!(look, batch(&[Renewed::Held(String::new())]));
}

// The hundred are for the script, however many locks it sees to.
#[test]
fn dead_waiters_of_several_locks_are_removed_within_one_budget() {
    let server = Server::start().unwrap();
    let (one, first, _) = crowd(&server, 80);
    let (two, second, ids) = crowd(&server, 81);
    let _inbox = listen(&server, &two, &ids[80]);
    let (first, second) = (first.entry(), second.entry());
    let release = || {
        one.try_release(&[(&one, &[&first]), (&two, &[&second])])
            .unwrap()
    };
    assert_eq!(
        release(),
        Batch {
            more: true,
            each: vec![1, 1]
        }
    );
    assert_eq!((one.queue().len(), two.queue().len()), (0, 61));
    // The inbox's prefix is that of the lock whose connection it is.
    let release = || {
        two.try_release(&[(&one, &[&first]), (&two, &[&second])])
            .unwrap()
    };
    assert_eq!(release(), batch(&[0, 0]));
    assert_eq!((two.held(), two.queue().len()), (vec![ids[80].hold()], 0));
}

// When an acquire meets nothing but dead waiters, it is its turn.
// Red when `try` does not grant before it answers.
#[test]
fn an_acquire_behind_dead_waiters_alone_gets_the_lock_at_once() {
    let server = Server::start().unwrap();
    for mode in ["try", "wait"] {
        let (lock, first, _) = crowd(&server, 50);
        lock.expire(&first.hold());
        let late = id("z:1", "z", 1);
        assert_eq!(
            lock.acquire(&late, mode),
            Acquired::Held(String::new()),
            "{mode}"
        );
        assert_eq!((lock.held(), lock.queue()), (vec![late.hold()], vec![]));
    }
}

// Red when `look_in` answers when the lease is over, whatever is left.
#[test]
fn an_acquire_that_could_not_remove_all_dead_waiters_is_to_look_at_once() {
    let server = Server::start().unwrap();
    let (lock, first, _) = crowd(&server, 150);
    lock.expire(&first.hold());
    let late = id("z:1", "z", 1);
    let Acquired::Queued { look, .. } = lock.acquire(&late, "wait") else {
        panic!("not queued");
    };
    assert_eq!(look, 0);
    assert_eq!(lock.renew(&[&late]).each, [Renewed::Held(String::new())]);
}

// Clients come and go; what they leave behind would grow for ever on a busy key.
// Red without ZREMRANGEBYSCORE in acquire.lua.
#[test]
fn joining_the_queue_removes_clients_that_are_past_their_time() {
    let server = Server::start().unwrap();
    let (lock, _, ids) = crowd(&server, 20);
    for id in &ids[1..] {
        lock.silence(&id.client);
    }
    lock.acquire(&id("z:1", "z", 1), "wait");
    let alive: Vec<String> = lock.command(&["ZRANGE", &lock.keys[2], "0", "-1"]).unwrap();
    assert_eq!(alive, [&ids[0].client, "z"]);
}
