//! The current snapshot, and how to change it: as a whole, or not at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use backstop_hooks::{Hook, HookId, Point, PointId, ToolName};

use super::{Snapshot, bit, carried};
use crate::hook_options::{HookMeta, HookOptions};
use crate::redaction::SpanRedactor;
use crate::refusal::RegisterError;

/// The current snapshot, and how to change it.
#[derive(Debug)]
pub struct Registry {
    current: ArcSwap<Snapshot>,
    // A bit for each point at which hooks stand: what a dispatch that meets none has to know.
    occupied: AtomicU64,
    // The same for hooks in shadow.
    shadowed: AtomicU64,
    // How often the hooks have changed.
    generation: AtomicU64,
    // Serialises changes; dispatches never wait for it.
    writing: Mutex<()>,
}

impl Registry {
    /// Creates a registry that starts with `snapshot`.
    pub fn new(mut snapshot: Snapshot) -> Self {
        snapshot.set = OnceLock::new();
        Self {
            occupied: AtomicU64::new(snapshot.occupied()),
            shadowed: AtomicU64::new(snapshot.shadowed()),
            current: ArcSwap::from_pointee(snapshot),
            generation: AtomicU64::new(0),
            writing: Mutex::new(()),
        }
    }

    /// Returns whether any hook is registered at the point whose answers count.
    pub fn is_occupied(&self, point: PointId) -> bool {
        self.occupied.load(Ordering::Acquire) & bit(point) != 0
    }

    /// Returns whether any hook is registered at the point in shadow.
    pub(crate) fn is_shadowed(&self, point: PointId) -> bool {
        self.shadowed.load(Ordering::Acquire) & bit(point) != 0
    }

    /// INVARIANT (no silent gap): when this returns, no dispatch takes a point for empty at which a hook of
    /// `next` stands; until then it may, as it would have before the change.
    fn put(&self, mut next: Snapshot) {
        next.set = OnceLock::new();
        let (occupied, shadowed) = (next.occupied(), next.shadowed());
        self.current.store(Arc::new(next));
        self.occupied.store(occupied, Ordering::Release);
        self.shadowed.store(shadowed, Ordering::Release);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns how often the hooks have changed. Whoever reads it before a dispatch knows by the same number later that hooks
    /// judge as they did.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the hooks as they are now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Changes the hooks, completely or not at all.
    ///
    /// # Errors
    ///
    /// The error of `change`; the registry is then unchanged.
    pub fn update<T, E>(&self, change: impl FnOnce(&mut Snapshot) -> Result<T, E>) -> Result<T, E> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = Snapshot::clone(&self.current.load());
        let done = change(&mut next)?;
        self.put(next);
        Ok(done)
    }

    /// Activates a new configuration: its hooks, its settings, its tools. Hooks that programs
    /// registered stay, each once, under the new settings; a hook whose id the new configuration uses gives
    /// way to it. All of it happens, or nothing.
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if a hook that would stay is not permitted under the new settings, unless they
    /// disable its owner; then it is removed.
    pub fn reload(&self, mut next: Snapshot) -> Result<(), RegisterError> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.current.load();
        next.add_tools(current.tools.iter().map(ToolName::called));
        current.slots.carry_over(&mut next)?;
        current.shadows.carry_over(&mut next)?;
        for seat in current.redactors.iter().filter(|seat| next.takes_over(&seat.meta)).collect::<Vec<_>>() {
            if let Some(redactor) = seat.redactor.share() {
                carried(next.on_spans(redactor, HookOptions::clone(&seat.options)))?;
            }
        }
        self.put(next);
        Ok(())
    }

    /// Replaces all hooks with another set; none of the current ones stays. A reload is [`Self::reload`].
    pub fn replace(&self, snapshot: Snapshot) {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(snapshot);
    }

    /// Registers one hook. See [`Snapshot::on`].
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there.
    pub fn on<P: Point>(
        &self,
        hook: Arc<dyn Hook<P>>,
        options: HookOptions,
    ) -> Result<HookId, RegisterError> {
        self.update(|snapshot| snapshot.on(hook, options))
    }

    /// Registers one span redactor. See [`Snapshot::on_spans`].
    ///
    /// # Errors
    ///
    /// [`RegisterError`] if it can't be registered there.
    pub fn on_spans(
        &self,
        redactor: Arc<dyn SpanRedactor>,
        options: HookOptions,
    ) -> Result<HookId, RegisterError> {
        self.update(|snapshot| snapshot.on_spans(redactor, options))
    }

    /// Removes one hook. Returns whether it was there.
    pub fn remove(&self, id: &HookId) -> bool {
        let removed: Result<bool, std::convert::Infallible> = self.update(|snapshot| Ok(snapshot.remove(id)));
        removed.unwrap_or_default()
    }

    /// Returns all hooks, point by point, in running order.
    pub fn list(&self) -> Vec<Arc<HookMeta>> {
        self.load().iter().collect()
    }
}
