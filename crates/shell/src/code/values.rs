//! Values in code: text that may have holes, its origin, and whether anything else can get into it.

use crate::Taint;
use crate::marks::{HOLE, has_hole};

/// A value in code.
#[derive(Debug, Clone, Default)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) taint: Taint,
    /// It stands in a list.
    pub(super) listed: bool,
    /// The name it is handed over by.
    pub(super) key: Option<String>,
    /// What it holds, if it is a list.
    pub(super) items: Vec<Value>,
    /// What is not known of it is written in the code all the same, or is given to the code: an item of a list, a
    /// parameter, an argument.
    pub(super) bounded: bool,
    /// What is not known of it stands in a file.
    pub(super) filed: bool,
}

/// Begins the text of a value that is a function or a module: its name follows, or a hole where that is looked up.
pub(super) const FUNCTION: char = '\u{1}';

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(super) fn hole() -> Self {
        Self::text(HOLE.to_string())
    }

    /// Something unknown that is written in the code, or given to it.
    pub(super) fn within() -> Self {
        Self { bounded: true, ..Self::hole() }
    }

    pub(super) fn tainted(text: impl Into<String>, taint: Taint) -> Self {
        Self { taint, ..Self::text(text) }
    }

    /// Creates a function or module of this name.
    pub(super) fn named(name: &str) -> Self {
        Self::text(format!("{FUNCTION}{name}"))
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        let taint = items.iter().fold(Taint::NONE, |all, item| all | item.taint);
        let bounded = !items.iter().any(Self::is_unsure);
        Self { items, bounded, listed: true, ..Self::tainted(HOLE, taint) }
    }

    /// Returns the folder above the path that this is.
    pub(super) fn climbed(&self) -> Self {
        let text = if self.function().is_some() { HOLE.to_string() } else { self.text.clone() };
        Self { text: format!("{text}/.."), key: None, ..self.clone() }
    }

    /// Returns the name of the function that this is.
    pub(super) fn function(&self) -> Option<&str> {
        self.text.strip_prefix(FUNCTION)
    }

    pub(super) fn is_known(&self) -> bool {
        !has_hole(&self.text) && self.function().is_none()
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.text.chars().all(|c| c == HOLE) && !self.text.is_empty()
    }

    /// Returns whether anything may stand in it.
    pub(super) fn is_unsure(&self) -> bool {
        has_hole(&self.text) && self.function().is_none() && !self.bounded
    }

    /// Returns whether anything may stand where it begins.
    pub(super) fn begins_unsure(&self) -> bool {
        self.text.starts_with(HOLE) && !self.bounded
    }

    pub(super) fn is_called(&self, key: &str) -> bool {
        self.key.as_deref() == Some(key)
    }

    /// Returns whether it may be the path of a file. What is longer than a path can be is one where it may lead elsewhere: a
    /// language resolves a path before the system sees how long it is.
    pub(super) fn is_path(&self) -> bool {
        let leads = || self.text.starts_with(['/', '~', '.']) || self.text.contains("../");
        !self.text.is_empty() && !self.text.contains('\n') && (self.text.len() < LONGEST_PATH || leads())
    }

    /// Adds the text of another behind it.
    pub(super) fn join(&mut self, other: &Self) {
        self.bounded = !self.is_unsure() && !other.is_unsure();
        self.filed |= other.filed;
        self.taint |= other.taint;
        self.text.push_str(&other.text);
    }

    /// Puts another in the place that a template keeps for it: `%s`, `{}`, `{name}`. False if there is none.
    pub(super) fn fill(&mut self, other: &Self, opening: char) -> bool {
        let Some((at, end)) = placeholder(&self.text, opening) else { return false };
        self.bounded = !self.is_unsure() && !other.is_unsure();
        self.filed |= other.filed;
        self.taint |= other.taint;
        let text = if other.function().is_some() { HOLE.to_string() } else { other.text.clone() };
        self.text.replace_range(at..end, &text);
        true
    }
}

/// Returns the first place that a template keeps for a value.
fn placeholder(text: &str, opening: char) -> Option<(usize, usize)> {
    let mut places = text.match_indices(opening);
    places.find_map(|(at, _)| {
        let rest = text.get(at + 1..)?;
        let end = match opening {
            '%' => rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').filter(|end| {
                rest.get(*end..).is_some_and(|kind| kind.starts_with(['s', 'd', 'r', 'i', 'x', 'f']))
            })?,
            _ => rest.find('}').filter(|end| !rest.get(..*end).unwrap_or_default().contains(['{', ' ']))?,
        };
        Some((at, at + end + 2))
    })
}

/// What is as long is no path to the system (`PATH_MAX` in `include/uapi/linux/limits.h`).
const LONGEST_PATH: usize = 4096;

/// What code reads a variable of the environment by, up to its name: `os.environ["X"]`, `process.env.X`, `$ENV{X}`.
const ENVIRONMENTS: [&str; 13] = [
    "os.environ[",
    "os.environ.get(",
    "environ[",
    "os.getenv(",
    "process.env.",
    "process.env[",
    "ENV[",
    "ENV.fetch(",
    "$ENV{",
    "$_SERVER[",
    "$_ENV[",
    "getenv(",
    "Deno.env.get(",
];

/// Returns the name of the variable of the environment that a piece of code reads.
pub(super) fn variable_of(code: &str) -> Option<&str> {
    let code = code.trim();
    let rest = ENVIRONMENTS.iter().find_map(|front| code.strip_prefix(front))?;
    let name = rest.trim_matches(|c: char| "[](){}'\" ".contains(c));
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}

/// Returns whether `[` or `{` behind this name reads a variable of the environment.
pub(super) fn is_environment(name: &str) -> bool {
    ENVIRONMENTS.iter().any(|front| front.strip_suffix(['[', '{']) == Some(name))
}

/// Returns the value of a variable of the environment, where that is known.
pub(super) fn value_of_variable(name: &str, home: &str) -> Value {
    match name {
        "HOME" | "USERPROFILE" => Value::text(home),
        "PWD" => Value::text("."),
        "TMPDIR" | "TEMP" | "TMP" => Value::text(TEMPORARY),
        _ => Value::hole(),
    }
}

/// A folder that code makes for itself.
pub(super) const TEMPORARY: &str = "/tmp/made";

/// Returns what a name stands for in the libraries of languages: Python 3.13 `os`, `sys`; Node.js 22 `path`, `process`;
/// Ruby 3.3 `File`; Perl 5.40 perlvar.
pub(super) fn constant(name: &str) -> Option<&'static str> {
    Some(match name {
        "os.sep"
        | "os.path.sep"
        | "path.sep"
        | "path.posix.sep"
        | "file::separator"
        | "file.separator"
        | "directory_separator" => "/",
        "os.curdir" | "__dirname" | "import.meta.dirname" => ".",
        "os.pardir" => "..",
        "sys.executable" => "python3",
        "process.execpath" | "process.argv0" => "node",
        "$^x" => "perl",
        _ => return None,
    })
}
