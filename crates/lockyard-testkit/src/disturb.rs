//! What can be done to a line.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use redis::Value;

use crate::Error;
use crate::proxy::{Proxy, end};
use crate::rule::{Action, Rule};
use crate::traffic::Direction;

impl Proxy {
    /// Delays everything by so much from now on, without slowing down the flow.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.shared.traffic.set_delay(direction, delay);
    }

    /// Holds everything back: a peer that is half open.
    ///
    /// Nothing is lost; it passes when it is let go, also if the sender has closed its end.
    /// Connections are still accepted.
    pub fn hold(&self, direction: Direction) {
        self.shared.traffic.set_held(direction, true);
        // What passed the gate before it was shut is through when the worker comes to this.
        self.run(async {});
    }

    /// Lets go what [`hold`](Self::hold) and rules hold back.
    pub fn let_go(&self) {
        self.shared.traffic.set_held(Direction::Both, false);
        self.shared.rules.let_go();
    }

    /// Closes all connections, at both ends; what they have under way or held is lost.
    ///
    /// Clients may connect again, unless they are refused.
    pub fn cut(&self) {
        let connections = std::mem::take(&mut *self.connections.lock());
        self.run(async move {
            for connection in connections {
                end(connection).await;
            }
        });
    }

    /// Refuses new connections; those that exist stay.
    pub fn refuse(&self) {
        if let Some(acceptor) = self.acceptor.lock().take() {
            self.run(end(acceptor));
        }
    }

    /// Accepts new connections again.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the port was taken by someone else meanwhile.
    pub fn accept(&self) -> Result<(), Error> {
        if self.acceptor.lock().is_some() {
            return Ok(());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))
            .map_err(Error::io("cannot listen again"))?;
        self.listen(listener)
    }

    /// Applies an action to the next command for which `matcher`, given its words, says yes.
    ///
    /// Of several rules the first that matches, and is not used up, decides.
    pub fn once(
        &self,
        matcher: impl FnMut(&[Vec<u8>]) -> bool + Send + 'static,
        action: Action,
    ) -> Rule {
        self.times(1, matcher, action)
    }

    /// Applies an action to the next `n` commands that match.
    pub fn times(
        &self,
        n: u64,
        matcher: impl FnMut(&[Vec<u8>]) -> bool + Send + 'static,
        action: Action,
    ) -> Rule {
        let runtime = self.runtime().handle().clone();
        self.shared.rules.add(n, Box::new(matcher), action, runtime)
    }

    /// Applies an action to all commands that match, until the rule is removed.
    pub fn always(
        &self,
        matcher: impl FnMut(&[Vec<u8>]) -> bool + Send + 'static,
        action: Action,
    ) -> Rule {
        self.times(u64::MAX, matcher, action)
    }

    /// Sends the commands copied by [`Action::Copy`] again, straight to the server, each over a
    /// new connection of the same user, and returns the replies.
    ///
    /// The copies are used up.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the server does not answer. Its errors are replies.
    pub fn resend_copies(&self) -> Result<Vec<Value>, Error> {
        self.shared.copies.resend(self.server)
    }

    /// Drops the next `n` published messages on their way to subscribers; zero ends it.
    pub fn drop_messages(&self, n: u64) {
        self.shared.traffic.drop_messages(n);
    }

    /// Drops all published messages, until [`drop_messages(0)`](Self::drop_messages).
    pub fn drop_all_messages(&self) {
        self.drop_messages(u64::MAX);
    }
}
