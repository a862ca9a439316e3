//! Calls that somebody tries.
//!
//! Laws:
//!
//! - *Nothing comes of it.* Nothing runs, nobody is asked, no grant answers, and there is no receipt: an entry of its own kind says in the trail who tried what.
//! - *It touches no conversation.* A trial has one of its own, so that what hooks count or remember of others is neither seen nor changed.
//! - *It looks at no file.* Otherwise whoever may look at pages could find out what is in scripts of this machine.
//!
//! Limits: programs, servers and webhooks among the hooks are asked, as they are about every call.

use std::sync::Arc;

use backstop_console::{Trial, Tried, Typed, trial};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{AgentId, CallContext, Eyes, Params, Seen, Sight, ToolName};
use backstop_store::{AuditBody, Durability, NewAuditEntry, Timestamp};
use http::StatusCode;
use serde_json::json;

use super::form::Form;
use super::guard::random;
use super::{Answer, Trouble, Visit, html};

/// The tool of a command that is given without one.
const SHELL: &str = "exec";
/// The most bytes of the names that are typed.
const MOST_NAME: usize = 1_000;
/// The random bytes in the name of a trial's conversation.
const NAME_BYTES: usize = 8;
/// The kind of entries about it in the trail.
const TRIED: &str = "console.tried";

/// Sees nothing of the disk: what is in a file can't be told, and a path leads where it says, as if there were no links.
struct Closed;

impl Eyes for Closed {
    fn file(&self, _: &str) -> Seen {
        Seen::Unreadable
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        let mut parts = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        Some(format!("/{}", parts.join("/")))
    }
}

/// The page on which a call can be typed.
pub(super) fn page(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    shown(visit, &Typed::default(), None)
}

fn shown(visit: &Visit<'_>, typed: &Typed, tried: Option<Result<Tried, String>>) -> Answer {
    let status = if matches!(tried, Some(Err(_))) { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok(html(status, trial(&visit.viewer(), &Trial { typed, tried })))
}

/// Judges what was typed.
pub(super) async fn judge(visit: &Visit<'_>, form: &Form) -> Answer {
    visit.reads()?;
    let field = |name| form.one(name).map(|text| text.replace("\r\n", "\n"));
    let typed = Typed {
        tool: field("tool")?,
        command: field("command")?,
        arguments: field("arguments")?,
        agent: field("agent")?,
        workspace: field("workspace")?,
    };
    let event = match event(&typed) {
        Ok(event) => event,
        Err(why) => return shown(visit, &typed, Some(Err(why))),
    };
    let _turn = visit.console().trials.try_acquire().map_err(|_| Trouble::Busy)?;
    let call = context(&typed).ok_or(Trouble::Store)?;
    let reviewed = visit.engine.review_tool_call(event, &call, true).await;
    let starts = visit.engine.would_start(&reviewed.event, &call);
    let holder = visit.seat.holder();
    let body = json!({
        "user": holder.user.as_deref(),
        "token": holder.id,
        "tool": reviewed.event.tool_name.canonical(),
        "digest": reviewed.receipt.original,
        "decision": reviewed.receipt.verdict.as_str(),
    });
    let entry = NewAuditEntry {
        at: Timestamp::now(),
        kind: TRIED.to_owned(),
        session: None,
        run: None,
        body: AuditBody::from(body),
    };
    let told = visit.engine.store().append_audit_all(vec![entry], Durability::Soon);
    told.await.map_err(|_| Trouble::Store)?;
    shown(visit, &typed, Some(Ok(Tried { reviewed, starts })))
}

/// The call that was typed. An error says what can't be read.
fn event(typed: &Typed) -> Result<ToolCallEvent, String> {
    let (tool, command, arguments) = (typed.tool.trim(), &typed.command, typed.arguments.trim());
    let names = [tool, &typed.agent, &typed.workspace];
    if names.iter().any(|name| name.len() > MOST_NAME) {
        return Err("A name is too long.".to_owned());
    }
    let (tool, params) = match (command.trim().is_empty(), arguments.is_empty()) {
        (true, true) => return Err("Type a command, or a tool and its arguments.".to_owned()),
        (false, false) => return Err("Type a command or arguments, not both.".to_owned()),
        (false, true) => {
            let tool = if tool.is_empty() { SHELL } else { tool };
            (tool, Params::from_value(json!({ "command": command })).unwrap_or_default())
        }
        (true, false) if tool.is_empty() => return Err("Name the tool.".to_owned()),
        (true, false) => {
            let params = serde_json::from_str::<Params>(arguments);
            (tool, params.map_err(|error| format!("The arguments are no JSON object: {error}."))?)
        }
    };
    Ok(ToolCallEvent::new(ToolName::new(tool), params))
}

/// Whose call it would be, in a conversation that there is nowhere else.
fn context(typed: &Typed) -> Option<CallContext> {
    let named = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let conversation = format!("console-trial-{}", random::<NAME_BYTES>()?);
    Some(CallContext {
        agent_id: named(&typed.agent).map(AgentId::new),
        session_key: Some(conversation.clone().into()),
        session_id: Some(conversation.into()),
        workspace_dir: named(&typed.workspace),
        sight: Sight::through(Arc::new(Closed)),
        ..CallContext::default()
    })
}
