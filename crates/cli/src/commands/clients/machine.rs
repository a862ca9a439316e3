//! What doctor says of the machine: how a run is confined here, what runs things for an agent all the same, and what keeps
//! an agent from answering its own questions.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use backstop::clients::Client;
use backstop::clients::install::{Machine as InstalledOn, machine_facts};
use backstop::config::{Loaded, SandboxMode};
use backstop::confine::Tier;

use crate::confine::{Machine, unheld_without_walls};
use crate::error::Error;
use crate::session::Surroundings;

/// Something to be told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) hint: Option<String>,
    pub(super) is_warning: bool,
}

fn note(text: String) -> Told {
    Told { text, hint: None, is_warning: false }
}

/// The machine, as far as it matters to every client.
#[derive(Debug)]
pub(super) struct Facts {
    /// `None` where confinement is switched off.
    machine: Option<(Machine, Loaded)>,
    /// Why nothing would be started without it.
    unheld_without: Option<String>,
    services: Vec<String>,
    is_strict: bool,
    has_daemon: bool,
}

impl Facts {
    /// Looks around. Without a configuration that can be read there is nothing to say, which others say.
    pub(super) fn look(surroundings: &Surroundings) -> Result<Option<Self>, Error> {
        let loaded = match surroundings.load_operators() {
            Err(Error::Config(_)) => return Ok(None),
            operators => operators?.loaded,
        };
        let is_off = loaded.config.sandbox.mode.value == SandboxMode::Off;
        let socket = backstop::daemon_socket(&loaded, &|name| surroundings.variable(name))?;
        Ok(Some(Self {
            services: reachable(&candidates(&|name| surroundings.variable(name))),
            is_strict: loaded.config.agent.approvals.strict.value,
            has_daemon: UnixStream::connect(socket).is_ok(),
            unheld_without: unheld_without_walls(&loaded),
            machine: if is_off { None } else { Some((Machine::look()?, loaded)) },
        }))
    }

    /// What of it is about a client.
    pub(super) fn about(&self, client: Client) -> Vec<Told> {
        let mut told = Vec::new();
        if let Some(why) = self.machine.as_ref().and_then(|(machine, loaded)| machine.unheld(loaded, client))
        {
            told.push(Told {
                text: format!("`backstop run {client}` would start nothing here: {why}"),
                hint: Some(
                    "take out of `sandbox` what this machine can't do, or have it allow user namespaces"
                        .to_owned(),
                ),
                is_warning: true,
            });
        }
        let tier = match self.machine.as_ref().map(|(machine, _)| machine.tier_of(client)) {
            None => {
                told.push(Told {
                    text: match &self.unheld_without {
                        Some(why) => format!("`backstop run {client}` would start nothing here: {why}"),
                        None => "`sandbox.mode` is `off`: `backstop run` confines nothing".to_owned(),
                    },
                    hint: Some("set `sandbox.mode: auto`".to_owned()),
                    is_warning: true,
                });
                Tier::Label
            }
            Some((tier, why)) => {
                told.push(confinement(client, tier, why));
                tier
            }
        };
        if !self.services.is_empty() {
            told.push(note(format!(
                "services of this account that run things on request, outside of every tier, can be reached: {}",
                self.services.join(", ")
            )));
        }
        told.push(self.answers(client, tier));
        told.push(system_scope(client, installed_for_all(client)));
        told
    }

    /// What keeps it from answering its own questions.
    fn answers(&self, client: Client, tier: Tier) -> Told {
        let beside = match self.is_strict {
            true => {
                "answers are kept in memory (`agent.approvals.strict`), and whoever asks for them is looked at"
            }
            false => {
                "answers are refused to what comes from an agent, and rows that it writes into the database count"
            }
        };
        let text = match tier {
            Tier::Label => format!("who can answer: {beside}"),
            Tier::Mount | Tier::Landlock => {
                format!(
                    "who can answer: under `backstop run {client}` nothing inside reaches the answers; elsewhere {beside}"
                )
            }
        };
        if self.is_strict && !self.has_daemon {
            let text = format!("{text}. No daemon is running, so what hooks ask about is denied");
            return Told { text, hint: Some("backstop serve".to_owned()), is_warning: true };
        }
        note(text)
    }
}

/// Whether Backstop is installed for the whole machine, and has an entry of this client there.
fn installed_for_all(client: Client) -> bool {
    let place = machine_facts(client).place(InstalledOn::this());
    Path::new(crate::system::PROGRAM).exists() && place.is_some_and(|place| Path::new(place).exists())
}

fn system_scope(client: Client, is_there: bool) -> Told {
    let has_place = machine_facts(client).place(InstalledOn::this()).is_some();
    note(match (is_there, has_place) {
        (true, _) => "installed for the whole machine, too, out of reach of this account: `backstop doctor --system` proves it".to_owned(),
        (false, true) => "not installed for the whole machine: judge, configuration and answers are in reach of this account; `sudo backstop install --system` takes them out of it".to_owned(),
        (false, false) => format!("{} has no place for the whole machine, so that nothing keeps its entries from this account", client.title()),
    })
}

fn confinement(client: Client, tier: Tier, why: Option<String>) -> Told {
    let open = tier.leaves_open().join("; ");
    let how = match tier {
        Tier::Mount => "by mounts of its own",
        Tier::Landlock => "by Landlock",
        Tier::Label => "not at all",
    };
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    Told {
        text: format!("`backstop run {client}` is confined {how}{why}. What that leaves open: {open}"),
        hint: None,
        is_warning: tier == Tier::Label,
    }
}

/// Services that run things for whoever asks, and where they listen.
fn candidates(environment: &dyn Fn(&str) -> Option<String>) -> Vec<(&'static str, PathBuf)> {
    let user = rustix::process::getuid().as_raw();
    let run =
        environment("XDG_RUNTIME_DIR").map_or_else(|| format!("/run/user/{user}").into(), PathBuf::from);
    let tmux = environment("TMUX_TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    let mut all = vec![
        ("systemd --user", run.join("systemd/private")),
        ("D-Bus", run.join("bus")),
        ("docker", "/var/run/docker.sock".into()),
        ("docker", run.join("docker.sock")),
        ("podman", "/run/podman/podman.sock".into()),
        ("podman", run.join("podman/podman.sock")),
        ("containerd", "/run/containerd/containerd.sock".into()),
    ];
    let named = [("D-Bus", "DBUS_SESSION_BUS_ADDRESS", "unix:path="), ("docker", "DOCKER_HOST", "unix://")];
    all.extend(named.into_iter().filter_map(|(service, variable, prefix)| {
        let value = environment(variable)?;
        Some((service, value.strip_prefix(prefix)?.split(',').next()?.into()))
    }));
    let sessions = std::fs::read_dir(tmux.join(format!("tmux-{user}"))).into_iter().flatten().flatten();
    all.extend(sessions.map(|session| ("tmux", session.path())));
    all
}

/// Those that somebody listens at, each place once.
fn reachable(candidates: &[(&'static str, PathBuf)]) -> Vec<String> {
    let is_new = |at: usize, path: &Path| !candidates.iter().take(at).any(|(_, earlier)| earlier == path);
    let found = candidates.iter().enumerate();
    let found = found.filter(|(at, (_, path))| is_new(*at, path) && UnixStream::connect(path).is_ok());
    found.map(|(_, (service, path))| format!("{service} (`{}`)", path.display())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn services_that_listen_are_named_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let user = rustix::process::getuid().as_raw();
        std::fs::create_dir_all(home.join(format!("tmux-{user}"))).unwrap();
        let session = home.join(format!("tmux-{user}/work"));
        let places = [home.join("bus"), session, home.join("d.sock")];
        let listening = places.each_ref().map(|place| UnixListener::bind(place).unwrap());
        // A file that is left of one that is gone.
        drop(UnixListener::bind(home.join("docker.sock")).unwrap());
        let environment = |name: &str| {
            Some(match name {
                "XDG_RUNTIME_DIR" | "TMUX_TMPDIR" => home.display().to_string(),
                "DBUS_SESSION_BUS_ADDRESS" => format!("unix:path={},guid=1", home.join("bus").display()),
                "DOCKER_HOST" => format!("unix://{}", home.join("d.sock").display()),
                _ => return None,
            })
        };
        let mut found = reachable(&candidates(&environment));
        found.retain(|service| service.contains(&home.display().to_string()));
        let at = |service: &str, place: &Path| format!("{service} (`{}`)", place.display());
        let [bus, tmux, docker] = &places;
        assert_eq!(found, [at("D-Bus", bus), at("docker", docker), at("tmux", tmux)]);
        drop(listening);
    }

    #[test]
    fn what_holds_for_answers_is_said() {
        let facts = |is_strict, has_daemon| Facts {
            unheld_without: None,
            machine: None,
            services: Vec::new(),
            is_strict,
            has_daemon,
        };
        let said = |facts: Facts, tier| facts.answers(Client::Claude, tier);
        assert!(said(facts(false, false), Tier::Label).text.contains("rows that it writes"));
        assert!(said(facts(false, false), Tier::Mount).text.contains("nothing inside reaches the answers"));
        assert!(!said(facts(true, true), Tier::Label).is_warning);
        let denied = said(facts(true, false), Tier::Label);
        assert!(denied.is_warning && denied.text.contains("is denied"), "{denied:?}");
    }

    #[test]
    fn what_the_system_scope_does_for_a_client_is_said() {
        let said = |client, is_there| system_scope(client, is_there).text;
        assert!(said(Client::Claude, true).contains("doctor --system"));
        assert!(said(Client::Claude, false).contains("install --system"));
        assert!(said(Client::Cline, false).contains("has no place"));
    }

    #[test]
    fn a_tier_is_named_with_what_it_leaves_open() {
        for tier in [Tier::Mount, Tier::Landlock, Tier::Label] {
            let told = confinement(Client::Codex, tier, Some("because".to_owned()));
            assert!(told.text.contains("because"), "{told:?}");
            assert!(tier.leaves_open().iter().all(|open| told.text.contains(open)), "{told:?}");
            assert_eq!(told.is_warning, tier == Tier::Label);
        }
    }
}
