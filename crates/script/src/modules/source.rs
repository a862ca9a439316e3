//! From the text of a file to JavaScript.

use crate::error::{Place, ScriptError};
use crate::typescript;

/// Endings of the files that a script may import. Whoever looks at its files before it is trusted may take those with any other ending for
/// prose or media, so they are none of its code. A file without an ending is JavaScript, as under Node.
pub const CODE_ENDINGS: [&str; 7] = ["js", "mjs", "cjs", "ts", "mts", "cts", "json"];

/// Refuses a file whose ending says that it is no code.
pub(super) fn may_be_code(name: &str) -> Result<(), String> {
    let file = name.rsplit('/').next().unwrap_or(name);
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        None => Ok(()),
        // What is wrong with these is said where they are read.
        Some("jsx" | "tsx") => Ok(()),
        Some(ending) if CODE_ENDINGS.contains(&ending) => Ok(()),
        Some("node") => Err(
            "it is native code, which no plugin loads\n  hint: use a build of it in JavaScript or WebAssembly".to_owned(),
        ),
        Some(_) => Err(format!(
            "its ending is not one of code: {}\n  hint: read what is data with `node:fs`",
            CODE_ENDINGS.map(|ending| format!("`.{ending}`")).join(", ")
        )),
    }
}

/// How a file is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An ES module.
    Module,
    /// CommonJS.
    Script,
    /// Data.
    Json,
}

impl Kind {
    /// What a file is: by its ending, by what its package says, and where that says nothing by its text. A file with
    /// `import` or `export` statements is an ES module whatever the package says, since it could be nothing else.
    pub(super) fn of(name: &str, text: &str, package: Option<bool>) -> Self {
        let ending = name.rsplit('.').next().unwrap_or_default();
        match ending {
            "json" => Self::Json,
            "mjs" | "mts" => Self::Module,
            "cjs" | "cts" => Self::Script,
            _ if package == Some(true) || has_module_syntax(text) => Self::Module,
            "ts" if !has_commonjs_syntax(text) => Self::Module,
            _ => Self::Script,
        }
    }
}

/// Whether a line begins as an import or an export does.
fn has_module_syntax(text: &str) -> bool {
    text.split(['\n', ';', '}']).any(|line| {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix("import").or_else(|| line.strip_prefix("export")) else {
            return false;
        };
        match rest.chars().next() {
            Some('{' | '*' | '"' | '\'') => true,
            Some(space) if space.is_whitespace() => {
                !rest.trim_start().starts_with(['(', '=', '.', ',', ')', ':'])
            }
            None => false,
            Some(_) => false,
        }
    }) || text.contains("import.meta")
}

fn has_commonjs_syntax(text: &str) -> bool {
    ["module.exports", "exports.", "require("].iter().any(|word| text.contains(word))
}

/// The text of a source, without what stands before its first line for a shell.
pub(super) fn text(name: &str, bytes: Vec<u8>) -> Result<String, ScriptError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let place = Place { file: name.to_owned(), line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 };
        ScriptError::Syntax { place, message: "a source has to be UTF-8".to_owned() }
    })?;
    if text.starts_with('\u{feff}') {
        text = text.trim_start_matches('\u{feff}').to_owned();
    }
    if text.starts_with("#!") {
        text.insert_str(0, "//");
    }
    Ok(text)
}

/// The JavaScript of a source.
pub(super) fn javascript(name: &str, text: &str) -> Result<String, ScriptError> {
    if [".tsx", ".jsx"].iter().any(|ending| name.ends_with(ending)) {
        let place = Place { file: name.to_owned(), line: 1, column: 1 };
        return Err(ScriptError::Syntax { place, message: "JSX is not read here; compile it".to_owned() });
    }
    if ![".ts", ".mts", ".cts"].iter().any(|ending| name.ends_with(ending)) {
        return Ok(text.to_owned());
    }
    typescript::strip(text).map_err(|problem| {
        let (line, column) = problem.place(text);
        ScriptError::Syntax { place: Place { file: name.to_owned(), line, column }, message: problem.message }
    })
}

/// A JSON file, checked, so that what is wrong has its place.
pub(super) fn json(name: &str, text: &str) -> Result<(), ScriptError> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(|_| ()).map_err(|error| {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let place =
            Place { file: name.to_owned(), line: number(error.line()), column: number(error.column()) };
        ScriptError::Syntax { place, message: error.to_string() }
    })
}

/// Whether a name can stand in an `export` without quotes.
pub(super) fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_alphabetic() || first == '_' || first == '$')
        && characters.all(|character| character.is_alphanumeric() || character == '_' || character == '$')
}

/// A module whose default export is `import.meta.value`, and that exports some of its properties.
pub(super) fn wrapper(names: &[String]) -> String {
    let mut source = "const value = import.meta.value; export default value;".to_owned();
    for (index, name) in names.iter().enumerate() {
        source.push_str(&format!("const v{index} = value.{name}; export {{ v{index} as {name} }};"));
    }
    source
}
