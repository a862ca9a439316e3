//! The span of an event of a coding agent, which its hook was started for.

use std::time::Duration;

use backstop_clients::ClientEvent;
use backstop_hooks::{ShownName, Trace};
use backstop_telemetry::{Kind, Span, keys, told_id};

use super::Traces;

impl Traces {
    /// Records an event that was judged.
    pub fn judged(&self, event: &ClientEvent, trace: Trace, elapsed: Duration) {
        let frame = &event.frame;
        let client = frame.client().name();
        let mut span = Span::ended(trace, format!("hook {client}"), elapsed).kind(Kind::Server);
        span.is_parent_remote = trace.parent_span_id.is_some();
        span.set(keys::CLIENT, client);
        span.set(keys::EVENT, ShownName::new(frame.event()).to_string());
        span.set_if(keys::CONVERSATION, frame.session().map(|session| told_id(session.as_str())));
        self.record(span);
    }
}
