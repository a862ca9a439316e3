//! `backstop grants`: what was allowed for good, and taking it back.

use backstop::hooks::RuleId;
use backstop::store::{Grant, GrantTarget, Timestamp};

use super::answerer::who;
use crate::desk::Answers;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, ago, in_future, one_line, plain, table};
use crate::session::Surroundings;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// What is in force, or all.
    List { all: bool },
    /// Take one back.
    Revoke { id: String },
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let answers = Answers::of(surroundings)?;
    match settings {
        Settings::List { all } => list(&answers, all, &surroundings.output).await?,
        Settings::Revoke { id } => revoke(&answers, &id, &surroundings.output).await?,
    }
    Ok(Exit::Success)
}

async fn list(answers: &Answers, all: bool, output: &Output) -> Result<(), Error> {
    let now = Timestamp::now();
    let (grants, void) = answers.grants().await?;
    let mut grants: Vec<Grant> = grants.into_iter().map(|(_, grant)| grant).collect();
    if !void.is_empty() {
        let titles: Vec<String> = void.iter().take(5).map(|grant| one_line(&grant.title, 60)).collect();
        output.say(&format!(
            "note: {} of an earlier version count no longer, since they held in every folder and for everybody: {}{}",
            void.len(),
            titles.join("; "),
            if void.len() > titles.len() { "; ..." } else { "" },
        ));
    }
    grants.retain(|grant| all || grant.is_in_force(now));
    if output.is_json() {
        return Ok(output.json(&grants)?);
    }
    if grants.is_empty() {
        output.say("no grants are in force");
        if let Some(note) = answers.note() {
            output.say(note);
        }
        return Ok(());
    }
    let heads = ["id", "tool", "covers", "where", "granted", "ends", "uses", "question"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(grants.iter().map(|grant| row(grant, now)));
    Ok(output.text(&table(&rows))?)
}

fn row(grant: &Grant, now: Timestamp) -> Vec<String> {
    let granted = &grant.granted;
    let covers = match &granted.target {
        GrantTarget::Call { digest, .. } => format!("the call {}", digest.short()),
        GrantTarget::Program { words } => format!("calls of {}", one_line(&words.join(" "), 40)),
        GrantTarget::Rule => {
            let rules: Vec<&str> = granted.question.rules.iter().map(RuleId::as_str).collect();
            format!("the rule {}", one_line(&rules.join(", "), 60))
        }
        GrantTarget::Amount { argument, most, .. } => {
            format!("{} of {most} in `{}`", grant.spent, one_line(argument, 40))
        }
    };
    let ends = match grant.revoked_at {
        Some(_) => "revoked".to_owned(),
        None if grant.is_used_up() => "used up".to_owned(),
        None => format!("{} ({})", in_future(now, granted.expires_at), granted.expires_at),
    };
    let place = [&granted.place.workspace, &granted.place.requester, &granted.place.channel];
    let place: Vec<&str> = place.into_iter().flatten().map(String::as_str).collect();
    vec![
        grant.id.to_string(),
        one_line(&granted.tool_name.in_full(), 32),
        covers,
        one_line(&place.join(" "), 60),
        ago(granted.created_at, now),
        ends,
        match granted.most_uses {
            Some(most) => format!("{} of {most}", grant.uses),
            None => grant.uses.to_string(),
        },
        one_line(&granted.title, 60),
    ]
}

async fn revoke(answers: &Answers, name: &str, output: &Output) -> Result<(), Error> {
    let (grants, _) = answers.grants().await?;
    let mut meant =
        grants.iter().filter(|(_, grant)| !name.is_empty() && grant.id.as_str().starts_with(name));
    let (place, grant) = match (meant.next(), meant.next()) {
        (Some(meant), None) => meant,
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
    let revoked = place.revoke(&grant.id, who("the command line")).await?;
    if output.is_json() {
        return Ok(output.json(&revoked)?);
    }
    Ok(output.text(&format!("revoked: {}", one_line(&grant.granted.title, 80)))?)
}
