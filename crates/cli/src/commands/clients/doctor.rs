//! `backstop doctor`: whether an installation does what it should.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use backstop::clients::install::{
    Folders, Loader, PlanError, Program, Scope, Status, StatusLine, Switch, Whose, is_trusted, loaders,
    status, status_line, switches,
};
use backstop::clients::{Client, Evidence};
use backstop::engine::HookMeta;
use backstop::hooks::{Family, Honour, PointId};
use backstop::store::{ApprovalFilter, Store, StoreError};
use serde::Serialize;
use tokio::process::Command;

use super::elsewhere;
use super::fire::fire;
use super::heard::{Heard, MOST_ENTRIES, heard};
use super::machine::Facts;
use super::{Chosen, entry_program, folders, in_path, is_executable, program_of, scope_name};
use crate::error::{Error, different};
use crate::exit::Exit;
use crate::output::{Check, Grade, Output, Style};
use crate::session::Surroundings;

/// The longest that a client may take to say its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);

/// Whom to look at.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) chosen: Chosen,
}

#[derive(Debug, Serialize)]
struct Diagnosis {
    /// The client that it is about; none for what `backstop serve` does elsewhere.
    client: Option<&'static str>,
    checks: Vec<Check>,
}

impl Diagnosis {
    fn add(&mut self, grade: Grade, text: impl Into<String>, hint: Option<String>) {
        self.checks.push(Check { grade, text: text.into(), hint });
    }

    fn has_failed(&self) -> bool {
        self.checks.iter().any(|check| check.grade == Grade::Failed)
    }
}

pub(in crate::commands) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let folders = folders()?;
    let output = &surroundings.output;
    let clients = settings.chosen.clients(&folders);
    if clients.is_empty() {
        output.say("no client was found; name the one that is meant, as in `backstop doctor claude`");
    }
    // Before any entry is fired: each of them adds to the audit trail.
    let elsewhere = Diagnosis { client: None, checks: elsewhere::look(surroundings).await };
    let standing = standing(surroundings).await;
    let footing = Footing::look(surroundings).await;
    let machine = Facts::look(surroundings)?;
    let mut all = Vec::new();
    for client in clients {
        let mut diagnosis = examine(client, &folders, surroundings).await?;
        footing.tell(&mut diagnosis, client);
        for told in machine.iter().flat_map(|machine| machine.about(client)) {
            let grade = if told.is_warning { Grade::Warning } else { Grade::Note };
            diagnosis.add(grade, told.text, told.hint);
        }
        points(&mut diagnosis, client, &standing);
        if !output.is_json() {
            show(client.title(), &diagnosis, output)?;
        }
        all.push(diagnosis);
    }
    if !elsewhere.checks.is_empty() {
        if !output.is_json() {
            show("Backstop", &elsewhere, output)?;
        }
        all.push(elsewhere);
    }
    if output.is_json() {
        output.json(&all)?;
    }
    Ok(if all.iter().any(Diagnosis::has_failed) { Exit::Failed } else { Exit::Success })
}

/// What all clients stand on: the operator's configuration and the database.
struct Footing {
    problems: Vec<(String, &'static str)>,
    shadows: Vec<Check>,
    heard: BTreeMap<&'static str, Heard>,
}

/// The last event of each client. The trail has it; the questions and answers beside it must be readable as well.
async fn told(store: &dyn Store) -> Result<BTreeMap<&'static str, Heard>, StoreError> {
    store.approvals(ApprovalFilter::Pending, 1).await?;
    heard(store).await
}

impl Footing {
    async fn look(surroundings: &Surroundings) -> Self {
        let mut footing = Self { problems: Vec::new(), shadows: Vec::new(), heard: BTreeMap::new() };
        match Self::pinned(surroundings) {
            Ok(None) => {}
            Ok(Some(changed)) => footing.problems.push((
                format!(
                    "the operator's configuration is not what was pinned ({changed}): every call is refused"
                ),
                "look at it, then `backstop config pin`",
            )),
            Err(error) => footing.problems.push((error.to_string(), "backstop config check")),
        }
        let loaded = surroundings.load_quietly();
        if let Ok(loaded) = &loaded {
            footing.shadows = Check::in_shadow(&loaded.config);
        }
        let store = loaded.and_then(|loaded| surroundings.store(&loaded));
        let heard = match store {
            Ok(store) => told(store.as_ref()).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        match heard {
            Ok(heard) => footing.heard = heard,
            Err(Error::Config(_)) => {}
            Err(error) => footing.problems.push((
                format!("the database can't be read, so every call is refused: {error}"),
                "mend `store.path`, or move the file away",
            )),
        }
        footing
    }

    /// What is not as it was pinned.
    fn pinned(surroundings: &Surroundings) -> Result<Option<String>, Error> {
        let changed = surroundings.pin_differences(&surroundings.load_operators()?.pin())?;
        Ok(changed.filter(|changed| !changed.is_empty()).map(|changed| different(&changed)))
    }

    fn tell(&self, diagnosis: &mut Diagnosis, client: Client) {
        for (problem, hint) in &self.problems {
            diagnosis.add(Grade::Failed, problem.as_str(), Some((*hint).to_owned()));
        }
        diagnosis.checks.extend(self.shadows.iter().cloned());
        let text = match self.heard.get(client.name()) {
            Some(heard) => format!("last heard of at {}, {}", heard.at, heard.point),
            None => format!(
                "no event of it has been heard of in the last {MOST_ENTRIES} entries of the audit trail; start it, let it use a tool, and look again"
            ),
        };
        diagnosis.add(Grade::Note, text, None);
    }
}

/// The hooks of the configuration in force; none where it can't be read, which `config check` and the entries that are
/// fired say.
async fn standing(surroundings: &Surroundings) -> Vec<Arc<HookMeta>> {
    let Ok(backstop) = surroundings.judge().await else { return Vec::new() };
    let standing = backstop.engine().registry().list();
    backstop.shut_down().await;
    standing
}

/// What the client fires, what it makes of answers that it can't honour, and which hooks it will never call.
fn points(diagnosis: &mut Diagnosis, client: Client, standing: &[Arc<HookMeta>]) {
    let host = client.host_profile();
    let fired: Vec<&str> = host.points().map(PointId::name).collect();
    diagnosis.add(Grade::Note, format!("it fires {}", fired.join(", ")), None);
    for (point, field, honour) in host.exceptions() {
        let (Honour::Stricter(why) | Honour::Ignored(why)) = honour else { continue };
        diagnosis.add(Grade::Note, format!("`{field}` at {point}: {why}"), None);
    }
    for meta in standing.iter().filter(|meta| !host.does_fire(meta.point)) {
        let hint = match meta.point.info().family {
            Family::Model => Some(format!("`backstop run {client}` takes its model calls through the proxy")),
            _ => None,
        };
        let text = format!("`{}` stands at {}, which {} never fires", meta.id, meta.point, host.title());
        diagnosis.add(Grade::Note, text, hint);
    }
}

fn show(title: &str, diagnosis: &Diagnosis, output: &Output) -> Result<(), Error> {
    let title = output.paint().with(Style::Name, title);
    let checks: String = diagnosis.checks.iter().map(|check| check.lines(output)).collect();
    Ok(output.text(&format!("{title}\n{checks}"))?)
}

async fn examine(client: Client, folders: &Folders, surroundings: &Surroundings) -> Result<Diagnosis, Error> {
    let mut diagnosis = Diagnosis { client: Some(client.name()), checks: Vec::new() };
    let mut installed = 0;
    let mut is_only_above = false;
    for scope in [Scope::User, Scope::Project] {
        let program = entry_program(scope, surroundings)?;
        match status_of(client, scope, folders, &program) {
            Err(error) => {
                let hint = "a client that can't read its file may run without any hook; mend it by hand";
                diagnosis.add(Grade::Failed, error.to_string(), Some(hint.to_owned()));
            }
            Ok(status) if status.is_absent() => {}
            Ok(status) => {
                is_only_above = scope == Scope::Project && installed == 0 && is_unread_below(client, folders);
                installed += status.programs.len();
                entries(&mut diagnosis, client, scope, &status, &program.path);
                trusted(&mut diagnosis, client, folders, &status, &program)?;
                if scope == Scope::User {
                    shown_line(&mut diagnosis, client, folders)?;
                }
                answers(&mut diagnosis, client, scope, &status, folders).await;
            }
        }
    }
    if is_only_above {
        let file = client.layout().path(Scope::Project, folders).unwrap_or_default();
        let text = format!(
            "the project's entries in `{}` are not read here: {} reads the settings of the folder that it is started in, and of none above it",
            file.display(),
            client.title()
        );
        let hint =
            format!("start it in `{}`, or `backstop install {client} --user`", folders.project.display());
        diagnosis.add(Grade::Failed, text, Some(hint));
    }
    let moved = client.layout().moved_by(folders);
    let place = client.layout().user_path(folders).display().to_string();
    if let (Some(variable), 1..) = (moved, installed) {
        let text = format!("`{variable}` moves it: this is about `{place}`, and about no other folder of it");
        diagnosis.add(Grade::Note, text, None);
    }
    for Switch { file, says } in switches(client, folders) {
        let text = format!("it runs no hooks here: `{}` says {says}", file.display());
        diagnosis.add(Grade::Failed, text, Some(format!("take that out of `{}`", file.display())));
    }
    for loader in loaders(client, folders, Path::new("/")) {
        loading(&mut diagnosis, client, &loader);
    }
    match installed {
        0 => {
            let text = match moved {
                Some(variable) => format!("`{variable}` moves it to where nothing is installed, `{place}`"),
                None => "nothing is installed".to_owned(),
            };
            diagnosis.add(Grade::Failed, text, Some(format!("backstop install {client}")));
        }
        1 => {}
        _ => diagnosis.add(
            Grade::Warning,
            "two Backstops are installed: where a daemon answers them one decides, and the other says the same; alone, each judges every call and both must let it pass",
            Some(format!("backstop uninstall {client}, once per program or scope, and install one")),
        ),
    }
    version(&mut diagnosis, client).await;
    for gap in client.facts().gaps {
        diagnosis.add(Grade::Note, *gap, None);
    }
    Ok(diagnosis)
}

/// Whether the client, started in the working directory, passes over what is installed for the project around it. Tried with
/// Claude Code 2.1.330; of the others it is not known.
fn is_unread_below(client: Client, folders: &Folders) -> bool {
    client == Client::Claude && folders.here != folders.project
}

/// What an entry says beside the program it starts is compared with what this version would write for that program.
fn status_of(
    client: Client,
    scope: Scope,
    folders: &Folders,
    program: &Program,
) -> Result<Status, PlanError> {
    let found = status(client, scope, folders, program.clone())?;
    let mut others = found.programs.iter().filter(|path| Path::new(path) != program.path);
    match (others.next(), others.next()) {
        (Some(other), None) if found.programs.len() == 1 => {
            let other = Program { path: other.into(), fixed: program.fixed.clone() };
            status(client, scope, folders, other)
        }
        _ => Ok(found),
    }
}

/// Whether a client that runs only what its user trusts does trust this.
fn trusted(
    diagnosis: &mut Diagnosis,
    client: Client,
    folders: &Folders,
    status: &Status,
    program: &Program,
) -> Result<(), Error> {
    let path = status.programs.first().map_or_else(|| program.path.clone(), Into::into);
    let program = Program { path, fixed: program.fixed.clone() };
    match is_trusted(client, folders, program).map_err(PlanError::from)? {
        Some(false) => diagnosis.add(
            Grade::Failed,
            "it was not told to trust these hooks, so it runs none of them and says nothing",
            Some(format!("start `{client}` and enter `/hooks`")),
        ),
        Some(true) => diagnosis.add(Grade::Good, "it trusts these hooks", None),
        None => {}
    }
    Ok(())
}

fn entries(diagnosis: &mut Diagnosis, client: Client, scope: Scope, status: &Status, program: &Path) {
    let again = || Some(format!("backstop install {client} --{}", scope_name(scope)));
    for found in &status.programs {
        let path = Path::new(found);
        if !path.exists() {
            diagnosis.add(Grade::Failed, format!("`{found}` is not there"), again());
        } else if !is_executable(path) {
            diagnosis.add(Grade::Failed, format!("`{found}` is not executable"), again());
        } else if others_may_write(path) {
            let hint = Some(format!("chmod o-w {found}"));
            diagnosis.add(Grade::Failed, format!("everybody can replace `{found}`"), hint);
        } else if path != program {
            diagnosis.add(
                Grade::Warning,
                format!("`{found}` is started, which is not this program"),
                again(),
            );
        }
    }
    if status.is_current(program) {
        diagnosis.add(Grade::Good, format!("the {}'s entries are whole", scope_name(scope)), None);
    }
    if !status.missing.is_empty() {
        let text = format!("without an entry: {}", status.missing.join(", "));
        diagnosis.add(Grade::Failed, text, again());
    }
    if status.outdated {
        let text = "an entry is not what `backstop install` writes: it may not be asked about every call, be too late, or fail open";
        diagnosis.add(Grade::Failed, text, again());
    }
    if status.foreign > 0 {
        let text = format!(
            "{} hooks of others are there; where several change arguments, the client keeps one change",
            status.foreign
        );
        diagnosis.add(Grade::Note, text, None);
    }
}

/// A variable that puts code into our hooks. What a repository says is nobody's word that is trusted.
fn loading(diagnosis: &mut Diagnosis, client: Client, loader: &Loader) {
    let grade = if loader.of == Whose::Project { Grade::Failed } else { Grade::Warning };
    let mut hint = format!("look at what it names, and take it out of `{}`", loader.file.display());
    if loader.of == Whose::Project && client == Client::Claude {
        hint.push_str("; `backstop run claude` overrules it");
    }
    diagnosis.add(grade, super::loaded(loader), Some(hint));
}

/// What the client shows of us below a conversation.
fn shown_line(diagnosis: &mut Diagnosis, client: Client, folders: &Folders) -> Result<(), Error> {
    let Some(line) = status_line(client, folders)? else { return Ok(()) };
    match line {
        StatusLine::Ours => diagnosis.add(Grade::Good, "its status line says that it is guarded", None),
        StatusLine::Missing => {
            let hint = Some(format!("backstop install {client}"));
            diagnosis.add(Grade::Note, "it has no status line that says whether it is guarded", hint);
        }
        StatusLine::Theirs => {
            diagnosis.add(Grade::Note, "its status line is its user's, and says nothing of Backstop", None);
        }
        StatusLine::OfProject(file) => {
            let text = format!(
                "the status line here is the project's, by `{}`: whatever it says of Backstop is not ours",
                file.display()
            );
            diagnosis.add(Grade::Warning, text, None);
        }
    }
    Ok(())
}

fn others_may_write(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o002 != 0)
}

async fn answers(
    diagnosis: &mut Diagnosis,
    client: Client,
    scope: Scope,
    status: &Status,
    folders: &Folders,
) {
    let event = client.sample().event;
    let Some(command) = status.command_at(event) else { return };
    match fire(client, command, &folders.project).await {
        Ok(()) => {
            let text = format!("fired: the {}'s entry at {event} answers", scope_name(scope));
            diagnosis.add(Grade::Good, text, None);
        }
        Err(why) => {
            let hint = Some(format!("backstop config check; backstop install {client}; by hand: {command}"));
            diagnosis.add(Grade::Failed, format!("did not fire at {event}: {why}"), hint);
        }
    }
}

async fn version(diagnosis: &mut Diagnosis, client: Client) {
    let facts = client.facts();
    let Some(name) = program_of(client) else { return };
    let Some(path) = in_path(name) else {
        diagnosis.add(Grade::Note, format!("`{name}` is not in PATH, so its version is not known"), None);
        return;
    };
    let asked = Command::new(&path).arg("--version").stdin(Stdio::null()).kill_on_drop(true).output();
    let said = match tokio::time::timeout(VERSION_PATIENCE, asked).await {
        Ok(Ok(ended)) => number_in(&String::from_utf8_lossy(&ended.stdout)),
        Ok(Err(_)) | Err(_) => None,
    };
    match (said, facts.evidence) {
        (None, _) => diagnosis.add(Grade::Note, format!("`{name} --version` does not say one"), None),
        (Some(found), Evidence::Live) if found == facts.version => {
            diagnosis.add(Grade::Good, format!("version {found}, with which Backstop was tried"), None);
        }
        (Some(found), Evidence::Live) => diagnosis.add(
            Grade::Warning,
            format!("version {found}; Backstop was tried with {}", facts.version),
            Some("events it does not know are refused; see that a refusal stops a tool".to_owned()),
        ),
        (Some(found), Evidence::Documented) => diagnosis.add(
            Grade::Warning,
            format!("version {found}; Backstop was not tried with this client"),
            None,
        ),
    }
}

/// The first word that looks like a version: digits with two dots at least.
fn number_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.matches('.').count() >= 2)
        .map(str::to_owned)
}
