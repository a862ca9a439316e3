//! Idempotency keys: a request that is sent twice is done once.
//!
//! The laws: *a key belongs to one token and one request.* Who brings it again with the same request gets the same response, or is
//! told that the first is still being answered; with another request it is refused. A request that failed may be tried again. *A key permits nothing*: of a
//! decision about a tool call the decision is kept and no response, so that what it was judged by is looked at when somebody is told, and
//! that the call may run is told once ([`Made::read`](super::decisions::Made::read)).
//!
//! Limits: for each token [`MOST_KEYS`] keys and [`MOST_KEPT`] bytes of responses, of which the oldest go first, since programs send a key
//! with every request; a response of more than [`MOST_BYTES`] is answered and not kept, and the log says so. A decision is kept whatever its size.

use std::collections::{HashMap, VecDeque};
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
/// How many keys of a token are kept.
const MOST_KEYS: usize = 1_000;
/// How many bytes of responses to a token are kept.
const MOST_KEPT: usize = 1 << 20;
/// The most bytes of a kept response.
const MOST_BYTES: usize = 256 << 10;
const HEADER: &str = "idempotency-key";
const LONGEST: usize = 128;

/// The responses that are kept, by token.
#[derive(Debug, Default)]
pub(super) struct Idempotency(Mutex<HashMap<String, Keys>>);

/// The keys of a token.
#[derive(Debug, Default)]
struct Keys {
    kept: HashMap<Digest, Kept>,
    /// The keys, the oldest first.
    order: VecDeque<Digest>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    request: Digest,
    /// `None` while the first request is being answered.
    answered: Option<Answered>,
}

#[derive(Debug)]
struct Answered {
    reply: Reply,
    bytes: usize,
    until: Instant,
}

impl Keys {
    fn remove(&mut self, key: &Digest) {
        let answered = self.kept.remove(key).and_then(|kept| kept.answered);
        self.bytes = self.bytes.saturating_sub(answered.map_or(0, |answered| answered.bytes));
        self.order.retain(|known| known != key);
    }

    /// Forgets what was kept long enough.
    fn expire(&mut self, now: Instant) {
        while let Some(&oldest) = self.order.front()
            && let Some(answered) = self.kept.get(&oldest).and_then(|kept| kept.answered.as_ref())
            && answered.until <= now
        {
            self.remove(&oldest);
        }
    }

    /// Forgets the oldest that was answered. Returns whether there is one.
    fn forget(&mut self) -> bool {
        let is_answered = |key: &&Digest| self.kept.get(*key).is_some_and(|kept| kept.answered.is_some());
        let oldest = self.order.iter().find(is_answered).copied();
        oldest.inspect(|oldest| self.remove(oldest)).is_some()
    }

    fn answer(&mut self, key: Digest, reply: Reply, bytes: usize) {
        while self.bytes.saturating_add(bytes) > MOST_KEPT && self.forget() {}
        if let Some(kept) = self.kept.get_mut(&key) {
            kept.answered = Some(Answered { reply, bytes, until: Instant::now() + KEPT });
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
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
        let key = Digest::of_text("idempotency_key", key);
        let request = Digest::of(
            "idempotent_request",
            &(method, address, Digest::of_text("body", &String::from_utf8_lossy(body))),
        );
        if let Some(reply) = self.begin(caller, key, request)? {
            return Ok(reply);
        }
        // Whoever goes, or fails, leaves the key free.
        let mut open = Open { kept: self, caller, key, is_done: false };
        let reply = act().await?;
        let bytes = match &reply {
            // INVARIANT (a key permits nothing): of however large a call, that it may run is told once. Once it is told, little of it is left.
            Reply::Made(_) => reply.bytes().min(MOST_BYTES),
            Reply::Is { .. } => reply.bytes(),
        };
        if bytes <= MOST_BYTES {
            if let Some(keys) = self.all().get_mut(caller) {
                keys.answer(key, reply.clone(), bytes);
                open.is_done = true;
            }
        } else {
            tracing::warn!("a response is too large to be kept for its idempotency key");
        }
        Ok(reply)
    }

    /// Returns the response that is kept, or begins one.
    fn begin(&self, caller: &str, key: Digest, request: Digest) -> Result<Option<Reply>, Problem> {
        let now = Instant::now();
        let mut all = self.all();
        all.retain(|_, keys| {
            keys.expire(now);
            !keys.kept.is_empty()
        });
        let keys = all.entry(caller.to_owned()).or_default();
        if let Some(kept) = keys.kept.get(&key) {
            if kept.request != request {
                return Err(Problem::idempotency("this idempotency key was brought with another request"));
            }
            return match &kept.answered {
                Some(answered) => Ok(Some(answered.reply.clone())),
                None => Err(Problem::under_way()),
            };
        }
        if keys.kept.len() >= MOST_KEYS && !keys.forget() {
            return Err(Problem::api_busy());
        }
        keys.kept.insert(key, Kept { request, answered: None });
        keys.order.push_back(key);
        Ok(None)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Keys>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
struct Open<'a> {
    kept: &'a Idempotency,
    caller: &'a str,
    key: Digest,
    is_done: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_done
            && let Some(keys) = self.kept.all().get_mut(self.caller)
        {
            keys.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::{Value, json};

    use super::*;

    async fn ask(kept: &Idempotency, caller: &str, key: usize, says: &str) -> Result<Value, Problem> {
        let reply = Reply::Is { status: StatusCode::OK, location: None, body: json!(says) };
        let request = ("POST", key.to_string(), &b""[..]);
        match kept.once(caller, &key.to_string(), request, async || Ok(reply)).await? {
            Reply::Is { body, .. } => Ok(body),
            Reply::Made(_) => panic!("no call was judged"),
        }
    }

    #[tokio::test]
    async fn the_oldest_keys_of_a_token_go_first_and_nobody_elses() {
        let kept = Idempotency::default();
        ask(&kept, "other", 0, "first").await.unwrap();
        for key in 0..=MOST_KEYS {
            ask(&kept, "bot", key, "first").await.unwrap();
        }
        assert_eq!(ask(&kept, "other", 0, "again").await.unwrap(), "first");
        assert_eq!(ask(&kept, "bot", MOST_KEYS, "again").await.unwrap(), "first");
        assert_eq!(ask(&kept, "bot", 1, "again").await.unwrap(), "first");
        assert_eq!(ask(&kept, "bot", 0, "again").await.unwrap(), "again");
    }

    #[tokio::test]
    async fn responses_of_a_token_have_a_bound_together_and_each() {
        let kept = Idempotency::default();
        let large = "x".repeat(MOST_BYTES - 2);
        for key in 0..5 {
            ask(&kept, "bot", key, &large).await.unwrap();
        }
        assert_eq!(ask(&kept, "bot", 4, "again").await.unwrap(), large);
        assert_eq!(ask(&kept, "bot", 0, "again").await.unwrap(), "again");
        ask(&kept, "bot", 9, &format!("{large}x")).await.unwrap();
        assert_eq!(ask(&kept, "bot", 9, "again").await.unwrap(), "again");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_kept_for_their_time() {
        let kept = Idempotency::default();
        ask(&kept, "bot", 0, "first").await.unwrap();
        tokio::time::advance(KEPT - Duration::from_secs(1)).await;
        assert_eq!(ask(&kept, "bot", 0, "again").await.unwrap(), "first");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ask(&kept, "bot", 0, "again").await.unwrap(), "again");
    }
}
