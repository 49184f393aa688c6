//! Runs one library under one workload and prints what it measured as one line of JSON; see README.md.

mod admin;
mod figures;
mod libraries;
mod options;
mod process;
mod section;
mod workloads;

use crate::figures::Figures;
use crate::options::Options;
use crate::workloads::run;

/// What a run ends with; its message is all that the reader of the line needs.
type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the line is the program's answer")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let library = arguments.next().unwrap_or_default();
    let workload = arguments.next().unwrap_or_default();
    let options = Options::parse(arguments);

    let figures = match run(&library, &workload, &options).await {
        Ok(figures) => figures,
        Err(error) => Figures::failed(&*error),
    };
    println!("{}", figures.line(&library, &workload));
    // Returning would wait for tasks that may still wait for a lock.
    std::process::exit(0);
}
