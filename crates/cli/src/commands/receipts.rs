//! Receipts as single lines.

use backstop::engine::{Receipt, Verdict};

use crate::output::{Paint, Style, elapsed};

/// A receipt in one line: where, what came out, by whom, who was asked, how long, what was judged.
pub(super) fn line(receipt: &Receipt, paint: Paint) -> String {
    let style = match receipt.verdict {
        Verdict::Pass | Verdict::Handled => Style::Good,
        Verdict::Modify | Verdict::Dropped | Verdict::Ask => Style::Notice,
        Verdict::Block => Style::Bad,
        Verdict::Observed => Style::Faint,
    };
    let word = receipt.verdict.as_str();
    let mut parts = vec![receipt.point.name().to_owned(), paint.with(style, word)];
    if let Some(hook) = receipt.blocked.as_ref().and_then(|blocked| blocked.hook.as_ref()) {
        parts.push(format!("by {hook}"));
    }
    if let Some(approval) = &receipt.approval {
        let resolution = serde_json::to_value(approval.resolution).unwrap_or_default();
        let asked =
            if approval.hosted { "the client's own user" } else { resolution.as_str().unwrap_or_default() };
        parts.push(format!("asked: {asked}"));
    }
    let hooks = receipt.steps.iter().filter(|step| !step.again).count();
    parts.push(format!("{hooks} {}", if hooks == 1 { "hook" } else { "hooks" }));
    parts.push(elapsed(receipt.elapsed));
    parts.extend(receipt.judged.map(|digest| digest.short()));
    parts.join(" · ")
}
