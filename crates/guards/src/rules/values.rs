//! Programs that show only the names in a settings file, and no value.
//!
//! POSIX.1-2024 `cut`, `wc`, `grep`, `sed`, `awk`; GNU coreutils 9.5, grep 3.11. A program that is not listed here shows
//! everything.

use backstop_shell::options::Options;

/// Returns whether the program shows no value of `NAME=value` lines in the files it is given.
pub(super) fn are_kept(program: &str, args: &[&str], options: &Options<'_>) -> bool {
    match program {
        "wc" => true,
        "cut" => cuts_names(options),
        "grep" | "egrep" | "fgrep" | "ggrep" => {
            counts(options) || options.has('o', "only-matching") && takes_names(args, options)
        }
        "sed" | "gsed" => drops_values(options),
        "awk" | "gawk" | "mawk" => prints_names(args, options),
        _ => false,
    }
}

/// `-d= -f1`.
fn cuts_names(options: &Options<'_>) -> bool {
    options.value(Some('d'), "delimiter") == Some("=")
        && options.value(Some('f'), "fields") == Some("1")
        && !options.long("complement")
}

/// `-c`, `-q`, `-l`.
fn counts(options: &Options<'_>) -> bool {
    [('c', "count"), ('q', "quiet"), ('l', "files-with-matches"), ('L', "files-without-match")]
        .iter()
        .any(|(short, long)| options.has(*short, long))
        || options.long("silent")
}

/// `-o '^[A-Z_]*='`: what matches is a name at the beginning of a line.
fn takes_names(args: &[&str], options: &Options<'_>) -> bool {
    let is_plain = !args.iter().any(|arg| matches!(*arg, "-P" | "-f" | "--file" | "--perl-regexp"));
    let pattern = options.value(Some('e'), "regexp").or(options.operands.first().copied());
    is_plain && pattern.is_some_and(is_name)
}

fn is_name(pattern: &str) -> bool {
    let Some(rest) = pattern.strip_prefix('^') else { return false };
    let rest = rest.strip_suffix('=').unwrap_or(rest);
    let Some((class, repeated)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let is_class = class == "^=" || class.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_class && matches!(repeated, "*" | "+" | "\\+")
}

/// `s/=.*//`, and nothing else.
fn drops_values(options: &Options<'_>) -> bool {
    let given: Vec<&str> = options.values(Some('e'), "expression").collect();
    let script = match given.as_slice() {
        [] => options.operands.first().copied(),
        [script] => Some(*script),
        _ => None,
    };
    let drops = |script: &str| {
        let mut parts = script.strip_prefix("s").filter(|rest| rest.starts_with(['/', '|', '#', ',']));
        let separator = parts.and_then(|rest| rest.chars().next()).unwrap_or('/');
        let parts: Vec<&str> = parts.take().unwrap_or_default().split(separator).skip(1).collect();
        matches!(parts.as_slice(), ["=.*" | "=.*$", with, "" | "g"] if !with.contains(['&', '\\']))
    };
    let reads_more = options.has('i', "in-place") || options.value(Some('f'), "file").is_some();
    !reads_more && script.is_some_and(drops)
}

/// `-F= '{print $1}'`, perhaps of some lines.
fn prints_names(args: &[&str], options: &Options<'_>) -> bool {
    let by_equals = options.value(Some('F'), "field-separator") == Some("=");
    let code = options.operands.first().copied().unwrap_or_default();
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let condition = code.strip_suffix("{print$1}");
    let is_plain = condition.is_some_and(|text| {
        text.is_empty() || text.starts_with('/') && text.ends_with('/') && !text.contains(['{', '(', ';'])
    });
    by_equals && is_plain && !args.iter().any(|arg| matches!(*arg, "-f" | "--file" | "-v" | "--assign"))
}

#[cfg(test)]
mod tests {
    use backstop_shell::programs::Programs;

    use super::*;

    fn kept(command: &[&str]) -> bool {
        let programs = Programs::built_in();
        let (program, args) = command.split_first().expect("a program");
        are_kept(program, args, &Options::parse(args, programs.takes(program)))
    }

    #[test]
    fn names_are_shown_without_values() {
        for command in [
            &["cut", "-d=", "-f1", ".env"][..],
            &["cut", "-d", "=", "-f", "1", ".env"],
            &["cut", "--delimiter==", "--fields=1", ".env"],
            &["wc", "-l", ".env"],
            &["grep", "-c", "KEY", ".env"],
            &["grep", "-q", "^KEY=", ".env"],
            &["grep", "-oE", "^[A-Z_]+=", ".env"],
            &["grep", "-o", "^[^=]*", ".env"],
            &["sed", "s/=.*//", ".env"],
            &["sed", "-e", "s/=.*/=***/", ".env"],
            &["awk", "-F=", "{print $1}", ".env"],
            &["awk", "-F", "=", "/^[A-Z]/ { print $1 }", ".env"],
        ] {
            assert!(kept(command), "{command:?}");
        }
        for command in [
            &["cut", "-d=", "-f2", ".env"][..],
            &["cut", "-d=", "-f1-", ".env"],
            &["cut", "-d=", "-f1", "--complement", ".env"],
            &["cut", "-d:", "-f1", ".env"],
            &["cat", ".env"],
            &["grep", "KEY", ".env"],
            &["grep", "-o", "KEY=.*", ".env"],
            &["grep", "-o", "^[A-Z=]*", ".env"],
            &["sed", "s/=.*/&/", ".env"],
            &["sed", "-e", "s/=.*//", "-e", "r /x", ".env"],
            &["sed", "s/#.*//", ".env"],
            &["awk", "-F=", "{print $2}", ".env"],
            &["awk", "{print $1}", ".env"],
            &["awk", "-F=", "{print} {print $1}", ".env"],
        ] {
            assert!(!kept(command), "{command:?}");
        }
    }
}
