//! Where a sale keeps its things in Redis.

use crate::scenario::Scenario;

/// The keys of one scenario.
#[derive(Debug)]
pub(crate) struct Market {
    /// A number that each sale reads, thinks about, and writes back.
    pub(crate) stock: String,
    /// A stream with an entry for each sale that a customer got confirmed.
    ///
    /// The entry is written in the same transaction as the stock, so a worker killed at any
    /// moment has done both or neither; and its id is the server's time, the one clock that all
    /// processes share.
    pub(crate) sales: String,
    /// Says that the mishap planned for a certain stock has happened; that stock is appended.
    pub(crate) mishap: String,
    /// The naive lock.
    pub(crate) lock: String,
}

/// The field of a sale that says which worker made it.
pub(crate) const SELLER: &str = "seller";
/// The field of a sale that says how long it waited for its turn, in microseconds.
pub(crate) const WAIT_US: &str = "wait_us";

impl Market {
    pub(crate) fn of(scenario: Scenario) -> Self {
        let key = |part| format!("flash-sale:{}:{part}", scenario.name());
        Self {
            stock: key("stock"),
            sales: key("sales"),
            mishap: key("mishap"),
            lock: key("lock"),
        }
    }
}
