//! Systems on which a process can't shut itself in. Its bounds hold all the same.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::shut_in_opening::{Gap, Opening};

/// Sets the bounds of this process, and says which walls this system can't build.
///
/// # Errors
///
/// Where a bound can't be set.
pub fn shut_in(opening: &Opening) -> io::Result<Vec<Gap>> {
    bound(Resource::Core, 0)?;
    if let Some(bytes) = opening.memory {
        // Not all systems hold to it, or let it be said.
        let _ = bound(Resource::Data, bytes);
    }
    let network = if opening.network { [].as_slice() } else { &[Gap::Connections, Gap::Datagrams] };
    Ok([Gap::Files, Gap::Others].into_iter().chain(network.iter().copied()).collect())
}

fn bound(what: Resource, most: u64) -> io::Result<()> {
    let before = getrlimit(what);
    let lower = |now: Option<u64>| Some(now.map_or(most, |now| now.min(most)));
    Ok(setrlimit(what, Rlimit { current: lower(before.current), maximum: lower(before.maximum) })?)
}
