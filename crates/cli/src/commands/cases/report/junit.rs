//! JUnit XML, as CI systems read it: a suite for each file and configuration, a failure for what is not as expected, an error
//! for what could not be judged.

use super::{Counts, Judged, Tested};
use crate::output::plain;

pub(super) fn write(tested: &[Tested<'_>]) -> String {
    let total = Counts::of(tested);
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.push_str(&format!("<testsuites name=\"backstop\" {}>\n", numbers(tested.len(), total, tested)));
    let suite = |one: &Tested<'_>| (one.file().to_owned(), one.config_name());
    for suite in tested.chunk_by(|a, b| suite(a) == suite(b)) {
        let Some(first) = suite.first() else { continue };
        let name = match first.config_name() {
            Some(config) => format!("{} ({config})", first.file()),
            None => first.file().to_owned(),
        };
        let counts = Counts::of(suite);
        xml.push_str(&format!(
            "  <testsuite name=\"{}\" {}>\n",
            escape(&name),
            numbers(suite.len(), counts, suite)
        ));
        for one in suite {
            xml.push_str(&case(one));
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn numbers(tests: usize, counts: Counts, tested: &[Tested<'_>]) -> String {
    let Counts { failed, unjudged, .. } = counts;
    let seconds: f64 = tested.iter().map(Tested::seconds).sum();
    format!(
        "tests=\"{tests}\" failures=\"{failed}\" errors=\"{unjudged}\" skipped=\"0\" time=\"{seconds:.6}\""
    )
}

fn case(one: &Tested<'_>) -> String {
    let file = escape(one.file());
    let line = one.case.at.line().unwrap_or_default();
    let name = escape(&one.title());
    let head = format!(
        "    <testcase name=\"{name}\" classname=\"{file}\" file=\"{file}\" line=\"{line}\" time=\"{:.6}\"",
        one.seconds()
    );
    let tag = match one.judged {
        Judged::Passed(_) => return format!("{head}/>\n"),
        Judged::Failed(..) => "failure",
        Judged::Unjudged(_) => "error",
    };
    let message = escape(&one.problems().join("; "));
    let body = escape(&format!(
        "{}\nexpected: {}\nbut: {}\nbecause: {}",
        one.case.at,
        one.case.expect.line(),
        one.problems().join("\nbut: "),
        one.case.because
    ));
    format!("{head}>\n      <{tag} message=\"{message}\">{body}</{tag}>\n    </testcase>\n")
}

/// A text for an attribute or an element. XML has no way to write most control characters, so they are shown as escapes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_element_or_is_no_xml() {
        assert_eq!(
            escape("a<b>&\"'\u{1b}\u{0}\u{ffff}\nc"),
            "a&lt;b&gt;&amp;&quot;&apos;\\u{1b}\\u{0}\u{fffd}&#10;c"
        );
    }
}
