//! A client's options.

use std::time::Duration;

use lockyard::{ClientOptions, Error, Lease};
use lockyard_testkit::{Server, eventually_async};

use crate::input::{NANO, YEARS};
use crate::support::{SOON, connect, ms};

// Red when a prefix may have braces.
#[tokio::test]
async fn options_out_of_bounds_are_refused_before_connecting() {
    // Nobody listens here, so whoever connects gets another error.
    let nowhere = "redis://127.0.0.1:1";
    let (minute, hour) = (ms(60_000), ms(3_600_000));
    let too_long = "p".repeat(257);
    for prefix in ["{", "}", "{}", "{a}", "a{b", "a}", too_long.as_str()] {
        let error = connect(nowhere, |options| options.prefix(prefix))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::InvalidOption {
                    option: "prefix",
                    ..
                }
            ),
            "{prefix:?}: {error:?}"
        );
    }
    for timeout in [
        Duration::ZERO,
        NANO,
        ms(100) - NANO,
        hour + NANO,
        Duration::MAX,
    ] {
        let error = connect(nowhere, |options| options.waiter_timeout(timeout))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::InvalidOption {
                    option: "waiter_timeout",
                    ..
                }
            ),
            "{timeout:?}: {error:?}"
        );
    }
    for timeout in [
        Duration::ZERO,
        NANO,
        ms(10) - NANO,
        minute * 5 + NANO,
        Duration::MAX,
    ] {
        let error = connect(nowhere, |options| options.operation_timeout(timeout))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::InvalidOption {
                    option: "operation_timeout",
                    ..
                }
            ),
            "{timeout:?}: {error:?}"
        );
    }
    for lease in [Duration::ZERO, ms(10) - NANO, YEARS + NANO, Duration::MAX] {
        let error = connect(nowhere, |options| options.lease(Lease::Renewed(lease)))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::InvalidLease { .. }),
            "{lease:?}: {error:?}"
        );
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn options_at_their_bounds_work() {
    let server = Server::start().unwrap();
    let (minute, hour) = (ms(60_000), ms(3_600_000));
    for waiter_timeout in [ms(100), hour] {
        for operation_timeout in [ms(500), minute * 5] {
            let options = |options: ClientOptions| {
                options
                    .waiter_timeout(waiter_timeout)
                    .operation_timeout(operation_timeout)
            };
            let client = connect(&server.url(), options).await.unwrap();
            let guard = client.lock("x").acquire().await.unwrap();
            let lock = client.lock("x");
            let waiter = tokio::spawn(async move { lock.acquire().await });
            let lock = client.lock("x");
            eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
            guard.release().await.unwrap();
            tokio::time::timeout(SOON, waiter)
                .await
                .unwrap()
                .unwrap()
                .unwrap()
                .release()
                .await
                .unwrap();
        }
    }
}
