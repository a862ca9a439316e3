//! SQL, as far as a few words say that data is destroyed.
//!
//! A statement is read word by word, without comments. The content of an SQL string is ignored, unless the statement
//! runs strings (`PREPARE`, `EXECUTE`, `\\gexec` of psql). Limits: names of databases are not known, so a scratch table
//! and a production table look alike.

/// Words that begin a statement which can destroy.
const VERBS: [&str; 5] = ["drop", "truncate", "delete", "update", "alter"];

/// What has a statement, or a client, run a text.
const RUNNERS: [&str; 4] = ["prepare", "execute", "exec", "\\gexec"];

/// Returns whether a statement of the text drops, truncates, or changes or deletes all there is.
pub(super) fn destroys(text: &str) -> bool {
    let plain = without_comments(text).to_ascii_lowercase();
    let runs_text = || RUNNERS.iter().any(|word| plain.split_whitespace().any(|found| found == *word));
    let statements = |text: &str| text.split(';').any(destroys_alone);
    statements(&plain) || plain.contains('\'') && runs_text() && plain.split('\'').any(statements)
}

/// Returns the part of an option (without its first dash) that may be a statement: behind `=`, or attached to its letters.
pub(super) fn behind_an_option(option: &str) -> &str {
    let value = option.split_once('=').map_or(option, |(_, value)| value);
    let begins = |at: &usize| {
        let rest = value.get(*at..).unwrap_or_default();
        let verb = |verb: &&str| {
            let fits = rest.get(..verb.len()).is_some_and(|front| front.eq_ignore_ascii_case(verb));
            fits && rest.get(verb.len()..).is_some_and(|behind| behind.starts_with(char::is_whitespace))
        };
        VERBS.iter().any(verb)
    };
    // Letters of options are few.
    let start = value.char_indices().map(|(at, _)| at).find(|at| *at < 5 && begins(at));
    value.get(start.unwrap_or(0)..).unwrap_or_default()
}

/// Returns the text without `--` and `/* */`; what MySQL runs of a comment (`/*! */`) stays.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((front, behind)) = rest.split_once("/*") {
        kept.push_str(front);
        kept.push(' ');
        let (comment, after) = behind.split_once("*/").unwrap_or((behind, ""));
        if let Some(code) = comment.strip_prefix('!') {
            kept.push_str(code.trim_start_matches(|c: char| c.is_ascii_digit()));
            kept.push(' ');
        }
        rest = after;
    }
    kept.push_str(rest);
    let lines = kept.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    lines.collect::<Vec<_>>().join("\n")
}

fn destroys_alone(statement: &str) -> bool {
    let mut words = statement.split_whitespace();
    let first = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    match first {
        "drop" => !rest.is_empty(),
        "truncate" => true,
        "delete" => rest.first() == Some(&"from") && is_about_all(&rest),
        "update" => rest.contains(&"set") && is_about_all(&rest),
        "alter" => rest.contains(&"drop"),
        _ => false,
    }
}

/// Returns whether no condition chooses rows: there is none, or it holds for all.
fn is_about_all(words: &[&str]) -> bool {
    let Some(at) = words.iter().position(|word| *word == "where") else { return true };
    let condition: String = words.get(at + 1..).unwrap_or_default().concat();
    let same = |(one, other): (&str, &str)| one == other;
    matches!(condition.as_str(), "true" | "1") || condition.split_once('=').is_some_and(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_destroys_is_told_from_what_chooses() {
        for text in [
            "DROP TABLE x",
            "select 1; drop table x",
            "DROP/**/TABLE x",
            "/*!50000 DROP DATABASE x */",
            "delete from x",
            "DELETE FROM x WHERE true",
            "delete from x where 1 = 1",
            "update x set a = 1",
            "PREPARE s FROM 'DROP TABLE x'; EXECUTE s",
            "-- first\ndrop table x",
            "alter table x drop column y",
        ] {
            assert!(destroys(text), "{text}");
        }
        for text in [
            "select 'drop table x'",
            "delete from x where id = 1",
            "update x set a = 1 where id = 2",
            "select 1 -- drop table x",
            "/* drop table x */ select 1",
            "dropped tables",
            "",
        ] {
            assert!(!destroys(text), "{text}");
        }
    }

    #[test]
    fn statements_are_found_behind_options() {
        for (option, statement) in [
            ("-command=DROP TABLE x", "DROP TABLE x"),
            ("cDROP TABLE x", "DROP TABLE x"),
            ("qcdelete from x", "delete from x"),
            ("-drop-tables", "-drop-tables"),
            ("dropped x", "dropped x"),
        ] {
            assert_eq!(behind_an_option(option), statement, "{option}");
        }
    }
}
