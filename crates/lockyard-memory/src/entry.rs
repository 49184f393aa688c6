//! What tests see of a key.

use std::time::Duration;

use bytes::Bytes;

use crate::value;

/// A key, its value and the time for which it still stays.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The key.
    pub key: Bytes,
    /// What it holds.
    pub value: Value,
    /// The time until it expires, `None` if it does not.
    pub ttl: Option<Duration>,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A string.
    Text(Bytes),
    /// The fields of a hash and their values, in the order in which they were added.
    Hash(Vec<(Bytes, Bytes)>),
    /// The members of a sorted set and their scores, in order.
    SortedSet(Vec<(Bytes, f64)>),
}

impl Entry {
    pub(crate) fn of((key, value, ttl): (&[u8], &value::Value, Option<u64>)) -> Self {
        Self {
            key: Bytes::copy_from_slice(key),
            value: value.into(),
            ttl: ttl.map(Duration::from_millis),
        }
    }
}

impl From<&value::Value> for Value {
    fn from(value: &value::Value) -> Self {
        let bytes = |text: &value::Text| Bytes::copy_from_slice(text);
        match value {
            value::Value::Text(text) => Self::Text(bytes(text)),
            value::Value::Hash(hash) => {
                let fields = hash.fields.iter();
                Self::Hash(
                    fields
                        .map(|(field, value)| (bytes(field), bytes(value)))
                        .collect(),
                )
            }
            value::Value::SortedSet(set) => {
                let places = set.iter();
                Self::SortedSet(
                    places
                        .map(|place| (bytes(&place.member), place.score))
                        .collect(),
                )
            }
        }
    }
}
