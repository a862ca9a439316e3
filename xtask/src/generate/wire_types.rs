//! The reference of the types of the wires, from the tables by which answers are read.

use std::fmt::Write as _;

use backstop_llm::wire::{DOCUMENTED, TypeClass, type_tables};

use crate::error::Error;
use crate::generate::{Generated, MARK};

const INTRODUCTION: &str = "# Types of the wires\n\n\
The LLM proxy knows what the things of an answer are by these tables. Text is judged as it comes, calls of the client are held until they\n\
were judged, results of calls leave or go with their call, and what the provider has done by itself passes in its place. **What stands in no\n\
table is a call named after its type**, with the whole of it as arguments, so that a policy can deny it (`deny_tools: [future_call]`).\n\
Types are compared letter by letter. A call for approval (`mcp_approval_request`) is named after what it wants to call: `mcp__<server>__<tool>`.\n\n\
Of requests, the tables list fields, items, blocks, parts and tools. What stands in none of them **is judged as a tool that the provider runs, named after it**; text is shown to\n\
hooks, and what is inert is shown as soon as it holds more than numbers and names.\n\n\
Each name comes from the SDKs that are named above its table, or from what is named below it.\n";

pub(crate) fn files() -> Result<Vec<Generated>, Error> {
    let mut text = format!("{MARK}{INTRODUCTION}");
    for table in type_tables() {
        let _ = write!(text, "\n## {}: {}\n\n", table.api, table.things);
        if !table.source.is_empty() {
            let _ = write!(text, "Source: {}.\n\n", table.source);
        }
        text.push_str("| what becomes of it | types |\n| --- | --- |\n");
        for class in TypeClass::ALL {
            let types: Vec<String> =
                table.types().filter(|(_, of)| *of == class).map(|(name, _)| format!("`{name}`")).collect();
            if !types.is_empty() {
                let _ = writeln!(text, "| {} | {} |", class.as_str(), types.join(", "));
            }
        }
        let beside: Vec<String> = DOCUMENTED
            .iter()
            .filter(|beside| (beside.api, beside.things) == (table.api, table.things))
            .map(|beside| format!("`{}`: {}", beside.names.join("`, `"), beside.source))
            .collect();
        if !beside.is_empty() {
            let _ = writeln!(text, "\nFrom elsewhere: {}.", beside.join("; "));
        }
    }
    Ok(vec![Generated::new("docs/reference/wire-types.md", text)])
}
