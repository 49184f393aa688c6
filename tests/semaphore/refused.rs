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
