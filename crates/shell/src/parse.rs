//! Parses text to a syntax tree, and recovers if that fails.
//!
//! The parser is `brush-parser`. Text that it rejects is not given up: it is split at the operators that
//! separate commands, and each piece is repaired (open quotes closed, stray operators dropped) and parsed
//! separately. What was recovered is judged like anything else, and the whole is marked as not fully read.

use std::borrow::Cow;
use std::io::Cursor;
use std::sync::LazyLock;

use brush_parser::{Parser, ParserOptions, ast};

use super::fair;
use super::limits::{self, Over};
use super::prescan::{Refusal, weigh};
use super::respell::{self, Names};
use super::trace::program_name;
use crate::programs::{Does, Programs};

static OPTIONS: LazyLock<ParserOptions> = LazyLock::new(ParserOptions::default);

/// Returns the parser options every part of the interpreter shares.
pub(crate) fn options() -> &'static ParserOptions {
    &OPTIONS
}

/// A command that was read, wholly or in parts.
pub(crate) struct Parsed {
    pub(crate) programs: Vec<ast::Program>,
    /// Pieces that no parser understood, for a reading by words.
    pub(crate) leftovers: Vec<String>,
    pub(crate) complete: bool,
    /// Whether pieces were left out.
    pub(crate) over: Over,
}

/// Parses `text`, recovering what can be recovered.
pub(crate) fn parse(text: &str, names: &mut Names) -> Result<Parsed, Refusal> {
    weigh(text)?;
    let respelled = respell::parsable(text, names);
    let apart = nested_apart(&respelled);
    let shifted = super::shifted::away(&apart);
    let text = shifted.as_ref();
    if let Some(program) = strict(text) {
        return Ok(Parsed {
            programs: vec![program],
            leftovers: Vec::new(),
            complete: true,
            over: Over::NOTHING,
        });
    }
    let respelled = with_spaced_loops(text).or_else(|| with_filled_groups(text));
    if let Some(program) = respelled.and_then(|text| strict(&text)) {
        return Ok(Parsed {
            programs: vec![program],
            leftovers: Vec::new(),
            complete: true,
            over: Over::NOTHING,
        });
    }
    Ok(recover(text, &mut (2 * text.len())))
}

/// Returns whether `text` is complete shell code: no quote, construct or here-document is left
/// open.
pub fn is_whole(text: &str) -> bool {
    parse(text, &mut Names::default()).is_ok_and(|parsed| parsed.complete)
}

/// `( (x) )` as `( :; (x) )`: the parser takes two parentheses for arithmetic whatever is between them.
fn nested_apart(text: &str) -> Cow<'_, str> {
    if !has_nested_parentheses(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut quote: Option<char> = None;
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        out.push(c);
        match (quote, c) {
            (Some('\''), '\\') => {}
            (_, '\\') => out.extend(chars.next()),
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') if chars.peek().is_some_and(|c| c.is_whitespace()) && before != '$' => {
                let mut blanks = String::new();
                while let Some(blank) = chars.next_if(|c| c.is_whitespace()) {
                    blanks.push(blank);
                }
                if chars.peek() == Some(&'(') {
                    out.push_str(" :;");
                }
                out.push_str(&blanks);
            }
            _ => {}
        }
        before = c;
    }
    Cow::Owned(out)
}

/// True for an opening parenthesis that only blanks part from the next.
fn has_nested_parentheses(text: &str) -> bool {
    let mut after = false;
    let mut blank = false;
    for byte in text.bytes() {
        match byte {
            b'(' if after && blank => return true,
            b'(' => (after, blank) = (true, false),
            b' ' | b'\t' | b'\n' => blank = true,
            _ => after = false,
        }
    }
    false
}

/// `for ((i=0;;i++))` with the empty condition spelled `; ;`, which is how the parser knows it.
fn with_spaced_loops(text: &str) -> Option<String> {
    let (head, rest) = text.split_once("((")?;
    let (header, tail) = rest.split_once("))")?;
    (head.trim_end().ends_with("for") && header.contains(";;"))
        .then(|| format!("{head}(({})){tail}", header.replace(";;", "; ;")))
}

/// `{ }` as `{ :; }`: a group that holds nothing, which zsh knows and the parser does not.
fn with_filled_groups(text: &str) -> Option<String> {
    let mut out = String::new();
    let (mut quote, mut is_filled) = (None, false);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        out.push(c);
        match (quote, c) {
            (Some('\''), '\\') => {}
            (_, '\\') => out.extend(chars.next().map(|(_, escaped)| escaped)),
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            // What stands up to its end may be a here-document's, so that each group is filled.
            (None, '{') if text.get(at + 1..).is_some_and(|rest| rest.starts_with(char::is_whitespace)) => {
                out.push_str(" :;");
                is_filled = true;
            }
            _ => {}
        }
    }
    is_filled.then_some(out)
}

/// Parses `text` in pieces even though the whole was refused, as many as there is `room` for in bytes.
pub(crate) fn recover(text: &str, room: &mut usize) -> Parsed {
    let pieces =
        pieces(text).into_iter().flat_map(with_inner).filter(|piece| !piece.trim().is_empty()).collect();
    let (pieces, over) = fair::chosen(pieces, &limits::PIECES, limits::FEW_PIECES, usize::MAX);
    let mut read = |text: &str| {
        *room = room.checked_sub(text.len())?;
        weigh(text).ok().and_then(|_| strict(text))
    };
    let mut parsed = Parsed { programs: Vec::new(), leftovers: Vec::new(), complete: false, over };
    for piece in pieces {
        let piece = piece.trim_matches(|c: char| c.is_whitespace() || "&|;(){}".contains(c));
        if piece.is_empty() {
            continue;
        }
        let repaired = close_quotes(strip_reserved(piece));
        if let Some(program) = read(&repaired) {
            parsed.programs.push(program);
            continue;
        }
        // A pipe of which one part can't be read is read part by part.
        let parts = repaired.split('|').filter(|part| !part.trim().is_empty()).collect();
        let (parts, over) = fair::chosen(parts, &limits::PIECES, limits::FEW_PIECES, usize::MAX);
        parsed.over = parsed.over.or(over);
        for part in parts {
            match read(part) {
                Some(program) => parsed.programs.push(program),
                None => parsed.leftovers.push(part.to_owned()),
            }
        }
    }
    parsed
}

/// A piece, and what stands in it behind braces and parentheses: another shell may know them to open a block.
fn with_inner(piece: &str) -> impl Iterator<Item = &str> {
    let opens = |c: char| matches!(c, '{' | '(');
    let inner = piece.char_indices().filter(move |(_, c)| opens(*c)).filter_map(move |(at, _)| {
        let rest = piece.get(at + 1..)?;
        let end = rest.find(|c: char| opens(c) || matches!(c, '}' | ')')).unwrap_or(rest.len());
        rest.get(..end).filter(|inner| inner.trim().contains(' '))
    });
    std::iter::once(piece).chain(inner)
}

/// A subshell that runs `text`, if that is whole.
pub(crate) fn subshell(text: &str) -> Option<ast::SubshellCommand> {
    let program = weigh(text).ok().and_then(|_| strict(&format!("({text}\n)")))?;
    let list = program.complete_commands.into_iter().next()?.0.into_iter().next()?.0;
    match list.first.seq.into_iter().next()? {
        ast::Command::Compound(ast::CompoundCommand::Subshell(subshell), _) => Some(subshell),
        _ => None,
    }
}

fn strict(text: &str) -> Option<ast::Program> {
    let mut parser = Parser::new(Cursor::new(text.as_bytes()), options());
    parser.parse_program().ok()
}

/// Cuts at unquoted separators of lists; pipes stay whole. Quotes that never close do not count as quotes.
fn pieces(text: &str) -> Vec<&str> {
    let mut cuts = Vec::new();
    let mut start = 0;
    let mut quote: Option<u8> = None;
    let mut escaped = false;
    // Whatever is looked for is of one byte, which no other character has in it.
    for (at, byte) in text.bytes().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, byte) {
            (Some(b'\''), b'\\') => {}
            (_, b'\\') => escaped = true,
            (Some(open), byte) if byte == open => quote = None,
            (None, b'\'' | b'"')
                if text.as_bytes().get(at + 1..).is_some_and(|rest| rest.contains(&byte)) =>
            {
                quote = Some(byte);
            }
            (None, b'|') if !is_or(text, at) => {}
            (None, b';' | b'\n' | b'|' | b'&') => {
                cuts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    cuts.push(text.get(start..).unwrap_or_default());
    cuts
}

/// Returns whether the bar at this place is one of two.
fn is_or(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    bytes.get(at + 1) == Some(&b'|') || at > 0 && bytes.get(at - 1) == Some(&b'|')
}

/// Drops leading words that only make sense inside a construct.
fn strip_reserved(piece: &str) -> &str {
    const RESERVED: [&str; 9] = ["then", "do", "else", "elif", "if", "while", "until", "!", "time"];
    let mut rest = piece;
    while let Some((head, tail)) = rest.split_once(char::is_whitespace) {
        if !RESERVED.contains(&head) {
            break;
        }
        rest = tail.trim_start();
    }
    rest
}

/// Drops an unpaired quote, so that the words before it can be read.
fn close_quotes(piece: &str) -> Cow<'_, str> {
    let mut quote: Option<(usize, char)> = None;
    let mut escaped = false;
    for (at, c) in piece.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (Some((_, '\'')), '\\') => {}
            (_, '\\') => escaped = true,
            (Some((_, open)), c) if c == open => quote = None,
            (None, '\'' | '"' | '`') => quote = Some((at, c)),
            _ => {}
        }
    }
    match quote {
        None => Cow::Borrowed(piece),
        Some((at, _)) => {
            let (head, tail) = piece.split_at_checked(at).unwrap_or((piece, ""));
            Cow::Owned(format!("{head}{}", tail.get(1..).unwrap_or_default()))
        }
    }
}

/// Returns the words of a piece without those that look like redirections and their targets; `None` where none does.
pub(crate) fn without_redirections(words: &[String]) -> Option<Vec<String>> {
    let operator = |word: &str| word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['<', '>']);
    let is_bare = |word: &str| word.ends_with(['<', '>', '-', '&', '|']);
    words.iter().any(|word| operator(word)).then(|| {
        let behind = std::iter::once("").chain(words.iter().map(String::as_str));
        let plain = words
            .iter()
            .zip(behind)
            .filter(|(word, front)| !(operator(word) || operator(front) && is_bare(front)));
        plain.map(|(word, _)| word.clone()).collect()
    })
}

/// Words that are taken as they stand.
const FEW: usize = 1024;

/// Words of a piece that no parser understood, split at blanks, quotes removed: the first ones as they stand, and of the
/// others some of each kind, where they are too many.
pub(crate) fn rough_words(piece: &str) -> (Vec<String>, Over) {
    let text = super::shifted::back(piece);
    let mut kept: Vec<&str> = text.split_whitespace().collect();
    let more = kept.split_off(FEW.min(kept.len()));
    let (more, over) = fair::chosen_words(more, &limits::ROUGH_WORDS);
    kept.extend(more);
    let plain = |word: &str| {
        word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\' | '`' | '(' | ')')).collect::<String>()
    };
    (kept.into_iter().map(plain).filter(|word| !word.is_empty()).collect(), over)
}

/// What a shell runs text with, or starts something by that is not in the catalogue.
const RUNNING: [&str; 9] = [".", "alias", "builtin", "command", "coproc", "eval", "exec", "source", "trap"];

/// Returns whether a text that was not read names a program that is not known only to look.
pub(crate) fn names_a_carrier(text: &str, programs: &Programs) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '[');
    text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()).any(|word| {
        let name = program_name(word);
        RUNNING.contains(&word) || programs.get(&name).is_some() && !programs.does(&name, Does::OnlyLooks)
    })
}
