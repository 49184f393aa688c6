//! What tasks tell the laws of themselves, for as long as it is so.

use crate::laws::{Asking, Guard, Slot, key};
use crate::tasks::{Task, Wait};

/// While it is there somebody asks for a lock.
pub(crate) struct Asks<'a>(&'a Task, u64);

impl<'a> Asks<'a> {
    pub(crate) fn new(task: &'a Task, lock: &str, wait: Wait) -> Self {
        let number = task.world.with(|world, now| {
            let asking = Asking {
                client: world.links[task.client].name.clone(),
                lock: lock.to_owned(),
                waits: matches!(wait, Wait::Forever),
                since: now,
                server_ms: world.server_us(now) / 1000,
            };
            world.laws.ask(asking)
        });
        Self(task, number)
    }
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0
            .world
            .with(|world, _| world.laws.asking.remove(&self.1));
    }
}

/// While it is there a guard is asked whether it believes.
pub(crate) struct Belief<'a>(&'a Task, u64, Slot);

impl<'a> Belief<'a> {
    pub(crate) fn new(task: &'a Task, lock: &str, owner: String, slot: Slot) -> Self {
        let guard = Guard {
            client: task.world.inner().links[task.client].name.clone(),
            lock: key(lock),
            owner,
            slot: slot.clone(),
        };
        let number = task.world.with(|world, _| world.laws.believe(guard));
        Self(task, number, slot)
    }
}

impl Drop for Belief<'_> {
    fn drop(&mut self) {
        self.0.world.with(|world, _| world.laws.disbelieve(self.1));
        drop(self.2.lock().take());
    }
}
