//! Parameter expansion: `$x`, `${x:-y}`, `${x%%p}`, `${x//a/b}`, `${x:1:2}`, `${!x}`, `${x@Q}` …

use brush_parser::word::{Parameter, ParameterExpr as Expr, ParameterTestType as Test, SpecialParameter};
use brush_parser::word::{ParameterTransformOp as Transform, SubstringMatchKind as Match};

use super::arith;
use super::dialect::Dialect;
use super::pattern::{self, End};
use super::respell::TOGGLES;
use super::simple::{element_of, keyed};
use super::state::Value;
use super::walk::Shell;
use super::word::{GAP, HOLE, NOT_EMPTY, has_hole, is_open, unglob};

/// What a parameter expands to.
pub(crate) enum Expanded {
    One(String),
    /// A word as it is written, to be expanded where it stands.
    Written(String),
    /// A list; `joined` is the form with `*`.
    Many {
        list: Vec<String>,
        joined: bool,
    },
}

impl Expanded {
    fn hole() -> Self {
        Self::One(HOLE.to_string())
    }

    fn map(self, mut change: impl FnMut(&str) -> String) -> Self {
        match self {
            Self::One(text) | Self::Written(text) => Self::One(change(&text)),
            Self::Many { list, joined } => {
                Self::Many { list: list.iter().map(|text| change(text)).collect(), joined }
            }
        }
    }
}

impl Shell<'_> {
    /// Expands one parameter expression.
    pub(crate) fn parameter(&mut self, expr: &Expr) -> Expanded {
        match expr {
            Expr::Parameter { parameter, indirect } => self.read(parameter, *indirect).0,
            Expr::UseDefaultValues { parameter, indirect, test_type, default_value } => {
                let (value, set) = self.read(parameter, *indirect);
                self.alternative(value, set, test_type, default_value.as_deref()).0
            }
            Expr::AssignDefaultValues { parameter, indirect, test_type, default_value } => {
                let (value, set) = self.read(parameter, *indirect);
                match self.alternative(value, set, test_type, default_value.as_deref()) {
                    (Expanded::Written(word), _) => {
                        self.remember_start();
                        let text = self.inner_word(&word);
                        if let Parameter::Named(name) = parameter {
                            self.state.assign(name, Value::Text(text.clone()));
                        }
                        Expanded::One(text)
                    }
                    (value, _) => value,
                }
            }
            Expr::IndicateErrorIfNullOrUnset { parameter, indirect, .. } => {
                self.read(parameter, *indirect).0.map(|text| {
                    if text.chars().all(|c| c == HOLE) { NOT_EMPTY.to_owned() } else { text.to_owned() }
                })
            }
            Expr::UseAlternativeValue { parameter, indirect, test_type, alternative_value } => {
                let (value, set) = self.untold(parameter, *indirect);
                let null = is_empty(&value) && matches!(test_type, Test::UnsetOrNull);
                let open =
                    set.is_none() || !null && matches!(test_type, Test::UnsetOrNull) && may_be_empty(&value);
                if set == Some(false) || null {
                    return Expanded::One(String::new());
                }
                match if open { self.decide_whether() } else { Some(true) } {
                    Some(true) => Expanded::Written(alternative_value.clone().unwrap_or_default()),
                    Some(false) => Expanded::One(String::new()),
                    None => Expanded::hole(),
                }
            }
            Expr::ParameterLength { parameter, indirect } => match self.untold(parameter, *indirect).0 {
                Expanded::One(text) if !has_hole(&text) => Expanded::One(text.chars().count().to_string()),
                Expanded::Many { list, .. } if !list.iter().any(|item| is_open(item)) => {
                    Expanded::One(list.len().to_string())
                }
                _ => Expanded::hole(),
            },
            Expr::RemoveSmallestSuffixPattern { parameter, indirect, pattern } => {
                self.removed(parameter, *indirect, pattern.as_deref(), End::Suffix, false)
            }
            Expr::RemoveLargestSuffixPattern { parameter, indirect, pattern } => {
                self.removed(parameter, *indirect, pattern.as_deref(), End::Suffix, true)
            }
            Expr::RemoveSmallestPrefixPattern { parameter, indirect, pattern } => {
                self.removed(parameter, *indirect, pattern.as_deref(), End::Prefix, false)
            }
            Expr::RemoveLargestPrefixPattern { parameter, indirect, pattern } => {
                self.removed(parameter, *indirect, pattern.as_deref(), End::Prefix, true)
            }
            Expr::Substring { parameter, indirect, offset, length } => {
                let offset = self.arithmetic(&offset.value);
                let length = length.as_ref().map(|length| self.arithmetic(&length.value));
                let positional = matches!(parameter, Parameter::Special(_));
                if offset == Some(0) && length == Some(Some(1)) && self.begins_at_root(parameter) {
                    return Expanded::One("/".to_owned());
                }
                substring(self.read(parameter, *indirect).0, offset, length, positional)
            }
            Expr::Transform { parameter, indirect, op } => {
                let value = self.read(parameter, *indirect).0;
                let name = if let Parameter::Named(name) = parameter { name.as_str() } else { "" };
                self.transform(op, name, value)
            }
            Expr::UppercaseFirstChar { parameter, indirect, pattern } => {
                match pattern.as_deref().and_then(|pattern| pattern.strip_prefix(TOGGLES)) {
                    Some(pattern) => self.cased(parameter, *indirect, Some(pattern), toggled_first),
                    None => self.cased(parameter, *indirect, pattern.as_deref(), |text| first(text, true)),
                }
            }
            Expr::LowercaseFirstChar { parameter, indirect, pattern } => {
                self.cased(parameter, *indirect, pattern.as_deref(), |text| first(text, false))
            }
            Expr::UppercasePattern { parameter, indirect, pattern } => {
                match pattern.as_deref().and_then(|pattern| pattern.strip_prefix(TOGGLES)) {
                    Some(pattern) => self.cased(parameter, *indirect, Some(pattern), toggled),
                    None => self.cased(parameter, *indirect, pattern.as_deref(), str::to_uppercase),
                }
            }
            Expr::LowercasePattern { parameter, indirect, pattern } => {
                self.cased(parameter, *indirect, pattern.as_deref(), str::to_lowercase)
            }
            Expr::ReplaceSubstring { parameter, indirect, pattern, replacement, match_kind } => {
                let value = self.read(parameter, *indirect).0;
                let pattern = self.inner_pattern(pattern);
                let with = self.inner_word(replacement.as_deref().unwrap_or_default());
                let (all, anchor) = match match_kind {
                    Match::Prefix => (false, Some(End::Prefix)),
                    Match::Suffix => (false, Some(End::Suffix)),
                    Match::FirstOccurrence => (false, None),
                    Match::Anywhere => (true, None),
                };
                value.map(|text| {
                    if has_hole(text) {
                        text.to_owned()
                    } else {
                        pattern::replace(text, &pattern, &with, all, anchor)
                    }
                })
            }
            Expr::VariableNames { prefix, concatenate } => {
                let mut list: Vec<String> =
                    self.state.assigned_with_prefix(prefix).map(|(name, _)| name.to_owned()).collect();
                list.sort_unstable();
                Expanded::Many { list, joined: *concatenate }
            }
            Expr::MemberKeys { .. } => Expanded::hole(),
        }
    }

    /// `${name@op}`
    fn transform(&mut self, op: &Transform, name: &str, value: Expanded) -> Expanded {
        let quoted = |text: &str| match has_hole(text) {
            true => HOLE.to_string(),
            false => format!("'{}'", text.replace('\'', "'\\''")),
        };
        match op {
            Transform::ToUpperCase => value.map(str::to_uppercase),
            Transform::ToLowerCase => value.map(str::to_lowercase),
            Transform::ExpandEscapeSequences => value.map(super::decode::ansi_c),
            Transform::CapitalizeInitial => value.map(|text| first(text, true)),
            // What is substituted in a prompt runs.
            Transform::PromptExpand => value.map(|text| self.prompt(text)),
            Transform::Quoted | Transform::PossiblyQuoteWithArraysExpanded { .. } => value.map(quoted),
            Transform::ToAssignmentLogic if !name.is_empty() => {
                value.map(|text| format!("{name}={}", quoted(text)))
            }
            _ => {
                value.map(|text| if text.chars().all(is_plain) { text.to_owned() } else { HOLE.to_string() })
            }
        }
    }

    /// Changes the case of those characters that a pattern matches, which may be all of them.
    fn cased(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        pattern: Option<&str>,
        change: impl Fn(&str) -> String,
    ) -> Expanded {
        self.expands_as_bash();
        let value = self.read(parameter, indirect).0;
        let Some(pattern) = pattern.filter(|pattern| *pattern != "?" && !pattern.is_empty()) else {
            return value.map(change);
        };
        let pattern = self.inner_pattern(pattern);
        value.map(|text| {
            text.chars()
                .map(|c| {
                    let one = c.to_string();
                    if pattern::matches(&pattern, &one) { change(&one) } else { one }
                })
                .collect()
        })
    }

    /// Reads a parameter of which only is told whether it has a value, or how long that is.
    fn untold(&mut self, parameter: &Parameter, indirect: bool) -> (Expanded, Option<bool>) {
        let taint = self.word_taint;
        let read = self.read(parameter, indirect);
        self.word_taint = taint;
        read
    }

    /// Returns whether a parameter holds an absolute path, whatever it is.
    fn begins_at_root(&self, parameter: &Parameter) -> bool {
        const PATHS: [&str; 5] = ["PATH", "HOME", "PWD", "OLDPWD", "SHELL"];
        matches!(parameter, Parameter::Named(name) if PATHS.contains(&name.as_str()) && self.state.assigned(name).is_none())
    }

    /// Reads a parameter; the second part says whether it is certainly set or certainly not.
    fn read(&mut self, parameter: &Parameter, indirect: bool) -> (Expanded, Option<bool>) {
        if !indirect {
            return self.read_direct(parameter);
        }
        match parameter {
            Parameter::Special(SpecialParameter::PositionalParameterCount) => {
                let last = self.state.positional.last().unwrap_or(&self.state.name).clone();
                (Expanded::One(last), Some(true))
            }
            Parameter::Special(SpecialParameter::AllPositionalParameters { .. })
                if self.state.positional.is_empty() =>
            {
                (Expanded::One(String::new()), Some(false))
            }
            _ => match self.read_direct(parameter).0 {
                Expanded::One(name) if !has_hole(&name) => match element_of(&name) {
                    Some((name, index)) => self.read_direct(&Parameter::NamedWithIndex {
                        name: name.to_owned(),
                        index: index.to_owned(),
                    }),
                    None => self.read_direct(&Parameter::Named(name)),
                },
                _ => (Expanded::hole(), None),
            },
        }
    }

    fn read_direct(&mut self, parameter: &Parameter) -> (Expanded, Option<bool>) {
        match parameter {
            Parameter::Positional(_) | Parameter::Special(_) => self.settle_positional(),
            Parameter::Named(name)
            | Parameter::NamedWithIndex { name, .. }
            | Parameter::NamedWithAllIndices { name, .. } => self.settle(name),
        }
        match parameter {
            Parameter::Positional(0) => (Expanded::One(self.state.name.clone()), Some(true)),
            Parameter::Positional(n) => {
                let place = usize::try_from(*n).unwrap_or(0).saturating_sub(1);
                let before = self.state.positional.iter().take(place + 1).any(|item| is_open(item));
                if before && self.state.positional.get(place).is_none_or(|item| has_hole(item)) {
                    // What stands before it may be any number of words.
                    return (Expanded::hole(), None);
                }
                let value = self.state.positional.get(place).cloned();
                let set = value.is_some();
                (Expanded::One(value.unwrap_or_default()), Some(set))
            }
            Parameter::Special(special) => match special {
                SpecialParameter::AllPositionalParameters { concatenate } => {
                    let list = self.state.positional.clone();
                    let set = !list.is_empty();
                    (Expanded::Many { list, joined: *concatenate }, Some(set))
                }
                SpecialParameter::PositionalParameterCount
                    if self.state.positional.iter().any(|item| is_open(item)) =>
                {
                    (Expanded::hole(), Some(true))
                }
                SpecialParameter::PositionalParameterCount => {
                    (Expanded::One(self.state.positional.len().to_string()), Some(true))
                }
                SpecialParameter::ShellName => (Expanded::One(self.state.name.clone()), Some(true)),
                _ => (Expanded::hole(), Some(true)),
            },
            Parameter::Named(name) => {
                self.word_taint |= self.state.taint(name);
                if self.state.assigned(name).is_none() {
                    self.word_taint |= super::credentials::taint_of(name);
                }
                let set = match self.state.assigned(name) {
                    Some(Value::Unset) => Some(false),
                    Some(_) => Some(true),
                    None => None,
                };
                if matches!(self.state.assigned(name), Some(Value::List(_))) && self.differs(Dialect::Zsh) {
                    return (Expanded::Many { list: self.elements(name), joined: false }, set);
                }
                if let Some((array, index)) = self.state.referred_element(name) {
                    return self.read_direct(&Parameter::NamedWithIndex { name: array, index });
                }
                let value = self.state.value(name, Some(self.place.home()));
                let gap = value.scalar().contains(GAP);
                (Expanded::One(if gap { String::new() } else { value.scalar().to_owned() }), set)
            }
            Parameter::NamedWithIndex { name, index } => self.keyed_element(name, index),
            Parameter::NamedWithAllIndices { name, concatenate } => match self.state.assigned(name) {
                Some(Value::List(_)) => {
                    let list = self.elements(name);
                    let set = Some(!list.is_empty());
                    (Expanded::Many { list, joined: *concatenate }, set)
                }
                Some(Value::Text(text)) => (Expanded::One(text.clone()), Some(true)),
                Some(Value::Unset) => {
                    (Expanded::Many { list: Vec::new(), joined: *concatenate }, Some(false))
                }
                Some(Value::Outside | Value::OneOf(_)) | None => (Expanded::hole(), None),
            },
        }
    }

    /// Returns the elements that an array has.
    fn elements(&self, name: &str) -> Vec<String> {
        match self.state.assigned(name) {
            Some(Value::List(list)) => list.iter().filter(|item| !item.contains(GAP)).cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// `${name[index]}`
    fn keyed_element(&mut self, name: &str, index: &str) -> (Expanded, Option<bool>) {
        let key = if self.state.is_keyed(name) { self.single(index) } else { index.to_owned() };
        if let Some(value) = self.state.assigned(&keyed(name, &key)) {
            return (Expanded::One(value.scalar().to_owned()), Some(true));
        }
        if name == "commands" && self.differs(Dialect::Zsh) {
            // The path of a program, by its name.
            return (Expanded::One(format!("/usr/bin/{key}")), Some(true));
        }
        self.element(name, index)
    }

    /// `${name[index]}` of an indexed array.
    fn element(&mut self, name: &str, index: &str) -> (Expanded, Option<bool>) {
        let index = self.arithmetic(index);
        let from = i64::from(index.is_some_and(|index| index > 0) && self.differs(Dialect::Zsh));
        let is_list = matches!(self.state.assigned(name), Some(Value::List(_)));
        if is_list && index == Some(0) && self.differs(Dialect::Zsh) && self.decide_whether() == Some(true) {
            // One shell counts from 1, unless it is told to count as others do.
            return (Expanded::One(String::new()), Some(false));
        }
        match (self.state.assigned(name), index) {
            (Some(Value::List(list)), Some(index)) => {
                let at = if index < 0 {
                    isize::try_from(index).ok().and_then(|back| list.len().checked_add_signed(back))
                } else {
                    usize::try_from(index - from).ok()
                };
                if at.is_none_or(|at| list.iter().take(at + 1).any(|item| is_open(item))) {
                    return (Expanded::hole(), None);
                }
                let value = at.and_then(|at| list.get(at)).filter(|item| !item.contains(GAP)).cloned();
                let set = value.is_some();
                (Expanded::One(value.unwrap_or_default()), Some(set))
            }
            (Some(Value::Text(text)), Some(0)) => (Expanded::One(text.clone()), Some(true)),
            (Some(Value::Unset), _) => (Expanded::One(String::new()), Some(false)),
            _ => (Expanded::hole(), None),
        }
    }

    /// `value`, or the default where the parameter is (or, if nothing is known, could be) unset. The
    /// second part says whether the default was taken.
    fn alternative(
        &mut self,
        value: Expanded,
        set: Option<bool>,
        test: &Test,
        default: Option<&str>,
    ) -> (Expanded, bool) {
        let null = is_empty(&value) && matches!(test, Test::UnsetOrNull);
        let open = !null && matches!(test, Test::UnsetOrNull) && may_be_empty(&value);
        if set == Some(true) && !null && !open {
            return (value, false);
        }
        // A variable that this command never assigned may be set outside; what is written here is the
        // better guess, and the one an attacker controls.
        let takes = if set == Some(false) || null { Some(true) } else { self.decide_whether() };
        match takes {
            Some(true) => (Expanded::Written(default.unwrap_or_default().to_owned()), true),
            Some(false) => (value, false),
            None => (Expanded::hole(), false),
        }
    }

    fn removed(
        &mut self,
        parameter: &Parameter,
        indirect: bool,
        pattern: Option<&str>,
        end: End,
        longest: bool,
    ) -> Expanded {
        let value = self.read(parameter, indirect).0;
        let pattern = self.inner_pattern(pattern.unwrap_or_default());
        value.map(|text| {
            if has_hole(text) { text.to_owned() } else { pattern::remove(text, &pattern, end, longest) }
        })
    }

    /// Evaluates an arithmetic text with its expansions.
    pub(crate) fn arithmetic(&mut self, text: &str) -> Option<i64> {
        let text = &*super::shifted::back(text);
        let expanded = if text.contains(['$', '`', '"', '\'']) {
            unglob(&self.heredoc(text)).replace(['"', '\''], "")
        } else {
            text.to_owned()
        };
        // What came out of quotes or variables is expanded where it is a subscript.
        if expanded.len() != text.len() {
            self.expand_subscript(&expanded);
        }
        self.evaluated(&expanded)
    }

    /// Evaluates arithmetic whose expansions were done.
    pub(crate) fn evaluated(&mut self, text: &str) -> Option<i64> {
        let names: Vec<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
            .collect();
        for name in &names {
            self.settle(name);
            self.expand_value_of(name);
        }
        let assigns = text.contains("++") || text.contains("--") || arith::assigns(text);
        if assigns {
            self.remember_start();
        }
        let decimal = arith::without_octal(text);
        let value = match decimal {
            Some(decimal) if self.differs(Dialect::Zsh) => arith::evaluate(&decimal, &mut self.state),
            _ => arith::evaluate(text, &mut self.state),
        };
        if value.is_none() && assigns {
            for name in names {
                self.state.blur(name);
            }
        }
        value
    }
}

/// Returns whether a value of which nothing is known may be nothing.
fn may_be_empty(value: &Expanded) -> bool {
    match value {
        Expanded::One(text) | Expanded::Written(text) => {
            text != NOT_EMPTY && !text.is_empty() && text.chars().all(|c| c == HOLE)
        }
        Expanded::Many { list, .. } => list.iter().all(|text| text.chars().all(|c| c == HOLE)),
    }
}

/// Returns whether quoting would leave a character as it is.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | HOLE)
}

fn is_empty(value: &Expanded) -> bool {
    match value {
        Expanded::Written(text) => text.is_empty(),
        Expanded::One(text) => text.is_empty(),
        Expanded::Many { list, .. } => list.iter().all(String::is_empty),
    }
}

fn first(text: &str, upper: bool) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(c) if upper => c.to_uppercase().chain(chars).collect(),
        Some(c) => c.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Capitals as small letters, and small letters as capitals.
fn toggled(text: &str) -> String {
    let toggle = |c: char| match c.is_uppercase() {
        true => c.to_lowercase().collect::<String>(),
        false => c.to_uppercase().collect(),
    };
    text.chars().map(toggle).collect()
}

fn toggled_first(text: &str) -> String {
    let (first, rest) =
        text.split_at_checked(text.chars().next().map_or(0, char::len_utf8)).unwrap_or((text, ""));
    toggled(first) + rest
}

fn substring(
    value: Expanded,
    offset: Option<i64>,
    length: Option<Option<i64>>,
    positional: bool,
) -> Expanded {
    let Some(offset) = offset else { return Expanded::hole() };
    let length = match length {
        Some(None) => return Expanded::hole(),
        Some(length) => length,
        None => None,
    };
    fn bounds(total: usize, offset: i64, length: Option<i64>) -> (usize, usize) {
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        let start = if offset < 0 { total.saturating_add(offset) } else { offset };
        let end = match length {
            Some(length) if length < 0 => total.saturating_add(length),
            Some(length) => start.saturating_add(length),
            None => total,
        };
        let start = start.clamp(0, total);
        let end = end.clamp(start, total);
        (usize::try_from(start).unwrap_or_default(), usize::try_from(end - start).unwrap_or_default())
    }
    match value {
        Expanded::One(text) | Expanded::Written(text) if has_hole(&text) => Expanded::hole(),
        Expanded::One(text) | Expanded::Written(text) => {
            let (skip, take) = bounds(text.chars().count(), offset, length);
            Expanded::One(text.chars().skip(skip).take(take).collect())
        }
        Expanded::Many { list, joined } => {
            let from = usize::from(positional);
            let (skip, take) = bounds(list.len() + from, offset, length);
            // `$@` counts from 1; offset 0 would begin with `$0`, which is left out here.
            if list.iter().any(|item| is_open(item)) {
                return Expanded::hole();
            }
            let skip = skip.saturating_sub(from);
            Expanded::Many { list: list.into_iter().skip(skip).take(take).collect(), joined }
        }
    }
}
