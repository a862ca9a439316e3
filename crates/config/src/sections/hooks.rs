//! `hooks`: verdict hooks, selected by type, and programs and servers at any point.
//!
//! Without this section every call passes these hooks (the built-in guards have a section of their own). With it, each
//! list must contain something: an empty list, an unknown type or an entry without a type would protect less than the file
//! seems to, and is an error.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::config_value::{ConfigValue, Entries, item, section};
use crate::names::{HookSlot, InRepository};
use crate::options::Options;
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind, quoted_list, suggestion};
use crate::reader::{LayerKind, Reader};
use crate::rules::{Admit, Append, Rule};
use crate::sections::at::HooksAt;
use crate::values::{HookMode, Millis, Name, OnFailure, Outside, RewriteChoice};
use backstop_yaml::{Kind, Node};

section! {
    /// Hooks: verdict hooks around tool calls and model calls, and programs and servers at any point.
    pub struct Hooks {
        /// Hooks around tool calls.
        tool_call ("tool_call"): ToolCallHooks, Nested;
        /// Hooks around model calls.
        llm_call ("llm_call"): LlmCallHooks, Nested;
        /// Hooks that are programs or servers, by the point that they stand at. A repository that could add one could start what it
        /// likes, or send calls away.
        at ("at"): HooksAt, Refused;
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
        /// The hook type: `passthrough`, `policy`, `human_approval`, `webhook`, or one that a program brings. In a
        /// repository file only types that can do nothing but stop a call.
        hook_type ("type"): Spanned<Name>, Own;
        /// The options of that type.
        config ("config"): Option<Spanned<Options>>, Own;
        /// A name for receipts and for `hooks.on_failure`, without `:`. Without it, the hook is named after its place.
        id ("id"): Option<Spanned<Name>>, Own;
        /// What a failure of this hook means. Beside `hooks.on_failure` and `fail_open`, the stricter counts.
        on_failure ("on_failure"): Option<Spanned<OnFailure>>, BlockOnly;
        /// What becomes of a change by this hook to which a hook that stands before it objects; without it, the call
        /// is blocked.
        rewrite ("rewrite"): Option<Spanned<RewriteChoice>>, Own;
        /// Whether what it answers counts. In `shadow` it is asked and changes nothing, and the receipt says what it would have done;
        /// another hook that counts must stand at its point.
        mode ("mode"): Option<Spanned<HookMode>>, Own;
        /// The time budget of one call in milliseconds.
        timeout ("timeoutMs"): Option<Spanned<Millis>>, Own;
    }
    check: check_id;
}

/// The hooks of one list, in running order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain(Vec<HookEntry>);

impl Chain {
    /// Adds the hooks of another list behind these.
    pub(crate) fn append(&mut self, mut more: Self) {
        self.0.append(&mut more.0);
    }

    /// Returns the hooks in running order.
    #[must_use]
    pub fn entries(&self) -> &[HookEntry] {
        &self.0
    }
}

impl ConfigValue for Chain {
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
                    let Some(item) = admitted(item, cx) else { return Some(None) };
                    let entry = HookEntry::read(&item, cx)?;
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

    fn values(&self) -> Value {
        self.0.values()
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

/// Returns what of an entry is read. Of a repository's entry it is nothing, if repositories may not add hooks of its type,
/// and not the options that are the operator's alone.
fn admitted<'n>(item: &'n Node, cx: &mut Reader<'_>) -> Option<Cow<'n, Node>> {
    let whole = Some(Cow::Borrowed(item));
    let (LayerKind::Repository, Kind::Map(entries)) = (cx.layer, &item.kind) else { return whole };
    let Some(Kind::Text(name)) =
        entries.iter().find(|entry| entry.key == "type").map(|entry| &entry.value.kind)
    else {
        return whole;
    };
    match cx.names.hook_type(name).map(|known| &known.repository) {
        None | Some(InRepository::Allowed) => whole,
        Some(InRepository::Refused) => {
            let reason = format!("a repository file may not add hooks of type `{name}`");
            cx.drop_value(&item.at, reason);
            None
        }
        Some(InRepository::Without(options)) => Some(Cow::Owned(without(item, options, cx))),
    }
}

/// An entry without some options of its type.
fn without(item: &Node, options: &[&str], cx: &mut Reader<'_>) -> Node {
    let mut left = item.clone();
    let Kind::Map(entries) = &mut left.kind else { return left };
    for config in entries.iter_mut().filter(|entry| entry.key == "config") {
        let Kind::Map(written) = &mut config.value.kind else { continue };
        for dropped in written.extract_if(.., |option| options.contains(&option.key.as_str())) {
            cx.in_key("config", |cx| {
                cx.in_key(&dropped.key, |cx| {
                    cx.drop_value(&dropped.key_at, "only the operator's file may set this");
                });
            });
        }
    }
    left
}

impl HookEntry {
    fn check_id(&self, cx: &mut Reader<'_>) -> Option<()> {
        check_id(self.id.as_ref(), cx)
    }

    fn check_type(&self, slot: HookSlot, cx: &mut Reader<'_>) -> Option<()> {
        let name = self.hook_type.value.as_str();
        let known_type = cx.names.hook_type(name);
        if known_type.is_some_and(|known| known.slots.contains(&slot)) {
            return Some(());
        }
        let message = format!("no hook type `{name}` can stand in `{}`", slot.path());
        let hint = match known_type {
            // It exists: the file means it, and what it lacks is a voice there.
            Some(known) => {
                format!("`{name}` can stand in {}", quoted_list(known.slots.iter().map(|slot| slot.path())))
            }
            None if Outside::ALL.iter().any(|kind| kind.name() == name) => {
                format!("`{name}` can stand in `hooks.at`, below the name of any point")
            }
            None => suggestion(name, &cx.names.types_for(slot), "types"),
        };
        let problem =
            Problem::new(ProblemKind::UnknownName, self.hook_type.at.clone(), message).with_hint(hint);
        cx.report(problem);
        None
    }
}

/// A name with `:` belongs to a plugin or to Backstop; an entry could pass for one of their hooks.
pub(super) fn check_id(id: Option<&Spanned<Name>>, cx: &mut Reader<'_>) -> Option<()> {
    let Some(id) = id.filter(|id| id.value.as_str().contains(':')) else { return Some(()) };
    let message = format!("the hook id `{}` must not contain `:`", id.value.as_str());
    let problem = Problem::new(ProblemKind::BadValue, id.at.clone(), message)
        .with_hint("names with `:` belong to built-in hooks and plugins");
    cx.report(problem);
    None
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
}

impl Hooks {
    /// Returns every verdict hook, list by list, in running order.
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
        let at = entry.id.as_ref().map_or(&entry.hook_type.at, |id| &id.at);
        ChainedHook { slot, id, at, entry }
    }

    /// Puts a hook that passes everything in the place of those in front of tool calls whose id is meant, so that the others keep their
    /// places and names: for judging without them.
    pub fn set_aside(&mut self, is_meant: impl Fn(&str) -> bool) {
        let slot = HookSlot::ToolPreCall;
        let meant: Vec<bool> =
            self.chained().filter(|hook| hook.slot == slot).map(|hook| is_meant(&hook.id)).collect();
        let Some(passes) = Name::new("passthrough") else { return };
        let entries = self.tool_call.pre_call.0.iter_mut().zip(meant);
        for (entry, _) in entries.filter(|(_, is_meant)| *is_meant) {
            entry.hook_type.value = passes.clone();
            entry.config = None;
        }
    }

    /// Returns the list of one slot.
    #[must_use]
    pub const fn chain(&self, slot: HookSlot) -> &Chain {
        match slot {
            HookSlot::ToolPreCall => &self.tool_call.pre_call,
            HookSlot::ToolPostCall => &self.tool_call.post_call,
            HookSlot::LlmPreCall => &self.llm_call.pre_call,
            HookSlot::LlmPostCall => &self.llm_call.post_call,
        }
    }
}
