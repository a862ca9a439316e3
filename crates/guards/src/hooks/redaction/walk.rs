//! Walks over what a model is about to read: every string of a message and of a tool, and every name in its JSON.
//!
//! There is no list of places to scan, only a list of exceptions, by place and by the form that a value must have there:
//!
//! | what | form | what happens to a finding |
//! | --- | --- | --- |
//! | arguments of earlier calls | any | reported or blocked, as `arguments` of the guard says: another value would be another call |
//! | fields in [`SEALED`] of what is attached to reasoning and to calls, and of parts in [`SEALED_PARTS`] | Base64 in which nothing stands that chance does not put there ([`Redactor::is_seal`]) | left as it is: only the provider can read it |
//! | data of images | the same | not looked at |
//! | ids, and names of tools and models | any | blocked: another value would name something else |
//!
//! Everything else is rewritten. Reasoning under a signature is withheld as a whole, as providers do that show none.
//!
//! What a walk makes of the content of a message is a fact of the content and the policy, and the content remembers it
//! ([`Content::memo`]): a conversation that comes again is walked over where it is new. Placeholders are the exception, because each
//! is one of its session's.

use backstop_hooks::conversation::{Content, ImageSource, Message, Part, ToolCall, ToolResult};
use backstop_hooks::points::ToolInfo;
use backstop_hooks::{Json, MemoKey};
use backstop_scan::{Action, Finding, Redactor};
use serde_json::Value;

use super::results::{clean_json, clean_text};
use super::{ArgumentActions, InArguments};

/// Fields that only their provider can read, as long as they hold what such fields hold.
const SEALED: [&str; 5] =
    ["signature", "thoughtSignature", "thought_signature", "encrypted_content", "encrypted_index"];
/// Those of them that are made over the text beside them.
const SIGNATURE: &str = "signature";
/// The types of parts that have such fields and that no codec takes apart. Elsewhere (in metadata, schemas, unknown parts) a field is
/// what its author wrote, whatever it is called.
const SEALED_PARTS: [&str; 6] = [
    "reasoning",
    "thinking",
    "redacted_thinking",
    "compaction",
    "web_search_result",
    "web_search_tool_result",
];
/// With how many findings a content is remembered. One with more is walked over again: a few bytes each need a lot of memory.
const MOST_REMEMBERED: usize = 256;

/// One walk, and what it found.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    redactor: &'a Redactor,
    arguments: ArgumentActions,
    /// Names this walk over contents: its policy and what becomes of arguments.
    key: MemoKey,
    /// Names the redactor.
    of_texts: MemoKey,
    findings: Vec<Finding>,
}

/// What a walk made of a content.
#[derive(Debug)]
struct Walked {
    /// The clean content, if it is another one.
    clean: Option<Content>,
    findings: Vec<Finding>,
}

impl<'a> Walk<'a> {
    /// `key` is of this redactor's policy and these actions, and of no others; `of_texts` is of the policy.
    pub(super) fn new(
        redactor: &'a Redactor,
        arguments: ArgumentActions,
        key: MemoKey,
        of_texts: MemoKey,
    ) -> Self {
        Self { redactor, arguments, key, of_texts, findings: Vec::new() }
    }

    /// Returns whether anything was found so far.
    pub(super) fn has_findings(&self) -> bool {
        !self.findings.is_empty()
    }

    /// Returns what was found, and what was done about it.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    /// Returns the messages, if others when they are clean.
    pub(super) fn messages(&mut self, messages: &[Message]) -> Option<Vec<Message>> {
        let mut all: Option<Vec<Message>> = None;
        for (place, message) in messages.iter().enumerate() {
            let content = self.content(&message.content);
            let mut meta = message.meta.clone();
            self.meta(&mut meta);
            if content.is_none() && meta == message.meta {
                continue;
            }
            // What is clean is not copied, and what is known of it stays known.
            let all = all.get_or_insert_with(|| messages.to_vec());
            if let Some(message) = all.get_mut(place) {
                message.meta = meta;
                message.content = content.unwrap_or_else(|| message.content.clone());
            }
        }
        all
    }

    /// Returns a content, if it is another one when it is clean.
    fn content(&mut self, content: &Content) -> Option<Content> {
        if let Some(walked) = content.memo::<Walked>(self.key) {
            self.findings.extend(walked.findings.iter().cloned());
            return walked.clean.clone();
        }
        let before = std::mem::take(&mut self.findings);
        let mut parts = content.to_vec();
        parts.iter_mut().for_each(|part| self.part(part));
        let clean = (*content != parts).then(|| Content::new(parts));
        let findings = std::mem::replace(&mut self.findings, before);
        self.findings.extend(findings.iter().cloned());
        // INVARIANT (a fact of the content alone): a placeholder is the session's, whose vault has its value.
        let is_fact = findings.iter().all(|finding| finding.action != Action::Placeholder);
        if is_fact && findings.len() <= MOST_REMEMBERED {
            content.remember(self.key, Walked { clean: clean.clone(), findings });
        }
        clean
    }

    /// A text that may be rewritten, if it is another one when it is clean.
    pub(super) fn text(&mut self, text: &str) -> Option<String> {
        let clean = self.redactor.apply(text);
        let is_changed = clean.is_changed();
        self.findings.extend(clean.findings);
        is_changed.then_some(clean.text)
    }

    /// A text that names something.
    pub(super) fn name(&mut self, text: &str) {
        let findings = self.redactor.apply(text).findings;
        self.findings.extend(findings.into_iter().map(blocked));
    }

    /// Returns whether a tool can be offered as it is. One that can't be is not offered.
    pub(super) fn tool(&mut self, tool: &ToolInfo) -> bool {
        let before = self.findings.len();
        let texts = [Some(&tool.name), tool.kind.as_ref(), tool.server.as_ref(), tool.approval.as_ref()];
        let texts =
            texts.into_iter().flatten().chain(tool.allowed_tools.iter().flatten()).map(String::as_str);
        for text in texts.chain(tool.description.as_deref().map(AsRef::as_ref)) {
            self.text(text);
        }
        if let Some(schema) = &tool.input_schema {
            self.json(&mut schema.clone());
        }
        let found = self.findings.get(before..).unwrap_or_default();
        !found.iter().any(|finding| finding.is_change() && finding.action != Action::Block)
    }

    fn part(&mut self, part: &mut Part) {
        match part {
            Part::Text { text, meta } => {
                clean_text(self.redactor, Some(self.of_texts), text, &mut self.findings);
                self.meta(meta);
            }
            Part::Thinking { text, meta } => {
                if let Some(clean) = self.text(text) {
                    *text = if is_signed(meta.as_ref()) { String::new() } else { clean }.into();
                }
                if let Some(meta) = meta {
                    self.sealed_json(meta);
                }
            }
            Part::ToolCall(call) => self.call(call),
            Part::ToolResult(result) => self.result(result),
            Part::Image { mime_type, source, meta } => {
                if let Some(clean) = self.text(mime_type) {
                    *mime_type = clean;
                }
                self.image(source);
                self.meta(meta);
            }
            Part::Unknown { raw } if has_seals(raw) => self.sealed_json(raw),
            Part::Unknown { raw } => self.json(raw),
        }
    }

    /// A call that the model made.
    fn call(&mut self, call: &ToolCall) {
        self.name(call.id.as_str());
        self.name(&call.name);
        let mut found = self.redactor.apply_json_and_keys(&mut call.arguments.to_value());
        found.extend(call.malformed.iter().flat_map(|text| self.redactor.apply(text).findings));
        let stops = |class| matches!(self.arguments.of(class), Some(InArguments::Ask | InArguments::Block));
        self.findings.extend(found.into_iter().map(|finding| match finding.action {
            // Nobody is asked about what has been called.
            _ if stops(finding.span.class) => Finding { action: Action::Block, ..finding },
            Action::Block => finding,
            _ => Finding { action: Action::Report, ..finding },
        }));
        // It may say what was called.
        if let Some(meta) = &call.meta {
            let before = self.findings.len();
            self.sealed_json(&mut meta.clone());
            let found = self.findings.split_off(before);
            self.findings.extend(found.into_iter().map(blocked));
        }
    }

    fn result(&mut self, result: &mut ToolResult) {
        self.name(result.tool_call_id.as_str());
        self.name(result.tool_name.as_deref().unwrap_or_default());
        result.content.iter_mut().for_each(|part| self.part(part));
        self.meta(&mut result.details);
        self.meta(&mut result.meta);
    }

    fn image(&mut self, source: &mut ImageSource) {
        let text = match source {
            ImageSource::Data(data) if self.redactor.is_seal(data) => return,
            ImageSource::Data(text) | ImageSource::Url(text) => text,
        };
        if let Some(clean) = self.text(text) {
            *text = clean.into();
        }
    }

    fn meta(&mut self, meta: &mut Option<Json>) {
        if let Some(meta) = meta {
            self.json(meta);
        }
    }

    fn json(&mut self, json: &mut Json) {
        clean_json(self.redactor, json, &mut self.findings);
    }

    /// The same of a place that may have [`SEALED`] fields.
    fn sealed_json(&mut self, json: &mut Json) {
        let (mut value, mut seals) = (json.to_value(), Vec::new());
        self.take_seals(&mut value, &mut seals);
        if seals.is_empty() {
            return self.json(json);
        }
        let mut clean = Json::new(value);
        self.json(&mut clean);
        let mut value = clean.to_value();
        put_seals(&mut value, &mut seals.into_iter());
        if **json != value {
            *json = Json::new(value);
        }
    }

    /// Takes out what is sealed, and leaves null in its place.
    fn take_seals(&self, value: &mut Value, seals: &mut Vec<Value>) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.take_seals(item, seals)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    let is_sealed = SEALED.contains(&name.as_str())
                        && (field.is_null()
                            || field.as_str().is_some_and(|text| self.redactor.is_seal(text)));
                    if is_sealed {
                        seals.push(field.take());
                    } else {
                        self.take_seals(field, seals);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Puts back what was taken out. Keys may have other names by then, but never those of sealed fields.
fn put_seals(value: &mut Value, seals: &mut impl Iterator<Item = Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| put_seals(item, seals)),
        Value::Object(fields) => {
            for (name, field) in fields {
                if SEALED.contains(&name.as_str()) && field.is_null() {
                    *field = seals.next().unwrap_or_default();
                } else {
                    put_seals(field, seals);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Turns a finding into a block: what has to stay does not pass if cleaning would make it another value.
fn blocked(finding: Finding) -> Finding {
    let action = if finding.is_change() { Action::Block } else { finding.action };
    Finding { action, ..finding }
}

/// Returns whether a part of no known kind is of a type that has [`SEALED`] fields.
fn has_seals(raw: &Json) -> bool {
    raw.get("type").and_then(Value::as_str).is_some_and(|kind| SEALED_PARTS.contains(&kind))
}

/// Returns whether reasoning stands under a signature.
fn is_signed(meta: Option<&Json>) -> bool {
    let wires = meta.and_then(|meta| meta.as_object()).into_iter().flat_map(|wires| wires.values());
    wires
        .filter_map(|own| own.get(SIGNATURE))
        .any(|signature| signature.as_str().is_some_and(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use backstop_hooks::conversation::Role;
    use backstop_hooks::{Params, ToolCallId};
    use backstop_scan::{Class, Policy, Scanner, Vault};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const EMAIL: &str = "mail ann.lee@example.org now";

    fn redactor(action: Action) -> Redactor {
        Redactor::new(Arc::new(Scanner::new()), Policy::new(Action::Ignore).class(Class::Pii, action))
    }

    fn walked(
        redactor: &Redactor,
        key: MemoKey,
        messages: &[Message],
    ) -> (Option<Vec<Message>>, Vec<Finding>) {
        let mut walk = Walk::new(redactor, ArgumentActions::default(), key, key);
        (walk.messages(messages), walk.into_findings())
    }

    /// The same messages, of which nothing is known.
    fn new(messages: &[Message]) -> Vec<Message> {
        let mut new = messages.to_vec();
        new.iter_mut().for_each(|message| message.content = Content::new(message.content.to_vec()));
        new
    }

    #[test]
    fn what_was_walked_over_is_not_walked_over_again() {
        let (redactor, key) = (redactor(Action::Redact), MemoKey::unique());
        let messages = [Message::user("nothing"), Message::user(EMAIL)];
        let (first, findings) = walked(&redactor, key, &messages);
        let (first, second) = (first.unwrap(), walked(&redactor, key, &messages).0.unwrap());
        assert!(first[0].content.same(&messages[0].content), "what is clean is not copied");
        assert!(first[1].content.same(&second[1].content), "it was not made again");
        // Whatever is remembered is what is said: nobody looks at the text.
        let memo = Walked { clean: None, findings: findings.clone() };
        messages[0].content.remember(key, memo);
        assert_eq!(walked(&redactor, key, &messages).1.len(), 2 * findings.len());
        assert_eq!(walked(&redactor, MemoKey::unique(), &messages).1.len(), findings.len(), "another policy");
    }

    #[test]
    fn a_placeholder_is_made_in_each_session() {
        let (redactor, key) = (redactor(Action::Placeholder), MemoKey::unique());
        let messages = [Message::user(EMAIL)];
        let of = |vault: Vault| {
            let (clean, _) = walked(&redactor.clone().with_vault(Arc::new(vault)), key, &messages);
            clean.unwrap()[0].visible_text()
        };
        assert!(of(Vault::new(["exec"])).starts_with("mail "));
        assert!(messages[0].content.memo::<Walked>(key).is_none());
    }

    fn messages() -> impl Strategy<Value = Vec<Message>> {
        let text = || prop::sample::select(vec!["nothing", EMAIL, "", "{\"to\": \"bob@example.org\"}"]);
        let part = (0..4_u8, text()).prop_map(|(kind, text)| match kind {
            0 => Part::text(text),
            1 => Part::Thinking { text: text.into(), meta: None },
            2 => Part::Unknown { raw: Json::new(json!({"type": "x", "said": text})) },
            _ => Part::ToolCall(ToolCall {
                id: ToolCallId::new("c1"),
                name: "exec".to_owned(),
                arguments: Params::from_value(json!({"command": text})).unwrap(),
                malformed: None,
                meta: None,
            }),
        });
        let message = prop::collection::vec(part, 0..4).prop_map(|parts| Message::new(Role::User, parts));
        prop::collection::vec(message, 0..6)
    }

    proptest! {
        #[test]
        fn what_is_known_changes_nothing(
            messages in messages(),
            more in messages(),
            at in any::<prop::sample::Index>(),
        ) {
            let policies = [Action::Redact, Action::Report, Action::Block, Action::Mask].map(|action| {
                (redactor(action), MemoKey::unique())
            });
            let mut turn = messages;
            for _ in 0..2 {
                for (redactor, key) in &policies {
                    prop_assert_eq!(walked(redactor, *key, &turn), walked(redactor, MemoKey::unique(), &new(&turn)));
                }
                turn.extend(more.clone());
                if !turn.is_empty() {
                    let at = at.index(turn.len());
                    turn[at].content.push(Part::text(EMAIL));
                }
            }
        }
    }
}
