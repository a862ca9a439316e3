//! Files outside of what was granted.

use std::os::unix::fs::symlink;

use backstop_script::{FileAccess, FileGrant, Permissions};
use serde_json::json;

use super::{codes, folder, tried};

#[tokio::test]
async fn without_a_grant_no_function_reaches_a_file() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("marker");
    std::fs::write(&file, "marker").unwrap();
    let body = "
        const p = given.file, acts = [
            () => fs.readFileSync(p), () => fs.promises.readFile(p), () => fs.writeFileSync(p, 'x'), () => fs.appendFileSync(p, 'x'), () => fs.statSync(p), () => fs.lstatSync(p),
            () => fs.readdirSync(given.folder), () => fs.mkdirSync(p + 'd', { recursive: true }), () => fs.unlinkSync(p), () => fs.rmSync(p, { recursive: true, force: true }),
            () => fs.renameSync(p, p + '2'), () => fs.copyFileSync(p, p + '2'), () => fs.openSync(p), () => fs.readlinkSync(p), () => fs.realpathSync(p), () => fs.accessSync(p),
            () => fs.mkdtempSync(p), () => fs.chmodSync(p, 0o777), () => fs.truncateSync(p), () => new Promise((ok, no) => fs.readFile(p, (error, data) => error ? no(error) : ok(data))),
            () => fs.readFileSync('relative'), () => fs.readFileSync('/proc/self/environ'), () => fs.readFileSync('/dev/stdin'),
        ];
        const all = []; for (const act of acts) all.push(await refused(act));
        return [fs.existsSync(p), ...all];";
    let given = json!({"file": file, "folder": home.path()});
    let (answer, denied) = tried(Permissions::default(), body, &given).await;
    let all = answer.as_array().unwrap();
    assert_eq!(all[0], json!(false));
    for one in &all[1..] {
        assert_eq!(one["code"], json!("EACCES"), "{one}");
        let (message, grant) = (one["message"].as_str().unwrap(), one["permission"].as_str().unwrap());
        assert!(
            grant.starts_with("files: ") && message.ends_with(&format!("missing grant: {grant}")),
            "{one}"
        );
    }
    assert_eq!(denied.len(), all.len(), "each denial is told");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "marker");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_granted_folder_is_left_by_no_spelling_of_a_path() {
    let home = tempfile::tempdir().unwrap();
    let (inside, beside) = (home.path().join("in"), home.path().join("in-not"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(inside.join("mine"), "mine").unwrap();
    std::fs::write(beside.join("theirs"), "theirs").unwrap();
    symlink(&beside, inside.join("folder")).unwrap();
    symlink(beside.join("theirs"), inside.join("file")).unwrap();
    symlink("../in-not/theirs", inside.join("relative")).unwrap();
    symlink("/proc/self/root", inside.join("root")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    let body = "
        const inside = given.inside, theirs = given.theirs, acts = [
            `${inside}/../in-not/theirs`, `${inside}-not/theirs`, `${inside}/folder/theirs`, `${inside}/file`, `${inside}/relative`, `${inside}/root/etc/hostname`, `${inside}/loop`,
            `${inside}/./folder/../../in-not/theirs`, `${inside}//..//in-not/theirs`, `/proc/self/root${theirs}`, `/proc/self/cwd/../..${theirs}`, `file://${theirs}`,
            new URL(`file://${theirs}`), new URL(`file://${inside}/%2e%2e/in-not/theirs`), Buffer.from(theirs), new Uint8Array(Buffer.from(`${inside}/folder/theirs`)),
            `${inside}/mine\\0/../../in-not/theirs`, `${theirs}\\0`, { toString: () => theirs, href: `file://${theirs}`, protocol: 'file:', hostname: '', pathname: theirs }, '../in-not/theirs', '',
        ].map((path) => () => fs.readFileSync(path, 'utf8'));
        acts.push(() => fs.writeFileSync(`${inside}/file`, 'x'), () => fs.writeFileSync(`${inside}/folder/new`, 'x'), () => fs.renameSync(`${inside}/mine`, `${inside}/folder/mine`),
            () => fs.copyFileSync(`${inside}/file`, `${inside}/copy`), () => fs.readdirSync(`${inside}/folder`), () => fs.mkdirSync(`${inside}/folder/made`), () => fs.realpathSync(`${inside}/file`),
            () => fs.openSync(`${inside}/relative`, 'r+'), () => fs.statSync(`${inside}/file`), () => fs.mkdtempSync(`${inside}/folder/x`), () => fs.symlinkSync(theirs, `${inside}/made`),
            () => fs.linkSync(theirs, `${inside}/made`), () => fs.rmSync(`${inside}/folder/theirs`), () => fs.rmSync(inside, { recursive: true }), () => fs.chmodSync(`${inside}/file`, 0o777));
        const all = []; for (const act of acts) all.push(await refused(act));
        return [fs.readFileSync(`${inside}/mine`, 'utf8'), fs.lstatSync(`${inside}/file`).isSymbolicLink(), ...all];";
    let given = json!({"inside": inside, "theirs": beside.join("theirs")});
    let (answer, _) = tried(folder(&inside, FileAccess::Write), body, &given).await;
    let all = answer.as_array().unwrap();
    assert_eq!(all[..2], [json!("mine"), json!(true)]);
    for code in codes(&json!(all[2..])) {
        assert!(
            [
                "EACCES",
                "ENOENT",
                "ELOOP",
                "ERR_INVALID_ARG_VALUE",
                "ERR_INVALID_ARG_TYPE",
                "EBUSY",
                "ERR_METHOD_NOT_IMPLEMENTED"
            ]
            .contains(&code.as_str()),
            "{code} in {answer}"
        );
    }
    assert!(!answer.to_string().contains("\"theirs\""), "{answer}");
    assert_eq!(std::fs::read_to_string(beside.join("theirs")).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&beside).unwrap().count(), 1);
    assert!(inside.join("mine").exists());
}

#[tokio::test]
async fn what_is_granted_for_reading_is_not_written() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a"), "a").unwrap();
    let body = "
        const p = given + '/a', acts = [() => fs.writeFileSync(p, 'x'), () => fs.openSync(p, 'r+'), () => fs.openSync(p, 'a'), () => fs.readFileSync(p, { flag: 'w+' }), () => fs.unlinkSync(p),
            () => fs.renameSync(p, p + 'b'), () => fs.copyFileSync(p, p + 'b'), () => fs.mkdirSync(p + 'd'), () => fs.truncateSync(p), () => fs.accessSync(p, fs.constants.W_OK)];
        const all = []; for (const act of acts) all.push(await refused(act));
        return [fs.readFileSync(p, 'utf8'), ...all];";
    let (answer, denied) = tried(folder(home.path(), FileAccess::Read), body, &json!(home.path())).await;
    assert_eq!(answer[0], json!("a"));
    assert_eq!(codes(&json!(answer.as_array().unwrap()[1..])), vec!["EACCES"; 10], "{answer}");
    assert!(denied.iter().all(|grant| grant.starts_with("files: write ")), "{denied:?}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_link_in_the_place_of_an_inner_granted_folder_leads_nowhere() {
    // The inner folder is not there when the script is loaded; who may write the outer one could make it a link.
    let home = tempfile::tempdir().unwrap();
    let (outer, other) = (home.path().join("outer"), home.path().join("other"));
    std::fs::create_dir(&outer).unwrap();
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("theirs"), "theirs").unwrap();
    let grant = |root: std::path::PathBuf| FileGrant { root, access: FileAccess::Write };
    let permissions = Permissions {
        files: vec![grant(outer.clone()), grant(outer.join("inner"))],
        ..Permissions::default()
    };
    symlink(&other, outer.join("inner")).unwrap();
    let body = "return [await refused(() => fs.readFileSync(given + '/inner/theirs', 'utf8'))]";
    let (answer, _) = tried(permissions, body, &json!(outer)).await;
    assert_eq!(codes(&answer), ["EACCES"], "{answer}");
}

#[tokio::test]
async fn pipes_and_large_files_do_not_hold_or_fill_the_script() {
    let home = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(home.path().join("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::File::create(home.path().join("large")).unwrap().set_len(17 << 20).unwrap();
    let body = "return [await refused(() => fs.readFileSync(given + '/pipe')), await refused(() => fs.readFileSync(given + '/large')), await refused(() => {
        for (let i = 0; i < 100; i++) fs.openSync(given + '/large'); })]";
    let (answer, _) = tried(folder(home.path(), FileAccess::Read), body, &json!(home.path())).await;
    assert_eq!(codes(&answer), ["ENXIO", "ERR_FS_FILE_TOO_LARGE", "EMFILE"], "{answer}");
}
