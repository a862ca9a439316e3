//! Programs, variables and the process.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use backstop_script::Permissions;
use serde_json::json;

use super::{codes, tried};

#[tokio::test]
async fn without_a_grant_there_is_no_program_no_variable_and_no_process() {
    let body = "
        const child = await import('node:child_process'), os = await import('node:os'), util = await import('node:util');
        const run = util.promisify(child.execFile), shell = util.promisify(child.exec);
        const started = (...args) => new Promise((ok, no) => child.spawn(...args).on('error', no).on('close', ok));
        const acts = [() => run('echo', ['x']), () => run('/bin/echo', ['x']), () => shell('echo x'), () => started('sh', ['-c', 'x']), () => started('echo', [], { shell: true }),
            () => run('/bin/../bin/echo'), () => run('/proc/self/exe'), () => run('echo\\0'), () => child.execSync('echo'), () => child.spawnSync('echo'), () => child.fork('x'),
            () => process.kill(process.pid, 0), () => process.dlopen({}, 'x'), () => process.binding('fs'), () => process.chdir('/'), () => process.abort()];
        const all = []; for (const act of acts) all.push(await refused(act));
        return { all, env: { ...process.env }, path: process.env.PATH, home: os.homedir(), user: os.userInfo().username, argv: process.argv, pid: process.pid, exec: process.execPath };";
    let (answer, denied) = tried(Permissions::default(), body, &json!(null)).await;
    let found = codes(&answer["all"]);
    let expected =
        ["EACCES"; 8].into_iter().chain(["ERR_METHOD_NOT_IMPLEMENTED"; 3]).chain(["ERR_ACCESS_DENIED"; 5]);
    assert_eq!(found, expected.collect::<Vec<_>>(), "{answer}");
    assert!(
        denied.contains(&"programs: echo".to_owned()) && denied.contains(&"user".to_owned()),
        "{denied:?}"
    );
    assert_eq!(answer["env"], json!({}));
    assert_eq!((&answer["home"], &answer["user"]), (&json!("/nonexistent"), &json!("nobody")));
    assert_eq!(answer["pid"], json!(1));
}

/// Programs that stand in for others, in a folder of their own.
fn stand_ins(folder: &Path) -> Vec<PathBuf> {
    let make = |(name, code): (&str, &str)| {
        let program = folder.join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{code}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    };
    let all =
        [("echo", "printf '%s' \"$*\"; cat"), ("sleep", "exec sleep 9"), ("fails", "echo no >&2; exit 3")];
    all.into_iter().map(make).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_granted_program_gets_granted_variables_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let permissions = Permissions {
        programs: stand_ins(&folder),
        env: BTreeMap::from([("LANG".to_owned(), "C".to_owned())]),
        ..Permissions::default()
    };
    let body = "
        const child = await import('node:child_process'), util = await import('node:util');
        const run = util.promisify(child.execFile);
        const spawned = () => new Promise((ok, no) => { const p = child.spawn(`${given}/echo`, ['a', 'b']); let out = ''; p.stdout.on('data', (d) => out += d); p.on('close', (code) => ok([code, out])); p.on('error', no); p.stdin.end('!'); });
        const aborted = new AbortController(); setTimeout(() => aborted.abort());
        return [(await run('echo', ['hello'])).stdout, await refused(() => run('echo', [], { env: { LANG: 'C', LD_PRELOAD: '/x.so' } })), await refused(() => run('echo', [], { cwd: '/etc' })),
            await refused(() => run('/tmp/echo')), await spawned(), await refused(() => run('fails')), await refused(() => run('sleep', ['9'], { signal: aborted.signal })), await refused(() => run('sh', ['-c', 'x']))];";
    let (answer, denied) = tried(permissions, body, &json!(folder)).await;
    assert_eq!(answer[0], json!("hello"));
    assert_eq!(answer[4], json!([0, "a b!"]));
    assert_eq!(answer[1]["permission"], json!("env: LD_PRELOAD"), "{answer}");
    assert_eq!(answer[2]["permission"], json!("files: read /etc"), "{answer}");
    assert_eq!((&answer[3]["code"], &answer[7]["code"]), (&json!("EACCES"), &json!("EACCES")), "{answer}");
    assert_eq!(answer[5]["code"], json!(3), "{answer}");
    assert!(answer[6]["message"].as_str().unwrap().starts_with("Command failed"), "{answer}");
    assert_eq!(denied, ["env: LD_PRELOAD", "files: read /etc", "programs: /tmp/echo", "programs: sh"]);
}

#[tokio::test]
async fn exit_ends_the_call_and_not_the_process() {
    let (answer, _) =
        tried(Permissions::default(), "return [await refused(() => process.exit(7))]", &json!(null)).await;
    assert_eq!(codes(&answer), ["ERR_PROCESS_EXIT"]);
}
