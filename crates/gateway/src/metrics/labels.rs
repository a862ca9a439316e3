//! What the series of a family differ in. No label can hold what a client sends.

use std::fmt::{self, Write as _};

use backstop_engine::{FailureKind, Said, Verdict, Would};
use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::{HookId, PointId};
use backstop_surfaces::SurfaceName;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

use crate::record::{Label, Outcome, Word};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) wire: Word,
    pub(super) provider: Label,
    pub(super) model: Label,
    pub(super) agent: Label,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RouteLabels {
    pub(super) wire: Word,
    pub(super) provider: Label,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SpenderLabels {
    pub(super) provider: Label,
    pub(super) model: Label,
    pub(super) agent: Label,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TokenLabels {
    pub(super) provider: Label,
    pub(super) model: Label,
    pub(super) agent: Label,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UserRequestLabels {
    pub(super) user: Label,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UserTokenLabels {
    pub(super) user: Label,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct UserLabels {
    pub(super) user: Label,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HeaderLabels {
    pub(super) provider: Label,
    pub(super) of: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SurfaceLabels {
    pub(super) surface: Surface,
    pub(super) result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ListenerLabels {
    pub(super) surface: Surface,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WitnessLabels {
    pub(super) witness: Witness,
}

/// How tokens are counted apart, as providers bill them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TokenKind {
    Input,
    Output,
    CacheRead,
    CacheWrite,
}

impl TokenKind {
    /// The tokens of each kind.
    pub(super) const fn each(tokens: TokenUsage) -> [(Self, u64); 4] {
        [
            (Self::Input, tokens.input),
            (Self::Output, tokens.output),
            (Self::CacheRead, tokens.cache_read),
            (Self::CacheWrite, tokens.cache_write),
        ]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PointLabels {
    pub(super) point: Point,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DispatchLabels {
    pub(super) point: Point,
    pub(super) verdict: Stated<Verdict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AnswerLabels {
    pub(super) point: Point,
    pub(super) hook: Hook,
    pub(super) said: Stated<Said>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FailureLabels {
    pub(super) point: Point,
    pub(super) hook: Hook,
    pub(super) kind: Stated<FailureKind>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ShadowLabels {
    pub(super) point: Point,
    pub(super) hook: Hook,
    pub(super) would: Stated<Would>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct SpanLabels {
    pub(super) class: &'static str,
    pub(super) kind: &'static str,
    pub(super) done: Done,
}

/// What became of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Done {
    Replaced,
    Reported,
}

/// A hook point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Point(pub(super) PointId);

/// A hook that stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hook(pub(super) HookId);

/// A surface of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Surface(pub(super) SurfaceName);

/// A witness of the configuration: the folder, or the name of the server's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Witness(pub(super) String);

/// A word of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stated<T>(pub(super) T);

/// Writes a label that has a name.
macro_rules! encoded {
    ($($label:ty: $name:expr;)*) => {$(
        impl EncodeLabelValue for $label {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                let name: fn(&Self) -> &str = $name;
                encoder.write_str(name(self))
            }
        }
    )*};
}

encoded! {
    Word: |word| word.as_str();
    Label: |label| label.as_str();
    Outcome: |outcome| outcome.as_str();
    Point: |point| point.0.name();
    Hook: |hook| hook.0.as_str();
    Surface: |surface| surface.0.as_str();
    Witness: |witness| witness.0.as_str();
    TokenKind: |kind| match kind {
        TokenKind::Input => "input",
        TokenKind::Output => "output",
        TokenKind::CacheRead => "cache_read",
        TokenKind::CacheWrite => "cache_write",
    };
    Done: |done| match done {
        Done::Replaced => "replaced",
        Done::Reported => "reported",
    };
    Stated<Verdict>: |verdict| verdict.0.as_str();
    Stated<Said>: |said| match said.0 {
        Said::Nothing => "nothing",
        Said::Pass => "pass",
        Said::Rewrote => "rewrote",
        Said::Asked => "asked",
        Said::Blocked => "blocked",
        Said::Handled => "handled",
        Said::Failed => "failed",
    };
    Stated<Would>: |would| would.0.as_str();
    Stated<FailureKind>: |kind| match kind.0 {
        FailureKind::Failed => "failed",
        FailureKind::Unreachable => "unreachable",
        FailureKind::Malformed => "malformed",
        FailureKind::Panicked => "panicked",
        FailureKind::TimedOut => "timed_out",
        FailureKind::Overloaded => "overloaded",
        FailureKind::TooDeep => "too_deep",
    };
}
