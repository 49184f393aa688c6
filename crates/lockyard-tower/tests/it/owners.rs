use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use lockyard::{Client, Owner};
use lockyard_memory::MemoryServer;
use lockyard_tower::{OwnerClientLayer, OwnerLayer, Refusal};
use tokio::time::Duration;
use tower::layer::Layer;
use tower::{Service, ServiceExt, service_fn};

use crate::support::{Data, get, ms, send, stream, text};

const HEADER: &str = "lockyard-owner";

fn with(value: impl AsRef<[u8]>) -> Request<()> {
    let mut request = get("/");
    let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
    request.headers_mut().append(HEADER, value);
    request
}

/// A service that tells in whose scope it is, and which headers it sees.
async fn who(request: Request<()>) -> Result<Response<Data>, Infallible> {
    assert!(!request.headers().contains_key(HEADER));
    let owner = Owner::current().map(|owner| owner.to_string());
    Ok(Response::new(Data::from(owner.unwrap_or_default())))
}

fn owner() -> Owner {
    MemoryServer::new().client().owner()
}

#[tokio::test(start_paused = true)]
async fn a_call_runs_in_the_scope_of_its_callers_owner() {
    let service = OwnerLayer::new(|_| true).layer(service_fn(who));
    let (one, two) = (owner().to_string(), owner().to_string());
    assert_eq!(text(send(&service, with(&one)).await.unwrap()).await, one);
    assert_eq!(text(send(&service, with(&two)).await.unwrap()).await, two);
    assert_eq!(text(send(&service, get("/")).await.unwrap()).await, "");
    // Two at once do not see each other's.
    let (first, second) = tokio::join!(send(&service, with(&one)), send(&service, with(&two)));
    assert_eq!(text(first.unwrap()).await, one);
    assert_eq!(text(second.unwrap()).await, two);
    assert!(Owner::current().is_none());
}

// Red when only the future is in the scope, and when only the body is.
#[tokio::test(start_paused = true)]
async fn call_future_and_body_are_in_the_scope() {
    let seen: Arc<Mutex<Vec<Option<Owner>>>> = Arc::default();
    let note = seen.clone();
    let service = OwnerLayer::new(|_| true).layer(service_fn(move |_: Request<()>| {
        note.lock().unwrap().push(Owner::current());
        let note = note.clone();
        async move {
            tokio::task::yield_now().await;
            note.lock().unwrap().push(Owner::current());
            let (frames, body) = stream();
            frames.send(Ok("some".into())).unwrap();
            let body = body.map_frame(move |frame| {
                note.lock().unwrap().push(Owner::current());
                frame
            });
            Ok::<_, Infallible>(Response::new(body))
        }
    }));
    let owner = owner();
    let response = send(&service, with(owner.to_string())).await.unwrap();
    assert_eq!(text(response).await, "some");
    assert_eq!(
        *seen.lock().unwrap(),
        [Some(owner.clone()), Some(owner.clone()), Some(owner)]
    );
}

/// Requests that name an owner as they may not, with the answer.
fn refused() -> Vec<(Request<()>, StatusCode, &'static str)> {
    let good = owner().to_string();
    let (uuid, _) = good.split_once(':').unwrap();
    let mut cases = Vec::new();
    for text in [
        "",
        " ",
        ":",
        "7",
        "x:7",
        uuid,
        &format!("{uuid}:"),
        &format!("{uuid}:-1"),
        &format!("{uuid}:+1"),
        &format!("{uuid}:01"),
        &format!("{uuid}:99999999999999999999"),
        &format!(" {good}"),
        &format!("{good} "),
        &format!("{}:1", uuid.to_uppercase()),
        &format!("{}:1", uuid.replace('-', "")),
        &format!("{good},{good}"),
    ] {
        let expected = match text.len() {
            0..=57 => "MalformedOwner",
            _ => "OversizedOwner",
        };
        cases.push((with(text), StatusCode::BAD_REQUEST, expected));
    }
    cases.push((with(b"\xff\xfe"), StatusCode::BAD_REQUEST, "MalformedOwner"));
    cases.push((
        with("a".repeat(57)),
        StatusCode::BAD_REQUEST,
        "MalformedOwner",
    ));
    cases.push((
        with("a".repeat(100_000)),
        StatusCode::BAD_REQUEST,
        "OversizedOwner",
    ));
    let mut twice = with(&good);
    twice
        .headers_mut()
        .append(HEADER, HeaderValue::from_str(&good).unwrap());
    cases.push((twice, StatusCode::BAD_REQUEST, "SeveralOwners"));
    let mut stranger = with(&good);
    stranger
        .headers_mut()
        .insert("x-stranger", HeaderValue::from_static("yes"));
    cases.push((stranger, StatusCode::FORBIDDEN, "UntrustedOwner"));
    let mut stranger = with("nonsense");
    stranger
        .headers_mut()
        .insert("x-stranger", HeaderValue::from_static("yes"));
    cases.push((stranger, StatusCode::FORBIDDEN, "UntrustedOwner"));
    cases
}

fn trust(request: &Parts) -> bool {
    !request.headers.contains_key("x-stranger")
}

// Red when the service is called all the same.
#[tokio::test(start_paused = true)]
async fn a_header_that_is_no_owner_or_comes_from_a_stranger_is_refused() {
    let fails = service_fn(async |_: Request<()>| Err::<Response<Data>, _>("it came through"));
    let service = OwnerLayer::new(trust).layer(fails);
    for (request, status, name) in refused() {
        let headers = format!("{:?}", request.headers());
        let response = send(&service, request).await.unwrap();
        assert_eq!(response.status(), status, "{headers}");
        let refusal = response.extensions().get::<Refusal>().unwrap();
        assert_eq!(format!("{refusal:?}"), name, "{headers}");
        assert!(!text(response).await.is_empty());
    }
    // Whoever names no owner need not be trusted.
    let service = OwnerLayer::new(|_| false).layer(service_fn(who));
    assert_eq!(
        send(&service, get("/")).await.unwrap().status(),
        StatusCode::OK
    );
}

/// A client of HTTP that tells which headers went out.
async fn echo(request: Request<()>) -> Result<Response<Data>, Infallible> {
    let values = request.headers().get_all(HEADER).into_iter();
    let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
    let sensitive = request
        .headers()
        .get(HEADER)
        .is_none_or(HeaderValue::is_sensitive);
    assert!(sensitive, "it can be printed");
    Ok(Response::new(Data::from(values.join("|"))))
}

// Red when a header passes through, when it is sent outside a scope, and when anybody is told.
#[tokio::test(start_paused = true)]
async fn the_owner_of_the_scope_goes_out_to_whom_it_may_and_no_other() {
    let layer = OwnerClientLayer::new(|request| request.uri.path() != "/stranger");
    let client = layer.layer(service_fn(echo));
    let (owner, other) = (owner(), owner().to_string());
    let sent = |request| async { text(send(&client, request).await.unwrap()).await };
    assert_eq!(sent(get("/")).await, "");
    assert_eq!(sent(with(&other)).await, "");
    owner
        .scope(async {
            assert_eq!(sent(get("/")).await, owner.to_string());
            assert_eq!(sent(with(&other)).await, owner.to_string());
            assert_eq!(sent(get("/stranger")).await, "");
            let mut request = with(&other);
            *request.uri_mut() = "/stranger".parse().unwrap();
            assert_eq!(sent(request).await, "");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_header_can_have_another_name() {
    let name = HeaderName::from_static("x-owner");
    let server = OwnerLayer::new(|_| true).header(name.clone());
    let client = OwnerClientLayer::new(|_| true).header(name);
    let service = client.layer(server.layer(service_fn(async |request: Request<()>| {
        assert!(
            request.headers().contains_key(HEADER) && !request.headers().contains_key("x-owner")
        );
        let owner = Owner::current().map(|owner| owner.to_string());
        Ok::<_, Infallible>(Response::new(Data::from(owner.unwrap_or_default())))
    })));
    let owner = owner();
    let other = self::owner().to_string();
    let response = owner.scope(send(&service, with(&other))).await.unwrap();
    assert_eq!(text(response).await, owner.to_string());
}

/// A service that takes the order, as its caller or for itself, and tells whether it got it.
fn reserve(
    client: Client,
) -> impl Service<Request<()>, Response = Response<Data>, Error = Infallible, Future: Send> + Clone
{
    service_fn(move |_: Request<()>| {
        let order = client.lock("order:42");
        async move {
            let guard = order.try_acquire_for(ms(200)).await.unwrap();
            let answer = if guard.is_some() { "in" } else { "out" };
            Ok(Response::new(Data::from(answer)))
        }
    })
}

// Red when either side of the header is missing.
#[tokio::test(start_paused = true)]
async fn a_called_service_enters_what_its_caller_holds_and_a_stranger_does_not() {
    let server = MemoryServer::new();
    let (a, b, c) = (server.client(), server.client(), server.client());
    let service_b = OwnerLayer::new(|_| true).layer(reserve(b));
    let call_b = OwnerClientLayer::new(|_| true).layer(service_b.clone());
    let order = a.lock("order:42");
    let owner = a.owner();
    let answer = owner
        .scope(async {
            let guard = order.acquire().await.unwrap();
            let inside = text(call_b.clone().oneshot(get("/")).await.unwrap()).await;
            // The same call without the header, in a task of its own as in a server, and a third process.
            let direct = tokio::spawn(service_b.clone().oneshot(get("/")));
            assert_eq!(text(direct.await.unwrap().unwrap()).await, "out");
            let third = tokio::spawn(reserve(c).oneshot(get("/")));
            assert_eq!(text(third.await.unwrap().unwrap()).await, "out");
            guard.release().await.unwrap();
            inside
        })
        .await;
    assert_eq!(answer, "in");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!order.is_locked().await.unwrap());
}
