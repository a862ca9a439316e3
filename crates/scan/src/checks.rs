//! Check digits. Each function takes a number without separators, letters in upper case.

use crate::text::{at, cut, digits};

/// A check by its name in a catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check(pub(crate) fn(&[u8]) -> bool);

macro_rules! named {
    ($($name:ident)*) => {
        /// The names of the checks.
        pub(crate) const CHECKS: &[&str] = &[$(stringify!($name)),*];

        impl Check {
            pub(crate) fn of(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self($name)),)*
                    _ => None,
                }
            }
        }
    };
}

named! {
    aadhaar aba_routing any ar_cuit au_abn au_medicare au_tfn be_person
    br_cnpj br_cpf ca_sin ch_ahv cl_rut cn_resident cz_birth date_first
    day_first de_health de_pension de_tax_id de_vat es_nie es_nif fi_person
    fr_nir hr_oib hr_oib_vat iban ie_pps in_pan in_passport it_fiscal it_vat kr_company
    kr_person luhn machine_readable nl_bsn no_foreigner no_person ph_tin pl_pesel
    ro_cnp ru_snils se_company se_person sg_entity sg_nric th_person tr_person tw_resident
    uk_nhs uk_nino uk_plate us_itin us_mbi us_npi us_ssn varied_luhn
    za_person
}

fn weighted(number: &[u8], weights: &[u32]) -> u32 {
    digits(number).zip(weights).map(|(digit, weight)| digit * weight).sum()
}

fn last(number: &[u8]) -> Option<u32> {
    digits(number).next_back()
}

/// Returns the two digits at `i` as a number, 100 where they are none.
pub(crate) fn pair(number: &[u8], i: usize) -> u32 {
    let two = cut(number, i, i + 2);
    if two.len() == 2 && two.iter().all(u8::is_ascii_digit) {
        digits(two).fold(0, |sum, digit| sum * 10 + digit)
    } else {
        100
    }
}

fn is_day(day: u32) -> bool {
    (1..=31).contains(&day)
}

fn is_month(month: u32) -> bool {
    (1..=12).contains(&month)
}

/// Returns the remainder of a number of any length.
fn modulo(number: &[u8], by: u32) -> u32 {
    digits(number).fold(0, |rest, digit| (rest * 10 + digit) % by)
}

pub(crate) fn luhn(number: &[u8]) -> bool {
    let sum: u32 = digits(number)
        .rev()
        .enumerate()
        .map(|(i, digit)| match (i % 2, digit * 2) {
            (0, _) => digit,
            (_, double) => double % 10 + double / 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Luhn, and not one digit over and over.
pub(crate) fn varied_luhn(number: &[u8]) -> bool {
    luhn(number) && digits(number).any(|digit| Some(digit) != last(number))
}

/// ISO 7064 MOD 97-10 over letters and digits, with the first four moved to the end, as IBANs have it.
pub(crate) fn iban(account: &[u8]) -> bool {
    let Some((head, tail)) = account.split_at_checked(4) else { return false };
    let rest = tail.iter().chain(head).fold(0_u32, |rest, &b| match b {
        b'0'..=b'9' => (rest * 10 + u32::from(b - b'0')) % 97,
        _ => (rest * 100 + u32::from(b.saturating_sub(b'A')) + 10) % 97,
    });
    rest == 1
}

/// ISO 7064 MOD 11,10 over all digits.
fn mod_11_10(number: &[u8]) -> bool {
    let Some(check) = last(number) else { return false };
    let product = digits(cut(number, 0, number.len() - 1)).fold(10, |product, digit| {
        let sum = (digit + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == check
}

pub(crate) fn de_tax_id(number: &[u8]) -> bool {
    at(number, 0) != b'0' && mod_11_10(number)
}

pub(crate) fn de_vat(number: &[u8]) -> bool {
    mod_11_10(cut(number, 2, number.len()))
}

pub(crate) fn hr_oib(number: &[u8]) -> bool {
    let all: Vec<u32> = digits(number).collect();
    varied(&all) && mod_11_10(number)
}

/// The same behind `HR`.
pub(crate) fn hr_oib_vat(number: &[u8]) -> bool {
    hr_oib(cut(number, 2, number.len()))
}

/// Weights 9 to 1, modulo 101, where 100 is written as 00; not checked up to 001-001-998.
pub(crate) fn ru_snils(number: &[u8]) -> bool {
    let sum = weighted(cut(number, 0, 9), &[9, 8, 7, 6, 5, 4, 3, 2, 1]) % 101;
    cut(number, 0, 9) > &b"001001998"[..] && pair(number, 9) == sum % 100
}

fn letter_value(byte: u8) -> u32 {
    u32::from(byte.saturating_sub(b'A')) + 1
}

/// The letter as a two-digit number, then weights 1 and 2 in turn, digit sums, modulo 10.
pub(crate) fn de_health(number: &[u8]) -> bool {
    let value = letter_value(at(number, 0));
    let all = [value / 10, value % 10].into_iter().chain(digits(cut(number, 1, 9)));
    let sum: u32 = all.zip([1, 2].iter().cycle()).map(|(d, w)| d * w).map(|p| p / 10 + p % 10).sum();
    Some(sum % 10) == last(number)
}

pub(crate) fn de_pension(number: &[u8]) -> bool {
    let day = pair(number, 2);
    let dated = is_day(if day > 50 { day - 50 } else { day }) && (pair(number, 4) <= 12);
    let value = letter_value(at(number, 8));
    let head = digits(cut(number, 0, 8));
    let tail = digits(cut(number, 9, 11));
    let all = head.chain([value / 10, value % 10]).chain(tail);
    let weights = [2, 1, 2, 5, 7, 1, 2, 1, 2, 1, 2, 1];
    let sum: u32 = all.zip(weights).map(|(d, w)| d * w).map(|p| p / 10 + p % 10).sum();
    dated && pair(number, 4) != 0 && Some(sum % 10) == last(number)
}

/// Weights 7, 3, 1 over letters and digits, as on machine-readable documents.
pub(crate) fn machine_readable(number: &[u8]) -> bool {
    let Some((&check, body)) = number.split_last() else { return false };
    let value = |b: u8| {
        if b.is_ascii_digit() { u32::from(b - b'0') } else { letter_value(b.to_ascii_uppercase()) + 9 }
    };
    let mixed = number.iter().filter(|b| b.is_ascii_alphabetic()).count() >= 2;
    let sum: u32 = body.iter().zip([7, 3, 1].iter().cycle()).map(|(&b, w)| value(b) * w).sum();
    mixed && check.is_ascii_digit() && sum % 10 == u32::from(check - b'0')
}

fn modulo_letter(number: u32, letters: &[u8]) -> u8 {
    letters.get(number as usize % letters.len().max(1)).copied().unwrap_or(0)
}

const SPANISH: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";

pub(crate) fn es_nif(number: &[u8]) -> bool {
    at(number, 8) == modulo_letter(modulo(cut(number, 0, 8), 23), SPANISH)
}

pub(crate) fn es_nie(number: &[u8]) -> bool {
    if no_foreigner(number) {
        return false;
    }
    let lead = u32::from(at(number, 0).saturating_sub(b'X'));
    let rest = modulo(cut(number, 1, 8), 23);
    at(number, 8) == modulo_letter(lead * 10_000_000 + rest, SPANISH)
}

pub(crate) fn fr_nir(number: &[u8]) -> bool {
    let month = pair(number, 3);
    let sane = is_month(month) || (20..=42).contains(&month);
    sane && 97 - modulo(cut(number, 0, 13), 97) == pair(number, 13)
}

pub(crate) fn it_fiscal(code: &[u8]) -> bool {
    const ODD: [u32; 26] =
        [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
    let sum: u32 = cut(code, 0, 15)
        .iter()
        .enumerate()
        .map(|(i, &b)| {
            let value = if b.is_ascii_digit() { u32::from(b - b'0') } else { letter_value(b) - 1 };
            if i % 2 == 0 { ODD.get(value as usize).copied().unwrap_or(0) } else { value }
        })
        .sum();
    u32::from(at(code, 15).saturating_sub(b'A')) == sum % 26
}

pub(crate) fn nl_bsn(number: &[u8]) -> bool {
    let sum = weighted(number, &[9, 8, 7, 6, 5, 4, 3, 2]);
    sum > 0 && last(number).is_some_and(|check| (sum + 110 - check).is_multiple_of(11))
}

pub(crate) fn pl_pesel(number: &[u8]) -> bool {
    let month = pair(number, 2) % 20;
    let sum = weighted(number, &[1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    is_month(month) && is_day(pair(number, 4)) && sum.is_multiple_of(10)
}

/// Luhn over the last ten digits, of which the first six are a date (days of co-ordination numbers are 60 up).
pub(crate) fn se_person(number: &[u8]) -> bool {
    let ten = cut(number, number.len().saturating_sub(10), number.len());
    let day = pair(ten, 4);
    is_month(pair(ten, 2)) && is_day(if day > 60 { day - 60 } else { day }) && luhn(ten)
}

pub(crate) fn se_company(number: &[u8]) -> bool {
    pair(number, 2) >= 20 && luhn(number)
}

pub(crate) fn no_person(number: &[u8]) -> bool {
    let first = weighted(number, &[3, 7, 6, 1, 8, 9, 4, 5, 2, 1]) % 11;
    let second = weighted(number, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]) % 11;
    let day = pair(number, 0);
    is_day(if day > 40 { day - 40 } else { day }) && first == 0 && second == 0
}

pub(crate) fn day_first(number: &[u8]) -> bool {
    is_day(pair(number, 0)) && is_month(pair(number, 2))
}

pub(crate) fn fi_person(number: &[u8]) -> bool {
    let Some((&check, body)) = number.split_last() else { return false };
    let counted: Vec<u8> = body.iter().copied().filter(u8::is_ascii_digit).collect();
    day_first(number)
        && counted.len() == 9
        && modulo_letter(modulo(&counted, 31), b"0123456789ABCDEFHJKLMNPRSTUVWXY") == check
}

pub(crate) fn be_person(number: &[u8]) -> bool {
    let body = modulo(cut(number, 0, 9), 97);
    let later = (body + 2_000_000_000 % 97) % 97;
    let check = pair(number, 9);
    is_month(pair(number, 2) % 20) && (97 - body == check || 97 - later == check)
}

fn ean(number: &[u8]) -> bool {
    digits(number).rev().zip([1, 3].iter().cycle()).map(|(d, w)| d * w).sum::<u32>().is_multiple_of(10)
}

pub(crate) fn ch_ahv(number: &[u8]) -> bool {
    number.starts_with(b"756") && ean(number)
}

pub(crate) fn cz_birth(number: &[u8]) -> bool {
    let month = pair(number, 2) % 50 % 20;
    is_month(month) && is_day(pair(number, 4)) && modulo(number, 11) == 0
}

pub(crate) fn ro_cnp(number: &[u8]) -> bool {
    let sum = weighted(number, &[2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9]) % 11;
    is_month(pair(number, 3))
        && is_day(pair(number, 5))
        && last(number) == Some(if sum == 10 { 1 } else { sum })
}

pub(crate) fn ie_pps(number: &[u8]) -> bool {
    let second = number.get(8).map_or(0, |&b| letter_value(b) * 9);
    let sum = weighted(cut(number, 0, 7), &[8, 7, 6, 5, 4, 3, 2]) + second;
    at(number, 7) == modulo_letter(sum, b"WABCDEFGHIJKLMNOPQRSTUV")
}

pub(crate) fn tr_person(number: &[u8]) -> bool {
    let all: Vec<u32> = digits(number).collect();
    let [a, b, c, d, e, f, g, h, i, tenth, eleventh] = all[..] else { return false };
    let odd = a + c + e + g + i;
    let even = b + d + f + h;
    a != 0 && (odd * 7 + 100 - even) % 10 == tenth && (odd + even + tenth) % 10 == eleventh
}

pub(crate) fn aadhaar(number: &[u8]) -> bool {
    const PRODUCT: [[usize; 10]; 10] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 2, 3, 4, 0, 6, 7, 8, 9, 5],
        [2, 3, 4, 0, 1, 7, 8, 9, 5, 6],
        [3, 4, 0, 1, 2, 8, 9, 5, 6, 7],
        [4, 0, 1, 2, 3, 9, 5, 6, 7, 8],
        [5, 9, 8, 7, 6, 0, 4, 3, 2, 1],
        [6, 5, 9, 8, 7, 1, 0, 4, 3, 2],
        [7, 6, 5, 9, 8, 2, 1, 0, 4, 3],
        [8, 7, 6, 5, 9, 3, 2, 1, 0, 4],
        [9, 8, 7, 6, 5, 4, 3, 2, 1, 0],
    ];
    const TURN: [[usize; 10]; 8] = [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [1, 5, 7, 6, 2, 8, 3, 0, 9, 4],
        [5, 8, 0, 3, 7, 9, 6, 1, 4, 2],
        [8, 9, 1, 6, 0, 4, 3, 5, 2, 7],
        [9, 4, 5, 3, 1, 2, 6, 8, 7, 0],
        [4, 2, 8, 6, 5, 7, 3, 9, 0, 1],
        [2, 7, 9, 3, 8, 0, 6, 4, 1, 5],
        [7, 0, 4, 6, 9, 1, 3, 2, 5, 8],
    ];
    let look = |row: Option<&[usize; 10]>, i: usize| row.and_then(|row| row.get(i)).copied().unwrap_or(0);
    let sum = digits(number)
        .rev()
        .enumerate()
        .fold(0, |sum, (i, digit)| look(PRODUCT.get(sum), look(TURN.get(i % 8), digit as usize)));
    at(number, 0) >= b'2' && sum == 0
}

pub(crate) fn in_pan(number: &[u8]) -> bool {
    b"ABCFGHLJPTK".contains(&at(number, 3))
}

pub(crate) fn sg_nric(number: &[u8]) -> bool {
    let lead = at(number, 0);
    let sum = weighted(cut(number, 1, 8), &[2, 7, 6, 5, 4, 3, 2])
        + match lead {
            b'T' | b'G' => 4,
            b'M' => 3,
            _ => 0,
        };
    let letters: &[u8] = match lead {
        b'S' | b'T' => b"JZIHGFEDCBA",
        b'F' | b'G' => b"XWUTRQPNMLK",
        b'M' => b"KLJNPQRTUWX",
        _ => return false,
    };
    at(number, 8) == modulo_letter(sum % 11, letters)
}

/// The lead of an entity of this kind: registered in this century, the last, or before.
pub(crate) fn sg_entity(number: &[u8]) -> bool {
    matches!(at(number, 0), b'T' | b'S' | b'R')
}

pub(crate) fn kr_person(number: &[u8]) -> bool {
    is_month(pair(number, 2)) && is_day(pair(number, 4)) && (b'1'..=b'8').contains(&at(number, 6))
}

pub(crate) fn kr_company(number: &[u8]) -> bool {
    let sum = weighted(number, &[1, 3, 7, 1, 3, 7, 1, 3, 5])
        + digits(cut(number, 8, 9)).map(|d| d * 5 / 10).sum::<u32>();
    last(number) == Some((10 - sum % 10) % 10)
}

pub(crate) fn cn_resident(number: &[u8]) -> bool {
    let sum = weighted(cut(number, 0, 17), &[7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2]);
    is_month(pair(number, 10))
        && is_day(pair(number, 12))
        && at(number, 17) == modulo_letter(sum % 11, b"10X98765432")
}

pub(crate) fn tw_resident(number: &[u8]) -> bool {
    const VALUES: [u32; 26] = [
        10, 11, 12, 13, 14, 15, 16, 17, 34, 18, 19, 20, 21, 22, 35, 23, 24, 25, 26, 27, 28, 29, 32, 30, 31,
        33,
    ];
    let value = VALUES.get(usize::from(at(number, 0).saturating_sub(b'A'))).copied().unwrap_or(0);
    let sum = value / 10 + value % 10 * 9 + weighted(number, &[8, 7, 6, 5, 4, 3, 2, 1, 1]);
    matches!(at(number, 1), b'1' | b'2' | b'8' | b'9') && sum.is_multiple_of(10)
}

pub(crate) fn th_person(number: &[u8]) -> bool {
    let sum = weighted(cut(number, 0, 12), &[13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
    at(number, 0) != b'0' && last(number) == Some((11 - sum % 11) % 10)
}

pub(crate) fn date_first(number: &[u8]) -> bool {
    is_month(pair(number, 2)) && is_day(pair(number, 4))
}

pub(crate) fn br_cpf(number: &[u8]) -> bool {
    let check = |len: u32| {
        let sum: u32 = digits(number).take(len as usize).zip((2..=len + 1).rev()).map(|(d, w)| d * w).sum();
        sum * 10 % 11 % 10
    };
    let all: Vec<u32> = digits(number).collect();
    varied(&all) && all.get(9) == Some(&check(9)) && all.get(10) == Some(&check(10))
}

pub(crate) fn br_cnpj(number: &[u8]) -> bool {
    let all: Vec<u32> = digits(number).collect();
    let weights = [6, 5, 4, 3, 2, 9, 8, 7, 6, 5, 4, 3, 2];
    let check = |from: usize, len: usize| {
        let sum: u32 = all.iter().take(len).zip(weights.iter().skip(from)).map(|(d, w)| d * w).sum();
        if sum % 11 < 2 { 0 } else { 11 - sum % 11 }
    };
    varied(&all) && all.get(12) == Some(&check(1, 12)) && all.get(13) == Some(&check(0, 13))
}

fn varied(all: &[u32]) -> bool {
    all.iter().any(|digit| Some(digit) != all.first())
}

pub(crate) fn ar_cuit(number: &[u8]) -> bool {
    let sum = weighted(number, &[5, 4, 3, 2, 7, 6, 5, 4, 3, 2]);
    [20, 23, 24, 27, 30, 33, 34].contains(&pair(number, 0)) && last(number) == Some((11 - sum % 11) % 11)
}

pub(crate) fn cl_rut(number: &[u8]) -> bool {
    let Some((&check, body)) = number.split_last() else { return false };
    let sum: u32 = digits(body).rev().zip([2, 3, 4, 5, 6, 7].iter().cycle()).map(|(d, w)| d * w).sum();
    check == modulo_letter(11 - sum % 11, b"0123456789K0")
}

pub(crate) fn ca_sin(number: &[u8]) -> bool {
    !matches!(at(number, 0), b'0' | b'8') && varied_luhn(number)
}

pub(crate) fn au_tfn(number: &[u8]) -> bool {
    weighted(number, &[1, 4, 3, 7, 5, 8, 6, 9, 10]).is_multiple_of(11)
}

pub(crate) fn au_medicare(number: &[u8]) -> bool {
    let sum = weighted(number, &[1, 3, 7, 9, 1, 3, 7, 9]);
    (b'2'..=b'6').contains(&at(number, 0)) && digits(number).nth(8) == Some(sum % 10)
}

pub(crate) fn au_abn(number: &[u8]) -> bool {
    let sum = weighted(number, &[10, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    sum > 10 && (sum - 10).is_multiple_of(89)
}

pub(crate) fn ph_tin(number: &[u8]) -> bool {
    let sum = weighted(number, &[9, 8, 7, 6, 5, 4, 3, 2]) % 11;
    digits(number).nth(8) == Some(sum)
}

pub(crate) fn za_person(number: &[u8]) -> bool {
    date_first(number) && matches!(at(number, 10), b'0'..=b'2') && luhn(number)
}

pub(crate) fn uk_nhs(number: &[u8]) -> bool {
    let sum = weighted(number, &[10, 9, 8, 7, 6, 5, 4, 3, 2]);
    last(number) == Some((11 - sum % 11) % 11)
}

pub(crate) fn uk_nino(number: &[u8]) -> bool {
    let (first, second) = (at(number, 0), at(number, 1));
    let barred =
        [&b"BG"[..], b"GB", b"KN", b"NK", b"NT", b"TN", b"ZZ"].iter().any(|pair| number.starts_with(pair));
    !b"DFIQUV".contains(&first) && !b"DFIQUVO".contains(&second) && !barred
}

pub(crate) fn us_ssn(number: &[u8]) -> bool {
    let area = cut(number, 0, 3);
    area != b"000"
        && area != b"666"
        && at(number, 0) != b'9'
        && pair(number, 3) != 0
        && !number.ends_with(b"0000")
}

pub(crate) fn us_itin(number: &[u8]) -> bool {
    let group = pair(number, 3);
    at(number, 0) == b'9' && matches!(group, 50..=65 | 70..=88 | 90..=92 | 94..=99)
}

pub(crate) fn us_mbi(number: &[u8]) -> bool {
    number.iter().all(|b| !b"SLOIBZ".contains(b))
}

pub(crate) fn us_npi(number: &[u8]) -> bool {
    let mut whole = b"80840".to_vec();
    whole.extend(number);
    matches!(at(number, 0), b'1' | b'2') && luhn(&whole)
}

pub(crate) fn aba_routing(number: &[u8]) -> bool {
    let sum = weighted(number, &[3, 7, 1, 3, 7, 1, 3, 7, 1]);
    matches!(pair(number, 0), 0..=12 | 21..=32 | 61..=72 | 80) && sum > 0 && sum.is_multiple_of(10)
}

pub(crate) fn in_passport(number: &[u8]) -> bool {
    at(number, 1) != b'0' && number.last() != Some(&b'0')
}

pub(crate) fn it_vat(number: &[u8]) -> bool {
    varied_luhn(number)
}

pub(crate) fn uk_plate(number: &[u8]) -> bool {
    number.iter().all(|&b| b != b'I' && b != b'Q')
}

/// Not of the shape of a Spanish foreigner's number, which would have to pass its own check.
pub(crate) fn no_foreigner(number: &[u8]) -> bool {
    !matches!(at(number, 0), b'X' | b'Y' | b'Z')
}

pub(crate) fn any(_: &[u8]) -> bool {
    true
}
