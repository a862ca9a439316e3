//! `backstop sessions` and `backstop prune`.

mod extensions;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop::Backstop;
use backstop::config::Loaded;
use backstop::hooks::conversation::{Message, Part, Role};
use backstop::hooks::points::SessionEndReason;
use backstop::hooks::{SessionId, SessionKey};
use backstop::plugins::CleanupReason;
use backstop::store::{DeleteError, Deletion, DeletionCause, Entry, Session, Store, Timestamp};
use serde_json::json;

use super::agent::say_faults;
use crate::commands::approvals::who;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Paint, Style, ago, one_line, plain, table};
use crate::session::{Surroundings, builder};

/// How many sessions are looked through for the beginning of an id.
const SEARCHED: usize = 10_000;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// The newest so many, of an agent or of all.
    List { limit: usize, agent: Option<String> },
    /// One transcript.
    Show { id: String },
    /// Deletes some.
    Delete { which: Which, transcripts: bool, dry_run: bool },
    /// Deletes what is kept no longer.
    Prune,
}

/// Which sessions.
#[derive(Debug)]
pub(crate) enum Which {
    /// Those with these ids, or beginnings of ids.
    Named(Vec<String>),
    /// Those that fit both, where both are given.
    All { older_than: Option<Duration>, agent: Option<String> },
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    match settings {
        Settings::List { limit, agent } => {
            list(limit, agent.as_deref(), surroundings).await?;
        }
        Settings::Show { id } => show(&id, surroundings).await?,
        Settings::Delete { which, transcripts, dry_run } => {
            return delete(which, transcripts, dry_run, surroundings).await;
        }
        Settings::Prune => return prune(surroundings).await,
    }
    Ok(Exit::Success)
}

/// The hooks that are told of ends, over the store in which things are deleted.
async fn open(surroundings: &Surroundings) -> Result<Backstop, Error> {
    let loaded = surroundings.load()?;
    let store = surroundings.store(&loaded)?;
    // What is deleted is said by the store itself; no dispatch of this process needs a record.
    Ok(builder(loaded, surroundings)
        .hosts([backstop::agent::host_profile()])
        .store(store)
        .without_audit()
        .build()
        .await?)
}

async fn delete(
    which: Which,
    transcripts: bool,
    dry_run: bool,
    surroundings: &Surroundings,
) -> Result<Exit, Error> {
    let backstop = open(surroundings).await?;
    let done = delete_in(&backstop, which, transcripts, dry_run, &surroundings.output).await;
    backstop.shut_down().await;
    done
}

/// Tells plugins that a conversation was deleted.
async fn tell_plugins(backstop: &Backstop, key: Option<SessionKey>, stays: bool, output: &Output) {
    if let (Some(key), false) = (key, stays) {
        say_faults(output, backstop.clean_up_session(CleanupReason::Delete, &key).await);
    }
}

async fn delete_in(
    backstop: &Backstop,
    which: Which,
    transcripts: bool,
    dry_run: bool,
    output: &Output,
) -> Result<Exit, Error> {
    let (store, now) = (backstop.store(), Timestamp::now());
    let mut chosen = Vec::new();
    match which {
        Which::Named(names) => {
            for name in names {
                chosen.push(find(store.as_ref(), &name).await?.id);
            }
        }
        Which::All { older_than, agent } => {
            let before = older_than.map_or(now, |age| now.before(age));
            let stored = store.stored_sessions(before, true, SEARCHED).await?;
            let of_agent = |id: &str| agent.as_deref().is_none_or(|agent| agent == id);
            chosen.extend(
                stored.into_iter().filter(|stored| of_agent(stored.agent.as_str())).map(|stored| stored.id),
            );
        }
    }
    let mut seen = BTreeSet::new();
    chosen.retain(|id| seen.insert(id.clone()));
    let (mut deleted, mut refused) = (Vec::new(), Vec::new());
    for id in chosen {
        let key = store.session(&id).await?.map(|session| session.key);
        let why = Deletion { cause: DeletionCause::Asked, by: who(), at: now };
        let done = match (dry_run, transcripts) {
            (true, _) => Ok(()),
            (false, true) => store.delete_transcript(&id, why).await.map(drop),
            (false, false) => backstop::delete_session(backstop.engine(), &id, why).await.map(drop),
        };
        match done {
            Ok(()) => {
                tell_plugins(backstop, key, dry_run || transcripts, output).await;
                deleted.push(id);
            }
            Err(error @ DeleteError::InUse { .. }) => {
                output.say(&format!("kept: {}", plain(&error.to_string())));
                refused.push(id);
            }
            Err(error) => return Err(error.into()),
        }
    }
    if output.is_json() {
        output.json(&json!({ "deleted": deleted, "kept": refused, "dryRun": dry_run }))?;
    } else {
        let text: String = deleted.iter().map(|id| format!("{id}\n")).collect();
        output.text(&text)?;
        let what = if transcripts { "transcripts" } else { "sessions" };
        let verb = if dry_run { "would be deleted" } else { "deleted" };
        output.say(&format!("{} {what} {verb}", deleted.len()));
    }
    Ok(if refused.is_empty() { Exit::Success } else { Exit::Failed })
}

async fn prune(surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let backstop = open(surroundings).await?;
    let keep = backstop::retention(backstop.config());
    if keep.is_empty() {
        output.say(
            "everything is kept for ever\nhint: bounds are set in `retention:`, see docs/configuration.md",
        );
    }
    let swept = keep.apply_all(backstop.engine(), &who(), Timestamp::now()).await;
    backstop.shut_down().await;
    let swept = swept.map_err(|error| Error::Failed(error.to_string()))?;
    if output.is_json() {
        output.json(&json!({
            "sessions": swept.sessions, "transcripts": swept.transcripts, "approvals": swept.approvals,
            "auditEntries": swept.audit_entries, "inUse": swept.in_use,
        }))?;
    } else {
        output.text(&format!(
            "deleted: {} sessions, {} transcripts, {} approvals, {} audit entries\n",
            swept.sessions, swept.transcripts, swept.approvals, swept.audit_entries
        ))?;
    }
    Ok(Exit::Success)
}

async fn list(limit: usize, agent: Option<&str>, surroundings: &Surroundings) -> Result<(), Error> {
    let output = &surroundings.output;
    let (store, loaded) = store_and_configuration(surroundings)?;
    let searched = if agent.is_some() { SEARCHED.max(limit) } else { limit };
    let mut sessions = store.sessions(searched).await?;
    sessions.retain(|session| agent.is_none_or(|agent| session.agent.as_str() == agent));
    sessions.truncate(limit);
    let sessions = Box::pin(extensions::rows(sessions, &loaded, &store, surroundings)).await?;
    if output.is_json() {
        return Ok(output.json(&sessions)?);
    }
    if sessions.is_empty() {
        output.say("there are no sessions");
        return Ok(());
    }
    let now = Timestamp::now();
    let has_extensions = sessions.iter().any(|row| !row.plugin_extensions.is_empty());
    let mut header = ["id", "agent", "begun", "last used", "state", "workspace"].map(str::to_owned).to_vec();
    header.extend(has_extensions.then(|| "plugins".to_owned()));
    let mut rows = vec![header];
    rows.extend(sessions.iter().map(|extensions::Row { session, plugin_extensions }| {
        let shown: Vec<String> = plugin_extensions.iter().map(extensions::Shown::line).collect();
        let mut row = vec![
            session.id.to_string(),
            one_line(session.agent.as_str(), 30),
            ago(session.created_at, now),
            ago(session.updated_at, now),
            session.ended.map_or_else(|| "open".to_owned(), |end| format!("ended ({})", word(end.reason))),
            one_line(&session.workspace, 80),
        ];
        row.extend(has_extensions.then(|| one_line(&shown.join("; "), 120)));
        row
    }));
    Ok(output.text(&table(&rows))?)
}

fn word(reason: SessionEndReason) -> String {
    json!(reason).as_str().unwrap_or_default().to_owned()
}

/// The database, and the configuration that says where it is.
fn store_and_configuration(surroundings: &Surroundings) -> Result<(Arc<dyn Store>, Loaded), Error> {
    let loaded = surroundings.load()?;
    Ok((surroundings.store(&loaded)?, loaded))
}

async fn show(name: &str, surroundings: &Surroundings) -> Result<(), Error> {
    let output = &surroundings.output;
    let (store, loaded) = store_and_configuration(surroundings)?;
    let session = find(store.as_ref(), name).await?;
    let entries = store.transcript(&session.id).await?;
    let mut text = format!("session {}\nworkspace {}\n", session.id, plain(&session.workspace));
    let rows = Box::pin(extensions::rows(vec![session], &loaded, &store, surroundings)).await?;
    if output.is_json() {
        return Ok(output.json(&json!({ "session": rows.first(), "transcript": entries }))?);
    }
    text.extend(
        rows.iter().flat_map(|row| &row.plugin_extensions).map(|shown| format!("plugin {}\n", shown.line())),
    );
    for entry in &entries {
        text.push_str(&told(entry, output.paint()));
    }
    Ok(output.text(&text)?)
}

/// The session with that id, or the only one whose id begins so.
pub(crate) async fn find(store: &dyn Store, name: &str) -> Result<Session, Error> {
    if let Some(session) = store.session(&SessionId::new(name)).await? {
        return Ok(session);
    }
    let sessions = store.sessions(SEARCHED).await?;
    let mut meant =
        sessions.into_iter().filter(|session| !name.is_empty() && session.id.as_str().starts_with(name));
    match (meant.next(), meant.next()) {
        (Some(session), None) => Ok(session),
        (Some(_), Some(_)) => Err(Error::Failed(format!(
            "several sessions begin with `{}`\nhint: give more of the id",
            plain(name)
        ))),
        (None, _) => Err(Error::Failed(format!(
            "there is no session `{}`\nhint: `backstop sessions list` shows them",
            plain(name)
        ))),
    }
}

fn told(entry: &Entry, paint: Paint) -> String {
    let role = match entry.message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut text = format!("\n{} {}\n", paint.with(Style::Name, role), paint.with(Style::Faint, entry.at));
    text.push_str(&body(&entry.message));
    text
}

fn body(message: &Message) -> String {
    let mut text = String::new();
    for part in &message.content {
        let shown = match part {
            Part::Text { text, .. } => plain(text),
            Part::ToolCall(call) => {
                let arguments = one_line(&call.arguments.to_value().to_string(), 400);
                format!("-> {} {arguments}", plain(&call.name))
            }
            Part::ToolResult(result) => format!("<- {}", plain(&result.visible_text())),
            _ => continue,
        };
        text.extend(shown.lines().map(|line| format!("  {line}\n")));
    }
    text
}
