//! `fetch`: requests over HTTP to granted hosts.
//!
//! The client is here, and not behind the bridge, because the check of addresses and the connection have to be one
//! thing: the addresses of a host are judged when they were looked up, and the connection is made to these, so a name
//! that changes its address in between gains nothing. Each redirect is a request of its own and is asked about like the first.
//!
//! **Limits.** A body has at most 16 MB either way and is there as a whole before the script sees it. A request
//! takes at most five minutes. Proxies of the environment are not used. Errors say host and port, nothing else of
//! an address.

mod address;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use backstop_http_client::tls::Trust;
use backstop_http_client::{BoxError, Client, Egress, Error, Request, Response, Route, Settings, cause};
use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use rquickjs::{Ctx, Function, Object};
use serde_json::json;
use url::Url;

use self::address::shown;
use super::bytes::from_binary;
use super::fault::Fault;
use super::permits::Permits;
use super::underway::Underway;
use crate::bridge::HostError;
use crate::json::JsonText;
use crate::realm::Held;

const MOST_BODY: usize = 16 << 20;
const MOST_REDIRECTS: usize = 20;
const MOST_TIME: Duration = Duration::from_secs(300);
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// What is said of a host that is out of reach.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
struct Refused(Fault);

/// Lets through what is granted.
struct Granted(Permits);

impl Egress for Granted {
    fn judge(&self, host: &str, addresses: &[IpAddr]) -> Result<(), BoxError> {
        self.0.check_addresses(host, addresses).map_err(|fault| Refused(fault).into())
    }
}

impl std::fmt::Debug for Granted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Granted").finish_non_exhaustive()
    }
}

struct Fetcher {
    permits: Permits,
    client: Client,
}

/// A request, as `fetch.js` gives it.
struct Asked {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    /// `follow`, `manual` or `error`.
    redirect: String,
}

fn failed(message: String) -> HostError {
    HostError::new("ERR_NETWORK", message)
}

impl Fetcher {
    fn new(permits: Permits) -> Self {
        let client = Client::new(Settings {
            trust: Trust::System,
            route: Route::Judged(Arc::new(Granted(permits.clone()))),
            connect_timeout: CONNECT_TIME,
            timeout: Some(MOST_TIME),
        });
        Self { permits, client }
    }

    async fn fetch(&self, mut asked: Asked) -> Result<(Response, Url, bool), HostError> {
        let mut redirected = false;
        for _ in 0..=MOST_REDIRECTS {
            self.permits.check_host(&asked.url)?;
            let request = Request {
                method: asked.method.clone(),
                url: &asked.url,
                headers: asked.headers.clone(),
                body: asked.body.clone(),
            };
            let response = self.client.send(request).await.map_err(|error| explain(&error, &asked.url))?;
            let next = response.redirect(&asked.url).filter(|_| asked.redirect != "manual");
            let Some(next) = next else { return Ok((response, asked.url, redirected)) };
            if asked.redirect == "error" {
                return Err(failed(format!("{} redirects, which the request forbids", shown(&asked.url))));
            }
            let next = next.map_err(|_| failed(format!("{} redirects to no address", shown(&asked.url))))?;
            follow(&mut asked, next, response.status().as_u16());
            redirected = true;
        }
        Err(failed(format!("more than {MOST_REDIRECTS} redirects")))
    }
}

/// Makes of a request the one that a redirect asks for. Credentials stay with the origin they were for.
fn follow(asked: &mut Asked, next: Url, status: u16) {
    let becomes_get = status == 303 && asked.method != Method::HEAD
        || matches!(status, 301 | 302) && asked.method == Method::POST;
    if becomes_get {
        asked.method = Method::GET;
        asked.body = Bytes::new();
        asked.headers.remove(CONTENT_TYPE);
    }
    if next.origin() != asked.url.origin() {
        asked.headers.remove(AUTHORIZATION);
        asked.headers.remove(COOKIE);
    }
    asked.url = next;
}

fn explain(error: &Error, url: &Url) -> HostError {
    if let Some(refused) = cause::<Refused>(error) {
        return refused.0.clone().into();
    }
    if let Some(system) = cause::<std::io::Error>(error) {
        let code = match system.kind() {
            std::io::ErrorKind::ConnectionRefused => "ECONNREFUSED",
            std::io::ErrorKind::ConnectionReset => "ECONNRESET",
            std::io::ErrorKind::TimedOut => "ETIMEDOUT",
            _ => "ERR_NETWORK",
        };
        return HostError::new(code, format!("{code}: no connection to {}", shown(url)));
    }
    let why = if error.is_timeout() { "it took too long".to_owned() } else { error.to_string() };
    failed(format!("no answer of {}: {why}", shown(url)))
}

/// The body of an answer; each piece is counted before it is kept.
async fn body(mut response: Response, url: &Url, held: &mut Held) -> Result<Vec<u8>, HostError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| explain(&error, url))? {
        if bytes.len() + chunk.len() > MOST_BODY {
            return Err(failed(format!("the answer of {} has more than {MOST_BODY} bytes", shown(url))));
        }
        // What a growing list holds is up to twice what is in it.
        held.grow(chunk.len().saturating_mul(2))?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn read_headers(pairs: &[String]) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    for pair in pairs.chunks_exact(2) {
        let [name, value] = pair else { continue };
        let wrong =
            || Fault::new("ERR_INVALID_ARG_VALUE", format!("`{name}` is no header, or its value none"));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        // What frames the message is the client's business; a script that sets it could smuggle a second one.
        if matches!(
            name.as_str(),
            "host" | "connection" | "transfer-encoding" | "te" | "upgrade" | "trailer" | "keep-alive"
        ) || name == CONTENT_LENGTH
        {
            continue;
        }
        let bytes = from_binary(value);
        headers.append(name.clone(), HeaderValue::from_bytes(&bytes).map_err(|_| wrong())?);
    }
    Ok(headers)
}

/// Puts `startFetch` on `host`.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    host: &Object<'js>,
    permits: &Permits,
    underway: &Arc<Underway>,
) -> rquickjs::Result<()> {
    let fetcher = Arc::new(Fetcher::new(permits.clone()));
    let underway = Arc::clone(underway);
    let start = move |ctx: Ctx<'js>,
                      id: u64,
                      method: String,
                      url: String,
                      headers: Vec<String>,
                      binary: String,
                      redirect: String|
          -> rquickjs::Result<()> {
        let asked = read(&method, &url, &headers, &binary, redirect).map_err(|fault| fault.throw(&ctx))?;
        // A host that is not granted is refused before anything is begun.
        fetcher.permits.check_host(&asked.url).map_err(|fault| fault.throw(&ctx))?;
        let (fetcher, underway) = (Arc::clone(&fetcher), Arc::clone(&underway));
        let scope = Arc::clone(fetcher.permits.scope());
        let refused = |error: HostError| Fault::from(error).throw(&ctx);
        let place = scope.one_more().map_err(refused)?;
        // Once here, and once on its way.
        let sent = scope.bytes.hold(asked.body.len().saturating_mul(2)).map_err(refused)?;
        let mut held = scope.bytes.hold(0).map_err(refused)?;
        let exchange = async move {
            let _sent = sent;
            let (response, url, redirected) = fetcher.fetch(asked).await?;
            let status = response.status();
            let headers: Vec<(String, String)> = response
                .headers()
                .iter()
                .map(|(name, value)| {
                    (name.as_str().to_owned(), value.as_bytes().iter().copied().map(char::from).collect())
                })
                .collect();
            let told = (status.as_u16(), status.canonical_reason().unwrap_or_default(), headers, redirected);
            let bytes = body(response, &url, &mut held).await?;
            Ok((told, url, (bytes, held)))
        };
        let exchanged = Arc::clone(&underway).run(id, exchange);
        let work = async move {
            let ((status, text, headers, redirected), url, (bytes, held)) = exchanged.await?;
            let told = json!({
                "status": status, "statusText": text, "headers": headers, "redirected": redirected,
                "url": url.as_str(), "body": underway.keep(bytes, held),
            });
            Ok(JsonText::from_text(told.to_string()))
        };
        scope.answer_later(id, place, Box::pin(work));
        Ok(())
    };
    host.set("startFetch", Function::new(ctx.clone(), start)?)
}

fn read(method: &str, url: &str, headers: &[String], binary: &str, redirect: String) -> Result<Asked, Fault> {
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| Fault::new("ERR_INVALID_ARG_VALUE", "the method of a request is one word"))?;
    let mut url =
        Url::parse(url).map_err(|_| Fault::new("ERR_INVALID_URL", "the address of a request is none"))?;
    url.set_fragment(None);
    let body = from_binary(binary);
    if body.len() > MOST_BODY {
        return Err(Fault::new("ERR_OUT_OF_RANGE", format!("the body has more than {MOST_BODY} bytes")));
    }
    Ok(Asked { method, url, headers: read_headers(headers)?, body: body.into(), redirect })
}
