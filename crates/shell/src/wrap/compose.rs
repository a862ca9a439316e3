//! `docker compose`: what its files make containers run, where a file stands in the command.
//!
//! Each service is judged as `docker run` would run it. The law: *a document that the command itself supplies is read as a
//! whole, or is unread code*. The list names the keys that are followed or known to do nothing. Anything else in such a
//! document (`extends`, `include`, `<<`, volumes with driver options, new keys) is an unknown that may carry code.
//! In a file that existed before, only the services are read. Source: Compose Specification, of 2025-03.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::carrier::quote;
use crate::data::{Data, Taint};
use crate::trace::{Fact, UnknownKind};
use crate::walk::Shell;
use crate::word::HOLE;

/// What the files are called where nobody says.
const FILES: [&str; 8] = [
    "compose.yaml",
    "compose.yml",
    "docker-compose.yml",
    "docker-compose.yaml",
    "compose.override.yaml",
    "compose.override.yml",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
];

/// Keys of a document that are followed, or have nothing run and no folder mounted. Those that begin with `x-` are nobody's.
const OF_DOCUMENTS: [&str; 5] = ["name", "networks", "services", "version", "volumes"];

/// The same of a service.
const OF_SERVICES: [&str; 48] = [
    "attach",
    "build",
    "cap_add",
    "cap_drop",
    "command",
    "container_name",
    "cpus",
    "depends_on",
    "devices",
    "dns",
    "dns_search",
    "domainname",
    "entrypoint",
    "environment",
    "expose",
    "extra_hosts",
    "healthcheck",
    "hostname",
    "image",
    "init",
    "ipc",
    "labels",
    "links",
    "logging",
    "mem_limit",
    "mem_reservation",
    "network_mode",
    "networks",
    "pid",
    "platform",
    "ports",
    "privileged",
    "profiles",
    "pull_policy",
    "read_only",
    "restart",
    "scale",
    "security_opt",
    "shm_size",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "tmpfs",
    "tty",
    "ulimits",
    "user",
    "userns_mode",
    "volumes",
];

/// Keys of `build` that only say what is built of files that are there.
const OF_BUILDS: [&str; 8] =
    ["args", "cache_from", "context", "dockerfile", "labels", "platforms", "tags", "target"];

/// Defaults inside of defaults are followed this deep; what is deeper is not known.
const DEPTH: usize = 8;

/// The words with which services are started.
fn starts(arg: &str) -> bool {
    matches!(arg, "up" | "run" | "create" | "start" | "restart" | "watch")
}

impl Shell<'_> {
    /// Runs the services of the files that a call names, as `docker run` would run them.
    pub(super) fn compose(&mut self, args: &[String], program: &str, stdin: &Data) {
        let is_compose = program.ends_with("-compose") || args.iter().any(|arg| arg == "compose");
        let Some(at) = args.iter().position(|arg| starts(arg)).filter(|_| is_compose) else { return };
        let options = args.get(..at).unwrap_or_default();
        let folder = values(options, "", "--project-directory").pop();
        let variables = self.variables_of(&values(options, "", "--env-file"), folder.as_deref());
        for file in self.files_of(options, folder.as_deref(), &variables) {
            self.services_of(&file, folder.as_deref(), &variables, stdin);
        }
    }

    /// Returns the variables that files of a call set.
    fn variables_of(&mut self, named: &[String], folder: Option<&str>) -> HashMap<String, String> {
        let usual = [folder.map_or_else(|| ".env".to_owned(), |folder| format!("{folder}/.env"))];
        let mut variables = HashMap::new();
        for file in if named.is_empty() { &usual } else { named } {
            let data = self.content_of(file);
            let Some(text) = data.marked() else {
                self.note_unread_services(file, &data);
                continue;
            };
            for (name, value) in text.lines().filter_map(|line| line.trim_start().split_once('=')) {
                let name = name.strip_prefix("export ").unwrap_or(name).trim();
                variables.insert(name.to_owned(), value.trim().trim_matches(['"', '\'']).to_owned());
            }
        }
        variables
    }

    /// Returns the files of services: those that the options name, or else a variable, or else those that are called so.
    fn files_of(
        &mut self,
        options: &[String],
        folder: Option<&str>,
        variables: &HashMap<String, String>,
    ) -> Vec<String> {
        let named = values(options, "-f", "--file");
        if !named.is_empty() {
            return named;
        }
        let separator = self.variable("COMPOSE_PATH_SEPARATOR", variables).unwrap_or_default();
        let separators: &[char] = if separator.is_empty() { &[':', ';'] } else { &[] };
        match self.variable("COMPOSE_FILE", variables) {
            Some(list) if separators.is_empty() => list.split(&separator).map(str::to_owned).collect(),
            Some(list) => list.split(separators).map(str::to_owned).collect(),
            None => {
                let inside = folder.map(|folder| FILES.map(|file| format!("{folder}/{file}")));
                FILES.map(str::to_owned).into_iter().chain(inside.into_iter().flatten()).collect()
            }
        }
    }

    /// Runs the services of one file.
    fn services_of(
        &mut self,
        file: &str,
        folder: Option<&str>,
        variables: &HashMap<String, String>,
        stdin: &Data,
    ) {
        let is_input = matches!(file, "-" | "/dev/stdin");
        let data = if is_input { stdin.clone() } else { self.content_of(file) };
        let Some(text) = data.marked() else {
            return self.note_unread_services(file, &data);
        };
        // What a file calls `.` is the folder in which it lies.
        let own = file.rsplit_once('/').map(|(folder, _)| folder).filter(|_| !is_input);
        let value = |name: &str| self.variable(name, variables);
        let reading =
            Reading { value: &value, home: self.place.home(), folder: folder.or(own).unwrap_or(".") };
        let services = reading.document(text);
        if !services.is_whole && (is_input || self.is_made(file)) {
            let reason = "a file of services is run that can't be read as a whole";
            self.trace.unknown(UnknownKind::Code, reason, true);
        }
        for command in services.commands {
            self.in_subshell(|shell| shell.run_text(&command, &Data::empty()));
        }
    }

    /// Reports a file of services, or of their variables, whose text is not known though the command gives it.
    fn note_unread_services(&mut self, file: &str, data: &Data) {
        let is_input = matches!(file, "-" | "/dev/stdin") && !data.taint.has(Taint::INPUT);
        if is_input || self.is_made(file) {
            self.trace.facts.push(Fact::RunsCode { process: None, from: data.taint });
            let reason = "services are run that are described by something that is not known";
            self.trace.unknown(UnknownKind::Code, reason, true);
        }
    }

    /// Returns whether the command wrote the file.
    fn is_made(&self, file: &str) -> bool {
        let path = self.located(file);
        self.state.disk.has(&path) || self.state.disk.is_fetched(&path)
    }

    /// Returns the value of a variable: the environment's before that of a file.
    fn variable(&self, name: &str, variables: &HashMap<String, String>) -> Option<String> {
        let own = Some(self.environment_of(name)).filter(|value| !value.is_empty());
        let usual = || match name {
            "HOME" => Some(self.place.home().to_owned()),
            "PWD" => self.state.cwd.clone(),
            _ => None,
        };
        own.or_else(|| variables.get(name).cloned()).or_else(usual)
    }
}

/// Returns the values of an option in front of a subcommand: in the next word, attached, or behind a `=`.
fn values(args: &[String], short: &str, long: &str) -> Vec<String> {
    let is_named = |arg: &String| arg == long || !short.is_empty() && arg == short;
    let attached = |arg: &String| {
        let long = arg.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        let short = || arg.strip_prefix(short).filter(|rest| !short.is_empty() && !rest.is_empty());
        long.or_else(short).map(str::to_owned)
    };
    let mut found = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match is_named(arg) {
            true => found.extend(args.next().cloned()),
            false => found.extend(attached(arg)),
        }
    }
    found
}

/// What was read of a document.
#[derive(Default)]
struct Services {
    /// Each service, and what checks it, as a command of `docker run`.
    commands: Vec<String>,
    /// Whether all that it says is in the commands.
    is_whole: bool,
}

/// How a document is read.
struct Reading<'a> {
    /// The value of a variable.
    value: &'a dyn Fn(&str) -> Option<String>,
    home: &'a str,
    /// The folder to which paths of the machine are relative.
    folder: &'a str,
}

impl Reading<'_> {
    fn document(&self, text: &str) -> Services {
        let root = backstop_yaml::parse(&Arc::from("compose.yaml"), text).ok();
        let Some(Ok(mut root)) = root.map(|root| root.map_or(Ok(Value::Null), |root| root.read())) else {
            return Services::default();
        };
        self.fill(&mut root);
        let none = Map::new();
        let entries = |key: &str| root.get(key).and_then(Value::as_object).unwrap_or(&none);
        let is_plain = |key: &String| OF_DOCUMENTS.contains(&key.as_str()) || key.starts_with("x-");
        // A volume that is described may be any folder of the machine.
        let is_bare = |volume: &Value| volume.as_object().is_none_or(Map::is_empty);
        Services {
            is_whole: root.as_object().is_some_and(|root| root.keys().all(is_plain))
                && entries("volumes").values().all(is_bare)
                && entries("services").values().all(is_whole),
            commands: entries("services").values().flat_map(|service| self.service(service)).collect(),
        }
    }

    /// Puts the values of variables in their places.
    fn fill(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains('$') => *text = self.filled(text, DEPTH),
            Value::Array(items) => items.iter_mut().for_each(|item| self.fill(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.fill(field)),
            _ => {}
        }
    }

    /// `$NAME`, `${NAME}`, `${NAME:-default}`; `$$` is a `$`.
    fn filled(&self, text: &str, depth: usize) -> String {
        if depth == 0 {
            return HOLE.to_string();
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some((head, tail)) = rest.split_once('$') {
            out.push_str(head);
            rest = if let Some(behind) = tail.strip_prefix('$') {
                out.push('$');
                behind
            } else if let Some((inner, behind)) = tail.strip_prefix('{').and_then(braced) {
                out.push_str(&self.parameter(inner, depth));
                behind
            } else {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let (name, behind) = tail
                    .split_at_checked(tail.find(|c| !is_part(c)).unwrap_or(tail.len()))
                    .unwrap_or((tail, ""));
                match name {
                    "" => out.push('$'),
                    name => out.push_str(&self.parameter(name, depth)),
                }
                behind
            };
        }
        out + rest
    }

    fn parameter(&self, inner: &str, depth: usize) -> String {
        let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, operator) = inner.split_at_checked(end).unwrap_or((inner, ""));
        let default = operator.strip_prefix(":-").or_else(|| operator.strip_prefix('-'));
        let other = operator.strip_prefix(":+").or_else(|| operator.strip_prefix('+'));
        match (other, (self.value)(name), default) {
            (Some(other), ..) => self.filled(other, depth - 1),
            (None, Some(value), _) => value,
            (None, None, Some(default)) => self.filled(default, depth - 1),
            (None, None, None) => HOLE.to_string(),
        }
    }

    /// A service, and what runs in it beside its command.
    fn service(&self, service: &Value) -> Vec<String> {
        let mut run = vec!["docker".to_owned(), "run".to_owned()];
        let volumes = service.get("volumes").and_then(Value::as_array);
        run.extend(
            volumes.into_iter().flatten().flat_map(|volume| ["-v".to_owned(), quote(&self.mount(volume))]),
        );
        run.extend(shared(service));
        run.push(quote(service.get("image").and_then(Value::as_str).unwrap_or("image")));
        let with = |words: Vec<String>| run.iter().cloned().chain(words).collect::<Vec<_>>().join(" ");
        let own = ["entrypoint", "command"].iter().flat_map(|key| command(service.get(key)));
        let check = service.get("healthcheck").and_then(|check| check.get("test"));
        let check = match check {
            Some(Value::Array(words)) => match words.split_first() {
                Some((Value::String(how), rest)) if how == "CMD-SHELL" => in_shell(rest.first()),
                Some((Value::String(how), rest)) if how == "CMD" => {
                    command(Some(&Value::Array(rest.to_vec())))
                }
                _ => Vec::new(),
            },
            check => in_shell(check),
        };
        let checks = (!check.is_empty()).then(|| with(check));
        std::iter::once(with(own.collect())).chain(checks).collect()
    }

    /// A mount as `docker run -v` takes it. Paths of the machine are what they are on this one.
    fn mount(&self, volume: &Value) -> String {
        let text = |key: &str| volume.get(key).and_then(Value::as_str).unwrap_or_default();
        let (source, behind) = match volume.as_str() {
            Some(short) => short.split_once(':').unwrap_or((short, "")),
            None => (text("source"), text("target")),
        };
        let source = match source.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", self.home),
            _ if source.starts_with('.') && self.folder.starts_with(['/', '.', '~']) => {
                format!("{}/{source}", self.folder)
            }
            // What begins otherwise is the name of a volume.
            _ if source.starts_with('.') => format!("./{}/{source}", self.folder),
            _ => source.to_owned(),
        };
        if behind.is_empty() { source } else { format!("{source}:{behind}") }
    }
}

/// Returns the options with which a service gets more of the machine than its mounts.
fn shared(service: &Value) -> Vec<String> {
    let mut words = Vec::new();
    if service.get("privileged").is_some_and(|value| *value != Value::Bool(false)) {
        words.push("--privileged".to_owned());
    }
    for (key, option) in [
        ("pid", "--pid"),
        ("ipc", "--ipc"),
        ("network_mode", "--network"),
        ("userns_mode", "--userns"),
        ("cap_add", "--cap-add"),
        ("devices", "--device"),
        ("security_opt", "--security-opt"),
    ] {
        let given = match service.get(key) {
            Some(Value::Array(list)) => list.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        words.extend(given.iter().filter_map(Value::as_str).map(|value| quote(&format!("{option}={value}"))));
    }
    words
}

/// Returns the words of a command: a text is split as a shell splits it.
fn command(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(quote).collect(),
        _ => Vec::new(),
    }
}

fn in_shell(text: Option<&Value>) -> Vec<String> {
    let text = text.and_then(Value::as_str);
    text.map(|text| ["sh", "-c", &quote(text)].map(str::to_owned).to_vec()).unwrap_or_default()
}

/// Returns whether all that a service says is followed, or does nothing.
fn is_whole(service: &Value) -> bool {
    let Some(fields) = service.as_object() else { return false };
    let is_known = |key: &String| OF_SERVICES.contains(&key.as_str()) || key.starts_with("x-");
    let builds = match fields.get("build") {
        None | Some(Value::String(_)) => true,
        Some(Value::Object(build)) => build.keys().all(|key| OF_BUILDS.contains(&key.as_str())),
        Some(_) => false,
    };
    fields.keys().all(is_known) && builds
}

/// Returns what stands in braces whose first one is gone, and what follows them.
fn braced(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let at = text.char_indices().find_map(|(at, c)| match c {
        '{' => {
            depth += 1;
            None
        }
        '}' if depth == 0 => Some(at),
        '}' => {
            depth -= 1;
            None
        }
        _ => None,
    })?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}
