//! What plugins bring besides hooks and tools: commands, services, command lines, and the next set of plugins in the place of one.

use std::io::{BufRead as _, BufReader};

use serde_json::json;

use super::plugin_tools::{install, scene, script};
use super::support::{ModelServer, User, done, hang_up, until};

const GREETS: &str = r#"
    api.registerCommand({ name: "Greet", description: "Greets somebody", acceptsArgs: true,
        handler: async (ctx) => ({ text: "hello " + (ctx.args ?? "you") + " " + ctx.isAuthorizedSender + " " + ctx.sessionKey.split(":")[0] }) });
    api.registerCommand({ name: "plain", description: "Takes no words", handler: () => ({ text: "plain it is" }) });
    api.registerCommand({ name: "breaks", description: "", handler: () => { throw new Error("broken"); } });
"#;

#[test]
fn a_command_is_answered_by_its_plugin_and_not_by_the_model() {
    let (user, _model) = scene(&[], "");
    script(&user, "greets", GREETS);
    let say = |message: &str| user.run(&["agent", "-m", message]);
    assert_eq!(say("/greet bob the builder").succeeded().out.trim(), "hello bob the builder true main");
    assert_eq!(say("/GREET").succeeded().out.trim(), "hello you true main");
    assert_eq!(say("/plain").succeeded().out.trim(), "plain it is");
    // Nobody has asked the model yet. Words after a command that takes none make it a message.
    assert_eq!(say("/plain words").succeeded().out.trim(), "done");
    let broken = say("/breaks");
    assert!(broken.code == Some(1) && broken.out.contains("broken") && broken.out.contains("`greets`"));
    let help = say("/help").succeeded().out;
    for line in ["/new", "/greet [words]", "Greets somebody (greets)", "/plain  Takes"] {
        assert!(help.contains(line), "{line}: {help}");
    }
    let json = user.run(&["--json", "agent", "-m", "/plain"]).succeeded().json();
    assert_eq!((&json["outcome"], &json["text"]), (&json!("answered"), &json!("plain it is")));
    // Who starts it from inside of an agent is nobody's owner, and a command is for the owner unless it says otherwise.
    let inside = user.command(&["agent", "-m", "/greet bob"]).env("AI_AGENT", "1").output().unwrap();
    assert!(!String::from_utf8_lossy(&inside.stdout).contains("hello"), "{inside:?}");
}

#[test]
fn what_a_command_answers_is_judged_like_any_answer() {
    let (user, _model) =
        scene(&[], "plugins: {entries: {judge: {hooks: {allowConversationAccess: true}}}}\n");
    script(&user, "greets", GREETS);
    script(
        &user,
        "judge",
        r#"api.on("before_response_emit", (event) => event.content.includes("hello")
               ? { block: true, blockReason: "no greetings" } : event.content.includes("plain") ? { content: "quiet" } : undefined);"#,
    );
    let blocked = user.run(&["agent", "-m", "/greet"]);
    assert!(blocked.code == Some(4) && !blocked.out.contains("hello"), "{}", blocked.whole());
    assert_eq!(user.run(&["agent", "-m", "/plain"]).succeeded().out.trim(), "quiet");
}

#[test]
fn names_of_commands_are_nobody_elses() {
    let command = |name: &str| {
        format!("api.registerCommand({{ name: \"{name}\", description: \"\", handler() {{}} }});")
    };
    for (first, second, said) in [
        ("same", Some("Same"), "plugin `one`"),
        ("new", None, "Backstop itself"),
        ("/help", None, "Backstop itself"),
        ("with space", None, "nobody can type"),
    ] {
        let user = User::new();
        script(&user, "one", &command(first));
        if let Some(second) = second {
            script(&user, "two", &command(second));
        }
        let done = user.run(&["hooks"]);
        assert!(done.code != Some(0) && done.err.contains(said), "{first}: {}", done.whole());
    }
}

/// A plugin that writes down what becomes of its service. Gives the file.
pub(crate) fn chronicler(user: &User, id: &str, code: &str) -> std::path::PathBuf {
    let folder = user.path().join("sources").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({ "id": id, "version": "1.0.0", "kind": "script", "entry": "index.mjs", "api": "openclaw",
        "permissions": { "files": { "write": ["${data}"] } } });
    std::fs::write(folder.join("backstop.plugin.json"), manifest.to_string()).unwrap();
    let code = format!(
        "import fs from 'node:fs'; import path from 'node:path';
         export default {{ id: '{id}', register(api) {{
            const file = path.join(api.runtime.state.resolveStateDir(), 'log');
            const write = (line) => fs.appendFileSync(file, line + '\\n');
            {code}
         }} }};"
    );
    std::fs::write(folder.join("index.mjs"), code).unwrap();
    install(user, &folder);
    user.path().join("data/backstop/plugins/data").join(id).join("log")
}

const LIVES: &str = "
    api.registerService({ id: 'beat', start: async () => write('start'), stop: () => write('stop') });
    api.registerService({ id: 'fails', start: () => { throw new Error('no port'); }, stop: () => write('never') });
    api.registerRuntimeLifecycle({ id: 'life', cleanup: (ctx) => write('cleanup ' + ctx.reason), dispose: () => write('dispose') });
    api.on('session_end', (event) => write('session_end ' + event.reason));
    api.on('agent_end', (event, ctx) => write('agent_end ' + event.success + ' ' + (ctx.sessionKey ?? '').split(':')[0]));
";

const GRANTS: &str = "plugins: {entries: {lives: {grants: {files: {write: ['${data}']}}, hooks: {allowConversationAccess: true}}}}\n";

#[test]
fn a_service_lives_as_long_as_the_agent_and_one_that_does_not_start_is_said() {
    lives_with_the_agent(GRANTS);
}

#[test]
fn a_service_in_a_process_of_its_own_lives_as_long_as_well() {
    lives_with_the_agent(&GRANTS.replace("{lives: {", "{lives: {runtime: process, "));
}

fn lives_with_the_agent(grants: &str) {
    let (user, _model) = scene(&[], grants);
    let log = chronicler(&user, "lives", LIVES);
    let done = user.run(&["agent", "-m", "hi"]).succeeded();
    assert!(
        done.err.contains("service `fails` of plugin `lives` did not start") && done.err.contains("no port")
    );
    let written = std::fs::read_to_string(&log).unwrap();
    assert_eq!(
        written.lines().collect::<Vec<_>>(),
        ["start", "agent_end true main", "session_end shutdown", "stop", "cleanup restart", "dispose"]
    );
    // What only looks or judges once starts nothing.
    std::fs::remove_file(&log).unwrap();
    user.run(&["hooks"]).succeeded();
    user.run(&["check", "--tool", "exec", "--args", "{}"]);
    assert!(!log.exists());
}

#[test]
fn a_plugin_is_told_of_a_conversation_that_was_deleted() {
    let (user, _model) = scene(&[], GRANTS);
    let log = chronicler(&user, "lives", LIVES);
    let told = user.run(&["--json", "agent", "-m", "hi"]).succeeded().json();
    user.run(&["sessions", "delete", told["session"].as_str().unwrap()]).succeeded();
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(written.ends_with("cleanup delete\n"), "{written}");
}

#[test]
fn a_server_puts_the_next_set_in_place_whole_or_not_at_all() {
    let user = User::with_config(&format!("gateway: {{listen: '127.0.0.1:0'}}\n{GRANTS}"));
    let log = chronicler(&user, "lives", LIVES);
    let talk = user.path().join("talk");
    let errors = std::fs::File::create(&talk).unwrap();
    let mut server = user.command(&["serve", "--port", "0"]).stderr(errors).spawn().unwrap();
    let says =
        |what: &str| until(what, || std::fs::read_to_string(&talk).unwrap().contains(what).then_some(()));
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let lines =
        || std::fs::read_to_string(&log).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    until("the start", || (lines() == ["start"]).then_some(()));
    user.run(&["plugins", "reload"]).succeeded();
    until("the next set", || {
        (lines() == ["start", "stop", "cleanup restart", "dispose", "start"]).then_some(())
    });
    std::fs::remove_file(&log).unwrap();
    hang_up(&server);
    until("another one", || (lines() == ["stop", "cleanup restart", "dispose", "start"]).then_some(()));
    // One that can't be had changes nothing, and the command says why.
    std::fs::remove_file(&log).unwrap();
    script(&user, "bad", "api.on('no_such_point', () => {});");
    let refused = user.run(&["plugins", "reload"]);
    assert!(refused.code != Some(0) && refused.err.contains("no_such_point"), "{}", refused.whole());
    says("no_such_point");
    says("those before stay");
    assert_eq!(lines(), [""; 0], "nothing was stopped");
    user.run(&["plugins", "remove", "bad"]).succeeded();
    user.run(&["plugins", "disable", "lives"]).succeeded();
    until("the end", || lines().contains(&"cleanup disable".to_owned()).then_some(()));
    super::support::interrupt(&server);
    done(server);
    assert!(!lines().contains(&"never".to_owned()), "what was not started is not stopped");
}

#[test]
fn a_command_line_of_a_plugin_runs() {
    let user = User::new();
    script(
        &user,
        "lines",
        r#"api.registerCli(({ program }) => {
               program.command("say <words...>").description("Says it").option("--loud", "loudly")
                   .action(async (words, options) => console.log(options.loud ? words.join(" ").toUpperCase() : words.join(" ")));
               program.command("fail").action(() => { throw new Error("on purpose"); });
           }, { commands: ["say", "fail"] });"#,
    );
    assert_eq!(
        user.run(&["plugins", "run", "lines", "say", "a", "b", "--loud"]).succeeded().out.trim(),
        "A B"
    );
    let help = user.run(&["plugins", "run", "lines", "say", "--help"]).succeeded().out;
    assert!(help.contains("say") && help.contains("--loud"), "{help}");
    let all = user.run(&["plugins", "run", "lines"]).succeeded().out;
    assert!(all.contains("say") && all.contains("fail"), "{all}");
    let failed = user.run(&["plugins", "run", "lines", "fail"]);
    assert!(failed.code == Some(1) && failed.err.contains("on purpose"), "{}", failed.whole());
    let none = user.run(&["plugins", "run", "lines", "sy"]);
    assert!(none.code == Some(2) && none.err.contains("it has say, fail"), "{}", none.whole());
    user.run(&["plugins", "disable", "lines"]).succeeded();
    let off = user.run(&["plugins", "run", "lines", "say", "a"]);
    assert!(off.code == Some(1) && off.err.contains("enable"), "{}", off.whole());
}

/// Says something for the next turn out of a tool and out of a command, and writes down what each turn got.
const REMARKS: &str = "
    const remark = (sessionKey, idempotencyKey) => api.enqueueNextTurnInjection({ sessionKey, text: 'remark of ' + idempotencyKey, idempotencyKey })
        .then((done) => String(done.enqueued), (error) => error.message);
    api.registerTool((ctx) => ({ name: 'remark', description: 'Says it next time', parameters: { type: 'object' },
        execute: async () => {
            const told = [await remark(ctx.sessionKey, 'tool'), await remark(ctx.sessionKey, 'tool'), await remark('elsewhere', 'tool')];
            return { content: [{ type: 'text', text: told.join() }] };
        } }), { names: ['remark'] });
    api.registerCommand({ name: 'remark', description: '', handler: async (ctx) =>
        ({ text: [await remark(ctx.sessionKey, 'command'), await remark(ctx.sessionKey, 'command'), await remark('elsewhere', 'x')].join() }) });
    api.on('agent_turn_prepare', (event) => write(event.queuedInjections.map((one) => one.text).join() + ';'));
";

#[test]
fn what_a_tool_or_a_command_says_for_the_next_turn_is_read_there_once() {
    let grants = GRANTS.replace("lives", "remarks");
    let user = User::new();
    let call = json!({ "tool_calls": [{ "name": "remark", "arguments": {} }] }).to_string();
    let turns = [
        call,
        r#"{"text": "done"}"#.to_owned(),
        r#"{"text": "done"}"#.to_owned(),
        r#"{"text": "done"}"#.to_owned(),
    ];
    let model = ModelServer::start(&user, &turns.join("\n"));
    user.configure(&model.config(&grants));
    let log = chronicler(&user, "remarks", REMARKS);
    let say = |message: &str| user.run(&["agent", "--resume", "-m", message]);
    let first = user.run(&["agent", "-m", "go"]).succeeded();
    assert_eq!(first.out.trim(), "done", "{}", first.whole());
    let shown = user.run(&["sessions", "list", "--json"]).succeeded().json();
    let shown = user.run(&["sessions", "show", shown[0]["id"].as_str().unwrap(), "--json"]).succeeded().out;
    assert!(shown.contains("true,false,`sessionKey` is not that of"), "{shown}");
    let told = say("/remark").succeeded().out;
    assert!(told.starts_with("true,false,`sessionKey` is not that of"), "{told}");
    say("and now").succeeded();
    say("and then").succeeded();
    let read = std::fs::read_to_string(&log).unwrap();
    assert_eq!(read.lines().collect::<Vec<_>>(), [";", "remark of tool,remark of command;", ";"]);
}
