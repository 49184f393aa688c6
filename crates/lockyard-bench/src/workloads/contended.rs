//! `hot` and `worker`: many tasks of one client, all on one key.

use super::WARM_UP;
use crate::Result;
use crate::figures::Figures;
use crate::libraries::Library;
use crate::options::Options;
use crate::process::wait_for_driver;
use crate::section::{Section, repeat};

pub(crate) async fn hot(client: &impl Library, options: &Options) -> Result<Figures> {
    repeat(&sections(client, "warm", options)?, WARM_UP).await?;
    measure(client, "hot", options).await
}

/// One process of a fleet, all of which enter the window together.
pub(crate) async fn worker(client: &impl Library, options: &Options) -> Result<Figures> {
    let warm_up = format!("warm-{}", std::process::id());
    repeat(&sections(client, &warm_up, options)?, WARM_UP).await?;
    wait_for_driver()?;
    measure(client, options.text("key")?, options).await
}

async fn measure(client: &impl Library, key: &str, options: &Options) -> Result<Figures> {
    let measured = repeat(&sections(client, key, options)?, options.window()?).await?;
    Ok(measured.shares())
}

fn sections<L: Library>(client: &L, key: &str, options: &Options) -> Result<Vec<Section<L::Lock>>> {
    let section = Section::new(client.lock(key));
    Ok(vec![section; options.number("tasks")?])
}
