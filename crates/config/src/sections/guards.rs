//! `guards`: the built-in guards, which are on unless the operator writes `enabled: false`.

use crate::options::Pack;
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::Text;
use crate::values::{ExpiryDate, Name, Profile, Unknown};
use crate::wire::{item, section};

section! {
    /// The built-in guards.
    pub struct Guards {
        /// Judges commands before they run.
        command_safety ("command_safety"): CommandSafety, Nested;
        /// Judges paths before they are read or written.
        sensitive_files ("sensitive_files"): SensitiveFiles, Nested;
    }
}

section! {
    /// Judges commands before they run.
    pub struct CommandSafety {
        /// Whether the guard runs. Switching it off has to be written out.
        enabled ("enabled"): Setting<bool> = true, Raise;
        /// How much it stops, from `core` (only what cannot be undone) to `strict`.
        profile ("profile"): Setting<Profile> = Profile::Standard, Raise;
        /// What happens to a command whose effect cannot be decided. Strictness grows from `pass` over `ask` to `block`.
        unknown ("unknown"): Setting<Unknown> = Unknown::Ask, Raise;
        /// Exceptions, each with its reason.
        allow ("allow"): Vec<AllowCommand>, OperatorOnly;
        /// Further rules: paths of rule packs, or rules written in place.
        packs ("packs"): Vec<Pack>, OperatorOnly;
    }
}

item! {
    /// An exception from the command guard: a rule that does not count, or a command that passes.
    pub struct AllowCommand {
        /// The id of the rule. Exactly one of `rule` and `command` must be there.
        rule ("rule"): Option<Spanned<Name>>, OperatorOnly;
        /// The command as it will be called.
        command ("command"): Option<Spanned<Text>>, OperatorOnly;
        /// Why the exception is needed.
        reason ("reason"): Spanned<Text>, OperatorOnly;
        /// The last day on which it holds, as `YYYY-MM-DD`. Without it, it holds for good.
        expires ("expires"): Option<Spanned<ExpiryDate>>, OperatorOnly;
    }
    check: check;
}

section! {
    /// Judges paths before they are read or written.
    pub struct SensitiveFiles {
        /// Whether the guard runs. Switching it off has to be written out.
        enabled ("enabled"): Setting<bool> = true, Raise;
        /// Exceptions, each with its reason.
        allow ("allow"): Vec<AllowPath>, OperatorOnly;
        /// Further paths that nobody may touch, as glob patterns.
        deny ("deny"): Vec<Spanned<Text>>, Append;
    }
}

item! {
    /// An exception from the file guard.
    pub struct AllowPath {
        /// The path, as a glob pattern.
        path ("path"): Spanned<Text>, OperatorOnly;
        /// Why the exception is needed.
        reason ("reason"): Spanned<Text>, OperatorOnly;
        /// The last day on which it holds, as `YYYY-MM-DD`. Without it, it holds for good.
        expires ("expires"): Option<Spanned<ExpiryDate>>, OperatorOnly;
    }
}

impl AllowCommand {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        if self.rule.is_some() != self.command.is_some() {
            return Some(());
        }
        let message = format!("{} must name either a `rule` or a `command`", cx.subject());
        cx.report(Problem::new(ProblemKind::Conflict, self.reason.at.clone(), message));
        None
    }
}
