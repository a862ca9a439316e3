use std::time::Duration;

use backstop_hooks::conversation::{Message, Part, Role, ToolCall, ToolResult};
use backstop_hooks::{Params, SessionId};
use backstop_store::{
    Change, LeaseHolder, MAX_MESSAGE_BYTES, NewEntry, Store, TranscriptError, unanswered_calls,
};
use proptest::prelude::*;

use crate::support::{at, begun, block_on, entry, me, memory, over_all_forms, session, sqlite};

over_all_forms!(
    entries_come_back_in_order_with_their_ids,
    pages_are_the_last_entries_without_what_is_large,
    changes_are_made_in_order,
    a_batch_that_fails_leaves_no_trace,
    who_lost_the_lease_can_not_write,
    a_session_that_nobody_holds_takes_no_writes,
    numbers_are_never_used_twice,
    compaction_keeps_the_place,
    what_is_too_large_is_refused,
    calls_of_an_interrupted_run_are_found,
);

async fn texts(store: &dyn Store, session: &SessionId) -> Vec<(u64, String)> {
    let entries = store.transcript(session).await.unwrap();
    entries.iter().map(|entry| (entry.seq, entry.message.visible_text())).collect()
}

fn told(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|(seq, text)| (*seq, (*text).to_owned())).collect()
}

async fn entries_come_back_in_order_with_their_ids(store: &dyn Store) {
    let s1 = begun(store).await;
    assert_eq!(store.append(&s1, &me(), vec![entry("m1", "one"), entry("m2", "two")]).await.unwrap(), [1, 2]);
    assert_eq!(store.append(&s1, &me(), vec![entry("m3", "three")]).await.unwrap(), [3]);
    let entries = store.transcript(&s1).await.unwrap();
    assert_eq!(texts(store, &s1).await, told(&[(1, "one"), (2, "two"), (3, "three")]));
    assert_eq!(entries[1].message.id, Some("m2".into()));
    assert_eq!(entries[1].message.run_id, Some("r1".into()));
    assert_eq!((entries[1].at, entries[1].tokens), (at(5), Some(3)));
    assert!(store.transcript(&"other".into()).await.unwrap().is_empty());
    let nowhere = store.append(&"other".into(), &me(), vec![entry("m1", "one")]).await;
    assert!(matches!(nowhere, Err(TranscriptError::UnknownSession(_))));
}

async fn pages_are_the_last_entries_without_what_is_large(store: &dyn Store) {
    let s1 = begun(store).await;
    let large = "x".repeat(2_000);
    let entries = vec![entry("m1", "one"), entry("m2", &large), entry("m3", "three")];
    store.append(&s1, &me(), entries).await.unwrap();
    let page = async |before: u64, limit: usize, most: usize| {
        let page = store.transcript_page(&s1, before, limit, most).await.unwrap();
        page.into_iter()
            .map(|one| (one.seq, one.message.map(|message| message.visible_text())))
            .collect::<Vec<_>>()
    };
    let all = page(u64::MAX, 9, 10_000).await;
    assert_eq!(all, [(1, Ok("one".to_owned())), (2, Ok(large)), (3, Ok("three".to_owned()))]);
    let last = page(u64::MAX, 2, 1_000).await;
    let [(2, Err(bytes)), (3, Ok(_))] = last.as_slice() else { panic!("{last:?}") };
    assert!((2_000..3_000).contains(bytes), "{bytes}");
    assert_eq!(page(2, 9, 1_000).await, [(1, Ok("one".to_owned()))]);
    assert!(page(1, 9, 1_000).await.is_empty());
    assert!(store.transcript_page(&"other".into(), u64::MAX, 9, 9).await.unwrap().is_empty());
}

async fn who_lost_the_lease_can_not_write(store: &dyn Store) {
    let s1 = begun(store).await;
    store.append(&s1, &me(), vec![entry("m1", "one")]).await.unwrap();
    let (thief, ttl) = (LeaseHolder::new("thief"), Duration::from_secs(60));
    // It has run out, and is still nobody else's.
    store.lease_session(&s1, &me(), Duration::from_millis(1), at(1)).await.unwrap();
    store.append(&s1, &me(), vec![entry("m2", "two")]).await.unwrap();
    store.lease_session(&s1, &thief, ttl, at(10)).await.unwrap();
    let changes = || vec![Change::Append(entry("late", "late")), Change::Remove { id: "m1".into() }];
    for refused in [
        store.append(&s1, &me(), vec![entry("late", "late")]).await.map(drop),
        store.apply(&s1, &me(), changes()).await.map(drop),
    ] {
        assert!(matches!(refused, Err(TranscriptError::LeaseLost(id)) if id == s1));
    }
    store.append(&s1, &thief, vec![entry("m3", "three")]).await.unwrap();
    assert_eq!(texts(store, &s1).await, told(&[(1, "one"), (2, "two"), (3, "three")]));
}

async fn a_session_that_nobody_holds_takes_no_writes(store: &dyn Store) {
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let never = store.append(&"s1".into(), &me(), vec![entry("m1", "one")]).await;
    assert!(matches!(never, Err(TranscriptError::LeaseLost(_))));
    store.lease_session(&"s1".into(), &me(), Duration::from_secs(60), at(1)).await.unwrap();
    store.release_lease(&"s1".into(), &me()).await.unwrap();
    let no_more = store.append(&"s1".into(), &me(), vec![entry("m1", "one")]).await;
    assert!(matches!(no_more, Err(TranscriptError::LeaseLost(_))));
}

async fn changes_are_made_in_order(store: &dyn Store) {
    let s1 = begun(store).await;
    store.append(&s1, &me(), vec![entry("m1", "one"), entry("m2", "two")]).await.unwrap();
    let changes = vec![
        Change::Append(entry("m3", "three")),
        Change::Replace { id: "m3".into(), message: Message::user("3") },
        Change::Remove { id: "m1".into() },
        Change::Append(entry("m1", "one again")),
    ];
    store.apply(&s1, &me(), changes).await.unwrap();
    assert_eq!(texts(store, &s1).await, told(&[(2, "two"), (3, "3"), (4, "one again")]));
    let replaced = &store.transcript(&s1).await.unwrap()[1];
    assert_eq!(replaced.tokens, None, "the count was of the old text");
    assert_eq!(
        (replaced.message.id.clone(), replaced.message.run_id.clone()),
        (Some("m3".into()), Some("r1".into()))
    );
}

async fn a_batch_that_fails_leaves_no_trace(store: &dyn Store) {
    let s1 = begun(store).await;
    store.append(&s1, &me(), vec![entry("m1", "one"), entry("m2", "two")]).await.unwrap();
    let before = store.transcript(&s1).await.unwrap();
    let doomed = [
        Change::Remove { id: "m9".into() },
        Change::Replace { id: "m9".into(), message: Message::user("x") },
        Change::Append(entry("m2", "taken")),
        Change::Compact { through: 99, summary: entry("m9", "all") },
        Change::Compact { through: 0, summary: entry("m9", "none") },
    ];
    for last in doomed {
        let changes = vec![
            Change::Append(entry("m3", "three")),
            Change::Replace { id: "m1".into(), message: Message::user("uno") },
            last.clone(),
        ];
        assert!(store.apply(&s1, &me(), changes).await.is_err(), "{last:?}");
        assert_eq!(store.transcript(&s1).await.unwrap(), before);
    }
    let twice = store.append(&s1, &me(), vec![entry("m3", "three"), entry("m3", "three")]).await;
    assert!(matches!(twice, Err(TranscriptError::DuplicateMessage { .. })));
    assert_eq!(store.transcript(&s1).await.unwrap(), before);
}

async fn numbers_are_never_used_twice(store: &dyn Store) {
    let s1 = begun(store).await;
    store.append(&s1, &me(), vec![entry("m1", "one"), entry("m2", "two")]).await.unwrap();
    store.apply(&s1, &me(), vec![Change::Remove { id: "m2".into() }]).await.unwrap();
    assert_eq!(store.append(&s1, &me(), vec![entry("m3", "three")]).await.unwrap(), [3]);
}

async fn compaction_keeps_the_place(store: &dyn Store) {
    let s1 = begun(store).await;
    let all = ["one", "two", "three"].iter().map(|text| entry(text, text)).collect();
    store.append(&s1, &me(), all).await.unwrap();
    let compact = Change::Compact { through: 2, summary: entry("sum", "one and two") };
    store.apply(&s1, &me(), vec![compact]).await.unwrap();
    assert_eq!(texts(store, &s1).await, told(&[(2, "one and two"), (3, "three")]));
    assert_eq!(store.append(&s1, &me(), vec![entry("four", "four")]).await.unwrap(), [4]);
}

async fn what_is_too_large_is_refused(store: &dyn Store) {
    let s1 = begun(store).await;
    let huge = "x".repeat(MAX_MESSAGE_BYTES);
    let refused = store.append(&s1, &me(), vec![entry("m1", &huge)]).await;
    assert!(matches!(refused, Err(TranscriptError::TooLarge { bytes, .. }) if bytes > MAX_MESSAGE_BYTES));
}

async fn calls_of_an_interrupted_run_are_found(store: &dyn Store) {
    let s1 = begun(store).await;
    let call = |id: &str| ToolCall {
        id: id.into(),
        name: "exec".to_owned(),
        arguments: Params::default(),
        malformed: None,
        meta: None,
    };
    let calls = ["a", "b", "b"].map(|id| Part::ToolCall(call(id)));
    let results = ["b", "z"].map(|id| Part::ToolResult(ToolResult::text(&call(id), "done", false)));
    let said = |id: &str, role, parts: &[Part]| NewEntry {
        message: Message::new(role, parts.to_vec()),
        ..entry(id, "")
    };
    let entries = vec![said("m1", Role::Assistant, &calls), said("m2", Role::Tool, &results)];
    store.append(&s1, &me(), entries).await.unwrap();
    let open = unanswered_calls(&store.transcript(&s1).await.unwrap());
    let ids: Vec<_> = open.iter().map(|open| (open.message.as_str(), open.call.id.as_str())).collect();
    assert_eq!(ids, [("m1", "a"), ("m1", "b")]);
    assert_eq!(open[0].run, Some("r1".into()));
}

fn change() -> impl Strategy<Value = Change> {
    let id = || (0..6_u8).prop_map(|n| format!("m{n}"));
    prop_oneof![
        3 => (id(), "[a-z]{0,40}").prop_map(|(id, text)| Change::Append(entry(&id, &text))),
        1 => (id(), "[a-z]{0,40}")
            .prop_map(|(id, text)| Change::Replace { id: id.into(), message: Message::user(text) }),
        1 => id().prop_map(|id| Change::Remove { id: id.into() }),
        1 => (0..12_u64, id()).prop_map(|(through, id)| Change::Compact { through, summary: entry(&id, "sum") }),
    ]
}

/// What a transcript is to hold: each message with its number, its id and its text.
#[derive(Clone, Default)]
struct Model {
    entries: Vec<(u64, String, String)>,
    last: u64,
}

impl Model {
    /// Makes the change, if it can be made.
    fn change(&mut self, change: &Change) -> Option<()> {
        match change {
            Change::Append(new) => {
                self.is_new(new)?;
                self.last += 1;
                self.entries.push(Self::kept(self.last, new));
            }
            Change::Replace { id, message } => {
                self.entries.iter_mut().find(|(_, of, _)| of == id.as_str())?.2 = message.visible_text();
            }
            Change::Remove { id } => {
                let place = self.entries.iter().position(|(_, of, _)| of == id.as_str())?;
                self.entries.remove(place);
            }
            Change::Compact { through, summary } => {
                let gone = self.entries.iter().filter(|(seq, ..)| seq <= through).count();
                if gone == 0 || *through > self.last {
                    return None;
                }
                self.entries.retain(|(seq, ..)| seq > through);
                self.is_new(summary)?;
                self.entries.insert(0, Self::kept(*through, summary));
            }
        }
        Some(())
    }

    fn is_new(&self, new: &NewEntry) -> Option<()> {
        self.entries.iter().all(|(_, of, _)| of != new.id.as_str()).then_some(())
    }

    fn kept(seq: u64, new: &NewEntry) -> (u64, String, String) {
        (seq, new.id.to_string(), new.message.visible_text())
    }
}

/// All changes of a batch are made, or none.
async fn tells_the_story(store: &dyn Store, batches: &[Vec<Change>]) -> Result<(), TestCaseError> {
    let s1 = begun(store).await;
    let mut model = Model::default();
    for batch in batches {
        let mut next = model.clone();
        let fits = batch.iter().try_for_each(|change| next.change(change)).is_some();
        let made = store.apply(&s1, &me(), batch.clone()).await;
        prop_assert_eq!(made.is_ok(), fits, "{:?}", made);
        if fits {
            model = next;
        }
        let told = store.transcript(&s1).await.unwrap();
        let told = told.iter().map(|entry| (entry.seq, entry.id.to_string(), entry.message.visible_text()));
        prop_assert_eq!(told.collect::<Vec<_>>(), model.entries.clone());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_form_tells_the_story(batches in prop::collection::vec(prop::collection::vec(change(), 1..4), 1..12)) {
        for form in [memory(), sqlite()] {
            block_on(tells_the_story(&*form.store, &batches))?;
        }
    }
}
