//! `backstop install --system` and `backstop uninstall --system`.
//!
//! Everything that is to be written is worked out first and shown; with `--dry-run` that is all. With `--root` it is
//! written below a folder, for packagers and for looking at, and nothing is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use backstop::clients::Client;
use backstop::clients::install::{Fixed, Machine, MachineFile, Program, machine_facts, machine_files};
use backstop::config::account::by_name;
use serde_json::{Value, json};

use super::record::{Record, Written, failed, folders_above, read, weakness, write};
use super::units::{CONFIGURATION_TEXT, units};
use super::{CONFIGURATION, DATA, PROGRAM, RECORD, SHARE, USER, places};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, plain};
use crate::session::Surroundings;

/// What is to be written, and where.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The clients; all that have a place for the whole machine where none is named.
    pub(crate) clients: Vec<Client>,
    /// The folder below which everything is written, instead of `/`.
    pub(crate) root: Option<PathBuf>,
    pub(crate) machine: Machine,
    pub(crate) dry_run: bool,
    /// Take everything out instead.
    pub(crate) remove: bool,
}

const USERADD: &str = "/usr/sbin/useradd";
const SYSTEMCTL: &str = "/usr/bin/systemctl";
/// There where systemd runs the machine.
const SYSTEMD_RUNS: &str = "/run/systemd/system";

/// A file, what it holds and what it is to hold.
struct Step {
    path: PathBuf,
    client: Option<Client>,
    now: Option<String>,
    then: Option<String>,
    /// What is recorded as having been there before.
    before: Option<String>,
}

impl Step {
    fn verb(&self) -> Option<&'static str> {
        match (&self.now, &self.then) {
            (now, then) if now == then => None,
            (None, _) => Some("creates"),
            (Some(_), None) => Some("removes"),
            (Some(_), Some(_)) => Some("changes"),
        }
    }
}

/// Where everything is written.
struct Target<'s> {
    root: &'s Path,
    is_staged: bool,
}

impl Target<'_> {
    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

pub(crate) fn run(settings: &Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let target = Target {
        root: settings.root.as_deref().unwrap_or(Path::new("/")),
        is_staged: settings.root.is_some(),
    };
    if !target.is_staged && !settings.dry_run && !rustix::process::geteuid().is_root() {
        return Err(Error::Usage(
            "`--system` writes what only root may write\nhint: `sudo backstop install --system`; `--dry-run` shows what it would do to anybody, `--root DIR` does it below a folder".to_owned(),
        ));
    }
    if !target.is_staged && !settings.dry_run && !settings.remove {
        safe_places(settings)?;
    }
    let record = Record::read(&target.at(Path::new(RECORD)))?;
    let steps = if settings.remove {
        to_remove(settings, &target, &record)?
    } else {
        to_write(settings, &target, &record)?
    };
    show(settings, &steps, &surroundings.output)?;
    if settings.dry_run {
        surroundings.output.say("nothing was written");
        return Ok(Exit::Success);
    }
    if settings.remove {
        remove(settings, &target, record, &steps, &surroundings.output)?;
    } else {
        install(&target, record, &steps)?;
        if !target.is_staged {
            start(&surroundings.output)?;
        }
    }
    Ok(Exit::Success)
}

/// The folders that everything rests on have to be root's.
fn safe_places(settings: &Settings) -> Result<(), Error> {
    let clients =
        wanted(settings).into_iter().filter_map(|client| machine_facts(client).place(settings.machine));
    let all = [PROGRAM, CONFIGURATION].into_iter().chain(clients);
    match all.into_iter().find_map(|place| weakness(Path::new(place))) {
        None => Ok(()),
        Some(weakness) => Err(Error::Failed(format!(
            "{weakness}, so whoever that is could replace what judges\nhint: `chown root`, `chmod go-w`, then try again"
        ))),
    }
}

fn wanted(settings: &Settings) -> Vec<Client> {
    match settings.clients.as_slice() {
        [] => Client::ALL
            .into_iter()
            .filter(|client| machine_facts(*client).place(settings.machine).is_some())
            .collect(),
        named => named.to_vec(),
    }
}

/// The files of a client on such a machine.
pub(super) fn files_of(client: Client, machine: Machine) -> Result<Vec<MachineFile>, Error> {
    let told = |error: backstop::clients::install::InvalidProgram| Error::Failed(error.to_string());
    let fixed = Fixed::service(Path::new(places::socket(machine))).map_err(told)?;
    let program = Program { path: PROGRAM.into(), fixed: Some(fixed) };
    machine_files(client, machine, program, Path::new(SHARE)).map_err(told)
}

fn to_write(settings: &Settings, target: &Target<'_>, record: &Record) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    let own = |path: PathBuf, text: String, keeps: bool| -> Result<Step, Error> {
        let now = read(&target.at(&path))?;
        let before = record.of(&path).map_or_else(|| now.clone(), |written| written.before.clone());
        let then = if keeps { now.clone().or(Some(text)) } else { Some(text) };
        Ok(Step { path, client: None, now, then, before })
    };
    for (path, text) in units(settings.machine) {
        steps.push(own(path, text, false)?);
    }
    steps.push(own(Path::new(CONFIGURATION).join("backstop.yaml"), CONFIGURATION_TEXT.to_owned(), true)?);
    for client in wanted(settings) {
        let files = files_of(client, settings.machine)?;
        if files.is_empty() {
            return Err(Error::Usage(format!(
                "{} has no place for the whole machine\nhint: `backstop install {client}` for a user, `backstop run` for a run",
                client.title()
            )));
        }
        for file in files {
            let path = target.at(&file.path);
            let now = read(&path)?;
            let wrong = |error: backstop::clients::install::ConfigError| {
                Error::Failed(format!("`{}` can't be edited: {error}", path.display()))
            };
            let then = file.with_us(now.as_deref()).map_err(wrong)?;
            let before = match (record.of(&file.path), &now) {
                (Some(written), Some(now)) if written.after == *now => written.before.clone(),
                (Some(_), Some(now)) => file.without_us(now).map_err(wrong)?,
                (_, now) => now.clone(),
            };
            steps.push(Step { path: file.path, client: Some(client), now, then: Some(then), before });
        }
    }
    Ok(steps)
}

fn to_remove(settings: &Settings, target: &Target<'_>, record: &Record) -> Result<Vec<Step>, Error> {
    let is_meant = |written: &&Written| match (&written.client, settings.clients.as_slice()) {
        (_, []) => true,
        (Some(name), named) => named.iter().any(|client| client.name() == name),
        (None, _) => false,
    };
    let mut steps = Vec::new();
    for written in record.files.iter().filter(is_meant) {
        let path = target.at(&written.path);
        let client = written.client.as_deref().and_then(|name| name.parse::<Client>().ok());
        let now = read(&path)?;
        let then = match &now {
            None => None,
            Some(now) if *now == written.after => written.before.clone(),
            // Somebody wrote it since: only what is ours goes.
            Some(now) => match client {
                None => Some(now.clone()),
                Some(client) => {
                    let files = files_of(client, settings.machine)?;
                    match files.iter().find(|file| file.path == written.path) {
                        None => Some(now.clone()),
                        Some(file) => file.without_us(now).map_err(|error| {
                            Error::Failed(format!("`{}` can't be edited: {error}", path.display()))
                        })?,
                    }
                }
            },
        };
        steps.push(Step { path: written.path.clone(), client, now, then, before: written.before.clone() });
    }
    Ok(steps)
}

fn install(target: &Target<'_>, mut record: Record, steps: &[Step]) -> Result<(), Error> {
    let program = target.at(Path::new(PROGRAM));
    let place = target.at(Path::new(RECORD));
    let mut made = folders_above(&program)?;
    for step in steps {
        made.extend(folders_above(&target.at(&step.path))?);
        if let Some(after) = step.then.clone() {
            let client = step.client.map(|client| client.name().to_owned());
            record.put(Written { path: step.path.clone(), client, before: step.before.clone(), after });
        }
    }
    let below = |folder: PathBuf| match folder.strip_prefix(target.root) {
        Ok(rest) => Path::new("/").join(rest),
        Err(_) => folder,
    };
    for folder in made.into_iter().map(below) {
        if !record.folders.contains(&folder) {
            record.folders.push(folder);
        }
    }
    // Before anything else, so that what was there is known whatever comes in between.
    let text = serde_json::to_string_pretty(&record).map_err(|error| Error::Failed(error.to_string()))?;
    write(&place, text.as_bytes(), 0o600)?;
    let ours = std::env::current_exe().and_then(fs::read).map_err(failed(&program, "copied"))?;
    if fs::read(&program).ok().as_ref() != Some(&ours) {
        write(&program, &ours, 0o755)?;
    }
    for step in steps.iter().filter(|step| step.verb().is_some()) {
        if let Some(then) = &step.then {
            write(&target.at(&step.path), then.as_bytes(), 0o644)?;
        }
    }
    Ok(())
}

fn remove(
    settings: &Settings,
    target: &Target<'_>,
    mut record: Record,
    steps: &[Step],
    output: &Output,
) -> Result<(), Error> {
    let is_all = settings.clients.is_empty();
    if is_all && !target.is_staged && Path::new(SYSTEMD_RUNS).exists() {
        // The entries go first, so that no client is left with a pipe that leads nowhere.
        stop_after(target, steps)?;
    } else {
        undo(target, steps)?;
    }
    record.files.retain(|written| steps.iter().all(|step| step.path != written.path));
    let place = target.at(Path::new(RECORD));
    if !is_all {
        let text = serde_json::to_string_pretty(&record).map_err(|error| Error::Failed(error.to_string()))?;
        return write(&place, text.as_bytes(), 0o600);
    }
    for file in [target.at(Path::new(PROGRAM)), place] {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(&file, "removed")(error));
            }
            _ => {}
        }
    }
    for folder in record.folders.iter().rev() {
        // One with something in it is somebody else's by now.
        let _ = fs::remove_dir(target.at(folder));
    }
    if !target.is_staged && Path::new(DATA).exists() {
        output.say(&format!(
            "`{DATA}` with what was decided, and the user `{USER}`, are left; `rm -r` and `userdel` are yours"
        ));
    }
    Ok(())
}

fn undo(target: &Target<'_>, steps: &[Step]) -> Result<(), Error> {
    for step in steps.iter().filter(|step| step.verb().is_some()) {
        let path = target.at(&step.path);
        match &step.then {
            Some(text) => write(&path, text.as_bytes(), 0o644)?,
            None => fs::remove_file(&path).map_err(failed(&path, "removed"))?,
        }
    }
    Ok(())
}

fn stop_after(target: &Target<'_>, steps: &[Step]) -> Result<(), Error> {
    let (clients, others): (Vec<_>, Vec<_>) = steps.iter().partition(|step| step.client.is_some());
    for step in clients {
        undo(target, std::slice::from_ref(step))?;
    }
    systemctl(&["disable", "--now", "backstop.socket", "backstop.service"])?;
    for step in others {
        undo(target, std::slice::from_ref(step))?;
    }
    systemctl(&["daemon-reload"])
}

/// Makes the service's user and starts the service, as far as this machine does that.
fn start(output: &Output) -> Result<(), Error> {
    if by_name(USER).is_none() {
        let arguments = [
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            DATA,
            "--shell",
            "/usr/sbin/nologin",
            USER,
        ];
        let made = Command::new(USERADD).args(arguments).env_clear().output();
        if !made.is_ok_and(|ended| ended.status.success()) {
            output.say(&format!(
                "`{USERADD}` could not make the user `{USER}`, as whom the service runs: make it yourself"
            ));
        }
    }
    if Path::new(SYSTEMD_RUNS).exists() {
        systemctl(&["daemon-reload"])?;
        systemctl(&["enable", "--now", "backstop.socket"])?;
        systemctl(&["try-restart", "backstop.service"])?;
        output.say("the service answers from now on; `backstop doctor --system` proves it");
        return Ok(());
    }
    let step = format!(
        "ONE STEP IS LEFT: no service manager that is known runs this machine. Start `{PROGRAM} daemon` as root, at each start of the machine. Until then every call is refused."
    );
    output.say(&format!("\n{}", output.talk_paint().with(Style::Bad, step)));
    Ok(())
}

fn systemctl(arguments: &[&str]) -> Result<(), Error> {
    let ended = Command::new(SYSTEMCTL).args(arguments).output();
    match ended {
        Ok(ended) if ended.status.success() => Ok(()),
        Ok(ended) => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            Err(Error::Failed(format!("`systemctl {}` failed: {said}", arguments.join(" "))))
        }
        Err(source) => Err(Error::Program { program: SYSTEMCTL.to_owned(), source, code: 127 }),
    }
}

fn show(settings: &Settings, steps: &[Step], output: &Output) -> Result<(), Error> {
    if output.is_json() {
        return Ok(output.json(&told(settings, steps))?);
    }
    let mut text = String::new();
    let line = |step: &Step| {
        let verb = step.verb().unwrap_or("keeps");
        format!("  {} {}\n", output.paint().with(Style::Name, verb), plain(&step.path.display().to_string()))
    };
    let of_service = steps.iter().filter(|step| step.client.is_none()).map(line).collect::<String>();
    if !of_service.is_empty() {
        let verb = if settings.remove { "removes" } else { "writes" };
        text.push_str(&format!(
            "Backstop\n  {} {PROGRAM}\n{of_service}",
            output.paint().with(Style::Name, verb)
        ));
    }
    for client in Client::ALL {
        let lines: String = steps.iter().filter(|step| step.client == Some(client)).map(line).collect();
        if lines.is_empty() {
            continue;
        }
        text.push_str(&format!("{}\n{lines}", client.title()));
        let facts = machine_facts(client);
        if !settings.remove {
            for (word, all) in [("holds against", facts.holds), ("slips", facts.slips)] {
                for one in all {
                    text.push_str(&format!("    {word}: {one}\n"));
                }
            }
        }
    }
    if steps.is_empty() {
        text.push_str("nothing of ours is there\n");
    }
    Ok(output.text(&text)?)
}

fn told(settings: &Settings, steps: &[Step]) -> Value {
    let step = |step: &Step| {
        let client = step.client.map(Client::name);
        json!({ "path": step.path, "client": client, "action": step.verb().unwrap_or("keeps") })
    };
    let facts = |client: Client| {
        let facts = machine_facts(client);
        json!({ "client": client.name(), "holds": facts.holds, "slips": facts.slips })
    };
    json!({
        "scope": "system",
        "machine": settings.machine.name(),
        "written": !settings.dry_run,
        "files": steps.iter().map(step).collect::<Vec<_>>(),
        "clients": wanted(settings).into_iter().map(facts).collect::<Vec<_>>(),
    })
}
