//! `docker compose`: what its file has containers run, where the file stands in the command.

use std::sync::Arc;

use serde_json::Value;

use crate::carrier::quote;
use crate::data::Data;
use crate::walk::Shell;

/// What the file is called where nobody says (Compose Specification, "Compose file").
const FILES: [&str; 4] = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

impl Shell<'_> {
    /// Runs the services of a file as `docker run` would run them.
    pub(super) fn compose(&mut self, args: &[String], program: &str, stdin: &Data) {
        let is_compose = program.ends_with("-compose") || args.iter().any(|arg| arg == "compose");
        let starts = |arg: &String| matches!(arg.as_str(), "up" | "run" | "create" | "start");
        if !is_compose || !args.iter().any(starts) {
            return;
        }
        let named = args.windows(2).filter_map(|pair| match pair {
            [option, file] if matches!(option.as_str(), "-f" | "--file") => Some(file.clone()),
            _ => None,
        });
        let attached = args.iter().filter_map(|arg| arg.strip_prefix("--file=")).map(str::to_owned);
        let mut files: Vec<String> = named.chain(attached).collect();
        if files.is_empty() {
            files.extend(FILES.map(str::to_owned));
        }
        let texts: Vec<String> = files
            .iter()
            .filter_map(|file| match file.as_str() {
                "-" | "/dev/stdin" => stdin.marked().map(str::to_owned),
                file => self.content_of(file).marked().map(str::to_owned),
            })
            .collect();
        for command in texts.iter().flat_map(|text| services(text)) {
            self.in_subshell(|shell| shell.run_text(&command, &Data::empty()));
        }
    }
}

/// The services of a file, each as a command of `docker run`.
fn services(text: &str) -> Vec<String> {
    let root = backstop_yaml::parse(&Arc::from("compose.yaml"), text).ok().flatten();
    let root: Option<Value> = root.and_then(|root| root.read().ok());
    let services = root.as_ref().and_then(|root| root.get("services")).and_then(Value::as_object);
    services.into_iter().flat_map(|services| services.values()).map(service).collect()
}

fn service(service: &Value) -> String {
    let mut words = vec!["docker".to_owned(), "run".to_owned()];
    let volumes = service.get("volumes").and_then(Value::as_array);
    for volume in volumes.into_iter().flatten() {
        let text = |key: &str| volume.get(key).and_then(Value::as_str).unwrap_or_default();
        let mount = match volume.as_str() {
            Some(short) => short.to_owned(),
            None => format!("{}:{}", text("source"), text("target")),
        };
        words.extend(["-v".to_owned(), quote(&mount)]);
    }
    if service.get("privileged").and_then(Value::as_bool) == Some(true) {
        words.push("--privileged".to_owned());
    }
    for (key, option) in [("pid", "--pid"), ("network_mode", "--network"), ("userns_mode", "--userns")] {
        if let Some(value) = service.get(key).and_then(Value::as_str) {
            words.push(quote(&format!("{option}={value}")));
        }
    }
    words.push(quote(service.get("image").and_then(Value::as_str).unwrap_or("image")));
    for key in ["entrypoint", "command"] {
        match service.get(key) {
            // It is split as a shell splits it.
            Some(Value::String(text)) => words.push(text.clone()),
            Some(Value::Array(list)) => words.extend(list.iter().filter_map(Value::as_str).map(quote)),
            _ => {}
        }
    }
    words.join(" ")
}
