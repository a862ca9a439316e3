//! The hosts that exist, and those of the processes that `backstop` starts.
//!
//! Hooks are admitted by the hosts of their process: one at a point that none of them fires is an error, since it
//! would never be called. Three kinds of processes are more than one host:
//!
//! - A server is the LLM proxy and the API for programs, and with its daemon all coding agents.
//! - A hook that a coding agent starts judges by the policy of that server, or it would judge otherwise than the
//!   daemon does; so a hook around model calls is no error there, although the client shows none. `backstop doctor`
//!   names what the client never fires.
//! - A command that only shows or tries hooks (`hooks`, `check`, `explain`) stands for all of them.

use backstop_hooks::HostProfile;

/// Every host that this build has: the agent, the LLM proxy as it is by default, programs by its API, each coding agent, and the
/// installation of plugins.
pub fn all_hosts() -> Vec<HostProfile> {
    let hosts: &[fn() -> Vec<HostProfile>] = &[
        #[cfg(feature = "agent")]
        || vec![backstop_agent::host_profile()],
        #[cfg(feature = "gateway")]
        proxy_and_api,
        #[cfg(feature = "clients")]
        clients,
        #[cfg(feature = "plugins")]
        || vec![installer_host()],
    ];
    hosts.iter().flat_map(|hosts| hosts()).collect()
}

/// Whoever installs plugins: it asks the hooks at `before_install`, and does nothing else of an agent's life.
#[cfg(feature = "plugins")]
pub fn installer_host() -> HostProfile {
    HostProfile::new("plugins", "installation of plugins").fires([backstop_hooks::PointId::BeforeInstall])
}

#[cfg(feature = "clients")]
fn clients() -> Vec<HostProfile> {
    backstop_clients::Client::ALL.into_iter().map(backstop_clients::Client::host_profile).collect()
}

#[cfg(feature = "gateway")]
fn proxy_and_api() -> Vec<HostProfile> {
    let settings = backstop_gateway::inspect::HookSettings::default();
    vec![backstop_gateway::inspect::host_profile(&settings), backstop_gateway::inspect::api_profile()]
}

/// The hosts of a server: the LLM proxy with these settings, programs by the API and, where it answers the hooks of coding agents, each
/// of them that this build has.
#[cfg(feature = "gateway")]
pub fn server_hosts(
    settings: &backstop_gateway::inspect::HookSettings,
    answers_clients: bool,
) -> Vec<HostProfile> {
    let proxy = backstop_gateway::inspect::host_profile(settings);
    let others: &[fn() -> Vec<HostProfile>] = &[
        #[cfg(feature = "clients")]
        clients,
    ];
    let others = others.iter().filter(|_| answers_clients).flat_map(|hosts| hosts());
    [proxy, backstop_gateway::inspect::api_profile()].into_iter().chain(others).collect()
}
