use lockyard_lua::{lock, rw};

/// Whose scripts are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Lock,
    Rw,
}

impl Family {
    /// What its keys begin with.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Rw => "rw",
        }
    }

    pub(crate) fn acquire(self) -> &'static str {
        match self {
            Self::Lock => lock::ACQUIRE,
            Self::Rw => rw::ACQUIRE,
        }
    }

    pub(crate) fn renew(self) -> &'static str {
        match self {
            Self::Lock => lock::RENEW,
            Self::Rw => rw::RENEW,
        }
    }

    pub(crate) fn release(self) -> &'static str {
        match self {
            Self::Lock => lock::RELEASE,
            Self::Rw => rw::RELEASE,
        }
    }

    pub(crate) fn inspect(self) -> &'static str {
        match self {
            Self::Lock => lock::INSPECT,
            Self::Rw => rw::INSPECT,
        }
    }

    /// What all scripts but `inspect` get of the keys `lock`, `queue`, `alive`, `fence`, `readers`, in their order.
    pub(crate) fn keys<T>(self, [lock, queue, alive, fence, readers]: [T; 5]) -> Vec<T> {
        match self {
            Self::Lock => vec![lock, queue, alive, fence],
            Self::Rw => vec![lock, queue, readers, alive, fence],
        }
    }
}
