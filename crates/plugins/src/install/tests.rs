//! Sources, and what a repository of this machine can and can't do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

const MANIFEST: &str = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js"}"#;

fn environment(name: &str) -> Option<String> {
    (name == "PATH").then(|| std::env::var(name).unwrap())
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("plugins"));
    (folder, home)
}

async fn fetched(home: &Home, source: &str) -> Result<Staged, String> {
    let source: Source = source.parse().map_err(|error: NoSource| error.to_string())?;
    home.fetch(&source, Purpose::Install, &environment).await.map_err(|error| error.to_string())
}

#[test]
fn a_source_is_told_by_how_it_is_written() {
    for (text, kind, shown) in [
        ("./plugin", "plugin-dir", "./plugin"),
        ("plugin.tgz", "plugin-archive", "plugin.tgz"),
        ("a/plugin.TAR.GZ", "plugin-archive", "a/plugin.TAR.GZ"),
        ("plugin.tar", "plugin-archive", "plugin.tar"),
        ("git:https://example.org/a.git#v1", "plugin-git", "git:https://example.org/a.git#v1"),
        ("git+ssh://git@example.org/a.git", "plugin-git", "git:ssh://git@example.org/a.git"),
        ("npm:@s/p@1", "plugin-npm", "npm:@s/p@1"),
    ] {
        let source: Source = text.parse().unwrap();
        assert_eq!((source.kind(), source.to_string().as_str()), (kind, shown), "{text}");
    }
    for bad in [
        "",
        "https://example.org/a.tgz",
        "ftp:x",
        "npm:",
        "npm:../a",
        "git:",
        "git:ext::sh",
        "git+http://x/y",
    ] {
        let error = bad.parse::<Source>().unwrap_err().to_string();
        assert!(error.contains("\nhint: "), "{bad}: {error}");
    }
}

#[test]
fn a_place_that_is_none_is_shown_without_its_password() {
    let secret = ["hunt", "er2"].concat();
    for (before, behind) in [
        ("https://me:", "@example.org/a.tgz"),
        ("https://", "@example.org/a.tgz"),
        ("git:https://me:", "@example.org/a.git#v1"),
        ("git+https://", "@example.org/a.git"),
        ("git:ssh://git:", "@example.org/a.git"),
        ("git:http://me:", "/x@example.org/a.git"),
        ("https://example.org/a.tgz?token=", ""),
        ("git:https://me@example.org/a.git?token=", "@x"),
        ("me:", "@example.org:a.git"),
        ("ftp://a:", "@b"),
    ] {
        let text = format!("{before}{secret}{behind}");
        let error = text.parse::<Source>().unwrap_err();
        assert!(
            !error.to_string().contains(&secret) && !format!("{error:?}").contains(&secret),
            "{before}: {error}"
        );
        assert!(error.to_string().contains("is no place to get a plugin from"), "{error}");
    }
    let error = "npm:../@a:b@1".parse::<Source>().unwrap_err().to_string();
    assert!(error.contains("`npm:../@a:b@1`"), "{error}");
}

/// A repository with one commit for each list of files; the last one is its head.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        this.git(&["init", "--quiet", "-b", "main"]);
        this
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .current_dir(self.0.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, files: &[(&str, &str)]) -> String {
        for (name, text) in files {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn place(&self) -> String {
        self.0.path().display().to_string()
    }
}

#[tokio::test]
async fn a_commit_a_tag_or_a_branch_is_fetched_and_the_commit_is_told() {
    let repository = Repository::new();
    let first = repository.commit(&[("backstop.plugin.json", MANIFEST), ("a.js", "one")]);
    repository.git(&["tag", "-a", "v1", "-m", "v1"]);
    let second = repository.commit(&[("a.js", "two")]);
    let (_folder, home) = home();
    let place = repository.place();
    for (reference, commit, code) in [
        ("", &second, "two"),
        ("#main", &second, "two"),
        ("#v1", &first, "one"),
        (&format!("#{first}"), &first, "one"),
    ] {
        for source in [format!("git:{place}{reference}"), format!("git+file://{place}{reference}")] {
            let staged = fetched(&home, &source).await.unwrap();
            assert_eq!(fs::read_to_string(staged.folder().join("a.js")).unwrap(), code, "{source}");
            assert!(staged.origin.words.ends_with(&format!(" at {commit}")), "{}", staged.origin.words);
            assert!(!staged.folder().join(".git").exists());
        }
    }
    for (source, said) in [
        (format!("git:{place}#nothing"), "could not fetch"),
        (format!("git:{place}/nowhere"), "could not fetch"),
        (format!("git:{place}#{}", "0".repeat(40)), "could not fetch"),
    ] {
        let error = fetched(&home, &source).await.unwrap_err();
        assert!(error.contains(said) && error.contains("\nhint: "), "{source}: {error}");
    }
    assert!(home.installed().unwrap().is_empty());
    assert_eq!(fs::read_dir(home.folder().join("staging")).unwrap().count(), 0);
}

#[tokio::test]
async fn nothing_of_a_repository_runs_and_its_files_come_as_they_are() {
    let repository = Repository::new();
    let marks = tempfile::tempdir().unwrap();
    let mark = |name: &str| format!("touch {}", marks.path().join(name).display());
    let verbatim = "$Id$ $Format:%H$\r\nline\r\n";
    let attributes = "* text=auto eol=lf filter=evil ident\nleft.js export-ignore\nsubst.js export-subst\n";
    fs::write(repository.0.path().join(".gitattributes"), "* -text\n").unwrap();
    repository.commit(&[
        ("backstop.plugin.json", MANIFEST),
        ("a.js", "one"),
        ("left.js", "kept"),
        ("subst.js", verbatim),
        (".gitmodules", "[submodule \"x\"]\npath = x\nurl = ../x\n"),
    ]);
    fs::write(repository.0.path().join(".gitattributes"), attributes).unwrap();
    repository.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        "100644",
        &repository.git(&["hash-object", "-w", "--no-filters", ".gitattributes"]),
        ".gitattributes",
    ]);
    repository.git(&["commit", "--quiet", "-m", "attributes"]);
    for (key, value) in [
        ("filter.evil.smudge", mark("smudge")),
        ("filter.evil.process", mark("process")),
        ("core.fsmonitor", mark("fsmonitor")),
        ("core.sshCommand", mark("ssh")),
        ("core.alternateRefsCommand", mark("alternates")),
        ("core.pager", mark("pager")),
        ("uploadpack.packObjectsHook", mark("pack")),
        ("tar.tar.command", mark("tar")),
        ("remote.origin.uploadpack", mark("uploadpack")),
        ("remote.origin.url", "ext::".to_owned() + &mark("ext")),
        ("remote.origin.promisor", "true".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
    ] {
        repository.git(&["config", key, &value]);
    }
    let hooks = repository.0.path().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in
        ["post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change", "fsmonitor-watchman"]
    {
        let path = hooks.join(hook);
        fs::write(&path, format!("#!/bin/sh\n{}\n", mark(hook))).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let (_folder, home) = home();
    let staged = fetched(&home, &format!("git:{}", repository.place())).await.unwrap();
    let read = |name: &str| fs::read_to_string(staged.folder().join(name)).unwrap();
    assert_eq!((read("left.js").as_str(), read("subst.js").as_str()), ("kept", verbatim));
    assert!(
        staged.manifest.notes.iter().any(|note| note.contains("submodules")),
        "{:?}",
        staged.manifest.notes
    );
    assert_eq!(fs::read_dir(marks.path()).unwrap().count(), 0, "something ran");
}

#[tokio::test]
async fn a_repository_that_lacks_an_object_fetches_it_from_nowhere() {
    let repository = Repository::new();
    repository.commit(&[("backstop.plugin.json", MANIFEST), ("a.js", "one")]);
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("ran");
    let object = repository.git(&["rev-parse", "HEAD:a.js"]);
    let (fan, rest) = object.split_at(2);
    fs::remove_file(repository.0.path().join(".git/objects").join(fan).join(rest)).unwrap();
    for (key, value) in [
        ("remote.origin.url", format!("ext::touch {}", mark.display())),
        ("remote.origin.uploadpack", format!("touch {}", mark.display())),
        ("remote.origin.promisor", "true".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("core.repositoryFormatVersion", "1".to_owned()),
        ("protocol.ext.allow", "always".to_owned()),
    ] {
        repository.git(&["config", key, &value]);
    }
    let (_folder, home) = home();
    let error = fetched(&home, &format!("git:{}", repository.place())).await.unwrap_err();
    assert!(error.contains("could not fetch"), "{error}");
    assert!(!mark.exists(), "the repository's own command ran");
}

#[tokio::test]
async fn without_its_program_a_source_is_an_error_that_names_it() {
    let (_folder, home) = home();
    let nothing = tempfile::tempdir().unwrap();
    // The program is found by the `PATH` of this process; one that can't be started stands for one that is not there.
    for (tool, source) in [("git", "git:/nowhere"), ("npm", "npm:left-pad")] {
        let error = FetchError::NoTool { tool, error: std::io::ErrorKind::NotFound.into() };
        assert!(error.to_string().contains(&format!("install {tool}")), "{source}");
    }
    let missing = nothing.path().join("missing.tgz");
    let error = fetched(&home, missing.to_str().unwrap()).await.unwrap_err();
    assert!(error.contains("missing.tgz"), "{error}");
}

#[tokio::test]
async fn an_archive_of_one_folder_is_the_plugin_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("plugin-1.0");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("backstop.plugin.json"), MANIFEST).unwrap();
    fs::write(files.join("a.js"), "one").unwrap();
    let (_home, home) = home();
    let alone = fetched(&home, files.to_str().unwrap()).await.unwrap().package.hash;
    for name in ["plugin-1.0", "."] {
        let path: PathBuf = folder.path().join(format!("{}.tar", name.len()));
        let mut archive = tar::Builder::new(fs::File::create(&path).unwrap());
        archive.append_dir_all(name, &files).unwrap();
        archive.finish().unwrap();
        let staged = fetched(&home, path.to_str().unwrap()).await.unwrap();
        assert_eq!(staged.package.hash, alone, "it is the same plugin, however it came");
        assert_eq!(Path::new(&staged.origin.words), path);
    }
}

#[tokio::test]
async fn ssh_reads_no_configuration_and_gets_the_agent_which_npm_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (programs, told) = (folder.path().join("bin"), folder.path().join("told"));
    fs::create_dir(&programs).unwrap();
    let script = format!("#!/bin/sh\necho \"$SSH_AUTH_SOCK $*\" > '{}'\nexit 1\n", told.display());
    fs::write(programs.join("ssh"), script).unwrap();
    fs::set_permissions(programs.join("ssh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let environment = move |name: &str| match name {
        "PATH" => Some(path.clone()),
        "SSH_AUTH_SOCK" => Some("/agent".to_owned()),
        _ => None,
    };
    let (_folder, home) = home();
    let source: Source = "git:ssh://git@host.invalid/a.git".parse().unwrap();
    home.fetch(&source, Purpose::Install, &environment).await.unwrap_err();
    let told = fs::read_to_string(told).unwrap();
    assert!(told.starts_with("/agent -F none -oBatchMode=yes "), "{told}");
    assert!(!KEPT.contains(&"SSH_AUTH_SOCK"));
}
