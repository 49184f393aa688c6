//! Switches that break a promise on purpose, for the simulation to notice.
//!
//! Without the feature `breakages` they are constants, and nothing of them is left in the code.

/// Whether core is broken in this way.
#[cfg(not(feature = "breakages"))]
pub(crate) const fn broken(_: &str) -> bool {
    false
}

#[cfg(feature = "breakages")]
pub(crate) use switch::broken;
#[cfg(feature = "breakages")]
pub use switch::set;

#[cfg(feature = "breakages")]
mod switch {
    use std::cell::Cell;

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
}
