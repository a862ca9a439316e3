//! A request as its provider gets it, whatever body it is sent with.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Uri};
use jiff::Timestamp;

use crate::cloud::{self, Envelope, Plain, Unspoken};
use crate::door::{Refused, is_key, without_key};
use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::head::Credentials;
use crate::models::main_model;
use crate::upstream::{Provider, RequestBody};

/// Who is asked for what, but for the body.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) provider: Arc<Provider>,
    pub(super) endpoint: Endpoint,
    pub(super) method: Method,
    /// The address in the wire of the maker.
    pub(super) target: PathAndQuery,
    /// The headers on their way up.
    pub(super) headers: HeaderMap,
    /// The envelope in which the client speaks.
    pub(super) spoken: Option<Envelope>,
}

impl Asking {
    /// The request with a body that is not the client's, in the wire of the maker.
    pub(super) fn with(&self, body: Bytes) -> Result<Request<RequestBody>, Failure> {
        self.request(RequestBody::Whole(body.clone()), &body, false)
    }

    /// The request with this body. `plain` is the body in the wire of the maker, decoded, where that is known; `as_it_came`
    /// says that the body is the client's, in its envelope.
    pub(super) fn request(
        &self,
        body: RequestBody,
        plain: &Bytes,
        as_it_came: bool,
    ) -> Result<Request<RequestBody>, Failure> {
        let provider = &self.provider;
        let credentials = provider.credentials().map_err(|reason| Failure::NoKey {
            provider: provider.name.as_ref().to_owned(),
            reason: reason.to_string(),
        })?;
        let is_same = cloud::envelope(provider.cloud.as_ref()) == self.spoken;
        if !is_same && matches!(credentials, Credentials::Client) {
            return Err(self.unspoken(Unspoken::Credentials));
        }
        let model = main_model(self.endpoint, self.target.path(), plain);
        let asked = Plain {
            endpoint: self.endpoint,
            target: &self.target,
            body: plain,
            headers: &self.headers,
            model: model.as_deref(),
            spoken: self.spoken,
        };
        let wrapped = provider.wrap(&asked).map_err(|reason| self.unspoken(reason))?;
        let mut headers = self.headers.clone();
        for (name, value) in wrapped.headers {
            headers.remove(&name);
            headers.extend(value.map(|value| (name, value)));
        }
        if !(is_same && matches!(credentials, Credentials::Client)) {
            let of_client: Vec<HeaderName> =
                headers.keys().filter(|name| is_amazons(name)).cloned().collect();
            of_client.into_iter().for_each(|name| drop(headers.remove(name)));
        }
        let body = match wrapped.body.filter(|_| !(as_it_came && is_same)) {
            Some(body) => {
                headers.remove(header::CONTENT_LENGTH);
                headers.remove(header::CONTENT_ENCODING);
                RequestBody::Whole(body)
            }
            None => body,
        };
        let mut target = wrapped.target;
        let has_key = target.query().is_some_and(|query| query.split('&').any(is_key));
        if has_key && !matches!(credentials, Credentials::Client) {
            target = without_key(&target).ok_or(Failure::Refused(Refused::Path))?;
        }
        if let (Credentials::Signed(signer), RequestBody::Whole(bytes)) = (credentials, &body) {
            let signed = signer.sign((&self.method, &target), &mut headers, bytes, Timestamp::now());
            signed.ok_or(Failure::Refused(Refused::Path))?;
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target);
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn unspoken(&self, reason: Unspoken) -> Failure {
        match reason {
            Unspoken::Path => Failure::Refused(Refused::Path),
            reason => Failure::Unspoken { provider: self.provider.name.as_ref().to_owned(), reason },
        }
    }
}

/// Whether a header belongs to a signature of Amazon's, or to the client that made one.
fn is_amazons(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-amz-") || name.as_str().starts_with("amz-sdk-")
}
