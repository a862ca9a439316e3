//! Confinement of what `run` and the agent start: which places are walled off, at which tier, and what is said about it.
//!
//! The law: *nothing that was asked for is left out in silence*. A tier that this machine lacks is named with the reason;
//! with `sandbox.mode: required`, and where only the workspace may be changed, nothing is started without it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use backstop::clients::Client;
use backstop::clients::install::{Folders, Scope};
use backstop::config::{LayerKind, Loaded, SandboxMode, SandboxWrite, Spanned, Text};
use backstop::confine::{Confinement, Probe, Standing, Tier, Walls};
use backstop::guards::{Roots, unwritable_footing};
use backstop::{audit_key, store_path};

use crate::commands::clients::{folders as client_folders, this_program};
use crate::error::Error;
use crate::exit::Exit;
use crate::session::Surroundings;

/// The word by which this program is started as a launcher. It is no command for people.
const LAUNCHER: &str = "confined";
/// What shells answer for a program that does not exist, and for one that can't be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// What a program is started with.
#[derive(Debug, Default)]
pub(crate) struct Confined {
    /// The words before the program.
    pub(crate) words: Vec<OsString>,
    /// What of the walls stood when it was started.
    standing: Standing,
    /// Where protected names that are links led, which no wall keeps from being replaced.
    led: Vec<Option<PathBuf>>,
}

/// Becomes a program behind walls, where this process is to do that. `None` where it is not.
pub(crate) fn become_program() -> Option<Exit> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != LAUNCHER {
        return None;
    }
    let words: Vec<OsString> = words.collect();
    Some(match backstop::confine::enter_and_run(&words) {
        Ok(()) => Exit::Success,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr().lock(), "error: {error}");
            Exit::Program(if error.is_no_such_program() { NOT_FOUND } else { NOT_RUNNABLE })
        }
    })
}

/// The words by which this program is started as a launcher.
pub(crate) fn launcher() -> Result<Vec<OsString>, Error> {
    Ok(vec![this_program()?.into_os_string(), LAUNCHER.into()])
}

/// Confines as the configuration says. `workspace` is where the program works; `more` are places of this run that it may
/// read only. A `client` has its own folder and perhaps a sandbox of its own.
pub(crate) fn confine(
    surroundings: &Surroundings,
    loaded: &Loaded,
    workspace: &Path,
    more: &[&Path],
    client: Option<Client>,
) -> Result<Confined, Error> {
    let sandbox = &loaded.config.sandbox;
    if sandbox.mode.value == SandboxMode::Off {
        return Ok(Confined::default());
    }
    let launcher = launcher()?;
    let (strongest, probe) = Probe::strongest(&launcher);
    let (tier, lowered) = borne_by(client, strongest);
    if let Some(why) = lowered {
        surroundings.output.say(&format!("warning: not confined: {why}"));
    }
    let insists =
        sandbox.mode.value == SandboxMode::Required || sandbox.write.value == SandboxWrite::Workspace;
    if tier == Tier::Label {
        let why = why_not(&probe);
        if insists {
            return Err(Error::Failed(format!(
                "programs can't be confined here, and `sandbox` insists on it: {why}\nhint: install what is missing, or set `sandbox.mode: auto` and `sandbox.write: anywhere`"
            )));
        }
        surroundings.output.say(&format!("warning: not confined: {why}"));
    }
    let walls = walls(surroundings, loaded, workspace, more, client)?;
    let confinement = Confinement::new(&probe, tier, &walls, launcher)
        .map_err(|error| Error::Failed(format!("a program can't be confined: {error}")))?;
    let standing = confinement.standing();
    let named = loaded.config.sandbox.read_only.iter().chain(&loaded.config.sandbox.hidden);
    let home = client_folders()?.home;
    for path in named.map(|path| place_of(path, loaded, &home)) {
        if standing.missing.contains(&path) {
            let path = path.display();
            surroundings
                .output
                .say(&format!("warning: `{path}` of `sandbox` is not there, so it is not protected"));
        }
    }
    let led = standing.links.iter().map(|link| std::fs::read_link(link).ok()).collect();
    Ok(Confined { words: confinement.words(), led, standing: confinement.into_standing() })
}

impl Confined {
    /// Protected names that a program has made since, or made to lead elsewhere.
    pub(crate) fn appeared(&self) -> impl Iterator<Item = &Path> {
        let Standing { missing, links, .. } = &self.standing;
        let made = missing.iter().filter(|path| path.symlink_metadata().is_ok());
        let moved = links.iter().zip(&self.led).filter(|(link, led)| std::fs::read_link(link).ok() != **led);
        made.chain(moved.map(|(link, _)| link)).map(PathBuf::as_path)
    }
}

fn why_not(probe: &Probe) -> String {
    let [mount, landlock] =
        [Tier::Mount, Tier::Landlock].map(|tier| probe.why_not(tier).unwrap_or("not used"));
    format!("by mounts: {mount}; by Landlock: {landlock}")
}

/// The tier that a client bears, and why that is not the one that there is. Behind Landlock nothing can be mounted, and
/// some clients confine their own tools by mounts.
fn borne_by(client: Option<Client>, tier: Tier) -> (Tier, Option<String>) {
    match (client, tier) {
        (Some(client @ (Client::Codex | Client::Claude)), Tier::Landlock) => {
            let title = client.title();
            (
                Tier::Label,
                Some(format!("{title} has a sandbox of its own, which can't be used behind Landlock")),
            )
        }
        (_, tier) => (tier, None),
    }
}

/// What of confinement this machine has, found by trying it.
#[derive(Debug)]
pub(crate) struct Machine {
    strongest: Tier,
    probe: Probe,
}

impl Machine {
    pub(crate) fn look() -> Result<Self, Error> {
        let (strongest, probe) = Probe::strongest(&launcher()?);
        Ok(Self { strongest, probe })
    }

    /// How a run of `client` is confined here, and why not more strongly.
    pub(crate) fn tier_of(&self, client: Client) -> (Tier, Option<String>) {
        let (tier, lowered) = borne_by(Some(client), self.strongest);
        let why = (tier != Tier::Mount).then(|| lowered.unwrap_or_else(|| why_not(&self.probe)));
        (tier, why)
    }
}

/// A place that the configuration names.
fn place_of(path: &Spanned<Text>, loaded: &Loaded, home: &Path) -> PathBuf {
    match path.value.expose().strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => backstop::from_operator(loaded, path.value.expose()),
    }
}

fn walls(
    surroundings: &Surroundings,
    loaded: &Loaded,
    workspace: &Path,
    more: &[&Path],
    client: Option<Client>,
) -> Result<Walls, Error> {
    let sandbox = &loaded.config.sandbox;
    let folders = client_folders()?;
    let all = |paths: &[Spanned<Text>]| -> BTreeSet<PathBuf> {
        paths.iter().map(|path| place_of(path, loaded, &folders.home)).collect()
    };
    let (mut read_only, mut hidden) = (all(&sandbox.read_only), all(&sandbox.hidden));
    read_only.insert(this_program()?);
    read_only.extend(more.iter().map(|path| path.to_path_buf()));
    read_only.extend(surroundings.explicit_config());
    // Those of folders above the workspace count, too.
    read_only.extend(loaded.layers.iter().filter(|(kind, _)| *kind == LayerKind::Repository).map(
        |(_, name)| {
            let path = PathBuf::from(name);
            std::path::absolute(&path).unwrap_or(path)
        },
    ));
    // A folder that is not there yet could be made by the program, with something in it.
    read_only.extend(surroundings.operator_folder().map(made));
    let variable = |name: &str| surroundings.variable(name);
    // Hooks inside read there what was pinned.
    let data = made(surroundings.data_folder()?);
    hidden.extend([audit_key(&variable)?, data.join("daemon")]);
    read_only.insert(data);
    let database = store_path(loaded, &variable)?;
    hidden.extend(["", "-wal", "-shm"].map(|end| {
        let mut path = database.clone().into_os_string();
        path.push(end);
        PathBuf::from(path)
    }));
    read_only.extend(unwritable_footing(&roots(&folders, surroundings.settings_folder(), workspace)));
    let writable = (sandbox.write.value == SandboxWrite::Workspace).then(|| {
        let mut writable = all(&sandbox.writable);
        writable.extend([workspace.to_path_buf(), std::env::temp_dir()]);
        let own = client
            .and_then(|client| client.layout().path(Scope::User, &folders).parent().map(Path::to_path_buf));
        writable.extend(own);
        writable
    });
    Ok(Walls { read_only, hidden, writable })
}

/// Where what decides whether an agent is guarded can stand.
fn roots(folders: &Folders, settings: Option<PathBuf>, workspace: &Path) -> Roots {
    Roots {
        home: folders.home.clone(),
        settings,
        workspaces: vec![workspace.to_path_buf(), folders.project.clone()],
        moved: Client::ALL.iter().filter_map(|client| client.layout().moved_home(folders)).collect(),
    }
}

/// A folder for the user alone, made where it is not there. One that can't be made is reported as missing.
fn made(folder: PathBuf) -> PathBuf {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    folder
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use backstop::clients::install::folder_variables;

    use super::*;

    /// Whether the file that an installation writes is behind a wall.
    fn is_walled(client: Client, scope: Scope, folders: &Folders) -> bool {
        let walled = unwritable_footing(&roots(folders, None, &folders.project));
        client.layout().path(scope, folders).ancestors().any(|above| walled.contains(above))
    }

    #[test]
    fn the_guards_table_has_every_file_that_an_installation_writes() {
        let (home, project) = (PathBuf::from("/nowhere/home"), PathBuf::from("/nowhere/work"));
        let still = Folders { home, project, variables: Vec::new() };
        let moved = Folders {
            variables: folder_variables()
                .map(|name| (name.to_owned(), format!("/moved/{name}").into()))
                .collect(),
            ..still.clone()
        };
        for client in Client::ALL {
            for folders in [&still, &moved] {
                assert!(is_walled(client, Scope::User, folders), "{client}");
                assert!(is_walled(client, Scope::Project, folders), "{client}");
            }
            // Nothing that a client keeps for itself beside it.
            let state = client.layout().path(Scope::User, &still).with_file_name("history.jsonl");
            let walled = unwritable_footing(&roots(&still, None, &still.project));
            let is_folder_of_hooks = |path: &Path| {
                path.components()
                    .any(|part| [OsStr::new("hooks"), OsStr::new("plugins")].contains(&part.as_os_str()))
            };
            assert!(
                is_folder_of_hooks(&state) || !state.ancestors().any(|above| walled.contains(above)),
                "{client}"
            );
        }
    }
}
