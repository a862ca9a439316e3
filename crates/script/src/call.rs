//! What a script is asked with, and what it answers.

use std::sync::Arc;
use std::time::Duration;

use crate::json::JsonText;

/// A function that a script handed over, kept in its runtime until it is released or the script is unloaded.
///
/// What was kept while the script was loaded is found again in a runtime that had to be made anew, if the script
/// keeps the same functions under the same labels; what an answer brought belongs to its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId {
    number: u32,
    /// The runtime that it belongs to; 0 where it was kept by a number.
    generation: u32,
}

impl FunctionId {
    /// The function that `import.meta.host.keep` gave this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self { number, generation: 0 }
    }

    /// The function of this number in an answer of the runtime that was the `generation`th of its script.
    #[must_use]
    pub const fn of(number: u32, generation: u32) -> Self {
        Self { number, generation }
    }

    /// Whether a runtime can have it that is the `generation`th of its script.
    #[must_use]
    pub const fn is_of(self, generation: u32) -> bool {
        self.generation == 0 || self.generation == generation
    }

    /// Whether it was kept while its script was loaded.
    #[must_use]
    pub const fn is_of_load(self) -> bool {
        self.generation == 0
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.number
    }
}

impl std::fmt::Display for FunctionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}", self.number)
    }
}

/// Which function of a script is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// A function that was kept.
    Kept(FunctionId),
    /// An export of the boot module, or of the entry where there is none.
    Export(String),
}

impl From<FunctionId> for Callee {
    fn from(id: FunctionId) -> Self {
        Self::Kept(id)
    }
}

/// An event whose fields are encoded once and parsed, in a script, when they are read.
///
/// For the script it is a plain object with own, enumerable fields. Make the names once for each kind of event and
/// share them: they are the key by which a runtime finds the code that makes such events.
#[derive(Clone)]
pub struct LazyEvent {
    names: Arc<[Arc<str>]>,
    texts: Arc<[JsonText]>,
}

impl LazyEvent {
    /// An event with the fields `names`, whose values are `texts`, in order.
    ///
    /// Returns nothing if there are not as many texts as names.
    #[must_use]
    pub fn new(names: Arc<[Arc<str>]>, texts: impl Into<Arc<[JsonText]>>) -> Option<Self> {
        let texts = texts.into();
        (names.len() == texts.len()).then_some(Self { names, texts })
    }

    /// The fields with the JSON texts of their values.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &JsonText)> {
        self.names.iter().map(|name| &**name).zip(self.texts.iter())
    }

    pub(crate) fn names(&self) -> &Arc<[Arc<str>]> {
        &self.names
    }

    pub(crate) fn texts(&self) -> &[JsonText] {
        &self.texts
    }
}

impl std::fmt::Debug for LazyEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LazyEvent").field("names", &self.names).finish_non_exhaustive()
    }
}

/// One argument of a call.
#[derive(Debug, Clone)]
pub enum Argument {
    /// A value, parsed before the call.
    Json(JsonText),
    /// An event that is parsed as it is read.
    Lazy(LazyEvent),
    /// An `AbortSignal` that is aborted when the caller does not wait any more.
    Signal,
}

/// The arguments of a call.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    pub(crate) list: Arc<[Argument]>,
    pub(crate) keep: Arc<[String]>,
}

impl Arguments {
    /// These arguments, in order.
    #[must_use]
    pub fn new(list: impl Into<Arc<[Argument]>>) -> Self {
        Self { list: list.into(), keep: Arc::default() }
    }

    /// The arguments, in order.
    #[must_use]
    pub fn list(&self) -> &[Argument] {
        &self.list
    }

    /// The places of the answer at which functions are kept.
    #[must_use]
    pub fn kept(&self) -> &[String] {
        &self.keep
    }

    pub(crate) fn has_signal(&self) -> bool {
        self.list.iter().any(|argument| matches!(argument, Argument::Signal))
    }

    /// Has functions at these places of the answer (`requireApproval.onResolution`) kept, instead of the answer
    /// being malformed for them.
    #[must_use]
    pub fn keeping(mut self, places: impl Into<Arc<[String]>>) -> Self {
        self.keep = places.into();
        self
    }
}

/// A function in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFunction {
    /// Its place, as [`Arguments::keeping`] names it.
    pub at: String,
    /// It. Release it when it is not needed any more.
    pub id: FunctionId,
}

/// What a script answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The answer, as data.
    pub json: JsonText,
    /// Functions at the places that the caller named; they are not in `json`.
    pub functions: Vec<KeptFunction>,
}

/// How a run of several functions ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// The function that answered or failed, if one did: its index, and what came of it.
    pub ended_at: Option<(usize, Result<Answer, crate::ScriptError>)>,
    /// The time that each function took that was asked, with what it waited for.
    pub took: Vec<Duration>,
}
