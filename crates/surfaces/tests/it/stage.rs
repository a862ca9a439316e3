//! Questions, people and a desk.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_engine::{ApprovalSettings, Engine, EngineBuilder};
use backstop_hooks::{ApprovalId, Decision, Digest, Severity, TimeoutBehavior};
use backstop_http_client::Proxies;
use backstop_store::{
    ApprovalReason, ApprovalRecord, ApprovalState, GrantPlace, KnownBy, NewApproval, People, PersonName,
    SqliteStore, Store, Timestamp, preview,
};
use backstop_surfaces::{Counts, Desk, Egress, Holder, QuietHours, Surface, SurfaceName};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The secret of the one who watches the wires: it must be nowhere.
pub(crate) fn token() -> String {
    ["7001:", "AAH-sesame-of-", "the-bot"].concat()
}

pub(crate) fn name(name: &str) -> SurfaceName {
    SurfaceName::new(name).unwrap()
}

pub(crate) fn anywhere() -> Egress {
    Egress::Any(Proxies::default())
}

/// Waits until something is there.
pub(crate) async fn until<T>(mut what: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(found) = what() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came");
}

/// The people who answer.
pub(crate) fn people() -> People {
    let ann =
        vec![KnownBy::Telegram(42), KnownBy::Slack("T1/U1".to_owned()), KnownBy::Webhook("ann".to_owned())];
    People::new([
        (PersonName::new("ann"), ann),
        (PersonName::new("bob"), vec![KnownBy::Webhook("bob".to_owned())]),
    ])
}

pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    _folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Arc::new(SqliteStore::new(folder.path().join("state.db")));
        Self { store, _folder: folder }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.builder().build()
    }

    fn builder(&self) -> EngineBuilder {
        let people = Arc::new(people());
        let settings = ApprovalSettings { people, ..ApprovalSettings::default() };
        Engine::builder().store(Arc::clone(&self.store)).approvals(settings)
    }

    /// An engine that keeps answers in its own memory.
    pub(crate) fn strict(&self) -> Engine {
        let answers = Arc::new(SqliteStore::for_answers(Arc::clone(&self.store)));
        self.builder().answer_store(answers).build()
    }

    pub(crate) fn desk(&self, surface: impl Surface + 'static) -> Arc<Desk> {
        desk(self.engine(), surface)
    }

    pub(crate) async fn ask(&self, command: &str) -> ApprovalRecord {
        self.store.create_approval(question(&json!({ "command": command }))).await.unwrap()
    }

    /// A question of an agent that ends in so many seconds.
    pub(crate) async fn ask_of(&self, agent: &str, ends: u64) -> ApprovalRecord {
        let request = question(&json!({ "command": "ls" }));
        let expires_at = request.created_at.after(Duration::from_secs(ends));
        let request = NewApproval { agent: agent.into(), expires_at, ..request };
        self.store.create_approval(request).await.unwrap()
    }

    pub(crate) async fn ask_as(&self, severity: Severity) -> ApprovalRecord {
        let request = NewApproval { severity, ..question(&json!({ "command": "ls" })) };
        self.store.create_approval(request).await.unwrap()
    }

    pub(crate) async fn state(&self, id: &ApprovalId) -> ApprovalState {
        self.store.approval(id).await.unwrap().unwrap().state
    }

    /// Waits until a question is answered, and returns how and by whom.
    pub(crate) async fn answered(&self, id: &ApprovalId) -> (Decision, String) {
        for _ in 0..3_000 {
            match self.state(id).await {
                ApprovalState::Allowed(allowance) => return (allowance.decision, allowance.by),
                ApprovalState::Denied { by, .. } => return (Decision::Deny, by),
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("nobody answered");
    }
}

pub(crate) fn desk(engine: Engine, surface: impl Surface + 'static) -> Arc<Desk> {
    desk_with(engine, surface, None)
}

pub(crate) fn desk_with(
    engine: Engine,
    surface: impl Surface + 'static,
    quiet: Option<QuietHours>,
) -> Arc<Desk> {
    let console = Some("https://console.example/".parse().unwrap());
    Desk::new(engine, vec![Arc::new(surface)], console, quiet, Holder::default())
}

/// What became of messages and what came over connections, in order, and how many of these stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Became(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    messages: Vec<&'static str>,
    came: Vec<&'static str>,
    connections: Option<i64>,
}

impl Became {
    pub(crate) fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().messages.clone()
    }

    /// How often this came over connections.
    pub(crate) fn came(&self, what: &str) -> usize {
        self.0.lock().unwrap().came.iter().filter(|came| **came == what).count()
    }

    /// How many connections stand; `None` where nobody makes any.
    pub(crate) fn connections(&self) -> Option<i64> {
        self.0.lock().unwrap().connections
    }
}

impl Counts for Became {
    fn stands(&self, _surface: &SurfaceName) {}

    fn message(&self, _surface: &SurfaceName, became: backstop_surfaces::Became) {
        self.0.lock().unwrap().messages.push(became.as_str());
    }

    fn answer(&self, _surface: &SurfaceName, _does_count: bool) {}

    fn listens(&self, _surface: &SurfaceName) {
        self.0.lock().unwrap().connections = Some(0);
    }

    fn connected(&self, _surface: &SurfaceName, stands: bool) {
        *self.0.lock().unwrap().connections.as_mut().unwrap() += if stands { 1 } else { -1 };
    }

    fn came(&self, _surface: &SurfaceName, came: backstop_surfaces::Came) {
        self.0.lock().unwrap().came.push(came.as_str());
    }
}

/// A desk, and what becomes of its messages.
pub(crate) fn counted(engine: Engine, surface: impl Surface + 'static) -> (Arc<Desk>, Became) {
    let became = Became::default();
    let holder = Holder::default().counted_by(Arc::new(became.clone()));
    let console = Some("https://console.example/".parse().unwrap());
    (Desk::new(engine, vec![Arc::new(surface)], console, None, holder), became)
}

pub(crate) fn question(arguments: &Value) -> NewApproval {
    let now = Timestamp::now();
    let shown = preview(arguments);
    NewApproval {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: Some("/work".to_owned()),
        session: "s1".into(),
        run: Some("r1".into()),
        host: None,
        client: None,
        call: "c1".into(),
        tool_name: "exec".into(),
        digest: Digest::of("tool_call", arguments),
        facts: None,
        title: "Run this <!channel> *now*?".into(),
        description: "It deletes things.".into(),
        severity: Severity::Critical,
        reasons: vec![ApprovalReason {
            owner: "guards".into(),
            hook: "command-safety".into(),
            title: "It deletes a folder".into(),
            description: "".into(),
            severity: Severity::Critical,
            rules: ["delete.recursive".into()].into(),
            program: None,
        }],
        place: GrantPlace::default(),
        preview: shown.shown,
        whole: None,
        unseen: shown.is_cut,
        masked: 1,
        masked_at: Vec::new(),
        starts: None,
        amounts: Vec::new(),
        allowed_decisions: vec![Decision::AllowOnce, Decision::AllowAlways, Decision::Deny],
        substitutes: Vec::new(),
        edited_from: None,
        given: None,
        created_at: now,
        expires_at: now.after(Duration::from_secs(600)),
        deadline: None,
        timeout_behavior: TimeoutBehavior::Deny,
        route: None,
        waiter: None,
    }
}
