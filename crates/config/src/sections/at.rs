//! `hooks.at`: hooks that are programs or servers, at any point.
//!
//! The law: *what is judged starts no judge*. A repository's file could otherwise start any program, or send every call
//! away. Such an entry therefore counts only in the operator's file; from a repository it is refused with the same message
//! as a webhook.
//!
//! The code that starts a program checks that it exists and that nobody but the operator can have written it.

use std::collections::HashMap;

use backstop_hooks::PointId;
use serde_json::{Value, json};

use crate::config_value::{ConfigValue, Entries, item, section};
use crate::options::Options;
use crate::place::{Place, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::{LayerKind, Reader};
use crate::sections::hooks::{Hooks, check_id};
use crate::text::Text;
use crate::values::{
    CommandDialect, HookMode, Millis, Name, OnFailure, Outside, Priority, RewriteChoice, ToolPattern,
};
use backstop_yaml::{Kind, Node};

item! {
    /// A hook that is a program or a server.
    pub struct PointHook {
        /// `command`: a program that is started for each event. `process`: a program that is started once and stays. `http`: a
        /// server.
        kind ("type"): Spanned<Outside>, Refused;
        /// The program and its arguments, started without a shell. A program's name is looked for in the folders of `PATH` that
        /// belong to root; a path, and an argument that begins with `./` or `../`, counts from the folder of this file.
        command ("command"): Option<Spanned<Vec<Spanned<Text>>>>, Refused;
        /// In whose words a `command` is spoken to. Without it, `backstop`.
        dialect ("dialect"): Option<Spanned<CommandDialect>>, Refused;
        /// Environment variables that the program gets besides `PATH`, `LANG`, `LC_ALL` and `TZ`. Without `HOME` among them, its home is
        /// the folder of this file.
        env ("env"): Vec<Spanned<Name>>, Refused;
        /// The address of an `http` server: `https`, or `http` on this machine.
        url ("url"): Option<Spanned<Text>>, Refused;
        /// Where the value of the `Authorization` header comes from.
        authorization ("authorization"): HookAuthorization, Refused;
        /// Options that its program is given with `initialize`, and every event as `context.pluginConfig`.
        config ("config"): Option<Spanned<Options>>, Refused;
        /// A name for receipts and for `hooks.on_failure`, without `:`. Without it, the hook is named after its place.
        id ("id"): Option<Spanned<Name>>, Refused;
        /// Higher runs first. Without it, 0, or what a `process` says of its hook.
        priority ("priority"): Option<Spanned<Priority>>, Refused;
        /// Only these tools: a list of names, groups and patterns, or one regular expression. Without it, all, or what a `process`
        /// says of its hook.
        matcher ("matcher"): Option<Spanned<ToolPattern>>, Refused;
        /// Whether an outage of an `http` server lets the call through. Beside `on_failure` and `hooks.on_failure`, the stricter counts.
        fail_open ("fail_open"): Option<Spanned<bool>>, Refused;
        /// What a failure of this hook means. Beside `hooks.on_failure` and `fail_open`, the stricter counts.
        on_failure ("on_failure"): Option<Spanned<OnFailure>>, Refused;
        /// What becomes of a change by this hook to which a hook that stands before it objects; without it, the point decides.
        rewrite ("rewrite"): Option<Spanned<RewriteChoice>>, Refused;
        /// Whether what it answers counts. In `shadow` it is asked and changes nothing, and the receipt says what it would have done;
        /// another hook that counts must stand at its point.
        mode ("mode"): Option<Spanned<HookMode>>, Refused;
        /// The time budget of one call in milliseconds.
        timeout ("timeoutMs"): Option<Spanned<Millis>>, Refused;
    }
    check: check;
}

section! {
    /// Where the value of a header comes from: one of these. It is never written into this file.
    pub struct HookAuthorization {
        /// An environment variable.
        env ("env"): Option<Spanned<Name>>, Refused;
        /// A file with nothing else in it.
        file ("file"): Option<Spanned<Text>>, Refused;
    }
}

impl PointHook {
    /// Reports keys that its type has no use for, and what it lacks.
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let kind = self.kind.value;
        let is_program = kind != Outside::Http;
        let header = &self.authorization;
        let header_at = header.env.as_ref().map(|env| &env.at).or(header.file.as_ref().map(|file| &file.at));
        let keys = [
            ("command", self.command.as_ref().map(|key| &key.at), is_program),
            ("env", self.env.first().map(|key| &key.at), is_program),
            ("dialect", self.dialect.as_ref().map(|key| &key.at), kind == Outside::Command),
            ("url", self.url.as_ref().map(|key| &key.at), !is_program),
            ("authorization", header_at, !is_program),
            ("fail_open", self.fail_open.as_ref().map(|key| &key.at), !is_program),
        ];
        let strange = keys.iter().filter_map(|(key, at, fits)| {
            let message = format!("`{key}` means nothing for a hook of type `{}`", kind.name());
            at.filter(|_| !fits).map(|at| {
                let fitting = if is_program { "http" } else { "command` or `process" };
                let fitting = if *key == "dialect" { "command" } else { fitting };
                Problem::new(ProblemKind::Conflict, at.clone(), message)
                    .with_hint(format!("it is for `type: {fitting}`"))
            })
        });
        let wrong = |at: &Place, message: &str| Problem::new(ProblemKind::BadValue, at.clone(), message);
        let missing = match (&self.command, &self.url) {
            (Some(command), _) if command.value.is_empty() => Some(
                wrong(&command.at, "`command` must name a program").with_hint("for example `[./gate.sh]`"),
            ),
            (None, _) if is_program => Some(
                wrong(&self.kind.at, &format!("a hook of type `{}` needs a `command`", kind.name()))
                    .with_hint("for example `command: [./gate.sh]`"),
            ),
            (_, None) if !is_program => Some(wrong(&self.kind.at, "a hook of type `http` needs a `url`")),
            _ => None,
        };
        let twice = header.env.as_ref().zip(header.file.as_ref()).map(|(_, file)| {
            Problem::new(ProblemKind::Conflict, file.at.clone(), "`authorization` has both `env` and `file`")
                .with_hint("keep one of them")
        });
        let problems: Vec<Problem> = strange.chain(missing).chain(twice).collect();
        let sound = problems.is_empty();
        problems.into_iter().for_each(|problem| cx.report(problem));
        check_id(self.id.as_ref(), cx)?;
        sound.then_some(())
    }
}

/// The hooks of one point, in running order where priorities are the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointHooks(Vec<PointHook>);

impl PointHooks {
    /// Returns the hooks in the order of the file.
    #[must_use]
    pub fn entries(&self) -> &[PointHook] {
        &self.0
    }
}

impl ConfigValue for PointHooks {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        let items = cx.list(node)?;
        if items.is_empty() {
            let message = format!("{} is an empty list, it would judge nothing", cx.subject());
            let problem = Problem::new(ProblemKind::BadValue, node.at.clone(), message);
            cx.report(problem.with_hint("remove the key"));
            return None;
        }
        let read = |(index, item)| {
            cx.in_item(index, |cx| match refused(item, cx) {
                true => Some(None),
                false => PointHook::read(item, cx).map(Some),
            })
        };
        let read: Vec<Option<Option<PointHook>>> = items.iter().enumerate().map(read).collect();
        let entries: Option<Vec<Option<PointHook>>> = read.into_iter().collect();
        Some(Self(entries?.into_iter().flatten().collect()))
    }

    fn schema() -> Value {
        json!({ "type": "array", "minItems": 1, "items": PointHook::schema() })
    }

    fn show(&self) -> Value {
        self.0.show()
    }

    fn values(&self) -> Value {
        self.0.values()
    }
}

/// Returns whether an entry is a repository's, which may have none.
fn refused(item: &Node, cx: &mut Reader<'_>) -> bool {
    let (LayerKind::Repository, Kind::Map(keys)) = (cx.layer, &item.kind) else { return false };
    let written = keys.iter().find(|entry| entry.key == "type").map(|entry| &entry.value.kind);
    let Some(Kind::Text(name)) = written else { return false };
    if Outside::ALL.iter().all(|kind| kind.name() != name) {
        return false;
    }
    cx.drop_value(&item.at, format!("a repository file may not add hooks of type `{name}`"));
    true
}

/// A hook of `hooks.at` as it takes part in the effective configuration.
#[derive(Clone, Debug)]
pub struct PlacedHook<'a> {
    /// Its point.
    pub point: PointId,
    /// Its id: the one written, or its place, such as `hooks.at.before_tool_call[0]`.
    pub id: String,
    /// Where it is written.
    pub at: &'a Place,
    /// The entry.
    pub entry: &'a PointHook,
}

impl Hooks {
    /// Returns every hook that is a program or a server, point by point, in the order of the file.
    pub fn placed(&self) -> impl Iterator<Item = PlacedHook<'_>> {
        self.at.iter().flat_map(|(point, hooks)| {
            hooks.0.iter().enumerate().map(move |(index, entry)| {
                let id = match &entry.id {
                    Some(id) => id.value.as_str().to_owned(),
                    None => format!("hooks.at.{}[{index}]", point.value.name()),
                };
                let at = entry.id.as_ref().map_or(&entry.kind.at, |id| &id.at);
                PlacedHook { point: point.value, id, at, entry }
            })
        })
    }

    /// Every hook has its own id.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        let mut seen: HashMap<String, &Place> = HashMap::new();
        let chained = self.chained().map(|hook| (hook.id, hook.at));
        for (id, at) in chained.chain(self.placed().map(|hook| (hook.id, hook.at))) {
            if let Some(first) = seen.get(&id) {
                let message = format!("the hook id `{id}` is used twice");
                let problem = Problem::new(ProblemKind::Conflict, at.clone(), message)
                    .with_hint(format!("the first hook with this id is at {first}"));
                cx.report(problem);
            } else {
                seen.insert(id, at);
            }
        }
    }
}

/// Hooks by the point that they stand at.
pub type HooksAt = Entries<PointId, PointHooks>;
