//! Who answers, what is answered, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{Attendance, BlockCause, Verdict, tool_call_digest};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{
    ApprovalRequest, CallContext, Decision, Ground, Requester, Resolution, Severity, TimeoutBehavior,
    ToolName,
};
use backstop_store::{
    APPROVAL_ENDED, AmountArgument, ApprovalFilter, ApprovalRecord, ApprovalStatus, Asked, AuditFilter,
    GrantPlace, GrantTarget, NewGrant, PersonsAnswer, Store, Timestamp,
};

use crate::support::*;

over_both_stores! {
    the_asker_answers,
    a_word_with_a_denial_reaches_the_model,
    a_grant_up_to_a_sum_answers_for_amounts_within_it,
    a_grant_for_some_calls_answers_that_many,
    an_answer_that_comes_with_grants_adds_none,
    another_terminal_answers_while_an_asker_waits,
    another_terminal_answers_where_nobody_sits,
    silence_denies_or_allows_as_asked,
    nobody_to_ask_is_a_denial_that_tells_no_way_to_answer,
    what_the_host_ran_can_be_allowed_no_more,
    a_code_allows_the_same_call_once_and_only_once,
    a_code_does_not_reach_other_arguments_agents_or_conversations,
    a_code_reaches_the_agents_other_conversations_in_the_same_folder,
    a_code_of_somebodys_conversation_stays_in_it,
    a_refusal_says_who_asks_and_why,
    allow_always_becomes_a_grant_for_the_very_call,
    a_grant_answers_the_question_that_was_answered_where_it_was,
    a_grant_answers_no_graver_and_no_other_question_of_its_hook,
    grants_of_programs_and_rules_go_by_what_is_asked_about,
    what_was_shown_in_part_is_not_allowed,
    what_one_spelling_may_another_may_not,
    a_permit_and_a_question_carry_both_names,
    a_request_says_what_a_timeout_means_and_what_the_call_does,
    revoked_and_ended_grants_do_not_count,
    a_grant_covers_only_those_who_offered_it,
    an_answer_that_was_not_offered_allows_nothing,
    an_asker_that_breaks_leaves_the_question_to_others,
    several_requests_are_one_question_with_the_strictest_limits,
}

async fn the_asker_answers(store: Arc<dyn Store>) {
    let cases = [
        (Decision::AllowOnce, Resolution::AllowOnce, ApprovalStatus::Used),
        (Decision::Deny, Resolution::Deny, ApprovalStatus::Denied),
    ];
    for (said, ended, state) in cases {
        let (engine, heard) = asking(Arc::clone(&store), request());
        let verdict = permit(&engine, "ls", &Human::says(said)).await;
        assert_eq!(resolution(&verdict), ended);
        assert_eq!(told(&heard), [ended]);
        assert_eq!(status(&store).await, state);
        let note = verdict.receipt.approval.as_ref().unwrap();
        assert_eq!(note.digest, tool_call_digest(&exec("ls")));
        assert_eq!(note.id.as_ref(), Some(&rows(&store).await[0].id));
        match said {
            Decision::Deny => {
                assert_eq!(
                    verdict.permit.as_ref().unwrap_err().cause,
                    BlockCause::Approval { resolution: ended }
                );
                assert_eq!(verdict.receipt.verdict, Verdict::Block);
                assert!(reason(&verdict).contains("denied by a human: May it run?"));
            }
            _ => assert_eq!(verdict.permit.unwrap().approval(), note.id.as_ref()),
        }
    }
}

async fn elsewhere(store: Arc<dyn Store>, attendance: Attendance) {
    for (said, runs) in [(Decision::AllowOnce, true), (Decision::Deny, false)] {
        let (engine, heard) = asking(Arc::clone(&store), request());
        let call = tokio::spawn({
            let attendance = attendance.clone();
            async move { permit(&engine, "ls", &attendance).await }
        });
        let row = pending(&store).await;
        store.resolve_approval(&row.id, said, "other terminal", Timestamp::now()).await.unwrap();
        let verdict = tokio::time::timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
        assert_eq!(verdict.permit.is_ok(), runs);
        assert_eq!(told(&heard), [said.into()]);
    }
}

async fn a_word_with_a_denial_reaches_the_model(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let call = tokio::spawn(async move { permit(&engine, "ls", &Attendance::Queue).await });
    let row = pending(&store).await;
    let answer =
        PersonsAnswer::new(Decision::Deny, "ann", Timestamp::now()).with_word("list the copy instead");
    store.answer_approval(&row.id, answer).await.unwrap();
    let told = reason(&call.await.unwrap());
    assert!(told.ends_with("did not run\nthe human says: list the copy instead"), "{told}");
    assert!(!told.contains("ann"), "who it was is for the record");
}

async fn a_grant_for_some_calls_answers_that_many(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let twice = NewGrant { most_uses: Some(2), ..granted("asks", in_an_hour()) };
    store.add_grant(twice).await.unwrap();
    for _ in 0..2 {
        permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    }
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
}

async fn a_grant_up_to_a_sum_answers_for_amounts_within_it(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let pay = async |amount: serde_json::Value, to: &str| {
        let params = serde_json::json!({ "amount": amount, "to": to, "fee": "0.5" });
        let event = ToolCallEvent::new("pay", backstop_hooks::Params::from_value(params).unwrap());
        engine.permit_tool_call(event, &context(), &Attendance::Nobody).await.permit.is_ok()
    };
    assert!(!pay(5.into(), "ann").await);
    let asked = rows(&store).await.remove(0).request;
    let named: Vec<_> =
        asked.amounts.iter().map(|one| (one.argument.as_str(), one.amount.to_string())).collect();
    assert_eq!(named, [("amount", "5".to_owned()), ("fee", "0.5".to_owned())]);
    let AmountArgument { argument, without, .. } = asked.amounts[0].clone();
    let target = GrantTarget::Amount { argument, without, most: "10".parse().unwrap() };
    let tool_name = "pay".into();
    store.add_grant(NewGrant { target, tool_name, ..granted("asks", in_an_hour()) }).await.unwrap();
    assert!(!pay((-1).into(), "ann").await && !pay(1e300.into(), "ann").await, "those are no amounts");
    assert!(!pay(1.into(), "bob").await, "that is another call");
    assert!(pay(serde_json::json!(7.5), "ann").await && !pay(serde_json::json!(2.51), "ann").await);
    assert!(pay("2.50".into(), "ann").await && !pay(serde_json::json!(0.01), "ann").await);
}

/// The call that waits is beyond what the person wrote down, and nothing of its own is added to that.
async fn an_answer_that_comes_with_grants_adds_none(store: Arc<dyn Store>) {
    for has_grants in [true, false] {
        let command = if has_grants { "ls a" } else { "ls b" };
        let (engine, _) = asking(Arc::clone(&store), request());
        let call = tokio::spawn(async move { permit(&engine, command, &Attendance::Queue).await });
        let id = loop {
            let pending = store.approvals(ApprovalFilter::Pending, 9).await.unwrap();
            if let Some(record) = pending.first() {
                break record.id.clone();
            }
            tokio::task::yield_now().await;
        };
        let answer = PersonsAnswer::new(Decision::AllowAlways, "a person", Timestamp::now());
        let answer = if has_grants { answer.with_grants() } else { answer };
        store.answer_approval(&id, answer).await.unwrap();
        assert!(call.await.unwrap().permit.is_ok());
        assert_eq!(store.grants(9).await.unwrap().is_empty(), has_grants);
    }
}

async fn another_terminal_answers_while_an_asker_waits(store: Arc<dyn Store>) {
    elsewhere(store, Human::stares()).await;
}

async fn another_terminal_answers_where_nobody_sits(store: Arc<dyn Store>) {
    elsewhere(store, Attendance::Queue).await;
}

async fn silence_denies_or_allows_as_asked(store: Arc<dyn Store>) {
    for attendance in [Attendance::Queue, Human::stares()] {
        for (behavior, runs) in [(TimeoutBehavior::Deny, false), (TimeoutBehavior::Allow, true)] {
            let (engine, heard) = asking(Arc::clone(&store), waiting(20, behavior));
            let verdict = permit(&engine, "ls", &attendance).await;
            assert_eq!(verdict.permit.is_ok(), runs, "{behavior:?}");
            assert_eq!(resolution(&verdict), Resolution::Timeout);
            assert_eq!(told(&heard), [Resolution::Timeout]);
            if !runs {
                assert_tells_no_way(&reason(&verdict), &rows(&store).await.remove(0));
            }
            let expected = if runs { ApprovalStatus::Used } else { ApprovalStatus::TimedOut };
            assert_eq!(status(&store).await, expected);
        }
    }
}

/// What the model reads holds nothing that it, or a program of its own, could answer the question with.
#[track_caller]
fn assert_tells_no_way(told: &str, row: &ApprovalRecord) {
    for way in [row.code.as_str(), row.id.as_str(), "allow-once", "approvals approve", "backstop "] {
        assert!(!told.contains(way), "`{way}` is in {told}");
    }
}

async fn nobody_to_ask_is_a_denial_that_tells_no_way_to_answer(store: Arc<dyn Store>) {
    // Also where silence would allow: nobody was asked.
    let (engine, heard) = asking(Arc::clone(&store), waiting(20, TimeoutBehavior::Allow));
    for (attendance, said) in
        [(Attendance::Nobody, "nobody is there to ask"), (Attendance::Host, "where nobody can be asked")]
    {
        let verdict = permit(&engine, "ls", &attendance).await;
        let denied = reason(&verdict);
        let row = rows(&store).await.remove(0);
        assert!(denied.contains(said) && denied.contains("a person can allow"), "{denied}");
        assert_tells_no_way(&denied, &row);
        assert_eq!(told(&heard), [Resolution::Cancelled]);
        assert_eq!(row.state.status(), ApprovalStatus::Unattended);
        // What is put to the host's own user is no block, and nobody knows here how it ends.
        let hosted = matches!(attendance, Attendance::Host);
        let (verdict, note) = (&verdict.receipt, verdict.receipt.approval.clone().unwrap());
        assert_eq!((row.state.is_hosted(), note.hosted), (hosted, hosted));
        let expected = match hosted {
            true => (Verdict::Ask, None, true),
            false => (Verdict::Block, Some(Resolution::Cancelled), false),
        };
        assert_eq!((verdict.verdict, note.resolution, verdict.blocked.is_none()), expected);
        heard.lock().unwrap().clear();
    }
}

/// The question about a call that the host put to its own user, and which it then ran.
async fn what_the_host_ran_can_be_allowed_no_more(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let call = exec("ls");
    let id = call.tool_call_id.clone().unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    permit(&engine, "ls", &Attendance::Host).await.permit.unwrap_err();
    engine.host_ran(&context(), &"another".into()).await;
    let other = CallContext { agent_id: Some("other".into()), ..context() };
    engine.host_ran(&other, &id).await;
    let states = async || rows(&store).await.into_iter().map(|row| row.state.status()).collect::<Vec<_>>();
    assert_eq!(states().await, [ApprovalStatus::Unattended, ApprovalStatus::Unattended]);
    for _ in 0..2 {
        engine.host_ran(&context(), &id).await;
    }
    // The one that was put to nobody is another matter.
    assert_eq!(states().await, [ApprovalStatus::Used, ApprovalStatus::Unattended]);
    let ran = rows(&store).await.remove(0);
    store.allow_later(&ran.id, &"me".into(), TTL, Timestamp::now()).await.unwrap_err();
    let ended = AuditFilter { kind: Some(APPROVAL_ENDED.to_owned()), ..AuditFilter::default() };
    let ended = store.audit(&ended, 0, 9).await.unwrap();
    let ended: Vec<_> = ended.iter().map(|entry| entry.body.to_value()).collect();
    assert_eq!(ended.len(), 1);
    assert_eq!((&ended[0]["why"], &ended[0]["approval"]), (&"let-run".into(), &ran.id.as_str().into()));
}

const TTL: Duration = Duration::from_secs(600);

async fn a_code_allows_the_same_call_once_and_only_once(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    store.allow_later(&row.id, &"me".into(), TTL, Timestamp::now()).await.unwrap();
    let verdict = permit(&engine, "ls", &Attendance::Nobody).await;
    assert_eq!(verdict.permit.unwrap().approval(), Some(&row.id));
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    assert_eq!(told(&heard), [Resolution::Cancelled, Resolution::AllowOnce, Resolution::Cancelled]);
}

async fn a_code_does_not_reach_other_arguments_agents_or_conversations(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    store.allow_later(&row.id, &"me".into(), TTL, Timestamp::now()).await.unwrap();
    permit(&engine, "ls -l", &Attendance::Nobody).await.permit.unwrap_err();
    for change in [0, 1] {
        let mut other = context();
        match change {
            0 => other.agent_id = Some("other".into()),
            _ => other.session_key = Some("other".into()),
        }
        engine.permit_tool_call(exec("ls"), &other, &Attendance::Nobody).await.permit.unwrap_err();
    }
    let mut other_tool = exec("ls");
    other_tool.tool_name = "process".into();
    engine.permit_tool_call(other_tool, &context(), &Attendance::Nobody).await.permit.unwrap_err();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
}

async fn allowed(store: &Arc<dyn Store>) {
    let row = rows(store).await.into_iter().find(|row| row.state.status() == ApprovalStatus::Unattended);
    store.allow_later(&row.unwrap().id, &"me".into(), TTL, Timestamp::now()).await.unwrap();
}

async fn a_code_reaches_the_agents_other_conversations_in_the_same_folder(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let within = |folder: &str, session: &str| CallContext {
        workspace_dir: Some(folder.to_owned()),
        session_key: Some(session.into()),
        session_id: Some(session.into()),
        run_id: None,
        ..context()
    };
    let first = within("/p", "one");
    engine.permit_tool_call(exec("ls"), &first, &Attendance::Nobody).await.permit.unwrap_err();
    allowed(&store).await;
    for other in [within("/q", "one"), within("/q", "two"), context()] {
        engine.permit_tool_call(exec("ls"), &other, &Attendance::Nobody).await.permit.unwrap_err();
    }
    let again = within("/p", "two");
    engine.permit_tool_call(exec("ls"), &again, &Attendance::Nobody).await.permit.unwrap();
    engine.permit_tool_call(exec("ls"), &again, &Attendance::Nobody).await.permit.unwrap_err();
}

async fn a_code_of_somebodys_conversation_stays_in_it(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let chat = |session: &str| CallContext {
        workspace_dir: Some("/p".to_owned()),
        channel_id: Some(format!("chat of {session}")),
        session_key: Some(session.into()),
        ..context()
    };
    engine.permit_tool_call(exec("ls"), &chat("ann"), &Attendance::Nobody).await.permit.unwrap_err();
    allowed(&store).await;
    let other = chat("bob");
    engine.permit_tool_call(exec("ls"), &other, &Attendance::Nobody).await.permit.unwrap_err();
    engine.permit_tool_call(exec("ls"), &chat("ann"), &Attendance::Nobody).await.permit.unwrap();
}

async fn a_refusal_says_who_asks_and_why(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    ask_more(&engine, "grave", ApprovalRequest::cut("Really?", "first reason\n\nsecond reason"));
    let denied = reason(&permit(&engine, "ls", &Attendance::Nobody).await);
    for said in ["It could do harm.", "grave: first reason; second reason\n", "a person can allow"] {
        assert!(denied.contains(said), "{denied}");
    }
    let engine = asking(Arc::clone(&store), request().decisions([Decision::AllowAlways])).0;
    let denied = reason(&permit(&engine, "ls", &Attendance::Nobody).await);
    assert!(!denied.contains("a person can allow"), "nobody can: {denied}");
}

async fn allow_always_becomes_a_grant_for_the_very_call(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Human::says(Decision::AllowAlways)).await.permit.unwrap();
    for _ in 0..2 {
        let verdict = permit(&engine, "ls", &Attendance::Nobody).await;
        assert_eq!(verdict.permit.unwrap().approval(), None);
        let grant = store.grants(9).await.unwrap().remove(0).id;
        assert_eq!(verdict.receipt.approval.as_ref().unwrap().grants, [grant]);
    }
    permit(&engine, "ls -l", &Attendance::Nobody).await.permit.unwrap_err();
    let grants = store.grants(9).await.unwrap();
    assert_eq!(grants.len(), 1);
    assert_eq!(grants[0].uses, 2);
    assert_eq!(grants[0].granted.created_by, "human");
    assert_eq!(
        grants[0].granted.target,
        GrantTarget::Call { digest: tool_call_digest(&exec("ls")), facts: None }
    );
    assert!(grants[0].granted.expires_at > grants[0].granted.created_at);
    assert_eq!(told(&heard)[..3], [Resolution::AllowAlways; 3]);
}

/// What somebody allowed from now on, for this very call and question.
fn granted(hook: &str, expires_at: Timestamp) -> NewGrant {
    NewGrant {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: GrantPlace::default(),
        question: Asked {
            owner: "plugin".into(),
            hook: hook.into(),
            severity: Severity::Warning,
            rules: [].into(),
            title: "May it run?".into(),
        },
        target: GrantTarget::Call { digest: tool_call_digest(&exec("ls")), facts: None },
        origin: None,
        title: "May it run?".into(),
        created_by: "me".to_owned(),
        person: None,
        created_at: Timestamp::from_millis(0),
        expires_at,
        most_uses: None,
    }
}

fn in_an_hour() -> Timestamp {
    Timestamp::now().after(Duration::from_secs(3_600))
}

async fn a_grant_answers_the_question_that_was_answered_where_it_was(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let here = CallContext {
        workspace_dir: Some("/p".to_owned()),
        message_provider: Some("chat".to_owned()),
        channel_id: Some("room".to_owned()),
        requester: Some(Requester { sender_id: Some("ann".to_owned()), ..Requester::default() }),
        ..context()
    };
    let always = Human::says(Decision::AllowAlways);
    engine.permit_tool_call(exec("ls"), &here, &always).await.permit.unwrap();
    let call =
        async |call: &CallContext| engine.permit_tool_call(exec("ls"), call, &Attendance::Nobody).await;
    let again =
        CallContext { session_id: Some("other".into()), session_key: Some("other".into()), ..here.clone() };
    call(&again).await.permit.unwrap();
    let bob = Requester { sender_id: Some("bob".to_owned()), ..Requester::default() };
    for other in [
        CallContext { workspace_dir: Some("/q".to_owned()), ..here.clone() },
        CallContext { workspace_dir: None, ..here.clone() },
        CallContext { requester: Some(bob), ..here.clone() },
        CallContext { requester: None, ..here.clone() },
        CallContext { channel_id: Some("hall".to_owned()), ..here.clone() },
        CallContext { message_provider: None, ..here.clone() },
    ] {
        assert!(call(&other).await.permit.is_err(), "{other:?}");
    }
    // Another hook asks as well, later: nobody was asked that.
    ask_more(&engine, "other", request());
    call(&here).await.permit.unwrap_err();
}

async fn a_grant_answers_no_graver_and_no_other_question_of_its_hook(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Human::says(Decision::AllowAlways)).await.permit.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    for other in [
        request().severity(Severity::Critical),
        ApprovalRequest::cut("May it delete?", "It could do harm."),
        request().grounds([Ground { rule: "a.rule".into(), about: Vec::new() }]),
    ] {
        let (engine, _) = asking(Arc::clone(&store), other);
        permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    }
}

/// The rules and words of a request decide which grants of a program or a rule cover it.
async fn grants_of_programs_and_rules_go_by_what_is_asked_about(store: Arc<dyn Store>) {
    let about = |rule: &str, words: &[&str]| Ground {
        rule: rule.into(),
        about: words.iter().chain(&["\n"]).map(|word| (*word).into()).collect(),
    };
    let push = |more: &str| about("git.push", &["git", "push", more]);
    let (engine, _) = asking(Arc::clone(&store), request().grounds([push("origin")]));
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0).request;
    assert_eq!(row.reasons[0].program, Some(vec!["git".to_owned(), "push".to_owned()]));
    let words = row.reasons[0].program.clone().unwrap();
    let rules = row.reasons[0].rules.clone();
    let base = granted("asks", in_an_hour());
    let question = Asked { rules, ..base.question.clone() };
    store.add_grant(NewGrant { question, target: GrantTarget::Program { words }, ..base }).await.unwrap();
    let allowed = async |grounds: Vec<Ground>| {
        let (engine, _) = asking(Arc::clone(&store), request().grounds(grounds));
        permit(&engine, "other", &Attendance::Nobody).await.permit.is_ok()
    };
    assert!(allowed(vec![push("elsewhere")]).await);
    assert!(allowed(vec![push("a"), push("b")]).await);
    let unknown = about("git.push", &["git", "$X"]);
    let two = Ground {
        rule: "git.push".into(),
        about: ["git", "push", "\n", "rm", "x", "\n"].map(Into::into).to_vec(),
    };
    for grounds in [
        vec![about("git.force", &["git", "push", "-f"])],
        vec![push("a"), about("git.push", &["git", "fetch"])],
        vec![about("git.push", &["git", "-C", "x", "push"])],
        vec![unknown],
        vec![two],
        vec![Ground { rule: "git.push".into(), about: vec!["git".into(), "push".into()] }],
    ] {
        assert!(!allowed(grounds.clone()).await, "{grounds:?}");
    }
}

async fn what_one_spelling_may_another_may_not(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    store.add_grant(granted("asks", in_an_hour())).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    // A tool of somebody else's that a host takes for the same, and another spelling.
    for tool in [ToolName::with_canonical("remote_exec", "exec"), ToolName::new("bash")] {
        let mut other = exec("ls");
        other.tool_name = tool;
        assert_ne!(tool_call_digest(&other), tool_call_digest(&exec("ls")));
        engine.permit_tool_call(other, &context(), &Attendance::Nobody).await.permit.unwrap_err();
    }
}

async fn a_permit_and_a_question_carry_both_names(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let mut call = exec("ls");
    call.tool_name = ToolName::new("Bash");
    let verdict = engine.permit_tool_call(call, &context(), &Human::says(Decision::AllowOnce)).await;
    assert_eq!(rows(&store).await[0].request.tool_name, ToolName::new("Bash"));
    assert_eq!(verdict.receipt.key.tool, Some(ToolName::new("Bash")));
    let receipt = serde_json::to_value(&verdict.receipt).unwrap();
    assert_eq!((&receipt["tool"], &receipt["calledAs"]), (&"exec".into(), &"Bash".into()));
    assert_eq!(verdict.permit.unwrap().tool_name, ToolName::new("Bash"));
}

async fn a_request_says_what_a_timeout_means_and_what_the_call_does(store: Arc<dyn Store>) {
    let asked: ApprovalRequest = serde_json::from_value(serde_json::json!({
        "title": "May it be sent?", "description": "To all.", "timeoutMs": 1,
        "timeoutReason": "the on-call was not there",
        "scope": {"kind": "message-send", "target": "#general", "recipientCount": 40},
    }))
    .unwrap();
    let (engine, _) = asking(Arc::clone(&store), asked);
    let verdict = permit(&engine, "ls", &Attendance::Queue).await;
    assert!(reason(&verdict).starts_with("the on-call was not there"), "{}", reason(&verdict));
    let shown = rows(&store).await.remove(0).request.reasons.remove(0).description;
    assert!(shown.starts_with("To all.\nscope: {") && shown.contains("#general"), "{shown}");
}

async fn revoked_and_ended_grants_do_not_count(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    store.add_grant(granted("asks", Timestamp::from_millis(1))).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let grant = store.add_grant(granted("asks", in_an_hour())).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap();
    store.revoke_grant(&grant.id, "me", Timestamp::now()).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
}

async fn a_grant_covers_only_those_who_offered_it(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request().decisions([Decision::AllowOnce]));
    store.add_grant(granted("asks", in_an_hour())).await.unwrap();
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
}

async fn what_was_shown_in_part_is_not_allowed(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let long = "x".repeat(40_000);
    let verdict = permit(&engine, &long, &Human::says(Decision::AllowOnce)).await;
    assert!(reason(&verdict).contains("shows a part of its arguments"), "{}", reason(&verdict));
    let row = rows(&store).await.remove(0);
    assert_eq!(row.request.whole, Some(exec(&long).params.to_value().into()));
    // Whoever was shown it whole can allow the same call.
    let call = tokio::spawn({
        let (engine, long) = (engine.clone(), long.clone());
        async move { permit(&engine, &long, &Attendance::Queue).await }
    });
    let row = pending(&store).await;
    store.mark_seen(&row.id).await.unwrap();
    store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
    call.await.unwrap().permit.unwrap();
    // Silence would allow what a hook asks about here, and allows nothing that nobody was shown.
    let (lax, _) = asking(Arc::clone(&store), waiting(20, TimeoutBehavior::Allow));
    for padded in [40_000, 300_000] {
        let verdict = permit(&lax, &"x".repeat(padded), &Attendance::Queue).await;
        assert_eq!(resolution(&verdict), Resolution::Timeout);
        assert!(verdict.permit.is_err(), "{padded}");
    }
    let huge = permit(&engine, &"x".repeat(300_000), &Attendance::Nobody).await;
    huge.permit.unwrap_err();
    let row = rows(&store).await.remove(0).request;
    assert!(row.whole.is_none() && row.unseen, "too large to be kept beside what is shown");
}

async fn an_answer_that_was_not_offered_allows_nothing(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), request().decisions([Decision::AllowOnce]));
    let verdict = permit(&engine, "ls", &Human::says(Decision::AllowAlways)).await;
    assert!(reason(&verdict).contains("can't be answered with allow-always"), "{}", reason(&verdict));
    assert_eq!(told(&heard), [Resolution::Cancelled]);
    assert_eq!(status(&store).await, ApprovalStatus::Cancelled, "no row is left waiting");
    assert!(store.grants(9).await.unwrap().is_empty());
}

async fn an_asker_that_breaks_leaves_the_question_to_others(store: Arc<dyn Store>) {
    for attendance in [Human::panics(), Attendance::Present(Arc::new(Human(None)))] {
        let (engine, _) = asking(Arc::clone(&store), request());
        let call = tokio::spawn(async move { permit(&engine, "ls", &attendance).await });
        let row = pending(&store).await;
        store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
        call.await.unwrap().permit.unwrap();
    }
}

async fn several_requests_are_one_question_with_the_strictest_limits(store: Arc<dyn Store>) {
    let (engine, first) = asking(Arc::clone(&store), waiting(90_000, TimeoutBehavior::Allow));
    let grave =
        waiting(60_000, TimeoutBehavior::Deny).severity(Severity::Critical).decisions([Decision::AllowOnce]);
    let second = ask_more(&engine, "grave", grave);
    let call = tokio::spawn(async move { permit(&engine, "ls", &Attendance::Queue).await });
    let row = pending(&store).await;
    let question = &row.request;
    assert_eq!(question.severity, Severity::Critical);
    assert_eq!(question.allowed_decisions, [Decision::AllowOnce, Decision::Deny]);
    assert_eq!(question.timeout_behavior, TimeoutBehavior::Deny);
    assert_eq!(question.created_at.until(question.expires_at), Duration::from_secs(60));
    assert_eq!(question.reasons.len(), 2);
    assert_eq!(question.preview.to_value(), serde_json::json!({ "command": "ls" }));
    store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
    call.await.unwrap().permit.unwrap();
    assert_eq!((told(&first), told(&second)), (vec![Resolution::AllowOnce], vec![Resolution::AllowOnce]));
}
