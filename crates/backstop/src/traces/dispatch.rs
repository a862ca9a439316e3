//! The span of a dispatch, from its receipt.

use std::time::{Duration, SystemTime};

use backstop_engine::{Receipt, ReceiptSink};
use backstop_hooks::{Digest, PointId, Resolution, ShownName, SpanId, Trace};
use backstop_store::DigestKey;
use backstop_telemetry::{Span, keys, told};

use super::{Traces, told_call};

impl ReceiptSink for Traces {
    fn reads_idle(&self, _: PointId) -> bool {
        false
    }

    fn record(&self, receipt: &Receipt) {
        let Some(trace) = receipt.key.trace else { return };
        let is_idle = receipt.steps.is_empty() && receipt.blocked.is_none();
        if is_idle || !self.exporter.samples(trace.trace_id) {
            return;
        }
        self.exporter.record(span(receipt, trace, self.key.as_deref()));
    }
}

fn span(receipt: &Receipt, of: Trace, key: Option<&DigestKey>) -> Span {
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
    span.set_if(keys::RESOLUTION, receipt.approval.as_ref().and_then(|note| note.resolution).map(resolution));
    let written = |digest: Digest| key.map_or_else(|| digest.to_string(), |key| key.keyed(&digest));
    span.set_if(keys::JUDGED, receipt.judged.map(written));
    let tool = receipt.key.tool.as_ref().map(|tool| {
        let keyed = key.and_then(|key| key.keyed_name(tool.canonical()));
        keyed.unwrap_or_else(|| ShownName::new(tool.canonical()).to_string())
    });
    span.set_if(keys::TOOL, tool);
    span.set_if(keys::TOOL_CALL, receipt.key.tool_call_id.as_ref().map(|id| told_call(id.as_str(), key)));
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
