//! What judges: the hooks in force, and what people allowed for longer.

use std::sync::Arc;

use backstop_engine::HookMeta;
use backstop_store::{Grant, GrantTarget, Timestamp};
use maud::{Markup, html};

use crate::page::{Place, Viewer, form_token, page};
use crate::shown::{ago, left, one_line};

/// What judges.
#[derive(Debug)]
pub struct Policy<'a> {
    /// The hooks in force, in the order in which they run.
    pub hooks: &'a [Arc<HookMeta>],
    /// What people allowed for longer, the newest first.
    pub grants: &'a [Grant],
    /// What was done just now.
    pub done: Option<&'a str>,
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
                    thead { tr { th scope="col" { "Hook" } th scope="col" { "Point" } th scope="col" { "Owner" } th scope="col" { "Priority" } th scope="col" { "Budget" } th scope="col" { "If it fails" } th scope="col" { "Only for" } } }
                    tbody { @for hook in policy.hooks { (hook_row(hook)) } }
                }
            }
            @if policy.hooks.is_empty() { p.empty { "No hook is in force: nothing is judged." } }
        }
        section aria-labelledby="grants-title" {
            h2 #grants-title { "Grants" }
            @if policy.grants.is_empty() { p.empty { "Nothing was allowed for longer than once." } }
            @else {
                ul.rows { @for grant in policy.grants { (grant_row(viewer, grant, now)) } }
            }
        }
    };
    page(viewer, Place::Policy, "Policy", None, content)
}

fn hook_row(hook: &HookMeta) -> Markup {
    let failure = serde_json::to_value(hook.on_failure).ok();
    let failure = failure.as_ref().and_then(serde_json::Value::as_str).unwrap_or("closed");
    let only = hook.tools.as_ref().map(ToString::to_string).into_iter();
    let only = only.chain(hook.agents.as_ref().map(ToString::to_string)).collect::<Vec<_>>().join("; ");
    html! {
        tr.row {
            td { code { (one_line(hook.id.as_str(), 80)) } }
            td { (hook.point) }
            td { (one_line(hook.owner.as_ref(), 40)) }
            td.number { (hook.priority) }
            td.number { (hook.budget.as_millis()) " ms" }
            td { (failure) }
            td { (one_line(&only, 80)) }
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
    let is_over = grant.revoked_at.is_some() || now > given.expires_at || grant.is_used_up();
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
