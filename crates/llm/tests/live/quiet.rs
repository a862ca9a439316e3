//! Fields that hold no text hold none: whatever is written into a string of an answer is judged, or does not leave.

use std::collections::BTreeSet;

use backstop_llm::live::PartKey;
use backstop_llm::{Api, live};
use serde_json::Value;

use super::support::{Host, all_fixtures, request, try_pass};

/// What nobody may read who was not shown it.
const SAID: &str = "Here is h1dden-argument to read";

/// Where more than words stands in an answer, below one of these keys: what repeats the request, the provider's explanations
/// and errors, the text token by token, what is sealed in one piece, and what the provider asked tools of its own (told by
/// the names and ids of the fixtures). It passes as it came, as `docs/gateway.md` says.
const PASSES: [&str; 17] = [
    "instructions",
    "metadata",
    "tools",
    "tool_choice",
    "format",
    "verbosity",
    "stop_sequence",
    "error",
    "promptFeedback",
    "finishMessage",
    "logprobs",
    "logprobsResult",
    "queries",
    "query",
    "action",
    "executableCode",
    "data",
];

/// Blocks that say what the provider ran: their ids, names and arguments.
const RAN: [&str; 3] = ["srvtoolu_1", "web_search", "{\"query\":\"rust\"}"];

/// The strings of a value that stand behind a key, and the way to them.
fn strings<'a>(value: &'a Value, path: &mut Vec<&'a str>, found: &mut BTreeSet<(String, String)>) {
    match value {
        Value::String(text) => {
            let passes = RAN.contains(&text.as_str()) || path.iter().any(|key| PASSES.contains(key));
            if let Some(key) = path.last().filter(|_| !passes) {
                found.insert(((*key).to_owned(), text.clone()));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, path, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                path.push(key);
                strings(value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn strings_of(answer: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let whole = serde_json::from_str::<Value>(answer).ok();
    let events = answer.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
    for value in whole.into_iter().chain(events) {
        strings(&value, &mut Vec::new(), &mut found);
    }
    found
}

/// What leaves of an answer of which all calls are removed and no result is judged, and whether it was shown to who judges.
fn left(api: Api, streams: bool, answer: &str) -> (String, bool) {
    let mut editor =
        if streams { live::stream_editor(api, &request()) } else { live::whole_editor(api, &request()) };
    let mut host = Host::default();
    let mut is_shown = false;
    if try_pass(&mut *editor, &mut host, answer.as_bytes()).is_ok() && editor.is_whole() {
        let of = |choice: u32| (0..).map_while(|call| editor.call_part(choice, call)).collect::<Vec<_>>();
        let calls: Vec<PartKey> = (0..4).flat_map(of).collect();
        editor.keep_calls(&calls, None);
        host.take(&mut *editor);
    }
    is_shown |= host.texts.iter().any(|(_, _, text)| text.contains(SAID));
    is_shown |= editor.results().iter().any(|result| result.value.to_string().contains(SAID));
    (String::from_utf8_lossy(&host.sent).into_owned(), is_shown)
}

#[test]
fn a_text_in_any_string_is_judged_or_stays() {
    let (mut count, mut leaks) = (0, BTreeSet::new());
    for (ending, streams) in [(".response.json", false), (".stream.sse", true)] {
        for (api, name, answer) in all_fixtures(ending) {
            for (key, old) in strings_of(&answer) {
                let literal = |text: &str| Value::from(text).to_string();
                let mut changed = answer.clone();
                for colon in [":", ": "] {
                    let of = |text: &str| format!("\"{key}\"{colon}{}", literal(text));
                    changed = changed.replace(&of(&old), &of(SAID));
                }
                if changed == answer {
                    continue;
                }
                count += 1;
                let (left, is_shown) = left(api, streams, &changed);
                if left.contains(SAID) && !is_shown {
                    leaks.insert(format!("{api} {name}{ending}: {key} ({old})"));
                }
            }
        }
    }
    assert!(count > 300, "{count}");
    assert!(leaks.is_empty(), "{leaks:#?}");
}

#[test]
fn what_converse_sealed_passes_in_base64_and_in_nothing_else() {
    let sealed = "ZW5jcnlwdGVk";
    let mut count = 0;
    for (ending, streams) in [(".response.json", false), (".stream.sse", true)] {
        for (api, name, answer) in all_fixtures(ending) {
            if api != Api::BedrockConverse || !answer.contains(sealed) {
                continue;
            }
            count += 1;
            let (long, said) = (sealed.repeat(100), "Here-is,h1dden.".repeat(100));
            let (passed, _) = left(api, streams, &answer.replace(sealed, &long));
            assert!(passed.contains(&long), "{name}{ending}: {passed}");
            let (passed, is_shown) = left(api, streams, &answer.replace(sealed, &said));
            assert!(!passed.contains("h1dden") || is_shown, "{name}{ending}: {passed}");
        }
    }
    assert!(count > 1, "{count}");
}
