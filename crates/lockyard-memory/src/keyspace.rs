//! Keys, their values and when they expire.
//!
//! 1. A key whose time is over is seen by nobody: each access removes it first, and a sweep those that nobody touches.
//! 2. A collection that has become empty is removed.
//! 3. As in Redis, a key still lives in the very millisecond in which it expires.

use std::collections::BTreeMap;

use crate::refusal::Refusal;
use crate::value::{Kind, Value};

#[derive(Debug)]
pub(crate) struct Keyspace {
    slots: BTreeMap<Box<[u8]>, Slot>,
    now_us: u64,
    /// With how many keys the next sweep comes, so that it costs each key a constant time.
    sweep_at: usize,
}

#[derive(Debug)]
struct Slot {
    value: Value,
    /// In ms.
    expires: Option<u64>,
}

const SWEEP: usize = 1024;

impl Default for Keyspace {
    fn default() -> Self {
        Self {
            slots: BTreeMap::new(),
            now_us: 0,
            sweep_at: SWEEP,
        }
    }
}

impl Keyspace {
    pub(crate) fn now_us(&self) -> u64 {
        self.now_us
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    pub(crate) fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
        if self.slots.len() >= self.sweep_at {
            let now = self.now_ms();
            self.slots.retain(|_, slot| !slot.is_over(now));
            self.sweep_at = SWEEP.max(2 * self.slots.len());
        }
    }

    fn slot(&mut self, key: &[u8]) -> Option<&mut Slot> {
        let now = self.now_ms();
        if self.slots.get(key)?.is_over(now) {
            self.slots.remove(key);
            return None;
        }
        self.slots.get_mut(key)
    }

    pub(crate) fn exists(&mut self, key: &[u8]) -> bool {
        self.slot(key).is_some()
    }

    /// The value of a key, if it has one.
    pub(crate) fn get<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&K>, Refusal> {
        let Some(slot) = self.slot(key) else {
            return Ok(None);
        };
        let value = K::of(&mut slot.value).ok_or(Refusal::WrongType)?;
        Ok(Some(value))
    }

    /// Changes a value, an empty one if the key has none.
    pub(crate) fn create<K: Kind, T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> T,
    ) -> Result<T, Refusal> {
        if let Some(slot) = self.slot(key) {
            return K::of(&mut slot.value).map(change).ok_or(Refusal::WrongType);
        }
        let mut value = K::default();
        let result = change(&mut value);
        if !value.is_vacant() {
            self.set(key, value.into_value());
        }
        Ok(result)
    }

    /// Changes the value of a key that has one.
    pub(crate) fn change<K: Kind, T: Default>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut K) -> T,
    ) -> Result<T, Refusal> {
        let Some(slot) = self.slot(key) else {
            return Ok(T::default());
        };
        let value = K::of(&mut slot.value).ok_or(Refusal::WrongType)?;
        let result = change(value);
        if value.is_vacant() {
            self.slots.remove(key);
        }
        Ok(result)
    }

    /// Gives a key a value whatever it has, and for ever.
    pub(crate) fn set(&mut self, key: &[u8], value: Value) {
        let slot = Slot {
            value,
            expires: None,
        };
        match self.slots.get_mut(key) {
            Some(old) => *old = slot,
            None => drop(self.slots.insert(key.into(), slot)),
        }
    }

    /// Whether there was such a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        self.slot(key).is_some() && self.slots.remove(key).is_some()
    }

    /// The ms until a key expires, or `None` for one that does not; nothing if there is no such key.
    pub(crate) fn ttl(&mut self, key: &[u8]) -> Option<Option<u64>> {
        let now = self.now_ms();
        let slot = self.slot(key)?;
        Some(slot.expires.map(|expires| expires.saturating_sub(now)))
    }

    /// Sets the ms until a key expires, which removes it at once if they are none; whether there is such a key.
    pub(crate) fn expire(&mut self, key: &[u8], ttl: i64) -> Result<bool, Refusal> {
        let now = self.now_ms();
        let expires = ttl
            .checked_add(now as i64)
            .ok_or(Refusal::InvalidExpire("pexpire"))?;
        let Some(slot) = self.slot(key) else {
            return Ok(false);
        };
        if ttl > 0 {
            slot.expires = Some(expires as u64);
        } else {
            self.slots.remove(key);
        }
        Ok(true)
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    /// How many keys are kept, those included whose time is over.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Every key at a time in µs, in order, its value and the ms until it expires.
    pub(crate) fn iter(&self, now_us: u64) -> impl Iterator<Item = (&[u8], &Value, Option<u64>)> {
        let now = now_us / 1000;
        let alive = self
            .slots
            .iter()
            .filter(move |(_, slot)| !slot.is_over(now));
        let ttl = move |expires: u64| expires - now;
        alive.map(move |(key, slot)| (&**key, &slot.value, slot.expires.map(ttl)))
    }
}

impl Slot {
    fn is_over(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires < now)
    }
}
