//! Who hears what, and what was said.

use std::collections::BTreeMap;

use bytes::Bytes;

/// How many subscribers each channel has, and the messages of the script that runs.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    subscribers: BTreeMap<Box<[u8]>, u64>,
    published: Vec<Message>,
}

/// A message that a script published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where.
    pub channel: Bytes,
    /// What.
    pub text: Bytes,
    /// To how many subscribers, as the script was told.
    pub receivers: u64,
}

impl Channels {
    pub(crate) fn subscribe(&mut self, channel: &[u8]) {
        *self.subscribers.entry(channel.into()).or_default() += 1;
    }

    pub(crate) fn unsubscribe(&mut self, channel: &[u8]) {
        if let Some(subscribers) = self.subscribers.get_mut(channel) {
            *subscribers -= 1;
            if *subscribers == 0 {
                self.subscribers.remove(channel);
            }
        }
    }

    /// To how many subscribers it goes.
    pub(crate) fn publish(&mut self, channel: &[u8], text: &[u8]) -> u64 {
        let receivers = self.subscribers.get(channel).copied().unwrap_or_default();
        self.published.push(Message {
            channel: Bytes::copy_from_slice(channel),
            text: Bytes::copy_from_slice(text),
            receivers,
        });
        receivers
    }

    pub(crate) fn take(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.published)
    }
}
