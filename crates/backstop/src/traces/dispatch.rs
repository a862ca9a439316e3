//! The span of a dispatch, from its receipt.

use std::time::{Duration, SystemTime};

use backstop_engine::{Receipt, ReceiptSink};
use backstop_hooks::{PointId, Resolution, ShownName, SpanId, Trace};
use backstop_telemetry::{Span, keys, told, told_id};

use super::Traces;

impl ReceiptSink for Traces {
    fn reads_idle(&self, _: PointId) -> bool {
        false
    }

    fn record(&self, receipt: &Receipt) {
        let Some(trace) = receipt.key.trace else { return };
        let is_idle = receipt.steps.is_empty() && receipt.blocked.is_none();
        if is_idle || !self.0.samples(trace.trace_id) {
            return;
        }
        self.0.record(span(receipt, trace));
    }
}

fn span(receipt: &Receipt, of: Trace) -> Span {
    let trace = Trace { span_id: SpanId::fresh(), parent_span_id: Some(of.span_id), ..of };
    let mut span = Span::ended(trace, receipt.point.name(), took(receipt));
    span.set(keys::POINT, receipt.point.name());
    span.set(keys::VERDICT, receipt.verdict.as_str());
    span.set(keys::RECEIPT, receipt.id());
    let first = receipt.steps.iter().filter(|step| !step.again);
    span.set(keys::HOOKS, u64::try_from(first.count()).unwrap_or(u64::MAX));
    let failures = receipt.steps.iter().filter(|step| step.failure.is_some()).count();
    if failures > 0 {
        span.set(keys::FAILURES, u64::try_from(failures).unwrap_or(u64::MAX));
        span.fail("hook_failure");
    }
    let hook = receipt.blocked.as_ref().and_then(|blocked| blocked.hook.as_ref());
    span.set_if(keys::BLOCKED_BY, hook.map(|hook| told(hook.as_str())));
    span.set_if(keys::RESOLUTION, receipt.approval.as_ref().map(|note| resolution(note.resolution)));
    span.set_if(keys::JUDGED, receipt.judged.map(|digest| digest.to_string()));
    span.set_if(
        keys::TOOL,
        receipt.key.tool.as_ref().map(|tool| ShownName::new(tool.canonical()).to_string()),
    );
    span.set_if(keys::TOOL_CALL, receipt.key.tool_call_id.as_ref().map(|id| told_id(id.as_str())));
    span
}

/// How long a dispatch took until now, with waiting for a person.
fn took(receipt: &Receipt) -> Duration {
    if receipt.approval.is_none() {
        return receipt.elapsed;
    }
    let asked = SystemTime::UNIX_EPOCH + Duration::from_millis(receipt.at);
    let since = SystemTime::now().duration_since(asked).unwrap_or_default();
    since.saturating_add(receipt.elapsed)
}

const fn resolution(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::AllowOnce => "allow_once",
        Resolution::AllowAlways => "allow_always",
        Resolution::Deny => "deny",
        Resolution::Timeout => "timeout",
        Resolution::Cancelled => "cancelled",
    }
}
