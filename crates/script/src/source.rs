//! Where a script comes from.

use std::path::PathBuf;
use std::sync::Arc;

/// Which worker a script lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// One that it shares with others, so that a run of neighbouring functions is one message. If one of them
    /// can't be interrupted, the others are loaded again.
    #[default]
    Shared,
    /// One of its own: for scripts that nobody vouches for.
    Alone,
}

/// What was seen in a script's folder by whoever looked at it before it was loaded.
pub trait FilesSeen: Send + Sync + std::fmt::Debug {
    /// Whether the file of this name, relative to the folder and with `/` between its parts, had these bytes.
    fn holds(&self, name: &str, bytes: &[u8]) -> bool;

    /// The SHA-256 of the bytes that the file of this name had, for whoever reads it where this can't be asked with all of them. Nothing of
    /// what has none here is taken there.
    fn digest(&self, name: &str) -> Option<[u8; 32]> {
        let _ = name;
        None
    }
}

/// A script: a folder with modules, and where to begin.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    /// What messages call it.
    pub name: Arc<str>,
    /// Its folder. No module outside of it is loaded, not through links either.
    pub root: PathBuf,
    /// The module to begin with, relative to the folder.
    pub entry: String,
    /// A module of the embedding program that is evaluated instead, with `import.meta.host`. It imports the
    /// script's entry as `script:entry`, so that what has to happen at each load is in one place.
    pub boot: Option<Arc<str>>,
    /// Where it lives.
    pub placement: Placement,
    /// Whether its runtime is made once. When that has ended, each call fails with the reason, and nothing of the script runs any more.
    pub once: bool,
    /// What its modules and packages are held against when they are read, if somebody looked at them before.
    pub seen: Option<Arc<dyn FilesSeen>>,
}

impl ScriptSource {
    /// The script in `root` that begins with `entry`.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, root: impl Into<PathBuf>, entry: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            root: root.into(),
            entry: entry.into(),
            boot: None,
            placement: Placement::Shared,
            once: false,
            seen: None,
        }
    }

    /// With what was seen in its folder: no module is loaded that was not.
    #[must_use]
    pub fn seen(mut self, seen: Arc<dyn FilesSeen>) -> Self {
        self.seen = Some(seen);
        self
    }

    /// With a runtime that is made once.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// With a boot module.
    #[must_use]
    pub fn boot(mut self, source: impl Into<Arc<str>>) -> Self {
        self.boot = Some(source.into());
        self
    }

    /// At another place.
    #[must_use]
    pub fn placed(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }
}
