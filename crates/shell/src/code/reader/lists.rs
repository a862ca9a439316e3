//! Lists in code: what they contain, what is appended, what is taken out of a value, and where a list is unpacked
//! into its items.

use super::super::calls::{Call, last_of};
use super::super::language::Does;
use super::super::tokens::Token;
use super::super::values::{self, Value};
use super::{Frame, Reader};
use crate::limits::{self, Over};

impl Reader<'_> {
    /// `a << b`, where `a` is a list: the value that follows is one more of its items.
    pub(super) fn appends_to_list(&mut self, tokens: &[Token], at: usize) -> bool {
        let [Some(Token::Mark('<')), Some(Token::Text(text))] = [tokens.get(at), tokens.get(at + 1)] else {
            return false;
        };
        let Some(Token::Name(name)) = at.checked_sub(2).and_then(|before| tokens.get(before)) else {
            return false;
        };
        let added = Value::text(text.body.clone());
        self.append(name, vec![added])
    }

    /// Puts items behind those of the list that a name stands for; false if that is none.
    pub(super) fn append(&mut self, name: &str, added: Vec<Value>) -> bool {
        let Some(list) = self.vars.get_mut(name).filter(|list| !list.items.is_empty()) else { return false };
        if list.items.len() + added.len() > limits::CALLS.most {
            self.found.over = Over::of(&limits::CALLS);
            return true;
        }
        let unsure = added.iter().any(Value::is_unsure);
        list.bounded &= !unsure;
        list.items.extend(added);
        true
    }

    /// `[` behind a name that takes something out of it.
    pub(super) fn open_index(&mut self, name: &str) {
        let whole = match name.starts_with('.') && self.top().value.is_some() {
            true => {
                self.member(name);
                self.top().value.take()
            }
            // What is taken out of all that has a name is looked up by that.
            false if self.does(name).contains(&Does::Looks) => Some(Value::named(name)),
            false => Some(self.lookup(name)),
        };
        self.frames.push(Frame { is_index: true, receiver: whole, ..Frame::default() });
    }

    /// `$ENV{NAME}`.
    pub(super) fn environment(&mut self, tokens: &[Token], at: &mut usize) {
        let behind = [tokens.get(*at + 1), tokens.get(*at + 2)];
        if let [Some(Token::Name(key)), Some(Token::Mark('}'))] = behind {
            let value = values::value_of_variable(key, self.home);
            self.top().add(value);
            *at += 3;
        }
    }

    /// Returns whether `[` behind a name takes something out of it.
    pub(super) fn takes_out(&self, name: &str) -> bool {
        let has_indices = matches!(self.language.name.as_str(), "python" | "javascript" | "php" | "perl");
        has_indices || self.vars.contains_key(name) || values::is_environment(name)
    }

    /// `[` begins a list, or takes something out of the value in front of it.
    pub(super) fn open_list(&mut self, before: Option<&Token>) {
        let has_room = self.frames.len() < limits::CALLS.most;
        if matches!(before, Some(Token::Mark(')' | ']'))) && self.takes_out("") && has_room {
            let whole = self.top().value.take_if(|value| value.function().is_some() || value.is_known());
            let whole = whole.map(|value| if value.is_known() { Value::within() } else { value });
            return self.frames.push(Frame { is_index: true, receiver: whole, ..Frame::default() });
        }
        let top = self.top();
        if top.joins && top.lists == 0 {
            // Lists that are added make one.
            top.comma();
        }
        let behind = top.args.len() + usize::from(top.value.is_some());
        top.lists += 1;
        top.list_at = Some(behind);
    }

    pub(super) fn close_list(&mut self) {
        if self.frames.last().is_some_and(|frame| frame.is_index) {
            let frame = self.frames.pop();
            return frame.into_iter().for_each(|frame| self.take_out(frame));
        }
        let top = self.top();
        top.lists = top.lists.saturating_sub(1);
        let Some(start) = top.list_at.take() else { return };
        let items = top.args.iter().skip(start).chain(&top.value);
        let words: Vec<String> = items.map(|item| item.text.clone()).collect();
        if words.len() > 1 {
            self.lists.push(words);
        }
    }

    /// What stands in brackets behind a value: an item of a list, a variable of the environment, a member of a module.
    pub(super) fn take_out(&mut self, mut frame: Frame) {
        frame.comma();
        let Some(value) = frame.receiver else { return };
        let key = match frame.args.as_slice() {
            [key] => Some(key),
            _ => None,
        };
        let taken = match (value.function(), key) {
            (Some(name), key) if values::is_environment(name) => {
                let known = key.filter(|key| key.is_known());
                known.map_or_else(Value::hole, |key| values::value_of_variable(&key.text, self.home))
            }
            (Some(name), Some(key)) if key.is_known() => Value::named(&format!("{name}.{}", key.text)),
            (Some(name), Some(key)) if !key.bounded && !self.bounded.has(name) => {
                Value::named(&format!("{name}.{}", crate::marks::HOLE))
            }
            _ => {
                let bounded = !value.is_unsure();
                Value { bounded, filed: value.filed, ..Value { taint: value.taint, ..Value::hole() } }
            }
        };
        self.top().add(taken);
    }

    /// What runs by a name that is bound is one of the texts and lists of the code.
    pub(super) fn hand_over(&mut self) {
        let runs_bound = self.found.calls.iter().any(|call| matches!(call, Call::Carrier(_)));
        if !runs_bound {
            return;
        }
        let texts = std::mem::take(&mut self.handed).into_iter().map(Call::Shell);
        let lists = std::mem::take(&mut self.lists).into_iter();
        let lists = lists.map(|argv| Call::Vector { argv, input: None });
        let more: Vec<Call> = texts.chain(lists).collect();
        self.found.calls.extend(more);
    }

    /// Adds a value; of a list, each item.
    pub(super) fn put(&mut self, mut value: Value) {
        let items = std::mem::take(&mut value.items);
        if items.is_empty() {
            return self.top().add(value);
        }
        self.copied += items.iter().map(|item| item.text.len() + 16).sum::<usize>();
        if self.copied > limits::COPIES.most {
            self.found.over = Over::of(&limits::COPIES);
            return self.top().add(Value::hole());
        }
        self.top().comma();
        for item in items {
            self.top().comma();
            self.top().add(Value { listed: true, ..item });
        }
    }

    /// What belongs to the value in front: a method that is called without parentheses, or something of it.
    pub(super) fn member(&mut self, name: &str) {
        let does = self.does(name);
        let is_call = self.language.name == "ruby" && !does.is_empty();
        let climbs = does.contains(&Does::Climbs);
        let Some(value) = self.top().value.take() else { return };
        if is_call {
            self.frames.push(Frame::new(name.to_owned(), Some(value), false));
            return self.close();
        }
        let member = match value.function() {
            _ if climbs => value.climbed(),
            Some(module) => Value::named(&format!("{module}{name}")),
            None => {
                let bounded = !value.is_unsure();
                Value { bounded, filed: value.filed, ..Value { taint: value.taint, ..Value::hole() } }
            }
        };
        self.top().value = Some(member);
    }

    /// `a.append("x")`, `push @a, "x"`.
    pub(super) fn append_by_call(&mut self, name: &str, args: &[Value]) {
        let last = last_of(name);
        if !matches!(last, "append" | "extend" | "push" | "insert" | "unshift" | "concat" | "add") {
            return;
        }
        let added = args.to_vec();
        if let Some((list, _)) = name.rsplit_once('.') {
            self.append(list.trim_start_matches(['$', '@']), added);
        }
    }

    /// Takes down what a function of the code is given.
    pub(super) fn hand(&mut self, args: &[Value]) {
        for text in args.iter().filter(|value| value.is_known() && value.text.contains(' ')) {
            self.handed.push(text.text.clone());
        }
    }

    /// `:name`, which is a text of Ruby.
    pub(super) fn is_symbol(&self, tokens: &[Token], at: usize) -> bool {
        let is_alone = !matches!(
            at.checked_sub(2).and_then(|before| tokens.get(before)),
            Some(Token::Name(_) | Token::Text(_) | Token::Mark('?'))
        );
        let is_called = matches!(tokens.get(at + 1), Some(Token::Mark('(')));
        self.language.name == "ruby"
            && is_alone
            && !is_called
            && matches!(tokens.get(at), Some(Token::Name(_)))
    }
}
