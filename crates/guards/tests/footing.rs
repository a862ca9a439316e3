//! What an agent stands on, in commands and file tools, with links and patches on a real disk.

#![expect(clippy::unwrap_used, reason = "tests fail loudly")]

use std::path::Path;
use std::time::Duration;

use backstop_guards::{Access, CommandGuard, GuardSettings, PathGuard, Place, Profile, ShellKind, Verdict};

struct Disk {
    root: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self { root: tempfile::tempdir().unwrap() };
        for folder in ["home/.ssh", "home/.claude", "work"] {
            std::fs::create_dir_all(disk.at(folder)).unwrap();
        }
        std::fs::write(disk.at("home/.ssh/id_rsa"), "key").unwrap();
        disk
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        // Where the temporary folder is a link, what is on the disk lies elsewhere.
        self.root.path().canonicalize().unwrap().join(path)
    }

    fn place(&self) -> Place {
        let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
        let follow = |path: &str| {
            let there = Path::new(path).ancestors().find(|path| path.exists())?;
            let real = there.canonicalize().ok()?.join(Path::new(path).strip_prefix(there).ok()?);
            Some(real.to_str()?.trim_end_matches('/').to_owned())
        };
        let text = |path: &str| self.at(path).to_str().unwrap().to_owned();
        Place::new(text("work")).with_home(text("home")).with_files(read).with_links(follow)
    }

    fn judged(&self, command: &str) -> (Verdict, Vec<String>) {
        let settings = GuardSettings { budget: Duration::from_secs(10), ..GuardSettings::default() };
        let judgement = CommandGuard::new(settings).judge(command, ShellKind::Posix, &self.place(), 0);
        (judgement.verdict, judgement.findings.into_iter().map(|finding| finding.rule_id).collect())
    }
}

#[test]
fn a_link_to_a_secret_is_judged_like_the_secret() {
    let disk = Disk::new();
    assert_eq!(disk.judged("cat k").0, Verdict::Pass, "nothing is there");
    std::os::unix::fs::symlink(disk.at("home/.ssh/id_rsa"), disk.at("work/k")).unwrap();
    for command in ["cat k", "base64 < ./k", "cp k other", "cat ../work/k"] {
        let (verdict, rules) = disk.judged(command);
        assert_eq!(verdict, Verdict::Block, "{command} {rules:?}");
    }
    for command in ["ln -s ~/.ssh/id_rsa k2", "ln ~/.ssh/id_rsa k2"] {
        assert_eq!(disk.judged(command).0, Verdict::Block, "{command}");
    }
}

#[test]
fn a_link_to_the_footing_is_judged_like_the_footing() {
    let disk = Disk::new();
    std::os::unix::fs::symlink(disk.at("home/.claude"), disk.at("work/settings")).unwrap();
    let (verdict, rules) = disk.judged("echo x > settings/settings.json");
    assert_eq!(verdict, Verdict::Block, "{rules:?}");
    assert!(rules.contains(&"system.footing".to_owned()), "{rules:?}");
    assert_eq!(disk.judged("echo x > settings/plans/p.md").0, Verdict::Pass);
    for command in ["rm settings", "mv settings old"] {
        assert_eq!(disk.judged(command).0, Verdict::Pass, "the link itself goes: {command}");
    }
}

#[test]
fn a_patch_is_judged_by_the_files_it_names() {
    let disk = Disk::new();
    let patch = |name: &str, file: &str| {
        let text =
            format!("diff --git a/{file} b/{file}\n--- /dev/null\n+++ b/{file}\n@@ -0,0 +1 @@\n+{{}}\n");
        std::fs::write(disk.at(&format!("work/{name}")), text).unwrap();
    };
    patch("evil.patch", ".claude/settings.local.json");
    patch("good.patch", "src/main.rs");
    for command in ["git apply evil.patch", "patch -p1 -i evil.patch", "git apply good.patch evil.patch"] {
        let (verdict, rules) = disk.judged(command);
        assert_eq!(verdict, Verdict::Block, "{command} {rules:?}");
    }
    assert!(!disk.judged("git apply good.patch").1.contains(&"system.footing".to_owned()));
}

#[test]
fn file_tools_do_not_write_what_an_agent_stands_on() {
    let disk = Disk::new();
    let judge =
        |path: &str, access| PathGuard::new(Profile::Standard).judge(path, access, &disk.place()).verdict;
    for path in
        ["~/.claude/settings.json", ".claude/settings.local.json", ".github/hooks/x.json", "opencode.json"]
    {
        assert_eq!(judge(path, Access::Write), Verdict::Block, "{path}");
        assert_eq!(judge(path, Access::Edit), Verdict::Block, "{path}");
        assert_eq!(judge(path, Access::Read), Verdict::Pass, "{path}");
    }
    assert_eq!(judge(".mcp.json", Access::Write), Verdict::Ask, "other settings are asked about");
    assert_eq!(judge("~/.claude/plans/p.md", Access::Write), Verdict::Pass);
}

/// The folder of data is where `XDG_DATA_HOME` says. Whatever lies in that of the plugins decides which of them are asked.
#[test]
fn law_12_nothing_in_the_folder_of_plugins_is_written_or_read_wherever_that_folder_is() {
    let disk = Disk::new();
    let files = [
        "trust.json",
        "trust.json.lock",
        "points/mine.json",
        "code/mine/0/hook.sh",
        "looks/mine.json",
        "other",
    ];
    for folder in ["~/.local/share", "/srv/data", "~/data", "../data"] {
        for file in files {
            let path = format!("{folder}/backstop/plugins/{file}");
            for access in [Access::Write, Access::Edit, Access::Read] {
                let verdict = PathGuard::new(Profile::Standard).judge(&path, access, &disk.place()).verdict;
                assert_ne!(verdict, Verdict::Pass, "{access:?} {path}");
            }
            assert_ne!(disk.judged(&format!("cp x {path}")).0, Verdict::Pass, "{path}");
        }
    }
    for path in [
        "/srv/data/backstop/tape",
        "/srv/data/backstop/tape/1764331200000-6f3a9c01.age",
        "/srv/data/backstop/web-push",
        "/srv/data/backstop/web-push/key",
        "/srv/data/backstop-git-0123/config",
    ] {
        assert_ne!(disk.judged(&format!("rm -r {path}")).0, Verdict::Pass, "{path}");
        assert_ne!(
            PathGuard::new(Profile::Standard).judge(path, Access::Write, &disk.place()).verdict,
            Verdict::Pass
        );
    }
    for path in ["backstop/plugins.md", "crates/plugins/points/mine.json"] {
        assert_eq!(
            PathGuard::new(Profile::Standard).judge(path, Access::Write, &disk.place()).verdict,
            Verdict::Pass
        );
    }
}
