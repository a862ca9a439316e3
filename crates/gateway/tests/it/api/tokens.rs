//! Access tokens, as an administrator sees them.

use super::*;

#[tokio::test]
async fn an_administrator_sees_tokens_and_ends_them() {
    let server = Server::start(house()).await;
    let admin = server.person(&[Scope::Admin]).await;
    let judge = server.judge("bot").await;
    let id = judge.split('_').nth(1).unwrap();
    let listed = server.ask("GET", "tokens", &admin, None).await;
    assert_eq!(listed.status(), 200, "{}", listed.text());
    let all = listed.json();
    let of = |id: &str| all["tokens"].as_array().unwrap().iter().find(|token| token["id"] == id).unwrap();
    assert_eq!((&of(id)["agent"], &of(id)["scopes"]), (&json!("bot"), &json!(["judge"])));
    assert_eq!((&of(id)["counts"], &all["unreadable"]), (&json!(true), &json!(0)));
    let first = server.ask("GET", "tokens?limit=1", &admin, None).await.json();
    assert_eq!(
        (first["tokens"].as_array().unwrap().len(), &first["more"], &all["more"]),
        (1, &json!(true), &json!(false))
    );
    // Page by page, each is there once, also where one of them can't be read.
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.ask("GET", &format!("tokens?limit=1{after}"), &admin, None).await.json();
        seen.extend(page["tokens"].as_array().unwrap().iter().map(|token| token["id"].clone()));
        assert_eq!(page["more"], json!(page.get("next").is_some()));
        let Some(next) = page.get("next").and_then(Value::as_str) else { break };
        after = format!("&after={next}");
    }
    let whole = all["tokens"].as_array().unwrap().iter().map(|token| token["id"].clone());
    assert_eq!(seen, whole.collect::<Vec<_>>());
    for wrong in ["x", "1.5", ""] {
        let refused = server.ask("GET", &format!("tokens?after={wrong}"), &admin, None).await;
        assert_eq!(refused.status(), 400, "{wrong}");
    }
    // Nothing that opens anything is in it.
    for token in [&judge, &admin] {
        assert!(!listed.text().contains(token.rsplit('_').next().unwrap()), "{}", listed.text());
    }
    assert!(!listed.text().contains("sha256:"), "{}", listed.text());
    let revoked = server.ask("DELETE", &format!("tokens/{id}"), &admin, None).await;
    assert_eq!((revoked.status(), revoked.json()["counts"].clone()), (200, json!(false)));
    within(async {
        while server.ask("GET", "openapi.json", &judge, None).await.status() != 401 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let unknown = server.ask("DELETE", "tokens/0000000000000000", &admin, None).await;
    assert_eq!(
        (unknown.status(), unknown.json()["type"].clone()),
        (404, "urn:backstop:problem:no-token".into())
    );
    // Nothing is made here.
    assert_eq!(server.ask("POST", "tokens", &admin, Some(&json!({}))).await.status(), 405);
}
