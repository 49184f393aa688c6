//! What a key holds.

use std::sync::Arc;

use crate::sorted_set::SortedSet;

/// Bytes that replies share with the store.
pub(crate) type Text = Arc<[u8]>;

#[derive(Debug)]
pub(crate) enum Value {
    Text(Text),
    Hash(Hash),
    SortedSet(SortedSet),
}

/// One type of value, so that the keyspace can check for it.
pub(crate) trait Kind: Default {
    fn of(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    /// Whether a key with this value is removed, as Redis does with collections.
    fn is_vacant(&self) -> bool;
}

impl Kind for Text {
    fn of(value: &mut Value) -> Option<&mut Self> {
        match value {
            Value::Text(text) => Some(text),
            Value::Hash(_) | Value::SortedSet(_) => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Text(self)
    }

    fn is_vacant(&self) -> bool {
        false
    }
}

impl Kind for Hash {
    fn of(value: &mut Value) -> Option<&mut Self> {
        match value {
            Value::Hash(hash) => Some(hash),
            Value::Text(_) | Value::SortedSet(_) => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Hash(self)
    }

    fn is_vacant(&self) -> bool {
        self.fields.is_empty()
    }
}

impl Kind for SortedSet {
    fn of(value: &mut Value) -> Option<&mut Self> {
        match value {
            Value::SortedSet(set) => Some(set),
            Value::Text(_) | Value::Hash(_) => None,
        }
    }

    fn into_value(self) -> Value {
        Value::SortedSet(self)
    }

    fn is_vacant(&self) -> bool {
        self.len() == 0
    }
}

/// Fields and values in the order in which the fields came, as Redis keeps small hashes.
///
/// The hashes of primitives have a field for each hold, so they are searched from end to end.
#[derive(Debug, Default)]
pub(crate) struct Hash {
    pub(crate) fields: Vec<(Text, Text)>,
}

impl Hash {
    pub(crate) fn get(&self, field: &[u8]) -> Option<&Text> {
        let (_, value) = self.fields.iter().find(|(name, _)| **name == *field)?;
        Some(value)
    }

    /// Whether the field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        match self.fields.iter_mut().find(|(name, _)| **name == *field) {
            Some((_, old)) => {
                *old = value.into();
                false
            }
            None => {
                self.fields.push((field.into(), value.into()));
                true
            }
        }
    }

    /// Whether the field was there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        let at = self.fields.iter().position(|(name, _)| **name == *field);
        at.map(|at| self.fields.remove(at)).is_some()
    }
}
