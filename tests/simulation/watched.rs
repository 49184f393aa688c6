//! What tasks tell the laws of themselves, for as long as it is so.

use crate::door::{Door, Held};
use crate::laws::{Asking, Guard, Slot};
use crate::tasks::{Task, Wait};

/// While it is there somebody asks for a lock.
pub(crate) struct Asks<'a>(&'a Task, u64);

impl<'a> Asks<'a> {
    pub(crate) fn new(task: &'a Task, door: &Door, wait: Wait) -> Self {
        let number = task.world.with(|world, now| {
            let asking = Asking {
                client: world.links[task.client].name.clone(),
                lock: door.key(),
                waits: matches!(wait, Wait::Forever),
                since: now,
                server_ms: world.server_us(now) / 1000,
            };
            world.laws.ask(asking)
        });
        Self(task, number)
    }
}

impl Asks<'_> {
    /// It has permits.
    pub(crate) fn served(&self) {
        let number = self.1;
        self.0
            .world
            .with(|world, now| world.laws.served(number, now));
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
pub(crate) struct Belief<'a>(&'a Task, u64, pub(crate) Slot);

impl<'a> Belief<'a> {
    /// Puts what is held into a slot, where it is asked.
    pub(crate) fn new(task: &'a Task, key: String, alone: bool, held: Held) -> Self {
        let slot = Slot::default();
        let guard = Guard {
            client: task.world.inner().links[task.client].name.clone(),
            lock: key,
            owner: held.owner(),
            beside: held.beside(),
            alone,
            slot: slot.clone(),
        };
        *slot.lock() = Some(held);
        let number = task.world.with(|world, _| world.laws.believe(guard));
        Self(task, number, slot)
    }
}

impl Belief<'_> {
    /// What is held has become less, under another owner.
    pub(crate) fn become_less(&self, held: Held) {
        self.0.world.with(|world, _| {
            if let Some(guard) = world.laws.guards.get_mut(&self.1) {
                (guard.owner, guard.beside) = (held.owner(), held.beside());
            }
            *self.2.lock() = Some(held);
        });
    }
}

impl Drop for Belief<'_> {
    fn drop(&mut self) {
        self.0.world.with(|world, _| world.laws.disbelieve(self.1));
        drop(self.2.lock().take());
    }
}
