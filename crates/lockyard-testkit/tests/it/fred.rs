use fred::prelude::*;
use fred::types::RespVersion;
use lockyard_testkit::{Proxy, Server};

async fn check(url: &str) {
    let mut config = Config::from_url(url).unwrap();
    config.version = RespVersion::RESP3;
    let client = Builder::from_config(config).build().unwrap();
    client.init().await.unwrap();
    let answer: String = client.ping(None).await.unwrap();
    assert_eq!(answer, "PONG");
    client.quit().await.unwrap();
}

#[tokio::test]
async fn urls_are_understood() {
    let server = Server::builder()
        .password("p@ss")
        .acl("user x on >p:w ~* &* +@all")
        .start()
        .unwrap();
    let proxy = Proxy::start(&server).unwrap();
    check(&server.url()).await;
    check(&server.url_for("x", "p:w")).await;
    check(&proxy.url()).await;
    check(&proxy.url_for("x", "p:w")).await;
}

#[tokio::test]
async fn urls_of_sockets_are_understood() {
    let server = Server::builder().unix_socket().start().unwrap();
    check(&server.url()).await;
    let server = Server::builder()
        .unix_socket()
        .password("p@ss")
        .start()
        .unwrap();
    check(&server.url()).await;
}

#[tokio::test]
async fn a_cluster_is_understood() {
    let server = Server::builder().cluster().start().unwrap();
    check(&server.url().replace("redis://", "redis-cluster://")).await;
}
