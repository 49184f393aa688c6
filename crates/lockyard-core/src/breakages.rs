//! Switches that break a promise on purpose, for the simulation to notice.
//!
//! Without the feature `breakages` they are constants, and nothing of them is left in the code.
//! With it, the variable `LOCKYARD_CHANGED_SCRIPTS` names a file of scripts as they are and as they are to run instead,
//! in turn, with NULs between them.

/// Whether core is broken in this way.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn broken(_: &str) -> bool {
    false
}

/// What runs in a script's place.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn changed(script: &'static str) -> &'static str {
    script
}

#[cfg(feature = "breakages")]
pub(crate) use switch::broken;
#[cfg(feature = "breakages")]
pub use switch::{changed, set};

#[cfg(feature = "breakages")]
mod switch {
    use std::cell::Cell;
    use std::sync::LazyLock;

    thread_local! {
        static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Breaks core in one way in this thread, or in none.
    pub fn set(name: Option<&'static str>) {
        BROKEN.set(name);
    }

    pub(crate) fn broken(name: &str) -> bool {
        BROKEN.get() == Some(name)
    }

    /// What runs in a script's place in this process.
    #[must_use]
    pub fn changed(script: &'static str) -> &'static str {
        static CHANGED: LazyLock<Vec<&str>> = LazyLock::new(|| {
            let file = std::env::var_os("LOCKYARD_CHANGED_SCRIPTS");
            let text = file.and_then(|file| std::fs::read_to_string(file).ok());
            text.unwrap_or_default().leak().split('\0').collect()
        });
        let mut changed = CHANGED.chunks_exact(2);
        let changed = changed.find(|pair| pair[0] == script);
        changed.map_or(script, |pair| pair[1])
    }
}
