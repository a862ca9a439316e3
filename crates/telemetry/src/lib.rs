//! Spans, and how they leave: OTLP over HTTP (<https://opentelemetry.io/docs/specs/otlp/>).
//!
//! Laws:
//!
//! - *No text.* The name of an attribute is a constant of [`keys`]. A value is a number, a constant, a name that the operator configured, or an
//!   id; an id that a client or a model chose goes through [`told`], which leaves nothing of one that may be prose.
//! - *Nobody waits.* [`Exporter::record`] puts a span into a bounded queue, or counts it as dropped. A thread of its own sends batches;
//!   a collector that hangs or is gone costs spans and nothing else.
//! - *Out loud.* Spans that are dropped are counted, and the log says so once for each outage.
//!
//! Limits: spans carry no events and no links; nothing is compressed; redirects are not followed.

mod conventions;
mod exporter;
mod span;
mod wire;

pub use conventions::{CONVENTIONS, GEN_AI_CONVENTIONS, Key, keys, operations, providers};
pub use exporter::{Exporter, InvalidSettings, Settings};
pub use span::{Attribute, Kind, Span, told, told_id};
