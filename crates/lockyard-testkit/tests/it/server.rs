use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::panic;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lockyard_testkit::{Error, Server, redis};

/// Set in the process that only holds a server.
const HOLDER: &str = "LOCKYARD_TESTKIT_HOLDER";

/// A zombie has an empty command line, and counts as dead.
fn lives(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn wait_dead(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while lives(pid) {
        assert!(Instant::now() < deadline, "server {pid} outlived its owner");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ping(url: &str) -> redis::RedisResult<String> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    redis::cmd("PING").query(&mut connection)
}

#[test]
fn a_plain_server_answers_at_its_url() {
    let server = Server::start().unwrap();
    assert_eq!(
        server.url(),
        format!("redis://127.0.0.1:{}", server.port().unwrap())
    );
    assert_eq!(ping(&server.url()).unwrap(), "PONG");
    let version: Vec<&str> = server.version().split('.').collect();
    assert!(version[0].parse::<u32>().unwrap() >= 7, "{version:?}");
    assert!(lives(server.pid()));
    let info: String = server.query(&["INFO", "server"]).unwrap();
    assert_eq!(server.is_valkey(), info.contains("server_name:valkey"));
    let save: Vec<String> = server.query(&["CONFIG", "GET", "save"]).unwrap();
    assert_eq!(save, ["save", ""]);
}

#[test]
fn a_server_starts_quickly() {
    let quickest = (0..5).map(|_| {
        let start = Instant::now();
        let server = Server::start().unwrap();
        let took = start.elapsed();
        drop(server);
        took
    });
    let quickest = quickest.min().unwrap();
    // Usually 10 to 20 ms; much is left for a busy machine.
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
}

#[test]
fn many_servers_start_at_once() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| (0..3).map(|_| Server::start().unwrap()).collect::<Vec<_>>())
        })
        .collect();
    let servers: Vec<Server> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    let mut ports: Vec<_> = servers.iter().map(Server::port).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 12);
}

#[test]
fn a_unix_socket_is_reached_by_its_url() {
    let server = Server::builder()
        .unix_socket()
        .password("pw")
        .start()
        .unwrap();
    assert_eq!(server.port(), None);
    assert!(
        server
            .url()
            .starts_with("redis+unix://default:pw@localhost/")
    );
    let path = server.url().split_once("localhost").unwrap().1.to_owned();
    let answer = ping(&format!("redis+unix://{path}?user=default&pass=pw"));
    assert_eq!(answer.unwrap(), "PONG");
}

#[test]
fn acl_lines_are_obeyed() {
    let server = Server::builder()
        .acl("user reader on >pw ~shop:* resetchannels -@all +get")
        .start()
        .unwrap();
    let url = server.url_for("reader", "pw");
    let mut reader = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd("GET").arg("shop:1").exec(&mut reader).unwrap();
    let refused = redis::cmd("SET").arg("shop:1").arg(2).exec(&mut reader);
    assert_eq!(refused.unwrap_err().code(), Some("NOPERM"));
    assert_eq!(ping(&server.url()).unwrap(), "PONG");
}

#[test]
fn a_password_is_demanded() {
    let server = Server::builder().password("p@ss/word").start().unwrap();
    assert_eq!(ping(&server.url()).unwrap(), "PONG");
    let bare = format!("redis://127.0.0.1:{}", server.port().unwrap());
    assert_eq!(ping(&bare).unwrap_err().code(), Some("NOAUTH"));
    server.flush_all().unwrap();
}

#[test]
fn the_default_user_can_lose_its_rights() {
    let server = Server::builder().acl("user default off").start().unwrap();
    assert!(ping(&server.url()).is_err());
    server.flush_all().unwrap();
}

#[test]
fn a_cluster_serves_all_slots_also_after_a_restart() {
    let server = Server::builder().cluster().start().unwrap();
    for key in ["a", "b", "c"] {
        server.command(&["SET", key, "1"]).unwrap();
    }
    let crossing = server.command(&["MGET", "a", "b"]).unwrap_err();
    let Error::Redis(crossing) = crossing else {
        panic!("{crossing}")
    };
    assert_eq!(crossing.code(), Some("CROSSSLOT"));
    server.restart().unwrap();
    server.command(&["SET", "a", "1"]).unwrap();
}

#[test]
fn directives_reach_the_server() {
    let server = Server::builder()
        .config("maxmemory", "64mb")
        .config("client-output-buffer-limit", "pubsub 1mb 1mb 10")
        .start()
        .unwrap();
    let value: (String, u64) = server.query(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(value.1, 64 << 20);
    server.fill().unwrap();
    server.unfill().unwrap();
    let value: (String, u64) = server.query(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(value.1, 64 << 20);
}

#[test]
fn a_wrong_directive_is_reported_with_the_log() {
    let error = Server::builder()
        .config("no-such-thing", "1")
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("no-such-thing"), "{error}");
    assert!(matches!(error, Error::Start { .. }));
}

#[test]
fn a_missing_program_is_reported() {
    let error = Server::builder()
        .binary("/nowhere/redis-server")
        .start()
        .unwrap_err();
    assert!(
        error.to_string().contains("/nowhere/redis-server"),
        "{error}"
    );
    let advice = Error::NoServer.to_string();
    for part in [
        "apt-get install redis-server",
        "dnf install valkey",
        "brew install redis",
    ] {
        assert!(advice.contains(part));
    }
}

#[test]
fn another_port_is_tried_if_one_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    let real = std::env::var("LOCKYARD_SERVER").unwrap_or("redis-server".to_owned());
    let script = format!(
        "#!/bin/sh
        [ -e {0} ] && exec {real} \"$@\"
        touch {0}
        echo bind: Address already in use
        exit 1",
        folder.path().join("tried").display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let server = Server::builder().binary(program).start().unwrap();
    assert_eq!(ping(&server.url()).unwrap(), "PONG");
}

/// Runs a test that starts a server in a process with another environment.
fn complaint(variable: &str, value: &str) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::holds_a_server", "--nocapture"])
        .env(HOLDER, "1")
        .env_remove("LOCKYARD_SERVER")
        .env(variable, value)
        .output()
        .unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_program_is_found_by_the_environment() {
    let text = complaint("LOCKYARD_SERVER", "/nowhere/server");
    assert!(text.contains("/nowhere/server"), "{text}");
    let text = complaint("PATH", "/nowhere");
    assert!(text.contains("NoServer"), "{text}");
}

#[test]
fn a_replica_follows_its_primary() {
    let primary = Server::builder().password("pw").start().unwrap();
    primary.command(&["SET", "k", "v"]).unwrap();
    let replica = Server::builder().replica_of(&primary).start().unwrap();
    assert_eq!(replica.query::<String>(&["GET", "k"]).unwrap(), "v");
    let refused = replica.command(&["SET", "k", "w"]).unwrap_err();
    let Error::Redis(refused) = refused else {
        panic!("{refused}")
    };
    assert_eq!(refused.code(), Some("READONLY"));
}

#[test]
fn a_panicking_test_takes_its_server_along() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let result = panic::catch_unwind(move || {
        let server = Server::start().unwrap();
        sender.send(server.pid()).unwrap();
        panic!("as a failing test does");
    });
    assert!(result.is_err());
    let pid = receiver.recv().unwrap();
    assert!(!lives(pid));
}

// Not a test of its own: the next one runs it in another process, and kills that.
#[test]
fn holds_a_server() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let server = Server::start().unwrap();
    let folder: Vec<String> = server.query(&["CONFIG", "GET", "dir"]).unwrap();
    writeln!(std::io::stdout(), "\nholds {} {}", server.pid(), folder[1]).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_takes_its_server_along() {
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::holds_a_server", "--nocapture"])
        .env(HOLDER, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with("holds "))
        .unwrap();
    let mut words = line.split(' ').skip(1);
    let pid: u32 = words.next().unwrap().parse().unwrap();
    let folder = Path::new(words.next().unwrap());
    assert!(lives(pid) && folder.exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
    wait_dead(pid);
    let deadline = Instant::now() + Duration::from_secs(5);
    while folder.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(!folder.exists());
}

#[test]
fn nothing_is_left_in_the_file_system() {
    let server = Server::start().unwrap();
    let folder: Vec<String> = server.query(&["CONFIG", "GET", "dir"]).unwrap();
    assert!(Path::new(&folder[1]).exists());
    drop(server);
    assert!(!Path::new(&folder[1]).exists());
}
