//! The body of a request: read, decoded, with what its address says in it.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use hyper::body::{Body as _, Incoming};

use super::ProxyRequest;
use crate::brings::Brings;
use crate::cloud::{Named, azure};
use crate::compression::Coding;
use crate::error::Failure;
use crate::multipart::{Form, is_in_parts};
use crate::operations::{brings, name_of};
use crate::server::Shared;
use crate::upstream::{BodyError, ClientBody, Pace};

/// A body may take this many times the patience for one piece of it, whatever its size.
pub(in crate::server) const PATIENCE_FOR_WHOLE: u32 = 10;

/// A request's body, as it goes to the provider.
pub(in crate::server) enum Sending {
    /// In memory, as the client sent it.
    Whole(Bytes),
    /// In memory, as the client sent it: compressed, or with a part of it left to its address.
    Partial {
        /// What the client sent.
        sent: Bytes,
        /// The same decompressed, with what the address says in it: so it is read.
        whole: Bytes,
    },
    /// In memory, from the exchange.
    Replaced(Bytes),
    /// Straight from the client.
    Stream(Box<ClientBody>),
}

impl Sending {
    /// Whether these bytes are the body itself, and not a decoded copy of it.
    pub(super) fn is(&self, bytes: &Bytes) -> bool {
        match self {
            Self::Whole(body) | Self::Replaced(body) | Self::Partial { whole: body, .. } => {
                body.as_ptr() == bytes.as_ptr()
            }
            Self::Stream(_) => bytes.is_empty(),
        }
    }
}

impl ProxyRequest<'_> {
    /// The whole body, as it was sent.
    pub(super) async fn read(
        &self,
        incoming: Incoming,
        grown: impl FnMut(usize) -> Result<(), Failure>,
    ) -> Result<Bytes, Failure> {
        let limit = self.shared.limits.body_bytes;
        if incoming.size_hint().lower() > limit as u64 {
            return Err(Failure::TooLarge(limit));
        }
        collected(self.body(incoming), grown).await
    }

    /// The body, where it is one that the operation has, or where that is nobody's concern: no hook decides and the client pays.
    ///
    /// # Errors
    /// If the operation has no such body, or the body can't be read.
    pub(super) async fn declared(
        &self,
        sending: Sending,
        is_paid: bool,
        grown: impl FnMut(usize) -> Result<(), Failure>,
    ) -> Result<Sending, Failure> {
        let (method, path) = (&self.head.method, self.caller.target.path());
        let brings = brings(self.permission, method, path);
        if matches!(brings, Brings::Read) || !(is_paid || self.shared.interceptor.decides()) {
            return Ok(sending);
        }
        let is_in_parts = is_in_parts(&self.head.headers);
        let sending = match sending {
            // A file is large, and its type says enough.
            Sending::Stream(body) if !(is_in_parts && matches!(brings, Brings::Parts)) => {
                Sending::Whole(collected(*body, grown).await?)
            }
            sending => sending,
        };
        match brings.refuses(&self.decoded(&sending)?, is_in_parts) {
            None => Ok(sending),
            Some(why) => {
                let name = name_of(method, path);
                Err(Failure::Message(format!("`{name}` does not pass as it is: {why}")))
            }
        }
    }

    /// The body as it comes, bounded.
    pub(super) fn body(&self, incoming: Incoming) -> ClientBody {
        let Shared { limits, timeouts, .. } = self.shared.as_ref();
        let whole = timeouts.body.saturating_mul(PATIENCE_FOR_WHOLE);
        let pace = Pace { piece: timeouts.body, whole, rate: limits.body_rate };
        ClientBody::new(incoming, limits.body_bytes, pace)
    }

    /// The body with what the address says in place of it: what stands in the body then is nobody's model.
    pub(super) fn with_address(&self, sending: Sending) -> Result<Sending, Failure> {
        let deployment = azure::deployment(self.caller.target.path());
        if self.spoken.is_none() && deployment.is_none() {
            return Ok(sending);
        }
        let body = self.decoded(&sending)?;
        let named = match (&self.spoken, deployment) {
            (Some(spoken), _) => spoken.whole(&body),
            (None, Some(deployment)) if is_in_parts(&self.head.headers) => {
                with_model(&self.head.headers, body.clone(), &deployment)
            }
            (None, Some(deployment)) => azure::with_model(&body, &deployment),
            (None, None) => return Ok(sending),
        };
        Ok(match (named, sending) {
            (Named::Added(whole), Sending::Whole(sent) | Sending::Partial { sent, .. }) => {
                Sending::Partial { sent, whole }
            }
            // What came compressed leaves as it was judged.
            (Named::Added(whole), Sending::Replaced(_)) | (Named::Changed(whole), _) => {
                Sending::Replaced(whole)
            }
            // Nobody could say of it which model is asked.
            (Named::Unreadable, _) if !body.trim_ascii().is_empty() => return Err(Failure::Unclear),
            (Named::Added(_) | Named::Same | Named::Unreadable, sending) => sending,
        })
    }

    /// The body without its compression, if it has one and somebody reads it.
    pub(super) async fn decompressed(
        &self,
        sending: &Sending,
        is_read: bool,
    ) -> Result<Option<Bytes>, Failure> {
        let (headers, path) = (&self.head.headers, self.caller.target.path());
        let is_declared = !matches!(brings(self.permission, &self.head.method, path), Brings::Read);
        let is_read = is_read || self.spoken.is_some() || azure::deployment(path).is_some() || is_declared;
        let Sending::Whole(bytes) = sending else { return Ok(None) };
        let coding = Coding::of(headers).map_err(Failure::Undecodable);
        let Some(coding) = (if is_read && !bytes.is_empty() { coding? } else { None }) else {
            return Ok(None);
        };
        let (bytes, limit) = (bytes.clone(), self.shared.limits.body_bytes as u64);
        let decoded = self.shared.judging.aside(move || coding.decode(&bytes, limit)).await;
        decoded.map(Some).map_err(Failure::Undecodable)
    }

    /// The body without its compression.
    pub(super) fn decoded(&self, sending: &Sending) -> Result<Bytes, Failure> {
        let bytes = match sending {
            Sending::Whole(bytes) => bytes,
            Sending::Replaced(bytes) | Sending::Partial { whole: bytes, .. } => return Ok(bytes.clone()),
            Sending::Stream(_) => return Ok(Bytes::new()),
        };
        match Coding::of(&self.head.headers).map_err(Failure::Undecodable)? {
            None => Ok(bytes.clone()),
            Some(coding) => {
                coding.decode(bytes, self.shared.limits.body_bytes as u64).map_err(Failure::Undecodable)
            }
        }
    }

    /// The body in which models are named: of one in parts, what is no file.
    pub(super) fn naming(&self, sending: &Sending) -> Result<Bytes, Failure> {
        let body = self.decoded(sending)?;
        if !is_in_parts(&self.head.headers) || body.is_empty() {
            return Ok(body);
        }
        // What can't be read in one way names nobody knows what.
        let form = Form::read(&self.head.headers, body);
        Ok(form.map_or_else(|_| Bytes::from_static(b"?"), |form| form.fields().to_string().into()))
    }
}

/// A body in parts whose model is this one, where it names any.
fn with_model(headers: &HeaderMap, body: Bytes, model: &str) -> Named {
    let Ok(form) = Form::read(headers, body) else { return Named::Unreadable };
    let Some(position) = form.parts().iter().position(|part| part.name == "model") else {
        return Named::Same;
    };
    if form.parts().get(position).and_then(|part| form.text(part)) == Some(model) {
        return Named::Same;
    }
    let new = form.with(&[(position, Bytes::copy_from_slice(model.as_bytes()))]);
    new.map_or(Named::Unreadable, Named::Changed)
}

/// The whole of a body.
async fn collected(
    mut body: ClientBody,
    mut grown: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Bytes, Failure> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(bytes) = next_data(&mut body).await? {
        grown(bytes.len())?;
        if first.is_empty() {
            first = bytes;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&bytes);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

async fn next_data(body: &mut ClientBody) -> Result<Option<Bytes>, BodyError> {
    loop {
        let mut pinned = std::pin::Pin::new(&mut *body);
        match std::future::poll_fn(|cx| pinned.as_mut().poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(error)) => return Err(error),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}
