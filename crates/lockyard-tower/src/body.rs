//! The body of a response: the service's, with what lives as long as it, or a layer's own text.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use lockyard::Owner;
use pin_project_lite::pin_project;

use crate::concurrency::Held;
use crate::owner::within;

pin_project! {
    /// The body of a response that came through one of the layers.
    ///
    /// It keeps the permit of its request until it has ended, failed or been dropped, and is polled in the scope of its
    /// request's owner.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProjection]
    enum Kind<B> {
        Service { #[pin] body: B, held: Option<Held>, owner: Option<Owner> },
        Text { text: Bytes },
    }
}

impl<B: Body> ResponseBody<B> {
    pub(crate) fn new(body: B, held: Option<Held>, owner: Option<Owner>) -> Self {
        // Nobody polls a body that has ended, and whoever has it may keep it.
        let held = held.filter(|_| !body.is_end_stream());
        Self {
            kind: Kind::Service { body, held, owner },
        }
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn text(text: Bytes) -> Self {
        Self {
            kind: Kind::Text { text },
        }
    }
}

impl<B: Body> Body for ResponseBody<B>
where
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let (mut body, held, owner) = match self.project().kind.project() {
            KindProjection::Service { body, held, owner } => (body, held, owner),
            KindProjection::Text { text } => {
                let text = std::mem::take(text);
                let frame = (!text.is_empty()).then(|| Ok(Frame::data(text.into())));
                return Poll::Ready(frame);
            }
        };
        let polled = within(owner.as_ref(), || body.as_mut().poll_frame(context));
        let over = match &polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => body.is_end_stream(),
            Poll::Ready(None | Some(Err(_))) => true,
        };
        if over {
            *held = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Service { body, .. } => body.is_end_stream(),
            Kind::Text { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Service { body, .. } => body.size_hint(),
            Kind::Text { text } => SizeHint::with_exact(text.len() as u64),
        }
    }
}
