//! What a program that embeds Backstop can build, and what it is told when it can't.

#![expect(clippy::unwrap_used, reason = "tests fail loudly, helpers of tests too")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use backstop::config::{ConfigError, InRepository, LayerKind, Loaded, Loader, Source};
use backstop::engine::{
    FailureSource, HookVerdict, LlmCall, LlmCallHook, LlmChanges, Receipt, ReceiptSink, Rewrite,
    ToolCallHook, VerdictCall, VerdictHook, VerdictType,
};
use backstop::hooks::points::{BeforeLlmCall, BeforeLlmCallEvent, ToolCallEvent};
use backstop::hooks::{CallContext, FailurePolicy, HookError, Params, PointId, ToolName};
use backstop::store::AuditFilter;
use backstop::{Backstop, BuildError, HookTypes, Providers};

fn loaded(types: &HookTypes, text: &str) -> Loaded {
    let sources = [Source::new(LayerKind::Operator, "backstop.yaml", text)];
    Loader::new(types.names(), &|_| None).load(&sources).unwrap()
}

fn call(tool: &str) -> ToolCallEvent {
    ToolCallEvent::new(ToolName::new(tool), Params::default())
}

/// Counts its life, and fails to set up when told so.
#[derive(Debug, Default)]
struct Counting {
    broken: bool,
    life: Arc<Life>,
}

#[derive(Debug, Default)]
struct Life {
    up: AtomicU32,
    calls: AtomicU32,
    down: AtomicU32,
}

#[async_trait]
impl VerdictHook for Counting {
    async fn setup(&self) -> Result<(), HookError> {
        self.life.up.fetch_add(1, Ordering::SeqCst);
        if self.broken { Err(HookError::failed("no connection")) } else { Ok(()) }
    }

    async fn teardown(&self) {
        self.life.down.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ToolCallHook for Counting {
    async fn pre_call(&self, _: VerdictCall<'_>) -> Result<HookVerdict, HookError> {
        self.life.calls.fetch_add(1, Ordering::SeqCst);
        Ok(HookVerdict::Approve)
    }
}

fn types_with_counting(life: &Arc<Life>) -> HookTypes {
    let mut types = HookTypes::built_in(&[]);
    let life = Arc::clone(life);
    let counting = VerdictType::for_tool_calls(move |config| {
        let broken = config.get("broken").is_some_and(|broken| broken == true);
        Ok(Counting { broken, life: Arc::clone(&life) })
    });
    types.register("counting", InRepository::Refused, counting);
    types
}

#[tokio::test]
async fn a_hook_type_of_the_program_lives_as_long_as_backstop() {
    let life = Arc::new(Life::default());
    let types = types_with_counting(&life);
    let config = loaded(&types, "hooks: {tool_call: {pre_call: [{type: counting}]}}");
    let backstop = Backstop::builder().hook_types(types).config(config).build().await.unwrap();
    let reviewed = backstop.engine().review_tool_call(call("exec"), &CallContext::default(), false).await;
    assert!(reviewed.blocked.is_none());
    assert!(backstop.shut_down().await);
    let counts = [&life.up, &life.calls, &life.down].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(counts, [1, 1, 1]);
}

#[tokio::test]
async fn a_hook_that_cannot_be_set_up_is_named_by_its_line_and_the_others_are_taken_down() {
    let life = Arc::new(Life::default());
    let types = types_with_counting(&life);
    let text = "hooks:\n  tool_call:\n    pre_call:\n      - type: counting\n      - type: counting\n        config: {broken: true}\n";
    let config = loaded(&types, text);
    let error = Backstop::builder().hook_types(types).config(config).build().await.unwrap_err();
    assert_eq!(error.to_string(), "error: the hook can't be set up: no connection\n  --> backstop.yaml:5:15");
    assert_eq!(life.down.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_unbuildable_configuration_reports_all_its_problems() {
    let types = HookTypes::built_in(&[]);
    let text = "guards: {sensitive_files: {deny: ['a[']}}\nhooks: {tool_call: {pre_call: [{type: webhook, config: {url: nonsense}}]}}\n";
    let error = Backstop::builder().config(loaded(&types, text)).build().await.unwrap_err();
    let BuildError::Config(error) = error else { panic!("{error}") };
    let lines: Vec<_> = error.problems().iter().map(|problem| problem.at().line()).collect();
    assert_eq!(lines, [Some(1), Some(2)]);
}

#[tokio::test]
async fn a_hook_in_shadow_is_the_only_one_nowhere() {
    let types = HookTypes::built_in(&[]);
    let build = async |text: &str| Backstop::builder().config(loaded(&types, text)).build().await;
    let shadow = "{type: policy, id: new, mode: shadow, config: {deny_tools: [canvas]}}";
    // In front of tool calls a passthrough stands beside it, as it does without any hook.
    let backstop = build(&format!("hooks: {{tool_call: {{pre_call: [{shadow}]}}}}")).await.unwrap();
    let reviewed = backstop.engine().review_tool_call(call("canvas"), &CallContext::default(), false).await;
    assert!(reviewed.blocked.is_none());
    let told: Vec<_> = reviewed.receipt.steps.iter().filter_map(|step| step.would).collect();
    assert_eq!(told, [backstop::engine::Would::Block]);
    assert!(backstop.engine().registry().list().iter().any(|meta| meta.id.as_str() == "builtin:passthrough"));
    backstop.shut_down().await;
    // Elsewhere it has to be written.
    let alone =
        "guards: {secrets: {enabled: false}, personal_data: {enabled: false}, hidden_text: {enabled: false}}
hooks:
  llm_call:
    pre_call:
      - {type: webhook, mode: shadow, config: {url: 'http://127.0.0.1:9/'}}";
    let error = build(alone).await.unwrap_err().to_string();
    assert!(error.contains("is in shadow, and no hook that counts stands at `before_llm_call`"), "{error}");
    assert!(error.contains("--> backstop.yaml:5:31") && error.contains("`- type: passthrough`"), "{error}");
    let beside = format!("{alone}\n      - type: passthrough");
    build(&beside).await.unwrap().shut_down().await;
    // Where answers change nothing, there is nothing to take from them.
    let watcher = "hooks: {tool_call: {post_call: [{type: webhook, mode: shadow, config: {url: 'http://127.0.0.1:9/'}}]}}";
    let error = build(watcher).await.unwrap_err().to_string();
    assert!(error.contains("can't be in shadow at `after_tool_call`"), "{error}");
}

#[tokio::test]
async fn a_rule_in_shadow_is_one_that_exists_and_the_operators_choice() {
    let types = HookTypes::built_in(&[]);
    let build = async |text: &str| Backstop::builder().config(loaded(&types, text)).build().await;
    let force = || {
        let params = serde_json::json!({"command": "git push --force origin main"});
        ToolCallEvent::new(ToolName::new("exec"), serde_json::from_value::<Params>(params).unwrap())
    };
    let backstop = build("guards: {command_safety: {shadow: [git.force-push]}}").await.unwrap();
    let reviewed = backstop.engine().review_tool_call(force(), &CallContext::default(), false).await;
    assert!(reviewed.blocked.is_none() && reviewed.requests.is_empty(), "{reviewed:?}");
    let told: Vec<_> = reviewed.receipt.steps.iter().filter_map(|step| step.would).collect();
    assert_eq!(told, [backstop::engine::Would::Ask]);
    backstop.shut_down().await;
    let wrong = "guards:\n  command_safety:\n    shadow: [git.force-push, git.forse-push, '*']\n";
    let error = build(wrong).await.unwrap_err().to_string();
    assert!(error.contains("no rule of the command guard is called `git.forse-push`"), "{error}");
    assert!(
        error.contains("backstop.yaml:3:30") && error.contains("`guards.command_safety.mode: shadow`"),
        "{error}"
    );
    // A repository puts none of them there, as it switches none of them off.
    let operator = Source::new(LayerKind::Operator, "backstop.yaml", "{}");
    let repository = Source::new(
        LayerKind::Repository,
        "repo.yaml",
        "guards: {command_safety: {shadow: [git.force-push]}}",
    );
    let both = Loader::new(types.names(), &|_| None).load(&[operator, repository]).unwrap();
    assert!(both.config.guards.command_safety.shadow.is_empty());
    let backstop = Backstop::builder().config(both).build().await.unwrap();
    let reviewed = backstop.engine().review_tool_call(force(), &CallContext::default(), false).await;
    assert_eq!(reviewed.requests.len(), 1);
    backstop.shut_down().await;
}

#[tokio::test]
async fn built_in_hooks_and_what_only_watches_are_put_into_shadow_by_no_entry_of_plugins() {
    let types = HookTypes::built_in(&[]);
    let build = async |text: &str| Backstop::builder().config(loaded(&types, text)).build().await;
    let entries = "plugins:
  entries:
    builtin:command-safety-guard: {hooks: {mode: shadow}}
    builtin:redactor: {hooks: {modes: {tool_result_persist: shadow}}}
    other: {hooks: {modes: {llm_output: shadow, before_tool_call: enforce}}}";
    let error = build(entries).await.unwrap_err().to_string();
    for part in [
        "`builtin:command-safety-guard` can't be put into shadow here",
        "backstop.yaml:3:",
        "`builtin:redactor` can't be put into shadow here",
        "hooks at `llm_output` only watch, so they can't be in shadow",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // Hooks of the configuration have one owner, and each has a key of its own.
    for entry in ["mode: shadow", "modes: {before_tool_call: shadow}"] {
        let entries = format!("plugins: {{entries: {{operator: {{hooks: {{{entry}}}}}}}}}");
        let error = build(&entries).await.unwrap_err().to_string();
        assert!(error.contains("`operator` can't be put into shadow here"), "{error}");
        assert!(error.contains("`mode` in its entry below `hooks`"), "{error}");
    }
}

#[derive(Default)]
struct Seen(Mutex<Vec<PointId>>);

impl ReceiptSink for Seen {
    fn record(&self, receipt: &Receipt) {
        self.0.lock().unwrap().push(receipt.point);
    }
}

#[tokio::test]
async fn sinks_and_the_audit_trail_see_every_permitted_call() {
    let seen = Arc::new(Seen::default());
    let backstop = Backstop::builder().sink(Arc::clone(&seen) as Arc<dyn ReceiptSink>).build().await.unwrap();
    let nobody = backstop::engine::Attendance::Nobody;
    let verdict = backstop.engine().permit_tool_call(call("read"), &CallContext::default(), &nobody).await;
    assert!(verdict.permit.is_ok());
    assert_eq!(*seen.0.lock().unwrap(), [PointId::BeforeToolCall]);
    let store = Arc::clone(backstop.store());
    assert!(backstop.shut_down().await);
    let entries = store.audit(&AuditFilter::default(), 0, 10).await.unwrap();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, ["configuration.read", "receipt"], "by which policy, and what");
}

#[tokio::test]
async fn the_audit_trail_can_be_switched_off() {
    let types = HookTypes::built_in(&[]);
    let config = loaded(&types, "audit: {enabled: false}");
    let backstop = Backstop::builder().config(config).build().await.unwrap();
    assert!(backstop.audit().is_none());
}

#[test]
fn a_provider_is_chosen_by_name_by_configuration_or_because_it_is_the_only_one() {
    let types = HookTypes::built_in(&[]);
    let one = "providers: {p: {api: anthropic, models: [m, n]}}\n";
    let two = "providers: {p: {api: anthropic}, q: {api: openai-chat, api_key_env: KEY}}\nagent: {provider: q, model: m}\n";
    let choose = |text: &str, provider: Option<&str>, model: Option<&str>, key: Option<&'static str>| {
        Providers::new(loaded(&types, text), move |_: &str| key.map(str::to_owned))
            .choose(provider, model)
            .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    let chosen = |provider: &str, model: &str| Ok((provider.to_owned(), model.to_owned()));
    assert_eq!(choose(one, None, Some("n"), None), chosen("p", "n"));
    assert_eq!(choose(two, None, None, Some("k")), chosen("q", "m"));
    assert_eq!(choose(two, Some("p"), None, None), chosen("p", "m"));
    assert_eq!(choose(one, None, None, None), Err("no model of provider `p` is chosen".to_owned()));
    assert_eq!(
        choose(one, None, Some("x"), None),
        Err("provider `p` may not be asked for the model `x`; its `models` are `m`, `n`".to_owned())
    );
    let missing = "the key of provider `q` is missing: the environment variable `KEY` is not set";
    assert_eq!(choose(two, None, None, None), Err(missing.to_owned()));
}

/// The YAML blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let after_marks = page.split("```yaml\n").skip(1);
    after_marks.filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned())).collect()
}

#[tokio::test]
async fn the_configurations_that_people_copy_can_be_built() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let guide = std::fs::read_to_string(format!("{root}/docs/configuration.md")).unwrap();
    let readme = blocks(&readme);
    assert_eq!(readme.len(), 2, "a model, and what is allowed");
    let first = blocks(&guide).into_iter().next().unwrap();
    for text in [readme.join("\n"), first] {
        let types = HookTypes::built_in(&[]);
        let sources = [Source::new(LayerKind::Operator, "backstop.yaml", text)];
        let loaded = Loader::new(types.names(), &|_| Some("x".to_owned())).load(&sources).unwrap();
        Backstop::builder().config(loaded).hook_types(types).build().await.unwrap().shut_down().await;
    }
}

/// Counts the model calls that it is asked about.
struct CountingModels(Arc<Life>);

impl VerdictHook for CountingModels {}

#[async_trait]
impl LlmCallHook for CountingModels {
    async fn pre_call(&self, _: LlmCall<'_>) -> Result<HookVerdict<LlmChanges>, HookError> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        Ok(HookVerdict::Approve)
    }
}

#[tokio::test]
async fn a_custom_type_in_llm_call_is_asked() {
    let (mut types, life) = (HookTypes::built_in(&[]), Arc::new(Life::default()));
    let counted = Arc::clone(&life);
    let counting = VerdictType::for_llm_calls(move |_| Ok(CountingModels(Arc::clone(&counted))));
    types.register("models", InRepository::Refused, counting);
    let config = loaded(&types, "hooks: {llm_call: {pre_call: [{type: models}]}}");
    let backstop = Backstop::builder().config(config).hook_types(types).build().await.unwrap();
    let event = BeforeLlmCallEvent {
        other_models: None,
        run_id: "run-1".into(),
        messages: Vec::new(),
        system_prompt: "".into(),
        model: "model".to_owned(),
        provider: "provider".to_owned(),
        iteration: 0,
        tools: Vec::new(),
        answer_tokens: None,
        token_estimate: 1,
    };
    let decided = backstop.engine().decide::<BeforeLlmCall>(event, &CallContext::default()).await;
    assert!(decided.blocked().is_none());
    assert_eq!(life.calls.load(Ordering::SeqCst), 1);
}

fn refused(types: &HookTypes, text: &str) -> ConfigError {
    let sources = [Source::new(LayerKind::Operator, "backstop.yaml", text)];
    Loader::new(types.names(), &|_| None).load(&sources).unwrap_err()
}

#[test]
fn a_type_that_cannot_judge_model_calls_is_an_error() {
    let types = types_with_counting(&Arc::default());
    for (text, hint) in [
        (
            "hooks: {llm_call: {pre_call: [{type: counting}]}}",
            "`counting` can stand in `hooks.tool_call.pre_call`",
        ),
        (
            "hooks: {llm_call: {pre_call: [{type: policy}]}}",
            "`policy` can stand in `hooks.tool_call.pre_call`",
        ),
        (
            "hooks: {llm_call: {post_call: [{type: human_approval}]}}",
            "`human_approval` can stand in `hooks.tool_call.pre_call`",
        ),
        (
            "hooks: {tool_call: {post_call: [{type: counting}]}}",
            "`counting` can stand in `hooks.tool_call.pre_call`",
        ),
    ] {
        let error = refused(&types, text);
        assert_eq!(error.problems()[0].hint(), Some(hint), "{error}");
    }
    for slot in
        ["tool_call: {pre_call", "tool_call: {post_call", "llm_call: {pre_call", "llm_call: {post_call"]
    {
        let webhook = "[{type: webhook, config: {url: 'http://127.0.0.1:9/'}}]";
        loaded(&types, &format!("hooks: {{{slot}: {webhook}}}}}"));
        loaded(&types, &format!("hooks: {{{slot}: [{{type: passthrough}}]}}}}"));
    }
}

#[tokio::test]
async fn an_entry_can_say_that_its_changes_are_optional() {
    let types = HookTypes::built_in(&[]);
    let text = "
hooks:
  tool_call:
    pre_call:
      - {type: webhook, id: firm, config: {url: 'http://127.0.0.1:9/'}}
      - {type: webhook, id: yields, rewrite: optional, config: {url: 'http://127.0.0.1:9/'}}
";
    let backstop = Backstop::builder().config(loaded(&types, text)).build().await.unwrap();
    let rewrite = |id: &str| {
        let hooks = backstop.engine().registry().list();
        hooks
            .iter()
            .find(|meta| meta.point == PointId::BeforeToolCall && meta.id.as_str() == id)
            .unwrap()
            .rewrite
    };
    assert_eq!((rewrite("firm"), rewrite("yields")), (Rewrite::Required, Rewrite::Optional));
}

#[tokio::test]
async fn failures_follow_the_stricter_of_entry_and_list() {
    let types = HookTypes::built_in(&[]);
    let text = "
hooks:
  tool_call:
    pre_call:
      - {type: webhook, id: silent, config: {url: 'http://127.0.0.1:9/'}}
      - {type: webhook, id: open, config: {url: 'http://127.0.0.1:9/', fail_open: true}}
      - {type: webhook, id: closed, on_failure: allow, config: {url: 'http://127.0.0.1:9/', fail_open: false}}
      - {type: webhook, id: overruled, config: {url: 'http://127.0.0.1:9/', fail_open: true}}
      - {type: policy, id: allowed, config: {deny_tools: [exec]}}
  on_failure: {overruled: block, allowed: allow}
";
    let backstop = Backstop::builder().config(loaded(&types, text)).build().await.unwrap();
    let found: Vec<_> = backstop
        .engine()
        .registry()
        .list()
        .iter()
        .filter(|meta| meta.point == PointId::BeforeToolCall && !meta.id.as_str().contains(':'))
        .map(|meta| (meta.id.to_string(), meta.on_failure, meta.failure_source))
        .collect();
    let expect = |id: &str, policy, source| (id.to_owned(), policy, source);
    assert_eq!(
        found,
        [
            expect("silent", FailurePolicy::Closed, FailureSource::Default),
            expect("open", FailurePolicy::OpenIfUnreachable, FailureSource::Entry),
            expect("closed", FailurePolicy::Closed, FailureSource::Entry),
            expect("overruled", FailurePolicy::Closed, FailureSource::Operator),
            expect("allowed", FailurePolicy::Open, FailureSource::Operator),
        ]
    );
}

#[test]
fn the_arguments_of_the_own_tools_are_known_to_policies() {
    let types = HookTypes::built_in(&[]);
    let build = |tool: &str, argument: &str| {
        let config =
            serde_json::json!({ "allow_tools": [tool], "deny_argument_patterns": { argument: ["x"] } });
        types.factories().build("policy", &config)
    };
    let tools = backstop::agent::tools::Toolbox::built_in().definitions();
    assert!(!tools.is_empty());
    for tool in tools {
        let arguments = tool.input_schema["properties"].as_object().unwrap();
        for argument in arguments.keys() {
            assert!(build(&tool.name, argument).is_ok(), "{}: {argument}", tool.name);
        }
        let error = build(&tool.name, "no-such-argument").unwrap_err().to_string();
        assert!(error.contains("can't have an argument"), "{error}");
    }
}
