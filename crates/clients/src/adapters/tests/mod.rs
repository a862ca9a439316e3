//! Every recorded payload is replayed, and every answer is held against what its client was seen to do.

mod answers;
mod fixtures;
mod model;
mod profile;
mod robustness;

use std::fs;
use std::path::PathBuf;

use crate::client::Client;
use crate::event::ClientEvent;
use crate::payload::Payload;

/// A recorded payload.
struct Fixture {
    client: Client,
    /// The file's name without its ending: the event, and what tells it from others.
    name: String,
    bytes: Vec<u8>,
}

impl Fixture {
    /// The event that the file is named after, as an installation would give it on the command line.
    fn event(&self) -> &str {
        let known = ["tool.execute.before", "tool.execute.after", "chat.message", "shell.env"];
        let dotted = self.client == Client::OpenCode;
        let whole = known.iter().find(|event| self.name.starts_with(*event)).copied();
        match (dotted, whole) {
            (true, Some(event)) => event,
            (true, None) => &self.name,
            (false, _) => self.name.split('.').next().unwrap(),
        }
    }

    fn payload(&self) -> Payload {
        Payload::parse(&self.bytes).unwrap()
    }

    fn read(&self) -> ClientEvent {
        let read = self.client.read(&self.payload(), Some(self.event()));
        read.unwrap_or_else(|error| panic!("{} {}: {error}", self.client, self.name))
    }
}

fn fixtures() -> Vec<Fixture> {
    let adapters = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/adapters");
    let mut found = Vec::new();
    for client in Client::ALL {
        let Ok(files) = fs::read_dir(adapters.join(client.name()).join("fixtures")) else { continue };
        let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        paths.sort();
        found.extend(paths.into_iter().map(|path| Fixture {
            client,
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            bytes: fs::read(&path).unwrap(),
        }));
    }
    assert!(found.len() > 160, "the fixtures were not found");
    found
}
