//! Redacts what the model says, while it says it.

use backstop_engine::{RedactionStream, Settled, SpanEdit, SpanRedactor};
use backstop_hooks::CallContext;
use backstop_scan::{Certain, Finding, Redactor, Stream};

use super::{Place, forbidden, kind};

#[derive(Debug)]
pub(super) struct Answers(pub(super) Place);

impl SpanRedactor for Answers {
    fn open(&self, call: &CallContext) -> Box<dyn RedactionStream> {
        let redactor = self.0.of(call);
        Box::new(Reading { stream: redactor.stream(), redactor })
    }

    fn reads_once(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Reading {
    stream: Stream,
    redactor: Redactor,
}

impl RedactionStream for Reading {
    fn push(&mut self, text: &str) -> Settled {
        settled(self.stream.push_edits(text))
    }

    fn finish(&mut self) -> Settled {
        settled(self.stream.finish_edits())
    }

    fn finish_with(&mut self, rest: &str) -> Settled {
        settled(self.stream.finish_edits_with(rest))
    }

    fn seal(&mut self, text: &str) -> Settled {
        if self.redactor.is_seal(text) {
            return Settled { up_to: text.len(), ..Settled::default() };
        }
        self.finish_with(text)
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
