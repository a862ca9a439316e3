//! `backstop audit`.

use std::path::PathBuf;

use backstop::store::{AuditEntry, AuditFilter, AuditReport, AuditStep, Store, Timestamp};
use backstop::{HeadKey, SignedHead, asked_in, audit_key};
use serde_json::{Value, json};

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, one_line, table};
use crate::session::{Surroundings, environment};

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Entries, the oldest first.
    List { session: Option<String>, after: u64, limit: usize },
    /// Whether the trail is whole, and is the one whose head was kept.
    Verify { head: Option<PathBuf>, signer: Signer },
    /// Its end, signed with the key in this file.
    Head { key: Option<PathBuf> },
}

/// Whose heads are trusted.
#[derive(Debug)]
pub(crate) enum Signer {
    /// Those of this machine's own key.
    Own,
    /// Those of the key in this file.
    File(PathBuf),
    /// Those of this public key.
    Public(String),
}

impl Signer {
    pub(crate) fn of(file: Option<PathBuf>, public: Option<String>) -> Self {
        match (file, public) {
            (_, Some(public)) => Self::Public(public),
            (Some(file), None) => Self::File(file),
            (None, None) => Self::Own,
        }
    }

    fn public_key(self) -> Result<String, Error> {
        Ok(match self {
            Self::Public(public) => public,
            Self::File(path) => HeadKey::read(&path)?.public(),
            Self::Own => HeadKey::read(&audit_key(&environment)?)?.public(),
        })
    }
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let store = surroundings.only_store()?;
    let output = &surroundings.output;
    match settings {
        Settings::List { session, after, limit } => {
            let filter = AuditFilter { session: session.map(Into::into), ..AuditFilter::default() };
            list(store.as_ref(), &filter, after, limit, output).await?;
        }
        Settings::Verify { head, signer } => verify(store.as_ref(), head, signer, output).await?,
        Settings::Head { key } => {
            let path = key.map_or_else(|| audit_key(&environment), Ok)?;
            let signed = HeadKey::open(&path)?.sign(store.audit_head().await?, Timestamp::now());
            output.json(&signed)?;
            output.say("keep this where nobody on this machine can change it");
        }
    }
    Ok(Exit::Success)
}

async fn verify(
    store: &dyn Store,
    head: Option<PathBuf>,
    signer: Signer,
    output: &Output,
) -> Result<(), Error> {
    let known = match head {
        Some(path) => Some(SignedHead::read(&path)?.verified(&signer.public_key()?)?),
        None => None,
    };
    let report = store.verify_audit(known).await?;
    let AuditReport { head, start, gaps, lost, pruned_lost, backwards } = &report;
    if output.is_json() {
        return Ok(output.json(&json!({
            "ok": true,
            "entries": head.seq,
            "digest": head.digest,
            "prunedThrough": start.seq,
            "comparedWith": known.map(|known| known.seq),
            "lost": lost,
            "prunedLost": pruned_lost,
            "gaps": gaps,
            "backwards": backwards,
        }))?);
    }
    let paint = output.paint();
    let whole = paint.with(Style::Good, "the audit trail is whole");
    let mut text = format!("{whole}: {} entries, head {}\n", head.seq, head.digest.short());
    if let Some(known) = known {
        text.push_str(&format!("it is the trail whose head was kept at entry {}\n", known.seq));
    }
    if start.seq > 0 {
        text.push_str(&format!("the entries through {} were pruned\n", start.seq));
    }
    let notice = |text: String| format!("{}\n", paint.with(Style::Notice, text));
    if *pruned_lost > 0 {
        text.push_str(&notice(format!("{pruned_lost} receipts were missing in what was pruned")));
    }
    for gap in gaps {
        text.push_str(&notice(format!("{} receipts are missing at entry {}", gap.lost, gap.seq)));
    }
    for AuditStep { seq, at, after } in backwards {
        text.push_str(&notice(format!("time runs backwards at entry {seq}: {at}, after {after}")));
    }
    Ok(output.text(text.trim_end())?)
}

async fn list(
    store: &dyn Store,
    filter: &AuditFilter,
    after: u64,
    limit: usize,
    output: &Output,
) -> Result<(), Error> {
    let entries = store.audit(filter, after, limit).await?;
    if output.is_json() {
        return Ok(output.json(&entries)?);
    }
    if entries.is_empty() {
        output.say("there are no entries");
        return Ok(());
    }
    let heads = ["number", "time", "point", "tool", "verdict", "by", "hooks"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(entries.iter().map(row));
    Ok(output.text(&table(&rows))?)
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let word = |pointer: &str| {
        entry
            .body
            .pointer(pointer)
            .and_then(Value::as_str)
            .map_or_else(|| "-".to_owned(), |text| one_line(text, 60))
    };
    let verdict = match entry.body.get("lost").and_then(Value::as_u64) {
        Some(lost) => format!("{lost} receipts are missing here"),
        None => word("/verdict"),
    };
    vec![
        entry.seq.to_string(),
        entry.at.to_string(),
        if entry.kind == "receipt" { word("/point") } else { one_line(&entry.kind, 24) },
        word("/tool"),
        verdict,
        word("/blocked/hook"),
        asked_in(entry).to_string(),
    ]
}
