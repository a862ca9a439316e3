//! Whether a plugin has the hooks that people were told of when they trusted it.

use std::collections::BTreeSet;

use backstop_hooks::PointId;

use super::Why;
use crate::manifest::Manifest;
use crate::registration::{HookSpec, Registration};

/// Refuses a plugin whose code has no hook where people were told that it has one: what they count on would judge nothing.
pub(super) fn are_registered(manifest: &Manifest, registration: &Registration) -> Result<(), Why> {
    let stands = |point: PointId| registration.hooks().any(|spec| spec.point == point);
    let is_missing = |spec: &&HookSpec| !manifest.optional.contains(&spec.point) && !stands(spec.point);
    let Some(missing) = manifest.points.iter().flatten().find(is_missing) else { return Ok(()) };
    let points: BTreeSet<PointId> = registration.hooks().map(|spec| spec.point).collect();
    let registered = match points.is_empty() {
        true => "it registered no hooks at all".to_owned(),
        false => {
            format!(
                "it registered hooks at {}",
                backstop_yaml::quoted_list(points.iter().map(|it| it.name()))
            )
        }
    };
    Err(Why::Unregistered { point: missing.point.name().to_owned(), registered })
}
