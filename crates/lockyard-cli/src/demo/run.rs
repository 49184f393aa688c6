//! One scenario, from the first worker to the last.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use indicatif::ProgressBar;
use lockyard_testkit::Server;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::Terms;
use crate::demo::bars;
use crate::demo::crew::{Crew, Event};
use crate::demo::ledger::{self, Kill, Ledger};
use crate::line::Line;
use crate::market::Market;
use crate::scenario::Scenario;

/// How often the bar is moved.
const TICK: Duration = Duration::from_millis(50);

/// Sells the stock, and returns what happened.
pub(crate) async fn run(
    server: &Server,
    scenario: Scenario,
    terms: Terms,
    bar: &ProgressBar,
) -> anyhow::Result<Ledger> {
    let market = Market::of(scenario);
    server.command(&["SET", &market.stock, &terms.stock.to_string()])?;
    let mut run = Run {
        server,
        crew: Crew::hire(scenario, terms, &server.url())?,
        market,
        started_ms: None,
        working: terms.processes,
        ready: 0,
        kill: None,
        victim: None,
    };
    let mut patience = Patience::new(terms.lease);
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while run.working > 0 {
        tokio::select! {
            event = run.crew.next() => {
                let (worker, event) = event?;
                run.handle(worker, event).await?;
            }
            _ = tick.tick() => {
                let sold = ledger::sold(server, &run.market)?;
                bars::advance(bar, sold);
                patience.check(sold)?;
            }
        }
    }
    run.close(bar)
}

/// What is known while a scenario runs.
struct Run<'a> {
    server: &'a Server,
    crew: Crew,
    market: Market,
    started_ms: Option<u64>,
    /// How many workers have not ended.
    working: u16,
    ready: u16,
    kill: Option<Kill>,
    /// The number of the worker that was killed.
    victim: Option<usize>,
}

impl Run<'_> {
    async fn handle(&mut self, worker: usize, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Said(Line::Ready) => {
                self.ready += 1;
                if self.ready == self.working {
                    self.started_ms = Some(ledger::now_ms(self.server)?);
                    self.crew.start().await?;
                }
            }
            Event::Said(Line::Holding) => {
                let sales_before = ledger::sold(self.server, &self.market)?;
                let at_ms = ledger::now_ms(self.server)?;
                self.crew.kill(worker)?;
                self.kill = Some(Kill {
                    at_ms,
                    sales_before,
                });
                self.victim = Some(worker);
            }
            Event::Ended => {
                self.working -= 1;
                let status = self.crew.status(worker).await?;
                let expected = status.success() || self.victim == Some(worker);
                ensure!(expected, "worker {worker} ended with {status}");
            }
        }
        Ok(())
    }

    fn close(self, bar: &ProgressBar) -> anyhow::Result<Ledger> {
        let Some(started_ms) = self.started_ms else {
            bail!("the workers ended before the sale");
        };
        let sales = ledger::sales(self.server, &self.market)?;
        bars::finish(bar, sales.len());
        Ok(Ledger {
            started_ms,
            sales,
            kill: self.kill,
        })
    }
}

/// Gives a sale up that stands still for longer than any lease explains.
struct Patience {
    limit: Duration,
    sold: usize,
    since: Instant,
}

impl Patience {
    fn new(lease: Duration) -> Self {
        Self {
            limit: lease * 3 + Duration::from_secs(15),
            sold: 0,
            since: Instant::now(),
        }
    }

    fn check(&mut self, sold: usize) -> anyhow::Result<()> {
        if sold != self.sold {
            self.sold = sold;
            self.since = Instant::now();
        }
        let limit = self.limit;
        ensure!(
            self.since.elapsed() < limit,
            "nothing was sold for {limit:?}"
        );
        Ok(())
    }
}
