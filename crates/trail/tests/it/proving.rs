use backstop_trail::merkle::is_consistent;
use backstop_trail::{Log, Proof, SigningKey, TrailError, Trust, VerifyError, verify};
use serde_json::json;

use crate::support::{Place, bodies, drafts, told};

#[test]
fn a_proof_and_a_key_are_enough() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(700)).unwrap();
    log.checkpoint().unwrap();
    let key = place.verifier();
    for index in [0, 1, 255, 256, 511, 512, 600, 699] {
        let text = place.reader().prove(index).unwrap().to_string();
        let proof: Proof = text.parse().unwrap();
        assert_eq!(proof.to_string(), text);
        let entry = proof.entry.clone().unwrap();
        assert_eq!(entry, place.reader().entry(index).unwrap());
        assert!(proof.proves(&entry, &key));
        assert!(!proof.proves(&entry[1..], &key));
        assert!(!Proof { index: index ^ 1, ..proof.clone() }.proves(&entry, &key));
        let other = SigningKey::open(&place.path().join("other")).unwrap().verifier(key.name()).unwrap();
        assert!(!proof.proves(&entry, &other));
    }
    assert!(matches!(place.reader().prove(700), Err(TrailError::NoSuchEntry(700))));
    for bad in ["", "c2sp.org/tlog-proof@v1\nindex x\n\n", "c2sp.org/tlog-proof@v2\nindex 1\n\n"] {
        assert!(bad.parse::<Proof>().is_err(), "{bad:?}");
    }
}

#[test]
fn an_entry_without_a_checkpoint_is_not_proved_yet() {
    let place = Place::new();
    let mut log = place.open();
    log.checkpoint().unwrap();
    log.append(&drafts(3)).unwrap();
    assert!(matches!(place.reader().prove(2), Err(TrailError::NotYet(2))));
    log.checkpoint().unwrap();
    assert!(place.reader().prove(2).is_ok());
}

#[test]
fn old_proofs_hold_and_old_checkpoints_fit_after_pruning() {
    let place = Place::new();
    let mut log = place.open();
    log.append(&drafts(700)).unwrap();
    let old = log.checkpoint().unwrap();
    let (early, late) = (place.reader().prove(10).unwrap(), place.reader().prove(650).unwrap());
    let entry = early.entry.clone().unwrap();
    assert_eq!(log.prune(600, 7, "30 days", "ann", |index, _| index == 20).unwrap(), 599);
    let found = told(&place.reader());
    assert_eq!((found[10].as_str(), found[20].as_str(), found[700].as_str()), ("pruned", "20", "tombstone"));
    let told = bodies(&place, "tombstone").remove(0);
    assert_eq!((&told["policy"], &told["by"]), (&json!("30 days"), &json!("ann")));
    let key = place.verifier();
    assert!(early.proves(&entry, &key) && late.proves(late.entry.as_ref().unwrap(), &key));
    let new = place.reader().prove(10).unwrap();
    assert!(new.entry.is_none() && new.proves(&entry, &key));
    assert!(matches!(place.reader().entry(10), Err(TrailError::NoSuchEntry(10))));
    let trust = Trust { key: Some(key), kept: vec![old.clone()], ..Trust::default() };
    let report = verify(&place.reader(), &trust).unwrap();
    assert_eq!((report.pruned, report.missing, report.witnessed), (599, 0, Some(700)));
    let newest = place.reader().checkpoint().unwrap().unwrap();
    let (old, new) = (old.checkpoint(), newest.checkpoint());
    let path = place.reader().consistency(old.size, new.size).unwrap();
    assert!(is_consistent(old.size, &old.root, new.size, &new.root, &path));
    assert_eq!(log.prune(600, 8, "30 days", "ann", |index, _| index == 20).unwrap(), 0, "nothing more goes");
}

#[test]
fn a_key_that_somebody_else_keeps_is_neither_made_nor_replaced() {
    let place = Place::new();
    let kept = || Log::open(place.options().with_kept_key());
    let missing = kept();
    assert!(matches!(&missing, Err(TrailError::File { path, .. }) if *path == place.key()), "{missing:?}");
    assert!(!place.key().exists() && !place.log().exists(), "and no log begins without it");
    place.open().checkpoint().unwrap();
    let key = place.verifier();
    let mut log = kept().unwrap();
    log.append(&drafts(3)).unwrap();
    assert!(log.checkpoint().unwrap().is_signed_by(&key));
    assert!(matches!(log.rotate(5, "ann"), Err(TrailError::KeyKept(_))));
    assert_eq!((place.verifier(), told(&place.reader())), (key, ["0", "1", "2"].map(str::to_owned).to_vec()));
}

#[test]
fn a_key_hands_over_to_the_next_one() {
    let place = Place::new();
    let (mut log, mut other) = (place.open(), place.open());
    log.append(&drafts(3)).unwrap();
    other.append(&drafts(3)).unwrap();
    other.checkpoint().unwrap();
    let first = place.verifier();
    let both = log.rotate(5, "ann").unwrap().checkpoint;
    assert_eq!(bodies(&place, "rotated").remove(0)["by"], "ann");
    let second = place.verifier();
    assert!(first != second && both.is_signed_by(&first) && both.is_signed_by(&second));
    other.append(&drafts(3)).unwrap();
    let newest = other.checkpoint().unwrap();
    assert!(newest.is_signed_by(&second) && !newest.is_signed_by(&first), "others follow");
    other.rotate(6, "ann").unwrap();
    for key in [first, second, place.verifier()] {
        let report = verify(&place.reader(), &Trust { key: Some(key), ..Trust::default() }).unwrap();
        assert_eq!(report.key, Some(place.verifier()));
    }
    let stranger = SigningKey::open(&place.path().join("other")).unwrap().verifier(log.origin()).unwrap();
    let found = verify(&place.reader(), &Trust { key: Some(stranger), ..Trust::default() });
    assert!(matches!(found, Err(VerifyError::OtherKey)), "{found:?}");
}
