//! How a script is written.

use backstop_hooks::Text;
use backstop_hooks::conversation::{Message, Role, TokenUsage};
use regex::Regex;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use crate::model::{ModelRequest, ToolDefinition};

/// A script: what a model is to answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The turns, in order.
    pub turns: Vec<Turn>,
}

/// One answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Turn {
    /// Requests that this turn answers; all, if it is missing.
    pub when: Option<Conditions>,
    /// What must hold for the request that this turn answers; if it does not, the request fails.
    pub expect: Option<Conditions>,
    /// Whether the turn may be used any number of times.
    pub repeat: bool,
    /// Reasoning before the text.
    pub thinking: Option<Text>,
    /// Visible text.
    pub text: Option<Text>,
    /// Tools that the model asks for.
    pub tool_calls: Vec<ScriptedToolCall>,
    /// Why the model stops, such as `end_turn` or `max_tokens`. By default what the answer looks like.
    pub stop: Option<String>,
    /// Tokens used. By default estimates.
    pub usage: Option<TokenUsage>,
    /// Milliseconds to wait before the answer begins.
    pub delay_ms: u64,
    /// Characters in each piece of a streamed text. Default: 16.
    pub chunk: Option<usize>,
    /// Milliseconds to wait between the events of a stream.
    pub chunk_delay_ms: u64,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// A tool call of a scripted answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolCall {
    /// The call's id. By default one that is used once only.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments. A string is sent as it is, whether or not it is JSON.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

/// What can go wrong on purpose.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// An error answer.
    HttpStatus(HttpFault),
    /// The stream (or half the body) ends properly after this many events, before the answer is whole.
    HalfStreamAfter(usize),
    /// The connection breaks off after this many events.
    ResetAfter(usize),
    /// The connection is closed without an answer.
    CloseConnection,
    /// The arguments of each tool call are cut off in the middle.
    MalformedJson,
    /// All tool calls have the id of the first.
    DuplicateToolCallIds,
    /// The body of the stream, as it is.
    RawSse(String),
}

/// An error answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFault {
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// Seconds that the client is asked to wait.
    pub retry_after: Option<f64>,
    /// The message in the error's body.
    pub message: Option<String>,
}

/// Conditions on a request. All that are given must hold.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// The text of the last user message contains this.
    pub user_contains: Option<String>,
    /// The text of the last user message matches this regular expression.
    pub user_matches: Option<Pattern>,
    /// A tool result after the last answer contains this.
    pub tool_result_contains: Option<String>,
    /// A tool result after the last answer matches this regular expression.
    pub tool_result_matches: Option<Pattern>,
    /// Whether there is a tool result after the last answer.
    pub tool_result: Option<bool>,
    /// The system prompt contains this.
    pub system_contains: Option<String>,
    /// The model asked for is this.
    pub model: Option<String>,
    /// All these tools are offered.
    pub tools: Vec<String>,
}

/// A regular expression.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A script cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// Malformed.
    #[error("script line {line}, column {column}: {reason}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// No turns.
    #[error("the script has no turns\nhint: the shortest one is {{\"text\": \"hello\"}}")]
    Empty,
    /// A turn that cannot be played.
    #[error("script turn {turn}: {problem}")]
    Turn {
        /// The turn, from 1.
        turn: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Script {
    /// Reads a script: a document `{"turns": [...]}`, or turns one after the other.
    ///
    /// # Errors
    /// If the text is malformed, has unknown keys, or a turn that cannot be played.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let is_document = serde_json::from_str::<Value>(text).is_ok_and(|value| value.get("turns").is_some());
        let script = if is_document {
            serde_json::from_str(text).map_err(|error| malformed(&error))?
        } else {
            let turns =
                serde_json::Deserializer::from_str(text).into_iter::<Turn>().collect::<Result<_, _>>();
            Self { turns: turns.map_err(|error| malformed(&error))? }
        };
        script.check()?;
        Ok(script)
    }

    fn check(&self) -> Result<(), ScriptError> {
        if self.turns.is_empty() {
            return Err(ScriptError::Empty);
        }
        for (index, turn) in self.turns.iter().enumerate() {
            if let Some(problem) = turn.problem() {
                return Err(ScriptError::Turn { turn: index + 1, problem });
            }
        }
        Ok(())
    }
}

fn malformed(error: &serde_json::Error) -> ScriptError {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).to_owned();
    ScriptError::Malformed { line: error.line(), column: error.column(), reason }
}

impl Turn {
    /// A turn that says `text`.
    pub fn text(text: impl Into<Text>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A turn that asks for one tool.
    pub fn tool_call(name: impl Into<String>, arguments: Value) -> Self {
        let call = ScriptedToolCall { id: None, name: name.into(), arguments };
        Self { tool_calls: vec![call], ..Self::default() }
    }

    fn problem(&self) -> Option<&'static str> {
        let says_nothing = self.text.is_none() && self.thinking.is_none() && self.tool_calls.is_empty();
        match &self.fault {
            Some(Fault::HttpStatus(fault)) if !(400..600).contains(&fault.status) => {
                Some("`http_status` must be from 400 to 599")
            }
            Some(Fault::HttpStatus(fault))
                if fault.retry_after.is_some_and(|seconds| !(0.0..1e9).contains(&seconds)) =>
            {
                Some("`retry_after` must be a number of seconds")
            }
            Some(Fault::MalformedJson) if self.tool_calls.is_empty() => {
                Some("`malformed_json` needs tool calls")
            }
            Some(Fault::DuplicateToolCallIds) if self.tool_calls.len() < 2 => {
                Some("`duplicate_tool_call_ids` needs two tool calls")
            }
            Some(Fault::HttpStatus(_) | Fault::CloseConnection | Fault::RawSse(_)) if !says_nothing => {
                Some("this fault leaves no room for an answer")
            }
            Some(Fault::HalfStreamAfter(_) | Fault::ResetAfter(_)) | None if says_nothing => {
                Some("it says nothing: give `text`, `thinking` or `tool_calls`")
            }
            _ => None,
        }
    }
}

impl Conditions {
    /// What does not hold for the request; `None` if all holds.
    pub fn unmet(&self, request: &ModelRequest) -> Option<String> {
        let user = last_user_text(request);
        let results = fresh_tool_results(request);
        let missing_tool =
            self.tools.iter().find(|tool| !request.tools.iter().any(|offered| offered.name() == **tool));
        if let Some(text) = self.user_contains.as_ref().filter(|text| !user.contains(text.as_str())) {
            return Some(format!("a user message that contains {text:?}"));
        }
        if let Some(pattern) = self.user_matches.as_ref().filter(|pattern| !pattern.0.is_match(&user)) {
            return Some(format!("a user message that matches /{}/", pattern.0));
        }
        let in_results = |test: &dyn Fn(&str) -> bool| results.iter().any(|result| test(result));
        if let Some(text) =
            self.tool_result_contains.as_ref().filter(|text| !in_results(&|r| r.contains(text.as_str())))
        {
            return Some(format!("a tool result that contains {text:?}"));
        }
        if let Some(pattern) =
            self.tool_result_matches.as_ref().filter(|pattern| !in_results(&|r| pattern.0.is_match(r)))
        {
            return Some(format!("a tool result that matches /{}/", pattern.0));
        }
        if let Some(expected) = self.tool_result.filter(|expected| *expected == results.is_empty()) {
            return Some(if expected { "a tool result".to_owned() } else { "no tool result".to_owned() });
        }
        let system = request.system_text().unwrap_or_default();
        if let Some(text) = self.system_contains.as_ref().filter(|text| !system.contains(text.as_str())) {
            return Some(format!("a system prompt that contains {text:?}"));
        }
        if let Some(model) = self.model.as_ref().filter(|model| **model != request.model) {
            return Some(format!("the model `{model}`, not `{}`", request.model));
        }
        missing_tool.map(|tool| {
            let offered: Vec<&str> = request.tools.iter().map(ToolDefinition::name).collect();
            format!("the tool `{tool}` among `{}`", offered.join("`, `"))
        })
    }
}

fn last_user_text(request: &ModelRequest) -> String {
    let last = request.messages.iter().rev().find(|message| message.role == Role::User && message.has_text());
    last.map(Message::visible_text).unwrap_or_default()
}

/// The tool results that the model has not answered yet.
fn fresh_tool_results(request: &ModelRequest) -> Vec<String> {
    let fresh = request.messages.iter().rev().take_while(|message| message.role != Role::Assistant);
    fresh
        .flat_map(Message::tool_results)
        .map(backstop_hooks::conversation::ToolResult::visible_text)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_are_read() {
        let document = Script::parse(r#"{"turns": [{"text": "a"}, {"text": "b", "repeat": true}]}"#).unwrap();
        let lines = Script::parse("{\"text\": \"a\"}\n\n{\"text\": \"b\", \"repeat\": true}\n").unwrap();
        for script in [document, lines] {
            assert_eq!(script.turns.len(), 2);
            assert!(script.turns[1].repeat);
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let error = |text: &str| Script::parse(text).unwrap_err().to_string();
        assert!(
            error("{\"text\": \"a\"}\n{\"txet\": \"b\"}").starts_with("script line 2, column "),
            "{}",
            error("{}")
        );
        assert!(error("{\"txet\": \"b\"}").contains("unknown field `txet`"));
        assert!(
            error("{\"when\": {\"user_matches\": \"(\"}, \"text\": \"x\"}").contains("regex parse error")
        );
        assert_eq!(Script::parse(" \n").unwrap_err(), ScriptError::Empty);
        assert!(error("{}").contains("turn 1: it says nothing"));
        assert!(error(r#"{"fault": "malformed_json", "text": "x"}"#).contains("needs tool calls"));
        assert!(error(r#"{"fault": {"http_status": {"status": 200}}}"#).contains("400 to 599"));
    }

    #[test]
    fn unmet_conditions_are_named() {
        let request = ModelRequest::new("m", vec![Message::user("fix it")]);
        let unmet =
            |conditions: Value| serde_json::from_value::<Conditions>(conditions).unwrap().unmet(&request);
        assert_eq!(unmet(json!({"user_contains": "fix", "user_matches": "^f.x", "model": "m"})), None);
        assert_eq!(unmet(json!({"tool_result": true})).unwrap(), "a tool result");
        assert_eq!(unmet(json!({"model": "n"})).unwrap(), "the model `n`, not `m`");
        assert!(unmet(json!({"tools": ["exec"]})).unwrap().contains("`exec`"));
        assert!(unmet(json!({"tool_result_contains": "x"})).unwrap().contains("\"x\""));
    }
}
