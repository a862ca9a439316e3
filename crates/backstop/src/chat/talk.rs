//! What is shown of a conversation: its latest lines, within bounds, and how much there is besides.
//!
//! The law: *what is left out is counted*. A text is cut at the first byte that does not fit, and nothing that comes behind it stands there as if it were next;
//! lines go from the front, and it is said how many did.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop_agent::{Fate, Output, Shown, ToolDecided, TurnOutcome};
use backstop_gateway::chat::{ChatLine, ChatSeen, ChatTool, ToolState};
use backstop_hooks::Resolution;

/// The most lines that are shown of a conversation, and the most bytes of them and of one.
const MOST_LINES: usize = 300;
const MOST_BYTES: usize = 256 << 10;
const MOST_OF_LINE: usize = 32 << 10;
/// The most bytes of a name, and of a line about what was done.
const MOST_OF_NAME: usize = 256;
const MOST_OF_NOTE: usize = 2 << 10;
/// The most bytes of the beginning of a conversation in a list.
const MOST_OF_BEGINNING: usize = 120;

/// What is shown of a conversation.
#[derive(Default)]
pub(super) struct Talk(Mutex<Lines>);

#[derive(Default)]
pub(super) struct Lines {
    kept: VecDeque<ChatLine>,
    bytes: usize,
    left_out: usize,
    /// Whether more of what the agent says goes into the last line.
    goes_on: bool,
    begins: Option<String>,
    mark: u64,
}

/// A text or its beginning, and how many bytes more it is.
fn begun(text: &str, most: usize) -> (String, usize) {
    let (begun, rest) = text.split_at(text.floor_char_boundary(most));
    (begun.to_owned(), rest.len())
}

/// A text, or its beginning and a sign that it goes on.
fn cut(text: &str, most: usize) -> String {
    let (mut begun, rest) = begun(text, most);
    if rest > 0 {
        begun.push('…');
    }
    begun
}

fn weight(line: &ChatLine) -> usize {
    match line {
        ChatLine::Person(text, _) | ChatLine::Agent(text, _) | ChatLine::Reasoning(text, _) => text.len(),
        ChatLine::Tool(ChatTool { call, tool, about, decided, question, state: _ }) => {
            let question = question.as_ref().map_or(0, |id| id.as_str().len());
            [call, tool, about, decided].iter().map(|text| text.len()).sum::<usize>().saturating_add(question)
        }
        ChatLine::Note(text) | ChatLine::Ended(text) => text.len(),
    }
}

impl Lines {
    pub(super) fn begins(&self) -> &str {
        self.begins.as_deref().unwrap_or("Nothing was said yet")
    }

    pub(super) const fn mark(&self) -> u64 {
        self.mark
    }

    pub(super) fn seen(&self, is_running: bool) -> ChatSeen {
        ChatSeen { lines: self.kept.iter().cloned().collect(), left_out: self.left_out, is_running }
    }

    fn add(&mut self, line: ChatLine) {
        self.bytes = self.bytes.saturating_add(weight(&line));
        self.kept.push_back(line);
        self.goes_on = false;
        self.bound();
    }

    fn bound(&mut self) {
        while (self.kept.len() > MOST_LINES || self.bytes > MOST_BYTES) && self.kept.len() > 1 {
            let Some(first) = self.kept.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(weight(&first));
            self.left_out = self.left_out.saturating_add(1);
        }
        self.mark = self.mark.wrapping_add(1);
    }

    /// Adds to what is being said, or begins to.
    fn say(&mut self, more: &str, begin: fn(String, usize) -> ChatLine) {
        let kind = std::mem::discriminant(&begin(String::new(), 0));
        let is_same = |line: &ChatLine| std::mem::discriminant(line) == kind;
        if !(self.goes_on && self.kept.back().is_some_and(is_same)) {
            self.add(begin(String::new(), 0));
            self.goes_on = true;
        }
        if let Some(ChatLine::Agent(text, beyond) | ChatLine::Reasoning(text, beyond)) = self.kept.back_mut()
        {
            let room = if *beyond == 0 { MOST_OF_LINE.saturating_sub(text.len()) } else { 0 };
            let (fits, rest) = more.split_at(more.floor_char_boundary(room));
            text.push_str(fits);
            *beyond = beyond.saturating_add(rest.len());
            self.bytes = self.bytes.saturating_add(fits.len());
        }
        self.bound();
    }

    /// The latest call of a tool that is not over. They are taken one after the other.
    fn call(&mut self, change: impl FnOnce(&mut ChatTool)) -> bool {
        let mut calls = self.kept.iter_mut().rev().filter_map(|line| match line {
            ChatLine::Tool(call) => Some(call),
            _ => None,
        });
        let open = calls.next().filter(|call| matches!(call.state, ToolState::Judged | ToolState::Runs));
        let Some(call) = open else { return false };
        let line = |call: &ChatTool| weight(&ChatLine::Tool(call.clone()));
        let before = line(call);
        change(call);
        let after = line(call);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        self.bound();
        true
    }

    fn judged(&mut self, tool: &str, call: &str) {
        self.add(ChatLine::Tool(ChatTool {
            call: cut(call, MOST_OF_NAME),
            tool: cut(tool, MOST_OF_NAME),
            about: String::new(),
            state: ToolState::Judged,
            decided: String::new(),
            question: None,
        }));
    }

    fn decided(&mut self, told: &ToolDecided<'_>) {
        let id = cut(told.call.as_str(), MOST_OF_NAME);
        let change = |call: &mut ChatTool| {
            call.state = match told.fate {
                Fate::Runs => ToolState::Runs,
                Fate::Answered => ToolState::Answered,
                Fate::Denied { .. } => ToolState::Denied,
            };
            call.decided = cut(&said(told), MOST_OF_NOTE);
            call.question = told.question.cloned();
        };
        let is_it = self.kept.iter().rev().find_map(|line| match line {
            ChatLine::Tool(call) => Some(call.state == ToolState::Judged && call.call == id),
            _ => None,
        });
        // One that no gate is asked about was not judged before.
        if is_it != Some(true) {
            self.judged(told.tool, told.call.as_str());
        }
        self.call(change);
    }
}

/// What was decided on a call, for people.
fn said(told: &ToolDecided<'_>) -> String {
    let by = if told.question.is_some() { "a person" } else { "a grant that a person had given" };
    let answer = told.answer.map(|answer| match answer {
        Resolution::AllowOnce => format!("allowed once by {by}"),
        Resolution::AllowAlways => format!("allowed by {by}, from now on"),
        Resolution::Deny => "denied by a person".to_owned(),
        Resolution::Timeout => "nobody answered in time".to_owned(),
        Resolution::Cancelled => "nobody could answer".to_owned(),
    });
    let edited = told.is_edited.then(|| "changed by a person, and judged anew".to_owned());
    let rewritten = told.is_rewritten.then(|| "hooks changed its arguments".to_owned());
    let fate = match told.fate {
        Fate::Runs => None,
        Fate::Answered => return "a person gave the result, and nothing ran".to_owned(),
        Fate::Denied { by: Some(hook), reason } => Some(format!("denied by `{hook}`: {reason}")),
        Fate::Denied { by: None, reason } => Some(reason.to_owned()),
    };
    [edited, answer, rewritten, fate].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

impl Talk {
    pub(super) fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, line: ChatLine) {
        self.lines().add(line);
    }

    /// Takes down what the person said.
    pub(super) fn said(&self, message: &str) {
        let mut lines = self.lines();
        let (text, more) = begun(message, MOST_OF_LINE);
        lines.begins.get_or_insert_with(|| cut(message, MOST_OF_BEGINNING));
        lines.add(ChatLine::Person(text, more));
    }

    pub(super) fn changed(&self) {
        let mut lines = self.lines();
        lines.mark = lines.mark.wrapping_add(1);
    }

    /// Takes down how a run ended; `why`, if somebody stopped it.
    pub(super) fn ended(&self, outcome: Result<TurnOutcome, String>, why: Option<&str>) {
        let mut lines = self.lines();
        // A call that was under way when the run was stopped has no other end.
        while lines.call(|call| call.state = ToolState::Stopped) {}
        let line = match outcome {
            Ok(TurnOutcome::Answered { .. }) => {
                lines.goes_on = false;
                return;
            }
            Ok(TurnOutcome::Silent) => ChatLine::Note("No answer, on purpose.".to_owned()),
            Ok(TurnOutcome::Blocked { by, point, message }) => {
                let message: &str = &message;
                ChatLine::Ended(cut(&format!("Stopped by {by} at {point}: {message}"), MOST_OF_NOTE))
            }
            Ok(TurnOutcome::Failed { error }) => {
                ChatLine::Ended(cut(&format!("It broke off: {error}"), MOST_OF_NOTE))
            }
            Ok(TurnOutcome::Cancelled) => ChatLine::Ended(why.unwrap_or("Stopped.").to_owned()),
            Err(error) => ChatLine::Ended(cut(&format!("It could not go on: {error}"), MOST_OF_NOTE)),
        };
        lines.add(line);
    }
}

impl Output for Talk {
    fn show(&self, shown: Shown<'_>) {
        let mut lines = self.lines();
        match shown {
            Shown::Text(text) => lines.say(text, ChatLine::Agent),
            Shown::TextEnd => lines.goes_on = false,
            Shown::Reasoning(text) => lines.say(text, ChatLine::Reasoning),
            Shown::ToolJudged { tool, call } => lines.judged(tool, call.as_str()),
            Shown::ToolDecided(told) => lines.decided(&told),
            Shown::ToolStarted { about, .. } => {
                let about = cut(about.unwrap_or_default(), MOST_OF_NOTE);
                lines.call(|call| call.about = about);
            }
            Shown::ToolEnded { failed, .. } => {
                let state = if failed { ToolState::Failed } else { ToolState::Ran };
                lines.call(|call| call.state = state);
            }
            Shown::Note(text) => lines.add(ChatLine::Note(cut(text, MOST_OF_NOTE))),
            // The answer was said already, piece by piece.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::{ApprovalId, HookId, ToolCallId, ToolName};
    use proptest::prelude::*;

    use super::*;

    /// Something that an agent shows, or its person says.
    #[derive(Clone, Debug)]
    enum Event {
        Said(String),
        Text(String),
        End,
        Reasoning(String),
        Note(String),
        Judged(u8),
        Denied(u8, String),
        Runs(u8),
        Started(String),
        Ended(bool),
        Over,
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,20}",
            (1_usize..3 * MOST_OF_LINE).prop_map(|length| "ä".repeat(length / 2)),
            Just("x".repeat(MOST_OF_LINE)),
        ]
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            text().prop_map(Event::Said),
            text().prop_map(Event::Text),
            Just(Event::End),
            text().prop_map(Event::Reasoning),
            text().prop_map(Event::Note),
            any::<u8>().prop_map(Event::Judged),
            (any::<u8>(), text()).prop_map(|(call, why)| Event::Denied(call, why)),
            any::<u8>().prop_map(Event::Runs),
            text().prop_map(Event::Started),
            any::<bool>().prop_map(Event::Ended),
            Just(Event::Over),
        ]
    }

    fn decided(talk: &Talk, call: u8, fate: Fate<'_>) {
        let call = ToolCallId::new(format!("call-{call}"));
        talk.show(Shown::ToolDecided(ToolDecided {
            tool: "exec",
            call: &call,
            fate,
            answer: None,
            question: None,
            is_edited: false,
            is_rewritten: false,
        }));
    }

    fn play(talk: &Talk, event: &Event) {
        let tool = ToolName::new("exec");
        match event {
            Event::Said(text) => talk.said(text),
            Event::Text(text) => talk.show(Shown::Text(text)),
            Event::End => talk.show(Shown::TextEnd),
            Event::Reasoning(text) => talk.show(Shown::Reasoning(text)),
            Event::Note(text) => talk.show(Shown::Note(text)),
            Event::Judged(call) => {
                let call = ToolCallId::new(format!("call-{call}"));
                talk.show(Shown::ToolJudged { tool: "exec", call: &call });
            }
            Event::Denied(call, reason) => decided(talk, *call, Fate::Denied { by: None, reason }),
            Event::Runs(call) => decided(talk, *call, Fate::Runs),
            Event::Started(about) => talk.show(Shown::ToolStarted { tool: &tool, about: Some(about) }),
            Event::Ended(failed) => talk.show(Shown::ToolEnded { tool: &tool, failed: *failed }),
            Event::Over => talk.ended(Ok(TurnOutcome::Cancelled), None),
        }
    }

    /// What the texts of people and the agent that are kept hold, with what is left out of them.
    fn length(lines: &[ChatLine]) -> usize {
        let of = |line: &ChatLine| match line {
            ChatLine::Person(text, more) | ChatLine::Agent(text, more) => text.len() + more,
            _ => 0,
        };
        lines.iter().map(of).sum()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_shown_is_bounded_and_what_is_not_is_counted(events in prop::collection::vec(event(), 0..80)) {
            let talk = Talk::default();
            let mut before = talk.lines().mark();
            for event in &events {
                play(&talk, event);
                let lines = talk.lines();
                let weights: usize = lines.kept.iter().map(weight).sum();
                prop_assert_eq!(weights, lines.bytes, "{:?}", event);
                prop_assert!(lines.kept.len() <= MOST_LINES && lines.bytes <= MOST_BYTES);
                prop_assert!(lines.begins().len() <= MOST_OF_BEGINNING + '…'.len_utf8());
                let longest = lines.kept.iter().map(weight).max().unwrap_or_default();
                prop_assert!(longest <= MOST_OF_LINE.max(3 * MOST_OF_NOTE), "{longest}");
                if !matches!(event, Event::End) {
                    prop_assert!(lines.mark() != before || matches!(event, Event::Started(_) | Event::Ended(_)), "{event:?}");
                }
                before = lines.mark();
            }
            let told: usize = events.iter().map(|event| match event {
                Event::Said(text) | Event::Text(text) => text.len(),
                _ => 0,
            }).sum();
            let lines = talk.lines();
            let kept: Vec<ChatLine> = lines.kept.iter().cloned().collect();
            if lines.left_out == 0 {
                prop_assert_eq!(length(&kept), told, "not a byte is lost in silence");
            }
        }

        #[test]
        fn what_comes_behind_a_cut_does_not_stand_there(pieces in prop::collection::vec("[a-z]{1,9000}", 1..12)) {
            let talk = Talk::default();
            for piece in &pieces {
                talk.show(Shown::Text(piece));
            }
            let whole = pieces.concat();
            let seen = talk.lines().seen(false);
            let ChatLine::Agent(text, more) = &seen.lines[0] else { panic!("{seen:?}") };
            prop_assert!(whole.starts_with(text.as_str()));
            prop_assert_eq!(text.len() + more, whole.len());
            prop_assert!(*more == 0 || text.len() == MOST_OF_LINE);
        }
    }

    #[test]
    fn a_call_has_what_was_decided_on_it_and_by_whom() {
        let talk = Talk::default();
        let (call, tool) = (ToolCallId::new("call-1"), ToolName::new("exec"));
        let (hook, question) = (HookId::new("gate"), ApprovalId::new("ask-1"));
        let plain = ToolDecided {
            tool: "exec",
            call: &call,
            fate: Fate::Runs,
            answer: None,
            question: None,
            is_edited: false,
            is_rewritten: false,
        };
        let denied = Fate::Denied { by: Some(&hook), reason: "not that" };
        let cases = [
            (plain, ToolState::Runs, ""),
            (ToolDecided { is_rewritten: true, ..plain }, ToolState::Runs, "hooks changed its arguments"),
            (ToolDecided { fate: denied, ..plain }, ToolState::Denied, "denied by `gate`: not that"),
            (
                ToolDecided { answer: Some(Resolution::AllowOnce), question: Some(&question), ..plain },
                ToolState::Runs,
                "allowed once by a person",
            ),
            (
                ToolDecided { answer: Some(Resolution::AllowOnce), ..plain },
                ToolState::Runs,
                "allowed once by a grant that a person had given",
            ),
            (
                ToolDecided { fate: Fate::Answered, question: Some(&question), ..plain },
                ToolState::Answered,
                "a person gave the result, and nothing ran",
            ),
            (
                ToolDecided { is_edited: true, question: Some(&question), ..plain },
                ToolState::Runs,
                "changed by a person, and judged anew",
            ),
        ];
        for (told, state, said) in cases {
            talk.show(Shown::ToolJudged { tool: "exec", call: &call });
            talk.show(Shown::ToolDecided(told));
            let seen = talk.lines().seen(true);
            let Some(ChatLine::Tool(line)) = seen.lines.last() else { panic!("{seen:?}") };
            assert_eq!((line.state, line.decided.as_str()), (state, said));
            assert_eq!(line.question.as_ref(), told.question);
            talk.show(Shown::ToolStarted { tool: &tool, about: Some("ls") });
            talk.show(Shown::ToolEnded { tool: &tool, failed: false });
        }
        // One that was never judged stands there, too.
        talk.show(Shown::ToolDecided(ToolDecided { fate: denied, ..plain }));
        let calls = |seen: ChatSeen| seen.lines.len();
        assert_eq!(calls(talk.lines().seen(true)), cases.len() + 1);
        // A run that is stopped leaves no call that seems to go on.
        talk.show(Shown::ToolJudged { tool: "exec", call: &call });
        talk.ended(Ok(TurnOutcome::Cancelled), Some("Stopped by you."));
        let seen = talk.lines().seen(false);
        let [.., ChatLine::Tool(line), ChatLine::Ended(why)] = seen.lines.as_slice() else {
            panic!("{seen:?}")
        };
        assert_eq!((line.state, why.as_str()), (ToolState::Stopped, "Stopped by you."));
    }
}
