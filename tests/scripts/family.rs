use lockyard_core::__private::changed_script;
use lockyard_lua::{lock, rw, semaphore};

/// Whose scripts are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Lock,
    Rw,
    Semaphore,
}

impl Family {
    /// What its keys begin with.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Rw => "rw",
            Self::Semaphore => "semaphore",
        }
    }

    pub(crate) fn acquire(self) -> &'static str {
        changed_script(match self {
            Self::Lock => lock::ACQUIRE,
            Self::Rw => rw::ACQUIRE,
            Self::Semaphore => semaphore::ACQUIRE,
        })
    }

    pub(crate) fn renew(self) -> &'static str {
        changed_script(match self {
            Self::Lock => lock::RENEW,
            Self::Rw => rw::RENEW,
            Self::Semaphore => semaphore::RENEW,
        })
    }

    pub(crate) fn release(self) -> &'static str {
        changed_script(match self {
            Self::Lock => lock::RELEASE,
            Self::Rw => rw::RELEASE,
            Self::Semaphore => semaphore::RELEASE,
        })
    }

    pub(crate) fn inspect(self) -> &'static str {
        changed_script(match self {
            Self::Lock => lock::INSPECT,
            Self::Rw => rw::INSPECT,
            Self::Semaphore => semaphore::INSPECT,
        })
    }

    /// What its keys are called besides; not each family has the last.
    pub(crate) fn parts(self) -> [&'static str; 5] {
        match self {
            Self::Lock | Self::Rw => ["", ".queue", ".alive", ".fence", ".readers"],
            Self::Semaphore => ["", ".queue", ".alive", ".limit", ".permits"],
        }
    }

    /// What the scripts of the queue get of the keys, which come in the order of [`parts`](Self::parts).
    pub(crate) fn keys<T>(self, [main, queue, alive, other, set]: [T; 5]) -> Vec<T> {
        match self {
            Self::Lock => vec![main, queue, alive, other],
            Self::Rw => vec![main, queue, set, alive, other],
            Self::Semaphore => vec![main, queue, set, other, alive],
        }
    }
}
