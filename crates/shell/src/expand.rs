//! Expands a written word to the fields that a process gets.
//!
//! The order is the shell's: braces, then tilde, parameters, command and process substitution, arithmetic;
//! then splitting of what was not quoted. Glob operators stay as marks, because their matches depend on files.

use brush_parser::word::{BraceExpressionMember as Member, BraceExpressionOrText as Part};
use brush_parser::word::{WordPiece as Piece, WordPieceWithSource};

use super::data::Data;
use super::decode;
use super::dialect::Dialect;
use super::limits::{self, Bounded, Limit, Over};
use super::param::Expanded;
use super::prescan::MAX_BYTES;
use super::shifted;
use super::state::Value;
use super::tilde;
use super::trace::Trace;
use super::walk::Shell;
use super::word::{ANY, HOLE, SET, STAR};

/// Fields under construction.
struct Fields {
    done: Bounded<String>,
    /// Whether a field was cut short.
    over: Over,
    current: Option<String>,
    /// Unquoted glob characters become marks.
    globs: bool,
    /// Unquoted expansions are split.
    splits: bool,
    separators: String,
    /// What was expanded last ended in blanks that separate.
    blank: bool,
    /// Another shell would not have split, or not have taken an operator for one.
    whole: bool,
    /// That shell reads.
    keeps_whole: bool,
    /// The word has one part.
    alone: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            done: Bounded::new(&limits::FIELDS),
            over: Over::NOTHING,
            current: None,
            globs: false,
            splits: false,
            separators: String::new(),
            blank: false,
            whole: false,
            keeps_whole: false,
            alone: false,
        }
    }
}

impl Fields {
    fn quoted(&mut self, text: &str) {
        let current = self.current.get_or_insert_default();
        if current.len() + text.len() <= limits::FIELD_BYTES.most {
            current.push_str(text);
        } else {
            self.over = Over::of(&limits::FIELD_BYTES);
        }
    }

    fn unquoted(&mut self, text: &str) {
        if !self.globs || !text.contains(['*', '?', '[']) {
            return self.quoted(text);
        }
        let marked: String = text.chars().map(mark).collect();
        self.quoted(&marked);
    }

    /// Adds what an expansion came to, as fields: blanks of the separators end a field, and each other one does.
    fn split(&mut self, text: &str) {
        self.whole |= text.contains(['*', '?', '[']) && self.globs;
        if !self.splits {
            return self.unquoted(text);
        }
        let separators = std::mem::take(&mut self.separators);
        for part in text.split_inclusive(|c| separators.contains(c)) {
            let end = part.chars().next_back().filter(|c| separators.contains(*c));
            let head = end.map_or(part, |end| part.strip_suffix(end).unwrap_or(part));
            if !head.is_empty() {
                self.unquoted(head);
                self.blank = false;
            }
            let Some(end) = end else { continue };
            self.whole = true;
            let blank = matches!(end, ' ' | '\t' | '\n');
            let ended = self.current.is_some();
            if !ended && !blank && !self.blank {
                self.quoted("");
            }
            self.cut();
            self.blank = blank && (ended || self.blank);
        }
        self.separators = separators;
    }

    /// Adds what an expansion came to, as the shell does that does not split.
    fn keep(&mut self, text: &str) {
        if !text.is_empty() {
            self.quoted(text);
        }
    }

    fn cut(&mut self) {
        if let Some(field) = self.current.take() {
            self.done.push(field);
        }
    }

    fn finish(mut self, trace: &mut Trace) -> Vec<String> {
        self.cut();
        trace.note(self.over);
        self.done.reported(trace)
    }
}

fn mark(c: char) -> char {
    match c {
        '*' => STAR,
        '?' => ANY,
        '[' => SET,
        other => other,
    }
}

/// True when a word stands for itself.
fn is_plain(word: &str) -> bool {
    !word.starts_with('=')
        && !word
            .bytes()
            .any(|b| matches!(b, b'\\' | b'\'' | b'"' | b'$' | b'`' | b'{' | b'~' | b'*' | b'?' | b'['))
}

impl Shell<'_> {
    /// Expands a word into fields.
    pub(crate) fn fields(&mut self, word: &str) -> Vec<String> {
        let word = &*shifted::back(word);
        if is_plain(word) {
            return vec![word.to_owned()];
        }
        let mut done = Vec::new();
        let words = self.braces(word);
        let words = match words.as_slice() {
            [only] if only == word => words,
            // One shell has no braces.
            _ if self.differs(Dialect::Dash) => vec![word.to_owned()],
            _ => words,
        };
        for written in words {
            done.extend(self.split_fields(&written, true));
            if done.len() > limits::FIELDS.most {
                self.trace.note(Over::of(&limits::FIELDS));
                break;
            }
        }
        done
    }

    /// Returns whether long words may still come out of expansions, after so many bytes more did.
    pub(crate) fn has_room(&mut self, bytes: usize) -> bool {
        if bytes > limits::LONG_MATERIAL {
            self.material = self.material.saturating_add(bytes);
        }
        self.material <= limits::MATERIAL.most
    }

    /// A text that came out of an expansion, or what stands for one where there were too many long ones.
    fn within(&mut self, text: String) -> String {
        if self.has_room(text.len()) || text.len() <= limits::LONG_MATERIAL {
            return text;
        }
        self.trace.note(Over::of(&limits::MATERIAL));
        HOLE.to_string()
    }

    /// Brace expansion of the written word, bounded.
    fn braces(&mut self, word: &str) -> Vec<String> {
        let parts = match has_brace(word) && (word.contains(',') || word.contains("..")) {
            true => self.texts.braces(word),
            false => None,
        };
        let most = if self.has_room(0) { &limits::FIELDS } else { &limits::FIRST_FIELDS };
        let words =
            parts.map_or_else(|| vec![word.to_owned()], |parts| combine(&parts, 0, most, &mut self.trace));
        self.has_room(words.iter().map(|word| word.len() + size_of::<String>()).sum());
        words
    }

    fn split_fields(&mut self, word: &str, globs: bool) -> Vec<String> {
        let separators = self.separators();
        let keeps_whole = self.dialect == Dialect::Zsh;
        let mut fields = Fields { globs, splits: true, separators, keeps_whole, ..Fields::default() };
        self.expand_into(word, &mut fields);
        if fields.whole {
            self.differs(Dialect::Zsh);
        }
        let mut fields = fields.finish(&mut self.trace);
        if !self.has_room(fields.iter().map(|field| field.len() + size_of::<String>()).sum()) {
            fields = fields.into_iter().map(|field| self.within(field)).collect();
            fields = Bounded::of(&limits::FIRST_FIELDS, fields).reported(&mut self.trace);
        }
        // `=name` is the path of a program in one shell.
        if let Some(first) = fields.first_mut().filter(|_| word.starts_with('='))
            && self.differs(Dialect::Zsh)
        {
            first.remove(0);
        }
        fields
    }

    /// Expands a word that is not split: an assigned value, a here-string, a redirection target.
    pub(crate) fn single(&mut self, word: &str) -> String {
        let word = &*shifted::back(word);
        if is_plain(word) {
            return word.to_owned();
        }
        let mut fields = Fields::default();
        self.expand_into(word, &mut fields);
        let text = fields.finish(&mut self.trace).join(" ");
        self.within(text)
    }

    /// Expands a word whose unquoted glob operators are active but which is not split.
    pub(crate) fn inner_pattern(&mut self, word: &str) -> String {
        let word = &*shifted::back(word);
        let mut fields = Fields { globs: true, ..Fields::default() };
        self.expand_into(word, &mut fields);
        let text = fields.finish(&mut self.trace).join(" ");
        self.within(text)
    }

    /// Expands the word inside `${x:-word}`.
    pub(crate) fn inner_word(&mut self, word: &str) -> String {
        self.single(word)
    }

    /// Expands the body of a here-document with an unquoted delimiter.
    pub(crate) fn heredoc(&mut self, body: &str) -> String {
        if !body.contains(['$', '`', '\\']) {
            return body.to_owned();
        }
        let Some(pieces) = self.texts.heredoc(body) else {
            self.note_unread("a here-document could not be read");
            return body.to_owned();
        };
        let ended = self.state.ended;
        let mut fields = Fields::default();
        self.pieces(&pieces, true, &mut fields);
        // What is wrong in a document ends no shell.
        if !ended {
            self.go_on();
        }
        fields.finish(&mut self.trace).concat()
    }

    /// Returns what comes out of the body of a here-document, line by line where it is long.
    pub(crate) fn document(&mut self, body: &str) -> Data {
        if body.len() <= MAX_BYTES {
            return Data::document(&self.heredoc(body));
        }
        let mut text = String::new();
        for line in body.split_inclusive('\n') {
            if !line.contains(['$', '`', '\\']) {
                text.push_str(line);
                continue;
            }
            // What is substituted over several lines is not read.
            if !self.step() || self.texts.heredoc(line).is_none() {
                self.note_limit();
                return Data::unknown(self.word_taint);
            }
            text.push_str(&self.heredoc(line));
        }
        Data::document(&text)
    }

    pub(crate) fn separators(&mut self) -> String {
        self.settle("IFS");
        match self.state.assigned("IFS") {
            None | Some(Value::Unset) => " \t\n".to_owned(),
            Some(value) => value.scalar().to_owned(),
        }
    }

    fn expand_into(&mut self, word: &str, fields: &mut Fields) {
        if has_flags(word) && self.differs(Dialect::Zsh) {
            self.expand_flagged(word);
            return fields.quoted(HOLE.encode_utf8(&mut [0; 4]));
        }
        match self.texts.word(word) {
            Some(pieces) => {
                fields.alone = match &*pieces {
                    [only] => match &only.piece {
                        Piece::DoubleQuotedSequence(inner) => inner.len() == 1,
                        _ => true,
                    },
                    _ => false,
                };
                self.pieces(&pieces, false, fields);
            }
            None => {
                self.note_unread("a word could not be read");
                let rough: String = word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
                fields.quoted(&rough);
            }
        }
    }

    /// Runs what an expansion with flags may run: commands in the word, and those in the values that it names, which one
    /// of the flags expands again.
    fn expand_flagged(&mut self, word: &str) {
        let inner: String = word.chars().filter(|c| !matches!(c, '{' | '}')).collect();
        if word.contains("$(") || word.contains('`') {
            self.heredoc(&inner);
        }
        for name in word.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let value = self.state.assigned(name).map(|value| value.scalar().to_owned());
            if let Some(value) = value.filter(|value| value.contains("$(") || value.contains('`')) {
                self.heredoc(&value);
            }
        }
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], quoted: bool, fields: &mut Fields) {
        for (at, piece) in pieces.iter().enumerate() {
            let next = pieces.get(at + 1).map(|next| &next.piece);
            if at == 0 && !quoted && tilde::is_joined(&piece.piece, next) && self.differs(Dialect::Zsh) {
                let text = self.joined_tilde(pieces);
                return fields.quoted(&text);
            }
            if is_subscripted(&piece.piece, next) && self.differs(Dialect::Zsh) {
                // How far the subscript goes, and what it takes of the value, is not known; what is in it is expanded.
                let mut rest = Fields::default();
                let pieces = pieces.get(at..).unwrap_or_default();
                pieces.iter().for_each(|piece| self.piece(&piece.piece, quoted, &mut rest));
                return fields.quoted(HOLE.encode_utf8(&mut [0; 4]));
            }
            self.piece(&piece.piece, quoted, fields);
        }
    }

    /// Returns what pieces come to, as one text.
    pub(super) fn pieces_as_one(&mut self, pieces: &[WordPieceWithSource]) -> String {
        let mut one = Fields::default();
        pieces.iter().for_each(|piece| self.piece(&piece.piece, true, &mut one));
        one.current.unwrap_or_default()
    }

    fn piece(&mut self, piece: &Piece, quoted: bool, fields: &mut Fields) {
        match piece {
            Piece::Text(text) if quoted => fields.quoted(text),
            Piece::Text(text) => fields.unquoted(text),
            Piece::SingleQuotedText(text) => fields.quoted(text),
            Piece::AnsiCQuotedText(text) => {
                if self.differs(Dialect::Dash) {
                    fields.quoted("$");
                    fields.quoted(text);
                } else {
                    fields.quoted(&decode::ansi_c(text));
                }
            }
            Piece::DoubleQuotedSequence(inner) | Piece::GettextDoubleQuotedSequence(inner) => {
                let only_list = matches!(
                    inner.as_slice(),
                    [WordPieceWithSource { piece: Piece::ParameterExpansion(_), .. }]
                );
                if !only_list {
                    fields.quoted("");
                }
                self.pieces(inner, true, fields);
            }
            Piece::TildeExpansion(tilde) => {
                let text = self.tilde(tilde);
                fields.quoted(&text);
            }
            Piece::ParameterExpansion(expr) => {
                let value = self.parameter(expr);
                self.insert(value, quoted, fields);
            }
            Piece::CommandSubstitution(text) => self.substitution(text, quoted, fields),
            Piece::BackquotedCommandSubstitution(text) => {
                let text = text.replace("\\`", "`").replace("\\\\", "\\").replace("\\$", "$");
                self.substitution(&text, quoted, fields);
            }
            Piece::EscapeSequence(text) => {
                let text = text.strip_prefix('\\').unwrap_or(text);
                if text != "\n" {
                    fields.quoted(text);
                }
            }
            Piece::ArithmeticExpression(expr) => match self.arithmetic(&expr.value) {
                Some(number) => fields.quoted(&number.to_string()),
                None => fields.quoted(HOLE.encode_utf8(&mut [0; 4])),
            },
        }
    }

    fn substitution(&mut self, text: &str, quoted: bool, fields: &mut Fields) {
        let output = self.substitute(text);
        self.word_taint |= output.taint;
        let text = self.settled(&output);
        let text = text.trim_end_matches('\n');
        if quoted {
            fields.quoted(text);
        } else {
            // All shells split this, but not all look for files.
            let globs = fields.globs;
            fields.globs &= !fields.keeps_whole;
            fields.split(text);
            fields.globs = globs;
        }
    }

    /// The word inside `${x:-word}`, where it stands: what is not quoted in it is split.
    fn written(&mut self, word: &str, quoted: bool, fields: &mut Fields) {
        let Some(pieces) = self.texts.word(word) else {
            return self.expand_into(word, fields);
        };
        for piece in pieces.iter() {
            match &piece.piece {
                Piece::Text(text) if !quoted && !fields.keeps_whole => fields.split(text),
                // Between double quotes single ones are characters.
                Piece::SingleQuotedText(text) if quoted => {
                    let text = self.heredoc(&format!("'{text}'"));
                    fields.quoted(&text);
                }
                inner => self.piece(inner, quoted, fields),
            }
        }
    }

    fn insert(&mut self, value: Expanded, quoted: bool, fields: &mut Fields) {
        match value {
            Expanded::One(text) if quoted => fields.quoted(&text),
            Expanded::One(text) if fields.keeps_whole => fields.keep(&text),
            Expanded::One(text) => fields.split(&text),
            Expanded::Written(word) => self.written(&word, quoted, fields),
            Expanded::Many { list, joined: true } if quoted => {
                let mut list = self.without_nothing(list);
                // Of some in a row that are not known any may be nothing, so that one stands for all of them.
                list.dedup_by(|one, other| is_loose(one) && is_loose(other));
                let separator: String = self.separators().chars().take(1).collect();
                fields.quoted(&list.join(&separator));
            }
            Expanded::Many { mut list, .. } => {
                if !fields.alone {
                    list = self.without_nothing(list);
                }
                for (at, item) in list.iter().enumerate() {
                    if at > 0 {
                        if fields.splits || quoted { fields.cut() } else { fields.quoted(" ") }
                    }
                    match (quoted, fields.keeps_whole) {
                        (true, _) => fields.quoted(item),
                        (false, true) => fields.keep(item),
                        (false, false) => fields.split(item),
                    }
                }
            }
        }
    }

    /// A list of which items that are not known may be no items at all: then others stand at its edges.
    fn without_nothing(&mut self, mut list: Vec<String>) -> Vec<String> {
        if list.len() > 1 && list.iter().any(|item| is_loose(item)) && self.decide_whether() == Some(false) {
            list.retain(|item| !is_loose(item));
        }
        list
    }
}

/// Returns whether nothing is known of an item.
fn is_loose(item: &str) -> bool {
    !item.is_empty() && item.chars().all(|c| c == HOLE)
}

/// Returns whether a parameter has a subscript without braces, `$x[1]`, which one shell knows.
fn is_subscripted(piece: &Piece, next: Option<&Piece>) -> bool {
    matches!(piece, Piece::ParameterExpansion(_))
        && matches!(next, Some(Piece::Text(text)) if text.starts_with('['))
}

/// Returns whether a word has expansions that only one shell knows, such as `${(U)x}`, `$=x`, `$#x` and `${~x}`.
fn has_flags(word: &str) -> bool {
    // The length of a parameter whose name is a sign: `$#$`, `$#*`.
    let counts_sign = |rest: &str| rest.starts_with(['$', '*', '@', '?', '!', '-']);
    word.split("$#").skip(1).any(counts_sign)
        || word.split('$').skip(1).any(|rest| {
            let rest = rest.strip_prefix('{').map_or((rest, false), |rest| (rest, true));
            match rest {
                (rest, true) => rest.starts_with(['(', '=', '~', '^', ':', '+']),
                (rest, false) => {
                    let counts = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                    rest.starts_with(['=', '~', '^', '+']) || rest.strip_prefix('#').is_some_and(counts)
                }
            }
        })
}

/// Returns whether a word has a brace that is not the one behind a dollar, with which an expansion begins.
fn has_brace(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_own = |at: usize| match bytes.get(..at).unwrap_or_default() {
        // The dollar belongs to what stands before it.
        [.., b'$' | b'\\', b'$'] => true,
        [.., last] => *last != b'$',
        [] => true,
    };
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'{' && is_own(at))
}

/// Returns the words that parts make together. What is written on the way counts as well, since each part is written once
/// for each word that the parts before it made. From where that is too much, every word gets the first choice alone, and
/// once that is too much as well, only the first words go on.
fn combine(parts: &[Part], depth: usize, most: &'static Limit, trace: &mut Trace) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut bytes, mut over) = (0, false);
    for part in parts {
        let choices = match part {
            Part::Text(text) => vec![text.clone()],
            Part::Expr(members) => {
                let mut all = Bounded::new(most);
                for member in members {
                    choices(member, depth, most, trace).into_iter().for_each(|choice| all.push(choice));
                }
                all.reported(trace)
            }
        };
        let written = |choices: &[String]| {
            let heads: usize = words.iter().map(String::len).sum();
            let tails: usize = choices.iter().map(String::len).sum();
            heads.saturating_mul(choices.len()).saturating_add(tails.saturating_mul(words.len()))
        };
        let all = written(&choices);
        over = over
            || words.len().saturating_mul(choices.len()) > most.most
            || all.saturating_add(bytes) > limits::FIELD_BYTES.most;
        if !over {
            bytes += all;
            words = words
                .iter()
                .flat_map(|head| choices.iter().map(move |tail| format!("{head}{tail}")))
                .collect();
            continue;
        }
        trace.note(Over::of(&limits::FIELDS));
        let first = choices.first().map_or("", String::as_str);
        bytes = bytes.saturating_add(first.len().saturating_mul(words.len()));
        if bytes > limits::FIELD_BYTES.most {
            words = Bounded::of(&limits::FIRST_FIELDS, words).reported(trace);
        }
        words.iter_mut().for_each(|word| word.push_str(first));
    }
    words
}

fn choices(member: &Member, depth: usize, most: &'static Limit, trace: &mut Trace) -> Vec<String> {
    match member {
        Member::NumberSequence { start, end, increment } => {
            let numbers = steps(*start, *end, *increment).map(|n| n.to_string());
            Bounded::of(most, numbers).reported(trace)
        }
        Member::CharSequence { start, end, increment } => {
            steps(i64::from(u32::from(*start)), i64::from(u32::from(*end)), *increment)
                .filter_map(|n| u32::try_from(n).ok().and_then(char::from_u32))
                .map(String::from)
                .collect()
        }
        Member::Child(parts) if depth < 16 => combine(parts, depth + 1, most, trace),
        Member::Child(_) => vec![HOLE.to_string()],
    }
}

fn steps(start: i64, end: i64, increment: i64) -> impl Iterator<Item = i64> {
    let step = increment.saturating_abs().max(1);
    let up = start <= end;
    (0..)
        .map(move |n: i64| {
            let distance = step.saturating_mul(n);
            if up { start.saturating_add(distance) } else { start.saturating_sub(distance) }
        })
        .take_while(move |at| if up { *at <= end } else { *at >= end })
}
