//! Leases, waits and longest holds of any length.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use lockyard::{Client, Error, HoldState, Lease};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};

use crate::contract::exclusive::{Guard, Single};
use crate::contract::site::Site;
use crate::input::{NANO, YEARS};
use crate::support::{SOON, Script, ms};

/// The leases that go out with acquires.
fn leases_sent(proxy: &Proxy) -> Arc<Mutex<Vec<String>>> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    let is_acquire = Script::Acquire.calls();
    let note = move |words: &[Vec<u8>]| {
        if is_acquire(words) {
            // After the script, the number of keys, the keys, validity, terms and the hold id.
            let keys: usize = str::from_utf8(&words[2]).unwrap().parse().unwrap();
            let lease = String::from_utf8_lossy(&words[6 + keys]);
            seen.lock().unwrap().push(lease.into_owned());
        }
        false
    };
    proxy.always(note, Action::Pass);
    sent
}

// Red without the check in acquire.rs, or when fractions are cut off.
pub(crate) async fn a_lease_is_refused_before_anything_is_sent_or_sent_in_whole_milliseconds<
    M: Single,
>() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let sent = leases_sent(&proxy);
    let client = Client::connect(&proxy.url()).await.unwrap();

    async fn check<M: Single>(
        lock: &M,
        lease: Duration,
        expected: Option<&str>,
        sent: &Mutex<Vec<String>>,
    ) {
        for lease in [Lease::Renewed(lease), Lease::Fixed(lease)] {
            let lock = lock.clone().with_lease(lease);
            let (acquire, tried, waited) = (
                lock.acquire().await.map(Some),
                lock.try_acquire().await,
                lock.try_acquire_for(ms(1)).await,
            );
            for result in [&acquire, &tried, &waited] {
                match result {
                    Err(Error::InvalidLease { .. }) => assert_eq!(expected, None, "{lease:?}"),
                    // The shortest may be over before the reply is there.
                    Ok(_) | Err(Error::LeaseLost { .. }) => assert_ne!(expected, None, "{lease:?}"),
                    Err(error) => panic!("{lease:?}: {error:?}"),
                }
            }
            let sent: Vec<String> = std::mem::take(&mut *sent.lock().unwrap());
            assert!(
                sent.iter().all(|sent| Some(sent.as_str()) == expected),
                "{lease:?} {sent:?}"
            );
            assert_eq!(sent.is_empty(), expected.is_none(), "{lease:?}");
            for guard in [acquire, tried, waited]
                .into_iter()
                .filter_map(Result::ok)
                .flatten()
            {
                // A short lease may be over by now.
                let _ = guard.release().await;
            }
        }
    }
    let before = server.scripts().unwrap();
    let half = Duration::from_micros(9_999);
    for lease in [
        Duration::ZERO,
        NANO,
        ms(9),
        half,
        YEARS + NANO,
        YEARS + ms(1000),
        Duration::MAX,
    ] {
        check::<M>(&M::of(&client, "x"), lease, None, &sent).await;
    }
    assert_eq!(server.scripts().unwrap(), before);

    for (lease, whole) in [
        (ms(10), "10"),
        (ms(10) + NANO, "11"),
        (Duration::from_micros(200_500), "201"),
        (ms(300) - NANO, "300"),
        (YEARS, "315360000000"),
        (YEARS - ms(1) + NANO, "315360000000"),
    ] {
        check::<M>(&M::of(&client, "x"), lease, Some(whole), &sent).await;
    }
    client.shutdown().await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

pub(crate) async fn the_longest_lease_gives_the_key_a_ttl<M: Single>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    for lease in [Lease::Renewed(YEARS), Lease::Fixed(YEARS)] {
        for lock in M::of_each_kind(&client, ["x"; 3]) {
            let guard = lock.with_lease(lease).acquire().await.unwrap();
            let ttl = server.ttl_ms(&M::key("x")).unwrap();
            assert!(
                (YEARS - SOON..=YEARS).contains(&ms(ttl.unsigned_abs())),
                "{ttl}"
            );
            assert!(
                (YEARS - YEARS / 500..YEARS).contains(&guard.remaining()),
                "{:?}",
                guard.remaining()
            );
            guard.release().await.unwrap();
        }
    }
}

// Red without the check in `Hold::extend`.
pub(crate) async fn extending_by_a_nonsense_lease_is_refused_and_costs_nothing<M: Single>() {
    let server = Server::start().unwrap();
    let client = Client::connect(&server.url()).await.unwrap();
    let guard = M::of(&client, "x")
        .with_lease(Lease::Fixed(ms(60_000)))
        .acquire()
        .await
        .unwrap();
    let before = server.scripts().unwrap();
    for lease in [Duration::ZERO, NANO, ms(9), YEARS + NANO, Duration::MAX] {
        assert!(
            matches!(guard.extend(lease).await, Err(Error::InvalidLease { .. })),
            "{lease:?}"
        );
    }
    assert_eq!(server.scripts().unwrap(), before);
    assert_eq!(guard.state(), HoldState::Held);
    guard.extend(YEARS).await.unwrap();
    assert!(guard.remaining() > YEARS / 2);
    guard.release().await.unwrap();
}

pub(crate) async fn a_wait_of_any_length_takes_a_free_lock<M: Single>(site: Site) {
    let client = site.client().await;
    let lock = M::of(&client, "x");
    for wait in [
        Duration::ZERO,
        NANO,
        ms(9),
        ms(10),
        YEARS,
        YEARS + ms(1),
        Duration::MAX,
    ] {
        let guard = lock.try_acquire_for(wait).await.unwrap();
        guard
            .unwrap_or_else(|| panic!("not taken with a wait of {wait:?}"))
            .release()
            .await
            .unwrap();
    }
}

// Red when a claim that is dropped is not abandoned.
pub(crate) async fn a_short_wait_ends_with_none_and_leaves_no_place<M: Single>(site: Site) {
    let client = site.client().await;
    let other = site.client().await;
    let guard = M::of(&client, "x").acquire().await.unwrap();
    for wait in [
        Duration::ZERO,
        NANO,
        ms(9),
        ms(10),
        Duration::from_micros(10_500),
    ] {
        let start = Instant::now();
        assert!(
            M::of(&other, "x")
                .try_acquire_for(wait)
                .await
                .unwrap()
                .is_none(),
            "{wait:?}"
        );
        assert!(start.elapsed() < wait + SOON / 2, "{wait:?}");
    }
    eventually_async(SOON, async || site.keys() == M::keys("x")).await;
    guard.release().await.unwrap();
}

// Red when a wait that is out of reach counts as none.
pub(crate) async fn a_long_wait_goes_on_until_the_lock_is_free<M: Single>(site: Site) {
    let client = site.client().await;
    let other = site.client().await;
    let lock = M::of(&client, "x");
    for wait in [ms(60_000), YEARS, YEARS + ms(1), Duration::MAX] {
        let guard = lock.acquire().await.unwrap();
        let waiting = M::of(&other, "x");
        let waiter = tokio::spawn(async move { waiting.try_acquire_for(wait).await });
        eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
        assert!(!waiter.is_finished(), "{wait:?}");
        guard.release().await.unwrap();
        let guard = tokio::time::timeout(SOON, waiter)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        guard
            .unwrap_or_else(|| panic!("{wait:?}"))
            .release()
            .await
            .unwrap();
    }
    assert_eq!(site.keys(), Vec::<String>::new());
}

// Red when `Share::wants` takes no notice of `ends`.
pub(crate) async fn a_longest_hold_of_zero_ends_with_the_first_lease<M: Single>(site: Site) {
    let client = site.client().await;
    let lock = M::of(&client, "x").with_lease(Lease::Renewed(ms(300)));
    let guard = lock
        .clone()
        .with_max_hold(Duration::ZERO)
        .acquire()
        .await
        .unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    let next = tokio::time::timeout(SOON, lock.acquire())
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        guard.release().await,
        Err(Error::LeaseLost { .. })
    ));
    next.release().await.unwrap();
}

// Red when a moment that is out of reach counts as none.
pub(crate) async fn a_longest_hold_without_bounds_is_renewed_on_and_on<M: Single>(site: Site) {
    let client = site.client().await;
    let lock = M::of(&client, "x").with_lease(Lease::Renewed(ms(400)));
    for longest in [YEARS, Duration::MAX] {
        let guard = lock.clone().with_max_hold(longest).acquire().await.unwrap();
        assert!(tokio::time::timeout(ms(1200), guard.lost()).await.is_err());
        assert_eq!(guard.state(), HoldState::Held);
        guard.release().await.unwrap();
    }
}

pub(crate) async fn a_longest_hold_leaves_a_fixed_lease_alone<M: Single>(site: Site) {
    let client = site.client().await;
    let lock = M::of(&client, "x").with_lease(Lease::Fixed(ms(60_000)));
    let guard = lock
        .clone()
        .with_max_hold(Duration::ZERO)
        .acquire()
        .await
        .unwrap();
    assert!(guard.remaining() > ms(30_000));
    guard.release().await.unwrap();
}
