//! TAP (Test Anything Protocol), version 14: a line for each case, with a block of YAML below those that did not pass.

use serde_json::json;

use super::Tested;
use crate::output::one_line;

/// The longest description of a case.
const CHARS: usize = 200;

pub(super) fn write(tested: &[Tested<'_>]) -> String {
    let mut tap = format!("TAP version 14\n1..{}\n", tested.len());
    for (index, one) in tested.iter().enumerate() {
        let word = if one.problems().is_empty() { "ok" } else { "not ok" };
        tap.push_str(&format!("{word} {} - {}\n", index + 1, escape(&one.title())));
        if one.problems().is_empty() {
            continue;
        }
        // JSON is YAML too, and its texts can't end the block.
        let fields = [
            ("message", json!(one.problems().join("; "))),
            ("severity", json!(if one.status() == "failed" { "fail" } else { "error" })),
            ("expected", json!(one.case.expect.line())),
            ("because", json!(one.case.because)),
            ("at", json!(one.case.at.to_string())),
        ];
        tap.push_str("  ---\n");
        for (key, value) in fields {
            tap.push_str(&format!("  {key}: {value}\n"));
        }
        tap.push_str("  ...\n");
    }
    tap
}

/// A description: one line, in which `#` begins no directive.
fn escape(text: &str) -> String {
    one_line(text, CHARS).replace('\\', "\\\\").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_one_line_without_directives() {
        assert_eq!(escape("a # SKIP\nnot ok \\"), "a \\# SKIP not ok \\\\");
    }
}
