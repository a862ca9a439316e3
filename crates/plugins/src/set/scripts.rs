//! Where the code of scripts runs: on workers of this process, in a process of its own each, or under the machine's Node, which is looked up
//! once for all of them.

use std::sync::Arc;

use backstop_script::{WorkerSettings, Workers};

use super::{HOME, Surroundings, Why, permissions};
use crate::apart::CERTIFICATES;
use crate::openclaw::{self, Apart, Batches, Facts, Node, NodeError, Runtime, Scripted, UnderNode};
use crate::permissions::{Folders, Permissions};

/// What Node needs of the environment in order to speak the user's language.
const LANGUAGE: [&str; 2] = ["LANG", "LC_ALL"];

/// The name of Node's program.
const NODE: &str = "node";

/// What a process of its own needs of the environment in order to know what time it is.
const OF_MACHINE: [&str; 1] = ["TZ"];

/// What the operator has a plugin's code run in. Whatever is no script runs by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunsIn {
    /// This process.
    #[default]
    Here,
    /// A process of its own, which can be killed.
    Apart,
    /// The machine's Node.
    Node,
}

impl RunsIn {
    /// The word for it in `plugins.entries.<id>.runtime`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Here => "inside",
            Self::Apart => "process",
            Self::Node => "node",
        }
    }
}

/// Where scripts run. Nothing is started before there is one.
#[derive(Default)]
pub(super) struct Scripts {
    workers: std::sync::OnceLock<Workers>,
    batches: Arc<Batches>,
    node: tokio::sync::OnceCell<Node>,
}

impl Scripts {
    fn workers(&self) -> &Workers {
        self.workers
            .get_or_init(|| Workers::start(WorkerSettings::default(), tokio::runtime::Handle::current()))
    }

    /// The machine's Node, looked up once for all plugins of the set.
    async fn node(&self, surroundings: &Surroundings<'_>) -> Result<Node, NodeError> {
        let look = || async {
            let found = surroundings.machine.program(NODE).map_err(NodeError::None)?;
            let none = |error: std::io::Error| NodeError::None(error.to_string());
            Node::at(found.file.canonicalize().map_err(none)?).await
        };
        self.node.get_or_try_init(look).await.cloned()
    }

    /// Loads one, where it is to run.
    pub(super) async fn load(
        &self,
        facts: Facts,
        folders: Folders,
        given: &Permissions,
        runs_in: RunsIn,
        surroundings: &Surroundings<'_>,
    ) -> Result<Scripted, Why> {
        let (permissions, not_found) = permissions(given, &folders, surroundings);
        let has_data = permissions.files.iter().any(|grant| grant.root.starts_with(&folders.data));
        if has_data {
            std::fs::create_dir_all(&folders.data).map_err(Why::Data)?;
        }
        let runtime = match runs_in {
            RunsIn::Here => Runtime::Here(self.workers()),
            RunsIn::Apart => {
                let variable = |name: &str| Some((name.into(), (surroundings.environment)(name)?.into()));
                let environment = OF_MACHINE.into_iter().chain(CERTIFICATES).filter_map(variable).collect();
                Runtime::Apart(Apart { environment, ..Apart::this_program()? }, self.workers())
            }
            RunsIn::Node => {
                let home = permissions.user.as_ref().map_or(&folders.data, |user| &user.home).clone();
                // What the plugin is granted of the environment it is told; Node itself would take orders from some of it.
                let variable = |name: &str| Some((name.into(), (surroundings.environment)(name)?.into()));
                let environment = LANGUAGE.into_iter().filter_map(variable);
                let environment = environment.chain([(HOME.into(), home.clone().into_os_string())]).collect();
                let node = self.node(surroundings).await?;
                Runtime::Node(UnderNode { node, environment, home }, self.workers())
            }
        };
        let facts = Facts { state: has_data.then_some(folders.data), ..facts };
        let services = Arc::clone(&surroundings.services);
        let mut loaded = openclaw::load(facts, permissions, runtime, &self.batches, services).await?;
        for (what, why) in not_found {
            loaded.registration.leave_out(what, why);
        }
        Ok(loaded)
    }
}
