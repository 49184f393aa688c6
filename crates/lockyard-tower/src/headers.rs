//! The fields in which HTTP tells of a rate: draft-ietf-httpapi-ratelimit-headers-10.

use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use lockyard::{Quota, Rate};

use crate::refusal::seconds;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The greatest integer of structured fields.
const GREATEST: u64 = 999_999_999_999_999;

/// The name of a policy, as a string of structured fields.
#[derive(Clone, Debug)]
pub(crate) struct Policy(Arc<str>);

impl Policy {
    pub(crate) fn new(name: &str) -> Self {
        let mut quoted = String::from('"');
        for letter in name.chars() {
            match letter {
                '"' | '\\' => quoted.extend(['\\', letter]),
                ' '..='~' => quoted.push(letter),
                _ => quoted.push('_'),
            }
        }
        quoted.push('"');
        Self(quoted.into())
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new("default")
    }
}

/// What a response tells of its rate.
#[derive(Debug)]
pub struct RateHeaders {
    policy: HeaderValue,
    limit: HeaderValue,
}

impl RateHeaders {
    pub(crate) fn new(policy: &Policy, rate: Rate, quota: Quota) -> Self {
        let name = &policy.0;
        let interval = rate.period().as_secs_f64() / f64::from(rate.permits());
        let window = interval * f64::from(quota.limit);
        // How much of the debt must be paid back so that there is one permit more.
        let kept = interval * (f64::from(quota.limit) - f64::from(quota.remaining) - 1.0);
        let next = quota.reset.as_secs_f64() - kept;
        Self {
            policy: value(format!("{name};q={};w={}", quota.limit, whole(window))),
            limit: value(format!("{name};r={};t={}", quota.remaining, whole(next))),
        }
    }

    pub(crate) fn append_to(self, headers: &mut HeaderMap) {
        headers.append(POLICY, self.policy);
        headers.append(LIMIT, self.limit);
    }
}

/// Whole seconds, at least one and as many as the fields may tell; what is a µs too long was rounded on its way.
fn whole(time: f64) -> u64 {
    let time = Duration::try_from_secs_f64((time - 1e-6).max(0.0)).unwrap_or(Duration::MAX);
    seconds(time).clamp(1, GREATEST)
}

fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("the name is printable ASCII, and so is the rest")
}
