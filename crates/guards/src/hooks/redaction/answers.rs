//! What the model says, while it says it.

use backstop_engine::{RedactionStream, Settled, SpanEdit, SpanRedactor};
use backstop_hooks::CallContext;
use backstop_scan::{Certain, Finding, Stream};

use super::{Place, forbidden, kind};

#[derive(Debug)]
pub(super) struct Answers(pub(super) Place);

impl SpanRedactor for Answers {
    fn open(&self, call: &CallContext) -> Box<dyn RedactionStream> {
        Box::new(Reading(self.0.of(call).stream()))
    }
}

#[derive(Debug)]
struct Reading(Stream);

impl RedactionStream for Reading {
    fn push(&mut self, text: &str) -> Settled {
        settled(self.0.push_edits(text))
    }

    fn finish(&mut self) -> Settled {
        settled(self.0.finish_edits())
    }
}

fn settled(certain: Certain) -> Settled {
    let mut settled = Settled { up_to: certain.up_to, ..Settled::default() };
    let findings: Vec<Finding> = certain.edits.iter().map(|edit| edit.finding.clone()).collect();
    settled.block = forbidden(&findings).map(Into::into);
    for edit in certain.edits {
        let kind = kind(&edit.finding);
        let (start, end) = (edit.finding.span.start, edit.finding.span.end);
        match edit.replacement {
            Some(replacement) => {
                settled.edits.push(SpanEdit { start, end, replacement: replacement.into(), kind });
            }
            None => settled.reported.push(kind),
        }
    }
    settled
}
