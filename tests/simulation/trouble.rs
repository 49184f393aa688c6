//! What befalls whole clients and the server.

use std::sync::Arc;
use std::time::Duration;

use lockyard_core::__private::Lane;
use tokio::time::sleep;

use crate::faults::Fault;
use crate::laws::{excuse, keys};
use crate::plan::{LEASE, Plan};
use crate::world::World;

/// What befalls whole clients and the server, until the tasks have ended.
pub(crate) async fn trouble(world: &Arc<World>, plan: &Plan) {
    // What takes locks away, and excuses their holders, does so rarely.
    let kinds = [
        (Fault::Reconnect, 4),
        (Fault::HalfOpen, 3),
        (Fault::Pause, 3),
        (Fault::Crash, 2),
        (Fault::Flush, 1),
        (Fault::Delete, 1),
        (Fault::Clock, 1),
    ];
    let kinds = kinds
        .into_iter()
        .filter(|(kind, _)| plan.faults.contains(kind));
    let kinds: Vec<Fault> = kinds.flat_map(|(kind, times)| vec![kind; times]).collect();
    let mut crashes = plan.clients - 1;
    loop {
        let wait = world.inner().rng.u64(50..1500);
        sleep(Duration::from_millis(wait)).await;
        if kinds.is_empty() {
            continue;
        }
        world.with(|world, now| {
            let kind = kinds[world.rng.usize(0..kinds.len())];
            let client = world.rng.usize(0..plan.clients);
            if world.links[client].freezer.is_dead() {
                return;
            }
            world.note(now, client, || format!("--- {kind}"));
            match kind {
                Fault::Reconnect => match world.rng.u8(0..3) {
                    0 => world.cut(now, client, Lane::Caller),
                    1 => world.cut(now, client, Lane::Watchdog),
                    _ => world.cut_inbox(now, client),
                },
                Fault::HalfOpen => {
                    world.links[client].hears = false;
                    let noticed = now + world.rng.u64(300..2500);
                    world.happen(noticed, move |world, now| world.cut_inbox(now, client));
                }
                Fault::Pause => {
                    world.links[client].freezer.freeze();
                    let ends = now + world.rng.u64(50..2 * LEASE.as_millis() as u64);
                    let name = world.links[client].name.clone();
                    world.laws.frozen.entry(name.clone()).or_insert(now);
                    world.laws.well.insert(name, ends);
                    world.happen(ends, move |world, now| {
                        world.note(now, client, || "goes on".to_owned());
                        world.thaw(now, client);
                    });
                }
                Fault::Crash if crashes > 0 => {
                    crashes -= 1;
                    world.links[client].freezer.kill();
                    let name = world.links[client].name.clone();
                    world.laws.well.remove(&name);
                    world.links[client].hears = false;
                    let noticed = now + world.rng.u64(0..2000);
                    world.happen(noticed, move |world, _| {
                        let channel = world.links[client].channel.clone();
                        world.store.unsubscribe(&channel);
                    });
                }
                Fault::Flush => {
                    world.store.flush_all();
                    world.laws.flushed();
                    for key in keys(plan) {
                        world.laws.excuse(&key, now, now + excuse());
                    }
                    world.look(now);
                }
                Fault::Delete => {
                    let lock = &keys(plan)[world.rng.usize(0..plan.locks)];
                    world.laws.excuse(lock, now, now + excuse());
                    world.delete(now, lock);
                }
                Fault::Clock => {
                    let step = world.rng.i64(-1500..1500);
                    world.stepped += step * 1000;
                    // By its step later, and as late as a copy may be.
                    world.laws.stepped_back = now + 1500 + 1500;
                    for key in keys(plan) {
                        // A hold's end by the server has moved, for as long as it may last.
                        let lease = LEASE.as_millis() as u64;
                        world.laws.excuse(&key, now, now + lease + excuse() + 1500);
                    }
                }
                _ => {}
            }
        });
    }
}
