//! An authority that stamps checkpoints with its time (RFC 3161). What it signed is kept in a folder; its signature is not checked here.

use std::path::PathBuf;

use backstop_config::{AuditWitness, ConfigError, Loaded};
use backstop_http_client::{Client, Request};
use backstop_store::{Store, Timestamp};
use backstop_trail::{
    Copies, MAX_STAMP_BYTES, STAMP_QUERY_TYPE, STAMP_REPLY_TYPE, SignedCheckpoint, Stamp, StampRequest,
    Stamped, stamp_check,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use url::Url;

use super::{
    Lately, SELDOM, WitnessError, Witnessed, aside, client, fitting, is_signed, newest, own_keys, wrong,
};
use crate::locations::from_operator;

/// How far its clock and ours may differ, in seconds.
const CLOCKS: u64 = 600;

/// The stamps that are kept of a trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamps {
    /// How many there are.
    pub count: usize,
    /// How many answers are kept that are no stamps of the checkpoints beside them.
    pub unreadable: u64,
    /// How many entries the newest one is about.
    pub entries: u64,
    /// Its time, by the clock of the authority.
    pub at: Timestamp,
    /// The command that checks that the authority has signed it; `CA.pem` stands for the certificate of the authority.
    pub check: String,
}

/// An authority, and where its answers are kept.
#[derive(Debug)]
pub(super) struct Authority {
    url: Url,
    client: Client,
    folder: PathBuf,
    lately: Lately,
}

impl Authority {
    /// Returns the authority that the configuration names.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] where its address is none, or a file of authorities can't be read.
    pub(super) fn of(loaded: &Loaded, witness: &AuditWitness, url: &str) -> Result<Self, ConfigError> {
        let at = &witness.to.at;
        let url = Url::parse(url)
            .map_err(|error| wrong(at, format!("`to` is no address: {error}"), "correct it"))?;
        let keep = witness.keep.as_ref().map_or("", |keep| keep.value.expose());
        let (client, folder) = (client(loaded, witness)?, from_operator(loaded, keep));
        Ok(Self { url, client, folder, lately: Lately::every(SELDOM) })
    }

    pub(super) fn name(&self) -> String {
        self.url.to_string()
    }

    /// Returns whether a checkpoint is to be stamped again.
    pub(super) fn is_due(&self) -> bool {
        self.lately.is_due()
    }

    /// Has the newest checkpoint stamped.
    pub(super) async fn tell(&self, store: &dyn Store) -> Result<Witnessed, WitnessError> {
        let (keys, note) = (own_keys(store).await?, newest(store).await?);
        if !is_signed(&note, &keys) {
            return Err(WitnessError::NotOurs);
        }
        let (stamped, _) = self.stamped(note.checkpoint().origin.clone()).await?;
        if let Some(known) = stamped.iter().rev().find(|stamped| is_signed(&stamped.note, &keys)) {
            fitting(store, &known.note).await?;
            if known.note.checkpoint() == note.checkpoint() {
                return Ok(has(&known.note, known.stamp));
            }
        }
        let told = self.ask(note).await?;
        self.lately.keep();
        Ok(told)
    }

    async fn ask(&self, note: SignedCheckpoint) -> Result<Witnessed, WitnessError> {
        let asked = StampRequest::new(&note)?;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(STAMP_QUERY_TYPE));
        headers.insert(header::ACCEPT, HeaderValue::from_static(STAMP_REPLY_TYPE));
        let body = asked.to_der().into();
        let request = Request { method: Method::POST, url: &self.url, headers, body };
        let answer = self.client.send(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(WitnessError::Status(answer.status().as_u16()));
        }
        let answer = answer.whole(MAX_STAMP_BYTES).await?;
        let stamp = asked.check(&answer)?;
        let now = Timestamp::now().as_millis().div_euclid(1000);
        if stamp.at.abs_diff(now) > CLOCKS {
            return Err(WitnessError::Clock(time(stamp)));
        }
        let (copies, kept) = (Copies::new(&self.folder), note.clone());
        aside(move || Ok(copies.add_stamp(&kept, &answer)?)).await?;
        Ok(has(&note, stamp))
    }

    /// Returns the stamps that are kept of the trail, of which the newest is compared with it.
    pub(super) async fn kept(&self, store: &dyn Store) -> Result<Stamps, WitnessError> {
        let keys = own_keys(store).await?;
        let (stamped, unreadable) = self.stamped(store.audit_origin().await?).await?;
        let own: Vec<&Stamped> = stamped.iter().filter(|stamped| is_signed(&stamped.note, &keys)).collect();
        let Some(newest) = own.last() else {
            return Err(if unreadable > 0 {
                WitnessError::Unreadable(unreadable)
            } else {
                WitnessError::Empty
            });
        };
        fitting(store, &newest.note).await?;
        Ok(Stamps {
            count: own.len(),
            unreadable,
            entries: newest.note.checkpoint().size,
            at: time(newest.stamp),
            check: stamp_check(&newest.checkpoint, &newest.answer),
        })
    }

    async fn stamped(&self, origin: String) -> Result<(Vec<Stamped>, u64), WitnessError> {
        let copies = Copies::new(&self.folder);
        aside(move || Ok(copies.stamped(&origin)?)).await
    }
}

fn time(stamp: Stamp) -> Timestamp {
    Timestamp::from_millis(stamp.at.saturating_mul(1000))
}

fn has(note: &SignedCheckpoint, stamp: Stamp) -> Witnessed {
    Witnessed { entries: note.checkpoint().size, at: Some(time(stamp)), checkpoint: note.to_string() }
}
