//! All that Lockyard (through `tracing`) and fred (through `log`) have to say, at every level.
//!
//! There is one collector for a process, so a test that uses it runs [`alone`](crate::process::alone).

use std::fmt::{Debug, Write};
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to collect.
pub(crate) fn collect() {
    tracing::subscriber::set_global_default(Everything).unwrap();
    log::set_logger(&Everything).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
}

/// The lines so far, each as `target level text`.
pub(crate) fn lines() -> Vec<String> {
    LINES.lock().unwrap().clone()
}

struct Everything;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

fn note(metadata: &Metadata<'_>, record: impl FnOnce(&mut Text)) {
    let mut text = Text(format!(
        "{} {} {}",
        metadata.target(),
        metadata.level(),
        metadata.name()
    ));
    record(&mut text);
    LINES.lock().unwrap().push(text.0);
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        note(span.metadata(), |text| span.record(text));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut text = Text("span".to_owned());
        values.record(&mut text);
        LINES.lock().unwrap().push(text.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        note(event.metadata(), |text| event.record(text));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = format!("{} {} {}", record.target(), record.level(), record.args());
        LINES.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}
