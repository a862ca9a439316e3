//! The reference of `backstop.yaml`: its JSON Schema for editors, and for people the table of keys inside
//! the guide, between two marks.

use crate::error::Error;
use crate::generate::{Generated, between, pretty};
use crate::workspace::read;

const GUIDE: &str = "docs/configuration.md";
const BEGIN: &str = "<!-- generated: keys -->\n\n";
const END: &str = "\n<!-- end -->";

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let schema = pretty(&backstop_config::schema())?;
    let guide = between(&read(GUIDE)?, BEGIN, END, &backstop_config::reference()).ok_or(Error::Marks {
        path: GUIDE,
        begin: BEGIN.trim(),
        end: END.trim(),
    })?;
    Ok(vec![Generated::new("docs/reference/backstop.schema.json", schema), Generated::new(GUIDE, guide)])
}
