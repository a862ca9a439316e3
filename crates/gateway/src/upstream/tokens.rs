//! A server that is asked for a token: one request, one small answer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Uri, header, response};
use hyper::body::Body as _;

use super::body::RequestBody;
use super::connect::{Connector, Origin};
use super::pool::Pool;
use crate::settings::{Proxies, Trust};

/// The longest time to a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const LARGEST: usize = 64 << 10;

/// A server that is asked for a token. Redirects are never followed: they would carry a secret elsewhere.
pub(crate) struct TokenServer {
    origin: Origin,
    target: PathAndQuery,
    pool: Arc<Pool>,
}

impl TokenServer {
    /// The server at this address, known by an authority that the system trusts.
    pub(crate) fn new(address: &Uri, proxies: &Proxies) -> Result<Self, String> {
        let origin = Origin::of(address).ok_or("its address is not http or https")?;
        let connector = Connector::new(origin.clone(), CONNECT, &Trust::System, proxies)
            .map_err(|problem| problem.to_string())?;
        let target = address.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        Ok(Self { origin, target, pool: Arc::new(Pool::new(connector)) })
    }

    /// The whole answer to a request. Whoever asks says how long it may take.
    pub(crate) async fn ask(
        &self,
        (method, mut headers, body): (Method, HeaderMap, Bytes),
    ) -> Result<(response::Parts, Bytes), String> {
        headers.insert(header::HOST, self.origin.host.clone());
        headers.insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
        let mut request = Request::new(RequestBody::Whole(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from(self.target.clone());
        *request.headers_mut() = headers;
        let sent = Arc::clone(&self.pool).send(request).await;
        let (head, mut body) = sent.map_err(|error| error.to_string())?.into_parts();
        let mut whole = BytesMut::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|_| "the connection broke in the middle of it")?;
            whole.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            if whole.len() > LARGEST {
                return Err(format!("it has more than {LARGEST} bytes"));
            }
        }
        Ok((head, whole.freeze()))
    }
}
