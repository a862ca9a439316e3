//! Redacts what is put in front of the model: messages, the whole of a call, and the tools on offer.

use std::collections::HashSet;
use std::sync::LazyLock;

use backstop_hooks::points::{
    AgentRunEvent, AgentRunOutcome, BeforeAgentRun, BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome,
    MessageBefore, MessageBeforeEvent, MessageBeforeOutcome, ToolInfo, ToolNames,
};
use backstop_hooks::{Answer, Context, Hook, Text};
use backstop_scan::{Class, Scanner};
use serde_json::Value;

use super::walk::Walk;
use super::{ArgumentActions, Place, REDACTOR_ID, RedactionSettings, forbidden, hides, log_reported};

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
    arguments: ArgumentActions,
    judges_tools: bool,
    withdraws_tools: bool,
}

static HIDDEN: LazyLock<Scanner> = LazyLock::new(|| Scanner::for_classes(&[Class::Hidden]));

impl Calls {
    pub(super) fn new(place: Option<Place>, settings: &RedactionSettings) -> Self {
        Self {
            place,
            arguments: settings.arguments,
            judges_tools: settings.judges_tools(),
            withdraws_tools: settings.withdraws_tools,
        }
    }

    fn judge(&self, event: &BeforeLlmCallEvent, cx: Context<'_>) -> Option<BeforeLlmCallOutcome> {
        let mut outcome = BeforeLlmCallOutcome::default();
        let mut gone: HashSet<&str> = HashSet::new();
        if let Some(place) = &self.place {
            let redactor = place.of(cx.call);
            let mut walk = Walk::new(&redactor, self.arguments);
            outcome.messages = walk.messages(&event.messages);
            outcome.system_prompt = walk.text(&event.system_prompt).map(Text::from);
            walk.name(&event.model);
            event.other_models.iter().flatten().for_each(|model| walk.name(model));
            gone.extend(event.tools.iter().filter(|tool| !walk.tool(tool)).map(|tool| tool.name.as_str()));
            let findings = walk.into_findings();
            log_reported("before_llm_call", &findings);
            if let Some(reason) = forbidden(&findings) {
                outcome.block = Some(true);
                outcome.block_reason = Some(reason.into());
            }
            if !gone.is_empty() {
                tracing::warn!(
                    hook = REDACTOR_ID,
                    tools = gone.len(),
                    "some tools hold what may not pass here"
                );
            }
        }
        if self.judges_tools {
            let hiding = hiding_tools(&event.tools);
            gone.extend(hiding.into_iter().filter(|_| self.withdraws_tools));
        }
        let left = || event.tools.iter().filter(|tool| !gone.contains(tool.name.as_str()));
        outcome.tools = (!gone.is_empty()).then(|| ToolNames::new(left().map(|tool| tool.name.clone())));
        (outcome != BeforeLlmCallOutcome::default()).then_some(outcome)
    }
}

impl Hook<BeforeLlmCall> for Calls {
    fn call<'a>(&'a self, event: &'a BeforeLlmCallEvent, cx: Context<'a>) -> Answer<'a, BeforeLlmCall> {
        Answer::Now(Ok(self.judge(event, cx)))
    }
}

/// Returns the tools whose description or schema says something else than it seems to.
fn hiding_tools(tools: &[ToolInfo]) -> Vec<&str> {
    let hides_text = |tool: &&ToolInfo| {
        hides(&HIDDEN, &tool.name)
            || tool.description.as_deref().is_some_and(|text| hides(&HIDDEN, text))
            || tool.input_schema.as_ref().is_some_and(|schema| hides_within(schema))
    };
    let hiding: Vec<&str> = tools.iter().filter(hides_text).map(|tool| tool.name.as_str()).collect();
    if !hiding.is_empty() {
        let hiding = hiding.len();
        tracing::warn!(hook = REDACTOR_ID, hiding, "the description or the schema of some tools hides text");
    }
    hiding
}

/// Returns whether a text or a name anywhere in a schema, which is as deep as JSON may be, hides something: the model reads
/// all.
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
