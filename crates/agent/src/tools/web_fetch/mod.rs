//! `web_fetch`: the text at a URL.
//!
//! Only `GET`, only `http` and `https`, only public hosts unless
//! [`Limits::allow_private_hosts`](crate::tools::Limits::allow_private_hosts) is set, so that a model cannot be
//! talked into reading what only this machine can reach. Redirects are followed by hand and every hop is checked
//! as the first. No cookies, no credentials, no compression (which rules out bodies that explode). HTML is shown
//! as text; what is not text is refused.

pub(super) mod client;
mod html;

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use backstop_http_client::{Client, Error, Request, Response};
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use serde_json::{Map, Value, json};
use url::Url;

use self::client::{Reach, explain};
use super::context::ToolContext;
use super::error::ToolError;
use super::params::{Kind, Param, Params};
use super::text;
use super::tool::{Tool, ToolOutput, ToolSpec};

const MAX_REDIRECTS: usize = 5;
const MAX_URL_BYTES: usize = 8192;
const PATIENCE: Duration = Duration::from_secs(30);
const NOTE_BYTES: usize = 512;

const PARAMS: Params = Params {
    tool: "web_fetch",
    list: &[
        Param::required("url", Kind::Text, "An `http` or `https` URL."),
        Param::optional("raw", Kind::Flag, "Show HTML as it is instead of its text. Default: false."),
    ],
};

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The text is not a URL that can be fetched.
    #[error("`{url}` cannot be fetched: {problem}")]
    Url {
        /// The URL, shortened, without credentials.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// The host is not on the public internet.
    #[error("`{host}` is at {address}, which is not a public address; such hosts are not fetched from")]
    Private {
        /// The host.
        host: String,
        /// Its address.
        address: IpAddr,
    },
    /// There were too many redirects.
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    /// The answer is not text.
    #[error("the answer is `{kind}`, which is not text; hint: use `exec` to download it")]
    NotText {
        /// Its media type.
        kind: String,
    },
    /// The time was up.
    #[error("no complete answer within {} s", .0.as_secs())]
    Slow(Duration),
    /// The connection or the protocol failed.
    #[error("the request failed: {0}")]
    Http(#[source] Error),
}

/// The tool `web_fetch`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::tools) struct WebFetchTool;

#[async_trait]
impl Tool for WebFetchTool {
    fn definition(&self) -> ToolSpec {
        ToolSpec {
            name: PARAMS.tool.to_owned(),
            description: "Fetch a public web page and show its text.".to_owned(),
            input_schema: PARAMS.schema(),
        }
    }

    async fn run(&self, args: &Map<String, Value>, cx: &ToolContext) -> ToolOutput {
        web_fetch(args, cx).await.unwrap_or_else(ToolOutput::from)
    }
}

/// A body that was read, perhaps not to its end.
struct Page {
    url: Url,
    status: u16,
    kind: String,
    body: Vec<u8>,
    cut: bool,
}

async fn web_fetch(args: &Map<String, Value>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let args = PARAMS.check(args)?;
    let raw = args.flag("raw");
    let url = parse(args.need("url")?)?;
    let patience = PATIENCE.min(cx.limits.time);
    let reach = if cx.limits.allow_private_hosts { Reach::Any } else { Reach::Public };
    let client = cx.http.get(reach);
    let page = tokio::select! {
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
        page = tokio::time::timeout(patience, fetch(client, url, cx.limits.file_bytes)) => {
            page.map_err(|_| FetchError::Slow(patience))??
        }
    };
    let room = cx.limits.output_bytes.saturating_sub(NOTE_BYTES);
    Ok(tokio::task::spawn_blocking(move || show(&page, raw, room)).await?)
}

fn parse(url: &str) -> Result<Url, FetchError> {
    let unfit = |problem: &str| FetchError::Url { url: shown(url), problem: problem.to_owned() };
    if url.len() > MAX_URL_BYTES {
        return Err(unfit("it is too long"));
    }
    let parsed = Url::parse(url).map_err(|error| unfit(&error.to_string()))?;
    check(&parsed)?;
    Ok(parsed)
}

fn check(url: &Url) -> Result<(), FetchError> {
    let unfit = |problem: &str| FetchError::Url { url: shown(url.as_str()), problem: problem.to_owned() };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(unfit("only `http` and `https` are supported"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(unfit("it holds credentials"));
    }
    Ok(())
}

/// A URL for a message: without credentials, query and fragment, where secrets live.
fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let plain = match (plain.split_once("://"), plain.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => plain.to_owned(),
    };
    text::clip(&plain, 200)
}

async fn fetch(client: &Client, mut url: Url, limit: u64) -> Result<Page, FetchError> {
    const ACCEPTED: HeaderValue = HeaderValue::from_static("text/html, text/*, application/json, */*;q=0.1");
    const AGENT: HeaderValue = HeaderValue::from_static(concat!("backstop/", env!("CARGO_PKG_VERSION")));
    let headers = HeaderMap::from_iter([(ACCEPT, ACCEPTED), (USER_AGENT, AGENT)]);
    for _ in 0..=MAX_REDIRECTS {
        let (headers, body) = (headers.clone(), Bytes::new());
        let request = Request { method: Method::GET, url: &url, headers, body };
        let response = client.send(request).await.map_err(explain)?;
        match redirect(&response, &url)? {
            Some(next) => url = next,
            None => return read(response, url, limit).await,
        }
    }
    Err(FetchError::Redirects)
}

fn redirect(response: &Response, url: &Url) -> Result<Option<Url>, FetchError> {
    let Some(next) = response.redirect(url) else { return Ok(None) };
    let next = next.map_err(|error| FetchError::Url {
        url: shown(url.as_str()),
        problem: format!("its redirect is malformed: {error}"),
    })?;
    check(&next)?;
    Ok(Some(next))
}

async fn read(mut response: Response, url: Url, limit: u64) -> Result<Page, FetchError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let status = response.status().as_u16();
    let kind =
        response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("text/plain");
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !is_text(&kind) {
        return Err(FetchError::NotText { kind: text::clip(&kind, 80) });
    }
    let mut body = Vec::new();
    let mut cut = false;
    while let Some(chunk) = response.chunk().await.map_err(explain)? {
        let room = limit.saturating_sub(body.len());
        cut = chunk.len() > room;
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if cut {
            break;
        }
    }
    Ok(Page { url, status, kind, body, cut })
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(
            kind,
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/yaml"
                | "application/toml"
        )
}

fn show(page: &Page, raw: bool, room: usize) -> ToolOutput {
    let decoded = text::decode(&page.body);
    let is_html = matches!(page.kind.as_str(), "text/html" | "application/xhtml+xml");
    let readable = if is_html && !raw { html::to_text(&decoded.text) } else { decoded.text };
    let kept = text::prefix(&readable, room);
    let truncated = page.cut || kept.len() < readable.len();
    let mut content = if kept.is_empty() { "[empty]".to_owned() } else { kept.to_owned() };
    if truncated {
        content.push_str(&format!("\n[only the first {} bytes of the text are shown]", kept.len()));
    }
    if decoded.lossy {
        content.push_str("\n[not UTF-8 everywhere: such bytes are shown as \u{FFFD}]");
    }
    let is_error = page.status >= 400;
    if is_error {
        content = format!("[the server answered {}]\n{content}", page.status);
    }
    let details = json!({
        "httpStatus": page.status, "contentType": page.kind, "bytes": page.body.len(), "truncated": truncated,
        "finalUrl": shown(page.url.as_str()),
    });
    ToolOutput { is_error, ..ToolOutput::text(content).with_details(details) }
}
