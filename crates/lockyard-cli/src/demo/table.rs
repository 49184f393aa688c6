//! The figures of all runs as a table.

use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};

use crate::demo::report::Report;
use crate::scenario::Scenario;

const HEADER: [&str; 9] = [
    "lock",
    "stock",
    "sold",
    "over-\nsold",
    "wait p50\nms",
    "wait p99\nms",
    "hand-\novers/s",
    "stand-\nstill ms",
    "time\ns",
];

/// Draws the table, with colours if it goes to a terminal.
pub(crate) fn table(reports: &[Report]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(HEADER.map(|text| Cell::new(text).add_attribute(Attribute::Bold)))
        .add_rows(reports.iter().map(row));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
        column.set_padding((0, 1));
    }
    table
}

fn row(report: &Report) -> [Cell; 9] {
    let has_lock = report.scenario != Scenario::None;
    let of_lock = |value: f64, digits: usize| {
        if has_lock {
            format!("{value:.digits$}")
        } else {
            "–".to_owned()
        }
    };
    let oversold = match report.oversold {
        0 => Cell::new(0).fg(Color::Green),
        oversold => Cell::new(oversold).fg(Color::Red),
    };
    let standstill = report.standstill_ms;
    [
        Cell::new(report.scenario.name()).add_attribute(Attribute::Bold),
        Cell::new(report.stock),
        Cell::new(report.sold),
        oversold.add_attribute(Attribute::Bold),
        Cell::new(of_lock(report.wait_p50_ms, 1)),
        Cell::new(of_lock(report.wait_p99_ms, 1)),
        Cell::new(of_lock(report.handovers_per_s, 0)),
        Cell::new(standstill.map_or_else(|| "–".to_owned(), |ms| ms.to_string())),
        Cell::new(format!("{:.1}", report.secs)),
    ]
}
