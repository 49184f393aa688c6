//! The local waiters of each key, by ticket.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::breakages::broken;

/// Main key → those who wait for it.
#[derive(Default)]
pub(crate) struct Lines(BTreeMap<Bytes, Line>);

#[derive(Default)]
struct Line {
    /// Ticket and number → the one with the same terms that stood right before it in the queue, if it is one of ours.
    waiters: BTreeMap<(u64, u64), Option<u64>>,
    /// Who was let in last.
    entered: Option<u64>,
    /// How many looked at once the last time, in a walk to the first that is still queued.
    walk: usize,
}

/// The most that look at once: ten thousand looks would block the server for half a second.
const LONGEST_WALK: usize = 100;

impl Lines {
    pub(crate) fn join(&mut self, key: &Bytes, ticket: u64, seq: u64, behind: Option<u64>) {
        let line = self.0.entry(key.clone()).or_default();
        line.waiters.insert((ticket, seq), behind);
    }

    /// Somebody was let in, and so was at the head of the queue.
    pub(crate) fn enter(&mut self, key: &Bytes, seq: u64) {
        if let Some(line) = self.0.get_mut(key) {
            line.entered = Some(seq);
        }
    }

    /// Who is known to be at the head of the queue now, with the terms of the one that was let in last.
    pub(crate) fn head(&self, key: &Bytes) -> Option<u64> {
        let line = self.0.get(key)?;
        let ((_, seq), behind) = line.waiters.first_key_value()?;
        let known =
            behind.is_some() && *behind == line.entered || broken("a permit is passed to anybody");
        known.then_some(*seq)
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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many wait for a key.
    pub(crate) fn len(&self, key: &Bytes) -> usize {
        self.0.get(key).map_or(0, |line| line.waiters.len())
    }

    pub(crate) fn first(&self, key: &Bytes) -> Option<u64> {
        self.0.get(key)?.waiters.keys().next().map(|(_, seq)| *seq)
    }

    /// Begins a walk along each line: who looks first.
    pub(crate) fn begin_walks(&mut self) -> Vec<u64> {
        let begin = |line: &mut Line| {
            line.walk = 1;
            line.waiters.keys().next().map(|(_, seq)| *seq)
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
            .keys()
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
            lines.join(&key, 1000 + seq, seq, None);
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
        lines.join(&key, 30, 1, None);
        lines.join(&key, 10, 2, None);
        lines.join(&key, 20, 3, None);
        assert_eq!(lines.first(&key), Some(2));
        assert_eq!(lines.leave(&key, 10, 2), Some(3));
        assert_eq!(lines.leave(&key, 30, 1), Some(3));
        assert_eq!(lines.leave(&key, 20, 3), None);
        assert_eq!(lines.first(&key), None);
    }

    #[test]
    fn whoever_stood_right_behind_the_last_that_was_let_in_is_at_the_head() {
        let key = Bytes::from_static(b"x");
        let mut lines = Lines::default();
        lines.join(&key, 10, 1, None);
        lines.join(&key, 20, 2, Some(1));
        lines.join(&key, 40, 3, None);
        assert_eq!(lines.head(&key), None);
        lines.enter(&key, 1);
        lines.leave(&key, 10, 1);
        assert_eq!(lines.head(&key), Some(2));
        lines.enter(&key, 2);
        lines.leave(&key, 20, 2);
        // Somebody else's may stand before it.
        assert_eq!(lines.head(&key), None);
    }
}
