//! `hooks`: verdict hooks, chosen by type.
//!
//! Without this section every call passes these hooks (the built-in guards are a section of their own). With it, each
//! list must say something: an empty list, an unknown type or an entry without type would protect less than the file
//! seems to, and is an error.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::names::HookSlot;
use crate::options::Options;
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind, suggestion};
use crate::reader::{LayerKind, Reader};
use crate::rules::{Admit, Append, Rule};
use crate::values::{Millis, Name, OnFailure};
use crate::wire::{Entries, Wire, item, section};
use crate::yaml::{Kind, Node};

section! {
    /// Verdict hooks around tool calls and model calls.
    pub struct Hooks {
        /// Hooks around tool calls.
        tool_call ("tool_call"): ToolCallHooks, Nested;
        /// Hooks around model calls.
        llm_call ("llm_call"): LlmCallHooks, Nested;
        /// What a failure means, by hook id: for hooks of this file, of plugins and built-in ones. Without an entry the
        /// hook point decides.
        on_failure ("on_failure"): Entries<Name, Setting<OnFailure>>, BlockOnly;
    }
}

section! {
    /// Hooks around tool calls.
    pub struct ToolCallHooks {
        /// Judge a tool call before it runs, in this order. The first that denies ends the chain.
        pre_call ("pre_call"): Chain, Append;
        /// See a tool call after it ran.
        post_call ("post_call"): Chain, Append;
    }
}

section! {
    /// Hooks around model calls.
    pub struct LlmCallHooks {
        /// Judge a model call before it is sent, in this order.
        pre_call ("pre_call"): Chain, Append;
        /// See the model's answer.
        post_call ("post_call"): Chain, Append;
    }
}

item! {
    /// One verdict hook.
    pub struct HookEntry {
        /// The hook type, such as `passthrough`, `policy` or `webhook`. In a repository file only types that can do
        /// nothing but stop a call.
        hook_type ("type"): Spanned<Name>, Own;
        /// The options of that type.
        config ("config"): Option<Spanned<Options>>, Own;
        /// A name for receipts and for `hooks.on_failure`, without `:`. Without it, the hook is named after its place.
        id ("id"): Option<Spanned<Name>>, Own;
        /// What a failure of this hook means.
        on_failure ("on_failure"): Option<Spanned<OnFailure>>, BlockOnly;
        /// The time budget of one call in milliseconds.
        timeout ("timeoutMs"): Option<Spanned<Millis>>, Own;
    }
    check: check_id;
}

/// The hooks of one list, in running order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain(Vec<HookEntry>);

impl Chain {
    /// The hooks in running order.
    #[must_use]
    pub fn entries(&self) -> &[HookEntry] {
        &self.0
    }
}

impl Wire for Chain {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let items = cx.list(node)?;
        if items.is_empty() {
            let message = format!("{} is an empty list, it would judge nothing", cx.subject());
            let problem = Problem::new(ProblemKind::BadValue, node.at.clone(), message)
                .with_hint("remove the key, or write `- type: passthrough` to say that everything passes");
            cx.report(problem);
            return None;
        }
        let slot = HookSlot::at(&cx.path())?;
        let read: Vec<Option<Option<HookEntry>>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                cx.in_item(index, |cx| {
                    if cx.layer == LayerKind::Repository && refused_in_repository(item, slot, cx) {
                        return Some(None);
                    }
                    let entry = HookEntry::read(item, cx)?;
                    entry.check_type(slot, cx)?;
                    Some(Some(entry))
                })
            })
            .collect();
        let entries: Option<Vec<Option<HookEntry>>> = read.into_iter().collect();
        Some(Self(entries?.into_iter().flatten().collect()))
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }

    fn schema() -> Value {
        json!({ "type": "array", "minItems": 1, "items": HookEntry::schema() })
    }

    fn show(&self) -> Value {
        self.0.show()
    }
}

impl Admit<Chain> for Append {
    const DOC: &'static str = "added to the operator's";
}

impl Rule<Chain> for Append {
    fn tighten(into: &mut Chain, repository: Chain, _: &mut Reader<'_>) {
        into.0.extend(repository.0);
    }
}

/// Whether a repository's entry has a type that repositories may not add; it is dropped unread then.
fn refused_in_repository(item: &Node, slot: HookSlot, cx: &mut Reader<'_>) -> bool {
    let Kind::Map(entries) = &item.kind else { return false };
    let Some(Kind::Text(name)) =
        entries.iter().find(|entry| entry.key == "type").map(|entry| &entry.value.kind)
    else {
        return false;
    };
    let refused = cx.names.hook_type(name, slot).is_some_and(|known| !known.allowed_in_repository);
    if refused {
        let reason = format!("a repository file may not add hooks of type `{name}`");
        cx.drop_value(&item.at, reason);
    }
    refused
}

impl HookEntry {
    /// A name with `:` belongs to a plugin or to Backstop; an entry could pass for one of their hooks.
    fn check_id(&self, cx: &mut Reader<'_>) -> Option<()> {
        let Some(id) = self.id.as_ref().filter(|id| id.value.as_str().contains(':')) else { return Some(()) };
        let message = format!("the hook id `{}` must not contain `:`", id.value.as_str());
        let problem = Problem::new(ProblemKind::BadValue, id.at.clone(), message)
            .with_hint("names with `:` belong to built-in hooks and plugins");
        cx.report(problem);
        None
    }

    fn check_type(&self, slot: HookSlot, cx: &mut Reader<'_>) -> Option<()> {
        let name = self.hook_type.value.as_str();
        if cx.names.hook_type(name, slot).is_some() {
            return Some(());
        }
        let message = format!("no hook type `{name}` can stand in `{}`", slot.path());
        let known = cx.names.types_for(slot);
        let problem = Problem::new(ProblemKind::UnknownName, self.hook_type.at.clone(), message)
            .with_hint(suggestion(name, &known, "types"));
        cx.report(problem);
        None
    }
}

/// A verdict hook as it takes part in the effective configuration.
#[derive(Clone, Debug)]
pub struct ChainedHook<'a> {
    /// The list it stands in.
    pub slot: HookSlot,
    /// Its id: the one written, or its place, such as `hooks.tool_call.pre_call[0]`.
    pub id: String,
    /// Where it is written.
    pub at: &'a Place,
    /// The entry.
    pub entry: &'a HookEntry,
    /// What its failure means, where the operator said so here or in `hooks.on_failure`.
    pub on_failure: Option<OnFailure>,
}

impl Hooks {
    /// Every verdict hook, list by list, in running order.
    pub fn chained(&self) -> impl Iterator<Item = ChainedHook<'_>> {
        HookSlot::ALL.iter().flat_map(move |slot| {
            self.chain(*slot)
                .0
                .iter()
                .enumerate()
                .map(move |(index, entry)| self.chained_hook(*slot, index, entry))
        })
    }

    fn chained_hook<'a>(&'a self, slot: HookSlot, index: usize, entry: &'a HookEntry) -> ChainedHook<'a> {
        let id = match &entry.id {
            Some(id) => id.value.as_str().to_owned(),
            None => format!("{}[{index}]", slot.path()),
        };
        let by_id = self.on_failure.get(&id).map(|setting| setting.value);
        let at = entry.id.as_ref().map_or(&entry.hook_type.at, |id| &id.at);
        ChainedHook {
            slot,
            on_failure: entry.on_failure.as_ref().map(|own| own.value).max(by_id),
            id,
            at,
            entry,
        }
    }

    /// The list of one slot.
    #[must_use]
    pub const fn chain(&self, slot: HookSlot) -> &Chain {
        match slot {
            HookSlot::ToolPreCall => &self.tool_call.pre_call,
            HookSlot::ToolPostCall => &self.tool_call.post_call,
            HookSlot::LlmPreCall => &self.llm_call.pre_call,
            HookSlot::LlmPostCall => &self.llm_call.post_call,
        }
    }

    /// Every hook has its own id.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        let mut seen: HashMap<String, &Place> = HashMap::new();
        for hook in self.chained() {
            if let Some(first) = seen.get(&hook.id) {
                let message = format!("the hook id `{}` is used twice", hook.id);
                let problem = Problem::new(ProblemKind::Conflict, hook.at.clone(), message)
                    .with_hint(format!("the first hook with this id is at {first}"));
                cx.report(problem);
            } else {
                seen.insert(hook.id, hook.at);
            }
        }
    }
}
