//! What is known of conversations: a request costs what is new in it.
//!
//! Clients send the whole conversation with each request. The latest body of each conversation is kept with what its parts say: the
//! elements of the conversation, the tools, the system prompt. A part of the next body that has the same bytes says the same, so that
//! it is compared instead of read.
//!
//! Laws:
//!
//! - *Known is read.* What is found here is what [`LiveRequest::read_at`](super::LiveRequest::read_at) would read. Bytes are compared in
//!   full, whatever found them; a hash only says where to look. Whatever is strange is left to that reader, with its errors.
//! - *Only facts of the bytes are kept*: what a part says, how many values it has, which models it names, and what its
//!   [`Content`](backstop_hooks::conversation::Content) knows of itself. What depends on the place of an element (ids of calls
//!   that have none) is used again only behind the same elements.
//! - *Bounded in bytes* ([`KnownBodies::bytes`]); what a body needs in memory is counted with it, and a large body is not kept.
//! - *Never across*: one [`KnownBodies`] is one agent's, so that how fast an answer comes tells no agent what another one said.
//!
//! Limits: the bodies are kept as they came, with what hooks take out of them later; they are in memory only, and `Debug` shows none.

mod layout;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use backstop_hooks::conversation::{Content, Message};
use bytes::Bytes;
use foldhash::quality::RandomState;
use serde_json::Value;

use self::layout::{Before, Fields, Layout, Seen};
use crate::model::ToolDefinition;
use crate::wire::{Api, Budget, CallIds, DecodedRequest, Elements, RequestTarget, parse_part};

/// A smaller body is read faster than it is looked up.
const LEAST_BYTES: usize = 4 * 1_024;
/// A larger body is not kept: it is mostly pictures and files.
const MOST_BYTES: usize = 4 * 1_024 * 1_024;
/// How many bodies of one agent are kept.
const MOST_BODIES: usize = 16;
/// What a byte of a body needs in memory with what it says, beside itself: once as it came, and up to twice as it was read.
const COPIES: usize = 3;
/// What an element needs beside its bytes.
const ELEMENT_BYTES: usize = 512;
/// What a value of JSON needs at most, however few bytes it is written with.
const VALUE_BYTES: usize = 96;
/// What an id needs that waits for its result.
const ID_BYTES: usize = 96;
/// How many ids may wait behind the elements of a body, all counted together. Each such element keeps those that wait behind it.
const MOST_IDS: usize = 8_192;
/// In which steps two bodies are compared to find out how much they share.
const STEP: usize = 1_024;

/// Collects the models that a part of a request names.
pub type Naming<'a> = &'a dyn Fn(&Value, &mut Vec<String>);

/// The latest bodies of one agent's conversations, and what they say.
pub struct KnownBodies<S = RandomState> {
    hasher: S,
    most_bytes: usize,
    kept: Mutex<Vec<Arc<KnownBody>>>,
}

/// A body and what it says.
pub(super) struct KnownBody {
    api: Api,
    body: Bytes,
    layout: Layout,
    elements: Vec<Arc<Element>>,
    tools: Option<Arc<Known<Vec<ToolDefinition>>>>,
    system: Option<Arc<Known<Content>>>,
    /// Where elements are, by their hashes; made when somebody looks for one.
    index: OnceLock<HashMap<u64, usize>>,
    /// About how many bytes of memory it needs.
    bytes: usize,
    at: Instant,
}

/// What one part says.
struct Known<T> {
    says: T,
    values: usize,
    named: Box<[String]>,
}

/// One element of a conversation.
struct Element {
    known: Known<Message>,
    /// Ids of calls as they are behind it; `None` if it does not matter what stands in front of it.
    ids: Option<CallIds>,
    hash: OnceLock<u64>,
}

/// What a body says, where its parts were found.
pub(super) struct Read {
    pub(super) decoded: DecodedRequest,
    /// The body without its parts.
    pub(super) frame: Bytes,
    /// The models that the parts name.
    pub(super) named: Vec<String>,
    pub(super) known: KnownBody,
    /// The body that it goes on from.
    pub(super) continues: Option<Arc<KnownBody>>,
}

impl<S> fmt::Debug for KnownBodies<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KnownBodies").field("bodies", &self.lock().len()).finish_non_exhaustive()
    }
}

impl KnownBodies {
    /// Keeps bodies that need at most `most_bytes` in memory.
    pub fn new(most_bytes: usize) -> Self {
        Self::with_hasher(most_bytes, RandomState::default())
    }
}

impl<S> KnownBodies<S> {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<KnownBody>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes of memory they need, about.
    pub fn bytes(&self) -> usize {
        self.lock().iter().map(|known| known.bytes).sum()
    }

    /// Forgets the bodies that nobody has gone on from for so long; returns whether any is left.
    pub fn forget_older(&self, than: Duration) -> bool {
        let mut kept = self.lock();
        kept.retain(|known| known.at.elapsed() < than);
        !kept.is_empty()
    }

    /// Forgets the oldest body.
    pub fn forget_oldest(&self) {
        let mut kept = self.lock();
        if !kept.is_empty() {
            kept.remove(0);
        }
    }

    /// Keeps what was read in place of the body that it goes on from.
    pub(super) fn keep(&self, known: KnownBody, continues: Option<&Arc<KnownBody>>) {
        let mut kept = self.lock();
        if let Some(before) = continues {
            kept.retain(|known| !Arc::ptr_eq(known, before));
        }
        kept.push(Arc::new(known));
        let mut bytes: usize = kept.iter().map(|known| known.bytes).sum();
        while kept.len() > MOST_BODIES || bytes > self.most_bytes && !kept.is_empty() {
            bytes = bytes.saturating_sub(kept.remove(0).bytes);
        }
    }
}

impl<S: BuildHasher> KnownBodies<S> {
    fn with_hasher(most_bytes: usize, hasher: S) -> Self {
        Self { hasher, most_bytes, kept: Mutex::default() }
    }

    /// Reads a body by what is known; `None` where it has to be read as a whole.
    pub(super) fn read(
        &self,
        api: Api,
        target: &RequestTarget,
        body: &Bytes,
        naming: Naming<'_>,
    ) -> Option<Read> {
        if !(LEAST_BYTES..=MOST_BYTES).contains(&body.len()) {
            return None;
        }
        let mut bodies: Vec<Arc<KnownBody>> =
            self.lock().iter().filter(|known| known.api == api).cloned().collect();
        // The one that shares most comes first, of equals the latest.
        bodies.reverse();
        let nearest = (0..bodies.len()).max_by_key(|at| {
            let shared = bodies.get(*at).map_or(0, |known| shared_steps(&known.body, body));
            (shared, std::cmp::Reverse(*at))
        });
        if let Some(nearest) = nearest {
            bodies.swap(0, nearest);
        }
        Reading { api, body, bodies: &bodies, hasher: &self.hasher, naming }.read(target)
    }
}

/// How many steps two bodies share at their beginning.
fn shared_steps(one: &[u8], other: &[u8]) -> usize {
    one.chunks(STEP).zip(other.chunks(STEP)).take_while(|(one, other)| one == other).count()
}

impl KnownBody {
    fn slice(&self, part: &Range<usize>) -> &[u8] {
        self.body.get(part.clone()).unwrap_or_default()
    }

    /// The element with these bytes.
    fn find(&self, hash: u64, bytes: &[u8], hasher: &impl BuildHasher) -> Option<&Arc<Element>> {
        let index = self.index.get_or_init(|| {
            let all = self.elements.iter().zip(&self.layout.elements).enumerate();
            all.map(|(at, (element, part))| (element.hash(self.slice(part), hasher), at)).collect()
        });
        let at = *index.get(&hash)?;
        // INVARIANT (known is read): the hash says where to look; the bytes say whether it is that.
        let is_same = self.layout.elements.get(at).is_some_and(|part| self.slice(part) == bytes);
        self.elements.get(at).filter(|_| is_same)
    }
}

impl Element {
    fn hash(&self, bytes: &[u8], hasher: &impl BuildHasher) -> u64 {
        *self.hash.get_or_init(|| hasher.hash_one(bytes))
    }
}

/// A body that is being read.
struct Reading<'a, S> {
    api: Api,
    body: &'a Bytes,
    /// What is known, the nearest body first.
    bodies: &'a [Arc<KnownBody>],
    hasher: &'a S,
    naming: Naming<'a>,
}

impl<S: BuildHasher> Reading<'_, S> {
    fn read(&self, target: &RequestTarget) -> Option<Read> {
        let fields = Fields { list: self.api.list(), tools: self.api.tools(), system: self.api.system() };
        let nearest = self.bodies.first();
        let before = nearest.map(|known| Before { body: &known.body, layout: &known.layout });
        let seen = Layout::of(self.body, fields, before)?;
        let frame = Bytes::from(seen.layout.frame(self.body)?);
        let budget = Budget::of_request(seen.layout.others());
        let framed = parse_part(&frame, 0, &budget).ok()?;
        let mut decoded = self.api.decode_frame(target, &framed).ok()?;
        let (elements, messages, ids) = self.elements(&seen, &budget)?;
        let tools = self.part(
            seen.layout.tools.as_ref(),
            &budget,
            |known| known.tools.as_ref().zip(known.layout.tools.as_ref()),
            |tools| self.api.decode_tools(tools).ok(),
        )?;
        let system = self.part(
            seen.layout.system.as_ref(),
            &budget,
            |known| known.system.as_ref().zip(known.layout.system.as_ref()),
            |system| self.api.decode_system(system).ok().map(Content::new),
        )?;
        if let Some(tools) = &tools {
            decoded.request.tools.splice(0..0, tools.says.iter().cloned());
        }
        if let Some(system) = &system {
            decoded.request.system.clone_from(&system.says);
        }
        messages.finish(&mut decoded.request);
        let mut named: Vec<String> = Vec::new();
        elements.iter().for_each(|element| named.extend_from_slice(&element.known.named));
        tools.iter().for_each(|tools| named.extend_from_slice(&tools.named));
        system.iter().for_each(|system| named.extend_from_slice(&system.named));
        let shared = seen.same.iter().filter(|same| **same).count();
        let continues = nearest.filter(|known| shared.saturating_mul(2) >= known.elements.len()).cloned();
        let others = [tools.as_ref().map(|tools| tools.values), system.as_ref().map(|system| system.values)];
        let values = elements.iter().map(|element| element.known.values).chain(others.into_iter().flatten());
        let bytes = (self.body.len().saturating_mul(COPIES))
            .saturating_add(elements.len().saturating_mul(ELEMENT_BYTES))
            .saturating_add(values.sum::<usize>().saturating_mul(VALUE_BYTES))
            .saturating_add(ids.saturating_mul(ID_BYTES));
        let known = KnownBody {
            api: self.api,
            body: self.body.clone(),
            layout: seen.layout,
            elements,
            tools,
            system,
            index: OnceLock::new(),
            bytes,
            at: Instant::now(),
        };
        Some(Read { decoded, frame, named, known, continues })
    }

    /// Reads the elements, as far as they are not known. Also returns how many ids they keep.
    fn elements(&self, seen: &Seen, budget: &Budget) -> Option<(Vec<Arc<Element>>, Elements, usize)> {
        let mut kept = 0_usize;
        let mut read = Vec::with_capacity(seen.layout.elements.len());
        let mut messages = Elements::new(self.api);
        // Whether everything so far stands in the nearest body at the same place.
        let mut is_aligned = true;
        for (at, (part, is_same)) in seen.layout.elements.iter().zip(&seen.same).enumerate() {
            let bytes = self.body.get(part.clone())?;
            let beside = self.bodies.first().filter(|_| *is_same).and_then(|known| known.elements.get(at));
            is_aligned &= beside.is_some();
            let known = match beside {
                Some(beside) => Some(beside).filter(|element| is_aligned || element.ids.is_none()),
                None => self.find(bytes),
            };
            let element = match known {
                Some(element) => {
                    budget.take(element.known.values)?;
                    if let Some(ids) = &element.ids {
                        keep_ids(&mut kept, ids)?;
                        messages.set_ids(ids.clone());
                    }
                    Arc::clone(element)
                }
                None => Arc::new(self.element(bytes, &mut messages, budget, &mut kept)?),
            };
            messages.append(element.known.says.clone());
            read.push(element);
        }
        Some((read, messages, kept))
    }

    /// An element that says the same wherever it stands, in any of the bodies.
    fn find(&self, bytes: &[u8]) -> Option<&Arc<Element>> {
        if self.bodies.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(bytes);
        let mut found = self.bodies.iter().filter_map(|known| known.find(hash, bytes, self.hasher));
        found.find(|element| element.ids.is_none())
    }

    fn element(
        &self,
        bytes: &[u8],
        messages: &mut Elements,
        budget: &Budget,
        kept: &mut usize,
    ) -> Option<Element> {
        let asked = messages.ids().asked();
        let known = self.fresh(bytes, 2, budget, |value| messages.decode(value).ok())?;
        let ids = if messages.ids().asked() == asked {
            None
        } else {
            keep_ids(kept, messages.ids())?;
            Some(messages.ids().clone())
        };
        Some(Element { known, ids, hash: OnceLock::new() })
    }

    /// Reads a part that is one value, unless it is known. The outer `None` if it can't be read.
    #[expect(clippy::option_option, reason = "a part may be absent, and one that is there may be strange")]
    fn part<T>(
        &self,
        part: Option<&Range<usize>>,
        budget: &Budget,
        of: impl Fn(&KnownBody) -> Option<(&Arc<Known<T>>, &Range<usize>)>,
        decode: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<Option<Arc<Known<T>>>> {
        let Some(part) = part else { return Some(None) };
        let bytes = self.body.get(part.clone())?;
        let found = self.bodies.iter().find_map(|body| {
            let (known, place) = of(body)?;
            (body.slice(place) == bytes).then_some(known)
        });
        Some(Some(match found {
            Some(known) => {
                budget.take(known.values)?;
                Arc::clone(known)
            }
            None => Arc::new(self.fresh(bytes, 1, budget, decode)?),
        }))
    }

    /// Reads a part that stands in `outer` objects and lists.
    fn fresh<T>(
        &self,
        bytes: &[u8],
        outer: usize,
        budget: &Budget,
        decode: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<Known<T>> {
        let left = budget.left();
        let value = parse_part(bytes, outer, budget).ok()?;
        let mut named = Vec::new();
        (self.naming)(&value, &mut named);
        let says = decode(&value)?;
        Some(Known { says, values: left.saturating_sub(budget.left()), named: named.into() })
    }
}

/// Counts the ids that an element keeps. `None` if a body would keep too many: calls that nobody ever answers would be kept with each
/// element behind them, and such a body is left to the usual reader.
fn keep_ids(kept: &mut usize, ids: &CallIds) -> Option<()> {
    *kept = kept.saturating_add(ids.waiting()).saturating_add(1);
    (*kept <= MOST_IDS).then_some(())
}
