//! The reference of the coding agents: what each can honour, as the command line shows it before installing.

use crate::error::Error;
use crate::generate::{Generated, MARK};

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let text = format!("{MARK}{}", backstop_cli::clients_page());
    Ok(vec![Generated::new("docs/reference/clients.md", text)])
}
