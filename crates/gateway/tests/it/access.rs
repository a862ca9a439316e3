//! Access tokens that are kept in the store.

use std::sync::Arc;
use std::time::Duration;

use backstop_gateway::inspect::{HookSettings, Hooks, Unasked};
use backstop_gateway::{Gateway, Settings};
use backstop_hooks::points::AfterLlmCall;
use backstop_hooks::{AgentId, Secret};
use backstop_llm::Api;
use backstop_store::{AccessTokenId, ApprovalStatus, NewAccessToken, SqliteStore, Store, Timestamp};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep};

use crate::inspect::approvals::{asking, question, settings as asking_settings};
use crate::inspect::support::{House, ask, settings_of, way};
use crate::support::*;

const DAY: Duration = Duration::from_hours(24);

/// Adds a token of the agent to the store.
pub(crate) async fn token_of(store: &dyn Store, agent: &str, span: Duration) -> (Secret, AccessTokenId) {
    let (token, made) =
        NewAccessToken::make(AgentId::new(agent), "a test".to_owned(), Timestamp::now(), span);
    let id = made.id.clone();
    store.add_access_token(made).await.unwrap();
    (token, id)
}

pub(crate) async fn revoke(store: &dyn Store, id: &AccessTokenId) {
    store.revoke_access_token(id, "a test", Timestamp::now()).await.unwrap().unwrap();
}

/// A request with the token in its path.
fn with_token(token: &Secret, request: &str) -> String {
    request.replacen(TOKEN, token.expose(), 1)
}

async fn status(gateway: &Gateway, request: &str) -> u16 {
    talk(gateway, request).await.status()
}

fn reading(upstream: &Upstream, store: &Arc<dyn Store>) -> Settings {
    let mut settings = settings(upstream);
    settings.store = Some(Arc::clone(store));
    settings
}

fn memory() -> Arc<dyn Store> {
    Arc::new(SqliteStore::in_memory())
}

#[tokio::test]
async fn a_token_opens_for_its_agent_alone_and_is_never_passed_on() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let store = memory();
    let (token, _) = token_of(store.as_ref(), "coder", DAY).await;
    let (short, _) = token_of(store.as_ref(), "coder", Duration::from_millis(1)).await;
    let gateway = gateway(reading(&upstream, &store)).await;
    let request = post("/v1/messages", "{}");
    assert_eq!(status(&gateway, &with_token(&token, &request)).await, 200);
    let (text, mut other) = (token.expose().as_str(), token.expose().clone());
    let last = if other.pop() == Some('0') { '1' } else { '0' };
    other.push(last);
    for wrong in [Secret::new(other), short] {
        assert_eq!(status(&gateway, &with_token(&wrong, &request)).await, 401);
    }
    // Nobody is somebody else, and nobody is it without its token.
    for (front, expected) in [("coder", 200), ("another", 403)] {
        let claimed = with_token(&token, &request).replacen("/v1/", &format!("/a/{front}/v1/"), 1);
        assert_eq!(status(&gateway, &claimed).await, expected, "{front}");
    }
    let claimed = request.replacen("/v1/", "/a/coder/v1/", 1);
    assert_eq!(status(&gateway, &claimed).await, 403);
    // It stays here, wherever it stands.
    let beside = request.replacen("connection:", &format!("referer: x{text}y\r\nconnection:"), 1);
    assert_eq!(
        status(&gateway, &beside.replacen("/v1/messages", &format!("/v1/messages?a={text}"), 1)).await,
        200
    );
    let bearer = request.replacen(&format!("/t/{TOKEN}"), "", 1);
    let bearer = bearer.replacen("connection:", &format!("authorization: Bearer {text}\r\nconnection:"), 1);
    assert_eq!(status(&gateway, &bearer).await, 200);
    assert!(!upstream.requests.lock().unwrap().concat().contains(text));
}

#[tokio::test]
async fn a_token_that_is_new_opens_and_one_that_is_revoked_does_not_within_a_second() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let store = memory();
    let gateway = gateway(reading(&upstream, &store)).await;
    let (token, id) = token_of(store.as_ref(), "coder", DAY).await;
    let (kept, _) = token_of(store.as_ref(), "another", DAY).await;
    let request = with_token(&token, &post("/v1/messages", "{}"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&gateway, &request).await, 200);
    revoke(store.as_ref(), &id).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&gateway, &request).await, 401);
    assert_eq!(status(&gateway, &with_token(&kept, &post("/v1/messages", "{}"))).await, 200);
    // Whoever has the process's token is not that agent either, then: its name is not free.
    for (name, expected) in [("coder", 403), ("nobody", 200)] {
        let claimed = post("/v1/messages", "{}").replacen("/v1/", &format!("/a/{name}/v1/"), 1);
        assert_eq!(status(&gateway, &claimed).await, expected, "{name}");
    }
    // Nor does a reload bring it back.
    gateway.reload(&reading(&upstream, &store), Arc::new(backstop_gateway::Transparent)).unwrap();
    assert_eq!(status(&gateway, &request).await, 401);
}

/// Whether it is judged or not, between two events or within one, or no stream at all.
#[tokio::test]
async fn answers_under_way_end_with_the_token_that_asked_for_them() {
    let begun = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n";
    let half = format!("{begun}data: {{\"ty");
    let whole = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    for (number, answer) in [begun, &half, whole].into_iter().enumerate() {
        for is_judged in [false, true] {
            let is_stream = number < 2;
            let script = if is_stream { Script::events(&[answer]) } else { Script::whole(answer) };
            let pieces = script.pieces[..if is_stream { 2 } else { 1 }].to_vec();
            let script = Script { pieces, ..script }.ending(End::Hang);
            let upstream = Upstream::start(move |_| script.clone()).await;
            let store = memory();
            let (token, id) = token_of(store.as_ref(), "coder", DAY).await;
            let settings = reading(&upstream, &store);
            let gateway = if is_judged {
                let house = House::new();
                house.judge::<AfterLlmCall>("looks", |_| None);
                start(settings, Hooks::new(house.engine, HookSettings::default()).unwrap()).await.unwrap()
            } else {
                gateway(settings).await
            };
            let body = json!({"model": "m", "max_tokens": 9, "stream": is_stream, "messages": [{"role": "user", "content": "hi"}]});
            let mut socket = connect(&gateway).await;
            let request = with_token(&token, &post("/v1/messages", &body.to_string()));
            socket.write_all(request.as_bytes()).await.unwrap();
            eventually("the request arrives", || upstream.count() == 1).await;
            revoke(store.as_ref(), &id).await;
            let since = Instant::now();
            let answer = within(rest(&mut socket)).await;
            let what = format!("{number} {is_judged}: {}", answer.text());
            // It would not end for half a minute.
            assert!(since.elapsed() < Duration::from_secs(5), "{what}");
            let is_told = answer.text().contains("this token has ended");
            let is_cut = answer.broken || !answer.body().1 || answer.body().0 == "{";
            assert!(is_told || is_cut, "{what}");
            assert!(is_told || number > 0, "{what}");
            eventually("the provider's connection ends", || upstream.cut() == 1).await;
        }
    }
}

#[tokio::test]
async fn a_question_ends_with_the_token_whose_call_it_is_about() {
    let house = asking(Duration::from_secs(60));
    let calls = json!([{"name": "exec", "arguments": {"command": "marker"}}]);
    let model = crate::inspect::support::model(json!([{"repeat": true, "tool_calls": calls}])).await;
    let (token, id) = token_of(house.store.as_ref(), "coder", DAY).await;
    let mut settings = settings_of(&model.base_url());
    settings.store = Some(Arc::clone(&house.store));
    let hooks = Hooks::new(house.engine.clone(), asking_settings(Unasked::Wait)).unwrap();
    let gateway = start(settings, hooks).await.unwrap();
    let mut socket = connect(&gateway).await;
    let api = Api::OpenAiChat;
    let request = with_token(&token, &post(&way(api, false), &ask(api, false, "hi").to_string()));
    socket.write_all(request.as_bytes()).await.unwrap();
    let asked = question(&house).await;
    assert_eq!(asked.state.status(), ApprovalStatus::Pending);
    revoke(house.store.as_ref(), &id).await;
    let answer = within(rest(&mut socket)).await;
    assert_eq!(answer.status(), 401, "{}", answer.text());
    let open = || async { house.engine.answer_store().approval(&asked.id).await.unwrap().unwrap() };
    within(async {
        while open().await.state.status() == ApprovalStatus::Pending {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A database that can't be read can't say what was revoked.
#[tokio::test]
async fn where_the_tokens_can_not_be_read_none_opens() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(&path));
    let (token, _) = token_of(store.as_ref(), "coder", DAY).await;
    let gateway = gateway(reading(&upstream, &store)).await;
    let request = post("/v1/messages", "{}");
    assert_eq!(status(&gateway, &with_token(&token, &request)).await, 200);
    let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    for file in files.filter(|file| file.is_file()) {
        std::fs::write(file, "no database ".repeat(1_000)).unwrap();
    }
    within(async {
        while status(&gateway, &with_token(&token, &request)).await == 200 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(status(&gateway, &with_token(&token, &request)).await, 401);
    assert_eq!(status(&gateway, &request).await, 200, "the gateway's own token needs no database");
    let claimed = request.replacen("/v1/", "/a/coder/v1/", 1);
    assert_eq!(status(&gateway, &claimed).await, 403, "and is nobody whose token can't be read");
}

/// One row that was spoilt is no other's.
#[tokio::test]
async fn a_token_that_can_not_be_read_is_the_only_one_that_opens_nothing() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(&path));
    let (good, _) = token_of(store.as_ref(), "coder", DAY).await;
    let (bad, id) = token_of(store.as_ref(), "spoilt", DAY).await;
    let gateway = gateway(reading(&upstream, &store)).await;
    let request = post("/v1/messages", "{}");
    assert_eq!(status(&gateway, &with_token(&bad, &request)).await, 200);
    let spoil = |value: &str| {
        let db = rusqlite::Connection::open(&path).unwrap();
        db.busy_timeout(PATIENCE).unwrap();
        let sql = "UPDATE access_tokens SET made = ?2 WHERE id = ?1";
        assert_eq!(db.execute(sql, [id.as_str(), value]).unwrap(), 1);
    };
    spoil("{\"agent\":\"spoilt\"}");
    within(async {
        while status(&gateway, &with_token(&bad, &request)).await == 200 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(status(&gateway, &with_token(&good, &request)).await, 200);
    let claimed = |name: &str| request.replacen("/v1/", &format!("/a/{name}/v1/"), 1);
    assert_eq!(status(&gateway, &claimed("spoilt")).await, 403, "its name is nobody's");
    assert_eq!(status(&gateway, &claimed("free")).await, 200);
    spoil("nothing");
    within(async {
        while status(&gateway, &claimed("free")).await == 200 {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(status(&gateway, &with_token(&good, &request)).await, 200, "and whose it was can't be told");
}
