//! Whether a pattern can match a name of which only the beginning is known.
//!
//! A provider's connector offers all tools of a server without naming them. All that is known of their names is that they begin
//! with `mcp__<server>__`. A rule that applies to one of them must apply to the connector, so [`Beginnings`] answers
//! whether the pattern matches any text with that beginning. It may say yes for a pattern that matches none, because it
//! assumes that line anchors and word boundaries match. It never says no for a pattern that matches one.

use std::collections::BTreeSet;
use std::fmt;

use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

/// A pattern, ready to be asked about beginnings.
#[derive(Clone)]
pub struct Beginnings(Option<NFA>);

impl fmt::Debug for Beginnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Beginnings")
    }
}

impl Beginnings {
    /// Those of a regular expression. One that can't be compiled counts as matching everything.
    pub fn of(expression: &str) -> Self {
        let utf8 = regex_automata::util::syntax::Config::new().utf8(false);
        Self(NFA::compiler().syntax(utf8).build(expression).ok())
    }

    /// Returns whether the expression finds something in a text that begins with `beginning`.
    pub fn may_match(&self, beginning: &str) -> bool {
        let Some(nfa) = &self.0 else { return true };
        let bytes = beginning.as_bytes();
        let mut at = Reached::from([nfa.start_unanchored()], nfa, 0, bytes.len());
        for (place, byte) in bytes.iter().enumerate() {
            if at.has_match {
                return true;
            }
            let next = at.states.iter().flat_map(|state| after(nfa.state(*state), Some(*byte)));
            at = Reached::from(next, nfa, place + 1, bytes.len());
        }
        // Behind the beginning any text may stand.
        let mut seen = BTreeSet::new();
        while !at.has_match {
            let new: Vec<StateID> = at.states.into_iter().filter(|state| seen.insert(*state)).collect();
            if new.is_empty() {
                return false;
            }
            let next = new.iter().flat_map(|state| after(nfa.state(*state), None));
            at = Reached::from(next, nfa, bytes.len() + 1, bytes.len());
        }
        true
    }
}

/// The states that are reached without reading anything more.
struct Reached {
    states: BTreeSet<StateID>,
    has_match: bool,
}

impl Reached {
    fn from(states: impl IntoIterator<Item = StateID>, nfa: &NFA, place: usize, known: usize) -> Self {
        let mut reached = Self { states: BTreeSet::new(), has_match: false };
        let mut open: Vec<StateID> = states.into_iter().collect();
        while let Some(id) = open.pop() {
            if !reached.states.insert(id) {
                continue;
            }
            match nfa.state(id) {
                State::Union { alternates } => open.extend(alternates.iter().copied()),
                State::BinaryUnion { alt1, alt2 } => open.extend([*alt1, *alt2]),
                State::Capture { next, .. } => open.push(*next),
                State::Look { look, next } => {
                    let is_met = match look {
                        Look::Start => place == 0,
                        // The text may end with its beginning, or anywhere behind it.
                        Look::End => place >= known,
                        _ => true,
                    };
                    open.extend(is_met.then_some(*next));
                }
                State::Match { .. } => reached.has_match = true,
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Fail => {}
            }
        }
        reached
    }
}

/// Returns the states behind a byte, or behind any.
fn after(state: &State, byte: Option<u8>) -> Vec<StateID> {
    match (state, byte) {
        (State::ByteRange { trans }, Some(byte)) => {
            trans.matches_byte(byte).then_some(trans.next).into_iter().collect()
        }
        (State::ByteRange { trans }, None) => vec![trans.next],
        (State::Sparse(sparse), Some(byte)) => sparse.matches_byte(byte).into_iter().collect(),
        (State::Sparse(sparse), None) => sparse.transitions.iter().map(|trans| trans.next).collect(),
        (State::Dense(dense), Some(byte)) => dense.matches_byte(byte).into_iter().collect(),
        (State::Dense(dense), None) => dense.transitions.to_vec(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    #[test]
    fn only_what_some_name_with_the_beginning_has_is_found() {
        for (expression, beginning, may) in [
            ("drop", "mcp__shop__", true),
            ("^mcp__shop__drop_all$", "mcp__shop__", true),
            ("^mcp__(shop|store)__", "mcp__shop__", true),
            ("^mcp__shop$", "mcp__shop__", false),
            ("^mcp__other__", "mcp__shop__", false),
            ("^Bash$", "mcp__shop__", false),
            ("(?i)^MCP__SHOP__X", "mcp__shop__", true),
            ("^.{3}$", "mcp__shop__", false),
            ("^.{13}$", "mcp__shop__", true),
            ("shop", "mcp__shop__", true),
            ("^$", "", true),
            ("^$", "a", false),
            ("[0-9]$", "a", true),
            ("\\bdrop\\b", "mcp__", true),
        ] {
            assert_eq!(Beginnings::of(expression).may_match(beginning), may, "{expression} {beginning}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_that_matches_a_name_may_match_each_beginning_of_it(
            expression in "(\\^)?[ab_.]{1,3}[*+?]?([ab]|\\[ab\\]|\\(a\\|b_\\)|\\[\\^a\\])?(\\$)?",
            name in "[ab_]{0,8}",
            at in 0..9_usize,
        ) {
            let is_match = Regex::new(&expression).unwrap().is_match(&name);
            let beginning = name.get(..at.min(name.len())).unwrap();
            prop_assert!(!is_match || Beginnings::of(&expression).may_match(beginning));
        }
    }
}
