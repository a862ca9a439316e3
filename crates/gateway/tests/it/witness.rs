//! A witness for other trails, as one of these asks it.

use std::sync::Arc;

use backstop_gateway::Settings;
use backstop_trail::{AddCheckpoint, Body, Draft, Log, Options, SigningKey, Witness, now};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::support::*;

/// A trail of another machine, and a gateway that watches it.
struct House {
    folder: TempDir,
    log: Log,
}

impl House {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let log = Log::open(Options::new(folder.path().join("log"), folder.path().join("key"))).unwrap();
        Self { folder, log }
    }

    fn witness(&self) -> Witness {
        let key = SigningKey::open(&self.folder.path().join("key")).unwrap();
        let logs = vec![key.verifier(self.log.origin()).unwrap()];
        let path = |name: &str| self.folder.path().join(name);
        Witness {
            name: "witness.example".to_owned(),
            folder: path("witness"),
            key: path("witness.key"),
            logs,
        }
    }

    fn request(&mut self, old: u64, more: usize) -> AddCheckpoint {
        let entry = Draft::new(now(), "test", Body::of(&1).unwrap());
        self.log.append(&vec![entry; more]).unwrap();
        let checkpoint = self.log.checkpoint().unwrap();
        let reader = backstop_trail::Reader::new(&self.folder.path().join("log"));
        let path = reader.consistency(old, checkpoint.checkpoint().size).unwrap();
        AddCheckpoint { old, path, checkpoint }
    }
}

fn asking(body: &str) -> String {
    format!(
        "POST /-/witness/add-checkpoint HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn checkpoints_of_trails_that_only_grew_are_cosigned_and_all_others_are_refused() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut house = House::new();
    let witness = house.witness();
    let gateway = gateway(Settings { witness: Some(Arc::new(witness.clone())), ..settings(&upstream) }).await;
    let first = house.request(0, 3);
    let answer = talk(&gateway, asking(&first.to_string())).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let cosigned = first.checkpoint.with_signatures(&answer.body().0).unwrap();
    assert!(witness.cosigner().unwrap().cosigned_at(&cosigned).is_some());
    let stale = talk(&gateway, asking(&first.to_string())).await;
    assert_eq!((stale.status(), stale.body().0), (409, "3\n".to_owned()));
    assert!(stale.head().contains("content-type: text/x.tlog.size"), "{}", stale.head());
    let grown = house.request(3, 300);
    let mut false_proof = grown.clone();
    false_proof.path[0][0] ^= 1;
    let mut stranger = House::new();
    for (request, status) in [
        (false_proof.to_string(), 422),
        (stranger.request(0, 1).to_string(), 404),
        (AddCheckpoint { old: 9_999, ..grown.clone() }.to_string(), 400),
        ("old 0\n\nnothing".to_owned(), 400),
        ("x".repeat(32 * 1024 + 1), 400),
        (grown.to_string(), 200),
    ] {
        let answer = talk(&gateway, asking(&request)).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
    }
    let looked = asking("").replacen("POST", "GET", 1);
    assert_eq!(talk(&gateway, looked).await.status(), 405);
    let from_a_page = asking(&grown.to_string()).replacen("localhost", "evil.example", 1);
    assert_eq!(talk(&gateway, from_a_page).await.status(), 403);
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn whoever_is_no_witness_answers_nothing_there() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let gateway = gateway(settings(&upstream)).await;
    let answer = talk(&gateway, asking(&House::new().request(0, 1).to_string())).await;
    assert_eq!((answer.status(), upstream.count()), (404, 0), "{}", answer.text());
}

#[tokio::test]
async fn whoever_is_slow_silences_no_witness() {
    let upstream = Upstream::start(|_| Script::json("200 OK", "{}")).await;
    let mut house = House::new();
    let gateway = gateway(Settings { witness: Some(Arc::new(house.witness())), ..settings(&upstream) }).await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = connect(&gateway).await;
        let request = asking(&"x".repeat(1000));
        stream.write_all(&request.as_bytes()[..request.len() - 1]).await.unwrap();
        slow.push(stream);
        let request = house.request(slow.len() as u64 - 1, 1);
        let answer = talk(&gateway, asking(&request.to_string())).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
}
