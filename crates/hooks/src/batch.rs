//! Batches: adjacent hooks at a point that are asked in one request.
//!
//! Asking a hook on another thread or in another process costs a hand-over, which takes many times longer than the hook
//! itself. Adjacent hooks that live in the same place can be handed over together.
//!
//! The law: a batch changes what asking costs and nothing else. Its members are asked in order about one value.
//! After the first that answers or fails, no other is asked, because the next one must see the resulting
//! value. Each member has its own budget, and its own time in the receipt.
//!
//! A batch is code of a program and not of a plugin: the engine trusts what it reports about the time of each member, and
//! has only one timer for all of them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::evidence::Evidence;
use crate::forms::Forms;
use crate::hook::{CallContext, HookResult};
use crate::point::Point;
use crate::value::Json;

/// Several hooks at the point `P` that can be asked in one request.
pub trait Batch<P: Point>: Send + Sync + 'static {
    /// Asks members one after another about the event, until one says something or fails.
    fn ask<'a>(
        &'a self,
        members: Vec<Member<'a>>,
        event: &'a P::Event,
        cx: BatchContext<'a>,
    ) -> BatchFuture<'a, P>;
}

/// What [`Batch::ask`] returns.
pub type BatchFuture<'a, P> = Pin<Box<dyn Future<Output = BatchAnswer<P>> + Send + 'a>>;

/// What a batch gets besides the event.
#[derive(Clone, Copy, Debug)]
pub struct BatchContext<'a> {
    /// The shared facts.
    pub call: &'a CallContext,
    /// Where members report what their answers depend on.
    pub evidence: Option<&'a Evidence>,
    /// Other forms of the event.
    pub forms: Option<&'a Forms>,
}

/// One hook that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The number in its [`Membership`].
    pub number: usize,
    /// How long it may take.
    pub budget: Duration,
    /// The configuration of its owner.
    pub plugin_config: &'a Json,
}

/// The members' answers, in the order in which they were asked. None was asked after `said`.
pub struct BatchAnswer<P: Point> {
    /// How long each member took that has no opinion.
    pub silent: Vec<Duration>,
    /// What the next one said, or why it failed, and how long it took; `None` if all were asked and have no opinion.
    pub said: Option<(HookResult<P>, Duration)>,
}

impl<P: Point> fmt::Debug for BatchAnswer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.said.as_ref().map(|(said, _)| said.is_ok());
        f.debug_struct("BatchAnswer").field("silent", &self.silent).field("said", &said).finish()
    }
}

/// The place of a hook in a batch.
pub struct Membership<P: Point> {
    /// The batch. Two hooks are in the same one if this is the same object.
    pub batch: Arc<dyn Batch<P>>,
    /// Which of its members the hook is.
    pub number: usize,
}

impl<P: Point> Clone for Membership<P> {
    fn clone(&self) -> Self {
        Self { batch: Arc::clone(&self.batch), number: self.number }
    }
}

impl<P: Point> fmt::Debug for Membership<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("number", &self.number).finish_non_exhaustive()
    }
}
