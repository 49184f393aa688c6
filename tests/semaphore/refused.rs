use std::time::Duration;

use lockyard::Error;
use lockyard_testkit::Server;

use crate::support::{client, no_keys};

#[tokio::test]
async fn numbers_that_make_no_sense_are_refused() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", 2);
    for permits in [0, 3, u32::MAX] {
        for error in [
            api.acquire_many(permits).await.unwrap_err(),
            api.try_acquire_many(permits).await.unwrap_err(),
            api.try_acquire_many_for(permits, Duration::MAX)
                .await
                .unwrap_err(),
        ] {
            let told = matches!(error, Error::InvalidPermits { permits: told, most: 2, .. } if told == u64::from(permits));
            assert!(told, "{error:?}");
        }
    }
    let none = client.semaphore("api", 0).acquire().await.unwrap_err();
    assert!(matches!(none, Error::InvalidPermits { .. }), "{none:?}");
    let bad = client.semaphore("", 1).acquire().await.unwrap_err();
    assert!(matches!(bad, Error::InvalidName { .. }), "{bad:?}");
    no_keys(&server);
}

// Red if the limit of a semaphore outgrows what a client can count.
#[tokio::test]
async fn limits_of_any_size_are_kept() {
    let server = Server::start().unwrap();
    let client = client(&server.url()).await;
    let api = client.semaphore("api", u32::MAX);
    for more in [0, 1, u32::MAX] {
        assert_eq!(api.add_permits(more).await.unwrap(), u32::MAX);
        assert_eq!(api.limit().await.unwrap(), u32::MAX);
    }
    let all = api.acquire_many(u32::MAX).await.unwrap();
    assert_eq!(api.available_permits().await.unwrap(), 0);
    assert!(api.try_acquire().await.unwrap().is_none());
    let (most, one) = all.split(u32::MAX - 1).await.unwrap();
    let all = most.merge(one).await.unwrap();
    assert_eq!(all.permits(), u32::MAX);
    all.forget().await.unwrap();
    assert_eq!(api.limit().await.unwrap(), 0);
    let error = api.acquire().await.unwrap_err();
    assert!(
        matches!(error, Error::InvalidPermits { most: 0, .. }),
        "{error:?}"
    );
    for limit in [u32::MAX, 0, 1] {
        api.set_limit(limit).await.unwrap();
        assert_eq!(api.limit().await.unwrap(), limit);
    }
    api.clear_limit().await.unwrap();
    no_keys(&server);
}
