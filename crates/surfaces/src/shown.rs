//! What people are shown of a question: the same as on the console and by `backstop approvals`, as plain text of a bounded length.
//!
//! The law: *what is not shown is named, and then the call can only be denied there*, whatever it is that is missing. Where there is no bound,
//! nothing is cut. Secrets were masked before the question was stored.

use backstop_console::{one_line, plain};
use backstop_hooks::Severity;
use backstop_store::{ApprovalReason, ApprovalRecord, Starts, Timestamp};

/// The most characters of the parts besides arguments and reasons.
const TITLE: usize = 200;
const FACT: usize = 100;
const DESCRIPTION: usize = 400;
const REASON: usize = 200;
/// The most lines about what a call would start, and about who asks.
const MOST_STARTS: usize = 8;
const MOST_REASONS: usize = 8;
const MOST_RULES: usize = 4;

/// What is shown of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The first line.
    pub title: String,
    /// Everything else.
    pub text: String,
    /// Whether something is missing from it that people should know before they allow the call.
    pub is_cut: bool,
}

/// Returns the text on one line of at most `most` characters, without what can't be seen.
pub(crate) fn line(text: &str, most: usize) -> String {
    one_line(text, most)
}

/// Returns the length of a text as chat services count it: in UTF-16 units.
pub(crate) fn units(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Returns the beginning of a text that has at most so many UTF-16 units.
pub(crate) fn head(text: &str, most: usize) -> &str {
    let mut left = most;
    let end = text.char_indices().find(|(_, c)| {
        let fits = c.len_utf16() <= left;
        left = left.saturating_sub(c.len_utf16());
        !fits
    });
    end.map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

/// Shortens parts of a question, and knows whether anything of them is missing.
struct Cutter {
    is_bounded: bool,
    is_cut: bool,
}

impl Cutter {
    /// Returns the text on one line of at most `most` characters.
    fn line(&mut self, text: &str, most: usize) -> String {
        let whole = line(text, usize::MAX);
        let shown = if self.is_bounded { line(text, most) } else { whole.clone() };
        self.is_cut |= shown != whole;
        shown
    }

    /// Returns how many of `all` are shown, of which `most` have room, and how many are not.
    fn count(&mut self, all: usize, most: usize) -> (usize, usize) {
        let shown = if self.is_bounded { all.min(most) } else { all };
        let more = all.saturating_sub(shown);
        self.is_cut |= more > 0;
        (shown, more)
    }
}

/// Returns what is shown of a question in at most `room` UTF-16 units; all of it, if there is no such bound.
pub fn shown(record: &ApprovalRecord, room: Option<usize>) -> Shown {
    let request = &record.request;
    let mut cutter = Cutter { is_bounded: room.is_some(), is_cut: request.unseen };
    let title = format!("{}: {}", severity(request.severity), cutter.line(&request.title, TITLE));
    let mut above = format!("tool: {}\n", cutter.line(&request.tool_name.in_full(), FACT));
    for (name, value) in request.whence() {
        above.push_str(&format!("{name}: {}\n", cutter.line(&value, FACT)));
    }
    if !request.description.is_empty() {
        above.push_str(&format!("{}\n", cutter.line(&request.description, DESCRIPTION)));
    }
    // What was marked as seen was all shown to a person, and is what is answered.
    let arguments = request.whole.as_ref().filter(|_| !request.unseen).unwrap_or(&request.preview);
    let arguments = plain(&serde_json::to_string_pretty(arguments).unwrap_or_default());
    let below = below(record, &mut cutter);
    let note = |is_cut: bool| match is_cut {
        true => {
            "NOT ALL OF THIS CALL IS SHOWN HERE, so it can only be denied here. The console shows all of it.\n"
        }
        false => "",
    };
    let fixed = units(&title) + units(&above) + units(&below) + units(note(true)) + units("arguments:\n\n\n");
    let left = room.map_or(usize::MAX, |room| room.saturating_sub(fixed));
    let mut is_cut = cutter.is_cut;
    let arguments = if units(&arguments) <= left {
        arguments
    } else {
        is_cut = true;
        let tail = "\n… cut here";
        format!("{}{tail}", head(&arguments, left.saturating_sub(units(tail))))
    };
    let text = format!("{above}arguments:\n{arguments}\n{below}{}", note(is_cut));
    Shown { title, text: text.trim_end().to_owned(), is_cut }
}

/// Returns what is shown of a question where a service takes nothing of its call: neither arguments nor what hooks wrote about them.
pub(crate) fn shown_in_short(record: &ApprovalRecord) -> Shown {
    let request = &record.request;
    let (tool, agent) = (line(&request.tool_name.in_full(), 80), line(request.agent.as_str(), 80));
    let (until, id) = (until(request.expires_at), &record.id);
    let text = format!(
        "agent: {agent}\nNOTHING OF THIS CALL IS SHOWN HERE: the service did not take it.\nanswer until: {until}\nid: {id}"
    );
    Shown { title: format!("{}: approval wanted for {tool}", severity(request.severity)), text, is_cut: true }
}

/// Returns how many more questions of the agent wait for their turn, in words; `None` if none does.
pub(crate) fn more_waits(more: usize) -> Option<String> {
    match more {
        0 => None,
        1 => Some("1 more question of this agent waits.".to_owned()),
        more => Some(format!("{more} more questions of this agent wait.")),
    }
}

/// Returns what stands below the arguments.
fn below(record: &ApprovalRecord, cutter: &mut Cutter) -> String {
    let request = &record.request;
    let mut below = match request.masked {
        0 => String::new(),
        1 => "1 secret is masked with *\n".to_owned(),
        masked => format!("{masked} secrets are masked with *\n"),
    };
    if let Some(starts) = &request.starts {
        below.push_str(&would_start(starts, cutter));
    }
    let (reasons, more) = cutter.count(request.reasons.len(), MOST_REASONS);
    for reason in request.reasons.iter().take(reasons) {
        let (hook, title) = (cutter.line(reason.hook.as_str(), 60), cutter.line(&reason.title, 100));
        let severity = severity(reason.severity);
        below.push_str(&format!("asked by {hook} ({severity}): {title}{}\n", rules(reason, cutter)));
        // That of the gravest reason stands above already.
        if !reason.description.is_empty() && reason.description != request.description {
            below.push_str(&format!("{}\n", cutter.line(&reason.description, REASON)));
        }
    }
    if more > 0 {
        below.push_str(&format!("and {more} more reasons\n"));
    }
    if record.is_abandoned() {
        below.push_str("NOBODY WAITS FOR THE ANSWER ANY MORE: allow the next such call on the console, a yes here counts for nothing.\n");
    }
    below.push_str(&format!("answer until: {}\n", until(request.expires_at)));
    below.push_str(&format!("digest: {}\nid: {}\n", request.digest.short(), record.id));
    below
}

fn rules(reason: &ApprovalReason, cutter: &mut Cutter) -> String {
    let (shown, more) = cutter.count(reason.rules.len(), MOST_RULES);
    let mut rules: Vec<String> =
        reason.rules.iter().take(shown).map(|rule| cutter.line(rule.as_str(), 60)).collect();
    if more > 0 {
        rules.push(format!("and {more} more"));
    }
    if rules.is_empty() { String::new() } else { format!(" (rule {})", rules.join(", ")) }
}

fn would_start(starts: &Starts, cutter: &mut Cutter) -> String {
    let mut all = Vec::new();
    for process in &starts.processes {
        let words = process.words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        all.push(format!("would start: {}", cutter.line(&words, 120)));
    }
    for path in &starts.paths {
        all.push(format!("would {}: {}", cutter.line(&path.action, 20), cutter.line(&path.path, 100)));
    }
    all.extend(starts.hosts.iter().map(|host| format!("would ask: {}", cutter.line(host, 100))));
    all.extend(starts.unknown.iter().map(|unknown| format!("can't be told: {}", cutter.line(unknown, 100))));
    let (shown, more) = cutter.count(all.len(), MOST_STARTS);
    let mut told: String = all.iter().take(shown).map(|one| format!("{one}\n")).collect();
    // Those are not in the record.
    cutter.is_cut |= cutter.is_bounded && starts.more > 0;
    let more = more.saturating_add(starts.more);
    if more > 0 {
        told.push_str(&format!("and {more} more that it would start or touch\n"));
    }
    told
}

/// Returns a moment to the second.
pub(crate) fn until(at: Timestamp) -> String {
    Timestamp::from_millis(at.as_millis() - at.as_millis().rem_euclid(1_000)).to_string()
}

/// Returns a severity as people read it.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "INFO",
        Severity::Warning => "WARNING",
        Severity::Critical => "CRITICAL",
    }
}
