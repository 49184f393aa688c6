//! What a proxy does to everything that passes: delay, hold, count, drop messages.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// From the clients to the server.
    ToServer,
    /// From the server to the clients.
    ToClient,
    /// Both ways.
    Both,
}

/// One direction of all connections.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    delay: Duration,
    held: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lanes {
    to_server: Lane,
    to_client: Lane,
}

impl Lanes {
    fn lane(&self, direction: Direction) -> Lane {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient | Direction::Both => self.to_client,
        }
    }
}

/// What a proxy does to everything that passes, and how much that was.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    lanes: watch::Sender<Lanes>,
    pub(crate) commands: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// How many messages are still to be dropped.
    to_drop: Mutex<u64>,
}

impl Traffic {
    pub(crate) fn set_delay(&self, direction: Direction, delay: Duration) {
        self.change(direction, |lane| lane.delay = delay);
    }

    pub(crate) fn set_held(&self, direction: Direction, held: bool) {
        self.change(direction, |lane| lane.held = held);
    }

    pub(crate) fn drop_messages(&self, n: u64) {
        *self.to_drop.lock() = n;
    }

    /// Counts a message, and tells whether it is to be dropped.
    pub(crate) fn drops_message(&self) -> bool {
        self.messages.fetch_add(1, Relaxed);
        let mut to_drop = self.to_drop.lock();
        if *to_drop == 0 {
            return false;
        }
        *to_drop -= 1;
        self.dropped.fetch_add(1, Relaxed);
        true
    }

    /// Waits until what came at `arrived` may pass.
    pub(crate) async fn pass(&self, direction: Direction, arrived: Instant) {
        let mut lanes = self.lanes.subscribe();
        loop {
            let open = lanes.wait_for(|lanes| !lanes.lane(direction).held).await;
            let Ok(lane) = open.map(|lanes| lanes.lane(direction)) else {
                unreachable!("the sender lives in `self`");
            };
            let due = arrived + lane.delay;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }

    fn change(&self, direction: Direction, change: impl Fn(&mut Lane)) {
        self.lanes.send_modify(|lanes| {
            if direction != Direction::ToClient {
                change(&mut lanes.to_server);
            }
            if direction != Direction::ToServer {
                change(&mut lanes.to_client);
            }
        });
    }
}
