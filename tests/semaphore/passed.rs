use std::time::Duration;

use lockyard::{Error, HoldState, Semaphore};
use lockyard_memory::MemoryServer;
use lockyard_testkit::{Direction, Proxy, Server, eventually_async};
use tokio::time::timeout;

use super::{line_up, until_waiting, wants};
use crate::support::{SOON, begin, ms, patient, soon};

/// Whether, with the server out of reach, a task gets the permit that another has had for a moment.
async fn is_passed(api: &Semaphore, proxy: &Proxy) -> bool {
    let held = api.acquire().await.unwrap();
    let [first, mut second] = line_up([(api, 1); 2]).await;
    held.release().await.unwrap();
    let permit = soon(first).await.unwrap().unwrap();
    proxy.hold(Direction::Both);
    let release = tokio::spawn(permit.release());
    let passed = timeout(ms(100), &mut second).await;
    proxy.let_go();
    soon(release).await.unwrap().unwrap();
    let is_passed = passed.is_ok();
    let permit = match passed {
        Ok(permit) => permit,
        Err(_) => soon(second).await,
    };
    permit.unwrap().unwrap().release().await.unwrap();
    is_passed
}

// Red when no permit is passed on, and when the place of whoever was passed one stays.
#[tokio::test]
async fn a_permit_goes_to_the_next_task_without_the_server() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let client = patient(&proxy.url()).await;
    let api = client.semaphore("api", 1);
    // After 10 ms it goes back to the server, and a busy machine may take longer than that.
    let mut tries = 0;
    while !is_passed(&api, &proxy).await {
        tries += 1;
        assert!(tries < 50, "no permit is passed on");
    }
    eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
}

// Red when a permit is passed to anybody.
#[tokio::test(start_paused = true)]
async fn a_task_of_another_client_is_not_overtaken() {
    let server = MemoryServer::new();
    let [api, other] = [(); 2].map(|()| server.client().semaphore("api", 1));
    let held = api.acquire().await.unwrap();
    let mut waiting = Vec::from(line_up([(&api, 1), (&other, 1), (&api, 1)]).await);
    held.release().await.unwrap();
    for _ in 0..3 {
        let permit = soon(waiting.remove(0)).await.unwrap().unwrap();
        assert!(waiting.iter().all(|task| !task.is_finished()));
        permit.release().await.unwrap();
    }
}

// Red when the permits of the two are not compared.
#[tokio::test(start_paused = true)]
async fn a_bigger_request_of_the_same_client_is_not_overtaken() {
    let api = MemoryServer::new().client().semaphore("api", 3);
    let (one, two) = (
        api.acquire().await.unwrap(),
        api.acquire_many(2).await.unwrap(),
    );
    let [first, big, last] = line_up([(&api, 1), (&api, 3), (&api, 1)]).await;
    one.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    first.release().await.unwrap();
    assert!(!big.is_finished() && !last.is_finished());
    two.release().await.unwrap();
    let big = soon(big).await.unwrap().unwrap();
    assert!(!last.is_finished());
    big.release().await.unwrap();
    let last = soon(last).await.unwrap().unwrap();
    last.release().await.unwrap();
    assert_eq!(api.available_permits().await.unwrap(), 3);
}

// Red when a dropped task keeps what it was passed (core's leaving.rs, `abandon`).
#[tokio::test]
async fn a_task_dropped_when_it_is_passed_a_permit_loses_nothing() {
    let server = Server::start().unwrap();
    let client = patient(&server.url()).await;
    let api = client.semaphore("api", 1);
    for (others, dropped) in [(1, 1), (3, 1), (3, 2), (3, 3)] {
        let held = api.acquire().await.unwrap();
        let first = wants(&api, 1);
        until_waiting(&api, 1).await;
        let mut futures = Vec::new();
        for number in 0..others {
            let waiting = api.clone();
            futures.push(Box::pin(async move { waiting.acquire().await }));
            let last = futures.last_mut().unwrap();
            begin(last.as_mut()).await;
            until_waiting(&api, number + 2).await;
            // Told of its place, it waits.
            begin(last.as_mut()).await;
        }
        held.release().await.unwrap();
        let permit = soon(first).await.unwrap().unwrap();
        permit.release().await.unwrap();
        futures.drain(..dropped);
        for future in futures {
            soon(future).await.unwrap().release().await.unwrap();
        }
        eventually_async(SOON, async || server.keys("*").unwrap().is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_reaches_the_task_that_was_passed_the_permit() {
    let server = MemoryServer::new();
    let api = server.client().semaphore("api", 1);
    let held = api.acquire().await.unwrap();
    let [first, second, third] = line_up([(&api, 1); 3]).await;
    held.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    first.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    server.flush_all();
    soon(second.lost()).await;
    let third = soon(third).await.unwrap().unwrap();
    assert_eq!(
        (second.state(), third.state()),
        (HoldState::Lost, HoldState::Held)
    );
    assert!(matches!(
        second.release().await,
        Err(Error::LeaseLost { .. })
    ));
    third.release().await.unwrap();
}

// Red when a permit is passed on without end.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_lowered_counts_for_tasks_of_one_client_10_ms_later() {
    let api = MemoryServer::new().client().semaphore("api", 2);
    let held = api.acquire_many(2).await.unwrap();
    let [first, second, third] = line_up([(&api, 1); 3]).await;
    held.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    let second = soon(second).await.unwrap().unwrap();
    api.set_limit(1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    first.release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!third.is_finished());
    second.release().await.unwrap();
    let third = soon(third).await.unwrap().unwrap();
    third.release().await.unwrap();
}
