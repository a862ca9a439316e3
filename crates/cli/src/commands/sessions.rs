//! `backstop sessions`.

use backstop::hooks::SessionId;
use backstop::hooks::conversation::{Message, Part, Role};
use backstop::store::{Entry, Session, Store, Timestamp};
use serde_json::json;

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Paint, Style, ago, one_line, plain, table};
use crate::session::Surroundings;

/// How many sessions are looked through for the beginning of an id.
const SEARCHED: usize = 10_000;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// The newest so many.
    List { limit: usize },
    /// One transcript.
    Show { id: String },
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let store = surroundings.only_store()?;
    match settings {
        Settings::List { limit } => list(store.as_ref(), limit, &surroundings.output).await?,
        Settings::Show { id } => show(store.as_ref(), &id, &surroundings.output).await?,
    }
    Ok(Exit::Success)
}

async fn list(store: &dyn Store, limit: usize, output: &Output) -> Result<(), Error> {
    let sessions = store.sessions(limit).await?;
    if output.is_json() {
        return Ok(output.json(&sessions)?);
    }
    if sessions.is_empty() {
        output.say("there are no sessions");
        return Ok(());
    }
    let now = Timestamp::now();
    let mut rows = vec![["id", "begun", "last used", "state", "workspace"].map(str::to_owned).to_vec()];
    rows.extend(sessions.iter().map(|session| {
        vec![
            session.id.to_string(),
            ago(session.created_at, now),
            ago(session.updated_at, now),
            if session.ended.is_some() { "ended" } else { "open" }.to_owned(),
            one_line(&session.workspace, 80),
        ]
    }));
    Ok(output.text(&table(&rows))?)
}

async fn show(store: &dyn Store, name: &str, output: &Output) -> Result<(), Error> {
    let session = find(store, name).await?;
    let entries = store.transcript(&session.id).await?;
    if output.is_json() {
        return Ok(output.json(&json!({ "session": session, "transcript": entries }))?);
    }
    let mut text = format!("session {}\nworkspace {}\n", session.id, plain(&session.workspace));
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
