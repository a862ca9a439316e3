//! Plugins in JavaScript under Node: what is true of them in this process is true of them there, and what Node adds.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

use std::collections::BTreeMap;

use backstop_plugins::openclaw::{Dialect, LoadError, Node, Runtime, Scripted, UnderNode};
use backstop_script::Permissions;
use serde_json::json;

use crate::support::{Plugins, facts};

/// What runs the plugins of these tests.
const UNDER_NODE: bool = true;

#[path = "../openclaw/answers.rs"]
mod answers;
#[path = "../openclaw/batches.rs"]
mod batches;
#[path = "../openclaw/events.rs"]
mod events;
#[path = "../openclaw/interceptors.rs"]
mod interceptors;
mod own;
#[path = "../openclaw/registering.rs"]
mod registering;
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
