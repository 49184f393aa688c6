//! What is measured, through the facade of the crate `metrics`; without the feature of that name, nothing.
//!
//! What each name means is told in the documentation of the crate `lockyard`.
//! All have the labels `kind` and `label`; the name that the user gave is none, for there may be many of them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Moment;
use crate::core::Core;
use crate::error::Error;
use crate::id::Spec;
use crate::runtime::Runtime;

/// How a hold was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// Its lease ran out.
    Expired,
    /// The server does not know it any more.
    Gone,
    /// It was released by force.
    Revoked,
}

/// Whose figures they are.
pub trait Measured: Sync {
    /// Which sort of primitive.
    fn kind(&self) -> &'static str;

    /// What the user calls it in metrics.
    fn label(&self) -> Option<&Arc<str>>;
}

/// An acquire under way; dropped before it has ended, it counts as cancelled.
pub(crate) struct Attempt<'a> {
    subject: &'a dyn Measured,
    outcome: &'static str,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(subject: &'a dyn Measured) -> Self {
        let outcome = "cancelled";
        Self { subject, outcome }
    }

    /// It has ended after so long; whether with what it was for, `None` for an error.
    pub(crate) fn ended(mut self, acquired: Option<bool>, wait: Duration) {
        self.outcome = match acquired {
            Some(true) => "acquired",
            Some(false) => "busy",
            None => "failed",
        };
        if acquired == Some(true) {
            sample("lockyard_wait_seconds", self.subject, wait.as_secs_f64());
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let outcome = Some(("outcome", self.outcome));
        count("lockyard_acquires_total", self.subject, outcome);
    }
}

impl Runtime {
    /// Measures work that acquires something without a hold: whether it did.
    ///
    /// # Errors
    ///
    /// Those of the work.
    pub async fn measured<T>(
        &self,
        subject: &dyn Measured,
        work: impl Future<Output = Result<T, Error>>,
        acquired: impl FnOnce(&T) -> bool,
    ) -> Result<T, Error> {
        let attempt = Attempt::new(subject);
        let began = now(self.core());
        let result = work.await;
        let wait = began.map_or(Duration::ZERO, |began| self.core().now().since(began));
        attempt.ended(result.as_ref().ok().map(acquired), wait);
        result
    }
}

/// When a guard's hold begins, if that is measured.
pub(crate) fn now(core: &Core) -> Option<Moment> {
    cfg!(feature = "metrics").then(|| core.now())
}

/// A guard's hold has ended.
pub(crate) fn held(core: &Core, spec: &Spec, began: Option<Moment>) {
    if let Some(began) = began {
        let held = core.now().since(began);
        sample("lockyard_hold_seconds", spec, held.as_secs_f64());
    }
}

/// An acquire has to wait.
pub(crate) fn contended(core: &Core, spec: &Spec) {
    count("lockyard_contended_acquires_total", spec, None);
    if cfg!(feature = "metrics") {
        let waiting = core.with(|state| state.waiting(&spec.keys[0]));
        // Whoever spins stands in no queue.
        if waiting > 0 {
            sample("lockyard_queue_length", spec, waiting as f64);
        }
    }
}

pub(crate) fn lost(spec: &Spec, how: Loss) {
    let reason = match how {
        Loss::Expired => "expired",
        Loss::Gone => "gone",
        Loss::Revoked => "revoked",
    };
    let reason = Some(("reason", reason));
    count("lockyard_lost_holds_total", spec, reason);
}

/// A renewal or check of a hold had no good answer.
pub(crate) fn renewal_failed(spec: &Spec) {
    count("lockyard_failed_renewals_total", spec, None);
}

/// A label beside `kind` and `label`.
type More = Option<(&'static str, &'static str)>;

#[cfg(feature = "metrics")]
fn count(name: &'static str, subject: &dyn Measured, more: More) {
    metrics::counter!(name, labels(subject, more)).increment(1);
}

#[cfg(not(feature = "metrics"))]
fn count(_: &'static str, _: &dyn Measured, _: More) {}

#[cfg(feature = "metrics")]
fn sample(name: &'static str, subject: &dyn Measured, value: f64) {
    metrics::histogram!(name, labels(subject, None)).record(value);
}

#[cfg(not(feature = "metrics"))]
fn sample(_: &'static str, _: &dyn Measured, _: f64) {}

#[cfg(feature = "metrics")]
fn labels(subject: &dyn Measured, more: More) -> Vec<metrics::Label> {
    use metrics::{Label, SharedString};
    let label = match subject.label() {
        Some(label) => SharedString::from_shared(label.clone()),
        None => SharedString::const_str(""),
    };
    let mut labels = vec![
        Label::from_static_parts("kind", subject.kind()),
        Label::new("label", label),
    ];
    labels.extend(more.map(|(key, value)| Label::from_static_parts(key, value)));
    labels
}

/// Tells the recorder what the names mean.
#[cfg(feature = "metrics")]
pub(crate) fn describe() {
    use metrics::{Unit, describe_counter, describe_histogram};
    let name = "lockyard_acquires_total";
    describe_counter!(name, "Acquires that have ended, by outcome");
    let name = "lockyard_contended_acquires_total";
    describe_counter!(name, "Acquires that had to wait");
    let (name, seconds) = ("lockyard_wait_seconds", Unit::Seconds);
    describe_histogram!(name, seconds, "From an acquire to what it was for");
    let name = "lockyard_hold_seconds";
    describe_histogram!(name, seconds, "From a hold to the end of its guard");
    let name = "lockyard_queue_length";
    describe_histogram!(
        name,
        "Acquires of this client that wait for one name, as each joins"
    );
    let name = "lockyard_lost_holds_total";
    describe_counter!(name, "Holds that were lost, by reason");
    let name = "lockyard_failed_renewals_total";
    describe_counter!(name, "Renewals and checks without a good answer");
}

#[cfg(not(feature = "metrics"))]
pub(crate) fn describe() {}
