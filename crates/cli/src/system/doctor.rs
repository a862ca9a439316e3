//! `backstop doctor --system`: whether an installation for the whole machine does what it should.
//!
//! What is looked at are facts that every user can see, so anybody may ask; what only root sees is said to be unseen.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use backstop::clients::Client;
use backstop::clients::install::{Machine, machine_facts};
use backstop::config::account::by_name;
use serde::Serialize;

use super::install::files_of;
use super::record::{read, weakness};
use super::{CONFIGURATION, DATA, PROGRAM, SOCKET, USER, places};
use crate::commands::clients::fire::fire;
use crate::daemon::owner_of_place;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Check, Grade, Output, Style};
use crate::session::{Surroundings, working_directory};

/// A check, and the client that it is about, if it is about one.
#[derive(Debug, Serialize)]
struct About {
    client: Option<&'static str>,
    #[serde(flatten)]
    check: Check,
}

#[derive(Debug, Default)]
struct Checks(Vec<About>);

impl Checks {
    fn good(&mut self, client: Option<Client>, text: impl Into<String>) {
        self.add(client, Grade::Good, text.into(), None);
    }

    fn failed(&mut self, client: Option<Client>, text: impl Into<String>, hint: impl Into<String>) {
        self.add(client, Grade::Failed, text.into(), Some(hint.into()));
    }

    fn note(&mut self, client: Option<Client>, text: impl Into<String>) {
        self.add(client, Grade::Note, text.into(), None);
    }

    fn add(&mut self, client: Option<Client>, grade: Grade, text: String, hint: Option<String>) {
        self.0.push(About { client: client.map(Client::name), check: Check { grade, text, hint } });
    }

    fn have_failed(&self) -> bool {
        self.0.iter().any(|about| about.check.grade == Grade::Failed)
    }
}

/// Looks at everything, or at one client's part.
pub(crate) async fn run(client: Option<Client>, surroundings: &Surroundings) -> Result<Exit, Error> {
    let machine = Machine::this();
    let mut checks = Checks::default();
    footing(&mut checks);
    configuration(&mut checks, surroundings);
    service(&mut checks);
    let with_place = |client: &Client| machine_facts(*client).place(machine).is_some();
    let clients: Vec<Client> = match client {
        Some(client) => vec![client],
        None => Client::ALL.into_iter().filter(with_place).collect(),
    };
    let here = working_directory()?;
    for client in clients {
        entries(&mut checks, client, machine)?;
        let command = command_of(client, machine)?;
        match fire(client, &command, &here).await {
            Ok(()) => {
                checks
                    .good(Some(client), "fired: a harmless call passes, a stand-in of a bad one is refused");
            }
            Err(why) => {
                checks.failed(Some(client), format!("did not fire: {why}"), format!("by hand: {command}"));
            }
        }
        for slip in machine_facts(client).slips {
            checks.note(Some(client), format!("slips: {slip}"));
        }
    }
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&checks.0)?;
    } else {
        show(&checks, output)?;
    }
    Ok(if checks.have_failed() { Exit::Failed } else { Exit::Success })
}

/// What the client gives to a shell, by its own entry.
fn command_of(client: Client, machine: Machine) -> Result<String, Error> {
    let event = client.sample().event;
    let written = files_of(client, machine)?.iter().find_map(|file| file.command_at(event));
    // What a file of ours starts is this, in words of its own.
    Ok(written.unwrap_or_else(|| {
        format!("{PROGRAM} hook {} {event} --service {}", client.name(), places::socket(machine))
    }))
}

/// Program and operator's folder: root's, all the way up.
fn footing(checks: &mut Checks) {
    for place in [PROGRAM, CONFIGURATION] {
        let path = Path::new(place);
        match weakness(path) {
            Some(weakness) => checks.failed(
                None,
                weakness,
                format!("chown root {place}; chmod go-w {place}, and the folders above"),
            ),
            None if !path.exists() => {
                checks.failed(None, format!("`{place}` is not there"), "sudo backstop install --system");
            }
            None => checks.good(None, format!("`{place}` is root's, and so are the folders above it")),
        }
    }
}

fn configuration(checks: &mut Checks, surroundings: &Surroundings) {
    let folders = crate::session::OperatorFolders {
        home: DATA.into(),
        operator: CONFIGURATION.into(),
        data: DATA.into(),
        pinned: false,
    };
    match surroundings.fixed(folders).load_operators() {
        Ok(operators) if super::names_database(&operators.loaded) => {
            checks.failed(
                None,
                super::one_database_for_all().to_string(),
                format!("edit `{CONFIGURATION}/backstop.yaml`"),
            );
        }
        Ok(operators) => {
            checks.good(None, "the operator's configuration can be used");
            let shadows = Check::in_shadow(&operators.loaded.config).into_iter();
            checks.0.extend(shadows.map(|check| About { client: None, check }));
        }
        Err(error) => checks.failed(None, error.to_string(), format!("edit `{CONFIGURATION}/backstop.yaml`")),
    }
}

/// The service's user, folder and socket.
fn service(checks: &mut Checks) {
    let Some(account) = by_name(USER) else {
        let hint = format!("useradd --system --home-dir {DATA} --shell /usr/sbin/nologin {USER}");
        return checks.failed(None, format!("there is no user `{USER}` for the service"), hint);
    };
    match fs::symlink_metadata(DATA) {
        Err(_) => {
            checks.note(None, format!("`{DATA}` is not there: the service has not judged anything yet"));
        }
        Ok(found) if found.uid() != account.uid || found.mode() & 0o077 != 0 => {
            let hint = format!("chown -R {USER} {DATA}; chmod 700 {DATA}");
            checks.failed(None, format!("`{DATA}` is not the service's alone"), hint);
        }
        Ok(_) => checks.good(None, format!("`{DATA}` is the service's alone")),
    }
    let socket = Path::new(SOCKET);
    let start = "systemctl start backstop.socket, or `backstop daemon`, as root";
    match owner_of_place(socket) {
        Err(error) => checks.failed(None, error, start),
        Ok(owner) if owner != 0 && owner != account.uid => {
            checks.failed(
                None,
                format!("the folder of `{SOCKET}` is neither root's nor the service's"),
                "chown root, and start the service again",
            );
        }
        Ok(_) => match fs::symlink_metadata(socket) {
            Ok(found) if found.mode() & 0o666 != 0o666 => {
                checks.failed(
                    None,
                    format!("not every user may ask at `{SOCKET}`"),
                    format!("chmod 666 {SOCKET}"),
                );
            }
            _ => checks.good(None, format!("`{SOCKET}` is where only the service can listen")),
        },
    }
}

/// The client's files: whole, root's, and not to be written by others.
fn entries(checks: &mut Checks, client: Client, machine: Machine) -> Result<(), Error> {
    let again = format!("sudo backstop install --system {client}");
    let files = files_of(client, machine)?;
    if files.is_empty() {
        checks.failed(
            Some(client),
            "it has no place for the whole machine",
            format!("backstop install {client}"),
        );
    }
    for file in files {
        let shown = file.path.display().to_string();
        if let Some(weakness) = weakness(&file.path) {
            checks.failed(
                Some(client),
                weakness,
                format!("chown root {shown}; chmod go-w {shown}, and the folders above"),
            );
        }
        match read(&file.path) {
            Err(error) => checks.failed(Some(client), error.to_string(), again.as_str()),
            Ok(None) => checks.failed(Some(client), format!("`{shown}` is not there"), again.as_str()),
            Ok(Some(text)) => match file.with_us(Some(&text)) {
                Ok(wanted) if wanted == text => checks.good(Some(client), format!("`{shown}` is whole")),
                Ok(_) => {
                    checks.failed(
                        Some(client),
                        format!("`{shown}` is not what is installed"),
                        again.as_str(),
                    );
                }
                Err(error) => checks.failed(Some(client), format!("`{shown}`: {error}"), again.as_str()),
            },
        }
    }
    Ok(())
}

fn show(checks: &Checks, output: &Output) -> Result<(), Error> {
    let paint = output.paint();
    let mut text = String::new();
    let mut title_of = Some("");
    for About { client, check } in &checks.0 {
        if *client != title_of {
            title_of = *client;
            let title = client.and_then(|name| name.parse::<Client>().ok()).map_or("Backstop", Client::title);
            text.push_str(&format!("{}\n", paint.with(Style::Name, title)));
        }
        text.push_str(&check.lines(output));
    }
    Ok(output.text(&text)?)
}
