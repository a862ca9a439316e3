//! The law of names that are shown: redactors take nothing out of a name that counts as a plain word.

use backstop_hooks::ShownName;
use backstop_scan::{Class, Policy, Scanner};
use proptest::prelude::*;

/// How tokens, mail addresses and numbers of people begin, in pieces so that no file holds one.
const BEGINNINGS: [&[&str]; 15] = [
    &[""],
    &["gh", "p_"],
    &["gith", "ub_pat_"],
    &["AK", "IA"],
    &["AS", "IA"],
    &["sk", "-"],
    &["sk", "-ant-api03-"],
    &["sk", "_live_"],
    &["rk", "_test_"],
    &["xox", "b-"],
    &["gl", "pat-"],
    &["AI", "za"],
    &["np", "m_"],
    &["ey", "J"],
    &["DE", "89"],
];

/// Whether redactors find something as they are by default, to which a mere shape (eight letters and digits) is nothing.
fn finds(scanner: &Scanner, name: &str) -> bool {
    scanner.detect(name).iter().any(|span| span.confidence >= Policy::DEFAULT_CONFIDENCE)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_found_in_a_plain_word(
        beginning in proptest::sample::select(BEGINNINGS.as_slice()),
        rest in prop_oneof![
            "[A-Za-z0-9_.:-]{1,64}",
            "[A-Z2-7]{16}",
            "[0-9]{2,4}([-._:][0-9]{2,4}){1,4}",
            "[a-z]{1,10}([-._:][A-Za-z0-9]{1,16}){1,4}",
            "[A-Za-z]{20,60}",
            "[a-z0-9]{8,32}",
        ],
    ) {
        let scanner = Scanner::for_classes(&[Class::Secret, Class::Pii, Class::Hidden]);
        let name = format!("{}{rest}", beginning.concat());
        prop_assert!(!(ShownName::new(&name).is_plain() && finds(&scanner, &name)), "{name}");
    }
}

/// The law says something: tokens are made here that the scanners do find.
#[test]
fn tokens_are_found_and_are_no_plain_words() {
    let scanner = Scanner::for_classes(&[Class::Secret, Class::Pii, Class::Hidden]);
    for parts in [
        ["gh", "p_", "x7Kq2Lm9Rt4Vw8Zp3Nc6Bd1Fg5Hj0Qs7Yt2W"],
        ["AK", "IA", "QWERTYUIOPASDFGH"],
        ["jane", "@", "example.org"],
        ["4111", "1111", "11111111"],
    ] {
        let name = parts.concat();
        assert!(finds(&scanner, &name), "{name}");
        assert!(!ShownName::new(&name).is_plain(), "{name}");
    }
}
