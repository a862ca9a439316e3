//! `backstop log`: what was judged, for people and for other programs.
//!
//! The trail is read in pages ([`AuditStore::audit_page`](backstop::store::AuditStore::audit_page)), so that a line is out before the next
//! page is read, and a trail of any length takes the memory of one page. Nothing that was judged is in it, so nothing of it is shown.

mod csv;
mod facts;
mod line;
mod ocsf;
mod otlp;

use std::io;
use std::time::Duration;

use backstop::store::{AuditEntry, AuditFilter, AuditPlace, Store};

use self::facts::Facts;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::Output;
use crate::session::Surroundings;

/// How many entries a page has at most.
const PAGE: u64 = 512;
/// How often a trail that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// What is shown.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) filter: AuditFilter,
    pub(crate) order: Order,
    /// Only entries behind this number.
    pub(crate) after: u64,
    /// At most so many; all where there is none.
    pub(crate) limit: Option<u64>,
    pub(crate) form: Form,
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    NewestFirst,
    OldestFirst,
    /// Oldest first, from near the end, and then what comes.
    Follow,
}

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Jsonl,
    Csv,
    Ocsf,
    Otlp,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let store = surroundings.only_store()?;
    let mut sheet = Sheet { form: settings.form, output: &surroundings.output, begun: false, shown: 0 };
    match settings.order {
        Order::Follow => return follow(store.as_ref(), settings, &mut sheet).await,
        Order::NewestFirst => newest_first(store.as_ref(), &settings, &mut sheet).await?,
        Order::OldestFirst => oldest_first(store.as_ref(), &settings, &mut sheet).await?,
    }
    if sheet.shown == 0 && settings.form == Form::Text {
        let all = settings.filter == AuditFilter::default() && settings.after == 0;
        let none = if all { "there are no entries" } else { "there are no such entries" };
        sheet.output.say(none);
    }
    sheet.begin()?;
    Ok(Exit::Success)
}

async fn newest_first(store: &dyn Store, settings: &Settings, sheet: &mut Sheet<'_>) -> Result<(), Error> {
    let (mut place, mut left) = (AuditPlace::END, settings.limit.unwrap_or(u64::MAX));
    loop {
        let page = store.audit_page(&settings.filter, place, size(left)).await?;
        let mut entries = page.entries;
        entries.retain(|entry| entry.seq > settings.after);
        left -= entries.len() as u64;
        sheet.write(&entries)?;
        let is_through = matches!(page.next, AuditPlace::Before(next) if next <= settings.after + 1);
        if page.ended || page.is_older || is_through {
            return Ok(());
        }
        if left == 0 {
            sheet.say_cut("older");
            return Ok(());
        }
        place = page.next;
    }
}

async fn oldest_first(store: &dyn Store, settings: &Settings, sheet: &mut Sheet<'_>) -> Result<(), Error> {
    let (mut place, mut left) = (AuditPlace::After(settings.after), settings.limit.unwrap_or(u64::MAX));
    loop {
        let page = store.audit_page(&settings.filter, place, size(left)).await?;
        left -= page.entries.len() as u64;
        sheet.write(&page.entries)?;
        if page.ended {
            return Ok(());
        }
        if left == 0 {
            sheet.say_cut("later");
            return Ok(());
        }
        place = page.next;
    }
}

/// Returns how many entries the next page has at most.
fn size(left: u64) -> usize {
    usize::try_from(left.min(PAGE)).unwrap_or(usize::MAX)
}

/// Shows what comes until somebody presses Ctrl-C, or nobody reads any more.
async fn follow(store: &dyn Store, settings: Settings, sheet: &mut Sheet<'_>) -> Result<Exit, Error> {
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let showing = async {
        let mut place = AuditPlace::After(settings.after);
        if settings.after == 0 {
            let head = store.audit_head().await?.seq;
            let mut before = last(store, &settings, head).await?;
            before.reverse();
            sheet.write(&before)?;
            place = AuditPlace::After(head);
        }
        sheet.begin()?;
        loop {
            let page = store.audit_page(&settings.filter, place, size(PAGE)).await?;
            sheet.write(&page.entries)?;
            place = page.next;
            if is_closed() {
                return Ok::<Exit, Error>(Exit::Success);
            }
            if page.ended {
                tokio::time::sleep(LOOK).await;
            }
        }
    };
    tokio::select! {
        shown = showing => shown,
        _ = &mut interrupted => Ok(Exit::Interrupted),
    }
}

/// Returns the last entries before those that come, the newest first.
async fn last(store: &dyn Store, settings: &Settings, head: u64) -> Result<Vec<AuditEntry>, Error> {
    let (mut place, mut found) = (AuditPlace::Before(head.saturating_add(1)), Vec::new());
    let limit = settings.limit.unwrap_or_default();
    loop {
        let left = limit.saturating_sub(found.len() as u64);
        if left == 0 {
            return Ok(found);
        }
        let page = store.audit_page(&settings.filter, place, size(left)).await?;
        found.extend(page.entries);
        if page.ended || page.is_older {
            return Ok(found);
        }
        place = page.next;
    }
}

/// Returns whether whoever read our output has gone.
fn is_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = rustix::stdio::stdout();
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut watched, Some(&now)).is_ok()
        && watched.iter().any(|watched| watched.revents().contains(PollFlags::ERR))
}

/// Where entries are written.
struct Sheet<'o> {
    form: Form,
    output: &'o Output,
    begun: bool,
    shown: u64,
}

impl Sheet<'_> {
    /// Writes what stands before all entries.
    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) && self.form == Form::Csv {
            self.output.text(&csv::heading())?;
        }
        Ok(())
    }

    fn write(&mut self, entries: &[AuditEntry]) -> Result<(), Error> {
        self.begin()?;
        let mut text = String::new();
        for entry in entries {
            let facts = Facts::of(entry);
            let json = match self.form {
                Form::Text => {
                    text.push_str(&line::of(&facts, self.output.paint()));
                    text.push('\n');
                    continue;
                }
                Form::Csv => {
                    text.push_str(&csv::row(&facts));
                    continue;
                }
                Form::Jsonl => serde_json::to_string(entry),
                Form::Ocsf => serde_json::to_string(&ocsf::event(&facts)),
                Form::Otlp => serde_json::to_string(&otlp::logs(&facts)),
            };
            text.push_str(&json.map_err(io::Error::from)?);
            text.push('\n');
        }
        self.shown += entries.len() as u64;
        if text.is_empty() { Ok(()) } else { Ok(self.output.text(&text)?) }
    }

    /// Says that a limit has cut off entries.
    fn say_cut(&self, which: &str) {
        let shown = self.shown;
        self.output.say(&format!(
            "{shown} entries were shown, and {which} ones were not looked at\nhint: `--limit N` or `--all` shows more, `--since` and other filters say which"
        ));
    }
}
