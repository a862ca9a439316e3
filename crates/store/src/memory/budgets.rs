use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use backstop_hooks::Text;

use super::MemoryStore;
use crate::budgets::later;
use crate::{
    BudgetStore, BudgetUse, Charge, Exceeded, MAX_CHARGES, ReservationId, ReserveError, StoreError, Timestamp,
};

/// A counter in a window; the newest window is the last.
type Window = (Timestamp, Text);

/// All counters, and what is reserved of them.
#[derive(Default)]
pub(super) struct Ledger {
    windows: BTreeMap<Window, Spent>,
    reservations: HashMap<ReservationId, Vec<(Window, u64)>>,
}

#[derive(Clone, Copy)]
struct Spent {
    amount: u64,
    until: Option<Timestamp>,
}

impl Ledger {
    fn give_back(&mut self, id: &ReservationId) -> Vec<(Window, u64)> {
        let reserved = self.reservations.remove(id).unwrap_or_default();
        for (window, amount) in &reserved {
            if let Some(spent) = self.windows.get_mut(window) {
                spent.amount = spent.amount.saturating_sub(*amount);
            }
        }
        reserved
    }

    /// Checks whether there is room for all charges, once what `id` holds is given back.
    fn check(&self, id: &ReservationId, charges: &[Charge]) -> Result<(), Exceeded> {
        let mut seen: HashMap<Window, u64> = HashMap::new();
        for (place, charge) in charges.iter().enumerate() {
            let window = (charge.since, charge.counter.clone());
            let spent = seen.entry(window.clone()).or_insert_with(|| self.spent_by_others(id, &window));
            let (limit, amount) = (charge.limit, charge.amount);
            if spent.saturating_add(amount) > limit {
                return Err(Exceeded { charge: place, spent: *spent, amount, limit });
            }
            *spent = spent.saturating_add(amount);
        }
        Ok(())
    }

    fn spent_by_others(&self, id: &ReservationId, window: &Window) -> u64 {
        let spent = self.windows.get(window).map_or(0, |spent| spent.amount);
        let mut own = self.reservations.get(id).into_iter().flatten();
        spent.saturating_sub(own.find(|(of, _)| of == window).map_or(0, |(_, amount)| *amount))
    }

    fn charge(&mut self, id: &ReservationId, charge: Charge) {
        let window = (charge.since, charge.counter);
        let free = Spent { amount: 0, until: charge.until };
        let spent = self.windows.entry(window.clone()).or_insert(free);
        spent.until = later(spent.until, charge.until);
        spent.amount = spent.amount.saturating_add(charge.amount);
        let reserved = self.reservations.entry(id.clone()).or_default();
        match reserved.iter_mut().find(|(of, _)| *of == window) {
            Some((_, amount)) => *amount = amount.saturating_add(charge.amount),
            None => reserved.push((window, charge.amount)),
        }
    }

    fn reserved_of(&self, window: &Window) -> u64 {
        let all = self.reservations.values().flatten();
        all.filter(|(of, _)| of == window).fold(0, |sum, (_, amount)| sum.saturating_add(*amount))
    }
}

#[async_trait]
impl BudgetStore for MemoryStore {
    async fn reserve(&self, id: &ReservationId, charges: Vec<Charge>) -> Result<(), ReserveError> {
        if charges.len() > MAX_CHARGES {
            return Err(ReserveError::TooMany(charges.len()));
        }
        let ledger = &mut self.state().budgets;
        ledger.check(id, &charges).map_err(ReserveError::Exceeded)?;
        ledger.give_back(id);
        charges.into_iter().for_each(|charge| ledger.charge(id, charge));
        Ok(())
    }

    async fn settle(&self, id: &ReservationId, costs: Vec<(Text, u64)>) -> Result<bool, StoreError> {
        let ledger = &mut self.state().budgets;
        let reserved = ledger.give_back(id);
        for (window, amount) in &reserved {
            let cost =
                costs.iter().find(|(counter, _)| *counter == window.1).map_or(*amount, |(_, cost)| *cost);
            if let Some(spent) = ledger.windows.get_mut(window) {
                spent.amount = spent.amount.saturating_add(cost);
            }
        }
        Ok(!reserved.is_empty())
    }

    async fn budgets(&self, limit: usize) -> Result<Vec<BudgetUse>, StoreError> {
        let ledger = &self.state().budgets;
        let newest = ledger.windows.iter().rev().take(limit);
        let uses = newest.map(|(window, spent)| BudgetUse {
            counter: window.1.clone(),
            since: window.0,
            until: spent.until,
            spent: spent.amount,
            reserved: ledger.reserved_of(window),
        });
        Ok(uses.collect())
    }

    async fn prune_budgets(&self, before: Timestamp) -> Result<usize, StoreError> {
        let ledger = &mut self.state().budgets;
        let had = ledger.windows.len();
        ledger.windows.retain(|_, spent| spent.until.is_none_or(|until| until >= before));
        let windows = &ledger.windows;
        ledger.reservations.retain(|_, reserved| {
            reserved.retain(|(window, _)| windows.contains_key(window));
            !reserved.is_empty()
        });
        Ok(had - windows.len())
    }
}
