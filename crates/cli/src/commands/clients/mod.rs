//! `backstop install`, `uninstall`, `status` and `doctor`: the hooks in the configurations of coding agents.
//!
//! What is written, and where, is the business of the adapters; here it is shown first, then done.

pub(crate) mod doctor;
mod elsewhere;
pub(crate) mod fire;
pub(crate) mod guide;
mod heard;
pub(crate) mod install;
pub(in crate::commands) mod line;
mod machine;
pub(in crate::commands) mod recorded;
pub(crate) mod status;

use std::path::{Path, PathBuf};

use backstop::clients::Client;
use backstop::clients::install::{
    Fixed, Folders, Loader, Program, Scope, folder_variables, status as installed,
};

use crate::error::Error;
use crate::session::{Surroundings, working_directory};

/// Which clients are meant.
#[derive(Debug)]
pub(crate) enum Chosen {
    /// These.
    Named(Vec<Client>),
    /// All that are there.
    All,
}

/// The name of a scope on the command line.
fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::User => "user",
        Scope::Project => "project",
    }
}

/// Where the clients' configurations are: below the home directory, and in the repository around the working
/// directory, or in that itself where there is none.
pub(crate) fn folders() -> Result<Folders, Error> {
    let home = absolute("HOME").ok_or_else(|| {
        Error::Failed(
            "the home directory is not known, so neither are the clients' folders\nhint: set HOME".to_owned(),
        )
    })?;
    let here = working_directory()?;
    let repository = here.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_path_buf);
    let project = repository.filter(|found| *found != home).unwrap_or_else(|| here.clone());
    // A relative one counts from the folder in which the client is started, which is taken to be this one.
    let moved = |name: &str| {
        let path = std::env::var_os(name).filter(|path| !path.is_empty())?;
        Some(std::path::absolute(&path).unwrap_or_else(|_| path.into()))
    };
    let variables = folder_variables().filter_map(|name| Some((name.to_owned(), moved(name)?))).collect();
    Ok(Folders { home, project, here, variables })
}

fn absolute(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// This program, as clients are to start it.
pub(crate) fn this_program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|error| Error::Failed(format!("the path of this program can't be found: {error}")))
}

/// Returns whether the user has installed all of our hooks for this client.
pub(in crate::commands) fn has_hooks_of_its_user(client: Client) -> bool {
    let (Ok(folders), Ok(program)) = (folders(), this_program()) else { return false };
    installed(client, Scope::User, &folders, &program)
        .is_ok_and(|found| !found.programs.is_empty() && found.missing.is_empty())
}

/// This program, and what its entries say about the operator: the folders that hold for this command, which a person
/// has started. `pinned`: the configuration must be the pinned one.
pub(super) fn fixed_program(surroundings: &Surroundings, pinned: bool) -> Result<Program, Error> {
    let unknown = || {
        Error::Failed(
            "the home directory is not known, so hooks can't be told of it\nhint: set HOME".to_owned(),
        )
    };
    let home = surroundings.home().ok_or_else(unknown)?;
    let operator = surroundings.operator_folder().ok_or_else(unknown)?;
    let fixed = Fixed::new(&home, &operator, &surroundings.data_folder()?, pinned)
        .map_err(|error| Error::Failed(error.to_string()))?;
    Ok(Program { path: this_program()?, fixed: Some(fixed) })
}

/// What an installation in that scope starts. What is in a repository is not one user's alone, so it names no folders.
fn entry_program(scope: Scope, surroundings: &Surroundings) -> Result<Program, Error> {
    match scope {
        Scope::User => fixed_program(surroundings, true),
        Scope::Project => Ok(Program { path: this_program()?, fixed: None }),
    }
}

/// What is said of a variable that puts code into what a client starts.
pub(super) fn loaded(loader: &Loader) -> String {
    format!(
        "`{}` sets `{}` for all that is started, our hooks among it: what that names runs in front of the judge",
        loader.file.display(),
        loader.variable
    )
}

/// The program that a client is started by, where it has a command line.
pub(super) fn program_of(client: Client) -> Option<&'static str> {
    match client {
        Client::Claude => Some("claude"),
        Client::Codex => Some("codex"),
        Client::Gemini => Some("gemini"),
        Client::Qwen => Some("qwen"),
        Client::Copilot => Some("copilot"),
        Client::Cline => Some("cline"),
        Client::OpenCode => Some("opencode"),
        Client::Cursor => Some("cursor-agent"),
        Client::Windsurf => None,
        Client::Kiro => Some("kiro-cli"),
        Client::Goose => Some("goose"),
        Client::Droid => Some("droid"),
        Client::Devin => Some("devin"),
        Client::Kimi => Some("kimi"),
    }
}

/// Where a program is found in `PATH`.
fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Whether the client seems to be used here: its program is in `PATH`, or its folder in the home directory.
fn is_there(client: Client, folders: &Folders) -> bool {
    let file = client.layout().user_path(folders);
    let below_home = |path: &Path| {
        path.strip_prefix(&folders.home)
            .ok()
            .and_then(|rest| rest.iter().next().map(Path::new).map(Path::to_path_buf))
    };
    let folder = match below_home(&file) {
        // Folders that several programs share say nothing about this one.
        Some(first) if [".config", ".agents"].iter().any(|shared| first == Path::new(shared)) => {
            file.parent().and_then(Path::parent).map(Path::to_path_buf)
        }
        Some(first) => Some(folders.home.join(first)),
        None => file.parent().map(Path::to_path_buf),
    };
    program_of(client).and_then(in_path).is_some() || folder.is_some_and(|folder| folder.is_dir())
}

impl Chosen {
    /// The clients that are meant.
    fn clients(&self, folders: &Folders) -> Vec<Client> {
        match self {
            Self::Named(clients) => clients.clone(),
            Self::All => Client::ALL.into_iter().filter(|client| is_there(*client, folders)).collect(),
        }
    }
}
