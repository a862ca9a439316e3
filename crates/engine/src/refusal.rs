//! Why a hook is not registered. Without each refusal, a hook would protect less than its author believes.

use backstop_hooks::{HookId, OwnerId, PointId};

use crate::matcher::InvalidMatcher;
use crate::verdict::VerdictSlot;

/// Why a hook can't be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// No host of this process fires the point, so the hook would never be called.
    #[error("no hook can stand at `{point}` here: {here} never fires it\nhint: {}", fired_by(.elsewhere))]
    NotFired {
        /// The point.
        point: PointId,
        /// The hosts of this process.
        here: String,
        /// The hosts of other processes that do fire it; empty if there are none.
        elsewhere: String,
    },
    /// The hook can only say what no host of this process honours.
    #[error(
        "hook `{hook}` can only answer `{fields}` at `{point}`, and nothing comes of that here: {here} can't honour it"
    )]
    NotHonoured {
        /// The hook.
        hook: HookId,
        /// The point.
        point: PointId,
        /// All that it can answer.
        fields: String,
        /// The hosts of this process.
        here: String,
    },
    /// The hook says that it answers a field that does not exist.
    #[error("hook `{hook}`: an answer at `{point}` has no field `{field}`")]
    NoField {
        /// The hook.
        hook: HookId,
        /// The point.
        point: PointId,
        /// The field.
        field: &'static str,
    },
    /// The hook says whether its rewrites give way, where nothing can be rewritten.
    #[error(
        "hook `{hook}`: `rewrite` means nothing at `{point}`, whose hooks propose no value\nhint: leave it out; what a hook stops or asks for never gives way"
    )]
    NoRewrite {
        /// The hook.
        hook: HookId,
        /// The point.
        point: PointId,
    },
    /// The hook is in shadow where answers change nothing anyway, or where spans are removed while a text grows.
    #[error("hook `{hook}` can't be in shadow at `{point}`: {why}")]
    NoShadow {
        /// The hook.
        hook: HookId,
        /// The point.
        point: PointId,
        /// Why not, and what to do instead.
        why: &'static str,
    },
    /// The id is taken.
    #[error(
        "there is already a hook `{0}`\nhint: ids are unique; remove the other one first or choose another id"
    )]
    Duplicate(HookId),
    /// The matcher can't be used.
    #[error("hook `{hook}`: {error}")]
    Matcher {
        /// The hook.
        hook: HookId,
        /// What is wrong.
        error: InvalidMatcher,
    },
    /// A tool matcher at a point that is not about tools.
    #[error("hook `{hook}`: `{point}` is not about tools, so a tool matcher there would match nothing")]
    NoTools {
        /// The hook.
        hook: HookId,
        /// The point.
        point: PointId,
    },
    /// The point reads the conversation, and the operator has not allowed the owner to.
    #[error(
        "`{owner}` may not have hooks at `{point}`: it reads the conversation\nhint: set `plugins.entries.{owner}.hooks.allowConversationAccess: true`"
    )]
    ConversationAccess {
        /// Who wanted to.
        owner: OwnerId,
        /// Where.
        point: PointId,
    },
    /// The point changes what the model reads, and the operator has forbidden that to the owner.
    #[error(
        "`{owner}` may not have hooks at `{point}`: it changes what the model reads, and `plugins.entries.{owner}.hooks.allowPromptInjection` is false"
    )]
    PromptInjection {
        /// Who wanted to.
        owner: OwnerId,
        /// Where.
        point: PointId,
    },
    /// Only the operator, Backstop itself, and owners that the operator permits may have trusted policies.
    #[error(
        "`{0}` may not register a trusted tool policy\nhint: ordinary plugins use `before_tool_call`; `plugins.entries.{0}.hooks.allowTrustedToolPolicy: true` lets it"
    )]
    Untrusted(OwnerId),
    /// A verdict hook that could do nothing there.
    #[error("the hook has nothing to say at `{slot}`\nhint: it can stand at {}", listed(.possible))]
    Slot {
        /// Where it was to stand.
        slot: VerdictSlot,
        /// Where it can stand.
        possible: Vec<VerdictSlot>,
    },
    /// The operator has switched the owner off.
    #[error("`{0}` is disabled by the operator")]
    Disabled(OwnerId),
}

fn listed(slots: &[VerdictSlot]) -> String {
    slots.iter().map(|slot| format!("`{slot}`")).collect::<Vec<_>>().join(", ")
}

fn fired_by(elsewhere: &str) -> String {
    match elsewhere {
        "" => "no host fires it yet".to_owned(),
        hosts => format!("these do: {hosts}"),
    }
}
