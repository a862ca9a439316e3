//! What a changed answer leaves of the run that wrote it.
//!
//! `before_response_emit` judges the visible texts of a run, one per answer that has text, and may change
//! them, drop the last ones, or block them all. This module turns that into edits of the run's messages.
//! It is given exactly the run's messages and never looks at others. The laws:
//!
//! - *Every copy.* What a rewrite took out of a text is also taken out of the run's tool arguments and
//!   results; reasoning that carries it goes, and so does the reasoning of a rewritten answer, whose
//!   signature would no longer fit.
//! - *Whole.* An answer that goes takes the results of its tool calls with it; no result is left without its
//!   call, and no call without its result.
//! - *Nothing empty.* A message that would say nothing is removed, not stored empty.
//!
//! The limit: a copy is found as text. Pieces shorter than four characters, or encoded in another way, are
//! not looked for.

use std::collections::HashSet;

use backstop_hooks::conversation::{Message, Part, Role};
use backstop_hooks::{Json, MessageId, Params, Text, ToolCallId};
use serde_json::Value;

use super::transcript::Edit;

/// What stands where a piece was taken out.
const MARKER: &str = "[redacted]";
/// Shorter pieces are too likely to be part of something else.
const MIN_PIECE_CHARS: usize = 4;

/// The visible texts that are judged: one per answer of the run that has text.
pub(crate) fn texts<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Text> {
    messages
        .into_iter()
        .filter(|message| speaks(message))
        .map(|message| message.visible_text().into())
        .collect()
}

/// Whether a message is an answer with visible text.
pub(crate) fn speaks(message: &Message) -> bool {
    message.role == Role::Assistant && message.has_text()
}

/// The edits that remove everything the run said and all results it got.
pub(crate) fn block(messages: &[(MessageId, Message)]) -> Vec<Edit> {
    messages
        .iter()
        .filter(|(_, message)| matches!(message.role, Role::Assistant | Role::Tool))
        .map(|(id, _)| Edit::Remove(id.clone()))
        .collect()
}

/// The edits that make `new` the run's texts. `new` has at most as many texts as the run; those it has fewer
/// are removed from the end.
pub(crate) fn rewrite(messages: &[(MessageId, Message)], new: &[Text]) -> Vec<Edit> {
    let mut run: Vec<Draft> = messages.iter().map(Draft::of).collect();
    drop_surplus(&mut run, new.len());
    let mut gone = Pieces::default();
    let mut next = new.iter();
    for draft in &mut run {
        if speaks(&draft.original) {
            let old = draft.original.visible_text();
            // Texts of messages that go are taken out of the others too.
            match next.next().filter(|_| !draft.removed) {
                Some(text) => {
                    if draft.now.set_visible_text(text) {
                        draft.now.content.retain(|part| !matches!(part, Part::Thinking { .. }));
                        gone.add(&old, text);
                    }
                }
                None => gone.add(&old, ""),
            }
        }
    }
    gone.order();
    for draft in run.iter_mut().filter(|draft| !draft.removed) {
        gone.take_out_of(&mut draft.now);
        draft.removed = says_nothing(&draft.now);
    }
    run.into_iter().filter_map(Draft::edit).collect()
}

struct Draft {
    id: MessageId,
    original: Message,
    now: Message,
    removed: bool,
}

impl Draft {
    fn of((id, message): &(MessageId, Message)) -> Self {
        Self { id: id.clone(), original: message.clone(), now: message.clone(), removed: false }
    }

    fn edit(self) -> Option<Edit> {
        if self.removed {
            Some(Edit::Remove(self.id))
        } else if self.now != self.original {
            Some(Edit::Replace(self.id, self.now))
        } else {
            None
        }
    }
}

/// Removes what follows the last text that stays, apart from the results of that answer's own calls.
fn drop_surplus(run: &mut [Draft], kept: usize) {
    let speaking: Vec<usize> =
        run.iter().enumerate().filter(|(_, draft)| speaks(&draft.original)).map(|(at, _)| at).collect();
    if kept >= speaking.len() {
        return;
    }
    let last = kept.checked_sub(1).and_then(|nth| speaking.get(nth)).copied();
    let own_calls: HashSet<ToolCallId> = last
        .and_then(|at| run.get(at))
        .map(|draft| draft.original.tool_calls().map(|call| call.id.clone()).collect())
        .unwrap_or_default();
    for draft in run.iter_mut().skip(last.map_or(0, |at| at + 1)) {
        draft.removed = match draft.original.role {
            Role::Assistant => true,
            Role::Tool => {
                !draft.original.tool_results().any(|result| own_calls.contains(&result.tool_call_id))
            }
            Role::User | Role::System => false,
        };
    }
}

/// Whether nothing is left that a provider would take, or that somebody could read.
pub(crate) fn says_nothing(message: &Message) -> bool {
    match message.role {
        Role::Assistant => {
            !message.has_text()
                && message
                    .content
                    .iter()
                    .all(|part| matches!(part, Part::Text { .. } | Part::Thinking { .. }))
        }
        Role::System | Role::User | Role::Tool => false,
    }
}

/// Pieces of text that may not stay anywhere in the run.
#[derive(Debug, Default)]
struct Pieces(Vec<String>);

impl Pieces {
    /// What `new` no longer has of `old`.
    fn add(&mut self, old: &str, new: &str) {
        let mut add = |piece: &str| {
            let piece = piece.trim();
            if piece.chars().count() >= MIN_PIECE_CHARS && !new.contains(piece) {
                self.0.push(piece.to_owned());
            }
        };
        add(changed_middle(old, new));
        for word in old.split_whitespace() {
            add(word);
            add(word.trim_matches(|c: char| !c.is_alphanumeric()));
        }
    }

    /// Longer pieces first, so that a piece inside another one does not cut it.
    fn order(&mut self) {
        self.0.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
    }

    fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|piece| text.contains(piece.as_str()))
    }

    fn without(&self, text: &str) -> Option<String> {
        self.are_in(text)
            .then(|| self.0.iter().fold(text.to_owned(), |text, piece| text.replace(piece.as_str(), MARKER)))
    }

    fn take_out_of(&self, message: &mut Message) {
        if self.0.is_empty() || matches!(message.role, Role::User | Role::System) {
            return;
        }
        message.content.retain_mut(|part| match part {
            // The answers' own texts are as the hooks left them.
            Part::Text { .. } | Part::Image { .. } => true,
            Part::Thinking { text, .. } => !self.are_in(text),
            Part::Unknown { raw } => !self.are_in(&raw.to_string()),
            Part::ToolCall(call) => {
                self.clean_params(&mut call.arguments);
                if let Some(cleaned) = call.malformed.as_deref().and_then(|text| self.without(text)) {
                    call.malformed = Some(cleaned.into());
                }
                true
            }
            Part::ToolResult(result) => {
                self.clean_parts(&mut result.content);
                if let Some(details) = &mut result.details {
                    let mut value = details.to_value();
                    if self.clean_json(&mut value) {
                        *details = Json::new(value);
                    }
                }
                true
            }
        });
    }

    fn clean_parts(&self, parts: &mut [Part]) {
        for part in parts {
            if let Part::Text { text, .. } = part
                && let Some(cleaned) = self.without(text)
            {
                *text = cleaned.into();
            }
        }
    }

    fn clean_params(&self, params: &mut Params) {
        let mut value = params.to_value();
        if self.clean_json(&mut value) {
            *params = Params::from_value(value).unwrap_or_default();
        }
    }

    fn clean_all<'a>(&self, items: impl Iterator<Item = &'a mut Value>) -> bool {
        let mut any = false;
        for item in items {
            any |= self.clean_json(item);
        }
        any
    }

    /// Cleans every string of the value, keys included. Answers whether there was anything to clean.
    fn clean_json(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.without(text) {
                Some(cleaned) => {
                    *text = cleaned;
                    true
                }
                None => false,
            },
            Value::Array(items) => self.clean_all(items.iter_mut()),
            Value::Object(fields) => {
                let mut any = self.clean_all(fields.values_mut());
                if fields.keys().any(|key| self.are_in(key)) {
                    any = true;
                    *fields = std::mem::take(fields)
                        .into_iter()
                        .map(|(key, item)| (self.without(&key).unwrap_or(key), item))
                        .collect();
                }
                any
            }
            Value::Number(number) => {
                // A secret of digits may stand as a number.
                let found = self.0.contains(&number.to_string());
                if found {
                    *value = Value::String(MARKER.to_owned());
                }
                found
            }
            Value::Null | Value::Bool(_) => false,
        }
    }
}

/// What is left of `old` without the beginning and the end that it shares with `new`.
fn changed_middle<'a>(old: &'a str, new: &str) -> &'a str {
    let start: usize =
        old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    let (old_rest, new_rest) = (old.get(start..).unwrap_or_default(), new.get(start..).unwrap_or_default());
    let end: usize = old_rest
        .chars()
        .rev()
        .zip(new_rest.chars().rev())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum();
    old_rest.get(..old_rest.len() - end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use backstop_hooks::conversation::{ToolCall, ToolResult};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "hunter2x";

    /// An answer: its text (if any), and how many calls it makes.
    type Said = (Option<String>, usize);

    fn call(id: String) -> ToolCall {
        let arguments = Params::from_value(json!({ "command": format!("echo {SECRET}") })).unwrap();
        ToolCall { id: id.into(), name: "exec".to_owned(), arguments, malformed: None, meta: None }
    }

    fn run_of(said: &[Said]) -> Vec<(MessageId, Message)> {
        let mut messages = vec![Message::user("go")];
        for (n, (text, calls)) in said.iter().enumerate() {
            let calls: Vec<ToolCall> = (0..*calls).map(|c| call(format!("c{n}-{c}"))).collect();
            let thinking = Part::Thinking { text: format!("about {SECRET}").into(), meta: None };
            let text = text.iter().map(|text| Part::text(text.as_str()));
            let parts = [thinking].into_iter().chain(text).chain(calls.iter().cloned().map(Part::ToolCall));
            messages.push(Message::new(Role::Assistant, parts.collect()));
            messages.extend(calls.iter().map(|call| {
                let result = ToolResult::text(call, format!("{SECRET} came out"), false);
                Message::new(Role::Tool, vec![Part::ToolResult(result)])
            }));
            messages.push(Message::user("steered"));
        }
        messages.into_iter().enumerate().map(|(n, message)| (format!("m{n}").into(), message)).collect()
    }

    fn apply(messages: &[(MessageId, Message)], edits: Vec<Edit>) -> Vec<Message> {
        let mut edits: HashMap<MessageId, Option<Message>> = edits
            .into_iter()
            .map(|edit| match edit {
                Edit::Replace(id, message) => (id, Some(message)),
                Edit::Remove(id) => (id, None),
            })
            .collect();
        let left = messages
            .iter()
            .filter_map(|(id, message)| edits.remove(id).unwrap_or_else(|| Some(message.clone())));
        let left = left.collect();
        assert!(edits.is_empty(), "edits of messages that are not the run's");
        left
    }

    fn assert_whole(messages: &[Message]) {
        let calls: Vec<_> = messages.iter().flat_map(Message::tool_calls).map(|call| &call.id).collect();
        let results: Vec<_> =
            messages.iter().flat_map(Message::tool_results).map(|result| &result.tool_call_id).collect();
        assert_eq!(calls, results);
    }

    fn said() -> impl Strategy<Value = Vec<Said>> {
        let text = proptest::option::of(prop_oneof![
            Just(format!("the word is {SECRET}.")),
            "[a-z]{1,8} [a-z]{1,8}",
        ]);
        proptest::collection::vec((text, 0_usize..3), 0..6)
    }

    proptest! {
        #[test]
        fn a_rewrite_leaves_no_copy_no_orphan_and_nothing_empty(said in said(), keep in 0_usize..7) {
            let run = run_of(&said);
            let before = texts(run.iter().map(|(_, message)| message));
            let leaked = before.iter().any(|text| text.contains(SECRET));
            let new: Vec<Text> =
                before.iter().take(keep).map(|text| Text::from(text.replace(SECRET, "***"))).collect();
            let after = apply(&run, rewrite(&run, &new));
            assert_whole(&after);
            prop_assert_eq!(texts(&after), new);
            prop_assert!(after.iter().all(|message| !message.content.is_empty()));
            let steers = |messages: &[Message]| messages.iter().filter(|m| m.role == Role::User).count();
            prop_assert_eq!(steers(&after), said.len() + 1);
            if leaked {
                prop_assert!(!serde_json::to_string(&after).unwrap().contains(SECRET));
            }
        }

        #[test]
        fn a_rewrite_to_the_same_texts_changes_nothing(said in said()) {
            let run = run_of(&said);
            let same = texts(run.iter().map(|(_, message)| message));
            let after = apply(&run, rewrite(&run, &same));
            prop_assert_eq!(after.len(), run.iter().filter(|(_, m)| !says_nothing(m)).count());
        }

        #[test]
        fn a_block_leaves_what_others_said(said in said()) {
            let run = run_of(&said);
            let after = apply(&run, block(&run));
            prop_assert!(after.iter().all(|message| message.role == Role::User));
            prop_assert_eq!(after.len(), said.len() + 1);
        }
    }

    #[test]
    fn copies_are_found_in_keys_numbers_and_unknown_parts() {
        let run = vec![(
            MessageId::from("m"),
            Message::new(
                Role::Assistant,
                vec![
                    Part::text("pin 123456 for account-77"),
                    Part::Unknown { raw: json!({ "type": "citation", "quote": "account-77" }).into() },
                    Part::ToolCall(ToolCall {
                        arguments: Params::from_value(json!({ "account-77": [123456, "x"], "n": 1234567 }))
                            .unwrap(),
                        ..call("c".to_owned())
                    }),
                ],
            ),
        )];
        let after = apply(&run, rewrite(&run, &["pin *** for ***".into()]));
        assert_eq!(
            serde_json::to_value(&after[0].content).unwrap(),
            json!([
                { "type": "text", "text": "pin *** for ***" },
                { "type": "toolCall", "id": "c", "name": "exec", "arguments":
                    { "[redacted]": ["[redacted]", "x"], "n": 1234567 } },
            ])
        );
    }

    #[test]
    fn reasoning_of_a_rewritten_answer_goes_since_its_signature_no_longer_fits() {
        let said = |text: &str| {
            let thinking = Part::Thinking { text: "let me see".into(), meta: Some(json!({ "s": 1 }).into()) };
            Message::new(Role::Assistant, vec![thinking, Part::text(text)])
        };
        let run = vec![("a".into(), said("one thing")), ("b".into(), said("another thing"))];
        let after = apply(&run, rewrite(&run, &["one thing".into(), "changed".into()]));
        assert_eq!(after, [said("one thing"), Message::assistant("changed")]);
    }

    #[test]
    fn the_changed_middle_is_found_whatever_the_script() {
        assert_eq!(changed_middle("ab SECRET cd", "ab *** cd"), "SECRET");
        assert_eq!(changed_middle("密码是小明123好", "密码是**好"), "小明123");
        assert_eq!(changed_middle("same", "same"), "");
        assert_eq!(changed_middle("aaa", "aa"), "a");
        assert_eq!(changed_middle("gone", ""), "gone");
    }
}
