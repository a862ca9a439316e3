//! The policies by which a daemon judges: for each set of configuration texts the hooks made of it.
//!
//! A policy is kept while everything it was made of is what it was: the texts of its files, the rule packs beside them,
//! and the day, since exceptions expire at the end of one. The files are looked at for each event, so that a change
//! holds from the next event on, as it does for a hook that judges alone.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backstop::clients::{Attended, Client, ClientEvent};
use backstop::config::account::Account;
use backstop::config::{LayerKind, Loaded, Source};
use backstop::engine::ReceiptSink;
use backstop::hooks::Sight;
use backstop::plugins::LIST;
use backstop::store::{AnswerStore, Store};
use backstop::{Backstop, FoundStore, Pin, StorePlace, Traces, digest_key_file, store_files};
use tokio::sync::Mutex;

use super::Said;
use super::heard::Heard;
use super::protocol::{Question, Viewpoint};
use super::twins::Twins;
use crate::commands::gateway::tell_lost;
use crate::commands::hook::{Unjudged, folder, judged, read_event, recorded};
use crate::error::Error;
use crate::session::{Surroundings, builder};
use crate::system;

/// The most policies that are kept. More folders than that with files of their own seldom work at once.
const MOST_KEPT: usize = 32;
/// How long the end of the daemon waits until spans are sent.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// How long the end of the daemon waits until a trail is signed.
const LAST_ENTRIES: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_hours(24);

/// What a policy is made of.
#[derive(Clone, Debug, PartialEq)]
struct Ingredients {
    /// The data folder, which says whose policy it is.
    whose: PathBuf,
    sources: Vec<Source>,
    packs: Vec<(PathBuf, Option<(u64, SystemTime)>)>,
    plugins: Plugins,
    day: u64,
}

impl Ingredients {
    /// Whether these texts, on this day, with the packs as they are now, make the same policy.
    fn still_hold(&self, whose: &Path, sources: &[Source], day: u64) -> bool {
        self.day == day
            && self.whose == whose
            && self.sources == sources
            && self.packs.iter().all(|(path, seen)| stamp(path) == *seen)
            && self.plugins.still_hold()
    }

    /// Whether what was made of these can't be asked for again, now that `next` is made of other texts of the same files, or of the
    /// same texts since something beside them has changed.
    fn is_outdated_by(&self, next: &Self) -> bool {
        let has_another_text = |source: &Source| {
            next.sources.iter().any(|next| next.name == source.name && next.text != source.text)
        };
        self.day != next.day
            || self.whose == next.whose
                && (self.sources == next.sources || self.sources.iter().any(has_another_text))
    }
}

/// The list of trusted plugins, as it was when they were loaded. Whatever is done with plugins writes it anew, and it says which content of
/// each is trusted and on. It is read and not stamped: two changes at one time may leave size and time as they were.
#[derive(Clone, Debug, PartialEq)]
struct Plugins {
    list: PathBuf,
    text: Result<Vec<u8>, ErrorKind>,
}

impl Plugins {
    fn now(list: PathBuf) -> Self {
        let text = std::fs::read(&list).map_err(|error| error.kind());
        Self { list, text }
    }

    fn still_hold(&self) -> bool {
        Self::now(self.list.clone()) == *self
    }
}

/// Size and time of a file, by which a change is noticed.
fn stamp(path: &Path) -> Option<(u64, SystemTime)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.len(), found.modified().ok()?))
}

fn today() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() / DAY.as_secs()
}

struct Policy {
    ingredients: Ingredients,
    /// What a pin of it would say.
    pin: Arc<Pin>,
    backstop: Arc<Backstop>,
    /// What sends its spans.
    traces: Option<Traces>,
}

/// Everything by which a daemon judges.
pub(crate) struct Policies {
    surroundings: Surroundings,
    viewpoint: Viewpoint,
    is_run: bool,
    watch: Arc<dyn ReceiptSink>,
    /// Where questions and answers are kept, if not in the database.
    answers: Option<Arc<dyn AnswerStore>>,
    /// The one used last stands last.
    kept: Mutex<Vec<Policy>>,
    /// Databases by their path, the one used last at the end.
    stores: Mutex<Vec<(StorePlace, Arc<dyn Store>)>>,
    twins: Twins,
    heard: Arc<Heard>,
    /// The one client whose events count for that.
    heard_of: Option<Client>,
}

impl Policies {
    /// None yet; `watch` is shown every receipt, `answers` are where people answer if not in the database. `is_run`: hooks
    /// are sent here by `backstop run`.
    pub(crate) fn new(
        surroundings: &Surroundings,
        watch: Arc<dyn ReceiptSink>,
        answers: Option<Arc<dyn AnswerStore>>,
        is_run: bool,
    ) -> Self {
        Self {
            surroundings: surroundings.clone(),
            viewpoint: Viewpoint::of(surroundings),
            is_run,
            watch,
            answers,
            kept: Mutex::default(),
            stores: Mutex::default(),
            twins: Twins::default(),
            heard: Arc::default(),
            heard_of: None,
        }
    }

    /// Why a hook is to judge alone, if it is.
    pub(super) fn declines(&self, question: &Question) -> Option<&'static str> {
        self.viewpoint.difference(&question.viewpoint, self.is_run)
    }

    /// Judges an event as a hook of its own would, and has the record written before it answers.
    pub(super) async fn judge(&self, question: &Question, payload: &[u8]) -> Result<Said, Unjudged> {
        let client = question.client();
        let client = client.ok_or_else(|| Unjudged(format!("no client is called `{}`", question.client)))?;
        let here = Path::new(&question.folder);
        let event = read_event(client, payload, question.event.as_deref(), Some(here))?;
        let event = event.attended(question.attended.into());
        if self.heard_of.is_none_or(|meant| meant == client) {
            self.heard.note();
        }
        self.twins.once(&event, &question.folder, payload, Box::pin(self.judge_event(question, &event))).await
    }

    /// Notes in `heard` that a first event has come to be judged: one of that client, or of any.
    #[must_use]
    pub(crate) fn noting(self, heard: Arc<Heard>, heard_of: Option<Client>) -> Self {
        Self { heard, heard_of, ..self }
    }

    /// Why the service of all users does not take a question, if it does not.
    pub(super) fn turns_away(&self, question: &Question) -> Option<&'static str> {
        if question.claims.is_none() {
            Some("this is the service of all users, and no daemon of this user")
        } else if !self.viewpoint.has_version_of(&question.viewpoint) {
            Some("the service is another version of Backstop, and has to be started again by root")
        } else {
            None
        }
    }

    /// Judges an event of another user's client: by the operator's configuration, tightened by what the hook claims, over that
    /// user's own database.
    pub(super) async fn judge_for(
        &self,
        account: &Account,
        question: &Question,
        payload: &[u8],
        sight: Sight,
    ) -> Result<Said, Unjudged> {
        let client = question.client();
        let client = client.ok_or_else(|| Unjudged(format!("no client is called `{}`", question.client)))?;
        let here = Path::new(&question.folder);
        let event = read_event(client, payload, question.event.as_deref(), Some(here))?;
        let event = event.seen_through(sight).attended(Attended::No);
        let judge = async {
            let folders = system::folders_of(account, &self.surroundings)?;
            let surroundings = self.surroundings.fixed(folders);
            let mut sources = surroundings.operator_sources()?;
            let claims = question.claims.iter().flat_map(|claims| &claims.layers);
            sources
                .extend(claims.map(|(name, text)| Source::new(LayerKind::Repository, name, text.as_str())));
            let (policy, _) = self.made(sources, &surroundings).await?;
            self.answer_of(policy, question, &event).await
        };
        let whose = format!("{}:{}", account.uid, question.folder);
        self.twins.once(&event, &whose, payload, Box::pin(judge)).await
    }

    async fn judge_event(&self, question: &Question, event: &ClientEvent) -> Result<Said, Unjudged> {
        let folder = folder(event, Path::new(&question.folder));
        let sources = self.surroundings.sources_in(&folder)?;
        let (policy, pin) = self.made(sources, &self.surroundings).await?;
        if question.pinned && !self.is_runs_own() {
            self.surroundings.check_pin(&pin)?;
        }
        self.answer_of(policy, question, event).await
    }

    async fn answer_of(
        &self,
        policy: Arc<Backstop>,
        question: &Question,
        event: &ClientEvent,
    ) -> Result<Said, Unjudged> {
        let reply =
            judged(&policy, event, Duration::from_millis(question.patience_ms), true, question.parent())
                .await;
        let complete = match policy.audit() {
            Some(audit) => audit.flush().await,
            None => true,
        };
        release(policy).await;
        recorded(event.frame.client(), reply, complete)
    }

    /// Whether this is a run whose operator's file was named on its command line: a person has said just then what
    /// holds.
    fn is_runs_own(&self) -> bool {
        self.is_run && self.surroundings.explicit_config().is_some()
    }

    /// The policy that these texts make for whose surroundings these are.
    async fn made(
        &self,
        sources: Vec<Source>,
        surroundings: &Surroundings,
    ) -> Result<(Arc<Backstop>, Arc<Pin>), Error> {
        let day = today();
        let whose = surroundings.data_folder()?;
        let mut kept = self.kept.lock().await;
        let is_it = |policy: &Policy| policy.ingredients.still_hold(&whose, &sources, day);
        if let Some(place) = kept.iter().position(is_it) {
            let policy = kept.remove(place);
            let found = (Arc::clone(&policy.backstop), Arc::clone(&policy.pin));
            kept.push(policy);
            return Ok(found);
        }
        let loaded = surroundings.load_sources(&sources)?;
        if self.surroundings.is_fixed() && system::names_database(&loaded) {
            return Err(system::one_database_for_all());
        }
        let pin = Arc::new(surroundings.pin_of(&sources)?);
        // A hook that judges alone reads the key of digests and the password anew, too.
        let secrets = digest_key_file(&loaded).into_iter().chain(store_files(&loaded).password);
        let packs = backstop::policy_files(&loaded).into_iter().chain(secrets);
        let packs = packs.map(|path| (stamp(&path), path));
        let packs = packs.map(|(stamp, path)| (path, stamp)).collect();
        let plugins = Plugins::now(surroundings.plugins_folder()?.join(LIST));
        let store = self.store(&loaded, surroundings).await?;
        let watch = Arc::clone(&self.watch);
        let is_strict = loaded.config.agent.approvals.strict.value;
        let hosts = backstop::server_hosts(&backstop::gateway_hooks(&loaded), true);
        let mut policy =
            builder(loaded, surroundings).home(surroundings.variable("HOME").unwrap_or_default());
        if self.surroundings.is_fixed() {
            // The account of the service asks for nobody.
            policy = policy.account(None);
        }
        // Rows of the service are out of everybody's reach already.
        if is_strict && !self.surroundings.is_fixed() {
            // Set after this process was started, as a change of the file does.
            let answers = self.answers.clone().ok_or_else(|| Error::Failed(
                "`agent.approvals.strict` was not set when this daemon was started, so it has no place for answers\nhint: start it again".to_owned(),
            ))?;
            policy = policy.answer_store(answers);
        }
        let policy = policy.hosts(hosts).store(store).shared_decisions(true);
        let mut built = policy.sink(watch).build().await?;
        // Spans are sent at the end, not whenever a policy goes.
        let traces = built.take_over_traces();
        let backstop = Arc::new(built);
        let ingredients = Ingredients { whose, sources, packs, plugins, day };
        let (outdated, current): (Vec<_>, Vec<_>) = std::mem::take(&mut *kept)
            .into_iter()
            .partition(|policy| policy.ingredients.is_outdated_by(&ingredients));
        *kept = current;
        let surplus = (kept.len() + 1).saturating_sub(MOST_KEPT);
        let gone: Vec<_> = kept.drain(..surplus).chain(outdated).collect();
        kept.push(Policy { ingredients, pin: Arc::clone(&pin), backstop: Arc::clone(&backstop), traces });
        drop(kept);
        for policy in gone {
            release(policy.backstop).await;
        }
        Ok((backstop, pin))
    }

    /// What this process is called in the trail.
    fn program(&self) -> &'static str {
        if self.is_run { "hooks of run" } else { "daemon" }
    }

    /// The store that the configuration names, with the key that digests in its trail have by it.
    async fn store(&self, loaded: &Loaded, surroundings: &Surroundings) -> Result<Arc<dyn Store>, Error> {
        let variable = |name: &str| surroundings.variable(name);
        let (place, store) = FoundStore::of(loaded, &variable)?.open()?;
        let store = store.shared();
        let id = |store: &dyn Store| store.digest_key().map(|key| key.id().to_owned());
        let mut stores = self.stores.lock().await;
        let is_it = |(known, of): &(StorePlace, Arc<dyn Store>)| {
            *known == place && id(of.as_ref()) == id(store.as_ref())
        };
        let found = match stores.iter().position(is_it) {
            Some(found) => stores.remove(found),
            None => {
                let is_audited = loaded.config.audit.enabled.value;
                if is_audited {
                    if store.announce_audit(self.program()).await.is_err() {
                        tracing::warn!("the audit trail does not say that this process began");
                    }
                    // Nobody waits for it.
                    let told = Arc::clone(&store);
                    tokio::spawn(async move { tell_lost(told.as_ref()).await });
                }
                (place, store)
            }
        };
        let surplus = (stores.len() + 1).saturating_sub(MOST_KEPT);
        // Policies that still have one write on; whoever lets go of it last ends its part of the trail.
        stores.drain(..surplus);
        let store = Arc::clone(&found.1);
        stores.push(found);
        Ok(store)
    }

    /// Takes every policy down. Answers whether the audit trail is complete.
    pub(super) async fn shut_down(&self) -> bool {
        let mut complete = true;
        let mut sending = Vec::new();
        for policy in std::mem::take(&mut *self.kept.lock().await) {
            complete &= release(policy.backstop).await;
            sending.extend(policy.traces);
        }
        for (_, store) in std::mem::take(&mut *self.stores.lock().await) {
            complete &=
                matches!(tokio::time::timeout(LAST_ENTRIES, store.conclude_audit()).await, Ok(Ok(())));
        }
        let sent = async {
            for traces in &sending {
                traces.flush().await;
            }
        };
        // What is not sent by then goes with this process.
        let _ = tokio::time::timeout(LAST_SPANS, sent).await;
        complete
    }
}

/// Lets go of a policy; whoever is the last takes it down. Answers whether its record is complete, as far as is
/// known here.
async fn release(backstop: Arc<Backstop>) -> bool {
    match Arc::into_inner(backstop) {
        Some(last) => last.shut_down().await,
        None => true,
    }
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policies").field("viewpoint", &self.viewpoint).finish_non_exhaustive()
    }
}
