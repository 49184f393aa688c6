//! The administrative connection.
//!
//! It belongs to a user of its own, so that tests may set up `default` as they like, and it is
//! made by redis-rs: Lockyard itself talks through fred, and a fault there must not hide itself.

use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionAddr, FromRedisValue, InfoDict, IntoConnectionInfo,
    RedisConnectionInfo, RedisResult, Value,
};

use crate::address::Address;

/// The user of the administrative connection, and its password.
pub(crate) const USER: &str = "lockyard-testkit";

/// How long the server may take to answer an administrative command.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Opens an administrative connection.
pub(crate) fn connect(address: &Address) -> RedisResult<Connection> {
    let address = match address {
        Address::Tcp(port) => ConnectionAddr::Tcp("127.0.0.1".into(), *port),
        Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
    };
    let settings = RedisConnectionInfo::default()
        .set_username(USER)
        .set_password(USER)
        .set_skip_set_lib_name();
    let info = address.into_connection_info()?.set_redis_settings(settings);
    let connection = Client::open(info)?.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Builds a command from its words.
pub(crate) fn cmd(words: &[&[u8]]) -> Cmd {
    let mut cmd = Cmd::new();
    for word in words {
        cmd.arg(*word);
    }
    cmd
}

/// What a server says about itself.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    pub(crate) version: String,
    pub(crate) is_valkey: bool,
}

/// Asks a server who it is.
pub(crate) fn identify(connection: &mut Connection) -> RedisResult<Identity> {
    let reply: Value = cmd(&[b"INFO", b"server"]).query(connection)?;
    let info = InfoDict::from_redis_value(reply)?;
    let valkey: Option<String> = info.get("valkey_version");
    let is_valkey = valkey.is_some();
    let version = valkey.or_else(|| info.get("redis_version"));
    Ok(Identity {
        pid: info.get("process_id").unwrap_or_default(),
        version: version.unwrap_or_default(),
        is_valkey,
    })
}
