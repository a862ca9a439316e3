//! What people put in the place of a call.

use std::num::NonZeroU32;
use std::time::Duration;

use backstop_hooks::{Decision, Params, Substitute};
use backstop_store::{
    APPROVAL_ANSWERED, ApprovalRecord, ApprovalState, ApprovalStatus, AuditFilter, ConsumeError, Given,
    MAX_RESULT_BYTES, MAX_WHOLE_BYTES, NewApproval, PersonsAnswer, ResolveError, Route, Store,
    UnfitSubstitute, preview,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{at, block_on, digest, over_all_forms, question};
use crate::votes::routed;

over_all_forms!(
    what_stands_in_the_place_of_a_call_is_one_end_of_the_question,
    it_counts_where_whoever_asks_can_take_it,
    it_is_taken_once_and_for_its_call,
    a_mask_is_no_value,
    masks_of_one_length_are_not_taken_for_each_other,
    it_is_wiped_once_it_was_taken,
    the_trail_has_who_and_what_and_no_text,
);

const BOTH: [Substitute; 2] = [Substitute::Edit, Substitute::Respond];

fn open_to_both(command: &str) -> NewApproval {
    NewApproval { substitutes: BOTH.to_vec(), ..question(command) }
}

async fn ask(store: &dyn Store, command: &str) -> ApprovalRecord {
    store.create_approval(open_to_both(command)).await.unwrap()
}

fn params(value: Value) -> Params {
    Params::from_value(value).unwrap()
}

fn edit(command: &str, by: &str) -> PersonsAnswer {
    PersonsAnswer::edit(params(json!({ "command": command })), by, at(1_500)).unwrap()
}

fn respond(result: &str, by: &str) -> PersonsAnswer {
    PersonsAnswer::respond(result, by, at(1_500)).unwrap()
}

fn decide(decision: Decision, by: &str) -> PersonsAnswer {
    PersonsAnswer::new(decision, by, at(1_500))
}

async fn what_stands_in_the_place_of_a_call_is_one_end_of_the_question(store: &dyn Store) {
    for (first, status, others) in [
        (edit("ls -l", "ann"), ApprovalStatus::Edited, [edit("ls -a", "bob"), respond("none", "bob")]),
        (respond("none", "ann"), ApprovalStatus::Responded, [respond("one", "bob"), edit("ls -l", "bob")]),
    ] {
        let asked = ask(store, "ls").await;
        let answered = store.answer_approval(&asked.id, first.clone()).await.unwrap();
        assert_eq!((answered.first, answered.record.state.status()), (true, status));
        assert_eq!(answered.record.state.by(), Some("ann"));
        // The same answer is the same answer, whoever gives it, and the first counts.
        let again = store.answer_approval(&asked.id, first).await.unwrap();
        assert_eq!((again.first, again.record.state), (false, answered.record.state));
        let decisions = [Decision::AllowOnce, Decision::Deny].map(|decision| decide(decision, "bob"));
        for other in others.into_iter().chain(decisions) {
            let refused = store.answer_approval(&asked.id, other).await.unwrap_err();
            let told = refused.to_string();
            assert!(told.ends_with(&format!("is already {status} by ann")), "{told}");
        }
        let later = store.allow_later(&asked.id, &"bob".into(), Duration::from_secs(9), at(1_600)).await;
        assert!(matches!(later, Err(ResolveError::AlreadyResolved { .. })), "it is no allowance");
        let used = store.consume_approval(&asked.id, &asked.request.digest, at(1_600)).await;
        assert!(matches!(used, Err(ConsumeError::NotAllowed { .. })), "the call itself does not run");
    }
    // What was decided stays decided.
    let asked = ask(store, "ls").await;
    store.answer_approval(&asked.id, decide(Decision::AllowOnce, "ann")).await.unwrap();
    let late = store.answer_approval(&asked.id, edit("ls -l", "bob")).await.unwrap_err();
    assert!(late.to_string().ends_with("is already allowed by ann"), "{late}");
}

async fn it_counts_where_whoever_asks_can_take_it(store: &dyn Store) {
    let none = question("ls");
    let edits = NewApproval { substitutes: vec![Substitute::Edit], ..question("ls") };
    let never_once = NewApproval { allowed_decisions: vec![Decision::Deny], ..open_to_both("ls") };
    let unseen = NewApproval { unseen: true, ..open_to_both("ls") };
    let several = NewApproval { substitutes: BOTH.to_vec(), ..routed(2) };
    for (asked, may_edit, may_respond) in [
        (none, false, false),
        (edits, true, false),
        (never_once, false, false),
        (unseen, false, false),
        (several, false, false),
        (open_to_both("ls"), true, true),
    ] {
        for (answer, may) in [(edit("ls -l", "ann"), may_edit), (respond("none", "ann"), may_respond)] {
            let record = store.create_approval(asked.clone()).await.unwrap();
            let counts = store.answer_approval(&record.id, answer).await.is_ok();
            assert_eq!(counts, may, "{asked:?}");
            let state = store.approval(&record.id).await.unwrap().unwrap().state;
            assert_eq!(state != ApprovalState::Pending, may);
        }
    }
    // Who is not asked changes nothing.
    let one = Route { votes: NonZeroU32::MIN, ..routed(1).route.unwrap() };
    let record = NewApproval { route: Some(one), ..open_to_both("ls") };
    let record = store.create_approval(record).await.unwrap();
    let refused = store.answer_approval(&record.id, edit("ls -l", "a stranger")).await;
    assert!(matches!(refused, Err(ResolveError::NotAsked(_))));
    let late = PersonsAnswer::edit(params(json!({})), "ann", at(2_001)).unwrap();
    let record = ask(store, "ls").await;
    assert!(matches!(store.answer_approval(&record.id, late).await, Err(ResolveError::Expired { .. })));
    let large = params(json!({ "command": "x".repeat(MAX_WHOLE_BYTES) }));
    assert!(matches!(PersonsAnswer::edit(large, "ann", at(1)), Err(UnfitSubstitute::LargeArguments(_))));
    let large = "x".repeat(MAX_RESULT_BYTES + 1);
    assert!(matches!(PersonsAnswer::respond(large, "ann", at(1)), Err(UnfitSubstitute::LargeResult(_))));
    assert_eq!(PersonsAnswer::respond("", "ann", at(1)), Err(UnfitSubstitute::NoResult));
}

async fn it_is_taken_once_and_for_its_call(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    let early = store.take_given(&asked.id, &digest("ls"), at(1_400)).await;
    assert!(matches!(early, Err(ConsumeError::NotAllowed { status: ApprovalStatus::Pending, .. })));
    store.answer_approval(&asked.id, edit("ls -l", "ann")).await.unwrap();
    let other = store.take_given(&asked.id, &digest("rm"), at(1_600)).await;
    assert!(matches!(other, Err(ConsumeError::OtherCall { .. })));
    let taken = store.take_given(&asked.id, &digest("ls"), at(1_600)).await.unwrap();
    assert_eq!(taken.request.given, Some(Given::Edit { arguments: params(json!({ "command": "ls -l" })) }));
    let ApprovalState::Edited(substitution) = &taken.state else { panic!("{:?}", taken.state) };
    assert_eq!((substitution.at, substitution.taken_at), (at(1_500), Some(at(1_600))));
    let again = store.take_given(&asked.id, &digest("ls"), at(1_700)).await;
    assert!(matches!(again, Err(ConsumeError::NotAllowed { status: ApprovalStatus::Edited, .. })));
}

async fn a_mask_is_no_value(store: &dyn Store) {
    let shown = json!({ "command": "send -k ****** to a", "note": ["see *.txt", "****** ******"], "n": 1 });
    let original =
        json!({ "command": "send -k aB3dE5 to a", "note": ["see *.txt", "aB3dE5 cD4eF6"], "n": 1 });
    let masked_at = vec!["/command".to_owned(), "/note/1".to_owned()];
    let asked = |substitutes: &[Substitute]| NewApproval {
        preview: preview(&shown).shown,
        masked: 3,
        masked_at: masked_at.clone(),
        substitutes: substitutes.to_vec(),
        ..question("send")
    };
    let note = |note: Value| json!({ "command": "send -k ****** to a", "note": note, "n": 1 });
    let command =
        |command: &str| json!({ "command": command, "note": ["see *.txt", "****** ******"], "n": 1 });
    for (edited, restored) in [
        (shown.clone(), Some(original.clone())),
        (command("send -k ****** to b"), None),
        (command("send it"), Some(json!({ "command": "send it", "note": original["note"], "n": 1 }))),
        (json!({ "command": "send to b", "n": 2 }), Some(json!({ "command": "send to b", "n": 2 }))),
        (
            note(json!(["see *.txt", "other"])),
            Some(json!({ "command": original["command"], "note": ["see *.txt", "other"], "n": 1 })),
        ),
        (command("send -k ***** to a"), None),
        (command("send ****** -k ****** to a"), None),
        (command("send -k x******"), None),
        (note(json!(["see ******", "****** ******"])), None),
        (note(json!(["****** ******", "see *.txt"])), None),
        (note(json!(["****** ******"])), None),
        (note(json!(["see *.txt", "****** ******", "more"])), None),
        (
            note(json!(["see it", "****** ******"])),
            Some(json!({ "command": original["command"], "note": ["see it", "aB3dE5 cD4eF6"], "n": 1 })),
        ),
        (json!({ "command": "send", "other": shown["command"] }), None),
        (json!({ "command": "send", "other": "******" }), None),
        (json!({ "command": "send", "******": 1 }), None),
    ] {
        let record = store.create_approval(asked(&BOTH)).await.unwrap();
        let found = record.request.restored(&original, &edited);
        assert_eq!(found.as_ref().ok(), restored.as_ref(), "{edited}");
        let answer = PersonsAnswer::edit(params(edited.clone()), "ann", at(1_500)).unwrap();
        match store.answer_approval(&record.id, answer).await {
            Ok(resolved) => {
                assert!(restored.is_some(), "{edited}");
                // What is stored has the masks, and not what they hide.
                assert_eq!(resolved.record.request.given, Some(Given::Edit { arguments: params(edited) }));
            }
            Err(error) => {
                assert!(restored.is_none() && error.to_string().contains("a mask is no value"), "{error}");
                assert_eq!(store.approval(&record.id).await.unwrap().unwrap().state, ApprovalState::Pending);
            }
        }
    }
    // Where nothing is masked, a star is a star.
    let plain = ask(store, "ls").await;
    store.answer_approval(&plain.id, edit("ls ****** *.txt", "ann")).await.unwrap();
}

async fn masks_of_one_length_are_not_taken_for_each_other(store: &dyn Store) {
    let shown = json!({
        "steps": [{ "run": "a -k ******" }, { "run": "b -k ******" }],
        "keys": ["******", "******", "******"],
    });
    let original = json!({
        "steps": [{ "run": "a -k aB3dE5" }, { "run": "b -k cD4eF6" }],
        "keys": ["aB3dE5", "cD4eF6", "eF6gH7"],
    });
    let masked_at = ["/steps/0/run", "/steps/1/run", "/keys/0", "/keys/1", "/keys/2"];
    let asked = NewApproval {
        preview: preview(&shown).shown,
        masked: 5,
        masked_at: masked_at.map(str::to_owned).to_vec(),
        substitutes: BOTH.to_vec(),
        ..question("send")
    };
    let with = |name: &str, value: Value| {
        let mut edited = shown.clone();
        edited[name] = value;
        edited
    };
    let swapped = json!([{ "run": "b -k ******" }, { "run": "a -k ******" }]);
    let crossed = json!([{ "run": "a -k ******" }, { "run": "c -k ******" }]);
    for moved in [
        with("steps", swapped),
        with("steps", crossed),
        with("steps", json!([{ "run": "b -k ******" }])),
        with("keys", json!(["******", "******"])),
        with("copy", json!("******")),
        with("copy", json!(["a -k ******"])),
    ] {
        let record = store.create_approval(asked.clone()).await.unwrap();
        assert!(record.request.restored(&original, &moved).is_err(), "{moved}");
        let answer = PersonsAnswer::edit(params(moved.clone()), "ann", at(1_500)).unwrap();
        let refused = store.answer_approval(&record.id, answer).await;
        assert!(matches!(refused, Err(ResolveError::Masked { .. })), "{moved}");
    }
    let record = store.create_approval(asked).await.unwrap();
    let kept = with("steps", json!([{ "run": "ls" }, { "run": "b -k ******" }]));
    let restored = record.request.restored(&original, &kept).unwrap();
    assert_eq!(restored["steps"], json!([{ "run": "ls" }, { "run": "b -k cD4eF6" }]));
    assert_eq!(restored["keys"], original["keys"]);
}

async fn it_is_wiped_once_it_was_taken(store: &dyn Store) {
    for (answer, digest_of) in [(edit("ls -l", "ann"), "ls"), (respond("none", "ann"), "pwd")] {
        let asked = ask(store, digest_of).await;
        store.answer_approval(&asked.id, answer).await.unwrap();
        store.expire_approvals(at(1_600)).await.unwrap();
        let kept = store.approval(&asked.id).await.unwrap().unwrap().request;
        assert!(kept.given.is_some() && !kept.preview.is_null(), "nobody has taken it yet");
        let taken = store.take_given(&asked.id, &asked.request.digest, at(1_700)).await.unwrap();
        assert!(taken.request.given.is_some() && !taken.request.preview.is_null());
        let left = store.approval(&asked.id).await.unwrap().unwrap().request;
        assert!(left.given.is_none() && left.preview.is_null() && left.description.is_empty());
        assert_eq!(left.digest, asked.request.digest);
    }
    // Of one that nobody came for it goes with the rest.
    let asked = ask(store, "id").await;
    store.answer_approval(&asked.id, edit("id -u", "ann")).await.unwrap();
    let over = at(2_000).after(backstop_store::ANSWERABLE).after(Duration::from_millis(1));
    store.expire_approvals(over).await.unwrap();
    assert!(store.approval(&asked.id).await.unwrap().unwrap().request.given.is_none());
}

async fn the_trail_has_who_and_what_and_no_text(store: &dyn Store) {
    let asked = ask(store, "ls").await;
    store.answer_approval(&asked.id, edit("a secret place", "ann")).await.unwrap();
    store.take_given(&asked.id, &asked.request.digest, at(1_700)).await.unwrap();
    let filter = AuditFilter { kind: Some(APPROVAL_ANSWERED.to_owned()), ..AuditFilter::default() };
    let entries = store.audit(&filter, 0, 9).await.unwrap();
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    let body = serde_json::to_value(&entry.body).unwrap();
    assert_eq!((&body["decision"], &body["by"]), (&json!("edit"), &json!("ann")));
    assert!(body["given"].is_string() && !body.to_string().contains("secret place"), "{body}");
}

/// What somebody may answer.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Decides(Decision),
    Edits(u8),
    Responds(u8),
}

impl Said {
    fn by(&self, who: &str) -> PersonsAnswer {
        match self {
            Self::Decides(decision) => decide(*decision, who),
            Self::Edits(number) => edit(&format!("ls {number}"), who),
            Self::Responds(number) => respond(&format!("r{number}"), who),
        }
    }
}

fn answers() -> impl Strategy<Value = Vec<(usize, Said)>> {
    let said = prop_oneof![
        prop::sample::select(vec![Decision::AllowOnce, Decision::Deny]).prop_map(Said::Decides),
        (0..2_u8).prop_map(Said::Edits),
        (0..2_u8).prop_map(Said::Responds),
    ];
    prop::collection::vec((0..3_usize, said), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_question_has_one_end_and_everybody_is_told_which(answers in answers()) {
        for form in [crate::support::memory(), crate::support::sqlite()] {
            block_on(one_end(&*form.store, &answers))?;
        }
    }
}

async fn one_end(store: &dyn Store, answers: &[(usize, Said)]) -> Result<(), TestCaseError> {
    let asked = ask(store, "ls").await;
    let mut first: Option<(&Said, ApprovalState)> = None;
    for (who, said) in answers {
        let by = ["ann", "bob", "carl"][*who];
        match (store.answer_approval(&asked.id, said.by(by)).await, &first) {
            (Ok(resolved), None) => {
                prop_assert!(resolved.first);
                prop_assert_eq!(resolved.record.state.by(), Some(by));
                first = Some((said, resolved.record.state));
            }
            (Ok(resolved), Some((same, state))) => {
                prop_assert!(!resolved.first && *same == said);
                prop_assert_eq!(&resolved.record.state, state);
            }
            (Err(error), Some((other, state))) => {
                prop_assert!(*other != said);
                let by = format!(" by {}", state.by().unwrap());
                prop_assert!(error.to_string().ends_with(&by), "{}", error);
            }
            (Err(error), None) => prop_assert!(false, "{}", error),
        }
    }
    let digest = &asked.request.digest;
    let is_taken = store.take_given(&asked.id, digest, at(1_900)).await.is_ok();
    let runs = store.consume_approval(&asked.id, digest, at(1_900)).await.is_ok();
    prop_assert!(!(is_taken && runs), "the call ran, and something else in its place");
    Ok(())
}
