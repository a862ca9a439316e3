//! Shell patterns on known text: `*`, `?`, `[...]`, with quoted characters literal.
//!
//! Patterns arrive as marked text, where only active operators are marks. Matching backtracks over the
//! last star only, so it takes at most `text * pattern` steps.

use super::word::{ANY, HOLE, SET, STAR};

/// Returns whether the whole `text` matches `pattern`. Unknown pattern parts match anything.
pub fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    matches_chars(&pattern, &text)
}

fn matches_chars(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = pattern.get(p).and_then(|_| one(pattern, p, text.get(t).copied()));
        match (pattern.get(p), step) {
            (Some(&(STAR | HOLE)), _) => {
                star = Some((p, t));
                p += 1;
            }
            (Some(_), Some(next)) => {
                p = next;
                t += 1;
            }
            _ => {
                let Some((star_p, star_t)) = star else { return false };
                p = star_p + 1;
                t = star_t + 1;
                star = Some((star_p, star_t + 1));
            }
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|c| matches!(*c, STAR | HOLE)))
}

/// Matches one pattern element at `p`; the answer is where the next element starts.
fn one(pattern: &[char], p: usize, c: Option<char>) -> Option<usize> {
    let c = c?;
    match *pattern.get(p)? {
        ANY => Some(p + 1),
        SET => {
            let rest = pattern.get(p + 1..)?;
            let negated = matches!(rest.first(), Some('!' | '^'));
            let body_start = usize::from(negated);
            let end = rest.iter().skip(body_start + 1).position(|x| *x == ']')? + body_start + 1;
            let body = rest.get(body_start..end)?;
            (set_has(body, c) != negated).then_some(p + 1 + end + 1)
        }
        literal => (literal == c).then_some(p + 1),
    }
}

fn set_has(body: &[char], c: char) -> bool {
    let mut at = 0;
    while let Some(&low) = body.get(at) {
        match (body.get(at + 1), body.get(at + 2)) {
            (Some('-'), Some(&high)) => {
                if (low..=high).contains(&c) {
                    return true;
                }
                at += 3;
            }
            _ => {
                if low == c {
                    return true;
                }
                at += 1;
            }
        }
    }
    false
}

/// Which end of a text a pattern is removed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Prefix,
    Suffix,
}

/// Removes the shortest or longest match of `pattern` at one end of `text`.
pub(crate) fn remove(text: &str, pattern: &str, end: End, longest: bool) -> String {
    // Quadratic at worst; longer texts than this are not taken apart.
    if text.len() > 4096 {
        return HOLE.to_string();
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let chars: Vec<char> = text.chars().collect();
    let sizes: Box<dyn Iterator<Item = usize>> =
        if longest { Box::new((0..=chars.len()).rev()) } else { Box::new(0..=chars.len()) };
    for size in sizes {
        let (cut, rest) = match end {
            End::Prefix => chars.split_at_checked(size).unwrap_or((&chars, &[])),
            End::Suffix => {
                let (rest, cut) = chars.split_at_checked(chars.len() - size).unwrap_or((&[], &chars));
                (cut, rest)
            }
        };
        if matches_chars(&pattern, cut) {
            return rest.iter().collect();
        }
    }
    text.to_owned()
}

/// Replaces matches of `pattern` in `text`.
pub(crate) fn replace(text: &str, pattern: &str, with: &str, all: bool, anchor: Option<End>) -> String {
    if text.len() > 1024 {
        return HOLE.to_string();
    }
    let pattern: Vec<char> = pattern.chars().collect();
    if pattern.is_empty() {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    let mut done = false;
    while at < chars.len() {
        let blocked = done && !all || matches!(anchor, Some(End::Prefix)) && at > 0;
        let hit = (!blocked)
            .then(|| {
                (at + 1..=chars.len()).rev().find(|to| {
                    (anchor != Some(End::Suffix) || *to == chars.len())
                        && chars.get(at..*to).is_some_and(|part| matches_chars(&pattern, part))
                })
            })
            .flatten();
        match hit {
            Some(to) => {
                out.push_str(with);
                at = to;
                done = true;
            }
            None => {
                out.extend(chars.get(at));
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> String {
        text.replace('*', &STAR.to_string()).replace('?', &ANY.to_string()).replace('[', &SET.to_string())
    }

    #[test]
    fn patterns_match_like_the_shell() {
        for (pattern, text, expected) in [
            ("a*c", "abbbc", true),
            ("a*c", "abbb", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("?", "", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(&glob(pattern), text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn removal_and_replacement() {
        assert_eq!(remove("a/b/c", &glob("*/"), End::Prefix, false), "b/c");
        assert_eq!(remove("a/b/c", &glob("*/"), End::Prefix, true), "c");
        assert_eq!(remove("rmx", "x", End::Suffix, false), "rm");
        assert_eq!(replace("xaxa", "a", "m", false, None), "xmxa");
        assert_eq!(replace("xaxa", "a", "", true, None), "xx");
    }
}
