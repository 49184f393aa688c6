//! The workloads, and which library can do which.

mod handoff;
mod pair_cost;
mod pairs;

use std::time::Duration;

use crate::Result;
use crate::figures::Figures;
use crate::libraries::floor::{Floor, WaitingFloor};
use crate::options::Options;

/// The same workload runs so long before the measured window.
const WARM_UP: Duration = Duration::from_secs(1);

/// Runs a workload with the library of that name.
pub(crate) async fn run(library: &str, workload: &str, options: &Options) -> Result<Figures> {
    if options.has("reads") {
        return Ok(Figures::unsupported("no shared holds"));
    }
    match library {
        "floor" => floor(workload, options).await,
        _ => Err(format!("there is no library {library:?} here").into()),
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
