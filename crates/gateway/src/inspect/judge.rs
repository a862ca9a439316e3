//! The judgement of one answer, whole or streamed, in whatever wire.
//!
//! Bytes go in, bytes come out, and in between stands an [`AnswerEditor`] that holds back what is not settled.
//! The laws:
//!
//! - *What left was judged.* Text leaves when the hooks at `before_response_emit` can't take it back any more;
//!   a tool call leaves when `after_llm_call` has let it, which is asked once the answer is whole.
//! - *What came in was judged.* A result of a tool that the provider ran passes [`tool.after`](super::results) as soon as it
//!   is there, and leaves afterwards.
//! - *No hook, no wait.* What nobody judges is not held.
//! - *Denied is removed.* A call that was denied leaves in no form, and the text says that one was withheld. So
//!   does a call that can't be judged: arguments that are no JSON object, or too many of them.
//! - *A block ends the answer.* Nothing that has not left leaves any more.

use std::collections::BTreeMap;

use backstop_engine::{Blocked, Engine, Redaction, ResponseGate};
use backstop_hooks::conversation::ToolCall;
use backstop_hooks::points::{AfterLlmCallEvent, BeforeResponseEmit, ResponseEmitEvent};
use backstop_hooks::{CallContext, RunId, ShownName, Text};
use backstop_llm::live::{
    AnswerEditor, FreshResult, FreshText, PartKey, TextEdit, TextKind, is_unknown_call,
};
use backstop_llm::{Api, ModelResponse, WireError};
use backstop_store::ToolDecision;
use bytes::Bytes;
use tokio::task::consume_budget;

use super::names::Names;
use super::results;
use super::settings::{TextMode, ToolCalls};
use super::text::Lines;

/// Longer reasons are cut where the client is told of a withheld call.
const MAX_NOTE_CHARS: usize = 600;
/// What is told of withheld calls whose names can't be shown.
const WITHHELD: &str = "[backstop] withheld calls whose names may not pass here";
/// How many withheld calls are named.
const MAX_NAMED_CALLS: usize = 8;

/// What an answer is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gates {
    /// Hooks judge the tool calls.
    pub(super) calls: bool,
    /// What is done about them besides `after_llm_call`.
    pub(super) tool_calls: ToolCalls,
    /// Who stands at `before_response_emit`.
    pub(super) emit: ResponseGate,
    /// Hooks judge the results of the provider's tools.
    pub(super) results: bool,
    /// How text leaves, if the operator chose.
    pub(super) text: Option<TextMode>,
    /// The most bytes of the arguments of one call.
    pub(super) call_bytes: usize,
    /// The most bytes that are held.
    pub(super) answer_bytes: usize,
}

/// Facts about the call that its answer is judged with.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) run: RunId,
    pub(super) model: String,
    pub(super) iteration: u32,
    /// Messages of this turn, the answer included.
    pub(super) messages: u32,
}

/// Why an answer can't continue.
#[derive(Debug, thiserror::Error)]
pub(super) enum JudgeError {
    /// A hook blocked it.
    #[error("the answer was blocked")]
    Blocked(Blocked),
    /// The provider sent something that is not valid in its wire format, or reported an error.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Judging it would need more memory than allowed.
    #[error("more than {limit} bytes of the answer would have to be held to judge it")]
    TooLarge {
        /// The most bytes that may be held.
        limit: usize,
    },
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More is to come.
    More,
    /// There are results, and [`AnswerJudge::judge_results`] is to be asked.
    Results,
    /// It is whole, and [`AnswerJudge::decide`] is to be asked.
    Decide,
    /// It is whole, and nothing is left to decide.
    Over,
    /// A redactor stopped it, and [`AnswerJudge::stopped`] says why.
    Stopped,
}

/// When the text of the answer is released to the client.
#[derive(Debug)]
enum TextRelease {
    /// As it arrives: no hook judges it.
    Immediate,
    /// As soon as the redactors have settled it.
    Windowed { redaction: Box<Redaction>, lines: Lines },
    /// All at once, after the hooks have judged the complete answer.
    Buffered,
    /// As it arrives; hooks see the complete answer afterwards and can't change it any more.
    Unenforced,
}

/// A text of the answer.
#[derive(Debug)]
struct PartText {
    kind: TextKind,
    len: usize,
    /// What it says, where the whole is judged.
    kept: String,
}

/// One answer being judged.
#[derive(Debug)]
pub(super) struct AnswerJudge {
    editor: Box<dyn AnswerEditor>,
    engine: Engine,
    gates: Gates,
    text_release: TextRelease,
    texts: BTreeMap<PartKey, PartText>,
    names: Names,
    /// The calls that were taken out, and why.
    refused: Vec<(ToolCall, Text)>,
    /// Results that are to be judged.
    results: Vec<FreshResult>,
    /// A call was left in.
    has_calls: bool,
    decided: bool,
}

impl AnswerJudge {
    pub(super) fn new(
        mut editor: Box<dyn AnswerEditor>,
        engine: Engine,
        call: &CallContext,
        gates: Gates,
    ) -> Self {
        let text_release = match (gates.emit, gates.text) {
            (ResponseGate::Open, _) => TextRelease::Immediate,
            (_, Some(TextMode::Pass)) => TextRelease::Unenforced,
            (ResponseGate::Spans, None | Some(TextMode::Window)) => {
                TextRelease::Windowed { redaction: Box::new(engine.redaction(call)), lines: Lines::default() }
            }
            (ResponseGate::Whole, _) | (ResponseGate::Spans, Some(TextMode::Hold)) => TextRelease::Buffered,
        };
        let names = Names::new(&engine, call, &gates);
        // Where the whole answer is judged, its calls are a part of it. What nobody knows is a call, and redactors read it.
        if !gates.calls && !matches!(text_release, TextRelease::Buffered) && names.are_open() {
            editor.release_calls();
        }
        if !gates.results {
            editor.release_results();
        }
        let (texts, refused, results) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self {
            editor,
            engine,
            gates,
            text_release,
            texts,
            names,
            refused,
            results,
            has_calls: false,
            decided: false,
        }
    }

    /// Takes bytes of the provider.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Progress, JudgeError> {
        self.editor.push(bytes)?;
        self.read(false)
    }

    /// The provider's bytes are over.
    pub(super) fn finish(&mut self) -> Result<Progress, JudgeError> {
        self.editor.finish()?;
        self.read(true)
    }

    /// Reads what has come. After the provider's last byte, `is_over`, no more text can come.
    fn read(&mut self, is_over: bool) -> Result<Progress, JudgeError> {
        let words = self.editor.words();
        if self.has_fault() || !self.names.pass(&words) {
            return Ok(Progress::Stopped);
        }
        for fresh in self.editor.fresh() {
            self.on_text(fresh, is_over);
        }
        if let TextRelease::Windowed { redaction, lines } = &mut self.text_release {
            if is_over {
                lines.finish(redaction, &mut *self.editor);
            }
            if redaction.is_blocked() {
                return Ok(Progress::Stopped);
            }
        }
        let limit = self.gates.answer_bytes;
        if self.editor.held_bytes().saturating_add(self.editor.kept_bytes()) > limit {
            return Err(JudgeError::TooLarge { limit });
        }
        self.results.extend(self.editor.results());
        Ok(match (self.editor.is_whole(), self.decided) {
            _ if !self.results.is_empty() => Progress::Results,
            (false, _) => Progress::More,
            (true, false) => Progress::Decide,
            (true, true) => Progress::Over,
        })
    }

    /// Takes newly decoded text of the answer and releases, redacts or keeps it as [`TextRelease`] says.
    fn on_text(&mut self, fresh: FreshText, is_over: bool) {
        let known = self.texts.entry(fresh.part);
        let text = known.or_insert_with(|| PartText { kind: fresh.kind, len: 0, kept: String::new() });
        let from = text.len;
        text.len += fresh.text.len();
        match &mut self.text_release {
            TextRelease::Immediate | TextRelease::Unenforced => {
                self.editor.settle(fresh.part, text.len, Vec::new());
            }
            TextRelease::Windowed { lines, .. } if is_over => lines.end_with(&fresh, from),
            TextRelease::Windowed { redaction, lines } => {
                lines.push(&fresh, from, redaction, &mut *self.editor);
            }
            TextRelease::Buffered => text.kept.push_str(&fresh.text),
        }
    }

    /// Judges the results that have come, in their order.
    pub(super) async fn judge_results(&mut self, api: Api, call: &CallContext) -> Result<(), JudgeError> {
        for fresh in std::mem::take(&mut self.results) {
            consume_budget().await;
            if !self.names.pass(&results::seals(api, &fresh))
                && let Some(blocked) = self.names.blocked().await
            {
                return Err(JudgeError::Blocked(blocked));
            }
            let judged = results::judge(api, &fresh, &self.engine, call).await;
            let new = judged.map_err(JudgeError::Blocked)?;
            self.editor.settle_result(fresh.key, new.as_ref());
        }
        Ok(())
    }

    /// Whether results are to be judged.
    pub(super) fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// Why a redactor stopped the answer while it was made, if one did. That is in the trail by then.
    pub(super) async fn stopped(&mut self) -> Option<Blocked> {
        if let Some(blocked) = self.names.blocked().await {
            return Some(blocked);
        }
        match &mut self.text_release {
            TextRelease::Windowed { redaction, .. } => redaction.blocked().await,
            TextRelease::Immediate | TextRelease::Buffered | TextRelease::Unenforced => None,
        }
    }

    /// Whether the provider has said everything.
    pub(super) fn is_whole(&self) -> bool {
        self.editor.is_whole()
    }

    /// A text of ours about the answer, as redactors leave it; `None` if it can't be shown.
    pub(super) fn shown(&mut self, text: &str) -> Option<String> {
        self.names.shown(text)
    }

    /// Whether the answer has a name or an id that can't be shown: nothing of it may be repeated.
    pub(super) fn has_fault(&self) -> bool {
        self.names.has_fault()
    }

    /// What was said, once the answer is whole; one per choice.
    pub(super) fn responses(&self) -> &[ModelResponse] {
        self.editor.responses()
    }

    /// Judges the whole answer. Afterwards everything that stays can be taken.
    pub(super) async fn decide(
        &mut self,
        facts: &Facts,
        latency_ms: u64,
        call: &CallContext,
    ) -> Result<(), JudgeError> {
        self.decided = true;
        if self.gates.calls {
            self.judge_calls(facts, latency_ms, call).await?;
        } else if !self.names.are_open() {
            self.judge_strangers()?;
        }
        match &mut self.text_release {
            TextRelease::Immediate => {}
            TextRelease::Windowed { redaction, lines } => {
                lines.finish(redaction, &mut *self.editor);
                if let Some(blocked) = redaction.blocked().await {
                    return Err(JudgeError::Blocked(blocked));
                }
                // Leaves the receipt.
                self.text_release = TextRelease::Immediate;
            }
            TextRelease::Buffered => {
                self.judge_texts(facts, call).await?;
                if !self.gates.calls && self.names.are_open() {
                    self.editor.release_calls();
                }
            }
            TextRelease::Unenforced => self.show_texts(facts, call).await,
        }
        Ok(())
    }

    async fn judge_calls(
        &mut self,
        facts: &Facts,
        latency_ms: u64,
        call: &CallContext,
    ) -> Result<(), JudgeError> {
        let mut removed = Vec::new();
        let responses = self.editor.responses().to_vec();
        for (choice, response) in (0_u32..).zip(responses) {
            let calls: Vec<ToolCall> = response.message.tool_calls().cloned().collect();
            let event = AfterLlmCallEvent {
                run_id: facts.run.clone(),
                response: response.message,
                tool_calls: calls.clone(),
                iteration: facts.iteration,
                // Whoever fetches an answer does not say whose it is.
                model: if facts.model.is_empty() { response.model } else { facts.model.clone() },
                latency_ms,
                token_usage: Some(response.usage),
            };
            let judged = match self.gates.tool_calls {
                ToolCalls::Judge(unasked) => self.engine.judge_answer_and_calls(event, call, unasked).await,
                ToolCalls::Leave => self.engine.judge_answer(event, call).await,
            };
            if let Some(blocked) = judged.decided.into_parts().blocked {
                return Err(JudgeError::Blocked(blocked));
            }
            for (index, (tool, ruling)) in calls.iter().zip(judged.rulings).enumerate() {
                let Some(reason) = self.denied(tool, ruling) else {
                    self.has_calls = true;
                    continue;
                };
                removed.push(self.place(choice, index)?);
                self.refused.push((tool.clone(), reason));
            }
        }
        self.keep_calls(&removed);
        Ok(())
    }

    /// Takes out what nobody knows and redactors would not let pass, where no hook judges calls.
    fn judge_strangers(&mut self) -> Result<(), JudgeError> {
        let mut removed = Vec::new();
        let responses = self.editor.responses().to_vec();
        for (choice, response) in (0_u32..).zip(&responses) {
            for (index, tool) in response.message.tool_calls().enumerate() {
                // However long it is: nobody holds calls here but what redactors read.
                let Some(reason) = self.unshown(tool) else {
                    self.has_calls = true;
                    continue;
                };
                removed.push(self.place(choice, index)?);
                self.refused.push((tool.clone(), reason));
            }
        }
        self.keep_calls(&removed);
        Ok(())
    }

    /// Why redactors do not let a call pass that nobody knows.
    fn unshown(&mut self, tool: &ToolCall) -> Option<Text> {
        let is_unshown = is_unknown_call(tool) && !self.names.stay(&tool.arguments);
        is_unshown.then(|| "it holds what may not pass here".into())
    }

    /// Where a call stands.
    ///
    /// INVARIANT (fail closed): a call that can't be taken out of the answer stops the answer.
    fn place(&self, choice: u32, index: usize) -> Result<PartKey, JudgeError> {
        let part = self.editor.call_part(choice, index).ok_or_else(|| WireError::OutOfOrder {
            problem: "a tool call of the answer has no place in it".to_owned(),
        })?;
        Ok(part)
    }

    /// Lets all calls go but those that were taken out.
    fn keep_calls(&mut self, removed: &[PartKey]) {
        let note = (!self.refused.is_empty()).then(|| withheld(&self.refused));
        // The name of a call may be what it was refused for.
        let note = note.map(|note| self.names.shown(&note).unwrap_or_else(|| WITHHELD.to_owned()));
        self.editor.keep_calls(removed, note.as_deref());
    }

    fn denied(&mut self, tool: &ToolCall, ruling: ToolDecision) -> Option<Text> {
        let limit = self.gates.call_bytes;
        match ruling {
            ToolDecision::Deny { reason } => Some(reason),
            ToolDecision::Allow => self.unshown(tool).or_else(|| {
                (size_of(tool) > limit).then(|| format!("its arguments have more than {limit} bytes").into())
            }),
        }
    }

    /// The visible parts of each choice, in order.
    fn choices(&self) -> BTreeMap<u32, Vec<PartKey>> {
        let mut choices: BTreeMap<u32, Vec<PartKey>> = BTreeMap::new();
        for (index, _) in (0_u32..).zip(self.editor.responses()) {
            choices.entry(index).or_default();
        }
        for (part, text) in &self.texts {
            let parts = choices.entry(part.choice).or_default();
            if text.kind == TextKind::Visible {
                parts.push(*part);
            }
        }
        choices
    }

    /// `before_response_emit` over the texts that are held, choice by choice.
    async fn judge_texts(&mut self, facts: &Facts, call: &CallContext) -> Result<(), JudgeError> {
        for (choice, parts) in self.choices() {
            let said: String =
                parts.iter().filter_map(|part| self.texts.get(part)).map(|t| &*t.kept).collect();
            let event = emission(facts, said.as_str().into());
            let decided = self.engine.decide::<BeforeResponseEmit>(event, call).await.into_parts();
            if let Some(blocked) = decided.blocked {
                return Err(JudgeError::Blocked(blocked));
            }
            let left: String = decided.event.all_content.iter().map(Text::as_str).collect();
            if left == said {
                self.release(choice, false);
            } else {
                self.rewrite(&parts, &left)?;
                self.release(choice, true);
            }
        }
        Ok(())
    }

    /// The first visible part takes the text, the others go empty.
    fn rewrite(&mut self, parts: &[PartKey], text: &str) -> Result<(), JudgeError> {
        let unable = |what: &str| JudgeError::Blocked(unable_to_rewrite(what));
        let Some((first, others)) = parts.split_first() else {
            return Err(unable("the answer has no text that could be replaced"));
        };
        self.editor.replace_text(*first, text).map_err(|_| unable("its text has left already"))?;
        for part in others {
            self.editor.replace_text(*part, "").map_err(|_| unable("its text has left already"))?;
        }
        Ok(())
    }

    /// Lets go of what a choice still holds. Reasoning behind a text that was rewritten goes: it may repeat
    /// what was taken out.
    fn release(&mut self, choice: u32, rewritten: bool) {
        for (part, text) in self.texts.iter().filter(|(part, _)| part.choice == choice) {
            let edits = match text.kind {
                TextKind::Thinking if rewritten && text.len > 0 => {
                    vec![TextEdit { span: 0..text.len, replacement: Text::default() }]
                }
                _ => Vec::new(),
            };
            self.editor.settle(*part, text.len, edits);
        }
    }

    /// Shows the texts to hooks that can't change them any more.
    async fn show_texts(&mut self, facts: &Facts, call: &CallContext) {
        let texts: Vec<Text> = self.responses().iter().map(|r| r.message.visible_text().into()).collect();
        for text in texts {
            let decided = self.engine.decide::<BeforeResponseEmit>(emission(facts, text), call).await;
            if decided.blocked().is_some() {
                tracing::warn!(
                    run = %facts.run,
                    receipt = decided.receipt().id(),
                    "a block was not enforced: `gateway.hooks.text` is `pass`"
                );
            }
        }
    }

    /// The calls that were taken out of the answer, and why.
    pub(super) fn refused(&self) -> &[(ToolCall, Text)] {
        &self.refused
    }

    /// Whether a call was left in the answer, for somebody to run.
    pub(super) fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Whether no byte of what the answer says leaves before all of it was judged.
    pub(super) fn holds_everything(&self) -> bool {
        !self.decided && matches!(self.text_release, TextRelease::Buffered)
    }

    /// The bytes that may leave.
    pub(super) fn take(&mut self) -> Bytes {
        self.editor.take()
    }

    pub(super) fn editor(&mut self) -> &mut dyn AnswerEditor {
        &mut *self.editor
    }
}

pub(super) fn emission(facts: &Facts, said: Text) -> ResponseEmitEvent {
    ResponseEmitEvent {
        run_id: Some(facts.run.clone()),
        all_content: if said.is_empty() { Vec::new() } else { vec![said.clone()] },
        content: said,
        channel: None,
        message_count: facts.messages,
    }
}

fn unable_to_rewrite(what: &str) -> Blocked {
    Blocked {
        cause: backstop_engine::BlockCause::UnstableRewrite { writer: None },
        reason: Some(format!("a hook rewrote the answer, and {what}").into()),
        hook: None,
        owner: None,
    }
}

/// How large the arguments of a call are as JSON.
fn size_of(call: &ToolCall) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, &call.arguments) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// What the model's text says about calls that were taken out.
fn withheld(calls: &[(ToolCall, Text)]) -> String {
    let cut = |text: &str| -> String {
        let text = text.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let line: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_NOTE_CHARS).collect();
        if text.chars().nth(MAX_NOTE_CHARS).is_some() { line + "…" } else { line }
    };
    let named = calls.iter().take(MAX_NAMED_CALLS);
    let mut lines: Vec<String> =
        named.map(|(call, reason)| format!("`{}`: {}", ShownName::new(&call.name), cut(reason))).collect();
    if let more @ 1.. = calls.len().saturating_sub(MAX_NAMED_CALLS) {
        lines.push(format!("and {more} more"));
    }
    format!("[backstop] withheld {}", lines.join("; "))
}
