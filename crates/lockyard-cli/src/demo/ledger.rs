//! What happened in one run, as the server has it.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use lockyard_testkit::Server;

use crate::market::{Market, SELLER, WAIT_US};

/// How many sales are read at a time.
const PAGE: usize = 10_000;

/// A confirmed sale.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Sale {
    /// Server time.
    pub(crate) at_ms: u64,
    /// The worker's number.
    pub(crate) seller: u16,
    /// From the customer's wish until the worker was inside.
    pub(crate) wait: Duration,
}

/// The death of a worker that held the lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Kill {
    /// Server time just before the signal was sent.
    pub(crate) at_ms: u64,
    /// How many sales were confirmed by then. The next one ends the stand-still.
    pub(crate) sales_before: usize,
}

/// All of one run.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// Server time at which the workers were let go.
    pub(crate) started_ms: u64,
    /// In the order of confirmation.
    pub(crate) sales: Vec<Sale>,
    pub(crate) kill: Option<Kill>,
}

impl Ledger {
    /// Returns how long nothing was sold after the kill; `None` without a kill or a later sale.
    pub(crate) fn standstill(&self) -> Option<Duration> {
        let kill = self.kill?;
        let next = self.sales.get(kill.sales_before)?;
        Some(Duration::from_millis(next.at_ms.saturating_sub(kill.at_ms)))
    }

    /// Returns the time from the start to the last sale.
    pub(crate) fn length(&self) -> Duration {
        let last = self.sales.last().map_or(self.started_ms, |sale| sale.at_ms);
        Duration::from_millis(last.saturating_sub(self.started_ms))
    }
}

/// Returns the server's time in milliseconds.
pub(crate) fn now_ms(server: &Server) -> anyhow::Result<u64> {
    let (secs, micros): (u64, u64) = server.query(&["TIME"])?;
    Ok(secs * 1000 + micros / 1000)
}

/// Returns how many sales are confirmed.
pub(crate) fn sold(server: &Server, market: &Market) -> anyhow::Result<usize> {
    Ok(server.query(&["XLEN", &market.sales])?)
}

/// Reads all confirmed sales.
pub(crate) fn sales(server: &Server, market: &Market) -> anyhow::Result<Vec<Sale>> {
    let page = PAGE.to_string();
    let mut sales = Vec::new();
    let mut from = "-".to_owned();
    loop {
        let command = ["XRANGE", &market.sales, &from, "+", "COUNT", &page];
        let entries: Vec<(String, HashMap<String, u64>)> = server.query(&command)?;
        let Some((last, _)) = entries.last() else {
            return Ok(sales);
        };
        from = format!("({last}");
        for (id, fields) in &entries {
            let sale = parse(id, fields).with_context(|| format!("sale {id} is incomplete"))?;
            sales.push(sale);
        }
    }
}

/// An entry's id is `<server time in ms>-<number>`.
fn parse(id: &str, fields: &HashMap<String, u64>) -> Option<Sale> {
    let (at_ms, _) = id.split_once('-')?;
    Some(Sale {
        at_ms: at_ms.parse().ok()?,
        seller: u16::try_from(*fields.get(SELLER)?).ok()?,
        wait: Duration::from_micros(*fields.get(WAIT_US)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, fields: &[(&str, u64)]) -> Option<Sale> {
        let fields = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        parse(id, &fields.collect())
    }

    #[test]
    fn a_sale_is_read_from_its_entry() {
        let sale = check("1700-3", &[("seller", 2), ("wait_us", 1500)]).unwrap();
        assert_eq!(sale.at_ms, 1700);
        assert_eq!(sale.seller, 2);
        assert_eq!(sale.wait, Duration::from_micros(1500));
    }

    #[test]
    fn an_incomplete_sale_is_refused() {
        assert_eq!(check("1700", &[("seller", 2), ("wait_us", 1)]), None);
        assert_eq!(check("1700-0", &[("seller", 2)]), None);
    }
}
