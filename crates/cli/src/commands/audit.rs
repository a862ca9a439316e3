//! `backstop audit`.

use std::path::{Path, PathBuf};

use backstop::store::{AuditEntry, AuditFilter, AuditProcess, AuditReport, AuditStep, Store, Timestamp};
use backstop::{HeadKey, SignedHead, asked_in, audit_key, check_audit_proof};
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
    /// What proves an entry.
    Proof { seq: u64 },
    /// Whether a proof in this file holds, by this key.
    Check { proof: PathBuf, key: String },
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
    if let Settings::Check { proof, key } = &settings {
        check(proof, key, &surroundings.output)?;
        return Ok(Exit::Success);
    }
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
        Settings::Proof { seq } => output.text(store.prove_audit(seq).await?.trim_end())?,
        Settings::Check { .. } => {}
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
    let AuditReport { head, checkpoints, .. } = &report;
    if output.is_json() {
        let mut whole = serde_json::to_value(&report).unwrap_or_default();
        if let Some(fields) = whole.as_object_mut() {
            fields.remove("head");
            fields.insert("ok".to_owned(), json!(true));
            fields.insert("entries".to_owned(), json!(head.seq));
            fields.insert("digest".to_owned(), json!(head.digest));
            fields.insert("comparedWith".to_owned(), json!(known.map(|known| known.seq)));
        }
        return Ok(output.json(&whole)?);
    }
    let paint = output.paint();
    let whole = paint.with(Style::Good, "the audit trail is whole");
    let mut text = format!("{whole}: {} entries, head {}\n", head.seq, head.digest.short());
    if let Some(known) = known {
        text.push_str(&format!("it is the trail whose head was kept at entry {}\n", known.seq));
    }
    if let Some(key) = checkpoints.key.as_ref().filter(|_| checkpoints.count > 0) {
        text.push_str(&format!(
            "its checkpoints cover {} entries and are signed by {key}\n",
            checkpoints.covered
        ));
    }
    notices(&report, known.is_some()).into_iter().for_each(|notice| {
        text.push_str(&format!("{}\n", paint.with(Style::Notice, notice)));
    });
    Ok(output.text(text.trim_end())?)
}

/// Returns what is missing in a trail, and what can't be told.
fn notices(report: &AuditReport, is_compared: bool) -> Vec<String> {
    let AuditReport {
        head,
        pruned,
        gaps,
        lost: _,
        missing,
        processes,
        backwards,
        checkpoints,
        recovered,
        unnamed,
        torn,
    } = report;
    let mut notices = Vec::new();
    if checkpoints.count > 0 && checkpoints.key.is_none() {
        notices.push("the signatures of its checkpoints were not checked: the key can't be read".to_owned());
    }
    if head.seq > 0 && !is_compared {
        let hint = "no head that was kept elsewhere was given: that its end was cut off, or all of it rewritten with the key, can't be told";
        notices.push(hint.to_owned());
    }
    if *pruned > 0 {
        notices.push(format!("{pruned} entries were pruned"));
    }
    notices.extend(gaps.iter().map(|gap| format!("{} receipts are missing at entry {}", gap.lost, gap.seq)));
    if *missing > 0 {
        notices.push(format!("{missing} entries are missing by the numbers of their processes"));
    }
    for AuditProcess { process, missing, last, unended } in processes {
        let ended = if *unended { "runs, or was killed" } else { "is missing entries" };
        notices.push(format!(
            "process {process} {ended}: its last entry is number {last}, {missing} are missing"
        ));
    }
    if *recovered > 0 {
        notices.push(format!("{recovered} times a crash tore an entry, which was cut off"));
    }
    notices.extend(backwards.iter().map(|AuditStep { seq, at, after }| {
        format!("time runs backwards at entry {seq}: {at}, after {after}")
    }));
    if *unnamed > 0 {
        notices.push(format!("{unnamed} more gaps, processes, crashes or steps back are not named"));
    }
    if *torn {
        let why = "it ends with something that is no entry: a writer is at work, a crash tore the last one, or somebody changed it; what stands behind can't be read";
        notices.push(why.to_owned());
    }
    let uncovered = head.seq.saturating_sub(checkpoints.covered);
    if uncovered > 0 && !is_compared {
        notices.push(format!(
            "no checkpoint covers the last {uncovered} entries: whether they were changed can't be told"
        ));
    }
    if checkpoints.torn > 0 {
        notices.push(format!("{} checkpoints can't be read", checkpoints.torn));
    }
    notices
}

/// Checks a proof on any machine: nothing but the file and the key counts.
fn check(path: &Path, key: &str, output: &Output) -> Result<(), Error> {
    let checked = check_audit_proof(path, key)?;
    if output.is_json() {
        let entry = serde_json::from_str::<Value>(&checked.entry).unwrap_or_default();
        return Ok(output
            .json(&json!({ "ok": true, "seq": checked.seq, "entries": checked.entries, "entry": entry }))?);
    }
    output.say(&format!(
        "entry {} is in the trail, as its key says about {} entries",
        checked.seq, checked.entries
    ));
    Ok(output.text(&checked.entry)?)
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
