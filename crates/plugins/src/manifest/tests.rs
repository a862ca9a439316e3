use std::fs;
use std::os::unix::fs::symlink;

use backstop_hooks::PointId;

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

const PROCESS: &str = r#"{
	"id": "no-sudo",
	"version": "1.0.0",
	"kind": "process",
	"command": ["python3", "${plugin}/hook.py"],
	"points": [{"point": "before_tool_call", "id": "sudo", "priority": 50, "timeoutMs": 500, "matcher": ["exec"]}],
	"permissions": {"env": ["HOME"], "files": {"read": ["${workspace}"]}},
	"contracts": {"tools": ["lookup"]},
	"configSchema": {"type": "object"}
}"#;

#[test]
fn our_manifest_is_read_whole() {
    let folder = folder(&[(OURS, PROCESS)]);
    let manifest = Manifest::read(folder.path()).unwrap();
    assert_eq!(manifest.id.as_str(), "no-sudo");
    assert!(matches!(&manifest.kind, Kind::Process { command } if command.len() == 2));
    let points = manifest.points.clone().unwrap();
    assert_eq!((points[0].point, points[0].priority), (PointId::BeforeToolCall, 50));
    assert_eq!(manifest.contracts.tools, ["lookup"]);
    let words = manifest.sentences().join("\n");
    assert!(words.contains("all the rights that you have") && words.contains("`HOME`"), "{words}");
}

#[test]
fn what_is_wrong_in_ours_is_named_with_its_place() {
    let base = |change: (&str, &str)| PROCESS.replace(change.0, change.1);
    for (text, said) in [
        (base(("\"version\"", "\"verson\"")), "3:2\n  hint: did you mean `version`"),
        (base(("before_tool_call", "before_tool_cal")), "before_tool_call"),
        (base(("no-sudo", "builtin:x")), "`builtin:x` can't be the id of a plugin\n  --> "),
        (base(("\"process\"", "\"script\"")), "no `command`"),
        (base(("\"process\"", "\"proces\"")), "did you mean `process`"),
        (base(("\"HOME\"", "\"*\"")), "no pattern for several"),
        (base(("${workspace}", "../x")), "absolute path without `..`"),
        (base(("python3", "/bin/sh")), "no path inside of the plugin's folder"),
        (base(("python3", "./gone.sh")), "there is no file `./gone.sh`"),
        (base(("\"python3\", \"${plugin}/hook.py\"", "")), "1 to 64 words"),
        (
            base(("[\"python3\", \"${plugin}/hook.py\"]", "\"python3 ${plugin}/hook.py -x\"")),
            ":5:13\n  hint: write `\"command\": [\"python3\", \"${plugin}/hook.py\", \"-x\"]`",
        ),
        (
            base(("\"python3\", \"${plugin}/hook.py\"", "\"python3 hook.py\"")),
            "hint: write `\"command\": [\"python3\", \"hook.py\"]`",
        ),
        (base(("\"kind\"", "\"id\": \"a\", \"kind\"")), "id"),
        (base(("},\n\t\"conf", "}\n\t\"conf")), "no JSON"),
        (base(("500", "0")), "600000"),
        ("[]".to_owned(), "expected"),
        (String::new(), "no JSON"),
    ] {
        let folder = folder(&[(OURS, &text)]);
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains(OURS), "{text}\n{error}");
    }
}

#[test]
fn a_server_asks_for_its_host_and_its_credentials() {
    let text = r#"{"id": "web", "version": "1", "kind": "http", "url": "https://hooks.example.org:8443/x?k=1",
        "authorization": "TOKEN", "points": [{"point": "before_tool_call"}]}"#;
    let read = |text: &str| Manifest::read(folder(&[(OURS, text)]).path());
    let words = read(text).unwrap().sentences().join("\n");
    assert!(words.contains("`hooks.example.org`, port 8443") && words.contains("`TOKEN`"), "{words}");
    assert!(!words.contains("k=1"), "{words}");
    assert!(read(&text.replace("https://", "https://a:b@")).is_err());
    assert!(read(&text.replace("https://", "ftp://")).is_err());
    assert!(read(&text.replace(r#", "points": [{"point": "before_tool_call"}]"#, "")).is_err());
}

#[test]
fn a_published_plugin_is_read_and_what_nothing_here_reads_is_reported() {
    let package = r#"{"name": "@acme/web-search", "version": "0.2.2", "type": "module",
        "openclaw": {"extensions": ["./index.ts"], "compat": {"pluginApi": ">=1"}, "channel": {}}}"#;
    let manifest = r#"{"id": "acme", "configSchema": {"type": "object"}, "channels": [], "wishes": 1,
        "contracts": {"tools": ["search"], "trustedToolPolicies": ["p"]}}"#;
    let files = [("package.json", package), ("index.ts", ""), ("openclaw.plugin.json", manifest)];
    let read = Manifest::read(folder(&files).path()).unwrap();
    assert_eq!((read.id.as_str(), read.version.as_deref(), read.api), ("acme", Some("0.2.2"), Api::OpenClaw));
    assert!(matches!(&read.kind, Kind::Script { entry } if entry == "index.ts"));
    assert_eq!(read.contracts.trusted_tool_policies, ["p"]);
    assert_eq!(read.asked, None);
    for word in ["`channels`", "`wishes`", "`channel`"] {
        assert!(read.notes.iter().any(|note| note.contains(word)), "{word}: {:?}", read.notes);
    }
    assert_eq!(read.notes.len(), 3);
    let alone = Manifest::read(folder(&files[..2]).path()).unwrap();
    assert_eq!(alone.id.as_str(), "web-search", "the name of the package without its scope");
    let none = Manifest::read(folder(&[("package.json", r#"{"name": "x"}"#)]).path()).unwrap_err();
    assert!(none.to_string().contains("openclaw.extensions"), "{none}");
}

#[test]
fn an_entry_stays_in_the_folder() {
    let outside = folder(&[("x.ts", "")]);
    for entry in ["../x.ts", "/etc/hostname", "./a/../../x.ts", "link.ts", "gone.ts", ".", ""] {
        let text = format!(r#"{{"name": "x", "openclaw": {{"extensions": ["{entry}"]}}}}"#);
        let folder = folder(&[("package.json", &text)]);
        symlink(outside.path().join("x.ts"), folder.path().join("link.ts")).unwrap();
        let error = Manifest::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("openclaw.extensions"), "{entry}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    symlink(outside.path().join("x.ts"), folder.path().join(OURS)).unwrap();
    assert!(Manifest::read(folder.path()).unwrap_err().to_string().contains("it is no file"));
}

#[test]
fn ids_are_plain_and_nobody_elses() {
    for good in ["a", "no-sudo", "A.b_c", "0x", &"a".repeat(64)] {
        assert!(PluginId::new(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "a/b",
        "a\\b",
        "a:b",
        "builtin:x",
        "Builtin:x",
        "builtin",
        "Bu1ltin",
        "built-in",
        "operator",
        "backstop",
        "back-st0p",
        "a b",
        "a\u{200b}",
        "\u{430}",
        &"a".repeat(65),
    ] {
        assert!(PluginId::new(bad).is_err(), "{bad}");
    }
    let id = PluginId::new("mem0").unwrap();
    assert!(
        id.looks_like("memo") && id.looks_like("MEM-0") && !id.looks_like("mem0") && !id.looks_like("mem1")
    );
}
