//! Finds the command that a reply belongs to.
//!
//! A server answers the commands of a connection in order, so the commands that were sent stand
//! in a queue and each reply belongs to the first. Three things disturb that:
//!
//! 1. Messages and other pushes come in between and belong to no command.
//! 2. SUBSCRIBE and its family are answered by one confirmation for each channel. The last one is
//!    taken for the reply. How many an UNSUBSCRIBE without channels gets is not known here, so its
//!    first is taken, and the others pass as pushes do. Any other answer to them is an error, and
//!    comes once.
//! 3. A reply that the proxy itself gives waits for the replies to all earlier commands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::frame::{self, Kind};
use crate::rule::{Action, RuleState};
use crate::traffic::Traffic;

/// What goes to the client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// A frame, with the time at which it would arrive on a line without delay.
    Frame(Bytes, Instant),
    /// The end of the connection.
    End,
}

/// A command that waits for its reply.
struct Expected {
    /// The name of a command that is answered by so many confirmations.
    confirmations: Option<(Vec<u8>, usize)>,
    action: Action,
    rule: Option<Arc<RuleState>>,
}

/// The commands of one connection that wait for their replies.
pub(crate) struct Replies {
    expected: VecDeque<Expected>,
    client: UnboundedSender<Outgoing>,
    traffic: Arc<Traffic>,
    /// The connection has subscribed at least once.
    subscriber: bool,
    /// A reply was lost, and so is everything after it.
    deaf: bool,
}

impl Replies {
    pub(crate) fn new(client: UnboundedSender<Outgoing>, traffic: Arc<Traffic>) -> Self {
        Self {
            expected: VecDeque::new(),
            client,
            traffic,
            subscriber: false,
            deaf: false,
        }
    }

    /// Expects the reply to a command that is about to be sent, or that is not if the action is a
    /// reply of its own.
    pub(crate) fn expect(
        &mut self,
        words: &[Vec<u8>],
        action: Action,
        rule: Option<Arc<RuleState>>,
    ) {
        let name = words.first().map(|name| name.to_ascii_lowercase());
        let subscription = name.filter(|name| frame::is_subscription(name));
        self.subscriber |= subscription.is_some();
        self.expected.push_back(Expected {
            confirmations: subscription.map(|name| (name, words.len().max(2) - 1)),
            action,
            rule,
        });
        self.answer_ourselves();
    }

    /// Takes a frame from the server.
    pub(crate) fn receive(&mut self, frame: Bytes) {
        let kind = frame::kind(&frame, self.subscriber);
        let belongs = match &kind {
            Kind::Reply => true,
            Kind::Confirmation(name) => self.is_last_confirmation(name),
            Kind::Message | Kind::Push => false,
        };
        let dropped = kind == Kind::Message && self.traffic.drops_message();
        // Nothing is expected if the server speaks first, as it does to one client too many.
        match self.expected.front() {
            _ if dropped => {}
            Some(_) if belongs => self.settle_first(frame),
            _ => self.send(frame, Duration::ZERO),
        }
        self.answer_ourselves();
    }

    fn is_last_confirmation(&mut self, confirmed: &[u8]) -> bool {
        let first = self.expected.front_mut();
        let Some((name, left)) = first.and_then(|first| first.confirmations.as_mut()) else {
            return false;
        };
        if name != confirmed {
            return false;
        }
        *left -= 1;
        *left == 0
    }

    /// Does with the reply to the first command what is to be done.
    fn settle_first(&mut self, frame: Bytes) {
        let Some(expected) = self.expected.pop_front() else {
            return;
        };
        match expected.action {
            Action::SwallowReply => self.deaf = true,
            Action::CutBeforeReply => {
                self.end();
                self.deaf = true;
            }
            Action::DelayReply(delay) => self.send(frame, delay),
            _ => self.send(frame, Duration::ZERO),
        }
        if let Some(rule) = expected.rule {
            rule.count();
        }
    }

    /// Gives the replies of our own whose turn has come.
    fn answer_ourselves(&mut self) {
        while let Some(Action::Reply(frame)) = self.expected.front().map(|first| &first.action) {
            let frame = Bytes::copy_from_slice(frame);
            self.settle_first(frame);
        }
    }

    /// Ends the connection when the client has got what was sent to it before.
    pub(crate) fn end(&self) {
        // Fails if the connection is ending anyway.
        let _ = self.client.send(Outgoing::End);
    }

    fn send(&self, frame: Bytes, delay: Duration) {
        if !self.deaf {
            let outgoing = Outgoing::Frame(frame, Instant::now() + delay);
            // Fails if the connection is ending anyway.
            let _ = self.client.send(outgoing);
        }
    }
}
