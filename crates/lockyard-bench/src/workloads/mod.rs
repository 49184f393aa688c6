//! The workloads, and which library can do which.

mod contended;
mod handoff;
mod held;
mod idle;
mod pair_cost;
mod pairs;

use std::time::Duration;

use lockyard::Client;

use crate::Result;
use crate::figures::Figures;
use crate::libraries::Library;
use crate::libraries::floor::{Floor, WaitingFloor};
use crate::libraries::lockyard::{Fair, Permits, ReadWrite, connect};
use crate::options::Options;

/// The same workload runs so long before the measured window.
const WARM_UP: Duration = Duration::from_secs(1);

/// Runs a workload with the library of that name.
pub(crate) async fn run(library: &str, workload: &str, options: &Options) -> Result<Figures> {
    if options.has("reads") && library != "lockyard-rw" {
        return Ok(Figures::unsupported("no shared holds"));
    }
    match library {
        "lockyard" => lockyard(workload, options).await,
        "lockyard-fair" => other(workload, options, Fair).await,
        "lockyard-semaphore" => other(workload, options, Permits).await,
        "lockyard-rw" => {
            let reads = options.number("reads").unwrap_or(0);
            let read_write = |client| ReadWrite { client, reads };
            other(workload, options, read_write).await
        }
        "floor" => floor(workload, options).await,
        _ => Err(format!("there is no library {library:?} here").into()),
    }
}

async fn lockyard(workload: &str, options: &Options) -> Result<Figures> {
    let address = options.address()?;
    let client = connect(address).await?;
    match workload {
        "pairs" => pairs::pairs(&client, options).await,
        "pair-cost" => pair_cost::pair_cost(&client, options).await,
        "handoff" => handoff::handoff(&client, &connect(address).await?, options).await,
        "hot" => contended::hot(&client, options).await,
        "worker" => contended::worker(&client, options).await,
        "idle" => idle::idle(&client, &connect(address).await?, options).await,
        "held" => held::held(&client, options).await,
        _ => Ok(Figures::unsupported("unknown workload")),
    }
}

/// Lockyard's other primitives that one task at a time may hold.
async fn other<L: Library>(
    workload: &str,
    options: &Options,
    library: impl Fn(Client) -> L,
) -> Result<Figures> {
    let address = options.address()?;
    let one = library(connect(address).await?);
    match workload {
        "pairs" => pairs::pairs(&one, options).await,
        "pair-cost" => pair_cost::pair_cost(&one, options).await,
        "handoff" => handoff::handoff(&one, &library(connect(address).await?), options).await,
        "hot" => contended::hot(&one, options).await,
        "worker" => contended::worker(&one, options).await,
        "idle" => idle::idle(&one, &library(connect(address).await?), options).await,
        _ => Ok(Figures::unsupported("renewal is measured with the lock")),
    }
}

async fn floor(workload: &str, options: &Options) -> Result<Figures> {
    let address = options.address()?;
    match workload {
        "pairs" => pairs::pairs(&Floor::connect(address).await?, options).await,
        "pair-cost" => pair_cost::pair_cost(&Floor::connect(address).await?, options).await,
        "handoff" => {
            let holder = Floor::connect_telling(address).await?;
            let waiter = WaitingFloor::connect(address).await?;
            handoff::handoff(&holder, &waiter, options).await
        }
        _ => Ok(Figures::unsupported("the floor does pairs and a hand-over")),
    }
}
