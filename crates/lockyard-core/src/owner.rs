//! The identity under which holds are counted.

use std::cmp::Ordering;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use uuid::Uuid;

use crate::error::Error;
use crate::name::excerpt;

tokio::task_local! {
    static CURRENT: Owner;
}

/// An identity that can hold, re-enter what it holds, and travel to another process.
///
/// Outside any scope each acquire has a fresh owner of its own: not reentrant, always safe.
/// Inside [`scope`](Self::scope), or through a handle made with `with_owner`, acquires use this one, and taking
/// what it already holds succeeds at once and counts up.
///
/// An owner is sent as text, `<uuid>:<number>`: [`Display`](fmt::Display) writes it and [`FromStr`] reads it.
/// Write it as text before you begin to wait with it in several processes.
/// Then each of its waiters looks every third of the waiter timeout to see whether the owner has come to hold the lock
/// elsewhere, and if so enters; an owner written as text only after its waiter has queued is not looked for until its
/// turn.
/// Whoever knows an owner can enter what it holds, so take one only from callers you trust.
///
/// # Examples
///
/// ```
/// # use lockyard_core::Owner;
/// let sent: Owner = "67e55044-10b1-426f-9247-bb680e5fe0c8:7".parse()?;
/// assert_eq!(sent.to_string(), "67e55044-10b1-426f-9247-bb680e5fe0c8:7");
/// # Ok::<(), lockyard_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Owner {
    uuid: Uuid,
    number: u64,
    /// Whether another process may wait under the same owner; shared by all clones.
    travelled: Arc<AtomicBool>,
}

impl Owner {
    pub(crate) fn new(uuid: Uuid, number: u64) -> Self {
        Self {
            uuid,
            number,
            travelled: Arc::default(),
        }
    }

    /// Runs a future in which every acquire uses this owner.
    ///
    /// Spawned tasks do not inherit it, unless their future is wrapped as well.
    /// Two branches of one `join!` inside the scope share the owner, so they do **not** exclude each other.
    ///
    /// # Cancel safety
    ///
    /// That of the future; the scope leaves nothing behind.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.clone(), future).await
    }

    /// Does something at once in a scope of this owner, as when a future or a stream is polled by hand.
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), work)
    }

    /// The owner of the scope in which this is called, if any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Whether it was formatted or parsed here, so that another process may use it as well.
    pub(crate) fn has_travelled(&self) -> bool {
        self.travelled.load(Relaxed)
    }

    /// Notes which client uses it: in another than its own it has travelled, even if it never was text.
    pub(crate) fn used_by(&self, client: Uuid) {
        if self.uuid != client {
            self.travelled.store(true, Relaxed);
        }
    }

    /// Reads an owner that stands on the server, without making it a traveller.
    #[doc(hidden)]
    #[must_use]
    pub fn parse_quietly(text: &str) -> Option<Self> {
        parse(text)
    }

    /// The text, for our own use: it does not leave the process.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", self.uuid, self.number)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.travelled.store(true, Relaxed);
        f.write_str(&self.text())
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({})", self.text())
    }
}

impl FromStr for Owner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let owner = parse(text).ok_or_else(|| Error::InvalidOwner {
            text: excerpt(text),
        })?;
        owner.travelled.store(true, Relaxed);
        Ok(owner)
    }
}

/// Reads an owner that is written just as we write it, for its text is compared literally.
fn parse(text: &str) -> Option<Owner> {
    let (uuid, number) = text.split_once(':')?;
    let owner = Owner::new(Uuid::try_parse(uuid).ok()?, number.parse().ok()?);
    (owner.text() == text).then_some(owner)
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Owner {}

impl PartialOrd for Owner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Owner {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.uuid, self.number).cmp(&(other.uuid, other.number))
    }
}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.uuid, self.number).hash(state);
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Owner {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Owner {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    #[test]
    fn text_comes_back_as_the_same_owner() {
        let owner = Owner::new(Uuid::try_parse(UUID).unwrap(), u64::MAX);
        assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
    }

    #[test]
    fn owners_and_their_scopes_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        fn sent(_: impl Send) {}
        check::<Owner>();
        // Not run: that it compiles is the test.
        let _ = |owner: &Owner| sent(owner.scope(std::future::ready(())));
    }

    #[test]
    fn only_canonical_text_is_taken() {
        for bad in ["", ":", "1", "mode", "a:write"] {
            assert!(bad.parse::<Owner>().is_err(), "{bad:?}");
        }
        for number in [
            "",
            "-1",
            "+1",
            "01",
            "1 ",
            "1/",
            "1|",
            "1\0",
            "1\n",
            "1:1",
            "18446744073709551616",
        ] {
            assert!(
                format!("{UUID}:{number}").parse::<Owner>().is_err(),
                "{number:?}"
            );
        }
        assert!(
            format!("{}:1", UUID.to_uppercase())
                .parse::<Owner>()
                .is_err()
        );
        assert!(
            format!("{}:1", UUID.replace('-', ""))
                .parse::<Owner>()
                .is_err()
        );
        assert!(format!("{{{UUID}}}:1").parse::<Owner>().is_err());
    }

    #[test]
    fn only_formatting_and_parsing_make_an_owner_travel() {
        let owner = Owner::new(Uuid::try_parse(UUID).unwrap(), 1);
        let _ = format!("{owner:?} {}", owner.text());
        assert!(!owner.has_travelled());
        let clone = owner.clone();
        let _ = clone.to_string();
        assert!(owner.has_travelled());
    }
}
