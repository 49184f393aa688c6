//! Passwords, which nobody is told.

use lockyard::{Client, ClientOptions, HoldState};
use lockyard_testkit::Server;

use crate::logs;
use crate::process::alone;
use crate::refusals::renewed;
use crate::support::{chain, connect, ms, soon};

// Red when the Debug text of `ClientOptions` has the configuration in it.
#[tokio::test]
async fn a_password_stands_in_no_error_no_debug_text_and_no_log_line() {
    if !alone("refusals::passwords::a_password_stands_in_no_error_no_debug_text_and_no_log_line") {
        return;
    }
    logs::collect();
    // Two secrets, one of which is escaped in a URL.
    let secrets = ["hunter2", "s3cr3t"];
    let (password, clerk) = ("hunter2@:/?#", "s3cr3t");
    let server = Server::builder()
        .password(password)
        .acl(format!("user clerk on >{clerk} ~* &* +@all"))
        .start()
        .unwrap();
    let mut texts = Vec::new();
    fn debug(it: &dyn std::fmt::Debug) -> [String; 2] {
        [format!("{it:?}"), format!("{it:#?}")]
    }
    let mut errors = Vec::new();

    for url in [server.url(), server.url_for("clerk", clerk)] {
        let options = ClientOptions::from_url(&url)
            .unwrap()
            .operation_timeout(ms(800));
        texts.extend(debug(&options));
        let client = Client::with_options(options).await.unwrap();
        let lock = client.lock("x");
        let guard = lock.with_lease(renewed(ms(900))).acquire().await.unwrap();
        let lock = client.lock("x");
        errors.push(client.lock("").acquire().await.unwrap_err());
        assert!(lock.try_acquire().await.unwrap().is_none());
        texts.extend(debug(&client));
        texts.extend(debug(&lock));
        texts.extend(debug(&guard));
        texts.extend(debug(&lock.inspect().await.unwrap()));
        // New connections with the right password, then with one that has changed.
        server.kill_clients("normal").unwrap();
        server.kill_clients("pubsub").unwrap();
        soon(async {
            while guard.state() == HoldState::Unsure || lock.inspect().await.is_err() {}
        })
        .await;
        guard.release().await.unwrap();
        let user = if url.contains("clerk") {
            "clerk"
        } else {
            "default"
        };
        server
            .command(&["ACL", "SETUSER", user, "resetpass", ">other"])
            .unwrap();
        server.kill_clients("normal").unwrap();
        server.kill_clients("pubsub").unwrap();
        errors.push(lock.try_acquire().await.unwrap_err());
        errors.push(lock.inspect().await.unwrap_err());
        errors.extend(client.shutdown().await.err());
        errors.push(Client::connect(&url).await.unwrap_err());
    }
    let port = server.port().unwrap();
    for url in [
        format!("redis://:hunter2@127.0.0.1:{port}"),
        format!("redis://s3cr3t:hunter2@127.0.0.1:{port}/0").replace("s3cr3t:", "nobody:"),
        format!("rediss://nobody:hunter2@127.0.0.1:{port}"),
        "redis://nobody:hunter2@127.0.0.1:1".to_owned(),
        "redis://nobody:hunter2@no-such-host.invalid".to_owned(),
        "redis://nobody:hunter2@127.0.0.1:x".to_owned(),
        "redis://nobody:hunter2@127.0.0.1/s3cr3t".to_owned(),
        "redis-cluster://nobody:hunter2@127.0.0.1".to_owned(),
        "redis+unix://nobody:hunter2@localhost/no/such/socket".to_owned(),
    ] {
        errors.push(
            connect(&url, |options| options.operation_timeout(ms(500)))
                .await
                .unwrap_err(),
        );
    }
    for error in &errors {
        texts.extend(debug(error));
        texts.extend(chain(error));
    }
    let lines = logs::lines();
    assert!(
        lines.iter().any(|line| line.starts_with("lockyard"))
            && lines.iter().any(|line| line.starts_with("fred"))
    );
    for text in texts.into_iter().chain(lines) {
        assert!(
            !secrets.iter().any(|secret| text.contains(secret)),
            "{text}"
        );
    }
}
