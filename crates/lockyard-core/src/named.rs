//! What the handle of a primitive without a queue is made of.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::name;
use crate::runtime::Runtime;

/// A name and the keys made of it, built once.
#[derive(Debug)]
pub struct Named {
    /// The name that the user gave.
    pub name: String,
    /// The main key and its parts, as the scripts expect them.
    pub keys: Vec<Bytes>,
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
    pub fn named(&self, kind: &str, parts: &[&str], name: &str) -> Result<Arc<Named>, Error> {
        let keys = name::keys(&self.core().prefix, kind, parts, name)?;
        let name = name.to_owned();
        Ok(Arc::new(Named { name, keys }))
    }

    /// A text never used before, by any client.
    #[must_use]
    pub fn fresh_name(&self) -> Bytes {
        let core = self.core();
        format!("{}.{}", core.client, core.number()).into()
    }
}
