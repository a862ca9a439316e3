//! Events that are parsed as they are read, runs of functions, and functions in answers.

use std::sync::Arc;

use backstop_script::{
    Answer, Argument, Arguments, Callee, JsonText, LazyEvent, Loaded, RunItem, ScriptError,
};
use serde_json::{Value, json};

use crate::common::{LONG, SHORT, Script, ask, json as arguments, module};

fn event(fields: &[(&str, &str)]) -> LazyEvent {
    let names: Arc<[Arc<str>]> = fields.iter().map(|(name, _)| Arc::from(*name)).collect();
    let texts: Vec<JsonText> = fields.iter().map(|(_, text)| JsonText::from_text(*text)).collect();
    LazyEvent::new(names, texts).unwrap()
}

async fn given(script: &Loaded, name: &str, event: LazyEvent) -> Result<Option<Value>, ScriptError> {
    let answer = script.call_export(name, &Arguments::new([Argument::Lazy(event)]), LONG).await?;
    Ok(answer.map(|answer| answer.json.read().unwrap()))
}

#[tokio::test]
async fn a_lazy_event_is_a_plain_object_for_the_script() {
    let script = module(
        "export const text = (event) => JSON.stringify(event);
         export const spread = (event) => ({ ...event, more: 1 });
         export const keys = (event) => [Object.keys(event), 'a' in event, Object.entries(event).length, Object.hasOwn(event, 'nope')];
         export const parts = ({ a, ...rest }) => [a, rest];
         export const same = (event) => event.a === event.a;
         export const write = (event) => { event.a = 5; event.fresh = 6; delete event['b c']; return { ...event }; };
         export const proto = (event) => [Object.getPrototypeOf(event) === Object.prototype, event instanceof Object];
         export const clone = (event) => Object.assign({}, event);",
    )
    .await;
    let fields = [("a", "{\"x\":[1]}"), ("b c", "\"\\u2028\""), ("__proto__", "7"), ("toString", "null")];
    let whole = json!({"a": {"x": [1]}, "b c": "\u{2028}", "__proto__": 7, "toString": null});
    let text = given(&script, "text", event(&fields)).await.unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text.as_str().unwrap()).unwrap(), whole);
    let fields = [("a", "{\"x\":[1]}"), ("b c", "2"), ("d", "null")];
    for (name, expected) in [
        ("spread", json!({"a": {"x": [1]}, "b c": 2, "d": null, "more": 1})),
        ("keys", json!([["a", "b c", "d"], true, 3, false])),
        ("parts", json!([{"x": [1]}, {"b c": 2, "d": null}])),
        ("same", json!(true)),
        ("write", json!({"a": 5, "d": null, "fresh": 6})),
        ("proto", json!([true, true])),
        ("clone", json!({"a": {"x": [1]}, "b c": 2, "d": null})),
    ] {
        assert_eq!(given(&script, name, event(&fields)).await.unwrap(), Some(expected), "{name}");
    }
}

#[tokio::test]
async fn a_field_is_parsed_when_it_is_read_and_not_before() {
    let script =
        module("export const a = (event) => event.a; export const broken = (event) => event.broken;").await;
    let fields = [("a", "1"), ("broken", "{not json")];
    assert_eq!(given(&script, "a", event(&fields)).await.unwrap(), Some(json!(1)));
    let error = given(&script, "broken", event(&fields)).await.unwrap_err();
    assert!(error.to_string().contains("SyntaxError"), "{error}");
}

#[tokio::test]
async fn what_a_script_does_to_its_event_nobody_else_sees() {
    let script = Script::new(&[
        ("a.js", "export default (event) => { event.params.x = 'changed'; event.added = 1; }"),
        ("b.js", "export default (event) => ({ ...event })"),
    ]);
    let (a, b) = (script.load("a.js").await.unwrap(), script.load("b.js").await.unwrap());
    let item = |script| RunItem { script, callee: Callee::Export("default".to_owned()), budget: LONG };
    let given = Arguments::new([Argument::Lazy(event(&[("params", "{\"x\":1}")]))]);
    for items in [[item(&a), item(&b)], [item(&a), item(&b)]] {
        let outcome = script.workers.call_run(&items, &given).await;
        let (at, answer) = outcome.ended_at.unwrap();
        assert_eq!((at, answer.unwrap().json.as_str()), (1, "{\"params\":{\"x\":1}}"));
    }
}

#[tokio::test]
async fn a_run_ends_at_the_first_that_answers_or_fails() {
    let script = Script::new(&[(
        "main.js",
        "let asked = [];
         export const none = () => { asked.push('none'); };
         export const later = async () => { await null; asked.push('later'); return null; };
         export const slow = () => new Promise((done) => setTimeout(() => { asked.push('slow'); done(); }, 2));
         export const no = () => { asked.push('no'); return false; };
         export const fails = () => { throw new Error('here'); };
         export const hangs = () => { for (;;); };
         export const asks = () => { const seen = asked; asked = []; return seen; };",
    )]);
    let (one, two) = (script.load("main.js").await.unwrap(), script.load("main.js").await.unwrap());
    let item = |script, name: &str| RunItem { script, callee: Callee::Export(name.to_owned()), budget: LONG };
    let none = Arguments::default();

    let items =
        [item(&one, "none"), item(&two, "later"), item(&one, "slow"), item(&two, "no"), item(&one, "none")];
    let outcome = script.workers.call_run(&items, &none).await;
    let (at, answer) = outcome.ended_at.unwrap();
    assert_eq!((at, answer.unwrap().json.as_str()), (3, "false"));
    assert_eq!(outcome.took.len(), 4);
    assert_eq!(ask(&one, "asks", &json!(1)).await.unwrap(), Some(json!(["none", "slow"])));
    assert_eq!(ask(&two, "asks", &json!(1)).await.unwrap(), Some(json!(["later", "no"])));

    let outcome =
        script.workers.call_run(&[item(&one, "none"), item(&one, "fails"), item(&one, "none")], &none).await;
    let (at, answer) = outcome.ended_at.unwrap();
    assert_eq!(at, 1);
    assert!(answer.unwrap_err().to_string().contains("Error: here"));

    let hanging = RunItem { budget: SHORT, ..item(&one, "hangs") };
    let outcome = script.workers.call_run(&[item(&one, "none"), hanging, item(&one, "no")], &none).await;
    assert!(
        matches!(outcome.ended_at, Some((1, Err(ScriptError::TimedOut { budget: SHORT, .. })))),
        "{outcome:?}"
    );

    let outcome = script.workers.call_run(&[item(&one, "none"), item(&two, "later")], &none).await;
    assert!(outcome.ended_at.is_none() && outcome.took.len() == 2);
}

#[tokio::test]
async fn functions_at_named_places_are_kept_and_belong_to_their_runtime() {
    let mut script = Script::new(&[(
        "main.js",
        "export const ask = () => ({ approval: { title: 'x', onResolution: (how) => 'resolved ' + how }, other: 1 });
         export const more = () => ({ approval: { onResolution: () => 1, elsewhere: () => 2 } });
         export const full = () => { const kept = []; for (;;) kept.push(new Array(10000).fill(0)); };",
    )]);
    script.limits.memory = 8 << 20;
    script.limits.functions = 3;
    let loaded = script.load("main.js").await.unwrap();
    let keeping = || Arguments::default().keeping(["approval.onResolution".to_owned()]);
    let Answer { json: text, functions } =
        loaded.call_export("ask", &keeping(), LONG).await.unwrap().unwrap();
    assert_eq!(text.read::<Value>().unwrap(), json!({"approval": {"title": "x"}, "other": 1}));
    let [kept] = &functions[..] else { panic!("{functions:?}") };
    assert_eq!(kept.at, "approval.onResolution");
    let answer = loaded.call(kept.id, &arguments(&json!("allow")), LONG).await.unwrap().unwrap();
    assert_eq!(answer.json.as_str(), "\"resolved allow\"");

    // At any other place, and where nobody asked for it, a function is no data.
    let error = loaded.call_export("more", &keeping(), LONG).await.unwrap_err();
    assert!(error.to_string().contains("`answer.approval.elsewhere` is a function"), "{error}");
    assert!(loaded.call_export("ask", &Arguments::default(), LONG).await.is_err());

    // Kept functions are bounded, and released ones make room.
    for _ in 0..20 {
        if let Ok(Some(answer)) = loaded.call_export("ask", &keeping(), LONG).await {
            answer.functions.iter().for_each(|function| loaded.release(function.id));
        } else {
            panic!("released functions have to make room");
        }
    }

    // A runtime that was made anew has other functions: the old one's number means nothing in it.
    assert!(loaded.call_export("full", &keeping(), LONG).await.is_err());
    assert!(loaded.call_export("ask", &keeping(), LONG).await.is_ok());
    let error = loaded.call(kept.id, &arguments(&json!("allow")), LONG).await.unwrap_err();
    assert!(matches!(error, ScriptError::Changed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_runtime_made_anew_is_asked_only_what_its_script_registered_again_in_the_same_way() {
    let mut script = Script::new(&[(
        "plugin.js",
        "import { times } from 'counter';
         export const handlers = times() === 1 ? [['gate', () => 'gate'], ['watch', () => 'watch']] : [['watch', () => 'watch'], ['watch', () => 'watch']];
         export const full = () => { const kept = []; for (;;) kept.push(new Array(10000).fill(0)); };",
    )]);
    script.limits.memory = 8 << 20;
    script.bridge.modules.lock().unwrap().push((
        "counter".to_owned(),
        backstop_script::Provided::Source(
            "export const times = () => import.meta.host.call('times');".into(),
        ),
    ));
    let source = script.source("plugin.js").boot(
        "import { handlers, full } from 'script:entry';
         for (const [label, handler] of handlers) import.meta.host.keep(handler, label);
         export { full };",
    );
    let loaded = script.load_source(source).await.unwrap();
    let (first, second) = (backstop_script::FunctionId::new(1), backstop_script::FunctionId::new(2));
    let none = Arguments::default();
    assert_eq!(loaded.call(first, &none, LONG).await.unwrap().unwrap().json.as_str(), "\"gate\"");
    assert!(loaded.call_export("full", &none, LONG).await.is_err());
    assert!(matches!(loaded.call(first, &none, LONG).await, Err(ScriptError::Changed { .. })));
    assert_eq!(loaded.call(second, &none, LONG).await.unwrap().unwrap().json.as_str(), "\"watch\"");
}
