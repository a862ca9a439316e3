//! Plugins in JavaScript under Node: what is true of them in this process is true of them there, and what Node adds.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

use std::collections::BTreeMap;
use std::path::Path;

use backstop_plugins::openclaw::{Dialect, LoadError, Node, Runtime, Scripted, UnderNode};
use backstop_script::{Permissions, Workers};
use serde_json::json;

use crate::support::{Plugins, facts};

/// What runs the plugins of these tests: the Node of this machine, and nothing of its environment.
async fn runtime<'a>(home: &Path, workers: &'a Workers) -> Runtime<'a> {
    let path = std::env::var_os("PATH").unwrap();
    let program = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|file| file.is_file());
    let program = program.expect("these tests need Node.js").canonicalize().unwrap();
    let node = Node::at(program).await.unwrap();
    Runtime::Node(UnderNode { node, environment: BTreeMap::new(), home: home.to_owned() }, workers)
}

#[path = "../openclaw/answers.rs"]
mod answers;
mod asking;
#[path = "../openclaw/batches.rs"]
mod batches;
#[path = "../openclaw/events.rs"]
mod events;
#[path = "../openclaw/interceptors.rs"]
mod interceptors;
#[path = "../openclaw/methods.rs"]
mod methods;
mod own;
#[path = "../openclaw/registering.rs"]
mod registering;
#[path = "../openclaw/sdk.rs"]
mod sdk;
#[path = "../openclaw/sessions.rs"]
mod sessions;
#[path = "../openclaw/support.rs"]
mod support;

impl Plugins {
    /// Plugins that are granted this.
    pub(crate) fn granted(permissions: Permissions) -> Self {
        let mut plugins = Self::new();
        plugins.permissions = permissions;
        plugins
    }

    /// Puts a file beside a plugin.
    pub(crate) fn file(&self, id: &str, name: &str, text: &str) {
        self.write(id, name, text);
    }

    /// Loads a plugin under this Node.
    pub(crate) async fn load_under(&self, id: &str, source: &str, node: Node) -> Result<Scripted, LoadError> {
        let root = self.write(id, "index.js", source);
        let under = UnderNode { node, environment: BTreeMap::new(), home: root.clone() };
        let facts = facts(id, &root, "index.js", Dialect::OpenClaw, json!({}));
        self.load_in(facts, Runtime::Node(under, &self.workers)).await
    }
}
