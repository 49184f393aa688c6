//! What the feature `metrics` tells a recorder; each test has a label of its own.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

use std::sync::OnceLock;
use std::time::Duration;

use lockyard::{Client, Lease, Rate};
use lockyard_testkit::{Server, eventually_async};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const SOON: Duration = Duration::from_secs(20);

fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Prefix("lockyard".into()), &[1.0])
            .unwrap()
            .install_recorder()
            .unwrap()
    })
}

/// The value with just these labels, in the order of Prometheus; 0 if there is none.
fn value(name: &str, labels: &str) -> f64 {
    let wanted = format!("{name}{{{labels}}} ");
    let text = recorder().render();
    let line = text.lines().find_map(|line| line.strip_prefix(&wanted));
    line.map_or(0.0, |value| value.parse().unwrap())
}

async fn client(server: &Server) -> Client {
    recorder();
    Client::connect(&server.url()).await.unwrap()
}

/// Waits until a value is there: some are told by the watchdog.
async fn until(name: &str, labels: &str, expected: f64) {
    eventually_async(SOON, async || value(name, labels) == expected).await;
}

#[tokio::test]
async fn acquires_are_counted_by_outcome_and_timed() {
    let server = Server::start().unwrap();
    let lock = client(&server).await.lock("secret name").with_label("a");
    let outcome = |outcome: &str| {
        let labels = format!(r#"kind="lock",label="a",outcome="{outcome}""#);
        value("lockyard_acquires_total", &labels)
    };
    let guard = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let wait = Duration::from_millis(20);
    assert!(lock.try_acquire_for(wait).await.unwrap().is_none());
    let cancelled = lock.clone();
    let waiting = tokio::spawn(async move { cancelled.acquire().await.map(drop) });
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    // A place that is left would be granted, and be in the way for a moment.
    eventually_async(SOON, async || lock.inspect().await.unwrap().waiting == 0).await;
    guard.release().await.unwrap();
    drop(lock.acquire().await.unwrap());
    eventually_async(SOON, async || !lock.is_locked().await.unwrap()).await;
    server
        .command(&["SET", "lockyard:lock:{secret name}", "1"])
        .unwrap();
    lock.try_acquire().await.unwrap_err();

    let counts = ["acquired", "busy", "cancelled", "failed"].map(outcome);
    assert_eq!(counts, [2.0, 2.0, 1.0, 1.0]);
    let labels = r#"kind="lock",label="a""#;
    assert_eq!(value("lockyard_contended_acquires_total", labels), 2.0);
    assert_eq!(value("lockyard_wait_seconds_count", labels), 2.0);
    assert_eq!(value("lockyard_hold_seconds_count", labels), 2.0);
    let held = value("lockyard_hold_seconds_sum", labels);
    assert!(held >= 0.02, "{held}");
    let waited = value("lockyard_wait_seconds_sum", labels);
    assert!(waited > 0.0 && waited < held, "{waited}");
    assert!(!recorder().render().contains("secret"));
}

#[tokio::test]
async fn each_loss_is_counted_once_with_its_reason() {
    let server = Server::start().unwrap();
    let lock = client(&server).await.lock("x").with_label("b");
    let lost = |reason| format!(r#"kind="lock",label="b",reason="{reason}""#);
    let name = "lockyard_lost_holds_total";
    let guard = lock.acquire().await.unwrap();
    lock.force_release().await.unwrap();
    guard.lost().await;
    guard.release().await.unwrap_err();
    until(name, &lost("revoked"), 1.0).await;

    let quick = lock
        .clone()
        .with_lease(Lease::Renewed(Duration::from_millis(600)));
    let guard = quick.acquire().await.unwrap();
    server.command(&["DEL", "lockyard:lock:{x}"]).unwrap();
    guard.lost().await;
    until(name, &lost("gone"), 1.0).await;
    drop(guard);
    // Only the release tells of this one.
    let guard = lock.acquire().await.unwrap();
    server.command(&["DEL", "lockyard:lock:{x}"]).unwrap();
    guard.release().await.unwrap_err();
    assert_eq!(value(name, &lost("gone")), 2.0);

    let fixed = lock
        .clone()
        .with_lease(Lease::Fixed(Duration::from_millis(200)));
    let guard = fixed.acquire().await.unwrap();
    until(name, &lost("expired"), 1.0).await;
    guard.release().await.unwrap_err();
    let counts = ["revoked", "gone", "expired"].map(|reason| value(name, &lost(reason)));
    assert_eq!(counts, [1.0, 2.0, 1.0]);
}

#[tokio::test]
async fn renewals_that_fail_are_counted() {
    let server = Server::start().unwrap();
    let lease = Lease::Renewed(Duration::from_millis(900));
    let semaphore = client(&server).await.semaphore("x", 2).with_lease(lease);
    let permit = semaphore.with_label("c").acquire().await.unwrap();
    server.kill();
    permit.lost().await;
    let labels = r#"kind="semaphore",label="c""#;
    assert!(value("lockyard_failed_renewals_total", labels) >= 1.0);
    until(
        "lockyard_lost_holds_total",
        &format!(r#"{labels},reason="expired""#),
        1.0,
    )
    .await;
}

#[tokio::test]
async fn whoever_joins_a_queue_tells_its_length() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let fair = client.fair_lock("x").with_label("d");
    let guard = fair.acquire().await.unwrap();
    let tasks = [(); 3].map(|()| {
        let fair = fair.clone();
        tokio::spawn(async move { fair.acquire().await.map(drop) })
    });
    until(
        "lockyard_queue_length_count",
        r#"kind="lock",label="d""#,
        3.0,
    )
    .await;
    // Together with the others of its client the second is one of two, and the third one of three.
    let sum = value("lockyard_queue_length_sum", r#"kind="lock",label="d""#);
    assert_eq!(sum, 6.0);
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap().unwrap();
    }

    // Tasks that share a place are counted one by one as well.
    let lock = client.lock("y").with_label("e");
    let guard = lock.acquire().await.unwrap();
    let tasks = [(); 3].map(|()| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.acquire().await.map(drop) })
    });
    until(
        "lockyard_queue_length_count",
        r#"kind="lock",label="e""#,
        3.0,
    )
    .await;
    let longest = value("lockyard_queue_length_sum", r#"kind="lock",label="e""#);
    assert_eq!(longest, 6.0);
    guard.release().await.unwrap();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn without_a_label_it_is_empty_and_kinds_differ() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let lock = client.rw_lock("x");
    lock.read().await.unwrap().release().await.unwrap();
    lock.write().await.unwrap().release().await.unwrap();
    let labels = r#"kind="rw",label="",outcome="acquired""#;
    assert_eq!(value("lockyard_acquires_total", labels), 2.0);
}

// Red when a call of a limiter or a wait for a latch is not measured.
#[tokio::test]
async fn limiters_and_latches_count_calls_and_waits() {
    let server = Server::start().unwrap();
    let client = client(&server).await;
    let counts = |kind: &str| {
        ["acquired", "busy", "cancelled", "failed"].map(|outcome| {
            let labels = format!(r#"kind="{kind}",label="f",outcome="{outcome}""#);
            value("lockyard_acquires_total", &labels)
        })
    };
    let rate = Rate::per_hour(1);
    let limiter = client.rate_limiter("x", rate).with_label("f");
    assert!(limiter.try_acquire(1).await.unwrap().is_allowed());
    assert!(!limiter.try_acquire(1).await.unwrap().is_allowed());
    server.command(&["SET", "lockyard:rate:{x}", "1"]).unwrap();
    limiter.try_acquire(1).await.unwrap_err();
    assert_eq!(counts("rate"), [1.0, 1.0, 0.0, 1.0]);

    let latch = client.latch("x").with_label("f");
    latch.wait().await.unwrap();
    latch.try_set_count(1).await.unwrap();
    assert!(!latch.wait_for(Duration::from_millis(20)).await.unwrap());
    let cancelled = tokio::time::timeout(Duration::from_millis(20), latch.wait()).await;
    assert!(cancelled.is_err());
    assert_eq!(counts("latch"), [1.0, 1.0, 1.0, 0.0]);
    for kind in ["rate", "latch"] {
        let labels = format!(r#"kind="{kind}",label="f""#);
        assert_eq!(value("lockyard_wait_seconds_count", &labels), 1.0);
    }
}
