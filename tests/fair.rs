//! The fair lock beside the plain one.

use lockyard_testkit::Server;

use crate::support::{client, patient, soon, until_waiting, wait};

// Red if the fair lock has keys of another kind.
#[tokio::test]
async fn a_lock_and_a_fair_lock_of_one_name_are_one() {
    let server = Server::start().unwrap();
    let (one, two) = (client(&server.url()).await, client(&server.url()).await);
    let guard = one.lock("x").acquire().await.unwrap();
    assert!(two.fair_lock("x").try_acquire().await.unwrap().is_none());
    assert!(one.fair_lock("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = two.fair_lock("x").acquire().await.unwrap();
    assert!(one.lock("x").try_acquire().await.unwrap().is_none());
    assert!(two.lock("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// They stand in one queue, and each owner may enter by the other what it holds.
#[tokio::test]
async fn plain_and_fair_waiters_of_several_clients_take_turns() {
    let server = Server::start().unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(patient(&server.url()).await);
    }
    let owner = clients[0].owner();
    let seen = clients[0].lock("x");
    let mut held = seen.clone().with_owner(&owner).acquire().await.unwrap();
    let fair = clients[0].fair_lock("x").with_owner(&owner);
    fair.acquire().await.unwrap().release().await.unwrap();
    let mut waiters = Vec::new();
    for (at, client) in clients[1..].iter().enumerate() {
        waiters.push(match at % 2 {
            0 => wait(&client.fair_lock("x")),
            _ => wait(&client.lock("x")),
        });
        until_waiting(&seen, at as u64 + 1).await;
    }
    for at in 0..waiters.len() {
        held.release().await.unwrap();
        held = soon(&mut waiters[at]).await.unwrap();
        assert!(waiters[at + 1..].iter().all(|next| !next.is_finished()));
    }
    held.release().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}
