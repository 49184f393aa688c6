//! One run, from the first task to the last key.

use std::sync::Arc;
use std::time::Duration;

use lockyard::{Client, ClientOptions, Lease};
use lockyard_core::__private::{Event, Lane, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::faults::Fault;
use crate::freeze::Freezer;
use crate::law::{Breach, Law};
use crate::laws::{excuse, key};
use crate::link::Wire;
use crate::mutants::Mutant;
use crate::plan::{LEASE, OPERATION_TIMEOUT, Plan, WAITER_TIMEOUT};
use crate::tasks::Task;
use crate::trace::Line;
use crate::world::{Link, World};

/// How a run has ended.
#[derive(Debug)]
pub struct Outcome {
    /// How many steps it took: commands, messages, and what tasks did.
    pub steps: u64,
    /// What was broken first.
    pub breach: Option<Breach>,
    /// What happened, if that was asked for.
    pub trace: Vec<Line>,
}

/// When all must have ended: nobody waits for longer than what is in the way lasts.
const HORIZON: Duration = Duration::from_secs(600);

/// Runs a plan; `traced` to have its steps.
#[must_use]
pub fn run(plan: &Plan, traced: bool) -> Outcome {
    Mutant::switch(plan.mutant.as_ref());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = runtime.block_on(async {
        let world = World::new(plan, traced);
        let all = async {
            tokio::select! {
                biased;
                () = world.broken.notified() => {}
                () = world.carry() => {}
                () = live(&world, plan) => {}
            }
        };
        all.await;
        let mut inner = world.inner();
        Outcome {
            steps: inner.steps,
            breach: inner.breach.take(),
            trace: inner.take_trace(),
        }
    });
    drop(runtime);
    Mutant::switch(None);
    outcome
}

async fn live(world: &Arc<World>, plan: &Plan) {
    let clients: Vec<Client> = (0..plan.clients)
        .map(|number| client(world, number))
        .collect();
    let clients = Arc::new(clients);
    let traveller = clients[0].owner().to_string();
    let mut tasks = JoinSet::new();
    for client in 0..plan.clients {
        let freezer = world.inner().links[client].freezer.clone();
        for number in 0..plan.tasks {
            let task = Task {
                world: world.clone(),
                clients: clients.clone(),
                client,
                number,
                traveller: traveller.clone(),
            };
            tasks.spawn(freezer.run(task.run(plan.clone())));
        }
    }
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                world.with(|world, _| world.break_law(Law::Answers, format!("{error}")));
            }
        }
    };
    tokio::select! {
        biased;
        ended = timeout(HORIZON, all) => if ended.is_err() {
            let how = format!("{} tasks have not ended", plan.clients * plan.tasks);
            return world.with(|world, _| world.break_law(Law::NoHang, how));
        },
        () = trouble(world, plan) => {}
    }
    end(world, clients).await;
}

/// After the last task the network is well, every client ends, and what is left runs out.
async fn end(world: &Arc<World>, clients: Arc<Vec<Client>>) {
    world.with(|world, now| {
        world.faults.clear();
        for client in 0..world.links.len() {
            world.thaw(now, client);
        }
        world.note(now, "all", || "have ended".to_owned());
    });
    // Clocks that stepped back make leases longer.
    sleep(Duration::from_secs(20)).await;
    for (number, client) in clients.iter().enumerate() {
        let freezer = world.inner().links[number].freezer.clone();
        // It outlasts the rest, unless the shutdown releases it.
        let lock = client.lock(format!("last-{number}"));
        let lock = lock.with_lease(Lease::Fixed(HORIZON));
        let _guard = freezer.run(lock.acquire()).await;
        let ended = timeout(HORIZON, freezer.run(client.shutdown())).await;
        if let Ok(Some(Err(error))) = &ended {
            world.with(|world, _| world.break_law(Law::Answers, format!("shutdown: {error:?}")));
        }
        if ended.is_err() {
            world.with(|world, _| world.break_law(Law::NoHang, "a shutdown".to_owned()));
        }
    }
    drop(clients);
    sleep(LEASE + WAITER_TIMEOUT + OPERATION_TIMEOUT * 2 + Duration::from_secs(10)).await;
    world.with(|world, now| {
        let entries = world.store.dump(world.server_us(now));
        let names = entries
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.key).into_owned());
        let left: Vec<String> = names.filter(|name| !name.contains(".fence:")).collect();
        if !left.is_empty() {
            let breach = Breach {
                law: Law::NothingLeft,
                how: format!("{left:?}"),
            };
            world.breach.get_or_insert(breach);
        }
    });
}

fn client(world: &Arc<World>, number: usize) -> Client {
    let options = ClientOptions::default()
        .lease(Lease::Renewed(LEASE))
        .waiter_timeout(WAITER_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT);
    let wire = Wire {
        world: world.clone(),
        client: number,
    };
    let (events, received) = mpsc::unbounded_channel();
    let (runtime, watchdog) = Runtime::start(Arc::new(wire), received, options).unwrap();
    let freezer = Freezer::default();
    let channel = runtime.inbox();
    world.with(|world, now| {
        world.store.subscribe(channel.as_bytes());
        let _ = events.send(Event::InboxUp);
        let link = Link::new(freezer.clone(), events, channel);
        world.laws.well.insert(link.name.clone(), now);
        world.links.push(link);
    });
    tokio::spawn(freezer.run(watchdog));
    Client::from_runtime(runtime)
}

/// What befalls whole clients and the server, until the tasks have ended.
async fn trouble(world: &Arc<World>, plan: &Plan) {
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
                    for lock in 0..plan.locks {
                        world
                            .laws
                            .excuse(&key(&lock.to_string()), now, now + excuse());
                    }
                    world.look(now);
                }
                Fault::Delete => {
                    let lock = world.rng.usize(0..plan.locks).to_string();
                    world.laws.excuse(&key(&lock), now, now + excuse());
                    world.delete(now, &lock);
                }
                Fault::Clock => {
                    let step = world.rng.i64(-1500..1500);
                    world.stepped += step * 1000;
                    for lock in 0..plan.locks {
                        // A hold's end by the server has moved, for as long as it may last.
                        let lease = LEASE.as_millis() as u64;
                        world.laws.excuse(
                            &key(&lock.to_string()),
                            now,
                            now + lease + excuse() + 1500,
                        );
                    }
                }
                _ => {}
            }
        });
    }
}
