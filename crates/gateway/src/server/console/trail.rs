//! The trail on pages: the newest entries first, what is looked for in them, whether all of it is what was written, and all of it as a file.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_console::{Search, TrailState, audit};
use backstop_store::{AuditEntry, AuditFilter, Store, Timestamp};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use tokio::sync::{Semaphore, mpsc};

use super::{Answer, PageError, PageRequest, form, html, see_other};
use crate::server::answer::{AnswerBody, BrokenOff};

/// How many entries a page shows.
const SHOWN: usize = 100;
/// How many entries are read at once, and how many for one page at most.
const PIECE: u64 = 500;
const MOST_READ: u64 = 10_000;
/// How long an answer about the whole trail is kept.
const KEPT: Duration = Duration::from_secs(60);

/// What is known of the whole trail.
#[derive(Debug)]
pub(super) struct Trail {
    state: Mutex<(TrailState, Timestamp)>,
    /// One looks at a time.
    looks: Semaphore,
}

impl Default for Trail {
    fn default() -> Self {
        Self { state: Mutex::new((TrailState::Unknown, Timestamp::default())), looks: Semaphore::new(1) }
    }
}

impl Trail {
    fn state(&self) -> TrailState {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1.until(Timestamp::now()) < KEPT { state.0.clone() } else { TrailState::Unknown }
    }
}

pub(super) async fn page(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let query = |name| form::query(request.head, name);
    let search = Search { kind: query("kind"), session: query("session"), text: query("text") };
    let store = request.engine.store();
    let head = store.audit_head().await.map_err(|_| PageError::Store)?;
    let before = query("before").parse().unwrap_or(u64::MAX).min(head.seq.saturating_add(1));
    let (found, reached) = look(store.as_ref(), &search, before).await.map_err(|_| PageError::Store)?;
    let older = (reached > 1).then_some(reached);
    let (viewer, state) = (request.viewer(), request.console().trail.state());
    Ok(html(StatusCode::OK, audit(&viewer, &found, &search, older, &state, Timestamp::now())))
}

/// Looks for entries in front of number `before`, the newest first. Returns those of one page, and the number that was reached.
async fn look(
    store: &dyn Store,
    search: &Search,
    before: u64,
) -> Result<(Vec<AuditEntry>, u64), backstop_store::StoreError> {
    let words: Vec<String> = search.text.split_whitespace().map(str::to_lowercase).collect();
    let (mut found, mut reached, end) = (Vec::new(), before, before.saturating_sub(MOST_READ));
    while reached > 1 && reached > end && found.len() < SHOWN {
        let after = reached.saturating_sub(PIECE.saturating_add(1));
        let entries =
            store.audit(&AuditFilter::default(), after, usize::try_from(PIECE).unwrap_or(1)).await?;
        let mut next = after.saturating_add(1);
        for entry in entries.into_iter().rev().filter(|entry| entry.seq < reached) {
            if passes(&entry, search, &words) {
                let seq = entry.seq;
                found.push(entry);
                if found.len() == SHOWN {
                    next = seq;
                    break;
                }
            }
        }
        reached = next;
    }
    Ok((found, reached))
}

fn passes(entry: &AuditEntry, search: &Search, words: &[String]) -> bool {
    let is = |wanted: &str, found: &str| wanted.trim().is_empty() || wanted.trim() == found;
    let session = entry.session.as_ref().map_or("", |session| session.as_str());
    if !is(&search.kind, &entry.kind) || !is(&search.session, session) {
        return false;
    }
    if words.is_empty() {
        return true;
    }
    let text = serde_json::to_string(entry).unwrap_or_default().to_lowercase();
    words.iter().all(|word| text.contains(word))
}

/// Checks all of the trail.
pub(super) async fn verify(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let trail = &request.console().trail;
    let _turn = trail.looks.try_acquire().map_err(|_| PageError::Busy)?;
    let state = match request.engine.store().verify_audit(None).await {
        Ok(report) => TrailState::Sound(Box::new(report), Timestamp::now()),
        Err(error) => TrailState::Broken(error.to_string()),
    };
    *trail.state.lock().unwrap_or_else(PoisonError::into_inner) = (state, Timestamp::now());
    Ok(see_other("/-/console/audit"))
}

/// All entries that there are now, a line each.
pub(super) async fn download(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let store = Arc::clone(request.engine.store());
    let end = store.audit_head().await.map_err(|_| PageError::Store)?.seq;
    let room = Arc::clone(request.seat.streams()).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let permit = Arc::clone(&request.console().streams).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let (pieces, told) = mpsc::channel(2);
    let life = request.seat.holder().life.clone();
    tokio::spawn(async move {
        let _room = room;
        let telling = tell(store.as_ref(), end, &pieces);
        tokio::select! {
            telling = telling => {
                if telling.is_err() {
                    // Whoever saves it sees that it is not whole.
                    let _ = pieces.send(Err(BrokenOff)).await;
                }
            }
            () = life.over() => {
                let _ = pieces.send(Err(BrokenOff)).await;
            }
        }
    });
    let mut response = Response::new(AnswerBody::told(told).shown(permit));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/jsonl; charset=utf-8"));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"trail.jsonl\""),
    );
    Ok(response)
}

async fn tell(
    store: &dyn Store,
    end: u64,
    pieces: &mpsc::Sender<Result<Bytes, BrokenOff>>,
) -> Result<(), backstop_store::StoreError> {
    let mut after = 0;
    while after < end {
        let entries =
            store.audit(&AuditFilter::default(), after, usize::try_from(PIECE).unwrap_or(1)).await?;
        let Some(last) = entries.last().map(|entry| entry.seq) else { return Ok(()) };
        after = last;
        let mut lines = String::new();
        for entry in entries.iter().filter(|entry| entry.seq <= end) {
            lines.push_str(&serde_json::to_string(entry).unwrap_or_default());
            lines.push('\n');
        }
        if pieces.send(Ok(lines.into())).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
