use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use lockyard_memory::MemoryServer;
use lockyard_tower::ConcurrencyLimitLayer;
use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};
use tower::ServiceExt;
use tower::layer::Layer;
use tower::service_fn;

use crate::support::{Frames, get, ms, stream, until_available};

#[derive(Clone, Debug)]
enum Step {
    Arrives,
    /// Somebody hangs up, wherever it is.
    HangsUp(prop::sample::Index),
    /// The body of one that runs ends.
    Ends(prop::sample::Index),
    /// The body of one that runs fails.
    Fails(prop::sample::Index),
}

/// What is to be true: whoever comes is let in, in order, while there is room.
#[derive(Default)]
struct Model {
    running: Vec<usize>,
    waiting: VecDeque<usize>,
}

impl Model {
    fn settle(&mut self, limit: usize) {
        while self.running.len() < limit {
            let Some(next) = self.waiting.pop_front() else {
                return;
            };
            self.running.push(next);
        }
    }

    fn remove(&mut self, request: usize) {
        self.running.retain(|other| *other != request);
        self.waiting.retain(|other| *other != request);
    }

    fn sorted(&self) -> Vec<usize> {
        let mut running = self.running.clone();
        running.sort_unstable();
        running
    }
}

/// Who is in the service, with the frames of its body.
type Inside = Arc<Mutex<Vec<(usize, Frames)>>>;

fn arrive(layer: &ConcurrencyLimitLayer, inside: &Inside, number: usize) -> JoinHandle<()> {
    let inside = inside.clone();
    let call = service_fn(move |_: Request<()>| {
        let (frames, body) = stream();
        inside.lock().unwrap().push((number, frames));
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let service = layer.layer(call);
    tokio::spawn(async move {
        let response = service.oneshot(get("/")).await.unwrap();
        // It may fail, as it was told.
        let _ = response.into_body().collect().await;
    })
}

fn running(inside: &Inside) -> Vec<usize> {
    let mut inside = inside.lock().unwrap();
    inside.retain(|(_, frames)| !frames.is_closed());
    let mut running: Vec<usize> = inside.iter().map(|(number, _)| *number).collect();
    running.sort_unstable();
    running
}

fn take(inside: &Inside, number: usize) -> Frames {
    let mut inside = inside.lock().unwrap();
    let place = inside
        .iter()
        .position(|(other, _)| *other == number)
        .unwrap();
    inside.remove(place).1
}

async fn check(limit: u32, steps: Vec<Step>) {
    let server = MemoryServer::new();
    let clients = [server.client(), server.client()];
    let layers = clients
        .each_ref()
        .map(|client| ConcurrencyLimitLayer::new(client.semaphore("x", limit)).wait(Duration::MAX));
    let inside = Inside::default();
    let (mut model, mut requests) = (Model::default(), Vec::new());
    for step in steps {
        match step {
            Step::Arrives => {
                let number = requests.len();
                requests.push(arrive(&layers[number % 2], &inside, number));
                model.waiting.push_back(number);
            }
            Step::HangsUp(who) => {
                let all = [model.sorted(), model.waiting.iter().copied().collect()].concat();
                if all.is_empty() {
                    continue;
                }
                let number = *who.get(&all);
                requests[number].abort();
                model.remove(number);
            }
            Step::Ends(_) | Step::Fails(_) if model.running.is_empty() => continue,
            Step::Ends(who) => {
                let number = *who.get(&model.sorted());
                drop(take(&inside, number));
                model.remove(number);
            }
            Step::Fails(who) => {
                let number = *who.get(&model.sorted());
                take(&inside, number).send(Err("broken")).unwrap();
                model.remove(number);
            }
        }
        model.settle(limit as usize);
        sleep(ms(50)).await;
        assert_eq!(running(&inside), model.sorted());
    }
    requests.iter().for_each(|request| request.abort());
    until_available(&clients[0].semaphore("x", limit), limit).await;
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Arrives),
        1 => any::<prop::sample::Index>().prop_map(Step::HangsUp),
        2 => any::<prop::sample::Index>().prop_map(Step::Ends),
        1 => any::<prop::sample::Index>().prop_map(Step::Fails),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Red when the bound is one more, when a place is not given up, and when a permit ends with the head.
    #[test]
    fn requests_run_as_in_the_model(
        limit in 1u32..4, steps in prop::collection::vec(step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check(limit, steps));
    }
}
