//! Merges several requests into one question.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    AgentId, ApprovalRequest, CallContext, Decision, Digest, Fact, HookId, Json, OwnerId, RuleId, SessionId,
    Severity, Text, TimeoutBehavior,
};
use backstop_store::{
    AllowanceScope, Amount, AmountArgument, ApprovalReason, Asked, GrantPlace, GrantQuery, NewApproval,
    Timestamp, Uptime,
};
use serde_json::Value;

use crate::tool_call::tool_call_digest;

/// Returns the digest of what hooks judged a call by besides itself, in the order in which they looked: it follows from the call and from what
/// they found, so that the same files have the same digest. `None` where they looked at nothing.
pub(crate) fn digest_of_facts(facts: &[Fact]) -> Option<Digest> {
    let found: Vec<Digest> = facts.iter().map(Fact::digest).collect();
    (!found.is_empty()).then(|| Digest::of("facts", &found))
}

/// Returns the agent whose question it is.
pub(super) fn agent_of(call: &CallContext) -> AgentId {
    call.agent_id.clone().unwrap_or_else(|| "default".into())
}

/// Returns the session under which calls without one are asked about.
pub(crate) fn session_of(session: Option<&SessionId>) -> SessionId {
    session.cloned().unwrap_or_else(|| "none".into())
}

/// One question out of several requests: the gravest one leads, the strictest limits hold. `patience` is
/// how long hooks wait that do not say; a `sealed` call has placeholders, and is allowed once or not at all.
pub(super) fn question(
    event: &ToolCallEvent,
    digest: Digest,
    requests: &[ApprovalRequest],
    patience: Duration,
    call: &CallContext,
    now: Timestamp,
    sealed: bool,
) -> NewApproval {
    let gravest = requests.iter().rev().max_by_key(|request| request.severity_level());
    let offered = [Decision::AllowOnce, Decision::AllowAlways, Decision::Deny]
        .into_iter()
        .filter(|decision| all_offer(requests, *decision))
        .filter(|decision| !(sealed && *decision == Decision::AllowAlways));
    let timeouts = requests.iter().map(|request| request.own_timeout().unwrap_or(patience));
    let allow = requests.iter().all(|request| request.timeout_behavior() == TimeoutBehavior::Allow);
    // Where silence allows, the longest wait is the strictest; where it denies, the shortest.
    let timeout = if allow { timeouts.max() } else { timeouts.min() }.unwrap_or_default();
    let session = session_of(call.session_id.as_ref());
    NewApproval {
        agent: agent_of(call),
        session_key: call.session_key.clone().unwrap_or_else(|| session.as_str().into()),
        workspace: workspace_of(call),
        session,
        run: event.run_id.clone().or_else(|| call.run_id.clone()),
        host: call.front_end.host.map(str::to_owned),
        client: call.front_end.client.map(str::to_owned),
        call: event.tool_call_id.clone().unwrap_or_else(|| "".into()),
        tool_name: event.tool_name.clone(),
        digest,
        facts: None,
        title: gravest.map_or_else(|| Text::from("approval needed"), |request| request.title().clone()),
        description: gravest.map(|request| request.description().clone()).unwrap_or_default(),
        severity: gravest.map_or(Severity::Warning, ApprovalRequest::severity_level),
        reasons: requests.iter().map(reason).collect(),
        place: place_of(call),
        preview: Json::default(),
        whole: None,
        // Nothing of it yet.
        unseen: true,
        masked: 0,
        masked_at: Vec::new(),
        starts: None,
        amounts: if sealed { Vec::new() } else { amounts_of(event) },
        allowed_decisions: offered.collect(),
        substitutes: Vec::new(),
        edited_from: None,
        given: None,
        created_at: now,
        expires_at: now.after(timeout),
        deadline: Uptime::now().map(|uptime| uptime.after(timeout)),
        timeout_behavior: if allow { TimeoutBehavior::Allow } else { TimeoutBehavior::Deny },
        route: None,
        waiter: None,
    }
}

/// Ends a question that was routed and shown sooner, for whoever waits no longer. INVARIANT (waiting less allows nothing): one whose call
/// runs if nobody answers keeps its time, since whoever is judged says how long it waits.
pub(super) fn end_within(question: &mut NewApproval, patience: Duration) {
    let until = Timestamp::now().after(patience);
    if !question.silence_allows() && until < question.expires_at {
        question.expires_at = until;
        question.deadline = Uptime::now().map(|uptime| uptime.after(patience));
        // Also if somebody is shown all of it meanwhile: silence would allow it sooner than the hooks want.
        question.timeout_behavior = TimeoutBehavior::Deny;
    }
}

/// Returns the folder in which an answer given later counts for every conversation of the agent.
///
/// A coding agent gets a new conversation with each start, and often for no more than the call that a human has
/// just allowed; what makes a call the same there is the folder in which its relative paths are read. Somebody
/// who speaks to an agent through a channel does not get what was allowed to somebody else: their conversation
/// is the place, as it is where no folder is known.
fn workspace_of(call: &CallContext) -> Option<String> {
    let is_somebodys = call.requester.is_some() || call.channel_id.is_some();
    call.workspace_dir.clone().filter(|folder| !is_somebodys && !folder.is_empty())
}

/// Returns where a grant that comes of a call counts.
fn place_of(call: &CallContext) -> GrantPlace {
    let named = |parts: &[Option<&String>]| {
        parts
            .iter()
            .any(Option::is_some)
            .then(|| Value::from_iter(parts.iter().map(|part| part.map(String::as_str))).to_string())
    };
    let requester = call
        .requester
        .as_ref()
        .and_then(|who| named(&[who.channel.as_ref(), who.account_id.as_ref(), who.sender_id.as_ref()]));
    GrantPlace {
        workspace: call.workspace_dir.clone().filter(|folder| !folder.is_empty()),
        requester,
        channel: named(&[call.message_provider.as_ref(), call.channel_id.as_ref()]),
    }
}

/// Returns the question in substance, as far as grants are bound to it.
fn asked_of(request: &ApprovalRequest) -> Asked {
    let (owner, hook) = asker_of(request);
    let rules = request.rests_on().iter().map(|ground| ground.rule.clone()).collect();
    Asked { owner, hook, severity: request.severity_level(), rules, title: request.title().clone() }
}

/// Returns the program and subcommand that all of a request is about: the first two words, where each ground is about one
/// process and these words are plain. What is not known of a command stands in its words as a sign that is in no plain one.
fn program_of(request: &ApprovalRequest) -> Option<Vec<String>> {
    let mut programs = request.rests_on().iter().map(|ground| {
        let (end, words) = ground.about.split_last()?;
        let is_plain = |word: &&Text| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '+' | '-');
            !word.is_empty() && !word.starts_with('-') && word.chars().all(plain)
        };
        let leads: Vec<String> = words.iter().take(2).map(|word| word.as_str().to_owned()).collect();
        let is_one = end.as_str() == "\n" && words.iter().all(|word| word.as_str() != "\n");
        (is_one && !leads.is_empty() && words.iter().take(2).all(|word| is_plain(&word))).then_some(leads)
    });
    let first = programs.next()??;
    programs.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Most arguments that are looked at for an amount, and the most bytes of all arguments.
const MOST_AMOUNTS: usize = 8;
const MOST_AMOUNT_BYTES: usize = 64 * 1024;

/// Returns the arguments that are amounts: numbers, or texts that are nothing else. Only the outermost, which are what people name.
fn amounts_of(event: &ToolCallEvent) -> Vec<AmountArgument> {
    let amount = |value: &Value| match value {
        Value::Number(number) => number.to_string().parse().ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let found: Vec<(String, Amount)> = event
        .params
        .iter()
        .filter_map(|(argument, value)| Some((argument.clone(), amount(value)?)))
        .take(MOST_AMOUNTS)
        .collect();
    if found.is_empty() || event.params.to_value().to_string().len() > MOST_AMOUNT_BYTES {
        return Vec::new();
    }
    let without = |argument: &str| {
        let mut rest = event.clone();
        rest.params.make_mut().remove(argument);
        tool_call_digest(&rest)
    };
    let of_call = |(argument, amount): (String, Amount)| {
        let without = without(&argument);
        AmountArgument { argument, amount, without }
    };
    found.into_iter().map(of_call).collect()
}

/// Most requests whose reasons are told; a human sees all with `backstop approvals show`.
const MOST_TOLD: usize = 8;

/// Who asks, and why: what the model and the human read below the question.
pub(super) fn told(requests: &[ApprovalRequest]) -> String {
    let reason = |request: &ApprovalRequest| {
        let why = if request.description().is_empty() { request.title() } else { request.description() };
        let why: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match request.hook() {
            Some(hook) => format!("\n- {hook}: {}", why.join("; ")),
            None => format!("\n- {}", why.join("; ")),
        }
    };
    let mut text: String = requests.iter().take(MOST_TOLD).map(reason).collect();
    match requests.len().saturating_sub(MOST_TOLD) {
        0 => {}
        more => text.push_str(&format!("\n- and {more} more")),
    }
    text
}

/// Returns the rules that requests rest on, each once, for the record.
pub(super) fn rules_of(requests: &[ApprovalRequest]) -> Vec<RuleId> {
    let all: BTreeSet<&RuleId> =
        requests.iter().flat_map(ApprovalRequest::rests_on).map(|ground| &ground.rule).collect();
    all.into_iter().cloned().collect()
}

/// Returns whether a human may give this answer to every request.
fn all_offer(requests: &[ApprovalRequest], decision: Decision) -> bool {
    requests.iter().all(|request| request.allowed_decisions().contains(&decision))
}

/// Returns which call the question is about, wherever it is made again. What is asked is taken as it is shown, since nothing else of it is kept.
pub(super) fn scope_of(question: &NewApproval) -> AllowanceScope {
    AllowanceScope {
        agent: question.agent.clone(),
        session_key: question.session_key.clone(),
        workspace: question.workspace.clone(),
        tool_name: question.tool_name.clone(),
        digest: question.digest,
        asked: question.reasons.iter().map(ApprovalReason::asked).collect(),
        facts: question.facts,
        route: question.route.clone(),
    }
}

/// Returns what a grant must cover to answer this request.
pub(super) fn query_of(request: &ApprovalRequest, question: &NewApproval) -> GrantQuery {
    GrantQuery {
        agent: question.agent.clone(),
        tool_name: question.tool_name.clone(),
        place: question.place.clone(),
        digest: question.digest,
        facts: question.facts,
        question: asked_of(request),
        program: program_of(request),
        amounts: question.amounts.clone(),
        route: question.route.clone(),
    }
}

fn reason(request: &ApprovalRequest) -> ApprovalReason {
    let (owner, hook) = asker_of(request);
    ApprovalReason {
        owner,
        hook,
        title: request.title().clone(),
        description: described(request),
        severity: request.severity_level(),
        rules: request.rests_on().iter().map(|ground| ground.rule.clone()).collect(),
        program: program_of(request),
    }
}

/// Most characters of a scope that are shown; what is longer ends with a mark.
const MOST_SCOPE_CHARS: usize = 512;

/// Returns what the hook says of the call, and what it says that the call would do to the world.
fn described(request: &ApprovalRequest) -> Text {
    let Some(scope) = request.scope_of_call() else { return request.description().clone() };
    let scope = scope.to_value().to_string();
    let mut shown: String = scope.chars().take(MOST_SCOPE_CHARS).collect();
    if shown.len() < scope.len() {
        shown.push_str(" ... (cut)");
    }
    format!("{}\nscope: {shown}", request.description()).into()
}

fn asker_of(request: &ApprovalRequest) -> (OwnerId, HookId) {
    (
        request.owner().cloned().unwrap_or_else(|| OwnerId::new("")),
        request.hook().cloned().unwrap_or_else(|| HookId::new("")),
    )
}
