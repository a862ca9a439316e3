use std::sync::atomic::Ordering;

use backstop_engine::{Engine, HookOptions, Said};
use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{AgentId, CallContext, HookId, OwnerId, Params, Reason, Secret, ToolName, hook_fn};
use backstop_surfaces::{Became, Came, Counts, SurfaceName};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use proptest::prelude::*;

use super::*;
use crate::auth::Caller;
use crate::endpoint::{Endpoint, Family, Operation};
use crate::record::labels::Labels;
use crate::record::{Recorder, Records, Word};
use crate::settings::{Provider, Settings};

fn settings() -> Settings {
    let mut settings = Settings::new(Secret::new("0123456789abcdef".to_owned()));
    settings.agents.insert(AgentId::new("coder"), Secret::new("coder-token-0123".to_owned()));
    settings.providers.insert("p".to_owned(), Provider::passing(Family::OpenAi, "http://localhost"));
    settings.known_models = vec!["known".to_owned(), "claude-*".to_owned()];
    settings
}

fn records(metrics: &Metrics) -> Records {
    let sinks: [Arc<dyn RequestSink>; 1] = [Arc::new(metrics.clone())];
    Records::new(Arc::new(sinks), Labels::of(&settings()), None)
}

fn over(recorder: &Recorder, agent: &str, model: &str, provider: &str) {
    let endpoint = Endpoint { family: Family::OpenAi, operation: Operation::ChatCompletions };
    let caller = Caller {
        agent: Some(AgentId::new(agent)),
        user: Some(agent.into()),
        is_proved: false,
        provider: None,
        target: PathAndQuery::from_static("/"),
        token: None,
    };
    recorder.accepted(&caller, endpoint);
    recorder.is_for(model);
    recorder.asks(provider);
    recorder.used(model, TokenUsage { input: 2, output: 3, ..TokenUsage::default() });
    recorder.has_status(StatusCode::OK);
    recorder.left(7);
    recorder.ending().complete();
}

async fn told(metrics: &Metrics) -> String {
    metrics.told(Now::default(), Format::Prometheus).await
}

/// The series of a text, without their values.
fn series(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series).collect()
}

#[tokio::test]
async fn requests_are_counted_by_what_the_operator_named() {
    let metrics = Metrics::new("1.2.3");
    let records = records(&metrics);
    for (agent, model) in [("coder", "known"), ("coder", "claude-x"), ("made-up", "made-up")] {
        over(&records.begin(&Method::POST), agent, model, "p");
    }
    let text = told(&metrics).await;
    for line in [
        "backstop_requests_total{wire=\"openai-chat\",provider=\"p\",model=\"known\",agent=\"coder\",outcome=\"answered\"} 1",
        "backstop_requests_total{wire=\"openai-chat\",provider=\"p\",model=\"claude-*\",agent=\"coder\",outcome=\"answered\"} 1",
        "backstop_requests_total{wire=\"openai-chat\",provider=\"p\",model=\"other\",agent=\"other\",outcome=\"answered\"} 1",
        "backstop_tokens_total{provider=\"p\",model=\"known\",agent=\"coder\",kind=\"output\"} 3",
        "backstop_first_byte_seconds_count{wire=\"openai-chat\",provider=\"p\"} 3",
        "backstop_build{version=\"1.2.3\"} 1",
        "backstop_series_dropped_total{family=\"requests\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("made-up"), "{text}");
    let other =
        metrics.told(Now { requests: 3, streams: 2, unreadable_tokens: 1 }, Format::OpenMetrics).await;
    assert!(other.ends_with("# EOF\n") && other.contains("backstop_streams_open 2"), "{other}");
}

#[tokio::test]
async fn a_million_names_make_no_series() {
    let metrics = Metrics::new("1");
    let records = records(&metrics);
    over(&records.begin(&Method::POST), "made-up", "made-up", "made-up");
    let before = told(&metrics).await;
    for number in 0..334_000_u32 {
        let names = [format!("agent-{number}"), format!("model-{number}"), format!("provider-{number}")];
        let [agent, model, provider] = &names;
        over(&records.begin(&Method::POST), agent, model, provider);
    }
    let after = told(&metrics).await;
    assert_eq!(series(&before), series(&after));
    assert!(after.contains("outcome=\"answered\"} 334001"), "{after}");
}

#[tokio::test]
async fn a_family_has_room_for_so_many_series_and_says_what_it_had_none_for() {
    let metrics = Metrics::new("1");
    // Hooks are the operator's; but a plugin may bring any number of them.
    for number in 0..MOST_SERIES + 5 {
        let hook = Hook(HookId::new(format!("hook-{number}")));
        let labels = AnswerLabels { point: Point(PointId::BeforeToolCall), hook, said: Stated(Said::Pass) };
        for _ in 0..2 {
            metrics.0.answers.with(&labels, |counter| {
                counter.inc();
            });
        }
    }
    let text = told(&metrics).await;
    let answers =
        series(&text).into_iter().filter(|series| series.starts_with("backstop_hook_answers")).count();
    assert_eq!(answers, MOST_SERIES);
    assert!(text.contains("backstop_series_dropped_total{family=\"hook_answers\"} 10\n"), "{text}");
    // Buckets count, too.
    for number in 0..MOST_SERIES {
        let provider = Label::named_for_tests(&format!("p{number}"));
        let labels = RouteLabels { wire: Word::NONE, provider };
        metrics.0.added.with(&labels, |histogram| histogram.observe(0.1));
    }
    let text = told(&metrics).await;
    let buckets =
        series(&text).into_iter().filter(|series| series.starts_with("backstop_added_seconds")).count();
    assert!(buckets <= MOST_SERIES && buckets > MOST_SERIES - 2 * (BUCKETS + 3), "{buckets}");
}

#[tokio::test]
async fn sums_have_so_many_lines_and_say_what_had_none() {
    let metrics = Metrics::new("1");
    let records = records(&metrics);
    for model in ["known", "known", "made-up"] {
        over(&records.begin(&Method::POST), "coder", model, "p");
    }
    let spent = metrics.sums().spent;
    let lines: Vec<_> = spent
        .iter()
        .map(|((agent, user, model), spent)| {
            (agent.as_str(), user.as_str(), model.as_str(), spent.requests, spent.tokens.total())
        })
        .collect();
    assert_eq!(lines, [("coder", "other", "known", 2, 10), ("coder", "other", "other", 1, 5)]);
    // Rules are what hooks say, and a plugin may say anything.
    let engine = Engine::builder().sink(Arc::new(metrics.clone())).build();
    let judge = hook_fn::<BeforeToolCall, _>(|event, _| {
        let rule = event.tool_name.called().to_owned();
        let reason = Reason::new("no").by([rule.into()]);
        Ok(Some(ToolCallOutcome::block(reason)))
    });
    let options = HookOptions::new(OwnerId::operator()).id(HookId::new("judge"));
    engine.registry().on::<BeforeToolCall>(judge, options).unwrap();
    for number in 0..MOST_SERIES + 3 {
        let event = ToolCallEvent::new(ToolName::new(&format!("rule-{number}")), Params::default());
        drop(engine.decide::<BeforeToolCall>(event, &CallContext::default()).await);
    }
    let sums = metrics.sums();
    assert_eq!((sums.rules.len(), sums.judged_left_out, sums.spent_left_out), (MOST_SERIES, 3, 0));
    assert!(sums.rules.values().all(|rule| (rule.stopped, rule.asked) == (1, 0)));
    let of_hook = sums.hooks.values().next().unwrap();
    let judged = u64::try_from(MOST_SERIES + 3).unwrap();
    assert_eq!((sums.hooks.len(), of_hook.answers, of_hook.blocked, of_hook.failed), (1, judged, judged, 0));
    assert!(of_hook.longest <= of_hook.time);
}

#[tokio::test]
async fn receipts_are_counted_by_point_and_hook() {
    let metrics = Metrics::new("1");
    let engine = Engine::builder().sink(Arc::new(metrics.clone())).build();
    let judge = async || {
        let event = ToolCallEvent::new(ToolName::new("exec"), Params::default());
        drop(engine.decide::<BeforeToolCall>(event, &CallContext::default()).await);
        told(&metrics).await
    };
    assert!(!judge().await.contains("before_tool_call"), "where no hook stands there is nothing to count");
    let options = HookOptions::new(OwnerId::operator()).id(HookId::new("quiet"));
    engine.registry().on::<BeforeToolCall>(hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)), options).unwrap();
    let text = judge().await;
    for line in [
        "backstop_dispatches_total{point=\"before_tool_call\",verdict=\"pass\"} 1\n",
        "backstop_dispatch_seconds_count{point=\"before_tool_call\"} 1\n",
        "backstop_hook_answers_total{point=\"before_tool_call\",hook=\"quiet\",said=\"nothing\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

struct Asked(AtomicU64);

#[async_trait]
impl Waiting for Asked {
    async fn approvals(&self) -> Option<u64> {
        Some(4)
    }

    fn audit(&self) -> Option<AuditLag> {
        let lost = self.0.load(Ordering::Relaxed);
        Some(AuditLag { waiting: 2, oldest: Duration::from_millis(1_500), lost, late: 7 })
    }
}

#[tokio::test]
async fn what_waits_is_asked_for_and_what_was_lost_adds_up_over_reloads() {
    let metrics = Metrics::new("1");
    let (one, two) = (Arc::new(Asked(AtomicU64::new(3))), Arc::new(Asked(AtomicU64::new(1))));
    metrics.ask(Arc::clone(&one) as Arc<dyn Waiting>);
    let text = told(&metrics).await;
    for line in [
        "approvals_waiting 4.0",
        "audit_waiting 2",
        "audit_lag_seconds 1.5",
        "audit_lost_total 3",
        "audit_signed_late_total 7",
    ] {
        assert!(text.contains(&format!("backstop_{line}\n")), "{line} is not in\n{text}");
    }
    one.0.store(5, Ordering::Relaxed);
    metrics.ask(two);
    let text = told(&metrics).await;
    assert!(text.contains("backstop_audit_lost_total 6\n"), "{text}");
    assert!(text.contains("backstop_audit_signed_late_total 14\n"), "{text}");
    assert_eq!(text, told(&metrics).await, "asked twice, counted once");
}

#[tokio::test]
async fn surfaces_and_witnesses_are_counted_and_one_that_is_told_no_longer_is_not_late() {
    let metrics = Metrics::new("1");
    let chat = SurfaceName::new("chat").unwrap();
    let counts: &dyn Counts = &metrics;
    counts.stands(&chat);
    for became in [Became::Told, Became::Failed, Became::Failed] {
        counts.message(&chat, became);
    }
    counts.answer(&chat, true);
    counts.listens(&chat);
    for stands in [true, true, false] {
        counts.connected(&chat, stands);
    }
    counts.came(&chat, Came::Heard);
    metrics.witnesses(["far".to_owned(), "/mnt/\"near\"".to_owned()]);
    metrics.witness("far", false);
    metrics.witness("never named", false);
    let text = told(&metrics).await;
    for line in [
        "surface_messages_total{surface=\"chat\",result=\"told\"} 1",
        "surface_messages_total{surface=\"chat\",result=\"withdrawn\"} 0",
        "surface_messages_total{surface=\"chat\",result=\"failed\"} 2",
        "surface_answers_total{surface=\"chat\",result=\"counted\"} 1",
        "surface_answers_total{surface=\"chat\",result=\"refused\"} 0",
        "surface_connections{surface=\"chat\"} 1",
        "surface_received_total{surface=\"chat\",result=\"heard\"} 1",
        "surface_received_total{surface=\"chat\",result=\"unread\"} 0",
        "witness_failures_total{witness=\"far\"} 1",
        "witness_failures_total{witness=\"/mnt/\\\"near\\\"\"} 0",
        "witness_last_success_timestamp_seconds{witness=\"far\"} 0",
    ] {
        assert!(text.contains(&format!("backstop_{line}\n")), "{line} is not in\n{text}");
    }
    assert!(!text.contains("never named"), "{text}");
    metrics.witness("far", true);
    let text = told(&metrics).await;
    let at = "backstop_witness_last_success_timestamp_seconds{witness=\"far\"} ";
    let at: i64 = text.lines().find_map(|line| line.strip_prefix(at)).unwrap().parse().unwrap();
    let now = Timestamp::now().as_millis().div_euclid(1_000);
    assert!((now - 60..=now).contains(&at), "{at}");
    // A reload names others; a task of before may still come to its end.
    let [near, far] = metrics.witnessed().try_into().unwrap();
    assert_eq!((near.1, near.2), (None, 0));
    assert!(far.0 == "far" && far.1.is_some() && far.2 == 1, "{far:?}");
    metrics.witnesses(["near".to_owned()]);
    metrics.witness("far", true);
    let text = told(&metrics).await;
    assert!(!text.contains("timestamp_seconds{witness=\"far\"}"), "{text}");
    assert!(text.contains("backstop_witness_failures_total{witness=\"far\"} 1\n"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The law: no label value that a client can choose becomes a series.
    #[test]
    fn no_text_of_a_client_is_in_the_metrics(
        agent in "[a-zA-Z0-9_.:@-]{12,40}",
        model in "\\PC{12,60}",
        method in "[A-Z]{12,20}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let metrics = Metrics::new("1");
        let records = records(&metrics);
        over(&records.begin(&Method::POST), "coder", "known", "p");
        let recorder = records.begin(&Method::from_bytes(method.as_bytes()).unwrap());
        over(&recorder, &agent, &format!("claude-{model}"), &model);
        over(&records.begin(&Method::POST), &agent, &model, &model);
        let text = runtime.block_on(told(&metrics));
        for chosen in [&agent, &model, &method] {
            prop_assert!(!text.contains(chosen.as_str()), "{}", text);
        }
    }
}
