//! To whom questions go.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{
    ApprovalRoute, ApprovalSettings, AskFuture, Asker, Attendance, BlockCause, Engine, Routes, ToolVerdict,
    Verdict,
};
use backstop_hooks::{
    ApprovalRequest, CallContext, Decision, FrontEnd, Ground, Requester, Resolution, TimeoutBehavior,
};
use backstop_store::{
    Always, AlwaysScope, Answerer, ApprovalRecord, AskingLimits, Identity, KnownBy, NewApproval, People,
    PersonName, PersonsAnswer, Store, Timestamp, allow_always,
};

use crate::support::{
    Human, ask_more, context, exec, over_both_stores, pending, permit, reason, request, resolution, rows,
};

over_both_stores!(
    a_call_runs_once_as_many_have_allowed_it_as_must,
    whoever_sits_there_answers_only_if_asked,
    a_question_for_others_is_not_put_to_the_user_of_a_client,
    others_are_waited_for_where_a_client_would_ask_its_own_user,
    a_routed_question_that_is_cancelled_is_not_put_to_the_user_of_a_client,
    each_reason_leads_where_it_leads_alone,
    each_rule_of_a_reason_leads_where_it_leads_alone,
    what_silence_denies_ends_when_nobody_waits_any_more,
    a_route_to_nobody_is_a_denial,
    whoever_asked_for_the_call_does_not_answer,
    a_grant_of_others_answers_nothing,
    an_answer_in_advance_counts_as_it_would_now,
    the_first_route_that_fits_limits_what_may_be_answered,
    what_an_agent_asks_beyond_its_share_is_denied,
);

fn people() -> Arc<People> {
    let known = ["ann", "bob", "carl"].map(|name| {
        (PersonName::new(name), vec![KnownBy::User(name.to_owned()), KnownBy::Account(name.to_owned())])
    });
    Arc::new(People::new(known))
}

fn by(name: &str) -> Answerer {
    people().answerer(&Identity::User(name.to_owned()), name)
}

fn route(ask: &[&str], votes: u32) -> ApprovalRoute {
    ApprovalRoute {
        fits: Arc::new(|_| true),
        ask: Some(ask.iter().map(|name| (*name).to_owned()).collect()),
        bars_requester: false,
        votes: NonZeroU32::new(votes).unwrap(),
        escalate: None,
        told: None,
        decisions: None,
        substitutes: None,
    }
}

fn settings(routes: impl IntoIterator<Item = ApprovalRoute>) -> ApprovalSettings {
    ApprovalSettings { people: people(), routes: Routes::from_iter(routes), ..ApprovalSettings::default() }
}

fn engine(store: &Arc<dyn Store>, settings: ApprovalSettings) -> Engine {
    let engine = Engine::builder().store(Arc::clone(store)).approvals(settings).build();
    ask_more(&engine, "asks", request());
    engine
}

fn begin(engine: &Engine, attendance: Attendance) -> tokio::task::JoinHandle<ToolVerdict> {
    let engine = engine.clone();
    tokio::spawn(async move { permit(&engine, "ls", &attendance).await })
}

async fn allow(store: &Arc<dyn Store>, row: &ApprovalRecord, who: Answerer) -> bool {
    let answer = PersonsAnswer::new(Decision::AllowOnce, who, Timestamp::now());
    store.answer_approval(&row.id, answer).await.is_ok()
}

async fn a_call_runs_once_as_many_have_allowed_it_as_must(store: Arc<dyn Store>) {
    let engine = engine(&store, settings([route(&["ann", "bob", "carl"], 2)]));
    let call = begin(&engine, Attendance::Queue);
    let row = pending(&store).await;
    assert!(!allow(&store, &row, "a terminal".into()).await && !allow(&store, &row, by("eve")).await);
    assert!(allow(&store, &row, by("ann")).await && allow(&store, &row, by("ann")).await);
    assert!(!call.is_finished());
    assert!(allow(&store, &row, by("carl")).await);
    call.await.unwrap().permit.unwrap();
}

/// Somebody who allows whatever they are shown, known as a user.
struct Known(&'static str);

impl Asker for Known {
    fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
        Box::pin(std::future::ready(Some(Decision::AllowOnce)))
    }

    fn name(&self) -> &str {
        self.0
    }

    fn answerer(&self, people: &Arc<People>) -> Answerer {
        people.answerer(&Identity::User(self.0.to_owned()), self.0)
    }
}

async fn whoever_sits_there_answers_only_if_asked(store: Arc<dyn Store>) {
    let one = engine(&store, settings([route(&["ann", "bob"], 1)]));
    permit(&one, "ls", &Attendance::Present(Arc::new(Known("ann")))).await.permit.unwrap();
    for nobody in [Human::says(Decision::AllowOnce), Attendance::Present(Arc::new(Known("carl")))] {
        let call = begin(&one, nobody);
        let row = pending(&store).await;
        assert!(row.votes.is_empty(), "{row:?}");
        assert!(allow(&store, &row, by("bob")).await);
        call.await.unwrap().permit.unwrap();
    }
    // Of two, one sits there.
    let two = engine(&store, settings([route(&["ann", "bob"], 2)]));
    let call = begin(&two, Attendance::Present(Arc::new(Known("ann"))));
    let row = pending(&store).await;
    assert!(allow(&store, &row, by("bob")).await);
    assert_eq!(resolution(&call.await.unwrap()), Resolution::AllowOnce);
}

async fn a_question_for_others_is_not_put_to_the_user_of_a_client(store: Arc<dyn Store>) {
    let engine = engine(&store, settings([route(&["ann"], 1)]));
    for attendance in [Attendance::Host, Attendance::Nobody] {
        let verdict = permit(&engine, "ls", &attendance).await;
        assert_eq!(verdict.receipt.verdict, Verdict::Block);
        assert!(!verdict.receipt.approval.as_ref().unwrap().hosted);
        let blocked = verdict.permit.unwrap_err();
        let is_asked = matches!(blocked.cause, BlockCause::Approval { resolution: Resolution::Cancelled });
        assert!(!is_asked, "a client would ask its own user: {:?}", blocked.cause);
    }
    // Those who are asked can allow it afterwards.
    let row = rows(&store).await.pop().unwrap();
    let ttl = Duration::from_secs(60);
    assert!(store.allow_later(&row.id, &"me".into(), ttl, Timestamp::now()).await.is_err());
    store.allow_later(&row.id, &by("ann"), ttl, Timestamp::now()).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
}

async fn others_are_waited_for_where_a_client_would_ask_its_own_user(store: Arc<dyn Store>) {
    let attendance = || Attendance::HostOr(Arc::new(Human(None)));
    let routed = engine(&store, settings([route(&["ann"], 1)]));
    for decision in [Decision::AllowOnce, Decision::Deny] {
        let call = begin(&routed, attendance());
        let row = pending(&store).await;
        assert!(!allow(&store, &row, "me".into()).await, "that user is not asked");
        let answer = PersonsAnswer::new(decision, by("ann"), Timestamp::now());
        store.answer_approval(&row.id, answer).await.unwrap();
        let verdict = call.await.unwrap();
        assert_eq!(verdict.permit.is_ok(), decision == Decision::AllowOnce);
        if verdict.permit.is_err() {
            not_for_the_client(verdict);
        }
    }
    // Where anybody may answer, so may that user.
    let plain = engine(&store, ApprovalSettings::default());
    let blocked = permit(&plain, "ls", &attendance()).await.permit.unwrap_err();
    assert_eq!(blocked.cause, BlockCause::Approval { resolution: Resolution::Cancelled });
}

/// What is cancelled a client asks its own user about.
fn not_for_the_client(verdict: ToolVerdict) {
    let blocked = verdict.permit.unwrap_err();
    let is_asked = matches!(blocked.cause, BlockCause::Approval { resolution: Resolution::Cancelled });
    assert!(!is_asked, "a client would ask its own user: {:?}", blocked.cause);
}

async fn a_routed_question_that_is_cancelled_is_not_put_to_the_user_of_a_client(store: Arc<dyn Store>) {
    let engine = engine(&store, settings([route(&["ann"], 1)]));
    let call = begin(&engine, Attendance::Queue);
    let row = pending(&store).await;
    store.cancel_approval(&row.id, Timestamp::now()).await.unwrap();
    not_for_the_client(call.await.unwrap());
}

async fn each_reason_leads_where_it_leads_alone(store: Arc<dyn Store>) {
    let for_title = |title: &'static str, route: ApprovalRoute| ApprovalRoute {
        fits: Arc::new(move |question: &NewApproval| {
            question.reasons.iter().any(|reason| reason.title.as_str() == title)
        }),
        ..route
    };
    let asks = |title: &str| ApprovalRequest::new(title, "It could do harm.").unwrap();
    let mild = for_title("mild", route(&["ann", "carl"], 1));
    let strict = for_title("strict", route(&["ann", "bob", "carl"], 2));
    let other = for_title("other", route(&["bob"], 1));
    let engine = |titles: &[&str]| {
        let routes = [mild.clone(), strict.clone(), other.clone()];
        let engine = Engine::builder().store(Arc::clone(&store)).approvals(settings(routes)).build();
        for title in titles {
            ask_more(&engine, title, asks(title));
        }
        engine
    };
    // Whatever comes first, two must allow it, and only those whom both routes ask.
    for titles in [["mild", "strict"], ["strict", "mild"]] {
        let call = begin(&engine(&titles), Attendance::Queue);
        let row = pending(&store).await;
        assert!(!allow(&store, &row, by("bob")).await);
        assert!(allow(&store, &row, by("ann")).await && !call.is_finished());
        assert!(allow(&store, &row, by("carl")).await);
        call.await.unwrap().permit.unwrap();
    }
    for titles in [&["strict", "other"][..], &["mild", "other"]] {
        let verdict = permit(&engine(titles), "ls", &Attendance::Queue).await;
        assert!(reason(&verdict).contains("nobody may answer it"), "{}", reason(&verdict));
    }
}

async fn each_rule_of_a_reason_leads_where_it_leads_alone(store: Arc<dyn Store>) {
    let for_rule = |rule: &'static str, route: ApprovalRoute| ApprovalRoute {
        fits: Arc::new(move |question: &NewApproval| {
            question.reasons.iter().flat_map(|reason| &reason.rules).any(|found| found.as_str() == rule)
        }),
        ..route
    };
    let anybody = ApprovalRoute { ask: None, ..route(&[], 1) };
    let made = |mild: &[&str], rules: &[&str], last: Option<ApprovalRoute>| {
        let strict = for_rule("cluster.delete", route(&["bob", "carl"], 2));
        let routes = [for_rule("git.force-push", route(mild, 1)), strict].into_iter().chain(last);
        let engine = Engine::builder().store(Arc::clone(&store)).approvals(settings(routes)).build();
        let grounds = rules.iter().map(|rule| Ground { rule: (*rule).into(), about: Vec::new() });
        ask_more(&engine, "asks", request().grounds(grounds));
        engine
    };
    let engine = |mild: &[&str], rules: &[&str]| made(mild, rules, Some(anybody.clone()));
    // Whatever is put before or behind it in one command, those two must allow it.
    for rules in [
        &["cluster.delete"][..],
        &["git.force-push", "cluster.delete"],
        &["cluster.delete", "command.unknown"],
        &["git.force-push", "cluster.delete", "command.unknown"],
    ] {
        let call = begin(&engine(&["ann", "bob", "carl"], rules), Attendance::Queue);
        let row = pending(&store).await;
        assert!(!allow(&store, &row, by("ann")).await, "{rules:?}");
        assert!(allow(&store, &row, by("bob")).await && !call.is_finished(), "{rules:?}");
        assert!(allow(&store, &row, by("carl")).await, "{rules:?}");
        call.await.unwrap().permit.unwrap();
    }
    // And where nobody is asked by both, nobody may.
    let both = engine(&["ann"], &["git.force-push", "cluster.delete"]);
    let verdict = permit(&both, "ls", &Attendance::Queue).await;
    assert!(reason(&verdict).contains("nobody may answer it"), "{}", reason(&verdict));
    // Where no route is about one of them, nobody is asked about any of it.
    let nowhere = made(&["ann", "bob", "carl"], &["cluster.delete", "command.unknown"], None);
    let verdict = permit(&nowhere, "ls", &Attendance::Queue).await;
    assert!(reason(&verdict).contains("no route for approvals"), "{}", reason(&verdict));
}

/// Somebody who answers nothing, and waits for a minute.
struct Impatient;

impl Asker for Impatient {
    fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
        Box::pin(std::future::pending())
    }

    fn patience(&self) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }

    fn name(&self) -> &'static str {
        "impatient"
    }
}

async fn what_silence_denies_ends_when_nobody_waits_any_more(store: Arc<dyn Store>) {
    let asked = async |routes: Vec<ApprovalRoute>, command: String| {
        let engine = Engine::builder().store(Arc::clone(&store)).approvals(settings(routes)).build();
        let lenient = request().timeout(Duration::from_secs(300), TimeoutBehavior::Allow).unwrap();
        ask_more(&engine, "asks", lenient);
        let call = tokio::spawn(async move {
            permit(&engine, &command, &Attendance::Present(Arc::new(Impatient))).await
        });
        let row = pending(&store).await;
        store.cancel_approval(&row.id, Timestamp::now()).await.unwrap();
        call.await.unwrap();
        (row.request.created_at.until(row.request.expires_at), row.request.timeout_behavior)
    };
    // Its call runs if nobody answers, so it keeps its time.
    let keeps = (Duration::from_secs(300), TimeoutBehavior::Allow);
    assert_eq!(asked(Vec::new(), "ls".to_owned()).await, keeps);
    // Somebody in particular has to allow these, or they were seen in part.
    let soon = Duration::from_secs(120);
    for (routes, command) in [(vec![route(&["ann"], 1)], "ls".to_owned()), (Vec::new(), "x".repeat(300_000))]
    {
        let (time, behavior) = asked(routes, command).await;
        assert!(time < soon && behavior == TimeoutBehavior::Deny, "{time:?}, {behavior:?}");
    }
}

async fn a_route_to_nobody_is_a_denial(store: Arc<dyn Store>) {
    for (ask, votes) in [(&[][..], 1), (&["eve"], 1), (&["ann", "eve"], 2)] {
        let engine = engine(&store, settings([route(ask, votes)]));
        let verdict = permit(&engine, "ls", &Attendance::Queue).await;
        assert!(reason(&verdict).contains("nobody may answer it"), "{}", reason(&verdict));
        assert!(!reason(&verdict).contains("ann"), "who may is for people");
    }
    assert!(rows(&store).await.is_empty());
}

async fn whoever_asked_for_the_call_does_not_answer(store: Arc<dyn Store>) {
    let barring = ApprovalRoute { bars_requester: true, ..route(&["ann", "bob"], 1) };
    let account = Identity::Account { uid: 1_000, name: Some("carl".to_owned()) };
    let settings = ApprovalSettings { account: Some(account), ..settings([barring]) };
    let engine = engine(&store, settings);
    let of = |sender: Option<&str>, channel: Option<&str>, host: Option<&'static str>| CallContext {
        requester: sender.map(|sender| Requester {
            sender_id: Some(sender.to_owned()),
            channel: channel.map(str::to_owned),
            ..Requester::default()
        }),
        front_end: FrontEnd { host, client: None },
        ..context()
    };
    // Only the agent of this process is spoken to on this process's terminal.
    let at_terminal = |host| CallContext {
        requester: Some(Requester { channel: Some(Requester::TERMINAL.to_owned()), ..Requester::default() }),
        ..of(None, None, Some(host))
    };
    for (call, answers) in [
        (of(Some("ann"), None, Some("gateway")), Some(("ann", "bob"))),
        (of(Some("eve"), None, Some("gateway")), None),
        (of(None, None, Some("agent")), Some(("carl", "ann"))),
        (at_terminal("agent"), Some(("carl", "ann"))),
        (at_terminal("gateway"), None),
        (of(None, None, Some("gateway")), None),
        (of(None, None, None), None),
        (of(Some("ann"), Some("chat"), Some("agent")), None),
    ] {
        let asked = engine.clone();
        let asking = call.clone();
        let passage =
            tokio::spawn(
                async move { asked.permit_tool_call(exec("ls"), &asking, &Attendance::Queue).await },
            );
        let Some((barred, asked)) = answers else {
            let verdict = passage.await.unwrap();
            assert!(reason(&verdict).contains("not known who that is"), "{call:?}: {}", reason(&verdict));
            continue;
        };
        let row = pending(&store).await;
        assert!(!allow(&store, &row, by(barred)).await, "{call:?}");
        assert!(allow(&store, &row, by(asked)).await, "{call:?}");
        passage.await.unwrap().permit.unwrap();
    }
}

async fn a_grant_of_others_answers_nothing(store: Arc<dyn Store>) {
    let open = engine(&store, settings([]));
    let always = Always { scope: AlwaysScope::Call, ttl: None, times: None };
    let grant = async |engine: &Engine, who: Answerer| {
        let call = begin(engine, Attendance::Queue);
        let row = pending(&store).await;
        allow_always(store.as_ref(), &row.id, &always, &who).await.unwrap();
        call.await.unwrap().permit.unwrap();
    };
    grant(&open, "somebody".into()).await;
    permit(&open, "ls", &Attendance::Nobody).await.permit.unwrap();
    let (one, two) = (
        engine(&store, settings([route(&["ann"], 1)])),
        engine(&store, settings([route(&["ann", "bob"], 2)])),
    );
    permit(&one, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    grant(&one, by("ann")).await;
    permit(&one, "ls", &Attendance::Nobody).await.permit.unwrap();
    permit(&two, "ls", &Attendance::Nobody).await.permit.unwrap_err();
}

async fn an_answer_in_advance_counts_as_it_would_now(store: Arc<dyn Store>) {
    let open = engine(&store, settings([]));
    permit(&open, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.pop().unwrap();
    store.allow_later(&row.id, &"somebody".into(), Duration::from_secs(60), Timestamp::now()).await.unwrap();
    let routed = engine(&store, settings([route(&["ann"], 1)]));
    permit(&routed, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    permit(&open, "ls", &Attendance::Nobody).await.permit.unwrap();
}

async fn the_first_route_that_fits_limits_what_may_be_answered(store: Arc<dyn Store>) {
    let other = ApprovalRoute {
        fits: Arc::new(|question: &NewApproval| question.agent.as_str() == "other"),
        ..route(&[], 1)
    };
    let once = ApprovalRoute { decisions: Some(vec![Decision::AllowOnce]), ..route(&["ann"], 1) };
    let engine = engine(&store, settings([other, once, route(&[], 1)]));
    let call = begin(&engine, Attendance::Queue);
    let row = pending(&store).await;
    assert_eq!(row.request.allowed_decisions, [Decision::AllowOnce, Decision::Deny]);
    let always = PersonsAnswer::new(Decision::AllowAlways, by("ann"), Timestamp::now());
    assert!(store.answer_approval(&row.id, always).await.is_err());
    let no = PersonsAnswer::new(Decision::Deny, by("ann"), Timestamp::now());
    store.answer_approval(&row.id, no).await.unwrap();
    call.await.unwrap().permit.unwrap_err();
}

async fn what_an_agent_asks_beyond_its_share_is_denied(store: Arc<dyn Store>) {
    let limits = AskingLimits { open: NonZeroU32::new(1), per_minute: None };
    let engine = engine(&store, ApprovalSettings { limits, ..ApprovalSettings::default() });
    let call = begin(&engine, Attendance::Queue);
    let row = pending(&store).await;
    for attendance in [Attendance::Queue, Human::says(Decision::AllowOnce)] {
        let verdict = permit(&engine, "ls -l", &attendance).await;
        let said = reason(&verdict);
        assert!(said.contains("agent `main` asks too much: of its questions 1 are open"), "{said}");
        not_for_the_client(verdict);
    }
    // Questions that a client's own user would be asked are counted, too.
    permit(&engine, "ls -a", &Attendance::Host).await.permit.unwrap_err();
    let verdict = permit(&engine, "ls -b", &Attendance::Host).await;
    assert!(reason(&verdict).contains("asks too much"), "{}", reason(&verdict));
    not_for_the_client(verdict);
    let refused = store.refused_questions(Timestamp::now()).await.unwrap();
    assert_eq!((refused[0].agent.as_str(), refused[0].count), ("main", 3));
    store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
    call.await.unwrap().permit.unwrap();
}

#[tokio::test]
async fn silence_allows_nothing_that_somebody_must_allow() {
    let store = crate::support::memory().store;
    let engine =
        Engine::builder().store(Arc::clone(&store)).approvals(settings([route(&["ann"], 1)])).build();
    ask_more(&engine, "asks", crate::support::waiting(20, TimeoutBehavior::Allow));
    permit(&engine, "ls", &Attendance::Queue).await.permit.unwrap_err();
}
