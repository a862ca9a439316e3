//! Which programs the hooks of `hooks.at` start, and what those are given.
//!
//! The laws are those of [programs](crate::lower::programs), and each file that is among a program's arguments counts as the program does: it
//! lies in no workspace, and nobody else can have written it. So does the folder that it starts in, the configuration's: interpreters and
//! package managers take code and settings out of that folder first. None starts in a session's, where the agent writes.
//!
//! Limits: `backstop config pin` holds scripts to their content, and not what they load besides.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use backstop_config::{Loaded, Outside, PlacedHook, PointHook, Problem, Spanned, Text};

use crate::locations::from_operator;
use crate::lower::problem;
use crate::lower::programs::{Environment, Files, Programs, is_runnable};

/// What every program gets of the environment, if it is set, beside the system's folders of `PATH`.
const PLAIN: [&str; 3] = ["LANG", "LC_ALL", "TZ"];
/// Keeps Python from writing beside the code that it runs, and from running what lies in the user's home, where agents write.
const PYTHON: [(&str, &str); 2] = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONNOUSERSITE", "1")];

/// What programs are looked up by.
pub(super) struct Chooser<'a> {
    loaded: &'a Loaded,
    environment: &'a Environment<'a>,
    programs: Programs,
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

impl<'a> Chooser<'a> {
    pub(super) fn new(loaded: &'a Loaded, environment: &'a Environment<'a>) -> Self {
        Self { loaded, environment, programs: Programs::new(environment) }
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
        let looked = |file: &Path| self.programs.looked(file);
        let mut files = Files {
            files: vec![looked(&file).map_err(|why| at(program, why))?],
            locations: self.programs.locations.clone(),
        };
        let mut given = Vec::new();
        for word in arguments {
            let text = word.value.expose();
            let (argument, file) = self.argument(text).map_err(|why| at(word, why))?;
            if let Some(file) = file {
                files.files.push(looked(&file).map_err(|why| at(word, why))?);
            }
            given.push(argument);
        }
        let directory = self.folder();
        files.files.push(looked(&directory).map_err(|why| {
            let folder = directory.display();
            problem(hook.at, &format!("a program can't start in `{folder}`, beside the configuration: {why}"))
        })?);
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
        self.programs.named(name).map_err(|why| {
            format!("{why}\nhint: write its whole path, or `./` before what lies beside the configuration")
        })
    }

    /// An argument as it is handed over, and the file that it is, if it may be one.
    fn argument(&self, text: &str) -> Result<(OsString, Option<PathBuf>), String> {
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
        Ok((text.into(), is_file.then_some(file)))
    }

    /// The environment of a program.
    fn given(&self, entry: &PointHook, home: &Path) -> BTreeMap<OsString, OsString> {
        let variable = |name: &str| Some((OsString::from(name), OsString::from((self.environment)(name)?)));
        let fixed = [("HOME", home.to_path_buf().into_os_string())];
        let fixed = fixed.into_iter().chain(PYTHON.map(|(name, value)| (name, value.into())));
        let mut all: BTreeMap<OsString, OsString> = fixed.map(|(name, value)| (name.into(), value)).collect();
        all.extend(PLAIN.iter().copied().filter_map(variable));
        all.insert("PATH".into(), self.programs.path());
        all.extend(entry.env.iter().filter_map(|name| variable(name.value.as_str())));
        all
    }
}

/// A word for people, as its author wrote it.
fn written(word: &Spanned<Text>) -> String {
    word.value.as_written().chars().filter(|c| !c.is_control() && *c != '`').take(200).collect()
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
        let named = chosen.files.files.into_iter().filter(|(path, _)| *path != chosen.directory);
        files.extend(named.flat_map(|(path, place)| std::iter::once(path).chain(place)));
        // Out of which interpreters take code.
        folders.insert(chosen.directory);
    }
    folders.extend(files.iter().filter_map(|file| file.parent()).map(Path::to_path_buf));
    // In which programs find others.
    folders.extend(chooser.programs.folders);
    (files, folders)
}
