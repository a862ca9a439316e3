use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn hash(folder: &tempfile::TempDir) -> ContentHash {
    Package::hash(folder.path(), &Bounds::default()).unwrap()
}

fn found(files: &[(&str, &str)]) -> Vec<(FindingKind, Vec<String>)> {
    let package = Package::read(folder(files).path(), &Bounds::default()).unwrap();
    package.findings.into_iter().map(|finding| (finding.kind, finding.places)).collect()
}

#[test]
fn the_digest_is_over_names_modes_bytes_and_links_and_nothing_else() {
    let base = [("a", "1"), ("b/c", "2"), ("b/d", "")];
    let one = folder(&base);
    let other = folder(&[base[2], base[0], base[1]]);
    fs::create_dir(other.path().join("empty")).unwrap();
    assert_eq!(hash(&one), hash(&other), "the order in which files were written does not count");
    let changes: [&dyn Fn(&Path); 7] = [
        &|root| fs::write(root.join("a"), "2").unwrap(),
        &|root| fs::write(root.join("new"), "").unwrap(),
        &|root| fs::remove_file(root.join("b/d")).unwrap(),
        &|root| fs::rename(root.join("a"), root.join("A")).unwrap(),
        &|root| fs::rename(root.join("b/c"), root.join("c")).unwrap(),
        &|root| fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o755)).unwrap(),
        &|root| symlink("a", root.join("link")).unwrap(),
    ];
    let mut hashes = vec![hash(&one)];
    for change in changes {
        let changed = folder(&base);
        change(changed.path());
        hashes.push(hash(&changed));
    }
    // Bytes that move from one file's end to the next one's name.
    hashes.push(hash(&folder(&[("a", "1b"), ("c", "2"), ("b/d", "")])));
    let many = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), many);
    let copied = tempfile::tempdir().unwrap();
    symlink("../a", one.path().join("b/link")).unwrap();
    copy(one.path(), copied.path(), &Bounds::default()).unwrap();
    assert_eq!(hash(&copied), hash(&one), "a copy is the same plugin");
}

#[test]
fn a_digest_is_read_back_and_nothing_else_is() {
    let hash = hash(&folder(&[("a", "1")]));
    assert_eq!(hash.to_string().parse(), Ok(hash));
    let text = hash.to_string();
    for bad in [
        text.to_uppercase(),
        text.replace("sha256:", ""),
        format!("{text}0"),
        text.replace("sha256:", "md5:"),
        String::new(),
    ] {
        assert_eq!(bad.parse::<ContentHash>(), Err(NoHash), "{bad}");
    }
}

#[test]
fn links_out_of_the_folder_are_refused_however_they_are_written() {
    let outside = folder(&[("x", "1")]);
    let absolute = outside.path().join("x");
    for target in
        [absolute.to_str().unwrap(), "../x", "b/../../x", "gone", "link", "/etc/hostname", "b/../../plugin/a"]
    {
        let parent = folder(&[("x", "1"), ("plugin/a", "1"), ("plugin/b/c", "1")]);
        let root = parent.path().join("plugin");
        symlink(target, root.join("link")).unwrap();
        let error = Package::hash(&root, &Bounds::default()).unwrap_err();
        assert!(
            matches!(&error, PackageError::LeadsOut(path) if path == Path::new("link")),
            "{target}: {error}"
        );
        let to = tempfile::tempdir().unwrap();
        assert!(copy(&root, to.path(), &Bounds::default()).is_err());
    }
    let through = folder(&[("plugin/a", "1")]);
    symlink(outside.path(), through.path().join("plugin/folder")).unwrap();
    assert!(Package::hash(&through.path().join("plugin"), &Bounds::default()).is_err());
}

#[test]
fn each_bound_is_said() {
    let folder = folder(&[("a/b/c", "12345"), ("d", "123")]);
    let wide = Bounds { entries: 4, bytes: 8, file: 5, depth: 2 };
    Package::read(folder.path(), &wide).unwrap();
    for (bounds, said) in [
        (Bounds { entries: 3, ..wide }, "more than 3 files and folders"),
        (Bounds { bytes: 7, ..wide }, "more than 7 bytes"),
        (Bounds { file: 4, ..wide }, "more than 4 bytes in one file, at `a/b/c`"),
        (Bounds { depth: 1, ..wide }, "more than 1 folders inside of each other, at `a/b`"),
    ] {
        let error = Package::read(folder.path(), &bounds).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("\nhint: "), "{error}");
        let to = tempfile::tempdir().unwrap();
        assert_eq!(copy(folder.path(), to.path(), &bounds).unwrap_err().to_string(), error);
    }
}

#[test]
fn what_is_neither_file_nor_folder_is_refused() {
    let folder = folder(&[("a", "1")]);
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let error = Package::hash(folder.path(), &Bounds::default()).unwrap_err();
    assert!(matches!(error, PackageError::Special(_)), "{error}");
}

#[test]
fn findings_are_told_by_file_and_by_package() {
    use FindingKind as K;
    let long = format!("const a = {};", "1+".repeat(4_000));
    let data = format!("const a = \"{}\";", "QUJD".repeat(1_000));
    let elf = "\u{7f}ELF\0\0\0";
    for (name, text, kind) in [
        ("a.ts", "const a\u{200b} = 1;", K::HiddenText),
        ("a.ts", "/* \u{202e} */", K::HiddenText),
        ("a\u{202e}.ts", "", K::HiddenText),
        ("dist/a.js", &long, K::Minified),
        ("a.js", &data, K::Obfuscated),
        ("a.js", "eval(atob(x))", K::Obfuscated),
        ("build/a.node", "", K::NativeCode),
        ("helper", elf, K::NativeCode),
        ("package.json", r#"{"scripts": {"postinstall": "node x"}}"#, K::InstallScript),
        ("a.ts", "await fetch(url)", K::Network),
        ("hook", "#!/usr/bin/env python3\nimport socket\n", K::Network),
    ] {
        assert_eq!(found(&[(name, text)]), [(kind, vec![backstop_yaml::quote(name)])], "{name} {text:.40}");
    }
    let brought: Vec<_> =
        ["a.js", "lib/b.js"].map(|file| format!("node_modules/x/node_modules/@s/p/{file}")).into();
    let files: Vec<_> = brought.iter().map(|name| (name.as_str(), "fetch(1)")).collect();
    assert_eq!(found(&files), [(K::Network, vec!["node_modules/@s/p".to_owned()])]);
    for harmless in [
        ("a.ts", "const a = 1;\n"),
        ("README.md", "fetch(x)"),
        ("package.json", r#"{"scripts": {"test": "x"}}"#),
    ] {
        assert_eq!(found(&[harmless]), [], "{harmless:?}");
    }
    let many: Vec<_> = (0..20).map(|index| format!("{index}.js")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "fetch(1)")).collect();
    let package = Package::read(folder(&many).path(), &Bounds::default()).unwrap();
    assert_eq!(
        (package.findings[0].places.len(), package.findings[0].more),
        (8, 12),
        "what is not told is counted"
    );
}

#[test]
fn the_folder_itself_is_no_link() {
    let real = folder(&[("a", "1")]);
    let outer = tempfile::tempdir().unwrap();
    let link = outer.path().join("link");
    symlink(real.path(), &link).unwrap();
    for root in [&link, &real.path().join("a")] {
        let error = Package::hash(root, &Bounds::default()).unwrap_err();
        assert!(matches!(error, PackageError::NoFolder(_)), "{error}");
        assert!(matches!(copy(root, outer.path(), &Bounds::default()), Err(PackageError::NoFolder(_))));
        assert!(matches!(Seal::of(root), Err(PackageError::NoFolder(_))));
    }
}

#[test]
fn a_file_that_another_took_the_place_of_is_not_read() {
    let outer = folder(&[("plugin/a", "1"), ("elsewhere", "2")]);
    let (root, elsewhere) = (outer.path().join("plugin"), outer.path().join("elsewhere"));
    let path = root.join("a");
    let stamp = Stamp::of(&path.symlink_metadata().unwrap());
    let mut buffer = Vec::new();
    let mut read =
        || read_file(&path, stamp.as_ref(), &Bounds::default(), &mut buffer).map(|()| buffer.clone());
    assert_eq!(read().unwrap(), b"1");
    // Another file of that name, and one of the same bytes behind a folder that became a link.
    fs::rename(&elsewhere, &path).unwrap();
    assert!(matches!(read(), Err(PackageError::Changed(_))));
    fs::create_dir(outer.path().join("other")).unwrap();
    fs::write(outer.path().join("other/a"), "1").unwrap();
    fs::remove_dir_all(&root).unwrap();
    symlink(outer.path().join("other"), &root).unwrap();
    assert!(matches!(read(), Err(PackageError::Changed(_))));
    // What opens a name never opens what a link leads to.
    let link = outer.path().join("link");
    symlink(outer.path().join("other/a"), &link).unwrap();
    open_itself(&link).unwrap_err();
}
