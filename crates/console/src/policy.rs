//! What judges: the hooks in force, and what people allowed for longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::HookMeta;
use backstop_hooks::{HookId, PointId};
use backstop_store::{Grant, GrantTarget, Timestamp};
use maud::{Markup, html};

use crate::exceptions::{self, Exception};
use crate::money::{grouped, no_room, share};
use crate::page::{Place, Viewer, form_token, page};
use crate::recent::Recent;
use crate::shown::{ago, left, one_line};
use crate::trial::took;

/// What a hook did since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookUse {
    /// How often it was asked.
    pub answers: u64,
    /// How often it rewrote.
    pub rewrote: u64,
    /// How often it wanted a person to be asked.
    pub asked: u64,
    /// How often it stopped something.
    pub blocked: u64,
    /// How often it failed.
    pub failed: u64,
    /// How long all of it took.
    pub time: Duration,
    /// How long the longest of it took.
    pub longest: Duration,
    /// What it did lately.
    pub recent: Recent,
}

/// How often a rule spoke since the process began.
#[derive(Clone, Debug, Default)]
pub struct RuleUse {
    /// The rule.
    pub rule: String,
    /// How often something was stopped by it.
    pub stopped: u64,
    /// How often a person, or a grant, was asked because of it.
    pub asked: u64,
    /// How often the answer was to allow it: the rule was overruled.
    pub allowed: u64,
    /// How often a person denied it.
    pub denied: u64,
}

/// What was counted.
#[derive(Debug)]
pub struct Counts {
    /// Since when.
    pub since: Timestamp,
    /// The number of the span that it is now; see [`Recent`].
    pub span: u64,
    /// What hooks did.
    pub hooks: BTreeMap<(PointId, HookId), HookUse>,
    /// What rules said, those that spoke most often first.
    pub rules: Vec<RuleUse>,
    /// How many more rules spoke.
    pub more_rules: usize,
    /// How often there was no line for a hook or a rule.
    pub left_out: u64,
}

/// What judges.
#[derive(Debug)]
pub struct Policy<'a> {
    /// The hooks in force, in the order in which they run.
    pub hooks: &'a [Arc<HookMeta>],
    /// What was counted of them; `None` where nobody counts.
    pub counts: Option<&'a Counts>,
    /// What the configuration excepts from the guards; `None` where nobody knows it. Only an admin is shown them.
    pub exceptions: Option<&'a [Exception]>,
    /// What people allowed for longer: what is in force, the newest first, and then what no longer is.
    pub grants: &'a [Grant],
    /// What was done just now.
    pub done: Option<&'a str>,
    /// Whether more grants may be in force than these.
    pub more_in_force: bool,
    /// Whether there may be more that no longer are.
    pub more_over: bool,
    /// How many grants can't be read: they allow nothing.
    pub unreadable: usize,
}

/// The page of what judges.
pub fn policy(viewer: &Viewer, policy: &Policy<'_>, now: Timestamp) -> String {
    let content = html! {
        h1 { "Policy" }
        @if let Some(done) = policy.done { p.done role="status" { (done) } }
        section aria-labelledby="hooks-title" {
            h2 #hooks-title { "Hooks, in the order in which they run" }
            div.scroll tabindex="0" role="region" aria-label="Hooks" {
                table {
                    thead { tr {
                        th scope="col" { "Hook" } th scope="col" { "Point" } th scope="col" { "Owner" } th scope="col" { "Priority" } th scope="col" { "If it fails" } th scope="col" { "Only for" } th scope="col" { "Budget" }
                        @if policy.counts.is_some() { th scope="col" { "Asked" } th scope="col" { "Blocked" } th scope="col" { "Wants a person" } th scope="col" { "Rewrote" } th scope="col" { "Failed" } th scope="col" { "Mean time" } th scope="col" { "Longest, of its budget" } th scope="col" { "Time and failures, last hour" } }
                    } }
                    tbody { @for hook in policy.hooks { (hook_row(hook, policy.counts)) } }
                }
            }
            @if policy.hooks.is_empty() { p.empty { "No hook is in force: nothing is judged." } }
            @match policy.counts {
                Some(counts) => p.summary {
                    "Counted since this process began, " (ago(counts.since, now)) "." (no_room(counts.left_out))
                },
                None => p.summary { "This process counts nothing of them: it runs without metrics." }
            }
        }
        @if let Some(counts) = policy.counts { (rules(&counts.rules, counts.more_rules)) }
        (exceptions::section(viewer.role, policy.exceptions, now))
        section aria-labelledby="grants-title" {
            h2 #grants-title { "Grants" }
            @if policy.grants.is_empty() { p.empty { "Nothing was allowed for longer than once." } }
            @else {
                ul.rows { @for grant in policy.grants { (grant_row(viewer, grant, now)) } }
                @if policy.more_in_force {
                    p.summary { "More grants may be in force than are shown here: " code { "GET /-/v1/grants?state=in-force" } " lists up to 1 000 of them." }
                }
                @if policy.more_over { p.summary { "Older grants that no longer count may be left out here." } }
            }
            @if policy.unreadable > 0 {
                p.summary { "Grants that can't be read, and allow nothing: " (grouped(u64::try_from(policy.unreadable).unwrap_or(u64::MAX))) "." }
            }
        }
    };
    page(viewer, Place::Policy, "Policy", None, content)
}

fn rules(rules: &[RuleUse], more: usize) -> Markup {
    html! {
        section aria-labelledby="rules-title" {
            h2 #rules-title { "Rules that spoke" }
            @if rules.is_empty() { p.empty { "No rule has spoken since this process began." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Rules" {
                    table {
                        thead { tr { th scope="col" { "Rule" } th scope="col" { "Stopped" } th scope="col" { "Asked" } th scope="col" { "Denied" } th scope="col" { "Allowed" } th scope="col" { "Overruled" } } }
                        tbody {
                            @for rule in rules {
                                tr.row {
                                    th scope="row" { code { (one_line(&rule.rule, 80)) } }
                                    td.number { (grouped(rule.stopped)) } td.number { (grouped(rule.asked)) } td.number { (grouped(rule.denied)) } td.number { (grouped(rule.allowed)) }
                                    td.number { @if rule.asked > 0 { (share(rule.allowed, rule.asked, &one_line(&rule.rule, 80))) } }
                                }
                            }
                        }
                    }
                }
                @if more > 0 { p.summary { (grouped(u64::try_from(more).unwrap_or(u64::MAX))) " more rules spoke less often." } }
            }
        }
    }
}

/// What was counted of a hook.
fn used(hook: &HookMeta, counts: &Counts) -> Markup {
    let used = counts.hooks.get(&(hook.point, hook.id.clone())).copied().unwrap_or_default();
    let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let name = one_line(hook.id.as_str(), 80);
    let mean = micros(used.time).checked_div(used.answers).map(Duration::from_micros);
    html! {
        td.number { (grouped(used.answers)) } td.number { (grouped(used.blocked)) } td.number { (grouped(used.asked)) } td.number { (grouped(used.rewrote)) }
        td.number { span.bad[used.failed > 0] { (grouped(used.failed)) } @if used.failed > 0 { " " (share(used.failed, used.answers, &format!("{name} failed"))) } }
        td.number { @if let Some(mean) = mean { (took(mean)) } }
        td.number { @if used.answers > 0 { (took(used.longest)) " " (share(micros(used.longest), micros(hook.budget), &name)) } }
        td.plots { (used.recent.plots(counts.span, hook.budget, &name)) }
    }
}

fn hook_row(hook: &HookMeta, counts: Option<&Counts>) -> Markup {
    let failure = serde_json::to_value(hook.on_failure).ok();
    let failure = failure.as_ref().and_then(serde_json::Value::as_str).unwrap_or("closed");
    let only = hook.tools.as_ref().map(ToString::to_string).into_iter();
    let only = only.chain(hook.agents.as_ref().map(ToString::to_string)).collect::<Vec<_>>().join("; ");
    html! {
        tr.row {
            td {
                code { (one_line(hook.id.as_str(), 80)) }
                @if hook.mode.is_shadow() { " " span.badge title="It is asked, and its answer changes nothing." { "shadow" } }
            }
            td { (hook.point) }
            td { (one_line(hook.owner.as_ref(), 40)) }
            td.number { (hook.priority) }
            td { (failure) }
            td { (one_line(&only, 80)) }
            td.number { (hook.budget.as_millis()) " ms" }
            @if let Some(counts) = counts { (used(hook, counts)) }
        }
    }
}

fn grant_row(viewer: &Viewer, grant: &Grant, now: Timestamp) -> Markup {
    let given = &grant.granted;
    let covers = match &given.target {
        GrantTarget::Call { .. } => "this very call".to_owned(),
        GrantTarget::Program { words } => format!("calls of {}", words.join(" ")),
        GrantTarget::Rule => "what the same rules ask about".to_owned(),
        GrantTarget::Amount { argument, most, .. } => {
            format!("{argument} up to {most}, of which {} is spent", grant.spent)
        }
    };
    let is_over = !grant.is_in_force(now);
    html! {
        li.row.over[is_over] {
            div {
                p.first { (one_line(&given.title, 160)) }
                p { span.tool { (one_line(given.tool_name.called(), 60)) } " " (one_line(&covers, 200)) }
                p.meta {
                    span { (one_line(given.agent.as_str(), 40)) }
                    @if let Some(workspace) = &given.place.workspace { span { (one_line(workspace, 60)) } }
                    span { "by " (one_line(&given.created_by, 80)) ", " (ago(given.created_at, now)) }
                    span { (grant.uses) " used" @if let Some(most) = given.most_uses { " of " (most) } }
                    @if let Some(at) = grant.revoked_at { span { "revoked " (ago(at, now)) } } @else { span { (left(given.expires_at, now)) } }
                }
            }
            @if viewer.may_answer && !is_over {
                form method="post" action={ "/-/console/grants/" (grant.id) "/revoke" } {
                    (form_token(viewer))
                    button.deny type="submit" aria-label={ "Revoke: " (one_line(&given.title, 80)) } { "Revoke" }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Role;

    #[test]
    fn what_had_no_room_is_told() {
        let viewer = Viewer {
            name: "ann".to_owned(),
            role: Role::Viewer,
            may_answer: false,
            may_read: true,
            form_token: String::new(),
        };
        let page = |left_out: u64| {
            let since = Timestamp::from_millis(0);
            let counts =
                Counts { since, span: 0, hooks: BTreeMap::new(), rules: Vec::new(), more_rules: 0, left_out };
            let shown = Policy {
                hooks: &[],
                counts: Some(&counts),
                exceptions: None,
                grants: &[],
                done: None,
                more_in_force: false,
                more_over: false,
                unreadable: 0,
            };
            policy(&viewer, &shown, Timestamp::from_millis(1_000))
        };
        assert!(page(3).contains(" 3 counts had no room here."), "{}", page(3));
        assert!(!page(0).contains("had no room"), "{}", page(0));
    }
}
