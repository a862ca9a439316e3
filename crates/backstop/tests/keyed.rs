//! Digests in the audit trail that only who has the key can compare.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use backstop::config::{LayerKind, Loaded, Loader, Source};
use backstop::engine::{Attendance, HookOptions, Receipt, ReceiptSink};
use backstop::hooks::conversation::Message;
use backstop::hooks::points::{
    BeforeLlmCall, BeforeLlmCallEvent, BeforeToolCall, ToolCallEvent, ToolCallOutcome,
};
use backstop::hooks::{
    ApprovalRequest, CallContext, Decision, Digest, HookError, OwnerId, Params, Substitute, hook_fn,
};
use backstop::store::{
    ApprovalFilter, ApprovalStatus, AuditEntry, AuditFilter, DigestKey, PersonsAnswer, SqliteStore, Store,
    Timestamp,
};
use backstop::{Backstop, BuildError, Cause, HookTypes, digest_key, store_in_file};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Keeps receipts as they are told at the time.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<Value>>);

impl ReceiptSink for Told {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap().push(serde_json::to_value(receipt).unwrap());
    }
}

/// A folder with a database, and a configuration that names a key.
struct Place {
    folder: TempDir,
    is_keyed: bool,
}

impl Place {
    fn new(is_keyed: bool) -> Self {
        Self { folder: TempDir::new().unwrap(), is_keyed }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn loaded(&self) -> Loaded {
        let file = self.path("digest.key");
        let text = match self.is_keyed {
            true => format!("audit: {{digest_key: \"{}\"}}\n", file.display()),
            false => "{}".to_owned(),
        };
        let sources = [Source::new(LayerKind::Operator, "backstop.yaml", text.as_str())];
        Loader::new(HookTypes::built_in(&[]).names(), &|_| None).load(&sources).unwrap()
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(store_in_file(&self.loaded(), self.path("backstop.db")).unwrap())
    }

    async fn built(&self, told: &Arc<Told>) -> Backstop {
        let told = Arc::clone(told) as Arc<dyn ReceiptSink>;
        let builder = Backstop::builder().config(self.loaded()).store(self.store()).sink(told);
        let backstop = builder.build().await.unwrap();
        let hook = hook_fn::<BeforeToolCall, _>(|event: &ToolCallEvent, _| {
            let command = event.params.get("command").and_then(Value::as_str).unwrap_or_default();
            Ok(match command.split(' ').next().unwrap_or_default() {
                "block" => Some(ToolCallOutcome::block("it is short")),
                "ask" => Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "really"))),
                "fail" => return Err(HookError::failed("words that can be guessed")),
                _ => None,
            })
        });
        let options = HookOptions::new(OwnerId::new("test")).id("gate");
        backstop.engine().registry().on(hook, options).unwrap();
        let watches = hook_fn::<BeforeLlmCall, _>(|_, _| Ok(None));
        let options = HookOptions::new(OwnerId::operator()).id("watches");
        backstop.engine().registry().on(watches, options).unwrap();
        backstop
    }
}

fn exec(command: &str) -> ToolCallEvent {
    ToolCallEvent::new("exec", Params::from_value(json!({ "command": command })).unwrap())
}

/// Has calls judged, and questions answered in every way.
async fn lived(backstop: &Backstop) {
    backstop.announce_configuration(Cause { what: "a test", by: None }).await.unwrap();
    let (engine, call) = (backstop.engine(), CallContext::default());
    for command in ["ls", "ls", "block", "fail", "ask nobody"] {
        let _ = engine.permit_tool_call(exec(command), &call, &Attendance::Nobody).await;
    }
    let event = BeforeLlmCallEvent {
        run_id: "r1".into(),
        messages: vec![Message::user("yes")],
        system_prompt: "".into(),
        model: "model".to_owned(),
        other_models: None,
        provider: "provider".to_owned(),
        iteration: 0,
        tools: Vec::new(),
        token_estimate: 1,
        answer_tokens: None,
    };
    drop(engine.decide::<BeforeLlmCall>(event, &call).await);
    let now = Timestamp::now;
    let arguments = Params::from_value(json!({ "command": "ask edited" })).unwrap();
    let decided = |decision| PersonsAnswer::new(decision, "ann", now());
    let answers = [
        decided(Decision::AllowOnce),
        decided(Decision::Deny),
        decided(Decision::AllowAlways),
        PersonsAnswer::respond("yes", "ann", now()).unwrap(),
        PersonsAnswer::edit(arguments, "ann", now()).unwrap(),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let asked = engine.clone();
        let substitutes = [Substitute::Edit, Substitute::Respond];
        let task = tokio::spawn(async move {
            let event = exec(&format!("ask {number}"));
            asked.permit_or_substitute(event, &CallContext::default(), &Attendance::Queue, &substitutes).await
        });
        answered(backstop.store(), answer).await;
        if number == 4 {
            answered(backstop.store(), decided(Decision::AllowOnce)).await;
        }
        let _ = task.await.unwrap();
    }
}

/// Answers the question that waits.
async fn answered(store: &Arc<dyn Store>, answer: PersonsAnswer) {
    loop {
        let rows = store.approvals(ApprovalFilter::All, 100).await.unwrap();
        let pending = rows
            .iter()
            .find(|row| row.state.status() == ApprovalStatus::Pending && row.request.title == "sure?");
        if let Some(row) = pending {
            store.answer_approval(&row.id, answer).await.unwrap();
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// All texts in a value that are digests, but that of the set of hooks.
fn digests(value: &Value, found: &mut BTreeSet<Digest>) {
    match value {
        Value::String(text) => found.extend(text.parse::<Digest>()),
        Value::Array(items) => items.iter().for_each(|item| digests(item, found)),
        Value::Object(fields) => {
            fields.iter().filter(|(name, _)| *name != "hookSet").for_each(|(_, value)| digests(value, found));
        }
        _ => {}
    }
}

/// Everything in the files below a folder.
fn bytes(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.push_str(&bytes(&path)),
            false => all.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap())),
        }
    }
    all
}

async fn entries(store: &dyn Store) -> Vec<AuditEntry> {
    store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap()
}

/// A value without what differs each time, and without what says by which key it is.
fn of_every_run(value: &Value) -> Value {
    const DIFFERS: [&str; 9] =
        ["id", "at", "elapsedUs", "approval", "editedFrom", "grant", "until", "digestKey", "files"];
    match value {
        Value::Array(items) => items.iter().map(of_every_run).collect(),
        Value::Object(fields) => {
            let stay = fields.iter().filter(|(name, _)| !DIFFERS.contains(&name.as_str()));
            Value::Object(stay.map(|(name, value)| (name.clone(), of_every_run(value))).collect())
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn no_entry_has_a_plain_digest_of_what_was_judged_and_equal_calls_have_equal_ones() {
    let place = Place::new(true);
    let key = DigestKey::create(&place.path("digest.key")).unwrap();
    let told = Arc::new(Told::default());
    let backstop = place.built(&told).await;
    lived(&backstop).await;
    assert!(backstop.audit().unwrap().flush().await);
    let mut plain = BTreeSet::new();
    told.0.lock().unwrap().iter().for_each(|receipt| digests(receipt, &mut plain));
    plain.extend(["ls", "ask edited"].map(|command| backstop::engine::tool_call_digest(&exec(command))));
    assert!(plain.len() > 10, "{plain:?}");
    let entries = entries(backstop.store().as_ref()).await;
    let kinds: BTreeSet<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
    for kind in ["receipt", "approval.answered", "configuration.read", "grant.given", "hooks"] {
        assert!(kinds.contains(kind), "{kinds:?}");
    }
    let all = serde_json::to_string(&entries.iter().map(|entry| entry.body.to_value()).collect::<Vec<_>>())
        .unwrap();
    let files = bytes(&place.path("backstop.trail"));
    for digest in &plain {
        assert!(!all.contains(&digest.prefix(64)) && !files.contains(&digest.prefix(64)), "{digest}: {all}");
        assert!(all.contains(&key.keyed(digest)), "{digest} is nowhere: {all}");
    }
    // Whatever else is a digest is one of those that are harmless.
    for entry in &entries {
        let (mut left, mut body) = (BTreeSet::new(), entry.body.to_value());
        if entry.kind == "configuration.read" {
            assert_eq!(body["digestKey"], key.id());
            body = Value::Null;
        }
        digests(&body, &mut left);
        assert!(left.is_empty(), "{}: {body}", entry.kind);
    }
    let judged: Vec<_> = entries
        .iter()
        .filter(|entry| {
            entry.body["judged"] == json!(key.keyed(&backstop::engine::tool_call_digest(&exec("ls"))))
        })
        .collect();
    assert_eq!(judged.len(), 2, "one call that was judged twice");
    let edited =
        entries.iter().find(|entry| entry.body.get("editedFrom").is_some_and(Value::is_object)).unwrap();
    let answered =
        |entry: &&AuditEntry| entry.kind == "approval.answered" && entry.body.get("given").is_some();
    let from = &edited.body["editedFrom"]["digest"];
    assert!(
        entries.iter().filter(answered).any(|entry| &entry.body["digest"] == from),
        "they belong together"
    );
    backstop.store().verify_audit(None).await.unwrap();
    backstop.shut_down().await;
}

#[tokio::test]
async fn without_a_key_the_same_is_written_as_ever() {
    let (keyed, plain) = (Place::new(true), Place::new(false));
    let key = DigestKey::create(&keyed.path("digest.key")).unwrap();
    let mut written = Vec::new();
    for place in [&keyed, &plain] {
        let backstop = place.built(&Arc::default()).await;
        lived(&backstop).await;
        assert!(backstop.audit().unwrap().flush().await);
        written.push(entries(backstop.store().as_ref()).await);
        backstop.shut_down().await;
    }
    // One is the other, but for digests, and what says by which key they are. Receipts that nobody waits for may come later.
    let [keyed, plain] = [&written[0], &written[1]].map(|entries| {
        let judged = entries.iter().filter(|entry| entry.kind != "configuration.read");
        let texts = judged.map(|entry| json!([entry.kind, of_every_run(&entry.body.to_value())]).to_string());
        texts.collect::<Vec<_>>()
    });
    let mut found = BTreeSet::new();
    written[1].iter().for_each(|entry| digests(&entry.body.to_value(), &mut found));
    let as_keyed = |text: &String| {
        assert!(!text.contains("hmac"), "{text}");
        found.iter().fold(text.clone(), |text, digest| text.replace(&digest.to_string(), &key.keyed(digest)))
    };
    let sorted = |texts: Vec<String>| texts.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(plain.len(), keyed.len());
    assert!(written[1].iter().all(|entry| entry.body.get("digestKey").is_none()));
    assert_eq!(sorted(plain.iter().map(as_keyed).collect()), sorted(keyed));
}

#[tokio::test]
async fn nothing_is_judged_without_the_key() {
    let place = Place::new(true);
    let path = place.path("digest.key");
    let refused = async || {
        let told = [digest_key(&place.loaded()).unwrap_err().to_string(), {
            let built = Backstop::builder().config(place.loaded()).build().await;
            built.err().unwrap().to_string()
        }];
        assert_eq!(told[0], told[1]);
        assert!(store_in_file(&place.loaded(), place.path("backstop.db")).is_err());
        told[0].clone()
    };
    let told = refused().await;
    assert!(told.contains(&path.display().to_string()) && told.contains("backstop.yaml:1"), "{told}");
    assert!(told.contains("backstop audit keygen"), "{told}");
    let key = DigestKey::create(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(refused().await.contains("chmod 600"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, text.get(..20).unwrap()).unwrap();
    let told = refused().await;
    assert!(told.contains("holds no key") && !told.contains(text.get(..20).unwrap()), "{told}");
    fs::write(&path, &text).unwrap();
    // In memory it is keyed, too, and a store that was opened otherwise is not taken.
    let built = Backstop::builder().config(place.loaded()).build().await.unwrap();
    assert_eq!(built.store().digest_key().unwrap().id(), key.id());
    built.shut_down().await;
    let other = Arc::new(DigestKey::create(&place.path("other.key")).unwrap());
    for store in [SqliteStore::in_memory(), SqliteStore::in_memory_with_digest_key(Some(other))] {
        let built = Backstop::builder().config(place.loaded()).store(Arc::new(store)).build().await;
        assert!(matches!(built.err(), Some(BuildError::DigestKey)));
    }
    // Nor one for answers that are recorded elsewhere, as a daemon's from before the key was named.
    let before: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    for (trail, is_taken) in [(before, false), (place.store(), true)] {
        let answers = Arc::new(SqliteStore::for_answers(trail));
        let builder = Backstop::builder().config(place.loaded()).store(place.store()).answer_store(answers);
        let built = builder.build().await;
        assert_eq!(built.is_ok(), is_taken);
    }
}

#[test]
fn no_repository_names_a_key() {
    let text = "audit: {digest_key: /tmp/known.key}\n";
    let sources = [Source::new(LayerKind::Repository, ".backstop.yaml", text)];
    let loaded = Loader::new(HookTypes::built_in(&[]).names(), &|_| None).load(&sources);
    assert!(loaded.map_or(true, |loaded| loaded.config.audit.digest_key.is_none()));
}
