//! The schema, the file that uses every key and the reference agree, and nothing shown holds a secret.

use std::collections::BTreeSet;

use crate::support::{FULL, TOKEN, load, operator};
use backstop_config::{LayerKind, Source};
use serde_json::Value;

/// Key paths of a schema, with `[]` for list items and `*` for free names.
fn schema_keys(path: &str, schema: &Value, keys: &mut BTreeSet<String>) {
    for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{key}");
        schema_keys(&path, property, keys);
        keys.insert(path);
    }
    if let Some(items) = schema.get("items") {
        schema_keys(&format!("{path}[]"), items, keys);
    }
    if let Some(entries) = schema.get("additionalProperties") {
        schema_keys(&format!("{path}.*"), entries, keys);
    }
}

/// Key paths that the effective configuration shows, in the same form.
fn shown_keys(path: &str, schema: &Value, value: &Value, keys: &mut BTreeSet<String>) {
    match (value, schema.get("properties"), schema.get("items"), schema.get("additionalProperties")) {
        (Value::Object(map), Some(properties), _, _) => {
            for (key, value) in map {
                let path = format!("{path}.{key}");
                shown_keys(&path, &properties[key], value, keys);
                keys.insert(path);
            }
        }
        (Value::Array(items), _, Some(schema), _) => {
            items.iter().for_each(|item| shown_keys(&format!("{path}[]"), schema, item, keys));
        }
        (Value::Object(map), None, None, Some(schema)) => {
            map.values().for_each(|value| shown_keys(&format!("{path}.*"), schema, value, keys));
        }
        _ => {}
    }
}

#[test]
fn every_key_of_the_schema_is_accepted_and_shown() {
    let schema = backstop_config::schema();
    let mut in_schema = BTreeSet::new();
    schema_keys("", &schema, &mut in_schema);
    let mut in_full = BTreeSet::new();
    shown_keys("", &schema, &load(&[operator(FULL)]).unwrap().show()["config"], &mut in_full);
    // The other places for secrets of which there is one.
    let others = [
        "store: {postgres: {url: 'postgres://backstop@db.example/backstop', password_file: keys/db}}",
        "gateway: {token_file: keys/gateway, operators: {token_file: keys/operators}}",
        "gateway: {hosts: [b.example], console: {origin: 'https://b.example', oidc: {issuer: 'https://id.example', client_id: console, client_secret_file: keys/oidc, roles: {a: [read]}}}}",
    ];
    for other in others {
        shown_keys("", &schema, &load(&[operator(other)]).unwrap().show()["config"], &mut in_full);
    }
    // No hook type exists for model calls yet, so no file can use these.
    let unusable = |key: &String| !key.starts_with(".hooks.llm_call");
    let in_schema: BTreeSet<String> = in_schema.into_iter().filter(unusable).collect();
    assert_eq!(in_full, in_schema);
    assert!(in_schema.len() > 60, "only {} keys", in_schema.len());
}

#[test]
fn every_section_of_the_schema_is_closed_and_described() {
    fn check(path: &str, schema: &Value) {
        for (key, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let described = property["description"].as_str().is_some_and(|text| text.len() > 10);
            assert!(described, "{path}.{key} has no description");
            assert_eq!(schema["additionalProperties"], false, "{path} is open");
            check(&format!("{path}.{key}"), property);
        }
    }
    check("", &backstop_config::schema());
}

#[test]
fn the_guide_holds_the_generated_reference() {
    let guide = include_str!("../../../../docs/configuration.md");
    let (_, after) =
        guide.split_once("<!-- generated: keys -->\n\n").expect("the guide has a place for the table");
    let (table, _) = after.split_once("\n<!-- end -->").expect("the table ends");
    assert_eq!(table, backstop_config::reference());
}

#[test]
fn nothing_that_can_be_printed_holds_a_secret() {
    let literal = ["lit", "eral-se", "cret"].concat();
    let text = format!("{FULL}\n").replace("api_key_env: LOCAL_KEY", &format!("api_key: {literal}"));
    let text = text.replace(
        "config: {level: 3,",
        &format!("config: {{level: 3, password: {literal}, list: [{{a: '${{TOKEN}}'}}],"),
    );
    let loaded = load(&[operator(&text)]).unwrap();
    let printed = format!("{loaded:?}\n{loaded:#?}\n{}", loaded.show());
    assert!(!printed.contains(TOKEN), "the environment leaked");
    assert!(!printed.contains(&literal), "a literal secret leaked");
    let config = &loaded.config;
    assert_eq!(config.providers.get("main").unwrap().api_key.as_ref().unwrap().value.expose(), TOKEN);
    let webhook = &config.hooks.tool_call.pre_call.entries()[1].config.as_ref().unwrap().value;
    assert_eq!(webhook.expose()["auth_header"], format!("Bearer {TOKEN}"));
    assert_eq!(webhook.masked()["auth_header"], "***${TOKEN}");
}

#[test]
fn each_leaf_is_shown_with_its_place() {
    let loaded = load(&[operator("guards:\n  command_safety:\n    profile: strict\n")]).unwrap();
    let guard = &loaded.show()["config"]["guards"]["command_safety"];
    assert_eq!(guard["profile"], serde_json::json!({ "value": "strict", "from": "operator.yaml:3:14" }));
    assert_eq!(guard["enabled"], serde_json::json!({ "value": true, "from": "built-in default" }));
}

#[test]
fn options_name_the_place_of_each_value() {
    let loaded = load(&[operator(FULL)]).unwrap();
    let options = &loaded.config.hooks.tool_call.pre_call.entries()[0].config.as_ref().unwrap().value;
    assert_eq!(options.place_of("/deny_argument_patterns/command/1").to_string(), "operator.yaml:12:40");
    assert_eq!(options.place_of("/deny_tools/7").to_string(), "operator.yaml:10:23");
}

#[test]
fn ids_that_nothing_answers_to_are_errors() {
    let loaded = load(&[operator(FULL)]).unwrap();
    let plugins = ["my-plugin", "builtin:security-audit"];
    assert!(loaded.check_ids(&["builtin:security-audit"], &plugins).is_ok());
    assert_eq!(
        loaded.check_ids(&["builtin:security-audits"], &plugins[..1]).unwrap_err().to_string(),
        "error: no hook has the id `builtin:security-audit`\n  --> operator.yaml:55:5\n  \
         hint: did you mean `builtin:security-audits`?\n\n\
         error: no plugin has the id `builtin:security-audit`\n  --> operator.yaml:80:5\n  \
         hint: known plugin ids: `my-plugin`"
    );
}

#[test]
fn operator_budgets_prefer_the_point() {
    use backstop_hooks::PointId;
    let loaded = load(&[operator(FULL)]).unwrap();
    let hooks = &loaded.config.plugins.entries.get("my-plugin").unwrap().hooks;
    let budget = |point| hooks.budget(point).map(backstop_config::Millis::get);
    assert_eq!(budget(PointId::AgentEnd), Some(60_000));
    assert_eq!(budget(PointId::BeforeToolCall), Some(30_000));
}

#[test]
fn money_is_exact() {
    let text = "budgets:\n  limits:\n    - {name: a, cost: 0.1}\n    - {name: b, cost: 12.345678}\n    - {name: c, cost: 7}\n";
    let loaded = load(&[operator(text)]).unwrap();
    let micros: Vec<u64> = loaded
        .config
        .budgets
        .limits
        .iter()
        .map(|limit| limit.cost.as_ref().unwrap().value.micros())
        .collect();
    assert_eq!(micros, [100_000, 12_345_678, 7_000_000]);
}

#[test]
fn a_budget_limits_something_and_has_a_name_of_its_own() {
    let error = |text: &str| load(&[operator(text)]).unwrap_err().to_string();
    let nothing = error("budgets:\n  limits:\n    - {name: a}\n");
    assert!(nothing.contains("limits nothing"), "{nothing}");
    let twice = error("budgets:\n  limits:\n    - {name: a, requests: 1}\n    - {name: a, tokens: 1}\n");
    assert!(twice.contains("there are two budgets `a`"), "{twice}");
}

#[test]
fn the_digest_is_of_the_values_wherever_they_are_written() {
    let digest = |text: &str| load(&[operator(text)]).unwrap().digest();
    let moved = Source::new(LayerKind::Operator, "elsewhere.yaml", format!("# moved\n{FULL}"));
    assert_eq!(load(&[moved]).unwrap().digest(), digest(FULL));
    // Another value is another digest, also in a list, and in what only a plugin reads.
    let options = "config: {level: 3, note: null}";
    let named = |from: &str| FULL.replace(options, &format!("config: {{value: 3, from: {from}}}"));
    let texts = [
        FULL.to_owned(),
        FULL.replace("chats: [7]", "chats: [8]"),
        FULL.replace("chats: [7]", "chats: [7, 8]"),
        named("here"),
        named("there"),
    ];
    for (at, text) in texts.iter().enumerate() {
        for other in &texts[at + 1..] {
            assert_ne!(text, other);
            assert_ne!(digest(text), digest(other));
        }
    }
}
