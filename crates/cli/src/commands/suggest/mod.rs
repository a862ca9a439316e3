//! `backstop suggest`: exceptions and rules that people's recorded answers imply.
//!
//! The laws: *it changes nothing*, and prints what somebody may write into the operator's file; *what people never denied* may become
//! an exception, and what they never allowed a rule, and nothing in between; *nothing critical* becomes an exception, and nothing that was
//! judged by what a file holds, which may hold something else later; *only answers that the
//! trail has* count; *what is suggested was tried*: the whole tape is judged again with it, and what would let pass anything that people
//! denied, or stop anything that passes, is not suggested.
//!
//! Limits: an exception is one of a command from the rules that people were asked by, for 90 days. Each is about one command with all of
//! its arguments. What a file holds is looked at now: one that was deleted meanwhile is not known to have been read. Exceptions hold in every folder, so each folder in which people were asked
//! must have answers enough. About what other hooks ask than the guard of commands, no exception is suggested, since they know none.

mod draft;
mod gathered;
mod trail;

use std::time::Duration;

use backstop::config::Loaded;
use backstop::hooks::Severity;
use backstop::store::Timestamp;
use backstop::tape::{CallDecision, CallJudgement, RecordedCall};
use serde::Serialize;

use self::draft::{Command, Kind};
use self::gathered::{Candidate, Gathered, answered};
use self::trail::Trail;
use super::replay::{Example, Policy};
use super::tape::{Reading, Span};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Paint, Style, plain};
use crate::session::Surroundings;

/// How long a suggested exception holds: what is judged mildly today may be known better by then.
const HOLDS: Duration = Duration::from_hours(90 * 24);
/// The most suggestions at once.
const MOST_SUGGESTIONS: usize = 20;

/// From what it is suggested.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) span: Span,
    /// How often people must have answered the same, in each folder.
    pub(crate) min: u32,
    /// The most examples of each suggestion.
    pub(crate) examples: usize,
}

/// Answers, and commands that people answered about, from which nothing is suggested.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// All answers of people on the tape.
    answers: u64,
    /// Answers that the trail does not have, or had already counted.
    unconfirmed: u64,
    /// Answers that changed the call or gave its result, and those about calls that people had changed.
    changed: u64,
    /// Answers about calls with masked secrets.
    masked: u64,
    /// Answers about other tools, and about commands that exceptions and rules can't say.
    without_form: u64,
    /// Answers about more different commands than are looked at.
    beyond: u64,
    /// Commands that people both allowed and denied.
    disputed: u64,
    /// Commands that were answered too seldom, in some folder.
    seldom: u64,
    /// Commands that are critical, about which another hook asks, or that were judged by what a file holds.
    barred: u64,
    /// Answers in the trail with digests by a key that is not here, so that nobody can tell about what.
    illegible: u64,
    /// Commands that were only allowed, as far as the trail was read, which is not to its beginning, or can be.
    uncertain: u64,
    /// Commands for which a suggestion was tried, and does too much or nothing.
    failed: u64,
    /// Commands for which there was no room.
    left: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Suggestion {
    kind: Kind,
    command: Command,
    /// How often people answered so.
    answers: u32,
    /// In which folders.
    folders: Vec<String>,
    first: Timestamp,
    last: Timestamp,
    /// What may be written into the operator's file.
    yaml: String,
    /// How many of the recorded calls nobody would be asked about any more.
    covers: u64,
    /// Of these, so many are not among those that people answered about.
    unanswered: u64,
    examples: Vec<Example>,
}

#[derive(Debug, Serialize)]
struct Report {
    suggestions: Vec<Suggestion>,
    #[serde(flatten)]
    counts: Counts,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let Settings { span, min, examples } = settings;
    let loaded = surroundings.load_operators()?.loaded;
    let trail = Trail::read(surroundings.store(&loaded)?.as_ref()).await?;
    let policy = Policy::build(loaded.clone(), surroundings).await?;
    let illegible = illegible(&trail);
    let mut gathered = Gathered::new(trail, examples);
    let mut reading = Reading::open(&span, &loaded, surroundings)?;
    while let Some(calls) = reading.next() {
        for call in calls {
            gathered.add(&policy, call).await;
        }
    }
    let mut ended = reading.end()?;
    let (candidates, mut counts) = gathered.candidates(min);
    counts.illegible = illegible.0;
    if let Some(told) = illegible.1 {
        surroundings.output.say(&told);
        ended = Exit::Incomplete;
    }
    let mut trials = Vec::new();
    for candidate in candidates {
        if trials.len() >= MOST_SUGGESTIONS {
            counts.left += 1;
            continue;
        }
        match Box::pin(Trial::begin(candidate, &loaded, surroundings)).await {
            Some(trial) => trials.push(trial),
            None => counts.failed += 1,
        }
    }
    if !trials.is_empty() {
        let mut reading = Reading::open(&span, &loaded, surroundings)?;
        while let Some(calls) = reading.next() {
            for call in calls {
                let Some(now) = policy.judge(&call).await else { continue };
                for trial in &mut trials {
                    trial.try_on(&call, &now).await;
                }
            }
        }
        // What is gone by now was not tried.
        if reading.exit() != Exit::Success {
            ended = Exit::Incomplete;
        }
    }
    policy.shut_down().await;
    let mut suggestions = Vec::new();
    for trial in trials {
        match trial.end().await {
            Some(suggestion) => suggestions.push(suggestion),
            None => counts.failed += 1,
        }
    }
    print(&Report { suggestions, counts }, surroundings)?;
    Ok(ended)
}

/// A suggestion while it is tried.
struct Trial {
    candidate: Candidate,
    yaml: String,
    policy: Policy,
    covers: u64,
    unanswered: u64,
    /// Whether it does what nobody wants.
    is_spoiled: bool,
}

impl Trial {
    async fn begin(candidate: Candidate, loaded: &Loaded, surroundings: &Surroundings) -> Option<Self> {
        let Candidate { command, kind, rules, answers, folders, first, last, .. } = &candidate;
        let day = |time: &Timestamp| time.to_string().chars().take("2026-11-28".len()).collect::<String>();
        let reason = format!(
            "people allowed it {answers} times, {} to {}, in {}",
            day(first),
            day(last),
            listed(folders)
        );
        let yaml = command.written(*kind, rules, &reason, &day(&Timestamp::now().after(HOLDS)));
        let loaded = draft::with(loaded, &yaml, surroundings)?;
        let policy = Policy::build(loaded, surroundings).await.ok()?;
        Some(Self { candidate, yaml, policy, covers: 0, unanswered: 0, is_spoiled: false })
    }

    /// Has a call judged with the suggestion that is judged like this without it.
    async fn try_on(&mut self, call: &RecordedCall, before: &CallJudgement) {
        let Some(after) = self.policy.judge(call).await else { return };
        if after.decision == before.decision {
            return;
        }
        let said = answered(call);
        let is_wanted = match self.candidate.kind {
            Kind::Exception => {
                before.decision == CallDecision::Ask
                    && before.severity.is_some_and(|severity| severity < Severity::Critical)
                    && after.decision < CallDecision::Ask
                    && said != Some(false)
            }
            Kind::Rule => {
                before.decision == CallDecision::Ask
                    && after.decision == CallDecision::Block
                    && said != Some(true)
            }
        };
        self.is_spoiled |= !is_wanted;
        self.covers += 1;
        self.unanswered += u64::from(said.is_none());
    }

    async fn end(self) -> Option<Suggestion> {
        let Self { candidate, yaml, policy, covers, unanswered, is_spoiled } = self;
        policy.shut_down().await;
        let Candidate { command, kind, answers, folders, first, last, examples, .. } = candidate;
        (!is_spoiled && covers > 0).then_some(Suggestion {
            kind,
            command,
            answers,
            folders,
            first,
            last,
            yaml,
            covers,
            unanswered,
            examples,
        })
    }
}

/// How many answers in the trail are keyed by a key that is not here, and what is said of them.
fn illegible(trail: &Trail) -> (u64, Option<String>) {
    let count: u64 = trail.illegible().values().sum();
    let keys: Vec<&str> = trail.illegible().keys().map(String::as_str).collect();
    let told = (count > 0).then(|| {
        format!(
            "warning: {count} answers in the audit trail are keyed by a key that is not here ({}): they can't be compared with the tape, and no exception is suggested, since there may be denials among them\nhint: set `audit.digest_key` to the file with that key",
            plain(&keys.join(", "))
        )
    });
    (count, told)
}

/// The folders in which people were asked, a few of them.
fn listed(folders: &[String]) -> String {
    const MOST: usize = 3;
    let named: Vec<&str> = folders
        .iter()
        .take(MOST)
        .map(|folder| if folder.is_empty() { "no folder" } else { folder })
        .collect();
    let more = folders.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

fn print(report: &Report, surroundings: &Surroundings) -> Result<(), Error> {
    let output = &surroundings.output;
    if output.is_json() {
        return Ok(output.json(report)?);
    }
    let paint = output.paint();
    let texts: Vec<String> = report.suggestions.iter().map(|suggestion| suggestion.text(paint)).collect();
    if texts.is_empty() {
        output.say("nothing is suggested");
    } else {
        output.text(&texts.join("\n"))?;
    }
    let Counts { answers, unconfirmed, changed, masked, without_form, beyond, .. } = report.counts;
    let Counts { disputed, seldom, barred, uncertain, failed, left, .. } = report.counts;
    let say = |count: u64, told: &str| {
        if count > 0 {
            output.say(&format!("{count} {told}"));
        }
    };
    say(answers, "answers of people are on the tape");
    say(unconfirmed, "of them are not in the audit trail, and do not count");
    say(changed, "of them changed the call or gave its result, or are about a call that a person changed");
    say(masked, "of them are about calls with masked secrets");
    say(without_form, "of them are about other tools, or commands that no exception or rule can say");
    say(beyond, "of them are about more different commands than are looked at");
    say(disputed, "commands were both allowed and denied");
    say(seldom, "commands were answered too seldom, in all folders or in one of them");
    say(barred, "commands are critical, run what a file holds, or other hooks ask about them: no exceptions");
    say(uncertain, "commands may have been denied: the trail has more questions than are read, or can be");
    say(failed, "suggestions were tried and left out: they would do too much, or nothing");
    say(left, "more commands have answers enough\nhint: look at these first");
    Ok(())
}

impl Suggestion {
    fn text(&self, paint: Paint) -> String {
        let (style, word, done) = match self.kind {
            Kind::Exception => (Style::Notice, "exception", "allowed it, and nobody denied it"),
            Kind::Rule => (Style::Good, "rule", "denied it, and nobody allowed it"),
        };
        let mut text = format!("{}: people {} times {done}\n", paint.with(style, word), self.answers);
        for line in self.yaml.lines() {
            text.push_str(&format!("    {}\n", plain(line)));
        }
        text.push_str(&format!(
            "  {} of the recorded calls, {} of them without an answer; asked in {}\n",
            self.covers,
            self.unanswered,
            plain(&listed(&self.folders))
        ));
        for example in &self.examples {
            text.push_str(&example.line());
        }
        text
    }
}
