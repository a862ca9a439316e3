//! Through what a call is seen: for people who are asked about it. Hooks judge calls the same wherever they come from.

/// The front end that shows a call, as far as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontEnd {
    /// The host: `agent`, `gateway`, `hooks`.
    pub host: Option<&'static str>,
    /// The program whose hooks report the call, or for which the host was started.
    pub client: Option<&'static str>,
}

impl FrontEnd {
    /// Creates the front end of a host that shows its own calls, or those of programs that it does not know.
    pub const fn of_host(host: &'static str) -> Self {
        Self { host: Some(host), client: None }
    }
}
