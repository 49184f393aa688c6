use std::time::{Duration, Instant};

use lockyard_testkit::{Action, Direction, Proxy, Server, command, eventually, redis};
use redis::{Connection, Value, cmd};

use crate::raw::Raw;

const SOON: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(100);

fn start() -> (Server, Proxy) {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    (server, proxy)
}

fn connect(url: &str) -> Connection {
    let client = redis::Client::open(url).unwrap();
    let connection = client.get_connection().unwrap();
    connection.set_read_timeout(Some(SOON)).unwrap();
    connection
}

fn get(server: &Server, key: &str) -> Option<String> {
    server.query(&["GET", key]).unwrap()
}

#[test]
fn everything_passes() {
    let (_server, proxy) = start();
    let big = "x".repeat(1 << 20);
    for protocol in ["resp2", "resp3"] {
        let mut client = connect(&format!("{}?protocol={protocol}", proxy.url()));
        cmd("SET").arg("big").arg(&big).exec(&mut client).unwrap();
        let value: String = cmd("GET").arg("big").query(&mut client).unwrap();
        assert_eq!(value, big);
        let mut pipeline = redis::pipe();
        for n in 0..1000 {
            pipeline.cmd("ECHO").arg(n);
        }
        let numbers: Vec<u32> = pipeline.query(&mut client).unwrap();
        assert!(numbers.into_iter().eq(0..1000));
        let config: std::collections::HashMap<String, String> = cmd("CONFIG")
            .arg("GET")
            .arg("save*")
            .query(&mut client)
            .unwrap();
        assert_eq!(config["save"], "");
    }
    assert!(proxy.commands_seen() >= 2006);
    assert_eq!(proxy.messages_seen(), 0);
}

#[test]
fn a_delay_is_constant_and_does_not_slow_down_the_flow() {
    let (_server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    proxy.delay(Direction::ToServer, Duration::from_millis(60));
    proxy.delay(Direction::ToClient, Duration::from_millis(40));
    let start = Instant::now();
    for _ in 0..20 {
        client.send("PING");
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..20 {
        assert_eq!(client.line(), "+PONG");
    }
    let took = start.elapsed();
    // One after the other they would take two seconds.
    let expected = Duration::from_millis(195)..Duration::from_millis(1900);
    assert!(expected.contains(&took), "{took:?}");
    proxy.delay(Direction::Both, Duration::ZERO);
    eventually(SOON, || {
        let start = Instant::now();
        client.send("PING");
        client.line();
        start.elapsed() < Duration::from_millis(60)
    });
}

#[test]
fn what_is_held_passes_when_it_is_let_go() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    proxy.hold(Direction::ToServer);
    client.send("SET k v");
    assert!(client.is_silent());
    assert_eq!(get(&server, "k"), None);
    proxy.let_go();
    assert_eq!(client.line(), "+OK");

    proxy.hold(Direction::ToClient);
    client.send("SET k w");
    eventually(SOON, || get(&server, "k").as_deref() == Some("w"));
    assert!(client.is_silent());
    proxy.let_go();
    assert_eq!(client.line(), "+OK");
}

#[test]
fn a_held_command_arrives_after_its_client_has_gone() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    proxy.hold(Direction::Both);
    client.send("SET k v");
    eventually(SOON, || proxy.commands_seen() == 3);
    drop(client);
    std::thread::sleep(SHORT);
    assert_eq!(get(&server, "k"), None);
    assert_eq!(proxy.connections(), 1);
    proxy.let_go();
    eventually(SOON, || get(&server, "k").is_some());
    eventually(SOON, || proxy.connections() == 0);
}

#[test]
fn a_client_that_has_said_all_still_gets_its_replies() {
    let (_server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    proxy.hold(Direction::ToClient);
    let rule = proxy.once(command("PING"), Action::Pass);
    client.send("PING");
    rule.wait_fired(1, SOON);
    client.finish();
    proxy.let_go();
    assert_eq!(client.line(), "+PONG");
    assert!(client.is_cut());
}

#[test]
fn cut_connections_are_gone_and_new_ones_work() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    proxy.hold(Direction::ToServer);
    client.send("SET k v");
    eventually(SOON, || proxy.commands_seen() == 3);
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    proxy.let_go();
    assert!(client.is_cut());
    Raw::connect(&proxy, 2);
    assert_eq!(get(&server, "k"), None);
}

#[test]
fn new_connections_are_refused_and_old_ones_stay() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy.url());
    proxy.refuse();
    let refused = redis::Client::open(proxy.url()).unwrap().get_connection();
    assert!(refused.err().unwrap().is_connection_refusal());
    cmd("PING").exec(&mut client).unwrap();
    proxy.accept().unwrap();
    proxy.accept().unwrap();
    cmd("PING").exec(&mut connect(&proxy.url())).unwrap();
}

#[test]
fn a_swallowed_reply_leaves_a_deaf_client_whose_commands_arrive() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    let rule = proxy.once(command("set"), Action::SwallowReply);
    client.send("PING");
    client.send("SET k v");
    client.send("SET l v");
    assert_eq!(client.line(), "+PONG");
    rule.wait_fired(1, SOON);
    assert_eq!(get(&server, "k").as_deref(), Some("v"));
    eventually(SOON, || get(&server, "l").is_some());
    assert!(client.is_silent());
    let mut other = Raw::connect(&proxy, 2);
    other.send("SET k w");
    assert_eq!(other.line(), "+OK");
    assert_eq!(rule.fired(), 1);
}

#[test]
fn a_connection_is_cut_before_the_reply() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    let rule = proxy.once(command("SET"), Action::CutBeforeReply);
    client.send("PING");
    client.send("SET k v");
    assert_eq!(client.line(), "+PONG");
    assert!(client.is_cut());
    rule.wait_fired(1, SOON);
    assert_eq!(get(&server, "k").as_deref(), Some("v"));
    eventually(SOON, || proxy.connections() == 0);
}

#[test]
fn a_dropped_command_takes_what_follows_along() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    let rule = proxy.once(command("SET"), Action::DropCommand);
    client.send("GET k");
    client.send("SET k v");
    client.send("SET l v");
    assert_eq!(client.line(), "$-1");
    rule.wait_fired(1, SOON);
    assert!(client.is_silent());
    assert!(server.keys("*").unwrap().is_empty());
    drop(client);
    eventually(SOON, || proxy.connections() == 0);
}

#[test]
fn a_rule_holds_one_connection_and_not_the_others() {
    let (server, proxy) = start();
    for by_proxy in [false, true] {
        let rule = proxy.once(command("SET"), Action::Hold);
        let mut client = Raw::connect(&proxy, 2);
        client.send("SET k v");
        client.send("INCR n");
        rule.wait_fired(1, SOON);
        let mut other = Raw::connect(&proxy, 2);
        other.send("SET other v");
        assert_eq!(other.line(), "+OK");
        assert!(client.is_silent());
        assert_eq!(server.keys("*").unwrap(), ["other"]);
        if by_proxy {
            proxy.let_go();
        } else {
            rule.let_go();
        }
        assert_eq!(client.line(), "+OK");
        assert_eq!(client.line(), ":1");
        server.flush_all().unwrap();
    }
}

#[test]
fn copies_are_sent_again_as_the_same_user() {
    let server = Server::builder()
        .acl("user counter on >pw ~n +incr +hello +select")
        .start()
        .unwrap();
    let proxy = Proxy::start(&server).unwrap();
    proxy.times(2, command("INCR"), Action::Copy);
    for protocol in ["resp2", "resp3"] {
        let url = proxy.url_for("counter", "pw");
        let mut client = connect(&format!("{url}/1?protocol={protocol}"));
        cmd("INCR").arg("n").exec(&mut client).unwrap();
    }
    assert_eq!(
        proxy.resend_copies().unwrap(),
        [Value::Int(3), Value::Int(4)]
    );
    assert!(proxy.resend_copies().unwrap().is_empty());
    assert!(server.keys("n").unwrap().is_empty(), "database 1 was meant");
}

#[test]
fn a_reply_can_be_late() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    let rule = proxy.once(command("SET"), Action::DelayReply(2 * SHORT));
    let start = Instant::now();
    client.send("SET k v");
    client.send("PING");
    rule.wait_fired(1, SOON);
    assert_eq!(get(&server, "k").as_deref(), Some("v"));
    assert_eq!(client.line(), "+OK");
    assert!(start.elapsed() >= 2 * SHORT);
    assert_eq!(client.line(), "+PONG");
}

#[test]
fn replies_of_the_proxy_come_in_order() {
    let (server, proxy) = start();
    let mut client = Raw::connect(&proxy, 2);
    let rule = proxy.times(2, command("SET"), Action::error("NOPERM not here"));
    proxy.always(command("INCR"), Action::DelayReply(SHORT));
    for command in ["INCR n", "SET k v", "SET k v", "INCR n", "SET l v"] {
        client.send(command);
    }
    let lines: Vec<String> = (0..5).map(|_| client.line()).collect();
    assert_eq!(
        lines,
        [":1", "-NOPERM not here", "-NOPERM not here", ":2", "+OK"]
    );
    assert_eq!(rule.fired(), 2);
    assert_eq!(server.keys("*").unwrap(), ["l", "n"]);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy.url());
    let named = |words: &[Vec<u8>]| words.get(1).is_some_and(|key| key == b"k");
    let first = proxy.once(named, Action::error("FIRST"));
    let second = proxy.always(command("GET"), Action::error("SECOND"));
    let third = proxy.always(command("GET"), Action::Pass);
    let mut codes = Vec::new();
    for _ in 0..3 {
        let error = cmd("GET").arg("k").exec(&mut client).unwrap_err();
        codes.push(error.code().unwrap().to_owned());
    }
    assert_eq!(codes, ["FIRST", "SECOND", "SECOND"]);
    second.remove();
    cmd("GET").arg("k").exec(&mut client).unwrap();
    assert_eq!([first.fired(), second.fired(), third.fired()], [1, 2, 1]);
}

#[test]
fn the_proxy_outlives_its_server() {
    let (server, proxy) = start();
    let mut client = connect(&proxy.url());
    server.kill();
    assert!(cmd("PING").exec(&mut client).is_err());
    let hung_up = redis::Client::open(proxy.url()).unwrap().get_connection();
    assert!(
        hung_up
            .and_then(|mut client| cmd("PING").exec(&mut client))
            .is_err()
    );
    server.restart().unwrap();
    cmd("PING").exec(&mut connect(&proxy.url())).unwrap();
}

#[test]
fn a_password_is_in_the_url() {
    let server = Server::builder().password("pw").start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    assert_eq!(
        proxy.url(),
        format!("redis://default:pw@127.0.0.1:{}", proxy.port())
    );
    cmd("PING").exec(&mut connect(&proxy.url())).unwrap();
}

#[test]
fn a_dropped_proxy_cuts() {
    let (_server, proxy) = start();
    let mut client = connect(&proxy.url());
    let rule = proxy.always(command("PING"), Action::Pass);
    let url = proxy.url();
    drop(proxy);
    assert!(cmd("PING").exec(&mut client).is_err());
    assert!(redis::Client::open(url).unwrap().get_connection().is_err());
    rule.wait_fired(0, SHORT);
    rule.remove();
}

#[test]
fn a_socket_has_no_proxy() {
    let server = Server::builder().unix_socket().start().unwrap();
    assert!(matches!(
        Proxy::start(&server),
        Err(lockyard_testkit::Error::NoPort)
    ));
}

#[test]
fn what_a_test_holds_is_send_sync_and_static() {
    fn check<T: Send + Sync + std::fmt::Debug + 'static>() {}
    check::<Server>();
    check::<Proxy>();
    check::<lockyard_testkit::Rule>();
    check::<lockyard_testkit::ServerBuilder>();
}
