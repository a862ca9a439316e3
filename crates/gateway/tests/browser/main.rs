//! The console in a real browser: Debian's Chromium, driven by scripts of Node beside this file.
//!
//! A script says what is to happen here, a line each (`ask`, `pass`, `restart`, ..), and is answered with a line. What is to be true is checked
//! there, on the page, and here, in the store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests may fail loudly"
)]

mod props;
#[path = "../it/console/talker.rs"]
mod talker;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{ApprovalSettings, Engine, HookOptions, OperatorSettings, Snapshot};
use backstop_gateway::chat::{Chat, ChatLine, ChatTool, ToolState};
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Gateway, Metrics, Observers, Settings};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{
    Decision, Digest, HookId, Json, OwnerId, Secret, Severity, Substitute, Text, TimeoutBehavior, ToolName,
    hook_fn,
};
use backstop_store::{
    ApprovalReason, ApprovalState, AskedPeople, AskingLimits, AuditBody, Durability, EditedFrom, GrantPlace,
    KnownBy, NewAccessToken, NewApproval, NewAuditEntry, People, PersonName, Route, Scope, SqliteStore,
    StartedProcess, Starts, Store, Timestamp,
};
use serde_json::{Value, json};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

use self::talker::Talker;

const DAY: Duration = Duration::from_hours(24);
/// The longest that a script may take.
const PATIENCE: Duration = Duration::from_secs(240);
/// Those who are known by name.
const PEOPLE: [&str; 2] = ["ann", "bob"];
/// The user of one more person, whose name is hostile.
const EVE: &str = "eve";

/// A gateway with its store.
struct Stage {
    engine: Engine,
    metrics: Metrics,
    store: Arc<dyn Store>,
    gateway: Option<Gateway>,
    talker: Arc<Talker>,
    address: SocketAddr,
    asked: u64,
    _folder: tempfile::TempDir,
}

impl Stage {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("state.db")));
        let metrics = Metrics::new("0");
        let named = PEOPLE.map(|name| (name, name)).into_iter().chain([(props::HOSTILE, EVE)]);
        let known = named.map(|(name, user)| (PersonName::new(name), vec![KnownBy::User(user.to_owned())]));
        let people = Arc::new(People::new(known));
        let engine = Engine::builder()
            .snapshot(Snapshot::empty(OperatorSettings::default()))
            .store(Arc::clone(&store))
            .sink(Arc::new(metrics.clone()))
            .approvals(ApprovalSettings { people, ..ApprovalSettings::default() })
            .build();
        let nothing = hook_fn::<BeforeToolCall, _>(|_, _| Ok(None::<ToolCallOutcome>));
        let options = HookOptions::new(OwnerId::operator()).id(HookId::new("<b>gate</b>"));
        engine.registry().on::<BeforeToolCall>(nothing, options).unwrap();
        let any = ([127, 0, 0, 1], 0).into();
        let mut stage = Self {
            talker: Talker::new(&store),
            engine,
            metrics,
            store,
            gateway: None,
            address: any,
            asked: 0,
            _folder: folder,
        };
        stage.start().await;
        stage
    }

    async fn start(&mut self) {
        let mut settings = Settings::new(Secret::new("0123456789abcdef".to_owned()));
        settings.store = Some(Arc::clone(&self.store));
        settings.listen = self.address;
        settings.configuration = Some(Arc::new(props::Other(self.engine.clone())));
        settings.chat = Some(Arc::clone(&self.talker) as Arc<dyn Chat>);
        let hooks = Hooks::new(self.engine.clone(), HookSettings::default()).unwrap();
        let observers = Observers { metrics: Some(self.metrics.clone()), ..Observers::default() };
        let gateway = Gateway::observed(settings, Arc::new(hooks), observers).await.unwrap();
        self.address = gateway.address();
        self.gateway = Some(gateway);
    }

    async fn token(&self, user: &str, scopes: &[Scope]) -> String {
        let (user, now) = (user.to_owned(), Timestamp::now());
        let (token, made) =
            NewAccessToken::make_for_person(user, scopes.to_vec(), "a test".to_owned(), now, DAY);
        self.store.add_access_token(made).await.unwrap();
        // A running gateway reads the list twice a second.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        token.expose().to_owned()
    }

    /// Files a question, with what `said` says instead of the usual.
    async fn ask(&mut self, said: &Value) -> String {
        self.asked += 1;
        let text = |name: &str, usual: &str| {
            said.get(name)
                .and_then(Value::as_str)
                .map_or_else(|| format!("{usual} {}", self.asked), str::to_owned)
        };
        let (title, now) = (text("title", "run a marker?"), Timestamp::now());
        let arguments =
            said.get("arguments").cloned().unwrap_or_else(|| json!({"command": text("command", "marker")}));
        let tool_name = ToolName::new(said.get("tool").and_then(Value::as_str).unwrap_or("exec"));
        let severity = if said.get("critical").is_some() { Severity::Critical } else { Severity::Warning };
        let hostile = said.get("everywhere").and_then(Value::as_str);
        let word = |usual: &str| hostile.unwrap_or(usual).to_owned();
        let starts = Starts {
            processes: vec![StartedProcess {
                words: vec![word("marker").into()],
                through: vec![word("sh").into()],
                folder: Some(word("folder").into()),
            }],
            hosts: vec![word("localhost").into()],
            unknown: vec![word("a substitution").into()],
            ..Starts::default()
        };
        let reason = ApprovalReason {
            owner: OwnerId::operator(),
            hook: HookId::new(word("gate")),
            title: Text::from(title.clone()),
            description: word("it says so").into(),
            severity,
            rules: [backstop_hooks::RuleId::new(word("test.rule"))].into(),
            program: Some(vec![word("marker")]),
        };
        let whole = said.get("whole").is_some();
        let substitutes = said.get("substitutes").is_some();
        let from = said.get("from").and_then(Value::as_str).map(|id| EditedFrom {
            approval: id.to_owned().into(),
            by: word("ann, by the console"),
            person: None,
            digest: Digest::of_text("test", "before"),
            shown: Json::new(json!({ "command": word("before") })),
        });
        let votes = said.get("votes").and_then(Value::as_u64).and_then(|votes| u32::try_from(votes).ok());
        let hostile_one = hostile.map(|_| props::HOSTILE);
        let route = votes.and_then(NonZeroU32::new).map(|votes| Route {
            asked: AskedPeople::of(PEOPLE.into_iter().chain(hostile_one), self.engine.people()),
            votes,
            escalation: None,
            barred: None,
            told: None,
        });
        let question = NewApproval {
            agent: word("bot").into(),
            session_key: "key".to_owned().into(),
            workspace: Some(word("work")),
            session: word("session").into(),
            run: None,
            host: Some(word("proxy")),
            client: None,
            call: format!("call-{}", self.asked).into(),
            tool_name,
            digest: Digest::of_text("test", &format!("{arguments} {}", self.asked)),
            facts: None,
            title: title.into(),
            description: word("what a hook says of it").into(),
            severity,
            reasons: vec![reason],
            place: GrantPlace { workspace: Some(word("work")), ..GrantPlace::default() },
            preview: Json::new(if whole { json!("a part") } else { arguments.clone() }),
            whole: whole.then(|| Json::new(arguments)),
            unseen: whole,
            masked: 1,
            masked_at: Vec::new(),
            starts: Some(starts),
            amounts: Vec::new(),
            allowed_decisions: vec![Decision::AllowOnce, Decision::AllowAlways, Decision::Deny],
            substitutes: if substitutes { vec![Substitute::Edit, Substitute::Respond] } else { Vec::new() },
            edited_from: from,
            given: None,
            created_at: now,
            expires_at: now.after(Duration::from_secs(600)),
            deadline: None,
            timeout_behavior: TimeoutBehavior::Deny,
            route,
            waiter: None,
        };
        // Its agent has one that waits.
        if said.get("refused").is_some() {
            let limits = AskingLimits { open: NonZeroU32::new(1), per_minute: None };
            self.store.file_approval(question, false, &limits).await.unwrap_err();
            return String::new();
        }
        self.store.create_approval(question).await.unwrap().id.to_string()
    }

    /// Puts receipts into the trail.
    async fn pass(&self, said: &Value) {
        let count = said.get("count").and_then(Value::as_u64).unwrap_or(1);
        let receipt = |number: u64| {
            let mut body = said.get("receipt").cloned().unwrap_or_else(|| json!({}));
            let fields = body.as_object_mut().unwrap();
            fields.entry("point").or_insert_with(|| "before_tool_call".into());
            fields.entry("verdict").or_insert_with(|| "pass".into());
            fields.entry("tool").or_insert_with(|| format!("tool-{number}").into());
            let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
            let (session, run) = (text("sessionId").map(Into::into), text("runId").map(Into::into));
            NewAuditEntry {
                at: Timestamp::now(),
                kind: "receipt".to_owned(),
                session,
                run,
                body: AuditBody::from(body),
            }
        };
        self.store.append_audit_all((1..=count).map(receipt).collect(), Durability::Soon).await.unwrap();
    }

    /// Does what a line of the script says.
    async fn does(&mut self, what: &str, said: &Value) -> Value {
        match what {
            "ask" => self.ask(said).await.into(),
            "ask-many" => {
                for _ in 0..said.as_u64().unwrap() {
                    self.ask(&Value::Null).await;
                }
                Value::Null
            }
            "pass" => {
                self.pass(said).await;
                Value::Null
            }
            // So many receipts a tenth of a second, for so many of these.
            "pass-on" => {
                let (count, times) = (said["count"].as_u64().unwrap(), said["times"].as_u64().unwrap());
                let mut tick = tokio::time::interval(Duration::from_millis(100));
                for _ in 0..times {
                    tick.tick().await;
                    self.pass(&json!({ "count": count })).await;
                }
                Value::Null
            }
            "session" => {
                self.session(said).await;
                Value::Null
            }
            "grant" => {
                self.grant(said).await;
                Value::Null
            }
            "budget" => {
                self.budget(said).await;
                Value::Null
            }
            "answer" => {
                self.answer(said).await;
                Value::Null
            }
            "token" => self.token(said.as_str().unwrap(), &[Scope::Read, Scope::Approve]).await.into(),
            // What the agent does in a conversation.
            "chat" => {
                self.talker.show(said["id"].as_str().unwrap(), lines(said));
                Value::Null
            }
            "chat-restart" => {
                self.talker.restart();
                Value::Null
            }
            "restart" => {
                self.gateway.take().unwrap().shut_down().await;
                self.start().await;
                Value::Null
            }
            "state" => {
                let id = said.as_str().unwrap().to_owned().into();
                let record = self.engine.answer_store().approval(&id).await.unwrap().unwrap();
                let word = match &record.state {
                    ApprovalState::Denied { word, .. } => word.as_ref().map(ToString::to_string),
                    _ => None,
                };
                let given = record.request.given.as_ref().map(|given| serde_json::to_value(given).unwrap());
                json!({"given": given, "status": record.state.status().as_str(), "by": record.state.by(), "word": word})
            }
            "grants" => self.engine.answer_store().grants(99).await.unwrap().len().into(),
            other => panic!("the script says `{other}`"),
        }
    }
}

/// One line of each kind, with these words.
fn lines(said: &Value) -> Vec<ChatLine> {
    let word = || said["word"].as_str().unwrap().to_owned();
    let call = |state, question: Option<&str>| {
        ChatLine::Tool(ChatTool {
            call: word(),
            tool: word(),
            about: word(),
            state,
            decided: format!("denied by `gate`: {}", word()),
            question: question.map(|id| id.to_owned().into()),
        })
    };
    vec![
        ChatLine::Agent(word(), 3),
        ChatLine::Reasoning(word(), 0),
        call(ToolState::Denied, Some("ask-1")),
        call(ToolState::Ran, None),
        call(ToolState::Failed, None),
        call(ToolState::Stopped, None),
        call(ToolState::Judged, None),
        ChatLine::Note(word()),
        ChatLine::Ended(word()),
    ]
}

/// Runs a script, and does what it says meanwhile.
async fn plays(scene: &str) {
    let mut stage = Stage::open().await;
    let (all, admin) = ([Scope::Read, Scope::Approve], [Scope::Admin]);
    let talks = [Scope::Admin, Scope::Approve];
    let (ann, bob, root, cat) = tokio::join!(
        stage.token("ann", &all),
        stage.token("bob", &all),
        stage.token("root", &admin),
        stage.token("cat", &talks)
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let mut script = Command::new("node")
        .arg("scenes.mjs")
        .arg(scene)
        .current_dir(folder)
        .env("CONSOLE", stage.address.port().to_string())
        .env("ANN", ann)
        .env("BOB", bob)
        .env("ADMIN", root)
        .env("CAT", cat)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
    let mut replies = script.stdin.take().unwrap();
    let playing = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            let Some((what, said)) = line.strip_prefix("> ").and_then(|line| line.split_once(' ')) else {
                println!("{line}");
                continue;
            };
            let reply = stage.does(what, &serde_json::from_str(said).unwrap()).await;
            replies.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
        script.wait().await.unwrap()
    };
    let ended =
        tokio::time::timeout(PATIENCE, playing).await.unwrap_or_else(|_| panic!("`{scene}` takes too long"));
    assert!(ended.success(), "`{scene}` failed: its output says where");
}

#[tokio::test]
async fn a_person_signs_in_answers_by_keys_and_signs_out() {
    plays("answering").await;
}

#[tokio::test]
async fn whoever_wants_to_be_told_is_told_that_something_waits() {
    plays("notified").await;
}

#[tokio::test]
async fn another_port_is_sent_nothing_that_opens_the_console() {
    plays("port").await;
}

#[tokio::test]
async fn two_people_see_who_was_first() {
    plays("two").await;
}

#[tokio::test]
async fn a_person_changes_a_call_and_gives_a_result() {
    plays("editing").await;
}

#[tokio::test]
async fn all_of_it_works_without_a_script() {
    plays("scriptless").await;
}

#[tokio::test]
async fn a_restart_under_an_open_page_is_said_and_led_back_from() {
    plays("restart").await;
}

#[tokio::test]
async fn hostile_words_are_shown_and_do_nothing() {
    plays("hostile").await;
}

#[tokio::test]
async fn hostile_names_of_people_and_hostile_configurations_do_nothing() {
    plays("named").await;
}

#[tokio::test]
async fn ten_thousand_questions_can_be_worked_on() {
    plays("many").await;
}

#[tokio::test]
async fn what_passes_is_shown_as_it_passes() {
    plays("live").await;
}

#[tokio::test]
async fn five_hundred_calls_a_second_are_told_in_few_pieces() {
    plays("busy").await;
}

#[tokio::test]
async fn a_call_is_tried_and_a_session_read() {
    plays("reading").await;
}

#[tokio::test]
async fn a_person_talks_with_the_agent_in_two_browsers() {
    plays("chatting").await;
}

#[tokio::test]
async fn axe_finds_nothing_on_any_page() {
    plays("axe").await;
}
