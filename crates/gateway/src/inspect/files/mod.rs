//! OpenAI's batches: files with requests, batches of them, and files with the answers.
//!
//! A batch names a file, and what it asks stands in that. So a file is judged when it is stored with the purpose of a batch
//! ([`upload`]): each line as the request to its `url`. A batch is made of such a file alone ([`create`]), by the agent for
//! which it was judged, of the same provider and once; and what a file of answers holds is judged line by line when it
//! is fetched ([`content`]).
//!
//! - *What was not judged here is in no batch.* A file that these hooks did not judge (it was stored past the proxy, in pieces,
//!   before a restart, or by other hooks, before settings were read anew) is to be stored again.
//! - *Counted once, used once.* Budgets count a file's requests when it is judged, so that it is good for one batch.
//! - *Closed.* A line has the fields of the wire and a `url` of an operation that is judged; an answer has them, too. Anything
//!   else refuses the whole of it.
//!
//! Limits: files are held in memory until they were judged. What was judged is remembered for the newest 4,096 files, and as
//! many of them as have 65,536 requests in all; what is forgotten stays counted. Files of answers
//! are known by the batches whose states passed here; one that is not is held, and known by all of its lines: one line that
//! somebody may take for an answer makes it a file of answers, of which every line has to be one.

mod content;
mod create;
mod states;
mod unknown;
mod upload;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_hooks::{AgentId, Digest};
use http::Method;
use serde_json::Value;

use self::content::ContentExchange;
use self::create::CreateExchange;
use self::states::StateExchange;
use self::upload::UploadExchange;
use super::batched::{Counted, MAX_REQUESTS};
use super::bounded::Bounded;
use super::exchange::InspectedExchange;
use super::form::{Form, Kind};
use super::{ActiveHooks, Shared};
use crate::endpoint::{normal, unescaped};
use crate::exchange::{Call, Exchange};
use crate::operations::{FileUse, Permission, file_use};
use backstop_llm::{Api, RequestTarget};

/// How many files are remembered.
const MAX_FILES: usize = 4_096;
/// The longest id of a request, a file or a batch.
const LONGEST_ID: usize = 128;

/// Requests of a file that were counted, by their ids.
type Requests = Vec<(String, Arc<Counted>)>;

/// A file whose requests were judged.
#[derive(Debug)]
pub(super) struct Judged {
    /// What each of them asks.
    url: String,
    requests: Mutex<Requests>,
    is_used: AtomicBool,
}

impl Judged {
    fn size(&self) -> usize {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes it for a batch; `false` if it was taken for another.
    fn take(&self) -> bool {
        !self.is_used.swap(true, Ordering::AcqRel)
    }

    fn give_back(&self) {
        self.is_used.store(false, Ordering::Release);
    }

    fn requests(&self) -> Requests {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where a file of answers is from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The batch.
    batch: String,
    /// What its requests asked.
    url: String,
}

/// Files with requests that these hooks judged.
#[derive(Debug)]
pub(super) struct JudgedFiles(Mutex<Bounded<Digest, Arc<Judged>>>);

impl Default for JudgedFiles {
    fn default() -> Self {
        Self(Mutex::new(Bounded::new(MAX_FILES)))
    }
}

impl JudgedFiles {
    fn keep(&self, key: Digest, judged: Judged) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.forget(&key);
        files.insert(key, Arc::new(judged));
        let mut requests: usize = files.values().map(|judged| judged.size()).sum();
        while requests > MAX_REQUESTS
            && let Some(oldest) = files.forget_oldest()
        {
            requests = requests.saturating_sub(oldest.size());
        }
    }

    fn find(&self, key: &Digest) -> Option<Arc<Judged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(Arc::clone)
    }
}

/// Files with answers, by provider and id.
#[derive(Debug)]
pub(super) struct AnswerFiles(Mutex<Bounded<Digest, Source>>);

impl Default for AnswerFiles {
    fn default() -> Self {
        // Those of answers and those of errors.
        Self(Mutex::new(Bounded::new(2 * MAX_FILES)))
    }
}

impl AnswerFiles {
    /// Takes note of the files that the state of a batch names, or those of a list.
    fn note(&self, provider: &str, state: &Value) {
        let listed = state.get("data").and_then(Value::as_array).into_iter().flatten();
        for batch in listed.chain([state]) {
            let said = |field: &str| batch.get(field).and_then(Value::as_str);
            let Some((id, url)) = said("id").zip(said("endpoint")) else { continue };
            for file in ["output_file_id", "error_file_id"].into_iter().filter_map(said) {
                let source = Source { batch: id.to_owned(), url: url.to_owned() };
                let key = Digest::of_text("answers", &format!("{provider}\0{file}"));
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, source);
            }
        }
    }

    fn find(&self, provider: &str, file: &str) -> Option<Source> {
        let key = Digest::of_text("answers", &format!("{provider}\0{file}"));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }
}

/// What a file with requests is known by.
fn key(provider: &str, agent: Option<&AgentId>, file: &str) -> Digest {
    let agent = agent.map(AgentId::as_str).unwrap_or_default();
    Digest::of_text("judged file", &format!("{provider}\0{agent}\0{file}"))
}

/// What judges a request about files and batches of them; `None` if it is about none.
pub(super) fn exchange(
    shared: &Arc<Shared>,
    active_hooks: ActiveHooks,
    call: &Call<'_>,
) -> Option<Box<dyn Exchange>> {
    let is_open = matches!(call.permission, Permission::Read | Permission::Listed);
    let path = normal(call.path).ok().filter(|_| is_open)?;
    let about = file_use(call.method, &path)?;
    let form = Form { api: Api::OpenAiChat, kind: Kind::Ask(RequestTarget::default()) };
    let sample = InspectedExchange::new(Arc::clone(shared), active_hooks, form, call);
    let shared = Arc::clone(shared);
    Some(match about {
        FileUse::Upload => Box::new(UploadExchange::of(shared, active_hooks, sample, call)?),
        FileUse::Create => Box::new(CreateExchange::new(shared, active_hooks, sample, call)),
        FileUse::States => Box::new(StateExchange::new(shared, active_hooks, sample)),
        FileUse::Content if *call.method == Method::HEAD => return None,
        FileUse::Content => {
            Box::new(ContentExchange::new(shared, active_hooks, sample.of_no_session(), file_of(call.path)))
        }
    })
}

/// The file in `/v1/files/<id>/content`.
fn file_of(path: &str) -> String {
    let id = path.trim_end_matches('/').rsplit('/').nth(1);
    id.and_then(|id| unescaped(id).ok()).unwrap_or_default()
}

/// Whether a text can be an id: nothing that somebody would read as a text.
fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/#".contains(&byte);
    (1..=LONGEST_ID).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use backstop_hooks::{CallContext, CallId, RunId};

    use super::*;

    fn judged(requests: usize) -> Judged {
        let counted = Arc::new(Counted {
            call: Arc::new(CallContext::default()),
            id: CallId::new("c"),
            run: RunId::new("r"),
            provider: String::new(),
            model: String::new(),
        });
        let requests = (0..requests).map(|number| (number.to_string(), Arc::clone(&counted))).collect();
        let url = String::new();
        Judged { url, requests: Mutex::new(requests), is_used: AtomicBool::new(false) }
    }

    #[test]
    fn files_are_remembered_by_their_requests() {
        let files = JudgedFiles::default();
        let is_known = |name: &str| files.find(&key("p", None, name)).is_some();
        for name in ["a", "b", "c"] {
            files.keep(key("p", None, name), judged(MAX_REQUESTS / 2));
        }
        assert!(!is_known("a") && is_known("b") && is_known("c"));
        // One that is stored again is the newest, and counts once.
        files.keep(key("p", None, "b"), judged(MAX_REQUESTS / 2));
        assert!(is_known("b") && is_known("c"));
        files.keep(key("p", None, "d"), judged(1));
        assert!(is_known("b") && !is_known("c") && is_known("d"));
        files.keep(key("p", None, "e"), judged(MAX_REQUESTS));
        assert!(!is_known("b") && !is_known("d") && is_known("e"));
    }
}
