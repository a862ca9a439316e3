//! Decisions on stderr, as they are made.

use std::io::Write as _;

use backstop::engine::{Receipt, ReceiptSink, Verdict};
use backstop::hooks::PointId;

use crate::commands::receipts;
use crate::output::Paint;

/// Tells of what was stopped or changed, a line each.
pub(super) struct Decisions {
    paint: Paint,
}

impl Decisions {
    pub(super) fn new(paint: Paint) -> Self {
        Self { paint }
    }
}

impl ReceiptSink for Decisions {
    fn reads_idle(&self, _: PointId) -> bool {
        false
    }

    fn record(&self, receipt: &Receipt) {
        if matches!(receipt.verdict, Verdict::Block | Verdict::Modify) {
            // That nobody listens is no error.
            let _ = writeln!(std::io::stderr().lock(), "backstop: {}", receipts::line(receipt, self.paint));
        }
    }
}
