//! What is put in front of the model: messages, the whole of a call, and the tools on offer.

use std::sync::LazyLock;

use backstop_hooks::conversation::{Message, Part};
use backstop_hooks::points::{
    AgentRunEvent, AgentRunOutcome, BeforeAgentRun, BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome,
    MessageBefore, MessageBeforeEvent, MessageBeforeOutcome, ToolInfo, ToolNames,
};
use backstop_hooks::{Answer, Context, Hook, Text};
use backstop_scan::{Action, Class, Finding, Redactor, Scanner};
use serde_json::Value;

use super::results::clean_part;
use super::{Place, REDACTOR_ID, forbidden, hides, log_reported};

/// Cleans a message before the agent sees it. What is forbidden is left to [`Gate`], which stops the run.
#[derive(Debug)]
pub(super) struct Messages(pub(super) Place);

impl Hook<MessageBefore> for Messages {
    fn call<'a>(&'a self, event: &'a MessageBeforeEvent, cx: Context<'a>) -> Answer<'a, MessageBefore> {
        let clean = self.0.of(cx.call).apply(&event.message);
        log_reported("message.before", &clean.findings);
        let changed = clean.is_changed() && !clean.is_blocked();
        Answer::Now(Ok(changed.then(|| MessageBeforeOutcome {
            message: Some(clean.text.into()),
            ..MessageBeforeOutcome::default()
        })))
    }
}

/// Stops a run whose message may not be read.
#[derive(Debug)]
pub(super) struct Gate(pub(super) Place);

impl Hook<BeforeAgentRun> for Gate {
    fn call<'a>(&'a self, event: &'a AgentRunEvent, cx: Context<'a>) -> Answer<'a, BeforeAgentRun> {
        let findings = self.0.of(cx.call).apply(&event.prompt).findings;
        Answer::Now(Ok(forbidden(&findings).map(|reason| AgentRunOutcome::Block {
            message: Some(format!("The message was not read: {reason}.").into()),
            reason: reason.into(),
            category: Some("redaction".to_owned()),
            metadata: None,
        })))
    }
}

/// Judges all that a model is about to read, and the tools it is offered.
#[derive(Debug)]
pub(super) struct Calls {
    place: Option<Place>,
    judges_tools: bool,
    withdraws_tools: bool,
}

static HIDDEN: LazyLock<Scanner> = LazyLock::new(|| Scanner::for_classes(&[Class::Hidden]));

impl Calls {
    pub(super) fn new(place: Option<Place>, judges_tools: bool, withdraws_tools: bool) -> Self {
        Self { place, judges_tools, withdraws_tools }
    }

    fn judge(&self, event: &BeforeLlmCallEvent, cx: Context<'_>) -> Option<BeforeLlmCallOutcome> {
        let mut outcome = BeforeLlmCallOutcome::default();
        if let Some(place) = &self.place {
            let redactor = place.of(cx.call);
            let mut findings = Vec::new();
            outcome.messages = clean_messages(&redactor, &event.messages, &mut findings);
            outcome.system_prompt = clean_text(&redactor, &event.system_prompt, &mut findings);
            for tool in &event.tools {
                judge_tool(&redactor, tool, &mut findings);
            }
            log_reported("before_llm_call", &findings);
            if let Some(reason) = forbidden(&findings) {
                outcome.block = Some(true);
                outcome.block_reason = Some(reason.into());
            }
        }
        if self.judges_tools {
            outcome.tools = plain_tools(&event.tools).filter(|_| self.withdraws_tools);
        }
        (outcome != BeforeLlmCallOutcome::default()).then_some(outcome)
    }
}

impl Hook<BeforeLlmCall> for Calls {
    fn call<'a>(&'a self, event: &'a BeforeLlmCallEvent, cx: Context<'a>) -> Answer<'a, BeforeLlmCall> {
        Answer::Now(Ok(self.judge(event, cx)))
    }
}

/// The messages, if others when they are clean.
fn clean_messages(
    redactor: &Redactor,
    messages: &[Message],
    findings: &mut Vec<Finding>,
) -> Option<Vec<Message>> {
    let before = findings.len();
    let mut clean = messages.to_vec();
    for message in messages {
        findings.extend(fixed(judge_meta(redactor, message)));
    }
    for part in clean.iter_mut().flat_map(|message| &mut message.content) {
        clean_part(redactor, part, findings);
        findings.extend(fixed(judge_part(redactor, part)));
    }
    let found = findings.get(before..).unwrap_or_default();
    found.iter().any(Finding::is_change).then_some(clean)
}

/// What a wire adds to a message (`thinking_blocks`, `name`) and to its parts. It stays as it is: much of it is signed.
fn judge_meta(redactor: &Redactor, message: &Message) -> Vec<Finding> {
    let of_part = |part: &'_ Part| match part {
        Part::Text { meta, .. } | Part::Thinking { meta, .. } => meta.clone(),
        Part::ToolCall(call) => call.meta.clone(),
        Part::ToolResult(_) | Part::Image { .. } | Part::Unknown { .. } => None,
    };
    let metas = message.meta.clone().into_iter().chain(message.content.iter().filter_map(of_part));
    let mut findings = Vec::new();
    for meta in metas {
        let mut value = meta.to_value();
        without_sealed(&mut value);
        findings.extend(redactor.apply_json_and_keys(&mut value));
    }
    findings
}

/// Fields that only their provider can read: what looks like a secret there is chance.
const SEALED: [&str; 5] =
    ["signature", "thoughtSignature", "thought_signature", "encrypted_content", "encrypted_index"];

fn without_sealed(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_sealed),
        Value::Object(fields) => {
            fields.retain(|name, _| !SEALED.contains(&name.as_str()));
            fields.values_mut().for_each(without_sealed);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a part holds that nothing is taken out of: the arguments of a call, which would be another one, and reasoning, which
/// is signed.
fn judge_part(redactor: &Redactor, part: &Part) -> Vec<Finding> {
    match part {
        Part::Thinking { text, .. } => redactor.apply(text).findings,
        Part::ToolCall(call) => {
            let mut findings = redactor.apply_json_and_keys(&mut call.arguments.to_value());
            findings.extend(call.malformed.iter().flat_map(|text| redactor.apply(text).findings));
            findings
        }
        Part::Text { .. } | Part::ToolResult(_) | Part::Image { .. } | Part::Unknown { .. } => Vec::new(),
    }
}

/// A tool is offered as it is or not at all.
fn judge_tool(redactor: &Redactor, tool: &ToolInfo, findings: &mut Vec<Finding>) {
    if let Some(description) = &tool.description {
        findings.extend(fixed(redactor.apply(description).findings));
    }
    if let Some(schema) = &tool.input_schema {
        findings.extend(fixed(redactor.apply_json_and_keys(&mut schema.to_value())));
    }
}

/// Findings in what has to stay: reported where they would be taken out.
fn fixed(findings: Vec<Finding>) -> impl Iterator<Item = Finding> {
    findings.into_iter().map(|mut finding| {
        if finding.is_change() && finding.action != Action::Block {
            finding.action = Action::Report;
        }
        finding
    })
}

fn clean_text(redactor: &Redactor, text: &str, findings: &mut Vec<Finding>) -> Option<Text> {
    let clean = redactor.apply(text);
    let changed = clean.is_changed();
    findings.extend(clean.findings);
    changed.then(|| clean.text.into())
}

/// The tools whose description and schema say what they seem to say, if those are not all.
fn plain_tools(tools: &[ToolInfo]) -> Option<ToolNames> {
    let plain = |tool: &&ToolInfo| {
        !hides(&HIDDEN, &tool.name)
            && !tool.description.as_deref().is_some_and(|text| hides(&HIDDEN, text))
            && !tool.input_schema.as_ref().is_some_and(|schema| hides_within(schema))
    };
    let left: Vec<&ToolInfo> = tools.iter().filter(plain).collect();
    if left.len() == tools.len() {
        return None;
    }
    let hiding = tools.len() - left.len();
    tracing::warn!(hook = REDACTOR_ID, hiding, "the description or the schema of some tools hides text");
    Some(ToolNames::new(left.into_iter().map(|tool| tool.name.clone())))
}

/// Whether a text or a name anywhere in a schema, which is as deep as JSON may be, hides something: the model reads all.
fn hides_within(schema: &Value) -> bool {
    match schema {
        Value::String(text) => hides(&HIDDEN, text),
        Value::Array(items) => items.iter().any(hides_within),
        Value::Object(fields) => {
            fields.iter().any(|(name, field)| hides(&HIDDEN, name) || hides_within(field))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
