use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{Engine, OperatorSettings, OwnerSettings, Snapshot, Verdict};
use backstop_hooks::{CallContext, Trigger};
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use backstop_plugins::registration::OfferKind;
use backstop_script::{Argument, Arguments, JsonText};
use serde_json::{Value, json};

use crate::support::{Asked, Plugins, call, context, engine};

/// What loading a plugin whose `register` has this body says.
async fn refusal(body: &str) -> String {
    Plugins::new().register("mine", Backstop, body).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_author_does_wrong_is_said_in_words() {
    for (body, words) in [
        ("api.on(\"before_tool_cal\", () => {});", "before_tool_call"),
        ("api.on(\"before_tool_call\", 1);", "no function"),
        ("api.on(\"before_tool_call\", () => {}, { priority: 0.5 });", "whole number"),
        ("api.on(\"before_tool_call\", () => {}, { timeoutMs: -1 });", "timeoutMs"),
        ("api.on(\"before_tool_call\", () => {}, { timeoutMs: 600001 });", "600000"),
        ("api.on(\"agent_end\", () => {}, { matcher: [\"exec\"] });", "about no tool"),
        ("api.on(\"before_tool_call\", () => {}, { matcher: \"exec\" });", "list of names"),
        ("api.on(\"trusted_tool_policy\", () => {});", "registerTrustedToolPolicy"),
        (
            "api.on(\"before_tool_call\", () => {}, { eligibleTriggers: [\"cron\"] });",
            "`before_agent_reply` only",
        ),
        ("api.on(\"before_agent_reply\", () => {}, { eligibleTriggers: [\"corn\"] });", "list of user, cron"),
        ("api.on(\"reply_dispatch\", () => {}, { eligibleDispatchKinds: \"acp\" });", "list of agent, acp"),
        (
            "api.on(\"before_tool_call\", () => {}, { eligibleDispatchKinds: [\"acp\"] });",
            "`reply_dispatch` only",
        ),
        ("api.on(\"before_tool_call\", () => {}, { priorty: 50 });", "did you mean `priority`"),
        (
            "api.on(\"before_prompt_build\", () => {}, { requiresToolAuthority: true });",
            "requiresToolAuthority",
        ),
        (
            "api.interceptors.add({ id: \"i\", name: \"tool.before\", toolMather: /x/, handler() {} });",
            "did you mean `toolMatcher`",
        ),
        ("api.registerTool({ name: \"t\", execute() {}, paramters: {} });", "did you mean `parameters`"),
        ("api.registerTool({ name: \"t\", execute() {} }, { optinal: true });", "did you mean `optional`"),
        (
            "api.registerCommand({ name: \"t\", handler() {}, requireAut: true });",
            "did you mean `requireAuth`",
        ),
        ("api.registerService({ id: \"t\", strat() {} });", "did you mean `start`"),
        ("api.registerService({ id: \"t\" }); api.registerService({ id: \"t\" });", "two services `t`"),
        (
            "const one = { namespace: \"a\", description: \"d\" }; api.registerSessionExtension(one); api.session.state.registerSessionExtension(one);",
            "two session-extensions `a`",
        ),
        (
            "for (const namespace of [\"a\", \"b\"]) api.registerSessionExtension({ namespace, description: \"d\", sessionEntrySlotKey: \"k\" });",
            "`a` and `b` have one `sessionEntrySlotKey`",
        ),
        (
            "for (const id of [\"a\", \"a\"]) api.registerRuntimeLifecycle({ id, cleanup() {} });",
            "two lifecycles `a`",
        ),
        (
            "for (const n of [1, 2]) api.registerCli(({ program }) => { program.command(\"c\").action(() => {}); });",
            "two clis `c`",
        ),
        ("api.onn(\"before_tool_call\", () => {});", "hint: did you mean `on`?"),
        ("api.interceptors.ad({});", "hint: did you mean `add`?"),
        ("api.regsterTool({});", "hint: did you mean `registerTool`?"),
        ("api.session.state.patchSesionExtension({});", "hint: did you mean `patchSessionExtension`?"),
        ("return Promise.resolve();", "promise"),
        ("throw new Error(\"out of luck\");", "out of luck"),
        ("api.registerTool({ name: \"t\" });", "execute"),
        (
            "api.interceptors.add({ id: \"i\", name: \"tool.before\", toolMatcher: /^nope$/, handler() {} });",
            "matches no tool",
        ),
        (
            "api.interceptors.add({ id: \"i\", name: \"message.before\", toolMatcher: /^exec$/, handler() {} });",
            "`i` has a `toolMatcher`, which nothing is compared with at `message.before`",
        ),
        (
            "api.interceptors.add({ id: \"i\", name: \"tool.after\", agentMatcher: /^main$/, handler() {} });",
            "`i` has a `agentMatcher`, which nothing is compared with at `tool.after`",
        ),
        ("api.interceptors.add({ id: \"i\", name: \"tool.befor\", handler() {} });", "tool.before"),
        (
            "const i = { id: \"i\", name: \"tool.before\", handler() {} }; api.interceptors.add(i); api.interceptors.add(i);",
            "already",
        ),
        (
            "api.on(\"agent_end\", () => {}, { registrationId: \"x\" }); api.on(\"agent_end\", () => {}, { registrationId: \"x\" });",
            "registrationId",
        ),
    ] {
        let said = refusal(body).await;
        assert!(said.contains(words) && said.contains("mine"), "{body}\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_registered_is_bounded_in_number_and_in_bytes() {
    for body in [
        "for (let i = 0; i < 1000; i++) api.registerGatewayMethod(`m${i}`);",
        "for (let i = 0; i < 300; i++) api.registerCommand({ name: `c${i}`, description: 'x'.repeat(300000), handler() {} });",
        "for (let i = 0; i < 100; i++) api.on('agent_end', () => {}, { registrationId: `${i}${'x'.repeat(300000)}` });",
    ] {
        let said = refusal(body).await;
        assert!(said.contains("registers more than is taken"), "{body}\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_an_object_or_a_function() {
    for source in [
        "export default { register(api) { api.on(\"agent_end\", () => {}); } };",
        "export default function (api) { api.on(\"agent_end\", () => {}); }",
        "export default { activate(api) { api.on(\"agent_end\", () => {}); } };",
        "export function register(api) { api.on(\"agent_end\", () => {}); }",
        "export default { register({ on }) { on(\"agent_end\", () => {}); } };",
        "export default { register(api) { const mine = { ...api }; mine.on(\"agent_end\", () => {}); } };",
    ] {
        let plugin = Plugins::new().load("mine", OpenClaw, source).await.unwrap();
        assert_eq!(plugin.registration.hooks().count(), 1, "{source}");
    }
    for (source, words) in [
        ("export default {};", "register"),
        ("export default 1;", "no plugin"),
        ("export default { id: \"other\", register() {} };", "other"),
        ("import x from \"left-pad\"; export default { register() {} };", "left-pad"),
        ("export default { register( };", "index.js:1"),
    ] {
        let said = Plugins::new().load("mine", OpenClaw, source).await.unwrap_err().to_string();
        assert!(said.contains(words), "{source}\n{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_has_a_use_for_is_listed() {
    let body = r#"
        api.registerProvider({ id: "p" });
        api.registerHook(["agent:bootstrap", "message:received"], () => {});
        api.registerHook("tool_result_persist", () => {});
        api.on("skill_changed", () => {});
        api.on("agent_end", () => {}, { timeoutMs: 900000, matcher: ["exec"] });
        if (api.registerContextEngine) throw new Error("there is none");
    "#;
    let plugin = Plugins::new().register("mine", OpenClaw, body).await.unwrap();
    let (_, seated) = engine(&[&plugin]);
    let left_out: Vec<_> = seated[0].left_out.iter().map(|left_out| left_out.what.as_str()).collect();
    for what in [
        "registerProvider(p)",
        "agent:bootstrap",
        "tool_result_persist",
        "skill_changed",
        "timeoutMs",
        "matcher",
    ] {
        assert!(left_out.iter().any(|left_out| left_out.contains(what)), "{what}: {left_out:?}");
    }
    assert_eq!(seated[0].hooks.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn interceptors_edit_in_place_and_can_be_taken_away() {
    let body = r#"
        api.interceptors.add({ id: "color", name: "tool.before", toolMatcher: /^exec$/, handler(input, output) {
            if (!output.args.command.includes("--color")) output.args = { ...output.args, command: output.args.command + " --color=never" };
        }});
        api.interceptors.add({ id: "off", name: "tool.before", priority: 9, handler(input, output) { output.block = true; } });
        api.interceptors.remove("off");
        if (api.interceptors.list().length !== 1) throw new Error("two");
    "#;
    let plugin = Plugins::new();
    let plugin = plugin.register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    for (tool, expected) in [("bash", "ls --color=never"), ("read", "ls")] {
        let reviewed =
            engine.review_tool_call(call(tool, json!({ "command": "ls" })), &context(), false).await;
        let params = serde_json::to_value(&reviewed.event.params).unwrap();
        assert_eq!(params["command"], expected, "{:?}", reviewed.blocked);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_commands_and_the_command_line_can_be_called() {
    let asked = Arc::new(Asked::default());
    let plugins = Plugins::with(Arc::<Asked>::clone(&asked));
    let body = r#"
        api.registerTool({ name: "greet", description: "Greets.", parameters: { type: "object" },
            async execute(id, params) { return { content: [{ type: "text", text: `${id} ${params.who}` }] }; } });
        api.registerTool((scope) => null);
        const note = () => api.enqueueNextTurnInjection({ sessionKey: "chat", text: "note" });
        api.registerCommand({ name: "/hello", handler: (context) => { void note(); return { text: "hi " + context.args }; } });
        api.registerCli(({ program }) => {
            program.command("memo <word> [more...]").description("Keeps words.").alias("m")
                .option("-n, --count <n>", "how many", Number, 1).option("--no-case", "any case")
                .action((word, more, options) => { program.outputHelp(); return { word, more, options }; });
        }, { commands: ["memo"] });
        void note();
    "#;
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let offers: Vec<_> =
        plugin.offers.iter().map(|offered| (offered.offer.kind, offered.offer.name.as_str())).collect();
    assert_eq!(offers, [(OfferKind::Tool, "greet"), (OfferKind::Command, "hello"), (OfferKind::Cli, "memo")]);
    let run = async |at: usize, function: &str, arguments: Vec<Value>| {
        let arguments: Vec<_> =
            arguments.iter().map(|value| Argument::Json(JsonText::of(value).unwrap())).collect();
        let budget = Duration::from_secs(5);
        let answer = plugin.call(&plugin.offers[at], function, &Arguments::new(arguments), budget).await;
        answer.map(|answer| answer.map(|answer| answer.json.read::<Value>().unwrap()))
    };
    let greeted = run(0, "execute", vec![json!("c1"), json!({ "who": "you" })]).await.unwrap().unwrap();
    assert_eq!(greeted["content"][0]["text"], "c1 you");
    // A command is called for a conversation; while it is loaded, a plugin has none.
    let open = plugin.answering.open(Some(&"chat".into()));
    let said = run(1, "handler", vec![json!({ "args": "there" })]).await.unwrap().unwrap();
    assert_eq!(said["text"], "hi there");
    drop(open);
    while asked.0.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let kept =
        run(2, "run", vec![json!(["one", "two", "three", "--count=3", "--no-case"])]).await.unwrap().unwrap();
    assert_eq!(
        kept,
        json!({ "word": "one", "more": ["two", "three"], "options": { "count": 3, "case": false } })
    );
    assert!(run(2, "run", vec![json!([])]).await.unwrap_err().to_string().contains("<word>"));
    assert!(run(0, "missing", vec![]).await.is_err());
    let asked = asked.0.lock().unwrap();
    assert_eq!(asked.iter().filter(|(what, _)| what == "mine inject").count(), 1);
    assert_eq!(asked[0], ("mine inject".to_owned(), json!({ "sessionKey": "chat", "text": "note" })));
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_stand_from_the_start_or_not_at_all() {
    let body = r#"
        api.on("before_tool_call", (event) => {
            try { api.on("before_tool_call", () => ({ block: false })); } catch (error) { return { block: true, blockReason: error.message }; }
        });
    "#;
    let plugins = Plugins::new();
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Block);
    assert!(reviewed.blocked.unwrap().reason.unwrap().to_string().contains("after `register` had returned"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_policy_stands_where_the_operator_lets_it() {
    let asked = Arc::new(Asked::default());
    let plugins = Plugins::with(Arc::<Asked>::clone(&asked));
    let body = r#"
        api.registerTrustedToolPolicy({ id: "walls", description: "Keeps to the walls.", async evaluate(event, ctx) {
            const state = await ctx.getSessionExtension("walls");
            if (event.toolName === "exec") return { allow: false, reason: `after ${state.strikes}` };
            if (event.toolName === "read") return { allow: true };
        }});
    "#;
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let mut settings = OperatorSettings::default();
    let refused = plugin.registration.seat(&mut Snapshot::empty(settings.clone())).unwrap_err().to_string();
    assert!(refused.contains("plugins.entries.mine.hooks.allowTrustedToolPolicy"), "{refused}");
    let owner = OwnerSettings { allow_trusted_tool_policy: true, ..OwnerSettings::default() };
    settings.owners.insert("mine".into(), owner);
    let mut snapshot = Snapshot::empty(settings);
    plugin.registration.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.blocked.unwrap().reason.unwrap().to_string(), "after 3");
    let malformed = engine.review_tool_call(call("read", json!({})), &context(), false).await;
    assert_eq!(malformed.receipt.verdict, Verdict::Block, "a policy can only stop");
    let other = engine.review_tool_call(call("web_search", json!({})), &context(), false).await;
    assert_eq!(other.receipt.verdict, Verdict::Pass);
    let wanted = ("mine extensions".to_owned(), json!("chat"));
    assert_eq!(asked.0.lock().unwrap()[0], wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_modules_of_the_host_are_for_the_host() {
    for name in ["backstop:api", "backstop:commander", "backstop:boot"] {
        let source = format!(
            "import * as ours from \"{name}\"; export default {{ register() {{ throw new Error(typeof ours); }} }};"
        );
        let said = Plugins::new().load("mine", OpenClaw, &source).await.unwrap_err().to_string();
        assert!(said.contains("cannot load"), "{name}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_out_is_bounded_and_belongs_to_the_load() {
    // Just past each bound: a slow machine is to have no more to do than that.
    let body = r#"
        for (let n = 0; n < 260; n++) api.registerProvider({ id: "x".repeat(500) });
        api.on("before_tool_call", () => { api.registerProvider({ id: "late" }); });
    "#;
    let plugins = Plugins::new();
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let (engine, seated) = engine(&[&plugin]);
    assert_eq!(seated[0].left_out.len(), 257);
    assert!(seated[0].left_out.iter().all(|left_out| left_out.what.len() < 400));
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Pass, "{:?}", reviewed.receipt.steps);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_07_no_option_of_a_plugin_of_the_other_system_vanishes() {
    let body = r#"
        api.on("before_tool_call", () => ({ block: true, blockReason: "asked" }), { eligibleTriggers: ["cron"], priorty: 50, priority: 0.5, registrationId: "half" });
        api.on("before_tool_call", () => {}, { eligibleDispatchKinds: "acp", priority: Infinity, registrationId: "most" });
        api.on("before_prompt_build", () => {}, { requiresToolAuthority: true });
        api.on("before_agent_reply", () => {}, { eligibleTriggers: "cron" });
        api.on("reply_dispatch", () => {}, { eligibleDispatchKinds: "acp" });
        api.registerHook("message:received", () => {}, { scope: "all" });
        api.interceptors.add({ id: "i", name: "tool.before", toolMather: /x/, handler() {} });
        api.registerTool({ name: "t", description: "d", ownerOnly: true, execute() {} }, { optinal: true });
        api.registerCommand({ name: "c", handler() {}, nativeNames: {} });
        api.registerService({ id: "s", start() {}, scope: 1 });
        api.registerService({ id: "s", start() {} });
    "#;
    let plugin = Plugins::new().register("mine", OpenClaw, body).await.unwrap();
    let (engine, seated) = engine(&[&plugin]);
    let listed: Vec<_> = seated[0].left_out.iter().map(|it| format!("{}: {}", it.what, it.why)).collect();
    for what in [
        "`eligibleTriggers` of half (`before_tool_call`)",
        "`priorty` of on (`half`)",
        "did you mean `priority`?",
        "`priority` of half (`before_tool_call`): it is no whole number of 32 bits; 0 holds",
        "`priority` of most (`before_tool_call`): it is no whole number of 32 bits; 2147483647 holds",
        "`eligibleDispatchKinds` of most (`before_tool_call`)",
        "`eligibleDispatchKinds` of reply_dispatch-1",
        "`requiresToolAuthority` of on (`before_prompt_build`)",
        "`eligibleTriggers` of before_agent_reply-1",
        "`scope` of registerHook (`message:received`)",
        "`toolMather` of interceptors.add (`i`)",
        "`ownerOnly` of a tool (`t`)",
        "`optinal` of registerTool (`t`)",
        "`nativeNames` of registerCommand (`c`)",
        "`scope` of registerService (`s`)",
        "there are two services `s`",
    ] {
        assert!(listed.iter().any(|listed| listed.contains(what)), "{what}: {listed:#?}");
    }
    // A run that a person started is judged as well: the option meant something at another point only.
    for trigger in [None, Some(Trigger::User), Some(Trigger::Cron)] {
        let context = CallContext { trigger, ..context() };
        let reviewed = engine.review_tool_call(call("exec", json!({})), &context, false).await;
        assert_eq!(reviewed.receipt.verdict, Verdict::Block, "{trigger:?}");
    }
    assert_eq!(
        plugin.registration.offers().iter().filter(|offer| offer.kind == OfferKind::Service).count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_the_sdk_that_are_not_provided_are_listed_when_the_plugin_is_loaded() {
    let source = r#"
        import { loadConfig } from "openclaw/plugin-sdk/config-runtime";
        import * as other from "openclaw/plugin-sdk/nothing";
        import { definePluginEntry, notOfIt } from "openclaw/plugin-sdk/core";
        export default definePluginEntry({ id: "mine", register(api) {
            api.on("before_tool_call", () => { loadConfig(); });
            api.on("tool_result_persist", () => { notOfIt(); });
        } });
    "#;
    let plugin = Plugins::new().load("mine", OpenClaw, source).await.unwrap();
    let (engine, seated) = engine(&[&plugin]);
    let what: Vec<_> = seated[0].left_out.iter().map(|left_out| left_out.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "`loadConfig` of `openclaw/plugin-sdk/config-runtime`",
            "`openclaw/plugin-sdk/nothing`",
            "`notOfIt` of `openclaw/plugin-sdk/core`"
        ]
    );
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Block, "what is used throws");
}
