//! The pin: what the operator's configuration was when a person last said that it is as it should be.
//!
//! An entry in a coding agent's configuration names the operator's folders and demands the pin. A configuration that
//! is not the pinned one judges nothing: every call is refused until a person pins it again. It holds the
//! digests of the operator's file and of the files that it names (rule packs, catalogues, scripts that judge, authorities of the database's server),
//! each for itself, so that it can be said which of them changed. That there was no file is pinned, too.
//!
//! Limits: the pin is a file of the user's, so a process of the same account that writes both passes. It stands in the
//! data folder and not in the entries themselves, because Codex forgets that it trusts a hook when the hook's command
//! changes, and then runs none at all; and because agents that are running would go on with the old one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use backstop_config::{LayerKind, Loaded, Source};
use backstop_hooks::Digest;
use serde_json::Value;

use crate::locations::policy_files;

/// The largest pin that is read, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// What a configuration was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// Files by their path; `None` for one that is not there or can't be read.
    files: BTreeMap<String, Option<Digest>>,
}

/// A file that is not what was pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinDifference {
    /// The file.
    pub path: String,
    /// What happened to it.
    pub change: PinChange,
}

/// What happened to a file since it was pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinChange {
    /// Its content is another.
    Changed,
    /// It was not there, or was no part of the configuration.
    Added,
    /// It is not there, or is no part of the configuration any more.
    Gone,
}

impl PinChange {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "new",
            Self::Gone => "gone",
        }
    }
}

/// Why a pin can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// It can't be read.
    #[error("the pin of the configuration, `{}`, can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no pin.
    #[error("the pin of the configuration, `{}`, is damaged\nhint: `backstop config pin` writes it anew", .0.display())]
    Damaged(PathBuf),
}

/// The text of a file. What is longer than a policy file may be, or is no text, is a program, whose content is not pinned.
pub(crate) fn text_of(path: &Path) -> Option<String> {
    let is_short = |found: fs::Metadata| found.is_file() && found.len() <= MOST_BYTES;
    fs::metadata(path).is_ok_and(is_short).then(|| fs::read_to_string(path).ok()).flatten()
}

impl Pin {
    /// Where the pin lies in Backstop's data folder.
    #[must_use]
    pub fn path(data: &Path) -> PathBuf {
        data.join("pinned.json")
    }

    /// What these texts, and the files that the operator's names, are now. `loaded` is what the operator's text alone says.
    #[must_use]
    pub fn of(sources: &[Source], loaded: &Loaded) -> Self {
        let operators = sources.iter().filter(|source| source.kind == LayerKind::Operator);
        let texts =
            operators.map(|source| (source.name.to_string(), Some(Digest::of_text("file", &source.text))));
        let named = policy_files(loaded).into_iter().map(|path| {
            let digest = text_of(&path).map(|text| Digest::of_text("file", &text));
            (path.to_string_lossy().into_owned(), digest)
        });
        Self { files: texts.chain(named).collect() }
    }

    /// Reads a pin; `None` where nothing was pinned.
    ///
    /// # Errors
    ///
    /// [`PinError`] for a file that can't be read or is no pin.
    pub fn read(path: &Path) -> Result<Option<Self>, PinError> {
        let failed = |source| PinError::Read { path: path.to_path_buf(), source };
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if found.len() > MOST_BYTES => return Err(PinError::Damaged(path.to_path_buf())),
            Ok(_) => {}
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text).map(Some).ok_or_else(|| PinError::Damaged(path.to_path_buf()))
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let files = value.get("files")?.as_object()?.iter().map(|(path, digest)| {
            let digest = match digest {
                Value::Null => None,
                digest => Some(digest.as_str()?.parse().ok()?),
            };
            Some((path.clone(), digest))
        });
        Some(Self { files: files.collect::<Option<_>>()? })
    }

    /// As a text, for the file.
    #[must_use]
    pub fn text(&self) -> String {
        let files: serde_json::Map<String, Value> = self
            .files
            .iter()
            .map(|(path, digest)| {
                (path.clone(), digest.map_or(Value::Null, |digest| digest.to_string().into()))
            })
            .collect();
        format!("{:#}\n", serde_json::json!({ "files": files }))
    }

    /// What is different `now`.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<PinDifference> {
        let all: std::collections::BTreeSet<&String> = self.files.keys().chain(now.files.keys()).collect();
        let change = |path: &&String| {
            let (was, is) =
                (self.files.get(*path).copied().flatten(), now.files.get(*path).copied().flatten());
            let change = match (was, is) {
                (was, is) if was == is => return None,
                (None, _) => PinChange::Added,
                (_, None) => PinChange::Gone,
                _ => PinChange::Changed,
            };
            Some(PinDifference { path: (*path).clone(), change })
        };
        all.iter().filter_map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook_types::HookTypes;
    use crate::locations::load_sources;

    fn pin(sources: &[Source]) -> Pin {
        Pin::of(sources, &load_sources(sources, &HookTypes::built_in(&[]), &|_| None).unwrap())
    }

    #[test]
    fn a_pin_notices_what_changed_and_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let pack = folder.path().join("pack.json");
        fs::write(&pack, "[]").unwrap();
        let text = format!("guards: {{command_safety: {{packs: ['{}']}}}}", pack.display());
        let source = |text: &str| [Source::new(LayerKind::Operator, "/o.yaml", text)];
        let before = pin(&source(&text));
        let path = Pin::path(folder.path());
        assert_eq!(Pin::read(&path).unwrap(), None);
        fs::write(&path, before.text()).unwrap();
        assert_eq!(Pin::read(&path).unwrap(), Some(before.clone()));
        assert_eq!(before.differences(&pin(&source(&text))), []);
        let changes = |now: &Pin| -> Vec<_> {
            before.differences(now).into_iter().map(|found| (found.path, found.change)).collect()
        };
        let spaced = pin(&source(&format!("{text}\n")));
        assert_eq!(changes(&spaced), [("/o.yaml".to_owned(), PinChange::Changed)]);
        fs::write(&pack, "[ ]").unwrap();
        let pack = pack.to_string_lossy().into_owned();
        assert_eq!(changes(&pin(&source(&text))), [(pack.clone(), PinChange::Changed)]);
        let gone = [("/o.yaml".to_owned(), PinChange::Gone), (pack, PinChange::Gone)];
        assert!(gone.iter().all(|one| changes(&pin(&[])).contains(one)), "{:?}", changes(&pin(&[])));
        assert_eq!(pin(&[]).differences(&before).len(), 2, "a file where none was pinned is new");
        fs::write(&path, "{}").unwrap();
        assert!(matches!(Pin::read(&path), Err(PinError::Damaged(_))));
    }

    #[test]
    fn who_says_which_server_has_the_answers_is_pinned_and_the_password_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (authorities, password) = (folder.path().join("ca.pem"), folder.path().join("password"));
        fs::write(&authorities, "one").unwrap();
        fs::write(&password, "one").unwrap();
        let files = format!("ca_file: '{}', password_file: '{}'", authorities.display(), password.display());
        let text = format!("store: {{postgres: {{url: 'postgres://ann@db.example/db', {files}}}}}");
        let source = [Source::new(LayerKind::Operator, "/o.yaml", text.as_str())];
        let before = pin(&source);
        fs::write(&password, "other").unwrap();
        assert_eq!(before.differences(&pin(&source)), []);
        fs::write(&authorities, "other").unwrap();
        let path = authorities.to_string_lossy().into_owned();
        let changed = PinDifference { path, change: PinChange::Changed };
        assert_eq!(before.differences(&pin(&source)), [changed]);
    }

    #[test]
    fn what_a_repository_says_is_not_pinned() {
        let own = Source::new(LayerKind::Operator, "/o.yaml", "{}");
        let both = [own.clone(), Source::new(LayerKind::Repository, "/w/backstop.yaml", "{}")];
        assert_eq!(pin(&[own]).differences(&pin(&both)), []);
    }
}
