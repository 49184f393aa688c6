use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use lockyard::Semaphore;
use lockyard_memory::MemoryServer;
use lockyard_tower::{ConcurrencyLimitLayer, ResponseBody};
use tokio::time::Duration;
use tower::layer::Layer;
use tower::service_fn;

use crate::support::{Frames, Stream, get, hello, ms, send, stream, until_available};

/// A service that streams, limited to one response at once, and where its frames come from.
async fn streaming() -> (Semaphore, Frames, Response<ResponseBody<Stream>>) {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let (frames, body) = stream();
    let body = Arc::new(Mutex::new(Some(body)));
    let service = limit(&semaphore).layer(service_fn(move |_| {
        let body = body.lock().unwrap().take().expect("one request");
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    }));
    let response = send(&service, get("/")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    (semaphore, frames, response)
}

fn limit(semaphore: &Semaphore) -> ConcurrencyLimitLayer {
    ConcurrencyLimitLayer::new(semaphore.clone())
}

async fn assert_held(semaphore: &Semaphore) {
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 0);
}

// Red when the permit ends with the head.
#[tokio::test(start_paused = true)]
async fn a_permit_lives_until_the_body_has_ended() {
    let (semaphore, frames, mut response) = streaming().await;
    assert_held(&semaphore).await;
    frames.send(Ok(Bytes::from_static(b"some"))).unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "some");
    assert_held(&semaphore).await;
    drop(frames);
    assert!(response.body_mut().frame().await.is_none());
    // The body is still there.
    until_available(&semaphore, 1).await;
    assert!(response.body_mut().frame().await.is_none());
}

// Red when only the end counts.
#[tokio::test(start_paused = true)]
async fn a_permit_ends_with_a_body_that_fails() {
    let (semaphore, frames, mut response) = streaming().await;
    frames.send(Err("broken")).unwrap();
    let error = response.body_mut().frame().await.unwrap().unwrap_err();
    assert_eq!(error, "broken");
    until_available(&semaphore, 1).await;
    drop(response);
}

#[tokio::test(start_paused = true)]
async fn a_permit_ends_with_a_body_that_is_dropped() {
    let (semaphore, frames, response) = streaming().await;
    let (_, body) = response.into_parts();
    assert_held(&semaphore).await;
    drop(body);
    until_available(&semaphore, 1).await;
    assert!(frames.is_closed());
}

// Red when only a poll that finds the end counts: nobody polls a body that says it has ended.
#[tokio::test(start_paused = true)]
async fn a_permit_ends_with_the_last_frame_of_a_body_that_knows_it() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let service = limit(&semaphore).layer(service_fn(hello));
    let mut response = send(&service, get("/")).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), Some(5));
    assert_held(&semaphore).await;
    response.body_mut().frame().await.unwrap().unwrap();
    assert!(response.body().is_end_stream());
    until_available(&semaphore, 1).await;
    drop(response);
}

// Red when a body without frames keeps its permit.
#[tokio::test(start_paused = true)]
async fn an_empty_body_keeps_no_permit() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let service = limit(&semaphore).layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    }));
    let response = send(&service, get("/")).await.unwrap();
    until_available(&semaphore, 1).await;
    drop(response);
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_refusal_says_how_long_it_is_and_ends() {
    let client = MemoryServer::new().client();
    let semaphore = client.semaphore("x", 1);
    let _held = semaphore.acquire().await.unwrap();
    let layer = ConcurrencyLimitLayer::new(semaphore).wait(ms(0));
    let mut response = send(&layer.layer(service_fn(hello)), get("/"))
        .await
        .unwrap();
    let length = response.body().size_hint().exact().unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap().len() as u64, length);
    assert!(response.body().is_end_stream());
    assert!(response.body_mut().frame().await.is_none());
}
