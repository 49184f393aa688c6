//! What the handles of all primitives that queue have in common.

use std::fmt;
use std::sync::Arc;

use crate::acquire::{Wait, acquire};
use crate::backend::{Arg, Reply};
use crate::error::Error;
use crate::hold::Hold;
use crate::id::{Kind, Passing, Spec, Terms};
use crate::owner::Owner;
use crate::runtime::Runtime;
use crate::script::Family;

/// A primitive of one name, and how it is acquired.
#[derive(Clone)]
pub struct Handle {
    runtime: Arc<Runtime>,
    family: &'static Family,
    name: Arc<str>,
    /// `None` if the name is invalid, which the first use reports.
    spec: Option<Arc<Spec>>,
    /// Who acquires, whatever the scope.
    pub owner: Option<Owner>,
    /// What is asked for.
    pub terms: Terms,
}

impl Handle {
    /// Makes the handle; nothing is sent.
    #[must_use]
    pub fn new(runtime: &Arc<Runtime>, family: &'static Family, name: &str, kind: Kind) -> Self {
        let terms = Terms {
            kind,
            weight: 1,
            lease: runtime.options().default_lease(),
            max_hold: None,
            passing: Passing::Never,
        };
        Self {
            runtime: runtime.clone(),
            family,
            name: name.into(),
            spec: runtime.spec(family, name).ok(),
            owner: None,
            terms,
        }
    }

    /// The name that the user gave.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets what metrics call it.
    pub fn set_label(&mut self, label: &str) {
        if let Some(spec) = &mut self.spec {
            Arc::make_mut(spec).label = Some(label.into());
        }
    }

    /// What the handles and guards of the client share.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Scripts and keys.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`].
    pub fn spec(&self) -> Result<&Arc<Spec>, Error> {
        match &self.spec {
            Some(spec) => Ok(spec),
            None => Err(self
                .runtime
                .spec(self.family, &self.name)
                .expect_err("it was refused before")),
        }
    }

    /// Acquires for the handle's owner, or that of the scope, or a fresh one.
    ///
    /// # Errors
    ///
    /// As [`acquire`].
    pub async fn acquire(&self, terms: Terms, wait: Wait) -> Result<Option<Hold>, Error> {
        let owner = self.owner.clone().or_else(Owner::current);
        self.acquire_as(owner, terms, wait).await
    }

    /// Acquires for an owner.
    ///
    /// # Errors
    ///
    /// As [`acquire`].
    pub async fn acquire_as(
        &self,
        owner: Option<Owner>,
        terms: Terms,
        wait: Wait,
    ) -> Result<Option<Hold>, Error> {
        acquire(&self.runtime, self.spec()?, owner, terms, wait).await
    }

    /// What the family's inspection answers, with so many waiters.
    ///
    /// # Errors
    ///
    /// Why there is no reply.
    pub async fn inspect(&self, listed: u64) -> Result<Reply, Error> {
        let spec = self.spec()?;
        let limit = [Arg::Number(listed)];
        self.runtime
            .ask(&spec.name, &self.family.inspect, &spec.keys, &limit)
            .await
    }

    /// Releases the holds that there are, whoever has them; whether there were any.
    ///
    /// # Errors
    ///
    /// Why there is no reply; then it is unknown whether anything was released.
    pub async fn force_release(&self) -> Result<bool, Error> {
        self.runtime.force_release(self.spec()?).await
    }

    /// The reply is none that the script gives.
    #[must_use]
    pub fn unexpected(&self) -> Error {
        Error::UnexpectedReply {
            name: self.name.to_string(),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
