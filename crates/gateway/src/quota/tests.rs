use http::uri::PathAndQuery;
use proptest::prelude::*;

use super::*;

fn caller(agent: Option<&str>, user: Option<&str>, is_proved: bool) -> Caller {
    Caller {
        agent: agent.map(AgentId::new),
        user: user.map(Arc::from),
        is_proved,
        provider: None,
        target: PathAndQuery::from_static("/"),
        token: None,
    }
}

fn quota(requests_per_minute: Option<u32>, concurrent_requests: Option<u32>) -> Quota {
    Quota { requests_per_minute, concurrent_requests }
}

#[test]
fn places_are_those_of_an_agent_and_come_back() {
    let asked = Arc::new(Asked::default());
    let quotas = Quotas { each_agent: quota(None, Some(2)), ..Quotas::default() };
    let (ci, other) = (caller(Some("ci"), None, true), caller(Some("other"), None, true));
    let admit = |caller: &Caller| asked.admit(&quotas, caller);
    let (first, _second) = (admit(&ci).unwrap(), admit(&ci).unwrap());
    assert_eq!(admit(&ci).unwrap_err(), NoRoom::AtOnce { whose: "this agent", most: 2 });
    let _other = admit(&other).unwrap();
    drop(first);
    let third = admit(&ci).unwrap();
    assert!(admit(&ci).is_err());
    drop((third, _second, _other));
    assert!(asked.callers().known.is_empty(), "nothing is left behind");
}

#[test]
fn another_name_is_no_other_place_without_a_token_for_it() {
    let asked = Arc::new(Asked::default());
    let quotas = Quotas {
        shared_token: quota(None, Some(1)),
        agents: BTreeMap::from([(AgentId::new("a"), quota(None, Some(9)))]),
        ..Quotas::default()
    };
    let _one = asked.admit(&quotas, &caller(Some("a"), None, false)).unwrap();
    for name in [None, Some("a"), Some("b")] {
        assert!(asked.admit(&quotas, &caller(name, None, false)).is_err(), "{name:?}");
    }
    assert!(asked.admit(&quotas, &caller(Some("a"), None, true)).is_ok());
}

#[test]
fn a_request_of_an_agent_and_a_user_needs_room_with_both_or_takes_none() {
    let asked = Arc::new(Asked::default());
    let quotas = Quotas {
        agents: BTreeMap::from([(AgentId::new("a"), quota(Some(5), Some(5)))]),
        users: BTreeMap::from([("u".to_owned(), quota(Some(1), None))]),
        each_user: quota(None, Some(1)),
        ..Quotas::default()
    };
    let both = caller(Some("a"), Some("u"), true);
    let held = asked.admit(&quotas, &both).unwrap();
    assert!(asked.admit(&quotas, &both).is_err(), "what its own quota does not say is that of each user");
    drop(held);
    for _ in 0..20 {
        assert!(matches!(asked.admit(&quotas, &both), Err(NoRoom::InMinute { whose: "this user", .. })));
    }
    for _ in 0..4 {
        assert!(asked.admit(&quotas, &caller(Some("a"), None, true)).is_ok(), "the agent was not charged");
    }
    assert!(asked.admit(&quotas, &caller(Some("a"), None, true)).is_err());
}

#[test]
fn a_smaller_quota_holds_for_what_was_asked_before() {
    let asked = Arc::new(Asked::default());
    let quotas = |most| Quotas { each_agent: quota(Some(most), None), ..Quotas::default() };
    let (ci, now) = (caller(Some("ci"), None, true), Instant::now());
    for second in 0..5 {
        asked.admit_at(&quotas(5), &ci, now + Duration::from_secs(second)).unwrap();
    }
    let refused = asked.admit_at(&quotas(2), &ci, now + Duration::from_secs(10)).unwrap_err();
    assert_eq!(refused, NoRoom::InMinute { whose: "this agent", most: 2, seconds: 53 });
    assert!(asked.admit_at(&quotas(0), &ci, now + Duration::from_secs(10)).is_err());
    assert!(asked.admit_at(&quotas(0), &ci, now + Duration::from_secs(500)).is_err());
    assert!(asked.admit_at(&quotas(2), &ci, now + Duration::from_secs(63)).is_ok());
}

#[test]
fn callers_are_forgotten_and_bounded() {
    let asked = Arc::new(Asked::default());
    let quotas = Quotas { each_user: quota(Some(1), None), ..Quotas::default() };
    let now = Instant::now();
    let user = |number: usize| caller(None, Some(&number.to_string()), true);
    for number in 0..MOST_CALLERS {
        drop(asked.admit_at(&quotas, &user(number), now).unwrap());
    }
    assert_eq!(asked.admit_at(&quotas, &user(MOST_CALLERS), now).unwrap_err(), NoRoom::Callers);
    assert!(asked.admit_at(&quotas, &user(MOST_CALLERS), now + MINUTE).is_ok());
    assert_eq!(asked.callers().known.len(), 1);
    let without = Quotas::default();
    let _held = asked.admit(&without, &user(7)).unwrap();
    assert_eq!(asked.callers().known.len(), 1, "who has no limit is not kept track of");
}

proptest! {
    /// Whenever a minute begins, and in whatever rhythm somebody asks.
    #[test]
    fn no_minute_has_more_than_are_allowed(most in 0_u32..6, gaps in prop::collection::vec(0_u64..25_000, 1..60)) {
        let asked = Arc::new(Asked::default());
        let quotas = Quotas { each_agent: quota(Some(most), None), ..Quotas::default() };
        let ci = caller(Some("ci"), None, true);
        let (mut at, mut passed) = (Instant::now(), Vec::new());
        for gap in gaps {
            at += Duration::from_millis(gap);
            match asked.admit_at(&quotas, &ci, at) {
                Ok(_) => passed.push(at),
                Err(refused) => {
                    let later = at + Duration::from_secs(refused.retry_after());
                    let in_minute = passed.iter().filter(|before| later.duration_since(**before) < MINUTE).count();
                    prop_assert!(in_minute < most as usize || most == 0, "there is room when it says so");
                }
            }
        }
        for (index, begin) in passed.iter().enumerate() {
            let within = passed.iter().skip(index).filter(|later| later.duration_since(*begin) < MINUTE).count();
            prop_assert!(within <= most as usize);
        }
    }
}
