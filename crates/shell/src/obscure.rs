//! Signs that a command was written to be unreadable.
//!
//! Obfuscators insert expansions that are always empty (`${@^^}`, `${*//x}`, `${!#}`) and change the kind
//! of quoting inside one word. People do neither. The signs are counted in the text, whatever it does.

/// Signs needed for a verdict.
const ENOUGH: usize = 4;

/// True when `text` carries enough signs.
pub(crate) fn is_obfuscated(text: &str) -> bool {
    if !text.contains("${") && !text.contains("$'") && !text.contains("''") && !text.contains("\"\"") {
        return false;
    }
    empty_expansions(text) * 2 + spliced_words(text) >= ENOUGH
}

/// Expansions of the (absent) positional parameters with an operator.
fn empty_expansions(text: &str) -> usize {
    let mut count = 0;
    for (at, _) in text.match_indices("${") {
        let mut rest = text.get(at + 2..).unwrap_or_default().chars();
        let operator = match rest.next() {
            Some('@' | '*') => rest.next(),
            Some('!') => match rest.next() {
                Some('@' | '*' | '#') => rest.next().filter(|c| *c == '}').map(|_| '^'),
                _ => None,
            },
            _ => None,
        };
        count += usize::from(operator.is_some_and(|c| "^,~/#%".contains(c)));
    }
    count
}

/// Words in which plain letters are split by quotes or written as escapes.
fn spliced_words(text: &str) -> usize {
    text.split_whitespace().filter(|word| is_spliced(word)).count()
}

fn is_spliced(word: &str) -> bool {
    // Quotes that enclose one letter or nothing between letters: `r""m`, `w"h"o`, `$'\x72'm`.
    let chars: Vec<char> = word.chars().collect();
    let mut splices = 0;
    for window in chars.windows(4) {
        splices += match window {
            [a, '"', '"', b] | [a, '\'', '\'', b] => {
                usize::from(a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric())
            }
            ['$', '\'', '\\', kind] => usize::from("xuU01".contains(*kind)) * 2,
            ['"', a, '"', b] | [b, '"', a, '"'] | ['\'', a, '\'', b] | [b, '\'', a, '\''] => {
                usize::from(a.is_ascii_alphabetic() && b.is_ascii_alphabetic())
            }
            _ => 0,
        };
    }
    splices >= 2
}

#[cfg(test)]
mod tests {
    use super::is_obfuscated;

    #[test]
    fn obfuscators_are_seen_and_people_are_not() {
        assert!(is_obfuscated(r#"${@~~}  ${*,,} ''${*,,}ba"${@~}"sh  <<<  "$(  \p'r'intf "x" )""#));
        assert!(is_obfuscated("${*} \"p\"ri$'\\u0074'f w\"h\"o\"a\"mi b\"a\"$'\\x73'h \"e\"v''\"a\"l"));
        for plain in [
            "for f in \"${@}\"; do echo \"${f##*/}\"; done",
            "git commit -m 'it'\"'\"'s done'",
            "echo \"${1:-x}\" \"${name//a/b}\" ''",
            "awk -F'\"' '{print $2}' file",
        ] {
            assert!(!is_obfuscated(plain), "{plain}");
        }
    }
}
