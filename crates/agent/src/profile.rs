//! What the agent fires: everything around models and tools, and the life of its sessions.
//!
//! It obeys every field. It has no channels, sub-agents or schedules, so it does not declare their points.

use backstop_hooks::{Family, HostProfile, PointId};

/// The agent as a host.
pub fn host_profile() -> HostProfile {
    let around_models_and_tools = PointId::ALL
        .iter()
        .copied()
        .filter(|point| matches!(point.info().family, Family::Model | Family::Tools));
    HostProfile::new("agent", "the agent").fires(around_models_and_tools).fires([
        PointId::MessageReceived,
        PointId::SessionStart,
        PointId::SessionEnd,
        PointId::BeforeReset,
        PointId::BeforeCompaction,
        PointId::AfterCompaction,
    ])
}
