//! What pages are told while somebody looks at them: that questions came or were answered, and what passes.
//!
//! One task looks for all pages, as long as there is one: at the number of questions, and at the end of the trail. What passes is told at most
//! ten times a second; a page that comes late, or goes on after a break, is told the last [`KEPT`] rows, and how many more there were.
//!
//! A stream ends with its session, and when the gateway stops.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_console::{Decision, LiveRow, one_line};
use backstop_engine::Engine;
use backstop_hooks::SessionId;
use backstop_store::{AuditEntry, AuditFilter, Overview, Store};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep};

use super::sessions::Seat;
use super::{Answer, Console, PageError, PageRequest, chat, form};
use crate::chat::{Chat, ChatPerson};
use crate::server::answer::{AnswerBody, BrokenOff};

/// How often is looked.
const TICK: Duration = Duration::from_millis(100);
/// At how many of these ticks the questions are counted.
const QUESTIONS: u32 = 3;
/// How many rows are kept.
const KEPT: usize = 200;
/// How many entries are read at once, and by how many one may be behind.
const PIECE: usize = 1_000;
const MOST_BEHIND: u64 = 5_000;
/// How often something is said when there is nothing to say.
const COMMENT: Duration = Duration::from_secs(15);
/// How often it is looked whether a session goes on.
const WATCHED: Duration = Duration::from_millis(500);
/// The most characters of a text in a row.
const MOST: usize = 80;

/// Looks, for all pages.
#[derive(Debug)]
pub(super) struct Hub {
    seen: watch::Sender<Arc<Seen>>,
    looking: Mutex<Looking>,
    /// How many pages want to know what passes.
    live: AtomicUsize,
}

impl Default for Hub {
    fn default() -> Self {
        Self { seen: watch::Sender::default(), looking: Mutex::default(), live: AtomicUsize::new(0) }
    }
}

/// At what is looked.
#[derive(Debug, Default)]
struct Looking {
    /// Whether somebody looks.
    is_on: bool,
    /// The hooks in force, whether somebody looks or not.
    engine: Option<Engine>,
}

/// What was seen last.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// `None` before the first look.
    overview: Option<Overview>,
    rows: VecDeque<Arc<Row>>,
    /// How many rows there ever were.
    count: u64,
}

/// Something that passed.
#[derive(Debug)]
struct Row {
    seq: u64,
    /// Its number among all rows.
    number: u64,
    json: Value,
}

/// A page wants to know what passes, as long as this lives.
struct Watching(Arc<Hub>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Hub {
    fn looking(&self) -> MutexGuard<'_, Looking> {
        self.looking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears what is seen from now on. `engine` counts where no other came into force yet: that of a request may be the one before a reload.
    fn listen(self: &Arc<Self>, engine: &Engine) -> watch::Receiver<Arc<Seen>> {
        let mut looking = self.looking();
        let seen = self.seen.subscribe();
        looking.engine.get_or_insert_with(|| engine.clone());
        if !std::mem::replace(&mut looking.is_on, true) {
            self.seen.send_replace(Arc::default());
            let look = Look { hub: Arc::clone(self), after: None };
            tokio::spawn(look.run());
        }
        seen
    }

    /// Goes on with the hooks in force, whether somebody listens or not: nothing is kept of those before.
    pub(super) fn go_on_with(&self, engine: &Engine) {
        self.looking().engine = Some(engine.clone());
    }

    fn watch(self: &Arc<Self>) -> Watching {
        self.live.fetch_add(1, Ordering::Relaxed);
        Watching(Arc::clone(self))
    }

    /// Returns the hooks in force, as long as somebody listens. If nobody does, whoever looks is to stop.
    fn in_force(&self) -> Option<Engine> {
        let mut looking = self.looking();
        looking.is_on = self.seen.receiver_count() > 0;
        looking.engine.clone().filter(|_| looking.is_on)
    }
}

/// Looks until nobody listens.
struct Look {
    hub: Arc<Hub>,
    /// The last entry that was seen.
    after: Option<u64>,
}

impl Look {
    async fn run(mut self) {
        let mut tick = 0_u32;
        while let Some(engine) = self.hub.in_force() {
            let mut seen = Seen::clone(&self.hub.seen.borrow());
            let mut is_new = false;
            // What can't be read now is looked at again: pages show what they know, and say nothing that is not so.
            let counts = tick.is_multiple_of(QUESTIONS);
            tick = tick.wrapping_add(1);
            if counts && let Ok(overview) = engine.answer_store().overview().await {
                is_new |= seen.overview != Some(overview);
                seen.overview = Some(overview);
            }
            if self.hub.live.load(Ordering::Relaxed) > 0 {
                is_new |= self.pass(engine.store().as_ref(), &mut seen).await;
            } else {
                self.after = None;
            }
            if is_new {
                self.hub.seen.send_replace(Arc::new(seen));
            }
            drop(engine);
            sleep(TICK).await;
        }
    }

    /// Takes what passed since the last look. Returns whether there was something.
    async fn pass(&mut self, store: &dyn Store, seen: &mut Seen) -> bool {
        let after = match self.after {
            Some(after) => after,
            // What passed just before somebody looked is shown, too.
            None => match store.audit_head().await {
                Ok(head) => {
                    // Some of it may have been seen before, when somebody looked.
                    seen.rows.clear();
                    head.seq.saturating_sub(KEPT as u64)
                }
                Err(_) => return false,
            },
        };
        let Ok(entries) = store.audit(&AuditFilter::default(), after, PIECE).await else { return false };
        let is_full = entries.len() == PIECE;
        let mut reached = entries.last().map_or(after, |entry| entry.seq);
        let before = seen.count;
        for row in entries.iter().filter_map(row) {
            seen.count = seen.count.saturating_add(1);
            seen.rows.push_back(Arc::new(Row { seq: row.seq, number: seen.count, json: row.to_json() }));
        }
        if is_full && let Ok(head) = store.audit_head().await {
            let behind = head.seq.saturating_sub(reached);
            if behind > MOST_BEHIND {
                let passed_over = behind.saturating_sub(PIECE as u64);
                seen.count = seen.count.saturating_add(passed_over);
                reached = reached.saturating_add(passed_over);
            }
        }
        let surplus = seen.rows.len().saturating_sub(KEPT);
        seen.rows.drain(..surplus);
        self.after = Some(reached);
        seen.count != before
    }
}

/// Opens the stream of a page.
pub(super) fn stream(request: &PageRequest<'_>) -> Answer {
    let wants_live = form::query(request.head, "live") == "1" && request.seat.may_read();
    let room = Arc::clone(request.seat.streams()).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let permit = Arc::clone(&request.console().streams).try_acquire_owned().map_err(|_| PageError::Busy)?;
    let last =
        request.head.headers.get("last-event-id").and_then(|last| last.to_str().ok()).map(str::to_owned);
    let after = last.unwrap_or_else(|| form::query(request.head, "after")).parse().unwrap_or(0);
    let chat = request.shared.chat.clone();
    let id = chat::named(&form::query(request.head, "chat")).ok();
    let chat = chat.zip(chat::person(&request.seat)).zip(id).map(|((chat, who), id)| (chat, who, id));
    let hub = &request.console().hub;
    let (pieces, told) = mpsc::channel(4);
    let teller = Teller {
        console: Arc::clone(&request.shared.console),
        stopping: request.shared.operators.stopping(),
        seat: request.seat.clone(),
        watching: wants_live.then(|| hub.watch()),
        chat,
        chat_told: None,
        _room: room,
        seen: hub.listen(request.engine),
        pieces,
        told: None,
        after,
        number: 0,
    };
    tokio::spawn(teller.run());
    let mut response = Response::new(AnswerBody::told(told).shown(permit));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Tells one page.
struct Teller {
    // No more of the gateway than this: a page may outlive settings.
    console: Arc<Console>,
    stopping: watch::Receiver<bool>,
    seat: Seat,
    watching: Option<Watching>,
    /// The conversation that the page shows, and what the page knows of it.
    chat: Option<(Arc<dyn Chat>, ChatPerson, SessionId)>,
    chat_told: Option<Option<u64>>,
    /// One of the streams of its session.
    _room: OwnedSemaphorePermit,
    seen: watch::Receiver<Arc<Seen>>,
    pieces: mpsc::Sender<Result<Bytes, BrokenOff>>,
    /// What the page knows of the questions.
    told: Option<Overview>,
    /// The last entry, and the number of the last row, that it knows.
    after: u64,
    number: u64,
}

impl Teller {
    async fn run(mut self) {
        let (life, pieces) = (self.seat.holder().life.clone(), self.pieces.clone());
        let mut stopping = self.stopping.clone();
        let telling = async {
            if !self.say("retry: 1500\n\n".to_owned()).await {
                return;
            }
            let mut said_at = Instant::now();
            loop {
                let news = self.news();
                if !news.is_empty() {
                    if !self.say(news).await {
                        return;
                    }
                    said_at = Instant::now();
                    sleep(TICK).await;
                }
                tokio::select! {
                    changed = self.seen.changed() => if changed.is_err() { return },
                    () = sleep(WATCHED) => {}
                }
                if !self.console.sessions.goes_on(&self.seat) {
                    self.say("event: over\ndata: {}\n\n".to_owned()).await;
                    return;
                }
                if said_at.elapsed() >= COMMENT {
                    if !self.say(": here\n\n".to_owned()).await {
                        return;
                    }
                    said_at = Instant::now();
                }
            }
        };
        tokio::select! {
            () = telling => {}
            () = pieces.closed() => {}
            () = life.over() => {
                let _ = pieces.try_send(Ok(Bytes::from_static(b"event: over\ndata: {}\n\n")));
            }
            _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
        }
    }

    async fn say(&self, text: String) -> bool {
        self.pieces.send(Ok(text.into())).await.is_ok()
    }

    /// What the page does not know yet.
    fn news(&mut self) -> String {
        let seen = Arc::clone(&self.seen.borrow_and_update());
        let mut text = String::new();
        if seen.overview.is_some() && seen.overview != self.told {
            self.told = seen.overview;
            let Overview { waiting, mark } = seen.overview.unwrap_or_default();
            // As a text: numbers of scripts are not that exact.
            let data = json!({ "waiting": waiting, "mark": mark.to_string() });
            text.push_str(&format!("event: approvals\ndata: {data}\n\n"));
        }
        if let Some((chat, who, id)) = &self.chat {
            let now = Some(chat.mark(who, id));
            if std::mem::replace(&mut self.chat_told, now) != now {
                text.push_str("event: chat\ndata: {}\n\n");
            }
        }
        if self.watching.is_some() {
            text.push_str(&self.passed(&seen));
        }
        text
    }

    fn passed(&mut self, seen: &Seen) -> String {
        let fresh: Vec<&Arc<Row>> =
            seen.rows.iter().filter(|row| row.number > self.number && row.seq > self.after).collect();
        let Some(last) = fresh.last() else { return String::new() };
        let known = seen.count.saturating_sub(self.number);
        // The first rows of a page are where it begins, not what it missed.
        let more = if self.number == 0 { 0 } else { known.saturating_sub(fresh.len() as u64) };
        let rows: Vec<&Value> = fresh.iter().map(|row| &row.json).collect();
        let data = json!({ "rows": rows, "more": more });
        let text = format!("id: {}\nevent: live\ndata: {data}\n\n", last.seq);
        (self.after, self.number) = (last.seq, seen.count);
        text
    }
}

/// A receipt as a row; nothing for other entries.
fn row(entry: &AuditEntry) -> Option<LiveRow> {
    if entry.kind != "receipt" {
        return None;
    }
    let body = &entry.body;
    let text = |value: Option<&Value>| one_line(value.and_then(Value::as_str).unwrap_or_default(), MOST);
    let at = |name: &str| body.get(name);
    let blocked = at("blocked");
    let verdict = at("verdict").and_then(Value::as_str).unwrap_or_default();
    let decision = match verdict {
        "block" => Decision::Block,
        _ if at("approval").is_some() => Decision::Asked,
        "pass" => Decision::Pass,
        "modify" => Decision::Modify,
        _ => Decision::Other,
    };
    let approval = |name| at("approval").and_then(|approval| approval.get(name));
    let is_hosted = approval("hosted").is_some();
    let rules = blocked.and_then(|blocked| blocked.pointer("/reason/rules")).or_else(|| approval("rules"));
    let rules = rules.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let hook = blocked.and_then(|blocked| blocked.get("hook")).and_then(Value::as_str);
    let by: Vec<&str> = hook.into_iter().chain(rules).collect();
    let micros = at("elapsedUs").and_then(Value::as_u64).unwrap_or_default();
    let facts = [
        ("called as", text(at("calledAs"))),
        ("cause", text(blocked.and_then(|blocked| blocked.get("cause")))),
        (
            "answer",
            if is_hosted { "asks the client's user".to_owned() } else { text(approval("resolution")) },
        ),
        ("question", text(approval("id"))),
        ("session", text(at("sessionId"))),
        ("run", text(at("runId"))),
        ("call", text(at("toolCallId"))),
        ("judged", text(at("judged"))),
        ("took", format!("{}.{:03} ms", micros / 1_000, micros % 1_000)),
    ];
    Some(LiveRow {
        seq: entry.seq,
        at: entry.at.as_millis(),
        decision,
        point: text(at("point")),
        tool: text(at("tool")),
        agent: text(at("agentId")),
        by: one_line(&by.join(", "), MOST),
        facts: facts.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use backstop_store::SqliteStore;

    use super::*;

    fn engine() -> (Engine, Arc<SqliteStore>) {
        let before = Arc::new(SqliteStore::in_memory());
        let store: Arc<dyn Store> = Arc::clone(&before) as Arc<dyn Store>;
        (Engine::builder().store(store).build(), before)
    }

    async fn is_let_go(store: &Arc<SqliteStore>) {
        for _ in 0..2000 {
            if Arc::strong_count(store) == 1 {
                return;
            }
            sleep(Duration::from_millis(5)).await;
        }
        panic!("somebody still holds it");
    }

    #[tokio::test]
    async fn an_open_page_keeps_nothing_of_a_configuration_from_before() {
        let (engine, before) = engine();
        let hub = Arc::<Hub>::default();
        let _page = hub.listen(&engine);
        hub.go_on_with(&Engine::builder().build());
        drop(engine);
        is_let_go(&before).await;
    }

    #[tokio::test]
    async fn a_page_that_was_asked_for_before_a_reload_takes_the_hooks_in_force() {
        let (engine, before) = engine();
        let hub = Arc::<Hub>::default();
        // Nobody looks when the other configuration comes into force.
        hub.go_on_with(&Engine::builder().build());
        let _page = hub.listen(&engine);
        drop(engine);
        is_let_go(&before).await;
    }
}
