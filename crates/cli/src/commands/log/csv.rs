//! Entries as rows of a table (RFC 4180), for spreadsheets.
//!
//! A spreadsheet takes what begins with `=`, `+`, `-`, `@` and other signs for a formula, and runs it (CWE-1236). A cell is written as it is
//! only where it begins with a letter, a digit or one of few signs that begin no formula; before all others is an apostrophe, which
//! spreadsheets take for the mark of a text. Some split cells at other signs (`;`, tabs, white space), whatever is quoted, so the same holds for
//! what stands behind one within a cell.

use super::facts::Facts;

const COLUMNS: [&str; 21] = [
    "number",
    "time",
    "kind",
    "decision",
    "point",
    "tool",
    "called_as",
    "host",
    "client",
    "agent",
    "session",
    "run",
    "workspace",
    "who",
    "hook",
    "rules",
    "resolution",
    "policy",
    "process",
    "process_number",
    "digest",
];

/// Returns the line with the names of the columns.
pub(super) fn heading() -> String {
    format!("{}\r\n", COLUMNS.join(","))
}

/// Returns the line of an entry.
pub(super) fn row(facts: &Facts<'_>) -> String {
    let entry = facts.entry;
    let (number, time, n) = (entry.seq.to_string(), entry.at.to_string(), entry.n.to_string());
    let (digest, rules) = (entry.digest.to_string(), facts.rules().join(" "));
    let cells: [Option<&str>; COLUMNS.len()] = [
        Some(&number),
        Some(&time),
        Some(&entry.kind),
        facts.decision(),
        facts.point(),
        facts.tool(),
        facts.called_as(),
        facts.host(),
        facts.client(),
        facts.agent(),
        entry.session.as_ref().map(AsRef::as_ref),
        entry.run.as_ref().map(AsRef::as_ref),
        facts.workspace(),
        facts.who(),
        facts.hook(),
        Some(&rules),
        facts.resolution(),
        entry.policy.as_deref(),
        Some(&entry.process),
        Some(&n),
        Some(&digest),
    ];
    format!("{}\r\n", cells.map(|cell| self::cell(cell.unwrap_or_default())).join(","))
}

fn cell(text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    // Whether a spreadsheet may take what comes next for the beginning of a cell.
    let mut begins = true;
    for (place, char) in text.char_indices() {
        let is_harmless = char.is_ascii_alphanumeric() || ['/', '_', '.', '~'].contains(&char);
        let splits = char.is_whitespace() || [',', ';', '|'].contains(&char);
        if begins && !is_harmless && (place == 0 || !splits) {
            marked.push('\'');
        }
        marked.push(char);
        begins = splits || (begins && !is_harmless);
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/_.~:- ".contains(c);
    if marked.chars().all(is_plain) && !marked.ends_with(' ') {
        marked
    } else {
        format!("\"{}\"", marked.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_formula_is_marked_as_text() {
        for formula in [
            "=1+1",
            "+1",
            "-1",
            "@x",
            "\t=1",
            "\r=1",
            " =1",
            "\u{ff1d}1",
            "\0=1",
            "|x",
            "%x",
            "'=1",
            "\"=1",
            ";=1",
        ] {
            let cell = cell(formula);
            assert!(cell.starts_with("\"'"), "{formula:?}: {cell}");
        }
        for hidden in ["a;=1", "a\t=1", "a; =1", "a\n+1", "a,@x", "a b -1", "a\u{a0}=1", "a|=1", "a;\"=1"] {
            let cell = cell(hidden);
            assert!(
                cell.contains('\'') && !cell.contains(";=") && !cell.contains("\t="),
                "{hidden:?}: {cell}"
            );
        }
        assert_eq!(cell("a; =1"), "\"a; '=1\"");
        assert_eq!(cell("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
        for plain in ["exec", "42", "/home/ann", "2025-11-28T10:00:00Z", "a b", "_x", ".x", "~/x"] {
            assert_eq!(cell(plain), plain);
        }
        assert_eq!(cell(""), "");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("a\nb"), "\"a\nb\"");
        assert_eq!(cell("a\"b"), "\"a\"\"b\"");
    }
}
