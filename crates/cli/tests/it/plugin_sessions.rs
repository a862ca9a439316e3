//! What plugins keep with a conversation: values that are shown with sessions, texts for the next turn, and when either is deleted.

use serde_json::{Value, json};

use super::plugin_uses::chronicler;
use super::support::{ModelServer, User};
use super::terminal::Terminal;

/// What a plugin `keeps` may: write its chronicle, and see conversations.
const GRANTS: &str = "plugins: {entries: {keeps: {grants: {files: {write: ['${data}']}}, hooks: {allowConversationAccess: true}}}}\n";

/// `/keep` stores a value and a text for the next turn; why it was to clean up is written down.
const KEEPS: &str = "
    api.registerSessionExtension({ namespace: 'n', description: 'd', project: ({ state }) => ({ shown: state.kept }),
        cleanup: (why) => write('extension ' + why.reason + ' ' + (why.sessionKey === undefined)) });
    api.registerRuntimeLifecycle({ id: 'l', cleanup: (why) => write('lifecycle ' + why.reason) });
    api.registerCommand({ name: 'keep', description: '', handler: async ({ sessionKey }) => {
        await api.session.state.patchSessionExtension({ sessionKey, namespace: 'n', value: { kept: 7 } });
        await api.enqueueNextTurnInjection({ sessionKey, text: 'do not forget', idempotencyKey: 'k', ttlMs: 600000, metadata: { why: 'asked' } });
        return { text: 'it is kept' };
    } });
    api.on('agent_turn_prepare', (event) => write(JSON.stringify(event.queuedInjections)));
";

fn scene(turns: &str) -> (User, ModelServer, std::path::PathBuf) {
    let user = User::new();
    let model = ModelServer::start(&user, turns);
    user.configure(&model.config(GRANTS));
    let log = chronicler(&user, "keeps", KEEPS);
    (user, model, log)
}

fn lines(log: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What plugins show of the newest session.
fn shown(user: &User) -> Value {
    let list = user.run(&["sessions", "list", "--json"]).succeeded().json();
    let id = list[0]["id"].as_str().unwrap();
    let one = user.run(&["sessions", "show", id, "--json"]).succeeded().json();
    assert_eq!(list[0]["pluginExtensions"], one["session"]["pluginExtensions"]);
    list[0]["pluginExtensions"].clone()
}

fn seven() -> Value {
    json!([{ "pluginId": "keeps", "namespace": "n", "value": { "shown": 7 } }])
}

#[test]
fn a_text_that_a_failed_turn_gave_back_reaches_the_model_exactly_once() {
    let (user, _model, log) = scene(
        r#"{"text": "begun"}
           {"fault": {"http_status": {"status": 400, "message": "not today"}}}
           {"expect": {"user_matches": "^do not forget\\s+second$"}, "text": "read"}
           {"expect": {"user_matches": "^third$"}, "text": "over"}"#,
    );
    user.run(&["agent", "-m", "begin"]).succeeded();
    let say = |message: &str| user.run(&["agent", "--resume", "-m", message]);
    assert_eq!(say("/keep").succeeded().out.trim(), "it is kept");
    let failed = say("first");
    assert!(failed.code == Some(1) && failed.whole().contains("not today"), "{}", failed.whole());
    assert_eq!(say("second").succeeded().out.trim(), "read");
    assert_eq!(say("third").succeeded().out.trim(), "over");
    let queues: Vec<Value> = lines(&log).iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(queues.len() == 4 && queues[1] == queues[2], "the same text twice: {queues:?}");
    assert_eq!((&queues[0], &queues[3]), (&json!([]), &json!([])));
    let mut record = queues[1][0].clone();
    let at = record.as_object_mut().unwrap().remove("createdAt").unwrap();
    assert!(at.as_i64().unwrap() > 1_600_000_000_000, "{at}");
    let told = json!({ "id": "k", "pluginId": "keeps", "text": "do not forget", "placement": "prepend_context",
        "idempotencyKey": "k", "ttlMs": 600_000, "metadata": { "why": "asked" } });
    assert_eq!(record, told);
}

#[test]
fn a_conversation_that_is_begun_afresh_in_a_terminal_has_nothing_of_the_one_before() {
    let (user, _model, log) = scene(r#"{"expect": {"user_matches": "^hello$"}, "text": "new here"}"#);
    let mut terminal = Terminal::start(&user, &["agent"]);
    terminal.wait_for("Ctrl-D ends the conversation");
    terminal.press("/keep\n");
    terminal.wait_for("it is kept");
    assert_eq!(shown(&user), seven());
    terminal.press("/new\n");
    terminal.wait_for("session s-");
    super::support::until("the reset", || lines(&log).contains(&"lifecycle reset".to_owned()).then_some(()));
    terminal.press("hello\n");
    terminal.wait_for("new here");
    assert_eq!(lines(&log), ["extension reset false", "lifecycle reset", "[]"]);
    let list = user.run(&["sessions", "list", "--json"]).succeeded().json();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert!(list.as_array().unwrap().iter().all(|row| row.get("pluginExtensions").is_none()), "{list:#}");
    terminal.press("\u{4}");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(lines(&log)[3..], ["extension restart true", "lifecycle restart"]);
}

#[test]
fn what_a_plugin_keeps_outlives_a_restart_and_is_deleted_with_its_session_or_its_plugin() {
    let (user, _model, log) = scene(r#"{"text": "begun"} {"text": "begun"}"#);
    let begin = || {
        user.run(&["agent", "-m", "begin"]).succeeded();
        user.run(&["agent", "--resume", "-m", "/keep"]).succeeded();
        assert_eq!(shown(&user), seven(), "the host that stored it has ended");
    };
    begin();
    let list = user.run(&["sessions", "list", "--json"]).succeeded().json();
    user.run(&["sessions", "delete", list[0]["id"].as_str().unwrap()]).succeeded();
    let written = lines(&log);
    assert_eq!(written[written.len() - 2..], ["extension delete false", "lifecycle delete"]);
    begin();
    // The configuration has the last word, and no host runs that could see it change.
    let entry = "plugins: {entries: {keeps: {enabled: false}}}\n";
    let model = ModelServer::start(&user, r#"{"expect": {"user_matches": "^on$"}, "text": "without it"}"#);
    user.configure(&model.config(entry));
    let told = user.run(&["agent", "--resume", "-m", "on"]).succeeded();
    assert_eq!(told.out.trim(), "without it");
    user.configure(&model.config(GRANTS));
    assert_eq!(shown(&user), seven(), "a host with another configuration may have it loaded");
    user.run(&["plugins", "disable", "keeps"]).succeeded();
    user.run(&["plugins", "enable", "keeps"]).succeeded();
    assert_eq!(shown(&user), Value::Null, "switched on again, it begins with nothing");
}

/// What a plugin shows in every way that it should not. `z` is the last, and hangs.
const SHOWS: &str = "
    const extension = (namespace, project) => api.registerSessionExtension({ namespace, description: 'd', project });
    extension('asked', (context) => Object.keys(context).join() + ' ' + context.sessionId.slice(0, 2));
    extension('large', () => 'x'.repeat(65537));
    extension('nothing', () => undefined);
    extension('null', () => null);
    extension('plain');
    extension('promise', async ({ state }) => state);
    extension('throws', () => { throw new Error('no view'); });
    extension('z', () => { for (;;); });
    api.registerCommand({ name: 'keep', description: '', handler: async ({ sessionKey }) => {
        for (const namespace of ['asked', 'large', 'nothing', 'null', 'plain', 'promise', 'throws', 'z'])
            await api.session.state.patchSessionExtension({ sessionKey, namespace, value: namespace });
        return { text: 'it is kept' };
    } });
";

#[test]
fn sessions_are_listed_with_what_plugins_show_of_them_whatever_a_plugin_does() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "begun"}"#);
    user.configure(&model.config(""));
    super::plugin_tools::script(&user, "shows", SHOWS);
    user.run(&["agent", "-m", "begin"]).succeeded();
    user.run(&["agent", "--resume", "-m", "/keep"]).succeeded();
    let shown = shown(&user);
    let row = |namespace: &str| {
        let found = shown.as_array().unwrap().iter().find(|row| row["namespace"] == namespace);
        found.cloned().unwrap_or_default()
    };
    assert_eq!(row("asked")["value"], "sessionKey,sessionId,state s-");
    assert_eq!(row("plain")["value"], "plain", "without `project`, as it is stored");
    assert!(row("null").get("value") == Some(&Value::Null) && row("nothing") == Value::Null, "{shown:#}");
    for (namespace, why) in [
        ("large", "65536 characters"),
        ("promise", "returned a promise"),
        ("throws", "no view"),
        ("z", "`z`"),
    ] {
        let row = row(namespace);
        assert!(row["error"].as_str().unwrap().contains(why) && row.get("value").is_none(), "{row:#}");
    }
    let list = user.run(&["sessions", "list"]).succeeded().out;
    assert!(list.contains("shows.asked: \"sessionKey"), "{list}");
    let id = list.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    let text = user.run(&["sessions", "show", id]).succeeded().out;
    for line in ["plugin shows.plain: \"plain\"\n", "plugin shows.throws: error: `project`"] {
        assert!(text.contains(line), "{text}");
    }
    // A plugin that can't be loaded takes nobody's list away.
    let code = user.path().join("data/backstop/plugins/code/shows");
    let code = std::fs::read_dir(code).unwrap().next().unwrap().unwrap().path();
    std::fs::write(code.join("more.js"), "").unwrap();
    let list = user.run(&["sessions", "list", "--json"]).succeeded().json();
    let rows = list[0]["pluginExtensions"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["error"].as_str().unwrap().contains("not loaded")), "{list:#}");
}
