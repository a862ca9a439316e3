//! Starting a program behind walls.
//!
//! What has to be done by the process itself is done by a launcher: this program again, which builds the walls around
//! itself and then becomes the program. What it is told stands on its command line; these words are made and read here.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::file_wall::{FileWallError, keep_files_off, keep_off_abstract_sockets, keep_signals_inside};
use crate::mounts;
use crate::network::{find_outlet, hand_over};
use crate::probe::{Probe, Tier};
use crate::walls::{Standing, Walls};

const SIGNALS: &str = "--keep-signals";
const MOUNTS: &str = "--mount-walls";
const FILES: &str = "--keep-files";
const TRY: &str = "--only-try";
const READ_ONLY: &str = "--read-only";
const HIDDEN: &str = "--hidden";
const WRITABLE: &str = "--writable";
const CLOSED: &str = "--closed";
const NETWORK: &str = "--own-network";
const OUTLET: &str = "--outlet";
const PROXY: &str = "--proxy-port";
const PORT: &str = "--port";
const SOCKETS: &str = "--keep-off-sockets";
const GROUP: &str = "--group";
const END: &str = "--";

/// The variables in which programs look for a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The way out of a network of its own: ports of the loopback inside, at which a process outside takes what connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlet {
    /// The socket at which that process takes listeners (see [`take_listeners`](crate::take_listeners)).
    pub socket: PathBuf,
    /// The port at which it is a proxy, of which programs inside are told.
    pub proxy: u16,
    /// Ports inside that are those of the same number outside.
    pub ports: Vec<u16>,
}

impl Outlet {
    /// The variables by which programs inside are told of the proxy.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        proxy_variables(self.proxy)
    }
}

/// What a launcher handed over: the listeners of its tree.
#[derive(Debug)]
pub struct Handed {
    /// Each with its port of the loopback inside.
    pub listeners: Vec<(u16, TcpListener)>,
    /// A descriptor that can be read once the program has ended, as poll(2) says. `None` where the system has no such thing.
    pub ended: Option<OwnedFd>,
}

fn proxy_variables(port: u16) -> Vec<(&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{port}");
    // The last is what makes Node.js look at the others.
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost,::1".to_owned()));
    let found = PROXY_VARIABLES.map(|name| (name, proxy.clone()));
    found.into_iter().chain(direct).chain([("NODE_USE_ENV_PROXY", "1".to_owned())]).collect()
}

/// How a program is started.
#[derive(Clone, Debug)]
pub struct Confinement {
    tier: Tier,
    standing: Standing,
    signals: bool,
    outlet: Option<Outlet>,
    keeps_off_sockets: bool,
    group: Option<PathBuf>,
    launcher: Vec<OsString>,
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A launcher was started by somebody else.
    #[error("`{0}` is no word for a launcher")]
    Word(String),
    /// Nothing is said of what to start.
    #[error("there is no program to start")]
    NoProgram,
    /// A wall can't be built.
    #[error("`{path}` can't be walled off: {source}")]
    Wall {
        /// What was to be protected.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// The kernel can't build them, or not all.
    #[error("the walls can't be built: {0}")]
    Kernel(String),
    /// The program can't be started.
    #[error("`{program}` can't be run: {source}")]
    Program {
        /// Its name.
        program: String,
        /// Why not.
        source: io::Error,
    },
}

impl LaunchError {
    /// Whether there is no program of that name.
    pub fn is_no_such_program(&self) -> bool {
        matches!(self, Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Confinement {
    /// How programs are started at `tier`. `launcher` are the words by which this program is started as a launcher, which
    /// gives what follows them to [`enter_and_run`].
    ///
    /// # Errors
    ///
    /// Where the machine has no such tier, or it can't be said what is there to be protected.
    pub fn new(probe: &Probe, tier: Tier, walls: &Walls, launcher: Vec<OsString>) -> io::Result<Self> {
        if let Some(why) = probe.why_not(tier) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(Self {
            tier,
            standing: walls.stand()?,
            signals: probe.signals,
            outlet: None,
            keeps_off_sockets: false,
            group: None,
            launcher,
        })
    }

    /// With a network of its own, out of which only this leads. It takes the mount tier.
    #[must_use]
    pub fn with_outlet(self, outlet: Option<Outlet>) -> Self {
        Self { outlet, ..self }
    }

    /// Without a way to sockets that have no place on the disk, and that others listen at.
    #[must_use]
    pub fn keeping_off_abstract_sockets(self, keeps_off_sockets: bool) -> Self {
        Self { keeps_off_sockets, ..self }
    }

    /// As members of this control group.
    #[must_use]
    pub fn in_group(self, group: Option<PathBuf>) -> Self {
        Self { group, ..self }
    }

    /// How strongly.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Which of the walls stand.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// As [`standing`](Self::standing), of a confinement that is needed no longer.
    pub fn into_standing(self) -> Standing {
        self.standing
    }

    /// The words that stand before a program and its arguments. None where there is nothing to be done.
    pub fn words(&self) -> Vec<OsString> {
        let how = match self.tier {
            Tier::Mount => Some(MOUNTS),
            Tier::Landlock => Some(FILES),
            Tier::Label => None,
        };
        if how.is_none() && !self.signals && self.group.is_none() {
            return Vec::new();
        }
        let mut words = self.launcher.clone();
        words.extend(self.group.iter().flat_map(|group| [GROUP.into(), group.into()]));
        words.extend(self.signals.then(|| SIGNALS.into()));
        words.extend(how.map(OsString::from));
        if how.is_some() {
            words.extend(walls_as_words(&self.standing));
        }
        words.extend(self.keeps_off_sockets.then(|| SOCKETS.into()));
        if let Some(Outlet { socket, proxy, ports }) = &self.outlet {
            words.extend([NETWORK.into(), OUTLET.into(), socket.into()]);
            words.extend([PROXY.into(), proxy.to_string().into()]);
            words.extend(ports.iter().flat_map(|port| [PORT.into(), port.to_string().into()]));
        }
        words.push(END.into());
        words
    }
}

fn walls_as_words(standing: &Standing) -> Vec<OsString> {
    let writable = standing.writable.as_deref().unwrap_or_default();
    let (hidden, closed) = (standing.hidden.as_slice(), standing.sockets.as_slice());
    [(READ_ONLY, standing.read_only.as_slice()), (HIDDEN, hidden), (CLOSED, closed), (WRITABLE, writable)]
        .into_iter()
        .flat_map(|(option, paths)| paths.iter().flat_map(move |path| [option.into(), path.into()]))
        .collect()
}

/// The words of a confinement by the same launcher (see [`Confinement::words`]), or none, with membership of a control group besides.
pub fn joining(launcher: &[OsString], words: &[OsString], group: &Path) -> Vec<OsString> {
    let rest = words.strip_prefix(launcher).filter(|rest| !rest.is_empty());
    let end = [OsString::from(END)];
    let joined = [GROUP.into(), group.into()];
    launcher.iter().cloned().chain(joined).chain(rest.unwrap_or(&end).iter().cloned()).collect()
}

/// Why what a launcher starts can't be a member of a control group; `None` where it can. It is tried.
pub fn why_not_joined(launcher: &[OsString], group: &Path) -> Option<String> {
    try_words(launcher, &[OsStr::new(GROUP), group.as_os_str()]).err()
}

/// Has a launcher build such walls, and end. Says what it says, where it fails.
pub(crate) fn try_out(launcher: &[OsString], tier: Tier) -> Result<(), String> {
    match tier {
        Tier::Mount => try_words(launcher, &[MOUNTS]),
        Tier::Landlock => try_words(launcher, &[FILES]),
        Tier::Label => Ok(()),
    }
}

/// As [`try_out`], for a network of its own behind mounts.
pub(crate) fn try_network(launcher: &[OsString]) -> Result<(), String> {
    try_words(launcher, &[MOUNTS, NETWORK])
}

/// As [`try_out`], for the wall before sockets that have no place on the disk.
pub(crate) fn try_off_sockets(launcher: &[OsString]) -> Result<(), String> {
    try_words(launcher, &[MOUNTS, SOCKETS])
}

fn try_words(launcher: &[OsString], how: &[impl AsRef<OsStr>]) -> Result<(), String> {
    let Some((program, before)) = launcher.split_first() else {
        return Err("there is no launcher".to_owned());
    };
    let somewhere = std::env::temp_dir();
    let mut command = Command::new(program);
    // Not in a folder that is about to be hidden.
    command.args(before).args(how).args([TRY, HIDDEN]).arg(somewhere).arg(END).current_dir("/");
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().unwrap_or("it can't be entered").to_owned())
}

/// What a launcher is told.
#[derive(Debug, Default)]
struct Told {
    signals: bool,
    mounts: bool,
    files: bool,
    only_try: bool,
    own_network: bool,
    keeps_off_sockets: bool,
    outlet: Option<PathBuf>,
    proxy: Option<u16>,
    ports: Vec<u16>,
    group: Option<PathBuf>,
    walls: Walls,
}

/// Builds the walls around this process, and becomes the program. `words` are those behind the launcher's own. It comes back
/// only where it was to try the walls and nothing else.
///
/// # Errors
///
/// Why the program was not started. It never runs behind fewer walls than it was to have.
pub fn enter_and_run(words: &[OsString]) -> Result<(), LaunchError> {
    let (told, command) = read(words)?;
    if !told.mounts && (told.own_network || told.outlet.is_some()) {
        return Err(LaunchError::Kernel("a network of its own takes mounts of its own".to_owned()));
    }
    if told.outlet.is_some() && !told.own_network {
        return Err(LaunchError::Kernel("a way out takes a network of its own".to_owned()));
    }
    let standing = told.walls.stand().map_err(|source| wall(Path::new("/"), source))?;
    // They were there when the walls were planned.
    if let Some(missing) = standing.missing.first() {
        return Err(wall(missing, io::ErrorKind::NotFound.into()));
    }
    let standing = standing.with_other_names().map_err(|source| wall(Path::new("/"), source))?;
    if let Some(group) = &told.group {
        // Zero stands for who writes it.
        std::fs::write(group.join("cgroup.procs"), "0").map_err(|source| wall(group, source))?;
    }
    let outlet = told.outlet.as_deref().map(|path| find_outlet(path).map_err(|source| wall(path, source)));
    let outlet = outlet.transpose()?;
    if told.mounts {
        mounts::enter(&standing, told.own_network).map_err(|error| LaunchError::Kernel(error.to_string()))?;
    }
    if let Some(outlet) = outlet {
        let ports: Vec<u16> = told.proxy.into_iter().chain(told.ports.iter().copied()).collect();
        let failed = |error| LaunchError::Kernel(format!("the way out of a network of its own: {error}"));
        hand_over(&outlet, &ports).map_err(failed)?;
    }
    let kernel = |error: FileWallError| LaunchError::Kernel(error.to_string());
    if told.files {
        keep_files_off(&standing).map_err(kernel)?;
    }
    // Last: they forbid nothing that is needed before.
    if told.keeps_off_sockets {
        keep_off_abstract_sockets().map_err(kernel)?;
    }
    if told.signals {
        keep_signals_inside().map_err(kernel)?;
    }
    let Some((program, arguments)) = command.split_first() else {
        return if told.only_try { Ok(()) } else { Err(LaunchError::NoProgram) };
    };
    let variables = told.proxy.map(proxy_variables).unwrap_or_default();
    let source = Command::new(program).args(arguments).envs(variables).exec();
    Err(LaunchError::Program { program: program.to_string_lossy().into_owned(), source })
}

fn wall(path: &Path, source: io::Error) -> LaunchError {
    LaunchError::Wall { path: path.display().to_string(), source }
}

fn read(words: &[OsString]) -> Result<(Told, &[OsString]), LaunchError> {
    let mut told = Told::default();
    let mut rest = words;
    while let Some((word, after)) = rest.split_first() {
        rest = after;
        match word.to_str() {
            Some(END) => return Ok((told, rest)),
            Some(SIGNALS) => told.signals = true,
            Some(MOUNTS) => told.mounts = true,
            Some(FILES) => told.files = true,
            Some(TRY) => told.only_try = true,
            Some(NETWORK) => told.own_network = true,
            Some(SOCKETS) => told.keeps_off_sockets = true,
            Some(option @ (PROXY | PORT)) => {
                let (port, after) = rest.split_first().ok_or_else(|| unknown(word))?;
                rest = after;
                let port = port.to_str().and_then(|port| port.parse().ok()).ok_or_else(|| unknown(port))?;
                if option == PROXY { told.proxy = Some(port) } else { told.ports.push(port) }
            }
            Some(option @ (OUTLET | GROUP)) => {
                let (path, after) = rest.split_first().ok_or_else(|| unknown(word))?;
                rest = after;
                let place = if option == OUTLET { &mut told.outlet } else { &mut told.group };
                *place = Some(PathBuf::from(path));
            }
            Some(option @ (READ_ONLY | HIDDEN | CLOSED | WRITABLE)) => {
                let (path, after) = rest.split_first().ok_or_else(|| unknown(word))?;
                rest = after;
                let paths = match option {
                    READ_ONLY => &mut told.walls.read_only,
                    HIDDEN => &mut told.walls.hidden,
                    CLOSED => &mut told.walls.sockets,
                    _ => told.walls.writable.get_or_insert_default(),
                };
                paths.insert(PathBuf::from(path));
            }
            _ => return Err(unknown(word)),
        }
    }
    Err(LaunchError::NoProgram)
}

fn unknown(word: &OsStr) -> LaunchError {
    LaunchError::Word(word.to_string_lossy().into_owned())
}
