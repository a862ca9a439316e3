//! The Node surface against the machine's Node: the same generated questions, asked to both.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use backstop_script::{FileAccess, FileGrant};
use serde_json::{Value, json};

use crate::common::{LONG, Script, ask};

/// What `cases` answers under the machine's Node.
fn under_node(cases: &Path, given: &Value) -> Vec<String> {
    let program = "import(process.argv[1]).then(async (cases) => process.stdout.write(JSON.stringify(await cases.main(JSON.parse(process.argv[2])))))";
    let output = Command::new("node")
        .args(["--input-type=module", "-e", program])
        .arg(format!("file://{}", cases.display()))
        .arg(given.to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn differences(theirs: &[String], ours: &[String]) -> Vec<String> {
    assert_eq!(theirs.len(), ours.len(), "each question has an answer");
    let pairs = theirs.iter().zip(ours).filter(|(a, b)| a != b);
    pairs.map(|(a, b)| format!("node: {}\nours: {}", around(a, b), around(b, a))).collect()
}

/// The question, and the answer where it begins to differ from `other`.
fn around(text: &str, other: &str) -> String {
    let same = text.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let question = text.split(" => ").next().unwrap_or_default();
    let rest: String = text.chars().skip(same.saturating_sub(60)).take(200).collect();
    format!("{question} => ... {rest}")
}

#[tokio::test]
async fn what_has_no_permission_agrees_with_node() {
    let cases = include_str!("../node/agree.js");
    let mut script = Script::new(&[("agree.mjs", cases)]);
    script.limits.slice = LONG;
    let loaded = script.load("agree.mjs").await.unwrap();
    let mut found = Vec::new();
    for seed in [1, 7, 4711] {
        let theirs = under_node(&script.folder.path().join("agree.mjs"), &json!(seed));
        let ours = ask(&loaded, "main", &json!(seed)).await.unwrap().unwrap();
        found.extend(differences(&theirs, &serde_json::from_value::<Vec<String>>(ours).unwrap()));
    }
    judge(&found);
}

#[tokio::test]
async fn files_digests_and_streams_agree_with_node() {
    let cases = include_str!("../node/files.js");
    let mut script = Script::new(&[("files.mjs", cases)]);
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&theirs, &ours] {
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("dangling")).unwrap();
    }
    script.permissions.files = vec![FileGrant { root: ours.path().to_owned(), access: FileAccess::Write }];
    let loaded = script.load("files.mjs").await.unwrap();
    let theirs = under_node(&script.folder.path().join("files.mjs"), &json!(theirs.path()));
    let ours = ask(&loaded, "main", &json!(ours.path())).await.unwrap().unwrap();
    judge(&differences(&theirs, &serde_json::from_value::<Vec<String>>(ours).unwrap()));
}

/// Fails if there are differences.
fn judge(found: &[String]) {
    // A few of each kind are enough to go on.
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let few = found.iter().filter(|one| {
        let shown = kinds.entry(one.split(' ').nth(1).unwrap_or_default()).or_default();
        *shown += 1;
        *shown <= 5
    });
    let shown = few.map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(found.is_empty(), "{} differences\n{shown}", found.len());
}
