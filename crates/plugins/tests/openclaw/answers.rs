use std::sync::Arc;

use backstop_engine::{Attendance, BlockCause, FailureKind, Said, Verdict};
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use serde_json::{Value, json};

use crate::support::{Plugins, call, context, engine};

/// The plugin with which the documentation of the other system begins.
const QUICK_START: &str = r#"
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

export default definePluginEntry({
  id: "tool-preflight",
  name: "Tool Preflight",
  register(api) {
    api.on(
      "before_tool_call",
      async (event) => {
        if (event.toolName !== "web_search") {
          return;
        }
        return {
          requireApproval: {
            title: "Run a web search",
            description: `Allow the query: ${String(event.params.query ?? "")}`,
            severity: "info",
            timeoutMs: 60_000,
            timeoutBehavior: "deny",
          },
        };
      },
      { priority: 50 },
    );
  },
});
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_plugin_asks_about_searches_and_nothing_else() {
    let plugins = Plugins::new();
    let plugin = plugins.load("tool-preflight", OpenClaw, QUICK_START).await.unwrap();
    let (engine, seated) = engine(&[&plugin]);
    assert_eq!(seated[0].hooks.len(), 1);
    let asked =
        engine.review_tool_call(call("web_search", json!({ "query": "rust" })), &context(), false).await;
    let [request] = asked.requests.as_slice() else { panic!("one question") };
    assert_eq!(request.title().as_str(), "Run a web search");
    assert_eq!(request.description().as_str(), "Allow the query: rust");
    assert_eq!(request.owner().unwrap().as_str(), "tool-preflight");
    let other = engine.review_tool_call(call("exec", json!({ "command": "true" })), &context(), false).await;
    assert_eq!(other.receipt.verdict, Verdict::Pass);
    assert!(other.requests.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn types_are_taken_away_as_it_is_loaded() {
    let plugins = Plugins::new();
    let typed = QUICK_START
        .replace("register(api)", "register(api: OpenClawPluginApi): void")
        .replace("async (event)", "async (event: { toolName: string; params: Record<string, unknown> })")
        .replace(
            "export default",
            "import type { OpenClawPluginApi } from \"openclaw/plugin-sdk\";\nexport default",
        );
    let plugin = plugins.load_typescript("tool-preflight", &typed).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let asked =
        engine.review_tool_call(call("web_search", json!({ "query": "rust" })), &context(), false).await;
    assert_eq!(asked.requests.len(), 1);
    let wrong = typed.replace("title:", "title");
    let said = Plugins::new().load_typescript("tool-preflight", &wrong).await.unwrap_err().to_string();
    assert!(said.contains("index.ts:17:19"), "{said}");
}

/// What becomes of a tool call about which a hook answers this.
async fn judged(answer: &str) -> (Verdict, Option<FailureKind>, Value) {
    let plugins = Plugins::new();
    let body = format!("api.on(\"before_tool_call\", (event) => {{ {answer} }});");
    let plugin = plugins.register("mine", OpenClaw, &body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("exec", json!({ "a": 1, "b": 2 })), &context(), false).await;
    let failure = reviewed.receipt.steps[0].failure.as_ref().map(|failure| failure.kind);
    (reviewed.receipt.verdict, failure, serde_json::to_value(&reviewed.event.params).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_what_is_no_answer_blocks() {
    for answer in [
        "return \"yes\";",
        "return { block: \"true\" };",
        "return [];",
        "return { allowed: true };",
        "return { params: \"rm\" };",
        "return { get block() { return false; } };",
        "return new Proxy({}, {});",
        "return new Map([[\"block\", true]]);",
        "return new Set([\"block\"]);",
        "return new (class { get block() { return true; } })();",
        "return Object.create({ block: true });",
        "return Object.create({ toJSON: () => ({ block: true }) });",
        "const a = {}; a.self = a; return a;",
        "return { params: { f() {} } };",
        "return { requireApproval: { title: \"\" } };",
        "return Promise.resolve(\"yes\");",
    ] {
        let (verdict, failure, _) = judged(answer).await;
        assert_eq!((verdict, failure), (Verdict::Block, Some(FailureKind::Malformed)), "{answer}");
    }
    for answer in ["throw new Error(\"no\");", "return Promise.reject(new Error(\"no\"));", "null.x;"] {
        let (verdict, failure, _) = judged(answer).await;
        assert_eq!((verdict, failure), (Verdict::Block, Some(FailureKind::Failed)), "{answer}");
    }
    for answer in
        ["", "return;", "return null;", "return undefined;", "return {};", "return { block: false };"]
    {
        let (verdict, failure, _) = judged(answer).await;
        assert_eq!((verdict, failure), (Verdict::Pass, None), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_mean_what_they_mean_in_the_other_system() {
    assert_eq!(judged("return { block: true, blockReason: \"no\" };").await.0, Verdict::Block);
    let (verdict, _, params) = judged("return { params: { b: 3 } };").await;
    assert_eq!((verdict, params), (Verdict::Modify, json!({ "a": 1, "b": 3 })));
    // What a handler does to its event is its own affair.
    let (verdict, _, params) = judged("event.params.a = 9; event.params = {}; event.toolName = \"x\";").await;
    assert_eq!((verdict, params), (Verdict::Pass, json!({ "a": 1, "b": 2 })));
    // An inherited answer is none.
    let (verdict, ..) = judged("Object.prototype.block = true; return {};").await;
    assert_eq!(verdict, Verdict::Pass);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_is_told_how_its_question_ended_and_may_block_after_all() {
    let plugins = Plugins::new();
    let body = r#"
        const heard = [];
        api.on("before_tool_call", (event) => event.toolName === "exec"
            ? { requireApproval: { title: "t", description: "d", onResolution: async (decision) => { heard.push(decision); } } }
            : { block: true, blockReason: heard.join(",") });
    "#;
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let verdict = engine.permit_tool_call(call("exec", json!({})), &context(), &Attendance::Nobody).await;
    assert!(verdict.permit.is_err(), "nobody could be asked");
    let other = engine.review_tool_call(call("read", json!({})), &context(), false).await;
    let blocked = other.blocked.unwrap();
    assert_eq!(blocked.cause, BlockCause::Decision);
    assert_eq!(blocked.reason.unwrap().to_string(), "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_of_this_system_replaces_parameters() {
    let plugins = Plugins::new();
    let body = "api.on(\"before_tool_call\", () => ({ params: { b: 3 } }));";
    let plugin = plugins.register("mine", Backstop, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("exec", json!({ "a": 1 })), &context(), false).await;
    assert_eq!(serde_json::to_value(&reviewed.event.params).unwrap(), json!({ "b": 3 }));
    assert_eq!(reviewed.receipt.steps[0].said, Said::Rewrote);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_10_hooks_of_one_plugin_do_not_share_their_events() {
    let plugins = Plugins::new();
    let body = r#"
        api.on("before_tool_call", (event) => { event.params.planted = true; event.planted = true; }, { priority: 1 });
        api.on("before_tool_call", (event) => ({ block: "planted" in event || "planted" in event.params }));
    "#;
    let plugin = Arc::new(plugins.register("mine", OpenClaw, body).await.unwrap());
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Pass);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_a_hook_that_can_not_take_the_answer_objects() {
    for (listener, passes) in [
        ("() => {}", true),
        ("async () => ({ block: false })", true),
        ("() => { throw new Error(\"no\"); }", false),
        ("async () => { throw new Error(\"no\"); }", false),
        ("() => ({ block: \"yes\" })", false),
        ("() => ({ allow: false })", false),
        ("() => \"deny\"", false),
        ("() => ({ block: true, blockReason: \"after all\" })", false),
    ] {
        let plugins = Plugins::new();
        let body = format!(
            "api.on(\"before_tool_call\", () => ({{ requireApproval: {{ title: \"t\", description: \"d\", \
             timeoutMs: 50, timeoutBehavior: \"allow\", onResolution: {listener} }} }}));"
        );
        let plugin = plugins.register("mine", OpenClaw, &body).await.unwrap();
        let (engine, _) = engine(&[&plugin]);
        let request =
            engine.review_tool_call(call("exec", json!({})), &context(), false).await.requests.remove(0);
        let told = request.resolution_listener().unwrap();
        let objection = told(backstop_hooks::Resolution::AllowOnce).await;
        assert_eq!(objection.is_none(), passes, "{listener}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_later_versions_are_read_where_they_are_known_and_never_make_an_answer_milder() {
    let plugins = Plugins::new();
    let body = r#"
        api.on("before_tool_call", () => ({ requireApproval: {
            title: "Send", description: "d", timeoutReason: "nobody looked", pluginId: "another", note: "n", ruleId: 7,
            scope: { kind: "message-send", target: "channel:all", recipientCount: 40 },
        } }));
    "#;
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let asked = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    let [request] = asked.requests.as_slice() else { panic!("one question: {:?}", asked.blocked) };
    assert_eq!(request.reason_of_timeout().unwrap().as_str(), "nobody looked");
    assert_eq!(serde_json::to_value(request.scope_of_call()).unwrap()["target"], "channel:all");
    assert_eq!(request.owner().unwrap().as_str(), "mine");
    for informs in ["note: \"n\"", "ruleId: 7, tags: [1], metadata: { block: true }", "telemetry: null"] {
        let (verdict, failure, _) = judged(&format!("return {{ {informs} }};")).await;
        assert_eq!((verdict, failure), (Verdict::Pass, None), "{informs}");
        let (verdict, failure, _) = judged(&format!("return {{ block: true, {informs} }};")).await;
        assert_eq!((verdict, failure), (Verdict::Block, None), "{informs}");
        let (verdict, ..) = judged(&format!("return {{ params: {{ b: 3 }}, {informs} }};")).await;
        assert_eq!(verdict, Verdict::Modify, "{informs}");
    }
    for unknown in
        ["denyWhen: \"x\"", "severity: \"critical\"", "Note: 1", "reviewers: []", "outcome: \"block\""]
    {
        for answer in [
            format!("return {{ {unknown} }};"),
            format!("return {{ block: false, note: 1, {unknown} }};"),
            format!("return {{ requireApproval: {{ title: \"t\", description: \"d\", a{unknown} }} }};"),
        ] {
            let (verdict, failure, _) = judged(&answer).await;
            assert_eq!((verdict, failure), (Verdict::Block, Some(FailureKind::Malformed)), "{answer}");
        }
    }
}

/// What a plugin does to the built-ins of its world is done to itself: libraries do replace some, and what carries its answers uses none
/// of those that it could have replaced.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_does_to_its_built_ins_changes_none_of_its_answers() {
    let plugins = Plugins::new();
    let source = r#"
        const spoil = () => {
            const { ownKeys, getOwnPropertyDescriptor, defineProperty } = Reflect;
            const refuse = () => { throw new Error("a built-in that was replaced was used"); };
            // `apply`, `call` and `pop` are what Node itself calls between two messages.
            const spare = new Set(["constructor", "then", "catch", "finally", "apply", "call", "pop"]);
            const homes = [JSON, Reflect, Math, Object, Array, Number, String, Promise, Function.prototype];
            const made = [Object, Array, Number, Boolean, String, Map, Set, WeakMap, WeakSet, Promise, RegExp, Date, ArrayBuffer, Uint8Array,
                Object.getPrototypeOf(Uint8Array), DataView, globalThis.Buffer, globalThis.TextDecoder, globalThis.TextEncoder,
                globalThis.AbortController, globalThis.AbortSignal, globalThis.EventTarget];
            homes.push(...made.filter(Boolean).map((one) => one.prototype), Object.getPrototypeOf([][Symbol.iterator]()));
            const found = [];
            for (const home of homes) for (const name of ownKeys(home)) {
                const { value, configurable, writable } = getOwnPropertyDescriptor(home, name);
                if (typeof value === "function" && !spare.has(name) && (configurable || writable)) found.push([home, name]);
            }
            const all = found.concat(["JSON", "Buffer", "Map", "WeakMap", "Set", "Uint8Array", "AbortController", "TextDecoder", "setImmediate", "URL"].map((name) => [globalThis, name]));
            const forged = { toJSON: () => "forged", method: "forged", id: 1, result: "forged", block: false, json: "forged", get: () => 1 };
            let at = 0;
            while (at < all.length) {
                const place = all[at++];
                try { defineProperty(place[0], place[1], { __proto__: null, value: refuse, configurable: true, writable: true }); } catch {}
            }
            for (const name in forged) defineProperty({}.__proto__, name, { __proto__: null, value: forged[name], configurable: true, writable: true });
        };
        export default { id: "mine", register(api) {
            api.on("before_tool_call", (event) => {
                const { command } = event.params;
                if (command === "spoil") return void spoil();
                if (command === "late") return new Promise((done) => { setTimeout(() => done({ block: true, blockReason: "late", __proto__: null }), 5); });
                if (command === "throw") throw new TypeError("thrown");
                if (command === "rewrite") return { params: { command: "other", list: [1, { a: null }] } };
                return command === "sudo" ? { block: true, blockReason: "sudo" } : undefined;
            });
        } };"#;
    let plugin = plugins.load("mine", OpenClaw, source).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let asked = async |command: &str| {
        let reviewed =
            engine.review_tool_call(call("exec", json!({ "command": command })), &context(), false).await;
        let failure = reviewed.receipt.steps.iter().find_map(|step| step.failure.as_ref());
        let failure = failure.map(|failure| failure.message.to_string());
        let params = serde_json::to_value(&reviewed.event.params).unwrap();
        (reviewed.blocked.and_then(|blocked| blocked.reason).map(|it| it.to_string()), failure, params)
    };
    let mut before = Vec::new();
    for round in 0..2 {
        for (at, command) in ["ls", "sudo", "late", "rewrite", "throw"].into_iter().enumerate() {
            let said = asked(command).await;
            match round {
                0 => before.push(said),
                // Under Node the place of an error is not found any more: what reads a stack may be replaced.
                _ if command == "throw" => {
                    assert!(said.1.is_some_and(|failure| failure.ends_with("TypeError: thrown")));
                }
                _ => assert_eq!(said, before[at], "{command}"),
            }
        }
        if round == 0 {
            assert_eq!(asked("spoil").await.1, None);
        }
    }
    let reason = |at: usize| before[at].0.as_deref();
    assert_eq!((reason(0), reason(1), reason(2)), (None, Some("sudo"), Some("late")));
    assert_eq!(before[3].2["command"], "other");
    assert!(before[4].1.as_ref().is_some_and(|failure| failure.contains("thrown")), "{before:?}");
}
