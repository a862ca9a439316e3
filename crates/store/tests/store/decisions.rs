use backstop_hooks::{RunId, SessionId};
use backstop_store::{Store, ToolDecision};

use crate::support::over_all_forms;

over_all_forms!(decision_of_one_run_never_reaches_another, a_doubled_call_keeps_the_denial);

fn deny(reason: &str) -> ToolDecision {
    ToolDecision::Deny { reason: reason.into() }
}

async fn decision_of_one_run_never_reaches_another(store: &dyn Store) {
    let (s1, r1): (SessionId, RunId) = ("s1".into(), "r1".into());
    let (s2, r2): (SessionId, RunId) = ("s2".into(), "r2".into());
    store
        .put_decisions(&s1, &r1, vec![("c1".into(), ToolDecision::Allow), ("".into(), deny("no id"))])
        .await
        .unwrap();
    store.put_decisions(&s1, &r2, vec![("c1".into(), deny("other run"))]).await.unwrap();
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
        store.put_decisions(&s1, &r1, vec![("c1".into(), decision)]).await.unwrap();
    }
    assert_eq!(store.decision(&s1, &r1, &"c1".into()).await.unwrap(), Some(deny("first")));
}
