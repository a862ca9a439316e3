//! `backstop audit`.

mod witness;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::witness::Heard;
use backstop::config::Loaded;
use backstop::store::{
    AuditHead, AuditLate, AuditProcess, AuditReport, AuditStep, AuditUnproved, DigestKey, PrunableAudit,
    Store, Timestamp,
};
use backstop::{HeadKey, SignedHead, Witnesses, audit_key, check_audit_proof, kept_key_file, retention};
use serde_json::{Value, json};

use crate::commands::answerer;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, plain};
use crate::session::{Surroundings, environment};

/// How old an entry is at which a checkpoint should cover it: six times what it takes at most.
const OVERDUE: Duration = Duration::from_secs(60);
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
    let overdue = checkpoints.uncovered_since.is_some_and(|since| since.until(Timestamp::now()) > OVERDUE);
    let is_unchecked = checkpoints.count > 0 && checkpoints.key.is_none();
    let is_proved = !overdue
        && !is_unchecked
        && checkpoints.foreign == 0
        && report.unproved.is_empty()
        && (report.late.is_empty() || !strict)
        && heard.silent.is_empty();
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
    if is_unchecked {
        output.say(UNCHECKED);
    }
    if checkpoints.foreign > 0 {
        output.say(&foreign(checkpoints.foreign));
    }
    if overdue {
        output.say(&uncovered(report));
    }
    report.unproved.iter().for_each(|entries| output.say(&unproved(entries)));
    report.late.iter().for_each(|entries| output.say(&late(entries)));
    heard.warnings().iter().for_each(|warning| output.say(warning));
    Ok(exit)
}

/// What is said where signatures were not checked, and what to do.
const UNCHECKED: &str = "warning: the signatures of its checkpoints were not checked, since the key can't be read here: whoever can write the trail may have made them\n\
                         hint: `--trail-key` takes the public key that `backstop audit verify` prints where the trail is written";

/// Returns what is said of checkpoints of witnesses that no key of the trail has signed.
fn foreign(count: u64) -> String {
    format!(
        "warning: {count} of the checkpoints that witnesses keep are signed by no key of this trail, and say nothing: somebody put them there, or changed them, or the key was replaced without `backstop audit rotate`"
    )
}

/// Returns what can't be told of entries that were damaged or without a checkpoint, and what to do.
fn unproved(AuditUnproved { told, from, through }: &AuditUnproved) -> String {
    format!(
        "warning: when entry {told} was written, no checkpoint covered the entries {from} to {through}, or one of them was damaged: whether they were changed before can't be told\n\
         hint: `backstop log --kind recovered` says what was found; compare with a head or a backup from before"
    )
}

/// Returns what can't be told of entries that were signed late, and what to do.
fn late(AuditLate { told, from, through, processes, others }: &AuditLate) -> String {
    let others = if *others > 0 { format!(" and {others} others") } else { String::new() };
    format!(
        "note: the entries {from} to {through}, of process {}{others}, were found without a checkpoint when entry {told} was written, as a killed process leaves them, and are signed since: nothing proves that they were not changed before, nor that others did not stand there\n\
         hint: where no process was killed then, somebody may have cut the end off; only a witness (`audit.witness`), or a head from before, shows that",
        plain(&processes.join(", "))
    )
}

/// Returns what can't be told of entries that should be signed by now, and what to do.
fn uncovered(report: &AuditReport) -> String {
    let AuditReport { head, checkpoints, impaired, .. } = report;
    let since = checkpoints.uncovered_since.map(|since| since.to_string()).unwrap_or_default();
    let what = match checkpoints.covered {
        0 => format!(
            "warning: the audit trail has no signed checkpoint: whether its {} entries were changed, moved or removed can't be told",
            head.seq
        ),
        covered => format!(
            "warning: no checkpoint covers the entries behind {covered}, the first of which is of {since}: whether they were changed can't be told"
        ),
    };
    let hint = match impaired {
        0 => {
            "hint: a checkpoint is written within ten seconds of an entry, unless its process is killed. Then the next process that writes signs them and says so, as `backstop audit witness` does; otherwise somebody may have removed checkpoints: compare with a head or a backup"
        }
        _ => "hint: `backstop log --kind impaired` shows what could not be written",
    };
    format!("{what}\n{hint}")
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
        unproved: _,
        late: _,
        impaired,
        omitted,
        unnamed,
        torn,
    } = report;
    let mut notices = Vec::new();
    if head.seq > 0 && !is_compared {
        let hint = "no witness, and no head that was kept elsewhere: the end can't be proved. That it was cut off, or all of it rewritten with the key, can't be told (`audit.witness`)";
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
        let process = plain(process);
        notices.push(format!(
            "process {process} {ended}: its last entry is number {last}, {missing} are missing"
        ));
    }
    if *recovered > 0 {
        notices.push(format!(
            "{recovered} times something damaged was put aside, or a checkpoint was missing (`backstop log --kind recovered`)"
        ));
    }
    if *impaired > 0 {
        notices.push(format!(
            "{impaired} times a checkpoint or another file besides the entries could not be written (`backstop log --kind impaired`)"
        ));
    }
    if *omitted > 0 {
        notices.push(format!("{omitted} entries were too large, and others that say so are in their place"));
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
    use super::*;

    #[test]
    fn the_name_of_a_process_drives_no_terminal() {
        let processes = vec!["\u{1b}[2Jx\u{202e}".to_owned()];
        let told = late(&AuditLate { told: 9, from: 1, through: 8, processes, others: 0 });
        assert!(told.contains("x") && !told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
    }
}
