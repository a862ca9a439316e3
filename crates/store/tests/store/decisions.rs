use backstop_hooks::{RunId, SessionId};
use backstop_store::{Store, ToolDecision};

use crate::support::{at, over_all_forms};

over_all_forms!(
    decision_of_one_run_never_reaches_another,
    a_doubled_call_keeps_the_denial,
    a_call_is_found_without_its_run,
    old_decisions_are_pruned,
);

fn deny(reason: &str) -> ToolDecision {
    ToolDecision::Deny { reason: reason.into() }
}

async fn decision_of_one_run_never_reaches_another(store: &dyn Store) {
    let (s1, r1): (SessionId, RunId) = ("s1".into(), "r1".into());
    let (s2, r2): (SessionId, RunId) = ("s2".into(), "r2".into());
    store
        .put_decisions(&s1, &r1, vec![("c1".into(), ToolDecision::Allow), ("".into(), deny("no id"))], at(1))
        .await
        .unwrap();
    store.put_decisions(&s1, &r2, vec![("c1".into(), deny("other run"))], at(1)).await.unwrap();
    let decision = async |session, run, call: &str| store.decision(session, run, &call.into()).await.unwrap();
    assert_eq!(decision(&s1, &r1, "c1").await, Some(ToolDecision::Allow));
    assert_eq!(decision(&s1, &r1, "").await, Some(deny("no id")));
    assert_eq!(decision(&s1, &r2, "c1").await, Some(deny("other run")));
    assert_eq!(decision(&s1, &r1, "c2").await, None);
    assert_eq!(decision(&s2, &r1, "c1").await, None);
    store.clear_decisions(&s1, &r1).await.unwrap();
    assert_eq!(decision(&s1, &r1, "c1").await, None);
    assert_eq!(decision(&s1, &r2, "c1").await, Some(deny("other run")));
}

async fn a_doubled_call_keeps_the_denial(store: &dyn Store) {
    let (s1, r1) = ("s1".into(), "r1".into());
    for decision in [ToolDecision::Allow, deny("first"), ToolDecision::Allow, deny("second")] {
        store.put_decisions(&s1, &r1, vec![("c1".into(), decision)], at(1)).await.unwrap();
    }
    assert_eq!(store.decision(&s1, &r1, &"c1".into()).await.unwrap(), Some(deny("first")));
}

async fn a_call_is_found_without_its_run(store: &dyn Store) {
    let on = async |call: &str, since| store.decision_on_call(&call.into(), at(since)).await.unwrap();
    let put = async |session: &str, run: &str, call: &str, decision, now| {
        store
            .put_decisions(&session.into(), &run.into(), vec![(call.into(), decision)], at(now))
            .await
            .unwrap();
    };
    assert_eq!(on("c1", 0).await, None);
    put("s1", "r1", "c1", ToolDecision::Allow, 10).await;
    assert_eq!(on("c1", 0).await, Some(ToolDecision::Allow));
    put("s2", "r2", "c1", deny("elsewhere"), 20).await;
    put("s3", "r3", "c1", ToolDecision::Allow, 30).await;
    assert_eq!(on("c1", 0).await, Some(deny("elsewhere")), "a denial wins over any number of allowances");
    assert_eq!(on("c1", 20).await, Some(deny("elsewhere")), "the bound of age counts");
    assert_eq!(on("c1", 21).await, Some(ToolDecision::Allow));
    assert_eq!(on("c1", 31).await, None);
    put("s1", "r1", "", deny("no id"), 40).await;
    assert_eq!(on("", 0).await, None, "an empty id names no call");
}

async fn old_decisions_are_pruned(store: &dyn Store) {
    for (call, now) in [("old", 10), ("new", 20)] {
        let decisions = vec![(call.into(), deny("no"))];
        store.put_decisions(&"s1".into(), &"r1".into(), decisions, at(now)).await.unwrap();
    }
    assert_eq!(store.prune_decisions(at(20)).await.unwrap(), 1);
    assert_eq!(store.prune_decisions(at(20)).await.unwrap(), 0);
    assert_eq!(store.decision_on_call(&"old".into(), at(0)).await.unwrap(), None);
    assert_eq!(store.decision(&"s1".into(), &"r1".into(), &"new".into()).await.unwrap(), Some(deny("no")));
}
