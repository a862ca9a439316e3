//! What every command starts with: where the configuration is, how to print, which hooks and store there are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop::config::{LayerKind, Loaded, Locations, Source};
use backstop::hooks::{AgentId, CallContext};
use backstop::store::{SqliteStore, Store};
use backstop::{Backstop, Builder, HookTypes, load_sources, store_path};

use crate::error::Error;
use crate::output::{Output, Style, plain};

/// The name of the agent that `backstop agent` runs, and for which calls are judged.
pub(crate) const AGENT_ID: &str = "main";

/// What holds for all commands.
#[derive(Debug)]
pub(crate) struct Global {
    /// The operator's file, if given.
    pub(crate) config: Option<PathBuf>,
    /// JSON on stdout.
    pub(crate) json: bool,
    /// No colours, whatever the terminal can do.
    pub(crate) no_color: bool,
}

/// A command's surroundings. Nothing is read or opened before a command asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    config: Option<PathBuf>,
    pub(crate) output: Output,
}

/// The environment variable of that name, if it is set and is text.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Surroundings {
    pub(crate) fn new(global: Global) -> Self {
        let no_color = global.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { config: global.config, output: Output::new(global.json, no_color) }
    }

    /// Reads the configuration, and says on stderr what repository files said without effect.
    pub(crate) fn load(&self) -> Result<Loaded, Error> {
        let loaded = self.load_quietly()?;
        let paint = self.output.talk_paint();
        for dropped in &loaded.dropped {
            let line = format!("`{}` at {} has no effect: {}", dropped.key, dropped.at, dropped.reason);
            self.output.say(&format!("{} {}", paint.with(Style::Notice, "ignored:"), plain(&line)));
        }
        Ok(loaded)
    }

    /// Reads the configuration.
    pub(crate) fn load_quietly(&self) -> Result<Loaded, Error> {
        self.load_in(&working_directory()?)
    }

    /// Reads the configuration that holds in `folder`.
    pub(crate) fn load_in(&self, folder: &Path) -> Result<Loaded, Error> {
        self.load_sources(&self.sources_in(folder)?)
    }

    /// Reads the operator's part of the configuration.
    pub(crate) fn load_operators(&self) -> Result<Loaded, Error> {
        self.load_sources(&self.sources(None)?)
    }

    /// Reads the configuration that holds in `folder`, where the operator's part was read already.
    pub(crate) fn load_over(&self, operators: Loaded, folder: &Path) -> Result<Loaded, Error> {
        let sources = self.sources_in(folder)?;
        let adds = sources.iter().any(|source| source.kind == LayerKind::Repository);
        if adds { self.load_sources(&sources) } else { Ok(operators) }
    }

    /// The texts of the configuration that holds in `folder`.
    pub(crate) fn sources_in(&self, folder: &Path) -> Result<Vec<Source>, Error> {
        self.sources(Some(folder))
    }

    /// The configuration that these texts are.
    pub(crate) fn load_sources(&self, sources: &[Source]) -> Result<Loaded, Error> {
        Ok(load_sources(sources, &HookTypes::built_in(&[]), &environment)?)
    }

    fn sources(&self, folder: Option<&Path>) -> Result<Vec<Source>, Error> {
        let locations = Locations {
            explicit: self.config.clone(),
            working_directory: folder.map(Path::to_path_buf),
            user_folder: Locations::user_folder(&environment),
        };
        Ok(locations.read()?)
    }

    /// The operator's file that was named on the command line, as a path that holds in every folder.
    pub(crate) fn explicit_config(&self) -> Option<PathBuf> {
        let path = self.config.as_ref()?;
        Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()))
    }

    /// The hooks in force over state in memory, for commands that judge without acting.
    pub(crate) async fn judge(&self) -> Result<Backstop, Error> {
        Ok(builder(self.load()?).hosts(backstop::all_hosts()).without_audit().build().await?)
    }

    /// Whose call a judged call would be: the agent's, in its workspace.
    pub(crate) fn call_context(&self, loaded: &Loaded) -> Result<CallContext, Error> {
        Ok(CallContext {
            agent_id: Some(AgentId::new(AGENT_ID)),
            workspace_dir: Some(workspace(loaded, None)?.display().to_string()),
            ..CallContext::default()
        })
    }

    /// The database. It is created when something is first written or read.
    pub(crate) fn store(&self, loaded: &Loaded) -> Result<Arc<dyn Store>, Error> {
        Ok(Arc::new(SqliteStore::new(store_path(loaded, &environment)?)))
    }

    /// The database of the configuration in force, for commands that need nothing else.
    pub(crate) fn only_store(&self) -> Result<Arc<dyn Store>, Error> {
        self.store(&self.load()?)
    }
}

/// The folder in which the agent works: `chosen`, or the configuration's, or the working directory.
pub(crate) fn workspace(loaded: &Loaded, chosen: Option<&Path>) -> Result<PathBuf, Error> {
    match (chosen, &loaded.config.agent.workspace) {
        (Some(chosen), _) => Ok(chosen.to_path_buf()),
        (None, Some(configured)) => Ok(backstop::from_operator(loaded, configured.value.expose())),
        (None, None) => working_directory(),
    }
}

pub(crate) fn working_directory() -> Result<PathBuf, Error> {
    std::env::current_dir().map_err(|source| Error::File {
        path: PathBuf::from("."),
        what: "found as the working directory",
        source,
    })
}

/// A builder with that configuration.
pub(crate) fn builder(loaded: Loaded) -> Builder {
    Backstop::builder().config(loaded)
}
