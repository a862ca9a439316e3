//! `backstop audit`.

mod witness;

use std::path::{Path, PathBuf};

use self::witness::Heard;
use backstop::config::Loaded;
use backstop::store::{AuditHead, AuditReport, DigestKey, PrunableAudit, Store, Timestamp};
use backstop::{HeadKey, SignedHead, Witnesses, audit_key, check_audit_proof, kept_key_file, retention};
use serde_json::{Value, json};

use crate::commands::answerer;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, plain};
use crate::session::{Surroundings, environment};

/// The most entries that are pruned at once.
const MOST_PRUNED: usize = 1_000_000;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Settings {
    /// Whether the trail is whole, and is the one whose head was kept, and that witnesses know: those in this folder, or those of the
    /// configuration, and the trails of other gateways in these folders. Whether entries that were signed late count as not proved.
    Verify {
        head: Option<PathBuf>,
        signer: Signer,
        witness: Option<PathBuf>,
        peers: Vec<PathBuf>,
        trail_key: Option<String>,
        strict: bool,
    },
    /// The witnesses are told how far it reaches.
    Witness,
    /// Its end, signed with the key in this file.
    Head { key: Option<PathBuf> },
    /// What proves an entry.
    Proof { seq: u64 },
    /// What the configuration keeps no longer goes.
    Prune { dry_run: bool },
    /// A key for the digests of what was judged is made in this file.
    Keygen { file: PathBuf },
    /// Another key signs.
    Rotate,
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

    fn public_key(self, loaded: &Loaded) -> Result<String, Error> {
        Ok(match self {
            Self::Public(public) => public,
            Self::File(path) => HeadKey::read(&path)?.public(),
            Self::Own => {
                let path = kept_key_file(loaded).map_or_else(|| audit_key(&environment), Ok)?;
                HeadKey::read(&path)?.public()
            }
        })
    }
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    if let Settings::Check { proof, key } = &settings {
        check(proof, key, &surroundings.output)?;
        return Ok(Exit::Success);
    }
    if let Settings::Keygen { file } = &settings {
        keygen(file, &surroundings.output)?;
        return Ok(Exit::Success);
    }
    let output = &surroundings.output;
    if let Settings::Prune { dry_run } = settings {
        prune(dry_run, surroundings).await?;
        return Ok(Exit::Success);
    }
    let loaded = surroundings.load()?;
    let store = surroundings.store(&loaded)?;
    match settings {
        Settings::Verify { head, signer, witness, peers, trail_key, strict } => {
            let known = match head {
                Some(path) => Some(SignedHead::read(&path)?.verified(&signer.public_key(&loaded)?)?),
                None => None,
            };
            let witnesses = match witness {
                Some(folder) => Witnesses::folder(&folder),
                None => Witnesses::of(&loaded, &environment)?,
            };
            let witnesses = peers.into_iter().fold(witnesses, Witnesses::and_peer);
            let heard = Heard::from(&witnesses, store.as_ref()).await?;
            let key = trail_key.as_deref();
            let report = store.verify_audit_with(known, &heard.kept, key).await?;
            return say(&report, known, strict, &heard, output);
        }
        Settings::Witness => {
            let witnesses = Witnesses::of(&loaded, &environment)?;
            // What a killed process left unsigned is signed, so that it is handed over, too.
            if !witnesses.is_empty() && store.audit_origin().await.is_ok() {
                store.conclude_audit().await?;
            }
            return witness::tell(&witnesses, store.as_ref(), output).await;
        }
        Settings::Head { key } => {
            let key = match (key, kept_key_file(&loaded)) {
                (None, Some(kept)) => HeadKey::read(&kept)?,
                (named, _) => HeadKey::open(&named.map_or_else(|| audit_key(&environment), Ok)?)?,
            };
            let signed = key.sign(store.audit_head().await?, Timestamp::now());
            output.json(&signed)?;
            output.say("keep this where nobody on this machine can change it");
        }
        Settings::Proof { seq } => output.text(store.prove_audit(seq).await?.trim_end())?,
        Settings::Rotate => rotate(store.as_ref(), output).await?,
        Settings::Check { .. } | Settings::Keygen { .. } | Settings::Prune { .. } => {}
    }
    Ok(Exit::Success)
}

/// Says what was found in a trail that is what was written.
fn say(
    report: &AuditReport,
    known: Option<AuditHead>,
    strict: bool,
    heard: &Heard,
    output: &Output,
) -> Result<Exit, Error> {
    let AuditReport { head, checkpoints, .. } = report;
    let now = Timestamp::now();
    let is_proved = report.is_proved(now) && (report.late.is_empty() || !strict) && heard.silent.is_empty();
    let exit = if is_proved { Exit::Success } else { Exit::Incomplete };
    if output.is_json() {
        let mut whole = serde_json::to_value(report).unwrap_or_default();
        if let Some(fields) = whole.as_object_mut() {
            fields.remove("head");
            fields.insert("ok".to_owned(), json!(true));
            fields.insert("entries".to_owned(), json!(head.seq));
            fields.insert("digest".to_owned(), json!(head.digest));
            fields.insert("comparedWith".to_owned(), json!(known.map(|known| known.seq)));
            fields.insert("witnesses".to_owned(), heard.json());
        }
        output.json(&whole)?;
        return Ok(exit);
    }
    let paint = output.paint();
    let whole = match exit == Exit::Incomplete {
        false => paint.with(Style::Good, "the audit trail is whole"),
        true => paint.with(
            Style::Notice,
            "nothing in the audit trail was found to be wrong, and not all of it can be proved",
        ),
    };
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
    heard.lines().into_iter().for_each(|line| text.push_str(&format!("{line}\n")));
    notices(report, known.is_some() || !heard.kept.is_empty()).into_iter().for_each(|notice| {
        text.push_str(&format!("{}\n", paint.with(Style::Notice, notice)));
    });
    output.text(text.trim_end())?;
    warnings(report, now).iter().for_each(|warning| output.say(warning));
    heard.warnings().iter().for_each(|warning| output.say(warning));
    Ok(exit)
}

/// What is said where nothing that others kept was compared.
const UNCOMPARED: &str = "no witness, and no head that was kept elsewhere: the end can't be proved. That it was cut off, or all of it rewritten with the key, can't be told (`audit.witness`)";

/// Returns what can't be told of the trail, as a terminal may be shown it.
fn warnings(report: &AuditReport, now: Timestamp) -> Vec<String> {
    report.warnings(now).iter().map(|warning| plain(warning)).collect()
}

/// Returns what is missing in the trail, as a terminal may be shown it.
fn notices(report: &AuditReport, is_compared: bool) -> Vec<String> {
    let uncompared = (report.head.seq > 0 && !is_compared).then(|| UNCOMPARED.to_owned());
    let others = report.notices(is_compared).into_iter().map(|notice| plain(&notice));
    uncompared.into_iter().chain(others).collect()
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

/// Prunes the trail as the configuration says.
async fn prune(dry_run: bool, surroundings: &Surroundings) -> Result<(), Error> {
    let (loaded, output) = (surroundings.load()?, &surroundings.output);
    let (store, now) = (surroundings.store(&loaded)?, Timestamp::now());
    let bound = retention(&loaded).audit_bound(now);
    if bound.is_empty() {
        output.say("`retention.audit` sets no bound, so everything is kept");
    }
    let due = match bound.is_empty() {
        true => PrunableAudit::default(),
        false => store.prunable_audit(bound, MOST_PRUNED).await?,
    };
    let (mut gone, by) = (0, answerer::who("the command line"));
    while !dry_run && !bound.is_empty() {
        let went = store.prune_audit(bound, MOST_PRUNED, now, &by).await?;
        gone += went;
        if went == 0 {
            break;
        }
    }
    if output.is_json() {
        let pruned = if dry_run { json!(null) } else { json!(gone) };
        return Ok(output.json(&json!({ "due": due, "pruned": pruned }))?);
    }
    let PrunableAudit { entries, decisions, first, last } = due;
    match (dry_run, entries) {
        (_, 0) => output.say("nothing is to go"),
        (true, _) => output.text(&format!(
            "would prune {entries} entries between {first} and {last}, {decisions} of them decisions"
        ))?,
        (false, _) => {
            output.text(&format!("pruned {gone} entries; the trail says which, and their digests stay"))?;
        }
    }
    Ok(())
}

/// Makes a key for the digests of what was judged. It counts once `audit.digest_key` names it.
fn keygen(file: &Path, output: &Output) -> Result<(), Error> {
    let name = file.display();
    let key =
        DigestKey::create(file).map_err(|error| Error::Failed(format!("`{name}` is no key: {error}")))?;
    if output.is_json() {
        output.json(&json!({ "digestKey": key.id(), "file": file }))?;
    } else {
        output.text(key.id())?;
    }
    output.say(&format!(
        "the key is in `{}`: keep a copy where the trail's readers can't read it; without it nobody can compare a call with the trail\nhint: name the file in `audit.digest_key`",
        plain(&name.to_string())
    ));
    Ok(())
}

/// Hands the trail over to another key.
async fn rotate(store: &dyn Store, output: &Output) -> Result<(), Error> {
    let by = answerer::who("the command line");
    let rotated = store.rotate_audit_key(Timestamp::now(), &by).await?;
    if output.is_json() {
        return Ok(output.json(&json!({ "key": rotated.key, "was": rotated.was }))?);
    }
    output.say("give the new key to whoever checks proofs and checkpoints of this trail");
    Ok(output.text(&format!("{} signs now, in place of {}", rotated.key, rotated.was))?)
}

#[cfg(test)]
mod tests {
    use backstop::store::{AuditLate, AuditProcess};

    use super::*;

    #[test]
    fn the_name_of_a_process_drives_no_terminal() {
        let processes = vec!["\u{1b}[2Jx\u{202e}".to_owned()];
        let late = vec![AuditLate { told: 9, from: 1, through: 8, processes, others: 0 }];
        let process = "\u{1b}[2Jy".to_owned();
        let processes = vec![AuditProcess { process, missing: 1, last: 3, unended: true }];
        let report = AuditReport { late, processes, ..AuditReport::default() };
        let told = [warnings(&report, Timestamp::now()), notices(&report, true)].concat().join("\n");
        assert!(told.contains('x') && told.contains('y'), "{told:?}");
        assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
    }
}
