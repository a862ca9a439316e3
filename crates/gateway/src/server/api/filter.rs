//! What is looked for in the trail, by whoever reads pages of it and by whoever follows it.

use backstop_store::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use super::asked::Number;

/// Declares a query for entries of the trail: its own fields, and those by which each of them can be looked for.
///
/// A macro, since Serde can't refuse unknown fields of a structure that is flattened into another.
macro_rules! filtered {
    ($(#[$about:meta])* $seen:vis struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Default, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $seen struct $name {
            $($own)*
            /// Only entries of this kind.
            #[serde(default)]
            kind: Option<String>,
            /// Only entries of this session.
            #[serde(default)]
            session: Option<String>,
            /// Only entries of this run.
            #[serde(default)]
            run: Option<String>,
            /// Only entries from this time on, in Unix milliseconds.
            #[serde(default)]
            since: Option<$crate::server::api::asked::Number>,
            /// Only entries before this time, in Unix milliseconds.
            #[serde(default)]
            until: Option<$crate::server::api::asked::Number>,
            /// Only receipts with this verdict; `ask` are those for which somebody was asked, whatever came of it.
            #[serde(default)]
            verdict: Option<$crate::server::api::filter::VerdictWord>,
            /// Only entries about this tool, as it was called or as it is known.
            #[serde(default)]
            tool: Option<String>,
            /// Only entries in which this rule spoke, or would have.
            #[serde(default)]
            rule: Option<String>,
            /// Only entries of this agent.
            #[serde(default)]
            agent: Option<String>,
            /// Only entries about work in this folder, or in one below it.
            #[serde(default)]
            workspace: Option<String>,
            /// Only what this person asked for, answered, gave or revoked.
            #[serde(default)]
            who: Option<String>,
            /// Only entries under a version of the policy that begins with these hex digits.
            #[serde(default)]
            policy: Option<String>,
        }

        impl $name {
            fn filter(&self) -> backstop_store::AuditFilter {
                backstop_store::AuditFilter {
                    kind: self.kind.clone(),
                    session: self.session.clone().map(backstop_hooks::SessionId::new),
                    run: self.run.clone().map(backstop_hooks::RunId::new),
                    since: self.since.map($crate::server::api::filter::moment),
                    until: self.until.map($crate::server::api::filter::moment),
                    verdict: self.verdict.map($crate::server::api::filter::VerdictWord::word),
                    tool: self.tool.clone(),
                    rule: self.rule.clone(),
                    agent: self.agent.clone(),
                    workspace: self.workspace.clone(),
                    who: self.who.clone(),
                    policy: self.policy.clone(),
                    ..backstop_store::AuditFilter::default()
                }
            }
        }
    };
}

pub(super) use filtered;

/// What a receipt can say, as it is looked for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "AuditVerdict")]
pub(super) enum VerdictWord {
    Pass,
    Modify,
    Block,
    Ask,
    Handled,
    Observed,
    Dropped,
}

impl VerdictWord {
    pub(super) fn word(self) -> String {
        let word = match self {
            Self::Pass => "pass",
            Self::Modify => "modify",
            Self::Block => "block",
            Self::Ask => "ask",
            Self::Handled => "handled",
            Self::Observed => "observed",
            Self::Dropped => "dropped",
        };
        word.to_owned()
    }
}

/// A moment of a query, in Unix milliseconds. One that is later than any is the last one.
pub(super) fn moment(millis: Number) -> Timestamp {
    Timestamp::from_millis(i64::try_from(millis.get()).unwrap_or(i64::MAX))
}
