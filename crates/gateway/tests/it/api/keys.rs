//! Idempotency keys of decisions about tool calls: a key permits nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use backstop_hooks::{Digest, Fact, hook_fn};

use super::*;

/// A server whose calls are judged by a number, too.
async fn by_number(house: House) -> (Server, Arc<AtomicU32>) {
    let number = Arc::new(AtomicU32::new(1));
    let read = Arc::clone(&number);
    let hook = hook_fn::<BeforeToolCall, _>(move |_, cx| {
        let read = Arc::clone(&read);
        let look = move || Digest::of("number", &read.load(Ordering::SeqCst));
        cx.rests_on(Fact::new(look(), look));
        Ok(None)
    });
    house.on::<BeforeToolCall>("looks", hook);
    (Server::start(house).await, number)
}

/// Has a tool call judged by a key.
async fn with_key(server: &Server, token: &str, query: &str, tool: &str) -> Answer {
    let body = json!({"event": {"toolName": tool, "params": {"command": "marker"}}});
    let path = format!("hooks/before_tool_call{query}");
    server.with("POST", &path, token, "idempotency-key: 5f1c\r\n", Some(&body)).await
}

/// Allows the only question, once it is asked.
async fn allow_once(server: &Server) {
    let person = server.person(&[Scope::Approve]).await;
    let asked =
        async || server.house.engine.answer_store().approvals(ApprovalFilter::Pending, 9).await.unwrap();
    within(async {
        while asked().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let record = asked().await.remove(0);
    let given = json!({"decision": "allow-once", "digest": record.request.digest});
    let path = format!("approvals/{}/answer", record.id);
    assert_eq!(server.ask("POST", &path, &person, Some(&given)).await.status(), 200);
}

fn was_told(answer: &Answer) {
    let told = answer.json();
    assert_eq!((answer.status(), &told["type"]), (409, &json!("urn:backstop:problem:conflict")), "{told}");
    assert!(answer.text().contains("was told before"), "{}", answer.text());
}

#[tokio::test]
async fn that_a_call_may_run_is_told_to_a_key_once() {
    let (server, number) = by_number(house()).await;
    let token = server.judge("bot").await;
    let first = with_key(&server, &token, "", "read").await.json();
    assert_eq!(first["verdict"], "allow", "{first}");
    was_told(&with_key(&server, &token, "", "read").await);
    number.store(2, Ordering::SeqCst);
    was_told(&with_key(&server, &token, "", "read").await);
    assert_eq!(server.house.receipts.of(backstop_hooks::PointId::BeforeToolCall).len(), 1, "judged once");
}

#[tokio::test]
async fn that_a_large_call_may_run_is_told_to_a_key_once() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let text = "x".repeat(400 << 10);
    let body = json!({"event": {"toolName": "read", "params": {"text": text}}});
    let ask = async || {
        let path = "hooks/before_tool_call";
        server.with("POST", path, &token, "idempotency-key: 5f1c\r\n", Some(&body)).await
    };
    assert_eq!(ask().await.json()["verdict"], "allow");
    was_told(&ask().await);
}

#[tokio::test]
async fn that_a_human_allowed_a_call_once_is_told_to_a_key_once() {
    let (server, number) = by_number(house()).await;
    let token = server.judge("bot").await;
    let (told, ()) = tokio::join!(with_key(&server, &token, "?wait=60", "exec"), allow_once(&server));
    assert_eq!(told.json()["verdict"], "allow", "{}", told.text());
    was_told(&with_key(&server, &token, "?wait=60", "exec").await);
    number.store(2, Ordering::SeqCst);
    was_told(&with_key(&server, &token, "?wait=60", "exec").await);
    server.only_question().await;
}

#[tokio::test]
async fn a_no_is_told_to_a_key_as_often_as_it_asks() {
    let server = Server::start(house()).await;
    let token = server.judge("bot").await;
    let first = with_key(&server, &token, "", "rm").await;
    assert_eq!((first.status(), &first.json()["verdict"]), (200, &json!("block")));
    let again = with_key(&server, &token, "", "rm").await;
    assert_eq!((again.status(), again.json()), (200, first.json()));
}

#[tokio::test]
async fn whoever_lost_the_connection_before_the_answer_is_told_by_what_is_there_then() {
    for (is_other, verdict) in [(false, "allow"), (true, "block")] {
        let (server, number) = by_number(house()).await;
        let token = server.judge("bot").await;
        let body = json!({"event": {"toolName": "exec", "params": {"command": "marker"}}});
        let key = "idempotency-key: 5f1c\r\n";
        let asking = request("POST", "hooks/before_tool_call?wait=60", &token, key, Some(&body));
        let mut broken = connect(&server.gateway).await;
        broken.write_all(asking.as_bytes()).await.unwrap();
        let asked = async || {
            !server.house.engine.answer_store().approvals(ApprovalFilter::All, 9).await.unwrap().is_empty()
        };
        within(async {
            while !asked().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        drop(broken);
        // The server sees that it is gone.
        tokio::time::sleep(Duration::from_millis(200)).await;
        allow_once(&server).await;
        if is_other {
            number.store(2, Ordering::SeqCst);
        }
        let under_way = async || with_key(&server, &token, "?wait=60", "exec").await;
        let told = within(async {
            loop {
                let told = under_way().await;
                if !told.text().contains("under-way") {
                    return told;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_eq!((told.status(), &told.json()["verdict"]), (200, &json!(verdict)), "{}", told.text());
        server.only_question().await;
        match is_other {
            true => assert_eq!(told.json()["blocked"]["rules"], json!(["evidence.changed"])),
            false => was_told(&with_key(&server, &token, "?wait=60", "exec").await),
        }
    }
}
