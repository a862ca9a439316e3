//! What is under way outside of the runtime: how it is stopped, and bytes that came of it and wait to be taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rquickjs::{Ctx, Function, Object, TypedArray};
use tokio::sync::oneshot;

use crate::bridge::HostError;

/// See the module.
#[derive(Default)]
pub(super) struct Underway {
    stops: Mutex<BTreeMap<u64, oneshot::Sender<()>>>,
    parcels: Mutex<(u32, BTreeMap<u32, Vec<u8>>)>,
}

impl Underway {
    /// Keeps `bytes` until JavaScript takes them.
    pub(super) fn keep(&self, bytes: Vec<u8>) -> u32 {
        let mut parcels = self.parcels.lock().unwrap_or_else(PoisonError::into_inner);
        parcels.0 = parcels.0.wrapping_add(1);
        let number = parcels.0;
        parcels.1.insert(number, bytes);
        number
    }

    fn take(&self, number: u32) -> Vec<u8> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number).unwrap_or_default()
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
        async move {
            let done = tokio::select! {
                biased;
                Ok(()) = stopped => Err(HostError::new("ABORT_ERR", "The operation was aborted")),
                done = work => done,
            };
            self.stops.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            done
        }
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
