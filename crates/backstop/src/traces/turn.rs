//! The spans of a turn of our own agent.

use backstop_agent::{Stage, StageSink};
use backstop_hooks::{ShownName, SpanId, Trace, TraceId};
use backstop_llm::Api;
use backstop_store::DigestKey;
use backstop_telemetry::{Attribute, Kind, Span, keys, operations, providers, told, told_id};

use super::{Traces, told_call, used};

impl StageSink for Traces {
    fn ended(&self, trace: Trace, stage: &Stage<'_>) {
        if !self.exporter.samples(trace.trace_id) {
            return;
        }
        self.record(span(trace, stage, self.key.as_deref()));
    }

    fn traces(&self, trace: TraceId) -> Option<bool> {
        Some(self.exporter.samples(trace))
    }
}

/// The span of a stage of the turn whose span `trace` is.
fn span(trace: Trace, stage: &Stage<'_>, key: Option<&DigestKey>) -> Span {
    let below = Trace { span_id: SpanId::fresh(), parent_span_id: Some(trace.span_id), ..trace };
    match stage {
        Stage::Turn { agent, session, outcome, error, elapsed } => {
            let name = format!("{} {}", operations::INVOKE_AGENT, told(agent.as_str()));
            let mut span = Span::ended(trace, name, *elapsed);
            span.is_parent_remote = trace.parent_span_id.is_some();
            span.set(keys::OPERATION, operations::INVOKE_AGENT);
            span.set(keys::AGENT, told(agent.as_str()));
            span.set(keys::CONVERSATION, told_id(session.as_str()));
            span.set(keys::OUTCOME, *outcome);
            if let Some(error) = error {
                span.fail(*error);
            }
            span
        }
        Stage::ModelCall { span: span_id, provider, api, model, answer, error, elapsed } => {
            let name = format!("{} {}", operations::CHAT, told(model));
            let below = Trace { span_id: *span_id, ..below };
            let mut span = Span::ended(below, name, *elapsed).kind(Kind::Client);
            span.set(keys::OPERATION, operations::CHAT);
            span.set(keys::PROVIDER, maker(*api));
            span.set(keys::UPSTREAM, told(provider));
            span.set(keys::REQUEST_MODEL, told(model));
            if let Some(answer) = answer {
                // A provider names the version of what was asked; anything else could be anything.
                let version = answer.model.strip_prefix(model);
                if version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
                {
                    span.set(keys::RESPONSE_MODEL, told(&answer.model));
                }
                used(&mut span, answer.usage);
                span.set(keys::FINISH_REASONS, Attribute::Texts(vec![answer.stop.word().into()]));
            }
            if let Some(error) = error {
                span.fail(*error);
            }
            span
        }
        Stage::ToolCall { tool, id, failed, elapsed } => {
            let tool = ShownName::new(tool.canonical()).to_string();
            let name = format!("{} {tool}", operations::EXECUTE_TOOL);
            let mut span = Span::ended(below, name, *elapsed);
            span.set(keys::OPERATION, operations::EXECUTE_TOOL);
            span.set(keys::TOOL, tool);
            span.set(keys::TOOL_CALL, told_call(id.as_str(), key));
            if *failed {
                span.fail("tool_error");
            }
            span
        }
    }
}

const fn maker(api: Api) -> &'static str {
    match api {
        Api::AnthropicMessages => providers::ANTHROPIC,
        Api::OpenAiChat | Api::OpenAiResponses => providers::OPENAI,
        Api::Gemini => providers::GEMINI,
        Api::BedrockConverse => providers::BEDROCK,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use backstop_hooks::{ToolCallId, ToolName};

    #[test]
    fn an_id_that_was_made_of_a_call_is_keyed_as_in_the_span_of_its_dispatch() {
        let folder = tempfile::TempDir::new().unwrap();
        let key = DigestKey::create(&folder.path().join("digest.key")).unwrap();
        let call = |id: &str, key: Option<&DigestKey>| {
            let (tool, id) = (ToolName::new("exec"), ToolCallId::from(id));
            let stage = Stage::ToolCall { tool: &tool, id: &id, failed: false, elapsed: Duration::ZERO };
            let attributes = span(Trace::begin(None), &stage, key).attributes;
            attributes.into_iter().find_map(|(name, value)| match value {
                Attribute::Text(text) if name == keys::TOOL_CALL => Some(text.into_owned()),
                _ => None,
            })
        };
        let made = "call_0123456789ab_1";
        assert_eq!(call(made, Some(&key)), key.keyed_call(made));
        assert_eq!(call(made, None).as_deref(), Some(made));
        assert_eq!(call("toolu_01A", Some(&key)).as_deref(), Some("toolu_01A"));
    }
}
