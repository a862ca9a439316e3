//! What a tool call may use, and how much of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{CallContext, Params, ToolCallId};

use super::cancel::CancelToken;
use super::process::table::ProcessTable;
use super::web_fetch::client::WebClient;
use super::workspace::Workspace;

/// Upper bounds of one tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of text in one answer.
    pub output_bytes: usize,
    /// Most bytes of a file that is read, edited or written, of a patch, and of a fetched body.
    pub file_bytes: u64,
    /// Longest time a call may wait for a command or a fetch, whatever the model asks for. Background processes
    /// are not bound by it.
    pub time: Duration,
    /// Whether `web_fetch` may reach loopback, private and link-local addresses.
    pub allow_private_hosts: bool,
}

impl Default for Limits {
    /// 64 KiB of output, files of 16 MiB, ten minutes, public hosts only.
    fn default() -> Self {
        Self {
            output_bytes: 64 * 1024,
            file_bytes: 16 * 1024 * 1024,
            time: Duration::from_secs(600),
            allow_private_hosts: false,
        }
    }
}

/// Whose call it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Caller {
    /// The agent, the session and the turn.
    pub context: CallContext,
    /// The id of the call in the transcript.
    pub id: ToolCallId,
}

/// What one tool call is given. Cheap to clone: workspace, processes and HTTP client are shared.
#[derive(Clone)]
pub struct ToolContext {
    /// The folder outside of which the file tools touch nothing.
    pub workspace: Workspace,
    /// Fires when the run is aborted.
    pub cancel: CancelToken,
    /// Variables that `exec` sets on top of the inherited environment and of what the model asked for. They
    /// are set as they are: pass what hooks answered through [`filter_overrides`](super::filter_overrides).
    pub exec_env: BTreeMap<String, String>,
    /// The words that commands are started with, such as those of a program that confines them. None if empty.
    pub launcher: Arc<[OsString]>,
    /// Variables that `exec` does not hand on, on top of those that it never does.
    pub withheld: Arc<BTreeSet<String>>,
    /// The arguments as they were judged, where placeholders stand for values that the tool itself is given.
    /// Tools that keep arguments for others to read keep these.
    pub shown: Option<Params>,
    /// Whose call it is, where a turn makes it.
    pub caller: Option<Arc<Caller>>,
    /// The bounds of this call.
    pub limits: Limits,
    /// The background processes of the session.
    pub processes: Arc<ProcessTable>,
    /// The HTTP client of the session, built at the first fetch.
    pub(super) http: Arc<WebClient>,
}

impl ToolContext {
    /// A context with a fresh process table and token, and no extra environment.
    #[must_use]
    pub fn new(workspace: Workspace, limits: Limits) -> Self {
        Self {
            workspace,
            cancel: CancelToken::new(),
            exec_env: BTreeMap::new(),
            launcher: Arc::default(),
            withheld: Arc::default(),
            shown: None,
            caller: None,
            limits,
            processes: Arc::new(ProcessTable::new()),
            http: Arc::new(WebClient::default()),
        }
    }
}

impl fmt::Debug for ToolContext {
    /// Of the environment, the names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("workspace", &self.workspace)
            .field("cancel", &self.cancel)
            .field("exec_env", &self.exec_env.keys())
            .field("shown", &self.shown)
            .field("limits", &self.limits)
            .field("processes", &self.processes)
            .finish_non_exhaustive()
    }
}
