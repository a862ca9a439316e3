//! Trying a call under another configuration beside the one in force.

use std::sync::Mutex;

use async_trait::async_trait;
use backstop_gateway::{
    CheckedConfiguration, Configuration, ConfigurationProblem, Exception, ReloadedConfiguration,
    ServedPlugin, ShownConfiguration, TriedCall,
};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, HookError, OwnerId, hook_fn};

use super::*;
use backstop_engine::HookOptions;

/// Another configuration, whose hooks are those of a house of its own, whatever text it is.
#[derive(Debug)]
struct Other {
    engine: backstop_engine::Engine,
    unasked: Vec<(String, &'static str)>,
    texts: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Configuration for Other {
    fn shown(&self) -> ShownConfiguration {
        ShownConfiguration { values: json!({}), digest: String::new() }
    }

    fn check(&self, _: &str) -> CheckedConfiguration {
        CheckedConfiguration::default()
    }

    async fn try_call(
        &self,
        text: String,
        event: ToolCallEvent,
        call: CallContext,
    ) -> Result<TriedCall, Vec<ConfigurationProblem>> {
        self.texts.lock().unwrap().push(text.clone());
        if text.contains("wrong") {
            let message = format!("`{text}` is unknown");
            let (line, column) = (Some(7), Some(3));
            return Err(vec![ConfigurationProblem { kind: "unknown", message, line, column, hint: None }]);
        }
        let reviewed = self.engine.review_tool_call(event, &call, true).await;
        let (hooks, variables) = (self.engine.registry().list(), vec!["<b>KEY".to_owned()]);
        Ok(TriedCall { reviewed, starts: None, hooks, unasked: self.unasked.clone(), variables })
    }

    async fn reload(&self, _: &str) -> Result<ReloadedConfiguration, String> {
        Err("not here".to_owned())
    }

    fn plugins(&self) -> Vec<ServedPlugin> {
        Vec::new()
    }

    fn exceptions(&self) -> Vec<Exception> {
        vec![Exception {
            guard: "command_safety",
            rule: None,
            exempt: Some("<b>marker".to_owned()),
            reason: "it is ours".to_owned(),
            last_day: Some("2001-02-03".to_owned()),
            at: "backstop.yaml:7:3".to_owned(),
        }]
    }
}

/// A hook that stops commands with this word, and one that fails on `broken`.
fn stopping(house: &House, id: &str, word: &'static str) {
    house.judge::<BeforeToolCall>(id, move |event| {
        let command = event.params.get("command").and_then(|command| command.as_str());
        command.filter(|command| command.contains(word)).map(|_| ToolCallOutcome::block("not that"))
    });
}

struct Trying {
    server: Server,
    texts: Arc<Mutex<Vec<String>>>,
}

impl Trying {
    async fn start(other: House, unasked: Vec<(String, &'static str)>) -> Self {
        let (house, texts) = (House::new(), Arc::default());
        stopping(&house, "words", "alpha");
        let other = Other { engine: other.engine, unasked, texts: Arc::clone(&texts) };
        let mut settings = settings_of("http://127.0.0.1:9");
        settings.configuration = Some(Arc::new(other));
        Self { server: Server::of(house, settings, Observers::default()).await, texts }
    }

    /// Tries a command of a tool that nobody is asked about.
    async fn tries(&self, person: &Person, command: &str, other: &str) -> Answer {
        let arguments = json!({ "command": command }).to_string();
        self.server.tries(person, &[("tool", "other"), ("arguments", &arguments), ("other", other)]).await
    }

    /// What the page says of the whole.
    async fn compared(&self, person: &Person, command: &str) -> String {
        let page = self.tries(person, command, "text").await;
        assert_eq!(page.status(), 200, "{}", page.text());
        let text = page.text();
        let begun = text.split_once("id=\"compared\"").unwrap_or_else(|| panic!("{text}")).1;
        words(begun.split_once("<table").unwrap().0)
    }
}

/// A part of a page without its markup.
fn words(page: &str) -> String {
    let texts = page.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
    let texts = texts.collect::<Vec<_>>().join(" ");
    texts.split_whitespace().collect::<Vec<_>>().join(" ").replace(" .", ".").replace(" ,", ",")
}

/// The row of a hook.
fn row(page: &str, hook: &str) -> String {
    let table = page.split_once("<table").unwrap().1.split_once("</table").unwrap().0;
    let row = table.split("<tr").find(|row| row.contains(&format!("<code>{hook}</code>")));
    words(row.unwrap_or_else(|| panic!("{table}")))
}

#[tokio::test]
async fn a_call_has_what_two_configurations_make_of_it_side_by_side() {
    let other = House::new();
    stopping(&other, "words", "beta");
    stopping(&other, "gate", "nothing");
    let trying = Trying::start(other, Vec::new()).await;
    let person = trying.server.person(&[Scope::Admin]).await;
    for (command, said) in [
        ("gamma", "the same In force: allow. The other configuration: allow."),
        ("alpha", "looser In force: block. The other configuration: allow."),
        ("beta", "stricter In force: allow. The other configuration: block."),
        ("alpha beta", "the same In force: block. The other configuration: block."),
    ] {
        let compared = trying.compared(&person, command).await;
        assert!(compared.starts_with(said), "{compared}");
    }
    let page = trying.tries(&person, "beta", "text").await.text();
    assert!(row(&page, "words").contains("no objection block stricter"), "{}", row(&page, "words"));
    // Each has what it made of it, beneath names of their own.
    for id in ["now-decision", "other-decision", "now-steps-title", "other-steps-title"] {
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "no id stands twice");
    // What waits behind what was stopped was not reached, and that is not the same.
    let stopped = trying.tries(&person, "alpha", "text").await.text();
    assert!(!row(&stopped, "words").contains("the same"), "{}", row(&stopped, "words"));
    // A block is a block, so that nothing behind it keeps the whole from being the same.
    let stopped = trying.tries(&person, "alpha beta", "text").await.text();
    let said = row(&stopped, "gate");
    assert!(said.contains("not reached not reached because the call was stopped"), "{said}");
    assert!(!stopped.split_once("<table").unwrap().1.contains("can't be compared"), "{stopped}");
    assert!(page.contains("&lt;b&gt;KEY") && !page.contains("<b>KEY"), "{page}");
}

#[tokio::test]
async fn what_is_stopped_in_other_words_is_not_the_same() {
    let other = House::new();
    other.judge::<BeforeToolCall>("words", |_| Some(ToolCallOutcome::block("not this")));
    let trying = Trying::start(other, Vec::new()).await;
    let person = trying.server.person(&[Scope::Admin]).await;
    let compared = trying.compared(&person, "alpha").await;
    assert!(compared.starts_with("otherwise In force: block. The other configuration: block."), "{compared}");
    assert!(compared.contains("By another answer."), "{compared}");
}

#[tokio::test]
async fn what_was_not_asked_or_failed_is_never_the_same() {
    let unasked = vec![("far".to_owned(), "it asks a server"), ("words".to_owned(), "it names a file")];
    let trying = Trying::start(House::new(), unasked).await;
    let person = trying.server.person(&[Scope::Admin]).await;
    for command in ["gamma", "alpha"] {
        let compared = trying.compared(&person, command).await;
        assert!(compared.contains("can't be compared") && !compared.contains("the same"), "{compared}");
        for why in ["`far` was not asked: it asks a server", "`words` was not asked: it names a file"] {
            assert!(compared.contains(why), "{compared}");
        }
    }
    let page = trying.tries(&person, "gamma", "text").await.text();
    let said = row(&page, "words");
    assert!(said.contains("not asked can't be compared because it names a file"), "{said}");

    let broken = House::new();
    let fails = hook_fn::<BeforeToolCall, _>(|_, _| Err(HookError::failed("no connection")));
    let options = HookOptions::new(OwnerId::operator()).id("words");
    broken.engine.registry().on::<BeforeToolCall>(fails, options).unwrap();
    let trying = Trying::start(broken, Vec::new()).await;
    let person = trying.server.person(&[Scope::Admin]).await;
    let compared = trying.compared(&person, "alpha").await;
    assert!(compared.contains("can't be compared") && compared.contains("`words` failed"), "{compared}");
}

#[tokio::test]
async fn only_who_may_have_a_configuration_checked_may_try_one() {
    let trying = Trying::start(House::new(), Vec::new()).await;
    let person = trying.server.person(&[Scope::Read, Scope::Approve]).await;
    assert!(!trying.server.page(&person, "/try").await.contains("name=\"other\""));
    let refused = trying.tries(&person, "x", "text").await;
    assert!(refused.status() == 403 && !refused.text().contains("Decision"), "{}", refused.text());
    let entries = trying.server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
    assert!(entries.iter().all(|entry| entry.kind != "console.tried"), "what is refused leaves no entry");
    assert!(trying.texts.lock().unwrap().is_empty(), "and nobody read it");

    let admin = trying.server.person(&[Scope::Admin]).await;
    assert!(trying.server.page(&admin, "/try").await.contains("name=\"other\""));
    let wrong = trying.tries(&admin, "x", "wrong: <script>").await;
    assert_eq!(wrong.status(), 400);
    let text = wrong.text();
    assert!(text.contains("Line 7, column 3") && text.contains("&lt;script&gt;` is unknown"), "{text}");
    assert!(!text.contains("<script>`") && !text.contains("id=\"compared\""), "{text}");
    let long = format!("#{}", "x".repeat(1 << 20));
    let refused = trying.tries(&admin, "x", &long).await;
    assert!(refused.status() == 400 && refused.text().contains("has more than 1048576 bytes"));
    let most = "y".repeat(1 << 20);
    assert_eq!(trying.tries(&admin, "x", &most).await.status(), 200, "a text may be so long");
    let mut read: Vec<usize> = trying.texts.lock().unwrap().iter().map(String::len).collect();
    read.sort_unstable();
    assert_eq!(read, ["wrong: <script>".len(), 1 << 20]);
    // The trail has who tried, and of the text its digest.
    let entries = trying.server.house.store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap();
    let tried: Vec<_> = entries.iter().filter(|entry| entry.kind == "console.tried").collect();
    assert_eq!(tried.len(), 2, "{tried:?}");
    let digest = |text: &str| json!(Digest::of_text("configuration_text", text));
    assert_eq!(tried[0].body.get("configuration"), Some(&digest("wrong: <script>")));
    assert_eq!(tried[1].body.get("configuration"), Some(&digest(&most)));
    assert!(!serde_json::to_string(&tried).unwrap().contains("script"), "{tried:?}");
    assert_eq!(trying.tries(&admin, "x", "  \n").await.status(), 200, "none is none");
}

#[tokio::test]
async fn what_the_configuration_excepts_is_on_the_page_of_what_judges() {
    let trying = Trying::start(House::new(), Vec::new()).await;
    let admin = trying.server.person(&[Scope::Admin]).await;
    let page = trying.server.page(&admin, "/policy").await;
    let text = words(&page);
    assert!(text.contains("it is ours command_safety &lt;b&gt;marker passes"), "{text}");
    assert!(text.contains("over since the end of 2001-02-03 from backstop.yaml:7:3"), "{text}");
    // Who may only look and answer learns neither what passes nor where the file is.
    let person = trying.server.person(&[Scope::Read, Scope::Approve]).await;
    let page = trying.server.page(&person, "/policy").await;
    assert!(!page.contains("it is ours") && !page.contains("marker") && !page.contains("yaml"), "{page}");
    assert!(words(&page).contains("whose token has the scope admin"), "{page}");
    let unknown = Server::start().await;
    let admin = unknown.person(&[Scope::Admin]).await;
    assert!(unknown.page(&admin, "/policy").await.contains("excepts from the guards is not known here"));
}
