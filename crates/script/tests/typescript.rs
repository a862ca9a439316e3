//! TypeScript as we read it, held against the compiler: both outputs are run, and have to answer the same.

#![expect(clippy::unwrap_used, clippy::expect_used, dead_code, reason = "tests may fail loudly")]

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use backstop_script::ScriptError;
use serde_json::{Value, json};

use crate::common::{Script, ask};

const LIBRARY: &str =
    "export const used = 'used', valueA = 'a', valueB = 'b', valueC = 'c'; export default 'default';";

fn cases() -> Vec<(&'static str, &'static str)> {
    include_str!("typescript/cases.txt")
        .split("//// ")
        .filter(|case| !case.is_empty())
        .map(|case| case.split_once('\n').unwrap())
        .collect()
}

fn compiled(sources: &[&str]) -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/typescript");
    let mut node = Command::new("node")
        .arg("transpile.mjs")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs Node 20 or newer");
    node.stdin.take().unwrap().write_all(serde_json::to_string(sources).unwrap().as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "the compiler did not run; `cargo xtask sdks` installs it");
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn answer(name: &str, source: &str) -> Result<Option<Value>, ScriptError> {
    let script = Script::new(&[(name, source), ("lib.js", LIBRARY)]);
    let loaded = script.load(name).await?;
    ask(&loaded, "default", &Value::Null).await
}

#[tokio::test]
async fn what_is_blanked_does_what_the_compiler_makes_of_it() {
    let cases = cases();
    let sources: Vec<&str> = cases.iter().map(|(_, source)| *source).collect();
    let compiled = compiled(&sources);
    let mut wrong = Vec::new();
    for ((name, source), compiled) in cases.into_iter().zip(compiled) {
        let ours = answer("main.ts", source).await;
        let theirs = answer("main.js", &compiled).await;
        if ours != theirs || theirs.is_err() {
            wrong.push(format!("{name}\n  ours:   {ours:?}\n  theirs: {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

async fn refusal(source: &str) -> String {
    let error = answer("main.ts", source).await.unwrap_err();
    assert!(matches!(error, ScriptError::Syntax { .. }), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_syntax_error_names_file_line_and_column() {
    assert_eq!(refusal("let a: number = 1;\n\n  let b: = 2;\n").await, "main.ts:3:10: Unexpected token");
    let script =
        Script::new(&[("main.js", "import './lib/b.js';"), ("lib/b.js", "let a = 1;\n  let b = ;\n")]);
    let error = script.load("main.js").await.unwrap_err();
    assert!(error.to_string().starts_with("lib/b.js:2:11: "), "{error}");
}

#[tokio::test]
async fn what_is_not_read_is_refused_with_its_place() {
    assert!(
        refusal("class A {\n  @dec() x() {}\n}").await.starts_with("main.ts:2:3: decorators are not read")
    );
    assert!(refusal("import fs = require('fs');").await.contains("1:1: `import name = ...`"));
    assert!(refusal("const a = 1;\nexport = a;").await.contains("2:1: `export = ...`"));
}

#[tokio::test]
async fn errors_at_run_time_have_the_place_of_the_typescript_source() {
    let source = "interface Gone {\n  x: number;\n}\nexport default (x?: Gone): number => {\n  const y = x as unknown as { f(): number }; return y.f();\n};";
    let error = answer("main.ts", source).await.unwrap_err();
    assert!(error.to_string().starts_with("main.ts:5:"), "{error}");
    let ScriptError::Thrown { place: Some(place), .. } = error else { panic!("{error}") };
    // The column is that of the name in the source, types and all.
    let column = source.lines().nth(4).unwrap().find("y.f()").unwrap() + 1;
    assert_eq!(place.column, u32::try_from(column).unwrap(), "{place}");
}

#[tokio::test]
async fn nested_sources_are_refused_before_they_reach_the_parser() {
    let deep = |open: &str, close: &str| {
        format!("export default () => {}1{};", open.repeat(20_000), close.repeat(20_000))
    };
    for source in [
        deep("(", ")"),
        deep("[", "]"),
        deep("!", ""),
        deep("- ", ""),
        deep("1 + ", ""),
        deep("(/*)*/", ")"),
        deep("typeof ", ""),
        deep("`${", "}`"),
        deep("x => ", ""),
        deep("1 ? 1 : ", ""),
        format!("{} x;", "if (1) x; else ".repeat(20_000)),
        format!("let x: {} number;", "A<B, ".repeat(20_000)),
        format!("let x = {{}}{};", " as {}".repeat(20_000)),
        format!("let x = 1 {};", "+\nimport('x') ".repeat(20_000)),
        format!("if (1) /\"/; {} \"/", "(".repeat(20_000)),
    ] {
        let message = refusal(&source).await;
        assert!(message.contains("inside of each other") || message.contains("can't be told"), "{message}");
    }
    // What people write is far from it.
    let list = format!("export default () => [{}].length;", "[1, {a: 2}],\n".repeat(5_000));
    assert_eq!(answer("main.ts", &list).await.unwrap(), Some(json!(5_000)));
    let lines = format!(
        "{}export default () => a4999",
        (0..5_000).map(|i| format!("const a{i} = {i}\n")).collect::<String>()
    );
    assert_eq!(answer("main.ts", &lines).await.unwrap(), Some(json!(4_999)));
}
