//! What passes, as it passes.

use maud::html;

use crate::page::{Place, Viewer, page};

/// What was decided about something that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It passed as it was.
    Pass,
    /// It was changed.
    Modify,
    /// It was stopped.
    Block,
    /// A person was asked.
    Asked,
    /// It was watched, taken by a hook, or given up.
    Other,
}

impl Decision {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Modify => "modify",
            Self::Block => "block",
            Self::Asked => "asked",
            Self::Other => "other",
        }
    }
}

/// A row of the page, which the script makes of it. All texts are [plain](crate::plain()), and on one line.
#[derive(Clone, Debug)]
pub struct LiveRow {
    /// Its number in the trail.
    pub seq: u64,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// What was decided.
    pub decision: Decision,
    /// The hook point.
    pub point: String,
    /// The tool, if it was a call of one.
    pub tool: String,
    /// The agent.
    pub agent: String,
    /// Which hook and rules decided it.
    pub by: String,
    /// What else is known, as names and values.
    pub facts: Vec<(&'static str, String)>,
}

impl LiveRow {
    /// Returns it as the script reads it.
    pub fn to_json(&self) -> serde_json::Value {
        let facts: Vec<_> = self.facts.iter().map(|(name, value)| serde_json::json!([name, value])).collect();
        serde_json::json!({
            "seq": self.seq, "at": self.at, "decision": self.decision.as_str(), "point": self.point,
            "tool": self.tool, "agent": self.agent, "by": self.by, "facts": facts,
        })
    }
}

/// The page of what passes.
pub fn live(viewer: &Viewer) -> String {
    let content = html! {
        h1 { "Live" }
        div.tools {
            label for="filter" { "Filter" }
            input #filter type="search" data-filters="#live tr.row" autocomplete="off" spellcheck="false";
            button #pause type="button" aria-pressed="false" data-key="p" { "Pause" }
            p #more .quiet role="status" {}
        }
        noscript { p.note { "This page needs its script. " a href="/-/console/audit" { "Audit" } " shows the same without." } }
        div.scroll tabindex="0" role="region" aria-label="What passes" {
            table {
                thead { tr { th scope="col" { "Time" } th scope="col" { "Decision" } th scope="col" { "Point" } th scope="col" { "Tool" } th scope="col" { "Agent" } th scope="col" { "By" } } }
                tbody #live {}
            }
        }
        p #nothing .empty { "Nothing has passed yet. What is judged from now on appears here." }
        dialog #details aria-labelledby="details-title" {
            h2 #details-title { "Details" }
            dl #facts .facts {}
            form method="dialog" { button type="submit" { "Close" } }
        }
    };
    page(viewer, Place::Live, "Live", Some("/-/console/events?live=1"), content)
}
