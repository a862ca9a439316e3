//! Redacts what is put in front of the model: messages, the whole of a call, and the tools on offer.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use backstop_hooks::points::{
    AgentRunEvent, AgentRunOutcome, BeforeAgentRun, BeforeLlmCall, BeforeLlmCallEvent, BeforeLlmCallOutcome,
    MessageBefore, MessageBeforeEvent, MessageBeforeOutcome, ToolInfo, ToolNames,
};
use backstop_hooks::{AgentId, Answer, CallContext, Context, Hook, MemoKey, Text};
use backstop_scan::{Class, Scanner};
use serde_json::Value;

use super::walk::Walk;
use super::{ArgumentActions, Place, REDACTOR_ID, RedactionSettings, forbidden, hides, log_reported};

/// Cleans a message before the agent sees it. What is forbidden is left to [`Gate`], which stops the run.
#[derive(Debug)]
pub(super) struct Messages(pub(super) Place);

impl Hook<MessageBefore> for Messages {
    fn call<'a>(&'a self, event: &'a MessageBeforeEvent, cx: Context<'a>) -> Answer<'a, MessageBefore> {
        let Some(clean) = self.0.redacted(cx.call, &event.message) else { return Answer::Now(Ok(None)) };
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
        let findings = self.0.redacted(cx.call, &event.prompt).map(|redacted| redacted.findings);
        Answer::Now(Ok(forbidden(&findings.unwrap_or_default()).map(|reason| AgentRunOutcome::Block {
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
    /// Of walks with this policy.
    key: MemoKey,
    clean: CleanOffers,
}

static HIDDEN: LazyLock<Scanner> = LazyLock::new(|| Scanner::for_classes(&[Class::Hidden]));

impl Calls {
    pub(super) fn new(place: Option<Place>, settings: &RedactionSettings) -> Self {
        Self {
            place,
            arguments: settings.arguments,
            judges_tools: settings.judges_tools(),
            withdraws_tools: settings.withdraws_tools,
            key: MemoKey::unique(),
            clean: CleanOffers::default(),
        }
    }

    fn judge(&self, event: &BeforeLlmCallEvent, cx: Context<'_>) -> Option<BeforeLlmCallOutcome> {
        let mut outcome = BeforeLlmCallOutcome::default();
        let mut gone: HashSet<&str> = HashSet::new();
        let is_clean = self.clean.has(event, cx.call);
        let mut found_beside = false;
        if let Some(place) = &self.place {
            let redactor = place.of(cx.call);
            let mut walk = Walk::new(&redactor, self.arguments, self.key, place.key);
            if !is_clean {
                outcome.system_prompt = walk.text(&event.system_prompt).map(Text::from);
                gone.extend(
                    event.tools.iter().filter(|tool| !walk.tool(tool)).map(|tool| tool.name.as_str()),
                );
                found_beside = walk.has_findings();
            }
            outcome.messages = walk.messages(&event.messages);
            walk.name(&event.model);
            event.other_models.iter().flatten().for_each(|model| walk.name(model));
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
        if self.judges_tools && !is_clean {
            let hiding = hiding_tools(&event.tools);
            found_beside |= !hiding.is_empty();
            gone.extend(hiding.into_iter().filter(|_| self.withdraws_tools));
        }
        if !is_clean && !found_beside {
            self.clean.remember(event, cx.call);
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

/// How many offers are remembered.
const MAX_OFFERS: usize = 16;
/// A larger offer, in bytes of its texts, is scanned each time.
const MAX_OFFER_BYTES: usize = 512 * 1024;

/// System prompts and tools in which nothing was found, by the agent they are of. They come again with each request of a conversation,
/// and are found by comparing all of them: no digest stands for a text here.
#[derive(Debug, Default)]
struct CleanOffers(Mutex<VecDeque<Arc<CleanOffer>>>);

#[derive(Debug)]
struct CleanOffer {
    agent: Option<AgentId>,
    system: Text,
    tools: Vec<ToolInfo>,
}

impl CleanOffer {
    fn is(&self, event: &BeforeLlmCallEvent, call: &CallContext) -> bool {
        self.agent == call.agent_id && self.system == event.system_prompt && self.tools == event.tools
    }
}

impl CleanOffers {
    fn has(&self, event: &BeforeLlmCallEvent, call: &CallContext) -> bool {
        // Compared without the lock, since texts may be long.
        let offers = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(place) = offers.iter().position(|offer| offer.is(event, call)) else { return false };
        if let (Some(found), true) = (offers.get(place), place > 0) {
            let mut offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // What is used stays.
            offers.retain(|offer| !Arc::ptr_eq(offer, found));
            offers.push_front(Arc::clone(found));
        }
        true
    }

    fn remember(&self, event: &BeforeLlmCallEvent, call: &CallContext) {
        let bytes = event.system_prompt.len() + event.tools.iter().map(bytes_of).sum::<usize>();
        if bytes > MAX_OFFER_BYTES {
            return;
        }
        let (agent, system) = (call.agent_id.clone(), event.system_prompt.clone());
        let offer = Arc::new(CleanOffer { agent, system, tools: event.tools.clone() });
        let mut offers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What is forgotten is scanned again.
        while offers.len() >= MAX_OFFERS {
            offers.pop_back();
        }
        offers.push_front(offer);
    }
}

/// About how many bytes a tool has in memory.
fn bytes_of(tool: &ToolInfo) -> usize {
    let listed: usize = tool.allowed_tools.iter().flatten().map(String::len).sum();
    let schema = tool.input_schema.as_ref().map_or(0, |schema| bytes_of_json(schema));
    tool.name.len() + tool.description.as_ref().map_or(0, |text| text.len()) + listed + schema
}

fn bytes_of_json(value: &Value) -> usize {
    const EACH: usize = 32;
    EACH + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of_json).sum(),
        Value::Object(fields) => fields.iter().map(|(name, field)| name.len() + bytes_of_json(field)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
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
