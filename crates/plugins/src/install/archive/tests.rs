use std::io::Write as _;

use tar::{Builder, Header};

use super::*;

/// What an archive says of an entry, whatever a packer would think of it.
struct Said<'a> {
    name: &'a str,
    kind: EntryType,
    link: &'a str,
    bytes: &'a [u8],
}

fn file<'a>(name: &'a str, bytes: &'a [u8]) -> Said<'a> {
    Said { name, kind: EntryType::Regular, link: "", bytes }
}

fn link<'a>(name: &'a str, link: &'a str) -> Said<'a> {
    Said { name, kind: EntryType::Symlink, link, bytes: b"" }
}

fn packed(entries: &[Said<'_>]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        let old = header.as_old_mut();
        old.name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
        old.linkname[..entry.link.len()].copy_from_slice(entry.link.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_mode(0o644);
        header.set_size(entry.bytes.len() as u64);
        header.set_cksum();
        archive.append(&header, entry.bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

fn squeezed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Unpacks it in a folder of its own, beside which nothing may come to be.
fn unpacked(bytes: &[u8], bounds: &Bounds) -> Result<Vec<String>, String> {
    let outer = tempfile::tempdir().unwrap();
    let (path, to) = (outer.path().join("a.tgz"), outer.path().join("to"));
    fs::write(&path, bytes).unwrap();
    fs::create_dir(&to).unwrap();
    let done = unpack(&path, &to, bounds);
    let mut beside: Vec<_> =
        fs::read_dir(outer.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["a.tgz", "to"], "something was written beside the folder");
    done.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    let mut folders = vec![to.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                _ => found.push(entry.path().strip_prefix(&to).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    Ok(found)
}

#[test]
fn files_folders_and_links_come_out_whether_squeezed_or_not() {
    let folder = Said { name: "dir/", kind: EntryType::Directory, link: "", bytes: b"" };
    let entries = [folder, file("./dir/a", b"1"), link("dir/b", "a"), file("c", b"")];
    let plain = packed(&entries);
    for bytes in [plain.clone(), squeezed(&plain)] {
        assert_eq!(unpacked(&bytes, &Bounds::default()).unwrap(), ["c", "dir/a", "dir/b"]);
    }
}

#[test]
fn what_would_land_elsewhere_or_is_no_file_is_refused_whole() {
    let odd = |name, kind| Said { name, kind, link: "a", bytes: b"" };
    for (entries, said) in [
        (vec![file("../x", b"")], "`..`"),
        (vec![file("a/../../x", b"")], "`..`"),
        (vec![file("/x", b"")], "absolute"),
        (vec![file("a\\..\\x", b"")], "backslash"),
        (vec![link("out", ".."), file("out/x", b"")], "there twice"),
        (vec![link("out", ".."), link("out/x", "/etc")], "behind a link"),
        (vec![file("a", b"1"), file("a", b"2")], "there twice"),
        (vec![file("a", b"1"), link("a", "b")], "there twice"),
        (vec![file("a", b""), odd("b", EntryType::Link)], "hard link"),
        (vec![odd("b", EntryType::Char)], "device"),
        (vec![odd("b", EntryType::Block)], "device"),
        (vec![odd("b", EntryType::Fifo)], "device"),
        (vec![odd("b", EntryType::GNUSparse)], "no file"),
        (vec![odd("b", EntryType::new(b'V'))], "no file"),
        (
            vec![
                Said { name: "x", kind: EntryType::XHeader, link: "", bytes: b"13 path=/etc\n" },
                file("a", b""),
            ],
            "absolute",
        ),
        (
            vec![
                Said { name: "x", kind: EntryType::XHeader, link: "", bytes: b"10 size=9\n" },
                file("a", b""),
            ],
            "said twice",
        ),
        (
            vec![
                Said { name: "x", kind: EntryType::XGlobalHeader, link: "", bytes: b"10 path=a\n" },
                file("b", b""),
            ],
            "at once",
        ),
        (
            vec![
                Said { name: "x", kind: EntryType::GNULongName, link: "", bytes: b"../../x\0" },
                file("a", b""),
            ],
            "`..`",
        ),
    ] {
        let error = unpacked(&packed(&entries), &Bounds::default()).unwrap_err();
        assert!(error.contains(said) && error.contains("\nhint: "), "{said}: {error}");
    }
}

#[test]
fn a_link_that_leads_out_is_refused_when_the_folder_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    untar(packed(&[link("a", "../../x")]).as_slice(), folder.path(), &Bounds::default()).unwrap();
    let error = crate::package::Package::hash(folder.path(), &Bounds::default()).unwrap_err();
    assert!(matches!(error, PackageError::LeadsOut(_)), "{error}");
}

#[test]
fn each_bound_is_said_also_of_what_is_passed_over() {
    let wide = Bounds { entries: 5, bytes: 8, file: 5, depth: 2 };
    let entries = [file("a/b/c", b"12345"), file("d", b"123"), file("e", b"")];
    unpacked(&packed(&entries), &wide).unwrap();
    for (bounds, said) in [
        (Bounds { entries: 4, ..wide }, "more than 4 files"),
        (Bounds { bytes: 7, ..wide }, "more than 7 bytes"),
        (Bounds { file: 4, ..wide }, "more than 4 bytes in one file"),
        (Bounds { depth: 1, ..wide }, "more than 1 folders"),
    ] {
        let error = unpacked(&packed(&entries), &bounds).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let long = vec![b'a'; 100_000];
    let about = [Said { name: "x", kind: EntryType::GNULongName, link: "", bytes: &long }, file("a", b"")];
    assert!(unpacked(&packed(&about), &Bounds::default()).unwrap_err().contains("longer name"));
    // Thousands of heads without an entry, which no bound of entries counts.
    let head = [Said { name: "x", kind: EntryType::XHeader, link: "", bytes: b"8 a=bcd\n" }];
    let heads = packed(&head)[..1024].repeat(100);
    let error = unpacked(&heads, &Bounds { entries: 1, bytes: 10, ..wide }).unwrap_err();
    assert!(error.contains("unpacks to more than"), "{error}");
}

#[test]
fn what_grows_without_measure_is_not_unpacked() {
    let zeros = vec![0; 40 << 20];
    let bomb = squeezed(&packed(&[file("a", &zeros)]));
    assert!(bomb.len() < 100_000);
    let error = unpacked(&bomb, &Bounds::default()).unwrap_err();
    assert!(error.contains("times its size"), "{error}");
}

#[test]
fn what_is_no_archive_or_cut_short_says_so() {
    let whole = packed(&[file("a", &[1; 2000])]);
    let cut = whole[..1500].to_vec();
    let squeezed = squeezed(&whole);
    let half = squeezed[..squeezed.len() / 2].to_vec();
    for bytes in [b"hello, world".repeat(100), cut, half, b"PK\x03\x04".repeat(200)] {
        let error = unpacked(&bytes, &Bounds::default()).unwrap_err();
        assert!(error.contains("\nhint: "), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_archive_and_is_not_waited_for() {
    let outer = tempfile::tempdir().unwrap();
    let path = outer.path().join("a.tgz");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let error = unpack(&path, outer.path(), &Bounds::default()).unwrap_err().to_string();
    assert!(error.contains("neither a file"), "{error}");
}

#[test]
fn folders_that_an_archive_does_not_name_count_as_those_that_it_does() {
    let deep: Vec<String> = (0..10).map(|n| format!("{n}/a/b/c/d")).collect();
    let few = Bounds { entries: 40, ..Bounds::default() };
    let folders = |name| Said { name, kind: EntryType::Directory, link: "", bytes: b"" };
    for entries in [
        deep.iter().map(|name| file(name, b"1")).collect::<Vec<_>>(),
        deep.iter().map(|name| link(name, "x")).collect(),
        deep.iter().map(|name| folders(name)).collect(),
    ] {
        let error = unpacked(&packed(&entries), &few).unwrap_err();
        assert!(error.contains("more than 40 files and folders"), "{error}");
        // As many as there are, and not one more for what is named again.
        let named = [folders("0"), folders("0/a")];
        let all = Bounds { entries: 50, ..Bounds::default() };
        let whole: Vec<Said<'_>> = named.into_iter().chain(entries).collect();
        unpacked(&packed(&whole), &all).unwrap();
        let less = Bounds { entries: 49, ..Bounds::default() };
        unpacked(&packed(&whole), &less).unwrap_err();
    }
}

#[test]
fn links_are_held_in_bounded_memory() {
    let target = "x".repeat(60 << 10);
    let said = format!("{} linkpath={target}\n", target.len() + 16);
    let head = || Said { name: "x", kind: EntryType::XHeader, link: "", bytes: said.as_bytes() };
    let names: Vec<String> = (0..300).map(|n| format!("l{n}")).collect();
    let entries: Vec<Said<'_>> = names.iter().flat_map(|name| [head(), link(name, "x")]).collect();
    let error = unpacked(&packed(&entries), &Bounds::default()).unwrap_err();
    assert!(error.contains("its links say more"), "{error}");
}
