//! The store of `lockyard-memory` beside a real server: each call of each script has the same reply there and here, and
//! leaves the same keys, values, times to live and messages.
//!
//! The store's time is the test's, and a real server's cannot be set, so there the test sets what follows from time:
//! the text of a script gets the test's time in place of `TIME`, before each step every key's time to live is set to
//! what the store says, and when the test lets time pass, every key there loses as much.

use lockyard_testkit::Server;
use proptest::test_runner::{Config, TestRunner};

use crate::scripts::family::Family;

// What is done, at random.
mod steps;

// The arguments of each script.
mod calls;

// The two sides.
mod real;
mod stored;

// Both, step by step.
mod run;

// Red with each of these in lockyard-memory: ZADD ignores NX, or GT; HSETNX overwrites; PEXPIRE of 0 keeps a key; SET
// keeps the TTL; HDEL keeps an empty hash; PUBLISH tells of no receivers; `pcall` gives what mlua makes of an error; a
// key is found whose time is over.
#[test]
fn the_store_in_memory_does_what_a_real_server_does() {
    compare(Family::Lock);
}

#[test]
fn the_store_in_memory_reads_and_writes_as_a_real_server_does() {
    compare(Family::Rw);
}

#[test]
fn the_store_in_memory_counts_permits_as_a_real_server_does() {
    compare(Family::Semaphore);
}

fn compare(family: Family) {
    let server = Server::start().unwrap();
    // Set PROPTEST_CASES for more.
    let cases = std::env::var("PROPTEST_CASES").map_or(64, |cases| cases.parse().unwrap());
    let failure_persistence = None;
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence,
        ..Config::default()
    });
    let result = runner.run(&steps::steps(family), |steps| {
        let mut run = run::Run::new(&server, family);
        for step in &steps {
            run.step(step);
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
