use super::*;

fn read(text: &str) -> Permissions {
    Permissions::try_from(&serde_json::from_str::<Words>(text).unwrap()).unwrap()
}

#[test]
fn what_is_given_is_in_both_and_neither_side_alone_gives_anything() {
    let asked = read(
        r#"{"files": {"read": ["${workspace}", "/etc/app"], "write": ["${data}/a"]}, "env": ["A", "B"],
            "hosts": ["*.example.org", "other.org:81"], "programs": ["git"], "user": true}"#,
    );
    let granted = read(
        r#"{"files": {"read": ["${workspace}/src", "${data}"], "write": ["/etc"]}, "env": ["B", "C"],
            "hosts": ["api.example.org", "*.example.net", "other.org"], "programs": ["git", "sh"]}"#,
    );
    let got = asked.granted(&granted);
    let expected = read(
        r#"{"files": {"read": ["${workspace}/src", "/etc/app", "${data}/a"]}, "env": ["B"],
            "hosts": ["api.example.org"], "programs": ["git"]}"#,
    );
    assert_eq!(got.given, expected);
    assert_eq!(granted.granted(&asked).given, expected, "it does not matter who asks");
    assert_eq!(asked.granted(&Permissions::default()).given, Permissions::default());
    assert_eq!(asked.granted(&Permissions::default()).missing, asked);
    assert_eq!(Permissions::default().granted(&granted).given, Permissions::default());
    assert_eq!(asked.granted(&asked), Effective { given: asked.clone(), ..Effective::default() });
    let missing = got.missing.sentences().join("; ");
    for word in
        ["agent works in", "change and remove files in `a`", "`A`", "below `example.org`", "81", "user name"]
    {
        assert!(missing.contains(word), "{word}: {missing}");
    }
    let unasked = got.unasked.sentences().join("; ");
    assert!(unasked.contains("`sh`") && unasked.contains("`C`"), "{unasked}");
}

#[test]
fn folders_are_compared_by_their_parts_and_never_climb() {
    let one: Folder = "/srv/app".parse().unwrap();
    assert!(one.holds(&"/srv/app/x".parse().unwrap()) && one.holds(&"/srv//app/".parse().unwrap()));
    assert!(!one.holds(&"/srv/application".parse().unwrap()) && !one.holds(&"/srv".parse().unwrap()));
    assert!(!one.holds(&"${data}/srv/app".parse().unwrap()));
    for bad in [
        "",
        "a",
        "./a",
        "~/a",
        "/a/../b",
        "${data}/../x",
        "${home}",
        "${plugin}x",
        "/a${data}",
        "/a\u{202e}b",
    ] {
        assert!(bad.parse::<Folder>().is_err(), "{bad}");
    }
    let folders = Folders { plugin: "/p".into(), workspace: None, data: "/d".into() };
    assert_eq!("${data}/x".parse::<Folder>().unwrap().resolve(&folders), Some("/d/x".into()));
    assert_eq!("${workspace}".parse::<Folder>().unwrap().resolve(&folders), None);
}

#[test]
fn hosts_hold_what_lies_below_them_and_nothing_that_only_ends_alike() {
    let host = |word: &str| word.parse::<Host>().unwrap();
    for (wide, narrow, holds) in [
        ("*.a.org", "b.a.org", true),
        ("*.a.org", "*.b.a.org", true),
        ("*.a.org", "*.a.org", true),
        ("*.a.org", "a.org", false),
        ("*.a.org", "ba.org", false),
        ("b.a.org", "*.a.org", false),
        ("A.org", "a.ORG", true),
        ("a.org:443", "a.org", false),
        ("[::1]:8", "[::1]:8", true),
    ] {
        assert_eq!(host(wide).holds(&host(narrow)), holds, "{wide} {narrow}");
    }
    for bad in [
        "",
        "*",
        "*.org",
        "*.*.org",
        "a.*",
        "https://a.org",
        "a.org/x",
        "a.org:0",
        "a.org:x",
        "a..org",
        "[::1",
        "*.0.0.1",
        "127.1",
        "0x7f000001",
    ] {
        assert!(bad.parse::<Host>().is_err(), "{bad}");
    }
}

#[test]
fn nobody_writes_where_code_is_and_a_plugin_reads_its_own() {
    for (word, hint) in [("${plugin}", "${data}"), ("${plugin}/cache", "${data}")] {
        let words = Words {
            files: FileWords { write: vec![word.to_owned()], ..FileWords::default() },
            ..Words::default()
        };
        let error = Permissions::try_from(&words).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(hint), "{error}");
    }
    let disk = tempfile::tempdir().unwrap();
    let at = |path: &str| disk.path().join(path);
    for folder in ["home/plugins/code/mine/x", "home/plugins/data/mine", "home/work", "elsewhere"] {
        std::fs::create_dir_all(at(folder)).unwrap();
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(at("home/plugins"), at("elsewhere/link")).unwrap();
    let folders = |workspace: &str| Folders {
        plugin: at("home/plugins/code/mine/x"),
        workspace: Some(at(workspace)),
        data: at("home/plugins/data/mine"),
    };
    let may = |word: &str, workspace: &str| {
        let word = word.replace("DISK", &disk.path().display().to_string());
        word.parse::<Folder>().unwrap().may_be_written(&folders(workspace), &at("home/plugins"))
    };
    for (word, workspace, expected) in [
        ("${data}", "home", true),
        ("${data}/deeper", "home", true),
        ("${plugin}", "home/work", false),
        ("DISK/home/work", "home/work", true),
        ("DISK/elsewhere", "home/work", true),
        ("DISK/home/plugins-of-others", "home/work", true),
        ("DISK/home/plugins", "home/work", false),
        ("DISK/home/plugins/code", "home/work", false),
        ("DISK/home/plugins/data/other", "home/work", false),
        ("DISK/home/plugins/not/there/yet", "home/work", false),
        ("DISK/home", "home/work", false),
        ("/", "home/work", false),
        ("DISK/elsewhere/link", "home/work", false),
        ("DISK/elsewhere/link/code/new", "home/work", false),
        ("${workspace}", "home/work", true),
        ("${workspace}", "home", false),
        ("${workspace}/plugins/code", "home", false),
        ("${workspace}/work", "home", true),
    ] {
        assert_eq!(may(word, workspace), expected, "{word} in {workspace}");
    }
    let asked = read(r#"{"files": {"read": ["${plugin}/templates", "/etc"]}}"#);
    let got = asked.granted(&Permissions::default());
    assert_eq!(got.given, read(r#"{"files": {"read": ["${plugin}/templates"]}}"#));
    assert_eq!(got.missing, read(r#"{"files": {"read": ["/etc"]}}"#));
}

#[test]
fn there_is_no_word_for_everything() {
    for text in [
        r#"{"env": ["*"]}"#,
        r#"{"env": [""]}"#,
        r#"{"programs": ["*"]}"#,
        r#"{"programs": ["bin/x"]}"#,
        r#"{"programs": ["/bin/../x"]}"#,
        r#"{"programs": ["-x"]}"#,
        r#"{"hosts": ["*"]}"#,
    ] {
        let words: Words = serde_json::from_str(text).unwrap();
        let error = Permissions::try_from(&words).unwrap_err().to_string();
        assert!(error.contains("\nhint: "), "{text}: {error}");
    }
    assert!(serde_json::from_str::<Words>(r#"{"all": true}"#).is_err());
}
