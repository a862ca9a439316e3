//! Tools of plugins in `backstop agent`: offered, judged, run and answered like any other.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{Done, ModelServer, User};

/// Installs a script plugin of the reference's dialect whose `register` does `code`.
pub(crate) fn script(user: &User, id: &str, code: &str) {
    let folder = user.path().join("sources").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest =
        json!({ "id": id, "version": "1.0.0", "kind": "script", "entry": "index.ts", "api": "openclaw" });
    std::fs::write(folder.join("backstop.plugin.json"), manifest.to_string()).unwrap();
    let code = format!(
        "import {{ definePluginEntry }} from \"openclaw/plugin-sdk/plugin-entry\";\n\
         export default definePluginEntry({{ id: \"{id}\", name: \"{id}\", register(api) {{\n{code}\n}} }});\n"
    );
    std::fs::write(folder.join("index.ts"), code).unwrap();
    install(user, &folder);
}

/// Installs what is in a folder.
pub(crate) fn install(user: &User, folder: &Path) {
    let folder = folder.to_str().unwrap();
    let told = user.run(&["plugins", "inspect", folder, "--json"]).succeeded().json();
    let hash = told["hash"].as_str().unwrap();
    user.run(&["plugins", "install", folder, "--yes", "--trust", hash]).succeeded();
}

/// A user, and a model that calls these tools one after the other and then says `done`.
pub(crate) fn scene(calls: &[(&str, Value)], more: &str) -> (User, ModelServer) {
    let user = User::new();
    let mut turns: Vec<String> = calls
        .iter()
        .map(|(name, arguments)| {
            json!({ "tool_calls": [{ "name": name, "arguments": arguments }] }).to_string()
        })
        .collect();
    turns.push(json!({ "text": "done" }).to_string());
    let model = ModelServer::start(&user, &turns.join("\n"));
    user.configure(&model.config(more));
    (user, model)
}

/// The results of the tools in the newest session, in order: text, and whether it is an error.
fn results(user: &User) -> Vec<(String, bool)> {
    let sessions = user.run(&["sessions", "list", "--json"]).succeeded().json();
    let session = sessions[0]["id"].as_str().unwrap();
    let transcript = user.run(&["sessions", "show", session, "--json"]).succeeded().json();
    let mut found = Vec::new();
    collect(&transcript, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<(String, bool)>) {
    match value {
        Value::Object(fields) if fields.contains_key("toolCallId") && fields.contains_key("content") => {
            let text = fields["content"][0]["text"].as_str().unwrap_or_default();
            found.push((text.to_owned(), fields.get("isError") == Some(&Value::Bool(true))));
        }
        Value::Object(fields) => fields.values().for_each(|value| collect(value, found)),
        Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

fn turn(user: &User) -> Done {
    user.run(&["agent", "-m", "go"])
}

const SHOUT: &str = r#"
    api.registerTool({ name: "shout", description: "Says it loudly", parameters: { type: "object", properties: { text: { type: "string" } } },
        async execute(id, params, signal) {
            return { content: [{ type: "text", text: params.text.toUpperCase() + " " + (id.length > 0) + " " + signal.aborted }], details: { n: 1 } };
        } });
    api.registerTool((ctx) => [{ name: "whose", description: "", parameters: { type: "object" },
        execute: async () => ({ content: [{ type: "text", text: String(ctx.sessionKey).split(":")[0] }] }) }], { names: ["whose"] });
"#;

#[test]
fn a_tool_of_a_script_is_offered_run_and_its_answer_read() {
    let (user, _model) = scene(&[("shout", json!({ "text": "hey" })), ("whose", json!({}))], "");
    script(&user, "loud", SHOUT);
    let done = turn(&user).succeeded();
    assert_eq!(done.out.trim(), "done", "{}", done.whole());
    assert_eq!(results(&user), [("HEY true false".to_owned(), false), ("main".to_owned(), false)]);
    // Whose tool it was is in the record.
    let audit = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    assert!(audit.contains("\"toolOwner\":\"loud\"") || audit.contains("\"toolOwner\": \"loud\""), "{audit}");
    // One that is switched off is not there to be called.
    user.run(&["plugins", "disable", "loud"]).succeeded();
    let call = json!({ "tool_calls": [{ "name": "shout", "arguments": { "text": "hey" } }] });
    let again = ModelServer::start(&user, &format!("{call}\n{}", json!({ "text": "done" })));
    user.configure(&again.config(""));
    let done = turn(&user);
    let after = results(&user);
    assert!(after.len() == 1 && after[0].1 && !after[0].0.contains("HEY"), "{after:?} {}", done.whole());
}

#[test]
fn a_script_under_node_has_its_tools_hooks_commands_and_texts_as_any_other_and_a_person_is_told_what_it_is() {
    let entry = "plugins: {entries: {loud: {runtime: node}}}\n";
    let (user, _model) = scene(&[("shout", json!({ "text": "hey" })), ("whose", json!({}))], entry);
    let code = format!(
        "{SHOUT}
        if (typeof process.versions.v8 !== 'string') throw new Error('this is not Node');
        api.on('before_tool_call', (event) => event.toolName === 'whose' ? {{ block: true, blockReason: 'node ' + typeof process.versions.v8 }} : undefined);
        api.registerCli(({{ program }}) => program.command('say <word>').action((word) => {{ console.log(word + ' ' + typeof process.versions.v8); }}));"
    );
    script(&user, "loud", &code);
    let shown = user.run(&["plugins", "inspect", "loud"]).succeeded().out;
    for words in
        ["`plugins.entries.<id>.runtime: node`", "with your account's rights", "not kept from the network"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let done = turn(&user).succeeded();
    assert_eq!(done.out.trim(), "done", "{}", done.whole());
    let results = results(&user);
    assert_eq!(results[0], ("HEY true false".to_owned(), false));
    assert!(results[1].0.contains("node string") && results[1].1, "{results:?}");
    let run = user.run(&["plugins", "run", "loud", "say", "it"]).succeeded();
    assert!(run.out.contains("it string"), "{}", run.whole());
    let fired = user.run(&["plugins", "inspect", "loud", "--run"]).succeeded().out;
    assert!(fired.contains("before_tool_call") && fired.contains("no answer"), "{fired}");
}

#[test]
fn a_script_in_a_process_of_its_own_is_a_plugin_as_any_other_and_a_person_is_told_what_holds_it() {
    let entry = "plugins: {entries: {loud: {runtime: process}}}\n";
    let (user, _model) = scene(&[("shout", json!({ "text": "hey" })), ("whose", json!({}))], entry);
    let code = format!(
        "{SHOUT}
        let asked = 0;
        api.on('before_tool_call', (event) => event.toolName === 'whose' ? {{ block: true, blockReason: `asked ${{asked}}` }} : void (asked += 1));
        api.registerCli(({{ program }}) => program.command('say <word>').action((word) => {{ console.log(word); }}));"
    );
    script(&user, "loud", &code);
    let shown = user.run(&["plugins", "inspect", "loud"]).succeeded().out;
    for words in [
        "`plugins.entries.<id>.runtime: process`",
        "a process of its own",
        "to no program, and to no network",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains("rights"), "{shown}");
    let facts: Value =
        serde_json::from_str(&user.run(&["plugins", "inspect", "loud", "--json"]).succeeded().out).unwrap();
    assert_eq!(facts["runtime"], "process");
    let done = turn(&user).succeeded();
    assert_eq!(done.out.trim(), "done", "{}", done.whole());
    let results = results(&user);
    assert_eq!(results[0], ("HEY true false".to_owned(), false));
    assert!(results[1].0.contains("asked 1") && results[1].1, "{results:?}");
    let run = user.run(&["plugins", "run", "loud", "say", "it"]).succeeded();
    assert!(run.out.contains("it"), "{}", run.whole());
    let fired = user.run(&["plugins", "inspect", "loud", "--run"]).succeeded().out;
    assert!(fired.contains("before_tool_call") && fired.contains("no answer"), "{fired}");
}

#[test]
fn a_tool_of_a_plugin_passes_the_gates_of_any_tool() {
    let (user, _model) = scene(&[("shout", json!({ "text": "hey" }))], "");
    script(&user, "loud", SHOUT);
    script(
        &user,
        "quiet",
        r#"api.on("before_tool_call", (event) => event.toolName === "shout" && event.toolOwner === "loud"
               ? { block: true, blockReason: "not so loud" } : undefined, { matcher: ["shout"] });"#,
    );
    turn(&user).succeeded();
    let results = results(&user);
    assert!(results[0].0.contains("not so loud") && results[0].1, "{results:?}");
}

#[test]
fn a_tool_that_fails_in_any_way_is_an_error_that_the_model_reads() {
    let names = ["throws", "rejects", "nothing", "garbage", "cycle", "bomb", "works"];
    let calls: Vec<(&str, Value)> = names.iter().map(|name| (*name, json!({}))).collect();
    let (user, _model) = scene(&calls, "");
    script(
        &user,
        "bad",
        r#"
        const tool = (name, execute) => api.registerTool({ name, description: "", parameters: { type: "object" }, execute });
        tool("throws", () => { throw new Error("thrown at once"); });
        tool("rejects", async () => { throw new Error("thrown later"); });
        tool("nothing", () => undefined);
        tool("garbage", () => ({ content: [{ type: "tool_use" }] }));
        tool("cycle", () => { const it = { content: [] }; it.content.push(it); return it; });
        tool("bomb", () => { const all = []; for (;;) all.push(new Array(1 << 20).fill(all.length)); });
        tool("works", () => "still here");
        "#,
    );
    let done = turn(&user).succeeded();
    assert_eq!(done.out.trim(), "done", "{}", done.whole());
    let results = results(&user);
    for (at, said) in ["thrown at once", "thrown later", "nothing", "content[0]", "content", "memory"]
        .into_iter()
        .enumerate()
    {
        assert!(results[at].1 && results[at].0.contains(said), "{said}: {results:?}");
        assert!(results[at].0.contains(names[at]) && results[at].0.contains("`bad`"), "{results:?}");
    }
    // The runtime that was thrown away is made anew, at once or at a later call.
    assert!(results[6].0.contains("still here") || results[6].1, "{results:?}");
}

#[test]
fn two_tools_of_one_name_are_an_error_that_names_both() {
    let user = User::new();
    let tool = |name: &str| {
        format!(
            "api.registerTool({{ name: \"{name}\", description: \"\", parameters: {{}}, execute() {{}} }});"
        )
    };
    script(&user, "one", &tool("same"));
    script(&user, "two", &tool("Same"));
    let done = user.run(&["hooks"]);
    assert!(done.code != Some(0), "{}", done.whole());
    for word in ["plugin `one`", "plugin `two`", "`Same`", "disable"] {
        assert!(done.err.contains(word), "{word}: {}", done.whole());
    }
    user.run(&["plugins", "disable", "one"]).succeeded();
    user.run(&["hooks"]).succeeded();
    // Another spelling of a tool of the agent's own is that tool, too.
    for own in ["exec", "Bash", "read"] {
        let user = User::new();
        script(&user, "three", &tool(own));
        let done = user.run(&["hooks"]);
        assert!(done.code != Some(0) && done.err.contains("Backstop itself"), "{own}: {}", done.whole());
    }
    let user = User::new();
    script(&user, "four", &tool("no spaces, please"));
    let done = user.run(&["hooks"]);
    assert!(done.code != Some(0) && done.err.contains("no model can call"), "{}", done.whole());
}

#[test]
fn an_optional_tool_is_offered_where_the_configuration_lists_it() {
    let code = r#"api.registerTool({ name: "extra", description: "", parameters: {}, execute: () => "extra!" }, { optional: true });"#;
    let (user, model) = scene(&[("extra", json!({}))], "");
    script(&user, "opt", code);
    turn(&user).succeeded();
    let refused = results(&user);
    assert!(refused[0].1 && refused[0].0.contains("not on offer"), "{refused:?}");
    drop(model);
    let listed = "plugins: {entries: {opt: {optionalTools: [extra]}}}\n";
    let (user, _model) = scene(&[("extra", json!({}))], listed);
    script(&user, "opt", code);
    turn(&user).succeeded();
    assert_eq!(results(&user), [("extra!".to_owned(), false)]);
    let user = User::with_config("plugins: {entries: {opt: {optionalTools: [extra, other]}}}\n");
    script(&user, "opt", code);
    let done = user.run(&["hooks"]);
    assert!(
        done.code != Some(0) && done.err.contains("`other`") && done.err.contains("extra"),
        "{}",
        done.whole()
    );
}

#[test]
fn a_tool_that_was_taken_away_is_gone() {
    let (user, _model) = scene(&[("shout", json!({ "text": "hey" }))], "");
    script(&user, "loud", SHOUT);
    user.run(&["plugins", "disable", "loud"]).succeeded();
    turn(&user).succeeded();
    let results = results(&user);
    assert!(results[0].1 && results[0].0.contains("not on offer"), "{results:?}");
}

#[test]
fn a_tool_of_a_program_is_a_tool_of_the_agent() {
    let (user, _model) = scene(&[("add", json!({ "a": 2, "b": 3 })), ("fail", json!({}))], "");
    let folder = user.path().join("sources/sums");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({ "id": "sums", "version": "1.0.0", "kind": "process", "command": ["python3", "${plugin}/sums.py"] });
    std::fs::write(folder.join("backstop.plugin.json"), manifest.to_string()).unwrap();
    let program = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": None}
    if message["method"] == "initialize":
        tool = lambda name: {"name": name, "description": "", "inputSchema": {"type": "object"}}
        answer["result"] = {"protocol": 1, "tools": [tool("add"), tool("fail")]}
    elif message["method"] == "tool" and message["params"]["name"] == "add":
        given = message["params"]["arguments"]
        answer["result"] = {"content": [{"type": "text", "text": "sum %d" % (given["a"] + given["b"])}]}
    elif message["method"] == "tool":
        del answer["result"]
        answer["error"] = {"code": -32000, "message": "it can't"}
    print(json.dumps(answer), flush=True)
    if message["method"] == "shutdown": break
"#;
    std::fs::write(folder.join("sums.py"), program).unwrap();
    install(&user, &folder);
    turn(&user).succeeded();
    let results = results(&user);
    assert_eq!(results[0], ("sum 5".to_owned(), false));
    assert!(results[1].1 && results[1].0.contains("it can't"), "{results:?}");
}

/// A package that somebody else has published, as `cargo xtask test` installs it.
fn published(package: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/tests/packages/node_modules").join(package);
    assert!(folder.exists(), "{}: `cargo xtask test` installs the plugins", folder.display());
    folder
}

#[test]
fn tools_of_published_packages_work_in_the_agent() {
    let (user, _model) = scene(
        &[
            ("avatar_signal", json!({ "action": "nodding" })),
            ("ollama_web_search", json!({ "query": "rust" })),
        ],
        "plugins: {entries: {openclaw-avatar: {config: {enableAvatarTool: true}, hooks: {allowConversationAccess: true}}}}\n",
    );
    install(&user, &published("@projectavatar/openclaw-avatar"));
    install(&user, &published("@ollama/openclaw-web-search"));
    let done = turn(&user).succeeded();
    assert_eq!(done.out.trim(), "done", "{}", done.whole());
    let results = results(&user);
    assert!(!results[0].1 && !results[0].0.is_empty(), "{results:?}");
    assert!(
        results[1].1 && results[1].0.contains("missing grant: hosts"),
        "it says which grant is missing: {results:?}"
    );
}
