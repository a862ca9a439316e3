use std::collections::BTreeMap;

use backstop_hooks::Text;
use backstop_store::{Charge, Exceeded, MAX_CHARGES, ReservationId, ReserveError, Store, WINDOWS_LAST};
use proptest::prelude::*;

use crate::support::{at, block_on, memory, over_all_forms, sqlite};

over_all_forms!(
    all_charges_or_none,
    settling_replaces_the_estimate,
    reserving_again_replaces,
    windows_of_a_counter_are_apart,
    what_is_long_over_is_pruned,
    a_clock_that_was_ahead_gives_nothing_back,
    a_reservation_is_bounded,
);

fn charge(counter: &str, amount: u64, limit: u64) -> Charge {
    Charge { counter: counter.into(), since: at(0), until: Some(at(100)), amount, limit }
}

async fn spent(store: &dyn Store) -> BTreeMap<String, (u64, u64)> {
    let uses = store.budgets(99).await.unwrap();
    uses.into_iter().map(|used| (used.counter.to_string(), (used.spent, used.reserved))).collect()
}

fn exceeded(result: Result<(), ReserveError>) -> Exceeded {
    match result {
        Err(ReserveError::Exceeded(exceeded)) => exceeded,
        other => panic!("{other:?}"),
    }
}

async fn all_charges_or_none(store: &dyn Store) {
    let one = ReservationId::new("one");
    let both = vec![charge("requests", 1, 10), charge("tokens", 11, 10)];
    let refused = exceeded(store.reserve(&one, both).await);
    assert_eq!(refused, Exceeded { charge: 1, spent: 0, amount: 11, limit: 10 });
    assert!(spent(store).await.values().all(|used| *used == (0, 0)), "nothing of it was kept");
    let both = vec![charge("requests", 1, 10), charge("tokens", 10, 10)];
    store.reserve(&one, both.clone()).await.unwrap();
    let refused = exceeded(store.reserve(&ReservationId::new("two"), both).await);
    assert_eq!(refused, Exceeded { charge: 1, spent: 10, amount: 10, limit: 10 });
    assert_eq!(spent(store).await["requests"], (1, 1));
}

async fn settling_replaces_the_estimate(store: &dyn Store) {
    let one = ReservationId::new("one");
    store.reserve(&one, vec![charge("requests", 1, 10), charge("tokens", 5, 10)]).await.unwrap();
    assert!(store.settle(&one, vec![("tokens".into(), 30), ("unknown".into(), 7)]).await.unwrap());
    let used = spent(store).await;
    assert_eq!(used["tokens"], (30, 0), "what it did cost counts, also over the limit");
    assert_eq!(used["requests"], (1, 0), "what is not named stays as it was reserved");
    assert!(!used.contains_key("unknown"));
    assert!(!store.settle(&one, vec![("tokens".into(), 0)]).await.unwrap(), "once");
    assert_eq!(spent(store).await["tokens"], (30, 0));
    exceeded(store.reserve(&ReservationId::new("two"), vec![charge("tokens", 1, 10)]).await);
}

async fn reserving_again_replaces(store: &dyn Store) {
    let one = ReservationId::new("one");
    store.reserve(&one, vec![charge("tokens", 8, 10)]).await.unwrap();
    store.reserve(&one, vec![charge("tokens", 9, 10)]).await.unwrap();
    assert_eq!(spent(store).await["tokens"], (9, 9));
    exceeded(store.reserve(&one, vec![charge("tokens", 11, 10)]).await);
    assert_eq!(spent(store).await["tokens"], (9, 9), "a refusal leaves what was reserved before");
}

async fn windows_of_a_counter_are_apart(store: &dyn Store) {
    let later = Charge { since: at(100), until: None, ..charge("tokens", 10, 10) };
    store.reserve(&ReservationId::new("one"), vec![charge("tokens", 10, 10)]).await.unwrap();
    store.reserve(&ReservationId::new("two"), vec![later]).await.unwrap();
    let uses = store.budgets(99).await.unwrap();
    let windows: Vec<_> = uses.iter().map(|used| (used.since, used.until, used.spent)).collect();
    assert_eq!(windows, [(at(100), None, 10), (at(0), Some(at(100)), 10)], "newest first");
    assert_eq!(store.budgets(1).await.unwrap().len(), 1);
}

async fn what_is_long_over_is_pruned(store: &dyn Store) {
    let reserve = async |id: &str, until: Option<i64>| {
        let charge = Charge { until: until.map(at), ..charge("tokens", 1, 10) };
        store.reserve(&ReservationId::new(id), vec![charge]).await.unwrap();
    };
    reserve("one", Some(100)).await;
    reserve("two", Some(50)).await;
    // It lasts 100, since an end is moved back, never forward.
    let long_over = 100 + 100 * i64::from(WINDOWS_LAST);
    assert_eq!(store.prune_budgets(at(long_over)).await.unwrap(), 0);
    assert_eq!(store.prune_budgets(at(long_over + 1)).await.unwrap(), 1);
    assert!(!store.settle(&ReservationId::new("one"), Vec::new()).await.unwrap());
    reserve("three", None).await;
    reserve("four", Some(1)).await;
    assert_eq!(store.prune_budgets(at(i64::MAX)).await.unwrap(), 0, "it never ends");
}

async fn a_clock_that_was_ahead_gives_nothing_back(store: &dyn Store) {
    const HOUR: i64 = 3_600_000;
    // An hour, a day, a month.
    for length in [HOUR, 24 * HOUR, 31 * 24 * HOUR] {
        let counter = format!("window-{length}");
        let spend = async |id: &str, since: i64| {
            let charge =
                Charge { since: at(since), until: Some(at(since + length)), ..charge(&counter, 10, 10) };
            store.reserve(&ReservationId::new(format!("{id}-{length}")), vec![charge]).await
        };
        spend("before", 0).await.unwrap();
        for jump in [1, 2, 24, 47] {
            // The next window is used and tidied up by a clock that is ahead.
            spend(&format!("ahead-{jump}"), jump * length).await.unwrap();
            store.prune_budgets(at((jump + 1) * length)).await.unwrap();
            let refused = exceeded(spend(&format!("set-back-{jump}"), 0).await);
            assert_eq!((refused.spent, refused.limit), (10, 10), "set back by {jump} windows of {length}");
        }
    }
    // Ends and beginnings that nobody meant stop no tidying.
    for (id, since, until) in [("odd", i64::MIN, i64::MIN), ("wide", i64::MIN, i64::MAX), ("turned", 5, -5)] {
        let charge = Charge { since: at(since), until: Some(at(until)), ..charge(id, 1, 10) };
        store.reserve(&ReservationId::new(id), vec![charge]).await.unwrap();
    }
    store.prune_budgets(at(i64::MAX)).await.unwrap();
    assert_eq!(spent(store).await.keys().collect::<Vec<_>>(), ["wide"]);
}

async fn a_reservation_is_bounded(store: &dyn Store) {
    let charges = |n: usize| (0..n).map(|n| charge(&format!("c{n}"), 1, 1)).collect();
    let id = ReservationId::new("one");
    assert!(matches!(store.reserve(&id, charges(MAX_CHARGES + 1)).await, Err(ReserveError::TooMany(65))));
    store.reserve(&id, charges(MAX_CHARGES)).await.unwrap();
    let most = Charge { amount: u64::MAX, limit: u64::MAX, ..charge("most", 0, 0) };
    for id in ["two", "three"] {
        store.reserve(&ReservationId::new(id), vec![most.clone()]).await.unwrap();
    }
    assert!(spent(store).await["most"].0 >= u64::MAX / 2, "amounts stop at the end of their range");
}

const LIMIT: u64 = 20;

#[derive(Clone, Debug)]
enum Act {
    Reserve(u8, Vec<(u8, u64)>),
    Settle(u8, Vec<(u8, u64)>),
}

fn act() -> impl Strategy<Value = Act> {
    let charges = || prop::collection::vec((0..3_u8, 0..12_u64), 1..4);
    prop_oneof![
        (0..4_u8, charges()).prop_map(|(id, charges)| Act::Reserve(id, charges)),
        (0..4_u8, charges()).prop_map(|(id, costs)| Act::Settle(id, costs)),
    ]
}

/// What the store is to count: per counter what is spent, and per reservation what it holds of each.
#[derive(Default)]
struct Model {
    spent: BTreeMap<u8, u64>,
    held: BTreeMap<u8, BTreeMap<u8, u64>>,
}

impl Model {
    fn give_back(&mut self, id: u8) -> BTreeMap<u8, u64> {
        let held = self.held.remove(&id).unwrap_or_default();
        for (counter, amount) in &held {
            *self.spent.entry(*counter).or_default() -= amount;
        }
        held
    }

    fn act(&mut self, act: &Act) -> bool {
        match act {
            Act::Reserve(id, charges) => {
                let own = self.held.get(id).cloned().unwrap_or_default();
                let mut sums = self.spent.clone();
                for (counter, amount) in &own {
                    *sums.entry(*counter).or_default() -= amount;
                }
                for (counter, amount) in charges {
                    let sum = sums.entry(*counter).or_default();
                    *sum += amount;
                    if *sum > LIMIT {
                        return false;
                    }
                }
                self.give_back(*id);
                for (counter, amount) in charges {
                    *self.held.entry(*id).or_default().entry(*counter).or_default() += amount;
                }
                self.spent = sums;
                true
            }
            Act::Settle(id, costs) => {
                let held = self.give_back(*id);
                for (counter, amount) in &held {
                    let cost = costs.iter().find(|(of, _)| of == counter).map_or(*amount, |(_, cost)| *cost);
                    *self.spent.entry(*counter).or_default() += cost;
                }
                !held.is_empty()
            }
        }
    }

    fn used(&self) -> BTreeMap<String, (u64, u64)> {
        let reserved = |counter: &u8| self.held.values().filter_map(|held| held.get(counter)).sum::<u64>();
        let used =
            self.spent.iter().map(|(counter, spent)| (counter.to_string(), (*spent, reserved(counter))));
        used.filter(|(_, used)| *used != (0, 0)).collect()
    }
}

async fn counts_as_the_model(store: &dyn Store, acts: &[Act]) -> Result<(), TestCaseError> {
    let (mut model, mut settled) = (Model::default(), false);
    for act in acts {
        let answer = match act {
            Act::Reserve(id, charges) => {
                let charges =
                    charges.iter().map(|(c, amount)| charge(&c.to_string(), *amount, LIMIT)).collect();
                store.reserve(&ReservationId::new(id.to_string()), charges).await.is_ok()
            }
            Act::Settle(id, costs) => {
                settled = true;
                let costs = costs.iter().map(|(c, cost)| (Text::from(c.to_string()), *cost)).collect();
                store.settle(&ReservationId::new(id.to_string()), costs).await.unwrap()
            }
        };
        prop_assert_eq!(answer, model.act(act));
        let mut used = spent(store).await;
        for (spent, reserved) in used.values() {
            prop_assert!(reserved <= spent);
            prop_assert!(settled || *spent <= LIMIT, "reservations alone never go over");
        }
        used.retain(|_, used| *used != (0, 0));
        prop_assert_eq!(used, model.used());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_form_counts_as_the_model(acts in prop::collection::vec(act(), 0..30)) {
        for form in [memory(), sqlite()] {
            block_on(counts_as_the_model(&*form.store, &acts))?;
        }
    }
}
