//! The human of the demo, where nobody sits at the terminal.

use std::io::Write as _;
use std::time::Duration;

use backstop::engine::{AskFuture, Asker};
use backstop::hooks::Decision;
use backstop::store::{ApprovalRecord, People, Timestamp};

use crate::commands::approvals::question;
use crate::output::{Paint, Style};

/// Reads the question and allows it once; says so, since nobody should think that a human was there.
pub(super) struct ScriptedHuman {
    paint: Paint,
}

impl ScriptedHuman {
    pub(super) fn new(paint: Paint) -> Self {
        Self { paint }
    }
}

impl Asker for ScriptedHuman {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        Box::pin(async move {
            let note = "the demo answers for you: allow once (`--interactive` lets you answer)";
            let text = question(record, &People::default(), Timestamp::now(), self.paint);
            let _ = writeln!(std::io::stderr().lock(), "{text}  {}\n", self.paint.with(Style::Notice, note));
            tokio::time::sleep(Duration::from_millis(150)).await;
            Some(Decision::AllowOnce)
        })
    }

    fn name(&self) -> &str {
        "the demo"
    }
}
