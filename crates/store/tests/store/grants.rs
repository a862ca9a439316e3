use backstop_store::{GrantId, GrantQuery, GrantTarget, NewGrant, Store};

use crate::support::{at, digest, over_all_forms};

over_all_forms!(
    a_grant_covers_its_scope_only,
    a_grant_of_a_hook_covers_all_that_it_asks,
    uses_are_counted_until_it_ends,
    a_revoked_grant_is_listed_and_does_not_count,
);

fn grant(target: GrantTarget) -> NewGrant {
    NewGrant {
        agent: "main".into(),
        tool_name: "exec".into(),
        target,
        title: "Run this?".into(),
        created_by: "ann".to_owned(),
        created_at: at(1),
        expires_at: Some(at(100)),
    }
}

fn of_call() -> GrantTarget {
    GrantTarget::Call { digest: digest("ls") }
}

fn query() -> GrantQuery {
    GrantQuery {
        agent: "main".into(),
        tool_name: "exec".into(),
        digest: digest("ls"),
        owner: "builtin".into(),
        hook: "command-safety".into(),
    }
}

async fn a_grant_covers_its_scope_only(store: &dyn Store) {
    let added = store.add_grant(grant(of_call())).await.unwrap();
    assert_eq!(store.find_grant(&query(), at(50)).await.unwrap(), Some(added));
    let others = [
        GrantQuery { agent: "other".into(), ..query() },
        GrantQuery { tool_name: "process".into(), ..query() },
        GrantQuery { digest: digest("rm"), ..query() },
    ];
    for other in others {
        assert_eq!(store.find_grant(&other, at(50)).await.unwrap(), None, "{other:?}");
    }
}

async fn a_grant_of_a_hook_covers_all_that_it_asks(store: &dyn Store) {
    let target = GrantTarget::Hook { owner: "builtin".into(), hook: "command-safety".into() };
    store.add_grant(grant(target)).await.unwrap();
    let asks = |digest, owner: &str, hook: &str| GrantQuery {
        digest,
        owner: owner.into(),
        hook: hook.into(),
        ..query()
    };
    let covered = asks(digest("anything"), "builtin", "command-safety");
    assert!(store.find_grant(&covered, at(50)).await.unwrap().is_some());
    for other in [asks(digest("ls"), "evil", "command-safety"), asks(digest("ls"), "builtin", "other")] {
        assert_eq!(store.find_grant(&other, at(50)).await.unwrap(), None, "{other:?}");
    }
}

async fn uses_are_counted_until_it_ends(store: &dyn Store) {
    store.add_grant(grant(of_call())).await.unwrap();
    assert_eq!(store.use_grant(&query(), at(99)).await.unwrap().unwrap().uses, 1);
    assert_eq!(store.use_grant(&query(), at(100)).await.unwrap().unwrap().uses, 2);
    assert_eq!(store.use_grant(&query(), at(101)).await.unwrap(), None);
    assert_eq!(store.grants(9).await.unwrap()[0].uses, 2);
}

async fn a_revoked_grant_is_listed_and_does_not_count(store: &dyn Store) {
    let one = store.add_grant(grant(of_call())).await.unwrap();
    let two = store.add_grant(grant(of_call())).await.unwrap();
    let revoked = store.revoke_grant(&one.id, at(10)).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(10)));
    assert_eq!(
        store.revoke_grant(&one.id, at(20)).await.unwrap(),
        Some(revoked.clone()),
        "the first one stays"
    );
    assert_eq!(store.find_grant(&query(), at(50)).await.unwrap(), Some(two.clone()));
    assert_eq!(store.grants(9).await.unwrap(), [two.clone(), revoked]);
    assert_eq!(store.grants(1).await.unwrap(), [two]);
    assert_eq!(store.revoke_grant(&GrantId::new("nope"), at(1)).await.unwrap(), None);
}
