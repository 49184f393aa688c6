use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lockyard_testkit::{
    Action, Proxy, Server, command, eventually, eventually_async, fresh_prefix, redis,
};

const SOON: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn everything_works_on_a_blocked_runtime() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let rule = proxy.always(command("SET"), Action::Pass);
    let mut client = redis::Client::open(proxy.url())
        .unwrap()
        .get_connection()
        .unwrap();
    redis::cmd("SET")
        .arg("k")
        .arg("v")
        .exec(&mut client)
        .unwrap();
    rule.wait_fired(1, SOON);
    rule.wait_fired_async(1, SOON).await;
    proxy.cut();
    eventually_async(SOON, async || server.keys("*").unwrap() == ["k"]).await;
    drop(proxy);
}

#[test]
fn a_rule_that_does_not_fire_is_reported() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let rule = proxy.always(command("SET"), Action::Pass);
    let panic = catch_unwind(AssertUnwindSafe(|| rule.wait_fired(1, SHORT))).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("fired 0 times, not 1"), "{text}");
}

#[test]
fn a_condition_is_awaited_until_the_deadline() {
    let mut looks = 0;
    eventually(SOON, || {
        looks += 1;
        looks == 3
    });
    assert!(catch_unwind(|| eventually(SHORT, || false)).is_err());
}

#[test]
fn prefixes_are_fresh() {
    assert_ne!(fresh_prefix(), fresh_prefix());
}
