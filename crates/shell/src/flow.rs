//! Loops, branches, and the ways out of them.
//!
//! A branch that can't be decided is both taken and not taken, and the resulting states are joined. A loop is walked until
//! its rounds find nothing new: over known words once for each word, otherwise a few times as written, and then with
//! everything that its rounds change assumed unknown. What leaves a loop or a function early is joined with what reaches
//! its end.

use brush_parser::ast;

use super::data::{Data, Taint};
use super::forever::{always, ends_itself, is_written_out};
use super::limits::{self, Bounded, Over};
use super::pattern;
use super::respell;
use super::state::{Shared, Value};
use super::trace::Fact;
use super::walk::Shell;
use super::word::{HOLE, has_hole};
use crate::programs::Does;

/// Rounds of a loop that are walked as they stand, before what changes in them is taken for unknown.
const ROUNDS: usize = 3;

/// A loop or function that commands may leave.
#[derive(Default)]
pub(crate) struct Block {
    /// Functions are left by `return`, loops by `break` and `continue`.
    is_loop: bool,
    /// The state in which it was left.
    left: Option<Shared>,
    /// The state in which a round was ended early.
    again: Option<Shared>,
}

/// What decides about another round.
#[derive(Clone, Copy)]
pub(crate) enum Turn<'a> {
    /// A list, and the status with which the loop goes on.
    While(&'a ast::CompoundList, bool),
    /// Arithmetic: the condition, and what follows each round.
    Count(Option<&'a str>, Option<&'a str>),
}

fn is_endless(turn: Turn<'_>) -> bool {
    match turn {
        Turn::While(..) => true,
        Turn::Count(condition, _) => condition.is_none_or(|text| matches!(text.trim(), "" | "1")),
    }
}

/// Returns whether no round is the last one, by what is written.
fn never_ends(turn: Turn<'_>) -> bool {
    match turn {
        Turn::While(condition, goes_on) => always(condition, goes_on),
        Turn::Count(..) => is_endless(turn),
    }
}

/// Returns whether no variable has a say in another round: all words of the condition are written out.
fn asks_outside(turn: Turn<'_>) -> bool {
    matches!(turn, Turn::While(condition, _) if is_written_out(condition))
}

/// Joins a state into one that may be there.
pub(crate) fn joined(into: &mut Option<Shared>, state: Shared) {
    match into {
        Some(known) => known.join(state),
        None => *into = Some(state),
    }
}

impl Shell<'_> {
    /// `break`, `continue`, `return`: what is known now is known behind the block, or in its next round.
    pub(crate) fn leave_block(&mut self, name: &str) {
        let state = self.state.clone();
        let of_loops = name != "return";
        for block in self.blocks.iter_mut().rev().filter(|block| block.is_loop == of_loops) {
            joined(if name == "continue" { &mut block.again } else { &mut block.left }, state.clone());
        }
    }

    /// Does `work` inside a function; the states in which it is left are joined.
    pub(crate) fn in_function<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.blocks.push(Block::default());
        let result = work(self);
        self.leave_blocks();
        result
    }

    fn enter_loop(&mut self) {
        self.blocks.push(Block { is_loop: true, ..Block::default() });
    }

    fn leave_blocks(&mut self) {
        if let Some(left) = self.blocks.pop().and_then(|block| block.left) {
            self.state.join(left);
        }
    }

    /// What `continue` left joins the state in which the next round begins.
    fn next_round(&mut self) {
        if let Some(again) = self.blocks.last_mut().and_then(|block| block.again.take()) {
            self.state.join(again);
        }
    }

    pub(super) fn run_for(&mut self, clause: &ast::ForClauseCommand, stdin: &Data) -> Data {
        let mut values: Vec<String> = Vec::new();
        match &clause.values {
            Some(words) => {
                for word in words {
                    values.extend(self.fields(&word.value));
                }
            }
            None => {
                self.settle_positional();
                values.extend(self.state.positional.iter().cloned());
            }
        }
        if values.is_empty() && self.partly.is_some() {
            // What is not known in the body may end the loop, and go on behind it.
            values.push(HOLE.to_string());
        }
        let mut output = Data::empty();
        let taint = self.word_taint;
        // Words that are not known may be none, or many; and whoever is asked to choose may say nothing.
        let chosen =
            clause.values.iter().flatten().next().is_some_and(|word| word.value == respell::NONE_CHOSEN);
        let open = chosen || values.iter().any(|value| super::word::is_open(value));
        let before = open.then(|| self.state.clone());
        let (values, over) = Bounded::of(&limits::ROUNDS, values).into_parts();
        self.enter_loop();
        for value in values {
            let again = super::word::is_open(&value);
            self.state.assign(&clause.variable_name, Value::Text(value));
            self.state.mark(&clause.variable_name, taint);
            let known = self.state.clone();
            output.then(&self.run_list(&clause.body.list, stdin).0);
            self.next_round();
            if again && !self.state.looks_like(&known) {
                self.state.join(known.clone());
                self.state.widen(&known);
                self.state.assign(&clause.variable_name, Value::Text(HOLE.into()));
                output.then(&self.run_list(&clause.body.list, stdin).0);
                self.next_round();
            }
        }
        if over != Over::NOTHING {
            self.trace.note(over);
            self.state.assign(&clause.variable_name, Value::Text(HOLE.into()));
            output.then(&self.run_list(&clause.body.list, stdin).0);
            self.next_round();
        }
        self.leave_blocks();
        if let Some(before) = before {
            self.state.join(before);
        }
        output
    }

    pub(super) fn run_counted(&mut self, clause: &ast::ArithmeticForClauseCommand, stdin: &Data) -> Data {
        let parts = [&clause.initializer, &clause.condition, &clause.updater];
        if parts.into_iter().flatten().any(|part| has_hole(&part.value)) {
            self.note_partly();
        }
        if let Some(initializer) = &clause.initializer {
            self.arithmetic(&initializer.value);
        }
        let condition = clause.condition.as_ref().map(|condition| condition.value.as_str());
        let step = clause.updater.as_ref().map(|updater| updater.value.as_str());
        self.run_loop(Turn::Count(condition, step), &clause.body.list, stdin)
    }

    /// Walks a loop; see the module for how often.
    pub(super) fn run_loop(&mut self, turn: Turn<'_>, body: &ast::CompoundList, stdin: &Data) -> Data {
        let mut exits: Option<Shared> = None;
        let mut output = Data::empty();
        let pending = std::mem::take(&mut self.pending);
        let mut rounds = 0;
        let mut still = 0;
        let fed = stdin.taint.has(Taint::ENDLESS);
        let unending = is_endless(turn) && !ends_itself(body);
        let mut busy = is_endless(turn) || fed;
        let (rests, started) = (self.rests, self.trace.processes.len());
        self.enter_loop();
        loop {
            let begin = self.state.clone();
            // What is not known in the body may end the loop, and go on behind it.
            let goes_on = self.turn(turn, stdin).filter(|goes_on| *goes_on || self.partly.is_none());
            busy &= goes_on == Some(true) || goes_on.is_none() && fed;
            if goes_on != Some(true) {
                joined(&mut exits, self.state.clone());
            }
            if goes_on == Some(false) || !self.step() {
                break;
            }
            if rounds >= limits::ROUNDS.most {
                self.trace.note(Over::of(&limits::ROUNDS));
                break;
            }
            output.then(&self.run_list(body, stdin).0);
            let reads_on = self.state.cursors != begin.cursors;
            // What only asks about the world outside, and does nothing but start jobs meanwhile.
            let idles = goes_on.is_none()
                && matches!(turn, Turn::While(..))
                && !reads_on
                && self.rests == rests
                && (self.state.is(&begin) || asks_outside(turn))
                && self.ended_at_once(started);
            let stays = goes_on == Some(true) && !reads_on || idles || never_ends(turn);
            if unending && self.pending > 0 && (stays || fed && goes_on != Some(false)) {
                self.trace.facts.push(Fact::ForkBomb);
            }
            self.next_round();
            if let Turn::Count(_, Some(step)) = turn {
                self.arithmetic(step);
            }
            rounds += 1;
            if self.state.looks_like(&begin) && !reads_on {
                break;
            }
            still += usize::from(!reads_on);
            if still >= ROUNDS {
                self.state.widen(&begin);
            }
            if still > 2 * ROUNDS {
                break;
            }
        }
        if busy && rounds > 0 && self.rests == rests && self.ended_at_once(started) {
            self.trace.facts.push(Fact::Endless);
        }
        // What a loop leaves behind that nothing ends is seen by what follows all the same.
        joined(&mut exits, self.state.clone());
        if let Some(exits) = exits {
            self.state = exits;
        }
        self.leave_blocks();
        self.pending += pending;
        // How often the body ran, and so what it printed, is not known; where it came from is.
        let endless = if unending && never_ends(turn) { Taint::ENDLESS } else { Taint::NONE };
        if output.is_empty() { output } else { Data::unknown(output.taint | endless) }
    }

    /// Returns whether all that was started since then, and waited for, is known to end at once.
    fn ended_at_once(&self, started: usize) -> bool {
        let processes = self.trace.processes.iter().enumerate().skip(started);
        let is_job = |at: usize| self.jobs.iter().rev().any(|job| job.contains(&at));
        processes
            .filter(|(at, _)| !is_job(*at))
            .all(|(_, process)| self.programs.does(&process.program(), Does::EndsAtOnce))
    }

    /// Returns whether there is another round, where that is known.
    fn turn(&mut self, turn: Turn<'_>, stdin: &Data) -> Option<bool> {
        match turn {
            Turn::While(condition, goes_on) => {
                self.run_list(condition, stdin).1.map(|status| status == goes_on)
            }
            Turn::Count(condition, _) => match condition.map(str::trim) {
                None | Some("") => Some(true),
                Some(condition) => self.arithmetic(condition).map(|value| value != 0),
            },
        }
    }

    pub(super) fn run_if(&mut self, clause: &ast::IfClauseCommand, stdin: &Data) -> Data {
        let (mut output, _) = self.run_list(&clause.condition, stdin);
        let before = self.state.clone();
        let mut printed = self.run_list(&clause.then, stdin).0;
        let mut joined = std::mem::replace(&mut self.state, before);
        let mut has_else = false;
        for clause in clause.elses.iter().flatten() {
            if let Some(condition) = &clause.condition {
                output.then(&self.run_list(condition, stdin).0);
            } else {
                has_else = true;
            }
            let before = self.state.clone();
            printed.or(&self.run_list(&clause.body, stdin).0);
            joined.join(std::mem::replace(&mut self.state, before));
        }
        if !has_else {
            joined.join(self.state.clone());
            printed.or(&Data::empty());
        }
        self.state = joined;
        output.then(&printed);
        output
    }

    pub(super) fn run_case(&mut self, clause: &ast::CaseClauseCommand, stdin: &Data) -> Data {
        let value = self.single(&clause.value.value);
        let known = !has_hole(&value) && self.partly.is_none();
        let mut output = Data::empty();
        let mut falls_through = false;
        for case in &clause.cases {
            if case.patterns.iter().any(|word| has_hole(&word.value)) {
                self.note_partly();
            }
            let hit = falls_through
                || !known
                || case.patterns.iter().any(|word| {
                    let pattern = self.inner_pattern(&word.value);
                    pattern::matches(&pattern, &value)
                });
            if !hit {
                continue;
            }
            let before = self.state.clone();
            let mut printed = Data::empty();
            if let Some(list) = &case.cmd {
                printed = self.run_list(list, stdin).0;
            }
            if !known {
                self.state.join(before);
                printed.or(&Data::empty());
            }
            output.then(&printed);
            match case.post_action {
                ast::CaseItemPostAction::ExitCase if known => break,
                ast::CaseItemPostAction::UnconditionallyExecuteNextCaseItem => falls_through = true,
                _ => falls_through = false,
            }
        }
        output
    }

    pub(super) fn run_test(&mut self, expr: &ast::ExtendedTestExpr) {
        use ast::ExtendedTestExpr as T;
        match expr {
            T::And(left, right) | T::Or(left, right) => {
                self.run_test(left);
                self.run_test(right);
            }
            T::Not(inner) | T::Parenthesized(inner) => self.run_test(inner),
            T::UnaryTest(_, word) => {
                let word = self.single(&word.value);
                self.expand_subscript(&word);
            }
            T::BinaryTest(operator, left, right) => {
                let words = [&left.value, &right.value].map(|word| self.single(word));
                if operator.to_string().starts_with('-') {
                    for word in words {
                        self.expand_subscript(&word);
                        self.expand_value_of(&word);
                    }
                }
            }
        }
    }

    /// Runs what a shell was told to run when it ends.
    pub(crate) fn say_farewell(&mut self) {
        self.go_on();
        if self.state.prompted {
            self.state.prompted = false;
            self.expand_set_prompts();
        }
        let farewells = self.state.farewells.clone();
        if !farewells.is_empty() {
            self.state.farewells.clear();
        }
        for text in farewells {
            self.each_way(|shell| {
                (shell.run_here(&Data::text(&text), None, "trap", &Data::session_input()), None)
            });
        }
    }
}
