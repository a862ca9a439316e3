//! Digests in the trail that only who has the key can compare.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::Arc;

use backstop_hooks::{Decision, Digest, Params, Severity, Substitute};
use backstop_store::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_VOTED, AUDIT_HOOKS, ApprovalFilter, ApprovalReason,
    ApprovalState, ApprovalStore as _, AuditBody, AuditEntry, AuditFilter, AuditStore as _, DigestKey,
    DigestKeyError, Durability, EditedFrom, GRANT_GIVEN, MAX_AUDIT_BYTES, NewApproval, NewAuditEntry,
    PersonsAnswer, SqliteStore, Store,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{at, block_on, digest, question};
use crate::votes::{by, everybody, routed};

/// A folder with a key in it.
struct Keyed {
    folder: TempDir,
    key: Arc<DigestKey>,
}

impl Keyed {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let key = DigestKey::create(&folder.path().join("digest.key")).unwrap();
        Self { folder, key: Arc::new(key) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("state.db")
    }

    /// The stores that there are, with the key and without.
    fn stores(&self, is_keyed: bool) -> [Arc<dyn Store>; 2] {
        let key = is_keyed.then(|| Arc::clone(&self.key));
        [
            Arc::new(SqliteStore::with_digest_key(self.path(), key.clone())),
            Arc::new(SqliteStore::in_memory_with_digest_key(key)),
        ]
    }
}

async fn entries(store: &dyn Store) -> Vec<AuditEntry> {
    store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap()
}

fn event(kind: &str, body: Value) -> NewAuditEntry {
    NewAuditEntry { at: at(5), kind: kind.to_owned(), session: None, run: None, body: body.into() }
}

/// Everything that a transaction says about a call; returns the digests of what it said it about.
async fn all_answers(store: &dyn Store) -> Vec<Digest> {
    let both = vec![Substitute::Edit, Substitute::Respond];
    let open = |command: &str| NewApproval { substitutes: both.clone(), ..question(command) };
    for (command, decision) in [("ls", Decision::AllowOnce), ("rm", Decision::Deny)] {
        let asked = store.create_approval(question(command)).await.unwrap();
        store.resolve_approval(&asked.id, decision, "ann", at(1_500)).await.unwrap();
    }
    let edited = store.create_approval(open("date")).await.unwrap();
    let arguments = Params::from_value(json!({ "command": "date -u" })).unwrap();
    let given = PersonsAnswer::edit(arguments, "ann", at(1_500)).unwrap();
    let answered = store.answer_approval(&edited.id, given).await.unwrap();
    let ApprovalState::Edited(edit) = &answered.record.state else { panic!("it is edited") };
    let from = EditedFrom {
        approval: edited.id.clone(),
        by: "ann".to_owned(),
        person: None,
        digest: digest("date"),
        shown: json!({}).into(),
    };
    let again = NewApproval { edited_from: Some(from), ..question("date -u") };
    let again = store.create_approval(again).await.unwrap();
    store.resolve_approval(&again.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let responded = store.create_approval(open("who")).await.unwrap();
    let given = PersonsAnswer::respond("nobody", "ann", at(1_500)).unwrap();
    let answered = store.answer_approval(&responded.id, given).await.unwrap();
    let ApprovalState::Responded(respond) = &answered.record.state else { panic!("it is") };
    let people = everybody();
    let several = store.create_approval(NewApproval { digest: digest("votes"), ..routed(2) }).await.unwrap();
    for user in ["ann", "bob"] {
        let vote = PersonsAnswer::new(Decision::AllowOnce, by(&people, user), at(1_500));
        store.answer_approval(&several.id, vote).await.unwrap();
    }
    store.add_grant(crate::grants::grant(crate::grants::of_call())).await.unwrap();
    let texts = ["ls", "rm", "date", "date -u", "who", "votes"];
    texts.iter().map(|text| digest(text)).chain([edit.given, respond.given]).collect()
}

#[tokio::test]
async fn nothing_that_a_transaction_says_has_a_plain_digest() {
    let keyed = Keyed::new();
    for store in keyed.stores(true) {
        let digests = all_answers(store.as_ref()).await;
        let entries = entries(store.as_ref()).await;
        let kinds: Vec<_> = entries.iter().map(|entry| entry.kind.as_str()).collect();
        for kind in [APPROVAL_ANSWERED, APPROVAL_VOTED, GRANT_GIVEN] {
            assert!(kinds.contains(&kind), "{kinds:?}");
        }
        let all =
            serde_json::to_string(&entries.iter().map(|entry| entry.body.to_value()).collect::<Vec<_>>())
                .unwrap();
        for digest in &digests {
            assert!(!all.contains(&digest.prefix(64)), "{all}");
            assert!(all.contains(&keyed.key.keyed(digest)), "{digest} is not there: {all}");
        }
        assert!(!all.contains("\"sha256:"), "{all}");
        for entry in entries.iter().filter(|entry| entry.body.to_value().to_string().contains("hmac-sha256:"))
        {
            assert_eq!(entry.body.get("digestKey"), Some(&json!(keyed.key.id())), "{entry:?}");
        }
        store.verify_audit(None).await.unwrap();
        // The rows that find a call keep what they need for it.
        assert!(
            store
                .approvals(ApprovalFilter::All, 99)
                .await
                .unwrap()
                .iter()
                .any(|row| row.request.digest == digest("ls"))
        );
    }
}

#[tokio::test]
async fn without_a_key_entries_are_what_they_were() {
    let keyed = Keyed::new();
    for store in keyed.stores(false) {
        let digests = all_answers(store.as_ref()).await;
        let all = serde_json::to_string(&entries(store.as_ref()).await).unwrap();
        for digest in digests {
            assert!(all.contains(&format!("\"{digest}\"")), "{all}");
        }
        assert!(!all.contains("hmac") && !all.contains("digestKey"), "{all}");
        let body = AuditBody::from(json!({ "judged": digest("ls"), "n": 1.5 }));
        store
            .append_audit(NewAuditEntry { body: body.clone(), ..event("receipt", json!({})) })
            .await
            .unwrap();
        let last = entries(store.as_ref()).await.pop().unwrap();
        assert_eq!(AuditBody::from(last.body.to_value()), body);
    }
}

#[tokio::test]
async fn what_is_no_digest_of_what_was_judged_stays() {
    let keyed = Keyed::new();
    let (plain, judged) = (digest("set"), digest("ls"));
    for store in keyed.stores(true) {
        let bodies = [
            (
                AUDIT_HOOKS,
                json!({ "hookSet": plain, "from": 0, "of": 1, "hooks": [{ "hook": plain.to_string() }] }),
            ),
            ("configuration.read", json!({ "digest": plain, "named": { "rules.yaml": plain } })),
            ("plugin.installed", json!({ "plugin": "p", "hash": plain })),
            ("chain", json!({ "entries": 3, "digest": plain })),
            ("approval.asked", json!({ "workspace": plain.to_string() })),
        ];
        let new = bodies.iter().map(|(kind, body)| event(kind, body.clone())).collect();
        store.append_audit_all(new, Durability::Soon).await.unwrap();
        let found = entries(store.as_ref()).await;
        for ((kind, body), entry) in bodies.iter().zip(&found) {
            assert_eq!((entry.kind.as_str(), &entry.body.to_value()), (*kind, body));
        }
        // The same names in other entries, and other names in these, are no excuse.
        let body = json!({ "hookSet": plain, "digest": judged, "hash": judged, "workspace": "/w" });
        let receipt = store.append_audit(event("receipt", body.clone())).await.unwrap().body.to_value();
        assert_eq!(receipt["hookSet"], json!(plain));
        assert_eq!(receipt["digest"], json!(keyed.key.keyed(&judged)));
        let once = json!({ "digest": keyed.key.keyed(&judged) });
        let again = store.append_audit(event("of a later version", once.clone())).await.unwrap();
        assert_eq!(again.body.to_value(), once, "what is keyed is not keyed again");
        let other = store.append_audit(event("of a later version", body)).await.unwrap().body.to_value();
        assert!(!other.to_string().contains("\"sha256:"), "{other}");
        let made = "call_0123456789ab_2";
        let body =
            json!({ "toolCallId": made, "tool": "call_0123456789ab", "client": "call_0123456789ax_1" });
        let entry = store.append_audit(event("receipt", body)).await.unwrap().body.to_value();
        assert_eq!(
            (&entry["tool"], &entry["client"]),
            (&json!("call_0123456789ab"), &json!("call_0123456789ax_1"))
        );
        let named = keyed.key.keyed_call(made).unwrap();
        assert!(
            entry["toolCallId"] == named && named.starts_with("call_keyed_") && named.ends_with("_2"),
            "{entry}"
        );
        assert!(!entry.to_string().contains(made) && entry["digestKey"] == keyed.key.id(), "{entry}");
        let long = "s".repeat(300);
        let entry = NewAuditEntry {
            session: Some(long.as_str().into()),
            ..event("receipt", json!({ "sessionId": backstop_store::audit_id(&long), "judged": judged }))
        };
        let entry = store.append_audit(entry).await.unwrap();
        assert_eq!(
            entry.body.get("sessionId").and_then(Value::as_str),
            entry.session.as_ref().map(AsRef::as_ref)
        );
    }
}

#[tokio::test]
async fn a_name_that_was_made_of_a_secret_is_keyed() {
    let keyed = Keyed::new();
    let (made, other) = ("redacted-0123456789ab", "redacted-0123456789ax");
    for store in keyed.stores(true) {
        let body = json!({ "tool": made, "calledAs": other });
        let entry = store.append_audit(event("receipt", body)).await.unwrap().body.to_value();
        let named = keyed.key.keyed_name(made).unwrap();
        assert!(entry["tool"] == named && named.starts_with("redacted-keyed-"), "{entry}");
        assert!(entry["calledAs"] == other && entry["digestKey"] == keyed.key.id(), "{entry}");
        assert!(!entry.to_string().contains(made), "{entry}");
    }
    assert_eq!(keyed.key.keyed_name("redacted-0123456789abc"), None);
}

#[tokio::test]
async fn one_key_has_one_digest_for_equal_calls_and_another_key_another() {
    let (one, other) = (Keyed::new(), Keyed::new());
    let again = DigestKey::read(&one.folder.path().join("digest.key")).unwrap();
    assert_eq!((again.id(), again.keyed(&digest("ls"))), (one.key.id(), one.key.keyed(&digest("ls"))));
    assert_ne!(one.key.keyed(&digest("ls")), one.key.keyed(&digest("pwd")));
    assert_ne!(
        (one.key.id(), one.key.keyed(&digest("ls"))),
        (other.key.id(), other.key.keyed(&digest("ls")))
    );
    // Two processes with different keys, and one with none: each entry says what it is.
    for key in [Some(&one.key), Some(&other.key), None] {
        let store = SqliteStore::with_digest_key(one.path(), key.cloned());
        store
            .append_audit(event("receipt", json!({ "judged": digest("ls"), "original": digest("ls") })))
            .await
            .unwrap();
        store.conclude_audit().await.unwrap();
    }
    let store = SqliteStore::new(one.path());
    let found = entries(&store).await;
    let named: Vec<_> =
        found.iter().filter(|entry| entry.kind == "receipt").map(|entry| entry.body.to_value()).collect();
    let of = |key: &DigestKey| json!({ "judged": key.keyed(&digest("ls")), "original": key.keyed(&digest("ls")), "digestKey": key.id() });
    assert_eq!(
        named,
        [of(&one.key), of(&other.key), json!({ "judged": digest("ls"), "original": digest("ls") })]
    );
    store.verify_audit(None).await.unwrap();
}

#[tokio::test]
async fn an_answer_kept_elsewhere_is_said_in_the_keyed_trail() {
    let keyed = Keyed::new();
    let store = Arc::new(SqliteStore::with_digest_key(keyed.path(), Some(Arc::clone(&keyed.key))));
    let answers = SqliteStore::for_answers(Arc::<SqliteStore>::clone(&store) as Arc<dyn Store>);
    let asked = answers.create_approval(question("ls")).await.unwrap();
    answers.resolve_approval(&asked.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let said = entries(store.as_ref()).await;
    let digests: Vec<_> = said.iter().filter_map(|entry| entry.body.get("digest").cloned()).collect();
    let of_call = json!(keyed.key.keyed(&digest("ls")));
    assert_eq!(digests, [of_call.clone(), of_call], "that of the question, and that of its answer");
}

#[tokio::test]
async fn what_a_key_makes_too_large_is_known_before() {
    let keyed = Keyed::new();
    let facts: Vec<_> = (0..800).map(|n: u32| Digest::of("fact", &n)).collect();
    let of = |fill: usize| AuditBody::from(json!({ "facts": facts, "fill": "x".repeat(fill) }));
    let fill = MAX_AUDIT_BYTES - of(0).as_str().len();
    for (store, plain) in keyed.stores(true).into_iter().zip(keyed.stores(false)) {
        assert!(plain.fits_audit(&of(fill)) && !plain.fits_audit(&of(fill + 1)));
        // Five more for each, and `,"digestKey":"…"`.
        let fits = fill - facts.len() * 5 - 31;
        assert!(store.fits_audit(&of(fits)) && !store.fits_audit(&of(fits + 1)));
        let body = of(fits);
        let entry = store.append_audit(NewAuditEntry { body, ..event("receipt", json!({})) }).await.unwrap();
        assert_eq!(entry.kind, "receipt", "what fits is there");
        let body = of(fill);
        let entry = store.append_audit(NewAuditEntry { body, ..event("receipt", json!({})) }).await.unwrap();
        assert_eq!((entry.kind.as_str(), entry.body.get("facts")), ("omitted", None));
    }
}

#[test]
fn a_key_is_made_once_and_is_its_owners_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("digest.key");
    let why = |error: DigestKeyError| error.to_string();
    assert!(why(DigestKey::read(&path).unwrap_err()).contains("can't be read"));
    let key = DigestKey::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(why(DigestKey::create(&path).unwrap_err()).contains("can't be written"), "it is never replaced");
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(DigestKey::read(&path).unwrap().id(), key.id());
    assert!(!format!("{key:?}").contains(text.trim()) && format!("{key:?}").contains(key.id()));
    let link = folder.path().join("mounted");
    symlink(&path, &link).unwrap();
    assert_eq!(DigestKey::read(&link).unwrap().id(), key.id(), "secrets that are mounted are links");
    for mode in [0o640, 0o604, 0o620, 0o602] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(why(DigestKey::read(&path).unwrap_err()).contains("chmod 600"));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for text in [
        "",
        "a password\n",
        text.get(..40).unwrap(),
        &format!("{0}{0}", text.trim()),
        &"x".repeat(9_000),
        &format!("{text}{}more", " ".repeat(9_000)),
    ] {
        fs::write(&path, text).unwrap();
        let told = why(DigestKey::read(&path).unwrap_err());
        assert!(told.contains("holds no key") && (text.is_empty() || !told.contains(text)), "{told}");
    }
    fs::write(&path, [0xff; 44]).unwrap();
    assert!(why(DigestKey::read(&path).unwrap_err()).contains("holds no key"));
    assert!(why(DigestKey::read(folder.path()).unwrap_err()).contains("no file"));
}

/// JSON of any shape, in which digests stand anywhere: as values, in texts, and as names of members.
fn bodies() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        3 => (0..4_u8).prop_map(|n| Digest::of("tool_call", &n).to_string()),
        1 => (0..4_u8, "[a-z:\\u{e9} ]{0,6}").prop_map(|(n, around)| format!("{around}{}{around}", Digest::of("tool_call", &n))),
        1 => "sha256:[0-9a-f]{0,63}",
        1 => "(sha256:){1,3}[a-f0-9]{64}",
        1 => ".{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text.clone().prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_plain_digest_stands_anywhere_in_an_entry(bodies in prop::collection::vec(("receipt|approval\\.answered|console\\.tried|other", bodies()), 1..6)) {
        let keyed = Keyed::new();
        let store = SqliteStore::in_memory_with_digest_key(Some(Arc::clone(&keyed.key)));
        let new: Vec<_> = bodies.iter().map(|(kind, body)| event(kind, json!({ "facts": body }))).collect();
        let found = block_on(async {
            store.append_audit_all(new.clone(), Durability::Soon).await.unwrap();
            entries(&store).await
        });
        for (new, entry) in new.iter().zip(&found) {
            let text = entry.body.to_value().to_string();
            for n in 0..4_u8 {
                let digest = Digest::of("tool_call", &n);
                prop_assert!(!text.contains(&digest.to_string()), "{text}");
                let was_there = new.body.as_str().contains(&digest.to_string());
                prop_assert_eq!(was_there, text.contains(&keyed.key.keyed(&digest)), "{}", text);
            }
            if !new.body.as_str().contains("sha256:") {
                prop_assert_eq!(&AuditBody::from(entry.body.to_value()), &new.body);
            }
        }
    }
}

/// Keyed digests are longer than plain ones.
#[tokio::test]
async fn a_question_whose_entry_is_too_large_by_its_keyed_digest_is_filed_without_its_rules() {
    let keyed = Keyed::new();
    for store in keyed.stores(true) {
        let asked = |bytes: usize| {
            let reason = ApprovalReason {
                owner: "builtin".into(),
                hook: "a".into(),
                title: "a title".into(),
                description: "a description".into(),
                severity: Severity::Critical,
                rules: ["r".repeat(bytes)].iter().map(|rule| rule.as_str().into()).collect(),
                program: None,
            };
            NewApproval { reasons: vec![reason], ..question("ls") }
        };
        let bodies = async || -> Vec<Value> {
            let all = entries(&*store).await;
            all.iter()
                .filter(|entry| entry.kind == APPROVAL_ASKED)
                .map(|entry| entry.body.to_value())
                .collect()
        };
        store.create_approval(asked(1_000)).await.unwrap();
        let longest = 1_000 + MAX_AUDIT_BYTES - bodies().await[0].to_string().len();
        for bytes in [longest, longest + 1] {
            store.create_approval(asked(bytes)).await.unwrap();
        }
        let omitted: Vec<_> = bodies().await.iter().map(|body| body.get("omitted").cloned()).collect();
        assert_eq!(omitted, [None, None, Some(json!(["rules"]))]);
    }
}

/// The documentation computes the same.
#[test]
fn a_keyed_digest_is_what_the_documentation_says() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("key");
    fs::write(&path, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let key = DigestKey::read(&path).unwrap();
    let digest = Digest::of("tool_call", &json!({ "tool": "exec", "params": { "command": "ls" } }));
    assert_eq!((key.id(), key.keyed(&digest).as_str()), (ID, KEYED));
}

const ID: &str = "626c1e848817ff8b";
const KEYED: &str = "hmac-sha256:74984911582c55f1359cf200e7f1a9fb4ea93ba0adde257d4b183c7223c623a8";
