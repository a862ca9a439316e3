//! What a plugin registers, whatever its language, and how that becomes hooks of a snapshot.
//!
//! The law: *no silent gap*. A gate, which is a hook whose failure blocks, stands where it was to stand or the registration is an
//! error that names point and setting. Any other hook that can't stand there is listed: as [`Waiting`] where no host of this
//! process fires its point, as [`LeftOut`] where the operator has not allowed it.
//!
//! Limits: a plugin registers at most [`MOST_HOOKS`] hooks and [`MOST_OFFERS`] other things.

use std::fmt;
use std::sync::Arc;

use backstop_engine::{
    Budget, HookOptions, OperatorSettings, Origin, RegisterError, Snapshot, Style, ToolMatcher,
};
use backstop_hooks::{
    FailurePolicy, Hook, HookId, Json, JsonHook, OwnerId, Point, PointId, Trigger, UnknownPoint,
    for_each_point, json_hook,
};

/// The longest name of something that a plugin registers, in bytes.
pub(crate) const LONGEST_NAME: usize = 512;
/// How many characters of a name that is none are shown.
const LONGEST_SHOWN: usize = 64;
/// Most hooks of one plugin.
pub const MOST_HOOKS: usize = 256;
/// Most other things that one plugin registers.
pub const MOST_OFFERS: usize = 256;

/// Where a hook of a plugin is to stand, and how.
#[derive(Clone, Debug)]
pub struct HookSpec {
    /// The point.
    pub point: PointId,
    /// The point's name as the plugin wrote it, which may be an older one.
    pub name: String,
    /// The plugin's own name for this hook, unique among its hooks at the point.
    pub registration: String,
    /// Higher runs first.
    pub priority: i32,
    /// The author's time budget.
    pub timeout: Option<Budget>,
    /// Only these tools.
    pub tools: Option<ToolMatcher>,
    /// Only runs that one of these started.
    pub triggers: Option<Vec<Trigger>>,
    /// Only dispatches of these kinds. No host has kinds yet, so the hook is asked each time, and that is listed.
    pub dispatch_kinds: Option<Vec<String>>,
}

impl HookSpec {
    /// A hook at the point called `name`, with priority 0 and everything else left to the point.
    ///
    /// # Errors
    ///
    /// [`UnknownPoint`], with the nearest name.
    pub fn at(name: &str, registration: impl Into<String>) -> Result<Self, UnknownPoint> {
        Ok(Self {
            point: name.parse()?,
            name: name.to_owned(),
            registration: registration.into(),
            priority: 0,
            timeout: None,
            tools: None,
            triggers: None,
            dispatch_kinds: None,
        })
    }

    fn id(&self, owner: &OwnerId) -> HookId {
        format!("{owner}:{}:{}", self.point.name(), self.registration).into()
    }

    /// The same hook for every event of its point.
    fn of_everything(&self) -> Self {
        Self { tools: None, triggers: None, dispatch_kinds: None, ..self.clone() }
    }

    fn options(&self, owner: &OwnerId) -> HookOptions {
        HookOptions {
            timeout: self.timeout,
            tools: self.tools.clone(),
            triggers: self.triggers.clone(),
            // What runs elsewhere is not given the values behind placeholders.
            judges_values: Some(false),
            style: Style::Foreign,
            origin: Origin::Configuration,
            ..HookOptions::new(owner.clone()).id(self.id(owner)).priority(self.priority)
        }
    }

    fn is_gate(&self) -> bool {
        self.point.info().failure != FailurePolicy::Open
    }
}

/// What else a plugin can register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OfferKind {
    /// A tool for the agent.
    Tool,
    /// A command that people type into a conversation.
    Command,
    /// Something that runs beside the hosts.
    Service,
    /// A command of the command line.
    Cli,
    /// A path of the server.
    Route,
    /// A method of the server.
    Method,
    /// What is told when the plugin ends.
    Lifecycle,
    /// Data of its own in each session.
    SessionExtension,
    /// Text for the next turn.
    Injection,
}

impl OfferKind {
    /// All kinds.
    const ALL: [Self; 9] = [
        Self::Tool,
        Self::Command,
        Self::Service,
        Self::Cli,
        Self::Route,
        Self::Method,
        Self::Lifecycle,
        Self::SessionExtension,
        Self::Injection,
    ];

    /// The kind of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Its name in listings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Command => "command",
            Self::Service => "service",
            Self::Cli => "cli",
            Self::Route => "route",
            Self::Method => "method",
            Self::Lifecycle => "lifecycle",
            Self::SessionExtension => "session-extension",
            Self::Injection => "injection",
        }
    }
}

impl fmt::Display for OfferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something besides hooks that a plugin registers. Whoever has a place for it takes it from the [`Registration`].
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// What it is.
    pub kind: OfferKind,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// For a tool: the JSON Schema of its arguments.
    pub schema: Option<Json>,
}

/// A hook that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub struct LeftOut {
    /// The hook or the other thing, as the plugin named it.
    pub what: String,
    /// Why, and what would change that.
    pub why: String,
}

/// A hook at a point that no host of this process fires. It is kept for a host that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The hook.
    pub id: HookId,
    /// Its point.
    pub point: PointId,
}

/// Why what a plugin registers can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The plugin's id is that of a part of Backstop, or of the operator, or none.
    #[error("a plugin can't be called `{0}`\nhint: `builtin` and `operator` are names of Backstop itself")]
    Owner(String),
    /// The same name twice at one point.
    #[error(
        "plugin `{owner}`: there are two hooks `{registration}` at `{point}`\nhint: give each a `registrationId` of its own"
    )]
    Twice {
        /// The plugin.
        owner: OwnerId,
        /// The point.
        point: PointId,
        /// The name.
        registration: String,
    },
    /// A name that can't be shown as it is. Names stand in lists, logs and the audit trail.
    #[error(
        "plugin `{owner}`: `{name}` is no name of a {what}\nhint: a name has 1 to {LONGEST_NAME} bytes, and nothing that is not seen"
    )]
    Name {
        /// The plugin.
        owner: OwnerId,
        /// Of what.
        what: &'static str,
        /// The name, as it can be shown.
        name: String,
    },
    /// More than anybody needs.
    #[error("plugin `{owner}` registers more than {most} {what}")]
    TooMany {
        /// The plugin.
        owner: OwnerId,
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// A hook can't stand there.
    #[error("plugin `{owner}`: {error}")]
    Hook {
        /// The plugin.
        owner: OwnerId,
        /// Why not.
        error: RegisterError,
    },
}

/// What one plugin registers.
pub struct Registration {
    owner: OwnerId,
    hooks: Vec<(HookSpec, Arc<dyn Stands>)>,
    offers: Vec<Offer>,
    left_out: Vec<LeftOut>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("owner", &self.owner)
            .field("hooks", &self.hooks.iter().map(|(spec, _)| spec.id(&self.owner)).collect::<Vec<_>>())
            .field("offers", &self.offers.len())
            .finish_non_exhaustive()
    }
}

/// What became of what a plugin registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seated {
    /// The hooks that stand.
    pub hooks: Vec<HookId>,
    /// The hooks that no host fires here.
    pub waiting: Vec<Waiting>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
}

impl Registration {
    /// Nothing yet, of the plugin called `id`.
    ///
    /// # Errors
    ///
    /// [`RegistrationError::Owner`] for an id that is not a plugin's to have.
    pub fn new(id: &str) -> Result<Self, RegistrationError> {
        let owner = OwnerId::new(id);
        let is_spoken_for = owner.is_builtin() || owner == OwnerId::operator();
        let is_name = !id.is_empty() && id.len() <= 128 && !id.chars().any(|c| c.is_control() || c == ':');
        if is_spoken_for || !is_name {
            return Err(RegistrationError::Owner(id.chars().filter(|c| !c.is_control()).take(128).collect()));
        }
        Ok(Self { owner, hooks: Vec::new(), offers: Vec::new(), left_out: Vec::new() })
    }

    /// The plugin.
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Adds a hook.
    ///
    /// # Errors
    ///
    /// [`RegistrationError`] for a second hook of the same name at the point, a name that can't be shown, and one too many.
    pub fn hook(&mut self, spec: HookSpec, hook: Arc<dyn JsonHook>) -> Result<(), RegistrationError> {
        self.hook_at(spec, Arc::new(SpeaksJson(hook)))
    }

    /// Adds a hook that can stand at any point.
    ///
    /// # Errors
    ///
    /// As [`Self::hook`].
    pub fn hook_at(&mut self, spec: HookSpec, hook: Arc<impl AtAnyPoint>) -> Result<(), RegistrationError> {
        let same = |(other, _): &(HookSpec, Arc<dyn Stands>)| {
            other.point == spec.point && other.registration == spec.registration
        };
        if self.hooks.iter().any(same) {
            let (owner, registration) = (self.owner.clone(), spec.registration);
            return Err(RegistrationError::Twice { owner, point: spec.point, registration });
        }
        self.check_name("hook", &spec.registration)?;
        if self.hooks.len() >= MOST_HOOKS {
            return Err(self.too_many("hooks", MOST_HOOKS));
        }
        self.hooks.push((spec, hook));
        Ok(())
    }

    /// Adds something else.
    ///
    /// # Errors
    ///
    /// [`RegistrationError::TooMany`], and [`RegistrationError::Name`] for a name that can't be shown.
    pub fn offer(&mut self, offer: Offer) -> Result<(), RegistrationError> {
        self.check_name(offer.kind.as_str(), &offer.name)?;
        if self.offers.len() >= MOST_OFFERS {
            return Err(self.too_many("tools, commands and the like", MOST_OFFERS));
        }
        self.offers.push(offer);
        Ok(())
    }

    /// Says that something was left out before it came here.
    pub fn leave_out(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left_out.push(LeftOut { what: what.into(), why: why.into() });
    }

    fn check_name(&self, what: &'static str, name: &str) -> Result<(), RegistrationError> {
        let is_unseen = |c: char| c.is_control() || backstop_yaml::is_invisible(c);
        if (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(is_unseen) {
            return Ok(());
        }
        let mut shown: String = name.chars().take(LONGEST_SHOWN).collect();
        if shown.len() < name.len() {
            shown.push('…');
        }
        Err(RegistrationError::Name { owner: self.owner.clone(), what, name: backstop_yaml::quote(&shown) })
    }

    fn too_many(&self, what: &'static str, most: usize) -> RegistrationError {
        RegistrationError::TooMany { owner: self.owner.clone(), what, most }
    }

    /// The hooks.
    pub fn hooks(&self) -> impl Iterator<Item = &HookSpec> {
        self.hooks.iter().map(|(spec, _)| spec)
    }

    /// What it registers besides hooks.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// Each hook with a snapshot in which it stands alone, for every event of its point.
    pub(crate) fn alone(
        &self,
        settings: &OperatorSettings,
    ) -> impl Iterator<Item = (HookId, PointId, Result<Snapshot, RegisterError>)> {
        self.hooks.iter().map(|(spec, hook)| {
            let mut snapshot = Snapshot::empty(settings.clone());
            let stood = hook.stand(&mut snapshot, spec.point, spec.of_everything().options(&self.owner));
            (spec.id(&self.owner), spec.point, stood.map(|_| snapshot))
        })
    }

    /// Puts the hooks into `snapshot`. Where that fails, some of them may stand in it, and it is to be thrown away.
    ///
    /// # Errors
    ///
    /// [`RegistrationError::Hook`] where a gate can't stand, or any hook for a reason that is its author's.
    pub fn seat(&self, snapshot: &mut Snapshot) -> Result<Seated, RegistrationError> {
        let mut seated = Seated { left_out: self.left_out.clone(), ..Seated::default() };
        for (spec, hook) in &self.hooks {
            if spec.dispatch_kinds.is_some() {
                let what = format!("`eligibleDispatchKinds` of {} (`{}`)", spec.registration, spec.name);
                let why = "no host here has kinds of dispatches; the hook is asked each time";
                seated.left_out.push(LeftOut { what, why: why.to_owned() });
            }
            match hook.stand(snapshot, spec.point, spec.options(&self.owner)) {
                Ok(id) => seated.hooks.push(id),
                // A gate of another host's guards that; one that nobody fires would guard nothing.
                Err(RegisterError::NotFired { elsewhere, .. })
                    if !spec.is_gate() || !elsewhere.is_empty() =>
                {
                    seated.waiting.push(Waiting { id: spec.id(&self.owner), point: spec.point });
                }
                Err(
                    error
                    @ (RegisterError::ConversationAccess { .. } | RegisterError::PromptInjection { .. }),
                ) if !spec.is_gate() => {
                    let what = format!("{} (`{}`)", spec.registration, spec.name);
                    seated.left_out.push(LeftOut { what, why: error.to_string() });
                }
                Err(error) => return Err(RegistrationError::Hook { owner: self.owner.clone(), error }),
            }
        }
        Ok(seated)
    }
}

/// Puts a hook that speaks JSON at a point that is known by its id.
///
/// # Errors
///
/// [`RegisterError`], where it can't stand there.
pub fn stand(
    snapshot: &mut Snapshot,
    point: PointId,
    hook: Arc<dyn JsonHook>,
    options: HookOptions,
) -> Result<HookId, RegisterError> {
    SpeaksJson(hook).stand(snapshot, point, options)
}

/// A hook that can be made one of any point.
pub trait AtAnyPoint: Send + Sync + 'static {
    /// It as a hook at `P`.
    fn at<P: Point>(&self) -> Arc<dyn Hook<P>>;
}

struct SpeaksJson(Arc<dyn JsonHook>);

impl AtAnyPoint for SpeaksJson {
    fn at<P: Point>(&self) -> Arc<dyn Hook<P>> {
        json_hook::<P>(Arc::clone(&self.0))
    }
}

/// [`AtAnyPoint`] for points that are known by their id.
trait Stands: Send + Sync {
    fn stand(
        &self,
        snapshot: &mut Snapshot,
        point: PointId,
        options: HookOptions,
    ) -> Result<HookId, RegisterError>;
}

macro_rules! stand_at_each {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal,
       $injection:literal, $event:ident, $outcome:ident, $summary:literal;)*) => {
        impl<T: AtAnyPoint> Stands for T {
            fn stand(
                &self,
                snapshot: &mut Snapshot,
                point: PointId,
                options: HookOptions,
            ) -> Result<HookId, RegisterError> {
                match point {
                    $(PointId::$point => snapshot.on(self.at::<backstop_hooks::points::$point>(), options),)*
                }
            }
        }
    };
}

for_each_point!(stand_at_each);

#[cfg(test)]
mod tests {
    use backstop_engine::{Hosts, OwnerSettings};
    use backstop_hooks::{HostProfile, JsonFuture};
    use serde_json::Value;

    use super::*;

    struct Silent;

    impl JsonHook for Silent {
        fn call<'a>(&'a self, _: PointId, _: Value) -> JsonFuture<'a> {
            Box::pin(async { Ok(Value::Null) })
        }
    }

    fn registration(points: &[PointId]) -> Registration {
        let mut registration = Registration::new("mine").unwrap();
        for point in points {
            registration.hook(HookSpec::at(point.name(), "h").unwrap(), Arc::new(Silent)).unwrap();
        }
        registration
    }

    fn settings(access: Option<bool>, injection: Option<bool>) -> OperatorSettings {
        let mut settings = OperatorSettings::default();
        let owner = OwnerSettings {
            allow_conversation_access: access,
            allow_prompt_injection: injection,
            ..OwnerSettings::default()
        };
        settings.owners.insert(OwnerId::new("mine"), owner);
        settings
    }

    #[test]
    fn every_point_takes_a_hook_of_a_plugin() {
        let points: Vec<_> =
            PointId::ALL.iter().copied().filter(|point| *point != PointId::TrustedToolPolicy).collect();
        let mut snapshot = Snapshot::empty(settings(Some(true), None));
        let seated = registration(&points).seat(&mut snapshot).unwrap();
        assert_eq!(seated.hooks.len(), points.len());
        assert!(snapshot.iter().all(|meta| meta.style == Style::Foreign && !meta.judges_values));
        let stands: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
        assert_eq!(stands, points, "each stands at its own point");
    }

    #[test]
    fn law_07_a_gate_that_no_host_fires_is_an_error_and_an_observer_waits() {
        let profile = HostProfile::new("tiny", "a tiny host").fires([PointId::SessionStart]);
        let mut snapshot = Snapshot::empty(settings(Some(true), None)).hosted_by(Hosts::new([profile]));
        let seated =
            registration(&[PointId::AfterToolCall, PointId::SessionStart]).seat(&mut snapshot).unwrap();
        assert_eq!(seated.hooks.len(), 1);
        assert_eq!(seated.waiting.len(), 1);
        assert_eq!(seated.waiting[0].point, PointId::AfterToolCall);
        let error = registration(&[PointId::BeforeToolCall]).seat(&mut snapshot).unwrap_err().to_string();
        assert!(error.contains("before_tool_call") && error.contains("tiny"), "{error}");
    }

    #[test]
    fn law_07_a_gate_of_another_hosts_waits_for_that_and_one_of_nobodys_is_an_error() {
        let here = HostProfile::new("tiny", "a tiny host").fires([PointId::SessionStart]);
        let other = HostProfile::new("other", "another host").fires([PointId::BeforeInstall]);
        let hosts = Hosts::new([here]).elsewhere([other]);
        let mut snapshot = Snapshot::empty(settings(Some(true), None)).hosted_by(hosts);
        let seated =
            registration(&[PointId::BeforeInstall, PointId::SessionStart]).seat(&mut snapshot).unwrap();
        assert_eq!((seated.hooks.len(), seated.waiting.len()), (1, 1));
        assert_eq!(seated.waiting[0].point, PointId::BeforeInstall);
        assert!(registration(&[PointId::BeforeToolCall]).seat(&mut snapshot).is_err());
    }

    #[test]
    fn law_07_a_gate_without_its_grant_is_an_error_and_other_hooks_are_listed() {
        for (gate, other, settings, setting) in [
            (PointId::BeforeLlmCall, PointId::LlmOutput, settings(None, None), "allowConversationAccess"),
            (
                PointId::BeforeLlmCall,
                PointId::BeforePromptBuild,
                settings(Some(true), Some(false)),
                "allowPromptInjection",
            ),
        ] {
            let mut snapshot = Snapshot::empty(settings);
            let error = registration(&[gate]).seat(&mut snapshot).unwrap_err().to_string();
            assert!(error.contains(setting) && error.contains(gate.name()), "{error}");
            let seated = registration(&[other]).seat(&mut snapshot).unwrap();
            assert!(seated.left_out[0].why.contains(setting) && seated.hooks.is_empty());
        }
    }

    #[test]
    fn law_07_what_no_host_can_honour_of_a_hook_is_listed() {
        let mut registration = Registration::new("mine").unwrap();
        let spec = HookSpec {
            dispatch_kinds: Some(vec!["turn".to_owned()]),
            ..HookSpec::at("before_tool_call", "h").unwrap()
        };
        registration.hook(spec, Arc::new(Silent)).unwrap();
        let seated = registration.seat(&mut Snapshot::empty(OperatorSettings::default())).unwrap();
        assert_eq!(seated.hooks.len(), 1, "it is asked, and more often than it wishes");
        assert!(seated.left_out[0].what.contains("eligibleDispatchKinds"), "{:?}", seated.left_out);
    }

    #[test]
    fn nobody_is_called_like_a_part_of_backstop() {
        for id in ["builtin", "builtin:security-audit", "operator", "", "a:b", "a\nb", &"x".repeat(129)] {
            assert!(matches!(Registration::new(id), Err(RegistrationError::Owner(_))), "{id}");
        }
        let error = registration(&[PointId::TrustedToolPolicy])
            .seat(&mut Snapshot::empty(OperatorSettings::default()))
            .unwrap_err();
        assert!(matches!(error, RegistrationError::Hook { error: RegisterError::Untrusted(_), .. }));
    }

    #[test]
    fn names_are_seen_as_they_are() {
        let too_long = "x".repeat(LONGEST_NAME + 1);
        for name in ["a\u{1b}[2Jb", "a\nallow", "a\u{202e}b", "a\u{200b}", "", &too_long] {
            let mut registration = registration(&[]);
            let spec = HookSpec::at("before_tool_call", name).unwrap();
            let error = registration.hook(spec, Arc::new(Silent)).unwrap_err();
            assert!(matches!(&error, RegistrationError::Name { .. }), "{error}");
            assert!(!error.to_string().contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{error}");
            for kind in [OfferKind::Service, OfferKind::Cli, OfferKind::SessionExtension] {
                let offer = Offer { kind, name: name.to_owned(), description: String::new(), schema: None };
                assert!(matches!(registration.offer(offer), Err(RegistrationError::Name { .. })), "{name:?}");
            }
        }
        let spec = HookSpec::at("before_tool_call", "my-plugin:redact secrets, häufig").unwrap();
        registration(&[]).hook(spec, Arc::new(Silent)).unwrap();
    }

    #[test]
    fn names_are_unique_and_numbers_are_bounded() {
        let mut registration = registration(&[PointId::BeforeToolCall]);
        let again = HookSpec::at("before_tool_call", "h").unwrap();
        let error = registration.hook(again, Arc::new(Silent)).unwrap_err().to_string();
        assert!(error.contains("registrationId"), "{error}");
        for number in 1..MOST_HOOKS {
            let spec = HookSpec::at("before_tool_call", number.to_string()).unwrap();
            registration.hook(spec, Arc::new(Silent)).unwrap();
        }
        let spec = HookSpec::at("before_tool_call", "more").unwrap();
        assert!(matches!(registration.hook(spec, Arc::new(Silent)), Err(RegistrationError::TooMany { .. })));
        assert!(HookSpec::at("before_tool_cal", "h").unwrap_err().to_string().contains("before_tool_call"));
    }
}
