//! The path guard: a path and an access in, a judgement out.

use serde::{Deserialize, Serialize};

use super::{Class, Level, class, normal, sensitive};
use crate::guard::{Finding, Judgement, Verdict};
use crate::place::Place;
use crate::rules::{Profile, Severity};

/// What a tool wants to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read it, or list it.
    Read,
    /// Create or overwrite it.
    Write,
    /// Change a part of it.
    Edit,
}

/// Judges file accesses of tools.
#[derive(Debug, Clone)]
pub struct PathGuard {
    profile: Profile,
    symlinks: bool,
}

impl PathGuard {
    /// A guard with this profile that does not look at the file system.
    pub fn new(profile: Profile) -> Self {
        Self { profile, symlinks: false }
    }

    /// Also judges what symbolic links lead to. This reads the file system.
    #[must_use]
    pub fn resolving_symlinks(mut self) -> Self {
        self.symlinks = true;
        self
    }

    /// Judges an access.
    pub fn judge(&self, path: &str, access: Access, place: &Place) -> Judgement {
        let mut findings = Vec::new();
        for resolved in self.meanings(path, place) {
            self.judge_resolved(&resolved, access, place, &mut findings);
        }
        findings.truncate(8);
        let verdict = findings.iter().map(|finding: &Finding| finding.verdict).max().unwrap_or(Verdict::Pass);
        Judgement { verdict, findings, unknown: Vec::new(), processes: Vec::new() }
    }

    /// Every path that the written one could mean.
    pub(crate) fn meanings(&self, path: &str, place: &Place) -> Vec<String> {
        if path.starts_with("http://") || path.starts_with("https://") {
            return Vec::new();
        }
        let path = path.replace('\0', "");
        let mut meanings = vec![normal::of_tool(&path, place)];
        if let Some(decoded) = normal::percent_decoded(&path) {
            meanings.push(normal::of_tool(&decoded, place));
            meanings.push(normal::lexical(&decoded, "/"));
        }
        if path.contains("..") {
            // A traversal is meant to leave; how deep the real working directory is does not matter to it.
            let from_root = normal::lexical(&path, "/");
            if super::holds_credentials(&from_root, place) {
                meanings.push(from_root);
            }
        }
        if self.symlinks {
            let real = meanings.iter().filter_map(|path| real_path(path)).collect::<Vec<_>>();
            meanings.extend(real);
        }
        meanings.dedup();
        meanings
    }

    fn judge_resolved(&self, path: &str, access: Access, place: &Place, findings: &mut Vec<Finding>) {
        let class = class::of(path, place);
        let writes = access != Access::Read;
        if let Some(entry) = sensitive::find(path, place) {
            let verdict = match (entry.level, self.profile) {
                (Level::Secret, _) => Verdict::Block,
                (Level::Private, Profile::Core) => Verdict::Pass,
                (Level::Private, _) => Verdict::Block,
                (Level::Config, Profile::Strict) => Verdict::Block,
                (Level::Config, _) if writes && self.profile != Profile::Core => Verdict::Ask,
                (Level::Config, _) => Verdict::Pass,
            };
            if verdict != Verdict::Pass {
                findings.push(found(
                    &format!("path.{}", entry.id),
                    verdict,
                    format!("this is {}", entry.what),
                    path,
                ));
            }
        }
        let standard = self.profile >= Profile::Standard;
        let top = path.matches('/').count() <= 1;
        let (rule, verdict, reason) = match class {
            Class::Device => ("path.device", Verdict::Block, "this is a raw device"),
            Class::System if writes => {
                ("path.system-write", Verdict::Block, "this belongs to the operating system")
            }
            Class::System | Class::Root if top && standard => {
                ("path.system-directory", Verdict::Ask, "this is a directory of the operating system")
            }
            Class::History if writes && standard => {
                ("path.repository-history", Verdict::Ask, "this is the history of the repository")
            }
            Class::Outside | Class::Home if writes && self.profile == Profile::Strict => {
                ("path.outside-workspace", Verdict::Ask, "this is outside the workspace")
            }
            _ => return,
        };
        findings.push(found(rule, verdict, reason.to_owned(), path));
    }
}

fn found(rule: &str, verdict: Verdict, reason: String, path: &str) -> Finding {
    Finding {
        rule_id: rule.to_owned(),
        severity: if verdict == Verdict::Block { Severity::Critical } else { Severity::Warning },
        verdict,
        reason,
        code: rule.to_uppercase().replace(['.', '-'], "_"),
        alternative: None,
        what: path.to_owned(),
        process: None,
        allowed_by: None,
    }
}

/// Where a path leads when links are followed; parts that do not exist stay as written.
fn real_path(path: &str) -> Option<String> {
    let mut existing = std::path::Path::new(path);
    let mut rest: Vec<&std::ffi::OsStr> = Vec::new();
    loop {
        if let Ok(real) = existing.canonicalize() {
            let full = rest.iter().rev().fold(real, |path, segment| path.join(segment));
            return full.to_str().map(|text| normal::lexical(text, "/"));
        }
        rest.push(existing.file_name()?);
        existing = existing.parent()?;
    }
}
