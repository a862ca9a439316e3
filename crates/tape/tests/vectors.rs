//! The test vectors of the age format: what reads as others write it, and what is refused for which reason.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail loudly")]

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use backstop_tape::{Decryptor, Identity, TapeError};

struct Vector {
    name: String,
    said: BTreeMap<String, String>,
    file: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_none());
    files
        .map(|path| read(path.file_name().unwrap().to_str().unwrap(), &std::fs::read(&path).unwrap()))
        .collect()
}

fn read(name: &str, bytes: &[u8]) -> Vector {
    let middle = bytes.windows(2).position(|two| two == b"\n\n").unwrap();
    let (said, file) = bytes.split_at(middle);
    let file = file.get(2..).unwrap();
    let said: BTreeMap<String, String> = std::str::from_utf8(said)
        .unwrap()
        .lines()
        .map(|line| line.split_once(": ").map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap())
        .collect();
    let file = match said.get("compressed").map(String::as_str) {
        None => file.to_vec(),
        Some("zlib") => {
            let mut whole = Vec::new();
            flate2::read::ZlibDecoder::new(file).read_to_end(&mut whole).unwrap();
            whole
        }
        Some(other) => panic!("{other}"),
    };
    Vector { name: name.to_owned(), said, file }
}

/// Reads a file as far as it can be read.
fn opened(file: &[u8], identity: &Identity) -> (Vec<u8>, Result<bool, TapeError>) {
    let mut plain = Vec::new();
    let ended = Decryptor::new(BufReader::new(file), identity).and_then(|mut decryptor| {
        while let Some(chunk) = decryptor.next_chunk()? {
            plain.extend(chunk);
        }
        Ok(decryptor.has_ended())
    });
    (plain, ended)
}

fn hex(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_vectors_of_age_hold() {
    let vectors = vectors();
    assert!(vectors.len() > 60, "{}", vectors.len());
    for Vector { name, said, file } in vectors {
        let identity = said.get("identity").map(|text| text.parse::<Identity>().unwrap());
        let identity = identity.unwrap_or_else(|| Identity::generate().unwrap());
        let (plain, ended) = opened(&file, &identity);
        let expected = said.get("expect").unwrap().as_str();
        let holds = match expected {
            "success" => matches!(ended, Ok(true)),
            // Cut off and damaged are told apart, and neither passes for whole.
            "payload failure" => matches!(ended, Ok(false) | Err(TapeError::Damaged(_))),
            "header failure" => matches!(ended, Err(TapeError::Format(_) | TapeError::CutOff)),
            "HMAC failure" => matches!(ended, Err(TapeError::Damaged(_))),
            "no match" => matches!(ended, Err(TapeError::OtherKey)),
            other => panic!("{name}: {other}"),
        };
        assert!(holds, "{name}: expected {expected}, got {ended:?}");
        // Of a file that fails further on, others release a chunk more before they notice.
        if let Some(payload) = said.get("payload").filter(|_| expected == "success") {
            assert_eq!(&hex(&plain), payload, "{name}");
        }
    }
}
