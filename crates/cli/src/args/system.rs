//! `backstop daemon`.

use std::path::PathBuf;

use crate::system::service;

/// Answers the hooks of all users of this machine, as a user of its own: what a service manager starts.
///
/// Root starts it, or a service manager that hands over the socket; it never runs as root. Without options everything is
/// where an installation of the system scope has it.
#[derive(Debug, clap::Args)]
pub(super) struct DaemonArgs {
    /// The socket, in a folder that only root writes
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// The folder of the operator's file
    #[arg(long, value_name = "DIR")]
    operator: Option<PathBuf>,
    /// The service's own folder, with a database for each user
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The user to become, where root starts it
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl DaemonArgs {
    pub(super) fn lower(self) -> service::Settings {
        let Self { socket, operator, data, user } = self;
        service::Settings { socket, operator, data, user }
    }
}
