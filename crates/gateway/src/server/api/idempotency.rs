//! Idempotency keys: a request that is sent twice is done once.
//!
//! The law: *a key belongs to one token and one request.* Who brings it again with the same request gets the same response, or is
//! told that the first is still being answered; with another request it is refused. A request that failed may be tried again.
//!
//! Limits: [`KEPT`], [`MOST_KEYS`] keys of [`MOST_BYTES`] each; what is larger is answered and not kept, and says so.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_hooks::Digest;
use http::HeaderMap;
use tokio::time::Instant;

use super::super::operators::Problem;
use super::asked::Reply;

/// How long a response is kept.
const KEPT: Duration = Duration::from_secs(600);
/// How many are kept.
const MOST_KEYS: usize = 1_000;
/// The most bytes of a kept response.
const MOST_BYTES: usize = 256 << 10;
const HEADER: &str = "idempotency-key";
const LONGEST: usize = 128;

/// The responses that are kept.
#[derive(Debug, Default)]
pub(super) struct Idempotency(Mutex<HashMap<Digest, Kept>>);

#[derive(Debug)]
struct Kept {
    request: Digest,
    /// `None` while the first request is being answered.
    reply: Option<Reply>,
    until: Instant,
}

/// Reads the key of a request.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(HEADER).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| !text.is_empty() && text.len() <= LONGEST);
    match (text, all.next()) {
        (Some(text), None) => Ok(Some(text.to_owned())),
        _ => Err(Problem::idempotency("`idempotency-key` is one text of 1 to 128 visible characters")),
    }
}

impl Idempotency {
    /// Does something once for a caller and a key.
    pub(super) async fn once<F: Future<Output = Result<Reply, Problem>>>(
        &self,
        caller: &str,
        key: &str,
        (method, address, body): (&str, String, &[u8]),
        act: impl FnOnce() -> F,
    ) -> Result<Reply, Problem> {
        let key = Digest::of("idempotency_key", &(caller, key));
        let request = Digest::of(
            "idempotent_request",
            &(method, address, Digest::of_text("body", &String::from_utf8_lossy(body))),
        );
        if let Some(reply) = self.begin(key, request)? {
            return Ok(reply);
        }
        // Whoever goes, or fails, leaves the key free.
        let mut open = Open { kept: self, key, is_done: false };
        let reply = act().await?;
        if reply.body.to_string().len() <= MOST_BYTES {
            let mut all = self.all();
            if let Some(kept) = all.get_mut(&key) {
                (kept.reply, kept.until) = (Some(reply.clone()), Instant::now() + KEPT);
                open.is_done = true;
            }
        } else {
            tracing::warn!("a response is too large to be kept for its idempotency key");
        }
        Ok(reply)
    }

    /// Returns the response that is kept, or begins one.
    fn begin(&self, key: Digest, request: Digest) -> Result<Option<Reply>, Problem> {
        let now = Instant::now();
        let mut all = self.all();
        all.retain(|_, kept| kept.reply.is_none() || kept.until > now);
        if let Some(kept) = all.get(&key) {
            if kept.request != request {
                return Err(Problem::idempotency("this idempotency key was brought with another request"));
            }
            return match &kept.reply {
                Some(reply) => Ok(Some(reply.clone())),
                None => Err(Problem::under_way()),
            };
        }
        if all.len() >= MOST_KEYS {
            return Err(Problem::api_busy());
        }
        all.insert(key, Kept { request, reply: None, until: now + KEPT });
        Ok(None)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Digest, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
struct Open<'a> {
    kept: &'a Idempotency,
    key: Digest,
    is_done: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.kept.all().remove(&self.key);
        }
    }
}
