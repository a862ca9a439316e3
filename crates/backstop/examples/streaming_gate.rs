//! A program that shows a model's answer while it is made, and lets nothing through that a redactor takes out.
//!
//! A span redactor reads text as it grows and says how far all is settled. Only settled text leaves, so
//! nothing that was shown is ever taken back. Tool calls of the answer are judged before they leave.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use backstop::Engine;
use backstop::engine::{
    HookOptions, RedactionStream, ResponseGate, Settled, SpanEdit, SpanKind, SpanRedactor,
};
use backstop::hooks::{CallContext, OwnerId};

/// Takes words out that begin with `tok_`.
#[derive(Debug)]
struct Tokens;

/// One text, as far as it has come.
#[derive(Debug, Default)]
struct Reading {
    text: String,
    settled: usize,
}

impl SpanRedactor for Tokens {
    fn open(&self, _: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Reading::default())
    }
}

impl RedactionStream for Reading {
    fn push(&mut self, text: &str) -> Settled {
        self.text.push_str(text);
        // The last word may go on.
        self.settle(self.text.rfind(' ').map_or(0, |space| space + 1))
    }

    fn finish(&mut self) -> Settled {
        self.settle(self.text.len())
    }
}

impl Reading {
    fn settle(&mut self, up_to: usize) -> Settled {
        let mut edits = Vec::new();
        let mut start = self.settled;
        for word in self.text.get(start..up_to).unwrap_or_default().split_inclusive(' ') {
            let end = start + word.trim_end().len();
            if word.starts_with("tok_") {
                let kind = SpanKind { class: "secret", kind: "example_token" };
                edits.push(SpanEdit { start, end, replacement: "[token]".into(), kind });
            }
            start += word.len();
        }
        self.settled = up_to;
        Settled { up_to, edits, ..Settled::default() }
    }
}

/// Shows an answer piece by piece; answers what was shown.
async fn show(engine: &Engine, pieces: &[&str]) -> String {
    let mut redaction = engine.redaction(&CallContext::default());
    let mut shown = String::new();
    for piece in pieces {
        let released = redaction.push(0, piece).text;
        println!("the model said {piece:?}, and {released:?} may leave");
        shown.push_str(&released);
    }
    shown.push_str(&redaction.finish(0).text);
    // Who is told of a block finds it in the trail: this waits until it is there.
    match redaction.blocked().await {
        Some(blocked) => println!("the rest stays here: {}", blocked.reason_or_default()),
        None => println!("shown: {shown}"),
    }
    // The receipt says what was found, by kind and number.
    redaction.close().await;
    shown
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().build();
    // What reads the conversation is to be the operator's, or of an owner that the operator allowed to.
    let options = HookOptions::new(OwnerId::operator()).id("tokens");
    engine.registry().on_spans(Arc::new(Tokens), options)?;
    // With a hook of another kind at this point, the answer has to be whole before any of it leaves.
    assert_eq!(engine.response_gate(), ResponseGate::Spans);

    let cut_anywhere = show(&engine, &["use to", "k_4711 ", "for the", " test"]).await;
    assert_eq!(cut_anywhere, "use [token] for the test");
    assert_eq!(show(&engine, &["use tok_4711 for the test"]).await, cut_anywhere);
    Ok(())
}
