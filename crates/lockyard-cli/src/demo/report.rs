//! The figures of one run.

use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::demo::ledger::{Ledger, Sale};
use crate::scenario::Scenario;

/// What the table and the JSON say about one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: Scenario,
    pub(crate) stock: u64,
    /// Sales that customers got confirmed.
    pub(crate) sold: u64,
    pub(crate) oversold: u64,
    /// Over the sales of all processes. It is 0 without a lock.
    pub(crate) wait_p50_ms: f64,
    pub(crate) wait_p99_ms: f64,
    /// How often the seller changed, over the length of the run. It is 0 without a lock.
    pub(crate) handovers_per_s: f64,
    /// From the kill to the next sale.
    pub(crate) standstill_ms: Option<u64>,
    /// From the start to the last sale.
    pub(crate) secs: f64,
}

impl Report {
    pub(crate) fn new(scenario: Scenario, stock: u32, ledger: &Ledger) -> anyhow::Result<Self> {
        let stock = u64::from(stock);
        let sold = ledger.sales.len() as u64;
        let waits = waits(&ledger.sales).context("cannot record the waits")?;
        let secs = ledger.length().as_secs_f64();
        let handovers = match scenario {
            Scenario::None => 0,
            Scenario::Naive | Scenario::Lockyard => handovers(&ledger.sales),
        };
        Ok(Self {
            scenario,
            stock,
            sold,
            oversold: sold.saturating_sub(stock),
            wait_p50_ms: percentile_ms(&waits, 0.50),
            wait_p99_ms: percentile_ms(&waits, 0.99),
            handovers_per_s: round(handovers as f64 / secs.max(0.001)),
            standstill_ms: ledger.standstill().map(whole_ms),
            secs: round(secs),
        })
    }

    /// Says what is wrong with a run that promised to sell exactly the stock.
    pub(crate) fn fault(&self, processes: u16) -> Option<String> {
        let Self {
            scenario,
            stock,
            sold,
            ..
        } = self;
        let name = scenario.name();
        if sold > stock {
            return Some(format!("{name} sold {sold} of {stock} items"));
        }
        if sold < stock {
            return Some(format!("{name} sold only {sold} of {stock} items"));
        }
        let must_stand_still = processes > 1;
        (must_stand_still && self.standstill_ms.is_none())
            .then(|| format!("{name} sold on without a kill"))
    }
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) runs: &'a [Report],
}

fn waits(sales: &[Sale]) -> anyhow::Result<Histogram<u64>> {
    let mut histogram = Histogram::new(3)?;
    for sale in sales {
        histogram.record(u64::try_from(sale.wait.as_micros())?)?;
    }
    Ok(histogram)
}

fn handovers(sales: &[Sale]) -> usize {
    let changes = |pair: &&[Sale]| pair[0].seller != pair[1].seller;
    sales.windows(2).filter(changes).count()
}

fn percentile_ms(waits: &Histogram<u64>, quantile: f64) -> f64 {
    round(waits.value_at_quantile(quantile) as f64 / 1000.0)
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Leaves three digits behind the point.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::ledger::Kill;

    /// Sales as (server time in ms, seller, wait in ms), from a start at 1000.
    fn check(scenario: Scenario, sales: &[(u64, u16, u64)], kill: Option<Kill>) -> Report {
        let sales = sales.iter().map(|&(at_ms, seller, wait)| Sale {
            at_ms,
            seller,
            wait: Duration::from_millis(wait),
        });
        let ledger = Ledger {
            started_ms: 1000,
            sales: sales.collect(),
            kill,
        };
        Report::new(scenario, 3, &ledger).unwrap()
    }

    #[test]
    fn figures_come_from_the_ledger() {
        let kill = Kill {
            at_ms: 1200,
            sales_before: 2,
        };
        let sales = [(1100, 0, 1), (1190, 1, 2), (2700, 0, 1500), (3000, 0, 3)];
        let report = check(Scenario::Lockyard, &sales, Some(kill));
        assert_eq!((report.sold, report.oversold), (4, 1));
        assert_eq!(report.standstill_ms, Some(1500));
        assert_eq!(report.secs, 2.0);
        // 0 -> 1 -> 0, then 0 again.
        assert_eq!(report.handovers_per_s, 1.0);
        // Three digits are kept, so a wait may be told a little too long.
        assert!((2.0..2.01).contains(&report.wait_p50_ms), "{report:?}");
        assert!((1500.0..1502.0).contains(&report.wait_p99_ms), "{report:?}");
    }

    #[test]
    fn too_few_sales_are_not_oversold() {
        let report = check(Scenario::Naive, &[(1100, 0, 0)], None);
        assert_eq!((report.sold, report.oversold), (1, 0));
        assert_eq!(report.standstill_ms, None);
    }

    #[test]
    fn a_run_without_sales_has_figures() {
        let report = check(Scenario::Lockyard, &[], None);
        assert_eq!((report.sold, report.secs), (0, 0.0));
        assert_eq!(report.handovers_per_s, 0.0);
    }

    #[test]
    fn without_a_lock_nothing_is_handed_over() {
        let report = check(Scenario::None, &[(1100, 0, 0), (1100, 1, 0)], None);
        assert_eq!(report.handovers_per_s, 0.0);
    }

    #[test]
    fn nobody_ends_a_stand_still_after_the_last_sale() {
        let kill = Kill {
            at_ms: 1200,
            sales_before: 1,
        };
        let report = check(Scenario::Lockyard, &[(1100, 0, 1)], Some(kill));
        assert_eq!(report.standstill_ms, None);
    }

    #[test]
    fn only_an_exact_run_with_a_kill_is_faultless() {
        let kill = Some(Kill {
            at_ms: 1001,
            sales_before: 0,
        });
        let sales = [(1002, 0, 0), (1003, 1, 0), (1004, 0, 0), (1005, 1, 0)];
        let fault = |sales, kill| check(Scenario::Lockyard, sales, kill).fault(2);
        assert_eq!(fault(&sales[..3], kill), None);
        assert!(fault(&sales, kill).unwrap().contains("sold 4 of 3"));
        assert!(
            fault(&sales[..2], kill)
                .unwrap()
                .contains("sold only 2 of 3")
        );
        assert!(fault(&sales[..3], None).unwrap().contains("without a kill"));
        assert_eq!(check(Scenario::Lockyard, &sales[..3], None).fault(1), None);
    }

    #[test]
    fn the_json_has_its_fields() {
        let report = check(Scenario::None, &[(1500, 0, 0)], None);
        let json = serde_json::to_string(&Document { runs: &[report] }).unwrap();
        let expected = r#"{"runs":[{"scenario":"none","stock":3,"sold":1,"oversold":0,"wait_p50_ms":0.0,"wait_p99_ms":0.0,"handovers_per_s":0.0,"standstill_ms":null,"secs":0.5}]}"#;
        assert_eq!(json, expected);
    }
}
