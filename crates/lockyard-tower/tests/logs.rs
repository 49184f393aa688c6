//! What is logged; alone in its process, for others would register the events while nobody listens.

#![expect(clippy::unwrap_used, reason = "what must not fail in a test fails it")]

use std::convert::Infallible;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use lockyard::{Client, ClientOptions};
use lockyard_testkit::Server;
use lockyard_tower::{ConcurrencyLimitLayer, OwnerLayer};
use tokio::time::Duration;
use tower::layer::Layer;
use tower::{ServiceExt, service_fn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects what the layers log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("lockyard_tower")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn hello(_: Request<()>) -> Result<Response<Empty<bytes::Bytes>>, Infallible> {
    Ok(Response::new(Empty::new()))
}

impl Log {
    /// What was logged since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

// Red when a refused owner is not logged, or with what was sent; and when an outage is logged with each request.
#[tokio::test]
async fn refused_owners_and_outages_are_logged_once_each_and_no_owner_is() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();

    let service = OwnerLayer::new(|_| false).layer(service_fn(hello));
    let owner = "67e55044-10b1-426f-9247-bb680e5fe0c8:42";
    let request = Request::get("/").header("lockyard-owner", owner);
    service.oneshot(request.body(()).unwrap()).await.unwrap();
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN message=refused header=lockyard-owner"));
    assert!(!lines[0].contains("67e55044"), "{lines:?}");

    let service = OwnerLayer::new(|_| true).layer(service_fn(hello));
    for text in [&b"secret\xff"[..], b"secret", &b"secret".repeat(100)] {
        let value = HeaderValue::from_bytes(text).unwrap();
        let request = Request::get("/").header("lockyard-owner", value);
        let service = service.clone();
        service.oneshot(request.body(()).unwrap()).await.unwrap();
        let lines = log.take();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("WARN") && !lines[0].contains("secret"),
            "{lines:?}"
        );
    }
    let request = Request::get("/").header("lockyard-owner", owner);
    service.oneshot(request.body(()).unwrap()).await.unwrap();
    assert!(log.take().is_empty());

    let server = Server::start().unwrap();
    let options = ClientOptions::from_url(&server.url()).unwrap();
    let client = Client::with_options(options).await.unwrap();
    let layer = ConcurrencyLimitLayer::new(client.semaphore("x", 1));
    let layer = layer.wait(Duration::from_millis(300)).pause(Duration::MAX);
    let service = layer.layer(service_fn(hello));
    server.kill();
    for _ in 0..5 {
        let request = Request::get("/").body(()).unwrap();
        service.clone().oneshot(request).await.unwrap();
    }
    let lines = log.take();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("WARN message=the limit cannot be asked name=\"x\""),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("unreachable") && lines[0].contains("when_away=Closed"),
        "{lines:?}"
    );
}
