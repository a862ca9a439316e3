//! The types of events and outcomes for authors of hooks in other languages, from the JSON Schemas of the points.
//!
//! A schema becomes [definitions](model), and these become TypedDicts for Python and interfaces for TypeScript. Whatever a
//! schema says that has no form there is an error here, not a wider type: nobody would notice.

mod cases;
mod model;
mod python;
mod typescript;

use self::model::Model;
use crate::error::Error;
use crate::generate::Generated;
use crate::workspace::read;

const PYTHON: &str = "sdk/python/src/backstop";
const TYPESCRIPT: &str = "sdk/typescript/src";
const CONFORMANCE: &str = "sdk/conformance";

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let model = Model::read()?;
    let mut files = vec![
        Generated::new(format!("{PYTHON}/points.py"), python::points(&model)),
        Generated::new(format!("{PYTHON}/decorators.pyi"), python::decorators(&model)),
        Generated::new(format!("{TYPESCRIPT}/points.d.ts"), typescript::types(&model)),
        Generated::new(format!("{TYPESCRIPT}/points.js"), typescript::names(&model)),
        Generated::new(format!("{CONFORMANCE}/points.json"), cases::points()?),
    ];
    // Packages hold the licences that they are under.
    for package in ["sdk/python", "sdk/typescript"] {
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            files.push(Generated::new(format!("{package}/{licence}"), read(licence)?));
        }
    }
    Ok(files)
}
