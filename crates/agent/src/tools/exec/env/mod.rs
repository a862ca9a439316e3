//! Which environment variables a command gets.
//!
//! Many programs run other code, talk to other hosts or reveal what they do when a variable tells them to. A hook
//! or a model that may set any variable may therefore run anything, whatever command was judged. Two rules:
//!
//! - [`filter_inherited`]: what a command gets from the operator's environment. Variables that inject code are
//!   dropped, and so are credentials: the keys with which the agent pays its models are not for its shell. Others that may hold
//!   secrets are named by [`ToolContext::withheld`](crate::tools::ToolContext::withheld).
//! - [`filter_overrides`]: what a model or a hook may set on top. Stricter; what was dropped is told, with why.
//!
//! An operator who wants a variable in the shell nevertheless puts it in
//! [`ToolContext::exec_env`](crate::tools::ToolContext::exec_env), which is not filtered.

mod names;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use backstop_shell::variables::{self, Influence};
use names::{INHERITED, NEVER, NOT_SET, NOT_SET_PREFIXES, PROVIDER_PREFIXES, SECRET_SUFFIXES};

const MAX_NAME_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 32 * 1024;

/// Transports that git itself always allows; a policy that allows more is cut down to these.
const GIT_TRANSPORTS: [&str; 4] = ["http", "https", "git", "ssh"];

/// Why a variable is kept from a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Harm {
    /// The name is not a letter or `_` followed by letters, digits and `_`, or is too long.
    Name,
    /// The value holds a NUL, or is too long.
    Value,
    /// It decides which programs are found.
    SearchPath,
    /// It makes a shell read or do something else.
    Shell,
    /// It makes the system load other libraries, or reveals connections.
    Loader,
    /// It names a program that others start.
    Program,
    /// It makes version control work on another repository, or run hooks.
    Repository,
    /// It replaces compilers and build tools, or what they are told.
    Build,
    /// It makes a language runtime load other code.
    Runtime,
    /// It leads connections, certificates or downloads elsewhere.
    Network,
    /// It leads programs to another home or configuration.
    Folder,
    /// It is, or points to, a secret.
    Credential,
    /// It is reserved for this program.
    Reserved,
}

impl From<Influence> for Harm {
    fn from(influence: Influence) -> Self {
        match influence {
            Influence::SearchPath => Self::SearchPath,
            Influence::Shell => Self::Shell,
            Influence::Loader => Self::Loader,
            Influence::Program => Self::Program,
            Influence::Build => Self::Build,
            Influence::Runtime => Self::Runtime,
            Influence::Packages => Self::Network,
        }
    }
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "is not a valid name",
            Self::Value => "has a value that is too long or holds a NUL",
            Self::SearchPath => "decides which programs are found",
            Self::Shell => "changes what a shell does",
            Self::Loader => "changes what programs load",
            Self::Program => "names a program that others start",
            Self::Repository => "changes what version control works on",
            Self::Build => "replaces build tools or their orders",
            Self::Runtime => "makes a language runtime load other code",
            Self::Network => "leads connections or downloads elsewhere",
            Self::Folder => "leads programs to another configuration",
            Self::Credential => "is or names a credential",
            Self::Reserved => "is reserved",
        })
    }
}

/// A variable that was not set. It does not hold the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The name, as it was given.
    pub name: String,
    /// Why.
    pub harm: Harm,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", crate::tools::text::clip(&self.name, 64), self.harm)
    }
}

/// What may be set of `overrides`, and what may not. Names are trimmed.
#[must_use]
pub fn filter_overrides(overrides: &BTreeMap<String, String>) -> (BTreeMap<String, String>, Vec<Dropped>) {
    let mut kept = BTreeMap::new();
    let mut dropped = Vec::new();
    for (given, value) in overrides {
        let name = given.trim();
        match harm_of_override(name, value) {
            None => {
                kept.insert(name.to_owned(), value.clone());
            }
            Some(harm) => dropped.push(Dropped { name: given.clone(), harm }),
        }
    }
    (kept, dropped)
}

fn harm_of_override(name: &str, value: &str) -> Option<Harm> {
    if !is_name(name) {
        return Some(Harm::Name);
    }
    if value.len() > MAX_VALUE_BYTES || value.contains('\0') {
        return Some(Harm::Value);
    }
    let upper = name.to_ascii_uppercase();
    // Switching a pager off is harmless and often wanted.
    if matches!(upper.as_str(), "PAGER" | "GIT_PAGER") && matches!(value, "" | "cat") {
        return None;
    }
    harm_always(&upper)
        .or_else(|| harm_in(NOT_SET, &upper))
        .or_else(|| harm_by_prefix(NOT_SET_PREFIXES, &upper))
}

/// What a command gets of the variables of this program.
pub fn filter_inherited(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<OsString, OsString> {
    variables
        .into_iter()
        .filter_map(|(name, value)| {
            // A name that is not text is on no list; it is not needed either.
            let upper = name.to_str()?.to_ascii_uppercase();
            let value = inherited_value(&upper, value)?;
            Some((name, value))
        })
        .collect()
}

fn inherited_value(upper: &str, value: OsString) -> Option<OsString> {
    match upper {
        // Dropping these would loosen what the operator has tightened.
        "GIT_ALLOW_PROTOCOL" => {
            let allowed = value.to_str()?.split(':').filter(|transport| GIT_TRANSPORTS.contains(transport));
            Some(allowed.collect::<Vec<_>>().join(":").into())
        }
        "GIT_PROTOCOL_FROM_USER" => Some("0".into()),
        _ => {
            let harmless =
                harm_always(upper).is_none() && harm_in(NOT_SET, upper).is_none() && !is_secret(upper);
            (INHERITED.contains(&upper) || harmless).then_some(value)
        }
    }
}

fn harm_always(upper: &str) -> Option<Harm> {
    harm_in(NEVER, upper).or_else(|| variables::of(upper).map(|(influence, _)| influence.into()))
}

fn harm_in(lists: &[(Harm, &[&str])], upper: &str) -> Option<Harm> {
    lists.iter().find(|(_, names)| names.contains(&upper)).map(|(harm, _)| *harm)
}

fn harm_by_prefix(prefixes: &[(Harm, &str)], upper: &str) -> Option<Harm> {
    prefixes.iter().find(|(_, prefix)| upper.starts_with(prefix)).map(|(harm, _)| *harm)
}

fn is_secret(upper: &str) -> bool {
    PROVIDER_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
        || SECRET_SUFFIXES.iter().any(|suffix| upper.ends_with(suffix))
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME_BYTES
        && bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn override_of(name: &str, value: &str) -> Option<Harm> {
        let (kept, dropped) = filter_overrides(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        assert_eq!(kept.len() + dropped.len(), 1);
        dropped.first().map(|dropped| dropped.harm)
    }

    fn inherits(name: &str) -> bool {
        !filter_inherited([(OsString::from(name), OsString::from("x"))]).is_empty()
    }

    #[test]
    fn lists_name_each_variable_once_and_what_is_inherited_is_listed() {
        let mut all: Vec<&str> =
            NEVER.iter().chain(NOT_SET).flat_map(|(_, names)| names.iter().copied()).collect();
        all.extend(variables::names());
        let listed = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), listed);
        assert!(INHERITED.iter().all(|name| all.contains(name)));
        assert!(all.iter().all(|name| name.to_ascii_uppercase() == *name), "names are compared in capitals");
    }

    #[test]
    fn nothing_that_runs_other_code_can_be_set() {
        for name in variables::names() {
            assert!(override_of(name, "x").is_some(), "{name}");
        }
    }

    #[test]
    fn overrides_that_run_other_code_are_dropped_with_the_reason() {
        for (name, harm) in [
            ("PATH", Harm::SearchPath),
            (" path ", Harm::SearchPath),
            ("LD_PRELOAD", Harm::Loader),
            ("ld_audit", Harm::Loader),
            ("DYLD_INSERT_LIBRARIES", Harm::Loader),
            ("BASH_ENV", Harm::Shell),
            ("BASH_FUNC_ls", Harm::Shell),
            ("NODE_OPTIONS", Harm::Runtime),
            ("GIT_SSH_COMMAND", Harm::Program),
            ("GIT_CONFIG_COUNT", Harm::Repository),
            ("npm_config_registry", Harm::Network),
            ("npm_config_script_shell", Harm::Program),
            ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", Harm::Build),
            ("HOME", Harm::Folder),
            ("GITHUB_TOKEN", Harm::Credential),
            ("BACKSTOP_EXEC_ID", Harm::Reserved),
            ("A=B", Harm::Name),
            ("1A", Harm::Name),
            ("BASH_FUNC_ls%%", Harm::Name),
            ("", Harm::Name),
        ] {
            assert_eq!(override_of(name, "x"), Some(harm), "{name}");
        }
        assert_eq!(override_of("GOOD", "a\0b"), Some(Harm::Value));
        assert_eq!(override_of("GOOD", &"x".repeat(MAX_VALUE_BYTES + 1)), Some(Harm::Value));
    }

    #[test]
    fn ordinary_overrides_are_kept() {
        for (name, value) in [
            ("RUST_LOG", "debug"),
            ("CI", ""),
            ("PAGER", "cat"),
            ("GIT_PAGER", ""),
            ("CARGO_TARGET_DIR", "t"),
        ] {
            assert_eq!(override_of(name, value), None, "{name}");
        }
        assert_eq!(override_of("PAGER", "less"), Some(Harm::Program));
        let (kept, _) = filter_overrides(&BTreeMap::from([(" A ".to_owned(), " x ".to_owned())]));
        assert_eq!(kept, BTreeMap::from([("A".to_owned(), " x ".to_owned())]));
    }

    #[test]
    fn model_keys_and_secrets_are_not_inherited() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "GEMINI_API_KEY",
            "SOME_VENDOR_API_KEY",
            "github_token",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "LD_PRELOAD",
            "BASH_ENV",
        ] {
            assert!(!inherits(name), "{name}");
        }
        for name in
            ["PATH", "HOME", "LANG", "TERM", "HTTPS_PROXY", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "USER"]
        {
            assert!(inherits(name), "{name}");
        }
    }

    #[test]
    fn git_transport_policy_is_only_tightened() {
        let filtered = filter_inherited([
            ("GIT_ALLOW_PROTOCOL".into(), "https:ext:ssh".into()),
            ("GIT_PROTOCOL_FROM_USER".into(), "1".into()),
        ]);
        assert_eq!(filtered.get(&OsString::from("GIT_ALLOW_PROTOCOL")), Some(&"https:ssh".into()));
        assert_eq!(filtered.get(&OsString::from("GIT_PROTOCOL_FROM_USER")), Some(&"0".into()));
    }

    #[test]
    fn a_dropped_variable_is_shown_without_its_value() {
        let secret = ["s3", "cret"].concat();
        let (_, dropped) = filter_overrides(&BTreeMap::from([("GH_TOKEN".to_owned(), secret.clone())]));
        assert_eq!(dropped[0].to_string(), "`GH_TOKEN` is or names a credential");
        assert!(!format!("{dropped:?}").contains(&secret));
    }

    proptest! {
        #[test]
        fn nothing_kept_is_on_a_list_in_any_case(name in "[A-Za-z_]{1,4}", listed in any::<prop::sample::Index>(), lower in any::<bool>()) {
            let own = NEVER.iter().chain(NOT_SET).flat_map(|(_, names)| names.iter().copied());
            let all: Vec<&str> = own.chain(variables::names()).collect();
            let bad = listed.get(&all);
            let bad = if lower { bad.to_lowercase() } else { (*bad).to_owned() };
            let given = BTreeMap::from([(name.clone(), "x".to_owned()), (bad.clone(), "x".to_owned())]);
            let (kept, dropped) = filter_overrides(&given);
            prop_assert!(!kept.contains_key(&bad));
            prop_assert_eq!(kept.len() + dropped.len(), given.len());
        }
    }
}
