//! What services post below `/-/surfaces/`.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::ApprovalSettings;
use backstop_gateway::Gateway;
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_hooks::{Decision, Digest, Severity, TimeoutBehavior};
use backstop_store::{
    ActionHandle, Addressee, ApprovalRecord, ApprovalState, GrantPlace, KnownBy, NewApproval, People,
    PersonName, SqliteStore, Timestamp, preview,
};
use backstop_surfaces::handle::Handle;
use backstop_surfaces::signature::SigningSecret;
use backstop_surfaces::{Ceiling, Desk, Egress, Holder, SurfaceName, Webhook, WebhookSettings};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use serde_json::json;

use crate::inspect::support::{House, settings_of};
use crate::support::*;

const SECRET: &str = "what-the-webhook-signs-with";

struct Server {
    house: House,
    gateway: Gateway,
    _folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::new(folder.path().join("state.db")));
        let people = People::new([(PersonName::new("ann"), vec![KnownBy::Webhook("ann".to_owned())])]);
        let approvals = ApprovalSettings { people: Arc::new(people), ..ApprovalSettings::default() };
        let house = House::asking(store, approvals);
        let webhook = Webhook::new(WebhookSettings {
            name: SurfaceName::new("pager").unwrap(),
            url: "https://pager.example/".parse().unwrap(),
            secret: SigningSecret::read(&"o".repeat(24)).unwrap(),
            answer_secret: SigningSecret::read(SECRET),
            ceiling: Ceiling::Once,
            egress: Egress::Public,
        });
        let desk = Desk::new(house.engine.clone(), vec![Arc::new(webhook)], None, None, Holder::default());
        let mut settings = settings_of("http://127.0.0.1:9");
        settings.surfaces = Some(desk);
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = start(settings, hooks).await.unwrap();
        Self { house, gateway, _folder: folder }
    }

    /// A question that the webhook was told, and the handle that denies it.
    async fn ask(&self) -> (ApprovalRecord, Handle) {
        let (arguments, now) = (json!({ "command": "ls" }), Timestamp::now());
        let request = NewApproval {
            agent: "main".into(),
            session_key: "chat".into(),
            workspace: None,
            session: "s1".into(),
            run: None,
            host: None,
            client: None,
            call: "c1".into(),
            tool_name: "exec".into(),
            digest: Digest::of("tool_call", &arguments),
            facts: None,
            title: "Run this?".into(),
            description: "".into(),
            severity: Severity::Warning,
            reasons: Vec::new(),
            place: GrantPlace::default(),
            preview: preview(&arguments).shown,
            whole: None,
            unseen: false,
            masked: 0,
            masked_at: Vec::new(),
            starts: None,
            amounts: Vec::new(),
            allowed_decisions: vec![Decision::AllowOnce, Decision::Deny],
            substitutes: Vec::new(),
            edited_from: None,
            given: None,
            created_at: now,
            expires_at: now.after(Duration::from_secs(600)),
            deadline: None,
            timeout_behavior: TimeoutBehavior::Deny,
            route: None,
            waiter: None,
        };
        let record = self.house.store.create_approval(request).await.unwrap();
        let handle = Handle::make().unwrap();
        let known = ActionHandle {
            hash: handle.hash(),
            approval: record.id.clone(),
            digest: record.request.digest,
            decision: Decision::Deny,
            addressee: Addressee { surface: "pager".to_owned(), place: String::new() },
            expires_at: record.request.expires_at,
        };
        self.house.store.add_handles(vec![known], now).await.unwrap();
        (record, handle)
    }

    async fn post(&self, id: &str, body: &str, secret: &str) -> Answer {
        talk(&self.gateway, posting("pager", id, body, secret)).await
    }
}

fn posting(name: &str, id: &str, body: &str, secret: &str) -> String {
    let seconds = Timestamp::now().as_millis() / 1_000;
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = BASE64_STANDARD.encode(hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes()));
    format!(
        "POST /-/surfaces/{name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\nwebhook-id: {id}\r\n\
         webhook-timestamp: {seconds}\r\nwebhook-signature: v1,{tag}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn only_what_a_service_signed_is_read_and_an_answer_counts_once() {
    let server = Server::start().await;
    let (record, handle) = server.ask().await;
    let answer = |handle: &str, user: &str| {
        json!({ "type": "approval.answer", "data": { "handle": handle, "user": user } }).to_string()
    };
    let deny = answer(handle.expose(), "ann");
    let forged = server.post("a1", &deny, "another-secret-of-somebody-else").await;
    assert_eq!((forged.status(), &forged.json()["type"]), (403, &json!("urn:backstop:problem:unsigned")));
    // Nobody learns by what is not JSON, or of another surface, that a signature is wrong.
    assert_eq!(server.post("a1", "{", "another-secret-of-somebody-else").await.status(), 403);
    assert_eq!(server.post("a1", "{", SECRET).await.status(), 422);
    assert_eq!(talk(&server.gateway, posting("phone", "a1", &deny, SECRET)).await.status(), 404);
    let elsewhere = posting("pager", "a1", &deny, SECRET).replace("host: localhost", "host: evil.example");
    assert_eq!(talk(&server.gateway, elsewhere).await.status(), 403);
    let looking = posting("pager", "a1", "", SECRET).replacen("POST", "GET", 1);
    let looked = talk(&server.gateway, looking).await;
    assert!(looked.status() == 405 && looked.head().contains("allow: POST"), "{}", looked.text());
    let large = posting("pager", "a1", &"x".repeat((256 << 10) + 1), SECRET);
    assert_eq!(talk(&server.gateway, large).await.status(), 413);
    let stranger = server.post("a2", &answer(handle.expose(), "eve"), SECRET).await;
    assert_eq!((stranger.status(), &stranger.json()["outcome"]), (403, &json!("stranger")));
    let state = async || server.house.store.approval(&record.id).await.unwrap().unwrap().state;
    assert_eq!(state().await, ApprovalState::Pending);
    let counts = server.post("a3", &deny, SECRET).await;
    assert_eq!((counts.status(), &counts.json()["outcome"]), (200, &json!("counts")));
    assert!(
        matches!(state().await, ApprovalState::Denied { by, .. } if by == "ann: webhook pager says: ann")
    );
    let again = server.post("a3", &deny, SECRET).await;
    assert_eq!((again.status(), &again.json()["outcome"]), (200, &json!("again")));
    let spent = server.post("a4", &deny, SECRET).await;
    assert_eq!((spent.status(), &spent.json()["outcome"]), (409, &json!("spent")));
}

/// Bodies that never come hold no place: each of these would be waited for.
#[tokio::test]
async fn whoever_can_not_be_the_service_is_answered_before_the_body_is_read() {
    let server = Server::start().await;
    let posted = |name: &str, header: &str, value: Option<&str>| {
        let posted = posting(name, "a1", "{}", SECRET).replace("content-length: 2", "content-length: 200");
        let line = |line: &str| match (line.starts_with(header), value) {
            (false, _) => format!("{line}\r\n"),
            (true, Some(value)) => format!("{header}: {value}\r\n"),
            (true, None) => String::new(),
        };
        posted.lines().map(line).collect::<String>()
    };
    for (posted, status) in [
        (posted("phone", "none", None), 404),
        (posted("pager", "webhook-signature", None), 403),
        (posted("pager", "webhook-timestamp", None), 403),
        (posted("pager", "webhook-timestamp", Some("1000000000")), 403),
        (posted("pager", "webhook-id", None), 403),
    ] {
        assert_eq!(talk(&server.gateway, posted).await.status(), status);
    }
}

#[tokio::test]
async fn where_no_surface_is_nothing_is_posted() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    assert_eq!(talk(&gateway, posting("pager", "a1", "{}", SECRET)).await.status(), 404);
    assert_eq!(upstream.count(), 0);
}
