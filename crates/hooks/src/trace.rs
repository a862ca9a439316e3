//! The trace to which a call belongs: W3C Trace Context (<https://www.w3.org/TR/trace-context/>).
//!
//! A trace is the story of one request across processes; a span is one part of it. Ids are numbers of a fixed size, never zero, written
//! in lower-case hex. Because of that nothing can be said in one: what arrives as `traceparent` is parsed, and what leaves is written
//! anew from the numbers.
//!
//! Limits: `tracestate`, which may hold any text, has no place here.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::outcome::record;

/// Numbers that nobody guesses: the keyed hash of a counter, by keys of this process's own.
fn unguessed() -> [u64; 2] {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    KEYS.each_ref().map(|key| key.hash_one(count))
}

/// Reads exactly `N` bytes of lower-case hex.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = (digit(*high)? << 4) | digit(*low)?;
    }
    Some(bytes)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident: $size:literal, $pattern:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $size]);

        impl $name {
            /// Returns the id of these bytes, or `None` if all are zero.
            pub fn from_bytes(bytes: [u8; $size]) -> Option<Self> {
                (bytes != [0; $size]).then_some(Self(bytes))
            }

            /// Returns the id that is written as lower-case hex, or `None` if that is none.
            pub fn parse(text: &str) -> Option<Self> {
                hex(text).and_then(Self::from_bytes)
            }

            /// Returns its bytes.
            pub const fn to_bytes(self) -> [u8; $size] {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| D::Error::custom(concat!("it is zero, or not ", $pattern)))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let zeros = "0".repeat(2 * $size);
                json_schema!({ "type": "string", "pattern": $pattern, "not": { "const": zeros } })
            }
        }
    )*};
}

ids! {
    /// Which trace: 16 bytes.
    TraceId: 16, "^[0-9a-f]{32}$";
    /// Which span of a trace: 8 bytes.
    SpanId: 8, "^[0-9a-f]{16}$";
}

impl TraceId {
    /// Returns an id that nobody has.
    pub fn fresh() -> Self {
        let [[a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]] = unguessed().map(u64::to_be_bytes);
        // Zero is as likely as any other number, and no id.
        Self([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p | 1])
    }
}

impl SpanId {
    /// Returns an id that no other span of a trace has.
    pub fn fresh() -> Self {
        let [number, _] = unguessed();
        Self((number | 1).to_be_bytes())
    }
}

record! {
    /// W3C trace context.
    #[derive(Copy, Eq)]
    pub struct Trace {
        /// 32 hex digits.
        trace_id: TraceId,
        /// 16 hex digits.
        span_id: SpanId,
        /// 16 hex digits.
        parent_span_id?: SpanId,
    }
}

impl Trace {
    /// Begins a span below `parent`, or a trace if there is none.
    pub fn begin(parent: Option<TraceParent>) -> Self {
        let span_id = SpanId::fresh();
        match parent {
            Some(TraceParent { trace_id, span_id: parent, .. }) => {
                Self { trace_id, span_id, parent_span_id: Some(parent) }
            }
            None => Self { trace_id: TraceId::fresh(), span_id, parent_span_id: None },
        }
    }
}

/// What `traceparent` says: the span of another process, below which this one works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// Whether it is recorded.
    pub is_sampled: bool,
}

impl TraceParent {
    /// The name of the header.
    pub const HEADER: &str = "traceparent";

    /// Reads a value of the header, or returns `None` if it is malformed: whoever gets one then begins a trace. Of a version after `00`
    /// what that adds at the end is passed over, as the specification asks.
    pub fn parse(text: &str) -> Option<Self> {
        const LENGTH: usize = 55;
        let (known, added) = text.split_at_checked(LENGTH)?;
        let mut fields = known.split('-');
        let mut next = || fields.next();
        let version = hex::<1>(next()?)?;
        let (trace_id, span_id) = (TraceId::parse(next()?)?, SpanId::parse(next()?)?);
        let [flags] = hex::<1>(next()?)?;
        let is_known = match version {
            [0] => added.is_empty(),
            [u8::MAX] => false,
            _ => added.is_empty() || added.starts_with('-'),
        };
        (is_known && next().is_none()).then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace_id, span_id, is_sampled } = self;
        write!(f, "00-{trace_id}-{span_id}-{:02x}", u8::from(*is_sampled))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_parent_is_read_as_the_specification_says() {
        let parent = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
        assert!(parent.is_sampled);
        assert_eq!((parent.trace_id.to_string(), parent.span_id.to_string()), (TRACE.into(), SPAN.into()));
        let unsampled = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-fe")).unwrap();
        assert!(!unsampled.is_sampled);
        assert_eq!(unsampled.to_string(), format!("00-{TRACE}-{SPAN}-00"));
        assert!(TraceParent::parse(&format!("cc-{TRACE}-{SPAN}-01-what.comes")).is_some());
        assert!(TraceParent::parse(&format!("cc-{TRACE}-{SPAN}-01")).is_some());
    }

    #[test]
    fn what_is_malformed_is_no_parent() {
        let (zero_trace, zero_span) = ("0".repeat(32), "0".repeat(16));
        for wrong in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-x"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00-{zero_trace}-{SPAN}-01"),
            format!("00-{TRACE}-{zero_span}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("cc-{TRACE}-{SPAN}-01x"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{TRACE}{SPAN}--01-"),
            format!("00-{TRACE}-{SPAN}-0\u{e9}"),
        ] {
            assert_eq!(TraceParent::parse(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_span_stands_below_its_parent() {
        let parent = TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap();
        let below = Trace::begin(Some(parent));
        assert_eq!((below.trace_id, below.parent_span_id), (parent.trace_id, Some(parent.span_id)));
        assert_ne!(below.span_id, parent.span_id);
        let written = serde_json::to_value(below).unwrap();
        let (trace, parent) = (json!(TRACE), json!(SPAN));
        assert_eq!((&written["traceId"], &written["parentSpanId"]), (&trace, &parent));
        assert_eq!(serde_json::from_value::<Trace>(written).unwrap(), below);
        // Zero is no id, as the schema says.
        for (name, zeros) in [("traceId", "0".repeat(32)), ("spanId", "0".repeat(16))] {
            let mut zero = serde_json::to_value(below).unwrap();
            zero[name] = json!(zeros);
            assert!(serde_json::from_value::<Trace>(zero).is_err(), "{name}");
            let schema = json!(schemars::schema_for!(Trace));
            assert_eq!(schema["properties"][name]["not"]["const"], zeros, "{schema}");
        }
        let spans: BTreeSet<SpanId> = (0..10_000).map(|_| Trace::begin(None).span_id).collect();
        assert_eq!(spans.len(), 10_000);
    }

    proptest! {
        #[test]
        fn what_is_written_of_a_parent_holds_nothing_but_its_numbers(text in "\\PC{0,80}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-\\PC{0,9})?") {
            if let Some(parent) = TraceParent::parse(&text) {
                let written = parent.to_string();
                prop_assert_eq!(written.len(), 55);
                prop_assert_eq!(TraceParent::parse(&written), Some(parent));
            }
        }
    }
}
