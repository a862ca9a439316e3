//! The reference of the command line, which the command line makes of its own definitions.

use crate::error::Error;
use crate::generate::{Generated, MARK};

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let text = format!("{MARK}{}", backstop_cli::reference());
    Ok(vec![Generated::new("docs/reference/cli.md", text)])
}
