//! A map that forgets its oldest entries.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map of at most so many entries; the oldest go first.
#[derive(Clone, Debug)]
pub(super) struct Bounded<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<K>,
    most: usize,
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new(), most }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(super) fn forget(&mut self, key: &K) {
        if self.entries.remove(key).is_some() {
            self.order.retain(|known| known != key);
        }
    }

    /// Forgets the oldest entry.
    pub(super) fn forget_oldest(&mut self) -> Option<V> {
        let oldest = self.order.pop_front()?;
        self.entries.remove(&oldest)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values()
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.most {
            self.forget_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut map = Bounded::new(2);
        for key in [1, 2, 1, 3] {
            map.insert(key, key * 10);
        }
        assert_eq!((map.get(&1), map.get(&2), map.get(&3)), (None, Some(&20), Some(&30)));
        map.forget(&2);
        for key in [4, 2] {
            map.insert(key, key * 10);
        }
        assert_eq!((map.get(&3), map.get(&2), map.get(&4)), (None, Some(&20), Some(&40)));
    }
}
