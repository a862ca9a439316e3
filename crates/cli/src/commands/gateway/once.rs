//! What a client is run with: it starts our hooks and asks its models through our gateway, and its files stay as they
//! are.
//!
//! Whatever that takes is in one folder of the run: the socket on which the hooks are answered, and files that the
//! client is pointed at. The folder goes with the run, also when Backstop is killed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use backstop::clients::Client;
use backstop::clients::install::pointing::{Gateway, Pointed, Surroundings as Given, point};
use backstop::clients::install::{
    Once, STATUS_WORD, Switch, Whose, loaders, plan_once, status_line_files, switches,
};

use super::banner;
use super::errand::Errand;
use crate::commands::clients::{fixed_program, folders, loaded, program_of, this_program};
use crate::daemon::SOCKET_VARIABLE;
use crate::error::Error;
use crate::session::Surroundings;

/// A folder for one run, which is gone with it.
#[derive(Debug)]
pub(in crate::commands) struct RunFolder(PathBuf);

impl RunFolder {
    pub(in crate::commands) fn create() -> Result<Self, Error> {
        let token = backstop::new_token();
        let name: String = token.expose().chars().rev().take(16).collect();
        // The guards know it by this name, and let no agent write there.
        let path = std::env::temp_dir().join(format!("backstop-run-{name}"));
        let failed = |source| Error::File { path: path.clone(), what: "created", source };
        DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(Self(path))
    }

    pub(in crate::commands) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("hooks.sock")
    }

    fn write(&self, once: &Once) -> Result<(), Error> {
        for (path, text) in &once.files {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|source| Error::File {
                path: path.clone(),
                what: "written",
                source,
            })?;
        }
        Ok(())
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // It holds files only. One that can't be removed is of no use to anybody.
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::remove_file(entry.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Variables of the program's environment.
pub(super) type Variables = Vec<(&'static str, OsString)>;

/// How the program is started: with our hooks and pointed at the gateway, as far as it is a client that can be.
#[derive(Debug)]
pub(super) struct Launch {
    program: OsString,
    once: Once,
    /// The client that the program is.
    client: Option<Client>,
    /// Whether it has our hooks.
    is_hooked: bool,
    /// What it is started for, where that asks no model.
    errand: Option<Errand>,
}

impl Launch {
    /// The program as it is, in a run that it is told of.
    pub(super) fn plain(
        command: Vec<OsString>,
        client: Option<Client>,
        folder: &RunFolder,
    ) -> Result<Self, Error> {
        let mut words = command.into_iter();
        let program = words.next().ok_or_else(|| Error::Usage("a program to run is missing".to_owned()))?;
        let client = client.or_else(|| client_of(&program));
        let variables = vec![(SOCKET_VARIABLE, folder.socket().into_os_string())];
        let once = Once { arguments: words.collect(), variables, ..Once::default() };
        let errand = Errand::of(client, &once.arguments);
        Ok(Self { program, once, client, is_hooked: false, errand })
    }

    /// Adds variables to the program's environment, which are also those of what its settings say.
    pub(super) fn tell<'v>(&mut self, variables: impl Iterator<Item = &'v (&'static str, String)>) {
        self.once.variables.extend(variables.map(|(name, value)| (*name, value.into())));
    }

    /// Gives the program our hooks, if it is a client that can be given them.
    pub(super) fn hook(mut self, folder: &RunFolder, surroundings: &Surroundings) -> Result<Self, Error> {
        let Some(client) = self.client else { return Ok(self) };
        // The run has read its configuration just now, on a person's word.
        let hooks = fixed_program(surroundings, false)?;
        let environment = |name: &str| std::env::var_os(name);
        let planned = plan_once(client, hooks, folder.path(), &self.once.arguments, &environment);
        let planned = planned.map_err(|error| {
            Error::Failed(format!(
                "{} can't be given hooks for this run: {error}\nhint: `--no-hooks` runs it without",
                client.title()
            ))
        })?;
        let Some(mut once) = planned else {
            // What is installed for good is all there is, so it must not be switched off.
            if let Some(Switch { file, says }) = switches(client, &folders()?).into_iter().next() {
                return Err(Error::Failed(format!(
                    "{} runs no hooks here: `{}` says {says}\nhint: take that out, or run it with `--no-hooks`",
                    client.title(),
                    file.display()
                )));
            }
            surroundings.output.say(&format!(
                "note: {} can't be given hooks for one run; `backstop install {client}` puts them into its configuration",
                client.title()
            ));
            return Ok(self);
        };
        let (own, line) = (this_program()?, banner::file(folder.path()));
        if let (Some(own), Some(line)) = (own.to_str(), line.to_str()) {
            once.show_status(client, &settings_of(client)?, &[own, STATUS_WORD, line]);
        }
        once.variables.append(&mut self.once.variables);
        Ok(Self { once, is_hooked: true, ..self })
    }

    /// Says which settings load code into the client's hooks all the same; `is_pointed`: those of a repository are overruled where
    /// the client's environment is ours to say.
    pub(super) fn warn_of_loaders(&self, is_pointed: bool, surroundings: &Surroundings) -> Result<(), Error> {
        let Some(client) = self.client else { return Ok(()) };
        let overruled = |of: Whose| is_pointed && client == Client::Claude && of == Whose::Project;
        for loader in loaders(client, &folders()?, Path::new("/")).iter().filter(|one| !overruled(one.of)) {
            surroundings.output.say(&format!("warning: {}", loaded(loader)));
        }
        Ok(())
    }

    /// Points the client that the program is at `gateway`.
    pub(super) fn point(
        &mut self,
        gateway: &Gateway,
        folder: &RunFolder,
        surroundings: &Surroundings,
    ) -> Result<(), Error> {
        let Some(client) = self.client else { return Ok(()) };
        let (folders, environment) = (folders()?, |name: &str| std::env::var_os(name));
        let given = Given { folders: &folders, folder: folder.path(), environment: &environment };
        let before = (self.errand == Some(Errand::Question)).then(|| self.once.clone());
        let pointed = match (point(client, &mut self.once, gateway, given), before) {
            (Ok(pointed), _) => pointed,
            // It goes nowhere, so it can't go elsewhere.
            (Err(error), Some(before)) => {
                self.once = before;
                surroundings.output.say(&format!(
                    "note: {} is asked what it is and nothing else, so it runs although it can't be pointed at the proxy: {error}",
                    client.title()
                ));
                return Ok(());
            }
            (Err(error), None) => {
                return Err(Error::Failed(format!(
                    "{} can't be pointed at the proxy: {error}\nhint: take that out, or run it with `--hooks-only`, which leaves its model calls to it",
                    client.title()
                )));
            }
        };
        for note in self.once.notes.drain(..) {
            surroundings.output.say(&format!("note: {note}"));
        }
        if let Pointed::Not(why) = pointed {
            surroundings.output.say(&format!(
                "note: the model calls of {} do not pass the proxy: {why}; `--hooks-only` says that this is meant",
                client.title()
            ));
        }
        Ok(())
    }

    /// The client that the program is.
    pub(super) fn client(&self) -> Option<Client> {
        self.client
    }

    /// The client that the program is, if it has our hooks.
    pub(super) fn hooked(&self) -> Option<Client> {
        self.client.filter(|_| self.is_hooked)
    }

    /// Whether a run of it is one of a model: not one that says its version or keeps its own house.
    pub(super) fn asks_for_a_model(&self) -> bool {
        self.errand.is_none()
    }

    /// Writes the files of the run, and gives the command and its variables.
    pub(super) fn ready(self, folder: &RunFolder) -> Result<(Vec<OsString>, Variables), Error> {
        folder.write(&self.once)?;
        Ok((std::iter::once(self.program).chain(self.once.arguments).collect(), self.once.variables))
    }
}

/// The texts of the files in which the user of a client, and the project, have their settings. What can't be read as one
/// is no settings, so that nothing is taken for granted about it.
fn settings_of(client: Client) -> Result<Vec<String>, Error> {
    let folders = folders()?;
    let files = std::iter::once(client.layout().user_path(&folders)).chain(status_line_files(&folders));
    Ok(files
        .map(|file| match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(_) => "unreadable".to_owned(),
        })
        .collect())
}

/// The client that a program is, by its name.
fn client_of(program: &OsStr) -> Option<Client> {
    let name = Path::new(program).file_name()?.to_str()?;
    Client::ALL.into_iter().find(|client| program_of(*client) == Some(name))
}
