//! `pairs`: tasks acquire and release, each on a key of its own.

use super::WARM_UP;
use crate::Result;
use crate::figures::Figures;
use crate::libraries::Library;
use crate::options::Options;
use crate::section::{Section, repeat};

pub(crate) async fn pairs(client: &impl Library, options: &Options) -> Result<Figures> {
    let section = |task| Section::new(client.lock(&format!("pairs-{task}")));
    let sections: Vec<_> = (0..options.number("tasks")?).map(section).collect();
    repeat(&sections, WARM_UP).await?;
    Ok(repeat(&sections, options.window()?).await?.latencies())
}
