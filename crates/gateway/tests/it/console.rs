//! The console below `/-/console`, without a browser: who gets in, what posts count, and what answers say to browsers.

use std::sync::Arc;
use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Gateway, Observers, Settings};
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_hooks::{ApprovalRequest, Decision, Digest, TimeoutBehavior};
use backstop_store::{
    ApprovalFilter, ApprovalRecord, ApprovalState, AuditFilter, LeaseHolder, NewAccessToken, NewApproval,
    Scope, SqliteStore, Timestamp,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::inspect::support::{House, grant, settings_of, two_must};
use crate::support::*;

mod chat;
mod devices;
mod login;
mod pages;
mod streams;
mod talker;
mod trying;

const DAY: Duration = Duration::from_hours(24);
/// A name of the console's own.
const OWN: &str = "console-0123456789abcdef0123456789abcdef.localhost";

struct Server {
    house: House,
    gateway: Gateway,
}

/// A person who is signed in.
struct Person {
    /// What the browser shows behind `cookie: `: the cookie, and the key in a header of its own.
    cookie: String,
    form: String,
}

impl Server {
    async fn start() -> Self {
        Self::over(House::new()).await
    }

    async fn over(house: House) -> Self {
        Self::of(house, settings_of("http://127.0.0.1:9"), Observers::default()).await
    }

    async fn of(house: House, mut settings: Settings, observers: Observers) -> Self {
        house.judge::<BeforeToolCall>("gate", |event| {
            let request = ApprovalRequest::cut("run a marker?", "it says so");
            let request = request.timeout(Duration::from_secs(60), TimeoutBehavior::Deny).unwrap();
            (event.tool_name.canonical() == "exec").then(|| ToolCallOutcome::ask(request))
        });
        settings.store = Some(Arc::clone(&house.store));
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = Gateway::observed(settings, Arc::new(hooks), observers).await.unwrap();
        Self { house, gateway }
    }

    async fn token(&self, scopes: &[Scope]) -> (String, NewAccessToken) {
        self.token_of("ann", scopes).await
    }

    async fn token_of(&self, user: &str, scopes: &[Scope]) -> (String, NewAccessToken) {
        let (user, now) = (user.to_owned(), Timestamp::now());
        let (token, made) =
            NewAccessToken::make_for_person(user, scopes.to_vec(), "a test".to_owned(), now, DAY);
        self.house.store.add_access_token(made.clone()).await.unwrap();
        let counts = async || {
            let asked = format!(
                "GET /-/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
                token.expose()
            );
            talk(&self.gateway, asked).await.status() == 200
        };
        within(async {
            while !counts().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        (token.expose().to_owned(), made)
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        let asked =
            format!("GET /-/console{path} HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{headers}\r\n");
        talk(&self.gateway, asked).await
    }

    async fn post(&self, path: &str, headers: &str, fields: &[(&str, &str)]) -> Answer {
        talk(&self.gateway, posting(path, headers, fields)).await
    }

    async fn sign_in(&self, token: &str) -> Answer {
        self.post("/sign-in", SAME, &[("token", token), ("to", "/-/console/live")]).await
    }

    async fn person(&self, scopes: &[Scope]) -> Person {
        let (token, _) = self.token(scopes).await;
        let signed_in = self.sign_in(&token).await;
        assert_eq!(signed_in.status(), 200, "{}", signed_in.text());
        self.with(cookie_of(&signed_in)).await
    }

    async fn with(&self, cookie: String) -> Person {
        let page = self.get("/approvals", &format!("cookie: {cookie}\r\n")).await;
        assert_eq!(page.status(), 200, "{}", page.text());
        let form = page.text().split_once("name=\"form\" value=\"").unwrap().1.chars().take(64).collect();
        Person { cookie, form }
    }

    async fn question(&self) -> ApprovalRecord {
        let (token, made) = NewAccessToken::make("bot".into(), "a test".to_owned(), Timestamp::now(), DAY);
        let made = NewAccessToken { scopes: vec![Scope::Judge], ..made };
        self.house.store.add_access_token(made).await.unwrap();
        let body = json!({"event": {"toolName": "exec", "params": {"command": "marker"}}}).to_string();
        let judge = format!(
            "POST /-/v1/hooks/before_tool_call HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            token.expose(),
            body.len()
        );
        within(async {
            while talk(&self.gateway, &judge).await.status() != 202 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        self.house.engine.answer_store().approvals(ApprovalFilter::Pending, 1).await.unwrap().remove(0)
    }

    async fn state(&self, record: &ApprovalRecord) -> ApprovalState {
        self.house.engine.answer_store().approval(&record.id).await.unwrap().unwrap().state
    }

    async fn answer(&self, person: &Person, record: &ApprovalRecord, fields: &[(&str, &str)]) -> Answer {
        let digest = record.request.digest.to_string();
        let all = [&[("form", person.form.as_str()), ("digest", digest.as_str())][..], fields].concat();
        let headers = format!("{SAME}cookie: {}\r\n", person.cookie);
        self.post(&format!("/approvals/{}/answer", record.id), &headers, &all).await
    }
}

const SAME: &str = "sec-fetch-site: same-origin\r\n";

fn posting(path: &str, headers: &str, fields: &[(&str, &str)]) -> String {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    format!(
        "POST /-/console{path} HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{headers}content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The cookie and the key that an answer gives, as the browser sends them.
fn cookie_of(answer: &Answer) -> String {
    let head = answer.head();
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("set-cookie: ")).unwrap();
    let cookie = line.split_once(": ").unwrap().1.split(';').next().unwrap().to_owned();
    let text = answer.text();
    let key = text.split_once("data-key=\"").unwrap().1.split('"').next().unwrap();
    format!("{cookie}\r\n{}", basic(key))
}

fn basic(key: &str) -> String {
    format!("authorization: Basic {}", STANDARD.encode(format!("console:{key}")))
}

#[tokio::test]
async fn a_token_of_a_person_opens_a_session_and_nothing_else_does() {
    let server = Server::start().await;
    let (token, _) = server.token(&[Scope::Read, Scope::Approve]).await;
    let (proxy, made) = NewAccessToken::make("bot".into(), "a test".to_owned(), Timestamp::now(), DAY);
    server.house.store.add_access_token(made).await.unwrap();
    let (judge, made) = NewAccessToken::make("bot".into(), "a test".to_owned(), Timestamp::now(), DAY);
    server.house.store.add_access_token(NewAccessToken { scopes: vec![Scope::Judge], ..made }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    let longer = format!("{token}0");
    for wrong in ["", "x", TOKEN, proxy.expose(), judge.expose(), &longer] {
        let refused = server.sign_in(wrong).await;
        assert_eq!(refused.status(), 403, "{wrong}");
        assert!(!refused.head().to_ascii_lowercase().contains("set-cookie"), "{}", refused.head());
        assert!(
            wrong.is_empty() || !refused.body().0.contains(&format!("value=\"{wrong}")),
            "it repeats nothing"
        );
    }
    // Nobody who tries wrong ones keeps a person out.
    let trying = (0..40).map(|_| server.sign_in("wrong"));
    let (tried, right) = tokio::join!(futures_util::future::join_all(trying), server.sign_in(&token));
    assert_eq!(right.status(), 200);
    let statuses: Vec<u16> = tried.iter().map(Answer::status).collect();
    assert!(
        statuses.contains(&429) && statuses.iter().all(|status| matches!(status, 403 | 429)),
        "{statuses:?}"
    );
    let head = right.head().to_ascii_lowercase();
    assert!(right.text().contains("data-to=\"/-/console/live\""), "{}", right.text());
    let cookie = head.lines().find(|line| line.starts_with("set-cookie")).unwrap();
    for attribute in ["httponly", "samesite=strict", "path=/-/console"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(
        !cookie.contains("expires") && !cookie.contains("max-age") && !cookie.contains(&token),
        "{cookie}"
    );
    let entries = server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
    let signed = entries.iter().filter(|entry| entry.kind == "console.signed_in").count();
    assert_eq!(signed, 1, "each who signed in is in the trail");
    assert!(!serde_json::to_string(&entries).unwrap().contains(&token));
    // Where one is led afterwards is a page of the console.
    for to in ["https://evil.example/", "//evil.example", "/-/console/../v1", "/t/x"] {
        let led = server.post("/sign-in", SAME, &[("token", &token), ("to", to)]).await;
        assert!(led.text().contains("data-to=\"/-/console/approvals\""), "{to}");
    }
}

#[tokio::test]
async fn who_is_not_signed_in_sees_the_form_and_nothing_of_what_there_is() {
    let server = Server::start().await;
    let record = server.question().await;
    let id = record.id.as_str();
    let pages =
        ["/", "/approvals", "/key", "/live", "/sessions", "/policy", "/audit", "/audit.jsonl", "/nothing"];
    let question = format!("/approvals/{id}");
    for path in pages.into_iter().chain([question.as_str()]) {
        for cookie in ["", "cookie: backstop=x\r\n", &format!("cookie: backstop={}\r\n", "0".repeat(64))] {
            let page = server.get(path, cookie).await;
            assert_eq!(page.status(), 401, "{path}");
            assert!(page.text().contains("Access token") && !page.text().contains("marker"), "{path}");
        }
    }
    assert!(server.get("", "").await.head().to_ascii_lowercase().contains("location: /-/console/approvals"));
    for path in ["/events", "/session"] {
        let refused = server.get(path, "").await;
        assert_eq!((refused.status(), refused.body().0.as_str()), (401, ""), "{path}");
    }
    let digest = record.request.digest.to_string();
    let fields = [("digest", digest.as_str()), ("decision", "allow-once"), ("form", "")];
    let posted = server.post(&format!("/approvals/{id}/answer"), SAME, &fields).await;
    assert_eq!((posted.status(), server.state(&record).await), (401, ApprovalState::Pending));
    // No token opens a page by itself, wherever it stands.
    let (token, _) = server.token(&[Scope::Read, Scope::Approve]).await;
    let bearer = server.get("/approvals", &format!("authorization: Bearer {token}\r\n")).await;
    assert_eq!(bearer.status(), 401);
    for path in [format!("/t/{token}/-/console"), format!("/t/{TOKEN}/-/console/approvals")] {
        let asked = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(matches!(talk(&server.gateway, asked).await.status(), 400..=404), "{path}");
    }
}

#[tokio::test]
async fn every_answer_says_to_browsers_what_a_page_may_do() {
    let server = Server::start().await;
    let person = server.person(&[Scope::Read]).await;
    let cookie = format!("cookie: {}\r\n", person.cookie);
    for path in [
        "/approvals",
        "/live",
        "/audit",
        "/policy",
        "/sessions",
        "/nothing",
        "/console.js",
        "/console.css",
        "/icon.svg",
    ] {
        for cookie in ["", &cookie] {
            let head = server.get(path, cookie).await.head().to_ascii_lowercase();
            for header in [
                "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types backstop",
                "referrer-policy: no-referrer",
                "x-content-type-options: nosniff",
                "cross-origin-opener-policy: same-origin",
            ] {
                assert!(head.contains(header), "{path}: {head}");
            }
            let is_file = path.contains('.');
            assert_eq!(head.contains("cache-control: no-store"), !is_file, "{path}: {head}");
            assert!(!head.contains("access-control-allow"), "{path}: {head}");
        }
    }
    let file = server.get("/console.js", "").await;
    let tag = file.head().lines().find_map(|line| line.strip_prefix("etag: ").map(str::to_owned)).unwrap();
    let again = server.get("/console.js", &format!("if-none-match: {tag}\r\n")).await;
    assert_eq!((again.status(), again.raw_body().len()), (304, 0));
    for page in [server.get("/approvals", &cookie).await, server.get("/approvals", "").await] {
        let text = page.text();
        assert!(
            !text.contains("<script>") && !text.contains(" style=") && !text.contains(" onclick"),
            "{text}"
        );
        assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
    }
}

#[tokio::test]
async fn in_the_clear_the_console_has_a_name_that_nobody_can_guess() {
    let server = Server::start().await;
    let asked = |method: &str, host: &str, headers: &str| {
        format!(
            "{method} /-/console/live?x=1 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}content-length: 0\r\n\r\n"
        )
    };
    let mut names = Vec::new();
    for host in ["localhost:8484", "127.0.0.1:8484", "app.localhost:8484"] {
        let led = talk(&server.gateway, asked("GET", host, "")).await;
        assert_eq!(led.status(), 303, "{host}");
        let head = led.head();
        let address = head.lines().find_map(|line| line.strip_prefix("location: ")).unwrap().to_owned();
        assert!(address.starts_with("http://console-"), "{address}");
        assert!(address.ends_with(".localhost:8484/-/console/live?x=1"), "{address}");
        names.push(address);
        assert_eq!(talk(&server.gateway, asked("POST", host, SAME)).await.status(), 403, "{host}");
    }
    names.dedup();
    assert_eq!(names.len(), 3, "each has another one");
    for host in
        ["evil.example", "10.1.2.3:8484", "console-0123456789abcdef0123456789abcdef.localhost.evil.example"]
    {
        for headers in ["", "sec-fetch-site: none\r\n"] {
            assert_eq!(talk(&server.gateway, asked("GET", host, headers)).await.status(), 403, "{host}");
        }
    }
}

#[tokio::test]
async fn only_forms_of_the_session_count() {
    let server = Server::start().await;
    let record = server.question().await;
    let person = server.person(&[Scope::Read, Scope::Approve]).await;
    let other = server.person(&[Scope::Read, Scope::Approve]).await;
    let (path, digest) = (format!("/approvals/{}/answer", record.id), record.request.digest.to_string());
    let cookie = format!("cookie: {}\r\n", person.cookie);
    let own = format!("origin: http://{OWN}\r\n");
    let with = async |headers: &str, form: &str| {
        let fields = [("form", form), ("digest", digest.as_str()), ("decision", "allow-once")];
        server.post(&path, &format!("{headers}{cookie}"), &fields).await.status()
    };
    for site in [
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
        "sec-fetch-site: none\r\n",
        "",
        "origin: null\r\n",
        "origin: http://evil.example\r\n",
        "origin: http://localhost:3000\r\n",
    ] {
        assert_eq!(with(site, &person.form).await, 403, "{site}");
    }
    let foreign = format!("sec-fetch-site: cross-site\r\n{own}");
    assert_eq!(with(&foreign, &person.form).await, 403, "what the browser says of it comes first");
    for form in ["", "x", other.form.as_str(), person.cookie.as_str()] {
        assert_eq!(with(SAME, form).await, 403, "{form}");
    }
    let fields =
        [("form", person.form.as_str()), ("form", ""), ("digest", &digest), ("decision", "allow-once")];
    assert_eq!(server.post(&path, &format!("{SAME}{cookie}"), &fields).await.status(), 400, "which one?");
    let as_json = posting(&path, &format!("{SAME}{cookie}"), &[("form", &person.form)])
        .replace("application/x-www-form-urlencoded", "text/plain");
    assert_eq!(talk(&server.gateway, as_json).await.status(), 400);
    let looked = server
        .get(&format!("{path}?form={}&digest={digest}&decision=allow-once", person.form), &cookie)
        .await;
    assert_eq!(looked.status(), 405, "a link decides nothing");
    assert_eq!(server.state(&record).await, ApprovalState::Pending, "nothing of all this counted");
    // Browsers that say nothing of the site say the origin.
    assert_eq!(with(&own, &person.form).await, 303);
    assert!(matches!(server.state(&record).await, ApprovalState::Allowed(_) | ApprovalState::Used { .. }));
}

#[tokio::test]
async fn the_cookie_opens_nothing_but_pages() {
    let server = Server::start().await;
    let record = server.question().await;
    let person = server.person(&[Scope::Read, Scope::Approve, Scope::Admin]).await;
    let body = json!({"decision": "allow-once", "digest": record.request.digest}).to_string();
    for (method, path) in [
        ("GET", "approvals".to_owned()),
        ("POST", format!("approvals/{}/answer", record.id)),
        ("DELETE", "grants/x".to_owned()),
    ] {
        let asked = format!(
            "{method} /-/v1/{path} HTTP/1.1\r\nhost: {OWN}\r\nconnection: close\r\n{SAME}cookie: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            person.cookie,
            body.len()
        );
        assert_eq!(talk(&server.gateway, asked).await.status(), 401, "{method} {path}");
    }
    let proxied = post("/v1/messages", "{}").replacen(&format!("/t/{TOKEN}"), "", 1);
    let proxied =
        proxied.replacen("host: localhost", &format!("host: {OWN}\r\ncookie: {}", person.cookie), 1);
    assert_eq!(talk(&server.gateway, proxied).await.status(), 401);
    assert_eq!(server.state(&record).await, ApprovalState::Pending);
}

#[tokio::test]
async fn in_the_clear_neither_the_cookie_nor_the_key_opens_anything_alone() {
    let server = Server::start().await;
    let person = server.person(&[Scope::Read, Scope::Approve]).await;
    let other = server.person(&[Scope::Read, Scope::Approve]).await;
    let (cookie, key) = person.cookie.split_once("\r\n").unwrap();
    let (_, key_of_other) = other.cookie.split_once("\r\n").unwrap();
    let cookie = format!("cookie: {cookie}\r\n");
    for half in [
        cookie.clone(),
        format!("{key}\r\n"),
        format!("{cookie}{key_of_other}\r\n"),
        format!("{cookie}{}\r\n", basic("")),
        format!("{cookie}{key}\r\n{key}\r\n"),
    ] {
        let page = server.get("/approvals", &half).await;
        assert!(page.status() == 401 && page.text().contains("Access token"), "{half}: {}", page.text());
        assert!(!page.head().to_ascii_lowercase().contains("www-authenticate"), "{}", page.head());
        assert_eq!(server.get("/session", &half).await.status(), 401, "{half}");
        // Who has the cookie is asked for the key, at one address.
        let asked = server.get("/key", &half).await;
        let is_asked = asked.head().contains("Basic realm=");
        assert_eq!((asked.status(), is_asked), (401, half.contains("cookie: ")), "{half}");
    }
    let whole = format!("{cookie}{key}\r\n");
    assert_eq!(server.get("/session", &whole).await.status(), 204);
    let taken = server.get("/key", &whole).await;
    // Browsers keep what they may keep in files, under an address that holds the key.
    assert!(taken.status() == 204 && taken.head().contains("no-store"), "{}", taken.head());
    assert_eq!(server.get("/key?to=//evil.example", &whole).await.status(), 204);
    let led = server.get("/key?to=/-/console/live", &whole).await;
    assert!(led.head().to_ascii_lowercase().contains("location: /-/console/live"), "{}", led.head());
}

#[tokio::test]
async fn the_first_answer_counts_and_the_second_person_is_told_who_was_first() {
    let server = Server::start().await;
    let record = server.question().await;
    let (first, second) =
        (server.person(&[Scope::Read, Scope::Approve]).await, server.person(&[Scope::Approve]).await);
    let viewer = server.person(&[Scope::Read]).await;
    let page =
        server.get(&format!("/approvals/{}", record.id), &format!("cookie: {}\r\n", viewer.cookie)).await;
    assert!(
        page.text().contains("marker") && page.text().contains("may read and not answer"),
        "{}",
        page.text()
    );
    assert!(!page.text().contains(&record.code), "codes are on no page");
    assert_eq!(server.answer(&viewer, &record, &[("decision", "allow-once")]).await.status(), 403);
    let other_call = [("decision", "allow-once"), ("digest", "sha256:00")];
    assert_eq!(server.answer(&first, &record, &other_call).await.status(), 400, "two digests");
    let mut wrong = record.clone();
    wrong.request.digest = Digest::of_text("test", "another call");
    let refused = server.answer(&first, &wrong, &[("decision", "allow-once")]).await;
    assert!(refused.status() == 409 && refused.text().contains("another call"), "{}", refused.text());
    for decision in ["allow-always", "nothing", ""] {
        assert_eq!(
            server.answer(&first, &record, &[("decision", decision)]).await.status(),
            400,
            "{decision}"
        );
    }
    assert_eq!(server.state(&record).await, ApprovalState::Pending);
    let denied = server.answer(&first, &record, &[("decision", "deny"), ("word", "not\r\ntoday")]).await;
    assert_eq!(denied.status(), 303, "{}", denied.text());
    let ApprovalState::Denied { by, word, .. } = server.state(&record).await else { panic!() };
    assert!(by.starts_with("ann, by the console (token "), "{by}");
    assert_eq!(word.unwrap().as_str(), "not today");
    let late = server.answer(&second, &record, &[("decision", "allow-once")]).await;
    assert_eq!(late.status(), 409, "{}", late.text());
    assert!(late.text().contains("was first and denied it"), "{}", late.text());
    assert_eq!(
        server.answer(&second, &record, &[("decision", "deny")]).await.status(),
        303,
        "the same twice is fine"
    );
}

#[tokio::test]
async fn a_yes_to_a_call_that_waited_is_for_no_later_one() {
    let here = LeaseHolder::unique();
    // The number of this process, which began at another time.
    let Some((process, _)) = here.as_str().rsplit_once(' ') else { return };
    let gone = LeaseHolder::new(format!("{process} 1)"));
    let server = Server::start().await;
    let asked = server.question().await.request;
    let asked = NewApproval { digest: Digest::of_text("test", "left"), waiter: Some(gone), ..asked };
    let record = server.house.engine.answer_store().create_approval(asked).await.unwrap();
    if !record.is_abandoned() {
        return;
    }
    let person = server.person(&[Scope::Read, Scope::Approve]).await;
    let cookie = format!("cookie: {}\r\n", person.cookie);
    let page = server.get(&format!("/approvals/{}", record.id), &cookie).await.text();
    assert!(page.contains("Nobody waits") && page.contains("Allow one later call"), "{page}");
    assert!(!page.contains(">Allow once<"), "{page}");
    // From a page that was shown before its process ended.
    let refused = server.answer(&person, &record, &[("decision", "allow-once")]).await;
    assert_eq!(refused.status(), 409, "{}", refused.text());
    assert!(refused.text().contains("nobody waits for it any more"), "{}", refused.text());
    assert_eq!(server.state(&record).await, ApprovalState::Pending);
    assert_eq!(server.answer(&person, &record, &[("decision", "allow-later")]).await.status(), 303);
    assert!(matches!(server.state(&record).await, ApprovalState::Allowed(_)));
}

/// The console of a house in which two of ann, bob and carl must allow what is asked about.
async fn two_of_three() -> Server {
    let settings = two_must(&["ann", "bob", "carl"]);
    Server::over(House::asking(Arc::new(SqliteStore::in_memory()), settings)).await
}

#[tokio::test]
async fn a_page_has_who_voted_and_for_whom_it_waits() {
    let server = two_of_three().await;
    let record = server.question().await;
    let person = async |user: &str| {
        let (token, _) = server.token_of(user, &[Scope::Read, Scope::Approve]).await;
        server.with(cookie_of(&server.sign_in(&token).await)).await
    };
    let (ann, bob, eve) = (person("ann").await, person("bob").await, person("eve").await);
    let page = async |who: &Person, path: &str| {
        server.get(path, &format!("cookie: {}\r\n", who.cookie)).await.text()
    };
    let path = format!("/approvals/{}", record.id);
    let shown = page(&eve, &path).await;
    assert!(shown.contains("0 of 2: waiting for ann, bob or carl"), "{shown}");
    assert!(
        shown.contains("not known here which person you are") && !shown.contains("Allow once"),
        "{shown}"
    );
    let refused = server.answer(&eve, &record, &[("decision", "deny"), ("word", "")]).await;
    assert!(
        refused.status() == 409 && refused.text().contains("ann, bob or carl may answer"),
        "{}",
        refused.text()
    );
    assert!(page(&ann, &path).await.contains("Allow once"));
    assert_eq!(server.answer(&ann, &record, &[("decision", "allow-once")]).await.status(), 303);
    assert_eq!(server.state(&record).await, ApprovalState::Pending);
    for shown in [path.clone(), format!("{path}/state"), "/approvals".to_owned()] {
        let shown = page(&bob, &shown).await;
        assert!(shown.contains("1 of 2: ann allowed it; waiting for bob or carl"), "{shown}");
    }
    assert_eq!(server.answer(&bob, &record, &[("decision", "allow-once")]).await.status(), 303);
    assert_eq!(server.state(&record).await.by(), Some("ann and bob"));
}

#[tokio::test]
async fn what_is_allowed_from_now_on_reaches_as_far_as_it_is_said() {
    let server = Server::start().await;
    let record = server.question().await;
    let person = server.person(&[Scope::Read, Scope::Approve]).await;
    let always = |scope: &'static str, span: &'static str, times: &'static str| {
        vec![("decision", "allow-always"), ("scope", scope), ("span", span), ("times", times)]
    };
    // This question has no workspace, rule or program, and no amount.
    for scope in ["rule", "program", "up-to"] {
        let refused = server
            .answer(
                &person,
                &record,
                &[always(scope, "3600", ""), vec![("argument", "x"), ("most", "5")]].concat(),
            )
            .await;
        assert_eq!(refused.status(), 409, "{scope}: {}", refused.text());
    }
    for (span, times) in [("59", ""), ("2592001", ""), ("x", "")] {
        assert_eq!(
            server.answer(&person, &record, &always("call", span, times)).await.status(),
            400,
            "{span}"
        );
    }
    assert_eq!(server.answer(&person, &record, &always("call", "3600", "0")).await.status(), 409);
    assert!(server.house.engine.answer_store().grants(9).await.unwrap().is_empty());
    assert_eq!(server.answer(&person, &record, &always("call", "3600", "3")).await.status(), 303);
    let (ApprovalState::Allowed(allowance) | ApprovalState::Used { allowance, .. }) =
        server.state(&record).await
    else {
        panic!()
    };
    assert_eq!(allowance.decision, Decision::AllowAlways);
    let [grant] = server.house.engine.answer_store().grants(9).await.unwrap().try_into().unwrap();
    assert_eq!(grant.granted.most_uses, Some(3));
    assert_eq!(grant.granted.created_at.until(grant.granted.expires_at), Duration::from_secs(3_600));
    let cookie = format!("cookie: {}\r\n", person.cookie);
    let page = server.get("/policy", &cookie).await;
    assert!(page.text().contains("Revoke"), "{}", page.text());
    let path = format!("/grants/{}/revoke", grant.id);
    assert_eq!(server.post(&path, &format!("{SAME}{cookie}"), &[("form", &person.form)]).await.status(), 303);
    assert!(server.house.engine.answer_store().grants(9).await.unwrap()[0].revoked_at.is_some());
}

#[tokio::test]
async fn what_is_in_force_is_shown_and_revoked_behind_whatever_was_revoked_before() {
    let server = Server::start().await;
    let person = server.person(&[Scope::Read, Scope::Approve]).await;
    let answers = server.house.engine.answer_store();
    let held = answers.add_grant(grant("the one that holds")).await.unwrap();
    for _ in 0..201 {
        let gone = answers.add_grant(grant("gone")).await.unwrap();
        answers.revoke_grant(&gone.id, "ann", Timestamp::now()).await.unwrap();
    }
    let page = server.page(&person, "/policy").await;
    assert!(page.contains("the one that holds") && page.contains("Older grants"), "{page}");
    assert!(!page.contains("More grants may be in force"), "{page}");
    assert_eq!(page.matches(&format!("/grants/{}/revoke", held.id)).count(), 1, "{page}");
    for _ in 0..200 {
        answers.add_grant(grant("held")).await.unwrap();
    }
    let page = server.page(&person, "/policy").await;
    assert!(
        page.contains("More grants may be in force") && page.matches("/revoke\"").count() == 200,
        "{page}"
    );
}
