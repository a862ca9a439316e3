//! `backstop status`: in which clients' configurations our entries are.

use std::collections::BTreeMap;
use std::path::Path;

use backstop::clients::Client;
use backstop::clients::install::{Folders, PlanError, Program, Scope, Status, status};
use serde::Serialize;

use super::heard::{Heard, heard};
use super::{entry_program, folders, is_there, scope_name};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{plain, table};
use crate::session::Surroundings;

/// What is said about one client's configuration.
#[derive(Debug, Serialize)]
struct Row {
    client: &'static str,
    scope: &'static str,
    /// Whether the client seems to be used here.
    found: bool,
    state: State,
    path: String,
    programs: Vec<String>,
    missing: Vec<String>,
    /// Hooks of others beside ours.
    foreign: usize,
    error: Option<String>,
    /// When the client was last heard of.
    heard: Option<Heard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Absent,
    Installed,
    /// Some events are missing, or an entry is not what this version writes.
    Incomplete,
    /// The entries start another Backstop.
    AnotherProgram,
    /// They start several.
    SeveralPrograms,
    Unreadable,
}

impl State {
    fn of(found: &Result<Status, PlanError>, program: &Path) -> Self {
        match found {
            Err(_) => Self::Unreadable,
            Ok(status) if status.is_absent() => Self::Absent,
            Ok(status) if status.programs.len() > 1 => Self::SeveralPrograms,
            Ok(status) if status.is_current(program) => Self::Installed,
            Ok(status) if status.programs.iter().all(|found| Path::new(found) == program) => Self::Incomplete,
            Ok(_) => Self::AnotherProgram,
        }
    }

    fn shown(self) -> &'static str {
        match self {
            Self::Absent => "-",
            Self::Installed => "installed",
            Self::Incomplete => "incomplete",
            Self::AnotherProgram => "another program",
            Self::SeveralPrograms => "several programs",
            Self::Unreadable => "unreadable",
        }
    }
}

pub(in crate::commands) async fn run(surroundings: &Surroundings) -> Result<Exit, Error> {
    let folders = folders()?;
    // What can't be read here is the doctor's business.
    let heard = match surroundings.load_quietly().and_then(|loaded| surroundings.store(&loaded)) {
        Ok(store) => heard(store.as_ref()).await.unwrap_or_default(),
        Err(_) => BTreeMap::new(),
    };
    let mut rows: Vec<Row> = Client::ALL
        .into_iter()
        .flat_map(|client| [Scope::User, Scope::Project].map(|scope| (client, scope)))
        .filter_map(|(client, scope)| Some((client, scope, client.layout().path(scope, &folders)?)))
        .map(|(client, scope, path)| {
            Ok(row(client, scope, &path, &folders, &entry_program(scope, surroundings)?))
        })
        .collect::<Result<_, Error>>()?;
    for row in &mut rows {
        row.heard = heard.get(row.client).cloned();
    }
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&rows)?;
        return Ok(Exit::Success);
    }
    let mut lines = vec![["client", "scope", "state", "last event", "file"].map(str::to_owned).to_vec()];
    // A project's file says something only when ours is in it.
    let telling = |row: &&Row| row.scope == "user" || row.state != State::Absent;
    lines.extend(rows.iter().filter(telling).map(|row| {
        let state = match (row.state, row.found) {
            (State::Absent, false) => "client not found",
            (state, _) => state.shown(),
        };
        let heard = row.heard.as_ref().map_or_else(|| "-".to_owned(), |heard| heard.at.to_string());
        vec![row.client.to_owned(), row.scope.to_owned(), state.to_owned(), heard, plain(&row.path)]
    }));
    output.text(&table(&lines))?;
    surroundings.warn_of_pin();
    Ok(Exit::Success)
}

fn row(client: Client, scope: Scope, path: &Path, folders: &Folders, program: &Program) -> Row {
    let found = status(client, scope, folders, program.clone());
    let state = State::of(&found, &program.path);
    let (status, error) = match found {
        Ok(status) => (status, None),
        Err(error) => (Status::default(), Some(error.to_string())),
    };
    Row {
        client: client.name(),
        scope: scope_name(scope),
        found: is_there(client, folders),
        state,
        path: path.display().to_string(),
        programs: status.programs.into_iter().collect(),
        missing: status.missing,
        foreign: status.foreign,
        error,
        heard: None,
    }
}
