//! Plugins in a process of ours that holds nothing but one of them, and can be killed.
//!
//! It is the same engine, the same modules and the same permissions as inside ([`crate::apart`] has its half). What it asks for beyond its
//! own memory is answered here: modules of ours, what `api` needs, and programs, which are started by this process.
//!
//! The laws: *what is asked for is not believed*. A program is started if it was granted, with variables that were granted, in a folder that was
//! granted, whatever the process says. *Look once*: what is started is the program that this process is, whatever lies in its place by now.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use backstop_hooks::Json;
use backstop_script::{
    Bridge, HostError, Loaded, LogLevel, Permissions, ProgramRequest, Provided, ScriptError, ScriptSource,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Host, Kind, OneLife, START, STUCK, refused};
use crate::apart::wire::{Absent, Denied, Done, Greeting, Line, MOST_LINE, Wanted};
use crate::apart::{IS_HOST, WORD};
use crate::external::process::life::Question;
use crate::external::process::{Fault, Limits, ProcessPlugin, ProcessSettings};
use crate::permissions::Permissions as Granted;

/// Most bytes of what it asks and logs within ten seconds without an answer among them.
const MOST_UNASKED: usize = 64 << 20;

/// The program that a plugin's process is, and what that is started with.
#[derive(Clone, Debug)]
pub struct Apart {
    /// The program: one that calls [`apart::main`](crate::apart::main) before all else.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The environment of the process. What the plugin sees is what it is granted.
    pub environment: BTreeMap<OsString, OsString>,
}

/// Why there is no process for a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program can't run plugins in processes of their own\nhint: take `runtime: process` out of its entry; a program that embeds Backstop calls `apart::main` before all else"
)]
pub struct NoHost;

impl Apart {
    /// This program itself.
    ///
    /// # Errors
    ///
    /// [`NoHost`], where it is none that can be started so.
    pub fn this_program() -> Result<Self, NoHost> {
        if !IS_HOST.load(std::sync::atomic::Ordering::Acquire) {
            return Err(NoHost);
        }
        let program = running().or_else(|| std::env::current_exe().ok()).ok_or(NoHost)?;
        Ok(Self { program, arguments: vec![WORD.into()], environment: BTreeMap::new() })
    }
}

/// The program that runs, whatever lies at its place by now.
#[cfg(target_os = "linux")]
fn running() -> Option<PathBuf> {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    // Nobody else is shown what a process runs that hides its memory.
    if !matches!(dumpable_behavior(), Ok(DumpableBehavior::Dumpable)) {
        return None;
    }
    let held = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    std::fs::File::open(&held).is_ok().then_some(held)
}

#[cfg(not(target_os = "linux"))]
fn running() -> Option<PathBuf> {
    None
}

/// What a plugin in a process of its own is held to from outside.
pub(super) struct Alone {
    greeting: Value,
    permissions: Permissions,
}

impl Alone {
    pub(super) fn greeting(&self, _: &ScriptSource) -> Value {
        self.greeting.clone()
    }

    /// Refuses a program that was not granted so.
    fn check(&self, request: &ProgramRequest) -> Result<(), HostError> {
        let all = &self.permissions;
        if !all.programs.contains(&request.program) {
            let name = request.program.display().to_string();
            return Err(HostError::denied(&name, &format!("programs: {name}")));
        }
        if let Some(name) = request.environment.keys().find(|name| !all.env.contains_key(*name)) {
            let what = format!("the variable {name} for a program");
            return Err(HostError::denied(&what, &format!("env: {name}")));
        }
        let real = request.directory.canonicalize().ok();
        let is_inside = |real: &Path| {
            all.files.iter().any(|grant| grant.root.canonicalize().is_ok_and(|root| real.starts_with(root)))
        };
        // Without a folder of its own a script is at the root.
        if request.directory == Path::new("/") || real.is_some_and(|real| is_inside(&real)) {
            return Ok(());
        }
        let folder = request.directory.display();
        Err(HostError::denied(
            &format!("the folder {folder} for a program"),
            &format!("files: read {folder}"),
        ))
    }
}

/// Loads a script in a process of its own. It ends when the last that holds the script is gone.
///
/// # Errors
///
/// [`ScriptError`], as for a script inside, and where the process can't be started.
pub async fn load_apart(
    source: ScriptSource,
    permissions: &Permissions,
    bridge: Arc<dyn Bridge>,
    apart: Apart,
) -> Result<Loaded, ScriptError> {
    Ok(start(source, permissions, bridge, apart).await?.0)
}

/// Starts a plugin in a process of its own, and has it register. Says what of its walls this system can't build.
pub(crate) async fn start(
    source: ScriptSource,
    permissions: &Permissions,
    bridge: Arc<dyn Bridge>,
    apart: Apart,
) -> Result<(Loaded, ProcessPlugin, Vec<String>), ScriptError> {
    let root = source.root.canonicalize().map_err(|error| ScriptError::Module {
        specifier: source.entry.clone(),
        importer: format!("the host, for `{}`", source.name),
        reason: format!("its folder cannot be read ({error})"),
    })?;
    let greeting = Greeting {
        name: source.name.to_string(),
        root,
        entry: source.entry.clone(),
        boot: source.boot.as_ref().map(ToString::to_string),
        sealed: source.seen.is_some(),
        reach: permissions.into(),
    };
    let greeting = serde_json::to_value(greeting).map_err(|_| ScriptError::Runtime {
        reason: "the name of a folder of it is no Unicode".to_owned(),
    })?;
    let settings = ProcessSettings {
        plugin: source.name.to_string(),
        program: apart.program.into(),
        arguments: apart.arguments,
        directory: PathBuf::from("/"),
        environment: apart.environment,
        config: Json::default(),
        limits: Limits {
            start: START,
            cancel_grace: STUCK,
            most_line: MOST_LINE,
            most_unasked: MOST_UNASKED,
            ..Limits::default()
        },
        // Its files are held against the look when they are read, as inside.
        seal: None,
    };
    let alone = Alone { greeting, permissions: permissions.clone() };
    Host::new(source, bridge, Kind::Apart(alone)).start(settings).await
}

/// Lines of a log, of which no more are taken within a second than a runtime says. A process that says more is none of ours any more.
pub(super) struct Lines(Mutex<(Instant, u32)>);

impl Default for Lines {
    fn default() -> Self {
        Self(Mutex::new((Instant::now(), 0)))
    }
}

impl Lines {
    /// Whether one more is taken.
    fn one_more(&self) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if window.0.elapsed() >= Duration::from_secs(1) {
            *window = (Instant::now(), 0);
        }
        window.1 = window.1.saturating_add(1);
        // Whose windows begin at other moments says twice as many in one of these, and what it says of those that it left out.
        window.1 <= backstop_script::Limits::default().log_lines.saturating_mul(2).saturating_add(4)
    }
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Stopping {
    id: u64,
}

impl OneLife {
    /// Answers what only a process of ours asks.
    pub(super) fn asked_apart(
        &self,
        alone: &Alone,
        question: Question,
        method: &str,
        params: Value,
    ) -> Result<(), Fault> {
        let bridge = &self.host.bridge;
        match method {
            "module" => {
                let Named { name } = Self::read(params)?;
                question.answer(Ok(match bridge.module(&name) {
                    Some(Provided::Source(text)) => json!({ "source": &*text }),
                    Some(Provided::Absent(reason)) => json!({ "absent": reason }),
                    None => Value::Null,
                }));
            }
            "seen" => {
                let Named { name } = Self::read(params)?;
                let digest = self.host.source.seen.as_ref().and_then(|seen| seen.digest(&name));
                question.answer(Ok(json!(digest)));
            }
            "absent" => {
                let Absent { module, names } = Self::read(params)?;
                bridge.absent(&module, &names);
                question.answer(Ok(Value::Null));
            }
            "denied" => {
                let Denied { grant, times } = Self::read(params)?;
                bridge.denied_often(&self.scope, &grant, times);
                question.answer(Ok(Value::Null));
            }
            "line" => {
                let Line { level, text } = Self::read(params)?;
                let level = match level {
                    0 => LogLevel::Debug,
                    1 => LogLevel::Info,
                    2 => LogLevel::Warn,
                    _ => LogLevel::Error,
                };
                if self.lines.one_more() {
                    bridge.log(&self.scope, level, &text);
                }
                question.answer(Ok(Value::Null));
            }
            "program" => {
                let wanted: Wanted = Self::read(params)?;
                let request = wanted.read().ok_or(Fault::NoMessage)?;
                self.run(alone, question, request);
            }
            "stop" => {
                let Stopping { id } = Self::read(params)?;
                let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(work) = working.as_mut().and_then(|working| working.remove(&id)) {
                    work.abort();
                }
                question.answer(Ok(Value::Null));
            }
            other => return Err(Fault::UnknownMethod(other.chars().take(60).collect())),
        }
        Ok(())
    }

    /// Runs a program for as long as the process wants it and lives.
    fn run(&self, alone: &Alone, question: Question, request: ProgramRequest) {
        if let Err(error) = alone.check(&request) {
            return question.answer(Err(refused(error)));
        }
        let Some(id) = question.number() else { return };
        let Some((question, admitted)) = self.admit(question) else { return };
        let (bridge, scope) = (Arc::clone(&self.host.bridge), self.scope.clone());
        let mut working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(working) = working.as_mut() else { return };
        working.retain(|_, work| !work.is_finished());
        let work = tokio::spawn(async move {
            let said = bridge.run_program(scope, request).await.map_err(refused);
            drop(admitted);
            question.answer(said.map(|output| json!(Done::from(output))));
        });
        working.insert(id, work.abort_handle());
    }
}

/// What holds a plugin in a process of its own that is granted this, in plain words, for people before they consent.
#[must_use]
pub fn held_apart(granted: &Granted) -> Vec<String> {
    let mut words = vec![
        "its code runs in a process of its own, which is killed where it does not answer in its time"
            .to_owned(),
    ];
    let network = match granted.hosts.is_empty() {
        true => "no network",
        false => "the network as a whole, since the system knows no hosts",
    };
    words.push(format!(
        "should it break out of its engine, the system still keeps that process to the files that are granted, to no program, and to {network}; what this machine can't keep it from is listed when it is loaded"
    ));
    words.push(
        "sockets on the disk that your account may write to are not among what it is kept from then"
            .to_owned(),
    );
    words
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use backstop_script::{FileAccess, FileGrant};

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_started_is_the_program_that_runs_and_not_what_lies_in_its_place() {
        let held = running().unwrap();
        assert!(held.starts_with("/proc"), "{}", held.display());
        let own = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        let met = std::fs::metadata(held).unwrap();
        assert_eq!((met.dev(), met.ino()), (own.dev(), own.ino()));
    }

    #[test]
    fn lines_of_a_second_are_bounded() {
        let lines = Lines::default();
        let taken = (0..100_000).filter(|_| lines.one_more()).count();
        assert!((404..4_040).contains(&taken), "{taken}");
    }

    #[test]
    fn what_a_process_asks_for_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let given = folder.path().join("given");
        std::fs::create_dir(&given).unwrap();
        std::os::unix::fs::symlink("/etc", given.join("link")).unwrap();
        let permissions = Permissions {
            files: vec![FileGrant { root: given.clone(), access: FileAccess::Read }],
            env: [("GIVEN".to_owned(), "given".to_owned())].into(),
            programs: vec!["/bin/true".into()],
            ..Permissions::default()
        };
        let alone = Alone { greeting: Value::Null, permissions };
        let check = |program: &str, name: &str, directory: &Path| {
            let request = ProgramRequest {
                program: program.into(),
                arguments: Vec::new(),
                directory: directory.to_owned(),
                environment: [(name.to_owned(), "x".to_owned())].into(),
                input: Vec::new(),
                timeout: None,
                most_output: 1,
            };
            alone.check(&request).map_err(|error| error.message)
        };
        assert_eq!(check("/bin/true", "GIVEN", &given), Ok(()));
        assert_eq!(check("/bin/true", "GIVEN", Path::new("/")), Ok(()));
        for (program, name, directory, missing) in [
            ("/bin/sh", "GIVEN", given.clone(), "programs: /bin/sh"),
            ("/bin/true", "LD_PRELOAD", given.clone(), "env: LD_PRELOAD"),
            ("/bin/true", "GIVEN", given.join("link"), "files: read "),
            ("/bin/true", "GIVEN", folder.path().to_owned(), "files: read "),
            ("/bin/true", "GIVEN", given.join("none"), "files: read "),
        ] {
            let said = check(program, name, &directory).unwrap_err();
            assert!(said.contains(&format!("missing grant: {missing}")), "{said}");
        }
    }
}
