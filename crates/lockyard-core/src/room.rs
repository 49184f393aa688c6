//! Tasks of one client that wait for one lock on the same terms share a place in its queue, and pass the lock on.
//!
//! It is the local mutex that people put in front of a distributed one, without its unfairness.
//!
//! 1. Whoever finds no room asks alone; once it stands in the queue, its place is a room's for those who come later.
//! 2. While tasks wait in a room, a place of theirs is in the queue, or one of them is asking for it; one that has
//!    no answer after a third of the waiter timeout may not be polled, so then another asks as well.
//! 3. The place has the arrival of the task that asked for it, so it is no worse off than without the others.
//! 4. A hold is passed on as `pass.rs` says; then the first in the queue has its turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::backend::{Fault, Moment};
use crate::cell::Cell;
use crate::core::Core;
use crate::error::Error;
use crate::id::{Outcome, Passing, Phase, Spec, Terms, Waiter};
use crate::state::State;

/// Main key and lease.
type Door = (Bytes, Duration);

#[derive(Default)]
pub(crate) struct Rooms {
    rooms: BTreeMap<Door, Room>,
    /// Where each task asks that has been told to, by the number of its arrival.
    asking: BTreeMap<u64, Door>,
}

#[derive(Default)]
struct Room {
    place: Place,
    /// Those who wait, by arrival.
    tasks: BTreeMap<(Moment, u64), oneshot::Sender<Turn>>,
    /// What keeps the one that asks from an answer.
    trouble: Option<Fault>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    None,
    /// The task that arrived with this number, and is not among those who wait, is asking for it.
    Asked(u64),
    Queued(u64),
}

/// What a waiting task is told.
pub(crate) enum Turn {
    /// To ask for a place.
    Ask,
    /// It holds.
    Hold(u64, Arc<Cell>),
    /// It cannot hold.
    Failed(Error),
}

/// A task's part in a room; dropped at any point, it leaves the others none the worse.
pub(crate) struct Seat {
    core: Arc<Core>,
    door: Door,
    arrival: (Moment, u64),
    part: Part,
}

enum Part {
    /// It asks for itself; there may be no room.
    Alone,
    /// It asks for all in the room.
    Asks,
    Waits(oneshot::Receiver<Turn>),
    /// It has been served.
    Done,
}

impl Seat {
    /// Enters the room, if others wait in it.
    pub(crate) fn take(core: &Arc<Core>, spec: &Spec, terms: Terms, came: Moment) -> Self {
        let mut seat = Self {
            core: core.clone(),
            door: door(spec, terms),
            arrival: (came, core.number()),
            part: Part::Alone,
        };
        if core.crowded.load(Relaxed) {
            core.with(|state| {
                if let Some(room) = state.rooms.rooms.get_mut(&seat.door) {
                    seat.part = Part::Waits(room.join(seat.arrival));
                }
            });
        }
        seat
    }

    pub(crate) fn waits(&self) -> bool {
        matches!(self.part, Part::Waits(_))
    }

    /// The server time at which it came, as a ticket; 0 if that is not known.
    pub(crate) fn ticket(&self) -> u64 {
        let sync = self.core.with(|state| state.sync);
        sync.map_or(0, |sync| sync.server_time(self.arrival.0))
    }

    /// Waits to be told; `None` when time is up.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], or why the server could not be asked meanwhile.
    pub(crate) async fn turn(&mut self, until: Moment, name: &str) -> Result<Option<Turn>, Error> {
        let Part::Waits(told) = &mut self.part else {
            return Ok(Some(Turn::Ask));
        };
        tokio::select! {
            biased;
            turn = told => {
                self.part = match turn {
                    Ok(Turn::Ask) => Part::Asks,
                    _ => Part::Done,
                };
                turn.map(Some).map_err(|_| Error::Closed)
            }
            () = self.core.sleep_until(until) => {
                let trouble = self.core.with(|state| state.rooms.rooms.get(&self.door)?.trouble.clone());
                trouble.map_or(Ok(None), |fault| Err(self.core.error(name, fault)))
            }
        }
    }

    /// It holds what it asked for, without a place; the next may ask.
    pub(crate) fn served(&mut self, state: &mut State, now: Moment) {
        if matches!(self.part, Part::Asks) {
            self.part = Part::Done;
            state.end_asking(&self.door, self.arrival, now);
        }
    }

    /// If it asks for all, there is no answer yet.
    pub(crate) fn troubled(&self, fault: &Fault) {
        self.core.with(|state| {
            if let Some(room) = state.rooms.rooms.get_mut(&self.door)
                && room.place == Place::Asked(self.arrival.1)
            {
                room.trouble = Some(fault.clone());
            }
        });
    }

    /// The id that it asked for stands in the queue, and the task with others in the room; whether by that place, `None`
    /// if it does not wait any more.
    pub(crate) fn queued(&mut self, seq: u64) -> Option<bool> {
        let (door, now) = (&self.door, self.core.now());
        let (told, placed) = self.core.with(|state| {
            let mine = state.ticket(seq)?;
            let room = state.rooms.rooms.entry(door.clone()).or_default();
            room.trouble = None;
            let told = room.join(self.arrival);
            // Several may have asked; the first place in the queue is that of all.
            if let Place::Queued(other) = room.place {
                if state.ticket(other).is_some_and(|ticket| ticket <= mine) {
                    return Some((told, false));
                }
                state.abandon(other, now);
            }
            state.take_place(door, seq);
            Some((told, true))
        })?;
        self.part = Part::Waits(told);
        Some(placed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.part, Part::Done) {
            Part::Alone | Part::Done => {}
            Part::Asks => self
                .core
                .with(|state| state.end_asking(&self.door, self.arrival, self.core.now())),
            Part::Waits(mut told) => self.core.with(|state| {
                let now = self.core.now();
                state.leave_room(&self.door, self.arrival, now);
                // It may have been told just before.
                match told.try_recv() {
                    Ok(Turn::Ask) => state.end_asking(&self.door, self.arrival, now),
                    Ok(Turn::Hold(seq, _)) => state.part_in_background(seq, 0, now),
                    Ok(Turn::Failed(_)) | Err(_) => {}
                }
            }),
        }
    }
}

impl Rooms {
    pub(crate) fn is_empty(&self) -> bool {
        self.rooms.is_empty()
    }

    /// How many tasks wait for a key, and how many places in its queue are theirs.
    pub(crate) fn waiting(&self, key: &Bytes) -> (usize, usize) {
        let doors = (key.clone(), Duration::ZERO)..=(key.clone(), Duration::MAX);
        let rooms = self.rooms.range(doors);
        rooms.fold((0, 0), |(tasks, places), (_, room)| {
            let place = usize::from(matches!(room.place, Place::Queued(_)));
            (tasks + room.tasks.len(), places + place)
        })
    }
}

impl Room {
    fn join(&mut self, arrival: (Moment, u64)) -> oneshot::Receiver<Turn> {
        let (tell, told) = oneshot::channel();
        self.tasks.insert(arrival, tell);
        told
    }

    /// Tells the first of those who wait, and answers the number of its arrival; gives the turn back if nobody waits.
    fn tell_first(&mut self, turn: Turn) -> Result<u64, Turn> {
        match self.tasks.pop_first() {
            Some(((_, number), tell)) => tell.send(turn).map(|()| number),
            None => Err(turn),
        }
    }
}

fn door(spec: &Spec, terms: Terms) -> Door {
    (spec.keys[0].clone(), terms.lease.duration())
}

impl State {
    /// Where an id stands in the queue, if it does.
    fn ticket(&self, seq: u64) -> Option<u64> {
        match self.ids.get(&seq)?.phase {
            Phase::Queued(_, ticket) => Some(ticket),
            _ => None,
        }
    }

    /// Makes the place of an id that of a room.
    fn take_place(&mut self, door: &Door, seq: u64) {
        self.set_place(door, Place::Queued(seq));
        if let Some(id) = self.ids.get_mut(&seq)
            && let Phase::Queued(waiter, _) = &mut id.phase
        {
            *waiter = Waiter::Room;
        }
    }

    /// Changes how a room comes to a place; whoever asked is no longer waited for.
    fn set_place(&mut self, door: &Door, place: Place) {
        let Some(room) = self.rooms.rooms.get_mut(door) else {
            return;
        };
        if let Place::Asked(number) = std::mem::replace(&mut room.place, place) {
            self.rooms.asking.remove(&number);
            self.agenda.set(number, Moment::NEVER);
        }
    }

    /// Has the next task ask for a place, if none is there; a room that is empty goes.
    fn ask_for_place(&mut self, door: &Door, now: Moment) {
        if let Some(room) = self.rooms.rooms.get_mut(door)
            && room.place == Place::None
        {
            match room.tell_first(Turn::Ask) {
                Ok(number) => {
                    room.place = Place::Asked(number);
                    self.rooms.asking.insert(number, door.clone());
                    self.agenda.set(number, now.after(self.waiter_timeout / 3));
                }
                Err(_) => drop(self.rooms.rooms.remove(door)),
            }
        }
    }

    /// The one that asks has had its time.
    pub(crate) fn ask_another(&mut self, number: u64, now: Moment) {
        if let Some(door) = self.rooms.asking.get(&number).cloned() {
            self.set_place(&door, Place::None);
            self.ask_for_place(&door, now);
        }
    }

    /// The one that asks has its hold without a place, or has given up.
    fn end_asking(&mut self, door: &Door, arrival: (Moment, u64), now: Moment) {
        if let Some(room) = self.rooms.rooms.get_mut(door)
            && room.place == Place::Asked(arrival.1)
        {
            room.trouble = None;
            self.set_place(door, Place::None);
        }
        self.ask_for_place(door, now);
    }

    /// A task waits no longer; the last one takes the place along.
    fn leave_room(&mut self, door: &Door, arrival: (Moment, u64), now: Moment) {
        let Some(room) = self.rooms.rooms.get_mut(door) else {
            return;
        };
        room.tasks.remove(&arrival);
        if let Place::Queued(seq) = room.place
            && room.tasks.is_empty()
        {
            self.rooms.rooms.remove(door);
            self.abandon(seq, now);
        }
    }

    /// The place of a room has become a hold.
    pub(crate) fn place_held(&mut self, seq: u64, now: Moment) {
        let (Some(door), Some(cell)) = (self.door(seq), self.cell(seq)) else {
            return;
        };
        let told = self.rooms.rooms.get_mut(&door).is_some_and(|room| {
            room.place = Place::None;
            room.tell_first(Turn::Hold(seq, cell)).is_ok()
        });
        self.ask_for_place(&door, now);
        if !told {
            self.part_in_background(seq, 0, now);
        }
    }

    /// The place of a room is gone without a hold.
    pub(crate) fn place_ended(&mut self, seq: u64, outcome: Outcome, now: Moment) {
        if let Some(door) = self.door(seq) {
            if let Some(room) = self.rooms.rooms.get_mut(&door) {
                room.place = Place::None;
                if let Outcome::Failed(error) = outcome {
                    // The others ask anew, and are told the same if it is so for them as well.
                    let _ = room.tell_first(Turn::Failed(error));
                }
            }
            self.ask_for_place(&door, now);
        }
        self.give_up(seq, now);
    }

    /// Passes a hold on to the first of those who share its place; whether it did.
    pub(crate) fn pass_in_room(&mut self, seq: u64, cell: Arc<Cell>, now: Moment) -> bool {
        let Some(door) = self.door(seq) else {
            return false;
        };
        let passed = self
            .rooms
            .rooms
            .get_mut(&door)
            .is_some_and(|room| room.tell_first(Turn::Hold(seq, cell)).is_ok());
        if passed {
            self.ask_for_place(&door, now);
        }
        passed
    }

    /// The place that nobody needs when this hold ends: it is to be released before the hold.
    pub(crate) fn take_spare(&mut self, seq: u64) -> Option<u64> {
        if self.rooms.is_empty() {
            return None;
        }
        let door = self.door(seq)?;
        let room = self.rooms.rooms.get(&door)?;
        let Place::Queued(place) = room.place else {
            return None;
        };
        if !room.tasks.is_empty() {
            return None;
        }
        self.rooms.rooms.remove(&door);
        Some(place)
    }

    /// All tasks are told that the client is closed.
    pub(crate) fn close_rooms(&mut self) {
        self.rooms = Rooms::default();
    }

    /// The room of an id that may be passed on.
    fn door(&self, seq: u64) -> Option<Door> {
        let id = self.ids.get(&seq)?;
        (id.terms.passing == Passing::InRoom).then(|| door(&id.spec, id.terms))
    }
}
