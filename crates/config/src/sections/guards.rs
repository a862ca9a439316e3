//! `guards`: the built-in guards, which are enabled unless the operator writes `enabled: false`.

use crate::config_value::{Entries, item, section};
use crate::options::Pack;
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::Text;
use crate::values::{
    ArgumentAction, ExpiryDate, HiddenAction, HookMode, Name, Profile, SpanAction, ToolSet, Unknown,
};

section! {
    /// The built-in guards.
    pub struct Guards {
        /// Judges commands before they run.
        command_safety ("command_safety"): CommandSafety, Nested;
        /// Judges paths before they are read or written.
        sensitive_files ("sensitive_files"): SensitiveFiles, Nested;
        /// Takes tokens, passwords and keys out of what changes hands.
        secrets ("secrets"): Secrets, Nested;
        /// Takes personal data out of what changes hands.
        personal_data ("personal_data"): PersonalData, Nested;
        /// Takes out what a model reads and a human does not see.
        hidden_text ("hidden_text"): HiddenText, Nested;
    }
}

section! {
    /// Judges commands before they run.
    pub struct CommandSafety {
        /// Whether the guard runs. Switching it off has to be written out.
        enabled ("enabled"): Setting<bool> = true, Raise;
        /// Whether what it says counts. In `shadow` it changes nothing, and the receipt says what it would have done.
        mode ("mode"): Setting<HookMode> = HookMode::Enforce, Raise;
        /// How much it stops, from `core` (only what cannot be undone) to `strict`.
        profile ("profile"): Setting<Profile> = Profile::Standard, Raise;
        /// What happens to a command whose effect cannot be decided. Strictness grows from `pass` over `ask` to `block`.
        unknown ("unknown"): Setting<Unknown> = Unknown::Ask, Raise;
        /// Exceptions, each with its reason.
        allow ("allow"): Vec<AllowCommand>, OperatorOnly;
        /// Rules in shadow, by id: the guard judges as if they were not there, and the receipt says what they would have done.
        shadow ("shadow"): Vec<Spanned<Name>>, OperatorOnly;
        /// Further rules: paths of rule packs, or rules written in place.
        packs ("packs"): Vec<Pack>, OperatorOnly;
        /// Further programs: paths of catalogues, or entries written in place.
        programs ("programs"): Vec<Pack>, OperatorOnly;
    }
}

item! {
    /// An exception from the command guard: a rule that does not count, a command that passes, or a rule that does not count for a command.
    pub struct AllowCommand {
        /// The id of the rule. With a `command`, it does not count for that command; without, for none. One of both must be there.
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
        /// Whether what it says counts. In `shadow` it changes nothing, and the receipt says what it would have done.
        mode ("mode"): Setting<HookMode> = HookMode::Enforce, Raise;
        /// Exceptions, each with its reason.
        allow ("allow"): Vec<AllowPath>, OperatorOnly;
        /// Further paths that nobody may touch, as glob patterns.
        deny ("deny"): Vec<Spanned<Text>>, Append;
    }
}

section! {
    /// Takes tokens, passwords and keys out of what changes hands.
    pub struct Secrets {
        /// Whether secrets are looked for at all. Switching it off has to be written out.
        enabled ("enabled"): Setting<bool> = true, Raise;
        /// What becomes of them in the results of tools.
        results ("results"): Setting<SpanAction> = SpanAction::Redact, Raise;
        /// What becomes of them in what the model answers.
        answers ("answers"): Setting<SpanAction> = SpanAction::Redact, Raise;
        /// What becomes of them in the messages and the system prompt that the model reads.
        prompts ("prompts"): Setting<SpanAction> = SpanAction::Report, Raise;
        /// What becomes of a call whose arguments hold one, other than a placeholder.
        arguments ("arguments"): Setting<ArgumentAction> = ArgumentAction::Off, Raise;
        /// What becomes of single kinds, such as `github_token`, in all these places. `backstop scan` names the kinds.
        kinds ("kinds"): Entries<Name, Spanned<SpanAction>>, OperatorOnly;
        /// Further formats: paths of files with entries, or entries written in place.
        formats ("formats"): Vec<Pack>, OperatorOnly;
        /// The tools that are given the values of placeholders. Whoever writes a placeholder into the arguments of such a
        /// tool has the value sent there.
        restore_in ("restore_in"): Option<Spanned<ToolSet>>, OperatorOnly;
    }
}

section! {
    /// Takes personal data out of what changes hands: cards, accounts, national numbers, addresses.
    pub struct PersonalData {
        /// Whether personal data is looked for at all. Switching it off has to be written out.
        enabled ("enabled"): Setting<bool> = true, Raise;
        /// What becomes of it in the results of tools.
        results ("results"): Setting<SpanAction> = SpanAction::Report, Raise;
        /// What becomes of it in what the model answers.
        answers ("answers"): Setting<SpanAction> = SpanAction::Report, Raise;
        /// What becomes of it in the messages and the system prompt that the model reads.
        prompts ("prompts"): Setting<SpanAction> = SpanAction::Off, Raise;
        /// What becomes of a call whose arguments hold some.
        arguments ("arguments"): Setting<ArgumentAction> = ArgumentAction::Off, Raise;
        /// What becomes of single kinds, such as `iban`, in all these places. `backstop scan` names the kinds.
        kinds ("kinds"): Entries<Name, Spanned<SpanAction>>, OperatorOnly;
        /// Further kinds of numbers: paths of files with entries, or entries written in place.
        formats ("formats"): Vec<Pack>, OperatorOnly;
    }
}

section! {
    /// Takes out what a model reads and a human does not see: characters without width, overrides of the writing
    /// direction, control sequences, host names of mixed alphabets.
    pub struct HiddenText {
        /// Whether hidden text is looked for at all. Switching it off has to be written out.
        enabled ("enabled"): Setting<bool> = true, Raise;
        /// What becomes of it in the results of tools.
        results ("results"): Setting<HiddenAction> = HiddenAction::Strip, Raise;
        /// What becomes of it in what the model answers.
        answers ("answers"): Setting<HiddenAction> = HiddenAction::Strip, Raise;
        /// What becomes of it in the messages and the system prompt that the model reads.
        prompts ("prompts"): Setting<HiddenAction> = HiddenAction::Report, Raise;
        /// What becomes of a call whose arguments hold some. Nothing is taken out of them: another value would be another call.
        arguments ("arguments"): Setting<ArgumentAction> = ArgumentAction::Off, Raise;
        /// What becomes of tools whose description hides text. With `strip` or `block` they are not offered.
        tools ("tools"): Setting<HiddenAction> = HiddenAction::Strip, Raise;
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
        if self.rule.is_some() || self.command.is_some() {
            return Some(());
        }
        let message = format!("{} must name a `rule`, a `command` or both", cx.subject());
        cx.report(Problem::new(ProblemKind::Conflict, self.reason.at.clone(), message));
        None
    }
}
