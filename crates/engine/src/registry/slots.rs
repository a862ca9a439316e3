//! The hooks of one point, and all points of a snapshot by their types.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use backstop_hooks::{Hook, Membership, Point, PointId, drop_contained};

use super::{Snapshot, carried};
use crate::hook_options::{HookMeta, HookOptions};
use crate::refusal::RegisterError;

pub(crate) struct Entry<P: Point> {
    pub(crate) hook: Arc<dyn Hook<P>>,
    pub(crate) meta: Arc<HookMeta>,
    /// How many of its calls wait for its answer.
    pub(crate) under_way: Arc<AtomicUsize>,
    /// The batch that it is in.
    pub(crate) membership: Option<Membership<P>>,
    /// As it was registered, its id filled in: what other settings are applied to after a reload.
    pub(super) options: Arc<HookOptions>,
}

impl<P: Point> Clone for Entry<P> {
    fn clone(&self) -> Self {
        Self {
            hook: Arc::clone(&self.hook),
            meta: Arc::clone(&self.meta),
            under_way: Arc::clone(&self.under_way),
            membership: self.membership.clone(),
            options: Arc::clone(&self.options),
        }
    }
}

/// The hooks at one point, which is known by its type: no other point's hooks can be taken for them.
pub(super) struct Slot<P: Point>(Vec<Entry<P>>);

impl<P: Point> Drop for Slot<P> {
    fn drop(&mut self) {
        // One by one: two destructors that panic in a row would end the process. Whoever drops the last
        // snapshot that has a hook may be in the middle of a dispatch or of a change of the registry.
        for entry in std::mem::take(&mut self.0) {
            drop_contained(entry);
        }
    }
}

pub(super) trait AnySlot: Send + Sync {
    fn point(&self) -> PointId;
    fn metas(&self) -> Vec<Arc<HookMeta>>;
    fn retain(&self, keep: &dyn Fn(&HookMeta) -> bool) -> Arc<dyn AnySlot>;
    fn carry_over(&self, next: &mut Snapshot) -> Result<(), RegisterError>;
    fn as_any(&self) -> &dyn Any;
}

impl<P: Point> AnySlot for Slot<P> {
    fn point(&self) -> PointId {
        P::INFO.id
    }

    fn metas(&self) -> Vec<Arc<HookMeta>> {
        self.0.iter().map(|entry| Arc::clone(&entry.meta)).collect()
    }

    fn retain(&self, keep: &dyn Fn(&HookMeta) -> bool) -> Arc<dyn AnySlot> {
        Arc::new(Self(self.0.iter().filter(|entry| keep(&entry.meta)).cloned().collect()))
    }

    fn carry_over(&self, next: &mut Snapshot) -> Result<(), RegisterError> {
        for entry in &self.0 {
            if next.takes_over(&entry.meta) {
                carried(next.on(Arc::clone(&entry.hook), HookOptions::clone(&entry.options)))?;
            }
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Hooks by their points, in the order of the catalogue; a point without hooks is not in it.
#[derive(Clone, Default)]
pub(super) struct Slots(Vec<(TypeId, Arc<dyn AnySlot>)>);

impl Slots {
    /// Returns the hooks at `P`, in running order.
    pub(super) fn at<P: Point>(&self) -> &[Entry<P>] {
        self.0
            .iter()
            .find(|(point, _)| *point == TypeId::of::<P>())
            .and_then(|(_, slot)| slot.as_any().downcast_ref::<Slot<P>>())
            .map_or(&[], |slot| &slot.0)
    }

    /// Puts a hook behind those of its priority.
    pub(super) fn insert<P: Point>(&mut self, entry: Entry<P>) {
        let mut entries = self.at::<P>().to_vec();
        let at = entries.partition_point(|other| other.meta.priority >= entry.meta.priority);
        entries.insert(at, entry);
        let slot: Arc<dyn AnySlot> = Arc::new(Slot(entries));
        match self.0.iter_mut().find(|(point, _)| *point == TypeId::of::<P>()) {
            Some((_, hooks)) => *hooks = slot,
            None => {
                let at = self.0.partition_point(|(_, slot)| slot.point() < P::INFO.id);
                self.0.insert(at, (TypeId::of::<P>(), slot));
            }
        }
    }

    /// Keeps the hooks that `keep` selects. Returns whether any were removed.
    pub(super) fn retain(&mut self, keep: &dyn Fn(&HookMeta) -> bool) -> bool {
        let mut removed = false;
        for (_, hooks) in &mut self.0 {
            if hooks.metas().iter().any(|meta| !keep(meta)) {
                *hooks = hooks.retain(keep);
                removed = true;
            }
        }
        removed
    }

    /// Returns all hooks, point by point.
    pub(super) fn metas(&self) -> impl Iterator<Item = Arc<HookMeta>> + '_ {
        self.0.iter().flat_map(|(_, slot)| slot.metas())
    }

    /// Registers the hooks in another snapshot that takes them over.
    pub(super) fn carry_over(&self, next: &mut Snapshot) -> Result<(), RegisterError> {
        self.0.iter().try_for_each(|(_, slot)| slot.carry_over(next))
    }
}
