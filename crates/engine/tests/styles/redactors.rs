//! Span redactors: over text that grows and over whole texts, alone and beside other hooks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{
    Attendance, BlockCause, Budget, DecidedParts, Engine, FailureKind, HookOptions, Receipt, ReceiptSink,
    Redaction, RedactionStream, ResponseGate, Rewrite, Said, Settled, SpanEdit, SpanKind, SpanRedactor,
    Style, Verdict,
};
use backstop_hooks::points::{
    BeforeResponseEmit, BeforeToolCall, ResponseEmitEvent, ResponseEmitOutcome, ToolCallEvent,
    ToolCallOutcome,
};
use backstop_hooks::{CallContext, FailurePolicy, OwnerId, Params, PointId, Text, ToolName, hook_fn};
use futures_util::FutureExt;
use proptest::prelude::*;

use crate::context;

/// What is done with each run of characters of a set.
#[derive(Clone, Copy, Debug)]
enum Does {
    Replaces(&'static str),
    Reports,
    Blocks,
    Panics,
    Babbles,
}

/// Finds runs of the characters in `set`.
#[derive(Clone, Copy, Debug)]
struct Runs {
    set: &'static str,
    does: Does,
}

#[derive(Debug)]
struct Reading {
    runs: Runs,
    text: String,
    up_to: usize,
}

impl SpanRedactor for Runs {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Reading { runs: *self, text: String::new(), up_to: 0 })
    }
}

impl RedactionStream for Reading {
    fn push(&mut self, text: &str) -> Settled {
        self.text.push_str(text);
        let closed = self.text.trim_end_matches(|c| self.runs.set.contains(c)).len();
        self.settle(closed)
    }

    fn finish(&mut self) -> Settled {
        self.settle(self.text.len())
    }
}

impl Reading {
    fn settle(&mut self, end: usize) -> Settled {
        let kind = SpanKind { class: "runs", kind: self.runs.set };
        let start = std::mem::replace(&mut self.up_to, end);
        let mut settled = Settled { up_to: end, ..Settled::default() };
        let mut at = start;
        for run in
            self.text.get(start..end).unwrap_or_default().split_inclusive(|c| !self.runs.set.contains(c))
        {
            let found = run.trim_end_matches(|c| !self.runs.set.contains(c));
            if !found.is_empty() {
                let (start, end) = (at, at + found.len());
                match self.runs.does {
                    Does::Replaces(with) => {
                        settled.edits.push(SpanEdit { start, end, replacement: with.into(), kind });
                    }
                    Does::Reports => settled.reported.push(kind),
                    Does::Blocks => settled.block = Some("no runs here".into()),
                    Does::Panics => panic!("found {found}"),
                    Does::Babbles => settled.up_to = usize::MAX,
                }
            }
            at += run.len();
        }
        settled
    }
}

#[derive(Default)]
struct Kept(Mutex<Vec<Receipt>>);

impl ReceiptSink for Kept {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap().push(receipt.clone());
    }
}

/// A model may write anything where the name of a tool stands.
#[test]
fn the_name_of_a_tool_is_told_as_texts_are() {
    for does in [Does::Replaces("*"), Does::Blocks, Does::Reports] {
        let (engine, kept) = watched(&[("runs", Runs { set: "#", does })]);
        let stops = hook_fn::<BeforeToolCall, _>(|_, _| Ok(Some(ToolCallOutcome::block("not this one"))));
        engine.registry().on(stops, options("gate")).unwrap();
        for (name, is_found) in [("deploy##key", true), ("deploy", false)] {
            let event = ToolCallEvent::new(ToolName::new(name), Params::default());
            let verdict =
                engine.permit_tool_call(event, &context("a"), &Attendance::Nobody).now_or_never().unwrap();
            assert!(verdict.permit.is_err());
            let receipt = kept.0.lock().unwrap().pop().unwrap();
            let said = serde_json::to_string(&receipt).unwrap();
            let is_hidden = is_found && !matches!(does, Does::Reports);
            assert_eq!(said.contains("\"tool\":\"deploy"), !is_hidden, "{said}");
            assert_eq!(said.contains("\"tool\":\"redacted-"), is_hidden, "{said}");
            assert!(!is_hidden || !said.contains("##key"), "{said}");
        }
    }
}

fn watched(redactors: &[(&str, Runs)]) -> (Engine, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let engine = Engine::builder().sink(Arc::clone(&kept) as Arc<dyn ReceiptSink>).build();
    for (id, redactor) in redactors {
        engine.registry().on_spans(Arc::new(*redactor), options(id)).unwrap();
    }
    (engine, kept)
}

fn options(id: &str) -> HookOptions {
    HookOptions::new(OwnerId::operator()).id(id)
}

fn digits(does: Does) -> Runs {
    Runs { set: "0123456789", does }
}

const BOTH: [(&str, Runs); 2] = [
    ("digits", Runs { set: "0123456789", does: Does::Replaces("#") }),
    ("odd", Runs { set: "13579xé", does: Does::Replaces("<odd>") }),
];

fn event(texts: &[&str]) -> ResponseEmitEvent {
    let all_content: Vec<Text> = texts.iter().map(|text| Text::from(*text)).collect();
    ResponseEmitEvent {
        run_id: None,
        content: all_content.last().cloned().unwrap_or_default(),
        all_content,
        channel: None,
        message_count: 1,
    }
}

fn dispatch(engine: &Engine, texts: &[&str]) -> DecidedParts<BeforeResponseEmit> {
    run(engine.decide::<BeforeResponseEmit>(event(texts), &context("main"))).into_parts()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn left(decided: &DecidedParts<BeforeResponseEmit>) -> Vec<&str> {
    decided.event.all_content.iter().map(Text::as_str).collect()
}

/// The clean text, and the edits.
fn streamed<'a>(
    redaction: &mut Redaction,
    pieces: impl IntoIterator<Item = &'a str>,
) -> (String, Vec<SpanEdit>) {
    let (mut text, mut edits) = (String::new(), Vec::new());
    for piece in pieces {
        let released = redaction.push(0, piece);
        text.push_str(&released.text);
        edits.extend(released.edits);
    }
    let rest = redaction.finish(0);
    edits.extend(rest.edits);
    (text + &rest.text, edits)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_edits_and_what_a_dispatch_over_the_whole_gives(
        pieces in prop::collection::vec("[0-9xyé ]{0,5}", 0..10),
    ) {
        let (engine, _) = watched(&BOTH);
        let whole = pieces.concat();
        let mut redaction = engine.redaction(&context("main"));
        let (text, edits) = streamed(&mut redaction, pieces.iter().map(String::as_str));
        let at_once = streamed(&mut engine.redaction(&context("main")), [whole.as_str()]);
        prop_assert_eq!(&(text.clone(), edits.clone()), &at_once);
        let mut replayed = whole.clone();
        for edit in edits.iter().rev() {
            replayed.replace_range(edit.start..edit.end, &edit.replacement);
        }
        prop_assert_eq!(&replayed, &text);
        let decided = dispatch(&engine, &[&whole]);
        prop_assert_eq!(left(&decided), [text.as_str()]);
    }

    #[test]
    fn nothing_goes_before_every_redactor_has_settled_it(pieces in prop::collection::vec("[0-9xy ]{0,5}", 0..10)) {
        let (engine, _) = watched(&BOTH);
        let mut redaction = engine.redaction(&context("main"));
        let whole = pieces.concat();
        let mut gone = String::new();
        let mut up_to = 0;
        for piece in &pieces {
            let released = redaction.push(0, piece);
            gone.push_str(&released.text);
            prop_assert!(up_to <= released.up_to && !gone.contains(|c: char| c.is_ascii_digit()));
            up_to = released.up_to;
        }
        let open = |set: &str| whole.len() - whole.trim_end_matches(|c| set.contains(c)).len();
        let held = BOTH.iter().map(|(_, runs)| open(runs.set)).max().unwrap_or_default();
        prop_assert!(whole.len() - up_to >= held, "{up_to} of {whole}");
    }
}

#[test]
fn spans_that_overlap_become_one_with_the_replacement_of_who_stands_first() {
    let (engine, _) = watched(&BOTH);
    let (text, edits) = streamed(&mut engine.redaction(&context("main")), ["a 12", "3x b ", "x y"]);
    assert_eq!(text, "a # b <odd> y");
    assert_eq!(edits.iter().map(|edit| (edit.start, edit.end)).collect::<Vec<_>>(), [(2, 6), (9, 10)]);

    let (engine, _) = watched(&BOTH[..1]);
    engine.registry().on_spans(Arc::new(BOTH[1].1), options("odd").priority(5)).unwrap();
    assert_eq!(streamed(&mut engine.redaction(&context("main")), ["a 123x"]).0, "a <odd>");

    // Side by side they stay two.
    let (engine, _) = watched(&[BOTH[0], ("letters", Runs { set: "xy", does: Does::Replaces("<xy>") })]);
    let (text, edits) = streamed(&mut engine.redaction(&context("main")), ["a 12x b"]);
    assert_eq!((text.as_str(), edits.len()), ("a #<xy> b", 2));

    // Also where the one that stands first begins later.
    let (engine, _) = watched(&BOTH);
    assert_eq!(streamed(&mut engine.redaction(&context("main")), ["a x12"]).0, "a #");
}

#[test]
fn a_stream_that_panics_when_it_is_dropped_disturbs_nobody() {
    #[derive(Debug)]
    struct OnDrop;
    impl RedactionStream for OnDrop {
        fn push(&mut self, _: &str) -> Settled {
            Settled::default()
        }
        fn finish(&mut self) -> Settled {
            Settled::default()
        }
    }
    impl Drop for OnDrop {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    #[derive(Debug)]
    struct Opens;
    impl SpanRedactor for Opens {
        fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
            Box::new(OnDrop)
        }
    }
    let (engine, kept) = watched(&[]);
    engine.registry().on_spans(Arc::new(Opens), options("panics")).unwrap();
    let mut redaction = engine.redaction(&context("main"));
    assert_eq!(redaction.push(0, "text").text, "");
    drop(redaction);
    assert_eq!(kept.0.lock().unwrap().len(), 1);
}

#[test]
fn texts_of_one_answer_do_not_mix() {
    let (engine, _) = watched(&BOTH[..1]);
    let mut redaction = engine.redaction(&context("main"));
    assert_eq!(redaction.push(0, "a1").text, "a");
    assert_eq!(redaction.push(7, "2b").text, "#b");
    assert_eq!(redaction.finish(0).text, "#");
    assert_eq!(redaction.finish(7).text, "");
}

#[tokio::test]
async fn a_stream_leaves_one_receipt_with_kinds_and_no_text() {
    let (engine, kept) = watched(&[
        ("digits", digits(Does::Replaces("#"))),
        ("letters", Runs { set: "xy", does: Does::Reports }),
    ]);
    let mut redaction = engine.redaction(&context("main"));
    streamed(&mut redaction, ["4711 x 0815"]);
    redaction.close().await;
    drop(engine.redaction(&context("main")));
    drop(engine.redaction(&context("main")).unrecorded());
    let receipts = std::mem::take(&mut *kept.0.lock().unwrap());
    let [streamed, given_up] = receipts.as_slice() else { panic!("{} receipts", receipts.len()) };
    assert_eq!((streamed.point, streamed.verdict), (PointId::BeforeResponseEmit, Verdict::Modify));
    assert_eq!(given_up.verdict, Verdict::Pass);
    let json = serde_json::to_value(streamed).unwrap();
    assert_eq!(json["sessionId"], "session-1");
    assert_eq!(json["steps"][0]["said"], "rewrote");
    let spans = &json["steps"][0]["spans"][0];
    assert_eq!((&spans["kind"], &spans["replaced"]), (&"runs/0123456789".into(), &2.into()));
    assert_eq!(
        (&json["steps"][1]["said"], &json["steps"][1]["spans"][0]["reported"]),
        (&"nothing".into(), &1.into())
    );
    assert!(!json.to_string().contains("4711"));
}

#[test]
fn a_dispatch_over_whole_texts_leaves_the_same_steps() {
    let (engine, kept) = watched(&BOTH[..1]);
    let decided = dispatch(&engine, &["call 110", "or 112"]);
    assert_eq!(left(&decided), ["call #", "or #"]);
    assert_eq!(decided.event.content, "or #");
    assert_eq!(decided.outcome.all_content.as_ref().map(Vec::len), Some(2), "hosts may read the outcome");
    let receipts = kept.0.lock().unwrap();
    let receipt = receipts.first().unwrap();
    assert_eq!((receipts.len(), receipt.verdict, receipt.steps.len()), (1, Verdict::Modify, 1));
    assert_ne!(receipt.original, receipt.judged);
    assert_eq!(receipt.steps.first().unwrap().spans.first().unwrap().replaced, 2);
}

#[test]
fn other_hooks_read_what_the_redactors_left_whatever_their_priority() {
    let (engine, _) = watched(&BOTH[..1]);
    let hook = hook_fn::<BeforeResponseEmit, _>(|event, _| {
        let content = Some(format!("{}!", event.content).into());
        Ok((!event.content.ends_with('!')).then(|| ResponseEmitOutcome { content, ..Default::default() }))
    });
    engine.registry().on(hook, options("loud").priority(1000)).unwrap();
    let decided = dispatch(&engine, &["1 x", "call 110"]);
    assert!(decided.blocked.is_none(), "{:?}", decided.blocked);
    assert_eq!(left(&decided), ["# x", "call #!"]);
    assert_eq!(decided.outcome.all_content.unwrap(), decided.event.all_content);
}

#[test]
fn a_hook_that_writes_what_a_redactor_takes_out_is_unstable() {
    let (engine, _) = watched(&BOTH[..1]);
    let leak = hook_fn::<BeforeResponseEmit, _>(|_, _| {
        Ok(Some(ResponseEmitOutcome { content: Some("call 110".into()), ..Default::default() }))
    });
    engine.registry().on(leak, options("leak")).unwrap();
    let decided = dispatch(&engine, &["call nobody"]);
    let blocked = decided.blocked.unwrap();
    assert_eq!(blocked.cause, BlockCause::UnstableRewrite { writer: Some("leak".into()) });
    assert_eq!(blocked.hook, Some("digits".into()));
    let steps = decided.receipt.steps.iter().map(|step| (step.hook.id.as_str(), step.again));
    assert_eq!(steps.collect::<Vec<_>>(), [("digits", false), ("leak", false), ("digits", true)]);
}

/// A redactor that stops what a hook wrote is not covered up by one that would only have changed it.
#[test]
fn what_stops_the_answer_of_a_hook_is_the_block_of_a_redactor_and_not_the_change_of_another() {
    let (engine, _) = watched(&[BOTH[0], ("letters", Runs { set: "xy", does: Does::Blocks })]);
    let leak = hook_fn::<BeforeResponseEmit, _>(|_, _| {
        Ok(Some(ResponseEmitOutcome { content: Some("call 110 x".into()), ..Default::default() }))
    });
    engine.registry().on(leak, options("leak")).unwrap();
    let blocked = dispatch(&engine, &["call me"]).blocked.unwrap();
    assert_eq!((blocked.cause, blocked.hook), (BlockCause::Decision, Some("letters".into())));
}

#[test]
fn an_optional_rewrite_gives_way_to_a_redactor() {
    let (engine, _) = watched(&BOTH[..1]);
    let leak = hook_fn::<BeforeResponseEmit, _>(|_, _| {
        Ok(Some(ResponseEmitOutcome { content: Some("call 110".into()), ..Default::default() }))
    });
    engine.registry().on(leak, options("leak").rewrite(Rewrite::Optional)).unwrap();
    let decided = dispatch(&engine, &["call nobody"]);
    assert_eq!(decided.blocked, None);
    assert_eq!(left(&decided), ["call nobody"]);
    let leak = decided.receipt.steps.iter().find(|step| step.hook.id.as_str() == "leak").unwrap();
    assert_eq!(leak.yielded_to, Some("digits".into()));
    let heard = decided.receipt.steps.iter().find(|step| step.proposal_of == Some("leak".into())).unwrap();
    assert_eq!(heard.hook.id.as_str(), "digits", "it was shown a proposal, not the answer");
}

#[test]
fn a_block_stops_the_stream_and_the_dispatch_for_the_same_reason() {
    let (engine, kept) = watched(&[("digits", digits(Does::Blocks))]);
    let mut redaction = engine.redaction(&context("main"));
    assert_eq!(redaction.push(0, "call ").text, "call ");
    assert!(!redaction.is_blocked());
    assert_eq!(redaction.push(0, "now 1 ").text, "", "what came with it stays");
    let more = redaction.push(0, "more");
    assert_eq!((more.text.as_str(), more.up_to), ("", 5), "nothing more goes");
    assert_eq!(redaction.push(1, "more").text + &redaction.finish(0).text, "");
    assert!(redaction.is_blocked());
    let blocked = run(redaction.blocked()).unwrap();
    drop(redaction);
    assert_eq!(kept.0.lock().unwrap().first().unwrap().verdict, Verdict::Block);
    let decided = dispatch(&engine, &["call now 1 "]);
    assert_eq!(left(&decided), ["call now 1 "], "what is stopped is told as it came");
    assert_eq!(Some(blocked), decided.blocked);
}

#[test]
fn a_redactor_that_fails_blocks_unless_the_operator_lets_it_pass() {
    for (does, kind) in [(Does::Panics, FailureKind::Panicked), (Does::Babbles, FailureKind::Malformed)] {
        let (engine, kept) = watched(&[("digits", digits(does))]);
        let mut redaction = engine.redaction(&context("main"));
        assert_eq!(streamed(&mut redaction, ["safe ", "1 ", "more"]).0, "safe ");
        let blocked = run(redaction.blocked()).unwrap();
        let receipt = kept.0.lock().unwrap().remove(0);
        let step = receipt.steps.first().unwrap();
        assert_eq!((step.said, step.passed_despite_failure), (Said::Failed, false));
        assert_eq!(blocked.cause, BlockCause::Failure { kind });
        assert!(!blocked.reason_or_default().contains("found 1"));
        assert_eq!(dispatch(&engine, &["1 "]).blocked, Some(blocked));

        let (engine, kept) = watched(&[]);
        let open = HookOptions { on_failure: Some(FailurePolicy::Open), ..options("digits") };
        engine.registry().on_spans(Arc::new(digits(does)), open).unwrap();
        let mut redaction = engine.redaction(&context("main"));
        assert_eq!(streamed(&mut redaction, ["safe ", "1 ", "more"]).0, "safe 1 more");
        drop(redaction);
        let receipts = kept.0.lock().unwrap();
        let step = receipts.first().unwrap().steps.first().unwrap();
        assert_eq!((step.said, step.passed_despite_failure), (Said::Failed, true));
        assert_eq!(step.failure.as_ref().unwrap().kind, kind);
    }
}

#[test]
fn hosts_see_who_stands_there() {
    let (engine, _) = watched(&[]);
    assert_eq!(engine.response_gate(), ResponseGate::Open);
    assert!(engine.redaction(&context("main")).is_empty());
    let id = engine.registry().on_spans(Arc::new(BOTH[0].1), options("digits")).unwrap();
    assert_eq!(engine.response_gate(), ResponseGate::Spans);
    assert!(!engine.redaction(&context("main")).is_empty());
    let listed = engine.registry().list();
    assert_eq!(
        listed.iter().map(|meta| (&meta.id, meta.point, meta.style)).collect::<Vec<_>>(),
        [(&id, PointId::BeforeResponseEmit, Style::Redactor)]
    );
    let watching = hook_fn::<BeforeResponseEmit, _>(|_, _| Ok(None));
    let other = engine.registry().on(watching, options("other")).unwrap();
    assert_eq!(engine.response_gate(), ResponseGate::Whole);
    let before = hook_fn::<backstop_hooks::points::BeforeLlmCall, _>(|_, _| Ok(None));
    let before = engine.registry().on(before, options("before")).unwrap();
    let after = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None));
    let after = engine.registry().on(after, options("after")).unwrap();
    let listed: Vec<_> = engine.registry().list().iter().map(|meta| meta.id.clone()).collect();
    assert_eq!(listed, [before.clone(), id.clone(), other.clone(), after.clone()], "in running order");
    for hook in [&other, &before, &after] {
        assert!(engine.registry().remove(hook));
    }
    engine.registry().reload(backstop_engine::Snapshot::empty(Default::default())).unwrap();
    assert_eq!(engine.response_gate(), ResponseGate::Spans, "a program's redactor survives a reload");
    assert!(engine.registry().on_spans(Arc::new(BOTH[0].1), options("digits")).is_err(), "ids are unique");
    assert!(engine.registry().remove(&id));
    assert_eq!(engine.response_gate(), ResponseGate::Open);
}

#[test]
fn a_redactor_is_about_the_agents_it_is_limited_to() {
    let (engine, _) = watched(&[]);
    let agents = backstop_engine::AgentMatcher::regex("^other$").unwrap();
    engine.registry().on_spans(Arc::new(BOTH[0].1), options("digits").agents(agents)).unwrap();
    assert_eq!(streamed(&mut engine.redaction(&context("main")), ["1"]).0, "1");
    assert_eq!(streamed(&mut engine.redaction(&context("other")), ["1"]).0, "#");
}

/// Where spans begin and end.
type Spans = &'static [(usize, usize)];

/// Says the same about every piece, and counts the pieces.
#[derive(Clone, Debug)]
struct Says {
    up_to: usize,
    edits: Spans,
    asked: Arc<Mutex<usize>>,
}

impl SpanRedactor for Says {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(self.clone())
    }
}

impl RedactionStream for Says {
    fn push(&mut self, _: &str) -> Settled {
        *self.asked.lock().unwrap() += 1;
        let kind = SpanKind { class: "says", kind: "it" };
        let edit = |&(start, end): &(usize, usize)| SpanEdit { start, end, replacement: "#".into(), kind };
        Settled { up_to: self.up_to, edits: self.edits.iter().map(edit).collect(), ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: self.up_to, ..Settled::default() }
    }
}

#[test]
fn spans_that_make_no_sense_are_a_failure_and_nothing_is_let_go() {
    let text = "abcd\u{e9}";
    let cases: [(usize, Spans, bool); 9] = [
        (6, &[], true),
        (6, &[(0, 1), (1, 2), (4, 6)], true),
        (6, &[(2, 3), (0, 1)], false),
        (6, &[(0, 2), (1, 3)], false),
        (6, &[(1, 1)], false),
        (6, &[(3, 2)], false),
        (3, &[(1, 4)], false),
        (6, &[(5, 6)], false),
        (6, &[(3, 5)], false),
    ];
    for (up_to, edits, makes_sense) in cases {
        let (engine, _) = watched(&[]);
        let says = Says { up_to, edits, asked: Arc::default() };
        engine.registry().on_spans(Arc::new(says), options("says")).unwrap();
        let mut redaction = engine.redaction(&context("main"));
        let let_go = redaction.push(0, text).text;
        let cause = run(redaction.blocked()).map(|blocked| blocked.cause);
        let malformed = BlockCause::Failure { kind: FailureKind::Malformed };
        assert_eq!(cause, (!makes_sense).then_some(malformed), "{edits:?} up to {up_to}");
        assert_eq!(let_go.is_empty(), !makes_sense, "{let_go}");
    }
}

#[test]
fn a_redactor_that_failed_is_done_without_from_then_on() {
    let (engine, _) = watched(&[]);
    let asked = Arc::new(Mutex::new(0));
    let says = Says { up_to: usize::MAX, edits: &[], asked: Arc::clone(&asked) };
    let open = HookOptions { on_failure: Some(FailurePolicy::Open), ..options("says") };
    engine.registry().on_spans(Arc::new(says), open).unwrap();
    let mut redaction = engine.redaction(&context("main"));
    assert_eq!(streamed(&mut redaction, ["one ", "two ", "three"]).0, "one two three");
    assert_eq!(*asked.lock().unwrap(), 1);
}

/// Takes as long over each piece as it is told, by a clock that stands still otherwise.
#[derive(Clone, Copy, Debug)]
struct Slow {
    takes: Duration,
    up_to: usize,
}

impl SpanRedactor for Slow {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(*self)
    }
}

impl RedactionStream for Slow {
    fn push(&mut self, text: &str) -> Settled {
        // The clock moves at the first look at the future.
        let _moved = tokio::time::advance(self.takes).now_or_never();
        self.up_to += text.len();
        Settled { up_to: self.up_to, ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: self.up_to, ..Settled::default() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_redactor_that_takes_longer_than_its_budget_has_failed_and_one_that_uses_it_up_has_not() {
    for (takes, is_late) in [(99, false), (100, false), (101, true), (1_000, true)] {
        let (engine, kept) = watched(&[]);
        let takes = Duration::from_millis(takes);
        let timeout = Some(Budget::from_millis(100).unwrap());
        let slow = Slow { takes, up_to: 0 };
        engine.registry().on_spans(Arc::new(slow), HookOptions { timeout, ..options("slow") }).unwrap();
        let mut redaction = engine.redaction(&context("main"));
        assert_eq!(redaction.push(0, "text").text, if is_late { "" } else { "text" }, "{takes:?}");
        let timed_out = BlockCause::Failure { kind: FailureKind::TimedOut };
        let cause = redaction.blocked().await.map(|blocked| blocked.cause);
        assert_eq!(cause, is_late.then_some(timed_out), "{takes:?}");
        drop(redaction);
        let receipt = kept.0.lock().unwrap().remove(0);
        let step = receipt.steps.first().unwrap();
        assert_eq!((receipt.elapsed, step.elapsed), (takes, takes));
        assert_eq!(step.failure.is_some(), is_late);
    }
}

/// Reads nothing before somebody else on the same runtime has said so.
#[derive(Debug)]
struct Patient {
    begun: std::sync::mpsc::SyncSender<()>,
    told: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
}

#[derive(Debug)]
struct Waiting {
    begun: std::sync::mpsc::SyncSender<()>,
    told: Arc<Mutex<std::sync::mpsc::Receiver<()>>>,
    len: usize,
}

impl SpanRedactor for Patient {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Waiting { begun: self.begun.clone(), told: Arc::clone(&self.told), len: 0 })
    }
}

impl RedactionStream for Waiting {
    fn push(&mut self, text: &str) -> Settled {
        self.len += text.len();
        self.begun.send(()).unwrap();
        let told = self.told.lock().unwrap().recv_timeout(Duration::from_secs(20));
        let block = told.is_err().then(|| "nobody else had a turn".into());
        Settled { up_to: self.len, block, ..Settled::default() }
    }

    fn finish(&mut self) -> Settled {
        Settled { up_to: self.len, ..Settled::default() }
    }
}

/// The only worker reads a large text, and what else there is to do is done meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_text_is_read_while_others_have_their_turn() {
    for streams in [true, false] {
        let (begun, has_begun) = std::sync::mpsc::sync_channel(1);
        let (tell, told) = std::sync::mpsc::channel();
        let patient = Patient { begun, told: Arc::new(Mutex::new(told)) };
        let engine = Engine::builder().build();
        let patience =
            HookOptions { timeout: Some(Budget::from_millis(60_000).unwrap()), ..options("patient") };
        engine.registry().on_spans(Arc::new(patient), patience).unwrap();
        let text = "x".repeat(2 << 20);
        let reading = tokio::spawn(async move {
            let said = if streams {
                let mut redaction = engine.redaction(&context("main"));
                let begun = redaction.push(0, &text).text;
                begun + &redaction.finish(0).text
            } else {
                let (call, event) = (context("main"), event(&[&text]));
                let decided = engine.decide::<BeforeResponseEmit>(event, &call).await.into_parts();
                if decided.blocked.is_some() { String::new() } else { left(&decided).concat() }
            };
            said == text
        });
        tokio::task::spawn_blocking(move || has_begun.recv().unwrap()).await.unwrap();
        tokio::spawn(async move { tell.send(()).unwrap() }).await.unwrap();
        assert!(reading.await.unwrap(), "streams: {streams}");
    }
}
