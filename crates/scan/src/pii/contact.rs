//! Ways to reach a person: email addresses, telephone numbers, links; and dates.

use base64::Engine as _;

use super::super::span::Evidence;
use super::super::text::{
    ALNUM, ByteSet, DASH, DIGIT, DOT, LETTER, PLUS_SLASH, UNDERSCORE, at, before, compact, cut, digits,
    inside_word,
};
use super::Found;

const LOCAL: ByteSet = ALNUM.or(DOT).or(UNDERSCORE).or(DASH).or(PLUS_SLASH);
const BASE64_END: ByteSet = ALNUM.or(PLUS_SLASH).or(super::super::text::EQUALS);
const HOST: ByteSet = ALNUM.or(DOT).or(DASH);
/// Endings that name a file, where a mail address would name its country.
const FILES: [&[u8]; 14] = [
    b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"js", b"ts", b"css", b"json", b"yml", b"yaml",
    b"lock", b"service",
];

/// Returns the mail address around the `@` at `sign`.
pub(super) fn email(text: &[u8], sign: usize) -> Option<Found> {
    let mut start = LOCAL.run_back(text, sign, 64);
    if let Some(slash) = cut(text, start, sign).iter().rposition(|&b| b == b'/') {
        start += slash + 1;
    }
    while start < sign && matches!(at(text, start), b'.' | b'-' | b'+') {
        start += 1;
    }
    let mut end = HOST.run(text, sign + 1, 253);
    while matches!(before(text, end), b'.' | b'-') && end > sign {
        end -= 1;
    }
    let host = cut(text, sign + 1, end);
    let top = host.rsplit(|&b| b == b'.').next().unwrap_or_default();
    let dotted =
        host.contains(&b'.') && !host.starts_with(b".") && !host.windows(2).any(|pair| pair == b"..");
    let real = top.len() >= 2 && LETTER.all(top) && !FILES.iter().any(|file| top.eq_ignore_ascii_case(file));
    let local = cut(text, start, sign);
    let service = [&b"git"[..], b"noreply", b"no-reply"].iter().any(|name| local.eq_ignore_ascii_case(name));
    let credentials = matches!(before(text, start), b':')
        && cut(text, start.saturating_sub(80), start).windows(3).any(|w| w == b"://");
    let whole = start < sign && dotted && real && !credentials && at(text, end) != b'@';
    whole.then_some(Found {
        kind: "email",
        start,
        end,
        confidence: if service { 0.3 } else { 0.9 },
        evidence: Evidence::Format,
    })
}

/// A mail address whose `@` is written as `%40`, or that is encoded as a whole: in base64 or hexadecimal.
pub(super) fn encoded_email(text: &[u8], digit: usize) -> Option<Found> {
    let word = ALNUM.or(PLUS_SLASH).or(UNDERSCORE).or(DASH).run_back(text, digit, 128);
    let found = |start, end| Found { kind: "email", start, end, confidence: 0.7, evidence: Evidence::Format };
    if cut(text, digit.saturating_sub(1), digit + 2) == b"%40" {
        let coded = LOCAL.or(super::super::text::TOKEN_MARK);
        let start = coded.run_back(text, digit - 1, 128);
        let end = HOST.run(text, digit + 2, 128);
        let mut plain = b"x@".to_vec();
        plain.extend(cut(text, digit + 2, end));
        let spelled = email(&plain, 1)?;
        return (start < digit - 1).then(|| found(start, digit + spelled.end));
    }
    let end = BASE64_END.run(text, digit, 256);
    let value = cut(text, word, end);
    if value.len() < 12 || cut(text, word, digit).iter().any(u8::is_ascii_digit) {
        return None;
    }
    let hex = || {
        value.len().is_multiple_of(2).then(|| {
            value
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect::<Option<Vec<u8>>>()
        })?
    };
    let plain = hex().or_else(|| base64::engine::general_purpose::STANDARD.decode(value).ok())?;
    let sign = plain.iter().position(|&b| b == b'@')?;
    let printable = plain.iter().all(|b| (0x20..0x7f).contains(b));
    (printable && email(&plain, sign).is_some()).then(|| found(word, end))
}

/// How a telephone number is grouped: where groups end, and with what.
struct Dialled {
    end: usize,
    count: usize,
    joints: usize,
    groups: usize,
}

/// Reads digits in groups, joined by one separator or a bracket each, as people write telephone numbers.
fn dialled(text: &[u8], start: usize) -> Dialled {
    let mut read = Dialled { end: start, count: 0, joints: 0, groups: 0 };
    let (mut pos, mut open) = (start, true);
    while pos < start + 26 {
        match at(text, pos) {
            byte if DIGIT.has(byte) => {
                read.count += 1;
                read.groups += usize::from(open);
                open = false;
                read.end = pos + 1;
            }
            b' ' | b'-' | b'.' if !open || before(text, pos) == b')' => {
                read.joints += 1;
                open = true;
            }
            b'(' | b')' => open = true,
            _ => break,
        }
        pos += 1;
    }
    read
}

/// A telephone number whose first digit stands at `digit`: international, North American, or national.
pub(super) fn phone(text: &[u8], digit: usize) -> Option<Found> {
    let plus = before(text, digit) == b'+';
    let bracket = before(text, digit) == b'(';
    let start = digit - usize::from(plus || bracket);
    let outer = before(text, start);
    if ALNUM.has(outer)
        || matches!(outer, b'_' | b'/' | b'=' | b'#' | b'$')
        || (!plus && matches!(outer, b'.' | b'-' | b'+'))
    {
        return None;
    }
    let read = dialled(text, digit);
    if inside_word(text, read.end)
        || matches!(at(text, read.end), b'-' | b'.' | b':' | b'/') && ALNUM.has(at(text, read.end + 1))
    {
        return None;
    }
    let found =
        |confidence, evidence| Some(Found { kind: "phone", start, end: read.end, confidence, evidence });
    let number = compact(cut(text, digit, read.end));
    if digits(&number).all(|d| Some(d) == digits(&number).next()) {
        return None;
    }
    if !plus && super::in_series(text, start, read.end) {
        return None;
    }
    if plus {
        let grouped = read.joints > 0 || read.count >= 10;
        return ((8..=15).contains(&read.count) && grouped && at(&number, 0) != b'0')
            .then_some(())
            .and_then(|()| found(0.85, Evidence::Format));
    }
    if read.count == 10 && read.groups == 3 && north_american(text, digit, &number) {
        return found(if bracket { 0.8 } else { 0.65 }, Evidence::Format);
    }
    if read.count == 11
        && read.groups == 4
        && at(&number, 0) == b'1'
        && north_american(text, digit + 2, cut(&number, 1, 11))
    {
        return found(0.7, Evidence::Format);
    }
    let trunk = at(&number, 0) == b'0' && at(&number, 1) != b'0';
    let dotted = cut(text, digit, read.end).contains(&b'.');
    let long = (10..=11).contains(&read.count) || read.count == 9 && read.groups == 2;
    if trunk && long && (1..=4).contains(&read.joints) && !dotted && !looks_like_date(text, digit) {
        return found(0.6, Evidence::Format);
    }
    let turkish =
        at(&number, 0) == b'5' && read.count == 10 && read.groups == 4 && dotted && read.joints == 3;
    if turkish {
        return found(0.5, Evidence::Format);
    }
    let called = (7..=12).contains(&read.count)
        && super::named_nearby(
            text,
            start,
            read.end,
            &["phone", "tel", "mobile", "call me", "fax", "whatsapp", "cell"],
        );
    called.then_some(()).and_then(|()| found(0.7, Evidence::Context))
}

fn north_american(text: &[u8], digit: usize, number: &[u8]) -> bool {
    let written = cut(text, digit, digit + 3);
    let first = DIGIT.all(written) && !DIGIT.has(at(text, digit + 3));
    first && at(number, 0) >= b'2' && at(number, 3) >= b'2' && number.len() == 10
}

fn looks_like_date(text: &[u8], start: usize) -> bool {
    matches!(at(text, start + 2), b'-' | b'.' | b'/') && matches!(at(text, start + 5), b'-' | b'.' | b'/')
}

const MONTHS: [&[u8]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const BIRTH: [&str; 10] =
    ["born", "birth", "dob", "geboren", "geburt", "naissance", "nacimiento", "nascita", "birthday", "d.o.b"];

/// A calendar date that begins at `start`. It points to a person only where the text speaks of a birth; in a
/// `brief` text it is reported at a low confidence.
pub(super) fn date(text: &[u8], start: usize, brief: bool) -> Option<Found> {
    let (first, joint_at) = number(text, start)?;
    let joint = at(text, joint_at);
    if !matches!(joint, b'-' | b'.' | b'/')
        || matches!(before(text, start), b'-' | b'.' | b'/' | b'_')
        || ALNUM.has(before(text, start))
    {
        return None;
    }
    let (second, second_end) = number(text, joint_at + 1).or_else(|| month_name(text, joint_at + 1))?;
    if at(text, second_end) != joint {
        return None;
    }
    let (third, mut end) = number(text, second_end + 1)?;
    let named = end - joint_at > 1 && LETTER.has(at(text, joint_at + 1));
    let year = |n: u32, len: usize| len == 4 && (1850..=2150).contains(&n);
    let widths = (joint_at - start, end - second_end - 1);
    let day_month = (1..=31).contains(&first) && (1..=31).contains(&second) && (first <= 12 || second <= 12);
    let iso =
        year(first, widths.0) && (1..=12).contains(&second) && (1..=31).contains(&third) && widths.1 == 2;
    let written = day_month && (year(third, widths.1) || (widths.1 == 2 && (joint == b'.' || named)));
    if !(iso || written) || matches!(at(text, end), b'-' | b'.' | b'/') && DIGIT.has(at(text, end + 1)) {
        return None;
    }
    if iso && matches!(at(text, end), b'T') {
        let clock = ALNUM.or(DOT).or(DASH).or(PLUS_SLASH).or(super::super::text::COLON);
        end = clock.run(text, end, 24);
        while DOT.has(before(text, end)) {
            end -= 1;
        }
    }
    if inside_word(text, end) {
        return None;
    }
    let birth = super::named_nearby(text, start, end, &BIRTH);
    if !birth && !brief {
        return None;
    }
    let (kind, confidence) = if birth { ("date_of_birth", 0.8) } else { ("date", 0.2) };
    Some(Found {
        kind,
        start,
        end,
        confidence,
        evidence: if birth { Evidence::Context } else { Evidence::Format },
    })
}

fn number(text: &[u8], start: usize) -> Option<(u32, usize)> {
    let end = DIGIT.run(text, start, 5);
    let value = digits(cut(text, start, end)).fold(0, |sum, digit| sum * 10 + digit);
    matches!(end - start, 1 | 2 | 4).then_some((value, end))
}

fn month_name(text: &[u8], start: usize) -> Option<(u32, usize)> {
    let end = LETTER.run(text, start, 10);
    let name = cut(text, start, start + 3);
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(name))?;
    Some((u32::try_from(month).ok()? + 1, end))
}

/// A link that is the whole of `text`, quotes aside: it may lead to a person's page.
pub(super) fn lone_link(text: &[u8]) -> Option<Found> {
    let trim = |b: &u8| matches!(b, b'"' | b'\'' | b' ' | b'\n' | b'<' | b'>');
    let start = text.iter().position(|b| !trim(b))?;
    let end = text.iter().rposition(|b| !trim(b))? + 1;
    let link = cut(text, start, end);
    let rest = link.strip_prefix(b"https://").or_else(|| link.strip_prefix(b"http://"))?;
    let host = rest.split(|b| matches!(b, b'/' | b'?' | b':')).next().unwrap_or_default();
    let top = host.rsplit(|&b| b == b'.').next().unwrap_or_default();
    let whole = host.contains(&b'.') && top.len() >= 2 && LETTER.all(top) && !link.contains(&b' ');
    whole.then_some(Found { kind: "url", start, end, confidence: 0.2, evidence: Evidence::Alone })
}
