//! The workers, each at the end of a line of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use lockyard_testkit::{Proxy, Server, fresh_prefix};
use tempfile::TempDir;

use super::recorder::{Recorder, now};
use super::worker::{Plan, Seat};
use crate::history::{Event, Nanos, What};
use crate::process::Other;

/// Eight processes, each replaced when it is killed, and what they note.
pub(crate) struct Crew {
    pub(crate) server: Arc<Server>,
    pub(crate) places: Vec<Place>,
    pub(crate) killed: BTreeMap<u32, Nanos>,
    pub(crate) prefix: String,
    locks: Vec<String>,
    seats: [Seat; PROCESSES],
    seed: u64,
    next: u32,
    notes: TempDir,
    /// The test that the processes run as well.
    test: &'static str,
}

/// One of the crew; another process may take it over.
pub(crate) struct Place {
    pub(crate) line: Proxy,
    pub(crate) process: u32,
    /// `None` after it was killed.
    pub(crate) worker: Option<Other>,
}

pub(crate) const PROCESSES: usize = 8;
const TASKS: u64 = 8;

impl Crew {
    /// Starts the processes.
    pub(crate) fn start(
        test: &'static str,
        server: &Arc<Server>,
        locks: &[String],
        seats: [Seat; PROCESSES],
        seed: u64,
    ) -> Self {
        let line = || Proxy::start(server).unwrap();
        let place = || Place {
            line: line(),
            process: 0,
            worker: None,
        };
        let mut crew = Self {
            places: (0..PROCESSES).map(|_| place()).collect(),
            server: server.clone(),
            killed: BTreeMap::new(),
            prefix: fresh_prefix(),
            locks: locks.to_vec(),
            seats,
            seed,
            next: 1,
            notes: TempDir::with_prefix("lockyard-chaos-").unwrap(),
            test,
        };
        for place in 0..PROCESSES {
            crew.man(place);
        }
        crew
    }

    /// Puts a new process in a place, if it has none.
    pub(crate) fn man(&mut self, place: usize) {
        let number = self.next;
        let Place {
            line,
            process,
            worker: worker @ None,
        } = &mut self.places[place]
        else {
            return;
        };
        self.next += 1;
        let plan = Plan {
            process: number,
            url: line.url(),
            prefix: self.prefix.clone(),
            notes: notes(&self.notes, number),
            seed: self.seed,
            tasks: TASKS,
            locks: self.locks.clone(),
            kin: kin(place),
            seat: self.seats[place].clone(),
        };
        let plan = serde_json::to_string(&plan).unwrap();
        *process = number;
        *worker = Some(Other::start(self.test, &[&plan]));
    }

    /// Kills the process of a place.
    pub(crate) fn kill(&mut self, place: usize) {
        let Place {
            process, worker, ..
        } = &mut self.places[place];
        if let Some(mut worker) = worker.take() {
            worker.kill();
            self.killed.insert(*process, now());
        }
    }

    /// Stops the process of a place, and answers its number.
    pub(crate) fn pause(&self, place: usize) -> u32 {
        if let Some(worker) = &self.places[place].worker {
            worker.pause();
        }
        self.places[place].process
    }

    /// Lets a process go on, if it still lives.
    pub(crate) fn resume(&self, place: usize, process: u32) {
        let place = &self.places[place];
        if let Some(worker) = place.worker.as_ref().filter(|_| place.process == process) {
            worker.resume();
        }
    }

    /// How many of the processes that are there now have acquired a lock since a moment.
    pub(crate) fn served_since(&self, moment: Nanos) -> usize {
        let acquired = |event: &Event| {
            event.at > moment && matches!(event.what, What::Acquired { until, .. } if until > 0)
        };
        let served = |place: &&Place| {
            let events = Recorder::read(&notes(&self.notes, place.process));
            events.iter().any(acquired)
        };
        self.places.iter().filter(served).count()
    }

    /// Has all processes end by themselves, and tells how those ended that failed.
    pub(crate) fn dismiss(&mut self) -> Vec<ExitStatus> {
        let mut workers: Vec<Other> = self
            .places
            .iter_mut()
            .filter_map(|place| place.worker.take())
            .collect();
        for worker in &mut workers {
            worker.tell("stop");
        }
        let ends = workers.iter_mut().map(Other::wait);
        ends.filter(|status| !status.success()).collect()
    }

    /// Leaves the notes on disk, for whoever looks into a failure.
    pub(crate) fn keep_notes(self) -> PathBuf {
        self.notes.keep()
    }

    /// What all processes have noted.
    pub(crate) fn events(&self) -> Vec<Event> {
        (1..self.next)
            .flat_map(|number| Recorder::read(&notes(&self.notes, number)))
            .collect()
    }
}

/// An owner that two places share.
fn kin(place: usize) -> String {
    format!("67e55044-10b1-426f-9247-bb680e5fe0c8:{}", place / 2)
}

fn notes(folder: &TempDir, process: u32) -> PathBuf {
    folder.path().join(process.to_string())
}
