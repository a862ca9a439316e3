//! The trail on pages: the newest entries first, what is looked for in them, whether all of it is what was written, and all of it as a file.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_console::{Audit, Search, Signed, TrailState, WitnessState, audit};
use backstop_hooks::SessionId;
use backstop_store::{AuditEntry, AuditFilter, AuditPage, AuditPlace, Store, StoreError, Timestamp};
use backstop_trail::{AddCheckpoint, SignedCheckpoint, VerifierKey};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use tokio::sync::{Semaphore, mpsc};

use super::{Answer, PageError, PageRequest, form, html, see_other, whole};
use crate::server::answer::{AnswerBody, BrokenOff};

/// How many entries a page shows.
const SHOWN: usize = 100;
/// How many entries are read at once, and how far a page goes back before it looks no further.
const PIECE: usize = 500;
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
    let search = searched(request);
    let sought = Sought::of(&search)?;
    let store = request.engine.store();
    let before = form::query(request.head, "before").parse().unwrap_or(u64::MAX);
    let (found, older) = look(store.as_ref(), &sought, before).await.map_err(|_| PageError::Store)?;
    let (signed, state) = (signed(request).await, request.console().trail.state());
    let shown = Audit { entries: &found, search: &search, older, state: &state, signed: &signed };
    Ok(html(StatusCode::OK, audit(&request.viewer(), &shown, Timestamp::now())))
}

/// What the address says that is looked for.
fn searched(request: &PageRequest<'_>) -> Search {
    let query = |name| form::query(request.head, name);
    Search {
        kind: query("kind"),
        session: query("session"),
        text: query("text"),
        verdict: query("verdict"),
        rule: query("rule"),
        tool: query("tool"),
        agent: query("agent"),
        workspace: query("workspace"),
        who: query("who"),
        since: query("since"),
        through: query("through"),
    }
}

/// What is looked for, as the store and we look for it.
struct Sought {
    filter: AuditFilter,
    /// What has to be in an entry, in small letters.
    words: Vec<String>,
}

impl Sought {
    /// A day that is none is an error: whoever asks for it would take all entries for those of that day. So is a verdict that is none:
    /// nothing would be found.
    fn of(search: &Search) -> Result<Self, PageError> {
        if !search.has_known_verdict() {
            return Err(PageError::Form);
        }
        let text = |value: &str| Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        let filter = AuditFilter {
            kind: text(&search.kind),
            session: text(&search.session).map(SessionId::from),
            verdict: text(&search.verdict),
            rule: text(&search.rule),
            tool: text(&search.tool),
            agent: text(&search.agent),
            workspace: text(&search.workspace),
            who: text(&search.who),
            since: day(&search.since, 0)?,
            until: day(&search.through, 1)?,
            ..AuditFilter::default()
        };
        let words = search.text.split_whitespace().map(str::to_lowercase).collect();
        Ok(Self { filter, words })
    }

    /// Whether all words are in an entry.
    fn fits(&self, entry: &AuditEntry) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let text = serde_json::to_string(entry).unwrap_or_default().to_lowercase();
        self.words.iter().all(|word| text.contains(word))
    }
}

/// The beginning of a day in UTC, or of one so many days later.
fn day(text: &str, later: i64) -> Result<Option<Timestamp>, PageError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let day: jiff::civil::Date = text.trim().parse().map_err(|_| PageError::Form)?;
    let day = day.saturating_add(jiff::Span::new().days(later));
    let begins = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|_| PageError::Form)?;
    Ok(Some(Timestamp::from_millis(begins.timestamp().as_millisecond())))
}

/// Looks for entries in front of number `before`, the newest first. Returns those of one page, and the number before which the next one
/// begins, unless all was looked at.
async fn look(
    store: &dyn Store,
    sought: &Sought,
    before: u64,
) -> Result<(Vec<AuditEntry>, Option<u64>), StoreError> {
    let end = store.audit_head().await?.seq.saturating_add(1);
    let begun = before.min(end);
    let (mut found, mut reached) = (Vec::new(), begun);
    // Of what has all words it is not known beforehand how much there is.
    let piece = if sought.words.is_empty() { SHOWN } else { PIECE };
    while reached > 1 && found.len() < SHOWN && begun.saturating_sub(reached) < MOST_READ {
        let AuditPage { entries, next, ended, is_older } =
            store.audit_page(&sought.filter, AuditPlace::Before(reached), piece).await?;
        for entry in entries.into_iter().filter(|entry| sought.fits(entry)) {
            let seq = entry.seq;
            found.push(entry);
            if found.len() == SHOWN {
                return Ok((found, Some(seq).filter(|seq| *seq > 1)));
            }
        }
        match next {
            AuditPlace::Before(next) if !ended => reached = next,
            AuditPlace::Before(_) | AuditPlace::After(_) => return Ok((found, None)),
        }
        // More is hardly there, and whoever wants to be sure goes on.
        if is_older {
            break;
        }
    }
    Ok((found, Some(reached).filter(|reached| *reached > 1)))
}

/// What is signed of the trail, and who was told.
async fn signed(request: &PageRequest<'_>) -> Signed {
    let store = request.engine.store();
    let witnesses = request.shared.operators.metrics().map(|metrics| {
        let state = |(name, took, failures)| WitnessState { name, took, failures };
        metrics.witnessed().into_iter().map(state).collect()
    });
    match keys(store.as_ref()).await {
        Ok(keys) => Signed { note: note(store.as_ref(), &keys).await, keys, witnesses },
        // Without a key no checkpoint counts.
        Err(why) => Signed { note: Err(why), keys: Vec::new(), witnesses },
    }
}

/// The keys by which checkpoints count, or why they can't be told.
async fn keys(store: &dyn Store) -> Result<Vec<String>, String> {
    store.audit_keys().await.map_err(|error| error.to_string())
}

/// The newest checkpoint that one of these keys signed, or why there is none.
async fn note(store: &dyn Store, keys: &[String]) -> Result<String, String> {
    let offered = store.offer_audit(0).await.map_err(|error| error.to_string())?;
    let offered = offered.parse::<AddCheckpoint>().map_err(|error| error.to_string())?;
    own(&offered.checkpoint, keys)
}

/// A checkpoint, if one of these keys signed it. Whoever can write the trail's files, and has no key, must not have anybody keep what they say.
fn own(checkpoint: &SignedCheckpoint, keys: &[String]) -> Result<String, String> {
    let mut keys = keys.iter().filter_map(|key| key.parse::<VerifierKey>().ok());
    if keys.any(|key| checkpoint.is_signed_by(&key)) {
        return Ok(checkpoint.to_string());
    }
    Err("the newest checkpoint is signed by no key of this trail: `backstop audit verify` says more"
        .to_owned())
}

/// The newest checkpoint as a file.
pub(super) async fn checkpoint(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let store = request.engine.store();
    let keys = keys(store.as_ref()).await.map_err(|_| PageError::Nothing)?;
    let note = note(store.as_ref(), &keys).await.map_err(|_| PageError::Nothing)?;
    let mut response = whole(StatusCode::OK, "text/plain; charset=utf-8", note.into());
    let disposition = HeaderValue::from_static("attachment; filename=\"trail.checkpoint\"");
    response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    Ok(response)
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

/// The entries that there are now, or those of them that are looked for, a line each.
pub(super) async fn download(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let sought = Sought::of(&searched(request))?;
    let store = Arc::clone(request.engine.store());
    let end = store.audit_head().await.map_err(|_| PageError::Store)?.seq;
    let room = Arc::clone(request.seat.streams()).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let permit = Arc::clone(&request.console().streams).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let (pieces, told) = mpsc::channel(2);
    let life = request.seat.holder().life.clone();
    tokio::spawn(async move {
        let _room = room;
        let telling = tell(store.as_ref(), &sought, end, &pieces);
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
    sought: &Sought,
    end: u64,
    pieces: &mpsc::Sender<Result<Bytes, BrokenOff>>,
) -> Result<(), StoreError> {
    let mut after = 0;
    while after < end {
        let page = store.audit_page(&sought.filter, AuditPlace::After(after), PIECE).await?;
        let mut lines = String::new();
        for entry in page.entries.iter().filter(|entry| entry.seq <= end && sought.fits(entry)) {
            lines.push_str(&serde_json::to_string(entry).unwrap_or_default());
            lines.push('\n');
        }
        if !lines.is_empty() && pieces.send(Ok(lines.into())).await.is_err() {
            return Ok(());
        }
        match page.next {
            AuditPlace::After(next) if !page.ended && next > after => after = next,
            AuditPlace::After(_) | AuditPlace::Before(_) => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use backstop_trail::{Body, Draft, Log, Options, SigningKey, now};

    use super::*;

    #[test]
    fn a_checkpoint_of_another_key_is_not_handed_out() {
        let folder = tempfile::TempDir::new().unwrap();
        let signed = |name: &str| {
            let (log, key) = (folder.path().join(name), folder.path().join(format!("{name}.key")));
            let mut log = Log::open(Options::new(log, key.clone())).unwrap();
            log.append(&[Draft::new(now(), "test", Body::of(&1).unwrap())]).unwrap();
            let key = SigningKey::open(&key).unwrap();
            (log.checkpoint().unwrap(), key.verifier(log.origin()).unwrap().to_string())
        };
        let ((ours, key), (_, other)) = (signed("ours"), signed("others"));
        assert_eq!(own(&ours, &[other.clone(), key]), Ok(ours.to_string()));
        for keys in [&[][..], &["no key".to_owned(), other]] {
            assert!(own(&ours, keys).unwrap_err().contains("is signed by no key of this trail"));
        }
    }
}
