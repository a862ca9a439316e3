//! What plugins bring to the agent on this terminal: commands, services, and another set of plugins between two turns.

use std::sync::atomic::{AtomicBool, Ordering};

use backstop::Backstop;
use backstop::agent::{AgentError, AgentSession, Fresh, TurnInput, TurnOutcome};
use backstop::hooks::Text;
use backstop::plugins::{CleanupReason, CommandRequest, PluginCommand, ServiceFault};
use serde_json::{Value, json};

use super::{Host, input};
use crate::commands::plugin_use::PluginList;
use crate::error::Error;
use crate::output::{Output, Style, one_line, plain};

/// What there is of plugins right now.
pub(super) struct Brought {
    commands: Vec<PluginCommand>,
    list: PluginList,
    /// They are to be loaded anew, whatever the list says.
    again: AtomicBool,
}

/// How a command ended.
pub(super) struct Answered {
    /// What was typed after `/`.
    command: String,
    pub(super) outcome: TurnOutcome,
    /// Whether the answer is that it failed.
    pub(super) failed: bool,
}

impl Brought {
    /// Starts what plugins have run beside the agent. `list` is what it was before they were loaded.
    pub(super) async fn start(backstop: &mut Backstop, list: PluginList, output: &Output) -> Self {
        say_left_out(output, backstop);
        let faults = backstop.start_plugins().await;
        say_faults(output, faults);
        Self { commands: backstop.commands(), list, again: AtomicBool::new(false) }
    }

    /// Has them loaded anew at the next message.
    pub(super) fn again(&self) {
        self.again.store(true, Ordering::Release);
    }
}

/// The most lines about one plugin.
const MOST_LINES: usize = 20;

/// Says on stderr what plugins registered and does not stand: for a host that begins, or whose plugins were loaded anew.
pub(crate) fn say_left_out(output: &Output, backstop: &Backstop) {
    for waiting in backstop.waiting().iter().take(MOST_LINES) {
        let line = format!(
            "hook `{}` waits: no host of this process fires `{}`",
            plain(waiting.id.as_str()),
            waiting.point.name()
        );
        output.say(&output.talk_paint().with(Style::Faint, line));
    }
    for (id, seated) in backstop.plugins() {
        let left_out = seated.left_out.iter().map(|left| format!("{} is left out: {}", left.what, left.why));
        let waiting = seated.waiting.iter().map(|waiting| {
            format!("a hook at `{}` waits: no host of this process fires that point", waiting.point.name())
        });
        let lines: Vec<String> = left_out.chain(waiting).collect();
        let paint = output.talk_paint();
        for line in lines.iter().take(MOST_LINES) {
            let line = one_line(line, 400);
            output.say(&paint.with(Style::Faint, format!("plugin `{id}`: {line}")));
        }
        if let more @ 1.. = lines.len().saturating_sub(MOST_LINES) {
            output.say(&paint.with(Style::Faint, format!("plugin `{id}`: {more} more of this kind")));
        }
    }
}

/// Says on stderr what of plugins does not do what it should.
pub(crate) fn say_faults(output: &Output, faults: Vec<ServiceFault>) {
    for fault in faults {
        let text = output.talk_paint().with(Style::Notice, "warning:");
        output.say(&format!("{text} {}", plain(&fault.to_string())));
    }
}

impl Host<'_> {
    /// Puts the next set of plugins in place where the list of them has changed. One that can't be had leaves the old one.
    pub(super) async fn refresh(&mut self) {
        let again = self.brought.again.swap(false, Ordering::AcqRel);
        if !self.brought.list.has_changed() && !again {
            return;
        }
        match self.backstop.reload_plugins().await {
            Ok(faults) => {
                if let Some(desk) = self.desk {
                    desk.put_in_force(self.backstop.policy_version());
                }
                self.agent.set_toolbox(self.backstop.toolbox());
                self.brought.commands = self.backstop.commands();
                self.output.say("the plugins were loaded anew");
                say_left_out(self.output, &self.backstop);
                say_faults(self.output, faults);
            }
            Err(error) => self.output.say(&format!(
                "{} {}\nnote: the plugins were not loaded anew, and those before stay",
                self.output.talk_paint().with(Style::Bad, "error:"),
                plain(&error.to_string())
            )),
        }
    }

    /// Begins the conversation afresh, and tells the plugins.
    pub(super) async fn reset(&self, fresh: Fresh) -> Result<AgentSession, AgentError> {
        let next = self.agent.reset_session(&self.session, fresh).await?;
        let faults = self.backstop.clean_up_session(CleanupReason::Reset, self.session.key()).await;
        say_faults(self.output, faults);
        Ok(next)
    }

    /// Answers a message that is a command of a plugin, or asks for help; `None` for any other.
    pub(super) async fn command(&self, message: &str) -> Result<Option<Answered>, Error> {
        if message.trim() == "/help" {
            let outcome = TurnOutcome::Answered { text: self.help().into() };
            return Ok(Some(Answered { command: "help".to_owned(), outcome, failed: false }));
        }
        let found =
            self.brought.commands.iter().find_map(|command| Some((command, command.matches(message)?)));
        let Some((command, words)) = found else { return Ok(None) };
        let input: TurnInput = input(message);
        let owner = input.sender.as_ref().and_then(|sender| sender.sender_is_owner);
        let mut failed = false;
        let answered = self.agent.reply(&self.session, &input, async |context| {
            let request = CommandRequest { message, context: &context, is_authorized: owner == Some(true) };
            let answer = tokio::select! {
                answer = command.run(request, words) => answer,
                _ = tokio::signal::ctrl_c() => Err("it was interrupted".to_owned()),
            };
            failed = answer.is_err();
            Text::from(answer.unwrap_or_else(|why| why))
        });
        let outcome = Box::pin(answered).await?;
        Ok(Some(Answered { command: command.name().to_owned(), outcome, failed }))
    }

    fn help(&self) -> String {
        let own = [
            ("new", "begins another conversation"),
            ("reset", "begins another conversation, and has this one forgotten"),
            ("help", "lists these"),
        ];
        let own = own.map(|(name, what)| format!("/{name}  {what}"));
        let brought = self.brought.commands.iter().map(|command| {
            let words = if command.accepts_args() { " [words]" } else { "" };
            format!("/{}{words}  {} ({})", command.name(), plain(command.description()), command.owner())
        });
        own.into_iter().chain(brought).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn told_command(&self, answer: &Answered) -> Value {
        let text = match &answer.outcome {
            TurnOutcome::Answered { text } => Some(text.as_str()),
            _ => None,
        };
        let outcome = match &answer.outcome {
            TurnOutcome::Blocked { .. } => "blocked",
            _ if answer.failed => "failed",
            TurnOutcome::Silent => "silent",
            _ => "answered",
        };
        json!({ "outcome": outcome, "command": answer.command, "text": text, "session": self.session.id() })
    }
}
