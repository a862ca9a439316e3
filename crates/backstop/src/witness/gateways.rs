//! The other gateways of a database as witnesses: each leaves its checkpoints there, and takes those of the others into its own trail.
//!
//! Whoever rewrites one trail has to rewrite those of all gateways, on all their machines. What lies in the database alone proves less: whoever can
//! write it can take it out. So the trails of the others are what counts in the end, and [`read`] reads what one of them says.
//!
//! The law: *nothing beside a genuine checkpoint hides it in silence*. Of each trail those are read that came since it was looked at last, and each new one is taken in; what is no
//! checkpoint, or too much, or in doubt is told.
//!
//! The limits: nobody but a trail's own gateway has its keys, so the others compare only what notes say of their keys, which anybody can write. That
//! something else than its own was left as its checkpoint is told by the gateway itself, for certain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use backstop_store::{
    AuditEntry, AuditFilter, AuditPlace, Durability, LeftCheckpoint, LeftCheckpoints, MOST_SHOWN_CHECKPOINTS,
    NewAuditEntry, PEER_CHECKPOINT, ProveAuditError, Store, Timestamp, audit_in,
};
use backstop_trail::SignedCheckpoint;
use serde_json::json;

use super::{JOINED, Lately, WitnessError, Witnessed, fitting, is_signed, newest, own_keys};

/// The most trails of others that are taken into this one. They are those that were left last.
const MOST_PEERS: usize = 1_000;
/// The most of them at once of which this process has taken in none yet.
const MOST_NEW_PEERS: usize = 100;
/// Of how many trails at once all that is kept is read, since more came than are shown.
const MOST_CROWDED: usize = 50;
/// How many entries of another trail are read at once.
const PAGE: usize = 1_000;
/// How many entries of this trail are looked at for what was taken in before, and in how many pages at most.
const MOST_KNOWN: usize = 2_000;
const MOST_KNOWN_PAGES: usize = 16;

/// What names the keys by which a trail's checkpoint says that it is signed.
type KeyIds = BTreeSet<[u8; 4]>;

/// The database, where gateways leave checkpoints for each other.
#[derive(Debug)]
pub(super) struct Gateways {
    lately: Lately,
    /// What was taken in of each trail that is there; nothing before this trail was asked for it.
    taken: Mutex<Option<BTreeMap<String, Taken>>>,
}

/// What was taken in of a trail.
#[derive(Debug, Default, PartialEq, Eq)]
struct Taken {
    notes: BTreeSet<String>,
    /// The newest one, and the keys that it names.
    newest: Option<String>,
    keys: KeyIds,
}

impl Default for Gateways {
    fn default() -> Self {
        Self { lately: Lately::every(JOINED), taken: Mutex::default() }
    }
}

impl Gateways {
    /// Returns whether a checkpoint is to be left again.
    pub(super) fn is_due(&self) -> bool {
        self.lately.is_due()
    }

    /// Compares what was left of this trail, leaves its newest checkpoint, and takes in those of the others.
    pub(super) async fn tell(&self, store: &dyn Store) -> Result<Witnessed, WitnessError> {
        let (keys, ours) = (own_keys(store).await?, newest(store).await?);
        if !is_signed(&ours, &keys) {
            return Err(WitnessError::NotOurs);
        }
        let (kept, unreadable) = left(store).await?;
        let (signed, foreign): (Vec<SignedCheckpoint>, Vec<SignedCheckpoint>) =
            kept.into_iter().partition(|note| is_signed(note, &keys));
        let ours = match signed.first() {
            Some(known) => fitting(store, known).await?,
            None => ours,
        };
        let (origin, entries) = (ours.checkpoint().origin.clone(), ours.checkpoint().size);
        let checkpoint = ours.to_string();
        let leaving = LeftCheckpoint { origin: origin.clone(), entries, checkpoint: checkpoint.clone() };
        store.leave_checkpoint(leaving, Timestamp::now()).await.map_err(WitnessError::Store)?;
        if !left(store).await?.0.contains(&ours) {
            return Err(WitnessError::NotKept);
        }
        let doubt = self.take_in(store, &origin).await?;
        self.lately.keep();
        let planted = unreadable.saturating_add(u64::try_from(foreign.len()).unwrap_or(u64::MAX));
        match (planted, doubt) {
            (0, None) => Ok(Witnessed { entries, at: None, checkpoint }),
            (0, Some(doubt)) => Err(doubt),
            (planted, _) => Err(WitnessError::Planted(planted)),
        }
    }

    /// Writes what the others left last into this trail, as far as it is new. Returns what is wrong with it.
    async fn take_in(&self, store: &dyn Store, origin: &str) -> Result<Option<WitnessError>, WitnessError> {
        let known = self.taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        let known = match known {
            Some(known) => known,
            None => taken_before(store).await?,
        };
        let mut found =
            store.checkpoints_of_others(origin, MOST_PEERS + 1).await.map_err(WitnessError::Store)?;
        let crowded = crowded(&found, &known);
        for origin in crowded.iter().take(MOST_CROWDED) {
            let all = store.left_checkpoints(origin).await.map_err(WitnessError::Store)?;
            let shown: Vec<_> = found.found.iter().filter(|left| left.origin == *origin).cloned().collect();
            found.found.extend(all.found.into_iter().filter(|left| !shown.contains(left)));
            found.unread = found.unread.saturating_add(all.unread);
        }
        let round = Round { crowded: crowded.len().saturating_sub(MOST_CROWDED), ..Round::of(found, known) };
        if !round.new.is_empty() {
            let entries = round.new.iter().map(entry).collect();
            store.append_audit_all(entries, Durability::Soon).await.map_err(WitnessError::Written)?;
        }
        let doubt = round.doubt();
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(round.taken);
        Ok(doubt)
    }

    /// Returns the checkpoints of this trail that are in the database, and what is wrong with others there. By whom they are signed is asked by
    /// whoever compares.
    pub(super) async fn kept(
        &self,
        store: &dyn Store,
    ) -> Result<(Vec<String>, Option<WitnessError>), WitnessError> {
        let (kept, unreadable) = left(store).await?;
        let untold = (unreadable > 0).then_some(WitnessError::Unreadable(unreadable));
        match (kept.is_empty(), untold) {
            (true, None) => Err(WitnessError::Empty),
            (true, Some(why)) => Err(why),
            (false, untold) => Ok((kept.iter().map(SignedCheckpoint::to_string).collect(), untold)),
        }
    }
}

/// What a look at the checkpoints of the others comes to.
#[derive(Debug, Default)]
struct Round {
    /// What is to be written into this trail.
    new: Vec<LeftCheckpoint>,
    /// What is in it then, of each trail that is there.
    taken: BTreeMap<String, Taken>,
    /// How many rows are no checkpoints.
    unreadable: u64,
    /// The trails that are not taken in, since there are too many of them.
    beyond: BTreeSet<String>,
    /// How many trails have checkpoints by different keys.
    doubtful: usize,
    /// Of how many trails more came than was looked at.
    crowded: usize,
}

/// Returns the trails of which more may have come than are shown: as many as can be, and not the one that was the newest when they were looked at last. Somebody
/// may have put these over a genuine one. Another one that is known proves nothing: it can have been put there again.
fn crowded(all: &LeftCheckpoints, known: &BTreeMap<String, Taken>) -> Vec<String> {
    let mut trails: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    for left in &all.found {
        let last = known.get(&left.origin).and_then(|taken| taken.newest.as_deref());
        let is_last = last == Some(&*left.checkpoint) && keys_of(left).is_some();
        let (count, leads_back) = trails.entry(&left.origin).or_default();
        *count += 1;
        *leads_back |= is_last;
    }
    let crowded =
        trails.into_iter().filter(|(_, (count, leads_back))| *count >= MOST_SHOWN_CHECKPOINTS && !leads_back);
    // Those that are known come before those of which nothing was ever seen, which may be made up.
    let mut crowded: Vec<String> = crowded.map(|(origin, _)| origin.to_owned()).collect();
    crowded.sort_by_key(|origin| !known.contains_key(origin));
    crowded
}

impl Round {
    /// What is no longer found is not remembered.
    fn of(all: LeftCheckpoints, mut known: BTreeMap<String, Taken>) -> Self {
        let mut round = Self { unreadable: all.unread, ..Self::default() };
        let mut trails: BTreeMap<String, Vec<(LeftCheckpoint, KeyIds)>> = BTreeMap::new();
        let mut fresh = 0;
        for left in all.found {
            let Some(keys) = keys_of(&left) else {
                round.unreadable += 1;
                continue;
            };
            if !trails.contains_key(&left.origin) {
                let is_fresh = !known.contains_key(&left.origin);
                if trails.len() >= MOST_PEERS || (is_fresh && fresh >= MOST_NEW_PEERS) {
                    round.beyond.insert(left.origin);
                    continue;
                }
                fresh += usize::from(is_fresh);
            }
            trails.entry(left.origin.clone()).or_default().push((left, keys));
        }
        for (origin, notes) in trails {
            let before = known.remove(&origin).unwrap_or_default();
            round.add(origin, notes, &before);
        }
        round
    }

    /// Adds what was left of a trail, the newest first.
    fn add(&mut self, origin: String, notes: Vec<(LeftCheckpoint, KeyIds)>, before: &Taken) {
        let keys = notes.iter().map(|(_, keys)| keys);
        if !are_joined(keys.chain((!before.keys.is_empty()).then_some(&before.keys))) {
            self.doubtful += 1;
        }
        let (newest, keys) = notes.first().cloned().map(|(left, keys)| (left.checkpoint, keys)).unzip();
        let mut taken = Taken { notes: BTreeSet::new(), newest, keys: keys.unwrap_or_default() };
        for (left, _) in notes.into_iter().rev() {
            if taken.notes.insert(left.checkpoint.clone()) && !before.notes.contains(&left.checkpoint) {
                self.new.push(left);
            }
        }
        self.taken.insert(origin, taken);
    }

    /// Returns what is wrong.
    fn doubt(&self) -> Option<WitnessError> {
        let Self { unreadable, doubtful, crowded, .. } = *self;
        let beyond = self.beyond.len();
        if (unreadable, doubtful, beyond, crowded) == (0, 0, 0, 0) {
            return None;
        }
        tracing::warn!(
            unreadable,
            doubtful,
            beyond,
            crowded,
            "not all that is in the database as checkpoints of other gateways' trails is what it should be"
        );
        Some(match (doubtful, beyond, crowded) {
            (0, 0, 0) => WitnessError::UnreadablePeers(unreadable),
            (0, 0, crowded) => WitnessError::Crowded(crowded),
            (0, beyond, _) => WitnessError::TooManyPeers(beyond),
            (doubtful, ..) => WitnessError::Foreign(doubtful),
        })
    }
}

/// Returns whether each of these has a key that another one has, so that all are joined, as those of a trail are whose key was rotated.
fn are_joined<'k>(keys: impl Iterator<Item = &'k KeyIds>) -> bool {
    let mut rest: Vec<&KeyIds> = keys.collect();
    let mut joined = rest.pop().cloned().unwrap_or_default();
    loop {
        let before = rest.len();
        rest.retain(|keys| {
            let is_apart = joined.is_disjoint(keys);
            if !is_apart {
                joined.extend(keys.iter().copied());
            }
            is_apart
        });
        if rest.is_empty() {
            return true;
        }
        if rest.len() == before {
            return false;
        }
    }
}

/// Returns what was left of this trail, with the most entries first, and how many rows are none, or were not read.
async fn left(store: &dyn Store) -> Result<(Vec<SignedCheckpoint>, u64), WitnessError> {
    let origin = store.audit_origin().await?;
    let LeftCheckpoints { found, unread: mut unreadable } =
        store.left_checkpoints(&origin).await.map_err(WitnessError::Store)?;
    let mut notes = Vec::new();
    for left in found {
        match left.checkpoint.parse::<SignedCheckpoint>() {
            Ok(note) if is_of(&note, &left) => notes.push(note),
            _ => unreadable += 1,
        }
    }
    Ok((notes, unreadable))
}

fn is_of(note: &SignedCheckpoint, left: &LeftCheckpoint) -> bool {
    note.checkpoint().origin == left.origin && note.checkpoint().size == left.entries
}

/// Returns by which keys a checkpoint of the trail that it is said to be of says that it is signed; `None` for anything else. By whom it is signed is
/// asked by whoever has that trail's key.
fn keys_of(left: &LeftCheckpoint) -> Option<KeyIds> {
    let note = left.checkpoint.parse::<SignedCheckpoint>().ok()?;
    let keys = note.own_key_ids();
    (is_of(&note, left) && !keys.is_empty()).then_some(keys)
}

fn entry(left: &LeftCheckpoint) -> NewAuditEntry {
    let body = json!({ "origin": left.origin, "entries": left.entries, "checkpoint": left.checkpoint });
    let (at, kind) = (Timestamp::now(), PEER_CHECKPOINT.to_owned());
    NewAuditEntry { at, kind, session: None, run: None, body: body.into() }
}

fn of_peers() -> AuditFilter {
    AuditFilter { kind: Some(PEER_CHECKPOINT.to_owned()), ..AuditFilter::default() }
}

fn text(entry: &AuditEntry, key: &str) -> Option<String> {
    entry.body.get(key).and_then(|value| value.as_str()).map(str::to_owned)
}

/// Returns what the newest entries of this trail say that was taken into it.
async fn taken_before(store: &dyn Store) -> Result<BTreeMap<String, Taken>, WitnessError> {
    let (filter, mut from, mut lacking) = (of_peers(), AuditPlace::END, MOST_KNOWN);
    let mut all: BTreeMap<String, Taken> = BTreeMap::new();
    for _ in 0..MOST_KNOWN_PAGES {
        let page = store.audit_page(&filter, from, lacking.min(PAGE)).await.map_err(ProveAuditError::from)?;
        for entry in &page.entries {
            let (Some(origin), Some(checkpoint)) = (text(entry, "origin"), text(entry, "checkpoint")) else {
                continue;
            };
            let taken = all.entry(origin).or_default();
            taken.newest.get_or_insert_with(|| checkpoint.clone());
            // The newest comes first.
            if taken.keys.is_empty()
                && let Ok(note) = checkpoint.parse::<SignedCheckpoint>()
            {
                taken.keys = note.own_key_ids();
            }
            taken.notes.insert(checkpoint);
        }
        lacking = lacking.saturating_sub(page.entries.len());
        if page.ended || lacking == 0 {
            break;
        }
        from = page.next;
    }
    Ok(all)
}

/// Returns the checkpoints of this trail that the trail in another folder has taken in. Whether that one is whole is for `audit verify` there to say.
pub(super) async fn read(store: &dyn Store, folder: &Path) -> Result<Vec<String>, WitnessError> {
    let origin = store.audit_origin().await?;
    let (filter, mut kept, mut after) = (of_peers(), Vec::new(), 0);
    loop {
        let page = audit_in(folder, &filter, after, PAGE).await.map_err(ProveAuditError::from)?;
        let own = page.iter().filter(|entry| text(entry, "origin").as_deref() == Some(&*origin));
        kept.extend(own.filter_map(|entry| text(entry, "checkpoint")));
        match page.last() {
            Some(last) => after = last.seq,
            None if kept.is_empty() => return Err(WitnessError::NoWord),
            None => return Ok(kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use backstop_store::{
        AuditBody, AuditStore as _, CheckpointStore as _, MOST_LEFT_CHECKPOINTS, SqliteStore,
    };
    use backstop_trail::{Checkpoint, SigningKey};
    use tempfile::TempDir;

    use super::*;

    /// A gateway's trail in a folder, and keys of others beside it.
    struct Machine(TempDir);

    impl Machine {
        fn new() -> Self {
            Self(TempDir::new().unwrap())
        }

        fn store(&self) -> SqliteStore {
            SqliteStore::new(self.0.path().join("backstop.db"))
        }

        /// Adds an entry, and signs the end.
        async fn grow(&self) {
            let (kind, body) = ("test".to_owned(), AuditBody::of(&"grown"));
            let entry = NewAuditEntry { at: Timestamp::now(), kind, session: None, run: None, body };
            let store = self.store();
            store.append_audit_all(vec![entry], Durability::Now).await.unwrap();
            store.conclude_audit().await.unwrap();
        }

        /// Returns a checkpoint by another key, which is made where there is none of that name.
        fn note(&self, key: &str, origin: &str, entries: u64) -> LeftCheckpoint {
            let key = SigningKey::open(&self.0.path().join(key)).unwrap();
            let (origin, root) = (origin.to_owned(), [7; 32]);
            let checkpoint = Checkpoint { origin: origin.clone(), size: entries, root };
            LeftCheckpoint { origin, entries, checkpoint: checkpoint.signed(&[&key]).to_string() }
        }

        async fn tell(&self, gateways: &Gateways) -> Result<Witnessed, WitnessError> {
            let store = self.store();
            let told = gateways.tell(&store).await;
            store.conclude_audit().await.unwrap();
            told
        }

        async fn leave(&self, left: LeftCheckpoint) {
            self.store().leave_checkpoint(left, Timestamp::now()).await.unwrap();
        }

        /// Writes checkpoints into the database past the store, as whoever may write there can: that prunes none.
        fn plant(&self, origin: &str, many: usize) {
            let direct = rusqlite::Connection::open(self.0.path().join("backstop.db")).unwrap();
            for entries in 0..u64::try_from(many).unwrap() {
                let LeftCheckpoint { checkpoint, .. } = self.note("theirs", origin, 5_000 + entries);
                let sql =
                    "INSERT INTO checkpoints (origin, entries, checkpoint, left_at) VALUES (?1, ?2, ?3, 0)";
                direct.execute(sql, (origin, i64::try_from(5_000 + entries).unwrap(), checkpoint)).unwrap();
            }
        }

        /// What this trail has taken in, the oldest first.
        async fn taken(&self) -> Vec<String> {
            let entries = self.store().audit(&of_peers(), 0, 9_999).await.unwrap();
            entries.iter().filter_map(|entry| text(entry, "checkpoint")).collect()
        }
    }

    #[tokio::test]
    async fn a_planted_checkpoint_hides_no_genuine_one_and_is_told() {
        let machine = Machine::new();
        machine.grow().await;
        let gateways = Gateways::default();
        machine.leave(machine.note("theirs", "peer", 5)).await;
        machine.tell(&gateways).await.unwrap();
        machine.leave(machine.note("planted", "peer", 1_000_000)).await;
        machine.leave(machine.note("theirs", "peer", 6)).await;
        machine.leave(machine.note("planted", "peer", 2_000_000)).await;
        let told = machine.tell(&gateways).await;
        assert!(matches!(told, Err(WitnessError::Foreign(1))), "{told:?}");
        let expected = [("theirs", 5), ("planted", 1_000_000), ("theirs", 6), ("planted", 2_000_000)]
            .map(|(key, entries)| machine.note(key, "peer", entries).checkpoint);
        assert_eq!(machine.taken().await, expected);
    }

    /// Whoever plants as many as are shown, in the name of the trail and of its key, hides nothing by it.
    #[tokio::test]
    async fn however_many_are_planted_over_a_genuine_checkpoint_it_is_taken_in_or_it_is_told() {
        let machine = Machine::new();
        machine.grow().await;
        let gateways = Gateways::default();
        machine.leave(machine.note("theirs", "peer", 5)).await;
        machine.tell(&gateways).await.unwrap();
        let genuine = machine.note("theirs", "peer", 6);
        machine.leave(genuine.clone()).await;
        // What they say of their key is what the genuine one says.
        let plant = async |from: u64, many: usize| {
            for entries in from..from + u64::try_from(many).unwrap() {
                machine.leave(machine.note("theirs", "peer", entries)).await;
            }
        };
        plant(1_000, MOST_SHOWN_CHECKPOINTS + 1).await;
        machine.tell(&gateways).await.unwrap();
        assert!(machine.taken().await.contains(&genuine.checkpoint));
        // Over more than are kept it is told.
        machine.leave(machine.note("theirs", "peer", 7)).await;
        machine.plant("peer", MOST_LEFT_CHECKPOINTS + 1);
        let told = machine.tell(&gateways).await;
        assert!(matches!(told, Err(WitnessError::UnreadablePeers(_))), "{told:?}");
    }

    #[test]
    fn a_trail_is_read_again_where_what_is_shown_of_it_leads_back_to_nothing_known() {
        let machine = Machine::new();
        let notes = |many: usize| -> Vec<LeftCheckpoint> {
            let newest_first = (1..=u64::try_from(many).unwrap()).rev();
            newest_first.map(|entries| machine.note("theirs", "peer", entries)).collect()
        };
        let known = |entries: u64| {
            let newest = Some(machine.note("theirs", "peer", entries).checkpoint);
            BTreeMap::from([("peer".to_owned(), Taken { newest, ..Taken::default() })])
        };
        let mut all = LeftCheckpoints { found: notes(MOST_SHOWN_CHECKPOINTS), unread: 0 };
        assert_eq!(crowded(&all, &BTreeMap::new()), ["peer"]);
        assert!(crowded(&all, &known(1)).is_empty() && crowded(&all, &known(5)).is_empty());
        assert_eq!(crowded(&all, &known(99)), ["peer"]);
        // A row that has the words of the last one and is none proves nothing.
        all.found.pop();
        all.found.push(LeftCheckpoint { entries: 1, ..machine.note("theirs", "peer", 99) });
        assert_eq!(crowded(&all, &known(99)), ["peer"]);
        let few = LeftCheckpoints { found: notes(MOST_SHOWN_CHECKPOINTS - 1), unread: 0 };
        assert!(crowded(&few, &BTreeMap::new()).is_empty(), "all there are are shown");
    }

    #[tokio::test]
    async fn what_a_trail_has_taken_in_is_not_written_again_by_another_process() {
        let machine = Machine::new();
        machine.grow().await;
        for entries in [5, 6] {
            machine.leave(machine.note("theirs", "peer", entries)).await;
        }
        for _ in 0..2 {
            machine.tell(&Gateways::default()).await.unwrap();
        }
        assert_eq!(machine.taken().await.len(), 2);
    }

    #[tokio::test]
    async fn however_many_are_planted_as_checkpoints_of_a_trail_its_gateway_says_how_many() {
        let machine = Machine::new();
        machine.grow().await;
        let (store, gateways) = (machine.store(), Gateways::default());
        gateways.tell(&store).await.unwrap();
        let origin = store.audit_origin().await.unwrap();
        let planted = u64::try_from(MOST_LEFT_CHECKPOINTS).unwrap();
        for n in 0..planted {
            machine.leave(machine.note("planted", &origin, 1_000_000 + n)).await;
        }
        let told = gateways.tell(&store).await;
        assert!(matches!(told, Err(WitnessError::Planted(found)) if found == planted), "{told:?}");
        // Its own is there nevertheless.
        let keys = own_keys(&store).await.unwrap();
        let (kept, _) = left(&store).await.unwrap();
        assert_eq!(kept.iter().filter(|note| is_signed(note, &keys)).count(), 1);
    }

    #[test]
    fn gateways_join_their_trails_every_minute() {
        let gateways = Gateways::default();
        assert!(gateways.is_due());
        gateways.lately.keep();
        assert!(!gateways.is_due());
        *gateways.lately.told.lock().unwrap() = Instant::now().checked_sub(Duration::from_mins(1));
        assert!(gateways.is_due());
    }

    #[test]
    fn no_more_new_trails_are_taken_in_at_once_than_there_may_be_and_none_is_kept_that_is_gone() {
        let machine = Machine::new();
        let found = (0..=MOST_NEW_PEERS).map(|n| machine.note("theirs", &format!("peer/{n}"), 1)).collect();
        let found = LeftCheckpoints { found, unread: 0 };
        let known = BTreeMap::from([("gone".to_owned(), Taken::default())]);
        let round = Round::of(found.clone(), known);
        assert_eq!((round.new.len(), round.taken.len()), (MOST_NEW_PEERS, MOST_NEW_PEERS));
        assert!(matches!(round.doubt(), Some(WitnessError::TooManyPeers(1))));
        let next = Round::of(found, round.taken);
        assert_eq!((next.new.len(), next.taken.len()), (1, MOST_NEW_PEERS + 1));
        assert!(next.doubt().is_none());
        let rubbish = LeftCheckpoint { checkpoint: "none".to_owned(), ..machine.note("theirs", "peer", 1) };
        let round = Round::of(LeftCheckpoints { found: vec![rubbish], unread: 2 }, BTreeMap::new());
        assert!(matches!(round.doubt(), Some(WitnessError::UnreadablePeers(3))));
    }

    #[test]
    fn checkpoints_are_of_one_trail_where_one_that_both_keys_signed_joins_them() {
        let [one, both, other] =
            [&[1][..], &[1, 2], &[2]].map(|ids| ids.iter().map(|id| [*id; 4]).collect::<KeyIds>());
        assert!(are_joined([&one, &other, &both].into_iter()) && are_joined([&one].into_iter()));
        assert!(!are_joined([&one, &other].into_iter()));
    }
}
