//! Starting a program behind walls.
//!
//! What has to be done by the process itself is done by a launcher: this program again, which builds the walls around
//! itself and then becomes the program. What it is told stands on its command line; these words are made and read here.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::file_wall::{FileWallError, keep_files_off, keep_signals_inside};
use crate::mounts;
use crate::probe::{Probe, Tier};
use crate::walls::{Standing, Walls};

const SIGNALS: &str = "--keep-signals";
const MOUNTS: &str = "--mount-walls";
const FILES: &str = "--keep-files";
const TRY: &str = "--only-try";
const READ_ONLY: &str = "--read-only";
const HIDDEN: &str = "--hidden";
const WRITABLE: &str = "--writable";
const END: &str = "--";

/// How a program is started.
#[derive(Clone, Debug)]
pub struct Confinement {
    tier: Tier,
    standing: Standing,
    signals: bool,
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
        Ok(Self { tier, standing: walls.stand()?, signals: probe.signals, launcher })
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

    /// Whether processes outside of the tree get no signals from inside.
    pub fn keeps_signals(&self) -> bool {
        self.signals
    }

    /// The words that stand before a program and its arguments. None where there is nothing to be done.
    pub fn words(&self) -> Vec<OsString> {
        let how = match self.tier {
            Tier::Mount => Some(MOUNTS),
            Tier::Landlock => Some(FILES),
            Tier::Label => None,
        };
        if how.is_none() && !self.signals {
            return Vec::new();
        }
        let mut words = self.launcher.clone();
        words.extend(self.signals.then(|| SIGNALS.into()));
        words.extend(how.map(OsString::from));
        if how.is_some() {
            words.extend(walls_as_words(&self.standing));
        }
        words.push(END.into());
        words
    }
}

fn walls_as_words(standing: &Standing) -> Vec<OsString> {
    let writable = standing.writable.as_deref().unwrap_or_default();
    [(READ_ONLY, standing.read_only.as_slice()), (HIDDEN, &standing.hidden), (WRITABLE, writable)]
        .into_iter()
        .flat_map(|(option, paths)| paths.iter().flat_map(move |path| [option.into(), path.into()]))
        .collect()
}

/// Has a launcher build such walls, and end. Says what it says, where it fails.
pub(crate) fn try_out(launcher: &[OsString], tier: Tier) -> Result<(), String> {
    let how = match tier {
        Tier::Mount => MOUNTS,
        Tier::Landlock => FILES,
        Tier::Label => return Ok(()),
    };
    let Some((program, before)) = launcher.split_first() else {
        return Err("there is no launcher".to_owned());
    };
    let somewhere = std::env::temp_dir();
    let mut command = Command::new(program);
    // Not in a folder that is about to be hidden.
    command.args(before).args([how, TRY, HIDDEN]).arg(somewhere).arg(END).current_dir("/");
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
    let standing = told.walls.stand().map_err(|source| wall(Path::new("/"), source))?;
    // They were there when the walls were planned.
    if let Some(missing) = standing.missing.first() {
        return Err(wall(missing, io::ErrorKind::NotFound.into()));
    }
    if told.mounts {
        mounts::enter(&standing).map_err(|error| LaunchError::Kernel(error.to_string()))?;
    }
    let kernel = |error: FileWallError| LaunchError::Kernel(error.to_string());
    if told.files {
        keep_files_off(&standing).map_err(kernel)?;
    }
    // Last: it forbids nothing that is needed before.
    if told.signals {
        keep_signals_inside().map_err(kernel)?;
    }
    let Some((program, arguments)) = command.split_first() else {
        return if told.only_try { Ok(()) } else { Err(LaunchError::NoProgram) };
    };
    let source = Command::new(program).args(arguments).exec();
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
            Some(option @ (READ_ONLY | HIDDEN | WRITABLE)) => {
                let (path, after) = rest.split_first().ok_or_else(|| unknown(word))?;
                rest = after;
                let paths = match option {
                    READ_ONLY => &mut told.walls.read_only,
                    HIDDEN => &mut told.walls.hidden,
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
