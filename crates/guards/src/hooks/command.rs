//! The command guard as hooks.

use std::io::Read as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use backstop_hooks::points::{
    BeforeToolCall, TYPED_TERMINAL, ToolBefore, ToolBeforeEvent, ToolBeforeOutcome, ToolCallEvent,
    ToolCallOutcome, UNSEEN_TERMINAL,
};
use backstop_hooks::{Answer, CallContext, Context, Hook, HookError, Params, Reason, ToolName};

use super::extract::shell_inputs;
use super::once::Looks;
use super::{UNKNOWN, place, question, reason, rules, stopping};
use crate::{CommandGuard, Judgement, Typing, Verdict};

/// The id of the command guard.
pub const COMMAND_SAFETY_ID: &str = "builtin:command-safety-guard";

/// The command guard, ready to be registered.
#[derive(Clone, Debug)]
pub struct CommandSafety {
    guard: CommandGuard,
    home: Option<Arc<str>>,
    reads_files: bool,
    looks: Looks,
}

impl CommandSafety {
    /// The guard; `home` is the home directory of the user whose commands are judged.
    pub fn new(guard: CommandGuard, home: Option<&str>) -> Self {
        Self { guard, home: home.map(Arc::from), reads_files: false, looks: Looks::default() }
    }

    /// Looks into the scripts, makefiles and package scripts of the workspace that a command would run.
    /// Only for hosts that share the file system with the tools.
    ///
    /// A few files are read for each command, each up to 64 KiB, and only plain ones: a name that is itself a
    /// symbolic link is not followed. What can't be read is unknown, and the profile says what that means.
    /// Between the judgement and the run the file may change; whoever can write it in that time can also
    /// write what it runs, so this narrows what an agent can hide and is no sandbox.
    #[must_use]
    pub fn reading_files(mut self) -> Self {
        self.reads_files = true;
        self
    }

    pub(super) fn blocking_half(&self) -> Arc<dyn Hook<ToolBefore>> {
        Arc::new(Blocks(self.clone()))
    }

    pub(super) fn asking_half(&self) -> Arc<dyn Hook<BeforeToolCall>> {
        Arc::new(Asks(self.clone()))
    }

    fn judge(
        &self,
        tool: &ToolName,
        params: &Params,
        call: &CallContext,
        input: Input,
    ) -> Result<Vec<Judgement>, HookError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let judged = shell_inputs(tool, params)
            .map_err(HookError::failed)?
            .iter()
            .map(|shell| {
                let place = place(call, self.home.as_deref(), shell.workdir.as_deref());
                let place = if self.reads_files { place.with_files(text_file) } else { place };
                let place = if input == Input::Unseen { place.with_unseen_input() } else { place };
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
            .collect();
        Ok(judged)
    }
}

/// Longest file that is looked into, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// The text of a plain file, or a bit more of it than is looked into. Nothing else is opened: reading a pipe or a device could wait
/// for ever.
fn text_file(path: &str) -> Option<String> {
    if !std::fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_FILE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.is_empty() || bytes.contains(&0) {
        return None;
    }
    // The end of what is cut off may be half a character.
    match bytes.len() as u64 > MAX_FILE {
        true => Some(String::from_utf8_lossy(&bytes).into_owned()),
        false => String::from_utf8(bytes).ok(),
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

struct Blocks(CommandSafety);

impl Hook<ToolBefore> for Blocks {
    fn call<'a>(&'a self, event: &'a ToolBeforeEvent, cx: Context<'a>) -> Answer<'a, ToolBefore> {
        let judgements = match self.0.judge(&event.tool_name, &event.args, cx.call, Input::Seen) {
            Ok(judgements) => judgements,
            Err(error) => return Answer::Now(Err(error)),
        };
        let stopped = stopped_by(&judgements);
        if stopped.is_none() {
            self.0.looks.put(&event.tool_name, &event.args, cx.call, judgements);
        }
        Answer::Now(Ok(stopped.map(|reason| ToolBeforeOutcome {
            block: Some(true),
            block_reason: Some(reason),
            args: None,
        })))
    }
}

struct Asks(CommandSafety);

impl Asks {
    /// What was found about the call. What only this point is told about who types is looked at here, and counts
    /// together with the first look; where the host says itself what reads, that look knew too little.
    fn judged(&self, event: &ToolCallEvent, call: &CallContext) -> Result<Vec<Judgement>, HookError> {
        let input = match event.tool_kind.as_deref() {
            Some(UNSEEN_TERMINAL) => Input::Unseen,
            Some(TYPED_TERMINAL) => Input::Told,
            _ => Input::Seen,
        };
        let looked = self.0.looks.take(&event.tool_name, &event.params, call);
        match (looked, input) {
            (Some(judgements), Input::Seen) => Ok(judgements),
            (Some(judgements), Input::Unseen) => {
                let mut judged = self.0.judge(&event.tool_name, &event.params, call, input)?;
                judged.extend(judgements);
                Ok(judged)
            }
            (_, input) => self.0.judge(&event.tool_name, &event.params, call, input),
        }
    }
}

impl Hook<BeforeToolCall> for Asks {
    fn call<'a>(&'a self, event: &'a ToolCallEvent, cx: Context<'a>) -> Answer<'a, BeforeToolCall> {
        let judgements = match self.judged(event, cx.call) {
            Ok(judgements) => judgements,
            Err(error) => return Answer::Now(Err(error)),
        };
        if let Some(reason) = stopped_by(&judgements) {
            return Answer::Now(Ok(Some(ToolCallOutcome::block(reason))));
        }
        let asked: Vec<_> =
            judgements.into_iter().filter(|judgement| judgement.verdict == Verdict::Ask).collect();
        let told: Vec<_> = asked.iter().flat_map(unknown).collect();
        let unknown: Vec<_> = asked
            .iter()
            .flat_map(|judgement| judgement.unknown.iter().map(|unknown| unknown.reason.as_str()))
            .collect();
        let findings: Vec<_> = asked.iter().flat_map(|judgement| &judgement.findings).collect();
        Answer::Now(Ok((!asked.is_empty()).then(|| {
            ToolCallOutcome::ask(question("run a command that needs a look", &findings, &unknown, &told))
        })))
    }
}

/// Why the call is stopped, if it is: by the first finding that stops it, or by what could not be decided.
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
