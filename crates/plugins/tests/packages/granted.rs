//! What the packages bring, each thing once with what it asks for and once without: tools, commands, command lines, services and hooks.
//!
//! Their servers are one of this test's, on this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;

use async_trait::async_trait;
use backstop_engine::Receipt;
use backstop_hooks::{ClaimPoint, DecidePoint, OwnerId, PointId, SessionKey, for_each_point, points};
use backstop_plugins::openclaw::{EventSession, Extensions, Offered, Printed, ServiceError};
use backstop_script::{HostGrant, UserGrant};

use super::*;

/// What a server answers: a path's beginning with its method, a status, and JSON.
type Answers = Vec<(&'static str, u16, Value)>;

/// A server of this machine that answers the same every time, and keeps what it was asked.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(port: u16, answers: Answers) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .unwrap_or_else(|error| panic!("port {port}, which the package asks at, is not free: {error}"));
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (kept, answers) = (Arc::clone(&asked), Arc::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answers) = (Arc::clone(&kept), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, &kept, &answers));
            }
        });
        Self { port, asked }
    }

    fn grant(&self) -> HostGrant {
        HostGrant { host: "127.0.0.1".to_owned(), port: Some(self.port) }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whether it was asked for something that begins so.
    fn was_asked(&self, beginning: &str) -> bool {
        self.asked.lock().unwrap().iter().any(|asked| asked.starts_with(beginning))
    }

    fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }
}

fn serve(stream: TcpStream, kept: &Mutex<Vec<String>>, answers: &Answers) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let asked = first.rsplit_once(" HTTP/")?.0.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    kept.lock().unwrap().push(asked.clone());
    let found = answers.iter().find(|(beginning, ..)| asked.starts_with(beginning));
    let (status, answer) = found.map_or((404, json!({})), |(_, status, answer)| (*status, answer.clone()));
    let answer = answer.to_string();
    let head = "Content-Type: application/json\r\nConnection: close";
    let length = answer.len();
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 {status} OK\r\n{head}\r\nContent-Length: {length}\r\n\r\n{answer}").ok()
}

/// Keeps what command lines print.
#[derive(Default)]
struct Prints(Mutex<String>);

#[async_trait]
impl Services for Prints {
    async fn inject(&self, _: &OwnerId, _: &EventSession, _: Value) -> Result<Value, ServiceError> {
        Ok(json!({ "enqueued": true }))
    }

    async fn extensions(&self, _: &OwnerId, _: &SessionKey) -> Result<Extensions, ServiceError> {
        Ok(Extensions::new())
    }

    async fn patch(&self, _: &OwnerId, _: &EventSession, _: Value) -> Result<Value, ServiceError> {
        Ok(Value::Null)
    }

    fn print(&self, _: &OwnerId, text: Printed<'_>) {
        self.0.lock().unwrap().push_str(text.0);
    }
}

macro_rules! ask {
    (Decide, $point:ty) => {
        decided::<$point>
    };
    (Observe, $point:ty) => {
        observed::<$point>
    };
    (Claim, $point:ty) => {
        claimed::<$point>
    };
}

macro_rules! fire_at_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        /// Has all hooks at a point judge or see an event.
        async fn fire(engine: &Engine, point: PointId, event: Value, context: &CallContext) -> Receipt {
            match point {
                $(PointId::$point => {
                    Box::pin(ask!($mode, points::$point)(engine, serde_json::from_value(event).unwrap(), context)).await
                })*
            }
        }
    };
}

for_each_point!(fire_at_each);

async fn decided<P: DecidePoint>(engine: &Engine, event: P::Event, context: &CallContext) -> Receipt {
    engine.explain::<P>(event, context).await.into_parts().receipt
}

async fn observed<P: ObservePoint>(engine: &Engine, event: P::Event, context: &CallContext) -> Receipt {
    engine.observe::<P>(&event, context).await
}

async fn claimed<P: ClaimPoint>(engine: &Engine, event: P::Event, context: &CallContext) -> Receipt
where
    P::Outcome: backstop_hooks::Claim,
{
    engine.claim::<P>(&event, context).await.receipt
}

impl Loaded {
    /// Fires each point at which a hook of it stands, with a conversation long enough for those that look at that.
    async fn fire_all(&self) -> Vec<&'static str> {
        let context = CallContext {
            agent_id: Some("main".into()),
            session_key: Some("agent:main:main".into()),
            session_id: Some("s1".into()),
            run_id: Some("r1".into()),
            ..CallContext::default()
        };
        let message =
            |role: &str, text: &str| json!({ "role": role, "content": [{ "type": "text", "text": text }] });
        let talk: Vec<Value> = (0..4)
            .flat_map(|n| {
                [
                    message("user", &format!("I always deploy on day {n}, remember that for all projects")),
                    message("assistant", &format!("I will keep in mind that you deploy on day {n}")),
                ]
            })
            .collect();
        let points: std::collections::BTreeSet<PointId> =
            self.plugin.registration.hooks().map(|spec| spec.point).collect();
        let mut fired = Vec::new();
        for point in points {
            let mut event = point.sample_event();
            for name in ["messages", "sessionMessages"] {
                if let Some(messages) = event.get_mut(name) {
                    *messages = talk.clone().into();
                }
            }
            let receipt = fire(&self.engine, point, event, &context).await;
            assert!(!receipt.steps.is_empty(), "{point:?}: no hook was asked");
            no_failures(&receipt.steps);
            fired.push(point.name());
        }
        fired
    }

    fn offers(&self, kind: OfferKind) -> Vec<&Offered> {
        self.plugin.offers.iter().filter(|offered| offered.offer.kind == kind).collect()
    }

    /// What a function of something that it offers answers, or why not.
    async fn ask(&self, kind: OfferKind, name: &str, function: &str, argument: Value) -> String {
        let offers = self.offers(kind);
        let offered = offers.into_iter().find(|offered| offered.offer.name == name).unwrap();
        let arguments = Arguments::new([Argument::Json(JsonText::of(&argument).unwrap())]);
        match self.plugin.call(offered, function, &arguments, LONG).await {
            Ok(answer) => answer.map(|answer| answer.json.as_str().to_owned()).unwrap_or_default(),
            Err(error) => format!("Error: {error}"),
        }
    }

    /// Starts and stops its services.
    async fn services(&self) {
        for function in ["start", "stop"] {
            for offered in self.offers(OfferKind::Service) {
                let name = &offered.offer.name;
                let said = self.ask(OfferKind::Service, name, function, Value::Null).await;
                assert!(!said.starts_with("Error"), "{function} {name}: {said}");
            }
        }
    }

    fn denied(&self) -> String {
        self.plugin.denials().into_iter().map(|(grant, _)| grant).collect::<Vec<_>>().join("; ")
    }
}

/// Has a command line run, and returns what it printed.
async fn run(loaded: &Loaded, prints: &Prints, words: &[&str]) -> String {
    prints.0.lock().unwrap().clear();
    let (name, rest) = words.split_first().unwrap();
    let said = loaded.ask(OfferKind::Cli, name, "run", json!(rest)).await;
    format!("{}{said}", prints.0.lock().unwrap())
}

async fn load_with(package: &str, config: Value, permissions: Permissions) -> (Loaded, Arc<Prints>) {
    let prints = Arc::<Prints>::default();
    let loaded = plugin_for(package, config, permissions, Place::Here, Arc::<Prints>::clone(&prints)).await;
    (loaded, prints)
}

/// A home of one's own.
fn home(permissions: &mut Permissions) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    permissions.files.push(FileGrant { root: home.path().to_owned(), access: FileAccess::Write });
    permissions.user = Some(UserGrant { home: home.path().to_owned(), name: "me".to_owned() });
    home
}

/// Its server is at a place that it has written down, so that nobody else can be there: what wants it to be away is asked here as well.
#[tokio::test(flavor = "multi_thread")]
async fn ollama_web_search_asks_its_server_where_that_is_granted() {
    let package = "@ollama/openclaw-web-search";
    let node = under_node(package, json!({})).await;
    // Nothing listens there: it is kept from no host, and says itself that it got no answer.
    let said = node.tool("ollama_web_search", json!({ "query": "rust" })).await;
    assert!(said.contains("fetch failed"), "{said}");
    drop(node);
    let server = Server::start(
        11434,
        vec![
            (
                "POST /api/experimental/web_search",
                200,
                json!({ "results": [{ "title": "One", "url": "http://one.example", "content": "from the server" }] }),
            ),
            (
                "POST /api/experimental/web_fetch",
                200,
                json!({ "title": "Page", "content": "text of the page", "links": ["http://two.example"] }),
            ),
        ],
    );
    let calls = [
        ("ollama_web_search", json!({ "query": "rust" }), "from the server"),
        ("ollama_web_fetch", json!({ "url": "http://one.example" }), "text of the page"),
    ];
    let permissions = Permissions { hosts: vec![server.grant()], ..Permissions::default() };
    let (granted, _) = load_with(package, json!({}), permissions).await;
    let (denied, _) = load_with(package, json!({}), Permissions::default()).await;
    assert_eq!(granted.names(OfferKind::Tool).len(), calls.len());
    for (name, params, answer) in calls {
        let said = granted.tool(name, params.clone()).await;
        assert!(said.contains(answer), "{name}: {said}");
        server.forget();
        let said = denied.tool(name, params).await;
        assert!(said.contains("missing grant: hosts: 127.0.0.1:11434"), "{name}: {said}");
        assert!(!server.was_asked(""), "{name}");
    }
    assert!(denied.denied().contains("hosts: 127.0.0.1:11434"), "{}", denied.denied());
}

#[tokio::test(flavor = "multi_thread")]
async fn projectavatar_tells_its_relay_where_that_is_granted() {
    let server = Server::start(
        0,
        vec![("POST ", 200, json!({ "ok": true })), ("GET ", 200, json!({ "connected": true }))],
    );
    let config = json!({ "relayUrl": server.url(), "appUrl": server.url(), "enableAvatarTool": true });
    let mut permissions = Permissions { hosts: vec![server.grant()], ..Permissions::default() };
    let _home = home(&mut permissions);
    for (grants, is_granted) in [(permissions, true), (Permissions::default(), false)] {
        let (loaded, _) = load_with("@projectavatar/openclaw-avatar", config.clone(), grants).await;
        server.forget();
        let fired = loaded.fire_all().await;
        assert!(fired.contains(&"session_end") && fired.contains(&"agent_end"), "{fired:?}");
        loaded.services().await;
        for offered in loaded.offers(OfferKind::Tool) {
            let name = offered.offer.name.clone();
            let params = match name.contains("command") {
                true => json!({ "command": "status", "action": "status" }),
                false => json!({ "emotion": "happy", "action": "waving", "state": "happy" }),
            };
            let said = loaded.tool(&name, params).await;
            assert!(!said.is_empty() && !said.contains("not a function"), "{name}: {said}");
        }
        if is_granted {
            let what = "it hears of what the agent does";
            for _ in 0..300 {
                if server.was_asked("POST ") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(server.was_asked("POST "), "{what}: {:?}", server.asked.lock().unwrap());
        } else {
            assert!(!server.was_asked(""), "{:?}", server.asked.lock().unwrap());
        }
    }
}

fn graphiti_server() -> Server {
    let fact = json!({ "uuid": "u1", "name": "DEPLOYS", "fact": "deploys on fridays", "valid_at": null,
        "invalid_at": null, "created_at": "2026-01-01T00:00:00Z", "expired_at": null });
    Server::start(
        0,
        vec![
            ("POST /search", 200, json!({ "facts": [fact.clone()] })),
            ("POST /get-memory", 200, json!({ "facts": [fact] })),
            ("POST /messages", 202, json!({ "success": true, "message": "taken" })),
            ("GET /healthcheck", 200, json!({ "status": "healthy" })),
            (
                "GET /episodes/",
                200,
                json!([{ "uuid": "e1", "name": "one", "content": "an episode", "created_at": "2026-01-01T00:00:00Z" }]),
            ),
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn graphiti_searches_takes_and_tells_where_its_server_is_granted() {
    let server = graphiti_server();
    let config = json!({ "url": server.url(), "debug": false, "autoRecall": true });
    let mut permissions = Permissions { hosts: vec![server.grant()], ..Permissions::default() };
    let home = home(&mut permissions);
    std::fs::write(home.path().join("note.md"), "a note for the graph").unwrap();
    let package = "@robertogongora/graphiti";
    let (granted, prints) = load_with(package, config.clone(), permissions).await;
    let (denied, its_prints) = load_with(package, config, Permissions::default()).await;
    // Tools.
    for (name, params, answer) in [
        ("graphiti_search", json!({ "query": "deploy" }), "deploys on fridays"),
        ("graphiti_ingest", json!({ "content": "they deploy on fridays" }), "ngest"),
    ] {
        let said = granted.tool(name, params.clone()).await;
        assert!(said.contains(answer) && !said.contains("missing grant"), "{name}: {said}");
        server.forget();
        let said = denied.tool(name, params).await;
        assert!(said.contains("missing grant: hosts: 127.0.0.1"), "{name}: {said}");
        assert!(!server.was_asked(""), "{name}");
    }
    // Hooks: the conversation is taken before it is compacted, and before it is reset.
    server.forget();
    let fired = granted.fire_all().await;
    for point in
        ["before_agent_start", "before_compaction", "before_reset", "session_start", "after_tool_call"]
    {
        assert!(fired.contains(&point), "{point}: {fired:?}");
    }
    assert!(server.was_asked("POST /messages"), "{:?}", server.asked.lock().unwrap());
    server.forget();
    denied.fire_all().await;
    denied.services().await;
    assert!(!server.was_asked(""));
    // Services and commands.
    granted.services().await;
    assert!(server.was_asked("GET /healthcheck"));
    let said = granted.ask(OfferKind::Command, "graphiti", "handler", json!({})).await;
    assert!(said.contains("healthy"), "{said}");
    let said = denied.ask(OfferKind::Command, "graphiti", "handler", json!({})).await;
    assert!(said.contains("unreachable"), "{said}");
    // Command lines.
    for (words, answer) in [
        (vec!["graphiti", "--help"], "Graphiti knowledge graph commands"),
        (vec!["graphiti"], "Graphiti knowledge graph commands"),
        (vec!["graphiti", "search", "--help"], "Search the knowledge graph"),
        (vec!["graphiti", "status"], "Graphiti is healthy"),
        (vec!["graphiti", "search", "deploy"], "deploys on fridays"),
        (vec!["graphiti", "episodes"], "e1"),
    ] {
        let said = run(&granted, &prints, &words).await;
        let found =
            said.contains(answer) || (words.contains(&"episodes") && server.was_asked("GET /episodes/"));
        assert!(found && !said.contains("Error: "), "{words:?}: {said}");
    }
    let said = run(&denied, &its_prints, &["graphiti", "status"]).await;
    assert!(said.contains("unreachable"), "{said}");
    assert!(denied.denied().contains("hosts: 127.0.0.1"), "{}", denied.denied());
}

/// A program that stands in for the one that the tools ask.
fn stand_in(folder: &Path) -> PathBuf {
    let program = folder.join("gemini");
    std::fs::write(&program, "#!/bin/sh\necho \"asked with $*\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program.canonicalize().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn oh_my_openclaw_does_what_it_is_granted() {
    let package = "@happycastle/oh-my-openclaw";
    let programs = tempfile::tempdir().unwrap();
    let mut permissions = Permissions { programs: vec![stand_in(programs.path())], ..Permissions::default() };
    let home = home(&mut permissions);
    let checkpoints = home.path().join("checkpoints");
    std::fs::create_dir_all(home.path().join(".openclaw/workspace")).unwrap();
    permissions.files.push(FileGrant { root: folder(), access: FileAccess::Read });
    let config = json!({ "checkpoint_dir": checkpoints });
    let (granted, _) = load_with(package, config.clone(), permissions).await;
    let (denied, _) = load_with(package, config, Permissions::default()).await;
    let calls = [
        ("omoc_delegate", json!({ "task_description": "look", "category": "quick" }), "sessions_spawn", None),
        ("omo_delegate", json!({ "task": "look" }), "sessions_spawn", None),
        ("omoc_web_search", json!({ "query": "rust" }), "asked with -m", Some("programs")),
        ("omoc_look_at", json!({ "file_path": "/a", "goal": "see" }), "asked with -m", Some("programs")),
        (
            "omoc_checkpoint",
            json!({ "action": "save", "task": "t", "step": "s" }),
            "heckpoint",
            Some("files"),
        ),
        ("omoc_checkpoint", json!({ "action": "list" }), "checkpoints", Some("files")),
        ("omoc_todo_create", json!({ "content": "write it down" }), "write it down", None),
        ("omoc_todo_list", json!({}), "write it down", None),
        ("omoc_todo_update", json!({ "id": "ID", "status": "completed" }), "completed", None),
    ];
    let names: std::collections::BTreeSet<&str> = calls.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names.len(), granted.names(OfferKind::Tool).len(), "{:?}", granted.names(OfferKind::Tool));
    for loaded in [&granted, &denied] {
        let mut last = String::new();
        for (name, params, answer, needs) in &calls {
            // What was made first is what is changed last.
            let id = last
                .split("\\\"id\\\": \\\"")
                .nth(1)
                .and_then(|rest| rest.split("\\\"").next())
                .unwrap_or("1");
            let params: Value =
                serde_json::from_str(&params.to_string().replace("\"ID\"", &json!(id).to_string())).unwrap();
            let said = loaded.tool(name, params).await;
            match needs {
                Some(grant) if std::ptr::eq(loaded, &denied) => {
                    assert!(said.contains(&format!("missing grant: {grant}")), "{name}: {said}");
                }
                _ => assert!(said.contains(answer) && !said.contains("missing grant"), "{name}: {said}"),
            }
            last = said;
        }
        loaded.fire_all().await;
    }
    assert!(checkpoints.is_dir());
    // Services keep what they know across a stop.
    granted.services().await;
    for (name, args, answer) in [
        ("omoc", "list", "Personas"),
        ("omoc", "", "Mode: ON"),
        ("omoc", "off", "Mode: OFF"),
        ("omoc", "nobody", "Unknown Persona"),
        ("ralph_loop", "3", "Ralph Loop started"),
        ("ralph_loop", "3", "already running"),
        ("omoc_status", "", "ACTIVE"),
        ("omoc_health", "", "Health"),
        ("omoc_config", "", "checkpoint_dir"),
        ("ralph_stop", "", "Ralph Loop stopped"),
        ("todos", "", "write it down"),
    ] {
        let said = granted.ask(OfferKind::Command, name, "handler", json!({ "args": args })).await;
        assert!(said.contains(answer), "{name} {args}: {said}");
    }
    let commands: std::collections::BTreeSet<&str> = granted.names(OfferKind::Command).into_iter().collect();
    let asked = ["omoc", "omoc_config", "omoc_health", "omoc_status", "ralph_loop", "ralph_stop", "todos"];
    assert_eq!(commands, asked.into_iter().collect());
    // Without the folder the loop can't be kept, and that is said.
    let said = denied.ask(OfferKind::Command, "ralph_loop", "handler", json!({ "args": "3" })).await;
    assert!(said.contains("missing grant: files") && said.contains("checkpoints"), "{said}");
}

fn mem0_server() -> Server {
    let memory = json!({ "id": "m1", "memory": "deploys on fridays", "user_id": "me", "score": 0.9,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "metadata": {}, "categories": [] });
    let event = json!({ "id": "e1", "event_id": "e1", "event_type": "ADD", "status": "SUCCEEDED",
        "created_at": "2026-01-01T00:00:00Z", "latency": 1, "results": [] });
    let list = json!({ "results": [memory.clone()], "count": 1 });
    Server::start(
        0,
        vec![
            (
                "GET /v1/ping/",
                200,
                json!({ "status": "ok", "org_id": "o", "project_id": "p", "user_email": "me@example.org" }),
            ),
            (
                "POST /v3/memories/add",
                200,
                json!([{ "id": "m1", "memory": "deploys on fridays", "event": "ADD" }]),
            ),
            ("POST /v3/memories/search", 200, list.clone()),
            ("POST /v3/memories/", 200, list.clone()),
            ("POST /v2/memories/", 200, list),
            ("POST /v1/memories/", 200, json!({ "results": [] })),
            ("GET /v1/memories/", 200, memory.clone()),
            ("PUT /v1/memories/", 200, memory),
            ("DELETE /v1/memories/", 200, json!({ "message": "deleted" })),
            ("GET /v1/events/", 200, json!({ "results": [event.clone()] })),
            ("GET /v1/event/e1", 200, event),
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn mem0_remembers_and_tells_where_its_server_is_granted() {
    let server = mem0_server();
    // Looks like a key and is none.
    let key = ["m0", "-test"].concat();
    let config = json!({ "apiKey": key, "userId": "me", "baseUrl": server.url() });
    let mut permissions = Permissions { hosts: vec![server.grant()], ..Permissions::default() };
    let _home = home(&mut permissions);
    let package = "@mem0/openclaw-mem0";
    let (granted, prints) = load_with(package, config.clone(), permissions).await;
    let (denied, _) = load_with(package, config, Permissions::default()).await;
    let calls = [
        ("memory_search", json!({ "query": "deploy" }), "deploys on fridays"),
        ("memory_add", json!({ "text": "The user deploys on fridays", "category": "preference" }), "tored"),
        ("memory_get", json!({ "memoryId": "m1" }), "deploys on fridays"),
        ("memory_list", json!({}), "deploys on fridays"),
        ("memory_update", json!({ "memoryId": "m1", "text": "deploys on mondays" }), "Updated memory m1"),
        ("memory_delete", json!({ "memoryId": "m1" }), "deleted"),
        ("memory_event_list", json!({}), "e1"),
        ("memory_event_status", json!({ "event_id": "e1", "eventId": "e1" }), "SUCCEEDED"),
    ];
    let names: std::collections::BTreeSet<&str> = calls.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, granted.names(OfferKind::Tool).into_iter().collect());
    for (name, params, answer) in calls {
        let said = granted.tool(name, params.clone()).await;
        assert!(said.contains(answer), "{name}: {said} {:?}", server.asked.lock().unwrap());
        server.forget();
        let said = denied.tool(name, params).await;
        assert!(said.contains("missing grant: hosts: 127.0.0.1"), "{name}: {said}");
        assert!(!server.was_asked(""), "{name}");
    }
    server.forget();
    let fired = granted.fire_all().await;
    assert!(fired.contains(&"before_prompt_build") && fired.contains(&"agent_end"), "{fired:?}");
    assert!(server.was_asked("POST /v3/memories/"), "{:?}", server.asked.lock().unwrap());
    granted.services().await;
    let cli = granted.names(OfferKind::Cli)[0].to_owned();
    let help = run(&granted, &prints, &[&cli, "--help"]).await;
    assert!(help.contains("init") && help.contains("search"), "{help}");
    for words in [[&cli, "search", "--help"], [&cli, "init", "--help"]] {
        let said = run(&granted, &prints, &words).await;
        assert!(said.contains("--") && !said.contains("Error: "), "{words:?}: {said}");
    }
    let said = run(&granted, &prints, &[&cli, "search", "deploy"]).await;
    assert!(said.contains("deploys on fridays"), "{said}");
}
