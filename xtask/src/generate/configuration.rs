//! The reference of `backstop.yaml`: its JSON Schema for editors, and for people the table of keys inside
//! the guide, between two marks.

use crate::error::Error;
use crate::generate::{Generated, pretty};
use crate::workspace::read;

const GUIDE: &str = "docs/configuration.md";
const BEGIN: &str = "<!-- generated: keys -->\n\n";
const END: &str = "\n<!-- end -->";

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let schema = pretty(&backstop_config::schema())?;
    let guide = with_section(&read(GUIDE)?, &backstop_config::reference()).ok_or(Error::Marks {
        path: GUIDE,
        begin: BEGIN.trim(),
        end: END.trim(),
    })?;
    Ok(vec![Generated::new("docs/reference/backstop.schema.json", schema), Generated::new(GUIDE, guide)])
}

/// The guide with another text between the marks; `None` without marks.
fn with_section(guide: &str, section: &str) -> Option<String> {
    let (before, rest) = guide.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, section, END, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let guide = format!("a{BEGIN}old{END}b");
        assert_eq!(with_section(&guide, "new"), Some(format!("a{BEGIN}new{END}b")));
        assert_eq!(with_section("a", "new"), None);
        assert_eq!(with_section(&format!("{END}{BEGIN}"), "new"), None);
    }
}
