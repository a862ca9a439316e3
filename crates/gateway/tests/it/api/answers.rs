//! What people can answer by the API: the same as on the console.

use backstop_store::ApprovalState;

use super::*;

async fn answer(server: &Server, person: &str, given: Value) -> Answer {
    let record = server.only_question().await;
    let mut given = given;
    given["digest"] = json!(record.request.digest);
    server.ask("POST", &format!("approvals/{}/answer", record.id), person, Some(&given)).await
}

async fn asked(server: &Server) -> (String, String) {
    let token = server.judge("bot").await;
    let pending = server.call(&token, "", "exec").await;
    assert_eq!(pending.status(), 202, "{}", pending.text());
    (token, pending.json()["id"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn what_is_allowed_from_now_on_reaches_as_far_as_it_is_said() {
    let server = Server::start(house()).await;
    asked(&server).await;
    let person = server.person(&[Scope::Approve]).await;
    // This question has no workspace, rule or program, and no amount.
    for given in [
        json!({"decision": "allow-always", "scope": "rule"}),
        json!({"decision": "allow-always", "scope": "program"}),
        json!({"decision": "allow-always", "scope": "up-to", "argument": "x", "most": "5"}),
    ] {
        let refused = answer(&server, &person, given.clone()).await;
        assert_eq!(refused.status(), 409, "{given}: {}", refused.text());
    }
    for given in [
        json!({"decision": "allow-always"}),
        json!({"decision": "allow-always", "scope": "up-to", "argument": "x"}),
        json!({"decision": "allow-always", "scope": "up-to", "argument": "x", "most": "-5"}),
        json!({"decision": "allow-always", "scope": "call", "most": "5"}),
        json!({"decision": "allow-always", "scope": "call", "holdsSeconds": 59}),
        json!({"decision": "allow-always", "scope": "call", "holdsSeconds": 2_592_001}),
        json!({"decision": "allow-always", "scope": "call", "times": 0}),
        json!({"decision": "allow-always", "scope": "call", "word": "no"}),
        json!({"decision": "allow-once", "scope": "call"}),
        json!({"decision": "allow-once", "word": "yes"}),
        json!({"decision": "allow-later", "holdsSeconds": 3_600}),
        json!({"decision": "deny", "times": 1}),
    ] {
        let refused = answer(&server, &person, given.clone()).await;
        assert!(matches!(refused.status(), 400 | 422), "{given}: {}", refused.text());
    }
    let store = server.house.engine.answer_store();
    assert!(store.grants(9).await.unwrap().is_empty());
    assert_eq!(server.only_question().await.state, ApprovalState::Pending);
    let given = json!({"decision": "allow-always", "scope": "call", "holdsSeconds": 3_600, "times": 3});
    let answered = answer(&server, &person, given).await;
    assert_eq!(answered.status(), 200, "{}", answered.text());
    assert_eq!(answered.json()["answered"]["decision"], "allow-always");
    let [grant] = store.grants(9).await.unwrap().try_into().unwrap();
    assert_eq!(grant.granted.most_uses, Some(3));
    assert_eq!(grant.granted.created_at.until(grant.granted.expires_at), DAY / 24);
}

#[tokio::test]
async fn who_comes_second_is_told_who_was_first() {
    let server = Server::start(house()).await;
    asked(&server).await;
    let ann = server.person_named("ann", &[Scope::Approve]).await;
    let bob = server.person_named("bob", &[Scope::Approve]).await;
    assert_eq!(answer(&server, &ann, json!({"decision": "allow-once"})).await.status(), 200);
    let second = answer(&server, &bob, json!({"decision": "deny"})).await;
    assert_eq!(second.status(), 409);
    assert!(second.text().contains(", by ann, by the API"), "{}", second.text());
}

#[tokio::test]
async fn a_denial_brings_the_model_a_word() {
    let server = Server::start(house()).await;
    let (token, id) = asked(&server).await;
    let person = server.person(&[Scope::Approve]).await;
    let denied = answer(&server, &person, json!({"decision": "deny", "word": "use the other folder"})).await;
    assert_eq!(denied.status(), 200, "{}", denied.text());
    let decided = server.ask("GET", &format!("decisions/{id}?wait=60"), &token, None).await;
    assert!(decided.text().contains("use the other folder"), "{}", decided.text());
}

#[tokio::test]
async fn what_nobody_answered_is_allowed_once_later() {
    let server = Server::start(house()).await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve]).await);
    let event = json!({"toolName": "exec", "params": {"command": "marker"}});
    let body = json!({"event": event, "answerWithinMs": 1_000});
    assert_eq!(server.ask("POST", "hooks/before_tool_call", &token, Some(&body)).await.status(), 202);
    within(async {
        while server.only_question().await.state == ApprovalState::Pending {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let late = answer(&server, &person, json!({"decision": "allow-once"})).await;
    assert_eq!(late.status(), 409, "{}", late.text());
    let later = answer(&server, &person, json!({"decision": "allow-later"})).await;
    assert_eq!(later.status(), 200, "{}", later.text());
    assert!(matches!(server.only_question().await.state, ApprovalState::Allowed(_)), "{}", later.text());
}

#[tokio::test]
async fn a_question_says_whence_it_comes() {
    let server = Server::start(house()).await;
    asked(&server).await;
    let person = server.person(&[Scope::Read]).await;
    let listed = server.ask("GET", "approvals", &person, None).await.json();
    let whence = &listed["approvals"][0]["whence"];
    assert_eq!(whence["agent"], "bot", "{listed}");
    assert!(whence["session"].as_str().is_some_and(|session| session.starts_with("api-")), "{listed}");
}
