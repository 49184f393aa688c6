//! The flash sale: runs the scenarios one after another and shows what came of them.

mod bars;
mod crew;
mod ledger;
mod plot;
mod report;
mod run;
mod show;
mod table;

pub(crate) use show::demo;
