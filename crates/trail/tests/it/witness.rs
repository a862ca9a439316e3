//! Others who keep checkpoints, and what they are told.

use std::fs;

use backstop_trail::merkle::empty_root;
use backstop_trail::{
    AddCheckpoint, Checkpoint, Copies, CosignerKey, NotCosigned, SignedCheckpoint, SigningKey, TrailError,
    Trust, VerifyError, Witness, verify,
};
use base64::Engine as _;

use crate::support::{Place, drafts};

/// A log of so many entries, with a checkpoint of all, and a witness that watches it.
fn watched(entries: u64) -> (Place, Witness) {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(entries)).unwrap();
    log.checkpoint().unwrap();
    let witness = Witness {
        name: "witness.example/w1".to_owned(),
        folder: place.path().join("witness"),
        key: place.path().join("witness.key"),
        logs: vec![place.verifier()],
    };
    (place, witness)
}

fn newest(place: &Place) -> SignedCheckpoint {
    place.reader().checkpoint().unwrap().unwrap()
}

/// The request that proves that the log only grew since it had `old` entries.
fn request(place: &Place, old: u64) -> AddCheckpoint {
    let checkpoint = newest(place);
    let path = place.reader().consistency(old, checkpoint.checkpoint().size).unwrap();
    AddCheckpoint { old, path, checkpoint }
}

#[test]
fn a_witness_cosigns_what_only_grew() {
    let (place, witness) = watched(300);
    let key = witness.cosigner().unwrap();
    for (old, at) in [(0, 5), (300, 6), (700, 7)] {
        let request = request(&place, old);
        let text = request.to_string();
        assert_eq!(text.parse::<AddCheckpoint>().unwrap(), request);
        let line = witness.add(&request, at).unwrap();
        let cosigned = request.checkpoint.with_signatures(&line).unwrap();
        assert_eq!(key.cosigned_at(&cosigned), Some(at));
        assert_eq!(key.cosigned_at(&request.checkpoint), None);
        assert!(cosigned.is_signed_by(&place.verifier()), "the log's own signature stays");
        let mut log = place.open();
        log.append(&drafts(400)).unwrap();
        log.checkpoint().unwrap();
    }
}

#[test]
fn a_witness_refuses_as_the_specification_says() {
    let (place, witness) = watched(300);
    let sound = request(&place, 0);
    witness.add(&sound, 5).unwrap();
    assert!(matches!(witness.add(&sound, 6), Err(NotCosigned::Conflict(300))));
    let refused = |request: &AddCheckpoint| witness.add(request, 7).unwrap_err();
    assert!(matches!(refused(&AddCheckpoint { old: 301, ..sound.clone() }), NotCosigned::Backwards));
    let signed = |checkpoint: Checkpoint| checkpoint.signed(&[&SigningKey::open(&place.key()).unwrap()]);
    let own = sound.checkpoint.checkpoint().clone();
    let other_root = signed(Checkpoint { root: [7; 32], ..own.clone() });
    let same = AddCheckpoint { old: 300, path: Vec::new(), checkpoint: other_root };
    assert!(matches!(refused(&same), NotCosigned::OtherRoot));
    let larger = signed(Checkpoint { size: 301, root: [7; 32], ..own.clone() });
    let grown = AddCheckpoint { old: 300, path: vec![[1; 32]], checkpoint: larger };
    assert!(matches!(refused(&grown), NotCosigned::Proof));
    let unknown = signed(Checkpoint { origin: "other/log".to_owned(), ..own.clone() });
    assert!(matches!(
        refused(&AddCheckpoint { checkpoint: unknown, ..same.clone() }),
        NotCosigned::UnknownLog
    ));
    let stranger = SigningKey::open(&place.path().join("stranger")).unwrap();
    let forged = Checkpoint { size: 301, ..own }.signed(&[&stranger]);
    assert!(matches!(refused(&AddCheckpoint { checkpoint: forged, ..same }), NotCosigned::Signature));
    // None of it moved the witness.
    assert!(matches!(refused(&sound), NotCosigned::Conflict(300)));
}

#[test]
fn a_witness_that_can_t_read_what_it_signed_signs_nothing() {
    let (place, witness) = watched(3);
    witness.add(&request(&place, 0), 5).unwrap();
    let kept = fs::read_dir(&witness.folder).unwrap().map(|file| file.unwrap().path());
    let kept = kept.into_iter().find(|path| !path.ends_with("lock")).unwrap();
    fs::write(&kept, "x").unwrap();
    let refused = witness.add(&request(&place, 0), 6);
    assert!(matches!(refused, Err(NotCosigned::Trail(TrailError::Damaged { .. }))), "{refused:?}");
}

#[test]
fn a_witness_keeps_nothing_that_it_could_not_read_back() {
    let (place, witness) = watched(3);
    let sound = request(&place, 0);
    let key = SigningKey::open(&place.key()).unwrap();
    // The text of a note ends with lines that say more, as many as there are.
    let with = |extension: &str| {
        let text = format!("{}{extension}\n", sound.checkpoint.checkpoint().text());
        let verifier = place.verifier();
        let id = u32::from_str_radix(verifier.to_string().split('+').nth(1).unwrap(), 16).unwrap();
        let signature = [id.to_be_bytes().to_vec(), key.sign(&text)].concat();
        let signature = base64::engine::general_purpose::STANDARD.encode(signature);
        let checkpoint: SignedCheckpoint =
            format!("{text}\n— {} {signature}\n", verifier.name()).parse().unwrap();
        assert!(checkpoint.is_signed_by(&verifier));
        AddCheckpoint { checkpoint, ..sound.clone() }
    };
    let long = with(&"x".repeat(20 * 1024));
    assert!(long.to_string().len() <= backstop_trail::MAX_ADD_CHECKPOINT_BYTES);
    assert!(matches!(witness.add(&long, 5), Err(NotCosigned::TooLong(_))));
    // What it takes, it can read: of each length that is near the bound.
    let (mut taken, mut old) = (0, 0);
    for bytes in (16_000..16_400).step_by(13) {
        let request = with(&"x".repeat(bytes));
        match witness.add(&AddCheckpoint { old, path: Vec::new(), ..request }, 6) {
            Ok(_) => (taken, old) = (taken + 1, 3),
            Err(NotCosigned::TooLong(_)) => break,
            other => panic!("{bytes}: {other:?}"),
        }
    }
    assert!(taken > 1);
    assert!(witness.add(&AddCheckpoint { old: 3, path: Vec::new(), ..sound.clone() }, 7).is_ok());
}

#[test]
fn the_empty_log_has_one_root() {
    let (place, witness) = watched(3);
    let key = SigningKey::open(&place.key()).unwrap();
    let empty = |root| {
        let checkpoint = Checkpoint { size: 0, root, origin: place.verifier().name().to_owned() };
        AddCheckpoint { old: 0, path: Vec::new(), checkpoint: checkpoint.signed(&[&key]) }
    };
    assert!(matches!(witness.add(&empty([7; 32]), 5), Err(NotCosigned::Proof)));
    assert!(witness.add(&empty(empty_root()), 5).is_ok());
}

#[test]
fn two_who_ask_at_once_are_answered_one_after_the_other() {
    let (place, witness) = watched(300);
    let request = request(&place, 0);
    let answers = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|at| {
                scope.spawn({
                    let (witness, request) = (&witness, &request);
                    move || witness.add(request, at)
                })
            })
            .collect();
        asked.into_iter().map(|asked| asked.join().unwrap().is_ok()).collect::<Vec<_>>()
    });
    assert_eq!(answers.iter().filter(|cosigned| **cosigned).count(), 1);
}

#[test]
fn a_key_that_cosigns_is_read_as_it_is_written_and_is_no_key_of_a_log() {
    let (place, witness) = watched(1);
    let key = witness.cosigner().unwrap();
    assert_eq!(key.to_string().parse::<CosignerKey>().unwrap(), key);
    assert!(place.verifier().to_string().parse::<CosignerKey>().is_err());
    assert!(key.to_string().parse::<backstop_trail::VerifierKey>().is_err());
    for bad in ["", "old 1", "old 01\n\n", "old 1\nx\n\n"] {
        assert!(format!("{bad}{}", newest(&place)).parse::<AddCheckpoint>().is_err(), "{bad:?}");
    }
    let long =
        format!("old 1\n{}\n{}", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n".repeat(64), newest(&place));
    assert!(long.parse::<AddCheckpoint>().is_err());
}

#[test]
fn copies_show_a_log_that_was_cut_off_or_written_anew() {
    let (place, _) = watched(300);
    let folder = place.path().join("copies");
    fs::create_dir(&folder).unwrap();
    let copies = Copies::new(&folder);
    let origin = place.verifier().name().to_owned();
    let old = place.copy();
    assert!(copies.add(&newest(&place)).unwrap());
    assert!(!copies.add(&newest(&place)).unwrap(), "the same is there already");
    let mut log = place.open();
    log.append(&drafts(100)).unwrap();
    log.checkpoint().unwrap();
    assert!(copies.add(&newest(&place)).unwrap());
    fs::write(folder.join("of somebody else"), "x").unwrap();
    let (kept, unreadable) = copies.of(&origin).unwrap();
    assert_eq!((kept.len(), unreadable), (2, 0));
    assert_eq!(copies.of("other").unwrap().0, []);
    let against = |place: &Place| {
        let trust = Trust { key: Some(place.verifier()), kept: kept.clone(), ..Trust::default() };
        verify(&place.reader(), &trust)
    };
    assert_eq!(against(&place).unwrap().witnessed, Some(400));
    let found = against(&old);
    assert!(matches!(found, Err(VerifyError::CutOff { size: 300, known: 400 })), "{found:?}");
    let mut anew = old.open();
    anew.append(&drafts(200)).unwrap();
    anew.checkpoint().unwrap();
    let found = against(&old);
    assert!(matches!(found, Err(VerifyError::Rewritten { size: 400 })), "{found:?}");
    // Whoever writes over a copy can't hide that it was one.
    let copy = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let copy = copy.into_iter().find(|path| path.extension().is_some()).unwrap();
    fs::remove_file(&copy).unwrap();
    fs::write(&copy, "x").unwrap();
    assert_eq!(copies.of(&origin).unwrap().1, 1);
}

#[test]
fn whoever_compares_the_newest_copies_opens_no_older_ones() {
    let (place, _) = watched(300);
    let folder = place.path().join("copies");
    fs::create_dir(&folder).unwrap();
    let copies = Copies::new(&folder);
    let origin = place.verifier().name().to_owned();
    let older = newest(&place);
    copies.add(&older).unwrap();
    let mut log = place.open();
    log.append(&drafts(100)).unwrap();
    log.checkpoint().unwrap();
    copies.add(&newest(&place)).unwrap();
    // What can't be read shows that it was opened.
    let name = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let name = name.into_iter().find(|path| path.to_string_lossy().contains("-0000000000000300-")).unwrap();
    fs::remove_file(&name).unwrap();
    fs::write(&name, "x").unwrap();
    let sizes = |size| {
        let (found, unreadable) = copies.of_at_least(&origin, size).unwrap();
        (found.iter().map(|note| note.checkpoint().size).collect::<Vec<_>>(), unreadable)
    };
    assert_eq!(sizes(301), (vec![400], 0));
    assert_eq!(sizes(300), (vec![400], 1));
    assert_eq!(sizes(401), (vec![], 0));
    // A name that says no size is looked at.
    fs::write(
        folder.join(format!(
            "{}-.checkpoint",
            name.file_name().unwrap().to_str().unwrap().split('-').next().unwrap()
        )),
        "x",
    )
    .unwrap();
    assert_eq!(sizes(401), (vec![], 1));
}
