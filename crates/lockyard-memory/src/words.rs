//! The words of one command, name first, in one buffer that serves command after command.

use std::fmt::Write as _;
use std::ops::Index;

use crate::number::Score;

#[derive(Debug, Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Words {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    /// A number as Redis writes one that a script gives to a command.
    pub(crate) fn push_number(&mut self, number: f64) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(text, "{}", Score(number));
        self.push(text.as_bytes());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The words from one on.
    pub(crate) fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        (first..self.len()).map(|at| &self[at])
    }

    /// The name in capitals; empty if it is longer than any command's.
    pub(crate) fn name<'a>(&self, buffer: &'a mut [u8; 24]) -> &'a [u8] {
        let name = &self[0];
        let Some(buffer) = buffer.get_mut(..name.len()) else {
            return &[];
        };
        buffer.copy_from_slice(name);
        buffer.make_ascii_uppercase();
        buffer
    }
}

impl Index<usize> for Words {
    type Output = [u8];

    fn index(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }
}
