use std::time::Duration;

use lockyard::{Client, Error, HoldState};
use lockyard_testkit::{Server, eventually_async};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_free_lock_is_acquired_and_released() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("stock:42");
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert!(lock.is_locked().await.unwrap());
    assert!(lock.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_waiter_is_granted_when_the_holder_releases() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let other = Client::connect(&server.url()).await.unwrap();
    let guard = client.lock("x").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("x").acquire().await });
    let lock = client.lock("x");
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    guard.release().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiter)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    guard.release().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn an_owner_re_enters_what_it_holds() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("x");
    let owner = client.owner();
    owner
        .scope(async {
            let outer = lock.acquire().await?;
            let inner = lock.acquire().await?;
            assert_eq!(lock.hold_count(&owner).await?, 2);
            inner.release().await?;
            assert_eq!(lock.hold_count(&owner).await?, 1);
            outer.release().await
        })
        .await
        .unwrap();
    assert!(matches!(
        client.lock("").acquire().await,
        Err(Error::InvalidName { .. })
    ));
}
