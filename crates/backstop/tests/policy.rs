//! Under which policy entries of the trail were written.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use backstop::config::{LayerKind, Loaded, Loader, Source};
use backstop::engine::{Attendance, HookOptions};
use backstop::hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop::hooks::{ApprovalRequest, CallContext, Decision, Digest, OwnerId, Params, hook_fn};
use backstop::store::{AuditEntry, AuditFilter, DigestKey, PersonsAnswer, SqliteStore, Store, Timestamp};
use backstop::{Backstop, CONFIGURATION_READ, Cause, HookTypes, store_in_file};
use serde_json::{Value, json};
use tempfile::TempDir;

fn load(folder: &Path, text: &str, token: &str) -> Loaded {
    let name = folder.join("backstop.yaml").display().to_string();
    let source = Source::new(LayerKind::Operator, name.as_str(), text);
    let sources = [Source { folder: Some(folder.to_path_buf()), ..source }];
    let environment = |name: &str| (name == "TOKEN").then(|| token.to_owned());
    Loader::new(HookTypes::built_in(&[]).names(), &environment).load(&sources).unwrap()
}

async fn built(loaded: Loaded, store: &Arc<dyn Store>) -> Backstop {
    Backstop::builder().config(loaded).store(Arc::clone(store)).build().await.unwrap()
}

async fn version_of(folder: &Path, text: &str, token: &str) -> String {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let backstop = built(load(folder, text, token), &store).await;
    let version = backstop.policy_version().as_str().to_owned();
    backstop.shut_down().await;
    version
}

fn exec(command: &str) -> ToolCallEvent {
    ToolCallEvent::new("exec", Params::from_value(json!({ "command": command })).unwrap())
}

async fn judge(backstop: &Backstop, command: &str) {
    let _ =
        backstop.engine().permit_tool_call(exec(command), &CallContext::default(), &Attendance::Nobody).await;
    assert!(backstop.audit().unwrap().flush().await);
}

async fn entries(store: &dyn Store) -> Vec<AuditEntry> {
    store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap()
}

/// Kinds, with the version that each names.
fn named(entries: &[AuditEntry]) -> Vec<(&str, Option<&str>)> {
    entries.iter().map(|entry| (entry.kind.as_str(), entry.policy.as_deref())).collect()
}

const ONE: &str = "{}";
const OTHER: &str = "guards: {command_safety: {profile: strict}}";

#[tokio::test]
async fn calls_of_the_former_configuration_name_the_former_version_after_a_reload() {
    let folder = TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let former = built(load(folder.path(), ONE, ""), &store).await;
    former.announce_configuration(Cause { what: "the start", by: None }).await.unwrap();
    judge(&former, "ls").await;
    let next = built(load(folder.path(), OTHER, ""), &store).await;
    next.announce_configuration(Cause { what: "a reload", by: Some("ann") }).await.unwrap();
    judge(&next, "ls").await;
    judge(&former, "pwd").await;
    let (was, is) = (former.policy_version(), next.policy_version());
    assert_ne!(was, is);
    let all = entries(store.as_ref()).await;
    let (was, is) = (Some(was.as_str()), Some(is.as_str()));
    let expected = [
        (CONFIGURATION_READ, was),
        ("receipt", was),
        (CONFIGURATION_READ, is),
        ("receipt", is),
        ("receipt", was),
    ];
    assert_eq!(named(&all), expected);
    let read: Vec<_> = all.iter().filter(|entry| entry.kind == CONFIGURATION_READ).collect();
    assert_eq!((&read[1].body["cause"], &read[1].body["by"]), (&json!("a reload"), &json!("ann")));
    former.shut_down().await;
    next.shut_down().await;
}

#[tokio::test]
async fn a_process_that_announces_nothing_says_what_its_version_is_before_the_first_entry() {
    let folder = TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let backstop = built(load(folder.path(), ONE, ""), &store).await;
    judge(&backstop, "ls").await;
    let version = backstop.policy_version();
    let all = entries(store.as_ref()).await;
    assert_eq!(
        named(&all),
        [(CONFIGURATION_READ, Some(version.as_str())), ("receipt", Some(version.as_str()))]
    );
    assert_eq!(all[0].body.get("cause"), None);
    backstop.shut_down().await;
}

#[tokio::test]
async fn questions_and_answers_name_the_version_wherever_they_are_kept() {
    let folder = TempDir::new().unwrap();
    for elsewhere in [false, true] {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
        let mut builder = Backstop::builder().config(load(folder.path(), ONE, "")).store(Arc::clone(&store));
        if elsewhere {
            builder = builder.answer_store(Arc::new(SqliteStore::for_answers(Arc::clone(&store))));
        }
        let backstop = builder.build().await.unwrap();
        let asks = hook_fn::<BeforeToolCall, _>(|_: &ToolCallEvent, _| {
            Ok(Some(ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "really"))))
        });
        let options = HookOptions::new(OwnerId::new("test")).id("gate");
        backstop.engine().registry().on(asks, options).unwrap();
        let engine = backstop.engine().clone();
        let asking = tokio::spawn(async move {
            engine
                .permit_tool_call(exec("ls"), &CallContext::default(), &Attendance::Queue)
                .await
                .permit
                .is_ok()
        });
        let answers = backstop.engine().answer_store();
        let asked = loop {
            let waiting = answers.open_approvals(Timestamp::now(), 0, 9).await.unwrap();
            if let Some(asked) = waiting.records.first() {
                break asked.id.clone();
            }
            tokio::task::yield_now().await;
        };
        let answer = PersonsAnswer::new(Decision::AllowOnce, "ann", Timestamp::now());
        answers.answer_approval(&asked, answer).await.unwrap();
        assert!(asking.await.unwrap());
        assert!(backstop.audit().unwrap().flush().await);
        let all = entries(store.as_ref()).await;
        let kinds: Vec<_> = all.iter().map(|entry| entry.kind.as_str()).collect();
        for kind in ["approval.asked", "approval.answered", "receipt"] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
        let version = backstop.policy_version();
        assert!(
            all.iter().all(|entry| entry.policy.as_deref() == Some(version.as_str())),
            "{:?}",
            named(&all)
        );
        assert_eq!(kinds.iter().filter(|kind| **kind == CONFIGURATION_READ).count(), 1);
        backstop.shut_down().await;
    }
}

#[tokio::test]
async fn what_is_digested_of_a_file_is_what_was_read_of_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("formats.yaml");
    let format = |word: &str| {
        format!(
            "[{{kind: acme_member, what: a member, source: a handbook, words: [{word}], formats: ['<digit:8>'], matches: ['{word} <digit:8>'], near_misses: ['order <digit:8>']}}]"
        )
    };
    fs::write(&path, format("member")).unwrap();
    let text = format!("guards: {{personal_data: {{formats: ['{}']}}}}", path.display());
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let backstop = built(load(folder.path(), &text, ""), &store).await;
    // It holds something else by the time anybody asks.
    let read = format("member");
    fs::write(&path, format("fellow")).unwrap();
    let told: Value = serde_json::from_str(backstop.policy_version().told().as_str()).unwrap();
    assert_eq!(told["named"]["formats.yaml"], json!(Digest::of_text("file", &read)), "{told}");
    let changed = version_of(folder.path(), &text, "").await;
    assert_ne!(backstop.policy_version().as_str(), changed, "another file is another version");
    fs::write(&path, read).unwrap();
    assert_eq!(backstop.policy_version().as_str(), version_of(folder.path(), &text, "").await);
    backstop.shut_down().await;
}

/// As docs/digests.md has it.
#[tokio::test]
async fn a_version_is_computed_anew_from_what_is_told_of_it() {
    let folder = TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let loaded = load(folder.path(), OTHER, "");
    let configuration = loaded.digest();
    let backstop = built(loaded, &store).await;
    let told: Value = serde_json::from_str(backstop.policy_version().told().as_str()).unwrap();
    assert_eq!(told["digest"], json!(configuration));
    let parts = json!({
        "program": told["program"], "configuration": told["digest"], "files": told["named"], "plugins": told["plugins"],
    });
    assert_eq!(backstop.policy_version().as_str(), Digest::of("policy", &parts).to_string());
    backstop.shut_down().await;
}

#[tokio::test]
async fn what_variables_hold_counts_only_by_the_key_of_digests_and_no_secret_is_told() {
    let folder = TempDir::new().unwrap();
    let key = folder.path().join("digest.key");
    let key_id = DigestKey::create(&key).unwrap().id().to_owned();
    let (secret, other) = (["sec", "ret-1"].concat(), ["sec", "ret-2"].concat());
    let plain = "agent: {system_prompt: '${TOKEN}'}".to_owned();
    let keyed = format!("{plain}\naudit: {{digest_key: '{}'}}", key.display());
    for (text, counts) in [(&plain, false), (&keyed, true)] {
        let mut versions = BTreeMap::new();
        for token in [&secret, &other] {
            let loaded = load(folder.path(), text, token);
            let variables = loaded.readings.variables().unwrap();
            let texts = loaded.readings.texts()[0].1;
            let store: Arc<dyn Store> =
                Arc::new(store_in_file(&loaded, folder.path().join("backstop.db")).unwrap());
            let backstop = built(loaded, &store).await;
            judge(&backstop, "ls").await;
            versions.insert(token.clone(), backstop.policy_version().as_str().to_owned());
            let all = entries(store.as_ref()).await;
            let read = all.iter().find(|entry| entry.kind == CONFIGURATION_READ).unwrap();
            let body = read.body.to_value();
            let mut parts = json!({
                "program": body["program"], "configuration": body["digest"], "files": body["named"], "plugins": body["plugins"],
            });
            if let Some(given) = body.get("variables") {
                parts["variables"] = given.clone();
            }
            assert_eq!(body.get("variables").is_some(), counts, "{body}");
            let computed = Digest::of("policy", &parts).to_string();
            assert_eq!(read.policy.as_deref(), Some(computed.as_str()), "as docs/digests.md has it: {body}");
            let all =
                serde_json::to_string(&all.iter().map(|entry| entry.body.to_value()).collect::<Vec<_>>())
                    .unwrap();
            for digest in [variables, texts, Digest::of_text("text", token)] {
                assert!(!all.contains(&digest.prefix(64)), "{all}");
            }
            assert!(!all.contains(token.as_str()), "{all}");
            assert_eq!(all.contains(&key_id), counts);
            backstop.shut_down().await;
        }
        assert_eq!(versions[&secret] != versions[&other], counts, "{text}");
        fs::remove_dir_all(folder.path().join("backstop.trail")).unwrap();
    }
}

#[tokio::test]
async fn the_same_policy_has_the_same_version_and_another_has_another() {
    let folder = TempDir::new().unwrap();
    let elsewhere = TempDir::new().unwrap();
    let text = "# a comment\nguards: {command_safety: {profile: strict}, hidden_text: {prompts: block}}";
    let same = "guards:\n  hidden_text: {prompts: block}\n  command_safety: {profile: strict}\n";
    let version = version_of(folder.path(), text, "").await;
    assert_eq!(version, version_of(folder.path(), same, "").await);
    assert_eq!(version, version_of(elsewhere.path(), same, "").await, "it does not matter where the file is");
    assert_ne!(version, version_of(folder.path(), OTHER, "").await);
}
