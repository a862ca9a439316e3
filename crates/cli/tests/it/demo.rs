//! `backstop demo`.

use serde_json::Value;

use super::support::{User, snapshot};

#[test]
fn the_demo_shows_what_it_claims() {
    let user = User::new();
    let begun = std::time::Instant::now();
    let done = user.run(&["demo"]).succeeded();
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
    snapshot!(done.out);
    assert!(done.err.contains("the demo answers for you"), "{}", done.err);
    assert!(!user.path().join("data").exists(), "the demo leaves nothing behind");
}

#[test]
fn the_demo_as_json_has_a_line_for_each_step() {
    let done = User::new().run(&["demo", "--json"]).succeeded();
    let lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let verdicts: Vec<_> = lines.iter().filter_map(|line| line["receipt"]["verdict"].as_str()).collect();
    assert_eq!(verdicts, ["pass", "block", "modify", "pass", "modify", "block"]);
    assert_eq!(lines[3]["receipt"]["approval"]["resolution"], "allow-once");
    assert!(lines.last().unwrap()["audit"]["entries"].as_u64().unwrap() > 6);
    assert!(!done.out.contains("demo-key"), "the redacted key is nowhere");
}
