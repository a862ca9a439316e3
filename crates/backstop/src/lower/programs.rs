//! Programs of the machine that judge: where they are looked for, and that nobody else can have put them there.
//!
//! The laws: *whoever is judged chooses no program*. Hooks and plugins are loaded in processes that coding agents start, too, and some of
//! these take variables out of a repository's files. So names are looked for in those folders of `PATH` only that belong to root, and
//! `PATH` comes to programs with no others: whatever it says, it chooses among what the system has. *What was chosen is what is
//! started*: a program is looked up once, when the configuration is loaded, and before each start it has to be where it was, all
//! links followed.
//!
//! Limits: what is in these files may change in its place, since only the operator can have changed it. What a program loads besides is
//! not known here.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use backstop_config::{Locations, Untrusted, open_with_place, operators_folder};
use backstop_plugins::external::Held;

/// The number of the account that the system's own folders belong to.
const ROOT: u32 = 0;

/// What the environment says of a name.
pub(crate) type Environment<'a> = dyn Fn(&str) -> Option<String> + Sync + 'a;

/// Where programs are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) locations: Locations,
    /// The folders of `PATH` that are the system's.
    pub(crate) folders: Vec<PathBuf>,
}

impl Programs {
    /// Where they are for who works in the folder of this process.
    pub(crate) fn new(environment: &Environment<'_>) -> Self {
        let here = std::env::current_dir().ok();
        let locations = Locations {
            // Nobody has cloned the root of all folders.
            working_directory: here.filter(|folder| folder.parent().is_some()),
            home: environment("HOME").map(PathBuf::from),
            ..Locations::default()
        };
        let path = environment("PATH").unwrap_or_default();
        let mut folders = Vec::new();
        for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
            if let Ok(folder) = operators_folder(&folder, &locations)
                && fs::metadata(&folder).is_ok_and(|met| met.uid() == ROOT)
                && !folders.contains(&folder)
            {
                folders.push(folder);
            }
        }
        Self { locations, folders }
    }

    /// Leaves out the folders in which who works in `workspace` could put a program.
    pub(crate) fn leave_out(&mut self, workspace: &Path) {
        let locations = Locations { working_directory: Some(workspace.to_owned()), ..self.locations.clone() };
        self.folders.retain(|folder| operators_folder(folder, &locations).is_ok());
    }

    /// `PATH` as programs get it.
    pub(crate) fn path(&self) -> OsString {
        // Folders that hold a `:` came out of no such list.
        std::env::join_paths(&self.folders).unwrap_or_default()
    }

    /// The file that is started by a bare name. An error where the system has none.
    pub(crate) fn named(&self, name: &str) -> Result<PathBuf, String> {
        let mut files = self.folders.iter().map(|folder| folder.join(name));
        let found = files.find(|file| is_runnable(file));
        found.ok_or_else(|| "no folder of `PATH` that belongs to root has it".to_owned())
    }

    /// Where a file is now, if that is nowhere but the operator's.
    pub(crate) fn looked(&self, path: &Path) -> Result<(PathBuf, Option<PathBuf>), String> {
        Ok((path.to_owned(), place(path, &self.locations)?))
    }
}

/// Whether there is a file that can be started.
pub(crate) fn is_runnable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|met| met.is_file() && met.permissions().mode() & 0o111 != 0)
}

/// Where a file or folder is, all links followed; `None` where nothing is. An error where somebody else than the operator can have
/// put it there.
fn place(path: &Path, locations: &Locations) -> Result<Option<PathBuf>, String> {
    let met = match fs::metadata(path) {
        Ok(met) => met,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let found = if met.is_dir() {
        operators_folder(path, locations)
    } else if met.is_file() {
        open_with_place(path, locations).map(|(_, place)| place)
    } else {
        // A socket or a device is no code; who it belongs to is not looked at.
        return fs::canonicalize(path).map(Some).map_err(|error| error.to_string());
    };
    found.map(Some).map_err(|Untrusted { why, hint }| match hint {
        Some(hint) => format!("{why}\nhint: {hint}"),
        None => why,
    })
}

/// The files that a program consists of, as far as its command names them, and the folder that it starts in, each with where it was when
/// it was looked up; `None` where nothing was.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) files: Vec<(PathBuf, Option<PathBuf>)>,
    pub(crate) locations: Locations,
}

impl Files {
    /// Looks whether each file is where it was, for who works in `locations`.
    fn check_in(&self, locations: &Locations) -> Result<(), String> {
        for (path, was) in &self.files {
            let now = place(path, locations).map_err(|why| format!("`{}`: {why}", path.display()))?;
            if now != *was {
                let path = path.display();
                return Err(format!(
                    "`{path}` is not the file that it was when the configuration was loaded\nhint: load the configuration anew"
                ));
            }
        }
        Ok(())
    }

    /// Why the program may not judge who works in `folder`, if it may not.
    pub(crate) fn beside(&self, folder: &Path) -> Result<(), String> {
        let working_directory = Some(folder.to_owned()).filter(|folder| folder.parent().is_some());
        self.check_in(&Locations { working_directory, ..self.locations.clone() })
    }
}

impl Held for Files {
    fn check(&self) -> Result<(), String> {
        self.check_in(&self.locations)
    }
}
