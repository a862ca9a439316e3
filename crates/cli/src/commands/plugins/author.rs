//! For authors of plugins: a new one, types for it, and its tests.
//!
//! A test is a file `tests/*.json` in the plugin's folder: an event, and what the plugin is to make of it. The plugin is loaded as
//! an installed one would be and asked by the engine; nobody else is. What the configuration grants to its id and says of its options it
//! gets only where it is installed as it is: an id is claimed easily.
//!
//! ```json
//! {"point": "before_tool_call", "event": {"toolName": "exec", "params": {"command": "sudo ls"}},
//!  "expect": {"block": true}}
//! ```
//!
//! What is expected is a part of the outcome: fields that are not named may be anything. `null` expects no answer, and
//! `"fails": "word"` in place of `expect` a failure that says so. A test that says neither, or anything else, is an error: whoever
//! mistypes a key is not to believe that something is tested.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use backstop::hooks::{CallContext, PointId};
use backstop::plugins::{Home, Installed, PluginId, Trial, TriedFor};
use serde::Deserialize;
use serde_json::{Value, json};

use super::inspect::{Data, WITHHELD};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Style, elapsed, one_line, plain};
use crate::session::Surroundings;

/// Most bytes of a test.
const MOST_BYTES: u64 = 4 << 20;
/// Most tests of a plugin.
const MOST_TESTS: usize = 10_000;
/// The types of points, as the SDK has them.
const POINTS: &str = include_str!("../../../../../sdk/typescript/src/points.d.ts");
/// What plugins import.
const SDK: &str = include_str!("author/plugin-sdk.d.ts");
/// The file that types are written to.
const TYPES: &str = "backstop-plugin-sdk.d.ts";
/// What has an editor, and `tsc`, check a plugin in TypeScript against them.
const TSCONFIG: &str = include_str!("author/tsconfig.json");
/// Where the file of the points goes on with values, which plugins can't import.
const VALUES: &str = "\n/** All points. */";

/// What a new plugin is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    TypeScript,
    JavaScript,
    Python,
}

impl Language {
    /// The file with its code, and that.
    const fn code(self) -> (&'static str, &'static str) {
        match self {
            Self::TypeScript => ("index.ts", include_str!("author/index.ts")),
            Self::JavaScript => ("index.js", include_str!("author/index.js")),
            Self::Python => ("hook.py", include_str!("author/hook.py")),
        }
    }

    fn manifest(self, id: &PluginId) -> Value {
        let mut manifest =
            json!({ "id": id, "version": "0.1.0", "description": "Stops commands that begin with sudo" });
        let more = match self {
            Self::TypeScript | Self::JavaScript => {
                json!({ "kind": "script", "entry": self.code().0, "points": [{ "point": "before_tool_call" }] })
            }
            Self::Python => json!({
                "kind": "command", "command": ["python3", "${plugin}/hook.py"], "points": [{ "point": "before_tool_call", "matcher": ["exec"] }],
            }),
        };
        if let (Some(manifest), Value::Object(more)) = (manifest.as_object_mut(), more) {
            manifest.extend(more);
        }
        manifest
    }
}

/// Writes a new plugin into a folder that is not there yet.
pub(super) fn new(name: &str, language: Language, surroundings: &Surroundings) -> Result<Exit, Error> {
    let folder = PathBuf::from(name);
    let id = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let id = PluginId::new(id).map_err(|error| Error::Usage(error.to_string()))?;
    let (file, code) = language.code();
    let manifest = serde_json::to_string_pretty(&language.manifest(&id)).unwrap_or_default() + "\n";
    let code = code.replace("PLUGIN_ID", id.as_str());
    let test = |command: &str, expect: Value| {
        let test = json!({
            "point": "before_tool_call", "event": { "toolName": "exec", "params": { "command": command } }, "expect": expect,
        });
        serde_json::to_string_pretty(&test).unwrap_or_default() + "\n"
    };
    let mut files = vec![
        ("backstop.plugin.json", manifest),
        (file, code),
        (
            "tests/stops-sudo.json",
            test("sudo ls", json!({ "block": true, "blockReason": "sudo is not allowed" })),
        ),
        ("tests/leaves-the-rest.json", test("ls", Value::Null)),
    ];
    if language == Language::TypeScript {
        files.push((TYPES, types_text()));
        files.push(("tsconfig.json", TSCONFIG.to_owned()));
    }
    not_installed(&folder, surroundings)?;
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::Failed(format!(
            "there is a `{}` already\nhint: choose another name; nothing was written over",
            plain(name)
        )),
        _ => Error::File { path: folder.clone(), what: "made", source: error },
    })?;
    for (name, text) in &files {
        write(&folder.join(name), text)?;
    }
    let output = &surroundings.output;
    if output.is_json() {
        output.json(&json!({ "id": id, "folder": folder, "files": files.iter().map(|(name, _)| name).collect::<Vec<_>>() }))?;
    } else {
        let shown = plain(name);
        let place = if folder.is_absolute() { shown.clone() } else { format!("./{shown}") };
        output.text(&format!(
            "new: {shown}\nits tests: `backstop plugins test {shown}`\nto install it: `backstop plugins install {place}`"
        ))?;
    }
    Ok(Exit::Success)
}

/// Refuses a folder among those of installed plugins: what is written there is nothing that anybody trusted, and the plugin would be off.
fn not_installed(folder: &Path, surroundings: &Surroundings) -> Result<(), Error> {
    let Some(store) = surroundings.plugins_folder().ok().and_then(|store| store.canonicalize().ok()) else {
        return Ok(());
    };
    let whole = std::path::absolute(folder).map_err(|source| Error::File {
        path: folder.to_owned(),
        what: "found",
        source,
    })?;
    // Of a folder that is yet to be made, the one in which it is going to lie.
    let really = whole.ancestors().find_map(|above| above.canonicalize().ok());
    match really.is_some_and(|really| really.starts_with(store)) {
        true => Err(Error::Failed(format!(
            "`{}` is among the folders of installed plugins, and nothing is written there: the plugin would be off until it is trusted again\nhint: write into the folder that it was installed from",
            plain(&folder.display().to_string())
        ))),
        false => Ok(()),
    }
}

/// Writes a file anew beside its place and renames it into that. Agents do this too, and nothing is written through a link: neither one
/// that stands there nor one that is put there meanwhile.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |source| Error::File { path: path.to_owned(), what: "written", source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => {
            return Err(failed(io::Error::other("what is there is no plain file\nhint: remove it first")));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&new).map_err(failed)?;
    let moved = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&new, path));
    if moved.is_err() {
        // What is half written is of no use to anybody.
        let _ = fs::remove_file(&new);
    }
    moved.map_err(failed)
}

/// The types of what plugins import, in one file.
fn types_text() -> String {
    let marked = |line: &&str| line.starts_with("// Generated");
    let (types, _) = POINTS.split_once(VALUES).unwrap_or((POINTS, ""));
    let points: String = types.lines().filter(|line| !marked(line)).map(|line| format!("{line}\n")).collect();
    SDK.replace("  // The types of the points.\n", &points)
}

/// Writes the types beside a plugin, or prints them.
pub(super) fn types(folder: Option<&Path>, surroundings: &Surroundings) -> Result<Exit, Error> {
    let output = &surroundings.output;
    match folder {
        Some(folder) => {
            not_installed(folder, surroundings)?;
            if !folder.is_dir() {
                return Err(no_folder(folder));
            }
            let path = folder.join(TYPES);
            write(&path, &types_text())?;
            match output.is_json() {
                true => output.json(&json!({ "written": path }))?,
                false => output.text(&format!("written: {}", plain(&path.display().to_string())))?,
            }
        }
        None => output.text(types_text().trim_end())?,
    }
    Ok(Exit::Success)
}

/// A test, as its file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    point: String,
    event: Value,
    #[serde(default)]
    context: CallContext,
    #[serde(default, deserialize_with = "present")]
    expect: Option<Value>,
    fails: Option<String>,
}

/// Tells `null` from nothing.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// How a test went: what is wrong, if anything is.
struct Ran {
    name: String,
    took: std::time::Duration,
    wrong: Option<String>,
}

fn no_folder(folder: &Path) -> Error {
    Error::Failed(format!("there is no folder `{}`", plain(&folder.display().to_string())))
}

/// Runs the tests of the plugin in a folder.
pub(super) async fn test(folder: &Path, surroundings: &Surroundings) -> Result<Exit, Error> {
    if !folder.is_dir() {
        return Err(no_folder(folder));
    }
    let loaded = surroundings.load()?;
    let files = tests_in(folder)?;
    let data = Data::new();
    let home = Home::new(surroundings.plugins_folder()?);
    let installed = Installed::of_folder(&home, folder, data.path().to_owned())?;
    let id = installed.id.to_string();
    if Trial::is_withheld(&loaded, &installed) {
        surroundings.output.say(&format!("{id}: {WITHHELD}"));
    }
    let trial = Box::pin(Trial::load(&loaded, installed, TriedFor::Tests)).await?;
    if let Some(lacks) = trial.lacks() {
        surroundings
            .output
            .say(&format!("{id}: tested as if it were granted what it needs where it is installed: {lacks}"));
    }
    let mut ran = Vec::with_capacity(files.len());
    for (name, path) in files {
        let begun = std::time::Instant::now();
        let wrong = Box::pin(run_one(&trial, &path)).await.err();
        ran.push(Ran { name, took: begun.elapsed(), wrong });
    }
    trial.shut_down().await;
    tell(&id, &ran, surroundings)?;
    Ok(if ran.iter().any(|ran| ran.wrong.is_some()) { Exit::Failed } else { Exit::Success })
}

fn tell(id: &str, ran: &[Ran], surroundings: &Surroundings) -> Result<(), Error> {
    let output = &surroundings.output;
    let failed = ran.iter().filter(|ran| ran.wrong.is_some()).count();
    if output.is_json() {
        let tests: Vec<Value> = ran
            .iter()
            .map(|ran| json!({ "test": ran.name, "passed": ran.wrong.is_none(), "wrong": ran.wrong, "ms": ran.took.as_secs_f64() * 1_000.0 }))
            .collect();
        let whole = json!({ "plugin": id, "passed": ran.len() - failed, "failed": failed, "tests": tests });
        return Ok(output.json(&whole)?);
    }
    let paint = output.paint();
    let mut lines = Vec::new();
    for ran in ran {
        let word = match ran.wrong {
            None => paint.with(Style::Good, "ok  "),
            Some(_) => paint.with(Style::Bad, "FAIL"),
        };
        lines.push(format!("{word} {} ({})", plain(&ran.name), elapsed(ran.took)));
        lines.extend(
            ran.wrong.iter().flat_map(|wrong| wrong.lines()).map(|line| format!("       {}", plain(line))),
        );
    }
    lines.push(format!("{id}: {} passed, {failed} failed", ran.len() - failed));
    Ok(output.text(&lines.join("\n"))?)
}

/// The tests of a plugin, by name.
fn tests_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let tests = folder.join("tests");
    let failed = |source| Error::File { path: tests.clone(), what: "read", source };
    let mut found = Vec::new();
    let entries = match fs::read_dir(&tests) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    for entry in entries.into_iter().flatten() {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, path));
        }
        if found.len() > MOST_TESTS {
            return Err(Error::Failed(format!("`{}` has more than {MOST_TESTS} tests", tests.display())));
        }
    }
    if found.is_empty() {
        // Nothing that was tested is nothing that passed.
        return Err(Error::Failed(format!(
            "there is no test in `{}`\nhint: a test is a file `tests/NAME.json` with `point`, `event` and `expect`",
            tests.display()
        )));
    }
    found.sort();
    Ok(found)
}

async fn run_one(trial: &Trial, path: &Path) -> Result<(), String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(MOST_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let test: Test = serde_json::from_str(&text).map_err(|error| format!("this is no test: {error}"))?;
    let point: PointId =
        test.point.parse().map_err(|error: backstop::hooks::UnknownPoint| error.to_string())?;
    let judged = trial.judge(point, test.event, &test.context).await.map_err(|error| error.to_string())?;
    match (test.expect, test.fails) {
        (Some(_), Some(_)) | (None, None) => Err("a test has `expect` or `fails`, and not both".to_owned()),
        (None, Some(word)) => match judged.failures.iter().any(|failure| failure.contains(&word)) {
            true => Ok(()),
            false if judged.failures.is_empty() => {
                Err(format!("expected a failure with `{word}`, and nothing failed"))
            }
            false => {
                Err(format!("expected a failure with `{word}`\n     got {}", judged.failures.join("; ")))
            }
        },
        (Some(_), None) if !judged.failures.is_empty() => {
            Err(format!("failed: {}", judged.failures.join("; ")))
        }
        (Some(expected), None) => {
            let got = judged.outcome.unwrap_or_default();
            difference("", &expected, &got).map_or(Ok(()), |at| {
                Err(format!(
                    "{at}\nexpected {}\n     got {}",
                    one_line(&expected.to_string(), 500),
                    one_line(&got.to_string(), 500)
                ))
            })
        }
    }
}

/// Where what is there is not what is expected. Fields of objects that are not named may be anything.
fn difference(at: &str, expected: &Value, got: &Value) -> Option<String> {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => expected.iter().find_map(|(key, value)| {
            let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
            match got.get(key) {
                Some(found) => difference(&at, value, found),
                None => Some(format!("`{at}` is not there")),
            }
        }),
        (expected, got) if expected == got => None,
        _ if at.is_empty() => Some("the answer is another".to_owned()),
        _ => Some(format!("`{at}` is another")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_a_part_of_what_is_there() {
        for (expected, got, said) in [
            (json!({}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), None),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), Some("`a.b` is another")),
            (json!({"a": null}), json!({}), Some("`a` is not there")),
            (json!([1]), json!([1, 2]), Some("the answer is another")),
            (Value::Null, json!({"block": true}), Some("the answer is another")),
            (json!({"block": true}), Value::Null, Some("the answer is another")),
        ] {
            assert_eq!(difference("", &expected, &got).as_deref(), said, "{expected} {got}");
        }
    }

    #[test]
    fn a_test_that_says_anything_else_is_none() {
        let read = |text: &str| serde_json::from_str::<Test>(text).map(|test| (test.expect, test.fails));
        assert_eq!(
            read(r#"{"point": "x", "event": {}, "expect": null}"#).unwrap(),
            (Some(Value::Null), None)
        );
        assert_eq!(read(r#"{"point": "x", "event": {}}"#).unwrap(), (None, None));
        assert!(read(r#"{"point": "x", "event": {}, "expects": {}}"#).is_err());
    }

    #[test]
    fn the_types_are_one_module_with_all_points() {
        let text = types_text();
        assert!(text.contains("export interface BeforeInstallEvent") && text.contains("definePluginEntry"));
        assert!(!text.contains("The types of the points.") && !text.contains("Generated by"));
        let (_, values) = POINTS.split_once(VALUES).unwrap();
        let values: Vec<_> = values.lines().filter(|line| line.starts_with("export ")).collect();
        assert!(!values.is_empty());
        for value in values {
            assert!(!text.contains(value), "a plugin can't import values of the SDK for processes: {value}");
        }
    }
}
