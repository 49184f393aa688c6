//! The demo as a whole: server, runs, report, exit code.

use std::process::ExitCode;

use anyhow::Context;
use humantime::format_duration;
use lockyard_testkit::Server;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{self, Options, Terms};
use crate::demo::bars::Bars;
use crate::demo::ledger::Ledger;
use crate::demo::plot::plot;
use crate::demo::report::{Document, Report};
use crate::demo::run::run;
use crate::demo::table::table;
use crate::scenario::Scenario;

/// What a shell reports of a program that ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs all scenarios, prints what came of them, and returns 1 if Lockyard was not exact.
pub(crate) async fn demo(options: &Options) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let server = Server::start()?;
    // When a signal comes, the runs are dropped, and with them the workers; then the server.
    let runs = tokio::select! {
        runs = sell(&server, options.terms) => runs?,
        _ = interrupt.recv() => return Ok(interrupted()),
        _ = terminate.recv() => return Ok(interrupted()),
    };
    let reports = runs
        .iter()
        .map(|(scenario, ledger)| Report::new(*scenario, options.terms.stock, ledger))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let text = if options.json {
        serde_json::to_string(&Document { runs: &reports })?
    } else {
        page(&server, options.terms, &runs, &reports)
    };
    cli::print(&text)?;
    Ok(judge(&reports, options.terms))
}

/// Runs the scenarios one after another.
async fn sell(server: &Server, terms: Terms) -> anyhow::Result<Vec<(Scenario, Ledger)>> {
    let bars = Bars::new(terms.stock);
    let mut runs = Vec::new();
    for (scenario, bar) in Scenario::ALL.into_iter().zip(bars.iter()) {
        let ledger = run(server, scenario, terms, bar)
            .await
            .with_context(|| format!("the sale with lock `{}` failed", scenario.name()))?;
        runs.push((scenario, ledger));
    }
    Ok(runs)
}

fn interrupted() -> ExitCode {
    cli::complain("interrupted");
    ExitCode::from(INTERRUPTED)
}

fn page(server: &Server, terms: Terms, runs: &[(Scenario, Ledger)], reports: &[Report]) -> String {
    let kind = if server.is_valkey() {
        "Valkey"
    } else {
        "Redis"
    };
    let legend = |scenario: Scenario| format!("{:8}  {}\n", scenario.name(), scenario.legend());
    format!(
        "{} items, {} processes, lease {}, {kind} {}\n\n{}\n{}\n{}",
        terms.stock,
        terms.processes,
        format_duration(terms.lease),
        server.version(),
        table(reports),
        Scenario::ALL.map(legend).concat(),
        plot(runs),
    )
}

/// Says on standard error what Lockyard did wrong, if anything.
fn judge(reports: &[Report], terms: Terms) -> ExitCode {
    let faults: Vec<String> = reports
        .iter()
        .filter(|report| report.scenario == Scenario::Lockyard)
        .filter_map(|report| report.fault(terms.processes))
        .collect();
    for fault in &faults {
        cli::complain(fault);
    }
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
