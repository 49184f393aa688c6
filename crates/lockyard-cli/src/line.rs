//! What a worker tells its parent, a word a line on its standard output.

/// A worker's message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Line {
    /// It is connected and waits for the start.
    Ready,
    /// It holds the lock, stands still, and wants to be killed.
    Holding,
}

impl Line {
    const ALL: [Self; 2] = [Self::Ready, Self::Holding];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Holding => "holding",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|line| line.word() == text)
    }
}
