use std::time::Duration;

use super::finding::Finding;
use super::{Event, History, Holder, Limit, Nanos, Outcome, Sample, Share, Upheaval, What, judge};

const MS: Nanos = 1_000_000;
const LOCK: &str = "x";

impl History {
    /// Nothing but two processes, 1 with the client `c1` and 2 with `c2`.
    fn empty() -> Self {
        let mut history = Self {
            grace: Duration::from_millis(50),
            ..Self::default()
        };
        for process in [1, 2] {
            let client = format!("c{process}");
            history.note(0, process, 0, What::Connected { client });
        }
        history
    }

    /// `a` holds from 10 to 20 ms, then `b` from 21 to 30 ms.
    fn good() -> Self {
        let mut history = Self::empty();
        history.hold(1, 1, "a", 7, 10, 20);
        history.hold(2, 1, "b", 8, 21, 30);
        history
    }

    fn note(&mut self, ms: Nanos, process: u32, attempt: u64, what: What) {
        self.events.push(Event {
            at: ms * MS,
            process,
            attempt,
            what,
        });
    }

    fn ask(&mut self, ms: Nanos, process: u32, attempt: u64) {
        self.ask_for(Share::All, ms, process, attempt);
    }

    fn ask_for(&mut self, share: Share, ms: Nanos, process: u32, attempt: u64) {
        let (lock, owner) = (LOCK.to_owned(), None);
        self.note(ms, process, attempt, What::Asked { lock, owner, share });
    }

    /// All of a hold to read, of which the server is not seen.
    fn read(&mut self, process: u32, attempt: u64, owner: &str, from: Nanos, until: Nanos) {
        self.ask_for(Share::Read, from - 1, process, attempt);
        let what = What::Acquired {
            owner: owner.to_owned(),
            token: None,
            until: (until + 5) * MS,
        };
        self.note(from, process, attempt, what);
        self.release(until, process, attempt);
    }

    /// All of a hold of so many permits, of which the server is not seen.
    fn permits(&mut self, permits: u32, (process, attempt): (u32, u64), from: Nanos, until: Nanos) {
        self.ask_for(Share::Permits(permits), from - 1, process, attempt);
        let what = What::Acquired {
            owner: format!("c{process}:{attempt}"),
            token: None,
            until: (until + 5) * MS,
        };
        self.note(from, process, attempt, what);
        self.release(until, process, attempt);
    }

    /// The server shows who holds how many permits, at one moment.
    fn look_at_permits(&mut self, ms: Nanos, holds: &[(&str, u32)]) {
        self.look(ms, &[], &[], &[]);
        let holders = holds
            .iter()
            .map(|(hold, permits)| Holder::parse(hold, &format!("p{permits}")).unwrap());
        self.samples.last_mut().unwrap().holders = holders.collect();
    }

    /// The semaphore has so many permits from some moment on.
    fn limit(&mut self, permits: u32, from: Nanos, until: Nanos) {
        self.limits.push(Limit {
            lock: LOCK.to_owned(),
            from: from * MS,
            until: until * MS,
            permits,
        });
    }

    /// The server shows who holds, who reads and who waits, at one moment.
    fn look(&mut self, ms: Nanos, holds: &[&str], readers: &[&str], queue: &[&str]) {
        let writing = holds.iter().map(|hold| (hold, "1:9:1"));
        let reading = readers.iter().map(|hold| (hold, "r"));
        let holders = writing.chain(reading);
        let holders = holders.map(|(hold, value)| Holder::parse(hold, value).unwrap());
        self.samples.push(Sample {
            from: ms * MS + 1,
            until: ms * MS + 2,
            lock: LOCK.to_owned(),
            holders: holders.collect(),
            forever: Vec::new(),
            miscounted: 0,
            queue: queue.iter().map(|hold| (*hold).to_owned()).collect(),
        });
    }

    /// A guard that names a deadline.
    fn acquire(
        &mut self,
        (ms, deadline): (Nanos, Nanos),
        process: u32,
        attempt: u64,
        owner: &str,
        token: u64,
    ) {
        let what = What::Acquired {
            owner: owner.to_owned(),
            token: Some(token),
            until: deadline * MS,
        };
        self.note(ms, process, attempt, what);
    }

    fn release(&mut self, ms: Nanos, process: u32, attempt: u64) {
        self.note(ms, process, attempt, What::Leaving);
        self.note(ms + 1, process, attempt, What::Over(Outcome::Released));
    }

    /// The server shows these holds, as `owner/client.seq`, from one millisecond to another.
    fn show(&mut self, holds: &[(&str, u64)], from: Nanos, until: Nanos) {
        let holder = |(hold, token): &(&str, u64)| Holder::parse(hold, &format!("1:9:1:{token}"));
        let holders: Vec<Holder> = holds.iter().map(|hold| holder(hold).unwrap()).collect();
        self.samples.extend((from..until).map(|ms| Sample {
            from: ms * MS + 1,
            until: ms * MS + 2,
            lock: LOCK.to_owned(),
            holders: holders.clone(),
            forever: Vec::new(),
            miscounted: 0,
            queue: Vec::new(),
        }));
        self.samples.sort_by_key(|sample| sample.from);
    }

    /// All of one hold, with a lease that would go on for 5 ms more.
    fn hold(
        &mut self,
        process: u32,
        attempt: u64,
        owner: &str,
        token: u64,
        from: Nanos,
        until: Nanos,
    ) {
        self.ask(from - 1, process, attempt);
        self.acquire((from, until + 2), process, attempt, owner, token);
        let deadline = (until + 5) * MS;
        self.note(
            until - 1,
            process,
            attempt,
            What::Believed { until: deadline },
        );
        self.release(until, process, attempt);
        self.show(
            &[(&format!("{owner}/c{process}.{attempt}"), token)],
            from,
            until,
        );
    }

    fn befall(&mut self, from: Nanos, until: Nanos) {
        self.upheavals.push(Upheaval {
            from: from * MS,
            until: until * MS,
        });
    }
}

#[track_caller]
fn passes(history: &History) {
    let findings = judge(history);
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Checks that there are findings, all of this kind.
macro_rules! finds {
    ($history:expr, $kind:pat) => {
        let findings = judge(&$history);
        assert!(!findings.is_empty());
        assert!(
            findings.iter().all(|finding| matches!(finding, $kind)),
            "{findings:#?}"
        );
    };
}

#[test]
fn one_holder_after_another_passes() {
    passes(&History::good());
}

#[test]
fn an_owner_may_hold_in_two_processes_at_once() {
    let mut history = History::empty();
    history.hold(1, 1, "a", 7, 10, 40);
    history.samples.clear();
    history.hold(2, 1, "a", 7, 20, 30);
    history.samples.clear();
    history.show(&[("a/c1.1", 7)], 10, 40);
    history.hold(2, 2, "b", 8, 41, 50);
    passes(&history);
}

#[test]
fn a_killed_process_needs_no_end() {
    let mut history = History::good();
    history.ask(31, 1, 2);
    history.acquire((32, 60), 1, 2, "a2", 9);
    history.show(&[("a2/c1.2", 9)], 32, 60);
    history.ask(33, 1, 3);
    history.killed.insert(1, 40 * MS);
    history.hold(2, 2, "b", 10, 61, 70);
    passes(&history);
}

#[test]
fn a_holder_that_sees_its_loss_late_claimed_until_the_deadline() {
    let mut history = History::empty();
    history.ask(9, 1, 1);
    history.acquire((10, 20), 1, 1, "a", 7);
    history.hold(2, 1, "b", 8, 21, 30);
    history.note(40, 1, 1, What::Lost);
    history.note(40, 1, 1, What::Leaving);
    history.note(41, 1, 1, What::Over(Outcome::Failed("lost".into())));
    passes(&history);
}

#[test]
fn a_guard_that_was_lost_before_it_was_there_claims_nothing() {
    let mut history = History::good();
    history.ask(8, 1, 2);
    history.acquire((25, 9), 1, 2, "late", 6);
    history.note(26, 1, 2, What::Lost);
    history.release(27, 1, 2);
    passes(&history);
}

#[test]
fn attempts_may_end_without_a_guard() {
    let mut history = History::good();
    let outcomes = [
        Outcome::Refused,
        Outcome::Dropped,
        Outcome::Failed("no server".into()),
    ];
    for (attempt, outcome) in (10..).zip(outcomes) {
        history.ask(5, 2, attempt);
        history.note(6, 2, attempt, What::Over(outcome));
    }
    passes(&history);
}

#[test]
fn a_hold_of_an_attempt_that_was_dropped_may_be_seen_for_a_while() {
    let mut history = History::good();
    history.ask(31, 1, 2);
    history.note(32, 1, 2, What::Over(Outcome::Dropped));
    history.show(&[("a2/c1.2", 9)], 32, 80);
    passes(&history);
}

#[test]
fn an_upheaval_excuses_what_happens_in_its_time() {
    let mut history = History::empty();
    history.ask(9, 1, 1);
    history.acquire((10, 40), 1, 1, "a", 7);
    history.note(23, 1, 1, What::Believed { until: 40 * MS });
    history.note(24, 1, 1, What::Lost);
    history.note(24, 1, 1, What::Leaving);
    history.note(25, 1, 1, What::Over(Outcome::Failed("lost".into())));
    history.show(&[("a/c1.1", 7)], 10, 20);
    history.hold(2, 1, "b", 8, 21, 30);
    history.befall(20, 25);
    passes(&history);

    // But not longer.
    history.upheavals.clear();
    history.befall(20, 22);
    let findings = judge(&history);
    assert!(
        matches!(
            findings[..],
            [
                Finding::LostEarly(_),
                Finding::Overlap(..),
                Finding::Unfounded(..)
            ]
        ),
        "{findings:#?}"
    );
}

#[test]
fn two_that_believe_to_hold_at_once_are_found() {
    let mut history = History::empty();
    history.hold(1, 1, "a", 7, 10, 20);
    history.hold(2, 1, "b", 8, 19, 30);
    history.samples.clear();
    finds!(history, Finding::Overlap(..));
}

#[test]
fn an_overlap_behind_a_shorter_hold_of_the_same_owner_is_found() {
    let mut history = History::empty();
    history.hold(1, 1, "a", 7, 10, 60);
    history.hold(2, 1, "a", 7, 20, 30);
    history.hold(2, 2, "b", 8, 50, 55);
    history.samples.clear();
    finds!(history, Finding::Overlap(..));
}

#[test]
fn an_overlap_behind_a_hold_of_a_third_is_found() {
    let mut history = History::empty();
    history.hold(1, 1, "a", 7, 10, 60);
    history.hold(2, 1, "b", 8, 20, 90);
    history.hold(2, 2, "b", 8, 61, 70);
    history.hold(1, 2, "a", 9, 80, 85);
    history.samples.clear();
    let findings = judge(&history);
    let overlaps = findings
        .iter()
        .filter(|finding| matches!(finding, Finding::Overlap(..)));
    assert_eq!(overlaps.count(), 2, "{findings:#?}");
}

#[test]
fn a_killed_holder_claims_until_its_deadline() {
    let mut history = History::empty();
    history.ask(9, 1, 1);
    history.acquire((10, 30), 1, 1, "a", 7);
    history.killed.insert(1, 15 * MS);
    history.hold(2, 1, "b", 8, 29, 40);
    history.samples.clear();
    finds!(history, Finding::Overlap(..));
}

#[test]
fn a_holder_that_is_not_on_the_server_is_found() {
    let mut history = History::good();
    history.samples.remove(5);
    history.show(&[], 15, 16);
    finds!(history, Finding::Unfounded(..));
}

#[test]
fn a_holder_in_whose_time_another_is_on_the_server_is_found() {
    let mut history = History::good();
    history.samples.remove(5);
    history.show(&[("b/c2.1", 8)], 15, 16);
    let findings = judge(&history);
    assert!(
        matches!(findings[0], Finding::Unfounded(..)),
        "{findings:#?}"
    );
}

#[test]
fn a_loss_before_the_deadline_is_found() {
    let mut history = History::empty();
    history.ask(9, 1, 1);
    history.acquire((10, 30), 1, 1, "a", 7);
    history.note(20, 1, 1, What::Lost);
    history.release(21, 1, 1);
    finds!(history, Finding::LostEarly(_));
}

#[test]
fn a_lost_guard_that_is_held_again_is_found() {
    let mut history = History::empty();
    history.ask(9, 1, 1);
    history.acquire((10, 20), 1, 1, "a", 7);
    history.note(21, 1, 1, What::Lost);
    history.note(22, 1, 1, What::Believed { until: 23 * MS });
    history.release(24, 1, 1);
    finds!(history, Finding::Disorder(_) | Finding::LostEarly(_));
}

#[test]
fn a_token_that_goes_back_is_found() {
    let mut history = History::good();
    history.hold(1, 2, "c", 6, 40, 50);
    finds!(history, Finding::TokenBack { .. });
}

#[test]
fn a_token_of_two_owners_is_found() {
    let mut history = History::good();
    history.hold(1, 2, "c", 8, 40, 50);
    finds!(history, Finding::TokenBack { .. });
}

#[test]
fn two_owners_on_the_server_are_found() {
    let mut history = History::good();
    history.samples.clear();
    history.show(&[("a/c1.1", 7), ("b/c2.1", 8)], 30, 31);
    finds!(history, Finding::TwoHolders(_));
}

#[test]
fn an_attempt_without_an_end_is_found() {
    let mut history = History::good();
    history.ask(40, 1, 2);
    finds!(history, Finding::Unended { .. });

    let mut history = History::good();
    let end = history.events.len() - 1;
    history.events.remove(end);
    finds!(history, Finding::Unended { .. });
}

#[test]
fn events_that_cannot_follow_each_other_are_found() {
    let cases: [fn(&mut History); 5] = [
        |history| history.acquire((40, 50), 1, 2, "a", 9),
        |history| history.ask(40, 1, 1),
        |history| history.release(40, 2, 1),
        |history| history.note(40, 1, 1, What::Lost),
        |history| history.note(40, 2, 1, What::Believed { until: 50 * MS }),
    ];
    for case in cases {
        let mut history = History::good();
        case(&mut history);
        let findings = judge(&history);
        assert!(matches!(findings[0], Finding::Disorder(_)), "{findings:#?}");
    }
    // A release needs a guard.
    let mut history = History::good();
    history.ask(40, 1, 2);
    history.note(41, 1, 2, What::Over(Outcome::Released));
    finds!(history, Finding::Disorder(_));
    // A guard needs to be given away.
    let mut history = History::good();
    history.ask(40, 1, 2);
    history.acquire((41, 50), 1, 2, "c", 9);
    history.note(42, 1, 2, What::Over(Outcome::Dropped));
    finds!(history, Finding::Disorder(_));
}

#[test]
fn an_error_that_nothing_explains_is_found() {
    let mut history = History::good();
    history.ask(40, 1, 2);
    history.note(
        41,
        1,
        2,
        What::Over(Outcome::Broken("unexpected reply".into())),
    );
    finds!(history, Finding::Broken(_));
}

#[test]
fn a_hold_that_stays_after_its_release_is_found() {
    let mut history = History::good();
    history.show(&[("b/c2.1", 8)], 31, 100);
    finds!(history, Finding::Phantom(..));
}

#[test]
fn a_hold_that_nobody_ever_got_and_that_stays_is_found() {
    let mut history = History::good();
    history.ask(31, 1, 2);
    history.note(32, 1, 2, What::Over(Outcome::Dropped));
    history.show(&[("a2/c1.2", 9)], 32, 100);
    finds!(history, Finding::Phantom(..));
}

#[test]
fn a_hold_that_outlasts_the_death_of_its_process_is_found() {
    let mut history = History::good();
    history.ask(31, 1, 2);
    history.acquire((32, 60), 1, 2, "a2", 9);
    history.killed.insert(1, 40 * MS);
    history.show(&[("a2/c1.2", 9)], 32, 100);
    finds!(history, Finding::Phantom(..));
}

#[test]
fn a_hold_of_an_unknown_client_is_found() {
    let mut history = History::good();
    history.show(&[("s/c3.1", 9)], 40, 41);
    finds!(history, Finding::Stranger(..));
}

#[test]
fn a_key_without_ttl_is_found() {
    let mut history = History::good();
    history.samples[3].forever.push("lock:{x}".into());
    finds!(history, Finding::Forever(_));
}

#[test]
fn permits_that_are_miscounted_are_found() {
    for wrong in [-1, 2] {
        let mut history = History::good();
        history.samples[3].miscounted = wrong;
        finds!(history, Finding::Miscounted(_));
    }
}

#[test]
fn a_key_that_is_left_is_found() {
    let mut history = History::good();
    history.left_behind.push("lock.queue:{x}".into());
    finds!(history, Finding::LeftBehind(_));
}

#[test]
fn readers_may_believe_to_hold_together() {
    let mut history = History::empty();
    history.read(1, 1, "a", 10, 30);
    history.read(2, 1, "b", 15, 20);
    history.read(2, 2, "c", 22, 40);
    passes(&history);
}

#[test]
fn a_writer_that_believes_to_hold_beside_a_reader_is_found() {
    // The reader that lasts is not the last to come.
    let mut history = History::empty();
    history.read(1, 1, "a", 10, 30);
    history.read(2, 1, "b", 11, 12);
    history.hold(2, 2, "c", 7, 20, 25);
    history.samples.clear();
    finds!(history, Finding::Overlap(..));
}

#[test]
fn a_reader_that_believes_to_hold_beside_a_writer_is_found() {
    // Other readers in between hide nothing.
    let mut history = History::empty();
    history.hold(1, 1, "a", 7, 10, 30);
    history.samples.clear();
    history.read(1, 2, "a", 12, 40);
    history.read(2, 1, "b", 29, 35);
    finds!(history, Finding::Overlap(..));
}

#[test]
fn an_owner_may_read_what_it_writes() {
    let mut history = History::empty();
    history.hold(1, 1, "a", 7, 10, 30);
    history.samples.clear();
    history.read(1, 2, "a", 15, 40);
    history.read(2, 1, "b", 31, 38);
    passes(&history);
}

#[test]
fn a_reader_that_stands_as_a_writer_is_found() {
    let mut history = History::empty();
    history.read(1, 1, "a", 10, 30);
    history.look(20, &["a/c1.1"], &[], &[]);
    finds!(history, Finding::Unfounded(..));
}

#[test]
fn readers_together_on_the_server_pass_and_a_writer_among_them_is_found() {
    let mut history = History::empty();
    history.read(1, 1, "a", 10, 30);
    history.read(2, 1, "b", 10, 30);
    history.look(20, &[], &["a/c1.1", "b/c2.1"], &[]);
    passes(&history);
    history.look(21, &["b/c2.2"], &["a/c1.1", "b/c2.1"], &[]);
    finds!(history, Finding::TwoHolders(..));
}

/// `a`, `b` and `c` wait in this order while another holds, and then some hold and some wait.
fn queue(holds: &[&str], readers: &[&str], waiting: &[&str]) -> History {
    let mut history = History::empty();
    history.ask(1, 1, 1);
    history.note(60, 1, 1, What::Over(Outcome::Refused));
    history.grace = Duration::from_secs(1);
    history.look(10, &["h/c1.9"], &[], &["a/c1.1", "b/c2.1", "c/c2.2"]);
    history.look(12, holds, readers, waiting);
    history
}

#[test]
fn the_first_in_the_queue_passes() {
    passes(&queue(&["a/c1.1"], &[], &["b/c2.1", "c/c2.2"]));
    passes(&queue(&[], &["a/c1.1", "b/c2.1"], &["c/c2.2"]));
    // Those in front have given up, or have had their turns between two looks.
    passes(&queue(&["c/c2.2"], &[], &[]));
    // Who came after the first look may stand anywhere.
    passes(&queue(&["a/c1.1"], &[], &["d/c1.4", "b/c2.1", "c/c2.2"]));
}

#[test]
fn one_who_overtakes_is_found() {
    let overtaken = queue(&["b/c2.1"], &[], &["a/c1.1", "c/c2.2"]);
    finds!(overtaken, Finding::Overtaken { .. });
    let overtaken = queue(&[], &["a/c1.1", "c/c2.2"], &["b/c2.1"]);
    finds!(overtaken, Finding::Overtaken { .. });
}

#[test]
fn an_owner_that_holds_may_enter_before_those_in_front() {
    let mut history = History::empty();
    history.look(10, &["c/c1.9"], &[], &["a/c1.1", "c/c2.2"]);
    history.look(12, &["c/c1.9", "c/c2.2"], &[], &["a/c1.1"]);
    history.grace = Duration::from_secs(1);
    passes(&history);
}

/// Three permits at first, and two from about 20 ms on.
fn lowered() -> History {
    let mut history = History::empty();
    history.grace = Duration::from_secs(1);
    history.limit(3, 0, 0);
    history.limit(2, 19, 21);
    history
}

#[test]
fn as_many_permits_as_there_are_pass() {
    let mut history = lowered();
    history.permits(2, (1, 1), 10, 30);
    history.permits(1, (2, 1), 15, 18);
    history.permits(2, (2, 2), 31, 35);
    history.look_at_permits(9, &[]);
    history.look_at_permits(16, &[("c1:1/c1.1", 2), ("c2:1/c2.1", 1)]);
    history.look_at_permits(25, &[("c1:1/c1.1", 2)]);
    history.look_at_permits(33, &[("c2:2/c2.2", 2)]);
    passes(&history);
}

#[test]
fn a_lower_limit_takes_no_permits_away() {
    let mut history = lowered();
    history.permits(3, (1, 1), 10, 40);
    for ms in [9, 30, 35] {
        let holds = [("c1:1/c1.1", 3)];
        history.look_at_permits(ms, if ms < 10 { &[] } else { &holds });
    }
    passes(&history);
}

#[test]
fn permits_that_came_while_the_limit_was_lowered_pass_and_those_that_came_later_are_found() {
    // They may have come when there still were three.
    let mut history = lowered();
    history.permits(2, (1, 1), 10, 40);
    history.ask_for(Share::Permits(1), 20, 2, 1);
    let owner = "c2:1".to_owned();
    let (token, until) = (None, 60 * MS);
    history.note(
        30,
        2,
        1,
        What::Acquired {
            owner,
            token,
            until,
        },
    );
    history.release(39, 2, 1);
    passes(&history);

    let mut history = lowered();
    history.permits(2, (1, 1), 10, 40);
    history.permits(1, (2, 1), 30, 35);
    finds!(
        history,
        Finding::BelievedBeyond {
            limit: 2,
            held: 3,
            ..
        }
    );
}

#[test]
fn permits_beyond_the_limit_on_the_server_are_found() {
    let two = ("c1:1/c1.1", 2);
    let one = ("c2:1/c2.1", 1);
    let mut history = lowered();
    history.permits(2, (1, 1), 10, 40);
    history.ask_for(Share::Permits(1), 22, 2, 1);
    history.note(60, 2, 1, What::Over(Outcome::Dropped));
    history.look_at_permits(20, &[two]);
    history.look_at_permits(25, &[two, one]);
    // The limit was lowered between the two.
    passes(&history);
    history.look_at_permits(26, &[two]);
    history.look_at_permits(27, &[two, one]);
    finds!(
        history,
        Finding::Beyond {
            limit: 2,
            held: 3,
            ..
        }
    );
    // Again and again while it falls: one goes, and another comes too early.
    let mut history = lowered();
    history.ask_for(Share::Permits(2), 1, 1, 1);
    history.ask_for(Share::Permits(3), 1, 2, 1);
    for (process, ms) in [(1, 60), (2, 60)] {
        history.note(ms, process, 1, What::Over(Outcome::Dropped));
    }
    history.look_at_permits(30, &[("c2:1/c2.1", 3), two]);
    history.look_at_permits(32, &[("c2:1/c2.1", 3)]);
    history.look_at_permits(34, &[("c1:2/c1.2", 3)]);
    finds!(
        history,
        Finding::Beyond {
            limit: 2,
            held: 3,
            ..
        }
    );
}

#[test]
fn a_holder_of_more_permits_than_the_server_shows_is_found() {
    let mut history = lowered();
    history.permits(2, (1, 1), 10, 30);
    history.look_at_permits(15, &[("c1:1/c1.1", 1)]);
    finds!(history, Finding::Unfounded(..));
}
