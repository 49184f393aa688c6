//! What the handle of a primitive without a queue is made of.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::metrics::Measured;
use crate::name;
use crate::runtime::Runtime;

/// A name and the keys made of it, built once.
#[derive(Clone, Debug)]
pub struct Named {
    /// Which sort of primitive.
    pub kind: &'static str,
    /// The name that the user gave.
    pub name: String,
    /// The main key and its parts, as the scripts expect them.
    pub keys: Vec<Bytes>,
    /// What metrics call it.
    pub label: Option<Arc<str>>,
}

impl Measured for Named {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn label(&self) -> Option<&Arc<str>> {
        self.label.as_ref()
    }
}

impl AsRef<[Bytes]> for Named {
    fn as_ref(&self) -> &[Bytes] {
        &self.keys
    }
}

impl Runtime {
    /// Builds the keys of a primitive.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`].
    pub fn named(
        &self,
        kind: &'static str,
        parts: &[&str],
        name: &str,
    ) -> Result<Arc<Named>, Error> {
        let keys = name::keys(&self.core().prefix, kind, parts, name)?;
        Ok(Arc::new(Named {
            kind,
            name: name.to_owned(),
            keys,
            label: None,
        }))
    }

    /// A text never used before, by any client.
    #[must_use]
    pub fn fresh_name(&self) -> Bytes {
        let core = self.core();
        format!("{}.{}", core.client, core.number()).into()
    }
}
