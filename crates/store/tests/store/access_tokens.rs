use std::time::Duration;

use backstop_hooks::AgentId;
use backstop_store::{
    ACCESS_TOKEN_CREATED, ACCESS_TOKEN_LEN, ACCESS_TOKEN_REVOKED, AccessTokenId, AddAccessTokenError,
    AuditFilter, NewAccessToken, Replaced, Scope, Store, access_token_digest, holds_access_token,
};

use crate::support::{at, over_all_forms};

over_all_forms!(
    a_token_counts_until_it_ends_and_never_again,
    a_token_that_is_replaced_ends_and_only_its_own_agent_replaces_it,
    who_made_and_revoked_a_token_is_in_the_trail_and_the_token_is_not,
    when_a_token_was_used_only_moves_forward,
    no_token_is_an_agents_and_answers,
);

pub(crate) fn made(agent: &str) -> NewAccessToken {
    NewAccessToken::make(agent.into(), "ann".to_owned(), at(10), Duration::from_millis(90)).1
}

async fn counting(store: &dyn Store, now: i64) -> Vec<AccessTokenId> {
    let counting = store.counting_access_tokens(at(now)).await.unwrap();
    assert!(counting.unreadable.is_empty());
    counting.tokens.into_iter().map(|token| token.made.id).collect()
}

async fn a_token_counts_until_it_ends_and_never_again(store: &dyn Store) {
    let (one, two) = (made("a"), made("b"));
    for token in [&one, &two] {
        let stored = store.add_access_token(token.clone()).await.unwrap();
        assert_eq!((&stored.made, stored.ends_at, stored.revoked_at), (token, at(100), None));
    }
    assert_eq!(counting(store, 99).await, [one.id.clone(), two.id.clone()]);
    assert!(counting(store, 100).await.is_empty());
    let revoked = store.revoke_access_token(&one.id, "joe", at(20)).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(20)));
    let again = store.revoke_access_token(&one.id, "eve", at(30)).await.unwrap().unwrap();
    assert_eq!(again.revoked_at, Some(at(20)), "the first revocation is kept");
    assert_eq!(counting(store, 21).await, std::slice::from_ref(&two.id));
    let unknown = AccessTokenId::from("nobody".to_owned());
    assert!(store.revoke_access_token(&unknown, "joe", at(20)).await.unwrap().is_none());
    let all = store.access_tokens(9).await.unwrap().tokens;
    assert_eq!(all.iter().map(|token| &token.made.id).collect::<Vec<_>>(), [&two.id, &one.id]);
    assert_eq!(store.access_tokens(1).await.unwrap().tokens.len(), 1);
}

async fn a_token_that_is_replaced_ends_and_only_its_own_agent_replaces_it(store: &dyn Store) {
    let old = made("a");
    store.add_access_token(old.clone()).await.unwrap();
    let replacing = |agent: &str, id: &AccessTokenId, ends: i64| NewAccessToken {
        replaces: Some(Replaced { id: id.clone(), ends_at: at(ends) }),
        ..made(agent)
    };
    let refused = store.add_access_token(replacing("b", &old.id, 20)).await.unwrap_err();
    assert!(matches!(&refused, AddAccessTokenError::NothingToReplace { id, .. } if *id == old.id));
    assert_eq!(counting(store, 50).await, std::slice::from_ref(&old.id), "what is refused changes nothing");
    let new = replacing("a", &old.id, 20);
    store.add_access_token(new.clone()).await.unwrap();
    assert_eq!(counting(store, 19).await, [old.id.clone(), new.id.clone()]);
    assert_eq!(counting(store, 20).await, std::slice::from_ref(&new.id));
    // It ends no later than it did.
    let third = replacing("a", &new.id, 5_000);
    store.add_access_token(third.clone()).await.unwrap();
    assert!(counting(store, 100).await.is_empty());
    store.revoke_access_token(&third.id, "joe", at(20)).await.unwrap();
    assert!(store.add_access_token(replacing("a", &third.id, 20)).await.is_err(), "it does not count");
}

async fn who_made_and_revoked_a_token_is_in_the_trail_and_the_token_is_not(store: &dyn Store) {
    let (token, made) = NewAccessToken::make("a".into(), "ann".to_owned(), at(10), Duration::from_millis(90));
    store.add_access_token(made.clone()).await.unwrap();
    for by in ["joe", "eve"] {
        store.revoke_access_token(&made.id, by, at(20)).await.unwrap();
    }
    let entries = store.audit(&AuditFilter::default(), 0, 9).await.unwrap();
    let said: Vec<_> =
        entries.iter().map(|entry| (entry.kind.as_str(), entry.body.to_value()["by"].clone())).collect();
    assert_eq!(said, [(ACCESS_TOKEN_CREATED, "ann".into()), (ACCESS_TOKEN_REVOKED, "joe".into())]);
    let all = format!("{entries:?}{:?}", store.access_tokens(9).await.unwrap());
    let secret = token.expose().rsplit('_').next().unwrap();
    assert!(!all.contains(secret) && !all.contains(token.expose()));
    let trail: Vec<String> = entries.iter().map(|entry| entry.body.to_value().to_string()).collect();
    assert!(!trail.concat().contains(&made.digest.to_string()));
}

async fn no_token_is_an_agents_and_answers(store: &dyn Store) {
    let sets = (0_u8..16).map(|bits| {
        let has = |place: usize| bits & (1 << place) != 0;
        Scope::ALL.into_iter().enumerate().filter(|(place, _)| has(*place)).map(|(_, scope)| scope).collect()
    });
    for scopes in sets.collect::<Vec<Vec<Scope>>>() {
        for (agent, user) in [(true, true), (true, false), (false, true), (false, false)] {
            let new = NewAccessToken {
                agent: agent.then(|| "a".into()),
                user: user.then(|| "u".to_owned()),
                scopes: scopes.clone(),
                ..made("a")
            };
            let of_agent = agent && scopes.iter().all(|scope| *scope == Scope::Judge);
            let of_person = !agent && user && !scopes.is_empty() && !scopes.contains(&Scope::Judge);
            let added = store.add_access_token(new.clone()).await;
            assert_eq!(added.is_ok(), of_agent || of_person, "{new:?}");
            assert!(added.is_ok() || matches!(added, Err(AddAccessTokenError::Mixed)));
        }
    }
}

async fn when_a_token_was_used_only_moves_forward(store: &dyn Store) {
    let token = made("a");
    store.add_access_token(token.clone()).await.unwrap();
    for (used, last) in [(20, 20), (30, 30), (25, 30)] {
        store
            .note_access_tokens(vec![(token.id.clone(), at(used)), ("x".to_owned().into(), at(1))])
            .await
            .unwrap();
        assert_eq!(store.access_tokens(1).await.unwrap().tokens[0].last_used_at, Some(at(last)));
    }
}

#[test]
fn a_token_is_told_by_its_form() {
    let (token, made) = NewAccessToken::make(AgentId::new("a"), String::new(), at(0), Duration::ZERO);
    let token = token.expose();
    assert_eq!(token.len(), ACCESS_TOKEN_LEN);
    assert_eq!(AccessTokenId::in_token(token.as_bytes()), Some(made.id.clone()));
    assert_eq!(access_token_digest(token), made.digest);
    assert!(token.contains(made.id.as_str()));
    for text in [token.to_owned(), format!("é{token}é"), format!("a=bst_{token}0"), format!("{token}{token}")]
    {
        assert!(holds_access_token(text.as_bytes()), "{text}");
    }
    let (front, back) = (token.get(..token.len() - 1).unwrap(), token.get(1..).unwrap());
    for other in [back, front, &token.to_uppercase(), "bst_", ""] {
        assert!(!holds_access_token(other.as_bytes()), "{other}");
        assert_eq!(AccessTokenId::in_token(other.as_bytes()), None);
    }
    let (other, _) = NewAccessToken::make(AgentId::new("a"), String::new(), at(0), Duration::ZERO);
    assert_ne!(other.expose(), token);
}
