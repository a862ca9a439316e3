//! An agent in a temporary folder, its scripted model, and what was shown.

use std::sync::{Arc, Mutex};

use backstop_agent::tools::{CancelToken, Limits, Toolbox, Workspace};
use backstop_agent::{
    Agent, AgentParts, AgentSession, AgentSettings, Fate, OneModel, Output, SessionChoice, Shown,
    ToolDecided, TurnInput, TurnOutcome, TurnReport,
};
use backstop_engine::{Attendance, Engine, HookOptions};
use backstop_hooks::conversation::{Message, Role};
use backstop_hooks::points::{BeforeLlmCall, BeforeLlmCallEvent};
use backstop_hooks::{Hook, HookId, OwnerId, Point, hook_fn};
use backstop_llm::{Model, Script, ScriptedModel};
use backstop_store::{SqliteStore, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Everything that was shown, in words.
#[derive(Default)]
pub(crate) struct Screen(Mutex<Vec<String>>);

impl Output for Screen {
    fn show(&self, shown: Shown<'_>) {
        let line = match shown {
            Shown::Text(text) => format!("text: {text}"),
            Shown::TextEnd => "end".to_owned(),
            Shown::Reasoning(text) => format!("reasoning: {text}"),
            Shown::ToolJudged { tool, .. } => format!("judged: {tool}"),
            Shown::ToolDecided(told) => decided(&told),
            Shown::ToolStarted { tool, about } => format!("start: {tool} {}", about.unwrap_or_default()),
            Shown::ToolEnded { tool, failed } => format!("done: {tool} {failed}"),
            Shown::Note(line) => format!("note: {line}"),
            Shown::Answer(text) => format!("answer: {text}"),
            _ => panic!("the tests know everything that is shown"),
        };
        self.0.lock().unwrap().push(line);
    }
}

fn decided(told: &ToolDecided<'_>) -> String {
    let ToolDecided { tool, fate, answer, is_edited, is_rewritten, .. } = told;
    let fate = match fate {
        Fate::Runs => "runs".to_owned(),
        Fate::Answered => "answered".to_owned(),
        Fate::Denied { by, reason } => {
            format!("denied by {}: {reason}", by.map_or("nobody", |by| by.as_str()))
        }
    };
    let edited = if *is_edited { ", edited" } else { "" };
    let rewritten = if *is_rewritten { ", rewritten" } else { "" };
    let answer = answer.map(|answer| format!(", {answer:?}")).unwrap_or_default();
    format!("decided: {tool} {fate}{answer}{edited}{rewritten}")
}

impl Screen {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// All text of the assistant, pieces put together, one entry per message.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts = vec![String::new()];
        for line in self.lines() {
            if let Some(text) = line.strip_prefix("text: ") {
                texts.last_mut().unwrap().push_str(text);
            } else if line == "end" {
                texts.push(String::new());
            }
        }
        texts.pop_if(|last| last.is_empty());
        texts
    }

    pub(crate) fn shows(&self, needle: &str) -> bool {
        self.lines().iter().any(|line| line.contains(needle)) || self.texts().concat().contains(needle)
    }
}

pub(crate) struct Bench {
    pub(crate) agent: Agent,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) model: ScriptedModel,
    pub(crate) screen: Arc<Screen>,
    pub(crate) folder: TempDir,
}

/// How a bench differs from the usual one.
pub(crate) struct Setup {
    pub(crate) settings: AgentSettings,
    pub(crate) attendance: Attendance,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) toolbox: Toolbox,
    /// Asked in place of the scripted model.
    pub(crate) other_model: Option<Arc<dyn Model>>,
}

impl Bench {
    pub(crate) fn new(turns: impl IntoIterator<Item = Value>) -> Self {
        Self::with(turns, |_| {})
    }

    pub(crate) fn with(turns: impl IntoIterator<Item = Value>, change: impl FnOnce(&mut Setup)) -> Self {
        let script = json!({ "turns": turns.into_iter().collect::<Vec<_>>() }).to_string();
        let model = ScriptedModel::new(Script::parse(&script).unwrap());
        let mut settings = AgentSettings::new("coder", "scripted", "model-1");
        settings.hold_back_bytes = 8;
        settings.system_prompt = "Be good.".into();
        let mut setup = Setup {
            settings,
            attendance: Attendance::Nobody,
            store: None,
            toolbox: Toolbox::built_in(),
            other_model: None,
        };
        change(&mut setup);
        let asked = setup.other_model.unwrap_or_else(|| Arc::new(model.clone()));
        let store = setup.store.unwrap_or_else(|| Arc::new(SqliteStore::in_memory()));
        let engine = Engine::builder().store(Arc::clone(&store)).build();
        let folder = tempfile::tempdir().unwrap();
        let screen = Arc::new(Screen::default());
        let agent = Agent::new(AgentParts {
            engine: engine.clone(),
            store: Arc::clone(&store),
            models: Arc::new(OneModel(asked)),
            toolbox: setup.toolbox,
            workspace: Workspace::open(folder.path()).unwrap(),
            limits: Limits::default(),
            settings: setup.settings,
            attendance: setup.attendance,
            output: Arc::clone(&screen) as Arc<dyn Output>,
        });
        Self { agent, engine, store, model, screen, folder }
    }

    /// Registers a hook of the operator.
    pub(crate) fn on<P: Point>(&self, hook: Arc<dyn Hook<P>>) -> HookId {
        self.engine.registry().on::<P>(hook, HookOptions::new(OwnerId::operator())).unwrap()
    }

    pub(crate) async fn session(&self) -> AgentSession {
        self.agent.open_session(SessionChoice::New { key: "main".into() }).await.unwrap()
    }

    pub(crate) async fn say(&self, session: &AgentSession, text: &str) -> TurnReport {
        self.turn(session, TurnInput::user(text)).await
    }

    pub(crate) async fn turn(&self, session: &AgentSession, input: TurnInput) -> TurnReport {
        self.agent.turn(session, input, &CancelToken::new()).await.unwrap()
    }

    /// The stored conversation.
    pub(crate) async fn transcript(&self, session: &AgentSession) -> Vec<Message> {
        let entries = self.store.transcript(session.id()).await.unwrap();
        entries.into_iter().map(|entry| entry.message).collect()
    }

    /// The stored conversation as JSON text, for looking for what must not be in it.
    pub(crate) async fn stored(&self, session: &AgentSession) -> String {
        serde_json::to_string(&self.transcript(session).await).unwrap()
    }

    /// What the model was sent last, as JSON text.
    pub(crate) fn last_request(&self) -> String {
        let request = self.model.requests().pop().unwrap().request;
        format!(
            "{}{}",
            serde_json::to_string(&request.system).unwrap(),
            serde_json::to_string(&request.messages).unwrap()
        )
    }

    /// Records every event of `before_llm_call`.
    pub(crate) fn watch_llm_calls(&self) -> Arc<Mutex<Vec<BeforeLlmCallEvent>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        self.on::<BeforeLlmCall>(hook_fn(move |event: &BeforeLlmCallEvent, _| {
            log.lock().unwrap().push(event.clone());
            Ok(None)
        }));
        seen
    }
}

pub(crate) fn says(text: &str) -> Value {
    json!({ "text": text })
}

pub(crate) fn calls(tool: &str, arguments: Value) -> Value {
    json!({ "tool_calls": [{ "name": tool, "arguments": arguments }] })
}

pub(crate) fn answered(text: &str) -> TurnOutcome {
    TurnOutcome::Answered { text: text.into() }
}

/// The speakers in order: one letter each.
pub(crate) fn roles(messages: &[Message]) -> String {
    let letter = |message: &Message| match message.role {
        Role::System => 's',
        Role::User => 'u',
        Role::Assistant => 'a',
        Role::Tool => 't',
    };
    messages.iter().map(letter).collect()
}

/// Each tool call has exactly one result after it, and each result a call.
pub(crate) fn assert_whole(messages: &[Message]) {
    let mut open = Vec::new();
    for message in messages {
        for result in message.tool_results() {
            let at = open.iter().position(|id| *id == result.tool_call_id);
            open.remove(at.unwrap_or_else(|| panic!("an orphan result for `{}`", result.tool_call_id)));
        }
        if message.role != Role::Tool {
            assert!(open.is_empty(), "a call without a result before the next message: {open:?}");
        }
        open.extend(message.tool_calls().map(|call| call.id.clone()));
    }
    assert!(open.is_empty(), "calls without results: {open:?}");
}
