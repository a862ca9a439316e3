//! The OpenAPI document of the HTTP API.

use crate::error::Error;
use crate::generate::{Generated, pretty};

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    Ok(vec![Generated::new("docs/reference/openapi.json", pretty(&backstop_cli::openapi())?)])
}
