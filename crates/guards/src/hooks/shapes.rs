//! Shapes of arguments in which something dangerous comes without being called so: a patch under any key, code next to its
//! language, a URL of a file or of a machine's metadata, a search pattern, a database statement.
//!
//! Such a shape is judged as the command that would do the same. Code in a language that is not read here is
//! unknown, and never harmless.

use backstop_shell::marks::{ANY, STAR};
use serde_json::Value;

use super::extract::{is_one_of, quoted, text_of};

/// Code with its language beside it.
pub(super) enum Code {
    None,
    /// The command that would run it.
    Command(String),
    /// A language that nobody here reads.
    Unread(String),
}

/// Words in the names of tools that run what they are given.
const RUNNERS: [&str; 13] = [
    "run",
    "exec",
    "eval",
    "repl",
    "interpreter",
    "notebook",
    "sandbox",
    "jupyter",
    "ipython",
    "python",
    "javascript",
    "nodejs",
    "code_mode",
];

/// Returns whether a tool of this name runs code.
pub(super) fn runs_code(names: &[String; 2]) -> bool {
    names.iter().any(|name| RUNNERS.iter().any(|word| name.contains(word)))
}

/// Returns the code of a call, by the language that it names or that its tool is named after.
pub(super) fn code(language: Option<&str>, names: &[String; 2], code: Option<&str>) -> Code {
    let Some(code) = code.filter(|code| !code.trim().is_empty()) else { return Code::None };
    if let Some(language) = language {
        let known = interpreter(&language.to_ascii_lowercase());
        return match known {
            Some(interpreter) => Code::Command(format!("{interpreter} {}", quoted(code))),
            None if HARMLESS.contains(&language.to_ascii_lowercase().as_str()) => Code::None,
            None => Code::Unread(language.chars().take(32).collect()),
        };
    }
    let named = names.iter().find_map(|name| name.split(['_', '-', '.']).find_map(interpreter));
    named.map_or(Code::None, |interpreter| Code::Command(format!("{interpreter} {}", quoted(code))))
}

/// Returns the variables that are set for a command, as a line in front of it. `None` where one can't be read so: it has no
/// plain value, or a name that no shell can set, such as those by which bash takes over functions.
pub(super) fn exports(variables: &Value) -> Option<String> {
    let split = |text: &str| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let pairs: Vec<(String, String)> = match variables {
        Value::Object(fields) => {
            let set = fields.iter().filter(|(_, value)| !value.is_null());
            set.map(|(name, value)| Some((name.clone(), text_of(value)?))).collect::<Option<_>>()?
        }
        Value::Array(items) => items.iter().map(|item| split(item.as_str()?)).collect::<Option<_>>()?,
        // The name of an environment (`production`) sets nothing; a text with assignments may be split anywhere.
        Value::String(text) if text.contains('=') => return None,
        _ => Vec::new(),
    };
    if !pairs.iter().all(|(name, _)| is_name(name)) {
        return None;
    }
    let words: String = pairs.iter().map(|(name, value)| format!(" {name}={}", quoted(value))).collect();
    Some(if words.is_empty() { words } else { format!("export{words}\n") })
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Languages that start nothing.
const HARMLESS: [&str; 10] =
    ["text", "plaintext", "markdown", "md", "json", "yaml", "html", "css", "csv", "latex"];

/// Returns the interpreter of a language, with the option that takes code.
fn interpreter(language: &str) -> Option<&'static str> {
    Some(match language {
        "python" | "python3" | "py" | "ipython" | "jupyter" => "python3 -c",
        "javascript" | "js" | "node" | "nodejs" | "typescript" | "ts" | "deno" | "bun" => "node -e",
        "ruby" | "rb" => "ruby -e",
        "perl" | "pl" => "perl -e",
        "php" => "php -r",
        "lua" => "lua -e",
        "r" => "Rscript -e",
        "julia" | "jl" => "julia -e",
        "applescript" | "osascript" => "osascript -e",
        "sql" | "postgresql" | "mysql" | "sqlite" => "psql -c",
        "awk" => "awk",
        _ => return None,
    })
}

/// Returns whether a word names a language that code is written in, and not what else a kind may be.
pub(super) fn is_language(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    matches!(word.as_str(), "sh" | "bash" | "zsh" | "shell" | "powershell" | "pwsh" | "cmd")
        || interpreter(&word).is_some()
}

const ADDRESS_KEYS: [&str; 9] =
    ["url", "urls", "uri", "address", "href", "link", "endpoint", "baseurl", "targeturl"];
const STATEMENT_KEYS: [&str; 6] = ["sql", "query", "statement", "statements", "queries", "sqlquery"];

/// Hosts that hand out a machine's credentials, in the spellings that programs take.
const METADATA: [&str; 9] = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "metadata.google.internal",
    "metadata.goog",
    "[fd00:ec2::254]",
    "0xa9fea9fe",
    "2852039166",
    "[::ffff:a9fe:a9fe]",
];

/// Returns the command that does what a field of this name and value asks for, where that needs a look.
pub(super) fn command_of(key: &str, value: &Value) -> Vec<String> {
    let texts: Vec<&str> = match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => return Vec::new(),
    };
    if is_one_of(key, &ADDRESS_KEYS) {
        let metadata = texts.into_iter().filter(|text| names_metadata(text));
        return metadata.map(|_| "curl http://169.254.169.254/latest/meta-data/".to_owned()).collect();
    }
    if is_one_of(key, &STATEMENT_KEYS) {
        let changes = texts.into_iter().filter(|text| changes_data(text));
        return changes.map(|text| format!("psql -c {}", quoted(text))).collect();
    }
    Vec::new()
}

fn names_metadata(address: &str) -> bool {
    let address = address.trim().to_ascii_lowercase();
    let rest = address.split_once("://").map_or(address.as_str(), |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    METADATA.iter().any(|known| {
        host.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.']))
    })
}

/// Returns whether a text is a statement of SQL that could take something away.
fn changes_data(text: &str) -> bool {
    const VERBS: [&str; 6] = ["drop", "truncate", "delete", "alter", "update", "grant"];
    text.split(';').any(|statement| {
        let mut words = statement.split_whitespace();
        let verb = words.next().unwrap_or_default();
        VERBS.iter().any(|known| verb.eq_ignore_ascii_case(known)) && words.next().is_some()
    })
}

/// Returns the file that an address names.
pub(super) fn file_address(key: &str, text: &str) -> Option<String> {
    let scheme = text.trim_start().get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:"))?;
    let path = text.trim_start().strip_prefix(scheme)?.trim_start_matches("//localhost");
    is_one_of(key, &ADDRESS_KEYS).then(|| format!("/{}", path.trim_start_matches('/')))
}

/// Returns whether a text is a patch, whatever it is called.
pub(super) fn is_patch(text: &str) -> bool {
    let unified = || {
        let mut lines = text.lines();
        lines.any(|line| line.starts_with("--- ")) && lines.any(|line| line.starts_with("+++ "))
    };
    text.contains("*** Begin Patch") || text.contains("diff --git ") || text.contains("\n@@ ") && unified()
}

/// Returns whether a tool of this name looks for files.
pub(super) fn searches(names: &[String; 2]) -> bool {
    const WORDS: [&str; 5] = ["glob", "find", "search", "grep", "list"];
    names.iter().any(|name| WORDS.iter().any(|word| name.contains(word)))
}

/// Returns whether a field of a search is a pattern of file names, and not of what stands in them.
pub(super) fn is_glob_key(key: &str, names: &[String; 2]) -> bool {
    const GLOBS: [&str; 8] =
        ["glob", "globs", "globpattern", "filepattern", "includepattern", "include", "includes", "filter"];
    let by_name = names.iter().any(|name| name.contains("glob") || name.contains("find"));
    is_one_of(key, &GLOBS) || by_name && is_one_of(key, &["pattern", "patterns", "query"])
}

/// A pattern with the marks that stand for what a `*` or `?` matches.
pub(super) fn marked(glob: &str) -> String {
    glob.replace("**/", "")
        .chars()
        .map(|c| match c {
            '*' => STAR,
            '?' => ANY,
            other => other,
        })
        .collect()
}
