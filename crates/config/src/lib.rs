//! `backstop.yaml`: reading, checking and layering the configuration.
//!
//! An invalid configuration must not load, because a policy file that is silently half-read protects less than its
//! author believes. Unknown keys, unknown names, empty hook lists, values outside their range and unset variables are
//! errors. Every problem of every file is reported at once, with file, line, column and the nearest known word.
//!
//! # Layers, and the threat behind them
//!
//! An agent is started in folders that other people wrote. A cloned repository may contain a `backstop.yaml` whose author
//! wants the guards disabled, the model traffic and its key sent to another server, tool arguments posted to a webhook,
//! secrets of the environment pulled into a message, or a plugin loaded. There are therefore two kinds of files
//! ([`LayerKind`]):
//!
//! - the *operator's* file can set everything. It is the one given explicitly, or the one in the user's configuration
//!   folder; never one that was merely found in the working directory, even if there is no other.
//! - a *repository's* file, found in the working directory or above it, can only tighten. Each key names its rule, and
//!   anything else that a file says is [`Dropped`], with its place and the reason, for the host to show. Values of keys
//!   that only the operator can set are not even read. `${VAR}` is refused in values that are read.
//!
//! The law, enforced by a property test: **adding a repository file never makes the result more permissive.**
//!
//! # Limits
//!
//! Files have up to 1 MiB, 20 000 values and 64 levels; one document; no YAML anchors, aliases, tags or merge keys. A hook
//! type or a plugin checks its own options; [`Options::place_of`] lets it name the line.
//!
//! # Example
//!
//! ```
//! use backstop_config::{KnownNames, LayerKind, Loader, Source};
//!
//! let names = KnownNames::default();
//! let environment = |name: &str| std::env::var(name).ok();
//! let text = "guards:\n  command_safety:\n    profil: strict\n";
//! let sources = [Source::new(LayerKind::Operator, "backstop.yaml", text)];
//! let error = Loader::new(&names, &environment).load(&sources).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "error: unknown key `profil`\n  --> backstop.yaml:3:5\n  hint: did you mean `profile`?"
//! );
//! ```

pub mod account;
mod config_value;
mod discover;
mod hosts;
mod load;
mod names;
mod options;
mod place;
mod problem;
mod reader;
mod readings;
mod rules;
mod schema;
mod secret_source;
mod sections;
mod text;
mod trust;
mod values;

pub use backstop_yaml::Node;
pub use config_value::Entries;
pub use discover::{FILE_NAMES, Locations, Source};
pub use hosts::{Host, HostRule};
pub use load::{Loaded, Loader};
pub use names::{HookSlot, HookType, InRepository, KnownNames};
pub use options::{Options, Pack};
pub use place::{Allowed, Place, Setting, Spanned};
pub use problem::{ConfigError, Problem, ProblemKind};
pub use reader::{Dropped, LayerKind};
pub use readings::Readings;
pub use schema::{reference, schema};
pub use secret_source::{SecretOrigin, SecretSource};
pub use sections::{
    Agent, AllowCommand, AllowPath, Answering, ApiCallback, ApprovalRoute, ApprovalWhen, Approvals, AskWhom,
    AskingLimits, Audit, AuditWitness, Budget, Budgets, CallerBudget, CallerQuota, Chain, ChainedHook,
    ChatId, ClaimText, ClaimValue, CommandSafety, Compaction, Config, Daemon, Days, EmailSurface, Escalate,
    Expiry, Gateway, GatewayAgent, GatewayApi, GatewayConsole, GatewayHooks, GatewayIdentity, GatewayIssuer,
    GatewayLimits, GatewayOidc, GatewayOperation, GatewayOperators, GatewayProviders, GatewayQuotas,
    GatewayRoute, GatewayTimeouts, GatewayTls, GatewayUser, GatewayWebSockets, GatewayWitness, Guards,
    HiddenText, HookAuthorization, HookEntry, Hooks, HooksAt, KeptApprovals, KeptAudit, KeptSessions,
    KeptTranscripts, Listen, ListenHere, LlmCallHooks, Loops, ModelAccess, Most, NtfySurface, Person,
    PersonalData, PlacedHook, PluginEntry, PluginFiles, PluginGrants, PluginHooks, Plugins, PointHook,
    PointHooks, Price, Provider, QuietHours, Retention, Sandbox, Secrets, SensitiveFiles, SlackSurface,
    Store, StorePostgres, Surfaces, Tape, TelegramSurface, Telemetry, ToolCallHooks, Traces, WEB_PUSH,
    WebPushSurface, WebhookSurface, WitnessKind,
};
pub use text::{Environment, Secret, SecretFile, Text};
pub use trust::{Untrusted, open_operators, open_owned, open_with_place, operators_folder};
pub use values::{
    AnswerWord, Api, ArgumentAction, AskedSeverity, AwsSource, Barred, BudgetPer, BudgetWindow, CloudName,
    CommandDialect, ConsoleScope, CriticalAt, DaemonFailure, ExpiryDate, FolderName, GoogleSource,
    HiddenAction, HookMode, IssuerAlgorithm, LiveApprovals, LiveBlock, LiveCalls, LiveText, LoopAction,
    MailEncryption, Millis, Money, Name, Notify, OnFailure, Outside, PersonClaim, PluginRuntime, Priority,
    Profile, QuietUnless, Ratio, RewriteChoice, SandboxMode, SandboxWrite, SpanAction, SurfaceAnswers,
    Temperature, Thinking, TimeOfDay, ToolPattern, ToolSet, UnjudgedMedia, Unknown, Verbose, Whole, Zone,
};
