//! Walks one command in each possible way: a decision that can't be made is made every way, one after another.
//!
//! A variable with several possible values, a function that two branches define, and a word that may be absent are each a
//! decision while a command is walked. Afterwards the command is walked again with the next combination of decisions, from
//! the state in which it began, until all were taken, and the resulting states are joined. If a command has more ways
//! than are walked, it is walked a last time with everything undecided left open, which stands for all the others.

use std::rc::Rc;

use super::data::Data;
use super::state::{Shared, Value};
use super::walk::Shell;
use super::word::HOLE;
use crate::variables;

/// Ways that one command is walked before the rest is left open.
const MOST: usize = 12;

/// The decisions taken in the command that is being walked.
#[derive(Default)]
pub(crate) struct Ways {
    /// What was decided, and among how many.
    taken: Vec<(usize, usize)>,
    /// How many of these were met again in this walk.
    met: usize,
    /// The state before anything was decided.
    start: Option<Shared>,
    /// Nothing is decided any more.
    open: bool,
}

impl Ways {
    /// Moves on to the next way; false when there is none.
    fn advance(&mut self, walked: usize) -> bool {
        self.met = 0;
        while let Some((decided, among)) = self.taken.pop() {
            if decided + 1 < among {
                self.taken.push((decided + 1, among));
                break;
            }
        }
        if self.taken.is_empty() || self.open {
            return false;
        }
        if walked >= MOST {
            self.taken.clear();
            self.open = true;
        }
        true
    }
}

impl Shell<'_> {
    /// Does `work` each way it can go; the answer is what all of them print, and the status they agree on.
    pub(crate) fn each_way(
        &mut self,
        mut work: impl FnMut(&mut Self) -> (Data, Option<bool>),
    ) -> (Data, Option<bool>) {
        let outer = std::mem::take(&mut self.ways);
        let pending = self.pending;
        let (mut output, mut status) = work(self);
        let mut walked = 1;
        if let Some(start) = self.ways.start.clone() {
            while self.ways.advance(walked) {
                let most = std::mem::replace(&mut self.pending, pending);
                let ended = std::mem::replace(&mut self.state, start.clone());
                let (data, known) = work(self);
                self.state.join(ended);
                self.pending = self.pending.max(most);
                output.or(&data);
                status = if status == known { status } else { None };
                walked += 1;
            }
        }
        self.ways = outer;
        (output, status)
    }

    /// Keeps the state to come back to, before something in it changes for good.
    pub(crate) fn remember_start(&mut self) {
        if self.ways.start.is_none() {
            self.ways.start = Some(self.state.clone());
        }
    }

    /// Decides among `count` possibilities; `None` leaves it open.
    pub(crate) fn decide(&mut self, count: usize) -> Option<usize> {
        if count <= 1 {
            return Some(0);
        }
        self.remember_start();
        if self.ways.open {
            return None;
        }
        let decided = match self.ways.taken.get(self.ways.met) {
            Some((decided, _)) => *decided,
            None => {
                self.ways.taken.push((0, count));
                0
            }
        };
        self.ways.met += 1;
        Some(decided)
    }

    /// Decides whether something is so; `None` leaves it open.
    pub(crate) fn decide_whether(&mut self) -> Option<bool> {
        self.decide(2).map(|way| way == 0)
    }

    /// Decides which of its values a variable has.
    pub(crate) fn settle(&mut self, name: &str) {
        let values: Rc<[Value]> = match self.state.raw(name) {
            Some(Value::OneOf(values)) => values.clone(),
            // A folder of settings is where it stands, unless somebody moved it or it is not set at all.
            None => match variables::usual_folder(name) {
                Some(folder) => {
                    [Value::Text(format!("{}{folder}", self.place.home())), Value::Outside].into()
                }
                None => return,
            },
            Some(_) => return,
        };
        let value = self.decide(values.len()).and_then(|way| values.get(way).cloned());
        self.state.narrow(name, value.unwrap_or_else(|| Value::Text(HOLE.to_string())));
    }

    /// Decides which working directory it is.
    pub(crate) fn settle_place(&mut self) {
        let places = self.state.places();
        if places.is_empty() {
            return;
        }
        let way = self.decide(places.len());
        self.state.stand_in(way.and_then(|way| places.into_iter().nth(way)).flatten());
    }

    /// Decides which list the positional parameters are.
    pub(crate) fn settle_positional(&mut self) {
        if self.state.positionals.is_empty() {
            return;
        }
        let lists = self.state.positionals.clone();
        let way = self.decide(lists.len() + 1);
        self.state.positionals.clear();
        self.state.positional = match way {
            Some(0) => return,
            Some(way) => lists.get(way - 1).cloned().unwrap_or_default(),
            None => vec![HOLE.to_string()],
        };
    }

    /// Returns the text for use inside a word: one of those it may be.
    pub(crate) fn settled(&mut self, data: &Data) -> String {
        let texts = data.possible();
        match self.decide(texts.len()) {
            Some(way) => texts.into_iter().nth(way).unwrap_or_default(),
            None => HOLE.to_string(),
        }
    }
}
