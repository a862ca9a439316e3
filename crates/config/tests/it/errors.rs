//! Bad files and exactly what their authors read.

use crate::support::{load, operator};

fn rendered(text: &str) -> String {
    load(&[operator(text)]).expect_err(text).to_string()
}

/// One file per case; the error is what follows the arrow.
#[test]
fn every_mistake_names_its_line_and_the_next_step() {
    let cases = include_str!("errors.txt");
    let mut checked = 0;
    for case in cases.split("\n====\n") {
        let (text, expected) = case.split_once("\n---->\n").expect("a case has a file and an error");
        assert_eq!(rendered(text), expected.trim_end(), "for this file:\n{text}");
        checked += 1;
    }
    assert!(checked > 30, "only {checked} cases were read");
}
