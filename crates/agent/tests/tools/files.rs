use std::os::unix::fs::{PermissionsExt as _, symlink};

use backstop_agent::tools::Limits;
use serde_json::json;

use crate::Bench;

#[tokio::test]
async fn read_shows_text_parts_and_directories() {
    let bench = Bench::new();
    bench.put("f", "one\ntwo\nthree\n");
    std::fs::create_dir(bench.path("d")).unwrap();
    assert_eq!(bench.ok("read", json!({"path": "f"})).await, "one\ntwo\nthree\n");
    assert_eq!(
        bench.ok("read", json!({"path": "f", "offset": 2, "limit": 1, "line_numbers": true})).await,
        "2\ttwo\n[lines 2 to 2 of 3 shown; continue with offset 3]"
    );
    assert_eq!(bench.ok("read", json!({"path": "."})).await, "d/\nf");
    assert_eq!(bench.ok("read", json!({"path": "d"})).await, "[empty directory]");
    assert!(bench.fails("read", json!({"path": "f", "offset": 4})).await.contains("has 3 lines"));
    assert!(bench.fails("read", json!({"path": "g"})).await.contains("there is no `g`"));
}

#[tokio::test]
async fn read_bounds_long_files_and_long_lines() {
    let bench = Bench::with(Limits { output_bytes: 2000, file_bytes: 50_000, ..Limits::default() });
    bench.put("lines", "0123456789\n".repeat(1000));
    let first = bench.run("read", json!({"path": "lines"})).await;
    assert!(
        first.content.len() <= 2000 && first.content.contains("continue with offset"),
        "{}",
        first.content
    );
    assert_eq!(first.details["truncated"], json!(true));
    let next = first.details["lastLine"].as_u64().unwrap() + 1;
    let second = bench.run("read", json!({"path": "lines", "offset": next})).await;
    assert_eq!(second.details["firstLine"], json!(next));

    bench.put("line", "é".repeat(5000));
    let line = bench.ok("read", json!({"path": "line"})).await;
    assert!(line.len() <= 2000 && line.contains("has 10000 bytes and was cut"), "{line}");

    bench.put("huge", vec![b'x'; 50_001]);
    let error = bench.fails("read", json!({"path": "huge"})).await;
    assert!(error.contains("50001") && error.contains("50000"), "{error}");
}

#[tokio::test]
async fn read_tells_binary_from_text_with_wrong_bytes() {
    let bench = Bench::new();
    bench.put("binary", b"\x7fELF\0\0");
    bench.put("latin", b"caf\xe9\n");
    assert!(bench.fails("read", json!({"path": "binary"})).await.contains("binary file of 6 bytes"));
    let latin = bench.run("read", json!({"path": "latin"})).await;
    assert!(latin.content.starts_with("caf\u{FFFD}\n[not UTF-8"), "{}", latin.content);
    assert_eq!(latin.details["lossy"], json!(true));
}

#[tokio::test]
async fn symlink_escape_refused() {
    let bench = Bench::new();
    let outside = bench.folder.path().join("secret");
    std::fs::write(&outside, "secret").unwrap();
    symlink(&outside, bench.path("link")).unwrap();
    symlink("..", bench.path("up")).unwrap();
    for path in ["link", "up/secret", "../secret", outside.to_str().unwrap()] {
        for (tool, args) in [
            ("read", json!({"path": path})),
            ("write", json!({"path": path, "content": "x"})),
            ("edit", json!({"path": path, "old_text": "secret", "new_text": "x"})),
            (
                "apply_patch",
                json!({"patch": format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch")}),
            ),
            ("exec", json!({"command": "true", "workdir": path})),
        ] {
            let error = bench.fails(tool, args).await;
            assert!(error.contains("outside of the workspace"), "{tool} {path}: {error}");
        }
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "secret");
}

#[tokio::test]
async fn pipes_and_devices_are_refused_without_hanging() {
    let bench = Bench::new();
    bench.ok("exec", json!({"command": "mkfifo pipe"})).await;
    for (tool, args) in [
        ("read", json!({"path": "pipe"})),
        ("write", json!({"path": "pipe", "content": "x"})),
        ("edit", json!({"path": "pipe", "old_text": "a", "new_text": "b"})),
    ] {
        let error = bench.fails(tool, args).await;
        assert!(error.contains("is a pipe"), "{tool}: {error}");
    }
}

#[tokio::test]
async fn write_creates_parents_keeps_the_mode_and_leaves_nothing_beside() {
    let bench = Bench::new();
    assert_eq!(
        bench.ok("write", json!({"path": "a/b/c", "content": "x"})).await,
        "created `a/b/c` (1 bytes)"
    );
    assert_eq!(bench.get("a/b/c"), "x");
    bench.put("script", "old");
    std::fs::set_permissions(bench.path("script"), std::fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(
        bench.ok("write", json!({"path": "script", "content": ""})).await,
        "replaced `script` (0 bytes)"
    );
    let mode = std::fs::metadata(bench.path("script")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    assert_eq!(bench.names(), ["a", "script"]);
    assert!(bench.fails("write", json!({"path": "a", "content": ""})).await.contains("is a directory"));
}

#[tokio::test]
async fn write_goes_through_a_link_inside_and_cuts_a_hard_link() {
    let bench = Bench::new();
    bench.put("target", "old");
    symlink("target", bench.path("link")).unwrap();
    bench.ok("write", json!({"path": "link", "content": "new"})).await;
    assert_eq!(bench.get("target"), "new");
    assert!(std::fs::symlink_metadata(bench.path("link")).unwrap().is_symlink());

    let outside = bench.folder.path().join("outside");
    std::fs::write(&outside, "outside").unwrap();
    std::fs::hard_link(&outside, bench.path("hard")).unwrap();
    bench.ok("write", json!({"path": "hard", "content": "inside"})).await;
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "outside");
}

#[tokio::test]
async fn edit_replaces_one_place_or_says_why_not() {
    let bench = Bench::new();
    bench.put("f", "let a = 1;\nlet b = 2;\nlet a = 1;\n");
    let edit = |old: &str, new: &str, all: bool| json!({"path": "f", "old_text": old, "new_text": new, "replace_all": all});
    let error = bench.fails("edit", edit("let a = 1;", "x", false)).await;
    assert!(error.contains("2 times") && error.contains("lines 1, 3"), "{error}");
    let error = bench.fails("edit", edit("let b = 3;", "x", false)).await;
    assert!(error.contains("nearest is line 2: `let b = 2;`"), "{error}");
    assert!(bench.fails("edit", edit("", "x", false)).await.contains("empty"));
    assert!(bench.fails("edit", edit("x", "x", false)).await.contains("same"));
    assert_eq!(bench.get("f"), "let a = 1;\nlet b = 2;\nlet a = 1;\n");
    assert_eq!(bench.ok("edit", edit("let b = 2;\n", "", false)).await, "edited `f` at line 2");
    assert_eq!(bench.ok("edit", edit("let a", "let c", true)).await, "edited `f` at lines 1, 2");
    assert_eq!(bench.get("f"), "let c = 1;\nlet c = 1;\n");
    bench.put("latin", b"caf\xe9");
    let error = bench.fails("edit", json!({"path": "latin", "old_text": "caf", "new_text": "x"})).await;
    assert!(error.contains("not UTF-8"), "{error}");
}

#[tokio::test]
async fn edit_cannot_grow_a_file_beyond_the_limit() {
    let bench = Bench::with(Limits { file_bytes: 1000, ..Limits::default() });
    bench.put("f", "x".repeat(900));
    let args = json!({"path": "f", "old_text": "x", "new_text": "y".repeat(1_000_000), "replace_all": true});
    let error = bench.fails("edit", args).await;
    assert!(error.contains("900000000 bytes"), "{error}");
}
