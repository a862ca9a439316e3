//! The JSON Schema of files of cases, for editors.

use crate::error::Error;
use crate::generate::{Generated, pretty};

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let schema = pretty(&backstop_cli::case_schema())?;
    Ok(vec![Generated::new("docs/reference/cases.schema.json", schema)])
}
