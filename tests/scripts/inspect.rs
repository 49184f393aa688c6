use lockyard_testkit::Server;

use super::bare::{Bare, id};

// Red when a limit of 0 reads to the end of the queue.
#[test]
fn as_many_waiters_are_listed_as_were_asked_for_and_all_are_counted() {
    let server = Server::start().unwrap();
    let lock = Bare::new(&server.url());
    let ids: Vec<_> = (0..4).map(|at| id(&format!("a:{at}"), "c", at)).collect();
    for id in &ids {
        lock.acquire(id, "wait");
    }
    let waiting: Vec<String> = ids[1..].iter().map(|id| id.entry()).collect();
    for limit in 0..5 {
        let listed = waiting[..limit.min(3)].to_vec();
        assert_eq!(lock.inspect(limit), (3, listed), "{limit}");
    }
}
