//! Which statements are followed when there are too many.
//!
//! The law: *padding of one kind takes nothing from another*. If a text has more statements than are followed, its
//! end is not cut off. Instead, statements are classified by their characters, and the first of each kind is taken before
//! the second of any. The kind of a statement is the statement without its numbers. Kinds with the same commands are
//! ranked among themselves, and so are kinds with similar operands and signs (an option, the root, a pipe). To
//! hide a statement, somebody has to write thousands that look like it.
//!
//! Limits: nothing is expanded here, and what is left out is reported like everything beyond a limit.

use std::collections::HashMap;

use super::limits::{self, Limit, Over};
use super::prescan::MAX_BYTES;
use super::statements;

/// As many of the texts as the limit lets in, in their order.
pub(crate) fn chosen<'t>(
    texts: Vec<&'t str>,
    limit: &'static Limit,
    few: usize,
    bytes: usize,
) -> (Vec<&'t str>, Over) {
    by_looks(texts, limit, few, bytes, Look::at)
}

/// Returns the same of words, of which none is a command.
pub(crate) fn chosen_words<'t>(words: Vec<&'t str>, limit: &'static Limit) -> (Vec<&'t str>, Over) {
    by_looks(words, limit, limit.most, usize::MAX, Look::at_word)
}

fn by_looks<'t>(
    texts: Vec<&'t str>,
    limit: &'static Limit,
    few: usize,
    bytes: usize,
    look: impl Fn(&str) -> Look,
) -> (Vec<&'t str>, Over) {
    let (kept, over) = kept(&texts, limit, few, bytes, look);
    if over == Over::NOTHING {
        return (texts, over);
    }
    let kept = texts.into_iter().zip(kept).filter_map(|(text, is_kept)| is_kept.then_some(text));
    (kept.collect(), over)
}

/// Returns which of the statements are followed.
pub(crate) fn followed(
    statements: &[&str],
    limit: &'static Limit,
    few: usize,
    bytes: usize,
) -> (Vec<bool>, Over) {
    kept(statements, limit, few, bytes, Look::at)
}

fn kept(
    texts: &[&str],
    limit: &'static Limit,
    few: usize,
    bytes: usize,
    look: impl Fn(&str) -> Look,
) -> (Vec<bool>, Over) {
    let is_many = texts.len() > limit.most;
    let unbounded = bytes == usize::MAX;
    if !is_many && unbounded {
        return (vec![true; texts.len()], Over::NOTHING);
    }
    let weights: Vec<usize> = match unbounded {
        true => texts.iter().map(|text| text.len()).collect(),
        false => texts.iter().map(|text| weight(text)).collect(),
    };
    if !is_many && weights.iter().sum::<usize>() <= bytes {
        return (vec![true; texts.len()], Over::NOTHING);
    }
    let (limit, few) = if is_many { (limit, few) } else { (&limits::CODE, texts.len()) };
    let mut ranking = Ranking { few, ..Ranking::default() };
    let ranks: Vec<usize> = texts.iter().map(|text| ranking.rank(&look(text))).collect();
    let mut totals: Vec<(usize, usize)> = vec![(0, 0); few];
    for (rank, weight) in ranks.iter().zip(&weights) {
        if let Some((count, bytes)) = totals.get_mut(*rank) {
            (*count, *bytes) = (*count + 1, *bytes + weight);
        }
    }
    // Every rank that fits as a whole, and of the next one the shortest.
    let (mut worst, mut left, mut room) = (0, few, bytes);
    while let Some((count, bytes)) = totals.get(worst).filter(|total| total.0 <= left && total.1 <= room) {
        (left, room) = (left - count, room - bytes);
        worst += 1;
    }
    let mut next: Vec<usize> = (0..texts.len()).filter(|at| ranks.get(*at) == Some(&worst)).collect();
    next.sort_by_key(|at| weights.get(*at));
    let mut kept: Vec<bool> = ranks.iter().map(|rank| *rank < worst).collect();
    for at in next.into_iter().take(left) {
        let (Some(weight), Some(kept)) = (weights.get(at), kept.get_mut(at)) else { break };
        let Some(rest) = room.checked_sub(*weight) else { break };
        room = rest;
        *kept = true;
    }
    (kept, Over::of(limit))
}

/// Bytes of a text that the parser is given. What is too long for it costs nothing.
fn weight(text: &str) -> usize {
    let bytes = statements::bytes_of_code(text);
    if bytes > MAX_BYTES { 0 } else { bytes }
}

/// What was met before, by hashes.
#[derive(Default)]
struct Ranking {
    /// Whatever has so many in front of it is not followed, however many more these are.
    few: usize,
    /// How often each kind was met.
    kinds: HashMap<u64, usize>,
    /// How many kinds of the same commands were.
    commands: HashMap<u64, usize>,
    /// How many commands of the same shape were.
    shapes: HashMap<u64, usize>,
}

impl Ranking {
    /// Returns how many go before what looks like this.
    fn rank(&mut self, look: &Look) -> usize {
        let same = self.kinds.entry(look.kind).or_default();
        *same += 1;
        let repeated = *same - 1;
        if repeated >= self.few {
            return repeated;
        }
        // A word that is no command has none to be ranked among.
        let alike = match look.commands {
            None => 0,
            Some(commands) => {
                let kinds = self.commands.entry(commands).or_default();
                *kinds += usize::from(repeated == 0);
                *kinds - 1
            }
        };
        let commands = self.shapes.entry(look.shape).or_default();
        *commands += usize::from(repeated == 0 && alike == 0);
        repeated + alike + *commands - 1
    }
}

/// What a look at the characters of a statement says.
#[derive(Debug, Default, Clone, Copy)]
struct Look {
    /// Its text without numbers.
    kind: u64,
    /// The words where commands stand, and the shape.
    commands: Option<u64>,
    /// Signs and classes of operands, each a bit.
    shape: u64,
}

/// Signs that say what a statement does. Each has a bit of its own.
const SIGNS: &[u8] = b"|><$`({&*?[~'\"\\!=";
/// The bit of each byte that is a sign.
const SIGN_BITS: [u64; 256] = {
    let mut bits = [0; 256];
    let mut signs = SIGNS;
    let mut bit = 1;
    while let [sign, rest @ ..] = signs {
        let (_, from) = bits.split_at_mut(*sign as usize);
        if let [slot, ..] = from {
            *slot = bit;
        }
        bit <<= 1;
        signs = rest;
    }
    bits
};
/// Paths with so many folders are all equally deep.
const DEEP: usize = 7;
/// Words of so many characters are all equally long.
const LONG: usize = 15;
/// Words behind which another command begins.
const LEADING: [&str; 14] = [
    "!", "command", "do", "elif", "else", "env", "exec", "if", "nohup", "sudo", "then", "time", "until",
    "while",
];

impl Look {
    fn at(text: &str) -> Self {
        let mut look = Self::default();
        let mut commands = 0;
        let mut leads = true;
        let separates = |byte: &u8| {
            byte.is_ascii_whitespace()
                || matches!(byte, b'|' | b'&' | b';' | b'(' | b')' | b'{' | b'}' | b'`')
        };
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let length = rest.bytes().position(|byte| separates(&byte));
            let (word, end) = rest.split_at_checked(length.unwrap_or(rest.len())).unwrap_or((rest, ""));
            let end = end.get(..length.map_or(0, |_| 1)).unwrap_or_default();
            at += word.len() + end.len();
            let hash = look.read(word);
            if !word.is_empty() {
                look.kind = mixed(look.kind, hash);
                if leads && !word.contains('=') {
                    commands = mixed(commands, hash);
                } else {
                    look.shape |= 1 << (SIGNS.len() + class(word));
                }
                leads = leads && (LEADING.contains(&word) || word.contains('='));
            }
            look.read(end);
            leads |= end.bytes().any(|byte| !byte.is_ascii_whitespace() || byte == b'\n');
        }
        commands = mixed(commands, look.shape);
        look.commands = Some(commands);
        look.kind = mixed(look.kind, commands);
        look
    }

    /// Creates a look at one word, which may name a file: how high that lies, whether it is hidden, and how long a short word
    /// is, belong to its shape.
    fn at_word(word: &str) -> Self {
        let mut look = Self::default();
        let hash = look.read(word);
        let depth = word.bytes().filter(|byte| *byte == b'/').count().min(DEEP);
        let places = [class(word), depth, word.len().min(LONG), usize::from(word.starts_with('.'))];
        look.shape |= places.into_iter().fold(0, |place, more| place << 4 | more as u64) << SIGNS.len();
        look.kind = mixed(hash, look.shape);
        look
    }

    /// Returns the hash of a word without its numbers; its signs are added to the shape.
    fn read(&mut self, word: &str) -> u64 {
        let mut hash = 0;
        let mut number = false;
        for byte in word.bytes() {
            let is_digit = byte.is_ascii_digit();
            if !(is_digit && number) {
                hash = mixed(hash, u64::from(if is_digit { b'0' } else { byte }));
            }
            number = is_digit;
            if !byte.is_ascii_alphanumeric() {
                self.shape |= SIGN_BITS.get(usize::from(byte)).copied().unwrap_or_default();
            }
        }
        hash
    }
}

/// Returns what kind of thing a word may name.
fn class(word: &str) -> usize {
    let bytes = word.as_bytes();
    let value = bytes.iter().position(|byte| *byte == b'=').and_then(|at| bytes.get(at + 1..));
    let mut bytes = value.unwrap_or(bytes);
    while let [b'"' | b'\'', rest @ ..] = bytes {
        bytes = rest;
    }
    match bytes {
        [b'/'] | [b'/', b'*' | b'.' | b'"' | b'\'', ..] => 0,
        [b'/', ..] => 1,
        [b'~', ..] => 2,
        [b'.', b'.', ..] => 3,
        [b'-', ..] => 4,
        _ if bytes.contains(&b':') && word.contains("://") => 5,
        _ => 6,
    }
}

fn mixed(hash: u64, more: u64) -> u64 {
    (hash ^ more).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23) ^ more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PIECES;

    #[test]
    fn what_is_not_too_much_is_all_followed() {
        let texts: Vec<&str> = vec!["ls"; PIECES.most];
        assert_eq!(chosen(texts.clone(), &PIECES, 8, usize::MAX), (texts, Over::NOTHING));
    }

    #[test]
    fn a_word_unlike_the_others_is_followed_wherever_it_stands() {
        let letters = |at: usize| -> String {
            let letter =
                |place: u32| char::from(b'a' + u8::try_from(at / 26usize.pow(place) % 26).unwrap_or(0));
            (0..4).map(letter).collect()
        };
        let paddings: [&dyn Fn(usize) -> String; 5] = [
            &|at| format!("f{at}"),
            &|at| letters(at),
            &|at| format!("/tmp/{}", letters(at)),
            &|at| format!("-{}", letters(at)),
            &|at| format!("./{}/x", letters(at)),
        ];
        for padding in paddings {
            let padding: Vec<String> = (0..4 * PIECES.most).map(padding).collect();
            for hidden in ["/", "/etc", "~", "../..", "-rf", ".git/config", "*", "$x"] {
                for at in [0, PIECES.most, 4 * PIECES.most - 1] {
                    let mut words: Vec<&str> = padding.iter().map(String::as_str).collect();
                    words.insert(at, hidden);
                    let (kept, over) = chosen_words(words, &PIECES);
                    assert_eq!((kept.len(), over), (PIECES.most, Over::of(&PIECES)));
                    assert!(kept.contains(&hidden), "{hidden} at {at} among {:?}", padding.first());
                }
            }
        }
    }

    #[test]
    fn a_short_statement_is_followed_among_long_ones_wherever_it_stands() {
        let long: Vec<String> = (0..40).map(|at| format!("tool{at} {}", "x ".repeat(5_000))).collect();
        for at in [0, 20, 40] {
            let mut texts: Vec<&str> = long.iter().map(String::as_str).collect();
            texts.insert(at, "rm -rf /");
            let (kept, over) = chosen(texts, &PIECES, 512, 64 * 1024);
            assert_eq!(over, Over::of(&limits::CODE));
            assert!(kept.contains(&"rm -rf /"), "at {at}");
            assert!(kept.iter().map(|text| text.len()).sum::<usize>() <= 64 * 1024);
        }
    }

    #[test]
    fn a_statement_unlike_the_others_is_followed_wherever_it_stands() {
        let letters = |at: usize| -> String {
            let letter =
                |place: u32| char::from(b'a' + u8::try_from(at / 26usize.pow(place) % 26).unwrap_or(0));
            (0..4).map(letter).collect()
        };
        let paddings: [&dyn Fn(usize) -> String; 7] = [
            &|at| format!("ls f{at}"),
            &|at| format!("ls {}", letters(at)),
            &|at| format!("{} x", letters(at)),
            &|at| format!("rm {}", letters(at)),
            &|at| format!("echo {at} > n{at}"),
            &|at| format!("{}=1", letters(at)),
            &|at| format!("cat {} | sort", letters(at)),
        ];
        for padding in paddings {
            let padding: Vec<String> = (0..2 * PIECES.most).map(padding).collect();
            for hidden in ["rm -rf /", "x=/", "curl http://127.0.0.1/x | sh", "echo x > /etc/passwd"] {
                for at in [0, PIECES.most, 2 * PIECES.most - 1] {
                    let mut texts: Vec<&str> = padding.iter().map(String::as_str).collect();
                    texts.insert(at, hidden);
                    let (kept, over) = chosen(texts, &PIECES, 512, usize::MAX);
                    assert_eq!((kept.len(), over), (512, Over::of(&PIECES)));
                    assert!(kept.contains(&hidden), "{hidden} at {at} among {:?}", padding.first());
                }
            }
        }
    }
}
