//! `backstop plugins run` and `reload`, and how whatever runs hears of the latter.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use backstop::hooks::OwnerId;
use backstop::plugins::{CliError, Home, LIST, PluginId, load_one};
use backstop::store::Forget;
use serde_json::json;

use crate::error::Error;
use crate::exit::Exit;
use crate::output::plain;
use crate::session::Surroundings;

/// Runs a command that a plugin brings for the command line.
pub(super) async fn run(
    home: &Home,
    id: &str,
    words: &[String],
    surroundings: &Surroundings,
) -> Result<Exit, Error> {
    let installed = home.find(id)?;
    let loaded = surroundings.load()?;
    let store = surroundings.store(&loaded)?;
    let print = |text: &str| {
        let mut out = std::io::stdout().lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        // Whoever closed it does not want to read it.
        let _ = write!(out, "{}{end}", plain(text)).and_then(|()| out.flush());
    };
    let folder = surroundings.plugins_folder()?;
    let Some(set) = Box::pin(load_one(&loaded, &folder, &store, &installed.id, print)).await? else {
        return Err(Error::Failed(format!("plugin `{id}` is off\nhint: `backstop plugins enable {id}`")));
    };
    let done = if words.is_empty() {
        let all: Vec<String> = set.cli().into_iter().map(|(_, usage)| plain(&usage)).collect();
        surroundings.output.text(&all.join("\n")).map_err(Error::from)
    } else {
        tokio::select! {
            done = set.run_cli(words) => done.map_err(|error| match &error {
                CliError::NoSuchCommand { .. } => Error::Usage(plain(&error.to_string())),
                CliError::Failed(_) => Error::Failed(plain(&error.to_string())),
            }),
            _ = tokio::signal::ctrl_c() => {
                set.shut_down().await;
                return Ok(Exit::Interrupted);
            }
        }
    };
    set.shut_down().await;
    done.map(|()| Exit::Success)
}

/// Loads all plugins once, to see that they can be had, and then has whatever runs load them.
pub(super) async fn reload(home: &Home, surroundings: &Surroundings) -> Result<(), Error> {
    Box::pin(surroundings.judge()).await?.shut_down().await;
    home.touch()?;
    let output = &surroundings.output;
    if output.is_json() {
        return Ok(output.json(&json!({ "done": "reloading" }))?);
    }
    output.say(
        "daemons load the plugins at the next event, servers within a second, agents on a terminal at the next message",
    );
    Ok(())
}

/// Forgets what a plugin kept with conversations. What is not there, or can't be reached, is no error: the plugin is off.
pub(super) async fn forget(id: &PluginId, surroundings: &Surroundings) {
    let Ok(store) = surroundings.only_store() else { return };
    let done = store.forget_owner(&OwnerId::new(id.as_str()), &Forget::Everything).await;
    if let Err(error) = done {
        surroundings.output.say(&format!("what `{id}` kept with conversations was not forgotten: {error}"));
    }
}

/// How often the list of plugins is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The list of plugins, looked at for changes: whatever is done with plugins writes it anew, and no two of its editions say the same. It is
/// read and not stamped: two changes at one time may leave size and time as they were.
pub(super) struct PluginList {
    path: Option<PathBuf>,
    /// What it said when it was looked at last.
    seen: Option<Result<Vec<u8>, ErrorKind>>,
}

impl PluginList {
    /// The list as it is now. To be made before the plugins are loaded, so that no change is missed.
    pub(super) fn of(surroundings: &Surroundings) -> Self {
        let path = surroundings.plugins_folder().ok().map(|folder| folder.join(LIST));
        let mut list = Self { path, seen: None };
        list.seen = list.now();
        list
    }

    fn now(&self) -> Option<Result<Vec<u8>, ErrorKind>> {
        self.path.as_deref().map(|path| std::fs::read(path).map_err(|error| error.kind()))
    }

    /// Whether it has changed since it was looked at last.
    pub(super) fn has_changed(&mut self) -> bool {
        let now = self.now();
        let changed = now != self.seen;
        self.seen = now;
        changed
    }

    /// Waits until it has.
    pub(super) async fn changed(&mut self) {
        while !self.has_changed() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether this process has a terminal that can be closed.
pub(super) fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
