//! The built-in guards: on their own, and as hooks for an engine without a configuration.

// Commands and files.
pub use backstop_guards::{
    Access, AllowEntry, CommandGuard, Finding, GuardSettings, Judgement, PathGuard, Place, Profile, Roots,
    Rule, RuleSet, Severity, ShellKind, UnknownPolicy, Verdict, real_path, unwritable_footing,
};

pub use backstop_guards::programs::{Program, Programs, programs_of, read_programs};

// As hooks.
pub use backstop_guards::hooks::{
    ArgumentActions, COMMAND_SAFETY_ID, CommandSafety, FilePatterns, InArguments, InvalidFilePattern,
    REDACTOR_ID, RedactionSettings, SECURITY_AUDIT_ID, SecurityAudit, mask_for_people,
    register_command_safety, register_redaction, register_security_audit, seen,
};

/// Secrets, personal data and hidden text in texts.
pub mod scan {
    pub use backstop_scan::{
        Action, Catalogue, Class, Described, Edit, Evidence, Finding, Policy, Redacted, Redactor, Scanner,
        Source, Span,
    };
}
