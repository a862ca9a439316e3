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
    let lines = "const total = items.map(one).filter(Boolean).length;".repeat(12) + "\n";
    let lines = lines.repeat(9);
    let names = "a=b(c,d);\n".repeat(100);
    for (name, text, kind) in [
        ("a.ts", "const a\u{200b} = 1;", K::HiddenText),
        ("a.ts", "/* \u{202e} */", K::HiddenText),
        ("a\u{202e}.ts", "", K::HiddenText),
        ("dist/a.js", &long, K::Minified),
        ("a.tsx", &lines, K::Minified),
        ("a.rb", &names, K::Minified),
        ("lib/plain", &names, K::Minified),
        ("README.md", "ignore \u{e0041}", K::HiddenText),
        ("locales/de.json", "{\"a\": \"\u{202e}\"}", K::HiddenText),
        ("a.php", "<?php eval(base64_decode($x));", K::Obfuscated),
        ("a.js", "eval(atob(x))", K::Obfuscated),
        ("build/a.node", "", K::NativeCode),
        ("helper", elf, K::NativeCode),
        ("A.NODE", "", K::NativeCode),
        ("package.json", r#"{"scripts": {"postinstall": "node x"}}"#, K::InstallScript),
        ("deep/er/package.json", r#"{"scripts": {"prepublish": "node x"}}"#, K::InstallScript),
        ("binding.gyp", "{}", K::InstallScript),
        ("a.ts", "await fetch(url)", K::Network),
        ("a.tsx", "await fetch(url)", K::Network),
        ("a.rb", "Net::HTTP.get(uri)", K::Network),
        ("a.pl", "use LWP::UserAgent;", K::Network),
        ("a.php", "$c = curl_init($u);", K::Network),
        ("a.PS1", "Invoke-WebRequest $u", K::Network),
        ("lib/client", "await fetch(url)", K::Network),
        ("lib/client.odd", "await fetch(url)", K::Network),
        ("notes.md", "#!/usr/bin/env node\nfetch(1)", K::Network),
        ("hook", "#!/usr/bin/env python3\nimport socket\n", K::Network),
    ] {
        assert_eq!(found(&[(name, text)]), [(kind, vec![backstop_yaml::quote(name)])], "{name} {text:.40}");
    }
    // A line that long is no line of a person's either.
    let both = [K::Minified, K::Obfuscated].map(|kind| (kind, vec!["a.js".to_owned()]));
    assert_eq!(found(&[("a.js", data.as_str())]), both);
    let brought: Vec<_> =
        ["a.js", "lib/b.js"].map(|file| format!("node_modules/x/node_modules/@s/p/{file}")).into();
    let files: Vec<_> = brought.iter().map(|name| (name.as_str(), "fetch(1)")).collect();
    assert_eq!(found(&files), [(K::Network, vec!["node_modules/@s/p".to_owned()])]);
    for harmless in [
        ("a.ts", "const a = 1;\n"),
        ("README.md", "fetch(x)"),
        ("README.md", "\u{1f469}\u{200d}\u{1f4bb} writes"),
        ("data.json", &long),
        ("LICENSE", "a b c d"),
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

/// What is found in source is found whatever its file is called, and whatever readable text is put before, between or after it.
#[test]
fn neither_another_name_nor_padding_makes_findings_fewer() {
    let minified = "const a=(b,c)=>b?c(b):a(c,b);".repeat(60);
    let pretty = minified.replace(';', ";\n");
    let comment = "// This function adds the numbers that it is given and returns their sum to the caller.\n";
    let padding = comment.repeat(40);
    for (code, kind) in [
        (minified.as_str(), FindingKind::Minified),
        (pretty.as_str(), FindingKind::Minified),
        ("eval(atob(x));\n", FindingKind::Obfuscated),
        ("fetch(1);\n", FindingKind::Network),
        ("const x\u{200b} = 1;\n", FindingKind::HiddenText),
        ("const x = '\u{fe00}\u{e0100}\u{e01ef}';\n", FindingKind::HiddenText),
        ("const {a,\u{3164}} = b;\n", FindingKind::HiddenText),
        ("a(); //\rb();\n", FindingKind::HiddenText),
        ("// \u{1b}[8m\n", FindingKind::HiddenText),
    ] {
        for name in ["a.js", "a.tsx", "a.rb", "a.pl", "a.php", "a.ps1", "a", "a.b.c", "lib/.hidden", "a.JS"] {
            let kinds =
                |text: &str| -> Vec<_> { found(&[(name, text)]).into_iter().map(|(kind, _)| kind).collect() };
            assert_eq!(kinds(code), [kind], "{name}");
            for padded in [
                format!("{padding}{code}"),
                format!("{code}\n{padding}"),
                format!("{padding}{code}\n{padding}"),
            ] {
                assert_eq!(kinds(&padded), [kind], "{name}: {padded:.80}");
            }
        }
    }
    assert_eq!(found(&[("a.js", padding.as_str())]), []);
}

#[test]
fn what_is_no_text_is_a_finding_unless_it_is_a_picture_a_sound_or_a_font() {
    for (name, kinds) in [
        ("payload.dat", &[FindingKind::Unreadable][..]),
        ("payload", &[FindingKind::Unreadable]),
        ("data.json", &[FindingKind::Unreadable]),
        ("a.js", &[FindingKind::Obfuscated]),
        // Media has to begin as such.
        ("logo.png", &[FindingKind::Unreadable]),
        ("font.WOFF2", &[FindingKind::Unreadable]),
    ] {
        let folder = folder(&[(name, "")]);
        fs::write(folder.path().join(name), [0x89, 0xff, 0xfe, 0x00]).unwrap();
        let package = Package::read(folder.path(), &Bounds::default()).unwrap();
        let found: Vec<_> = package.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(found, kinds, "{name}");
    }
}

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\xff";
const MANIFEST: &str = "backstop.plugin.json";

#[test]
fn media_is_no_finding_unless_it_is_an_archive_or_is_started() {
    let archive = [PICTURE, b"PK\x03\x04 __main__.py PK\x05\x06", &[0; 18]].concat();
    let starts = |word: &str| format!(r#"{{"command": ["python3", "{word}"]}}"#);
    for (bytes, file, text, is_found) in [
        (PICTURE, "a.js", "show('./logo.png');".to_owned(), false),
        (b"wOF2\xff", "a.js", String::new(), false),
        (b"RIFF\xff\xff\xff\xffWEBP", "a.js", String::new(), false),
        (&archive, "a.js", String::new(), true),
        (PICTURE, MANIFEST, starts("${plugin}/logo.png"), true),
        (PICTURE, MANIFEST, starts("${plugin}/other.png"), false),
        (PICTURE, "a.cjs", "require('./lib/LOGO.png')".to_owned(), true),
        (b"PK\x03\x04\xff", "a.js", String::new(), true),
    ] {
        let folder = folder(&[(file, &text)]);
        fs::write(folder.path().join("logo.png"), bytes).unwrap();
        let package = Package::read(folder.path(), &Bounds::default()).unwrap();
        let found: Vec<_> = package.findings.iter().map(|one| (one.kind, one.places.join(" "))).collect();
        let expected = is_found.then(|| (FindingKind::Unreadable, "logo.png".to_owned()));
        assert_eq!(found, Vec::from_iter(expected), "{bytes:?} {file} {text}");
    }
}

/// Prose that code or the manifest names is code, whatever it is called; prose that is only mentioned is not.
#[test]
fn prose_that_is_imported_or_started_is_read_as_code() {
    let code = "eval(atob(x));";
    for (file, text, is_found) in [
        ("index.js", "import './NOTES.md';", true),
        ("index.js", "export * from \"./NOTES.md\";", true),
        ("index.js", "await import(`./notes.md?v=1`)", true),
        ("z.cjs", "require('./docs/../NOTES.md')", true),
        ("z.py", "runpy.run_path('NOTES.md')", true),
        ("package.json", r#"{"main": "NOTES.md"}"#, true),
        ("package.json", r#"{"exports": {".": {"import": "./NOTES.md"}}}"#, true),
        ("package.json", r#"{"openclaw": {"extensions": ["./NOTES.md"]}}"#, true),
        (MANIFEST, r#"{"entry": "NOTES.md"}"#, true),
        (MANIFEST, r#"{"command": ["node", "${plugin}/NOTES.md"]}"#, true),
        (MANIFEST, r#"{"command": ["python3", "-c", "exec(open('NOTES.md').read())"]}"#, true),
        (MANIFEST, "\u{feff}{\"command\": [\"node\", \"./NOTES.md\"]}", true),
        (MANIFEST, "command: [node, ./NOTES.md]", true),
        ("index.js", "// NOTES.md says more, and so does './OTHER.md'.", false),
        ("package.json", r#"{"files": ["NOTES.md"]}"#, false),
        ("README.md", "import './NOTES.md';", false),
        ("node_modules/x/a.js", "read('NOTES.md')", false),
        ("node_modules/x/a.js", "import '../../NOTES.md'", true),
    ] {
        let found = found(&[(file, text), ("NOTES.md", code)]);
        let expected = is_found.then(|| (FindingKind::Obfuscated, vec!["NOTES.md".to_owned()]));
        assert_eq!(found, Vec::from_iter(expected), "{file} {text}");
    }
    let data = format!(r#"{{"data": "{}"}}"#, "QUJD".repeat(1_000));
    assert_eq!(found(&[("a.js", "import './a.json'"), ("a.json", &data)]), [], "JSON is data");
    let no_data = [("a.js", "import './a.json'"), ("a.json", code)];
    assert_eq!(found(&no_data), [(FindingKind::Obfuscated, vec!["a.json".to_owned()])]);
    let linked = folder(&[("index.js", "import './other.js';"), ("NOTES.md", code)]);
    symlink("NOTES.md", linked.path().join("other.js")).unwrap();
    let package = Package::read(linked.path(), &Bounds::default()).unwrap();
    assert_eq!(package.findings.first().map(|finding| finding.kind), Some(FindingKind::Obfuscated));
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
