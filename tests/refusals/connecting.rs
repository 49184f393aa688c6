//! Where and who the server is: URLs, addresses, credentials, databases.

use std::net::TcpListener;
use std::time::Instant;

use lockyard::fred::types::config::{Config, ServerConfig};
use lockyard::{Client, ClientOptions, Error};
use lockyard_testkit::{Action, Proxy, Server, command};

use crate::refusals::assert_tells;
use crate::support::{chain, connect, ms, variant};

// Red when fred decides alone what a scheme means.
#[tokio::test]
async fn wrong_urls_are_refused_without_a_word_to_any_server() {
    fn check(url: &str) {
        let error = ClientOptions::from_url(url).map(drop).expect_err(url);
        assert_tells(
            &error,
            "InvalidUrl",
            "redis://[user:password@]host[:port][/database]",
            "",
            false,
        );
        assert!(
            !chain(&error).concat().contains("hunter2"),
            "{url}: {:?} {error:?}",
            chain(&error)
        );
        assert!(
            !format!("{error:?}").contains("hunter2"),
            "{url}: {error:?}"
        );
    }
    for url in [
        "",
        " ",
        "redis",
        "redis:",
        "redis:/",
        "redis://",
        "redis:///",
        "redis:///0",
        "redis://:6379",
        "redis://hunter2@",
        "redis://:hunter2@",
        "redis://:hunter2@/0",
        "localhost",
        "localhost:6379",
        "127.0.0.1",
        "127.0.0.1:6379",
        "//:hunter2@localhost",
        ":hunter2@localhost",
        "redis://:hunter2@localhost:x",
        "redis://:hunter2@localhost:65536",
        "redis://:hunter2@localhost:-1",
        "redis://:hunter2@local host",
        "redis://:hunter2@[::1",
        "redis://:hunter2@localhost/x",
        "redis://:hunter2@localhost/-1",
        "redis://:hunter2@localhost/256",
        "redis://:hunter2@localhost/1/2",
        "redis://:hunter2@localhost/0x1",
        "redis://:hunter2@localhost/hunter2",
        "redis://a:hunter2%zz%ff@localhost",
        "http://:hunter2@localhost:6379",
        "https://localhost",
        "postgres://a:hunter2@localhost/x",
        "file:///tmp/x",
        "unix:///tmp/x",
        "rediss+tcp://localhost",
        "redis+unix://",
        "redis+unix:",
        "hunter2",
        "tcp://localhost:6379",
    ] {
        check(url);
    }
}

// Red when clusters are taken.
#[tokio::test]
async fn topologies_that_are_not_built_are_refused_by_name() {
    for url in [
        "redis-cluster://:hunter2@127.0.0.1:1",
        "rediss-cluster://127.0.0.1:1",
        "redis-cluster://127.0.0.1:1?node=127.0.0.1:2",
    ] {
        let error = Client::connect(url).await.unwrap_err();
        assert_eq!(variant(&error), "InvalidOption", "{error:?}");
        assert!(error.to_string().contains("not supported yet"), "{error}");
        assert!(!error.is_retryable());
    }
}

/// Connecting fails within the operation timeout, and says why.
async fn check_connect(
    options: ClientOptions,
    kind: &str,
    advice: &str,
    said: &str,
    retryable: bool,
) -> Error {
    let timeout = ms(2000);
    let start = Instant::now();
    let error = Client::with_options(options.operation_timeout(timeout))
        .await
        .unwrap_err();
    assert!(start.elapsed() < timeout + ms(900), "{:?}", start.elapsed());
    assert_tells(&error, kind, advice, said, retryable);
    let told = format!("{:?} {error:?}", chain(&error));
    assert!(
        !told.contains("hunter2") && !told.contains("secret"),
        "{told}"
    );
    error
}

fn url(url: &str) -> ClientOptions {
    ClientOptions::from_url(url).unwrap()
}

#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let options = url(&format!("redis://user:hunter2@127.0.0.1:{port}"));
    let error = check_connect(options, "Unreachable", "it is running", "refused", true).await;
    assert!(
        error.to_string().contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
}

#[tokio::test]
async fn a_name_without_an_address_is_unreachable() {
    let options = url("redis://:hunter2@no-such-host.invalid:6379");
    let error = check_connect(options, "Unreachable", "it is running", "", true).await;
    assert!(
        error.to_string().contains("no-such-host.invalid:6379"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_never_answers_is_unreachable() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let [with, without] =
        ["user:hunter2@", ""].map(|user| url(&format!("redis://{user}127.0.0.1:{port}")));
    tokio::join!(
        check_connect(with, "Unreachable", "it is running", "time", true),
        check_connect(without, "Unreachable", "it is running", "time", true),
    );
}

/// Connecting takes no longer than its timeout, with a slow first answer and then none to what `silent` matches.
async fn check_half_silent(silent: impl FnMut(&[Vec<u8>]) -> bool + Send + 'static) {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    proxy.once(|_| true, Action::DelayReply(ms(1000)));
    proxy.always(silent, Action::SwallowReply);
    let timeout = ms(1500);
    let start = Instant::now();
    let result = connect(&proxy.url(), |options| options.operation_timeout(timeout)).await;
    assert!(start.elapsed() < timeout + ms(700), "{:?}", start.elapsed());
    let error = result.unwrap_err();
    assert_tells(&error, "Unreachable", "it is running", "time", true);
}

// Red when connecting may take twice the operation timeout.
#[tokio::test]
async fn a_server_that_answers_one_connection_only_is_unreachable_in_time() {
    let mut connections = 0;
    check_half_silent(move |words| {
        connections += u32::from(words[0].eq_ignore_ascii_case(b"PING"));
        connections > 1
    })
    .await;
}

// Red when TIME has a timeout of its own.
#[tokio::test]
async fn a_server_that_tells_no_time_is_unreachable_in_time() {
    check_half_silent(command("TIME")).await;
}

#[tokio::test]
async fn tls_to_a_plain_port_is_unreachable() {
    let server = Server::start().unwrap();
    let options = url(&format!(
        "rediss://user:hunter2@127.0.0.1:{}",
        server.port().unwrap()
    ));
    check_connect(options, "Unreachable", "it is running", "", true).await;
}

#[tokio::test]
async fn a_missing_unix_socket_is_unreachable() {
    let options = url("redis+unix:///tmp/lockyard/no/such/socket");
    let error = check_connect(
        options,
        "Unreachable",
        "it is running",
        "No such file",
        true,
    )
    .await;
    assert!(
        error.to_string().contains("/tmp/lockyard/no/such/socket"),
        "{error}"
    );
    let mut config =
        Config::from_url("redis+unix://user:hunter2@localhost/tmp/lockyard/no/such/socket")
            .unwrap();
    config.server = ServerConfig::Unix {
        path: "/tmp/lockyard".into(),
    };
    check_connect(
        ClientOptions::from_config(config),
        "Unreachable",
        "it is running",
        "",
        true,
    )
    .await;
}

// Red when whatever keeps a connection from being made is told as unreachable.
#[tokio::test]
async fn wrong_credentials_are_refused_at_connect() {
    let server = Server::builder()
        .password("hunter2")
        .acl("user clerk on >secret ~* &* +@all")
        .start()
        .unwrap();
    let port = server.port().unwrap();
    let advice = "the user or the password is wrong or missing";
    for (credentials, said) in [
        ("", "NOAUTH"),
        (":wrong@", "WRONGPASS"),
        ("default:secret@", "WRONGPASS"),
        ("clerk:hunter2@", "WRONGPASS"),
        ("nobody:secret@", "WRONGPASS"),
        ("nobody:hunter2@", "WRONGPASS"),
    ] {
        let options = url(&format!("redis://{credentials}127.0.0.1:{port}"));
        check_connect(options, "Refused", advice, said, false).await;
    }
    for good in [server.url(), server.url_for("clerk", "secret")] {
        Client::connect(&good)
            .await
            .unwrap()
            .lock("x")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
}

// Red when fred drops the user.
#[tokio::test]
async fn a_user_without_a_password_is_not_somebody_else() {
    let server = Server::builder()
        .acl("user clerk on nopass ~* &* +@all")
        .start()
        .unwrap();
    let port = server.port().unwrap();
    match Client::connect(&format!("redis://clerk@127.0.0.1:{port}")).await {
        Ok(_client) => {
            let users: String = server.query(&["CLIENT", "LIST"]).unwrap();
            assert!(
                users.lines().any(|line| line.contains("user=clerk")),
                "{users}"
            );
        }
        Err(error) => assert_eq!(variant(&error), "InvalidUrl", "{error:?}"),
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused_at_connect() {
    let server = Server::start().unwrap();
    let options = url(&format!("{}/99", server.url()));
    check_connect(options, "Refused", "", "DB index is out of range", false).await;
}

// Red when this is like any other error.
#[tokio::test]
async fn a_server_with_too_many_clients_is_refused_at_connect() {
    let server = Server::builder().config("maxclients", "2").start().unwrap();
    let options = url(&server.url());
    check_connect(options, "Refused", "", "max number of clients", true).await;
}

/// Whoever connects while the server has trouble of this kind is told so.
// Red when whatever keeps a connection from being made is told as unreachable.
#[tokio::test]
async fn trouble_at_connect_is_told() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    for (text, advice, retryable) in [
        (
            "LOADING Redis is loading the dataset in memory",
            "still loading",
            true,
        ),
        ("BUSY Redis is busy running a script", "slow script", true),
        ("MASTERDOWN Link with MASTER is down", "try again", true),
        (
            "NOPERM this user has no permissions to run the 'ping' command",
            "lacks a right",
            false,
        ),
        ("ERR something else", "source", false),
    ] {
        let rule = proxy.always(|_| true, Action::error(text));
        check_connect(url(&proxy.url()), "Refused", advice, text, retryable).await;
        rule.remove();
    }
    Client::connect(&proxy.url())
        .await
        .unwrap()
        .lock("x")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}
