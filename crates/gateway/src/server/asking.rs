//! A request as its provider gets it, whatever body it is sent with.

use std::sync::Arc;

use backstop_hooks::TraceParent;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use jiff::Timestamp;

use super::load::{Buffered, Load};
use crate::auth::{AuthError, is_key, without_key};
use crate::cloud::{self, Envelope, Plain, Unspoken};
use crate::endpoint::{Endpoint, unescaped};
use crate::error::Failure;
use crate::head::{Credentials, is_credential};
use crate::models::main_model;
use crate::operations::Permission;
use crate::query::{Strange, unwanted};
use crate::settings::Cloud;
use crate::upstream::{NoKey, Paying, Provider, RequestBody};

/// Who is asked for what, but for the body.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) provider: Arc<Provider>,
    pub(super) endpoint: Endpoint,
    pub(super) method: Method,
    pub(super) permission: Permission,
    /// The address in the wire of the maker.
    pub(super) target: PathAndQuery,
    /// Whether hooks decide or the operator pays.
    pub(super) is_closed: bool,
    /// Whether the client's headers name a model or ask for more that nobody here reads.
    pub(super) says_more: bool,
    /// The headers on their way up, with what is sent for the client's credentials.
    pub(super) headers: HeaderMap,
    /// What that is.
    pub(super) paying: Paying,
    /// The envelope in which the client speaks.
    pub(super) spoken: Option<Envelope>,
    /// Where what is made in memory counts.
    pub(super) load: Arc<Load>,
}

impl Asking {
    /// The same with credentials that are good now: a request may be made long after the first.
    pub(super) async fn renewed(mut self) -> Result<Self, NoKey> {
        self.paying = self.provider.paying().await?;
        if let Credentials::Own(name, value) = &self.paying.credentials {
            self.headers.insert(name.clone(), value.clone());
        }
        Ok(self)
    }

    /// The same in a span of the gateway, which the provider is told of in place of the client's. Without one, nothing changes.
    pub(super) fn in_span(mut self, span: Option<TraceParent>) -> Self {
        // Digits and hyphens are always a value.
        if let Some(value) = span.and_then(|span| HeaderValue::from_str(&span.to_string()).ok()) {
            self.headers.insert(TraceParent::HEADER, value);
        }
        self
    }

    /// The same for a body that is not the client's.
    pub(super) fn with_another_body(mut self) -> Self {
        self.headers.remove(header::CONTENT_LENGTH);
        self.headers.remove(header::CONTENT_ENCODING);
        self.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        self
    }

    /// The request with a body that is not the client's, in the wire of the maker.
    pub(super) fn with(&self, body: Bytes) -> Result<(Request<RequestBody>, Buffered), Failure> {
        let mut built = self.load.buffer();
        built.grow(body.len())?;
        self.request(RequestBody::Whole(body.clone()), &body, false, built)
    }

    /// The request with this body. `plain` is the body in the wire of the maker, decoded, where that is known; `as_it_came`
    /// says that the body is the client's, in its envelope. What is made for it in memory counts with what was `built`.
    pub(super) fn request(
        &self,
        body: RequestBody,
        plain: &Bytes,
        as_it_came: bool,
        mut built: Buffered,
    ) -> Result<(Request<RequestBody>, Buffered), Failure> {
        let provider = &self.provider;
        let credentials = &self.paying.credentials;
        let is_same = cloud::envelope(provider.cloud.as_ref()) == self.spoken;
        let is_clients = matches!(credentials, Credentials::Client);
        if is_clients && !self.may_pay() {
            return Err(self.unspoken(Unspoken::Credentials));
        }
        if self.says_more {
            return Err(self.unspoken(Unspoken::Header));
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
        if !(is_same && is_clients && self.is_in_bedrock()) {
            let of_client: Vec<HeaderName> =
                headers.keys().filter(|name| is_amazons(name)).cloned().collect();
            of_client.into_iter().for_each(|name| drop(headers.remove(name)));
        }
        built.grow(wrapped.body.as_ref().map_or(0, Bytes::len))?;
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
        if has_key && !is_clients {
            target = without_key(&target).ok_or(Failure::Refused(AuthError::Path))?;
        }
        let unwanted =
            self.is_closed.then(|| unwanted(self.permission, &self.method, &target, is_clients)).flatten();
        match unwanted {
            Some(name) if is_clients && self.permission != Permission::Opened => {
                return Err(Strange::Pair(name).into());
            }
            Some(name) if !is_clients => return Err(Failure::Query(name)),
            Some(_) | None => {}
        }
        if let (Credentials::Signed(signer), RequestBody::Whole(bytes)) = (credentials, &body) {
            let signed = signer.sign((&self.method, &target), &mut headers, bytes, Timestamp::now());
            signed.ok_or(Failure::Refused(AuthError::Path))?;
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(target);
        *request.headers_mut() = headers;
        Ok((request, built))
    }

    /// Whether what the client brings to pay with is for this provider.
    fn may_pay(&self) -> bool {
        let pairs = || self.target.query().unwrap_or_default().split('&');
        let brings_any = self.headers.keys().any(is_credential) || pairs().any(is_key);
        let is_signed = self.headers.get_all(header::AUTHORIZATION).iter().any(is_signature)
            || pairs().any(is_of_signature);
        let cloud = self.provider.cloud.as_ref();
        (!is_signed || self.is_in_bedrock())
            && cloud::may_see_credentials(cloud, self.spoken, &self.target, brings_any)
    }

    fn is_in_bedrock(&self) -> bool {
        matches!(self.provider.cloud, Some(Cloud::Bedrock { .. }))
    }

    fn unspoken(&self, reason: Unspoken) -> Failure {
        match reason {
            Unspoken::Path => Failure::Refused(AuthError::Path),
            reason => Failure::Unspoken { provider: self.provider.name.as_ref().to_owned(), reason },
        }
    }
}

/// Whether a header belongs to a signature of Amazon's, or to the client that made one.
fn is_amazons(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-amz-") || name.as_str().starts_with("amz-sdk-")
}

/// Whether a pair of a query belongs to a signature of Amazon's; what can't be read may.
fn is_of_signature(pair: &str) -> bool {
    let name = unescaped(pair.split('=').next().unwrap_or_default());
    name.map_or(true, |name| begins(name.as_bytes(), b"x-amz-"))
}

/// Whether credentials are a signature of Amazon's.
fn is_signature(value: &HeaderValue) -> bool {
    begins(value.as_bytes().trim_ascii_start(), b"aws4-")
}

fn begins(text: &[u8], with: &[u8]) -> bool {
    text.get(..with.len()).is_some_and(|front| front.eq_ignore_ascii_case(with))
}
