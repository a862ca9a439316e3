//! The file guard as hooks.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use backstop_hooks::points::{BeforeToolCall, ToolBefore, ToolBeforeEvent, ToolCallEvent};
use backstop_hooks::{Answer, Context, Digest, Fact, Hook, HookError, Params, Reason, ToolName};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::extract::file_uses;
use super::package;
use super::{Objection, place, question, reason, rules, stopping};
use crate::{Finding, Judgement, PathGuard, Severity, Verdict};

/// The id of the file guard.
pub const SECURITY_AUDIT_ID: &str = "builtin:security-audit";

/// Paths by glob pattern. A pattern that begins with `/` or `~/` matches the whole path, any other matches
/// the end of a path, below any folder.
#[derive(Clone, Debug)]
pub struct FilePatterns(GlobSet);

/// An invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is no path pattern: {why}")]
pub struct InvalidFilePattern {
    pattern: String,
    why: String,
}

impl FilePatterns {
    /// Compiles patterns; `home` is what `~` stands for.
    ///
    /// # Errors
    ///
    /// [`InvalidFilePattern`].
    pub fn new<'a>(
        patterns: impl IntoIterator<Item = &'a str>,
        home: Option<&str>,
    ) -> Result<Self, InvalidFilePattern> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            let invalid = |error: globset::Error| InvalidFilePattern {
                pattern: pattern.to_owned(),
                why: error.kind().to_string(),
            };
            let whole = match (pattern.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => format!("{home}/{rest}"),
                _ if pattern.starts_with('/') => pattern.to_owned(),
                _ => format!("**/{pattern}"),
            };
            set.add(GlobBuilder::new(&whole).literal_separator(true).build().map_err(invalid)?);
            // A folder stands for what is in it.
            let inside = format!("{}/**", whole.trim_end_matches('/'));
            set.add(GlobBuilder::new(&inside).literal_separator(true).build().map_err(invalid)?);
        }
        let invalid = |error: globset::Error| InvalidFilePattern {
            pattern: "all patterns together".to_owned(),
            why: error.kind().to_string(),
        };
        set.build().map(Self).map_err(invalid)
    }

    /// Returns the pattern of this path, whatever characters are in it.
    #[must_use]
    pub fn of_path(path: &str) -> String {
        globset::escape(path)
    }

    fn matches(&self, path: &str) -> bool {
        self.0.is_match(Path::new(path))
    }
}

/// The file guard, ready to be registered.
#[derive(Clone, Debug)]
pub struct SecurityAudit {
    guard: PathGuard,
    /// Each with when it ends, in seconds since 1970.
    allow: Vec<(FilePatterns, Option<u64>)>,
    deny: FilePatterns,
    home: Option<Arc<str>>,
}

impl SecurityAudit {
    /// Creates the guard, with the operator's exceptions and additions. Each exception has when it ends, in seconds since 1970, or none if it
    /// holds for good: that is looked at for each call, since a guard may be older than that.
    pub fn new(
        guard: PathGuard,
        allow: Vec<(FilePatterns, Option<u64>)>,
        deny: FilePatterns,
        home: Option<&str>,
    ) -> Self {
        Self { guard, allow, deny, home: home.map(Arc::from) }
    }

    /// Whether the operator excepts a path at that moment.
    fn allows(&self, path: &str, now: u64) -> bool {
        self.allow.iter().any(|(allow, end)| end.is_none_or(|end| now < end) && allow.matches(path))
    }

    fn judge(&self, tool: &ToolName, params: &Params, cx: Context<'_>) -> Result<Vec<Judgement>, HookError> {
        let place = place(cx.call, self.home.as_deref(), None);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // What a file holds is looked at by guards that may look at files, and the answer rests on it.
        let held = |path: &str| {
            if !self.guard.looks_at_files() {
                return None;
            }
            let sight = cx.call.sight.clone();
            let text = package::held(path, &sight);
            let at = path.to_owned();
            cx.rests_on(Fact::new(Digest::of("holds", &text), move || {
                Digest::of("holds", &package::held(&at, &sight))
            }));
            text
        };
        let judged = file_uses(tool, params)
            .map_err(HookError::failed)?
            .iter()
            .map(|used| {
                let meanings = self.guard.meanings(&used.path, &place);
                if self.guard.looks_at_files() {
                    let (guard, path, place) = (self.guard.clone(), used.path.clone(), place.clone());
                    let leads = move || Digest::of("leads-to", &guard.meanings(&path, &place).paths);
                    cx.rests_on(Fact::new(Digest::of("leads-to", &meanings.paths), leads));
                }
                if let Some(denied) = meanings.paths.iter().find(|path| self.deny.matches(path)) {
                    return denied_by_operator(denied);
                }
                // Every meaning must be allowed: an allowed name that leads elsewhere is not.
                let allowed = meanings.paths.iter().all(|path| self.allows(path, now));
                if allowed && !meanings.paths.is_empty() && !meanings.too_long && !meanings.endless {
                    return Judgement::default();
                }
                let mut judged = self.guard.judge_meanings(&meanings, used.access, &place);
                if let Some(finding) =
                    meanings.paths.iter().find_map(|path| package::changes_scripts(used, path, &held))
                {
                    judged.add(finding);
                }
                // What is there already is no change.
                let same = judged.verdict == Verdict::Ask
                    && meanings.paths.iter().all(|path| package::holds_already(used, path, &held));
                if same { Judgement::default() } else { judged }
            })
            .collect();
        Ok(judged)
    }
}

fn denied_by_operator(path: &str) -> Judgement {
    let finding = Finding {
        rule_id: "path.denied".to_owned(),
        severity: Severity::Critical,
        verdict: Verdict::Block,
        reason: "the configuration keeps everybody out of this file".to_owned(),
        code: "PATH_DENIED".to_owned(),
        alternative: None,
        what: path.to_owned(),
        about: vec![path.to_owned()],
        process: None,
        allowed_by: None,
    };
    Judgement { verdict: Verdict::Block, findings: vec![finding], unknown: Vec::new(), processes: Vec::new() }
}

/// Returns why the call is stopped, if it is.
fn stopped_by(judgements: &[Judgement]) -> Option<Reason> {
    let stopped: Vec<_> = judgements.iter().flat_map(stopping).collect();
    let finding = stopped.first()?;
    Some(Reason::new(format!("access denied: {}", reason(finding))).by(rules(&stopped)))
}

impl SecurityAudit {
    /// Returns what there is against a call.
    fn object(
        &self,
        tool: &ToolName,
        params: &Params,
        cx: Context<'_>,
    ) -> Result<Option<Objection>, HookError> {
        let judgements = self.judge(tool, params, cx)?;
        if let Some(reason) = stopped_by(&judgements) {
            return Ok(Some(Objection::Stop(reason)));
        }
        let asked: Vec<_> =
            judgements.into_iter().filter(|judgement| judgement.verdict == Verdict::Ask).collect();
        let findings: Vec<_> = asked.iter().flat_map(|judgement| &judgement.findings).collect();
        let ask = || Objection::Ask(question("touch a file that needs a look", &findings, &[], &[]));
        Ok((!asked.is_empty()).then(ask))
    }
}

impl Hook<ToolBefore> for SecurityAudit {
    fn call<'a>(&'a self, event: &'a ToolBeforeEvent, cx: Context<'a>) -> Answer<'a, ToolBefore> {
        let found = self.object(&event.tool_name, &event.args, cx);
        Answer::Now(found.map(|found| found.map(Into::into)))
    }
}

impl Hook<BeforeToolCall> for SecurityAudit {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        let found = self.object(&event.tool_name, &event.params, cx);
        Answer::Now(found.map(|found| found.map(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn an_exception_is_over_when_its_end_passes_between_two_judgements() {
        let patterns = |pattern: &str| FilePatterns::new([pattern], None).unwrap();
        let allow = vec![(patterns("ends/*.pem"), Some(100)), (patterns("stays/*.pem"), None)];
        let none = FilePatterns::new([], None).unwrap();
        let guard = SecurityAudit::new(PathGuard::new(Profile::Standard), allow, none, None);
        let (ends, stays) = ("/work/ends/a.pem", "/work/stays/a.pem");
        assert!(guard.allows(ends, 99) && guard.allows(stays, 99));
        assert!(!guard.allows(ends, 100) && guard.allows(stays, 100));
        assert!(!guard.allows("/work/other/a.pem", 99));
    }
}
