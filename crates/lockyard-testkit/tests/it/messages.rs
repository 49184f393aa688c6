use std::time::Duration;

use lockyard_testkit::{Action, Proxy, Server, command, eventually};

use crate::raw::Raw;

const SOON: Duration = Duration::from_secs(5);

fn publish(server: &Server, message: &str) {
    let receivers: u64 = server.query(&["PUBLISH", "news", message]).unwrap();
    assert_eq!(receivers, 1);
}

fn contains(lines: &[String], line: &str) -> bool {
    lines.iter().any(|found| found == line)
}

#[test]
fn messages_are_dropped_and_nothing_else() {
    for protocol in [2, 3] {
        let server = Server::start().unwrap();
        let proxy = Proxy::start(&server).unwrap();
        let mut client = Raw::connect(&proxy, protocol);
        proxy.drop_messages(2);
        client.send("SUBSCRIBE news other");
        client.send("PING");
        let lines = client.read_until(if protocol == 2 { "pong" } else { "+pong" });
        assert!(
            contains(&lines, "news") && contains(&lines, "other"),
            "{lines:?}"
        );
        for message in ["one", "two", "three"] {
            publish(&server, message);
        }
        let lines = client.read_until("three");
        assert!(
            !contains(&lines, "one") && !contains(&lines, "two"),
            "{lines:?}"
        );
        assert_eq!((proxy.messages_seen(), proxy.messages_dropped()), (3, 2));

        proxy.drop_all_messages();
        publish(&server, "four");
        eventually(SOON, || proxy.messages_dropped() == 3);
        proxy.drop_messages(0);
        publish(&server, "five");
        assert!(!contains(&client.read_until("five"), "four"));
    }
}

#[test]
fn messages_of_patterns_and_shards_are_messages() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let mut client = Raw::connect(&proxy, 3);
    client.send("PSUBSCRIBE n*");
    client.send("SSUBSCRIBE news");
    client.send("PING");
    client.read_until("+pong");
    publish(&server, "one");
    server.command(&["SPUBLISH", "news", "two"]).unwrap();
    client.read_until("two");
    assert_eq!(proxy.messages_seen(), 2);
}

#[test]
fn replies_find_their_commands_among_messages() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let mut client = Raw::connect(&proxy, 3);
    let subscribed = proxy.once(command("SUBSCRIBE"), Action::Pass);
    let rule = proxy.once(command("GET"), Action::Reply(b"+ours\r\n".to_vec()));
    for command in [
        "SUBSCRIBE news b",
        "PUBLISH news hello",
        "UNSUBSCRIBE",
        "GET k",
        "ECHO end",
    ] {
        client.send(command);
    }
    let lines = client.read_until("end");
    let place = |line: &str| lines.iter().rposition(|found| found == line).unwrap();
    assert!(place("hello") < place("+ours"), "{lines:?}");
    assert!(place("unsubscribe") < place("$3"), "{lines:?}");
    assert!(place("+ours") < place("$3"), "{lines:?}");
    assert_eq!((subscribed.fired(), rule.fired()), (1, 1));
    assert_eq!(proxy.messages_seen(), 1);
}

#[test]
fn a_refused_subscription_is_an_ordinary_reply() {
    let server = Server::builder()
        .acl("user default on nopass ~* resetchannels +@all")
        .start()
        .unwrap();
    let proxy = Proxy::start(&server).unwrap();
    for protocol in [2, 3] {
        let mut client = Raw::connect(&proxy, protocol);
        let rule = proxy.once(command("ECHO"), Action::Reply(b"+ours\r\n".to_vec()));
        client.send("SUBSCRIBE a b");
        client.send("ECHO theirs");
        client.send("PING");
        let lines = client.read_until("+pong");
        assert!(lines[0].starts_with("-noperm"), "{lines:?}");
        assert_eq!(lines[1..], ["+ours", "+pong"]);
        assert_eq!(rule.fired(), 1);
    }
}

#[test]
fn a_subscription_can_be_lost() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let mut client = Raw::connect(&proxy, 3);
    let rule = proxy.once(command("SUBSCRIBE"), Action::CutBeforeReply);
    client.send("SUBSCRIBE news");
    rule.wait_fired(1, SOON);
    assert!(client.is_cut());
}
