//! What a write changes: scripts of a package that run automatically, or nothing at all.
//!
//! A package's file is written all day, and most of it starts nothing. The scripts that its manager runs automatically do.

use backstop_hooks::Sight;
use backstop_shell::Looked;
use serde_json::Value;

use super::command::{MAX_FILE, look};
use super::extract::FileUse;
use crate::{Access, Finding, Judgement, Severity, Verdict};

/// Scripts that npm, pnpm, Yarn and Bun run without being told to (npm 10, "scripts", life cycle).
const LIFE_CYCLE: [&str; 11] = [
    "preinstall",
    "install",
    "postinstall",
    "preprepare",
    "prepare",
    "postprepare",
    "prepublish",
    "prepublishOnly",
    "prepack",
    "postpack",
    "dependencies",
];

/// Returns the question about a write that changes what the manager of a package runs by itself.
///
/// `held` reads the text of a file.
pub(super) fn changes_scripts(
    used: &FileUse,
    path: &str,
    held: &dyn Fn(&str) -> Option<String>,
) -> Option<Judgement> {
    if used.access == Access::Read || !path.ends_with("/package.json") || path.contains("/node_modules/") {
        return None;
    }
    let written = used.content.as_deref().map(|text| (scripts(text), text));
    let changed = match (written, used.inserted.as_deref()) {
        (Some((Some(new), _)), _) => {
            let old = held(path).as_deref().and_then(scripts).unwrap_or_default();
            new.iter().any(|script| !old.contains(script))
        }
        // No JSON, or a piece of it: a name is all there is to go by.
        (Some((None, text)), _) | (None, Some(text)) => {
            LIFE_CYCLE.iter().any(|name| text.contains(&format!("\"{name}\"")) && *name != "dependencies")
        }
        (None, None) => false,
    };
    changed.then(|| {
        let finding = Finding {
            rule_id: "path.package-scripts".to_owned(),
            severity: Severity::Warning,
            verdict: Verdict::Ask,
            reason: "this changes what the manager of packages runs by itself".to_owned(),
            code: "PATH_PACKAGE_SCRIPTS".to_owned(),
            alternative: None,
            what: path.to_owned(),
            about: vec![path.to_owned()],
            process: None,
            allowed_by: None,
        };
        Judgement { verdict: Verdict::Ask, findings: vec![finding], ..Judgement::default() }
    })
}

/// Returns the scripts of the life cycle, by name and text.
fn scripts(text: &str) -> Option<Vec<(String, Value)>> {
    let package: Value = serde_json::from_str(text).ok()?;
    let scripts = package.get("scripts").and_then(Value::as_object);
    let of_cycle = scripts.into_iter().flatten().filter(|(name, _)| LIFE_CYCLE.contains(&name.as_str()));
    Some(of_cycle.map(|(name, text)| (name.clone(), text.clone())).collect())
}

/// Returns whether the file holds what would be written; `held` reads its text.
pub(super) fn holds_already(used: &FileUse, path: &str, held: &dyn Fn(&str) -> Option<String>) -> bool {
    let whole = used.access == Access::Write && used.inserted.is_none();
    whole && used.content.is_some() && used.content == held(path)
}

/// Returns the text of a plain file of a bounded size, opened once.
pub(super) fn held(path: &str, sight: &Sight) -> Option<String> {
    match look(path, sight) {
        Looked::Text(text) if text.len() as u64 <= MAX_FILE => Some(text),
        Looked::Text(_) | Looked::Missing | Looked::Unreadable => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(path: &str) -> Option<String> {
        held(path, &Sight::default())
    }

    fn used(access: Access, content: Option<&str>, inserted: Option<&str>) -> FileUse {
        FileUse {
            path: String::new(),
            access,
            content: content.map(str::to_owned),
            inserted: inserted.map(str::to_owned),
        }
    }

    #[test]
    fn scripts_that_run_by_themselves_are_asked_about_when_they_change() {
        let folder = std::env::temp_dir().join(format!("backstop-package-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let file = folder.join("package.json");
        std::fs::write(&file, r#"{"scripts": {"prepare": "husky", "test": "jest"}}"#).expect("a file");
        let path = file.to_str().expect("a plain path");
        let asks = |used: &FileUse, path: &str| changes_scripts(used, path, &here).is_some();
        let writes = |text: &str| used(Access::Write, Some(text), None);
        assert!(!asks(&writes(r#"{"scripts": {"prepare": "husky", "test": "vitest"}}"#), path));
        assert!(asks(&writes(r#"{"scripts": {"prepare": "./x"}}"#), path));
        assert!(asks(&writes(r#"{"scripts": {"prepare": "husky", "postinstall": "./x"}}"#), path));
        assert!(!asks(&writes(r#"{"scripts": {"build": "tsc"}}"#), "/work/other/package.json"));
        assert!(asks(&writes(r#"{"scripts": {"install": "x"}}"#), "/work/other/package.json"));
        assert!(!asks(&writes(r#"{"scripts": {"install": "x"}}"#), "/work/other/notes.json"));
        assert!(asks(&used(Access::Edit, None, Some(r#""postinstall": "./x""#)), path));
        assert!(!asks(&used(Access::Edit, None, Some(r#""lodash": "4""#)), path));
        assert!(!asks(&used(Access::Read, None, None), path));
        std::fs::remove_dir_all(&folder).expect("the folder goes away");
    }

    #[test]
    fn what_a_file_holds_already_is_no_change() {
        let file = std::env::temp_dir().join(format!("backstop-same-{}", std::process::id()));
        std::fs::write(&file, "same").expect("a file");
        let path = file.to_str().expect("a plain path");
        assert!(holds_already(&used(Access::Write, Some("same"), None), path, &here));
        assert!(!holds_already(&used(Access::Write, Some("other"), None), path, &here));
        assert!(!holds_already(&used(Access::Write, None, None), path, &here));
        std::fs::remove_file(&file).expect("the file goes away");
        assert!(!holds_already(&used(Access::Write, Some("same"), None), path, &here));
    }
}
