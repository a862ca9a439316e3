//! `before_response_emit`: what leaves, and what stays in the transcript.

use std::sync::{Arc, Mutex};

use backstop_agent::TurnOutcome;
use backstop_engine::{HookOptions, RedactionStream, Settled, SpanEdit, SpanKind, SpanRedactor};
use backstop_hooks::conversation::Part;
use backstop_hooks::points::{
    AgentFinalizeEvent, AgentFinalizeOutcome, BeforeAgentFinalize, BeforeLlmCall, BeforeLlmCallEvent,
    BeforeLlmCallOutcome, BeforeResponseEmit, FinalizeAction, ResponseEmitEvent, ResponseEmitOutcome,
};
use backstop_hooks::{CallContext, OwnerId, PointId, Text, hook_fn};
use serde_json::{Value, json};

use crate::support::{Bench, answered, assert_whole, roles, says};

const SECRET: &str = "hunter2-secret";

fn rewrite(bench: &Bench, to: impl Fn(&ResponseEmitEvent) -> ResponseEmitOutcome + Send + Sync + 'static) {
    bench.on::<BeforeResponseEmit>(hook_fn(move |event: &ResponseEmitEvent, _| Ok(Some(to(event)))));
}

fn content(text: &str) -> ResponseEmitOutcome {
    ResponseEmitOutcome { content: Some(text.into()), ..Default::default() }
}

fn all(texts: &[&str]) -> ResponseEmitOutcome {
    ResponseEmitOutcome {
        all_content: Some(texts.iter().map(|text| Text::from(*text)).collect()),
        ..Default::default()
    }
}

fn redact(event: &ResponseEmitEvent) -> ResponseEmitOutcome {
    let texts = event.all_content.iter().map(|text| Text::from(text.replace(SECRET, "***")));
    ResponseEmitOutcome { all_content: Some(texts.collect()), ..Default::default() }
}

fn block(bench: &Bench) {
    rewrite(bench, |_| ResponseEmitOutcome { block: Some(true), ..Default::default() });
}

fn says_and_reads(text: &str) -> Value {
    json!({ "text": text, "tool_calls": [{ "name": "read", "arguments": { "path": "." } }] })
}

#[tokio::test]
async fn block_leaves_earlier_turns_alone() {
    let bench = Bench::new([says("the first answer"), says_and_reads("thinking aloud"), says(SECRET)]);
    let session = bench.session().await;
    bench.say(&session, "one").await;
    block(&bench);
    let report = bench.say(&session, "two").await;
    assert!(matches!(report.outcome, TurnOutcome::Blocked { point: PointId::BeforeResponseEmit, .. }));
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uau", "of the blocked run only its question is left");
    assert_eq!(messages[1].visible_text(), "the first answer");
    assert!(!bench.screen.shows(SECRET) && !bench.screen.shows("thinking aloud"));
}

#[tokio::test]
async fn block_survives_compaction_of_its_run() {
    let long = "a very long answer ".repeat(200);
    let turns = [
        says(&long),
        says(&long),
        says("a summary of the beginning"),
        says_and_reads(SECRET),
        says("and the rest of it"),
    ];
    let bench = Bench::with(turns, |setup| {
        setup.settings.compaction = Some(backstop_agent::Compaction { trigger_tokens: 1_000, keep_turns: 1 });
    });
    let session = bench.session().await;
    bench.say(&session, "one").await;
    bench.say(&session, "two").await;
    block(&bench);
    bench.say(&session, "three").await;
    assert!(bench.model.report().is_clean(), "{}", bench.model.report());
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uuau", "a summary, the second turn, and the blocked turn's question");
    assert!(messages[0].visible_text().ends_with("a summary of the beginning"));
    assert!(!bench.stored(&session).await.contains(SECRET));
}

#[tokio::test]
async fn rewrite_to_same_text_is_no_change() {
    let bench = Bench::new([json!({ "thinking": "why not", "text": "as it was" })]);
    rewrite(&bench, |event| content(&event.content));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("as it was"));
    let messages = bench.transcript(&session).await;
    assert!(messages[1].content.iter().any(|part| matches!(part, Part::Thinking { .. })));
}

#[tokio::test]
async fn empty_rewrite_writes_no_empty_message() {
    let bench = Bench::new([says_and_reads("first"), says("last")]);
    rewrite(&bench, |event| all(&vec![""; event.all_content.len()]));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, TurnOutcome::Silent);
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uat", "the first answer stays for its tool call, without text");
    assert!(!messages[1].has_text() && messages[1].content.len() == 1);
    assert_whole(&messages);
    assert_eq!(bench.screen.texts(), Vec::<String>::new());
}

#[tokio::test]
async fn late_hooks_cannot_undo_redaction_through_the_other_field() {
    let bench = Bench::new([says_and_reads("first"), says(SECRET)]);
    rewrite(&bench, |_| content("***"));
    rewrite(&bench, |_| all(&["first", SECRET]));
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "go").await.outcome, TurnOutcome::Blocked { .. }));
    assert!(!bench.stored(&session).await.contains(SECRET));
    assert!(!bench.screen.shows(SECRET));
}

#[tokio::test]
async fn all_content_cannot_grow_the_answer() {
    let bench = Bench::new([says("one text")]);
    rewrite(&bench, |_| all(&["changed", "and more", "and more"]));
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "go").await.outcome, TurnOutcome::Blocked { .. }));
    assert!(!bench.screen.shows("more"));
}

#[tokio::test]
async fn surplus_turns_leave_no_orphan_tool_results() {
    let turns = [
        says_and_reads("first"),
        json!({ "tool_calls": [{ "name": "read", "arguments": { "path": "." } }] }),
        says_and_reads("second"),
        says("third"),
    ];
    for (kept, left) in [(3, "uatatata"), (2, "uatatat"), (1, "uat"), (0, "u")] {
        let bench = Bench::new(turns.clone());
        rewrite(&bench, move |event| {
            all(&event.all_content[..kept].iter().map(|t| &**t).collect::<Vec<_>>())
        });
        let session = bench.session().await;
        bench.say(&session, "go").await;
        let messages = bench.transcript(&session).await;
        assert_eq!(roles(&messages), left, "{kept} texts kept");
        assert_whole(&messages);
        assert_eq!(bench.screen.texts(), ["first", "second", "third"][..kept]);
    }
}

#[tokio::test]
async fn tool_call_only_last_turn_is_still_redacted() {
    let turns = [
        says_and_reads(&format!("the key is {SECRET}")),
        json!({ "repeat": true, "tool_calls": [{ "name": "read", "arguments": { "path": "." } }] }),
    ];
    let bench = Bench::with(turns, |setup| setup.settings.max_iterations = 2);
    rewrite(&bench, |event| content(&event.content.replace(SECRET, "***")));
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "go").await.outcome, TurnOutcome::Failed { .. }));
    assert!(!bench.stored(&session).await.contains(SECRET));
    assert_eq!(bench.screen.texts(), ["the key is ***"]);
}

#[tokio::test]
async fn every_text_part_is_rewritten() {
    let bench = Bench::new([
        json!({ "thinking": format!("they ask for {SECRET}"), "text": format!("one {SECRET} two"), "tool_calls": [
            { "name": "exec", "arguments": { "command": format!("echo {SECRET}"), "env": { "K": SECRET } } },
        ] }),
        json!({ "thinking": format!("it printed {SECRET}"), "text": format!("it is {SECRET}.") }),
    ]);
    rewrite(&bench, redact);
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("it is ***."));
    let stored = bench.stored(&session).await;
    assert!(!stored.contains(SECRET), "{stored}");
    assert!(stored.contains("echo [redacted]"));
    assert_whole(&bench.transcript(&session).await);
    assert!(!bench.screen.shows(SECRET));
    assert_eq!(bench.screen.texts(), ["one *** two", "it is ***."]);
}

#[tokio::test]
async fn shrinking_stops_at_the_run_boundary() {
    let bench = Bench::new([says("old one"), says("old two"), says("new one")]);
    let session = bench.session().await;
    bench.say(&session, "a").await;
    bench.say(&session, "b").await;
    rewrite(&bench, |event| {
        assert_eq!(event.all_content.len(), 1, "a hook sees the texts of its own run");
        all(&[])
    });
    assert_eq!(bench.say(&session, "c").await.outcome, TurnOutcome::Silent);
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uauau");
    assert_eq!(messages[3].visible_text(), "old two");
}

#[tokio::test]
async fn steer_message_does_not_end_the_scope() {
    let bench = Bench::new([says(&format!("draft with {SECRET}")), says(&format!("final with {SECRET}"))]);
    bench.on::<BeforeAgentFinalize>(hook_fn(|event: &AgentFinalizeEvent, _| {
        Ok((!event.stop_hook_active).then(|| AgentFinalizeOutcome {
            action: Some(FinalizeAction::Revise),
            reason: Some("try again".into()),
            ..Default::default()
        }))
    }));
    rewrite(&bench, redact);
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("final with ***"));
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uaua");
    assert_eq!(messages[2].visible_text(), "try again");
    assert!(!bench.stored(&session).await.contains(SECRET));
}

#[tokio::test]
async fn text_already_streamed_was_already_judged() {
    let long = "word after word, ".repeat(30);
    let turn = json!({ "text": long, "chunk": 5 });
    // Nobody can object: the answer is shown while it grows, and the end is what grew.
    let free = Bench::new([turn.clone()]);
    let session = free.session().await;
    assert_eq!(free.say(&session, "go").await.outcome, answered(&long));
    assert!(free.screen.lines().iter().filter(|line| line.starts_with("text: ")).count() > 20);
    assert_eq!(free.screen.texts(), std::slice::from_ref(&long));
    // Somebody can: not a piece is shown before the hook has spoken.
    let judged = Bench::new([turn]);
    let screen = Arc::clone(&judged.screen);
    let before = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&before);
    judged.on::<BeforeResponseEmit>(hook_fn(move |_: &ResponseEmitEvent, _| {
        *seen.lock().unwrap() = Some(screen.lines().len());
        Ok(Some(content("something else")))
    }));
    let session = judged.session().await;
    assert_eq!(judged.say(&session, "go").await.outcome, answered("something else"));
    assert_eq!(*before.lock().unwrap(), Some(0));
    assert_eq!(judged.screen.lines(), ["text: something else", "end", "answer: something else"]);
}

#[tokio::test]
async fn a_hook_can_speak_for_a_model_that_said_nothing() {
    let bench = Bench::new([json!({ "thinking": "hm" })]);
    rewrite(&bench, |_| content("there was no answer"));
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("there was no answer"));
    assert_eq!(roles(&bench.transcript(&session).await), "ua");
}

#[tokio::test]
async fn what_a_turn_without_an_answer_said_is_judged_too() {
    let secret_then = |then: Value| [says_and_reads(&format!("the key is {SECRET}")), then];
    let failing = json!({ "fault": { "http_status": { "status": 400 } } });
    let bench = Bench::new(secret_then(failing));
    rewrite(&bench, redact);
    let session = bench.session().await;
    assert!(matches!(bench.say(&session, "go").await.outcome, TurnOutcome::Failed { .. }));
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uat");
    assert_eq!(messages[1].visible_text(), "the key is ***");
    assert_whole(&messages);
    assert_eq!(bench.screen.texts(), Vec::<String>::new(), "it is judged for the transcript, not shown");

    let blocked = Bench::new(secret_then(says("never")));
    blocked.on::<BeforeLlmCall>(hook_fn(|event: &BeforeLlmCallEvent, _| {
        let second = event.iteration == 1;
        Ok(second.then(|| BeforeLlmCallOutcome { block: Some(true), ..Default::default() }))
    }));
    block(&blocked);
    let session = blocked.session().await;
    let outcome = blocked.say(&session, "go").await.outcome;
    assert!(matches!(outcome, TurnOutcome::Blocked { point: PointId::BeforeLlmCall, .. }), "{outcome:?}");
    assert_eq!(roles(&blocked.transcript(&session).await), "u");
}

/// Takes the secret out of text that grows.
#[derive(Debug, Default)]
struct Hide {
    text: String,
    up_to: usize,
    blocks: bool,
}

impl SpanRedactor for Hide {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Self { blocks: self.blocks, ..Self::default() })
    }
}

impl Hide {
    fn settle(&mut self, end: usize) -> Settled {
        let from = self.up_to;
        let kind = SpanKind { class: "test", kind: "secret" };
        let found: Vec<_> =
            self.text.get(from..end).unwrap().match_indices(SECRET).map(|(at, _)| from + at).collect();
        let edit = |start| SpanEdit { start, end: start + SECRET.len(), replacement: "***".into(), kind };
        self.up_to = end;
        Settled {
            up_to: end,
            block: (self.blocks && !found.is_empty()).then(|| "no secrets".into()),
            edits: found.into_iter().map(edit).collect(),
            reported: Vec::new(),
        }
    }
}

impl RedactionStream for Hide {
    fn push(&mut self, text: &str) -> Settled {
        self.text.push_str(text);
        let open =
            (1..SECRET.len()).rev().find(|len| self.text.ends_with(SECRET.get(..*len).unwrap())).unwrap_or(0);
        self.settle(self.text.len() - open)
    }

    fn finish(&mut self) -> Settled {
        self.settle(self.text.len())
    }
}

fn hide(bench: &Bench, blocks: bool) {
    let options = HookOptions::new(OwnerId::operator()).id("hide");
    bench.engine.registry().on_spans(Arc::new(Hide { blocks, ..Hide::default() }), options).unwrap();
}

#[tokio::test]
async fn text_streams_through_span_redactors_and_the_transcript_is_what_was_shown() {
    let text = format!("{}{SECRET}{}", "a word and another ".repeat(20), " and so on".repeat(20));
    let bench = Bench::new([says_and_reads(SECRET), says(&text)]);
    hide(&bench, false);
    let session = bench.session().await;
    let shown = text.replace(SECRET, "***");
    assert_eq!(bench.say(&session, "go").await.outcome, answered(&shown));
    assert_eq!(bench.screen.texts(), ["***", &shown]);
    let pieces = bench.screen.lines().iter().filter(|line| line.starts_with("text: ")).count();
    assert!(pieces > 5, "it streams: {pieces}");
    assert!(!bench.screen.shows(SECRET));
    assert!(!bench.stored(&session).await.contains(SECRET));
}

#[tokio::test]
async fn a_span_redactor_that_blocks_ends_the_stream_and_the_turn() {
    let text = format!("{}{SECRET}{}", "a word and another ".repeat(20), " and so on".repeat(20));
    let bench = Bench::new([says(&text)]);
    hide(&bench, true);
    let session = bench.session().await;
    let report = bench.say(&session, "go").await;
    assert!(matches!(report.outcome, TurnOutcome::Blocked { point: PointId::BeforeResponseEmit, .. }));
    assert!(!bench.screen.shows(SECRET) && !bench.screen.shows("and so on"));
    assert_eq!(roles(&bench.transcript(&session).await), "u");
}

#[tokio::test]
async fn reasoning_and_the_work_of_tools_are_shown_without_what_redactors_take_out() {
    let first = json!({
        "thinking": format!("is it {SECRET}?"),
        "tool_calls": [{ "name": "read", "arguments": { "path": SECRET } }],
    });
    let bench = Bench::with([first, says("no")], |setup| {
        setup.settings.reasoning = backstop_hooks::points::ReasoningLevel::On;
    });
    hide(&bench, false);
    let session = bench.session().await;
    bench.say(&session, "go").await;
    let lines = bench.screen.lines();
    let reasoning: String = lines.iter().filter_map(|line| line.strip_prefix("reasoning: ")).collect();
    assert_eq!(reasoning, "is it ***?");
    assert!(lines.contains(&"start: read ***".to_owned()), "{lines:?}");
}
