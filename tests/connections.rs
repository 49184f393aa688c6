use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use lockyard::fred::types::RespVersion;
use lockyard::fred::types::config::{Config, TlsConfig, TlsConnector};
use lockyard::{Client, ClientOptions, HoldState, Lease};
use lockyard_testkit::{Action, Proxy, Server, eventually_async};
use rustls::pki_types::CertificateDer;

use crate::support::{SOON, connect, ms, options, soon, until_waiting, wait};

/// Locks, waits, is granted, is renewed for three leases, and leaves nothing.
async fn works(server: &Server, options: ClientOptions) {
    let options = options
        .lease(Lease::Renewed(ms(600)))
        .waiter_timeout(ms(1500));
    let (a, b) = (
        Client::with_options(options.clone()).await.unwrap(),
        Client::with_options(options).await.unwrap(),
    );
    // Of several slots, if the server has slots.
    let names = ["a", "b", "c", "{d}1", "{d}2"];
    let mut held = Vec::new();
    for name in names {
        held.push(a.lock(name).acquire().await.unwrap());
    }
    let waiting = wait(&b.lock("a"));
    until_waiting(&a.lock("a"), 1).await;
    let renewed = server.commandstats().unwrap();
    let renewals =
        move |stats: &std::collections::BTreeMap<String, u64>| stats["pttl"] - renewed["pttl"];
    eventually_async(SOON, async || {
        renewals(&server.commandstats().unwrap()) >= 9 * 5
    })
    .await;
    assert!(held.iter().all(|guard| guard.state() == HoldState::Held));
    held.remove(0).release().await.unwrap();
    let granted = soon(waiting).await.unwrap();
    drop(held);
    granted.release().await.unwrap();
    soon(a.shutdown()).await.unwrap();
    soon(b.shutdown()).await.unwrap();
    assert_eq!(server.keys("*").unwrap(), Vec::<String>::new());
}

// Red when a first connection is taken for one in the place of another (`report_reconnects` in core's connect.rs).
#[test]
fn the_first_acquire_of_a_client_takes_one_round_trip() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let connected = AtomicBool::new(false);
    let clients = std::thread::scope(|scope| {
        // The clients' own threads have to wait for their turn.
        for _ in 0..4 {
            scope.spawn(|| {
                while !connected.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let connect = |_| runtime.block_on(Client::with_options(options(&proxy.url())));
        let clients: Vec<_> = (0..40).map(connect).collect();
        connected.store(true, Relaxed);
        clients
    });
    let asks = |words: &[Vec<u8>]| words[0].eq_ignore_ascii_case(b"TIME");
    let asked = proxy.always(asks, Action::Pass);
    for client in clients {
        let client = client.unwrap();
        let guard = runtime.block_on(soon(client.lock("x").acquire())).unwrap();
        runtime.block_on(guard.release()).unwrap();
    }
    assert_eq!(asked.fired(), 0);
}

#[tokio::test]
async fn locks_work_over_a_unix_socket() {
    let server = Server::builder().unix_socket().start().unwrap();
    works(&server, options(&server.url())).await;
}

// Red if batches are not made per slot after a CROSSSLOT.
#[tokio::test]
async fn locks_work_on_a_one_node_cluster() {
    let server = Server::builder().cluster().start().unwrap();
    works(&server, options(&server.url())).await;
}

#[tokio::test]
async fn locks_work_over_resp2_and_resp3() {
    for version in [RespVersion::RESP2, RespVersion::RESP3] {
        let server = Server::start().unwrap();
        let mut config = Config::from_url(&server.url()).unwrap();
        config.version = version;
        works(&server, ClientOptions::from_config(config)).await;
    }
}

#[tokio::test]
async fn a_cluster_configuration_is_refused_for_now() {
    let server = Server::builder().cluster().start().unwrap();
    let url = server.url().replace("redis://", "redis-cluster://");
    let error = connect(&url, |options| options).await.unwrap_err();
    assert!(
        error.to_string().contains("clusters of several nodes"),
        "{error}"
    );
}

#[tokio::test]
async fn locks_work_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let cert = write("cert.pem", signed.cert.pem());
    let key = write("key.pem", signed.signing_key.serialize_pem());
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = Server::builder()
        .config("tls-port", port.to_string())
        .config("tls-cert-file", &cert)
        .config("tls-key-file", key)
        .config("tls-ca-cert-file", cert)
        .config("tls-auth-clients", "no")
        .start();
    // A server may be built without TLS.
    let server = match server {
        Err(error) if format!("{error:?}").to_lowercase().contains("tls") => return,
        server => server.unwrap(),
    };

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(signed.cert)).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_root_certificates(roots)
    .with_no_client_auth();
    let mut config = Config::from_url(&format!("redis://localhost:{port}")).unwrap();
    config.tls = Some(TlsConfig::from(TlsConnector::Rustls(Arc::new(tls).into())));
    works(&server, ClientOptions::from_config(config)).await;
}
