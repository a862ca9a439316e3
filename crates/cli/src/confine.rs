//! Confinement of what `run` and the agent start: which places are walled off, at which tier, and what is said about it.
//!
//! The law: *nothing that was asked for is left out in silence*. A tier that this machine lacks is named with the reason;
//! with `sandbox.mode: required`, and where only the workspace may be changed, nothing is started without it.

mod groups;
mod way;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use backstop::clients::Client;
use backstop::clients::install::Folders;
use backstop::config::{LayerKind, Loaded, SandboxMode, SandboxWrite, Spanned, Text};
use backstop::confine::{Confinement, Group, Outlet, Probe, Standing, Tier, Walls, others_sockets};
use backstop::guards::{Roots, unwritable_footing};
use backstop::store::SqliteStore;
use backstop::surfaces::web_push_folder;
use backstop::{
    audit_key, credential_places, from_operator, hook_places, kept_key_file, program_places, secret_files,
    server_secrets, store_files, store_path,
};

use self::groups::group;
pub(crate) use self::groups::{is_group, join};
use self::way::lies_in;
use crate::commands::clients::{folders as client_folders, this_program};
use crate::error::Error;
use crate::exit::Exit;
use crate::outlet::{Gate, Trees};
use crate::output::Output;
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
    /// Whether they were mounts.
    is_by_mounts: bool,
    /// Where protected names that are links led, which no wall keeps from being replaced.
    led: Vec<Option<PathBuf>>,
    /// The way out of a network of its own.
    gate: Option<Gate>,
    /// What its processes are members of.
    group: Option<Group>,
}

/// What is confined.
#[derive(Debug)]
pub(crate) struct Confining<'a> {
    /// Where the program works.
    pub(crate) workspace: &'a Path,
    /// The folder of this run, which it may read only.
    pub(crate) folder: Option<&'a Path>,
    /// Ports of this machine's loopback without which it can't work.
    pub(crate) ports: &'a [u16],
    /// The client that it is, which has its own folder and perhaps a sandbox of its own.
    pub(crate) client: Option<Client>,
    /// Whether all that it starts ends with it.
    pub(crate) is_run: bool,
    /// Whether a server starts it, whose keys it is kept from. Where walls can't be had, it is then not started.
    pub(crate) is_served: bool,
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

/// Confines as the configuration says.
pub(crate) fn confine(
    surroundings: &Surroundings,
    loaded: &Loaded,
    confining: &Confining<'_>,
) -> Result<Confined, Error> {
    let sandbox = &loaded.config.sandbox;
    if sandbox.mode.value == SandboxMode::Off {
        return if let Some(key) = lists(loaded).next() {
            Err(listed_and_off(key))
        } else {
            Ok(Confined::default())
        };
    }
    let launcher = launcher()?;
    let (strongest, probe) = Probe::strongest(&launcher);
    let (tier, lowered) = borne_by(confining.client, strongest);
    if let Some(why) = lowered {
        surroundings.output.say(&format!("warning: not confined: {why}"));
    }
    insist(loaded, tier, &probe, &launcher)?;
    if tier == Tier::Label && confining.is_served {
        let why = why_not(&probe);
        return Err(Error::Failed(format!(
            "programs can't be confined here, and what this server's agent starts would have the keys of the server: {why}\nhint: install what is missing, or say with `sandbox.mode: off` that it may"
        )));
    }
    let group = (tier == Tier::Label && confining.is_run).then(|| group_for(surroundings)).flatten();
    if tier == Tier::Label {
        surroundings.output.say(&format!("warning: not confined: {}", why_not(&probe)));
    }
    let mut walls = walls(surroundings, loaded, confining)?;
    if let Some(named) = &sandbox.sockets {
        let home = client_folders()?.home;
        let mut kept: BTreeSet<PathBuf> =
            named.value.0.iter().map(|path| place_of(path, loaded, &home)).collect();
        kept.extend(confining.folder.map(Path::to_path_buf));
        walls.sockets = closed_sockets(surroundings, &kept)?;
    }
    let gate = gate(loaded, confining)?;
    // Whoever reached it could hand over listeners of their own in place of the tree's.
    walls.hidden.extend(gate.as_ref().map(|gate| gate.outlet().socket.clone()));
    let confinement = Confinement::new(&probe, tier, &walls, launcher)
        .map_err(|error| Error::Failed(format!("a program can't be confined: {error}")))?;
    let standing = confinement.standing();
    let named = sandbox.read_only.iter().chain(&sandbox.hidden);
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
    let confinement = confinement
        .with_outlet(gate.as_ref().map(|gate| gate.outlet().clone()))
        .keeping_off_abstract_sockets(sandbox.sockets.is_some() && gate.is_none())
        .in_group(group.as_ref().map(|group| group.path().to_path_buf()));
    let (words, is_by_mounts) = (confinement.words(), tier == Tier::Mount);
    Ok(Confined { words, led, standing: confinement.into_standing(), is_by_mounts, gate, group })
}

/// The name of the socket at which the way out is made, in the folder of a run.
const OUTLET: &str = "outlet.sock";

/// The way out of a network of its own, where there is a list of hosts.
fn gate(loaded: &Loaded, confining: &Confining<'_>) -> Result<Option<Gate>, Error> {
    let Some(hosts) = &loaded.config.sandbox.hosts else { return Ok(None) };
    let folder = confining.folder.ok_or_else(|| {
        Error::Failed("there is no folder for the way out that `sandbox.hosts` takes".to_owned())
    })?;
    let trees = if confining.is_run { Trees::One } else { Trees::Many };
    Gate::open(folder.join(OUTLET), hosts.value.0.clone(), confining.ports, trees).map(Some)
}

/// What of the configuration is not held where walls are switched off, so that nothing would be started.
pub(crate) fn unheld_without_walls(loaded: &Loaded) -> Option<String> {
    lists(loaded).next().and_then(|key| first_line(&listed_and_off(key)))
}

/// The keys of lists that are set, each of which holds in full or starts nothing.
fn lists(loaded: &Loaded) -> impl Iterator<Item = &'static str> {
    let sandbox = &loaded.config.sandbox;
    let all = [("sandbox.hosts", sandbox.hosts.is_some()), ("sandbox.sockets", sandbox.sockets.is_some())];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key)
}

fn listed_and_off(key: &str) -> Error {
    Error::Failed(format!(
        "programs can't be confined as `{key}` says: `sandbox.mode` is `off`\nhint: set `sandbox.mode: auto`, or take the key away; `--no-sandbox` leaves the walls away for one run"
    ))
}

/// Refuses where what the configuration insists on can't be had. A list of hosts or sockets that holds in part would be believed.
fn insist(loaded: &Loaded, tier: Tier, probe: &Probe, launcher: &[OsString]) -> Result<(), Error> {
    let sandbox = &loaded.config.sandbox;
    let insists =
        sandbox.mode.value == SandboxMode::Required || sandbox.write.value == SandboxWrite::Workspace;
    if tier == Tier::Label && insists {
        let why = why_not(probe);
        return Err(Error::Failed(format!(
            "programs can't be confined here, and `sandbox` insists on it: {why}\nhint: install what is missing, or set `sandbox.mode: auto` and `sandbox.write: anywhere`"
        )));
    }
    for key in lists(loaded) {
        let why = match (tier, key) {
            (Tier::Mount, "sandbox.hosts") => Probe::why_no_network(launcher),
            // Those without a place on the disk belong to the network.
            (Tier::Mount, _) if sandbox.hosts.is_some() => None,
            (Tier::Mount, _) => Probe::why_no_socket_wall(launcher),
            _ => Some(probe.why_not(Tier::Mount).unwrap_or("mounts are not used here").to_owned()),
        };
        if let Some(why) = why {
            return Err(Error::Failed(format!(
                "programs can't be confined as `{key}` says: {why}\nhint: it takes mounts and a network of a program's own; without the key, none is limited"
            )));
        }
    }
    Ok(())
}

/// What the processes of a run that is not confined are members of, if this user may make such a thing.
fn group_for(surroundings: &Surroundings) -> Option<Group> {
    let said = |error| {
        surroundings.output.say(&format!(
            "note: what this run starts is known by its parents alone, and is in no control group: {error}"
        ));
    };
    group().map_err(said).ok()
}

/// The sockets of other programs that are not `kept`, and the folder of the user's own services.
fn closed_sockets(surroundings: &Surroundings, kept: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>, Error> {
    let of_user = surroundings.variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let of_user = of_user.and_then(|path| path.canonicalize().ok());
    let folders: Vec<PathBuf> = std::iter::once(PathBuf::from("/run")).chain(of_user.clone()).collect();
    let failed = |error| Error::Failed(format!("sockets can't be closed as `sandbox.sockets` says: {error}"));
    let mut closed = others_sockets(&folders, kept).map_err(failed)?;
    // So that a service which starts again is not there either.
    closed.extend(of_user.filter(|folder| !kept.iter().any(|path| path.starts_with(folder))));
    Ok(closed)
}

impl Confined {
    /// The way out, if it has a network of its own.
    pub(crate) fn outlet(&self) -> Option<&Outlet> {
        self.gate.as_ref().map(Gate::outlet)
    }

    /// Tells people which hosts it was kept from.
    pub(crate) fn tell_refused(&self, output: &Output) {
        if let Some(hosts) = self.gate.as_ref().and_then(Gate::refused) {
            output.say(&format!(
                "note: the program was kept from hosts that `sandbox.hosts` does not name: {hosts}"
            ));
        }
    }

    /// Ends what is left of it.
    pub(crate) fn end(&self) {
        if let Some(group) = &self.group {
            group.end();
        }
    }

    /// Protected names that a program has made since, or made to lead elsewhere.
    pub(crate) fn appeared(&self) -> impl Iterator<Item = &Path> {
        let Standing { missing, links, .. } = &self.standing;
        let made = missing.iter().filter(|path| path.symlink_metadata().is_ok());
        let moved = links.iter().zip(&self.led).filter(|(link, led)| std::fs::read_link(link).ok() != **led);
        made.chain(moved.map(|(link, _)| link)).map(PathBuf::as_path)
    }

    /// Protected names whose walls are gone since something else was put there from outside. Landlock goes by the folder, where that changes nothing.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &Path> {
        self.standing.replaced().filter(|_| self.is_by_mounts)
    }
}

fn why_not(probe: &Probe) -> String {
    let [mount, landlock] =
        [Tier::Mount, Tier::Landlock].map(|tier| probe.why_not(tier).unwrap_or("not used"));
    format!("by mounts: {mount}; by Landlock: {landlock}")
}

/// The tier that a client bears, and why that is not the one that there is. Behind Landlock nothing can be mounted, and
/// some clients confine their own tools by mounts; nor can new names be made beside what is protected.
fn borne_by(client: Option<Client>, tier: Tier) -> (Tier, Option<String>) {
    let why = match (client, tier) {
        (Some(Client::Codex | Client::Claude), Tier::Landlock) => {
            "has a sandbox of its own, which can't be used behind Landlock"
        }
        (Some(Client::Gemini), Tier::Landlock) => {
            "saves files beside its settings under new names, which can't be made there behind Landlock, and does not start without them"
        }
        (_, tier) => return (tier, None),
    };
    (Tier::Label, client.map(|client| format!("{} {why}", client.title())))
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

    /// What of the configuration can't be held by a run of `client` here, so that nothing would be started.
    pub(crate) fn unheld(&self, loaded: &Loaded, client: Client) -> Option<String> {
        let tier = borne_by(Some(client), self.strongest).0;
        let refused = launcher().and_then(|launcher| insist(loaded, tier, &self.probe, &launcher)).err()?;
        first_line(&refused)
    }

    /// How a run of `client` is confined here, and why not more strongly.
    pub(crate) fn tier_of(&self, client: Client) -> (Tier, Option<String>) {
        let (tier, lowered) = borne_by(Some(client), self.strongest);
        let why = (tier != Tier::Mount).then(|| lowered.unwrap_or_else(|| why_not(&self.probe)));
        (tier, why)
    }
}

fn first_line(error: &Error) -> Option<String> {
    error.to_string().lines().next().map(str::to_owned)
}

/// A place that the configuration names.
fn place_of(path: &Spanned<Text>, loaded: &Loaded, home: &Path) -> PathBuf {
    match path.value.expose().strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => from_operator(loaded, path.value.expose()),
    }
}

fn walls(surroundings: &Surroundings, loaded: &Loaded, confining: &Confining<'_>) -> Result<Walls, Error> {
    let Confining { workspace, folder, client, .. } = *confining;
    let sandbox = &loaded.config.sandbox;
    let folders = client_folders()?;
    let all = |paths: &[Spanned<Text>]| -> BTreeSet<PathBuf> {
        paths.iter().map(|path| place_of(path, loaded, &folders.home)).collect()
    };
    let mut read_only = all(&sandbox.read_only);
    let mut hidden: BTreeSet<PathBuf> = BTreeSet::new();
    read_only.insert(this_program()?);
    read_only.extend(folder.map(Path::to_path_buf));
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
    // Whoever wrote them would have the gateway pay with what is theirs, or start what they like.
    let places = credential_places(loaded, &variable);
    read_only.extend(places.files);
    // Whoever wrote one, or put another in front of it, would run as every plugin that runs under it.
    let (programs, choose_programs) = program_places(loaded, &variable);
    read_only.extend(programs);
    // Whoever wrote them would judge.
    let (judges, choose_judges) = hook_places(loaded, &variable);
    read_only.extend(judges);
    // A file that is not there could be made by the program, and what is put in front of another chosen in its place.
    let open = [workspace, folders.home.as_path(), &std::env::temp_dir()].map(|path: &Path| real(path));
    let around = |folder: &PathBuf| open.iter().any(|open| open.starts_with(real(folder)));
    let folders_of_places = places.folders.into_iter().chain(choose_programs).chain(choose_judges);
    read_only.extend(folders_of_places.filter(|folder| !around(folder)).map(made));
    // Hooks inside read there what was pinned.
    let data = made(surroundings.data_folder()?);
    hidden.extend(SqliteStore::keys_of_trail(&audit_key(&variable)?));
    hidden.insert(made(data.join("daemon")));
    hidden.extend([data.join("witness.key"), data.join("witness")]);
    read_only.insert(data);
    let database = store_path(loaded, &variable)?;
    hidden.extend(["", "-wal", "-shm"].map(|end| {
        let mut path = database.clone().into_os_string();
        path.push(end);
        PathBuf::from(path)
    }));
    // Whether or not there is anything yet: it may begin while the program runs.
    hidden.extend([made(surroundings.tape(loaded)?.folder().to_path_buf())]);
    // Whoever read them would answer as people do, or be whom somebody else is known as.
    hidden.extend(secret_files(loaded));
    hidden.insert(made(web_push_folder(loaded, &variable)?));
    // Whoever could log in to the server would answer there, and whoever is trusted to say which one it is would be it.
    let of_server = store_files(loaded);
    hidden.extend(of_server.socket);
    read_only.extend(of_server.authorities);
    // The trail and its key lie beside the database.
    hidden.insert(made(SqliteStore::trail_of(&database)));
    hidden.extend(SqliteStore::keys_of_trail(&database.with_file_name("audit.key")));
    hidden.extend(kept_key_file(loaded).into_iter().flat_map(|key| SqliteStore::keys_of_trail(&key)));
    // Whoever wrote them would be the witness, or have the stamps of a trail that was written anew.
    for witness in &loaded.config.audit.witness {
        let file = |file: &Spanned<Text>| from_operator(loaded, file.value.expose());
        read_only.extend([&witness.ca_file, &witness.known_hosts].into_iter().flatten().map(file));
        hidden.extend(witness.keep.as_ref().map(file).map(made));
    }
    if confining.is_served {
        hidden.extend(server_secrets(loaded, &variable));
        refuse_inside(workspace, loaded, &hidden)?;
    }
    // After that: what people hide besides may lie in the workspace.
    hidden.extend(all(&sandbox.hidden));
    read_only.extend(unwritable_footing(&roots(&folders, surroundings.settings_folder(), workspace)));
    let writable = (sandbox.write.value == SandboxWrite::Workspace).then(|| {
        let mut writable = all(&sandbox.writable);
        writable.extend([workspace.to_path_buf(), std::env::temp_dir()]);
        let own =
            client.and_then(|client| client.layout().user_path(&folders).parent().map(Path::to_path_buf));
        writable.extend(own);
        writable
    });
    Ok(Walls { read_only, hidden, sockets: BTreeSet::new(), writable })
}

/// Refuses a workspace in which something lies that is hidden, or the operator's configuration: tools that only touch files work in the server itself, in front
/// of all walls.
fn refuse_inside(workspace: &Path, loaded: &Loaded, hidden: &BTreeSet<PathBuf>) -> Result<(), Error> {
    let operators = loaded.layers.iter().filter(|(kind, _)| *kind == LayerKind::Operator);
    let operators = operators.map(|(_, name)| {
        let path = PathBuf::from(name);
        std::path::absolute(&path).unwrap_or(path)
    });
    let workspace = real(workspace);
    match hidden.iter().cloned().chain(operators).find(|path| lies_in(path, &workspace)) {
        None => Ok(()),
        Some(path) => Err(Error::Failed(format!(
            "the agent's workspace `{}` has `{}` in it, which its tools must not touch\nhint: name another folder by `agent.workspace`",
            workspace.display(),
            path.display()
        ))),
    }
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

/// A place with all links followed, as far as it is there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A folder for the user alone, made where it is not there. One that can't be made is reported as missing.
fn made(folder: PathBuf) -> PathBuf {
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    folder
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use backstop::clients::install::{Scope, folder_variables};

    use super::*;

    #[test]
    fn a_tier_that_a_client_does_not_bear_is_lowered_for_it_and_said() {
        for client in Client::ALL {
            assert_eq!(borne_by(Some(client), Tier::Mount), (Tier::Mount, None), "{client}");
            let (tier, why) = borne_by(Some(client), Tier::Landlock);
            let bears = !matches!(client, Client::Claude | Client::Codex | Client::Gemini);
            assert_eq!(tier == Tier::Landlock, bears, "{client}");
            assert_eq!(why.is_none_or(|why| !why.starts_with(client.title())), bears, "{client}");
        }
        assert_eq!(borne_by(None, Tier::Landlock), (Tier::Landlock, None));
    }

    /// Whether the file that an installation writes is behind a wall.
    fn is_walled(client: Client, scope: Scope, folders: &Folders) -> bool {
        let walled = unwritable_footing(&roots(folders, None, &folders.project));
        let path = client.layout().path(scope, folders);
        // What no client reads needs no wall.
        path.is_none_or(|path| path.ancestors().any(|above| walled.contains(above)))
    }

    #[test]
    fn the_guards_table_has_every_file_that_an_installation_writes() {
        let (home, project) = (PathBuf::from("/nowhere/home"), PathBuf::from("/nowhere/work"));
        let still = Folders::new(home, project);
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
            let state = client.layout().user_path(&still).with_file_name("history.jsonl");
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
