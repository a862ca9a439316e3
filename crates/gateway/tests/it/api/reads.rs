//! What is read, and what sessions belong to.

use backstop_engine::HookOptions;
use backstop_hooks::{OwnerId, hook_fn};

use super::*;

#[tokio::test]
async fn sessions_of_one_agent_are_none_of_anothers() {
    let server = Server::start(House::new()).await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let hook = hook_fn::<BeforeToolCall, _>(move |_, cx| {
        let call = cx.call;
        told.lock().unwrap().push((call.agent_id.clone().unwrap(), call.session_id.clone().unwrap()));
        Ok(None)
    });
    let options = HookOptions::new(OwnerId::operator()).id("sees");
    server.house.engine.registry().on::<BeforeToolCall>(hook, options).unwrap();
    let body = json!({"event": {"toolName": "read", "params": {}}, "context": {"sessionId": "sw0rdfish"}});
    for agent in ["one", "two", "one"] {
        let token = server.judge(agent).await;
        assert_eq!(server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await.status(), 200);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0].1, seen[1].1);
    assert!(!format!("{seen:?} {}", server.house.receipts.all()).contains("sw0rdfish"));
}

#[tokio::test]
async fn who_may_read_reads_what_there_is() {
    let server = Server::start(house()).await;
    let (token, read) = (server.judge("bot").await, server.person(&[Scope::Read]).await);
    server.call(&token, "", "exec").await;
    let get = async |path: &str| server.ask("GET", path, &read, None).await;
    let hooks = get("hooks").await.json();
    let ids: Vec<_> =
        hooks["hooks"].as_array().unwrap().iter().map(|hook| hook["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["stop", "gate", "after"]);
    assert_eq!(get("grants").await.json(), json!({"grants": []}));
    assert_eq!(get("sessions").await.json(), json!({"sessions": []}));
    let trail = get("audit?limit=1").await.json();
    assert_eq!(
        (trail["entries"].as_array().unwrap().len(), &trail["entries"][0]["kind"]),
        (1, &"access_token.created".into())
    );
    let next = get(&format!("audit?after={}", trail["next"])).await.json();
    assert_eq!(next["entries"][0]["seq"], 2, "{next}");
    for path in ["audit?limit=0", "audit?limit=1001", "audit?limit=x", "approvals?state=some"] {
        assert_eq!(get(path).await.status(), 400, "{path}");
    }
    assert_eq!(get("approvals/nothing").await.status(), 404);
}
