//! `backstop approvals` and `backstop allow-once`: a human's answers, given through the database or at a desk.

mod starts;
mod substitutes;
mod surfaces;

use std::path::PathBuf;
use std::time::Duration;

use backstop::hooks::{Decision, Severity, Substitute};
use backstop::store::{
    ANSWERABLE, Allowance, Always, ApprovalReason, ApprovalRecord, ApprovalState, Given, Grant, NewApproval,
    People, Reach, Timestamp,
};
use serde_json::json;

use super::answerer;
use crate::desk::Answers;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Paint, Style, ago, in_future, one_line, plain, table};
use crate::session::Surroundings;

/// The most rows of a list.
const LISTED: usize = 200;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// What can be answered, or all.
    List { all: bool },
    /// One question, with all of the arguments where they are shown in part otherwise.
    Show { name: String, whole: bool },
    /// Allow the call that waits.
    Approve { name: String, always: Option<Always> },
    /// Deny it, with a word to the model.
    Deny { name: String, word: Option<String> },
    /// Change the call that waits: to the arguments in this file.
    Edit { name: String, arguments: PathBuf },
    /// Give its result.
    Respond { name: String, text: String },
    /// Allow one later call.
    AllowLater { name: String, ttl: Duration },
    /// List the surfaces, or test one.
    Surfaces(Option<String>),
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    if let Settings::Surfaces(test) = settings {
        return surfaces::run(test.as_deref(), surroundings).await;
    }
    let answers = Answers::of(surroundings)?;
    let output = &surroundings.output;
    match settings {
        Settings::List { all } => {
            list(&answers, all, output).await?;
            surroundings.warn_of_pin();
        }
        Settings::Show { name, whole } => show(&answers, &name, whole, output).await?,
        Settings::Approve { name, always: None } => {
            answer(&answers, &name, Decision::AllowOnce, None, output).await?;
        }
        Settings::Approve { name, always: Some(always) } => {
            let (place, record) = answers.find(&name).await?;
            let (record, grants) = place.always(&record.id, always, who()).await?;
            tell(&record, &answers, output, Some(&grants))?;
        }
        Settings::Deny { name, word } => answer(&answers, &name, Decision::Deny, word, output).await?,
        Settings::Edit { name, arguments } => {
            substitute(&answers, &name, substitutes::arguments(&arguments)?, output).await?;
        }
        Settings::Respond { name, text } => {
            substitute(&answers, &name, substitutes::result(text)?, output).await?;
        }
        Settings::AllowLater { name, ttl } => {
            let (place, record) = answers.find(&name).await?;
            tell(&place.allow_later(&record.id, ttl, who()).await?, &answers, output, None)?;
        }
        Settings::Surfaces(_) => {}
    }
    Ok(Exit::Success)
}

async fn show(answers: &Answers, name: &str, whole: bool, output: &Output) -> Result<(), Error> {
    let (place, record) = answers.find(name).await?;
    if output.is_json() {
        return Ok(output.json(&substitutes::without_given(&record))?);
    }
    output.text(&question(&record, answers.people(), Timestamp::now(), output.paint()))?;
    if !whole {
        return Ok(());
    }
    let Some(all) = record.request.whole.as_ref().filter(|_| record.request.unseen) else {
        let why = match record.request.unseen {
            true => "the arguments are too large to be kept, so they can't be shown whole, nor allowed",
            false => "all of the arguments are above",
        };
        output.say(why);
        return Ok(());
    };
    let all = serde_json::to_string_pretty(all).unwrap_or_default();
    output.text(&format!("whole:\n{}", plain(&all)))?;
    // Afterwards: what could not be written was not shown.
    if !place.seen(&record.id).await? {
        output.say("note: you are not asked, or the question is over: this counts as seen by nobody who may allow the call");
    }
    Ok(())
}

async fn list(answers: &Answers, all: bool, output: &Output) -> Result<(), Error> {
    let now = Timestamp::now();
    let records = match all {
        true => newest(answers, output).await?,
        false => open(answers, output).await?,
    };
    for refused in answers.refused().await? {
        output.say(&format!("note: {}", one_line(&refused.told(), 200)));
    }
    if output.is_json() {
        let records: Vec<_> = records.iter().map(substitutes::without_given).collect();
        return Ok(output.json(&records)?);
    }
    if records.is_empty() {
        output.say("no approvals wait");
        if let Some(note) = answers.note() {
            output.say(note);
        }
        return Ok(());
    }
    let is_routed = records.iter().any(|record| record.request.route.is_some());
    let heads = ["code", "status", "severity", "tool", "asked", "expires", "question"];
    let heads = heads.into_iter().chain(is_routed.then_some("votes"));
    let mut rows = vec![heads.map(str::to_owned).collect()];
    rows.extend(records.iter().map(|record| {
        let request = &record.request;
        let pending = record.state == ApprovalState::Pending;
        let mut row = vec![
            record.code.clone(),
            record.state.status().to_string(),
            severity(request.severity).to_owned(),
            one_line(&request.tool_name.in_full(), 32),
            ago(request.created_at, now),
            if pending { in_future(now, request.expires_at) } else { "-".to_owned() },
            one_line(&request.title, 80),
        ];
        if is_routed {
            row.push(standing(record, answers.people(), now).unwrap_or_else(|| "-".to_owned()));
        }
        row
    }));
    Ok(output.text(&table(&rows))?)
}

/// Those that can be answered. INVARIANT (closed world): a bound that leaves some out says so.
async fn open(answers: &Answers, output: &Output) -> Result<Vec<ApprovalRecord>, Error> {
    let (records, count) = answers.open(LISTED).await?;
    match count.saturating_sub(records.len()) {
        0 => {}
        more => output.say(&format!("note: {more} more are not listed, which wait longer or wait no more")),
    }
    if !output.is_json() {
        return Ok(records);
    }
    // Lists don't carry arguments, and a program is shown no part of them as if it were all.
    let mut whole = Vec::with_capacity(records.len());
    for record in records {
        whole.push(answers.find(record.id.as_str()).await?.1);
    }
    Ok(whole)
}

/// The newest, whatever became of them.
async fn newest(answers: &Answers, output: &Output) -> Result<Vec<ApprovalRecord>, Error> {
    let mut records = answers.list(LISTED + 1).await?;
    if records.len() > LISTED {
        output.say("note: older ones are not listed");
        records.truncate(LISTED);
    }
    Ok(records)
}

/// Whether an answer would count: the call waits, or it was refused because nobody answered, and may be made again.
fn is_open(record: &ApprovalRecord, now: Timestamp) -> bool {
    let end = record.request.expires_at.after(ANSWERABLE);
    match record.state {
        ApprovalState::Pending => true,
        ApprovalState::Unattended { .. } | ApprovalState::TimedOut { .. } => now <= end,
        ApprovalState::Allowed(_)
        | ApprovalState::Used { .. }
        | ApprovalState::Denied { .. }
        | ApprovalState::Edited(_)
        | ApprovalState::Responded(_)
        | ApprovalState::Cancelled { .. } => false,
    }
}

/// Everything a human should know before answering. The arguments are shown as JSON, in which nothing can
/// redraw the terminal.
pub(crate) fn question(record: &ApprovalRecord, people: &People, now: Timestamp, paint: Paint) -> String {
    let request = &record.request;
    let style = match request.severity {
        Severity::Info => Style::Good,
        Severity::Warning => Style::Notice,
        Severity::Critical => Style::Bad,
    };
    let call = serde_json::to_string_pretty(request.shown()).unwrap_or_default();
    let call: String = plain(&call).lines().map(|line| format!("    {line}\n")).collect();
    let mut text = format!(
        "{} {}\n",
        paint.with(style, severity(request.severity)),
        paint.with(Style::Name, plain(&request.title))
    );
    if !request.description.is_empty() {
        text.push_str(&format!("  {}\n", plain(&request.description)));
    }
    text.push_str(&format!("  call: {}\n{call}", plain(&request.tool_name.in_full())));
    if request.masked > 0 {
        let secrets =
            if request.masked == 1 { "1 secret is" } else { &format!("{} secrets are", request.masked) };
        text.push_str(&format!("  {}\n", paint.with(Style::Notice, format!("{secrets} masked"))));
    }
    if !request.amounts.is_empty() {
        let amounts =
            request.amounts.iter().map(|one| format!("{} {}", one_line(&one.argument, 40), one.amount));
        text.push_str(&format!("  amounts: {}\n", amounts.collect::<Vec<_>>().join(", ")));
    }
    text.push_str(&substitutes::told(request));
    text.push_str(&request.starts.as_ref().map(starts::told).unwrap_or_default());
    text.push_str(&whence(request));
    for reason in &request.reasons {
        let description = match reason.description.as_str() {
            "" => String::new(),
            description => format!(" - {}", one_line(description, 200)),
        };
        text.push_str(&format!(
            "  asked by {} ({}): {}{}{description}\n",
            plain(reason.hook.as_str()),
            severity(reason.severity),
            one_line(&reason.title, 120),
            rules(reason),
        ));
    }
    if request.unseen {
        let note = match request.whole {
            Some(_) => format!("`backstop approvals show {} --whole` shows all", record.code),
            None => "they are too large to be kept".to_owned(),
        };
        let told = format!("not all arguments are shown, so this can't be allowed: {note}");
        text.push_str(&format!("  {}\n", paint.with(Style::Bad, told)));
    }
    text.push_str(&format!("  digest: {}\n", request.digest.short()));
    text.push_str(&format!("  code: {}\n", paint.with(Style::Name, &record.code)));
    let offered = request.allowed_decisions.iter().map(|decision| word(*decision));
    let substitutes = request.substitutes.iter().copied().map(Substitute::as_str);
    let offered: Vec<&str> = offered.chain(substitutes).collect();
    text.push_str(&format!("  answers: {}\n", offered.join(", ")));
    text.push_str(&format!("  asked: {}\n", ago(request.created_at, now)));
    text.push_str(&format!("  state: {}\n", state(record, now)));
    if let Some(standing) = standing(record, people, now) {
        text.push_str(&format!("  votes: {standing}\n"));
    }
    if let Some(told) = request.route.as_ref().and_then(|route| route.told.as_ref()) {
        text.push_str(&format!("  told on: {}\n", one_line(&told.in_words(), 600)));
    }
    text
}

/// Who may answer, and who has, where that is said and something is still to be answered.
fn standing(record: &ApprovalRecord, people: &People, now: Timestamp) -> Option<String> {
    let standing = record.standing(people, now).filter(|_| is_open(record, now))?;
    Some(one_line(&standing.told(), 600))
}

/// The most rules of a reason that are shown.
const MOST_RULES: usize = 16;

/// The rules that a reason is based on.
fn rules(reason: &ApprovalReason) -> String {
    if reason.rules.is_empty() {
        return String::new();
    }
    let mut shown: Vec<String> =
        reason.rules.iter().take(MOST_RULES).map(|rule| one_line(rule.as_str(), 80)).collect();
    if let Some(more) = reason.rules.len().checked_sub(MOST_RULES).filter(|more| *more > 0) {
        shown.push(format!("and {more} more"));
    }
    format!(" [{}]", shown.join(", "))
}

/// Who wants to make the call, and where.
fn whence(request: &NewApproval) -> String {
    let facts = request.whence().into_iter();
    facts.map(|(name, value)| format!("  {name}: {}\n", one_line(&value, 160))).collect()
}

/// Returns an answer as people type it.
fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allow once",
        Decision::AllowAlways => "allow always",
        Decision::Deny => "deny",
    }
}

fn state(record: &ApprovalRecord, now: Timestamp) -> String {
    match &record.state {
        ApprovalState::Pending if record.is_abandoned() => {
            let end = in_future(now, record.request.expires_at);
            let code = &record.code;
            format!(
                "nobody waits any more; `backstop allow-once {code}` allows the next such call; expires {end}"
            )
        }
        ApprovalState::Pending => format!("waits, expires {}", in_future(now, record.request.expires_at)),
        ApprovalState::Allowed(allowance) => allowed(allowance, now),
        ApprovalState::Used { allowance, used_at } => {
            format!("{}, used {}", allowed(allowance, now), ago(*used_at, now))
        }
        ApprovalState::Denied { at, by, word } => {
            let word = word.as_ref().map(|word| format!(": {}", one_line(word, 120)));
            format!("denied by {} {}{}", plain(by), ago(*at, now), word.unwrap_or_default())
        }
        ApprovalState::Edited(one) => {
            let by = plain(&one.by);
            format!("changed by {by} {}; the changed call is judged as a call of its own", ago(one.at, now))
        }
        ApprovalState::Responded(one) => {
            format!("answered with a result by {} {}", plain(&one.by), ago(one.at, now))
        }
        ApprovalState::Unattended { hosted: true, .. } => {
            let client = record.request.client.as_deref().map_or_else(|| "the client".to_owned(), plain);
            format!(
                "put to the user of {client}, whose answer is not known here; `backstop allow-once {}` allows a later call",
                record.code
            )
        }
        ApprovalState::Unattended { .. } => {
            format!("nobody could be asked; `backstop allow-once {}` allows it", record.code)
        }
        ApprovalState::TimedOut { .. } => {
            format!("timed out; `backstop allow-once {}` allows it", record.code)
        }
        ApprovalState::Cancelled { at } => format!("cancelled {}, its run is over", ago(*at, now)),
    }
}

fn allowed(allowance: &Allowance, now: Timestamp) -> String {
    let by = plain(&allowance.by);
    match allowance.reach {
        Reach::WaitingCall => format!("allowed by {by} {}", ago(allowance.at, now)),
        Reach::LaterCall { until } => {
            format!("allowed by {by} for one later call, ends {}", in_future(now, until))
        }
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

async fn answer(
    answers: &Answers,
    name: &str,
    decision: Decision,
    word: Option<String>,
    output: &Output,
) -> Result<(), Error> {
    let (place, record) = answers.find(name).await?;
    tell(&place.answer(&record.id, decision, word, who()).await?, answers, output, None)
}

async fn substitute(answers: &Answers, name: &str, given: Given, output: &Output) -> Result<(), Error> {
    let (place, record) = answers.find(name).await?;
    tell(&place.substitute(&record.id, given, who()).await?, answers, output, None)
}

fn tell(
    record: &ApprovalRecord,
    answers: &Answers,
    output: &Output,
    grants: Option<&[Grant]>,
) -> Result<(), Error> {
    if output.is_json() {
        let record = substitutes::without_given(record);
        let told = match grants {
            Some(grants) => json!({ "approval": record, "grants": grants }),
            None => json!({ "approval": record }),
        };
        return Ok(output.json(&told)?);
    }
    let now = Timestamp::now();
    let title = one_line(&record.request.title, 80);
    output.text(&format!("{}: {} ({title})", record.code, state(record, now)))?;
    if let Some(standing) = standing(record, answers.people(), now) {
        output.say(&standing);
    }
    for grant in grants.unwrap_or_default() {
        let end = grant.granted.expires_at;
        let times = match grant.granted.most_uses {
            Some(1) => " for one more call".to_owned(),
            Some(most) => format!(" for {most} more calls"),
            None => String::new(),
        };
        output
            .say(&format!("granted{times} until {end}; `backstop grants revoke {}` takes it back", grant.id));
    }
    Ok(())
}

/// Who answers, for the record.
pub(super) fn who() -> String {
    answerer::who("the command line")
}
