//! What doctor says of those whom `backstop serve` tells: surfaces of questions, and witnesses of the audit trail. Nobody is asked over the
//! network.

use std::time::Duration;

use backstop::config::{LiveApprovals, Loaded};
use backstop::store::{AUDIT_UNSIGNED, AuditFilter, AuditPlace, ProveAuditError, Store, Timestamp};
use backstop::surfaces::{Ceiling, MadeSurface, each_surface};
use backstop::{Reached, WitnessError, Witnesses};
use serde_json::Value;

use crate::output::{Check, Grade};
use crate::session::Surroundings;

/// How long a witness may lack an entry. `serve` tells them every minute.
const LATE: Duration = Duration::from_hours(1);
/// For how long doctor tells of entries that were signed late.
const TOLD: Duration = Duration::from_hours(30 * 24);
/// What helps against that.
const TELL: &str = "`backstop serve` tells it every minute, and `backstop audit witness` at once; where copies are taken away, look there";

/// What is said where there is no witness: it applies to whoever runs as this account, an agent that nothing confines among them.
const NO_WITNESS: &str = "the audit trail has no witness: whoever can write its files and read its key can write it anew, and `backstop audit verify` finds nothing";
const ADD_WITNESS: &str = "set `audit.witness`; a key that this account can't read (`audit.key_file`, a credential of `serve`) helps as well";

/// Looks at each surface and each witness. A configuration that can't be read is told of by others.
pub(super) async fn look(surroundings: &Surroundings) -> Vec<Check> {
    let Ok(operators) = surroundings.load_operators() else { return Vec::new() };
    let loaded = operators.loaded;
    let each = each_surface(&loaded, &|name| surroundings.variable(name));
    let mut checks: Vec<Check> = each.iter().map(|(key, made)| surface(key, made, &loaded)).collect();
    if !each.is_empty() {
        checks.extend(untold(&loaded));
    }
    match (Witnesses::of(&loaded, &|name| surroundings.variable(name)), surroundings.store(&loaded)) {
        (Err(error), _) => {
            checks.push(check(Grade::Failed, format!("`audit.witness` can't be used: {error}"), None));
        }
        (Ok(witnesses), Ok(store)) => {
            checks.extend(look_at(&witnesses, store.as_ref()).await);
            if witnesses.is_empty() && loaded.config.audit.enabled.value {
                checks.push(check(Grade::Note, NO_WITNESS.to_owned(), Some(ADD_WITNESS)));
            }
            checks.extend(signed_late(store.as_ref(), witnesses.is_empty()).await);
        }
        // Where the database lies is not known, which others say.
        (Ok(_), Err(_)) => {}
    }
    checks
}

fn check(grade: Grade, text: String, hint: Option<&str>) -> Check {
    Check { grade, text, hint: hint.map(str::to_owned) }
}

/// A check with a message that may end with a hint.
fn said(grade: Grade, message: &str) -> Check {
    let (text, hint) = match message.split_once("\nhint: ") {
        Some((text, hint)) => (text, Some(hint)),
        None => (message, None),
    };
    check(grade, text.to_owned(), hint)
}

fn surface(key: &str, made: &MadeSurface, loaded: &Loaded) -> Check {
    let surface = match made {
        Ok(surface) => surface,
        Err(error) => return said(Grade::Failed, &error.to_string()),
    };
    let can_be_used = format!("the surface `{key}` can be used as it is configured");
    let answers = match surface.ceiling() {
        Ceiling::Notice => {
            return check(Grade::Good, format!("{can_be_used}; nothing is answered there"), None);
        }
        Ceiling::Deny => "`deny`",
        Ceiling::Once => "`once`",
    };
    if loaded.config.agent.approvals.strict.value {
        let text = format!("{can_be_used}; nothing is answered there, by `agent.approvals.strict`");
        return check(Grade::Good, text, None);
    }
    let kind = key.split_once('.').map_or(key, |(kind, _)| kind);
    let people = loaded.config.approvals.people.iter();
    let could = people.filter(|(_, person)| match kind {
        "telegram" => person.telegram.is_some(),
        "slack" => person.slack.is_some(),
        "webhook" => person.webhook.is_some(),
        _ => false,
    });
    let known = could.count();
    if known == 0 {
        let why = format!("none of `approvals.people` has `{kind}`");
        let text = format!("{can_be_used}, and nobody could answer there: {why}");
        let hint = format!("add `{kind}` to a person, or set `answers: none`");
        return check(Grade::Warning, text, Some(&hint));
    }
    let text = format!("{can_be_used}; {known} of `approvals.people` could answer there, up to {answers}");
    check(Grade::Good, text, None)
}

/// Says whose questions no surface is told of: where nobody waits for an answer, a call is denied, and its question is listed.
fn untold(loaded: &Loaded) -> Option<Check> {
    let settings = &loaded.config;
    let hooks =
        (!settings.agent.approvals.wait.value).then_some(("coding agents", "`agent.approvals.wait: true`"));
    let is_filed = settings.gateway.hooks.approvals.value == LiveApprovals::File;
    let proxy = is_filed.then_some(("the proxy", "`gateway.hooks.approvals: wait`"));
    let (whose, waits): (Vec<_>, Vec<_>) = hooks.into_iter().chain(proxy).unzip();
    if whose.is_empty() {
        return None;
    }
    let text = format!(
        "surfaces are not told of questions of {}: nobody is waited for, and the question is in `backstop approvals list`",
        whose.join(" and ")
    );
    let hint = format!(
        "with {} they wait for an answer; what a client asks its own user is told on no surface, unless a route says who answers",
        waits.join(" and ")
    );
    Some(check(Grade::Note, text, Some(&hint)))
}

async fn look_at(witnesses: &Witnesses, store: &dyn Store) -> Vec<Check> {
    let now = Timestamp::now();
    let reached = witnesses.reached(store).await;
    reached.into_iter().map(|(name, reached)| witness(&name, reached, now)).collect()
}

/// Tells of entries that a killed process left unsigned, the newest of thirty days: whoever cuts the end off leaves what looks the same. A
/// trail that can't be read is told of by others.
async fn signed_late(store: &dyn Store, is_alone: bool) -> Option<Check> {
    let since = Some(Timestamp::now().before(TOLD));
    let filter = AuditFilter { kind: Some(AUDIT_UNSIGNED.to_owned()), since, ..AuditFilter::default() };
    let page = store.audit_page(&filter, AuditPlace::END, 1).await.ok()?;
    let entry = page.entries.first()?;
    let number = |pointer: &str| entry.body.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let (unsigned, covers) = (number("/unsigned"), number("/covers"));
    let text = format!(
        "entry {} of the audit trail says that {unsigned} entries behind {covers} were left unsigned, as a killed process does, and signed by another: nothing but a witness proves that they were not changed before",
        entry.seq
    );
    let hint = match is_alone {
        true => {
            "`backstop audit verify` names them all; with `audit.witness`, an end that somebody cut off shows"
        }
        false => "`backstop audit verify` names them all, and compares with the witnesses",
    };
    Some(check(Grade::Warning, text, Some(hint)))
}

fn witness(name: &str, reached: Option<Result<Reached, WitnessError>>, now: Timestamp) -> Check {
    let lead = format!("the witness `{name}`");
    let reached = match reached {
        None => {
            let hint = Some("`backstop audit witness` asks it");
            return check(Grade::Note, format!("{lead} is configured, and is not asked here"), hint);
        }
        // Its message says that there is no trail yet.
        Some(Err(WitnessError::Trail(error @ ProveAuditError::NotProvable(_)))) => {
            return said(Grade::Note, &format!("{lead} has nothing to keep: {error}"));
        }
        Some(Err(error)) => {
            let grade = if error.is_tampering() { Grade::Failed } else { Grade::Warning };
            return said(grade, &format!("{lead}: {error}"));
        }
        Some(Ok(reached)) => reached,
    };
    let Reached { entries, lacks_since } = reached;
    let has = format!("{lead} has checkpoints of the first {entries} entries of the audit trail");
    match lacks_since.filter(|since| *since < now.before(LATE)) {
        Some(since) => {
            let text = format!("{has}; the next one is from {since}, more than an hour ago");
            check(Grade::Warning, text, Some(TELL))
        }
        None => check(Grade::Good, format!("{has}, and lacks none that is older than an hour"), None),
    }
}
