//! What a server tells the witnesses of the audit trail meanwhile.
//!
//! No request waits for it. That a witness does not answer is logged when it begins and when it is over, and that one knows another trail each
//! time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop::gateway::Metrics;
use backstop::{Backstop, Witnesses};
use tokio::task::JoinHandle;

/// How often witnesses are told.
const TELL: Duration = Duration::from_mins(1);

/// Tells these witnesses, now and every minute, and counts what comes of it; `None` where there are none.
pub(super) fn tell_witnesses(
    witnesses: Witnesses,
    backstop: &Backstop,
    metrics: Option<&Metrics>,
) -> Option<JoinHandle<()>> {
    let is_told = !witnesses.is_empty() && backstop.audit().is_some();
    if let Some(metrics) = metrics {
        metrics.witnesses(if is_told { witnesses.names() } else { Vec::new() });
    }
    if !is_told {
        return None;
    }
    let (store, metrics) = (Arc::clone(backstop.engine().store()), metrics.cloned());
    Some(tokio::spawn(async move {
        let mut silent = BTreeSet::new();
        loop {
            for (witness, found) in witnesses.tell(store.as_ref()).await {
                if let Some(metrics) = &metrics {
                    metrics.witness(&witness, found.is_ok());
                }
                match found {
                    Ok(found) => {
                        if silent.remove(&witness) {
                            tracing::info!(
                                witness,
                                entries = found.entries,
                                "a witness of the audit trail answers again"
                            );
                        }
                    }
                    Err(error) if error.is_tampering() => {
                        tracing::error!(witness, %error, "a witness knows another audit trail");
                    }
                    Err(error) => {
                        if silent.insert(witness.clone()) {
                            tracing::warn!(witness, %error, "a witness does not vouch for the audit trail");
                        }
                    }
                }
            }
            tokio::time::sleep(TELL).await;
        }
    }))
}
