//! What a proxy does to single commands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// What happens to a command that a rule matches.
///
/// A stream cannot lose its middle: TCP does not, and a client that counts replies would take the
/// wrong one. So where something is lost on a connection, the rest of that direction is lost too,
/// until the connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The command passes as usual; the rule only counts.
    Pass,
    /// The command passes; its reply, and all that the server sends after it, are dropped.
    /// The connection stays open, and further commands reach the server.
    SwallowReply,
    /// The command passes; when its reply comes, the connection is cut instead.
    CutBeforeReply,
    /// The command, and all that the client sends after it, are dropped.
    /// The connection stays open, and replies to earlier commands and messages reach the client.
    DropCommand,
    /// The command, and all that the client sends after it, wait until [`Rule::let_go`] or
    /// [`Proxy::let_go`](crate::Proxy::let_go), and then reach the server even if the client has gone.
    Hold,
    /// The command passes, and a copy is kept for [`Proxy::resend_copies`](crate::Proxy::resend_copies).
    Copy,
    /// The command passes; its reply, and all that comes after it, are late by so much.
    DelayReply(Duration),
    /// The command is dropped and this frame is its reply; see also [`Action::error`].
    Reply(Vec<u8>),
}

impl Action {
    /// Answers with an error, such as `NOPERM this user has no permissions`.
    #[must_use]
    pub fn error(text: &str) -> Self {
        Self::Reply(format!("-{text}\r\n").into_bytes())
    }
}

/// Matches all commands of a name.
///
/// # Examples
///
/// ```
/// let is_get = lockyard_testkit::command("GET");
/// assert!(is_get(&[b"get".to_vec(), b"key".to_vec()]));
/// ```
pub fn command(name: &str) -> impl Fn(&[Vec<u8>]) -> bool + Send + 'static + use<> {
    let name = name.as_bytes().to_vec();
    move |words| {
        words
            .first()
            .is_some_and(|word| word.eq_ignore_ascii_case(&name))
    }
}

/// A rule that was given to a proxy; the rule stays when this is dropped.
#[derive(Clone)]
pub struct Rule {
    state: Arc<RuleState>,
    rules: Arc<Rules>,
    runtime: Handle,
}

impl Rule {
    /// Returns how often the rule was applied.
    ///
    /// A command that passes counts when its reply has come from the server, others at once.
    #[must_use]
    pub fn fired(&self) -> u64 {
        *self.state.fired.borrow()
    }

    /// Blocks until the rule was applied `n` times since it was made.
    ///
    /// # Panics
    ///
    /// If that takes longer than the deadline.
    #[track_caller]
    pub fn wait_fired(&self, n: u64, deadline: Duration) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let reached = self.reached(n, deadline);
        self.runtime
            .spawn(async move { sender.send(reached.await) });
        // An error means that the proxy has gone, and nothing will change any more.
        let reached = receiver.recv().unwrap_or(false);
        assert!(
            reached || self.fired() >= n,
            "{}",
            self.complaint(n, deadline)
        );
    }

    /// Waits until the rule was applied `n` times since it was made, in async code of any runtime.
    ///
    /// # Panics
    ///
    /// If that takes longer than the deadline.
    pub async fn wait_fired_async(&self, n: u64, deadline: Duration) {
        let reached = self.runtime.spawn(self.reached(n, deadline)).await;
        let reached = reached.unwrap_or(false);
        assert!(
            reached || self.fired() >= n,
            "{}",
            self.complaint(n, deadline)
        );
    }

    /// Lets go what the rule holds now; it goes on to match.
    pub fn let_go(&self) {
        self.state.let_go();
    }

    /// Takes the rule from its proxy, and lets go what it holds.
    pub fn remove(&self) {
        let mut entries = self.rules.entries.lock();
        entries.retain(|entry| !Arc::ptr_eq(&entry.state, &self.state));
        self.state.let_go();
    }

    fn reached(&self, n: u64, deadline: Duration) -> impl Future<Output = bool> + Send + 'static {
        let mut fired = self.state.fired.subscribe();
        async move {
            let reached = fired.wait_for(|fired| *fired >= n);
            tokio::time::timeout(deadline, reached).await.is_ok()
        }
    }

    fn complaint(&self, n: u64, deadline: Duration) -> String {
        format!(
            "rule fired {} times, not {n}, within {deadline:?}",
            self.fired()
        )
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("fired", &self.fired())
            .finish_non_exhaustive()
    }
}

/// The part of a rule that commands under way hold on to.
#[derive(Debug, Default)]
pub(crate) struct RuleState {
    fired: watch::Sender<u64>,
    let_go: watch::Sender<()>,
}

impl RuleState {
    pub(crate) fn count(&self) {
        self.fired.send_modify(|fired| *fired += 1);
    }

    /// Counts, and waits until someone lets go.
    pub(crate) async fn hold(&self) {
        // Subscribed before it is seen to hold, or the answer to that could be missed.
        let mut let_go = self.let_go.subscribe();
        self.count();
        // Cannot fail, as `self` has the sender.
        let _ = let_go.changed().await;
    }

    fn let_go(&self) {
        self.let_go.send_replace(());
    }
}

/// Says whether a command, given its words, is meant.
pub(crate) type Matcher = Box<dyn FnMut(&[Vec<u8>]) -> bool + Send>;

struct Entry {
    matcher: Matcher,
    action: Action,
    left: u64,
    state: Arc<RuleState>,
}

/// The rules of a proxy, in the order in which they were made.
#[derive(Default)]
pub(crate) struct Rules {
    entries: Mutex<Vec<Entry>>,
}

impl Rules {
    pub(crate) fn add(
        self: &Arc<Self>,
        times: u64,
        matcher: Matcher,
        action: Action,
        runtime: Handle,
    ) -> Rule {
        let state = Arc::new(RuleState::default());
        self.entries.lock().push(Entry {
            matcher,
            action,
            left: times,
            state: state.clone(),
        });
        Rule {
            state,
            rules: self.clone(),
            runtime,
        }
    }

    /// Returns what to do with a command: the first rule that matches and is not used up decides.
    pub(crate) fn decide(&self, words: &[Vec<u8>]) -> Option<(Action, Arc<RuleState>)> {
        self.entries.lock().iter_mut().find_map(|entry| {
            let decides = entry.left > 0 && (entry.matcher)(words);
            decides.then(|| {
                entry.left -= 1;
                (entry.action.clone(), entry.state.clone())
            })
        })
    }

    pub(crate) fn let_go(&self) {
        for entry in self.entries.lock().iter() {
            entry.state.let_go();
        }
    }
}
