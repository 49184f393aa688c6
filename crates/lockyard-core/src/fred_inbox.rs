//! The subscriber connection: one channel, subscribed anew whenever anything may have been lost.
//!
//! fred's `subscribe` returns when the command is written, and its own way of subscribing again ends at the first
//! trouble; so a PING behind the SUBSCRIBE confirms it, and this loop goes on through lag, errors and reconnects.

use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::backend::Event;

/// Reports each new connection of the command clients.
pub(crate) fn reconnects(clients: &[&Client], events: &UnboundedSender<Event>) {
    for client in clients {
        let (mut reconnects, events) = (client.reconnect_rx(), events.clone());
        tokio::spawn(async move {
            while !matches!(reconnects.recv().await, Err(RecvError::Closed)) {
                if events.send(Event::Reconnected).is_err() {
                    return;
                }
            }
        });
    }
}

/// Subscribes and reports messages until the client ends or nobody listens.
pub(crate) async fn listen(
    client: Client,
    channel: String,
    events: UnboundedSender<Event>,
    heartbeat: Duration,
    patience: Duration,
) {
    let mut messages = client.message_rx();
    let mut reconnects = client.reconnect_rx();
    let mut errors = client.error_rx();
    let mut up = false;
    loop {
        if !up {
            up = confirm(&client, Some(&channel), patience).await;
            if events.send(if up { Event::InboxUp } else { Event::InboxDown }).is_err() {
                return;
            }
        }
        let event = tokio::select! {
            biased;
            event = reconnects.recv() => match event {
                Err(RecvError::Closed) => return,
                Ok(_) | Err(RecvError::Lagged(_)) => None,
            },
            event = errors.recv() => match event {
                Err(RecvError::Closed) => return,
                Ok(_) | Err(RecvError::Lagged(_)) => None,
            },
            message = messages.recv() => match message {
                Err(RecvError::Closed) => return,
                Err(RecvError::Lagged(_)) => Some(Event::Missed),
                Ok(message) => message.value.into_owned_bytes().map(|bytes| Event::Message(bytes.into())),
            },
            // A peer that vanished without a word is only noticed by asking.
            () = tokio::time::sleep(heartbeat) => match up && confirm(&client, None, patience).await {
                true => continue,
                false => {
                    if up {
                        let _ = timeout(patience, client.force_reconnection()).await;
                    }
                    None
                }
            },
        };
        up = up && event.is_some();
        let event = event.unwrap_or(Event::InboxDown);
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Asks whether the connection answers, after subscribing to a channel if one is named.
async fn confirm(client: &Client, channel: Option<&str>, patience: Duration) -> bool {
    let confirmed = async {
        if let Some(channel) = channel {
            client.subscribe(channel).await?;
        }
        // The reply to PING comes behind that to SUBSCRIBE; a refusal of the latter comes in its place.
        client.ping::<fred::types::Value>(None).await
    };
    let result = timeout(patience, confirmed).await;
    let result = result.unwrap_or_else(|_| Err(FredError::new(ErrorKind::Timeout, "no answer in time")));
    if let (Err(error), Some(channel)) = (&result, channel) {
        tracing::warn!(channel, %error, "the inbox could not be subscribed; waiters spin meanwhile");
    }
    result.is_ok()
}
