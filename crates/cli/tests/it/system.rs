//! `install --system`, below a folder: what is written for all users of a machine, and that nothing is left of it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::{BACKSTOP, Done, User};

fn staged(user: &User, args: &[&str]) -> Done {
    let root = user.path().join("root");
    let root = root.to_str().unwrap();
    user.run(&[args, &["--system", "--root", root]].concat())
}

/// Every file below the folder, with its text; the program and the record aside.
fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let below = path.strip_prefix(root).unwrap().to_path_buf();
            if path.is_dir() {
                pending.push(path);
            } else if !below.ends_with("bin/backstop") && !below.ends_with("installed.json") {
                found.insert(below, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// By the service manager itself, where it is here: of a unit that it does not understand it says so and fails.
fn are_taken_by_systemd(user: &User, units: &[(&str, String)]) {
    let verify = |change: &dyn Fn(&str) -> String| {
        let folder = user.path().join("units");
        std::fs::create_dir_all(&folder).unwrap();
        let names = units.iter().map(|(name, text)| {
            std::fs::write(folder.join(name), change(text)).unwrap();
            folder.join(name)
        });
        std::process::Command::new("systemd-analyze").arg("verify").args(names).output()
    };
    let Ok(verified) = verify(&str::to_owned) else {
        assert!(!Path::new("/usr/bin/systemd-analyze").exists(), "it can't be started");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    let about_us: Vec<&str> = said.lines().filter(|line| line.contains("backstop.")).collect();
    assert!(verified.status.success() && about_us.is_empty(), "{said}");
    let wrong = verify(&|text| text.replace("ProtectSystem=", "ProtectTheSystem=")).unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("ProtectTheSystem"), "it looks at nothing");
}

/// Where the program is once it is installed for good.
const INSTALLED: &str = "/opt/backstop/bin/backstop";

#[test]
fn the_units_are_such_as_systemd_takes() {
    let user = User::new();
    staged(&user, &["install", "--os", "linux"]).succeeded();
    let units = user.path().join("root/etc/systemd/system");
    let program = user.path().join("root/opt/backstop/bin/backstop");
    let units = ["backstop.socket", "backstop.service"].map(|name| {
        let text = std::fs::read_to_string(units.join(name)).unwrap();
        (name, text.replace(INSTALLED, program.to_str().unwrap()))
    });
    are_taken_by_systemd(&user, &units);
}

fn deployed(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn the_unit_to_deploy_is_such_as_systemd_takes() {
    let unit = deployed("backstop.service");
    assert!(unit.contains(INSTALLED), "{unit}");
    are_taken_by_systemd(&User::new(), &[("backstop.service", unit.replace(INSTALLED, BACKSTOP))]);
}

/// What the unit and the image start is understood: whatever stands before `--help` is read before it.
#[test]
fn the_unit_and_the_image_to_deploy_start_the_program_with_arguments_that_it_has() {
    let (unit, image) = (deployed("backstop.service"), deployed("Containerfile"));
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let of_unit: Vec<String> = started.split(' ').map(str::to_owned).collect();
    let list = |name: &str| {
        let line = image.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        serde_json::from_str::<Vec<String>>(line).unwrap()
    };
    let of_image = [list("ENTRYPOINT "), list("CMD ")].concat();
    assert_eq!(of_unit, of_image);
    let [program, args @ ..] = of_unit.as_slice() else { panic!("{of_unit:?}") };
    assert_eq!(program, INSTALLED);
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    args.push("--help");
    User::new().run(&args).succeeded();
    let at = args.iter().position(|arg| *arg == "--log-format").unwrap();
    args[at] = "--log-shape";
    assert_ne!(User::new().run(&args).code, Some(0), "it reads what stands before");
}

#[test]
fn everything_of_every_client_is_written_below_a_folder_and_goes_without_a_trace() {
    for os in ["linux", "macos"] {
        let user = User::new();
        let root = user.path().join("root");
        let settings = match os {
            "linux" => "etc/claude-code/managed-settings.json",
            _ => "Library/Application Support/ClaudeCode/managed-settings.json",
        };
        let theirs = [
            (settings, "{\n  // ours since 2024\n  \"env\": {\"A\": \"b\"},\n}\n"),
            (
                "etc/codex/requirements.toml",
                "allowed_sandbox_modes = [\"read-only\"]\n\n[features]\nweb = true\n",
            ),
        ];
        for (path, text) in theirs {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        let before = files(&root);
        staged(&user, &["install", "--os", os]).succeeded();
        let written = files(&root);
        let program = root.join("opt/backstop/bin/backstop");
        assert_eq!(std::fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read(&program).unwrap(), std::fs::read(BACKSTOP).unwrap());
        assert!(written[Path::new(settings)].contains("// ours since 2024"));
        assert!(
            written[Path::new("etc/codex/requirements.toml")].contains("allow_managed_hooks_only = true")
        );
        for client in ["claude", "codex", "gemini", "qwen", "copilot", "opencode", "cursor", "windsurf"] {
            let says = |text: &String| {
                text.contains(&format!("hook {client}")) || text.contains(&format!("\"{client}\""))
            };
            assert!(written.values().any(says), "{os}: {client} starts nothing");
        }
        for (path, text) in &written {
            assert!(!text.contains(root.to_str().unwrap()), "{} names the staging folder", path.display());
        }
        staged(&user, &["install", "--os", os]).succeeded();
        assert_eq!(files(&root), written, "twice is once");
        staged(&user, &["uninstall", "--os", os]).succeeded();
        assert_eq!(files(&root), before, "to the byte");
        assert!(!root.join("opt").exists(), "nor a folder");
    }
}

#[test]
fn what_was_written_since_stays_when_ours_goes() {
    let user = User::new();
    let settings = user.path().join("root/etc/claude-code/managed-settings.json");
    staged(&user, &["install", "claude"]).succeeded();
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replacen('{', "{\n  \"since\": 1,", 1)).unwrap();
    staged(&user, &["install", "claude"]).succeeded();
    staged(&user, &["uninstall"]).succeeded();
    let left: Value = serde_json::from_str(&std::fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(left, serde_json::json!({ "since": 1 }));
}

#[test]
fn a_file_that_says_the_opposite_stops_the_installation_before_anything_is_written() {
    let user = User::new();
    let settings = user.path().join("root/etc/claude-code/managed-settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, "{\n  \"allowManagedHooksOnly\": false\n}\n").unwrap();
    let before = files(&user.path().join("root"));
    let done = staged(&user, &["install"]);
    assert_eq!(done.code, Some(1), "{}", done.whole());
    assert!(done.err.contains("`allowManagedHooksOnly` at line 2"), "{}", done.whole());
    assert_eq!(files(&user.path().join("root")), before);
}

#[test]
fn what_would_be_done_is_shown_to_anybody_and_not_done() {
    let user = User::new();
    let done = staged(&user, &["install", "--dry-run"]).succeeded();
    for said in ["managed-settings.json", "requirements.toml", "slips:", "holds against:", "backstop.socket"]
    {
        assert!(done.out.contains(said), "{said}: {}", done.whole());
    }
    assert!(!user.path().join("root").exists());
    let json = staged(&user, &["install", "codex", "--dry-run", "--json"]).succeeded().json();
    assert_eq!(json["written"], false);
    assert!(json["clients"][0]["holds"].as_array().is_some_and(|holds| !holds.is_empty()));
}

#[test]
fn clients_without_a_place_and_users_without_the_right_are_told_so() {
    let user = User::new();
    let done = staged(&user, &["install", "cline"]);
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains("no place for the whole machine"), "{}", done.whole());
    for args in [&["install", "--root", "x"][..], &["install", "--system", "--user"], &["install"]] {
        assert_eq!(user.run(args).code, Some(2), "{args:?}");
    }
    let mut command = user.command(&["install", "--system", "claude"]);
    if rustix::process::geteuid().is_root() {
        use std::os::unix::process::CommandExt as _;
        command.uid(65534).gid(65534).current_dir("/");
    }
    let done = super::support::done(command.spawn().unwrap());
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains("only root may write"), "{}", done.whole());
}

#[test]
fn a_machine_without_an_installation_fails_with_what_mends_it() {
    let user = User::new();
    let done = user.run(&["doctor", "--system", "claude", "--json"]);
    assert_eq!(done.code, Some(1), "{}", done.whole());
    let checks = done.json();
    let failed: Vec<_> =
        checks.as_array().unwrap().iter().filter(|check| check["grade"] == "failed").collect();
    assert!(
        failed.iter().all(|check| check["hint"].as_str().is_some_and(|hint| !hint.is_empty())),
        "{checks:#}"
    );
    for about in ["/opt/backstop/bin/backstop", "/etc/claude-code/managed-settings.json"] {
        assert!(
            failed.iter().any(|check| check["text"].as_str().unwrap().contains(about)),
            "{about}: {checks:#}"
        );
    }
    assert!(
        failed.iter().any(|check| check["text"].as_str().unwrap().contains("did not fire")),
        "{checks:#}"
    );
}
