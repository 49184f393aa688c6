//! Sales over time, drawn with block characters, one run above the other on one axis of time.

use std::iter;
use std::time::Duration;

use crate::demo::ledger::Ledger;
use crate::scenario::Scenario;

/// How many columns the bars may take.
const WIDTH: usize = 66;
/// How many lines the bars of one run are high.
const HEIGHT: usize = 3;
/// How long the time of one column may be, in milliseconds.
const STEPS_MS: [u64; 11] = [
    100, 200, 250, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000,
];
/// How many columns there are from one mark of the axis to the next.
const MARK: usize = 10;
/// Cells that are filled from below by 0 to 8 eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the runs.
pub(crate) fn plot(runs: &[(Scenario, Ledger)]) -> String {
    let ledgers = || runs.iter().map(|(_, ledger)| ledger);
    let longest = ledgers().map(Ledger::length).max().unwrap_or_default();
    let step_ms = step_ms(longest);
    let columns = column(longest, step_ms) + 1;

    let mut lines = vec![format!("sales per {step_ms} ms")];
    for (scenario, ledger) in runs {
        lines.extend(bars(*scenario, &counts(ledger, step_ms)));
    }
    let killed = ledgers().find_map(killed);
    let mark = killed.map(|at| column(at, step_ms));
    lines.push(format!("{:8} └{}", "", axis(columns, mark)));
    lines.push(format!("{:8}  {}", "", marks(columns, step_ms)));
    if mark.is_some() {
        lines.push(format!("{:8} ▲ a worker is killed while it holds", ""));
    }
    lines.join("\n")
}

/// Chooses the shortest time a column with which `longest` fits.
fn step_ms(longest: Duration) -> u64 {
    let fits = |step_ms: &u64| column(longest, *step_ms) < WIDTH;
    let last = STEPS_MS[STEPS_MS.len() - 1];
    // Beyond an hour the lines wrap; nobody looks at a plot of that.
    STEPS_MS.into_iter().find(fits).unwrap_or(last)
}

fn column(at: Duration, step_ms: u64) -> usize {
    usize::try_from(at.as_millis() / u128::from(step_ms)).unwrap_or(usize::MAX)
}

/// Returns the time from the start to the kill.
fn killed(ledger: &Ledger) -> Option<Duration> {
    let kill = ledger.kill?;
    let ms = kill.at_ms.saturating_sub(ledger.started_ms);
    Some(Duration::from_millis(ms))
}

/// Counts the sales of each column, up to the last that has one.
fn counts(ledger: &Ledger, step_ms: u64) -> Vec<usize> {
    let mut counts = vec![0; column(ledger.length(), step_ms) + 1];
    for sale in &ledger.sales {
        let at = Duration::from_millis(sale.at_ms.saturating_sub(ledger.started_ms));
        if let Some(count) = counts.get_mut(column(at, step_ms)) {
            *count += 1;
        }
    }
    counts
}

/// Draws one run: its name below, the number that a full bar stands for above.
fn bars(scenario: Scenario, counts: &[usize]) -> Vec<String> {
    let peak = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut labels = vec![String::new(); HEIGHT];
    labels[0] = format!("{peak:>8}");
    labels[HEIGHT - 1] = scenario.name().to_owned();
    let line = |(row, label)| {
        let cells = counts
            .iter()
            .map(|count| cell(*count, peak, HEIGHT - 1 - row));
        format!("{label:8} │{}", cells.collect::<String>())
    };
    labels.iter().enumerate().map(line).collect()
}

/// Returns what a bar shows in a line, counted from below. A bar that is not 0 is seen.
fn cell(count: usize, peak: usize, line: usize) -> char {
    let eighths = (count * HEIGHT * 8).div_ceil(peak);
    EIGHTHS[eighths.saturating_sub(line * 8).min(8)]
}

fn axis(columns: usize, killed: Option<usize>) -> String {
    (0..columns)
        .map(|column| match column {
            _ if killed == Some(column) => '▲',
            _ if column % MARK == 0 => '┴',
            _ => '─',
        })
        .collect()
}

fn marks(columns: usize, step_ms: u64) -> String {
    let mark = |column: usize| {
        let secs = (column as u64 * step_ms) as f64 / 1000.0;
        format!("{:<MARK$}", format!("{secs} s"))
    };
    let marks = iter::successors(Some(0), |column| Some(column + MARK));
    let line: String = marks
        .take_while(|column| *column < columns)
        .map(mark)
        .collect();
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::ledger::{Kill, Sale};

    fn ledger(sales_ms: &[u64], kill: Option<Kill>) -> Ledger {
        let sales = sales_ms.iter().map(|at_ms| Sale {
            at_ms: *at_ms,
            seller: 0,
            wait: Duration::ZERO,
        });
        Ledger {
            started_ms: 1000,
            sales: sales.collect(),
            kill,
        }
    }

    #[test]
    fn a_stand_still_is_a_gap() {
        let kill = Kill {
            at_ms: 1250,
            sales_before: 3,
        };
        let run = ledger(&[1000, 1050, 1199, 1500], Some(kill));
        let expected = "\
sales per 100 ms
       2 │█
         │█▄   ▄
lockyard │██   █
         └┴─▲───
          0 s
         ▲ a worker is killed while it holds";
        let drawn = plot(&[(Scenario::Lockyard, run)]);
        let drawn: Vec<&str> = drawn.lines().map(str::trim_end).collect();
        assert_eq!(drawn.join("\n"), expected);
    }

    #[test]
    fn the_plot_is_never_wider_than_a_terminal() {
        for last_ms in [1000, 1001, 2000, 7599, 7600, 7700, 100_000, 1_000_000] {
            let drawn = plot(&[(Scenario::None, ledger(&[1000, last_ms], None))]);
            let width = drawn.lines().map(|line| line.chars().count()).max();
            assert!(width <= Some(80), "{last_ms}: {width:?}");
        }
    }

    #[test]
    fn a_single_sale_is_seen_beside_many() {
        assert_eq!(cell(1, 1000, 0), '▁');
        assert_eq!(cell(0, 1000, 0), ' ');
        assert_eq!(cell(1000, 1000, HEIGHT - 1), '█');
    }

    #[test]
    fn a_run_without_sales_is_drawn() {
        assert!(plot(&[(Scenario::None, ledger(&[], None))]).contains("none"));
    }
}
