//! Which programs the hooks of `hooks.at` start, and what those are given.
//!
//! The laws: *whoever is judged chooses no program*, so a program, and each file that is among its arguments, counts as the operator's
//! configuration does: it lies in no workspace, and nobody else can have written it. *What was chosen is what is started*: it is looked
//! up once, when the configuration is loaded, and before each start it has to be where it was, all links followed.
//!
//! Hooks are loaded in processes that coding agents start, too, and some of these take variables out of a repository's files. So names are
//! looked for in those folders of `PATH` only that belong to root, and `PATH` comes to programs with no others: whatever it says, it
//! chooses among what the system has.
//!
//! Limits: what is in these files may change in its place, since only the operator can have changed it; `backstop config pin` holds
//! scripts to their content. What a program loads besides is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use backstop_config::{
    CommandDialect, Loaded, Locations, Outside, PlacedHook, PointHook, Problem, Spanned, Text, Untrusted,
    open_with_place, operators_folder,
};
use backstop_plugins::external::Held;

use crate::locations::from_operator;
use crate::lower::problem;

/// What every program gets of the environment, if it is set, beside the system's folders of `PATH`.
const PLAIN: [&str; 3] = ["LANG", "LC_ALL", "TZ"];
/// The number of the account that the system's own folders belong to.
const ROOT: u32 = 0;
/// Keeps Python from writing beside the code that it runs, and from running what lies in the user's home, where agents write.
const PYTHON: [(&str, &str); 2] = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONNOUSERSITE", "1")];

/// What the environment says of a name.
pub(crate) type Environment<'a> = dyn Fn(&str) -> Option<String> + Sync + 'a;

/// What programs are looked up by.
pub(super) struct Chooser<'a> {
    loaded: &'a Loaded,
    environment: &'a Environment<'a>,
    locations: Locations,
    /// The folders of `PATH` that are the system's.
    folders: Vec<PathBuf>,
}

/// A program as it is started.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// The folder of the configuration.
    pub(super) directory: PathBuf,
    pub(super) files: Files,
}

/// The files that a program consists of, as far as its command names them, each with where it was when it was looked up; `None` where
/// nothing was.
#[derive(Clone, Debug)]
pub(super) struct Files {
    files: Vec<(PathBuf, Option<PathBuf>)>,
    locations: Locations,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(loaded: &'a Loaded, environment: &'a Environment<'a>) -> Self {
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
        Self { loaded, environment, locations, folders }
    }

    /// Looks up what an entry starts. The problem says what of it can't be had, at its place.
    pub(super) fn choose(&self, hook: &PlacedHook<'_>) -> Result<Chosen, Problem> {
        let words = hook.entry.command.as_ref().map(|words| words.value.as_slice()).unwrap_or_default();
        let Some((program, arguments)) = words.split_first() else {
            return Err(problem(hook.at, &"the hook has no program"));
        };
        let at = |word: &Spanned<Text>, why: String| {
            problem(&word.at, &format!("`{}` can't be used: {why}", written(word)))
        };
        let name = program.value.expose();
        let file = self.program(name).map_err(|why| at(program, why))?;
        let mut files = Files {
            files: vec![self.looked(&file).map_err(|why| at(program, why))?],
            locations: self.locations.clone(),
        };
        let mut given = Vec::new();
        for word in arguments {
            let text = word.value.expose();
            let (argument, file) = self.argument(text, hook.entry).map_err(|why| at(word, why))?;
            if let Some(file) = file {
                files.files.push(self.looked(&file).map_err(|why| at(word, why))?);
            }
            given.push(argument);
        }
        let directory = self.folder();
        let environment = self.given(hook.entry, &directory);
        Ok(Chosen { program: file.into(), arguments: given, environment, directory, files })
    }

    /// The folder from which paths count, and in which programs work.
    fn folder(&self) -> PathBuf {
        let folder = self.loaded.operator_folder.as_ref().and_then(|folder| std::path::absolute(folder).ok());
        folder.unwrap_or_else(|| PathBuf::from("/"))
    }

    fn beside_file(&self, path: &str) -> PathBuf {
        let path = from_operator(self.loaded, path);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// A program by its path, or by its name in the folders that are the system's.
    fn program(&self, name: &str) -> Result<PathBuf, String> {
        if name.contains('/') {
            let file = self.beside_file(name);
            return match fs::metadata(&file) {
                Err(error) => Err(error.to_string()),
                Ok(_) if !is_runnable(&file) => {
                    Err(format!("it is no program\nhint: chmod u+x {}", file.display()))
                }
                Ok(_) => Ok(file),
            };
        }
        let found = self.folders.iter().map(|folder| folder.join(name)).find(|file| is_runnable(file));
        found.ok_or_else(|| {
            "no folder of `PATH` that belongs to root has it\nhint: write its whole path, or `./` before what lies beside the configuration".to_owned()
        })
    }

    /// An argument as it is handed over, and the file that it is, if it may be one.
    fn argument(&self, text: &str, entry: &PointHook) -> Result<(OsString, Option<PathBuf>), String> {
        if text.starts_with("./") || text.starts_with("../") {
            let file = self.beside_file(text);
            fs::metadata(&file).map_err(|error| error.to_string())?;
            return Ok((file.clone().into(), Some(file)));
        }
        if Path::new(text).is_absolute() {
            return Ok((text.into(), Some(text.into())));
        }
        let file = self.beside_file(text);
        let is_file = self.loaded.operator_folder.is_some() && !text.starts_with('-') && file.is_file();
        if is_file && works_in_session(entry) {
            let why = "the program works in the folder of the session, where another file may have this name";
            return Err(format!("{why}\nhint: write `./{text}` for the one beside the configuration"));
        }
        Ok((text.into(), is_file.then_some(file)))
    }

    /// Where a file is now, if that is nowhere but the operator's.
    fn looked(&self, path: &Path) -> Result<(PathBuf, Option<PathBuf>), String> {
        Ok((path.to_owned(), place(path, &self.locations)?))
    }

    /// The environment of a program.
    fn given(&self, entry: &PointHook, home: &Path) -> BTreeMap<OsString, OsString> {
        let variable = |name: &str| Some((OsString::from(name), OsString::from((self.environment)(name)?)));
        let fixed = [("HOME", home.to_path_buf().into_os_string())];
        let fixed = fixed.into_iter().chain(PYTHON.map(|(name, value)| (name, value.into())));
        let mut all: BTreeMap<OsString, OsString> = fixed.map(|(name, value)| (name.into(), value)).collect();
        all.extend(PLAIN.iter().copied().filter_map(variable));
        // Folders that hold a `:` came out of no such list.
        all.insert("PATH".into(), std::env::join_paths(&self.folders).unwrap_or_default());
        all.extend(entry.env.iter().filter_map(|name| variable(name.value.as_str())));
        all
    }
}

/// Whether a program works in the folder of the session, as the scripts of Claude Code do.
pub(super) fn works_in_session(entry: &PointHook) -> bool {
    entry.kind.value == Outside::Command
        && entry.dialect.as_ref().is_some_and(|dialect| dialect.value == CommandDialect::Claude)
}

/// A word for people, as its author wrote it.
fn written(word: &Spanned<Text>) -> String {
    word.value.as_written().chars().filter(|c| !c.is_control() && *c != '`').take(200).collect()
}

fn is_runnable(path: &Path) -> bool {
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
    pub(super) fn beside(&self, folder: &Path) -> Result<(), String> {
        let working_directory = Some(folder.to_owned()).filter(|folder| folder.parent().is_some());
        self.check_in(&Locations { working_directory, ..self.locations.clone() })
    }
}

impl Held for Files {
    fn check(&self) -> Result<(), String> {
        self.check_in(&self.locations)
    }
}

/// The files that hooks of the configuration start, and the folders that choose them: files by their names and by where links lead. Whoever
/// can put something there chooses who judges.
pub fn hook_places(loaded: &Loaded, environment: &Environment<'_>) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    let mut programs =
        loaded.config.hooks.placed().filter(|hook| hook.entry.kind.value != Outside::Http).peekable();
    if programs.peek().is_none() {
        return (files, folders);
    }
    let chooser = Chooser::new(loaded, environment);
    for hook in programs {
        // What can't be had is told of by whoever starts it.
        let Ok(chosen) = chooser.choose(&hook) else { continue };
        files.extend(
            chosen.files.files.into_iter().flat_map(|(path, place)| std::iter::once(path).chain(place)),
        );
    }
    folders.extend(files.iter().filter_map(|file| file.parent()).map(Path::to_path_buf));
    // In which programs find others.
    folders.extend(chooser.folders);
    (files, folders)
}
