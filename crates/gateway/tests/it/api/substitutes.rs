//! Answers that put something in the place of a tool call, by the API.

use super::*;

/// A gateway whose hook asks about `exec`, and stops what is forbidden.
async fn serving() -> Server {
    let house = house();
    house.judge::<BeforeToolCall>("stops", |event| {
        let is_it = event.params.to_value().to_string().contains("forbidden");
        is_it.then(|| ToolCallOutcome::block("that is forbidden"))
    });
    Server::start(house).await
}

/// Has a call judged, and returns the id of the decision and the question.
async fn asked(server: &Server, token: &str, substitutes: Value) -> (String, Value) {
    let event = json!({"toolName": "exec", "params": {"command": "marker"}});
    let body = json!({ "event": event, "substitutes": substitutes });
    let pending = server.ask("POST", "hooks/before_tool_call", token, Some(&body)).await;
    assert_eq!(pending.status(), 202, "{}", pending.text());
    let pending = pending.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&pending["id"]), pending["question"]["approval"].clone())
}

async fn question(server: &Server, person: &str, id: &Value) -> Value {
    server.ask("GET", &format!("approvals/{}", id.as_str().unwrap()), person, None).await.json()
}

async fn answer(server: &Server, person: &str, question: &Value, mut given: Value) -> Answer {
    given["digest"] = question["digest"].clone();
    let path = format!("approvals/{}/answer", question["id"].as_str().unwrap());
    server.ask("POST", &path, person, Some(&given)).await
}

async fn decided(server: &Server, token: &str, id: &str) -> Value {
    server.ask("GET", &format!("decisions/{id}?wait=60"), token, None).await.json()
}

/// Allows the call into which the one of this question was changed, and returns the ruling.
async fn allowed(server: &Server, token: &str, person: &str, id: &str, known: &Value) -> Value {
    loop {
        let open = server.ask("GET", "approvals?state=pending", person, None).await.json();
        let seen = open["approvals"].get(0).cloned().unwrap_or_default();
        if seen["editedFrom"]["approval"] == *known {
            let given = answer(server, person, &seen, json!({"decision": "allow-once"})).await;
            assert_eq!(given.status(), 200, "{}", given.text());
            return decided(server, token, id).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn edit(command: &str) -> Value {
    json!({"decision": "edit", "arguments": {"command": command}})
}

#[tokio::test]
async fn who_runs_the_tool_is_handed_what_a_person_made_of_the_call() {
    let server = serving().await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let (id, approval) = asked(&server, &token, json!(["edit", "respond"])).await;
    let seen = question(&server, &person, &approval).await;
    assert_eq!(seen["substitutes"], json!(["edit", "respond"]));
    let answered = answer(&server, &person, &seen, edit("another")).await;
    assert_eq!(answered.status(), 200, "{}", answered.text());
    assert_eq!(
        (&answered.json()["status"], &answered.json()["answered"]["decision"]),
        (&json!("edited"), &json!("edit"))
    );
    let ruling = allowed(&server, &token, &person, &id, &approval).await;
    assert_eq!((&ruling["verdict"], &ruling["substitute"]), (&json!("modify"), &json!("edit")), "{ruling}");
    assert_eq!(ruling["params"], json!({"command": "another"}));
    assert_ne!(ruling["digest"], seen["digest"]);
    assert_eq!(ruling["receipt"]["editedFrom"]["approval"], approval);
    assert_eq!(ruling["receipt"]["judged"], ruling["digest"]);
    // The hook asked about the changed call as well.
    let child = question(&server, &person, &ruling["receipt"]["approval"]["id"]).await;
    assert_eq!((&child["status"], &child["editedFrom"]["approval"]), (&json!("used"), &approval), "{child}");
    assert_eq!(child["editedFrom"]["arguments"], json!({"command": "marker"}));
    // The same answer again is fine, and another one is not.
    assert_eq!(answer(&server, &person, &seen, edit("another")).await.status(), 200);
    let late = answer(&server, &person, &seen, json!({"decision": "allow-once"})).await;
    assert_eq!(late.status(), 409);
    assert!(late.text().contains("already edited"), "{}", late.text());
}

#[tokio::test]
async fn a_changed_call_that_is_stopped_is_not_handed_on() {
    let server = serving().await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let (id, approval) = asked(&server, &token, json!(["edit"])).await;
    let seen = question(&server, &person, &approval).await;
    answer(&server, &person, &seen, edit("forbidden")).await;
    let ruling = decided(&server, &token, &id).await;
    assert_eq!((&ruling["verdict"], &ruling["substitute"]), (&json!("block"), &json!("edit")), "{ruling}");
    assert_eq!(ruling["blocked"]["reason"], "that is forbidden");
    assert_eq!(ruling.get("params"), None);
}

#[tokio::test]
async fn a_result_comes_back_and_is_judged_as_every_result() {
    let server = serving().await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let (id, approval) = asked(&server, &token, json!(["respond"])).await;
    let seen = question(&server, &person, &approval).await;
    let given = json!({"decision": "respond", "result": "three files"});
    assert_eq!(answer(&server, &person, &seen, given).await.json()["status"], "responded");
    let ruling = decided(&server, &token, &id).await;
    assert_eq!(
        (&ruling["verdict"], &ruling["result"]),
        (&json!("respond"), &json!("three files")),
        "{ruling}"
    );
    assert_eq!((ruling.get("params"), ruling.get("blocked")), (None, None));
    assert_eq!(ruling["receipt"]["approval"]["substitute"], "respond");
    assert!(!ruling["receipt"].to_string().contains("three files"));
    let content = json!([{"type": "text", "text": ruling["result"]}]);
    let event = json!({
        "toolName": "exec", "toolCallId": "call", "isError": false,
        "result": {"toolCallId": "call", "content": content, "isError": false},
    });
    let after = server.ask("POST", "hooks/tool.after", &token, Some(&json!({ "event": event }))).await.json();
    assert_eq!(after["outcome"]["result"]["content"][0]["text"], "[gone]", "{after}");
}

#[tokio::test]
async fn nothing_is_taken_that_was_not_offered_or_is_no_such_answer() {
    let server = serving().await;
    let (token, person) = (server.judge("bot").await, server.person(&[Scope::Approve, Scope::Read]).await);
    let (_, approval) = asked(&server, &token, json!([])).await;
    let plain = question(&server, &person, &approval).await;
    assert_eq!(plain["substitutes"], json!([]));
    for given in [edit("another"), json!({"decision": "respond", "result": "none"})] {
        let refused = answer(&server, &person, &plain, given).await;
        assert_eq!(refused.status(), 409, "{}", refused.text());
    }
    let (_, approval) = asked(&server, &token, json!(["edit", "respond"])).await;
    let open = question(&server, &person, &approval).await;
    for wrong in [
        json!({"decision": "edit"}),
        json!({"decision": "edit", "arguments": "marker"}),
        json!({"decision": "edit", "arguments": {}, "result": "x"}),
        json!({"decision": "respond"}),
        json!({"decision": "respond", "result": ""}),
        json!({"decision": "respond", "result": "x".repeat(70_000)}),
        json!({"decision": "allow-once", "arguments": {"command": "another"}}),
        json!({"decision": "deny", "result": "x"}),
    ] {
        let refused = answer(&server, &person, &open, wrong.clone()).await;
        assert_eq!(refused.status(), 422, "{wrong}: {}", refused.text());
    }
    assert_eq!(question(&server, &person, &approval).await["status"], "pending");
    let other = json!({"digest": plain["digest"], "id": open["id"]});
    let wrong = backstop_hooks::Digest::of_text("tool_call", "another");
    let other = json!({"digest": wrong, "id": other["id"]});
    assert_eq!(answer(&server, &person, &other, edit("another")).await.status(), 409, "another call");
    // For tools alone, and for what there is.
    let event = json!({"toolName": "exec", "params": {}});
    for (point, substitutes) in [("message.before", json!(["edit"])), ("before_tool_call", json!(["guess"]))]
    {
        let body = json!({ "event": event, "substitutes": substitutes });
        let refused = server.ask("POST", &format!("hooks/{point}"), &token, Some(&body)).await;
        assert_eq!(refused.status(), 422, "{}", refused.text());
    }
}
