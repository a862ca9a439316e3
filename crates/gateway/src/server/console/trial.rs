//! Calls that somebody tries.
//!
//! Laws:
//!
//! - *Nothing comes of it.* Nothing runs, nobody is asked, no grant answers, and there is no receipt.
//! - *It is told before it is judged*: an entry of its own kind says in the trail who tries what. Who leaves meanwhile leaves that entry.
//! - *One token tries one call in [`PACE`].* Otherwise whoever may look at pages could push other entries out of a trail that is bounded.
//! - *It touches no conversation.* A trial has one of its own, so that what hooks count or remember of others is neither seen nor changed.
//! - *It looks at no file.* Otherwise whoever may look at pages could find out what is in scripts of this machine.
//! - *Another configuration is tried by whoever may have one checked*, and nothing that it names is touched ([`Configuration::try_call`]). One text is
//!   read at a time, here and by the API.
//!
//! Limits: programs, servers and webhooks among the hooks in force are asked, as they are about every call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_console::{TextProblem, Trial, Tried, Typed, trial};
use backstop_engine::{Engine, tool_call_digest};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{AgentId, CallContext, Digest, Eyes, Params, Sight, ToolName};
use backstop_store::{AccessTokenId, AuditBody, Durability, NewAuditEntry, Timestamp};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::form::Form;
use super::guard::random;
use super::sessions::Seat;
use super::signing::who;
use super::{Answer, PageError, PageRequest, html};
use crate::configuration::{Configuration, ConfigurationProblem, TriedCall};
use crate::sight::Closed;

/// The tool of a command that is given without one.
const SHELL: &str = "exec";
/// The most bytes of the names that are typed.
const MOST_NAME: usize = 1_000;
/// The random bytes in the name of a trial's conversation.
const NAME_BYTES: usize = 8;
/// The kind of entries about it in the trail.
const TRIED: &str = "console.tried";
/// The role of the text of another configuration in its digest.
const TEXT_ROLE: &str = "configuration_text";
/// The span in which one token tries one call.
const PACE: Duration = Duration::from_secs(1);
/// How many calls may be tried at once.
const MOST_AT_ONCE: usize = 4;
/// The most bytes of the text of another configuration: the most YAML that is read.
const MOST_TEXT: usize = 1 << 20;
/// The most bytes of the form of whoever may try one. Each byte may take three.
pub(super) const MOST_FORM: usize = 3 * MOST_TEXT + super::form::MOST_BYTES;

/// Whose turn it is.
#[derive(Debug)]
pub(super) struct Trials {
    places: Semaphore,
    /// When a token tried last. What is longer ago than [`PACE`] is forgotten.
    last: Mutex<HashMap<AccessTokenId, Instant>>,
}

impl Default for Trials {
    fn default() -> Self {
        Self { places: Semaphore::new(MOST_AT_ONCE), last: Mutex::default() }
    }
}

impl Trials {
    /// Takes the turn of a token. It is taken, too, where there is no place.
    fn turn(&self, token: &AccessTokenId) -> Result<SemaphorePermit<'_>, PageError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, at| at.elapsed() < PACE);
        if last.contains_key(token) {
            return Err(PageError::Often);
        }
        last.insert(token.clone(), Instant::now());
        drop(last);
        self.places.try_acquire().map_err(|_| PageError::Busy)
    }
}

/// The page on which a call can be typed.
pub(super) fn page(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    shown(request, &Typed::default(), None, None)
}

/// What another configuration makes of a call, or what is wrong with its text.
type Other = Result<Tried, Vec<TextProblem>>;

fn shown(
    request: &PageRequest<'_>,
    typed: &Typed,
    tried: Option<Result<Tried, String>>,
    other: Option<Other>,
) -> Answer {
    let is_wrong = matches!(tried, Some(Err(_))) || matches!(other, Some(Err(_)));
    let status = if is_wrong { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let may_try_one = request.seat.may_administer() && request.shared.configuration.is_some();
    let most_text = may_try_one.then_some(MOST_TEXT);
    Ok(html(status, trial(&request.viewer(), &Trial { typed, tried, other, most_text })))
}

/// Judges what was typed.
pub(super) async fn judge(request: &PageRequest<'_>, form: &Form) -> Answer {
    request.reads()?;
    let field = |name| form.one(name).map(|text| text.replace("\r\n", "\n"));
    let typed = Typed {
        tool: field("tool")?,
        command: field("command")?,
        arguments: field("arguments")?,
        agent: field("agent")?,
        workspace: field("workspace")?,
        other: field("other")?,
    };
    let other = other(request, &typed)?;
    let too_long = format!("The other configuration has more than {MOST_TEXT} bytes.");
    let event = match event(&typed) {
        Ok(_) if typed.other.len() > MOST_TEXT => Err(too_long),
        read => read,
    };
    let event = match event {
        Ok(event) => event,
        Err(why) => return shown(request, &typed, Some(Err(why)), None),
    };
    let _turn = request.console().trials.turn(&request.seat.holder().id)?;
    let eyes = Arc::new(Closed::default());
    let call = context(&typed, Arc::clone(&eyes)).ok_or(PageError::Store)?;
    let place = other.as_ref().map(|_| Arc::clone(&request.shared.api.checking).try_acquire_owned());
    let place = place.transpose().map_err(|_| PageError::Busy)?;
    tell(request.engine, &request.seat, &event, &typed.other).await?;
    let reviewed = request.engine.review_tool_call(event.clone(), &call, true).await;
    let starts = request.engine.would_start(&reviewed.event, &call);
    let hooks = request.engine.registry().list();
    let wants_files = eyes.was_asked();
    let tried = Tried { reviewed, starts, hooks, unasked: Vec::new(), variables: Vec::new(), wants_files };
    let other = match other {
        None => None,
        // It goes on when whoever asked has left, and keeps the place until it ends.
        Some(configuration) => {
            let (text, eyes) = (typed.other.clone(), Arc::new(Closed::default()));
            let call = CallContext { sight: Sight::through(Arc::clone(&eyes) as Arc<dyn Eyes>), ..call };
            let trying = tokio::spawn(async move {
                let tried = configuration.try_call(text, event, call).await;
                drop(place);
                (tried, eyes)
            });
            let (tried, eyes) = trying.await.map_err(|_| PageError::Store)?;
            Some(tried.map(|tried| of_call(tried, &eyes)).map_err(told))
        }
    };
    shown(request, &typed, Some(Ok(tried)), other)
}

/// What tries another configuration, where there is the text of one. Whoever may not have one checked may not try one.
fn other(request: &PageRequest<'_>, typed: &Typed) -> Result<Option<Arc<dyn Configuration>>, PageError> {
    if typed.other.trim().is_empty() {
        return Ok(None);
    }
    if !request.seat.may_administer() {
        return Err(PageError::Scope);
    }
    request.shared.configuration.clone().map(Some).ok_or(PageError::Nothing)
}

fn of_call(tried: TriedCall, eyes: &Closed) -> Tried {
    let TriedCall { reviewed, starts, hooks, unasked, variables } = tried;
    Tried { reviewed, starts, hooks, unasked, variables, wants_files: eyes.was_asked() }
}

fn told(problems: Vec<ConfigurationProblem>) -> Vec<TextProblem> {
    let told = |problem: ConfigurationProblem| TextProblem {
        message: problem.message,
        at: problem.line.zip(problem.column),
        hint: problem.hint,
    };
    problems.into_iter().map(told).collect()
}

/// Writes down who tries what. A task of its own does that, because the future of a request whose connection closes is dropped.
async fn tell(engine: &Engine, seat: &Seat, event: &ToolCallEvent, other: &str) -> Result<(), PageError> {
    let mut body = who(seat.holder());
    body.insert("tool".to_owned(), json!(event.tool_name.canonical()));
    body.insert("digest".to_owned(), json!(tool_call_digest(event)));
    if !other.trim().is_empty() {
        body.insert("configuration".to_owned(), json!(Digest::of_text(TEXT_ROLE, other)));
    }
    let entry = NewAuditEntry {
        at: Timestamp::now(),
        kind: TRIED.to_owned(),
        session: None,
        run: None,
        body: AuditBody::from(Value::Object(body)),
    };
    let store = Arc::clone(engine.store());
    let telling = tokio::spawn(async move { store.append_audit_all(vec![entry], Durability::Soon).await });
    match telling.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(PageError::Store),
    }
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
fn context(typed: &Typed, eyes: Arc<Closed>) -> Option<CallContext> {
    let named = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let conversation = format!("console-trial-{}", random::<NAME_BYTES>()?);
    Some(CallContext {
        agent_id: named(&typed.agent).map(AgentId::new),
        session_key: Some(conversation.clone().into()),
        session_id: Some(conversation.into()),
        workspace_dir: named(&typed.workspace),
        sight: Sight::through(eyes),
        ..CallContext::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_token_tries_one_call_in_a_second_and_few_are_tried_at_once() {
        let trials = Trials::default();
        let token = |number: usize| AccessTokenId::from(format!("t{number}"));
        let first = trials.turn(&token(0)).unwrap();
        assert!(matches!(trials.turn(&token(0)), Err(PageError::Often)));
        let others: Vec<_> = (1..MOST_AT_ONCE).map(|number| trials.turn(&token(number)).unwrap()).collect();
        assert!(
            matches!(trials.turn(&token(MOST_AT_ONCE)), Err(PageError::Busy)),
            "tokens do not wait for each other"
        );
        drop((first, others));
        assert!(matches!(trials.turn(&token(0)), Err(PageError::Often)), "also once the first is judged");
        tokio::time::advance(PACE).await;
        assert!(trials.turn(&token(0)).is_ok());
        assert_eq!(trials.last.lock().unwrap().len(), 1, "it remembers nobody for longer");
    }
}
