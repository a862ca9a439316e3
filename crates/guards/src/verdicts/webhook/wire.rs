//! What is posted to a webhook, and how its answer is read.
//!
//! An answer is read by its verdict. Beside a valid `approve` or `deny`, other fields are ignored, whatever a
//! server adds. `modify` and `ask` are carried out completely or not at all, so an unknown field makes them
//! invalid, and so does an `approve` that contains a rewrite: nothing that an answer asks for is dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use backstop_engine::{HookVerdict, LlmAnswer, LlmCall, LlmChanges, VerdictCall};
use backstop_hooks::conversation::{Message, ToolResult};
use backstop_hooks::{ApprovalRequest, Decision, Malformed, Params, Severity, TimeoutBehavior};
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// A tool call, as it is posted before and after it.
pub(super) fn tool_call(call: VerdictCall<'_>) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("tool_name".to_owned(), json!(call.tool_name));
    body.insert("arguments".to_owned(), call.arguments.to_value());
    body.insert("session_id".to_owned(), json!(call.session_id.map_or("", |session| session.as_str())));
    body
}

/// Returns the result of a tool call.
pub(super) fn tool_result(call: VerdictCall<'_>, result: Option<&ToolResult>) -> Value {
    let mut body = tool_call(call);
    body.insert("event".to_owned(), json!("post_call"));
    let success = result.is_some_and(|result| !result.is_error);
    let output = result.map(ToolResult::visible_text).unwrap_or_default();
    body.insert("result".to_owned(), json!({ "success": success, "output": output }));
    Value::Object(body)
}

/// A model call, as it is posted before it.
pub(super) fn llm_call(call: LlmCall<'_>) -> Value {
    let request = call.request;
    json!({
        "event": "llm_pre_call",
        "provider": request.provider,
        "model": request.model,
        "iteration": request.iteration,
        "system_prompt": request.system_prompt,
        "messages": request.messages,
        "tools": request.tools,
        "session_id": call.session_id.map_or("", |session| session.as_str()),
    })
}

/// A model's answer.
pub(super) fn llm_answer(answer: LlmAnswer<'_>) -> Value {
    let output = answer.output;
    let text = output.last_assistant.as_ref().map(Message::visible_text).unwrap_or_default();
    json!({
        "event": "llm_post_call",
        "provider": output.provider,
        "model": output.model,
        "result": { "output": text, "message": output.last_assistant, "usage": output.usage },
        "session_id": output.session_id,
    })
}

const REASONING: &str = "reasoning";
/// What an `ask` may say besides why.
const QUESTION: [&str; 4] = ["title", "severity", "timeout", "decisions"];

/// Reads the verdict about a tool call.
pub(super) fn tool_verdict(body: &[u8], call: VerdictCall<'_>) -> Result<HookVerdict, Malformed> {
    let mut answer = Answer::read(body)?;
    match answer.word {
        Word::Approve => {
            let arguments = answer.take("modified_arguments").filter(|arguments| !says_nothing(arguments));
            match arguments {
                Some(arguments) if arguments != call.arguments.to_value() => Err(changes_without_modify()),
                _ => Ok(HookVerdict::Approve),
            }
        }
        Word::Deny => Ok(answer.deny()),
        Word::Modify => {
            let arguments = answer
                .take("modified_arguments")
                .ok_or_else(|| Malformed::new("the webhook says `modify` without `modified_arguments`"))?;
            answer.has_only(&[REASONING])?;
            match Params::from_value(arguments) {
                Some(arguments) => Ok(HookVerdict::Modify(arguments)),
                None => Err(Malformed::new("the webhook's `modified_arguments` is no object")),
            }
        }
        Word::Ask => {
            if answer.take("modified_arguments").is_some_and(|arguments| !says_nothing(&arguments)) {
                return Err(changes_without_modify());
            }
            answer.ask(&format!("`{}` needs approval", call.tool))
        }
    }
}

const LLM_CHANGES: [&str; 3] = ["modified_messages", "modified_system_prompt", "modified_tools"];

/// Reads the verdict about a model call.
pub(super) fn llm_verdict(body: &[u8]) -> Result<HookVerdict<LlmChanges>, Malformed> {
    let mut answer = Answer::read(body)?;
    match answer.word {
        Word::Approve | Word::Ask => {
            let asks = answer.word == Word::Ask;
            let changes = LLM_CHANGES.map(|change| answer.take(change));
            // An empty text is a change (it clears the system prompt), an empty list of messages is none.
            if changes.into_iter().flatten().any(|change| change == json!("") || !says_nothing(&change)) {
                return Err(changes_without_modify());
            }
            if asks { answer.ask("this model call needs approval") } else { Ok(HookVerdict::Approve) }
        }
        Word::Deny => Ok(answer.deny()),
        Word::Modify => {
            let changes = LlmChanges {
                messages: answer.typed("modified_messages", "a list of messages")?,
                system_prompt: answer.typed("modified_system_prompt", "a text")?,
                tools: answer.typed("modified_tools", "a list of names")?,
            };
            answer.has_only(&[REASONING])?;
            if changes == LlmChanges::default() {
                return Err(Malformed::new("the webhook says `modify` and changes nothing"));
            }
            Ok(HookVerdict::Modify(changes))
        }
    }
}

fn changes_without_modify() -> Malformed {
    Malformed::new("the webhook's answer carries changes and does not say `modify`")
}

/// Servers that always write a field write it empty where it means nothing.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Approve,
    Deny,
    Modify,
    Ask,
}

/// An answer: its word, and the fields that nobody has taken yet.
struct Answer {
    word: Word,
    fields: BTreeMap<String, Value>,
}

impl Answer {
    fn read(body: &[u8]) -> Result<Self, Malformed> {
        let Fields(mut fields) = serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Malformed::new(format!("the webhook's answer is no verdict (line {line}, column {column})"))
        })?;
        let word =
            fields.remove("verdict").and_then(|word| Word::deserialize(word).ok()).ok_or_else(|| {
                Malformed::new("the webhook's `verdict` is not one of `approve`, `deny`, `modify`, `ask`")
            })?;
        Ok(Self { word, fields })
    }

    /// A field; `null` is as good as none.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    fn typed<T: DeserializeOwned>(&mut self, name: &str, what: &str) -> Result<Option<T>, Malformed> {
        let Some(value) = self.take(name) else { return Ok(None) };
        // The error's own text would quote the value.
        serde_json::from_value(value)
            .map(Some)
            .map_err(|_| Malformed::new(format!("the webhook's `{name}` is not {what}")))
    }

    /// Refuses fields other than `known`, of which nobody could say what they ask for.
    fn has_only(&self, known: &[&str]) -> Result<(), Malformed> {
        match self.fields.keys().find(|name| !known.contains(&name.as_str())) {
            Some(_) => Err(Malformed::new(
                "the webhook's answer has a field that nobody knows, beside `modify` or `ask`",
            )),
            None => Ok(()),
        }
    }

    /// A denial is one whatever stands beside it, also where its reason is no text.
    fn deny<M>(mut self) -> HookVerdict<M> {
        let reasoning = self.take(REASONING).and_then(|reasoning| Some(reasoning.as_str()?.into()));
        HookVerdict::Deny { reasoning }
    }

    fn ask<M>(mut self, title: &str) -> Result<HookVerdict<M>, Malformed> {
        let reasoning: Option<String> = self.typed(REASONING, "a text")?;
        let [own_title, severity, timeout, decisions] = QUESTION;
        let own_title: Option<String> = self.typed(own_title, "a text")?;
        let severity: Option<Severity> = self.typed(severity, "one of `info`, `warning`, `critical`")?;
        let timeout: Option<f64> = self.typed(timeout, "a number of seconds")?;
        let decisions: Option<Vec<Decision>> =
            self.typed(decisions, "a list of `allow-once`, `allow-always`, `deny`")?;
        self.has_only(&[])?;
        let title = own_title.as_deref().unwrap_or(title);
        let mut request = ApprovalRequest::cut(title, &reasoning.unwrap_or_default())
            .severity(severity.unwrap_or_default());
        if let Some(decisions) = decisions {
            request = request.decisions(decisions);
        }
        if let Some(timeout) = timeout {
            let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
            request = request
                .timeout(timeout, TimeoutBehavior::Deny)
                .map_err(|_| Malformed::new("the webhook's `timeout` is not between 0 and 600 seconds"))?;
        }
        Ok(HookVerdict::Ask(Box::new(request)))
    }
}

/// The fields of an object. One that stands there twice is an error: which of the two was meant?
struct Fields(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if fields.insert(name, value).is_some() {
                        return Err(serde::de::Error::custom("a field stands there twice"));
                    }
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::ToolName;

    use super::*;

    fn tool(body: &str) -> Result<HookVerdict, Malformed> {
        let (name, arguments) =
            (ToolName::new("exec"), Params::from_value(json!({"command": "ls"})).unwrap());
        tool_verdict(
            body.as_bytes(),
            VerdictCall { tool_name: name.called(), tool: &name, arguments: &arguments, session_id: None },
        )
    }

    fn asked<M>(verdict: HookVerdict<M>) -> ApprovalRequest {
        match verdict {
            HookVerdict::Ask(request) => *request,
            _ => panic!("nobody is asked"),
        }
    }

    #[test]
    fn a_malformed_verdict_is_a_failure_not_an_approval() {
        for body in [
            "",
            "null",
            "{}",
            "[]",
            "\"approve\"",
            r#"{"verdict": "yes"}"#,
            r#"{"verdict": true}"#,
            r#"{"verdict": "APPROVE"}"#,
            r#"{"verdict": "approve", "verdict": "deny"}"#,
            r#"{"verdict": "modify"}"#,
            r#"{"verdict": "modify", "modified_arguments": null}"#,
            r#"{"verdict": "modify", "modified_arguments": []}"#,
            r#"{"verdict": "modify", "modified_arguments": {}, "modified_argments": {"command": "ls"}}"#,
            r#"{"verdict": "approve", "modified_arguments": {"command": "echo"}}"#,
            r#"{"verdict": "ask", "modified_arguments": {"command": "echo"}}"#,
            r#"{"verdict": "ask", "severity": "grave"}"#,
            r#"{"verdict": "ask", "timeout": 0}"#,
            r#"{"verdict": "ask", "timeout": 601}"#,
            r#"{"verdict": "ask", "timout": 5}"#,
        ] {
            assert!(tool(body).is_err(), "{body}");
        }
        assert!(llm_verdict(br#"{"verdict": "modify", "reasoning": "x"}"#).is_err());
        assert!(llm_verdict(br#"{"verdict": "modify", "modified_messages": "x"}"#).is_err());
        assert!(llm_verdict(br#"{"verdict": "modify", "modified_arguments": {}}"#).is_err());
        assert!(llm_verdict(br#"{"verdict": "approve", "modified_system_prompt": ""}"#).is_err());
    }

    #[test]
    fn unknown_fields_beside_a_valid_approve_or_deny_are_ignored() {
        for body in [
            r#"{"verdict": "approve", "reasoning": null, "request_id": 7}"#,
            r#"{"verdict": "approve", "reasoning": "fine", "modified_arguments": {}}"#,
            r#"{"verdict": "approve", "modified_arguments": []}"#,
            r#"{"verdict": "approve", "modified_arguments": {"command": "ls"}, "verdicts": [1]}"#,
        ] {
            assert_eq!(tool(body), Ok(HookVerdict::Approve), "{body}");
        }
        let denied = HookVerdict::Deny { reasoning: Some("no".into()) };
        assert_eq!(tool(r#"{"verdict": "deny", "reasoning": "no", "score": 0.9}"#), Ok(denied));
        let speechless = r#"{"verdict": "deny", "reasoning": 3, "modified_arguments": {"command": "echo"}}"#;
        assert_eq!(tool(speechless), Ok(HookVerdict::Deny { reasoning: None }));
        assert_eq!(llm_verdict(br#"{"verdict": "approve", "x": 1}"#), Ok(HookVerdict::Approve));
    }

    #[test]
    fn a_verdict_may_ask() {
        let request = asked(tool(r#"{"verdict": "ask"}"#).unwrap());
        assert_eq!(request.title().as_str(), "`exec` needs approval");
        let body = r#"{"verdict": "ask", "reasoning": "it deletes", "title": "sure?", "severity": "critical",
            "timeout": 2.5, "decisions": ["allow-once"], "modified_arguments": {}}"#;
        let request = asked(tool(body).unwrap());
        assert_eq!((request.title().as_str(), request.description().as_str()), ("sure?", "it deletes"));
        assert_eq!(request.severity_level(), Severity::Critical);
        assert_eq!(request.own_timeout(), Some(Duration::from_millis(2_500)));
        assert_eq!(request.timeout_behavior(), TimeoutBehavior::Deny);
        assert_eq!(request.allowed_decisions(), [Decision::AllowOnce, Decision::Deny]);
        assert_eq!(
            asked(llm_verdict(br#"{"verdict": "ask", "reasoning": "why"}"#).unwrap()).description().as_str(),
            "why"
        );
    }

    #[test]
    fn model_calls_are_modified_in_parts() {
        let body = r#"{"verdict": "modify", "modified_system_prompt": "", "modified_tools": ["read"]}"#;
        let changes = LlmChanges {
            messages: None,
            system_prompt: Some("".into()),
            tools: Some(vec!["read".to_owned()]),
        };
        assert_eq!(llm_verdict(body.as_bytes()), Ok(HookVerdict::Modify(changes)));
        let body = r#"{"verdict": "modify", "modified_messages":
            [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}"#;
        let changes = LlmChanges { messages: Some(vec![Message::user("hi")]), ..LlmChanges::default() };
        assert_eq!(llm_verdict(body.as_bytes()), Ok(HookVerdict::Modify(changes)));
    }
}
