//! Progress bars on standard error, one a scenario; none if that is not a terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::scenario::Scenario;

/// Where all bars of a demo stand.
#[derive(Debug)]
pub(crate) struct Bars {
    all: MultiProgress,
    bars: Vec<ProgressBar>,
}

impl Bars {
    /// Shows an empty bar for each scenario.
    pub(crate) fn new(stock: u32) -> Self {
        let all = MultiProgress::new();
        let bars = Scenario::ALL
            .iter()
            .map(|scenario| {
                let bar = all.add(ProgressBar::new(stock.into()).with_style(style()));
                bar.set_prefix(scenario.name());
                bar.tick();
                bar
            })
            .collect();
        Self { all, bars }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ProgressBar> {
        self.bars.iter()
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        // The table, or an error, says it all. If the terminal is gone, so are the bars.
        let _ = self.all.clear();
    }
}

/// Shows that so many were sold.
pub(crate) fn advance(bar: &ProgressBar, sold: usize) {
    let sold = sold as u64;
    bar.set_position(sold);
    let oversold = sold.saturating_sub(bar.length().unwrap_or(sold));
    if oversold > 0 {
        bar.set_message(format!("{oversold} oversold"));
    }
}

/// Shows the end of a scenario.
pub(crate) fn finish(bar: &ProgressBar, sold: usize) {
    advance(bar, sold);
    bar.abandon();
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{prefix:8} {bar:30.cyan/black.bright} {pos:>5} of {len} sold  {msg:.red.bold}",
    )
    .expect("the template is well-formed")
}
