//! The registry: which hooks are registered at which points.
//!
//! A [`Snapshot`] is immutable. A dispatch takes the current one and keeps it to its end, so that a
//! reload in the middle changes nothing for the call that is being judged. A change builds the next
//! snapshot from the current one and swaps it in completely, or not at all if any part of it is refused.
//!
//! The law: *no silent gap*. A hook at a point that nothing fires, a matcher that matches nothing, two
//! hooks with one id, and a hook that the operator's settings forbid are each a [`RegisterError`].

mod current;
mod slots;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use backstop_hooks::points::{BeforeToolCall, ToolBefore, TrustedToolPolicy};
use backstop_hooks::tool_name::known_tools;
use backstop_hooks::{Hook, HookId, Latch, Mode, OwnerId, Point, PointId, ToolName, contained};

pub use self::current::Registry;
pub(crate) use self::slots::Entry;
use self::slots::Slots;
use crate::exhibit::{Foresight, Masker};
use crate::foreign::Kept;
use crate::hook_options::{HookMeta, HookMode, HookOptions, Origin, Rewrite, Style};
use crate::hook_set::HookSet;
use crate::hosts::Hosts;
use crate::operator::{OperatorSettings, OwnerSettings};
use crate::redaction::{Seat, SpanRedactor};
use crate::refusal::RegisterError;
use crate::seal::Unsealer;

/// Checks whether a hook that was to stay in the next snapshot stands there, or has gone as it should.
fn carried(registered: Result<HookId, RegisterError>) -> Result<(), RegisterError> {
    match registered {
        // The operator has switched the owner off since, which is what was asked for.
        Ok(_) | Err(RegisterError::Disabled(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// All hooks at one moment.
#[derive(Clone)]
pub struct Snapshot {
    /// The hooks whose answers count.
    slots: Slots,
    /// The hooks in shadow. INVARIANT (no gate): nothing that asks what stands at a point, or that merges answers, sees them.
    shadows: Slots,
    redactors: Arc<Vec<Seat>>,
    unsealer: Option<Kept<dyn Unsealer>>,
    masker: Option<Kept<dyn Masker>>,
    foresight: Option<Kept<dyn Foresight>>,
    tools: Arc<Vec<ToolName>>,
    /// Those who take part, whether or not they have hooks.
    owners: Arc<BTreeSet<OwnerId>>,
    settings: Arc<OperatorSettings>,
    hosts: Arc<Hosts>,
    /// All hooks under one digest, once a receipt names them. The registry forgets it with each change.
    set: OnceLock<Arc<HookSet>>,
}

impl Snapshot {
    /// No hooks, the tools known at start, and the operator's settings. The host is a program that embeds the
    /// engine and may fire every point, until [`hosted_by`](Self::hosted_by) says otherwise.
    pub fn empty(settings: OperatorSettings) -> Self {
        Self {
            slots: Slots::default(),
            shadows: Slots::default(),
            redactors: Arc::default(),
            unsealer: None,
            masker: None,
            foresight: None,
            tools: Arc::new(known_tools().map(ToolName::new).collect()),
            owners: Arc::default(),
            settings: Arc::new(settings),
            hosts: Arc::default(),
            set: OnceLock::new(),
        }
    }

    /// Returns all hooks under one digest.
    pub fn hook_set(&self) -> &Arc<HookSet> {
        self.set.get_or_init(|| Arc::new(HookSet::of(self.iter())))
    }

    /// Sets which hosts are in this process. Hooks are admitted accordingly from then on.
    #[must_use]
    pub fn hosted_by(mut self, hosts: Hosts) -> Self {
        self.hosts = Arc::new(hosts);
        self
    }

    /// Returns the hosts of this process.
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Makes tools known, so that matchers can name them.
    pub fn add_tools<'a>(&mut self, tools: impl IntoIterator<Item = &'a str>) {
        let known = Arc::make_mut(&mut self.tools);
        for tool in tools {
            let tool = ToolName::new(tool);
            if !known.contains(&tool) {
                known.push(tool);
            }
        }
    }

    /// Says that an owner takes part here, whether or not it has hooks.
    pub fn add_owner(&mut self, owner: OwnerId) {
        Arc::make_mut(&mut self.owners).insert(owner);
    }

    /// Those whose texts may reach the model: the operator, and whoever takes part here or has a hook, unless the operator forbids it.
    /// Whoever is off in this process is not among them, whatever it left in a store that others use, too.
    pub fn injecting_owners(&self) -> BTreeSet<OwnerId> {
        let with_hooks = self.iter().map(|meta| meta.owner.clone());
        let all = with_hooks.chain(self.owners.iter().cloned()).chain([OwnerId::operator()]);
        all.filter(|owner| {
            let said = self.settings.owner(owner);
            said.is_none_or(OwnerSettings::may_inject)
        })
        .collect()
    }

    /// The tools that exist.
    pub fn tools(&self) -> &[ToolName] {
        &self.tools
    }

    /// Returns what the operator decided.
    pub fn settings(&self) -> &OperatorSettings {
        &self.settings
    }

    /// Registers a hook at the point `P`.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there.
    pub fn on<P: Point>(
        &mut self,
        hook: Arc<dyn Hook<P>>,
        options: HookOptions,
    ) -> Result<HookId, RegisterError> {
        let (meta, options) = self.admit(P::INFO.id, options)?;
        let id = meta.id.clone();
        // One that can't say whether it is in a batch is asked alone.
        let membership = contained(|| hook.membership()).ok().flatten();
        let slots = if meta.mode.is_shadow() { &mut self.shadows } else { &mut self.slots };
        slots.insert::<P>(Entry { hook, meta, under_way: Arc::default(), membership, options });
        Ok(id)
    }

    /// Like [`on`](Self::on) if a host of this process fires `P`; otherwise does nothing. For the parts of a guard
    /// that is registered wherever its host permits, and guards what passes there.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there for another reason.
    pub fn on_if_fired<P: Point>(
        &mut self,
        hook: Arc<dyn Hook<P>>,
        options: HookOptions,
    ) -> Result<Option<HookId>, RegisterError> {
        if self.hosts.does_fire(P::INFO.id) { self.on(hook, options).map(Some) } else { Ok(None) }
    }

    /// Registers a span redactor. It runs at `before_response_emit`, before the other hooks there.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there.
    pub fn on_spans(
        &mut self,
        redactor: Arc<dyn SpanRedactor>,
        options: HookOptions,
    ) -> Result<HookId, RegisterError> {
        let options = HookOptions { style: Style::Redactor, ..options };
        let (meta, options) = self.admit(PointId::BeforeResponseEmit, options)?;
        let id = meta.id.clone();
        let seats = Arc::make_mut(&mut self.redactors);
        let at = seats.partition_point(|seat| seat.meta.priority >= meta.priority);
        // A foreign answer, of which a panic is none.
        let reads_once = contained(|| redactor.reads_once()).unwrap_or(false);
        seats.insert(at, Seat { redactor: Kept::new(redactor), reads_once, meta, options });
        Ok(id)
    }

    /// Sets the resolver of placeholders in calls that passed every gate. There is one; it belongs to the
    /// configuration, and a reload brings the next one or none.
    pub fn set_unsealer(&mut self, unsealer: Arc<dyn Unsealer>) {
        self.unsealer = Some(Kept::new(unsealer));
    }

    /// Sets who masks secrets in what people are shown. There is one, as with the resolver of placeholders.
    pub fn set_masker(&mut self, masker: Arc<dyn Masker>) {
        self.masker = Some(Kept::new(masker));
    }

    pub(crate) fn masker(&self) -> Option<&dyn Masker> {
        self.masker.as_ref().and_then(Kept::get)
    }

    /// Sets who works out what calls would start. There is one, as with the resolver of placeholders.
    pub fn set_foresight(&mut self, foresight: Arc<dyn Foresight>) {
        self.foresight = Some(Kept::new(foresight));
    }

    pub(crate) fn foresight(&self) -> Option<&dyn Foresight> {
        self.foresight.as_ref().and_then(Kept::get)
    }

    pub(crate) fn unsealer(&self) -> Option<&dyn Unsealer> {
        self.unsealer.as_ref().and_then(Kept::get)
    }

    /// Returns the span redactors, in the order in which their replacements win.
    pub(crate) fn redactors(&self) -> &[Seat] {
        &self.redactors
    }

    /// Returns whether span redactors stand at the point.
    pub(crate) fn is_redacted(&self, point: PointId) -> bool {
        point == PointId::BeforeResponseEmit && !self.redactors.is_empty()
    }

    /// Returns what is known about a hook that may stand at the point, and its options with its id filled in.
    fn admit(
        &self,
        point: PointId,
        options: HookOptions,
    ) -> Result<(Arc<HookMeta>, Arc<HookOptions>), RegisterError> {
        static SEQ: AtomicU64 = AtomicU64::new(0);
        let seq = SEQ.fetch_add(1, Ordering::Relaxed);
        let info = point.info();
        let id = options.id.clone();
        let id = id.unwrap_or_else(|| format!("{}:{}:{seq}", options.owner, info.name).into());
        let kept = Arc::new(HookOptions { id: Some(id.clone()), ..options.clone() });
        if self.has(&id) {
            return Err(RegisterError::Duplicate(id));
        }
        self.check_owner(point, &options.owner)?;
        self.check_hosts(point, &id, options.answers)?;
        if options.tools.is_some() && !about_tools(point) {
            return Err(RegisterError::NoTools { hook: id, point });
        }
        if options.rewrite.is_some() && info.fields.iter().all(|field| field.latch != Latch::Propose) {
            return Err(RegisterError::NoRewrite { hook: id, point });
        }
        let mode = self.settings.mode(&options.owner, info, options.mode);
        check_shadow(point, &id, mode, options.style)?;
        let settings = self.settings.owner(&options.owner);
        let (budget, budget_source) = self.settings.budget(&options.owner, info, options.timeout);
        let (on_failure, failure_source) =
            self.settings.failure(&id, info, options.on_failure, options.origin);
        let config =
            options.config.or_else(|| settings.map(|settings| settings.config.clone())).unwrap_or_default();
        let mut hints = options.hints;
        hints.extend(options.tools.iter().flat_map(|tools| tools.hints(&self.tools)));
        let judges_values = options.judges_values.unwrap_or_else(|| options.owner.is_builtin());
        let meta = HookMeta {
            id,
            owner: options.owner,
            point,
            priority: options.priority,
            budget,
            budget_source,
            on_failure,
            failure_source,
            rewrite: options.rewrite.unwrap_or_else(|| Rewrite::at(point)),
            mode,
            style: options.style,
            origin: options.origin,
            tools: options.tools,
            agents: options.agents,
            triggers: options.triggers,
            judges_values,
            hints,
            config,
        };
        Ok((Arc::new(meta), kept))
    }

    /// Refuses a hook that would never be called, or whose answers could come to nothing.
    fn check_hosts(
        &self,
        point: PointId,
        hook: &HookId,
        answers: Option<&'static [&'static str]>,
    ) -> Result<(), RegisterError> {
        let hosts = &self.hosts;
        if !hosts.does_fire(point) {
            let (here, elsewhere) = (hosts.names(), hosts.fired_elsewhere(point));
            return Err(RegisterError::NotFired { point, here, elsewhere });
        }
        let Some(answers) = answers else { return Ok(()) };
        let fields = point.info().fields;
        if let Some(field) = answers.iter().find(|name| fields.iter().all(|field| field.name != **name)) {
            return Err(RegisterError::NoField { hook: hook.clone(), point, field });
        }
        if answers.iter().any(|field| hosts.has_effect(point, field)) {
            return Ok(());
        }
        let (fields, here) = (answers.join("`, `"), hosts.names());
        Err(RegisterError::NotHonoured { hook: hook.clone(), point, fields, here })
    }

    fn check_owner(&self, point: PointId, owner: &OwnerId) -> Result<(), RegisterError> {
        let info = point.info();
        let settings = self.settings.owner(owner);
        let ours = owner.is_builtin() || *owner == OwnerId::operator();
        if settings.and_then(|settings| settings.enabled) == Some(false) {
            return Err(RegisterError::Disabled(owner.clone()));
        }
        let trusted = ours || settings.is_some_and(|settings| settings.allow_trusted_tool_policy);
        if point == PointId::TrustedToolPolicy && !trusted {
            return Err(RegisterError::Untrusted(owner.clone()));
        }
        let access = settings.and_then(|settings| settings.allow_conversation_access).unwrap_or(ours);
        if info.conversation_access && !access {
            return Err(RegisterError::ConversationAccess { owner: owner.clone(), point });
        }
        let injection = settings.and_then(|settings| settings.allow_prompt_injection).unwrap_or(true);
        if info.prompt_injection && !injection {
            return Err(RegisterError::PromptInjection { owner: owner.clone(), point });
        }
        Ok(())
    }

    /// Returns whether a hook of the snapshot before this one stays.
    fn takes_over(&self, hook: &HookMeta) -> bool {
        hook.origin != Origin::Configuration && !self.has(&hook.id)
    }

    /// Returns whether there is a hook of that id.
    pub fn has(&self, id: &HookId) -> bool {
        self.iter().any(|meta| meta.id == *id)
    }

    /// Returns the hooks whose failure the operator decided about, but which do not exist: a misspelt id would
    /// protect less, or more, than the operator believes.
    pub fn unmatched_settings(&self) -> impl Iterator<Item = &HookId> {
        self.settings.on_failure.keys().filter(|id| !self.has(id))
    }

    /// Removes a hook. Returns whether it was there.
    pub fn remove(&mut self, id: &HookId) -> bool {
        self.retain(|meta| meta.id != *id)
    }

    /// Removes all hooks of an owner, which takes no part from then on. Answers whether there were any.
    pub fn remove_owner(&mut self, owner: &OwnerId) -> bool {
        Arc::make_mut(&mut self.owners).remove(owner);
        self.retain(|meta| meta.owner != *owner)
    }

    /// Keeps the hooks that `keep` selects. Returns whether any were removed.
    pub fn retain(&mut self, keep: impl Fn(&HookMeta) -> bool) -> bool {
        // Each has its own, so that both are asked.
        let mut removed = self.slots.retain(&keep) | self.shadows.retain(&keep);
        if self.redactors.iter().any(|seat| !keep(&seat.meta)) {
            Arc::make_mut(&mut self.redactors).retain(|seat| keep(&seat.meta));
            removed = true;
        }
        removed
    }

    /// Returns all hooks, point by point, in running order: span redactors, hooks, hooks in shadow.
    pub fn iter(&self) -> impl Iterator<Item = Arc<HookMeta>> + '_ {
        let redactors = self.redactors.iter().map(|seat| Arc::clone(&seat.meta));
        let mut hooks: Vec<_> = redactors.chain(self.slots.metas()).chain(self.shadows.metas()).collect();
        hooks.sort_by_key(|meta| meta.point);
        hooks.into_iter()
    }

    /// Returns the hooks in shadow beside which no hook stands whose answers count. A host need not fire their points for them.
    pub fn lonely_shadows(&self) -> impl Iterator<Item = Arc<HookMeta>> + '_ {
        let points: BTreeSet<PointId> = self.slots.metas().map(|meta| one_chain(meta.point)).collect();
        self.shadows.metas().filter(move |meta| !points.contains(&one_chain(meta.point)))
    }

    /// Returns whether the very hooks stand in front of tool calls that stand there in `other`, as they were registered then.
    pub(crate) fn has_gates_of(&self, other: &Self) -> bool {
        self.gates().map(Arc::as_ptr).eq(other.gates().map(Arc::as_ptr))
    }

    fn gates(&self) -> impl Iterator<Item = &Arc<HookMeta>> {
        let policies = self.slot::<TrustedToolPolicy>().iter().map(|entry| &entry.meta);
        let interceptors = self.slot::<ToolBefore>().iter().map(|entry| &entry.meta);
        policies.chain(interceptors).chain(self.slot::<BeforeToolCall>().iter().map(|entry| &entry.meta))
    }

    /// Returns the points at which hooks stand whose answers count.
    fn occupied(&self) -> u64 {
        let redacted = self.redactors.iter().fold(0, |points, seat| points | bit(seat.meta.point));
        self.slots.metas().fold(redacted, |points, meta| points | bit(meta.point))
    }

    /// Returns the points at which hooks stand in shadow.
    fn shadowed(&self) -> u64 {
        self.shadows.metas().fold(0, |points, meta| points | bit(meta.point))
    }

    /// Returns the hooks at `P` whose answers count, in running order.
    pub(crate) fn slot<P: Point>(&self) -> &[Entry<P>] {
        self.slots.at()
    }

    /// Returns the hooks at `P` in shadow.
    pub(crate) fn shadows<P: Point>(&self) -> &[Entry<P>] {
        self.shadows.at()
    }
}

/// Refuses a hook in shadow where that means nothing.
fn check_shadow(point: PointId, hook: &HookId, mode: HookMode, style: Style) -> Result<(), RegisterError> {
    let why = match (mode, point.info().mode, style) {
        (HookMode::Enforce, ..) => return Ok(()),
        (_, _, Style::Redactor) => "it removes spans while a text grows; let it report them instead",
        (_, Mode::Observe, _) => "hooks there only watch; leave `mode` out",
        (_, Mode::Decide | Mode::Claim, _) => return Ok(()),
    };
    Err(RegisterError::NoShadow { hook: hook.clone(), point, why })
}

/// Returns the point under which a chain is known: three of them form one, in front of a tool call.
fn one_chain(point: PointId) -> PointId {
    match point {
        PointId::TrustedToolPolicy | PointId::ToolBefore => PointId::BeforeToolCall,
        other => other,
    }
}

const _: () = assert!(PointId::ALL.len() <= 64, "a point has a bit in `Registry::occupied`");

fn bit(point: PointId) -> u64 {
    1 << (point as u32)
}

/// Points whose events name a tool.
fn about_tools(point: PointId) -> bool {
    matches!(
        point,
        PointId::TrustedToolPolicy
            | PointId::ToolBefore
            | PointId::BeforeToolCall
            | PointId::ToolAfter
            | PointId::AfterToolCall
    )
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|meta| meta.id.clone())).finish()
    }
}
