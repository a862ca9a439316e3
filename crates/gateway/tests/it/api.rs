//! The HTTP API below `/-/v1`.

mod answers;
mod callbacks;
mod keys;
mod reads;
mod streams;
mod substitutes;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{ApprovalSettings, Engine};
use backstop_gateway::Gateway;
use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_hooks::points::{
    BeforeLlmCall, BeforeLlmCallOutcome, BeforeToolCall, ToolAfter, ToolAfterOutcome, ToolCallOutcome,
};
use backstop_hooks::{ApprovalRequest, Params, TimeoutBehavior};
use backstop_store::{
    AccessTokenId, ApprovalFilter, ApprovalStatus, KnownBy, NewAccessToken, People, PersonName, Scope,
    SqliteStore, Timestamp,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::inspect::support::{House, settings_of, two_must};
use crate::support::*;

const DAY: Duration = Duration::from_hours(24);

/// A gateway with hooks, and those who may ask its API.
struct Server {
    house: House,
    gateway: Gateway,
}

impl Server {
    async fn start(house: House) -> Self {
        Self::calling(house, []).await
    }

    /// The same, where the API calls these servers.
    async fn calling(
        house: House,
        callbacks: impl IntoIterator<Item = (String, Arc<backstop_surfaces::Callback>)>,
    ) -> Self {
        let mut settings = settings_of("http://127.0.0.1:9");
        settings.store = Some(Arc::clone(&house.store));
        settings.operator_token = Some(secret(&operator()));
        settings.callbacks = callbacks.into_iter().collect();
        let hooks = Hooks::new(house.engine.clone(), HookSettings::default()).unwrap();
        let gateway = start(settings, hooks).await.unwrap();
        Self { house, gateway }
    }

    /// A token of an agent that may judge.
    async fn judge(&self, agent: &str) -> String {
        let (token, made) = NewAccessToken::make(agent.into(), "a test".to_owned(), Timestamp::now(), DAY);
        self.add(token.expose(), NewAccessToken { scopes: vec![Scope::Judge], ..made }).await
    }

    /// A token of a person.
    async fn person(&self, scopes: &[Scope]) -> String {
        self.person_named("ann", scopes).await
    }

    async fn person_named(&self, user: &str, scopes: &[Scope]) -> String {
        let (user, now) = (user.to_owned(), Timestamp::now());
        let (token, made) =
            NewAccessToken::make_for_person(user, scopes.to_vec(), "a test".to_owned(), now, DAY);
        self.add(token.expose(), made).await
    }

    async fn add(&self, token: &str, made: NewAccessToken) -> String {
        self.house.store.add_access_token(made).await.unwrap();
        let counts = async || self.ask("GET", "openapi.json", token, None).await.status() == 200;
        within(async {
            while !counts().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        token.to_owned()
    }

    async fn ask(&self, method: &str, path: &str, token: &str, body: Option<&Value>) -> Answer {
        self.with(method, path, token, "", body).await
    }

    async fn with(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &str,
        body: Option<&Value>,
    ) -> Answer {
        talk(&self.gateway, request(method, path, token, headers, body)).await
    }

    async fn call(&self, token: &str, query: &str, tool: &str) -> Answer {
        let body = json!({"event": {"toolName": tool, "params": {"command": "marker"}}});
        self.ask("POST", &format!("hooks/before_tool_call{query}"), token, Some(&body)).await
    }

    async fn only_question(&self) -> backstop_store::ApprovalRecord {
        let all = self.house.engine.answer_store().approvals(ApprovalFilter::All, 9).await.unwrap();
        let [one] = all.try_into().unwrap();
        one
    }
}

fn operator() -> String {
    ["watch", "0123456789abcdef"].join("-")
}

fn request(method: &str, path: &str, token: &str, headers: &str, body: Option<&Value>) -> String {
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    format!(
        "{method} /-/v1/{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer \
         {token}\r\n{headers}{kind}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// `exec` is asked about, `rm` blocked, `write` rewritten; what is read and what models are told is judged, too.
fn house() -> House {
    over(House::new())
}

fn asking(people: People) -> House {
    let settings = ApprovalSettings { people: Arc::new(people), ..ApprovalSettings::default() };
    House::asking(Arc::new(SqliteStore::in_memory()), settings)
}

fn over(house: House) -> House {
    house.judge::<BeforeToolCall>("gate", |event| match event.tool_name.canonical() {
        "exec" => {
            let request = ApprovalRequest::cut("run a marker?", "it says so");
            let request = request.timeout(Duration::from_secs(60), TimeoutBehavior::Deny).unwrap();
            Some(ToolCallOutcome::ask(request))
        }
        "rm" => Some(ToolCallOutcome::block("no")),
        "write" => Params::from_value(json!({"path": "elsewhere"})).map(ToolCallOutcome::rewrite),
        _ => None,
    });
    house.judge::<ToolAfter>("after", |event| {
        let mut result = event.result.clone();
        let (content, is_new) = (json!([{"type": "text", "text": "[gone]"}]), !event.is_error);
        result.content = serde_json::from_value(content).unwrap();
        is_new.then(|| ToolAfterOutcome { result: Some(result) })
    });
    house.judge::<BeforeLlmCall>("stop", |_| {
        Some(BeforeLlmCallOutcome {
            block: Some(true),
            block_reason: Some("not today".into()),
            ..BeforeLlmCallOutcome::default()
        })
    });
    house
}

#[tokio::test]
async fn every_route_wants_a_token_that_allows_it() {
    let server = Server::start(house()).await;
    let judge = server.judge("bot").await;
    let approve = server.person(&[Scope::Approve]).await;
    let read = server.person(&[Scope::Read]).await;
    let (proxy, made) = NewAccessToken::make("other".into(), "a test".to_owned(), Timestamp::now(), DAY);
    server.house.store.add_access_token(made).await.unwrap();
    let document = server.ask("GET", "openapi.json", &read, None).await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut routes = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let path =
            path.strip_prefix("/-/v1/").unwrap().replace("{point}", "before_tool_call").replace("{id}", "x");
        for (method, operation) in methods.as_object().unwrap() {
            routes += 1;
            let method = method.to_ascii_uppercase();
            // Whoever has none of these tokens is told the same, whatever there is.
            for token in ["", "x", TOKEN, proxy.expose().as_str()] {
                let refused = server.ask(&method, &path, token, None).await;
                assert_eq!(refused.status(), 401, "{method} {path}");
                assert_eq!(refused.json()["type"], "urn:backstop:problem:token", "{method} {path}");
                assert!(refused.head().contains("application/problem+json"), "{}", refused.head());
            }
            let scope = operation["x-scope"].as_str();
            let is_stream = operation["responses"]["200"]["content"]["text/event-stream"].is_object();
            for (token, allows) in
                [(&judge, "judge"), (&approve, "approve"), (&read, "read"), (&operator(), "read")]
            {
                let is_refused = scope.is_some_and(|scope| scope != allows);
                if is_stream && !is_refused {
                    // It has no end. Whoever may not have one is told so as everywhere.
                    continue;
                }
                let asked = server.ask(&method, &path, token, None).await;
                assert_eq!(
                    asked.status() == 403,
                    is_refused,
                    "{method} {path} by {allows}: {}",
                    asked.text()
                );
                assert_ne!(asked.status(), 401, "{method} {path}");
            }
        }
    }
    assert_eq!(routes, 24);
    assert_eq!(server.ask("GET", "nothing", "x", None).await.status(), 401);
    assert_eq!(server.ask("GET", "nothing", &read, None).await.status(), 404);
    let other = server.ask("PUT", "grants", &read, None).await;
    assert!(other.status() == 405 && other.head().contains("allow: GET"), "{}", other.head());
    // A token stands in its header alone, and behind no prefix.
    for path in [format!("hooks?key={read}"), format!("hooks?token={read}")] {
        assert_eq!(server.ask("GET", &path, "", None).await.status(), 401);
    }
    let prefixed =
        format!("GET /t/{read}/-/v1/hooks HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert_ne!(talk(&server.gateway, prefixed).await.status(), 200);
    let foreign = request("GET", "hooks", &read, "", None).replace("localhost", "evil.example");
    assert_eq!(talk(&server.gateway, foreign).await.status(), 403);
}

#[tokio::test]
async fn tokens_for_the_api_open_nothing_of_the_proxy() {
    let server = Server::start(house()).await;
    for token in [server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await] {
        let asked = post("/v1/messages", "{}").replacen(TOKEN, &token, 1);
        assert_eq!(talk(&server.gateway, asked).await.status(), 401);
    }
}

#[tokio::test]
async fn a_tool_call_is_judged_by_all_of_its_gates() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let allowed = server.call(&token, "", "read").await.json();
    assert_eq!((&allowed["status"], &allowed["verdict"]), (&"decided".into(), &"allow".into()), "{allowed}");
    assert_eq!(allowed["params"], json!({"command": "marker"}));
    assert_eq!(allowed["digest"], allowed["receipt"]["judged"]);
    assert_eq!(allowed["receipt"]["agentId"], "bot");
    let rewritten = server.call(&token, "", "write").await.json();
    assert_eq!(
        (&rewritten["verdict"], &rewritten["params"]),
        (&"modify".into(), &json!({"path": "elsewhere"}))
    );
    let blocked = server.call(&token, "", "rm").await;
    assert_eq!(blocked.status(), 200);
    let blocked = blocked.json();
    assert_eq!((&blocked["verdict"], &blocked["blocked"]["reason"]), (&"block".into(), &"no".into()));
    assert_eq!((&blocked["blocked"]["hook"], blocked.get("params")), (&"gate".into(), None));
    assert_eq!(server.house.receipts.of(backstop_hooks::PointId::BeforeToolCall).len(), 3);
}

#[tokio::test]
async fn events_of_other_points_are_judged_and_their_outcome_comes_back() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let post = async |point: &str, event: Value| {
        server.ask("POST", &format!("hooks/{point}"), &token, Some(&json!({"event": event}))).await
    };
    let result = json!({"toolCallId": "c", "isError": false, "content": [{"type": "text", "text": "key"}]});
    let after = post(
        "tool.after",
        json!({"toolName": "read", "toolCallId": "c", "isError": false, "result": result}),
    );
    let after = after.await.json();
    assert_eq!(after["verdict"], "modify", "{after}");
    assert_eq!(after["outcome"]["result"]["content"][0]["text"], "[gone]");
    let event = backstop_hooks::PointId::BeforeLlmCall.sample_event();
    let stopped = post("before_llm_call", event).await.json();
    assert_eq!((&stopped["verdict"], &stopped["blocked"]["reason"]), (&"block".into(), &"not today".into()));
    let watched = post("llm_output", backstop_hooks::PointId::LlmOutput.sample_event()).await.json();
    assert_eq!(watched["verdict"], "observed", "{watched}");
}

#[tokio::test]
async fn every_sample_can_be_sent() {
    let server = Server::start(House::new()).await;
    let token = server.judge("bot").await;
    let document = server.ask("GET", "openapi.json", &token, None).await.json();
    let parameters = &document["paths"]["/-/v1/hooks/{point}"]["post"]["parameters"];
    let points = parameters[0]["schema"]["enum"].as_array().unwrap().clone();
    assert!(points.len() > 40, "{points:?}");
    for point in points {
        let name = point.as_str().unwrap();
        let event = name.parse::<backstop_hooks::PointId>().unwrap().sample_event();
        let answer =
            server.ask("POST", &format!("hooks/{name}"), &token, Some(&json!({"event": event}))).await;
        assert_eq!(answer.status(), 200, "{name}: {}", answer.text());
        assert_eq!(answer.json()["status"], "decided", "{name}");
    }
}

#[tokio::test]
async fn what_is_no_event_is_refused_and_nothing_of_it_is_repeated() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let event = json!({"toolName": "read", "params": {}});
    for (point, body, status) in [
        ("before_tool_cal", json!({"event": event}), 404),
        ("tool.before", json!({"event": event}), 404),
        ("gateway_stop", json!({"event": {}}), 404),
        ("before_tool_call", json!({}), 422),
        ("before_tool_call", json!({"event": []}), 422),
        ("before_tool_call", json!({"event": event, "sw0rdfish": 1}), 422),
        ("before_tool_call", json!({"event": {"toolName": "read", "params": {}, "sw0rdfish": 1}}), 422),
        ("before_tool_call", json!({"event": {"toolName": "read", "params": "sw0rdfish"}}), 422),
        ("before_tool_call", json!({"event": event, "context": {"sw0rdfish": "x"}}), 422),
        ("before_tool_call", json!({"event": event, "context": {"agentId": "other"}}), 403),
        ("before_tool_call?wait=sw0rdfish", json!({"event": event}), 400),
        ("before_tool_call?wait=1&wait=2", json!({"event": event}), 400),
        ("before_tool_call?sw0rdfish=1", json!({"event": event}), 400),
    ] {
        let refused = server.ask("POST", &format!("hooks/{point}"), &token, Some(&body)).await;
        assert_eq!(refused.status(), status, "{point} {body}: {}", refused.text());
        let said = refused.body().0.replace("query", "");
        assert!(!said.contains("sw0rdfish"), "{point} {body}: {said}");
        assert_eq!(refused.json()["status"], status, "{said}");
    }
    let nearest = server.ask("POST", "hooks/before_tool_cal", &token, Some(&json!({"event": event}))).await;
    assert!(nearest.text().contains("did you mean `before_tool_call`?"), "{}", nearest.text());
    let plain = request("POST", "hooks/before_tool_call", &token, "", Some(&json!({"event": event})));
    let plain = plain.replace("application/json", "text/plain");
    assert_eq!(talk(&server.gateway, plain).await.status(), 415);
    // Python tells it from its neighbours, and we would not.
    let id = "12345678901234567890123";
    let event = json!({"event": {"toolName": "read", "params": {"id": "*".repeat(id.len() - 2)}}});
    let misread = request("POST", "hooks/before_tool_call", &token, "", Some(&event));
    let misread = misread.replace(&format!("\"{}\"", "*".repeat(id.len() - 2)), id);
    let misread = talk(&server.gateway, misread).await;
    assert_eq!(misread.status(), 422, "{}", misread.text());
    assert!(misread.text().contains("send it as a text"), "{}", misread.text());
    let large = format!(
        "POST /-/v1/hooks/before_tool_call HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: \
         Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        5 << 20
    );
    assert_eq!(talk(&server.gateway, large).await.status(), 413);
    assert!(server.house.receipts.all().is_empty());
}

#[tokio::test]
async fn who_is_judged_waits_while_a_person_answers() {
    let server = Server::start(over(asking(People::new([(
        PersonName::new("ann.m"),
        vec![KnownBy::User("ann".to_owned())],
    )]))))
    .await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let asked = server.call(&token, "", "exec").await;
    assert_eq!(asked.status(), 202, "{}", asked.text());
    let pending = asked.json();
    let id = pending["id"].as_str().unwrap();
    assert!(asked.head().contains(&format!("location: /-/v1/decisions/{id}")), "{}", asked.head());
    assert_eq!(
        (&pending["status"], &pending["question"]["title"]),
        (&"pending".into(), &"run a marker?".into())
    );
    assert_eq!(pending.get("verdict"), None);
    let record = server.only_question().await;
    let path = format!("approvals/{}", record.id);
    assert_eq!(pending["question"]["approval"], record.id.as_str());
    // Nobody who is judged answers, and nobody is told a code.
    let given = json!({"decision": "allow-once", "digest": record.request.digest});
    let refused = server.ask("POST", &format!("{path}/answer"), &token, Some(&given)).await;
    assert_eq!(refused.status(), 403);
    let shown = server.ask("GET", &path, &person, None).await;
    assert_eq!(shown.json()["arguments"], json!({"command": "marker"}));
    let listed = server.ask("GET", "approvals", &person, None).await;
    assert_eq!(listed.json()["approvals"][0]["id"], record.id.as_str());
    for told in [&asked, &shown, &listed] {
        assert!(!told.text().contains(&record.code), "{}", told.text());
    }
    // It is one agent's decision.
    let other = server.judge("other").await;
    assert_eq!(server.ask("GET", &format!("decisions/{id}"), &other, None).await.status(), 404);
    assert_eq!(server.ask("DELETE", &format!("decisions/{id}"), &other, None).await.status(), 404);
    assert_eq!(server.ask("GET", &format!("decisions/{id}"), &token, None).await.json()["status"], "pending");
    // An answer is one to the call that was seen.
    let wrong =
        json!({"decision": "allow-once", "digest": backstop_hooks::Digest::of_text("tool_call", "x")});
    assert_eq!(server.ask("POST", &format!("{path}/answer"), &person, Some(&wrong)).await.status(), 409);
    let mut waiting = connect(&server.gateway).await;
    let wait = request("GET", &format!("decisions/{id}?wait=60"), &token, "", None);
    waiting.write_all(wait.as_bytes()).await.unwrap();
    let answered = server.ask("POST", &format!("{path}/answer"), &person, Some(&given)).await;
    assert_eq!(answered.json()["status"], "allowed", "{}", answered.text());
    let decided = within(rest(&mut waiting)).await.json();
    assert_eq!((&decided["verdict"], &decided["params"]), (&"allow".into(), &json!({"command": "marker"})));
    assert_eq!(decided["receipt"]["approval"]["id"], record.id.as_str());
    // That it may run is told once, and another answer comes too late.
    assert_eq!(server.ask("GET", &format!("decisions/{id}"), &token, None).await.status(), 409);
    let late = json!({"decision": "deny", "digest": record.request.digest});
    assert_eq!(server.ask("POST", &format!("{path}/answer"), &person, Some(&late)).await.status(), 409);
    let by = server.only_question().await.state;
    assert!(format!("{by:?}").contains("ann.m: ann, by the API (token "), "{by:?}");
}

#[tokio::test]
async fn a_question_ends_when_an_answer_is_of_no_use_any_more_and_passes_no_sooner() {
    let house = house();
    house.judge::<BeforeToolCall>("lenient", |event| {
        let request = ApprovalRequest::cut("run it?", "it passes if nobody answers");
        let request = request.timeout(Duration::from_secs(60), TimeoutBehavior::Allow).unwrap();
        (event.tool_name.canonical() == "edit").then(|| ToolCallOutcome::ask(request))
    });
    let server = Server::start(house).await;
    let token = server.judge("bot").await;
    let ask = async |tool: &str, within: Value| {
        let event = json!({"toolName": tool, "params": {"command": "marker"}});
        let body = json!({"event": event, "answerWithinMs": within});
        server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await
    };
    let left = |pending: &Answer| {
        let expires_at = pending.json()["question"]["expiresAt"].as_i64().unwrap();
        Timestamp::now().until(Timestamp::from_millis(expires_at))
    };
    let pending = ask("exec", json!(1_000)).await;
    assert!(left(&pending) <= Duration::from_secs(1), "{}", pending.text());
    let path = format!("decisions/{}?wait=30", pending.json()["id"].as_str().unwrap());
    let ruling = within(server.ask("GET", &path, &token, None)).await.json();
    assert_eq!(
        (&ruling["verdict"], &ruling["receipt"]["approval"]["resolution"]),
        (&json!("block"), &json!("timeout")),
        "{ruling}"
    );
    // It is no later than the hooks want, and what passes if nobody answers passes no sooner.
    for (tool, within) in [("exec", 600_000), ("edit", 1_000)] {
        let pending = ask(tool, json!(within)).await;
        let left = left(&pending);
        assert!(left > Duration::from_secs(30) && left <= Duration::from_secs(60), "{tool}: {left:?}");
    }
    for wrong in [json!(999), json!(600_001), json!(-1), json!("1000"), json!(1.5)] {
        assert_eq!(ask("exec", wrong).await.status(), 422);
    }
}

#[tokio::test]
async fn a_call_is_allowed_by_tokens_that_count_when_enough_have_voted() {
    let settings = two_must(&["ann", "bob", "carl"]);
    let server = Server::start(over(House::asking(Arc::new(SqliteStore::in_memory()), settings))).await;
    let judge = server.judge("bot").await;
    let mut tokens = Vec::new();
    for user in ["ann", "bob", "carl", "eve"] {
        tokens.push(server.person_named(user, &[Scope::Approve, Scope::Read]).await);
    }
    assert_eq!(server.call(&judge, "", "exec").await.status(), 202);
    let record = server.only_question().await;
    let path = format!("approvals/{}/answer", record.id);
    let given = json!({"decision": "allow-once", "digest": record.request.digest});
    let vote = async |token: &str| server.ask("POST", &path, token, Some(&given)).await;
    let refused = vote(&tokens[3]).await;
    assert_eq!((refused.status(), &refused.json()["type"]), (403, &"urn:backstop:problem:not-asked".into()));
    assert!(refused.text().contains("ann, bob or carl may answer"), "{}", refused.text());
    let waits = vote(&tokens[0]).await.json();
    assert_eq!(waits["status"], "pending");
    assert_eq!(waits["votes"], json!({"needed": 2, "allowed": ["ann"], "awaited": ["bob", "carl"]}));
    // A token that was revoked a moment ago does not count any more, wherever it was used.
    let id = AccessTokenId::in_token(tokens[0].as_bytes()).unwrap();
    server.house.store.revoke_access_token(&id, "me", Timestamp::now()).await.unwrap();
    let still = vote(&tokens[1]).await.json();
    assert_eq!((&still["status"], &still["votes"]["allowed"]), (&"pending".into(), &json!(["bob"])));
    let allowed = vote(&tokens[2]).await.json();
    assert_eq!((&allowed["status"], &allowed["answered"]["by"]), (&"allowed".into(), &"bob and carl".into()));
    let listed = server.ask("GET", "approvals?state=all", &tokens[2], None).await.json();
    assert_eq!((&listed["refused"], &listed["approvals"][0]["votes"]["needed"]), (&json!([]), &2.into()));
}

#[tokio::test]
async fn a_denied_call_has_no_arguments_and_nothing_of_it_is_kept() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve]).await);
    let id = server.call(&token, "", "exec").await.json()["id"].as_str().unwrap().to_owned();
    let record = server.only_question().await;
    let given = json!({"decision": "deny", "digest": record.request.digest});
    let path = format!("approvals/{}/answer", record.id);
    let answered = server.ask("POST", &path, &person, Some(&given)).await;
    assert_eq!((answered.status(), &answered.json()["status"]), (200, &"denied".into()));
    let kept = serde_json::to_string(&server.only_question().await).unwrap();
    assert!(!kept.contains("marker"), "{kept}");
    let decided = server.ask("GET", &format!("decisions/{id}?wait=60"), &token, None).await.json();
    assert_eq!((&decided["verdict"], decided.get("params")), (&"block".into(), None), "{decided}");
    assert_eq!(
        server.ask("GET", &format!("decisions/{id}"), &token, None).await.json(),
        decided,
        "a no is a no"
    );
    // The same answer twice is fine.
    assert_eq!(server.ask("POST", &path, &person, Some(&given)).await.status(), 200);
}

#[tokio::test]
async fn a_question_of_a_token_that_ends_is_cancelled() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    assert_eq!(server.call(&token, "", "exec").await.status(), 202);
    let all = server.house.store.access_tokens(9).await.unwrap();
    let id = all.tokens.iter().find(|known| known.made.agent.is_some()).unwrap().made.id.clone();
    server.house.store.revoke_access_token(&id, "a test", Timestamp::now()).await.unwrap();
    within(async {
        while format!("{:?}", server.only_question().await.state).starts_with("Pending") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(format!("{:?}", server.only_question().await.state).starts_with("Cancelled"));
}

#[tokio::test]
async fn the_token_says_who_asks_and_answers_are_judged_elsewhere() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let context = json!({"requester": {"senderId": "bob", "senderIsOwner": true}, "channelId": "c1"});
    let body = json!({"event": {"toolName": "exec", "params": {"command": "marker"}}, "context": context});
    assert_eq!(server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await.status(), 202);
    let asked = server.only_question().await.request;
    assert_eq!((asked.place.requester, asked.place.channel), (None, None));
    let body = json!({"event": {}});
    assert_eq!(server.ask("POST", "hooks/after_llm_call", &token, Some(&body)).await.status(), 404);
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_cancelled() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let id = server.call(&token, "", "exec").await.json()["id"].as_str().unwrap().to_owned();
    let gone = server.ask("DELETE", &format!("decisions/{id}"), &token, None).await;
    assert_eq!((gone.status(), gone.raw_body().len()), (204, 0));
    assert_eq!(server.ask("GET", &format!("decisions/{id}"), &token, None).await.status(), 404);
    let cancelled = async || server.only_question().await.state.status() == ApprovalStatus::Cancelled;
    within(async {
        while !cancelled().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_request_with_a_key_is_done_once() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let body = json!({"event": {"toolName": "exec", "params": {"command": "marker"}}});
    let key = "idempotency-key: 5f1c\r\n";
    let post = async |token: &str, key: &str, body: &Value| {
        server.with("POST", "hooks/before_tool_call", token, key, Some(body)).await
    };
    let first = post(&token, key, &body).await;
    let second = post(&token, key, &body).await;
    assert_eq!((first.status(), first.json()), (second.status(), second.json()));
    server.only_question().await;
    let changed = json!({"event": {"toolName": "read", "params": {}}});
    assert_eq!(post(&token, key, &changed).await.status(), 422);
    assert_eq!(post(&token, "idempotency-key: \r\n", &body).await.status(), 422);
    // It is the key of that token.
    let other = server.judge("other").await;
    assert_eq!(post(&other, key, &changed).await.status(), 200);
    // Without one, it is another request.
    post(&token, "", &body).await;
    let all = server.house.engine.answer_store().approvals(ApprovalFilter::All, 9).await.unwrap();
    assert_eq!(all.len(), 2);
}

#[tokio::test]
async fn where_answers_are_kept_apart_none_is_given_here() {
    let (store, apart) = (Arc::new(SqliteStore::in_memory()), Arc::new(SqliteStore::in_memory()));
    let mut house = House::over(store.clone());
    house.engine = Engine::builder().store(store).answer_store(apart).build();
    let server = Server::start(over(house)).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve]).await);
    assert_eq!(server.call(&token, "", "exec").await.status(), 202);
    let record = server.only_question().await;
    let given = json!({"decision": "allow-once", "digest": record.request.digest});
    for (path, body) in [("answer", Some(&given)), ("whole", None)] {
        let refused = server.ask("POST", &format!("approvals/{}/{path}", record.id), &person, body).await;
        assert_eq!((refused.status(), &refused.json()["type"]), (403, &"urn:backstop:problem:strict".into()));
    }
    assert_eq!(server.only_question().await.state.status(), ApprovalStatus::Pending);
}

#[tokio::test]
async fn what_was_shown_in_part_can_be_allowed_once_all_was_shown() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve]).await);
    let long = "x".repeat(60_000);
    let body = json!({"event": {"toolName": "exec", "params": {"command": long}}});
    let asked = server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await;
    assert_eq!(asked.status(), 202, "{}", asked.text());
    let record = server.only_question().await;
    assert!(record.request.unseen && record.request.whole.is_some());
    let path = format!("approvals/{}", record.id);
    let given = json!({"decision": "allow-once", "digest": record.request.digest});
    let answer = async || server.ask("POST", &format!("{path}/answer"), &person, Some(&given)).await;
    assert_eq!(answer().await.status(), 409);
    let reader = server.person_named("bob", &[Scope::Read]).await;
    let shown = async || server.ask("GET", &path, &reader, None).await.json();
    let before = shown().await;
    assert_eq!((&before["unseen"], &before["cut"]), (&true.into(), &true.into()));
    assert_ne!(before["arguments"]["command"], long);
    let whole = server.ask("POST", &format!("{path}/whole"), &person, None).await.json();
    let long = Value::from(long);
    assert_eq!((&whole["whole"]["command"], &whole["approval"]["unseen"]), (&long, &false.into()));
    // Nobody is shown a part as if it were all.
    let after = shown().await;
    assert_eq!((&after["arguments"]["command"], &after["cut"]), (&long, &false.into()));
    let listed = server.ask("GET", "approvals", &reader, None).await.json();
    assert_eq!(listed["approvals"][0]["cut"], true);
    assert_ne!(listed["approvals"][0]["arguments"]["command"], long);
    assert_eq!(answer().await.status(), 200);
}

#[tokio::test]
async fn what_is_shown_to_somebody_who_is_not_asked_is_seen_by_nobody() {
    let asking = House::asking(Arc::new(SqliteStore::in_memory()), two_must(&["ann", "bob"]));
    let server = Server::start(over(asking)).await;
    let token = server.judge("bot").await;
    let (ann, eve) = (
        server.person_named("ann", &[Scope::Approve]).await,
        server.person_named("eve", &[Scope::Approve]).await,
    );
    let long = "x".repeat(60_000);
    let body = json!({"event": {"toolName": "exec", "params": {"command": long}}});
    assert_eq!(server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await.status(), 202);
    let path = format!("approvals/{}/whole", server.only_question().await.id);
    for (person, unseen) in [(&eve, true), (&ann, false)] {
        let shown = server.ask("POST", &path, person, None).await.json();
        assert_eq!(
            (&shown["whole"]["command"], &shown["approval"]["unseen"]),
            (&long.as_str().into(), &unseen.into())
        );
        assert_eq!(server.only_question().await.request.unseen, unseen);
    }
}

#[tokio::test]
async fn a_token_that_ends_ends_what_waits() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let id = server.call(&token, "", "exec").await.json()["id"].as_str().unwrap().to_owned();
    let mut waiting = connect(&server.gateway).await;
    let wait = request("GET", &format!("decisions/{id}?wait=60"), &token, "", None);
    waiting.write_all(wait.as_bytes()).await.unwrap();
    let tokens = server.house.store.access_tokens(9).await.unwrap().tokens;
    server.house.store.revoke_access_token(&tokens[0].made.id, "a test", Timestamp::now()).await.unwrap();
    assert_eq!(within(rest(&mut waiting)).await.status(), 401);
    assert_eq!(server.call(&token, "", "read").await.status(), 401);
}
