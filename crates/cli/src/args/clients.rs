//! `backstop hook`, `install`, `uninstall`, `status` and `doctor`.

use std::path::PathBuf;

use backstop::clients::Client;
use backstop::clients::install::{Machine, Scope};

use crate::commands::Action;
use crate::commands::clients::{Chosen, doctor, install};
use crate::commands::hook;
use crate::session::OperatorFolders;
use crate::system::install as system;

/// Judges one event of a coding agent: what its hooks start.
///
/// Reads the event from stdin and answers in the client's words. Whatever can't be judged is refused: the answer then
/// is a refusal on stdout, the reason on stderr, and exit code 2.
#[derive(Debug, clap::Args)]
pub(super) struct HookArgs {
    /// The client: claude, codex, gemini, qwen, copilot, cline, opencode, cursor, windsurf, kiro, goose, droid, devin or kimi
    client: String,
    /// The event, for clients whose input does not name it
    event: Option<String>,
    #[command(flatten)]
    folders: FoldersArgs,
    /// Hand the event to the service of this machine that listens there, and judge nothing, as `install --system` writes it
    #[arg(long, value_name = "SOCKET", conflicts_with = "home")]
    service: Option<PathBuf>,
}

/// Where the operator's folders are. Without these, they are those of the account, whatever the environment says.
#[derive(Debug, clap::Args)]
struct FoldersArgs {
    /// The user's home, as `install` writes it
    #[arg(long, value_name = "DIR", requires_all = ["operator", "data"])]
    home: Option<PathBuf>,
    /// The folder of the operator's file, as `install` writes it
    #[arg(long, value_name = "DIR", requires = "home")]
    operator: Option<PathBuf>,
    /// The folder of Backstop's data, as `install` writes it
    #[arg(long, value_name = "DIR", requires = "home")]
    data: Option<PathBuf>,
    /// Judge by the configuration that was pinned, or not at all
    #[arg(long, requires = "home")]
    pinned: bool,
}

impl FoldersArgs {
    fn lower(self) -> Option<OperatorFolders> {
        let Self { home, operator, data, pinned } = self;
        Some(OperatorFolders { home: home?, operator: operator?, data: data?, pinned })
    }
}

#[derive(Debug, clap::Args)]
struct Clients {
    /// The clients: claude, codex, gemini, qwen, copilot, cline, opencode, cursor, windsurf, kiro, goose, droid, devin, kimi
    #[arg(value_name = "CLIENT", required_unless_present_any = ["all", "system"], conflicts_with = "all")]
    clients: Vec<Client>,
    /// All clients that are found here
    #[arg(long)]
    all: bool,
}

/// Puts Backstop into the configuration of coding agents, so that it judges what they are about to do.
///
/// Shows what the client can honour and which files change, keeps what is there, comments included, and a copy of it.
/// Installing twice is installing once.
#[derive(Debug, clap::Args)]
pub(super) struct InstallArgs {
    #[command(flatten)]
    clients: Clients,
    #[command(flatten)]
    place: Place,
}

/// Takes Backstop out of the configuration of coding agents, and leaves everything else as it is.
#[derive(Debug, clap::Args)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    clients: Clients,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct Place {
    /// In the user's configuration, for all folders; this is what happens without an option
    #[arg(long, conflicts_with_all = ["project", "system"])]
    user: bool,
    /// In the configuration of the repository around the working directory
    #[arg(long, conflicts_with = "system")]
    project: bool,
    /// For all users of this machine, out of their reach: program, configuration, a service with a user of its own, and the
    /// clients' places for the whole machine. For root; without clients, all that have such a place
    #[arg(long)]
    system: bool,
    /// With --system: write everything below this folder and start nothing
    #[arg(long, value_name = "DIR", requires = "system")]
    root: Option<PathBuf>,
    /// With --root: the kind of machine that it is for
    #[arg(long, value_name = "OS", requires = "root", value_parser = ["linux", "macos"])]
    os: Option<String>,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Tries the installation: entries, program, version, and whether the installed command answers an event.
///
/// Whether the client starts its hooks at all only the client can show; what keeps it from that is in the notes.
#[derive(Debug, clap::Args)]
pub(super) struct DoctorArgs {
    /// The client, instead of all that are found here
    client: Option<Client>,
    /// The installation for the whole machine: its files, their owners, the service, and each client's entry there
    #[arg(long)]
    system: bool,
}

impl HookArgs {
    pub(super) fn lower(self) -> hook::Settings {
        let Self { client, event, folders, service } = self;
        hook::Settings { client, event, folders: folders.lower(), service }
    }
}

impl Clients {
    fn lower(self) -> Chosen {
        if self.all { Chosen::All } else { Chosen::Named(self.clients) }
    }
}

/// One installation: of a user or project, or of the machine.
fn action(clients: Clients, place: Place, remove: bool) -> Action {
    if place.system {
        let machine = match place.os.as_deref() {
            Some("macos") => Machine::MacOs,
            Some(_) => Machine::Linux,
            None => Machine::this(),
        };
        return Action::InstallSystem(system::Settings {
            clients: clients.clients,
            root: place.root,
            machine,
            dry_run: place.dry_run,
            remove,
        });
    }
    let scope = if place.project { Scope::Project } else { Scope::User };
    Action::Install(install::Settings { chosen: clients.lower(), scope, dry_run: place.dry_run, remove })
}

impl InstallArgs {
    pub(super) fn lower(self) -> Action {
        action(self.clients, self.place, false)
    }
}

impl UninstallArgs {
    pub(super) fn lower(self) -> Action {
        action(self.clients, self.place, true)
    }
}

impl DoctorArgs {
    pub(super) fn lower(self) -> Action {
        if self.system {
            return Action::DoctorSystem(self.client);
        }
        let chosen = self.client.map_or(Chosen::All, |client| Chosen::Named(vec![client]));
        Action::Doctor(doctor::Settings { chosen })
    }
}
