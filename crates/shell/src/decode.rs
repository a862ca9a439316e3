//! Encodings that hide commands: escapes, `printf` formats, base64, hex, reversal, character mapping.

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::word::HOLE;

/// Longest text that is built from a format.
const MAX_OUTPUT: usize = 64 * 1024;

/// Decodes the escapes of `$'...'` and `printf`.
pub(crate) fn ansi_c(text: &str) -> String {
    escapes(text, false).0
}

/// Decodes the escapes of `echo -e` and `%b`; the second part is true after `\c`.
pub(crate) fn echo_escapes(text: &str) -> (String, bool) {
    escapes(text, true)
}

fn escapes(text: &str, stop: bool) -> (String, bool) {
    if !text.contains('\\') {
        return (text.to_owned(), false);
    }
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let Some(c) = chars.next() else {
            out.push(b'\\');
            break;
        };
        let mut number = |radix: u32, first: Option<char>, most: usize| -> Option<u32> {
            let mut value = first.and_then(|c| c.to_digit(radix));
            let mut left = most - usize::from(value.is_some());
            while left > 0
                && let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix))
            {
                chars.next();
                value = Some(value.unwrap_or(0) * radix + digit);
                left -= 1;
            }
            value
        };
        match c {
            'a' => out.push(7),
            'b' => out.push(8),
            'e' | 'E' => out.push(27),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            'c' if stop => return (String::from_utf8_lossy(&out).into_owned(), true),
            'x' => match number(16, None, 2) {
                Some(byte) => out.push(u8::try_from(byte).unwrap_or(b'?')),
                None => out.extend(b"\\x"),
            },
            'u' => unicode(&mut out, number(16, None, 4), b"\\u"),
            'U' => unicode(&mut out, number(16, None, 8), b"\\U"),
            '0'..='7' => {
                // `echo -e` and `%b` write octal as `\0nnn`.
                let most = if stop && c == '0' { 4 } else { 3 };
                let value = number(8, Some(c), most).unwrap_or(0);
                out.push(u8::try_from(value & 0xFF).unwrap_or(b'?'));
            }
            '\\' | '\'' | '"' | '?' => push(&mut out, c),
            other => {
                out.push(b'\\');
                push(&mut out, other);
            }
        }
    }
    (String::from_utf8_lossy(&out).into_owned(), false)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn unicode(out: &mut Vec<u8>, code: Option<u32>, written: &[u8]) {
    match code.and_then(char::from_u32) {
        Some(c) => push(out, c),
        None => out.extend(written),
    }
}

/// Returns what `printf` prints.
pub(crate) fn printf(format: &str, args: &[&str]) -> String {
    let mut out = String::new();
    let mut args = args.iter();
    loop {
        let before = args.len();
        if !one_pass(format, &mut args, &mut out) || args.len() == 0 || args.len() == before {
            return out;
        }
        // It is too long already to be carried along, whatever follows.
        if out.len() > MAX_OUTPUT {
            return out;
        }
    }
}

/// Prints the format once; false when the output was ended by `\c`.
fn one_pass(format: &str, args: &mut std::slice::Iter<'_, &str>, out: &mut String) -> bool {
    let mut rest = format;
    while let Some((literal, directive)) = rest.split_once('%') {
        out.push_str(&ansi_c(literal));
        let flags =
            directive.len() - directive.trim_start_matches(|c: char| "-+ #0123456789.*'".contains(c)).len();
        let tail = directive.get(flags..).unwrap_or_default();
        let mut chars = tail.chars();
        let precision = precision(directive.get(..flags).unwrap_or_default(), args);
        match chars.next() {
            Some('%') => out.push('%'),
            Some('s' | 'q') => {
                let text = args.next().copied().unwrap_or_default();
                let most = precision.unwrap_or(usize::MAX);
                out.push_str(
                    text.char_indices().nth(most).map_or(text, |(end, _)| text.get(..end).unwrap_or(text)),
                );
            }
            Some('b') => {
                let (text, stopped) = echo_escapes(args.next().unwrap_or(&""));
                out.push_str(&text);
                if stopped {
                    return false;
                }
            }
            Some('c') => out.extend(args.next().and_then(|arg| arg.chars().next())),
            Some(kind @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X')) => {
                let arg = args.next().unwrap_or(&"0");
                match integer(arg) {
                    Some(n) => out.push_str(&match kind {
                        'o' => format!("{n:o}"),
                        'x' => format!("{n:x}"),
                        'X' => format!("{n:X}"),
                        _ => n.to_string(),
                    }),
                    None => out.push(HOLE),
                }
            }
            Some(_) => {
                out.push(HOLE);
                args.next();
            }
            None => out.push('%'),
        }
        rest = chars.as_str();
    }
    out.push_str(&ansi_c(rest));
    true
}

/// Returns how many characters a directive prints at most. A `*` takes its number from the arguments.
fn precision(flags: &str, args: &mut std::slice::Iter<'_, &str>) -> Option<usize> {
    let (width, precision) = flags.split_once('.').unwrap_or((flags, ""));
    for _ in width.matches('*') {
        args.next();
    }
    if precision.contains('*') {
        return args.next().and_then(|arg| arg.parse().ok());
    }
    flags.contains('.').then(|| precision.parse().unwrap_or(0))
}

/// A number as `printf` reads it, with the `'c` form for character codes.
fn integer(text: &str) -> Option<i64> {
    if let Some(quoted) = text.strip_prefix(['\'', '"']) {
        return Some(quoted.chars().next().map_or(0, |c| i64::from(u32::from(c))));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok();
    }
    if let Some(octal) = text.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        return i64::from_str_radix(octal, 8).ok();
    }
    if text.is_empty() { Some(0) } else { text.parse().ok() }
}

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::URL_SAFE, LENIENT);

/// Decodes base64 text, in either alphabet, ignoring blanks.
pub(crate) fn base64(text: &str) -> Option<String> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = STANDARD.decode(&compact).or_else(|_| URL_SAFE.decode(&compact)).ok()?;
    String::from_utf8(bytes).ok()
}

/// Encodes as base64.
pub(crate) fn to_base64(text: &str) -> String {
    STANDARD.encode(text)
}

/// Decodes hex digits, ignoring everything that is none.
pub(crate) fn hex(text: &str) -> Option<String> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    let bytes =
        digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
    String::from_utf8(bytes).ok()
}

/// Reverses every line.
pub(crate) fn rev(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| line.chars().rev().collect()).collect();
    lines.join("\n")
}

/// Maps characters as `tr` does; `None` when a set is not understood.
pub(crate) fn tr(text: &str, from: &str, to: &str, delete: bool) -> Option<String> {
    let from = tr_set(from)?;
    if delete {
        return Some(text.chars().filter(|c| !from.contains(c)).collect());
    }
    let to = tr_set(to)?;
    let last = *to.last()?;
    Some(
        text.chars()
            .map(|c| match from.iter().rposition(|x| *x == c) {
                Some(at) => to.get(at).copied().unwrap_or(last),
                None => c,
            })
            .collect(),
    )
}

fn tr_set(set: &str) -> Option<Vec<char>> {
    let named = set
        .replace("[:upper:]", "A-Z")
        .replace("[:lower:]", "a-z")
        .replace("[:digit:]", "0-9")
        .replace("[:space:]", " \t\n");
    if named.contains("[:") {
        return None;
    }
    let chars: Vec<char> = ansi_c(&named).chars().collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(&low) = chars.get(at) {
        match (chars.get(at + 1), chars.get(at + 2)) {
            (Some('-'), Some(&high)) => {
                if low > high {
                    return None;
                }
                out.extend(low..=high);
                at += 3;
            }
            _ => {
                out.push(low);
                at += 1;
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(ansi_c(r"rm\x20-rf\040\u002f\\"), "rm -rf /\\");
        assert_eq!(ansi_c(r"\x6564"), "e64");
        assert_eq!(echo_escapes(r"a\cb"), ("a".into(), true));
        assert_eq!(echo_escapes(r"\0162m").0, "rm");
    }

    #[test]
    fn printf_cycles_its_format() {
        assert_eq!(printf("%s\\n", &["a", "b"]), "a\nb\n");
        assert_eq!(printf("%s", &["rm", " -rf /"]), "rm -rf /");
        assert_eq!(printf("%d", &["'A"]), "65");
        assert_eq!(printf("\\x72m", &[]), "rm");
    }

    #[test]
    fn codings() {
        assert_eq!(base64("cm0gLXJmIH4=").as_deref(), Some("rm -rf ~"));
        assert_eq!(base64("cm0gLXJmIH4").as_deref(), Some("rm -rf ~"));
        assert_eq!(hex("72 6d").as_deref(), Some("rm"));
        assert_eq!(rev("~ fr- mr"), "rm -rf ~");
        assert_eq!(tr("ez -es /", "a-z", "n-za-m", false).as_deref(), Some("rm -rf /"));
    }
}
