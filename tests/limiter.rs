//! How many may start in what time, over all processes.

// What a limiter does for its users, undisturbed.
mod granted;

// Rates, permits and names that make no sense, and servers that refuse.
mod refused;

// Commands that come twice, late, or whose reply is lost, and calls that are dropped.
mod late;

// Random calls, compared with a model.
mod model;

// A server whose clock is stepped.
mod stepped;

// Eight processes, and a history of what each was granted.
mod fleet;

use std::time::Duration;

use lockyard::Rate;
use lockyard_testkit::Server;

/// So slow that nothing is paid back while a test runs.
pub(crate) const SLOW: Rate = Rate::per_hour(1).burst(5);

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// How many permits are owed, as it was last written.
pub(crate) fn debt(server: &Server, name: &str) -> f64 {
    let key = format!("lockyard:rate:{{{name}}}");
    let debt: Option<String> = server.query(&["HGET", &key, "debt"]).unwrap();
    debt.map_or(0.0, |debt| debt.parse().unwrap())
}

/// Whether so many are owed, less what little has been paid back meanwhile.
#[track_caller]
pub(crate) fn assert_debt(server: &Server, name: &str, permits: f64) {
    let debt = debt(server, name);
    assert!(
        debt <= permits && debt > permits - 0.01,
        "{debt} of {permits}"
    );
}
