//! What a plugin's author is told: what went wrong, at which line, against which bound, and what to do.

use backstop_engine::Verdict;
use backstop_plugins::openclaw::Dialect::Backstop;
use serde_json::json;

use crate::support::{Plugins, call, context, engine};

/// What goes wrong, and what is said of it.
struct Case {
    what: &'static str,
    code: &'static str,
    said: &'static [&'static str],
}

const fn case(what: &'static str, code: &'static str, said: &'static [&'static str]) -> Case {
    Case { what, code, said }
}

/// Expressions that do not come to an end, or take what they can.
static ANYWHERE: [Case; 5] = [
    case("a loop", "(() => { for (;;); })()", &["index.js:3:", "LATE", "hint: ", "end the loop"]),
    case("a loop in a getter", "({ get a() { for (;;); } }).a", &["index.js:3:", "LATE", "hint: "]),
    case(
        "a regular expression",
        "/^(a+)+$/.test('a'.repeat(40) + '!')",
        &["index.js:3:", "LATE", "hint: ", "regular expression"],
    ),
    case(
        "memory",
        "(() => { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); })()",
        &["ran out of its 64 MB of memory", "hint: hold less at once"],
    ),
    case(
        "recursion",
        "(() => { const f = () => f() + 1; return f(); })()",
        &["index.js:3:", "Maximum call stack size exceeded", "hint: make the recursion a loop"],
    ),
];

/// What of it begins later.
static LATER: [Case; 1] = [case(
    "microtasks",
    "(() => { const again = () => void Promise.resolve().then(again); again(); })()",
    &["promises and microtasks went on for ", "hint: end the chain of promises"],
)];

/// What only a hook can do.
static IN_A_HOOK: [Case; 12] = [
    case(
        "a loop after an `await`",
        "(async () => { await null; for (;;); })()",
        &["index.js:3:", "kept its thread for more than ", "hint: end the loop"],
    ),
    case("a late answer", "new Promise(() => {})", &["no answer within "]),
    case("a text", "'yes'", &["`answer` is no object", "hint: a hook at before_tool_call answers an object"]),
    case(
        "a list",
        "[true]",
        &["`answer` is no object", "hint: a hook at before_tool_call answers an object"],
    ),
    case("a text for a boolean", "({ block: 'true' })", &["`answer.block`", "string, expected a boolean"]),
    case("an unknown field", "({ blok: true })", &["`blok`", "block"]),
    case(
        "a getter in the answer",
        "({ get block() { for (;;); } })",
        &["`answer.block` is a getter", "plain data"],
    ),
    case(
        "a cycle",
        "(() => { const a = {}; a.params = a; return a; })()",
        &["`answer.params` contains itself"],
    ),
    case("a proxy", "new Proxy({ block: true }, {})", &["`answer` is a proxy", "plain data"]),
    case("a map", "new Map([['block', true]])", &["`answer` is an object of a class", "plain data"]),
    case(
        "an inherited answer",
        "({ __proto__: { block: true } })",
        &["`answer` is an object of a class", "plain data"],
    ),
    case("a function", "({ block: () => true })", &["`answer.block` is a function", "plain data"]),
];

/// What of `said` is missing in `words`. `late` is how it begins to say that something took too long; how long is said with it.
fn missing(words: &str, said: &[&str], late: &str) -> Vec<String> {
    let is_there = |part: &&str| match *part {
        "LATE" => words.split_once(late).is_some_and(|(_, rest)| {
            let millis = rest.split(" ms").next().and_then(|millis| millis.parse::<u32>().ok());
            millis.is_some_and(|millis| (1000..=5000).contains(&millis))
        }),
        part => words.contains(part),
    };
    said.iter().filter(|part| !is_there(part)).map(|part| (*part).to_owned()).collect()
}

/// What is wrong with what is said of these cases, each of which is tried at the same time.
async fn all<F: Future<Output = Vec<String>> + Send + 'static>(tried: impl Iterator<Item = F>) -> String {
    let all: Vec<_> = tried.map(tokio::spawn).collect();
    let mut wrong = Vec::new();
    for one in all {
        wrong.extend(one.await.unwrap());
    }
    wrong.join("\n")
}

/// What is said of a plugin with this source that can't be loaded.
async fn load(id: String, source: String, case: &'static Case, at: &'static str) -> Vec<String> {
    let plugins = Plugins::new();
    let source = source.replace("EXPRESSION", case.code).replace("ID", &id);
    let words = match plugins.load(&id, Backstop, &source).await {
        Ok(_) => "it was loaded".to_owned(),
        Err(error) => error.to_string(),
    };
    let mut missing = missing(&words, case.said, "kept its thread for more than ");
    if !words.contains(&id) {
        missing.push(id);
    }
    let wrong = format!("{} {at}: {missing:?} is not in: {words}", case.what);
    if missing.is_empty() { Vec::new() } else { vec![wrong] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_can_not_be_loaded_says_where_against_which_bound_and_what_to_do() {
    for (at, source) in [
        (
            "beside `register`",
            "import 'backstop/plugin-sdk';\n\nEXPRESSION;\nexport default { id: 'ID', register() {} };",
        ),
        ("in `register`", "export default { id: 'ID', register() {\n\nEXPRESSION;\n} };"),
        (
            "in the getter of `register`",
            "export default { id: 'ID', get register() {\n\nEXPRESSION;\nreturn () => {};\n} };",
        ),
    ] {
        let cases = ANYWHERE.iter().chain(&LATER).enumerate();
        let wrong = all(cases.map(|(n, case)| load(format!("bad-{n}"), source.to_owned(), case, at))).await;
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// What is said of a hook that fails.
async fn hook(id: String, case: &'static Case) -> Vec<String> {
    let plugins = Plugins::new();
    let wait = if case.what == "a late answer" { 1500 } else { 7000 };
    let code = match case.what {
        "microtasks" => format!("{}; return new Promise(() => {{}});", case.code),
        _ => format!("return {};", case.code),
    };
    let source = format!(
        "import {{ definePluginEntry }} from 'backstop/plugin-sdk';
         export default definePluginEntry({{ id: '{id}', register(api) {{ api.on('before_tool_call', (event) => {{
         {code}
         }}, {{ timeoutMs: {wait} }}); }} }});"
    );
    let plugin = plugins.load(&id, Backstop, &source).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
    assert_eq!(reviewed.receipt.verdict, Verdict::Block, "{}", case.what);
    let failures =
        reviewed.receipt.steps.iter().filter_map(|step| Some(step.failure.as_ref()?.message.to_string()));
    let words = failures.collect::<Vec<_>>().join("; ");
    let missing = missing(&words, case.said, "no answer within ");
    let wrong = format!("{}: {missing:?} is not in: {words}", case.what);
    if missing.is_empty() { Vec::new() } else { vec![wrong] }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_says_where_against_which_bound_and_what_to_do() {
    let cases = ANYWHERE.iter().chain(&LATER).chain(&IN_A_HOOK).enumerate();
    let wrong = all(cases.map(|(number, case)| hook(format!("bad-{number}"), case))).await;
    assert!(wrong.is_empty(), "{wrong}");
}
