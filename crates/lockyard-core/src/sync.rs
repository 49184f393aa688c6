//! What the client knows of the server's clock.

use std::time::Duration;

use crate::backend::Moment;
use crate::breakages::broken;
use crate::lease::margin;

/// A reply that carried the server's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    /// Just before the command was sent.
    pub(crate) sent: Moment,
    /// When its reply had come.
    pub(crate) received: Moment,
    /// The server's µs in between.
    pub(crate) us: u64,
}

/// An estimate older than this is made anew before it bounds a command's validity.
const STALE: Duration = Duration::from_secs(60);

impl Sync {
    /// The server time after which a command sent now is refused; `None` if the answer is too old to tell.
    ///
    /// It counts from when the reply had come, so it lies rather too early than too late.
    pub(crate) fn valid_until(&self, now: Moment, valid: Duration) -> Option<u64> {
        let age = now.since(self.received);
        if broken("valid for ever") {
            return Some(u64::MAX >> 12);
        }
        (age < STALE).then(|| self.us.saturating_add((age + valid).as_micros() as u64))
    }

    /// The server's µs at another moment, by this answer.
    pub(crate) fn server_time(&self, moment: Moment) -> u64 {
        match moment >= self.received {
            true => self
                .us
                .saturating_add(moment.since(self.received).as_micros() as u64),
            false => self
                .us
                .saturating_sub(self.received.since(moment).as_micros() as u64),
        }
    }

    /// The local deadline of a hold that the server wrote for us at its time `us`, with a lease of `lease`.
    ///
    /// It counts from when the latest answered command was **sent**: the server read its clock after that, so the
    /// same span of its time later is not later by our clock than there.
    /// `None` if that answer is older than `limit`.
    pub(crate) fn granted(
        &self,
        us: u64,
        lease: Duration,
        now: Moment,
        limit: Duration,
    ) -> Option<Moment> {
        let age = now.since(self.sent);
        if age > limit {
            return None;
        }
        let shift = us.abs_diff(self.us);
        let written = match us >= self.us {
            true => self.sent.after(Duration::from_micros(shift)),
            false => self.sent.before(Duration::from_micros(shift)),
        };
        // Whatever the clocks say, it is not written later than it is heard of.
        let written = written.min(now);
        Some(written.after(lease).before(margin(lease) + age / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Moment {
        Moment::from_nanos(1_000_000_000).after(MS * ms)
    }

    #[test]
    fn a_grant_counts_from_the_sending_of_the_latest_answer() {
        let sync = Sync {
            sent: at(0),
            received: at(100),
            us: 5_000_000,
        };
        let deadline = sync.granted(5_200_000, MS * 1000, at(300), MS * 500);
        assert_eq!(deadline, Some(at(1200).before(MS * 3 + MS * 300 / 1000)));
        assert_eq!(sync.granted(5_200_000, MS * 1000, at(501), MS * 500), None);
    }

    #[test]
    fn a_grant_older_than_the_answer_ends_earlier() {
        let sync = Sync {
            sent: at(1000),
            received: at(1001),
            us: 5_000_000,
        };
        assert!(
            sync.granted(4_900_000, MS * 1000, at(1001), MS * 500)
                .unwrap()
                < at(1900)
        );
    }

    #[test]
    fn validity_counts_from_the_reply() {
        let sync = Sync {
            sent: at(0),
            received: at(100),
            us: 5_000_000,
        };
        assert_eq!(sync.valid_until(at(150), MS * 3000), Some(8_050_000));
        assert_eq!(sync.valid_until(at(100).after(STALE), MS * 3000), None);
    }
}
