//! The command guard as hooks.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use backstop_hooks::points::{
    BeforeToolCall, TYPED_TERMINAL, ToolBefore, ToolBeforeEvent, ToolCallEvent, UNSEEN_TERMINAL,
};
use backstop_hooks::{
    Answer, CallContext, Context, Digest, Evidence, Fact, Hook, HookError, Params, Reason, Seen, Sight,
    ToolName,
};
use backstop_shell::{Looked, Trace};

use super::extract::shell_inputs;
use super::{Objection, UNKNOWN, place, question, reason, rules, stopping};
use crate::paths::{Folders, real_path};
use crate::{CommandGuard, Judgement, Typing, Verdict};

/// The id of the command guard.
pub const COMMAND_SAFETY_ID: &str = "builtin:command-safety-guard";

/// The command guard, ready to be registered.
#[derive(Clone, Debug)]
pub struct CommandSafety {
    pub(super) guard: CommandGuard,
    home: Option<Arc<str>>,
    reads_files: bool,
}

impl CommandSafety {
    /// Creates the guard; `home` is the home directory of the user whose commands are judged.
    pub fn new(guard: CommandGuard, home: Option<&str>) -> Self {
        Self { guard, home: home.map(Arc::from), reads_files: false }
    }

    /// Reads the scripts, makefiles and package scripts of the workspace that a command would run.
    /// Only for hosts that share the file system with the tools.
    ///
    /// A few files are read per command, each once, up to 64 KiB, and only plain files: a name that is itself a
    /// symbolic link is not followed, and nothing waits for a pipe. A file that can't be read is unknown code where it runs,
    /// and the profile decides what that means. What was read, or was missing, must be unchanged when the call is to run, or
    /// the judgement no longer counts. What a program reads while it runs is not seen: this is not a sandbox.
    #[must_use]
    pub fn reading_files(mut self) -> Self {
        self.reads_files = true;
        self
    }

    fn judge(
        &self,
        tool: &ToolName,
        params: &Params,
        cx: Context<'_>,
        input: Input,
    ) -> Result<Vec<Judgement>, HookError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (reads, leads_to) = (through(cx.call, look), through(cx.call, led));
        let read = once(reads.clone(), reads, digest_of, is_there, cx.evidence.cloned());
        let follow = once(led_through_folders(cx.call), leads_to, leads, |_| false, cx.evidence.cloned());
        let runs = shell_inputs(tool, params).map_err(HookError::failed)?;
        let unread = runs.unread.iter().map(|language| self.guard.judge_unread(language));
        let judged = runs
            .commands
            .iter()
            .map(|shell| {
                let place = place(cx.call, self.home.as_deref(), shell.workdir.as_deref());
                let place = match self.reads_files {
                    true => place.with_files(read.clone()).with_links(follow.clone()),
                    false => place,
                };
                let place = if input == Input::Unseen { place.with_unseen_input() } else { place };
                if shell.is_guess {
                    return self.guard.judge_guess(&shell.text, shell.shell, &place, now);
                }
                let Some(typed) = &shell.typed else {
                    return self.guard.judge(&shell.text, shell.shell, &place, now);
                };
                let typing = Typing {
                    program: typed.program.as_deref(),
                    before: typed.before.as_deref(),
                    text: &shell.text,
                    vouched: input == Input::Told,
                };
                self.guard.judge_typed(&typing, &place, now)
            })
            .chain(unread)
            .collect();
        Ok(judged)
    }
}

impl CommandSafety {
    /// Returns what the commands of a call would do, and the languages of its code that nobody reads; `None` for a call that
    /// hands nothing to a shell. What is typed into a running program is not in it.
    pub(super) fn traces(
        &self,
        event: &ToolCallEvent,
        call: &CallContext,
    ) -> Option<(Vec<Trace>, Vec<String>)> {
        let runs = shell_inputs(&event.tool_name, &event.params).ok()?;
        let (reads, leads_to) = (through(call, look), through(call, led));
        let read = once(reads.clone(), reads, digest_of, is_there, None);
        let follow = once(led_through_folders(call), leads_to, leads, |_| false, None);
        let commands = runs.commands.iter().filter(|shell| shell.typed.is_none() && !shell.is_guess);
        let traces: Vec<Trace> = commands
            .map(|shell| {
                let place = place(call, self.home.as_deref(), shell.workdir.as_deref());
                let place = match self.reads_files {
                    true => place.with_files(read.clone()).with_links(follow.clone()),
                    false => place,
                };
                self.guard.trace(&shell.text, shell.shell, &place)
            })
            .collect();
        (!traces.is_empty() || !runs.unread.is_empty()).then_some((traces, runs.unread))
    }
}

/// Longest file that is looked into, in bytes.
pub(super) const MAX_FILE: u64 = 64 * 1024;

/// A look at the disk for one judgement, which looks at each path once and names what it found as a fact. `again` looks
/// whether it still holds, and `is_content` says whether what was found is what a file holds.
fn once<T: Clone + Send + 'static>(
    look: impl Fn(&str) -> T + Clone + Send + Sync + 'static,
    again: impl Fn(&str) -> T + Clone + Send + Sync + 'static,
    digest: fn(&T) -> Digest,
    is_content: fn(&T) -> bool,
    evidence: Option<Evidence>,
) -> impl Fn(&str) -> T + Clone + Send + Sync + 'static {
    let known: Arc<Mutex<BTreeMap<String, T>>> = Arc::default();
    move |path| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(path) {
            return found.clone();
        }
        let found = look(path);
        if let Some(evidence) = &evidence {
            let (path, again) = (path.to_owned(), again.clone());
            let fact = Fact::new(digest(&found), move || digest(&again(&path)));
            evidence.add(if is_content(&found) { fact.of_content() } else { fact });
        }
        known.insert(path.to_owned(), found.clone());
        found
    }
}

/// A look through the eyes that the call is seen with.
fn through<T: 'static>(
    call: &CallContext,
    look: fn(&str, &Sight) -> T,
) -> impl Fn(&str) -> T + Clone + Send + Sync + 'static {
    let sight = call.sight.clone();
    move |path| look(path, &sight)
}

/// Returns where a path leads, as it is seen through these eyes.
fn led(path: &str, sight: &Sight) -> Option<String> {
    match sight.lent() {
        Some(eyes) => eyes.leads_to(path),
        None => real_path(path),
    }
}

/// Returns the same for the paths of one judgement: the folder of many files is followed once.
fn led_through_folders(
    call: &CallContext,
) -> impl Fn(&str) -> Option<String> + Clone + Send + Sync + 'static {
    let lent = through(call, led);
    let is_lent = call.sight.lent().is_some();
    let folders: Arc<Mutex<Folders>> = Arc::default();
    move |path| match is_lent {
        true => lent(path),
        false => folders.lock().unwrap_or_else(PoisonError::into_inner).lead(path),
    }
}

/// Returns the digest of where a path leads.
#[expect(clippy::ref_option, reason = "a look is digested by reference, whatever it finds")]
fn leads(real: &Option<String>) -> Digest {
    Digest::of("leads-to", real)
}

/// Returns whether there is a file, whether it could be read or not.
fn is_there(looked: &Looked) -> bool {
    !matches!(looked, Looked::Missing)
}

fn digest_of(looked: &Looked) -> Digest {
    match looked {
        Looked::Text(text) => Digest::of_text("file", text),
        Looked::Missing => Digest::of_text("no-file", ""),
        Looked::Unreadable => Digest::of_text("unreadable-file", ""),
    }
}

/// Returns the text of a plain file, as it is seen through these eyes.
pub(super) fn look(path: &str, sight: &Sight) -> Looked {
    let Some(eyes) = sight.lent() else { return look_here(path) };
    match eyes.file(path) {
        Seen::Text(text) => Looked::Text(text),
        Seen::Missing => Looked::Missing,
        Seen::Unreadable => Looked::Unreadable,
    }
}

/// Returns what this process sees of a file, for a judge elsewhere.
pub fn seen(path: &str) -> Seen {
    match look_here(path) {
        Looked::Text(text) => Seen::Text(text),
        Looked::Missing => Seen::Missing,
        Looked::Unreadable => Seen::Unreadable,
    }
}

/// Returns the text of a plain file, or a bit more of it than is looked into. It is opened once, and what was opened is
/// what is looked at; a pipe or a device is not waited for, and a link is not followed.
fn look_here(path: &str) -> Looked {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Looked::Missing;
        }
        Err(_) => return Looked::Unreadable,
    };
    match file.metadata() {
        Ok(kind) if kind.is_file() => {}
        // Nothing can be run from a folder.
        Ok(kind) if kind.is_dir() => return Looked::Missing,
        Ok(_) | Err(_) => return Looked::Unreadable,
    }
    let mut bytes = Vec::new();
    if file.take(MAX_FILE + 1).read_to_end(&mut bytes).is_err() || bytes.contains(&0) {
        return Looked::Unreadable;
    }
    // The end of what is cut off may be half a character.
    match bytes.len() as u64 > MAX_FILE {
        true => Looked::Text(String::from_utf8_lossy(&bytes).into_owned()),
        false => String::from_utf8(bytes).map_or(Looked::Unreadable, Looked::Text),
    }
}

/// Who sees what is typed into a program that a call has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// A hook does, or nobody can type.
    Seen,
    /// No hook does.
    Unseen,
    /// A hook does, and the host itself says what reads it.
    Told,
}

impl CommandSafety {
    /// Returns what is found of each command of a call. `kind` says who sees what is typed.
    pub(super) fn found(
        &self,
        tool: &ToolName,
        params: &Params,
        kind: Option<&str>,
        cx: Context<'_>,
    ) -> Result<Vec<Judgement>, HookError> {
        let input = match kind {
            Some(UNSEEN_TERMINAL) => Input::Unseen,
            Some(TYPED_TERMINAL) => Input::Told,
            _ => Input::Seen,
        };
        self.judge(tool, params, cx, input)
    }

    /// Returns what there is against a call.
    fn object(
        &self,
        tool: &ToolName,
        params: &Params,
        kind: Option<&str>,
        cx: Context<'_>,
    ) -> Result<Option<Objection>, HookError> {
        self.found(tool, params, kind, cx).map(objection)
    }
}

/// Returns what the judgements of the commands of a call have against it.
pub(super) fn objection(judgements: Vec<Judgement>) -> Option<Objection> {
    if let Some(reason) = stopped_by(&judgements) {
        return Some(Objection::Stop(reason));
    }
    let asked: Vec<_> =
        judgements.into_iter().filter(|judgement| judgement.verdict == Verdict::Ask).collect();
    if asked.is_empty() {
        return None;
    }
    let told: Vec<_> = asked.iter().flat_map(unknown).collect();
    let unknown: Vec<_> = asked
        .iter()
        .flat_map(|judgement| judgement.unknown.iter().map(|unknown| unknown.reason.as_str()))
        .collect();
    let findings: Vec<_> = asked.iter().flat_map(|judgement| &judgement.findings).collect();
    let request = question("run a command that needs a look", &findings, &unknown, &told);
    Some(Objection::Ask(request))
}

impl Hook<ToolBefore> for CommandSafety {
    fn call<'a>(&'a self, event: &'a ToolBeforeEvent, cx: Context<'a>) -> Answer<'a, ToolBefore> {
        let found = self.object(&event.tool_name, &event.args, event.tool_kind.as_deref(), cx);
        Answer::Now(found.map(|found| found.map(Into::into)))
    }
}

impl Hook<BeforeToolCall> for CommandSafety {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        let found = self.object(&event.tool_name, &event.params, event.tool_kind.as_deref(), cx);
        Answer::Now(found.map(|found| found.map(Into::into)))
    }
}

/// Returns why the call is stopped, if it is: by the first finding that stops it, or by what could not be decided.
fn stopped_by(judgements: &[Judgement]) -> Option<Reason> {
    let stopped = judgements.iter().find(|judgement| judgement.verdict == Verdict::Block)?;
    let findings: Vec<_> = judgements.iter().flat_map(stopping).collect();
    Some(match stopping(stopped).next() {
        Some(finding) => Reason::new(reason(finding)).by(rules(&findings)),
        None => Reason::new(unknown(stopped).join("; ")).by([UNKNOWN.into()]),
    })
}

fn unknown(judgement: &Judgement) -> Vec<String> {
    judgement.unknown.iter().take(4).map(|unknown| format!("can't be decided: {}", unknown.reason)).collect()
}
