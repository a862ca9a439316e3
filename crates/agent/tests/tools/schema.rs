use serde_json::json;

use crate::Bench;

#[test]
fn every_tool_describes_itself_with_a_closed_schema() {
    let bench = Bench::new();
    let definitions = bench.tools.definitions();
    let names: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read", "write", "edit", "apply_patch", "exec", "process", "web_fetch"]);
    assert_eq!(bench.tools.names().collect::<Vec<_>>(), names);
    for tool in definitions {
        assert!(!tool.description.is_empty(), "{}", tool.name);
        assert_eq!(tool.input_schema["additionalProperties"], json!(false), "{}", tool.name);
        let properties = tool.input_schema["properties"].as_object().unwrap();
        for (name, schema) in properties {
            assert!(
                schema["description"].as_str().is_some_and(|text| !text.is_empty()),
                "{}: {name}",
                tool.name
            );
        }
        for name in tool.input_schema["required"].as_array().unwrap() {
            assert!(properties.contains_key(name.as_str().unwrap()), "{}: {name}", tool.name);
        }
    }
}

#[tokio::test]
async fn unknown_tools_and_arguments_are_errors_with_a_hint() {
    let bench = Bench::new();
    assert!(bench.fails("reed", json!({})).await.contains("did you mean `read`?"));
    assert!(bench.fails("read", json!({"pth": "x"})).await.contains("did you mean `path`?"));
    assert!(bench.fails("write", json!({"path": "x"})).await.contains("needs the argument `content`"));
    assert!(bench.fails("exec", json!({"command": ["ls"]})).await.contains("a string"));
    assert!(bench.fails("exec", json!({"command": "true", "timeout_ms": 600_001})).await.contains("600000"));
}

#[tokio::test]
async fn a_cancelled_run_starts_nothing() {
    let bench = Bench::new();
    bench.cx.cancel.cancel();
    let error = bench.fails("write", json!({"path": "x", "content": "x"})).await;
    assert!(error.contains("cancelled"), "{error}");
    assert!(bench.names().is_empty());
}
