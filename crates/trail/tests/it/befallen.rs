//! What befalls a log besides its entries: damaged files, things that are no files, and what can't be written.

use std::fs;
use std::path::Path;

use backstop_trail::{Body, Draft, Entry, MAX_ENTRY_BYTES, TrailError, Writer};
use serde_json::json;

use crate::support::{Place, bodies, draft, drafts, told};

/// Puts something in the place of a file.
type Make = fn(&Path);

/// What may stand in the place of a file.
fn no_files() -> [(&'static str, Make); 4] {
    [
        ("a pipe", |path| {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }),
        ("a link", |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
        ("a link to a file", |path| {
            let other = path.with_extension("elsewhere");
            fs::write(&other, "x").unwrap();
            std::os::unix::fs::symlink(other, path).unwrap();
        }),
        ("a folder", |path| fs::create_dir(path).unwrap()),
    ]
}

fn signed() -> Place {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.checkpoint().unwrap();
    place
}

/// Writes on, and checks that nothing is lost, that the damage is told of once, and what is left of it.
fn goes_on(place: &Place, file: &str, what: &str) {
    let name = place.reader().checkpoints().unwrap().0[0].checkpoint().origin.clone();
    let mut log = place.open();
    log.append(&[draft(99)]).unwrap();
    log.checkpoint().unwrap();
    log.append(&[draft(100)]).unwrap();
    drop(log);
    assert_eq!(place.open().origin(), name, "{what}");
    let recovered = bodies(place, "recovered");
    assert_eq!(recovered.len(), 1, "{what}: {recovered:?}");
    assert_eq!(recovered[0]["file"], file, "{what}");
    let kept = place.log().join("damaged").join(recovered[0]["kept"].as_str().unwrap());
    assert!(kept.symlink_metadata().is_ok(), "{what}: it is kept");
    assert_eq!(told(&place.reader()).iter().filter(|told| *told != "recovered").count(), 5, "{what}");
    place.open().checkpoint().unwrap();
    assert_eq!(place.verify().unwrap().covered, 6, "{what}");
}

#[test]
fn a_checkpoint_that_was_cut_at_any_byte_or_is_garbage_is_put_aside() {
    let place = signed();
    let sound = fs::read(place.log().join("checkpoint")).unwrap();
    let cuts = (0..sound.len()).map(|cut| sound[..cut].to_vec());
    for broken in cuts.chain([b"x".repeat(100), vec![0xff; 9], b"x".repeat(20_000)]) {
        let copy = place.copy();
        fs::write(copy.log().join("checkpoint"), &broken).unwrap();
        goes_on(&copy, "checkpoint", &format!("{} bytes", broken.len()));
        let kept = fs::read_dir(copy.log().join("damaged")).unwrap().next().unwrap().unwrap();
        assert_eq!(fs::read(kept.path()).unwrap(), broken);
    }
}

#[test]
fn a_name_that_was_cut_at_any_byte_or_is_garbage_is_the_one_that_was_signed() {
    let place = signed();
    let sound = fs::read(place.log().join("origin")).unwrap();
    // Without its last line end it is whole.
    let cuts = (0..sound.len() - 1).map(|cut| sound[..cut].to_vec());
    for broken in cuts.chain([b"a b".to_vec(), vec![0xff; 9], b"x".repeat(20_000), b"other/log\n".to_vec()]) {
        let copy = place.copy();
        fs::write(copy.log().join("origin"), &broken).unwrap();
        goes_on(&copy, "origin", &format!("{} bytes", broken.len()));
    }
    let copy = place.copy();
    fs::remove_file(copy.log().join("origin")).unwrap();
    copy.open().append(&drafts(1)).unwrap();
    copy.open().checkpoint().unwrap();
    assert_eq!(copy.verify().unwrap().covered, 4, "one that is gone is not made up anew");
}

#[test]
fn a_name_is_not_taken_from_whoever_signed_something() {
    let (place, other) = (signed(), signed());
    fs::write(place.log().join("origin"), "").unwrap();
    for file in ["checkpoint", "checkpoints"] {
        fs::copy(other.log().join(file), place.log().join(file)).unwrap();
    }
    let refused = backstop_trail::Log::open(place.options()).unwrap_err();
    assert!(matches!(refused, TrailError::UnknownName(_)), "{refused}");
    assert!(refused.to_string().contains("hint: "), "{refused}");
}

#[test]
fn a_checkpoint_of_another_log_is_damage_and_names_nothing() {
    let (place, other) = (Place::new(), Place::new());
    let mut log = place.open();
    log.append(&drafts(3)).unwrap();
    log.checkpoint().unwrap();
    // The same key signs both.
    fs::copy(place.key(), other.key()).unwrap();
    let mut log = other.open();
    log.append(&drafts(2)).unwrap();
    log.checkpoint().unwrap();
    fs::copy(other.log().join("checkpoint"), place.log().join("checkpoint")).unwrap();
    goes_on(&place, "checkpoint", "another log's");
}

#[test]
fn nobody_waits_for_what_is_no_file() {
    for (what, make) in no_files() {
        for file in ["checkpoint", "origin"] {
            let place = signed();
            fs::remove_file(place.log().join(file)).unwrap();
            make(&place.log().join(file));
            assert!(place.reader().origin().is_err() || place.reader().checkpoint().is_err(), "{what}");
            goes_on(&place, file, what);
        }
        for file in ["lock", "entries/0000000000000000.log"] {
            let place = signed();
            let path = place.log().join(file);
            fs::remove_file(&path).unwrap();
            make(&path);
            let refused =
                backstop_trail::Log::open(place.options()).and_then(|mut log| log.append(&drafts(1)));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("and no file\nhint: move it away"), "{what} as {file}: {refused}");
        }
        for file in
            ["frontier", "frontier.new", "checkpoint.new", "tile/0/000", "entries/0000000000000000.places"]
        {
            let place = Place::new();
            place.open().append(&drafts(300)).unwrap();
            let path = place.log().join(file);
            let _ = fs::remove_file(&path);
            make(&path);
            let mut log = place.open();
            assert_eq!(log.append(&drafts(300)).unwrap().size, 600, "{what} as {file}");
            drop(log);
            assert_eq!(
                place.reader().size().unwrap(),
                told(&place.reader()).len() as u64,
                "{what} as {file}"
            );
            assert!(place.reader().entry(400).is_ok(), "{what} as {file}");
            place.verify().unwrap();
        }
        for file in ["key", "log/checkpoints"] {
            let place = Place::new();
            let path = place.path().join(file);
            place.open();
            if what != "a link to a file" || file != "key" {
                make(&path);
                // Nothing can be signed, and entries are written all the same.
                assert_eq!(place.open().append(&drafts(300)).unwrap().size, 300, "{what} as {file}");
                assert_eq!(bodies(&place, "impaired").len(), 1, "{what} as {file}");
                assert!(place.open().checkpoint().is_err(), "{what} as {file}");
            }
        }
    }
}

#[test]
fn what_fails_behind_entries_fails_no_entry_and_is_told_once_and_made_good() {
    let place = Place::new();
    fs::create_dir_all(place.log()).unwrap();
    fs::write(place.log().join("tile"), "no folder").unwrap();
    fs::write(place.key(), "no key").unwrap();
    let mut log = place.open();
    for group in 0..3 {
        assert_eq!(log.append(&drafts(300)).unwrap().size, 300 + group * 300 + u64::from(group > 0));
    }
    assert_eq!(bodies(&place, "impaired").len(), 1);
    fs::remove_file(place.log().join("tile")).unwrap();
    fs::remove_file(place.key()).unwrap();
    log.append(&drafts(300)).unwrap();
    for tile in ["000", "001", "002", "003"] {
        assert!(place.log().join("tile/0").join(tile).exists(), "{tile} was written later");
    }
    // No checkpoint had covered them, and the one that does now does not hide that.
    assert_eq!(bodies(&place, "recovered").len(), 1);
    let report = place.verify().unwrap();
    assert_eq!((report.size, report.covered, report.missing), (1202, 1202, 0));
    assert_eq!(report.unproved[0].entries, 0..901);
    // What begins to fail again is told of again.
    fs::remove_dir_all(place.log().join("tile")).unwrap();
    fs::write(place.log().join("tile"), "no folder").unwrap();
    log.append(&drafts(300)).unwrap();
    assert_eq!(bodies(&place, "impaired").len(), 2);
}

#[test]
fn who_waits_for_entries_is_told_their_places_whatever_fails_behind_them() {
    let place = Place::new();
    fs::write(place.key(), "no key").unwrap();
    let writer = Writer::new(place.options());
    for group in 0..3_u64 {
        let written = writer.append(drafts(300), true).unwrap().wait().unwrap();
        assert_eq!(written.first, group * 300 + u64::from(group > 0));
        let entry = Entry::read(&place.reader().entry(written.first).unwrap()).unwrap();
        assert_eq!(entry.body["number"], 0);
    }
    assert!(writer.append(drafts(1), true).unwrap().wait().is_ok());
}

#[test]
fn only_the_entry_that_is_too_large_is_left_out() {
    let place = Place::new();
    let mut large = Draft::new(7, &"k".repeat(300), Body::of(&1).unwrap());
    large.labels.insert("long".to_owned(), "x".repeat(MAX_ENTRY_BYTES));
    let mut log = place.open();
    assert_eq!(log.append(&[draft(1), large, draft(2)]).unwrap().size, 3);
    assert_eq!(told(&place.reader()), ["1", "omitted", "2"]);
    let omitted = &bodies(&place, "omitted")[0];
    assert_eq!(omitted["kind"], "k".repeat(64));
    assert!(omitted["bytes"].as_u64().unwrap() > MAX_ENTRY_BYTES as u64, "{omitted}");
    log.checkpoint().unwrap();
    assert_eq!(place.verify().unwrap().missing, 0);
}

#[test]
fn a_rotation_that_a_crash_broke_off_can_be_repeated() {
    let place = signed();
    let before = place.copy();
    place.open().rotate(5, "ann").unwrap();
    // The entry is there, and neither the new key in its place nor a checkpoint behind it.
    let broken = place.copy();
    for file in ["checkpoint", "checkpoints"] {
        fs::copy(before.log().join(file), broken.log().join(file)).unwrap();
    }
    let with = |suffix: &str| broken.path().join(format!("key{suffix}"));
    fs::rename(with(""), with(".next")).unwrap();
    fs::rename(with(".old"), with("")).unwrap();
    broken.open().append(&drafts(2)).unwrap();
    broken.open().checkpoint().unwrap();
    broken.verify().unwrap();
    broken.open().rotate(6, "ann").unwrap();
    assert_eq!(broken.verify().unwrap().covered, broken.reader().size().unwrap());
    // Neither key was made anew.
    assert_eq!(fs::read(broken.key()).unwrap(), fs::read(place.key()).unwrap());
    assert_eq!(json!(bodies(&broken, "rotated").len()), 2);
}
