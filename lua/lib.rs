//! The Lua scripts of Lockyard, one folder a family, as they stand on disk and run on the server.
//!
//! You want the crate `lockyard`; this one only carries the text from the repository into Rust.
//! Each file is complete, so an error's line number is the line in the editor, and its header tells keys, arguments,
//! replies and cost.
//! A block between `-- shared: <thing>` and `-- end` is a copy of `shared/<thing>.lua`; the tests compare them.

/// The scripts of `Latch`.
pub mod latch {
    /// Sets a latch that nobody counts down at present.
    pub const SET: &str = include_str!("latch/set.lua");
    /// Tells what is left of a latch.
    pub const COUNT: &str = include_str!("latch/count.lua");
    /// Counts a latch down, and opens it when nothing is left.
    pub const DOWN: &str = include_str!("latch/down.lua");
}

/// The scripts of `RateLimiter`.
pub mod rate {
    /// Takes permits of rates, or tells what is owed.
    pub const TAKE: &str = include_str!("rate/take.lua");
    /// Tells what is owed of a rate, and takes nothing.
    pub const INSPECT: &str = include_str!("rate/inspect.lua");
}

/// The scripts of `Lock`.
pub mod lock {
    /// Acquires a lock, re-enters it, or joins its queue.
    pub const ACQUIRE: &str = include_str!("lock/acquire.lua");
    /// Renews holds, and looks for those who wait.
    pub const RENEW: &str = include_str!("lock/renew.lua");
    /// Releases holds and queue places, and grants what that frees.
    pub const RELEASE: &str = include_str!("lock/release.lua");
    /// Tells who holds a lock and who waits for it.
    pub const INSPECT: &str = include_str!("lock/inspect.lua");
}

/// The scripts of `RwLock`.
pub mod rw {
    /// Acquires a lock to read or to write, re-enters it, upgrades a reader, or joins its queue.
    pub const ACQUIRE: &str = include_str!("rw/acquire.lua");
    /// Renews holds, and looks for those who wait.
    pub const RENEW: &str = include_str!("rw/renew.lua");
    /// Releases holds and queue places, and grants what that frees.
    pub const RELEASE: &str = include_str!("rw/release.lua");
    /// Tells who holds a lock and who waits for it.
    pub const INSPECT: &str = include_str!("rw/inspect.lua");
}

/// The scripts of `Semaphore`.
pub mod semaphore {
    /// Acquires permits, or joins the queue for them.
    pub const ACQUIRE: &str = include_str!("semaphore/acquire.lua");
    /// Renews holds, and looks for those who wait.
    pub const RENEW: &str = include_str!("semaphore/renew.lua");
    /// Releases permits and queue places, and grants what that frees.
    pub const RELEASE: &str = include_str!("semaphore/release.lua");
    /// Tells how many permits there are and are held, and who holds and waits.
    pub const INSPECT: &str = include_str!("semaphore/inspect.lua");
    /// Stores how many permits there are.
    pub const LIMIT: &str = include_str!("semaphore/limit.lua");
    /// Replaces holds by others with the same permits.
    pub const EXCHANGE: &str = include_str!("semaphore/exchange.lua");
}
