//! `backstop token`: who may use the gateway, and until when.

use std::time::Duration;

use backstop::hooks::AgentId;
use backstop::store::{
    AccessToken, AccessTokenId, AccessTokenList, AddAccessTokenError, NewAccessToken, Replaced, Scope, Store,
    Timestamp,
};
use serde_json::{Value, json};

use super::answerer::who;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, ago, in_future, one_line, plain, table};
use crate::session::Surroundings;

/// The most rows of a list.
const LISTED: usize = 10_000;
/// Nothing needs to be known for longer.
const LONGEST: Duration = Duration::from_hours(24 * 3_650);
const LONGEST_NAME: usize = 128;
const LONGEST_USER: usize = 256;
const LONGEST_NOTE: usize = 200;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Make one.
    Create(New),
    /// What counts, or all.
    List { all: bool },
    /// End one.
    Revoke { id: String },
}

/// A token to be made.
#[derive(Debug)]
pub(crate) struct New {
    pub(crate) agent: Option<String>,
    pub(crate) user: Option<String>,
    /// What it allows at the API, once each.
    pub(crate) scopes: Vec<Scope>,
    pub(crate) span: Duration,
    pub(crate) note: Option<String>,
    /// The token that it replaces, and how long that still counts.
    pub(crate) replaces: Option<String>,
    pub(crate) overlap: Duration,
}

impl Settings {
    /// Whether it gives nothing to anybody.
    pub(crate) fn makes_nothing(&self) -> bool {
        !matches!(self, Self::Create(_))
    }
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let store = surroundings.only_store()?;
    let (store, output) = (store.as_ref(), &surroundings.output);
    match settings {
        Settings::Create(new) => create(store, new, output).await?,
        Settings::List { all } => list(store, all, output).await?,
        Settings::Revoke { id } => revoke(store, &id, output).await?,
    }
    Ok(Exit::Success)
}

async fn create(store: &dyn Store, new: New, output: &Output) -> Result<(), Error> {
    check(&new)?;
    let now = Timestamp::now();
    let by = who("the command line");
    let (token, mut made) = match (new.agent, new.user) {
        (Some(agent), user) => {
            let (token, made) = NewAccessToken::make(AgentId::new(agent), by, now, new.span);
            (token, NewAccessToken { user, scopes: new.scopes, ..made })
        }
        (None, user) => {
            NewAccessToken::make_for_person(user.unwrap_or_default(), new.scopes, by, now, new.span)
        }
    };
    made.note = new.note;
    if let Some(name) = new.replaces {
        let old = find(store, &name).await?;
        made.replaces = Some(Replaced { id: old.made.id, ends_at: now.after(new.overlap) });
    }
    let stored = store.add_access_token(made).await.map_err(|error| match error {
        AddAccessTokenError::Store(error) => Error::from(error),
        other => Error::Failed(other.to_string()),
    })?;
    if output.is_json() {
        let mut shown = shown(&stored, now);
        if let Value::Object(fields) = &mut shown {
            fields.insert("token".to_owned(), token.expose().as_str().into());
        }
        return Ok(output.json(&shown)?);
    }
    output.text(token.expose())?;
    let ends = format!("{} ({})", in_future(now, stored.ends_at), stored.ends_at);
    output.say(&format!(
        "token {} of {} ends {ends}; it is not shown again",
        stored.made.id,
        stored.made.holder()
    ));
    Ok(())
}

fn check(new: &New) -> Result<(), Error> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    if let Some(agent) = &new.agent
        && (agent.is_empty() || agent.len() > LONGEST_NAME || !agent.bytes().all(is_name))
    {
        let problem = format!(
            "`{}` is no name of an agent\nhint: up to {LONGEST_NAME} letters, digits and `-_.:@`",
            one_line(agent, LONGEST_NAME)
        );
        return Err(Error::Usage(problem));
    }
    check_holder(new)?;
    let is_user = |user: &String| {
        (1..=LONGEST_USER).contains(&user.len()) && !user.chars().any(char::is_control) && user.trim() == user
    };
    if !new.user.as_ref().is_none_or(is_user) {
        return Err(Error::Usage(format!("`--user` has 1 to {LONGEST_USER} bytes in one line")));
    }
    if new.span > LONGEST || new.overlap > LONGEST {
        return Err(Error::Usage("a token counts for at most ten years\nhint: `--for 90d`".to_owned()));
    }
    if new.note.as_ref().is_some_and(|note| note.chars().count() > LONGEST_NOTE) {
        return Err(Error::Usage(format!("`--note` has more than {LONGEST_NOTE} characters")));
    }
    Ok(())
}

/// Who is judged answers nothing, so no token does both.
fn check_holder(new: &New) -> Result<(), Error> {
    let problem = match (&new.agent, &new.user, new.scopes.as_slice()) {
        (Some(_), _, [] | [Scope::Judge]) => return Ok(()),
        (None, Some(_), [_, ..]) if !new.scopes.contains(&Scope::Judge) => return Ok(()),
        (Some(_), ..) => "an agent's token opens the proxy, or has the scope `judge` alone",
        (None, _, scopes) if scopes.contains(&Scope::Judge) => "the scope `judge` is for an agent",
        (None, _, []) => "a token belongs to an agent, or it has scopes and belongs to a user",
        (None, ..) => "these scopes are for a person",
    };
    Err(Error::Usage(format!(
        "{problem}\nhint: `--agent NAME`, `--agent NAME --scope judge`, or `--user NAME --scope approve --scope read`"
    )))
}

async fn list(store: &dyn Store, all: bool, output: &Output) -> Result<(), Error> {
    let now = Timestamp::now();
    let tokens: Vec<AccessToken> = if all {
        let newest = store.access_tokens(LISTED).await?;
        if newest.next.is_some() {
            output.say(&format!("note: these are of the newest {LISTED}, and there are older ones"));
        }
        readable(newest, output)
    } else {
        let mut counting = readable(store.counting_access_tokens(now).await?, output);
        counting.sort_by_key(|token| std::cmp::Reverse(token.made.created_at));
        counting
    };
    if output.is_json() {
        return Ok(output.json(&tokens.iter().map(|token| shown(token, now)).collect::<Vec<_>>())?);
    }
    if tokens.is_empty() {
        output.say("no access token counts\nhint: `backstop token create --agent NAME` makes one");
        return Ok(());
    }
    let heads = ["id", "agent", "user", "scopes", "made", "ends", "last used", "note"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(tokens.iter().map(|token| row(token, now)));
    Ok(output.text(&table(&rows))?)
}

/// The tokens of a list. Says which others can't be read.
fn readable(list: AccessTokenList, output: &Output) -> Vec<AccessToken> {
    for token in &list.unreadable {
        let id = token.id.as_ref().map_or("?", AccessTokenId::as_str);
        output.say(&format!("warning: token {} can't be read and opens nothing", one_line(id, 40)));
    }
    list.tokens
}

fn row(token: &AccessToken, now: Timestamp) -> Vec<String> {
    let made = &token.made;
    let ends = match token.revoked_at {
        Some(_) => "revoked".to_owned(),
        None => format!("{} ({})", in_future(now, token.ends_at), token.ends_at),
    };
    vec![
        made.id.to_string(),
        one_line(made.agent.as_ref().map_or("", AgentId::as_str), 40),
        one_line(made.user.as_deref().unwrap_or_default(), 40),
        made.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "),
        ago(made.created_at, now),
        ends,
        token.last_used_at.map_or_else(|| "never".to_owned(), |at| ago(at, now)),
        one_line(made.note.as_deref().unwrap_or_default(), 60),
    ]
}

/// A token for programs, without its digest.
fn shown(token: &AccessToken, now: Timestamp) -> Value {
    let made = &token.made;
    json!({
        "id": made.id, "agent": made.agent, "user": made.user, "scopes": made.scopes, "note": made.note, "replaces": made.replaces.as_ref().map(|old| &old.id),
        "createdBy": made.created_by, "createdAt": made.created_at, "endsAt": token.ends_at,
        "revokedAt": token.revoked_at, "lastUsedAt": token.last_used_at, "counts": token.counts(now),
    })
}

async fn revoke(store: &dyn Store, name: &str, output: &Output) -> Result<(), Error> {
    let token = find(store, name).await?;
    let now = Timestamp::now();
    let revoked = store.revoke_access_token(&token.made.id, &who("the command line"), now).await?;
    let revoked = revoked.unwrap_or(token);
    if output.is_json() {
        return Ok(output.json(&shown(&revoked, now))?);
    }
    Ok(output.text(&format!("revoked: token {} of {}", revoked.made.id, revoked.made.holder()))?)
}

/// The token whose id begins with `name`. A whole token will do, too.
async fn find(store: &dyn Store, name: &str) -> Result<AccessToken, Error> {
    let name = match AccessTokenId::in_token(name.as_bytes()) {
        Some(id) => id.as_str().to_owned(),
        None => name.to_owned(),
    };
    // Those that count are all there, however many came and ended since.
    let mut all = store.counting_access_tokens(Timestamp::now()).await?.tokens;
    all.extend(store.access_tokens(LISTED).await?.tokens);
    all.sort_by(|one, other| one.made.id.cmp(&other.made.id));
    all.dedup_by(|one, other| one.made.id == other.made.id);
    let mut meant =
        all.into_iter().filter(|token| !name.is_empty() && token.made.id.as_str().starts_with(&name));
    match (meant.next(), meant.next()) {
        (Some(token), None) => Ok(token),
        (Some(_), Some(_)) => Err(Error::Failed(format!(
            "several access tokens begin with `{}`\nhint: give more of the id",
            plain(&name)
        ))),
        (None, _) => Err(Error::Failed(format!(
            "there is no access token `{}`\nhint: `backstop token list --all` shows them",
            one_line(&name, 40)
        ))),
    }
}
