use std::time::{Duration, Instant};

use lockyard_testkit::{Error, Server, redis};
use redis::Connection;

fn connect(server: &Server) -> Connection {
    redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap()
}

fn code(result: Result<redis::Value, Error>) -> String {
    match result {
        Err(Error::Redis(error)) => error.code().unwrap_or("none").to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_killed_server_is_gone_and_a_restarted_one_is_empty() {
    let server = Server::start().unwrap();
    server.command(&["SET", "k", "v"]).unwrap();
    let (url, pid) = (server.url(), server.pid());
    server.kill();
    assert!(server.command(&["PING"]).is_err());
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);
    assert!(server.keys("*").unwrap().is_empty());
}

#[test]
fn a_running_server_restarts_too_also_on_a_socket() {
    let server = Server::builder().unix_socket().start().unwrap();
    server.command(&["SET", "k", "v"]).unwrap();
    server.restart().unwrap();
    assert!(server.keys("*").unwrap().is_empty());
}

#[test]
fn a_paused_server_is_silent_and_then_answers() {
    let server = Server::start().unwrap();
    let mut connection = connect(&server);
    server.pause().unwrap();
    connection
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    assert!(
        redis::cmd("PING")
            .exec(&mut connection)
            .unwrap_err()
            .is_timeout()
    );
    server.resume().unwrap();
    server.command(&["PING"]).unwrap();
}

#[test]
fn a_paused_server_ends_with_its_value() {
    let server = Server::start().unwrap();
    server.pause().unwrap();
    server.pause().unwrap();
    let pid = server.pid();
    drop(server);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_killed_server_cannot_be_paused() {
    let server = Server::start().unwrap();
    server.kill();
    assert!(matches!(server.pause(), Err(Error::Io { .. })));
    assert!(matches!(server.resume(), Err(Error::Io { .. })));
}

#[test]
fn a_full_server_refuses_writes_until_it_is_not() {
    let server = Server::start().unwrap();
    server.fill().unwrap();
    assert_eq!(code(server.command(&["SET", "k", "v"])), "OOM");
    server.command(&["GET", "k"]).unwrap();
    server.unfill().unwrap();
    server.command(&["SET", "k", "v"]).unwrap();
}

#[test]
fn scripts_are_counted_and_forgotten() {
    let server = Server::start().unwrap();
    let sha: String = server.query(&["SCRIPT", "LOAD", "return 1"]).unwrap();
    server.command(&["EVALSHA", &sha, "0"]).unwrap();
    server.command(&["EVAL", "return 1", "0"]).unwrap();
    assert_eq!(server.scripts().unwrap(), 2);
    assert_eq!(server.commandstats().unwrap()["script|load"], 1);
    server.flush_scripts().unwrap();
    assert_eq!(code(server.command(&["EVALSHA", &sha, "0"])), "NOSCRIPT");
}

#[test]
fn a_busy_server_says_so_for_a_while() {
    let server = Server::start().unwrap();
    server.busy(Duration::from_millis(300)).unwrap();
    assert_eq!(code(server.command(&["GET", "k"])), "BUSY");
    let start = Instant::now();
    while server.command(&["GET", "k"]).is_err() {
        assert!(start.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(start.elapsed() > Duration::from_millis(200));
}

#[test]
fn clients_are_killed_by_type() {
    let server = Server::start().unwrap();
    let mut normal = connect(&server);
    let mut subscriber = connect(&server);
    let mut subscriber = subscriber.as_pubsub();
    subscriber.subscribe("news").unwrap();
    assert_eq!(server.kill_clients("pubsub").unwrap(), 1);
    assert!(subscriber.get_message().is_err());
    redis::cmd("PING").exec(&mut normal).unwrap();
    assert_eq!(server.kill_clients("normal").unwrap(), 1);
    assert!(redis::cmd("PING").exec(&mut normal).is_err());
    assert!(server.kill_clients("nonsense").is_err());
}

#[test]
fn a_server_can_be_made_read_only_and_back() {
    let server = Server::start().unwrap();
    server.command(&["SET", "k", "v"]).unwrap();
    server.make_replica().unwrap();
    assert_eq!(code(server.command(&["SET", "k", "w"])), "READONLY");
    assert_eq!(server.query::<String>(&["GET", "k"]).unwrap(), "v");
    server.make_primary().unwrap();
    server.command(&["SET", "k", "w"]).unwrap();
}

#[test]
fn keys_and_their_time_are_seen() {
    let server = Server::start().unwrap();
    server.command(&["SET", "b:2", "v", "PX", "60000"]).unwrap();
    server.command(&["SET", "b:1", "v"]).unwrap();
    server.command(&["SET", "a", "v"]).unwrap();
    assert_eq!(server.keys("b:*").unwrap(), ["b:1", "b:2"]);
    assert!((50_000..=60_000).contains(&server.ttl_ms("b:2").unwrap()));
    assert_eq!(server.ttl_ms("b:1").unwrap(), -1);
    assert_eq!(server.ttl_ms("c").unwrap(), -2);
    server.flush_all().unwrap();
    assert!(server.keys("*").unwrap().is_empty());
}

#[test]
fn the_slowest_command_is_known() {
    let server = Server::start().unwrap();
    let start = Instant::now();
    server
        .command(&["EVAL", "for i = 1, 2e7 do end", "0"])
        .unwrap();
    let passed = start.elapsed();
    let slowest = server.slowlog_max().unwrap();
    // The two clocks need not agree to the last.
    let ms = Duration::from_millis;
    assert!(
        ms(10) < slowest && slowest < passed + ms(1),
        "{slowest:?} of {passed:?}"
    );
    server.slowlog_reset().unwrap();
    // On a busy machine anything may take a millisecond.
    assert!(server.slowlog_max().unwrap() < slowest);
}
