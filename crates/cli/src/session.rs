//! What every command starts with: where the configuration is, how to print, which hooks and store there are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop::config::{LayerKind, Loaded, Locations, Source, account};
use backstop::hooks::{AgentId, CallContext, ToolName};
use backstop::store::Store;
use backstop::{
    Backstop, Builder, FoundStore, HookTypes, NoDataFolder, Pin, PinDifference, data_folder, load_sources,
};
use rustix::process::getuid;

use crate::commands::answerer;
use crate::error::{Error, different};
use crate::output::{Output, Style, plain};
use crate::system;

/// The name of the agent that `backstop agent` runs, and for which calls are judged.
pub(crate) const AGENT_ID: &str = "main";

/// What holds for all commands.
#[derive(Debug)]
pub(crate) struct Global {
    /// The operator's file, if given.
    pub(crate) config: Option<PathBuf>,
    /// The user whose part of the system scope is meant.
    pub(crate) of: Option<String>,
    /// JSON on stdout.
    pub(crate) json: bool,
    /// No colours, whatever the terminal can do.
    pub(crate) no_color: bool,
}

/// A command's surroundings. Nothing is read or opened before a command asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    config: Option<PathBuf>,
    /// Where the operator's folders are said to be; `None` for a person's command, whose environment says it.
    fixed: Option<OperatorFolders>,
    pub(crate) output: Output,
}

/// The operator's folders, as whoever installed a hook has fixed them. The environment of a hook chooses none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OperatorFolders {
    pub(crate) home: PathBuf,
    /// The folder of the operator's file, named `backstop`.
    pub(crate) operator: PathBuf,
    /// The folder of the database and the daemon's socket, named `backstop`.
    pub(crate) data: PathBuf,
    /// Whether the configuration must be the pinned one.
    pub(crate) pinned: bool,
}

impl OperatorFolders {
    /// Those of the account, for a hook whose command does not name any.
    pub(crate) fn of_account() -> Result<Self, Error> {
        let home = account::home().ok_or_else(|| {
            Error::Failed(
                "the system's list of users has no home for this account, so the operator's folders are not known
hint: `backstop install` writes them into the command of the hook".to_owned(),
            )
        })?;
        Ok(Self {
            operator: home.join(".config/backstop"),
            data: home.join(".local/share/backstop"),
            home,
            pinned: false,
        })
    }

    /// The variable of that name, where it says which folders these are.
    fn variable(&self, name: &str) -> Option<String> {
        let folder = match name {
            "HOME" => Some(self.home.as_path()),
            "XDG_CONFIG_HOME" => self.operator.parent(),
            "XDG_DATA_HOME" => self.data.parent(),
            _ => return None,
        };
        folder.and_then(Path::to_str).map(str::to_owned)
    }
}

/// The operator's part of the configuration, and the texts it was made of.
#[derive(Debug)]
pub(crate) struct Operators {
    pub(crate) loaded: Loaded,
    sources: Vec<Source>,
}

/// The environment variable of that name, if it is set and is text.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Surroundings {
    pub(crate) fn new(global: Global) -> Result<Self, Error> {
        let no_color = global.no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let fixed = global.of.map(|user| system::folders_of_named(&user)).transpose()?;
        Ok(Self { config: global.config, fixed, output: Output::new(global.json, no_color) })
    }

    /// The same for a hook, whose folders are fixed.
    pub(crate) fn fixed(&self, folders: OperatorFolders) -> Self {
        Self { fixed: Some(folders), ..self.clone() }
    }

    /// The same with another operator's file.
    pub(crate) fn with_config(&self, path: PathBuf) -> Self {
        Self { config: Some(path), ..self.clone() }
    }

    /// The variable of that name. What names the operator's folders is not taken from a hook's environment.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match &self.fixed {
            Some(folders) => folders.variable(name).or_else(|| environment(name)),
            None => environment(name),
        }
    }

    /// Whether the folders are fixed, and none is chosen by the environment.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// The user's home.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// The folder of the operator's file.
    pub(crate) fn operator_folder(&self) -> Option<PathBuf> {
        Locations::user_folder(&|name| self.variable(name))
    }

    /// The user's folder of settings.
    pub(crate) fn settings_folder(&self) -> Option<PathBuf> {
        Some(self.operator_folder()?.parent()?.to_path_buf())
    }

    /// Backstop's data folder.
    pub(crate) fn data_folder(&self) -> Result<PathBuf, Error> {
        Ok(data_folder(&|name| self.variable(name)).ok_or(NoDataFolder)?)
    }

    /// Where plugins are installed.
    pub(crate) fn plugins_folder(&self) -> Result<PathBuf, Error> {
        Ok(self.data_folder()?.join("plugins"))
    }

    /// Whether the configuration must be the pinned one.
    pub(crate) fn is_pinned(&self) -> bool {
        self.fixed.as_ref().is_some_and(|folders| folders.pinned)
    }

    /// Reads the configuration, and says on stderr what repository files said without effect.
    pub(crate) fn load(&self) -> Result<Loaded, Error> {
        Ok(self.told(self.load_quietly()?))
    }

    /// As [`Self::load`], where there are going to be these tools, too.
    pub(crate) fn load_with(&self, tools: &[ToolName]) -> Result<Loaded, Error> {
        Ok(self.told(self.load_quietly_with(tools)?))
    }

    /// As [`Self::load_quietly`], where there are going to be these tools, too.
    pub(crate) fn load_quietly_with(&self, tools: &[ToolName]) -> Result<Loaded, Error> {
        let sources = self.sources_in(&working_directory()?)?;
        let types = self.types_with(tools);
        Ok(load_sources(&sources, &types, &|name| self.variable(name))?)
    }

    /// The hook types, and the tools that there are beside the built-in ones.
    pub(crate) fn types_with(&self, tools: &[ToolName]) -> HookTypes {
        let all: Vec<ToolName> = self.tools_of_plugins().into_iter().chain(tools.iter().cloned()).collect();
        HookTypes::built_in(&all)
    }

    /// Says on stderr what repository files said without effect.
    fn told(&self, loaded: Loaded) -> Loaded {
        let paint = self.output.talk_paint();
        for dropped in &loaded.dropped {
            let line = format!("`{}` at {} has no effect: {}", dropped.key, dropped.at, dropped.reason);
            self.output.say(&format!("{} {}", paint.with(Style::Notice, "ignored:"), plain(&line)));
        }
        loaded
    }

    /// Reads the configuration.
    pub(crate) fn load_quietly(&self) -> Result<Loaded, Error> {
        self.load_in(&working_directory()?)
    }

    /// Reads the configuration that holds in `folder`.
    pub(crate) fn load_in(&self, folder: &Path) -> Result<Loaded, Error> {
        self.load_sources(&self.sources_in(folder)?)
    }

    /// Reads the operator's part of the configuration. A hook whose configuration is pinned judges by no other.
    pub(crate) fn load_operators(&self) -> Result<Operators, Error> {
        let sources = self.sources(None)?;
        let loaded = self.load_sources(&sources)?;
        let operators = Operators { loaded, sources };
        if self.is_pinned() {
            self.check_pin(&operators.pin())?;
        }
        Ok(operators)
    }

    /// Reads the configuration that holds in `folder`, where the operator's part was read already.
    pub(crate) fn load_over(&self, operators: Operators, folder: &Path) -> Result<Loaded, Error> {
        let mut sources = self.sources_in(folder)?;
        sources.retain(|source| source.kind == LayerKind::Repository);
        if sources.is_empty() {
            return Ok(operators.loaded);
        }
        // What was compared with the pin is what counts, and not what the file says by now.
        sources.splice(0..0, operators.sources);
        self.load_sources(&sources)
    }

    /// The pin that these texts would make, repository files aside.
    pub(crate) fn pin_of(&self, sources: &[Source]) -> Result<Pin, Error> {
        let operators: Vec<Source> =
            sources.iter().filter(|source| source.kind == LayerKind::Operator).cloned().collect();
        Ok(Pin::of(&operators, &self.load_sources(&operators)?))
    }

    /// What is different from the pin; `None` where nothing was pinned.
    pub(crate) fn pin_differences(&self, now: &Pin) -> Result<Option<Vec<PinDifference>>, Error> {
        let pinned = Pin::read(&Pin::path(&self.data_folder()?))?;
        Ok(pinned.map(|pinned| pinned.differences(now)))
    }

    /// What is to be said to people where hooks refuse every call, since the configuration is not what was pinned.
    pub(crate) fn pin_warning(&self) -> Result<Option<String>, Error> {
        if self.config.is_some() {
            // What was named for this command is what no hook reads.
            return Ok(None);
        }
        let changed = self.pin_differences(&self.load_operators()?.pin())?;
        Ok(changed.filter(|changed| !changed.is_empty()).map(|changed| {
            format!(
                "{} the operator's configuration is not what was pinned ({}), so hooks refuse every call\nhint: look at it, then `backstop config pin`",
                self.output.talk_paint().with(Style::Notice, "warning:"),
                different(&changed),
            )
        }))
    }

    /// Says so, where it is so.
    pub(crate) fn warn_of_pin(&self) {
        // A configuration or a pin that can't be read is told of by whoever reads it.
        if let Ok(Some(warning)) = self.pin_warning() {
            self.output.say(&warning);
        }
    }

    /// Whether the configuration is the one that a person has pinned.
    pub(crate) fn check_pin(&self, now: &Pin) -> Result<(), Error> {
        match self.pin_differences(now)? {
            Some(differences) if differences.is_empty() => Ok(()),
            Some(differences) => Err(Error::NotPinned(differences)),
            None => Err(Error::NoPin(Pin::path(&self.data_folder()?))),
        }
    }

    /// The texts of the configuration that holds in `folder`.
    pub(crate) fn sources_in(&self, folder: &Path) -> Result<Vec<Source>, Error> {
        self.sources(Some(folder))
    }

    /// The texts of the operator's part of the configuration.
    pub(crate) fn operator_sources(&self) -> Result<Vec<Source>, Error> {
        self.sources(None)
    }

    /// The configuration that these texts are.
    pub(crate) fn load_sources(&self, sources: &[Source]) -> Result<Loaded, Error> {
        Ok(load_sources(sources, &self.types_with(&[]), &|name| self.variable(name))?)
    }

    fn tools_of_plugins(&self) -> Vec<ToolName> {
        self.plugins_folder().map(|folder| backstop::plugins::declared_tools(&folder)).unwrap_or_default()
    }

    fn sources(&self, folder: Option<&Path>) -> Result<Vec<Source>, Error> {
        let locations = Locations {
            explicit: self.config.clone(),
            working_directory: folder.map(Path::to_path_buf),
            user_folder: self.operator_folder(),
            home: self.home(),
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
        Ok(builder(self.load()?, self).hosts(backstop::all_hosts()).without_audit().build().await?)
    }

    /// Whose call a judged call would be: the agent's, in its workspace.
    pub(crate) fn call_context(&self, loaded: &Loaded) -> Result<CallContext, Error> {
        Ok(CallContext {
            agent_id: Some(AgentId::new(AGENT_ID)),
            workspace_dir: Some(workspace(loaded, None)?.display().to_string()),
            ..CallContext::default()
        })
    }

    /// The database. A file is created, and a server connected, when something is first written or read.
    pub(crate) fn store(&self, loaded: &Loaded) -> Result<Arc<dyn Store>, Error> {
        Ok(self.found_store(loaded)?.open_to_read()?.1.shared())
    }

    /// Where the database is, and what it is opened with, by one look.
    pub(crate) fn found_store(&self, loaded: &Loaded) -> Result<FoundStore, Error> {
        Ok(FoundStore::of(loaded, &|name| self.variable(name))?)
    }

    /// The recording of tool calls.
    pub(crate) fn tape(&self, loaded: &Loaded) -> Result<backstop::tape::Tape, Error> {
        let folder = backstop::tape_folder(loaded, &|name| self.variable(name))?;
        Ok(backstop::tape::Tape::in_folder(folder))
    }

    /// The database of the configuration in force, for commands that need nothing else.
    pub(crate) fn only_store(&self) -> Result<Arc<dyn Store>, Error> {
        self.store(&self.load()?)
    }
}

impl Operators {
    /// The pin that they would make.
    pub(crate) fn pin(&self) -> Pin {
        Pin::of(&self.sources, &self.loaded)
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
pub(crate) fn builder(loaded: Loaded, surroundings: &Surroundings) -> Builder {
    let types = surroundings.types_with(&[]);
    // One that everybody works in; what each call of a coding agent works in is the call's.
    let workspace = loaded.config.agent.workspace.as_ref();
    let workspace = workspace.map(|folder| backstop::from_operator(&loaded, folder.value.expose()));
    let account = answerer::account(getuid().as_raw());
    let tape = backstop::tape_folder(&loaded, &|name| surroundings.variable(name));
    let mut builder = Backstop::builder().config(loaded).hook_types(types).account(Some(account));
    // Who has no data folder may have named another one, and is told otherwise.
    if let Ok(tape) = tape {
        builder = builder.tape(tape);
    }
    if let Some(workspace) = workspace {
        builder = builder.workspace(workspace);
    }
    // Who has no data folder has installed nothing.
    match surroundings.plugins_folder() {
        Ok(folder) => builder.plugins(folder),
        Err(_) => builder,
    }
}
