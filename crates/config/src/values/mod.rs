//! Leaf values: numbers with a range, words from a list, texts, names, dates, tool sets.
//!
//! A leaf's type carries its range, so a value that exists is a value that is allowed.

mod names;
mod numbers;
mod texts;
mod words;

pub use names::{FolderName, Name, ToolPattern, ToolSet};
pub use numbers::{Millis, Money, Priority, Ratio, Temperature, Whole};
pub(crate) use texts::plain_text;
pub use texts::{ExpiryDate, TimeOfDay, Zone};
pub use words::{
    AnswerWord, Api, ArgumentAction, AskedSeverity, AwsSource, Barred, BudgetPer, BudgetWindow, CloudName,
    CommandDialect, ConsoleScope, CriticalAt, DaemonFailure, GoogleSource, HiddenAction, HookMode,
    IssuerAlgorithm, LiveApprovals, LiveBlock, LiveCalls, LiveText, LoopAction, MailEncryption, Notify,
    OnFailure, Outside, PersonClaim, PluginRuntime, Profile, QuietUnless, RewriteChoice, SandboxMode,
    SandboxWrite, SpanAction, SurfaceAnswers, Thinking, UnjudgedMedia, Unknown, Verbose,
};
