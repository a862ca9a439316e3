use std::os::unix::fs::PermissionsExt as _;

use backstop_agent::tools::{Limits, affected_paths};
use proptest::prelude::*;
use serde_json::json;

use crate::Bench;

fn envelope(body: &str) -> serde_json::Value {
    json!({"patch": format!("*** Begin Patch\n{body}\n*** End Patch\n")})
}

#[tokio::test]
async fn all_operations_are_applied_together() {
    let bench = Bench::new();
    bench.put("a", "one\ntwo\n");
    bench.put("b", "old\n");
    bench.put("c", "gone\n");
    std::fs::set_permissions(bench.path("b"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let body = "*** Update File: a\n@@\n one\n-two\n+2\n*** Update File: b\n*** Move to: d/b\n@@\n-old\n+new\n\
                *** Delete File: c\n*** Add File: e\n+text";
    assert_eq!(
        bench.ok("apply_patch", envelope(body)).await,
        "updated `a`\nmoved `b` to `d/b`\ndeleted `c`\nadded `e`"
    );
    assert_eq!(bench.names(), ["a", "d", "e"]);
    assert_eq!(
        (bench.get("a"), bench.get("d/b"), bench.get("e")),
        ("one\n2\n".into(), "new\n".into(), "text\n".into())
    );
    let mode = std::fs::metadata(bench.path("d/b")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[tokio::test]
async fn patch_all_or_nothing() {
    let bench = Bench::new();
    bench.put("a", "one\n");
    bench.put("b", "two\n");
    let good = "*** Update File: a\n@@\n-one\n+1\n*** Add File: new/file\n+x\n*** Delete File: b\n";
    for (bad, word) in [
        ("*** Update File: b\n@@\n-three\n+3", "there is no `b`"),
        ("*** Update File: a\n@@\n-one\n+x", "no line `one`"),
        ("*** Add File: a\n+x", "exists already"),
        ("*** Delete File: missing", "there is no `missing`"),
        ("*** Update File: a\n*** Move to: new/file\n@@\n-1\n+x", "exists already"),
        ("*** Add File: ../out\n+x", "outside"),
        ("*** Add File: a/below\n+x", "cannot"),
        ("garbage", "none of"),
    ] {
        let error = bench.fails("apply_patch", envelope(&format!("{good}{bad}"))).await;
        assert!(error.contains(word) && error.ends_with("nothing was changed"), "{bad}: {error}");
        assert_eq!(bench.names(), ["a", "b"], "{bad}");
        assert_eq!((bench.get("a"), bench.get("b")), ("one\n".into(), "two\n".into()), "{bad}");
    }
}

#[tokio::test]
async fn failure_while_replacing_is_undone() {
    let bench = Bench::new();
    bench.put("0", "before\n");
    // `a` and `a/b` can both be written beside their places, but not both be put there.
    let body = "*** Update File: 0\n@@\n-before\n+after\n*** Add File: a\n+x\n*** Add File: a/b\n+y";
    let error = bench.fails("apply_patch", envelope(body)).await;
    assert!(error.contains("cannot replace `a`") && error.ends_with("nothing was changed"), "{error}");
    assert_eq!(bench.get("0"), "before\n");
    assert_eq!(bench.names(), ["0"]);
}

#[tokio::test]
async fn operations_on_one_file_see_each_other() {
    let bench = Bench::new();
    bench.put("a", "one\n");
    let body = "*** Update File: a\n*** Move to: b\n@@\n-one\n+two\n*** Update File: ./b\n@@\n-two\n+three\n\
                *** Add File: a\n+fresh";
    bench.ok("apply_patch", envelope(body)).await;
    assert_eq!((bench.get("a"), bench.get("b")), ("fresh\n".into(), "three\n".into()));
}

#[tokio::test]
async fn unified_diff_is_applied() {
    let bench = Bench::new();
    bench.put("a", "1\n2\n3\n4\n");
    bench.put("b", "x\n");
    bench.put("c", "more\nthan shown\n");
    let patch = "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -2,2 +2,3 @@\n 2\n-3\n+three\n+and\n\
                 --- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+new\n\
                 \\ No newline at end of file\n";
    bench.ok("apply_patch", json!({"patch": patch})).await;
    assert_eq!(bench.names(), ["a", "c", "d"]);
    assert_eq!((bench.get("a"), bench.get("d")), ("1\n2\nthree\nand\n4\n".into(), "new".into()));
    let patch = "--- a/c\n+++ /dev/null\n@@ -1 +0,0 @@\n-more\n";
    let error = bench.fails("apply_patch", json!({"patch": patch})).await;
    assert!(error.contains("more lines than the deletion shows"), "{error}");
}

#[tokio::test]
async fn files_of_a_patch_are_bounded_together() {
    let bench = Bench::with(Limits { file_bytes: 1000, ..Limits::default() });
    let mut body = String::new();
    for name in ["a", "b", "c", "d", "e"] {
        bench.put(name, "x".repeat(900));
        body.push_str(&format!("*** Delete File: {name}\n"));
    }
    let error = bench.fails("apply_patch", envelope(body.trim_end())).await;
    assert!(error.contains("together more than 4000 bytes"), "{error}");
    assert_eq!(bench.names(), ["a", "b", "c", "d", "e"]);
}

#[test]
fn affected_paths_are_those_the_tool_touches() {
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b/c\n@@\n-x\n+y\n*** Delete File: d\n\
                 *** Add File: a\n+*** Delete File: not this\n*** End Patch";
    assert_eq!(affected_paths(patch), ["a", "b/c", "d"]);
    assert_eq!(
        affected_paths("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"),
        ["x", "y"]
    );
    assert!(affected_paths("*** Begin Patch\n*** Delete File: a\n").is_empty());
}

proptest! {
    #[test]
    fn affected_paths_never_panics(text in any::<String>()) {
        let _ = affected_paths(&text);
    }
}
