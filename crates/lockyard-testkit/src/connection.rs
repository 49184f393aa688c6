//! One connection through a proxy.
//!
//! Each direction is a reader, a queue and a writer, so that a delay does not slow down the flow
//! and a held line does not stop reading:
//!
//! ```text
//! client -> read_commands -> queue -> forward_commands -> server
//! client <- forward_replies <- queue <- read_replies <- server
//! ```
//!
//! 1. A client that closes its end loses nothing that it has sent: the queue still goes to the
//!    server, and only then is the server's side closed.
//! 2. The connection ends when the server has closed it and the client has got the rest, or by a
//!    cut, which drops this future and with it both sockets.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::copies::{Copied, Copies};
use crate::frame::{self, Frames};
use crate::replies::{Outgoing, Replies};
use crate::rule::{Action, Rules};
use crate::traffic::{Direction, Traffic};

/// The commands that decide who a connection is, and so what its other commands may do.
const PRELUDE: [&[u8]; 3] = [b"AUTH", b"HELLO", b"SELECT"];

/// What the connections of a proxy share.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) copies: Arc<Copies>,
}

/// Serves a client until the connection ends.
pub(crate) async fn serve(client: TcpStream, server: TcpStream, shared: Shared) {
    let (client_reader, client_writer) = client.into_split();
    let (server_reader, server_writer) = server.into_split();
    let (commands, queued_commands) = unbounded_channel();
    let (outgoing, queued_replies) = unbounded_channel();
    let replies = Mutex::new(Replies::new(outgoing, shared.traffic.clone()));
    let inflow = async {
        tokio::join!(
            read_commands(client_reader, commands, &shared.traffic),
            forward_commands(queued_commands, server_writer, &replies, &shared),
            read_replies(server_reader, &replies),
        );
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = inflow => {}
        () = forward_replies(queued_replies, client_writer, &shared.traffic) => {}
    }
}

async fn read_commands(
    client: OwnedReadHalf,
    queue: UnboundedSender<(Bytes, Instant)>,
    traffic: &Traffic,
) {
    let mut frames = Frames::new(client);
    // A client that breaks off has closed its end as well.
    while let Ok(Some(frame)) = frames.next().await {
        traffic.commands.fetch_add(1, Relaxed);
        // Fails if the connection is ending anyway.
        let _ = queue.send((frame, Instant::now()));
    }
}

async fn forward_commands(
    mut queue: UnboundedReceiver<(Bytes, Instant)>,
    mut server: OwnedWriteHalf,
    replies: &Mutex<Replies>,
    shared: &Shared,
) {
    let mut prelude = Vec::new();
    while let Some((frame, arrived)) = queue.recv().await {
        shared.traffic.pass(Direction::ToServer, arrived).await;
        let words = frame::words(&frame);
        let (action, mut rule) = shared.rules.decide(&words).unzip();
        let action = action.unwrap_or(Action::Pass);
        match &action {
            Action::DropCommand => {
                if let Some(rule) = rule {
                    rule.count();
                }
                while queue.recv().await.is_some() {}
                break;
            }
            Action::Hold => {
                if let Some(rule) = rule.take() {
                    rule.hold().await;
                }
                shared.traffic.pass(Direction::ToServer, arrived).await;
            }
            Action::Copy => shared.copies.keep(Copied {
                prelude: prelude.clone(),
                frame: frame.clone(),
            }),
            _ => {}
        }
        let is_ours = matches!(action, Action::Reply(_));
        replies.lock().expect(&words, action, rule);
        if is_ours {
            continue;
        }
        if is_prelude(&words) {
            prelude.push(frame.clone());
        }
        // If the server has gone, its side of the connection says so.
        let _ = server.write_all(&frame).await;
    }
    let _ = server.shutdown().await;
}

fn is_prelude(words: &[Vec<u8>]) -> bool {
    let name = words.first().map(|name| name.to_ascii_uppercase());
    name.is_some_and(|name| PRELUDE.contains(&&*name))
}

async fn read_replies(server: OwnedReadHalf, replies: &Mutex<Replies>) {
    let mut frames = Frames::new(server);
    while let Ok(Some(frame)) = frames.next().await {
        replies.lock().receive(frame);
    }
    replies.lock().end();
}

async fn forward_replies(
    mut queue: UnboundedReceiver<Outgoing>,
    mut client: OwnedWriteHalf,
    traffic: &Traffic,
) {
    while let Some(Outgoing::Frame(frame, arrived)) = queue.recv().await {
        traffic.pass(Direction::ToClient, arrived).await;
        // The client may have gone and left commands that are not yet forwarded.
        let _ = client.write_all(&frame).await;
    }
}
