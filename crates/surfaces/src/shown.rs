//! What people are shown of a question: the same as on the console and by `backstop approvals`, as plain text of a bounded length.
//!
//! The law: *what is not shown is named, and then the call can only be denied there*. Secrets were masked before the question was stored.

use backstop_console::{one_line, plain};
use backstop_hooks::Severity;
use backstop_store::{ApprovalRecord, Starts, Timestamp};

/// The most characters of the parts besides arguments and reasons.
const TITLE: usize = 200;
const FACT: usize = 100;
const DESCRIPTION: usize = 400;
/// The most lines about what a call would start, and about who asks.
const MOST_STARTS: usize = 8;
const MOST_REASONS: usize = 8;

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

/// Returns what is shown of a question in at most `room` UTF-16 units; all of it, if there is no such bound.
pub fn shown(record: &ApprovalRecord, room: Option<usize>) -> Shown {
    let request = &record.request;
    let title = format!("{}: {}", severity(request.severity), line(&request.title, TITLE));
    let mut above = format!("tool: {}\n", line(&request.tool_name.in_full(), FACT));
    for (name, value) in request.whence() {
        above.push_str(&format!("{name}: {}\n", line(&value, FACT)));
    }
    let description = plain(&request.description);
    let mut is_cut = description.chars().count() > DESCRIPTION;
    if !description.is_empty() {
        above.push_str(&format!("{}\n", line(&description, DESCRIPTION)));
    }
    // What was marked as seen was all shown to a person, and is what is answered.
    let arguments = request.whole.as_ref().filter(|_| !request.unseen).unwrap_or(&request.preview);
    let arguments = plain(&serde_json::to_string_pretty(arguments).unwrap_or_default());
    let below = below(record, &mut is_cut);
    is_cut |= request.unseen;
    let note = |is_cut: bool| match is_cut {
        true => {
            "NOT ALL OF THIS CALL IS SHOWN HERE, so it can only be denied here. The console shows all of it.\n"
        }
        false => "",
    };
    let fixed = units(&title) + units(&above) + units(&below) + units(note(true)) + units("arguments:\n\n\n");
    let left = room.map_or(usize::MAX, |room| room.saturating_sub(fixed));
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

/// Returns what stands below the arguments.
fn below(record: &ApprovalRecord, is_cut: &mut bool) -> String {
    let request = &record.request;
    let mut below = match request.masked {
        0 => String::new(),
        1 => "1 secret is masked with *\n".to_owned(),
        masked => format!("{masked} secrets are masked with *\n"),
    };
    if let Some(starts) = &request.starts {
        below.push_str(&would_start(starts));
    }
    for reason in request.reasons.iter().take(MOST_REASONS) {
        let rules: Vec<String> = reason.rules.iter().take(4).map(|rule| line(rule.as_str(), 60)).collect();
        let rules = if rules.is_empty() { String::new() } else { format!(" (rule {})", rules.join(", ")) };
        let (hook, title) = (line(reason.hook.as_str(), 60), line(&reason.title, 100));
        below.push_str(&format!("asked by {hook}: {title}{rules}\n"));
    }
    let more = request.reasons.len().saturating_sub(MOST_REASONS);
    if more > 0 {
        *is_cut = true;
        below.push_str(&format!("and {more} more reasons\n"));
    }
    below.push_str(&format!("answer until: {}\n", until(request.expires_at)));
    below.push_str(&format!("id: {}\n", record.id));
    below
}

fn would_start(starts: &Starts) -> String {
    let words = |words: &[backstop_hooks::Text]| {
        words.iter().map(|word| line(word, 60)).collect::<Vec<_>>().join(" ")
    };
    let processes =
        starts.processes.iter().map(|process| format!("would start: {}", line(&words(&process.words), 120)));
    let paths = starts
        .paths
        .iter()
        .map(|path| format!("would {}: {}", line(&path.action, 20), line(&path.path, 100)));
    let hosts = starts.hosts.iter().map(|host| format!("would ask: {}", line(host, 100)));
    let unknown = starts.unknown.iter().map(|unknown| format!("can't be told: {}", line(unknown, 100)));
    let all: Vec<String> = processes.chain(paths).chain(hosts).chain(unknown).collect();
    let more = all.len().saturating_sub(MOST_STARTS).saturating_add(starts.more);
    let mut told: String = all.iter().take(MOST_STARTS).map(|one| format!("{one}\n")).collect();
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
