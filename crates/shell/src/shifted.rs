//! Expansions on a line on which a here-document begins.
//!
//! The parser breaks such an expansion: it splits `cat <<E > ${x}` into two words, and it loses the command in
//! `cat <<E | tee $(name)`. Before the text is parsed, the characters of these expansions are therefore moved to a plane of
//! Unicode in which no shell has operators. They are moved back when their word is expanded.

use std::borrow::Cow;

/// The plane, which is for private use.
const PLANE: u32 = 0xF_0000;
/// The characters that are moved.
const MOVED: u32 = 0x80;

/// Returns the text with the expansions behind the beginning of a here-document moved out of the parser's sight.
pub(crate) fn away(text: &str) -> Cow<'_, str> {
    if !text.contains("<<") || !text.contains(['$', '`']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match opening(line).and_then(|at| line.split_at_checked(at)) {
            Some((head, tail)) if tail.contains("${") || tail.contains("$(") || tail.contains('`') => {
                out.push_str(head);
                move_expansions(tail, &mut out);
            }
            _ => out.push_str(line),
        }
    }
    Cow::Owned(out)
}

/// Returns the characters where they were.
pub(crate) fn back(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_moved) {
        return Cow::Borrowed(text);
    }
    let moved = |c: char| if is_moved(c) { char::from_u32(u32::from(c) - PLANE).unwrap_or(c) } else { c };
    Cow::Owned(text.chars().map(moved).collect())
}

/// Returns whether a character could have been moved; a command must not have any of its own.
pub(crate) fn is_moved(c: char) -> bool {
    (PLANE..PLANE + MOVED).contains(&u32::from(c))
}

/// Returns where the first here-document of a line begins.
fn opening(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    (0..bytes.len()).find(|&at| {
        let is = |at: usize, byte| bytes.get(at) == Some(&byte);
        is(at, b'<')
            && is(at + 1, b'<')
            && !is(at + 2, b'<')
            && !at.checked_sub(1).is_some_and(|at| is(at, b'<'))
    })
}

fn move_expansions(tail: &str, out: &mut String) {
    let mut rest = tail;
    let mut literal = false;
    let mut escaped = false;
    while let Some(c) = rest.chars().next() {
        let end = match c {
            _ if literal || escaped => None,
            '$' => closing(rest),
            '`' => rest.get(1..).and_then(|tail| tail.find('`')).map(|at| at + 2),
            _ => None,
        };
        if let Some((expansion, after)) = end.and_then(|end| rest.split_at_checked(end)) {
            let moved = |c: char| match u32::from(c) {
                code if code < MOVED => char::from_u32(code + PLANE).unwrap_or(c),
                _ => c,
            };
            out.extend(expansion.chars().map(moved));
            rest = after;
            continue;
        }
        if c == '\'' && !escaped {
            literal = !literal;
        }
        escaped = c == '\\' && !escaped && !literal;
        out.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
}

/// Returns the length of `${...}` or `$(...)` at the beginning of a text, if it ends on this line.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote: Option<char> = None;
    let mut chars = text.char_indices().skip(1).peekable();
    if !matches!(chars.peek(), Some((_, '{' | '('))) {
        return None;
    }
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('\''), '\'') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(chars.next()),
            (None, '\'') => quote = Some('\''),
            (_, '{' | '(') => depth += 1,
            (_, '}' | ')') => depth = depth.saturating_sub(1),
            (_, '\n') => return None,
            _ => {}
        }
        if depth == 0 && matches!(c, '}' | ')') {
            return Some(at + 1);
        }
    }
    None
}
