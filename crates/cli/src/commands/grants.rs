//! `backstop grants`: what was allowed for good, and taking it back.

use backstop::hooks::RuleId;
use backstop::store::{Grant, GrantTarget, Store, Timestamp};

use super::answerer::who;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, ago, in_future, one_line, plain, table};
use crate::session::Surroundings;

/// The most grants that are looked at.
const LISTED: usize = 1_000;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// What is in force, or all.
    List { all: bool },
    /// Take one back.
    Revoke { id: String },
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let store = surroundings.only_store()?;
    match settings {
        Settings::List { all } => list(store.as_ref(), all, &surroundings.output).await?,
        Settings::Revoke { id } => revoke(store.as_ref(), &id, &surroundings.output).await?,
    }
    Ok(Exit::Success)
}

async fn list(store: &dyn Store, all: bool, output: &Output) -> Result<(), Error> {
    let now = Timestamp::now();
    let mut grants = store.grants(LISTED).await?;
    let void = store.void_grants(LISTED).await?;
    if !void.is_empty() {
        let titles: Vec<String> = void.iter().take(5).map(|grant| one_line(&grant.title, 60)).collect();
        output.say(&format!(
            "note: {} of an earlier version count no longer, since they held in every folder and for everybody: {}{}",
            void.len(),
            titles.join("; "),
            if void.len() > titles.len() { "; ..." } else { "" },
        ));
    }
    grants.retain(|grant| all || is_in_force(grant, now));
    if output.is_json() {
        return Ok(output.json(&grants)?);
    }
    if grants.is_empty() {
        output.say("no grants are in force");
        return Ok(());
    }
    let heads = ["id", "tool", "covers", "where", "granted", "ends", "uses", "question"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(grants.iter().map(|grant| row(grant, now)));
    Ok(output.text(&table(&rows))?)
}

fn is_in_force(grant: &Grant, now: Timestamp) -> bool {
    grant.revoked_at.is_none() && now <= grant.granted.expires_at
}

fn row(grant: &Grant, now: Timestamp) -> Vec<String> {
    let granted = &grant.granted;
    let covers = match &granted.target {
        GrantTarget::Call { digest } => format!("the call {}", digest.short()),
        GrantTarget::Program { words } => format!("calls of {}", one_line(&words.join(" "), 40)),
        GrantTarget::Rule => {
            let rules: Vec<&str> = granted.question.rules.iter().map(RuleId::as_str).collect();
            format!("the rule {}", one_line(&rules.join(", "), 60))
        }
    };
    let ends = match grant.revoked_at {
        Some(_) => "revoked".to_owned(),
        None => format!("{} ({})", in_future(now, granted.expires_at), granted.expires_at),
    };
    let place = [&granted.place.workspace, &granted.place.requester, &granted.place.channel];
    let place: Vec<&str> = place.into_iter().flatten().map(String::as_str).collect();
    vec![
        grant.id.to_string(),
        one_line(&format!("{:#}", granted.tool_name), 32),
        covers,
        one_line(&place.join(" "), 60),
        ago(granted.created_at, now),
        ends,
        grant.uses.to_string(),
        one_line(&granted.title, 60),
    ]
}

async fn revoke(store: &dyn Store, name: &str, output: &Output) -> Result<(), Error> {
    let grants = store.grants(LISTED).await?;
    let mut meant = grants.iter().filter(|grant| !name.is_empty() && grant.id.as_str().starts_with(name));
    let grant = match (meant.next(), meant.next()) {
        (Some(grant), None) => grant,
        (Some(_), Some(_)) => {
            return Err(Error::Failed(format!(
                "several grants begin with `{}`\nhint: give more of the id",
                plain(name)
            )));
        }
        (None, _) => {
            return Err(Error::Failed(format!(
                "there is no grant `{}`\nhint: `backstop grants list` shows those in force",
                plain(name)
            )));
        }
    };
    let revoked = store.revoke_grant(&grant.id, &who("the command line"), Timestamp::now()).await?;
    if output.is_json() {
        return Ok(output.json(&revoked)?);
    }
    Ok(output.text(&format!("revoked: {}", one_line(&grant.granted.title, 80)))?)
}
