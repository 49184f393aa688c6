//! A sorted set: members in order of score, and of their bytes among equal scores.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::value::Text;

#[derive(Debug, Default)]
pub(crate) struct SortedSet {
    scores: BTreeMap<Text, f64>,
    order: BTreeSet<Place>,
}

/// A member's place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) score: f64,
    pub(crate) member: Text,
}

impl SortedSet {
    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Adds a member or moves it.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) {
        let member = match self.take(member) {
            Some(place) => place.member,
            None => member.into(),
        };
        self.scores.insert(member.clone(), score);
        self.order.insert(Place { score, member });
    }

    /// Whether the member was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        self.take(member).is_some()
    }

    fn take(&mut self, member: &[u8]) -> Option<Place> {
        let (member, score) = self.scores.remove_entry(member)?;
        let place = Place { score, member };
        self.order.remove(&place);
        Some(place)
    }

    /// The members in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Place> {
        self.order.iter()
    }

    /// The members from one index on to another and including it; negative ones count from the end.
    pub(crate) fn range(&self, first: i64, last: i64) -> Vec<&Place> {
        let len = self.len() as i64;
        let index = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
        let (first, last) = (index(first).max(0), index(last).min(len - 1));
        if first > last {
            return Vec::new();
        }
        let (skip, take) = (first as usize, (last - first + 1) as usize);
        // The last members are asked for as often as the first, and neither may cost the whole set.
        if skip > self.len() / 2 {
            let from_end = self.len() - skip - take;
            let mut places: Vec<&Place> =
                self.order.iter().rev().skip(from_end).take(take).collect();
            places.reverse();
            return places;
        }
        self.order.iter().skip(skip).take(take).collect()
    }

    /// The members whose scores are in a range, both ends included.
    pub(crate) fn scores(&self, least: f64, greatest: f64) -> impl Iterator<Item = &Place> {
        let from = Place {
            score: least,
            member: Text::from([]),
        };
        let places = self.order.range(from..);
        places.take_while(move |place| place.score <= greatest)
    }

    /// Removes the members whose scores are in a range, both ends included; how many there were.
    pub(crate) fn remove_scores(&mut self, least: f64, greatest: f64) -> usize {
        let gone = self.scores(least, greatest);
        let gone: Vec<Text> = gone.map(|place| place.member.clone()).collect();
        for member in &gone {
            self.remove(member);
        }
        gone.len()
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        // No score is NaN, and Redis takes the two zeros for equal.
        let scores = self.score.partial_cmp(&other.score);
        scores
            .unwrap_or(Ordering::Equal)
            .then_with(|| self.member.cmp(&other.member))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}
