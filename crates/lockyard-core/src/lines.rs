//! The local waiters of each key, by ticket.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// Main key → those who wait for it.
#[derive(Default)]
pub(crate) struct Lines(BTreeMap<Bytes, Line>);

#[derive(Default)]
struct Line {
    /// Ticket and number.
    waiters: BTreeSet<(u64, u64)>,
    /// How many looked at once the last time, in a walk to the first that is still queued.
    walk: usize,
}

/// The most that look at once: ten thousand looks would block the server for half a second.
const LONGEST_WALK: usize = 100;

impl Lines {
    pub(crate) fn join(&mut self, key: &Bytes, ticket: u64, seq: u64) {
        self.0
            .entry(key.clone())
            .or_default()
            .waiters
            .insert((ticket, seq));
    }

    /// Takes a waiter out and answers who is first then.
    pub(crate) fn leave(&mut self, key: &Bytes, ticket: u64, seq: u64) -> Option<u64> {
        self.0.get_mut(key)?.waiters.remove(&(ticket, seq));
        let first = self.first(key);
        if first.is_none() {
            self.0.remove(key);
        }
        first
    }

    /// How many wait for a key.
    pub(crate) fn len(&self, key: &Bytes) -> usize {
        self.0.get(key).map_or(0, |line| line.waiters.len())
    }

    pub(crate) fn first(&self, key: &Bytes) -> Option<u64> {
        self.0.get(key)?.waiters.first().map(|(_, seq)| *seq)
    }

    /// Begins a walk along each line: who looks first.
    pub(crate) fn begin_walks(&mut self) -> Vec<u64> {
        let begin = |line: &mut Line| {
            line.walk = 1;
            line.waiters.first().map(|(_, seq)| *seq)
        };
        self.0.values_mut().filter_map(begin).collect()
    }

    /// Goes on with a walk: who looks next, twice as many each time; nobody if one of the last was still queued.
    pub(crate) fn walk_on(&mut self, key: &Bytes, queued: bool) -> Vec<u64> {
        let Some(line) = self.0.get_mut(key) else {
            return Vec::new();
        };
        line.walk = if queued {
            0
        } else {
            (line.walk * 2).clamp(1, LONGEST_WALK)
        };
        line.waiters
            .iter()
            .take(line.walk)
            .map(|(_, seq)| *seq)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_doubles_until_somebody_is_still_queued() {
        let key = Bytes::from_static(b"x");
        let mut lines = Lines::default();
        for seq in 1..=300 {
            lines.join(&key, 1000 + seq, seq);
        }
        assert_eq!(lines.begin_walks(), [1]);
        let mut sizes = Vec::new();
        for _ in 0..8 {
            let next = lines.walk_on(&key, false);
            sizes.push(next.len());
        }
        assert_eq!(sizes, [2, 4, 8, 16, 32, 64, 100, 100]);
        assert!(lines.walk_on(&key, true).is_empty());
        assert_eq!(lines.walk_on(&key, false), [1]);
    }

    #[test]
    fn tickets_decide_who_is_first() {
        let key = Bytes::from_static(b"x");
        let mut lines = Lines::default();
        lines.join(&key, 30, 1);
        lines.join(&key, 10, 2);
        lines.join(&key, 20, 3);
        assert_eq!(lines.first(&key), Some(2));
        assert_eq!(lines.leave(&key, 10, 2), Some(3));
        assert_eq!(lines.leave(&key, 30, 1), Some(3));
        assert_eq!(lines.leave(&key, 20, 3), None);
        assert_eq!(lines.first(&key), None);
    }
}
