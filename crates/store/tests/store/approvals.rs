use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{Decision, Severity, TimeoutBehavior};
use backstop_store::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, AllowanceScope, AnswerStore, ApprovalFilter, ApprovalReason,
    ApprovalRecord, ApprovalState, ApprovalStatus, ApprovalStore as _, AuditFilter, ConsumeError,
    CreateApprovalError, Deletion, DeletionCause, FindApprovalError, MAX_APPROVAL_BYTES, MAX_WORD_CHARS,
    NewApproval, PersonsAnswer, ResolveError, RetentionStore as _, SessionStore as _, SqliteStore, Store,
    Timestamp,
};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{at, block_on, digest, over_all_forms, question, session};

over_all_forms!(
    a_question_is_found_by_id_code_and_prefix,
    lists_are_newest_first_and_filtered,
    lists_go_on_before_a_question_whatever_was_answered_meanwhile,
    the_first_answer_wins,
    a_denial_brings_a_word_along,
    only_what_was_offered_counts,
    a_late_answer_does_not_count,
    an_allowance_is_used_once_and_for_its_call_only,
    a_timeout_denies_unless_the_question_says_otherwise,
    aborted_run_releases_its_approvals,
    a_code_allows_one_later_call,
    a_later_allowance_keeps_to_its_scope_and_time,
    a_later_allowance_reaches_every_conversation_in_its_workspace,
    a_denial_by_a_human_is_final,
    waiting_ends_with_the_answer_or_the_deadline,
    who_asked_ends_the_waiting_whatever_the_clock_says,
    an_erased_preview_leaves_the_digest,
    arguments_are_wiped_once_no_answer_can_count,
    a_call_that_comes_twice_is_one_question,
    of_what_was_denied_no_words_are_kept,
    what_was_shown_in_part_is_not_allowed_before_it_is_shown_whole,
    what_is_too_large_is_refused,
);

const HOUR: Duration = Duration::from_secs(3_600);

async fn ask(store: &dyn AnswerStore, command: &str) -> ApprovalRecord {
    store.create_approval(question(command)).await.unwrap()
}

async fn status(store: &dyn AnswerStore, record: &ApprovalRecord) -> ApprovalStatus {
    store.approval(&record.id).await.unwrap().unwrap().state.status()
}

fn scope(command: &str) -> AllowanceScope {
    AllowanceScope {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: None,
        tool_name: "exec".into(),
        digest: digest(command),
        asked: Vec::new(),
        facts: None,
        route: None,
    }
}

async fn a_question_is_found_by_id_code_and_prefix(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    assert_eq!(asked.request, question("ls"));
    for _ in 0..40 {
        ask(store, "other").await;
    }
    let id = asked.id.as_str();
    let prefix: String = id.chars().take(20).collect();
    for name in [id, &asked.code, &asked.code.to_lowercase(), &format!(" {} ", asked.code), &prefix] {
        assert_eq!(store.find_approval(name).await.unwrap(), asked, "{name}");
    }
    let ids: Vec<_> = store.approvals(ApprovalFilter::All, 99).await.unwrap();
    let doubled = (0..16)
        .map(|n| format!("{n:x}"))
        .find(|digit| ids.iter().filter(|record| record.id.as_str().starts_with(digit.as_str())).count() > 1);
    let ambiguous = store.find_approval(&doubled.unwrap()).await;
    assert!(matches!(ambiguous, Err(FindApprovalError::Ambiguous(_))));
    for name in ["", "zzz", "%", "_"] {
        assert!(matches!(store.find_approval(name).await, Err(FindApprovalError::Unknown(_))), "{name}");
    }
}

async fn lists_are_newest_first_and_filtered(store: &dyn Store) {
    let (one, two) = (ask(store, "one").await, ask(store, "two").await);
    let three = store.create_unattended_approval(question("three")).await.unwrap();
    assert_eq!(three.state.status(), ApprovalStatus::Unattended);
    assert_eq!(store.approvals(ApprovalFilter::All, 9).await.unwrap(), [three, two.clone(), one.clone()]);
    assert_eq!(store.approvals(ApprovalFilter::Pending, 9).await.unwrap(), [two.clone(), one]);
    assert_eq!(store.approvals(ApprovalFilter::Pending, 1).await.unwrap(), [two]);
}

async fn lists_go_on_before_a_question_whatever_was_answered_meanwhile(store: &dyn Store) {
    let (one, two, three) = (ask(store, "one").await, ask(store, "two").await, ask(store, "three").await);
    let before = async |of: &ApprovalRecord, filter: ApprovalFilter, limit: usize| {
        let found = store.approvals_before(&of.id, filter, limit).await.unwrap();
        found.into_iter().map(|record| record.id).collect::<Vec<_>>()
    };
    let (pending, all) = (ApprovalFilter::Pending, ApprovalFilter::All);
    assert_eq!(before(&three, pending, 9).await, [two.id.clone(), one.id.clone()]);
    assert_eq!(before(&three, pending, 1).await, std::slice::from_ref(&two.id));
    store.resolve_approval(&two.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    assert_eq!(before(&two, pending, 9).await, std::slice::from_ref(&one.id));
    assert_eq!(before(&three, pending, 9).await, std::slice::from_ref(&one.id));
    assert_eq!(before(&three, all, 9).await, [two.id.clone(), one.id.clone()]);
    assert!(before(&one, all, 9).await.is_empty());
    assert!(store.approvals_before(&"nope".into(), all, 9).await.unwrap().is_empty());
}

async fn the_first_answer_wins(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    let first = store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    assert!(first.first);
    assert_eq!(first.record.state.status(), ApprovalStatus::Allowed);
    let again = store.resolve_approval(&asked.id, Decision::AllowOnce, "bob", at(1_600)).await.unwrap();
    assert!(!again.first);
    assert_eq!(again.record, first.record, "the first answer and its author stay");
    let other = store.resolve_approval(&asked.id, Decision::Deny, "bob", at(1_600)).await;
    assert!(matches!(other, Err(ResolveError::AlreadyResolved { status: ApprovalStatus::Allowed, .. })));
    let unknown = store.resolve_approval(&"nope".into(), Decision::Deny, "bob", at(1_600)).await;
    assert!(matches!(unknown, Err(ResolveError::Unknown(_))));
}

async fn a_denial_brings_a_word_along(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    let deny = |word: &str, by: &str| PersonsAnswer::new(Decision::Deny, by, at(1_500)).with_word(word);
    let first = store.answer_approval(&asked.id, deny(" use\n\u{1b}the  copy ", "ann")).await.unwrap();
    let state =
        ApprovalState::Denied { at: at(1_500), by: "ann".to_owned(), word: Some("use the copy".into()) };
    assert_eq!((first.first, &first.record.state), (true, &state));
    // The same answer with other words is the same answer, and the first counts.
    let again = store.answer_approval(&asked.id, deny("never", "bob")).await.unwrap();
    assert_eq!((again.first, &again.record.state), (false, &state));
    let other = store.resolve_approval(&asked.id, Decision::AllowOnce, "bob", at(1_600)).await.unwrap_err();
    assert!(other.to_string().ends_with("is already denied by ann"), "{other}");
    let long = ask(store, "id").await;
    let long = store.answer_approval(&long.id, deny(&"é".repeat(9_000), "ann")).await.unwrap();
    let ApprovalState::Denied { word: Some(word), .. } = long.record.state else { panic!() };
    assert!(word.chars().count() == MAX_WORD_CHARS && word.ends_with('…'), "{word}");
    let whole = ask(store, "tty").await;
    let whole = store.answer_approval(&whole.id, deny(&"é".repeat(MAX_WORD_CHARS), "ann")).await.unwrap();
    let ApprovalState::Denied { word: Some(word), .. } = whole.record.state else { panic!() };
    assert!(word.chars().count() == MAX_WORD_CHARS && word.ends_with('é'), "{word}");
    // What allows says nothing to the model.
    let allowed = ask(store, "pwd").await;
    let allow = PersonsAnswer::new(Decision::AllowOnce, "ann", at(1_500)).with_word("go on");
    let allowed = store.answer_approval(&allowed.id, allow).await.unwrap();
    assert_eq!(allowed.record.state.by(), Some("ann"));
    let late =
        store.resolve_approval(&allowed.record.id, Decision::Deny, "bob", at(1_600)).await.unwrap_err();
    assert!(late.to_string().ends_with("is already allowed by ann"), "{late}");
}

async fn only_what_was_offered_counts(store: &dyn Store) {
    let strict = NewApproval { allowed_decisions: vec![Decision::AllowOnce], ..question("ls") };
    let asked = store.create_approval(strict).await.unwrap();
    let always = store.resolve_approval(&asked.id, Decision::AllowAlways, "ann", at(1_500)).await;
    assert!(matches!(always, Err(ResolveError::NotOffered { decision: Decision::AllowAlways, .. })));
    assert_eq!(status(store, &asked).await, ApprovalStatus::Pending);
    let deny = store.resolve_approval(&asked.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    assert_eq!(deny.record.state.status(), ApprovalStatus::Denied);
}

async fn a_late_answer_does_not_count(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    let late = store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(2_001)).await;
    assert!(matches!(late, Err(ResolveError::Expired { at: deadline, .. }) if deadline == at(2_000)));
    assert_eq!(status(store, &asked).await, ApprovalStatus::TimedOut);
}

async fn an_allowance_is_used_once_and_for_its_call_only(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    let early = store.consume_approval(&asked.id, &digest("ls"), at(1_400)).await;
    assert!(matches!(early, Err(ConsumeError::NotAllowed { status: ApprovalStatus::Pending, .. })));
    store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let other = store.consume_approval(&asked.id, &digest("rm"), at(1_600)).await;
    assert!(matches!(other, Err(ConsumeError::OtherCall { .. })));
    assert_eq!(
        store.take_allowance(&scope("ls"), at(1_600)).await.unwrap(),
        None,
        "it is the waiting call's"
    );
    let used = store.consume_approval(&asked.id, &digest("ls"), at(1_600)).await.unwrap();
    assert_eq!(used.state.status(), ApprovalStatus::Used);
    let again = store.consume_approval(&asked.id, &digest("ls"), at(1_700)).await;
    assert!(matches!(again, Err(ConsumeError::NotAllowed { status: ApprovalStatus::Used, .. })));
    let repeated = store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_800)).await.unwrap();
    assert!(!repeated.first);
    assert_eq!(status(store, &asked).await, ApprovalStatus::Used);
}

async fn a_timeout_denies_unless_the_question_says_otherwise(store: &dyn Store) {
    let strict = ask(store, "ls").await;
    let lax = NewApproval { timeout_behavior: TimeoutBehavior::Allow, ..question("ls") };
    let lax = store.create_approval(lax).await.unwrap();
    assert!(store.expire_approvals(at(2_000)).await.unwrap().is_empty(), "the last moment counts");
    let expired = store.expire_approvals(at(2_001)).await.unwrap();
    assert_eq!(expired.iter().map(|record| &record.id).collect::<Vec<_>>(), [&strict.id, &lax.id]);
    assert!(store.expire_approvals(at(2_002)).await.unwrap().is_empty());
    let denied = store.consume_approval(&strict.id, &digest("ls"), at(2_003)).await;
    assert!(matches!(denied, Err(ConsumeError::NotAllowed { status: ApprovalStatus::TimedOut, .. })));
    assert!(store.consume_approval(&lax.id, &digest("ls"), at(2_003)).await.is_ok());
    assert!(store.consume_approval(&lax.id, &digest("ls"), at(2_004)).await.is_err(), "once");
    // What nobody was shown is not allowed by nobody's answer.
    let lax = |unseen, whole| NewApproval {
        timeout_behavior: TimeoutBehavior::Allow,
        unseen,
        whole,
        ..question("ls")
    };
    let padded = store.create_approval(lax(true, None)).await.unwrap();
    let kept =
        store.create_approval(lax(true, Some(serde_json::json!({ "command": "ls" }).into()))).await.unwrap();
    store.mark_seen(&kept.id).await.unwrap();
    store.expire_approvals(at(2_001)).await.unwrap();
    let silent = store.consume_approval(&padded.id, &digest("ls"), at(2_003)).await;
    assert!(matches!(silent, Err(ConsumeError::NotAllowed { status: ApprovalStatus::TimedOut, .. })));
    assert!(store.consume_approval(&kept.id, &digest("ls"), at(2_003)).await.is_ok(), "it was shown whole");
}

async fn aborted_run_releases_its_approvals(store: &dyn Store) {
    let (mine, answered) = (ask(store, "ls").await, ask(store, "id").await);
    let other =
        store.create_approval(NewApproval { run: Some("r2".into()), ..question("ls") }).await.unwrap();
    store.resolve_approval(&answered.id, Decision::Deny, "ann", at(1_100)).await.unwrap();
    let cancelled = store.cancel_run_approvals(&"s1".into(), &"r1".into(), at(1_200)).await.unwrap();
    assert_eq!(cancelled.iter().map(|record| &record.id).collect::<Vec<_>>(), [&mine.id]);
    assert_eq!(status(store, &mine).await, ApprovalStatus::Cancelled);
    assert_eq!(status(store, &answered).await, ApprovalStatus::Denied);
    assert_eq!(status(store, &other).await, ApprovalStatus::Pending);
    let one = store.cancel_approval(&other.id, at(1_300)).await.unwrap();
    assert_eq!(one.state.status(), ApprovalStatus::Cancelled);
    let late = store.resolve_approval(&other.id, Decision::AllowOnce, "ann", at(1_400)).await;
    assert!(matches!(late, Err(ResolveError::AlreadyResolved { status: ApprovalStatus::Cancelled, .. })));
}

async fn a_code_allows_one_later_call(store: &dyn Store) {
    let asked = store.create_unattended_approval(question("ls")).await.unwrap();
    assert_eq!(store.take_allowance(&scope("ls"), at(1_100)).await.unwrap(), None);
    let allowed = store.allow_later(&asked.id, &"ann".into(), HOUR, at(1_200)).await.unwrap();
    assert_eq!(allowed.state.status(), ApprovalStatus::Allowed);
    let taken = store.take_allowance(&scope("ls"), at(1_300)).await.unwrap().unwrap();
    assert_eq!((taken.id, taken.state.status()), (asked.id.clone(), ApprovalStatus::Used));
    assert_eq!(store.take_allowance(&scope("ls"), at(1_400)).await.unwrap(), None);
    let again = store.allow_later(&asked.id, &"ann".into(), HOUR, at(1_500)).await;
    assert!(matches!(again, Err(ResolveError::AlreadyResolved { status: ApprovalStatus::Used, .. })));
}

async fn a_later_allowance_keeps_to_its_scope_and_time(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    store.expire_approvals(at(2_001)).await.unwrap();
    store.allow_later(&asked.id, &"ann".into(), Duration::from_millis(100), at(3_000)).await.unwrap();
    let others = [
        AllowanceScope { agent: "other".into(), ..scope("ls") },
        AllowanceScope { session_key: "other".into(), ..scope("ls") },
        AllowanceScope { workspace: Some("/p".to_owned()), ..scope("ls") },
        AllowanceScope { tool_name: "process".into(), ..scope("ls") },
        scope("ls "),
    ];
    for other in others {
        assert_eq!(store.take_allowance(&other, at(3_050)).await.unwrap(), None, "{other:?}");
    }
    assert_eq!(store.take_allowance(&scope("ls"), at(3_101)).await.unwrap(), None, "too late");
    store.allow_later(&asked.id, &"ann".into(), Duration::from_millis(100), at(4_000)).await.unwrap();
    assert!(store.take_allowance(&scope("ls"), at(4_100)).await.unwrap().is_some());
}

async fn a_later_allowance_reaches_every_conversation_in_its_workspace(store: &dyn Store) {
    let asked = NewApproval { workspace: Some("/p".to_owned()), ..question("ls") };
    let asked = store.create_unattended_approval(asked).await.unwrap();
    store.allow_later(&asked.id, &"ann".into(), HOUR, at(1_200)).await.unwrap();
    let elsewhere = |workspace: Option<&str>| AllowanceScope {
        session_key: "another chat".into(),
        workspace: workspace.map(str::to_owned),
        ..scope("ls")
    };
    for other in [scope("ls"), elsewhere(None), elsewhere(Some("/p/q")), elsewhere(Some("/"))] {
        assert_eq!(store.take_allowance(&other, at(1_300)).await.unwrap(), None, "{other:?}");
    }
    assert!(store.take_allowance(&elsewhere(Some("/p")), at(1_300)).await.unwrap().is_some());
    assert_eq!(store.take_allowance(&elsewhere(Some("/p")), at(1_300)).await.unwrap(), None, "once");
}

async fn a_denial_by_a_human_is_final(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    store.resolve_approval(&asked.id, Decision::Deny, "ann", at(1_100)).await.unwrap();
    let later = store.allow_later(&asked.id, &"bob".into(), HOUR, at(1_200)).await;
    assert!(matches!(later, Err(ResolveError::AlreadyResolved { status: ApprovalStatus::Denied, .. })));
    let always_only = NewApproval { allowed_decisions: vec![Decision::AllowAlways], ..question("id") };
    let unattended = store.create_unattended_approval(always_only).await.unwrap();
    let later = store.allow_later(&unattended.id, &"bob".into(), HOUR, at(1_200)).await;
    assert!(matches!(later, Err(ResolveError::NotOffered { .. })));
}

async fn waiting_ends_with_the_answer_or_the_deadline(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    let soon = Timestamp::now().after(Duration::from_millis(30));
    let unanswered = store.wait_approval(&asked.id, soon).await.unwrap().unwrap();
    assert_eq!(unanswered.state.status(), ApprovalStatus::Pending);
    assert!(Timestamp::now() >= soon);
    let (waited, answered) = tokio::join!(
        store.wait_approval(&asked.id, Timestamp::now().after(HOUR)),
        store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)),
    );
    assert_eq!(waited.unwrap().unwrap(), answered.unwrap().record);
    assert_eq!(store.wait_approval(&"nope".into(), Timestamp::now().after(HOUR)).await.unwrap(), None);
}

async fn who_asked_ends_the_waiting_whatever_the_clock_says(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    // The clock was set back meanwhile.
    let ended = store.end_waiting(&asked.id, at(5)).await.unwrap().unwrap();
    assert_eq!(ended.state, ApprovalState::TimedOut { at: at(5) });
    let answered = ask(store, "ls").await;
    let answered = store.resolve_approval(&answered.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    let kept = store.end_waiting(&answered.record.id, at(1_600)).await.unwrap().unwrap();
    assert_eq!(kept.state, answered.record.state, "an answer stays");
    assert_eq!(store.end_waiting(&"nope".into(), at(5)).await.unwrap(), None);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_clock_that_is_set_neither_ends_a_question_nor_keeps_it_open() {
    for form in [crate::support::memory(), crate::support::sqlite()] {
        let store = &*form.store;
        let now = backstop_store::Uptime::now().unwrap();
        let (open, over) = (now.clone().after(HOUR), now);
        std::thread::sleep(Duration::from_millis(2));
        let asked = |deadline| NewApproval { deadline: Some(deadline), ..question("ls") };
        // Forward, by years.
        let ahead = Timestamp::now().after(HOUR);
        let live = store.create_approval(asked(open.clone())).await.unwrap();
        assert!(store.expire_approvals(ahead).await.unwrap().is_empty());
        let answered = store.resolve_approval(&live.id, Decision::AllowOnce, "ann", ahead).await.unwrap();
        assert_eq!(answered.record.state.status(), ApprovalStatus::Allowed);
        // Back.
        let late = store.create_approval(asked(over.clone())).await.unwrap();
        assert_eq!(
            store.expire_approvals(at(5)).await.unwrap(),
            [late.clone()]
                .map(|late| ApprovalRecord { state: ApprovalState::TimedOut { at: at(5) }, ..late })
        );
        let late = store.create_approval(asked(over)).await.unwrap();
        let refused = store.resolve_approval(&late.id, Decision::AllowOnce, "ann", at(5)).await;
        assert!(matches!(refused, Err(ResolveError::Expired { .. })));
    }
}

async fn an_erased_preview_leaves_the_digest(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    assert!(store.erase_preview(&asked.id).await.unwrap());
    let left = store.approval(&asked.id).await.unwrap().unwrap().request;
    assert!(left.preview.is_null());
    assert_eq!(left.digest, digest("ls"));
    assert!(!store.erase_preview(&"nope".into()).await.unwrap());
}

async fn arguments_are_wiped_once_no_answer_can_count(store: &dyn Store) {
    let used = ask(store, "ls").await;
    store.resolve_approval(&used.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let waits = ask(store, "pwd").await;
    let over = ask(store, "id").await;
    store.cancel_approval(&over.id, at(1_500)).await.unwrap();
    let shown = async |record: &ApprovalRecord| {
        let request = store.approval(&record.id).await.unwrap().unwrap().request;
        (!request.preview.is_null(), request.unseen)
    };
    store.expire_approvals(at(1_600)).await.unwrap();
    assert_eq!(shown(&used).await, (true, false), "it is allowed, and not begun");
    store.consume_approval(&used.id, &digest("ls"), at(1_600)).await.unwrap();
    store.expire_approvals(at(1_700)).await.unwrap();
    assert_eq!(shown(&used).await, (false, true));
    assert_eq!(shown(&waits).await, (true, false));
    assert_eq!(shown(&over).await, (true, false), "it may still be allowed for a later call");
    let day = at(2_000).after(Duration::from_hours(24));
    store.expire_approvals(day).await.unwrap();
    assert_eq!(shown(&over).await, (true, false));
    store.expire_approvals(day.after(Duration::from_millis(1))).await.unwrap();
    assert_eq!(shown(&over).await, (false, true));
    // What nobody can be shown nobody can allow.
    let blind = store.allow_later(&over.id, &"ann".into(), HOUR, day).await;
    assert!(matches!(blind, Err(ResolveError::Unseen { .. })));
    let kept = store.approval(&used.id).await.unwrap().unwrap();
    assert_eq!((kept.request.digest, kept.state.status()), (digest("ls"), ApprovalStatus::Used));
}

#[tokio::test]
async fn what_is_kept_in_memory_alone_is_on_record_elsewhere_before_it_counts() {
    let folder = TempDir::new().unwrap();
    let trail: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("t.db")));
    let store = SqliteStore::for_answers(Arc::clone(&trail));
    let asked = ask(&store, "ls").await;
    store.resolve_approval(&asked.id, Decision::AllowOnce, "me", at(1_100)).await.unwrap();
    let later = ask(&store, "pwd").await;
    store.resolve_approval(&later.id, Decision::Deny, "me", at(1_100)).await.unwrap();
    assert!(trail.approvals(ApprovalFilter::All, 9).await.unwrap().is_empty());
    let said = trail.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    let kinds: Vec<&str> = said.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!(kinds, [APPROVAL_ASKED, APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ANSWERED]);
    // Where nothing can be said, nothing counts.
    let broken: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("t.db/is-a-file.db")));
    let store = SqliteStore::for_answers(broken);
    let asked = store.create_approval(question("ls")).await;
    assert!(matches!(asked, Err(CreateApprovalError::Store(_))), "{asked:?}");
}

#[tokio::test]
async fn what_is_kept_in_memory_alone_is_bounded() {
    let store = SqliteStore::for_answers(Arc::new(SqliteStore::in_memory()));
    let over = store.create_unattended_approval(question("0")).await.unwrap();
    for number in 1..2_000 {
        ask(&store, &number.to_string()).await;
    }
    ask(&store, "one more").await;
    assert!(store.approval(&over.id).await.unwrap().is_none(), "what is over made room");
    let full = store.create_approval(question("too many")).await;
    assert!(matches!(full, Err(CreateApprovalError::Store(_))), "what waits is not forgotten");
}

async fn a_call_that_comes_twice_is_one_question(store: &dyn Store) {
    let first = store.create_unattended_approval(question("ls")).await.unwrap();
    let later = NewApproval { created_at: at(1_100), expires_at: at(2_100), ..question("ls") };
    assert_eq!(store.create_unattended_approval(later.clone()).await.unwrap(), first);
    for other in [
        NewApproval { run: Some("r2".into()), ..later.clone() },
        NewApproval { session: "s2".into(), ..later.clone() },
        NewApproval { title: "Another?".into(), ..later.clone() },
        question("pwd"),
    ] {
        assert_ne!(store.create_unattended_approval(other).await.unwrap().id, first.id);
    }
    store.allow_later(&first.id, &"me".into(), HOUR, at(1_200)).await.unwrap();
    assert_ne!(store.create_unattended_approval(later).await.unwrap().id, first.id, "that one was answered");
}

async fn of_what_was_denied_no_words_are_kept(store: &dyn Store) {
    let reason = ApprovalReason {
        owner: "o".into(),
        hook: "h".into(),
        title: "SECRET title".into(),
        description: "SECRET why".into(),
        severity: Severity::Info,
        rules: ["a.rule".into()].into(),
        program: Some(vec!["SECRET".to_owned()]),
    };
    let secret = NewApproval {
        reasons: vec![reason],
        whole: Some(serde_json::json!("SECRET").into()),
        ..question("SECRET command")
    };
    let asked = store.create_approval(secret).await.unwrap();
    store.resolve_approval(&asked.id, Decision::Deny, "me", at(1_500)).await.unwrap();
    let left = store.approval(&asked.id).await.unwrap().unwrap();
    assert_eq!(left.state.status(), ApprovalStatus::Denied);
    assert_eq!(left.request.digest, digest("SECRET command"));
    assert_eq!(left.request.reasons[0].rules, ["a.rule".into()].into());
    let kept = serde_json::to_string(&left).unwrap();
    assert!(!kept.contains("SECRET") && !kept.contains("deletes things"), "{kept}");
    let allowed = ask(store, "ls").await;
    store.resolve_approval(&allowed.id, Decision::AllowOnce, "me", at(1_500)).await.unwrap();
    assert!(!store.approval(&allowed.id).await.unwrap().unwrap().request.preview.is_null());
}

async fn what_was_shown_in_part_is_not_allowed_before_it_is_shown_whole(store: &dyn Store) {
    let cut = |whole: Option<&str>| NewApproval {
        unseen: true,
        whole: whole.map(|all| serde_json::json!(all).into()),
        ..question("ls")
    };
    let kept = store.create_approval(cut(Some("all of it"))).await.unwrap();
    for decision in [Decision::AllowOnce, Decision::AllowAlways] {
        let refused = store.resolve_approval(&kept.id, decision, "me", at(1_500)).await;
        assert!(matches!(refused, Err(ResolveError::Unseen { .. })), "{refused:?}");
    }
    let refused = store.allow_later(&kept.id, &"me".into(), HOUR, at(1_500)).await;
    assert!(matches!(refused, Err(ResolveError::Unseen { .. })), "{refused:?}");
    assert!(!store.mark_seen(&kept.id).await.unwrap().unwrap().request.unseen);
    store.resolve_approval(&kept.id, Decision::AllowOnce, "me", at(1_500)).await.unwrap();
    let gone = store.create_approval(cut(None)).await.unwrap();
    assert!(store.mark_seen(&gone.id).await.unwrap().unwrap().request.unseen, "nobody can be shown it");
    store.resolve_approval(&gone.id, Decision::AllowOnce, "me", at(1_500)).await.unwrap_err();
    store.resolve_approval(&gone.id, Decision::Deny, "me", at(1_500)).await.unwrap();
    assert!(store.mark_seen(&"nope".into()).await.unwrap().is_none());
}

async fn what_is_too_large_is_refused(store: &dyn Store) {
    let huge =
        NewApproval { preview: serde_json::json!("x".repeat(MAX_APPROVAL_BYTES)).into(), ..question("ls") };
    assert!(matches!(store.create_approval(huge).await, Err(CreateApprovalError::TooLarge(_))));
}

/// What one of two processes does with the same approval.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer(Decision),
    Consume,
    Expire,
    Cancel,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Answer(Decision::AllowOnce)),
        Just(Act::Answer(Decision::AllowAlways)),
        Just(Act::Answer(Decision::Deny)),
        Just(Act::Consume),
        Just(Act::Expire),
        Just(Act::Cancel),
    ]
}

/// Does all acts, and says how many answers were first, ends came otherwise, and calls began.
async fn perform(store: Arc<SqliteStore>, asked: ApprovalRecord, acts: Vec<Act>) -> (usize, usize, usize) {
    use backstop_store::ApprovalStore as _;
    let (mut answers, mut ends, mut used) = (0, 0, 0);
    for act in acts {
        match act {
            Act::Answer(decision) => {
                let answer = store.resolve_approval(&asked.id, decision, "ann", at(1_500)).await;
                answers += usize::from(answer.is_ok_and(|answer| answer.first));
            }
            Act::Consume => {
                let consumed = store.consume_approval(&asked.id, &asked.request.digest, at(1_500)).await;
                used += usize::from(consumed.is_ok());
            }
            Act::Expire => ends += store.expire_approvals(at(3_000)).await.unwrap().len(),
            Act::Cancel => {
                let run = "r1".into();
                ends += store.cancel_run_approvals(&"s1".into(), &run, at(1_500)).await.unwrap().len();
            }
        }
    }
    (answers, ends, used)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn first_answer_wins_under_any_interleaving(
        one in prop::collection::vec(act(), 1..8),
        other in prop::collection::vec(act(), 1..8),
    ) {
        use backstop_store::ApprovalStore as _;
        let folder = TempDir::new().unwrap();
        let open = || Arc::new(SqliteStore::new(folder.path().join("state.db")));
        let (a, b) = (open(), open());
        block_on(async {
            let asked = a.create_approval(question("ls")).await.unwrap();
            let (x, y) = tokio::join!(
                tokio::spawn(perform(Arc::clone(&a), asked.clone(), one)),
                tokio::spawn(perform(Arc::clone(&b), asked.clone(), other)),
            );
            let ((a1, e1, u1), (a2, e2, u2)) = (x.unwrap(), y.unwrap());
            prop_assert!(a1 + a2 + e1 + e2 <= 1, "it ended more than once");
            prop_assert!(u1 + u2 <= 1, "it was used more than once");
            let seen = (a.approval(&asked.id).await.unwrap(), b.approval(&asked.id).await.unwrap());
            prop_assert_eq!(&seen.0, &seen.1);
            let ended = seen.0.unwrap().state.status() != ApprovalStatus::Pending;
            prop_assert_eq!(ended, a1 + a2 + e1 + e2 == 1);
            Ok(())
        })?;
    }
}

/// Two connections to one file are to SQLite what two processes are.
#[tokio::test]
async fn a_thousand_who_wait_are_each_told_of_their_answer_by_another_connection() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let (here, there) = (Arc::new(SqliteStore::new(&path)), SqliteStore::new(&path));
    let mut waiting = Vec::new();
    for n in 0..1_000 {
        let asked = here.create_approval(question(&format!("ls {n}"))).await.unwrap();
        let (store, id) = (Arc::clone(&here), asked.id.clone());
        let wait = async move { store.wait_approval(&id, Timestamp::now().after(HOUR)).await };
        waiting.push((asked.id, tokio::spawn(wait)));
    }
    for (n, (id, _)) in waiting.iter().enumerate().rev() {
        match n % 2 {
            0 => drop(there.resolve_approval(id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap()),
            _ => drop(there.cancel_approval(id, at(1_500)).await.unwrap()),
        }
    }
    for (n, (_, wait)) in waiting.into_iter().enumerate() {
        let expected = if n % 2 == 0 { ApprovalStatus::Allowed } else { ApprovalStatus::Cancelled };
        assert_eq!(wait.await.unwrap().unwrap().unwrap().state.status(), expected);
    }
}

#[tokio::test]
async fn an_approval_that_another_connection_deletes_is_waited_for_no_longer() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let (here, there) = (SqliteStore::new(&path), SqliteStore::new(&path));
    let asked = here.create_approval(question("ls")).await.unwrap();
    there.create_session(session(asked.request.session.as_str(), "chat", 1)).await.unwrap();
    let why = Deletion { cause: DeletionCause::Asked, by: "me".to_owned(), at: at(9_000) };
    let (waited, deleted) = tokio::join!(
        here.wait_approval(&asked.id, Timestamp::now().after(HOUR)),
        there.delete_session(&asked.request.session, why),
    );
    assert_eq!(deleted.unwrap().approvals, 1);
    assert_eq!(waited.unwrap(), None);
}
