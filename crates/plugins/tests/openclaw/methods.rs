//! Every method of the other system's `api`: it does what it does there, or it can be called and is listed, or it says by name that it is not here.

use backstop_engine::Verdict;
use backstop_hooks::points::{ToolAfter, ToolAfterEvent};
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use serde_json::{Value, json};

use crate::support::{Plugins, call, context, engine};

/// Methods that are listed when they are called, since nothing comes of them.
const LISTED: &[&str] = &[
    "agent.events.emitAgentEvent",
    "agent.events.registerAgentEventSubscription",
    "emitAgentEvent",
    "onConversationBindingResolved",
    "registerAgentEventSubscription",
    "registerAgentHarness",
    "registerAutoEnableProbe",
    "registerBoardWidgetContentKind",
    "registerChannel",
    "registerCliBackend",
    "registerCodexAppServerExtensionFactory",
    "registerCompactionProvider",
    "registerConfigMigration",
    "registerControlUiDescriptor",
    "registerDecisionProvider",
    "registerDetachedTaskRuntime",
    "registerEmbeddingProvider",
    "registerGatewayAccessPolicy",
    "registerGatewayDiscoveryService",
    "registerHostedMediaResolver",
    "registerImageGenerationProvider",
    "registerInteractiveHandler",
    "registerMcpServerConnectionResolver",
    "registerMediaUnderstandingProvider",
    "registerMigrationProvider",
    "registerModelCatalogProvider",
    "registerMusicGenerationProvider",
    "registerNodeCliFeature",
    "registerNodeHostCommand",
    "registerNodeInvokePolicy",
    "registerProvider",
    "registerRealtimeTranscriptionProvider",
    "registerRealtimeVoiceProvider",
    "registerReload",
    "registerSecurityAuditCollector",
    "registerSessionAction",
    "registerSessionCatalog",
    "registerSessionSchedulerJob",
    "registerSpeechProvider",
    "registerTextTransforms",
    "registerToolMetadata",
    "registerTranscriptSourceProvider",
    "registerVideoGenerationProvider",
    "registerWebFetchProvider",
    "registerWebSearchProvider",
    "registerWidgetPresenter",
    "registerWorkerProvider",
    "scheduleSessionTurn",
    "sendSessionAttachment",
    "session.controls.registerControlUiDescriptor",
    "session.controls.registerSessionAction",
    "session.workflow.registerSessionSchedulerJob",
    "session.workflow.scheduleSessionTurn",
    "session.workflow.sendSessionAttachment",
    "session.workflow.unscheduleSessionTurnsByTag",
    "unscheduleSessionTurnsByTag",
    "runtime.tools.registerMemoryCli",
];

/// Methods that do what they do there.
const DONE: &[&str] = &[
    "on",
    "registerHook",
    "registerTool",
    "registerCommand",
    "registerService",
    "registerCli",
    "registerHttpRoute",
    "registerGatewayMethod",
    "registerTrustedToolPolicy",
    "registerAgentToolResultMiddleware",
    "registerRuntimeLifecycle",
    "lifecycle.registerRuntimeLifecycle",
    "registerSessionExtension",
    "session.state.registerSessionExtension",
    "enqueueNextTurnInjection",
    "session.workflow.enqueueNextTurnInjection",
    "setRunContext",
    "getRunContext",
    "clearRunContext",
    "runContext.setRunContext",
    "runContext.getRunContext",
    "runContext.clearRunContext",
    "resolvePath",
    "runtime.system.runCommandWithTimeout",
];

/// Methods that plugins look for before they decide what to register: they find none.
const ABSENT: &[&str] = &[
    "registerContextEngine",
    "registerMemoryCapability",
    "registerMemoryPromptSupplement",
    "registerMemoryPromptPreparation",
    "registerMemoryCorpusSupplement",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_method_is_done_or_listed_or_looked_for_in_vain() {
    let body = format!(
        r#"
        const at = (path) => path.split(".").reduce((found, name) => found?.[name], api);
        for (const path of {}) at(path)({{ id: path, name: path }});
        for (const path of {}) if (typeof at(path) !== "function") throw new Error(`${{path}} is not there`);
        for (const path of {}) if (at(path) !== undefined) throw new Error(`${{path}} is there`);
        const grouped = {{ ...api.session.workflow, ...api.session.controls, ...api.agent.events, ...api.lifecycle, ...api.runContext }};
        for (const name of Object.keys(grouped)) if (grouped[name] !== api[name]) throw new Error(`${{name}} is two`);
        "#,
        json!(LISTED),
        json!(DONE),
        json!(ABSENT),
    );
    let plugin = Plugins::new().register("mine", OpenClaw, &body).await.unwrap();
    let (_, seated) = engine(&[&plugin]);
    let name = |path: &str| path.split('(').next().unwrap().rsplit('.').next().unwrap().to_owned();
    let mut listed: Vec<_> = seated[0].left_out.iter().map(|left_out| name(&left_out.what)).collect();
    let mut expected: Vec<_> = LISTED.iter().map(|path| name(path)).collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_called_while_a_plugin_runs_answers_that_it_was_not_done() {
    let body = r#"
        api.on("before_tool_call", async () => ({ block: true, blockReason: JSON.stringify([
            api.emitAgentEvent({ runId: "r", stream: "s", data: 1 }).emitted,
            (await api.sendSessionAttachment({})).ok,
            (await api.scheduleSessionTurn({})) === undefined,
            await api.unscheduleSessionTurnsByTag({}),
            await Promise.allSettled([
                api.runtime.llm.complete, api.runtime.config.writeConfigFile, api.runtime.config.mutateConfigFile,
                api.runtime.agent.runEmbeddedPiAgent, api.runtime.system.runCommandWithTimeout,
            ].map(async (one) => one({}))).then((all) => all.map((one) => /`[^`]*`/.exec(one.reason?.message)?.[0])),
            [typeof api.runtime.events, typeof api.runtime.subagent],
        ]) }));
    "#;
    let plugin = Plugins::new().register("mine", OpenClaw, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    let said = reviewed.blocked.unwrap().reason.unwrap().to_string();
    let expected = json!([
        false,
        false,
        true,
        { "removed": 0, "failed": 0 },
        [
            "`api.runtime.llm.complete`",
            "`api.runtime.config.writeConfigFile`",
            "`api.runtime.config.mutateConfigFile`",
            "`api.runtime.agent.runEmbeddedPiAgent`",
            "`runCommandWithTimeout`",
        ],
        ["undefined", "undefined"],
    ]);
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_about_a_run_are_kept_for_that_run_and_bounded() {
    let body = r#"
        const { setRunContext: set, getRunContext: get, clearRunContext: clear } = api.runContext;
        const all = [];
        const value = { steps: [1] };
        all.push(set({ runId: "r", namespace: "n", value }));
        value.steps.push(2);
        all.push(get({ runId: "r", namespace: "n" }).steps.length, get({ runId: "s", namespace: "n" }), get({ runId: "r", namespace: "m" }));
        get({ runId: "r", namespace: "n" }).steps.push(3);
        all.push(api.getRunContext({ runId: "r", namespace: "n" }).steps.length);
        const cycle = {}; cycle.cycle = cycle;
        for (const wrong of [undefined, {}, { runId: "", namespace: "n", value: 1 }, { runId: "r", namespace: " ", value: 1 },
            { runId: "r", namespace: "n" }, { runId: "r", namespace: "n", value: 1, unset: true }, { runId: "r", namespace: "n", value: () => 1 },
            { runId: "r", namespace: "n", value: cycle }, { runId: "r", namespace: "n", value: "x".repeat(65537) }]) all.push(set(wrong));
        all.push(set({ runId: "r", namespace: "n", unset: true }), get({ runId: "r", namespace: "n" }));
        for (let n = 0; n < 70; n++) set({ runId: "r", namespace: `n${n}`, value: n });
        all.push(get({ runId: "r", namespace: "n63" }), get({ runId: "r", namespace: "n64" }));
        clear({ runId: "r", namespace: "n1" });
        all.push(get({ runId: "r", namespace: "n1" }), get({ runId: "r", namespace: "n2" }));
        clear({ runId: "r" });
        all.push(get({ runId: "r", namespace: "n2" }));
        for (let n = 0; n < 512; n++) set({ runId: `run-${n}`, namespace: "n", value: n });
        all.push(get({ runId: "new", namespace: "n" }));
        const ask = (runId, namespace) => { try { return get({ runId, namespace }); } catch (error) { return error.message; } };
        // A run that is set again is the latest one, and the next oldest are forgotten.
        set({ runId: "run-0", namespace: "n", value: "renewed" });
        for (let n = 512; n < 600; n++) set({ runId: `run-${n}`, namespace: "n", value: n });
        all.push(ask("run-0", "n"), ask("run-1", "n"), ask("run-88", "n"), ask("run-89", "n"), ask("new", "n"), ask(undefined, "n"));
        // It was forgotten even if something else is noted about it now.
        set({ runId: "run-1", namespace: "m", value: "later" });
        all.push(ask("run-1", "m"), ask("run-1", "n"));
        throw new Error(JSON.stringify(all.map((one) => one ?? null)));
    "#;
    let said = Plugins::new().register("mine", Backstop, body).await.unwrap_err().to_string();
    let lost = "what was noted about this run was forgotten: the 512 runs that were set last are remembered\nhint: call `clearRunContext` when a run has ended";
    let expected = json!([
        true, 1, null, null, 1, false, false, false, false, false, false, false, false, false, true, null,
        63, null, null, 2, null, null, "renewed", lost, lost, 89, null, null, "later", lost
    ]);
    assert!(said.contains(&expected.to_string()), "{said}");
}

/// What becomes of a result that a middleware with this body is given, and the reason of a block.
async fn told(body: &str, options: &str, ran: Option<&str>) -> (Verdict, String) {
    let plugins = Plugins::new();
    let body =
        format!("api.registerAgentToolResultMiddleware(async (event, ctx) => {{ {body} }}, {options});");
    let plugin = plugins.register("mine", OpenClaw, &body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let event = json!({ "toolName": "exec", "calledAs": "bash", "toolCallId": "c1", "isError": false, "result":
        { "toolCallId": "c1", "toolName": "exec", "isError": false, "content": [{ "type": "text", "text": "a secret" }] } });
    let event: ToolAfterEvent = serde_json::from_value(event).unwrap();
    let ran = ran.map(|command| serde_json::from_value(json!({ "command": command })).unwrap());
    let event = event.params(ran);
    let decided = engine.decide::<ToolAfter>(event, &context()).await;
    let failure = decided.receipt().steps.first().and_then(|step| step.failure.as_ref());
    let said = match failure {
        Some(failure) => failure.message.to_string(),
        None => serde_json::to_value(&decided.event().result).unwrap()["content"].to_string(),
    };
    (decided.receipt().verdict, said)
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_a_middleware_of_results_judges_them_before_the_model_reads_them() {
    let clean = "[{ type: \"text\", text: event.result.content[0].text.replace(\"secret\", \"-\") }]";
    let cleaned = "\"a -\"";
    let whole = "\"a secret\"";
    for (body, options, verdict, said) in [
        (format!("return {{ result: {{ ...event.result, content: {clean} }} }};"), "undefined", Verdict::Modify, cleaned),
        (format!("return {{ result: {{ content: {clean}, details: {{}} }} }};"), "{}", Verdict::Modify, cleaned),
        (format!("event.result.content = {clean};"), "{ runtimes: [\"openclaw\"] }", Verdict::Modify, cleaned),
        (format!("event.result = {{ content: {clean} }};"), "{ runtimes: [\"codex\"] }", Verdict::Modify, cleaned),
        (format!("event.result.content = {clean}; return {{}};"), "{}", Verdict::Modify, cleaned),
        (format!("event.result.content = {clean}; return null;"), "{}", Verdict::Modify, cleaned),
        (format!("event.result.content = {clean}; return {{ result: undefined }};"), "{}", Verdict::Modify, cleaned),
        (format!("const content = {clean}; event.result.content = []; return {{ result: {{ content }} }};"), "{}", Verdict::Modify, cleaned),
        (format!("event.result.content = {clean}; return {{ metadata: {{ hits: 1 }} }};"), "{}", Verdict::Modify, cleaned),
        (format!("event.result.content = {clean}; return [];"), "{}", Verdict::Block, "malformed"),
        ("event.result = null;".to_owned(), "{}", Verdict::Block, "malformed"),
        ("event.result = undefined;".to_owned(), "{}", Verdict::Block, "malformed"),
        ("event.result = () => {};".to_owned(), "{}", Verdict::Block, "malformed"),
        ("delete event.result;".to_owned(), "{}", Verdict::Block, "malformed"),
        ("delete event.result; return {};".to_owned(), "{}", Verdict::Block, "malformed"),
        ("delete event.result.content;".to_owned(), "{}", Verdict::Block, "malformed"),
        ("return {};".to_owned(), "{}", Verdict::Pass, whole),
        ("return undefined;".to_owned(), "{ matcher: [\"exec\"] }", Verdict::Pass, whole),
        ("throw new Error(\"asked\");".to_owned(), "{ matcher: [\"read\"] }", Verdict::Pass, whole),
        ("throw new Error(\"asked\");".to_owned(), "{ matcher: [\"exec\"] }", Verdict::Block, "asked"),
        ("return { result: \"-\" };".to_owned(), "{}", Verdict::Block, "malformed"),
        ("return { content: [] };".to_owned(), "{}", Verdict::Block, "content"),
        ("return { result: { content: [], toolCallId: \"c2\" } };".to_owned(), "{}", Verdict::Block, "another tool call"),
        (
            "throw new Error([event.toolName, event.toolCallId, event.isError, ctx.runtime, ctx.sessionKey, ctx.runId].join());".to_owned(),
            "{}",
            Verdict::Block,
            "exec,c1,false,openclaw,chat,run-1",
        ),
    ] {
        let (came, words) = told(&body, options, Some("ls")).await;
        assert!(came == verdict && words.contains(said), "{body} {options}\n{came:?} {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_a_middleware_of_results_is_told_what_ran_and_never_takes_the_unknown_for_empty() {
    let body =
        "if (event.args.command === \"ls\") return; throw new Error(\"it ran \" + event.args.command);";
    for (ran, verdict, said) in [
        (Some("ls"), Verdict::Pass, "a secret"),
        (Some("date"), Verdict::Block, "it ran date"),
        (None, Verdict::Block, "`event.args` is not known to this host"),
    ] {
        let (came, words) = told(body, "{}", ran).await;
        assert!(came == verdict && words.contains(said), "{ran:?}\n{came:?} {words}");
    }
}
