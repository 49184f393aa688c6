//! The subscriber connection: the inbox's channel, and those of counters that somebody waits for, subscribed anew whenever anything may have been lost.
//!
//! fred's `subscribe` returns when the command is written, and its own way of subscribing again ends at the first
//! trouble; so a PING behind the SUBSCRIBE confirms it, and this loop goes on through lag, errors and reconnects.

use std::time::Duration;

use bytes::Bytes;
use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Message;
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::backend::Event;

/// Reports each new connection of a command client from now on.
pub(crate) fn report_reconnects(client: &Client, events: &UnboundedSender<Event>, on: &Handle) {
    let (mut reconnects, events) = (client.reconnect_rx(), events.clone());
    on.spawn(async move {
        while !matches!(reconnects.recv().await, Err(RecvError::Closed)) {
            if events.send(Event::Reconnected).is_err() {
                return;
            }
        }
    });
}

/// Subscribes, and returns when the server has confirmed it.
pub(crate) async fn subscribe(client: &Client, channel: String) -> Result<(), FredError> {
    client.subscribe(channel).await?;
    // The reply to PING comes behind that to SUBSCRIBE; a refusal of the latter comes in its place.
    client.ping::<fred::types::Value>(None).await.map(drop)
}

/// A client's inbox.
pub(crate) struct Inbox {
    pub(crate) client: Client,
    pub(crate) channel: String,
    pub(crate) events: UnboundedSender<Event>,
    /// How often a silent connection is asked whether it lives.
    pub(crate) heartbeat: Duration,
    /// How long an answer may take.
    pub(crate) patience: Duration,
}

impl Inbox {
    /// Subscribes and reports messages until the client ends or nobody listens.
    pub(crate) async fn listen(self) {
        let mut messages = self.client.message_rx();
        let mut reconnects = self.client.reconnect_rx();
        let mut errors = self.client.error_rx();
        let mut up = false;
        loop {
            if !up {
                up = self.subscribe().await;
                if self
                    .events
                    .send(if up { Event::InboxUp } else { Event::InboxDown })
                    .is_err()
                {
                    return;
                }
            }
            let event = tokio::select! {
                biased;
                event = reconnects.recv() => if event == Err(RecvError::Closed) { return } else { Event::InboxDown },
                event = errors.recv() => if matches!(event, Err(RecvError::Closed)) { return } else { Event::InboxDown },
                message = messages.recv() => match message {
                    Err(RecvError::Closed) => return,
                    Err(RecvError::Lagged(_)) => Event::Missed,
                    Ok(message) => match self.heard(message) {
                        Some(event) => event,
                        None => continue,
                    },
                },
                // A peer that vanished without a word is only noticed by asking.
                () = tokio::time::sleep(self.heartbeat) => match up && self.answers().await {
                    true => continue,
                    false => Event::InboxDown,
                },
            };
            if matches!(event, Event::InboxDown) {
                up = false;
            }
            if self.events.send(event).is_err() {
                return;
            }
        }
    }

    fn heard(&self, message: Message) -> Option<Event> {
        let text = Bytes::from(message.value.into_owned_bytes()?);
        Some(match *message.channel == *self.channel {
            true => Event::Message(text),
            false => Event::Heard {
                channel: message.channel.into_inner(),
                message: text,
            },
        })
    }

    async fn subscribe(&self) -> bool {
        let subscribed = subscribe(&self.client, self.channel.clone());
        let result = timeout(self.patience, subscribed).await;
        let result =
            result.unwrap_or_else(|_| Err(FredError::new(ErrorKind::Timeout, "no answer in time")));
        if let Err(error) = &result {
            tracing::warn!(channel = self.channel, %error, "the inbox could not be subscribed; waiters spin meanwhile");
        }
        result.is_ok()
    }

    /// Whether the connection still answers; if not, a new one is made.
    async fn answers(&self) -> bool {
        let pong = timeout(self.patience, self.client.ping::<fred::types::Value>(None)).await;
        let answers = matches!(pong, Ok(Ok(_)));
        if !answers {
            let _ = timeout(self.patience, self.client.force_reconnection()).await;
        }
        answers
    }
}
