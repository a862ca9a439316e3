use std::time::Duration;

use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{
    ANSWERABLE, ActionHandle, Addressee, Deletion, DeletionCause, NewApproval, SentNotice, Store, Uptime,
};

use crate::support::{at, digest, over_all_forms, question};

over_all_forms!(
    one_process_at_a_time_tells_a_question_and_nobody_tells_it_twice,
    what_one_agent_asks_crowds_no_other_out,
    what_was_told_is_withdrawn_once_its_question_is_over,
    a_handle_is_used_once_and_only_while_its_question_waits,
    a_delivery_counts_once_as_long_as_it_is_remembered,
    one_process_at_a_time_hears_a_surface,
    what_was_held_by_a_clock_that_was_ahead_is_free_once_it_is_set_back,
    a_clock_that_is_set_forward_ends_no_handle,
    what_was_told_of_a_question_goes_with_it,
);

fn chat(place: &str) -> Addressee {
    Addressee { surface: "phone".to_owned(), place: place.to_owned() }
}

async fn asked(store: &dyn Store, command: &str, expires: i64) -> ApprovalId {
    let request = NewApproval { expires_at: at(expires), ..question(command) };
    store.create_approval(request).await.unwrap().id
}

async fn untold(store: &dyn Store, place: &str, now: i64) -> Vec<ApprovalId> {
    store.untold_approvals(&chat(place), at(now), 10).await.unwrap()
}

async fn claim(store: &dyn Store, id: &ApprovalId, holder: &str, now: i64) -> bool {
    store.claim_notice(id, &chat("1"), holder, at(now + 100), at(now)).await.unwrap()
}

async fn one_process_at_a_time_tells_a_question_and_nobody_tells_it_twice(store: &dyn Store) {
    let (later, sooner) = (asked(store, "later", 3_000).await, asked(store, "sooner", 2_000).await);
    let found = untold(store, "1", 1_000).await;
    assert_eq!(found, [sooner.clone(), later.clone()]);
    let one = store.untold_approvals(&chat("1"), at(1_000), 1).await.unwrap();
    assert_eq!(one, std::slice::from_ref(&sooner));
    assert!(claim(store, &sooner, "a", 1_000).await);
    assert!(!claim(store, &sooner, "b", 1_050).await, "another one tells it");
    assert!(claim(store, &sooner, "a", 1_050).await, "whoever tells it may go on");
    assert_eq!(untold(store, "1", 1_050).await, std::slice::from_ref(&later));
    assert_eq!(untold(store, "2", 1_050).await.len(), 2, "another chat was told nothing");
    assert!(claim(store, &sooner, "b", 1_150).await, "whoever told it came to nothing");
    store.sent_notice(&sooner, &chat("1"), "message 7").await.unwrap();
    store.sent_notice(&sooner, &chat("1"), "message 8").await.unwrap();
    assert!(!claim(store, &sooner, "b", 9_000).await && !claim(store, &sooner, "a", 9_000).await);
    let notice = store.notice(&sooner, &chat("1")).await.unwrap().unwrap();
    assert_eq!(notice.reference, "message 7", "the first message counts");
    assert!(store.notice(&later, &chat("1")).await.unwrap().is_none());
    assert!(!claim(store, &"unknown".into(), "a", 1_000).await);
    store.resolve_approval(&later, Decision::Deny, "joe", at(1_200)).await.unwrap();
    assert!(!claim(store, &later, "a", 1_300).await, "nobody is told of what is answered");
    assert!(untold(store, "1", 1_300).await.is_empty());
}

async fn what_one_agent_asks_crowds_no_other_out(store: &dyn Store) {
    let ask = async |agent: &str, session: &str, expires: i64| {
        let command = format!("{agent} {session} {expires}");
        let request = NewApproval { agent: agent.into(), session: session.into(), ..question(&command) };
        let request = NewApproval { session_key: session.into(), expires_at: at(expires), ..request };
        store.create_approval(request).await.unwrap().id
    };
    let mut loud = Vec::new();
    for number in 0..5 {
        loud.push(ask("loud", &format!("s{number}"), 2_000 + number).await);
    }
    let (quiet, quieter) = (ask("quiet", "s", 9_000).await, ask("quiet", "s", 8_000).await);
    let last = ask("last", "s", 1_500).await;
    let list = async |limit: usize| store.untold_approvals(&chat("1"), at(1_000), limit).await.unwrap();
    // Of each agent the one that ends first; who began to wait later comes later, whatever it says of its end.
    let firsts = [&loud[0], &quieter, &last].map(ApprovalId::clone);
    assert_eq!(list(3).await, firsts);
    assert_eq!(list(2).await, firsts[..2]);
    let seconds = [&loud[1], &quiet].map(ApprovalId::clone);
    assert_eq!(list(5).await, [&firsts[..], &seconds[..]].concat());
    assert_eq!(list(99).await, [&firsts[..], &seconds[..], &loud[2..]].concat(), "none is left out");
    // Agents that come later, however soon what they ask ends, push nobody out either.
    for number in 0..20 {
        ask(&format!("invented {number}"), "s", 1_100).await;
    }
    assert_eq!(list(3).await, firsts);
    // What was told makes room for the next of the same agent, at its turn.
    assert!(claim(store, &loud[0], "a", 1_000).await);
    assert_eq!(list(2).await, [loud[1].clone(), quieter]);
}

async fn what_was_told_is_withdrawn_once_its_question_is_over(store: &dyn Store) {
    let (one, two) = (asked(store, "one", 2_000).await, asked(store, "two", 2_000).await);
    for id in [&one, &two] {
        assert!(claim(store, id, "a", 1_000).await);
        store.sent_notice(id, &chat("1"), "m").await.unwrap();
    }
    assert!(store.stale_notices("phone", at(1_100), 9).await.unwrap().is_empty());
    store.resolve_approval(&one, Decision::AllowOnce, "joe", at(1_100)).await.unwrap();
    assert!(store.stale_notices("other", at(1_100), 9).await.unwrap().is_empty());
    let stale = store.stale_notices("phone", at(1_100), 9).await.unwrap();
    let notice = SentNotice { approval: one.clone(), addressee: chat("1"), reference: "m".to_owned() };
    assert_eq!(stale, std::slice::from_ref(&notice));
    assert!(store.claim_withdrawal(&notice, "a", at(1_200), at(1_100)).await.unwrap());
    assert!(!store.claim_withdrawal(&notice, "b", at(1_200), at(1_150)).await.unwrap());
    assert!(store.stale_notices("phone", at(1_150), 9).await.unwrap().is_empty(), "another one does it");
    assert_eq!(store.stale_notices("phone", at(1_200), 9).await.unwrap().len(), 1, "and did not");
    assert!(store.claim_withdrawal(&notice, "b", at(1_300), at(1_200)).await.unwrap());
    store.withdrawn_notice(&notice).await.unwrap();
    assert!(store.stale_notices("phone", at(9_000), 9).await.unwrap().is_empty());
    assert!(!store.claim_withdrawal(&notice, "b", at(9_100), at(9_000)).await.unwrap());
    store.expire_approvals(at(2_001)).await.unwrap();
    assert_eq!(
        store.stale_notices("phone", at(2_100), 9).await.unwrap().len(),
        1,
        "nobody answered this one"
    );
}

fn handle(of: &str, approval: &ApprovalId, expires: i64) -> ActionHandle {
    ActionHandle {
        hash: digest(of),
        approval: approval.clone(),
        digest: digest("one"),
        decision: Decision::Deny,
        addressee: chat("1"),
        expires_at: at(expires),
    }
}

async fn a_handle_is_used_once_and_only_while_its_question_waits(store: &dyn Store) {
    let one = asked(store, "one", 2_000).await;
    let handles = ["a", "b", "c"].map(|of| handle(of, &one, 2_000));
    store.add_handles(handles.to_vec(), at(1_000)).await.unwrap();
    let known = store.handle(&digest("a")).await.unwrap().unwrap();
    assert_eq!(known, handles[0]);
    assert!(store.handle(&digest("z")).await.unwrap().is_none());
    assert!(!store.use_handle(&digest("z"), "ann", at(1_100)).await.unwrap());
    assert!(!store.use_handle(&digest("a"), "ann", at(2_001)).await.unwrap(), "it ends with the question");
    assert!(store.use_handle(&digest("a"), "ann", at(1_100)).await.unwrap());
    assert!(!store.use_handle(&digest("a"), "ann", at(1_100)).await.unwrap(), "once");
    assert!(store.use_handle(&digest("a"), "bob", at(1_100)).await.unwrap(), "each person does it once");
    assert!(store.use_handle(&digest("b"), "ann", at(1_200)).await.unwrap(), "each of them is one");
    store.resolve_approval(&one, Decision::AllowOnce, "joe", at(1_300)).await.unwrap();
    assert!(!store.use_handle(&digest("c"), "ann", at(1_300)).await.unwrap(), "it dies with the question");
    let later = at(2_001).after(ANSWERABLE);
    store.add_handles(Vec::new(), later).await.unwrap();
    assert!(store.handle(&digest("a")).await.unwrap().is_none(), "old ones make room");
}

async fn a_delivery_counts_once_as_long_as_it_is_remembered(store: &dyn Store) {
    for (surface, id, now, is_new) in [
        ("a", "1", 1_000, true),
        ("a", "1", 1_050, false),
        ("a", "2", 1_050, true),
        ("b", "1", 1_050, true),
        ("a", "1", 1_100, false),
        ("a", "1", 1_101, true),
    ] {
        let known = store.remember_delivery(surface, id, at(now + 100), at(now)).await.unwrap();
        assert_eq!(known, is_new, "{surface} {id} at {now}");
    }
}

async fn one_process_at_a_time_hears_a_surface(store: &dyn Store) {
    for (surface, holder, now, hears) in [
        ("a", "one", 1_000, true),
        ("a", "two", 1_050, false),
        ("b", "two", 1_050, true),
        ("a", "one", 1_080, true),
        ("a", "two", 1_179, false),
        ("a", "two", 1_180, true),
        ("a", "one", 1_181, false),
    ] {
        let leased = store.lease_surface(surface, holder, at(now + 100), at(now)).await.unwrap();
        assert_eq!(leased, hears, "{surface} by {holder} at {now}");
    }
}

async fn what_was_held_by_a_clock_that_was_ahead_is_free_once_it_is_set_back(store: &dyn Store) {
    const AHEAD: i64 = 3 * 24 * 3_600_000;
    let one = asked(store, "one", 2_000).await;
    assert!(claim(store, &one, "a", AHEAD).await);
    assert!(store.lease_surface("phone", "a", at(AHEAD + 100), at(AHEAD)).await.unwrap());
    assert_eq!(untold(store, "1", 1_000).await, std::slice::from_ref(&one));
    assert!(claim(store, &one, "b", 1_000).await);
    assert!(store.lease_surface("phone", "b", at(1_100), at(1_000)).await.unwrap());
    assert!(!store.lease_surface("phone", "a", at(1_150), at(1_050)).await.unwrap(), "now it is held");
    store.sent_notice(&one, &chat("1"), "m").await.unwrap();
    store.resolve_approval(&one, Decision::AllowOnce, "joe", at(1_100)).await.unwrap();
    let notice = SentNotice { approval: one.clone(), addressee: chat("1"), reference: "m".to_owned() };
    assert!(store.claim_withdrawal(&notice, "a", at(AHEAD + 100), at(AHEAD)).await.unwrap());
    let stale = store.stale_notices("phone", at(1_200), 9).await.unwrap();
    assert_eq!(stale, std::slice::from_ref(&notice));
    assert!(store.claim_withdrawal(&notice, "b", at(1_300), at(1_200)).await.unwrap());
}

async fn a_clock_that_is_set_forward_ends_no_handle(store: &dyn Store) {
    let Some(now) = Uptime::now() else { return };
    let deadline = Some(now.after(Duration::from_hours(1)));
    let one = store.create_approval(NewApproval { deadline, ..question("one") }).await.unwrap().id;
    store.add_handles(vec![handle("a", &one, 2_000)], at(1_000)).await.unwrap();
    let ahead = at(2_000).after(ANSWERABLE * 3);
    store.add_handles(vec![handle("b", &one, 2_000)], ahead).await.unwrap();
    for of in ["a", "b"] {
        assert!(store.use_handle(&digest(of), "ann", ahead).await.unwrap(), "{of}");
    }
}

async fn what_was_told_of_a_question_goes_with_it(store: &dyn Store) {
    let one = asked(store, "one", 2_000).await;
    assert!(claim(store, &one, "a", 1_000).await);
    store.sent_notice(&one, &chat("1"), &"é".repeat(10_000)).await.unwrap();
    let notice = store.notice(&one, &chat("1")).await.unwrap().unwrap();
    assert_eq!(
        notice.reference,
        "é".repeat(backstop_store::MAX_REFERENCE_BYTES / 2),
        "references are bounded"
    );
    store.add_handles(vec![handle("a", &one, 2_000)], at(1_000)).await.unwrap();
    store.resolve_approval(&one, Decision::Deny, "joe", at(1_300)).await.unwrap();
    let why = Deletion { cause: DeletionCause::Size, by: "test".to_owned(), at: at(9_000) };
    let deleted = store.delete_approvals(None, Some(0), 9, why).await.unwrap();
    assert_eq!(deleted, 1);
    // Whoever is told of something next finds nothing of it.
    let two = asked(store, "two", 2_000).await;
    assert!(claim(store, &two, "a", 1_000).await);
    assert!(store.notice(&one, &chat("1")).await.unwrap().is_none());
    assert!(store.handle(&digest("a")).await.unwrap().is_none());
}
