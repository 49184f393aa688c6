//! One run, from the first task to the last key.

use std::sync::Arc;
use std::time::Duration;

use lockyard::{Client, ClientOptions, Lease};
use lockyard_core::__private::{Event, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::freeze::Freezer;
use crate::law::{Breach, Law};
use crate::link::Wire;
use crate::mutants::Mutant;
use crate::network::Link;
use crate::plan::{LEASE, OPERATION_TIMEOUT, Plan, WAITER_TIMEOUT};
use crate::tasks::Task;
use crate::trace::Line;
use crate::trouble::trouble;
use crate::world::World;

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
