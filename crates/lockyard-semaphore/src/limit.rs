//! How many permits there are: stored, changed, forgotten.

use std::sync::LazyLock;

use lockyard_core::__private::{Arg, Handle, Kind, Once, Script, Until};
use lockyard_core::Error;

static LIMIT: LazyLock<Script> = LazyLock::new(|| Script::new(lockyard_lua::semaphore::LIMIT));

/// A change of the limit.
pub(crate) enum Change {
    Set(u32),
    Add(u32),
    /// Back to what each caller names.
    Clear,
    /// This hold goes, and with it so many permits for ever.
    Drop(Arg, u32),
}

/// Changes the limit and grants what can be; the new limit, `None` if none is stored or the hold is gone.
pub(crate) async fn change(handle: &Handle, change: Change) -> Result<Option<u32>, Error> {
    let spec = handle.spec()?;
    // The scripts that store the limit know neither the queue nor who is alive.
    let named = spec.named(&[0, 2, 3]);
    let Kind::Of(default) = handle.terms.kind else {
        return Err(handle.unexpected());
    };
    let (action, number, member) = match change {
        Change::Set(limit) => ("set", limit, "".into()),
        Change::Add(permits) => ("add", permits, "".into()),
        Change::Clear => ("clear", 0, "".into()),
        Change::Drop(member, weight) => ("drop", weight, member),
    };
    let args = [
        action.into(),
        u64::from(number).into(),
        u64::from(default).into(),
        member,
    ];
    let once = Once {
        script: &LIMIT,
        named: &named,
        until: Until::Try,
        alone: true,
    };
    let runtime = handle.runtime();
    let (value, _) = runtime.once(once, |_| args.to_vec()).await?;
    runtime.serve(spec).await;
    Ok(u32::try_from(value - 1).ok())
}
