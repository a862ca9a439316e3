//! Leaf values: numbers with a range, words from a list, texts, names, dates, tool sets.
//!
//! A leaf's type carries its range, so a value that exists is a value that is allowed.

mod names;
mod numbers;
mod texts;
mod words;

pub use names::{FolderName, Name, ToolPattern, ToolSet};
pub use numbers::{Millis, Money, Priority, Ratio, Temperature, Whole};
pub use texts::ExpiryDate;
pub(crate) use texts::plain_text;
pub use words::{
    AnswerWord, Api, ArgumentAction, AskedSeverity, AwsSource, Barred, BudgetPer, BudgetWindow, CloudName,
    CommandDialect, CriticalAt, DaemonFailure, GoogleSource, HiddenAction, HookMode, IssuerAlgorithm,
    LiveApprovals, LiveBlock, LiveCalls, LiveText, LoopAction, MailEncryption, Notify, OnFailure, Outside,
    PluginRuntime, Profile, RewriteChoice, SandboxMode, SandboxWrite, SpanAction, SurfaceAnswers, Thinking,
    UnjudgedMedia, Unknown, Verbose,
};
