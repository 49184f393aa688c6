//! Processes that count down together, and wait until that is done.

// What a latch does for its users, undisturbed.
mod counted;

// How those who wait are told, and what waiting costs.
mod opened;

// Commands that come twice, late, or whose reply is lost, and calls that are dropped.
mod late;

// Random ranges in any order, compared with a model.
mod model;

// Names, types and life times that make no sense, and servers that refuse.
mod refused;

use std::pin::Pin;

use lockyard::Lock;
use lockyard_testkit::{Action, Server, eventually_async};

use crate::contract::late::Line as AnyLine;
use crate::support::{SOON, Script, while_waiting};

/// Any lock, only for the line.
pub(crate) type Line = AnyLine<Lock>;

pub(crate) const KEY: &str = "lockyard:latch:{x}";
pub(crate) const OPS: &str = "lockyard:latch.ops:{x}";
pub(crate) const CHANNEL: &str = "lockyard:latch.open:{x}";

/// Polls a wait of the client behind the proxy until it has seen the latch.
pub(crate) async fn until_seen<F: Future>(line: &Line, wait: Pin<&mut F>) {
    let looked = line.proxy.once(Script::Count.calls(), Action::Pass);
    while_waiting(wait, looked.wait_fired_async(1, SOON)).await;
}

/// How many clients hear the latch's channel.
pub(crate) fn listeners(server: &Server) -> u64 {
    let (_, listeners): (String, u64) = server.query(&["PUBSUB", "NUMSUB", CHANNEL]).unwrap();
    listeners
}

/// Waits until so many clients hear the latch's channel.
pub(crate) async fn until_listening(server: &Server, clients: u64) {
    eventually_async(SOON, async || listeners(server) == clients).await;
}

/// Waits until nothing of the latch is on the server.
pub(crate) async fn nothing_is_left(server: &Server) {
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
    until_listening(server, 0).await;
}
