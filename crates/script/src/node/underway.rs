//! What is under way outside of the runtime: how it is stopped, and bytes that came of it and wait to be taken.
//!
//! **Bounds.** Bytes come with the part of the script's ledger that they are counted in, and keep it until they are
//! taken. A way to stop something is dropped with what it would stop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rquickjs::{Ctx, Function, Object, TypedArray};
use tokio::sync::oneshot;

use crate::bridge::HostError;
use crate::realm::Held;

/// Bytes, and where they are counted.
type Parcel = (Vec<u8>, Held);

/// See the module.
#[derive(Default)]
pub(super) struct Underway {
    stops: Mutex<BTreeMap<u64, oneshot::Sender<()>>>,
    parcels: Mutex<(u32, BTreeMap<u32, Parcel>)>,
}

impl Underway {
    /// Keeps `bytes` until JavaScript takes them.
    pub(super) fn keep(&self, bytes: Vec<u8>, held: Held) -> u32 {
        let mut parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        parcels.0 = parcels.0.wrapping_add(1);
        let number = parcels.0;
        parcels.1.insert(number, (bytes, held));
        number
    }

    fn take(&self, number: u32) -> Vec<u8> {
        let taken = self.parcels.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
        taken.map(|(bytes, _)| bytes).unwrap_or_default()
    }

    fn stop(&self, id: u64) {
        let stop = self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(stop) = stop {
            // What has ended needs no stopping.
            let _ = stop.send(());
        }
    }

    /// Does `work` as the request `id`, unless it is stopped, from now on.
    pub(super) fn run<T>(
        self: Arc<Self>,
        id: u64,
        work: impl Future<Output = Result<T, HostError>> + Send,
    ) -> impl Future<Output = Result<T, HostError>> + Send {
        let (send, stopped) = oneshot::channel();
        self.stops.lock().unwrap_or_else(PoisonError::into_inner).insert(id, send);
        let over = Over { underway: Arc::clone(&self), id };
        async move {
            let _over = over;
            tokio::select! {
                biased;
                Ok(()) = stopped => Err(HostError::new("ABORT_ERR", "The operation was aborted")),
                done = work => done,
            }
        }
    }
}

/// Forgets how something is stopped when it is over, however it ended.
struct Over {
    underway: Arc<Underway>,
    id: u64,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.underway.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Puts `parcel` and `stop` on `host`.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    host: &Object<'js>,
    underway: &Arc<Underway>,
) -> rquickjs::Result<()> {
    let of = Arc::clone(underway);
    let parcel = move |ctx: Ctx<'js>, number: u32| TypedArray::<'js, u8>::new(ctx, of.take(number));
    host.set("parcel", Function::new(ctx.clone(), parcel)?)?;
    let of = Arc::clone(underway);
    host.set("stop", Function::new(ctx.clone(), move |id: u64| of.stop(id))?)
}
