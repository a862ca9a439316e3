//! Plans: which files an installation changes, shown before anything is written, and written at once.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::command::{HookCommand, InvalidProgram, Program, quoted};
use super::edit::ConfigError;
use super::{Folders, Form, Installed, Merged, OwnFile, Scope, Status, Tables, line, merge, tables};
use crate::client::Client;

/// Most bytes of a configuration file.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// What the name of a backup ends in.
const BACKUP: &str = ".before-backstop";

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The client.
    pub client: Client,
    /// The files that change; none when everything is as it should be.
    pub changes: Vec<Change>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// What it holds now; `None` when it is not there.
    pub before: Option<String>,
    /// What it shall hold; `None` when it goes.
    pub after: Option<String>,
    /// Whether it is a program.
    pub executable: bool,
    /// Where what it holds now is kept.
    pub backup: Option<PathBuf>,
    /// A backup that is no longer needed.
    pub spent_backup: Option<PathBuf>,
}

/// Why there is no plan. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The program can't be named in a configuration.
    #[error(transparent)]
    Program(#[from] InvalidProgram),
    /// A file can't be read.
    #[error("`{}` can't be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no configuration that we could edit.
    #[error("`{}` can't be edited: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ConfigError,
    },
    /// The client reads no hooks of a project.
    #[error(
        "{} reads no hooks from a project; hint: `backstop install {client}` writes those of the user",
        client.title()
    )]
    NoProject {
        /// The client.
        client: Client,
    },
    /// A file of the name that ours must have is somebody else's.
    #[error(
        "`{}` is there already and is not ours; hint: move it away, or let it start `{command}` as well",
        path.display()
    )]
    Occupied {
        /// The file.
        path: PathBuf,
        /// What would be started.
        command: String,
    },
}

/// Why a plan was not carried out. Files that come before the one named were written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Somebody wrote the file after it was read.
    #[error("`{}` has changed meanwhile; hint: try again", .0.display())]
    Changed(PathBuf),
    /// It can't be read or written.
    #[error("`{}` can't be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What has to be written so that `client` starts `program` at every event.
///
/// # Errors
///
/// [`PlanError`] when a file can't be read, parsed, or is not ours to write.
pub fn plan_install(
    client: Client,
    scope: Scope,
    folders: &Folders,
    program: impl Into<Program>,
) -> Result<Plan, PlanError> {
    let command = HookCommand::new(client, program)?;
    let layout = client.layout();
    let (Some(path), Some(folder)) = (layout.path(scope, folders), layout.folder(scope, folders)) else {
        return Err(PlanError::NoProject { client });
    };
    let changes = match &layout.form {
        Form::Merged(merged) => {
            let with_line = line::is_shown(client, scope);
            let first = with_us(path, merged, &command, with_line);
            let also = layout.also(scope, folders).into_iter();
            let also = also.map(|path| with_us(path, merged, &command, false));
            [first].into_iter().chain(also).collect::<Result<_, _>>()?
        }
        Form::Tables(tables) => vec![tables_with_us(path, tables, &command)?],
        Form::Own(files) => own_changes(&folder, &files(&command), &command, true)?,
    };
    Ok(Plan { client, changes: changes.into_iter().filter(Change::changes_something).collect() })
}

fn with_us(
    path: PathBuf,
    merged: &Merged,
    command: &HookCommand,
    with_line: bool,
) -> Result<Change, PlanError> {
    let before = read(&path)?;
    let text = before.clone().unwrap_or_default();
    let config = |source| PlanError::Config { path: path.clone(), source };
    let events = merged.events_in(&path);
    let mut after = merge::install(&text, merged, events, command).map_err(config)?;
    if with_line {
        after = line::put(&after, command).map_err(config)?;
    }
    let absent = merge::status(&text, merged, events, command).map_err(config)?.is_absent();
    let backup = (absent && before.is_some()).then(|| backup_of(&path));
    Ok(Change { backup, ..Change::new(path.clone(), before, Some(after), false) })
}

fn tables_with_us(path: PathBuf, layout: &Tables, command: &HookCommand) -> Result<Change, PlanError> {
    let before = read(&path)?;
    let text = before.clone().unwrap_or_default();
    let config = |source| PlanError::Config { path: path.clone(), source };
    let after = tables::install(&text, layout, command).map_err(config)?;
    let absent = tables::status(&text, layout, command).map_err(config)?.is_absent();
    let backup = (absent && before.is_some()).then(|| backup_of(&path));
    Ok(Change { backup, ..Change::new(path.clone(), before, Some(after), false) })
}

/// What has to be written so that nothing of ours is left, whatever program our entries start.
///
/// # Errors
///
/// [`PlanError`] when a file can't be read or parsed.
pub fn plan_uninstall(
    client: Client,
    scope: Scope,
    folders: &Folders,
    program: impl Into<Program>,
) -> Result<Plan, PlanError> {
    let command = HookCommand::new(client, program)?;
    let layout = client.layout();
    let (Some(path), Some(folder)) = (layout.path(scope, folders), layout.folder(scope, folders)) else {
        return Ok(Plan { client, changes: Vec::new() });
    };
    let changes = match &layout.form {
        Form::Merged(merged) => {
            let mut changes = Vec::new();
            let first = [path];
            for path in first.into_iter().chain(layout.also(scope, folders)) {
                if let Some(before) = read(&path)? {
                    changes.push(without_us(path, before, merged, &command)?);
                }
            }
            changes
        }
        Form::Tables(_) => {
            let before = read(&path)?;
            before.map(|before| tables_without_us(path, before, &command)).transpose()?.into_iter().collect()
        }
        Form::Own(files) => own_changes(&folder, &files(&command), &command, false)?,
    };
    Ok(Plan { client, changes: changes.into_iter().filter(Change::changes_something).collect() })
}

/// When nothing but our entries was changed since, the backup is the file of before to the last byte.
fn without_us(
    path: PathBuf,
    before: String,
    layout: &Merged,
    command: &HookCommand,
) -> Result<Change, PlanError> {
    let config = |source| PlanError::Config { path: path.clone(), source };
    let backup = backup_of(&path);
    let kept = read(&backup)?;
    let events = layout.events_in(&path);
    let clean = |text: &str| match command.client() {
        Client::Claude => merge::uninstall(&line::take(text)?, events, command),
        _ => merge::uninstall(text, events, command),
    };
    let rest = clean(&before).map_err(config)?;
    let same = |kept: &String| {
        clean(kept).is_ok_and(|clean| clean == *kept) && said(kept, layout) == said(&rest, layout)
    };
    let after = match kept.as_ref().filter(|kept| same(kept)) {
        Some(kept) => Some(kept.clone()),
        None if kept.is_none() && before != rest && merge::is_bare(&rest, layout) => None,
        None => Some(rest),
    };
    let spent_backup = kept.is_some().then_some(backup);
    Ok(Change { spent_backup, ..Change::new(path.clone(), Some(before), after, false) })
}

/// The same for TOML, where the line end of the last line is all that may have been added around our entries.
fn tables_without_us(path: PathBuf, before: String, command: &HookCommand) -> Result<Change, PlanError> {
    let backup = backup_of(&path);
    let kept = read(&backup)?;
    let rest = tables::uninstall(&before, command)
        .map_err(|source| PlanError::Config { path: path.clone(), source })?;
    let same = |kept: &&String| {
        let line_end = rest.strip_prefix(kept.as_str());
        line_end.is_some_and(|added| matches!(added, "" | "\n" | "\r\n"))
    };
    let after = match kept.as_ref().filter(same) {
        Some(kept) => Some(kept.clone()),
        None if kept.is_none() && before != rest && rest.is_empty() => None,
        None => Some(rest),
    };
    let spent_backup = kept.is_some().then_some(backup);
    Ok(Change { spent_backup, ..Change::new(path, Some(before), after, false) })
}

/// What a text says, for comparing texts before and after us: without what is empty under `hooks`, which goes
/// with our entries, and without what we write around them.
fn said(text: &str, layout: &Merged) -> Option<Value> {
    let node = super::edit::parse(text).ok()??;
    let mut value = super::edit::value_of(&node);
    let root = value.as_object_mut()?;
    if let Some(Value::Object(hooks)) = root.get_mut("hooks") {
        hooks.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
        if hooks.is_empty() {
            root.remove("hooks");
        }
    }
    root.retain(|key, value| {
        layout.preamble.iter().all(|(name, number)| key != name || value.as_u64() != Some(u64::from(*number)))
    });
    Some(value)
}

/// Files of our own: written, or taken away. Somebody else's file of the same name is left alone.
fn own_changes(
    folder: &Path,
    files: &[OwnFile],
    command: &HookCommand,
    wanted: bool,
) -> Result<Vec<Change>, PlanError> {
    let mut changes = Vec::new();
    let mut ours = false;
    for file in files {
        let path = folder.join(&file.name);
        let before = read(&path)?;
        // A file without a command belongs to the one before it.
        let is_ours = before.as_ref().is_some_and(|text| is_own(text, command) || *text == file.text || ours);
        ours |= is_ours;
        match (before.is_some() && !is_ours, wanted) {
            (true, true) => {
                return Err(PlanError::Occupied { path, command: command.at(&file.name).plain() });
            }
            (true, false) => {}
            (false, true) => {
                changes.push(Change::new(path, before, Some(file.text.clone()), file.executable));
            }
            (false, false) => changes.push(Change::new(path, before, None, file.executable)),
        }
    }
    Ok(changes)
}

/// Whether a file of our own holds a command of ours for this client.
fn is_own(text: &str, command: &HookCommand) -> bool {
    commands_in(text).iter().any(|found| found.client() == command.client())
}

fn commands_in(text: &str) -> Vec<HookCommand> {
    lines_in(text).into_iter().map(|(_, command)| command).collect()
}

/// The commands of ours in a file, as they are written there and as they are understood.
fn lines_in(text: &str) -> Vec<(String, HookCommand)> {
    let parsed = |line: &str| Some((line.to_owned(), HookCommand::parse(line)?));
    let mut found = Vec::new();
    let lines = text.lines().map(|line| line.trim().trim_start_matches("// command:").trim());
    found.extend(lines.filter_map(parsed));
    let mut pending: Vec<Value> = serde_json::from_str(text).into_iter().collect();
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => found.extend(parsed(&text)),
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.into_iter().map(|(_, field)| field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// What the client's configuration says about us.
///
/// # Errors
///
/// [`PlanError`] when a file can't be read or parsed.
pub fn status(
    client: Client,
    scope: Scope,
    folders: &Folders,
    program: impl Into<Program>,
) -> Result<Status, PlanError> {
    let command = HookCommand::new(client, program)?;
    let layout = client.layout();
    let (Some(path), Some(folder)) = (layout.path(scope, folders), layout.folder(scope, folders)) else {
        return Ok(Status::default());
    };
    match &layout.form {
        Form::Merged(merged) => {
            let text = read(&path)?.unwrap_or_default();
            let config = |source| PlanError::Config { path: path.clone(), source };
            let mut status =
                merge::status(&text, merged, merged.events_in(&path), &command).map_err(config)?;
            status.outdated |=
                line::is_shown(client, scope) && line::is_outdated(&text, &command).map_err(config)?;
            for path in layout.also(scope, folders) {
                let text = read(&path)?.unwrap_or_default();
                let also = merge::status(&text, merged, merged.events_in(&path), &command);
                let also = also.map_err(|source| PlanError::Config { path: path.clone(), source })?;
                status.join(also, &path);
            }
            Ok(status)
        }
        Form::Tables(tables) => {
            let text = read(&path)?.unwrap_or_default();
            tables::status(&text, tables, &command).map_err(|source| PlanError::Config { path, source })
        }
        Form::Own(files) => own_status(&folder, &files(&command), &command),
    }
}

fn own_status(folder: &Path, files: &[OwnFile], command: &HookCommand) -> Result<Status, PlanError> {
    let mut status = Status::default();
    for file in files {
        let path = folder.join(&file.name);
        match read(&path)? {
            None => status.missing.push(file.name.clone()),
            Some(text) => {
                let mut found = lines_in(&text);
                found.retain(|(_, found)| found.client() == command.client());
                let programs: Vec<_> = found.iter().map(|(_, found)| found.program().to_owned()).collect();
                status.entries.extend(found.into_iter().map(|(line, found)| Installed {
                    event: found.event().map(str::to_owned),
                    command: if file.executable { quoted(&path.to_string_lossy()) } else { line },
                }));
                if programs.is_empty() && text != file.text {
                    status.foreign += 1;
                    status.missing.push(file.name.clone());
                } else {
                    status.outdated |= text != file.text;
                }
                status.programs.extend(programs);
            }
        }
    }
    Ok(status)
}

fn backup_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(BACKUP);
    path.with_file_name(name)
}

/// The text of a file; `None` when it is not there.
pub(super) fn read(path: &Path) -> Result<Option<String>, PlanError> {
    let failed = |source| PlanError::Read { path: path.to_owned(), source };
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(data) if !data.is_file() => return Err(failed(io::Error::other("it is not a file"))),
        Ok(data) if data.len() > MAX_FILE_BYTES => return Err(failed(io::Error::other("it is too large"))),
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(failed)
}

impl Change {
    fn new(path: PathBuf, before: Option<String>, after: Option<String>, executable: bool) -> Self {
        Self { path, before, after, executable, backup: None, spent_backup: None }
    }

    fn changes_something(&self) -> bool {
        self.before != self.after || self.spent_backup.is_some()
    }

    fn write(&self) -> Result<(), ApplyError> {
        let failed = |source| ApplyError::Write { path: self.path.clone(), source };
        // A link stays a link: what is written is the file it leads to.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let now = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        if now != self.before {
            return Err(ApplyError::Changed(self.path.clone()));
        }
        if let (Some(backup), Some(before)) = (&self.backup, &self.before) {
            // Whoever may not read the one may not read the other.
            let mode = fs::metadata(&path).map(|data| data.permissions()).map_err(failed)?;
            write(backup, before, Mode::Of(mode))
                .map_err(|source| ApplyError::Write { path: backup.clone(), source })?;
        }
        match &self.after {
            Some(text) => write(&path, text, Mode::new(self.executable)).map_err(failed)?,
            None if now.is_some() => fs::remove_file(&path).map_err(failed)?,
            None => {}
        }
        Ok(())
    }

    fn drop_spent_backup(&self) -> Result<(), ApplyError> {
        match &self.spent_backup {
            Some(backup) => {
                fs::remove_file(backup).map_err(|source| ApplyError::Write { path: backup.clone(), source })
            }
            None => Ok(()),
        }
    }
}

/// What a file that is new may be done with.
enum Mode {
    Text,
    Program,
    Of(fs::Permissions),
}

impl Mode {
    fn new(executable: bool) -> Self {
        if executable { Self::Program } else { Self::Text }
    }
}

/// Writes a file whole or not at all, with the permissions it had.
fn write(path: &Path, text: &str, mode: Mode) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("it has no folder"))?;
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    let permissions = match (mode, fs::metadata(path)) {
        (Mode::Of(permissions), _) => permissions,
        (_, Ok(data)) => data.permissions(),
        (mode, Err(_)) => new_permissions(matches!(mode, Mode::Program), file.path())?,
    };
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(unix)]
fn new_permissions(executable: bool, _: &Path) -> io::Result<fs::Permissions> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

#[cfg(not(unix))]
fn new_permissions(_: bool, file: &Path) -> io::Result<fs::Permissions> {
    fs::metadata(file).map(|data| data.permissions())
}

impl Plan {
    /// Whether nothing has to be written.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Writes the files, each at once and with a backup of what was not ours.
    ///
    /// # Errors
    ///
    /// [`ApplyError`] for the first file that can't be written, or that changed since the plan was made.
    pub fn apply(&self) -> Result<(), ApplyError> {
        self.apply_counting().1
    }

    /// Does the same, and returns besides how many of the [changes](Self::changes), from the first one on, were made: all of them, or those
    /// before the error.
    pub fn apply_counting(&self) -> (usize, Result<(), ApplyError>) {
        for (made, change) in self.changes.iter().enumerate() {
            if let Err(error) = change.write() {
                return (made, Err(error));
            }
            // The file is changed, whatever becomes of the backup.
            if let Err(error) = change.drop_spent_backup() {
                return (made.saturating_add(1), Err(error));
            }
        }
        (self.changes.len(), Ok(()))
    }
}
