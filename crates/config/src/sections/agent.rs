//! `agent`: the agent that `backstop agent` runs.

use crate::config_value::section;
use crate::place::{Setting, Spanned};
use crate::text::Text;
use crate::values::{CriticalAt, Millis, Name, Notify, Temperature, Thinking, ToolSet, Verbose, Whole};

section! {
    /// The agent that `backstop agent` runs.
    pub struct Agent {
        /// The model's name, as its provider knows it.
        model ("model"): Option<Spanned<Text>>, OperatorOnly;
        /// The provider, one of the names under `providers`.
        provider ("provider"): Option<Spanned<Name>>, OperatorOnly;
        /// Replaces the built-in system prompt.
        system_prompt ("system_prompt"): Option<Spanned<Text>>, OperatorOnly;
        /// The folder that tools may touch. Without it, the working directory.
        workspace ("workspace"): Option<Spanned<Text>>, OperatorOnly;
        /// The tools the agent may use, by name or `group:<name>`. Without it, all of them; `[]` means none.
        tools ("tools"): Option<Spanned<ToolSet>>, Narrow;
        /// The most model calls in one turn.
        max_iterations ("max_iterations"): Setting<Whole<1, 1_000>> = Whole::clamped(50), Lower;
        /// The longest answer of one model call, in tokens.
        max_tokens ("max_tokens"): Setting<Whole<1, 1_000_000>> = Whole::clamped(8_192), Lower;
        /// The sampling temperature. Without it, the provider decides.
        temperature ("temperature"): Option<Spanned<Temperature>>, OperatorOnly;
        /// How long the model may think before it answers. Without it, the provider decides.
        thinking ("thinking"): Option<Spanned<Thinking>>, OperatorOnly;
        /// How much of the hooks' work is reported.
        verbose ("verbose"): Setting<Verbose> = Verbose::Off, OperatorOnly;
        /// How humans are asked.
        approvals ("approvals"): Approvals, OperatorOnly;
        /// How many bytes of a streamed answer are held back until they are judged. More is stricter.
        hold_back_bytes ("hold_back_bytes"): Setting<Whole<0, 1_048_576>> = Whole::clamped(512), Raise;
        /// When the conversation is shortened.
        compaction ("compaction"): Compaction, OperatorOnly;
        /// When a conversation is begun anew instead of gone on with.
        sessions ("sessions"): Expiry, OperatorOnly;
    }
}

section! {
    /// How humans are asked. A repository cannot set these: a question may say that its timeout means "allow", and a
    /// shorter one would then let a call pass unread.
    pub struct Approvals {
        /// How long a question waits for its answer, in milliseconds, unless the hook that asks says otherwise.
        timeout ("timeoutMs"): Setting<Millis> = Millis::clamped(120_000), OperatorOnly;
        /// Whether a run without a terminal waits for an answer from elsewhere. Otherwise the call is denied at once.
        wait ("wait"): Setting<bool> = false, OperatorOnly;
        /// Whether a person sits at coding agents that can't say so themselves (all but Claude Code), and would see their
        /// question. Otherwise such an agent is not told to ask: the call waits here, or is denied.
        attended ("attended"): Setting<bool> = false, OperatorOnly;
        /// How a person is told that a question waits: on the desktop, or by bytes to the terminal of `backstop run`, which are
        /// in the midst of what the program there writes. Outside of `backstop run` those are written nowhere, and nobody is told.
        notify ("notify"): Setting<Notify> = Notify::Desktop, OperatorOnly;
        /// Whether questions, answers and grants are kept in the memory of the process that asks (`serve`, `run`, `agent`) and
        /// end with it. What another program writes into the database then answers nothing.
        strict ("strict"): Setting<bool> = false, OperatorOnly;
        /// Where what is critical is allowed, if `backstop agent` asks on a terminal: in another one with
        /// `backstop approvals`, since what an agent runs can type into its own, or `here`, too.
        critical ("critical"): Setting<CriticalAt> = CriticalAt::Elsewhere, OperatorOnly;
    }
}

section! {
    /// When a conversation is begun anew instead of gone on with. A repository cannot set these: what was said would be
    /// forgotten, and what counts by session would be counted from nothing.
    pub struct Expiry {
        /// After so many minutes in which nothing happened. Without it, never.
        idle_minutes ("idle_minutes"): Option<Spanned<Whole<1, 525_600>>>, OperatorOnly;
        /// At this hour of each day, in UTC. Without it, never.
        daily_hour ("daily_hour"): Option<Spanned<Whole<0, 23>>>, OperatorOnly;
    }
}

section! {
    /// When the conversation is shortened.
    pub struct Compaction {
        /// Whether it is shortened at all.
        enabled ("enabled"): Setting<bool> = true, OperatorOnly;
        /// The estimated size of the conversation, in tokens, from which it is shortened.
        trigger_tokens ("trigger_tokens"): Setting<Whole<1_000, 10_000_000>> = Whole::clamped(120_000), OperatorOnly;
        /// How many of the latest turns are kept as they are.
        keep_turns ("keep_turns"): Setting<Whole<1, 1_000>> = Whole::clamped(4), OperatorOnly;
    }
}
