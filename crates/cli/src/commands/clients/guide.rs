//! What a client can and can't do: for the terminal, and as the page of the documentation.

use std::fmt::Write as _;

use backstop::clients::{Client, Evidence, OnFailure};
use serde_json::{Value, json};

use crate::output::table;

/// How a failure of the hook ends.
fn on_failure(failure: OnFailure) -> &'static str {
    match failure {
        OnFailure::Runs => "the tool runs",
        OnFailure::Denied => "the tool does not run",
        OnFailure::Hangs => "the client waits for ever",
    }
}

fn known_by(client: Client) -> String {
    let facts = client.facts();
    match facts.evidence {
        Evidence::Live => format!("tried with version {}", facts.version),
        Evidence::Documented => format!("not tried; by the {}", facts.version),
    }
}

/// Wishes and what comes of them.
fn rows(client: Client) -> Vec<(String, String)> {
    let honoured = |row: &backstop::clients::Degradation| match (row.shortfall, row.note) {
        (Some(shortfall), _) => shortfall.to_string(),
        (None, Some(note)) => format!("yes: {note}"),
        (None, None) => "yes".to_owned(),
    };
    let mut rows: Vec<_> =
        client.degradation().iter().map(|row| (row.wish.to_string(), honoured(row))).collect();
    let failure = client.facts().failure;
    rows.push(("backstop is missing".to_owned(), on_failure(failure.missing).to_owned()));
    rows.push(("backstop crashes".to_owned(), on_failure(failure.crash).to_owned()));
    rows.push(("backstop is too late".to_owned(), on_failure(failure.timeout).to_owned()));
    rows
}

/// The table for people who are about to install.
pub(super) fn for_terminal(client: Client) -> String {
    let mut text = format!("{} ({})\n", client.title(), known_by(client));
    let lines: Vec<Vec<String>> =
        rows(client).into_iter().map(|(wish, end)| vec![format!("  {wish}"), end]).collect();
    text.push_str(&table(&lines));
    for gap in client.facts().gaps {
        let _ = writeln!(text, "  note: {gap}");
    }
    text
}

/// The same for programs.
pub(super) fn for_programs(client: Client) -> Value {
    let rows: serde_json::Map<String, Value> =
        rows(client).into_iter().map(|(wish, end)| (wish, Value::String(end))).collect();
    let facts = client.facts();
    json!({
        "tested": (facts.evidence == Evidence::Live).then_some(facts.version),
        "honours": rows,
        "gaps": facts.gaps,
    })
}

/// The page of the documentation: one section per client.
#[must_use]
pub fn page() -> String {
    let mut text = String::from(
        "# What coding agents can honour\n\n\
         What Backstop decides at a hook, and what comes of it in each client. The tables are read off the encoders that \
         speak to the clients. `backstop doctor` tries an installation.\n",
    );
    for client in Client::ALL {
        let _ = writeln!(
            text,
            "\n## {} (`{}`)\n\n{}.\n",
            client.title(),
            client.name(),
            sentence(&known_by(client))
        );
        text.push_str("| wanted | what happens |\n| --- | --- |\n");
        for (wish, end) in rows(client) {
            let _ = writeln!(text, "| {wish} | {} |", end.replace('|', "\\|"));
        }
        let _ = writeln!(text, "\nA failure is a refusal by {}.", client.facts().failure.closed_by);
        if !client.facts().gaps.is_empty() {
            text.push('\n');
        }
        for gap in client.facts().gaps {
            let _ = writeln!(text, "- {}.", sentence(gap));
        }
        text.push_str(&left_out(client));
    }
    text
}

/// The events that an installation does not use, and why.
fn left_out(client: Client) -> String {
    let unused = client.facts().unused;
    if unused.is_empty() {
        return String::new();
    }
    let mut text = "\n| events not used | why |\n| --- | --- |\n".to_owned();
    for row in unused {
        let events: Vec<_> = row.events.iter().map(|event| format!("`{event}`")).collect();
        let _ = writeln!(text, "| {} | {} |", events.join(", "), row.why);
    }
    text
}

/// With a capital at its start.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
