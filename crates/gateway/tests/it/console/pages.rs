//! What pages show, and what they leave alone.

use backstop_hooks::hook_fn;

use super::*;

impl Server {
    /// What a person sees of a page.
    async fn page(&self, person: &Person, path: &str) -> String {
        let page = self.get(path, &format!("cookie: {}\r\n", person.cookie)).await;
        assert_eq!(page.status(), 200, "{path}: {}", page.text());
        page.text()
    }

    async fn tries(&self, person: &Person, fields: &[(&str, &str)]) -> Answer {
        let fields = [&[("form", person.form.as_str())], fields].concat();
        self.post("/try", &format!("{SAME}cookie: {}\r\n", person.cookie), &fields).await
    }

    /// The entries of the trail but those about who signs in, and about what is tried.
    async fn entries(&self) -> Vec<backstop_store::AuditEntry> {
        let mut entries = self.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
        entries
            .retain(|entry| !entry.kind.starts_with("console.") && !entry.kind.starts_with("access_token."));
        entries
    }
}

#[tokio::test]
async fn a_call_that_is_tried_is_judged_and_nothing_comes_of_it() {
    let server = Server::start().await;
    server.house.judge::<BeforeToolCall>("words", |event| {
        let command = event.params.get("command").and_then(|command| command.as_str());
        command
            .filter(|command| command.contains("forbidden"))
            .map(|_| ToolCallOutcome::block("<b>not that</b>"))
    });
    let before = server.entries().await;
    let person = server.person(&[Scope::Read]).await;
    assert!(server.page(&person, "/try").await.contains("Judge it"));
    // A gate asks about each `exec`, and another one stops some.
    let asked = server.tries(&person, &[("command", "a marker\r\nof two lines"), ("agent", "bot")]).await;
    assert_eq!(asked.status(), 200, "{}", asked.text());
    let text = asked.text();
    assert!(text.contains("A person would be asked") && text.contains("run a marker?"), "{text}");
    assert!(text.contains("a marker\nof two lines</textarea>"), "what was typed stays: {text}");
    let blocked = server.tries(&person, &[("command", "forbidden")]).await.text();
    assert!(blocked.contains("It would be stopped"), "{blocked}");
    assert!(blocked.contains("&lt;b&gt;not that") && !blocked.contains("<b>not"), "{blocked}");
    let passed = server.tries(&person, &[("tool", "other"), ("arguments", r#"{"x": [1, 2]}"#)]).await.text();
    assert!(passed.contains("It would run as it is"), "{passed}");
    // What can't be read is not judged.
    for wrong in [
        &[][..],
        &[("command", "x"), ("arguments", "{}")],
        &[("arguments", "{}")],
        &[("tool", "other"), ("arguments", "[1]")],
        &[("tool", "other"), ("arguments", "{\"x\": ")],
        &[("command", "x"), ("agent", &"a".repeat(2_000))],
    ] {
        let refused = server.tries(&person, wrong).await;
        assert!(refused.status() == 400 && !refused.text().contains("Decision"), "{wrong:?}");
    }
    assert_eq!(server.entries().await, before, "no receipt, and no question");
    let answers = server.house.engine.answer_store();
    assert!(answers.approvals(ApprovalFilter::All, 9).await.unwrap().is_empty());
    let entries = server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
    let tried: Vec<_> = entries.iter().filter(|entry| entry.kind == "console.tried").collect();
    let decisions: Vec<_> = tried.iter().map(|entry| entry.body.get("decision").unwrap().clone()).collect();
    assert_eq!(decisions, [json!("pass"), json!("block"), json!("pass")], "who tried what is in the trail");
    assert!(!serde_json::to_string(&tried).unwrap().contains("forbidden"), "and not the text");
    // Whoever may not look may not try, and a link tries nothing.
    let approver = server.person(&[Scope::Approve]).await;
    assert_eq!(server.tries(&approver, &[("command", "x")]).await.status(), 403);
    let cookie = format!("{SAME}cookie: {}\r\n", person.cookie);
    assert_eq!(server.post("/try", &cookie, &[("command", "x")]).await.status(), 403);
    assert!(!server.page(&person, "/try?command=forbidden").await.contains("Decision"));
}

#[tokio::test]
async fn a_trial_sees_no_file_and_no_conversation() {
    let server = Server::start().await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let looks = hook_fn::<BeforeToolCall, _>(move |_, cx| {
        let eyes = cx.call.sight.lent().unwrap();
        let looks = (eyes.file("/etc/hostname"), eyes.leads_to("/proc/self/../x/."));
        told.lock().unwrap().push((cx.call.session_id.clone().unwrap(), looks));
        Ok(None)
    });
    server.house.on::<BeforeToolCall>("looks", looks);
    let person = server.person(&[Scope::Admin]).await;
    for _ in 0..2 {
        assert_eq!(server.tries(&person, &[("command", "sh script.sh")]).await.status(), 200);
    }
    let seen = seen.lock().unwrap();
    let [first, second] = seen.as_slice() else { panic!("{}", seen.len()) };
    assert_ne!(first.0, second.0, "each has a conversation of its own");
    assert_eq!(first.1, (backstop_hooks::Seen::Unreadable, Some("/proc/x".to_owned())));
}
