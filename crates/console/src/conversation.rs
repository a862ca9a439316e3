//! One session: what was judged in it, in order, and what was said, as far as that is kept.
//!
//! The two stand side by side and are not mixed, and lead to each other where they are about the same call: what was judged is in the trail, for whatever host; what was said is kept of the own agent alone, and as
//! the hooks left it. What was taken out of it is nowhere any more.

use std::collections::BTreeMap;

use backstop_hooks::RunId;
use backstop_hooks::conversation::{Message, Part, Role, ToolCall, ToolResult};
use backstop_store::{AuditEntry, Listed, Session, Timestamp, audit_id};
use maud::{Markup, html};
use serde_json::Value;

use crate::audit::{summary, tone, word};
use crate::page::{Place, Viewer, page};
use crate::sessions::encoded;
use crate::shown::{ago, bytes_more, one_line, plain};

/// The most characters of a text that is shown.
const MOST_TEXT: usize = 4_000;
/// The most parts of a message that are shown, those of results among them, and the most characters of all of them.
const MOST_PARTS: usize = 100;
const MOST_OF_MESSAGE: usize = 4 * MOST_TEXT;
/// To how many places a call leads that has the id of others in its run.
const MOST_LINKS: usize = 5;

/// How much of a message can still be shown.
struct Room {
    parts: usize,
    characters: usize,
}

impl Room {
    /// Takes room for as many parts as there is. Returns them, and how many there are besides.
    fn parts<'a>(&mut self, of: &'a [Part]) -> (&'a [Part], usize) {
        let (shown, rest) = of.split_at(of.len().min(self.parts));
        self.parts = self.parts.saturating_sub(shown.len());
        (shown, rest.len())
    }

    /// Takes room for a text. Returns it or its beginning, and how many bytes there are besides.
    fn text<'a>(&mut self, text: &'a str) -> (&'a str, usize) {
        let most = MOST_TEXT.min(self.characters);
        let (begun, rest) = text.split_at(text.char_indices().nth(most).map_or(text.len(), |(at, _)| at));
        self.characters = self.characters.saturating_sub(begun.chars().count());
        (begun, rest.len())
    }
}

/// A call as the trail names it: its run, if it is known, and its id. Models write the ids, so several may fit.
type CallKey = (Option<String>, String);

/// Where calls stand on the page.
struct Calls {
    /// The entries of the trail about a call.
    judged: BTreeMap<CallKey, Vec<u64>>,
    /// The messages in which a model makes it.
    said: BTreeMap<CallKey, Vec<u64>>,
}

impl Calls {
    fn of(of: &Conversation<'_>) -> Self {
        let mut judged = BTreeMap::<CallKey, Vec<u64>>::new();
        for entry in of.judged {
            if let Some(id) = call_of(entry) {
                judged.entry(judged_key(entry, id)).or_default().push(entry.seq);
            }
        }
        let mut said = BTreeMap::<CallKey, Vec<u64>>::new();
        for one in of.said {
            let parts = one.message.iter().flat_map(|message| &message.content).take(MOST_PARTS);
            let calls = parts.filter_map(|part| match part {
                Part::ToolCall(call) => Some(call.id.as_str()).filter(|id| !id.is_empty()),
                _ => None,
            });
            for id in calls {
                let messages = said.entry(said_key(one.run.as_ref(), id)).or_default();
                if messages.last() != Some(&one.seq) {
                    messages.push(one.seq);
                }
            }
        }
        Self { judged, said }
    }

    /// Those of one run.
    const fn of_run<'a>(&'a self, run: Option<&'a RunId>) -> CallsOf<'a> {
        CallsOf { calls: self, run }
    }

    /// Leads to where the call was made that an entry is about.
    fn messages(&self, entry: &AuditEntry) -> Markup {
        let messages = call_of(entry).and_then(|id| self.said.get(&judged_key(entry, id)));
        links(messages.map(Vec::as_slice), "Called in message", "#message-")
    }
}

/// The calls of one run.
struct CallsOf<'a> {
    calls: &'a Calls,
    run: Option<&'a RunId>,
}

impl CallsOf<'_> {
    /// Leads to what was judged of a call.
    fn judgements(&self, id: &str) -> Markup {
        let entries = self.calls.judged.get(&said_key(self.run, id));
        links(entries.map(Vec::as_slice), "Judged in entry", "#entry-")
    }
}

/// The key of the call that an entry is about: the trail has ids as it shortened them.
fn judged_key(entry: &AuditEntry, id: &str) -> CallKey {
    (entry.run.as_ref().map(|run| run.as_str().to_owned()), id.to_owned())
}

/// The key of a call in what was said.
fn said_key(run: Option<&RunId>, id: &str) -> CallKey {
    (run.map(|run| audit_id(run.as_str()).into_owned()), audit_id(id).into_owned())
}

/// Leads to each of what fits, or to the first of it, and says how much there is besides.
fn links(to: Option<&[u64]>, what: &str, place: &str) -> Markup {
    let all = to.unwrap_or_default();
    let more = all.len().saturating_sub(MOST_LINKS);
    html! {
        @for number in all.iter().take(MOST_LINKS) { " " a href={ (place) (number) } { (what) " " (number) } }
        @if more > 0 { " and in " (more) " more" }
    }
}

/// The id of the call that an entry is about.
fn call_of(entry: &AuditEntry) -> Option<&str> {
    entry.body.get("toolCallId").and_then(Value::as_str).filter(|id| !id.is_empty())
}

/// What is known of a session.
#[derive(Debug)]
pub struct Conversation<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its row, if it is kept.
    pub session: Option<&'a Session>,
    /// What was judged, in order.
    pub judged: &'a [AuditEntry],
    /// The number of the entry before which there is more.
    pub judged_before: Option<u64>,
    /// What was said, in order.
    pub said: &'a [Listed],
    /// The number of the message before which there is more.
    pub said_before: Option<u64>,
}

/// The page of a session.
pub fn conversation(viewer: &Viewer, of: &Conversation<'_>, now: Timestamp) -> String {
    let calls = Calls::of(of);
    let content = html! {
        h1 { "Session " code.exact { (one_line(of.id, 80)) } }
        @if let Some(session) = of.session {
            dl.facts {
                div { dt { "agent" } dd { (one_line(session.agent.as_str(), 80)) } }
                div { dt { "workspace" } dd { code.exact { (one_line(&session.workspace, 200)) } } }
                div { dt { "begun" } dd { (ago(session.created_at, now)) } }
                div { dt { "state" } dd { @if let Some(end) = session.ended { "ended " (ago(end.at, now)) } @else { "open" } } }
            }
        }
        p { a href={ "/-/console/audit?session=" (encoded(of.id)) } { "All its entries in the audit" } }
        (judged(of, &calls, now))
        (said(of, &calls, now))
    };
    page(viewer, Place::Sessions, "Session", None, content)
}

/// The address of the page of a session, before number `judged` of the trail and number `said` of the transcript.
fn address(id: &str, judged: Option<u64>, said: Option<u64>) -> String {
    let before = |name: &str, number: Option<u64>| {
        number.map(|number| format!("&{name}={number}")).unwrap_or_default()
    };
    let (judged, said) = (before("judged", judged), before("said", said));
    format!("/-/console/sessions/one?id={}{judged}{said}", encoded(id))
}

fn judged(of: &Conversation<'_>, calls: &Calls, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="judged-title" {
            h2 #judged-title { "What was judged" }
            @if let Some(before) = of.judged_before {
                nav.pages aria-label="Earlier judgements" { a rel="prev" href=(address(of.id, Some(before), None)) { "Earlier" } }
            }
            @if of.judged.is_empty() { p.empty { "The trail has nothing of this session here." } }
            @else { ol.rows { @for entry in of.judged { (judgement(entry, calls, now)) } } }
        }
    }
}

fn judgement(entry: &AuditEntry, calls: &Calls, now: Timestamp) -> Markup {
    let why = why(&entry.body);
    html! {
        li.row id={ "entry-" (entry.seq) } {
            div {
                p {
                    span class={ "badge " (tone(entry)) } { (one_line(&word(entry), 40)) } " "
                    (one_line(&summary(entry), 200)) " "
                    span.quiet { (ago(entry.at, now)) ", entry " (entry.seq) }
                    (calls.messages(entry))
                }
                @if !why.is_empty() { ul.reasons { @for one in &why { li { (one_line(one, 300)) } } } }
            }
        }
    }
}

/// Who changed, withheld or asked about what, as far as a receipt says.
fn why(body: &Value) -> Vec<String> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let list = |value: Option<&Value>| {
        let all = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        all.collect::<Vec<_>>().join(", ")
    };
    let by_rules = |rules: String| if rules.is_empty() { rules } else { format!(" by {rules}") };
    let mut why = Vec::new();
    if let Some(blocked) = body.get("blocked") {
        let hook = text(blocked, "hook").or_else(|| text(blocked, "cause")).unwrap_or_default();
        why.push(format!("stopped: {hook}{}", by_rules(list(blocked.pointer("/reason/rules")))));
    }
    if let Some(approval) = body.get("approval") {
        let answer = text(approval, "resolution").unwrap_or_else(|| "the client's own user".to_owned());
        why.push(format!("asked{}: {answer}", by_rules(list(approval.get("rules")))));
    }
    for step in body.get("steps").and_then(Value::as_array).into_iter().flatten() {
        let hook = text(step, "hook").unwrap_or_default();
        let found = step.get("spans").and_then(Value::as_array).into_iter().flatten().map(|span| {
            let kind = text(span, "kind").unwrap_or_default();
            let count = |name| span.get(name).and_then(Value::as_u64).unwrap_or(0);
            format!("{} × {kind}", count("replaced").saturating_add(count("reported")))
        });
        let found = found.collect::<Vec<_>>().join(", ");
        match text(step, "said").as_deref() {
            Some("rewrote") if found.is_empty() => why.push(format!("rewritten: {hook}")),
            Some("rewrote") => why.push(format!("rewritten: {hook} ({found})")),
            Some("failed") => why.push(format!("failed: {hook}")),
            _ if !found.is_empty() => why.push(format!("found by {hook}: {found}")),
            _ => {}
        }
    }
    why
}

fn said(of: &Conversation<'_>, calls: &Calls, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="said-title" {
            h2 #said-title { "What was said" }
            @if of.session.is_none() { p.empty { "Of this session no conversation is kept: its host keeps it, or nobody does." } }
            @else if of.said.is_empty() { p.empty { "Nothing is kept of it here." } }
            @else {
                @if let Some(before) = of.said_before {
                    nav.pages aria-label="Earlier messages" { a rel="prev" href=(address(of.id, None, Some(before))) { "Earlier" } }
                }
                ol.rows { @for one in of.said { (listed(one, calls, now)) } }
            }
        }
    }
}

fn listed(one: &Listed, calls: &Calls, now: Timestamp) -> Markup {
    html! {
        li.row id={ "message-" (one.seq) } {
            div {
                p {
                    @match &one.message {
                        Ok(message) => span.badge { (role(message.role)) },
                        Err(bytes) => { "A message of " (bytes) " bytes, which is too large to be shown." }
                    }
                    " " span.quiet { (ago(one.at, now)) ", message " (one.seq) }
                }
                @if let Ok(message) = &one.message { (parts(message, one.seq, &calls.of_run(one.run.as_ref()))) }
            }
        }
    }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "model",
        Role::Tool => "tool",
    }
}

fn parts(message: &Message, seq: u64, calls: &CallsOf<'_>) -> Markup {
    let mut room = Room { parts: MOST_PARTS, characters: MOST_OF_MESSAGE };
    let (shown, more) = room.parts(&message.content);
    html! {
        @for (index, one) in shown.iter().enumerate() { (part(one, &format!("message {seq}, part {}", index.saturating_add(1)), &mut room, calls)) }
        (and_parts(more))
    }
}

fn and_parts(more: usize) -> Markup {
    html! { @if more > 0 { p.quiet { "and " (more) " parts more" } } }
}

fn part(part: &Part, name: &str, room: &mut Room, calls: &CallsOf<'_>) -> Markup {
    match part {
        Part::Text { text, .. } => exact(text, name, room),
        Part::Thinking { text, .. } if text.is_empty() => {
            html! { p.quiet { "Reasoning that the provider does not show." } }
        }
        Part::Thinking { text, .. } => {
            html! { details { summary { "Reasoning" } (exact(text, name, room)) } }
        }
        Part::ToolCall(call) => tool_call(call, name, room, calls),
        Part::ToolResult(result) => tool_result(result, name, room, calls),
        Part::Image { mime_type, .. } => {
            html! { p.quiet { "An image (" (one_line(mime_type, 60)) "), which is not shown." } }
        }
        Part::Unknown { .. } => html! { p.quiet { "A part that Backstop does not know." } },
    }
}

fn tool_call(call: &ToolCall, name: &str, room: &mut Room, calls: &CallsOf<'_>) -> Markup {
    let arguments = serde_json::to_string_pretty(&call.arguments.to_value()).unwrap_or_default();
    html! {
        p { "Calls " code.exact { (one_line(&call.name, 80)) } ":" (calls.judgements(call.id.as_str())) }
        (exact(call.malformed.as_deref().unwrap_or(&arguments), name, room))
    }
}

fn tool_result(result: &ToolResult, name: &str, room: &mut Room, calls: &CallsOf<'_>) -> Markup {
    let (shown, more) = room.parts(&result.content);
    html! {
        p { @if result.is_error { "Failed" } @else { "Answered" } @if let Some(tool) = &result.tool_name { " by " code.exact { (one_line(tool, 80)) } } ":" (calls.judgements(result.tool_call_id.as_str())) }
        @for (index, one) in shown.iter().enumerate() {
            @match one {
                Part::Text { text, .. } => (exact(text, &format!("{name}, result {}", index.saturating_add(1)), room)),
                Part::Image { mime_type, .. } => p.quiet { "An image (" (one_line(mime_type, 60)) "), which is not shown." },
                _ => p.quiet { "Something that is no text." }
            }
        }
        (and_parts(more))
    }
}

/// A text, or its beginning.
fn exact(text: &str, name: &str, room: &mut Room) -> Markup {
    let (begun, more) = room.text(text);
    html! {
        pre.exact tabindex="0" role="region" aria-label=(name) { (plain(begun)) }
        @if more > 0 { p.quiet { (bytes_more(more)) } }
    }
}

#[cfg(test)]
mod tests {
    use backstop_hooks::{Digest, Params};
    use serde_json::json;

    use super::*;

    fn entry(seq: u64, run: &str) -> AuditEntry {
        AuditEntry {
            seq,
            at: Timestamp::from_millis(0),
            kind: "receipt".to_owned(),
            session: None,
            policy: None,
            run: Some(RunId::from(audit_id(run).into_owned())),
            body: json!({ "toolCallId": "c1" }).into(),
            process: "p".to_owned(),
            n: seq,
            digest: Digest::of_text("audit", "x"),
        }
    }

    fn called(seq: u64, run: &str) -> Listed {
        let call = ToolCall {
            id: "c1".to_owned().into(),
            name: "exec".to_owned(),
            arguments: Params::from_value(json!({})).unwrap(),
            malformed: None,
            meta: None,
        };
        let message = Ok(Message::new(Role::Assistant, vec![Part::ToolCall(call)]));
        Listed { seq, run: Some(run.to_owned().into()), at: Timestamp::from_millis(0), message }
    }

    /// The numbers to which a page leads.
    fn led_to(page: &str, place: &str) -> Vec<u64> {
        let link = format!("href=\"{place}");
        let rest = page.split(&link).skip(1);
        rest.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
    }

    #[test]
    fn an_id_that_a_model_wrote_twice_leads_to_the_calls_of_its_own_run() {
        let long = "é".repeat(300);
        let judged = [entry(11, "one"), entry(12, "two"), entry(13, &long)];
        // The last message is of a run of which nothing was judged.
        let said = [called(1, "one"), called(2, "two"), called(3, &long), called(4, "none")];
        let of = Conversation {
            id: "s",
            session: None,
            judged: &judged,
            judged_before: None,
            said: &said,
            said_before: None,
        };
        let calls = Calls::of(&of);
        let messages = |entry: &AuditEntry| led_to(&calls.messages(entry).into_string(), "#message-");
        let entries = |of: &Listed| {
            let judged = calls.of_run(of.run.as_ref()).judgements("c1");
            led_to(&judged.into_string(), "#entry-")
        };
        assert_eq!(judged.each_ref().map(messages), [vec![1], vec![2], vec![3]]);
        assert_eq!(said.each_ref().map(entries), [vec![11], vec![12], vec![13], vec![]]);
    }

    #[test]
    fn where_several_fit_all_are_named_or_counted() {
        let all: Vec<u64> = (1..=7).collect();
        let page = links(Some(&all), "Called in message", "#message-").into_string();
        assert_eq!(led_to(&page, "#message-"), [1, 2, 3, 4, 5]);
        assert!(page.contains("and in 2 more"), "{page}");
        assert!(!links(all.get(..5), "Called in message", "#message-").into_string().contains("more"));
        assert_eq!(links(None, "Called in message", "#message-").into_string(), "");
    }
}
