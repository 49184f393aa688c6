//! Why a layer answers in place of the service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use lockyard::{Error, Quota};

/// Why a layer answered a request itself, in place of the service.
///
/// It stands in the extensions of the answer, so an outer layer can tell it from an answer of the service.
/// Its message is fit for strangers: it names no server, key or owner; these are in its source.
///
/// # Examples
///
/// ```
/// # use lockyard_tower::Refusal;
/// fn was_limited<B>(response: &http::Response<B>) -> bool {
///     let refusal = response.extensions().get::<Refusal>();
///     matches!(refusal, Some(Refusal::Busy { .. } | Refusal::RateLimited { .. }))
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There was no permit within the wait: 503.
    #[error("too many requests at once, try again later")]
    Busy {
        /// The semaphore's name.
        name: String,
    },
    /// The rate does not allow the request now: 429 with `Retry-After`.
    #[error("too many requests, try again later")]
    RateLimited {
        /// The rate limiter's name.
        name: String,
        /// After what time the request is within the rate, if nobody else comes.
        retry_after: Duration,
        /// What there was.
        quota: Quota,
    },
    /// The server of the limit cannot be asked, and the layer is [closed](crate::WhenAway::Closed) then: 503 with
    /// `Retry-After`.
    #[error("the limit cannot be checked, try again later")]
    Unavailable {
        /// After what time the layer asks again.
        retry_after: Duration,
        /// Why it cannot be asked.
        source: Arc<Error>,
    },
    /// The name that was made of the request is no valid one: 400.
    #[error("the request cannot be attributed to a limit")]
    InvalidKey {
        /// What is wrong with the name.
        source: Arc<Error>,
    },
    /// The limit is set up wrongly, and trying again cannot help: 500.
    #[error("the limit is set up wrongly")]
    Misconfigured {
        /// What is wrong.
        source: Arc<Error>,
    },
    /// The header of the owner is no owner's text: 400.
    #[error("the header of the owner is malformed")]
    MalformedOwner,
    /// The header of the owner is longer than an owner's text can be: 400.
    #[error("the header of the owner is too long")]
    OversizedOwner,
    /// There are several headers of an owner: 400.
    #[error("there are several headers of an owner")]
    SeveralOwners,
    /// Whoever sent the request is not trusted to name an owner: 403.
    #[error("the sender may not name an owner")]
    UntrustedOwner,
}

impl Refusal {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Busy { .. } | Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Misconfigured { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            Self::UntrustedOwner => StatusCode::FORBIDDEN,
            Self::InvalidKey { .. }
            | Self::MalformedOwner
            | Self::OversizedOwner
            | Self::SeveralOwners => StatusCode::BAD_REQUEST,
        }
    }

    /// After what time the request may be sent again, if that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Unavailable { retry_after, .. } => {
                Some(*retry_after)
            }
            _ => None,
        }
    }

    /// The answer that layers give unless they are told another: the status, `Retry-After` if it is known, and the
    /// message as plain text.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(format!("{self}\n")));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, text);
        if let Some(after) = self.retry_after() {
            headers.insert(RETRY_AFTER, seconds(after).max(1).into());
        }
        response
    }
}

/// Whole seconds, rounded up, so that nobody comes too early.
pub(crate) fn seconds(time: Duration) -> u64 {
    time.as_secs()
        .saturating_add(u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(seconds(Duration::ZERO), 0);
        assert_eq!(seconds(Duration::from_nanos(1)), 1);
        assert_eq!(seconds(Duration::from_secs(2)), 2);
        assert_eq!(seconds(Duration::from_millis(2001)), 3);
        assert_eq!(seconds(Duration::MAX), u64::MAX);
    }
}
