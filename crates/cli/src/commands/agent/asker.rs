//! Asking the human at the terminal.
//!
//! The question is in the store already and may be answered from another terminal meanwhile; the engine then drops
//! this one, and the terminal is as it was. What is grave is shown here and answered elsewhere, unless the operator
//! says otherwise: what runs on this terminal can type into it.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::engine::{ApprovalSettings, AskFuture, Asker};
use backstop::hooks::{Decision, Severity};
use backstop::store::{Answerer, ApprovalRecord, People, Timestamp};
use rustix::process::getuid;
use tokio::time::sleep_until;

use super::attention::{Attention, Typing, WORD, Word};
use super::keyboard::{Keyboard, SingleKeys};
use crate::commands::answerer::{account, who};
use crate::commands::approvals::question;
use crate::output::{Paint, Style, in_future};

/// The bell, and a notification by the terminals that know them.
const CALL: &str = "\u{7}\u{1b}]9;Backstop: a call waits for your answer\u{7}";

/// Where grave questions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grave {
    /// Wherever the question is shown.
    Here,
    /// In another terminal than the agent's.
    Elsewhere,
}

/// Asks on stderr, takes the answer from the keyboard.
#[derive(Debug)]
pub(crate) struct TerminalAsker {
    keyboard: Keyboard,
    paint: Paint,
    who: String,
    grave: Grave,
    people: Arc<People>,
}

impl TerminalAsker {
    pub(crate) fn new(keyboard: Keyboard, paint: Paint, grave: Grave, people: Arc<People>) -> Self {
        Self { keyboard, paint, who: who("the terminal of the agent"), grave, people }
    }

    /// Whether whoever sits here may answer the question, where that is said.
    fn is_asked(&self, record: &ApprovalRecord) -> bool {
        let may = record.request.route.as_ref().map(|route| route.may_answer(&self.people, Timestamp::now()));
        let answerer = self.answerer(&self.people);
        may.is_none_or(|may| answerer.person().is_some_and(|person| may.contains(person)))
    }

    async fn answer(&self, record: &ApprovalRecord) -> Option<Decision> {
        let offer = Offer::of(record, self.grave);
        let is_asked = self.is_asked(record);
        let shown = Shown::begin(record, &self.people, &offer, is_asked, self.paint);
        if !is_asked {
            // Somebody else answers, elsewhere.
            return None;
        }
        let mut keys = self.keyboard.keys()?;
        let mut attention = Attention::since(Instant::now());
        let mut word: Option<Word> = None;
        loop {
            shown.status(record, &offer, word.as_ref());
            let tick = Instant::now() + Duration::from_secs(1);
            let until = attention.settles_at().map_or(tick, |at| at.min(tick));
            let pressed = tokio::select! {
                pressed = keys.recv() => Some(pressed?),
                () = sleep_until(until.into()) => None,
            };
            match (pressed, &mut word) {
                (Some(pressed), Some(typed)) => match typed.hear(pressed) {
                    Typing::Goes => {}
                    Typing::Done => return Some(Decision::AllowAlways),
                    Typing::Dropped => {
                        word = None;
                        attention = Attention::since(pressed.at);
                    }
                },
                (Some(pressed), None) => attention.hear(pressed),
                (None, _) => {}
            }
            match attention.settled(Instant::now()).and_then(|key| offer.meant_by(key)) {
                Some(Decision::AllowAlways) => word = Some(Word::since(Instant::now())),
                Some(decision) => return Some(decision),
                None => {}
            }
        }
    }
}

impl Asker for TerminalAsker {
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a> {
        Box::pin(self.answer(record))
    }

    fn name(&self) -> &str {
        &self.who
    }

    fn answerer(&self, people: &Arc<People>) -> Answerer {
        people.answerer(&account(getuid().as_raw()), &*self.who)
    }
}

/// What can be answered here.
#[derive(Debug)]
struct Offer {
    decisions: Vec<Decision>,
    /// The rest is answered in another terminal.
    elsewhere: bool,
}

impl Offer {
    fn of(record: &ApprovalRecord, grave: Grave) -> Self {
        let elsewhere = grave == Grave::Elsewhere && record.request.severity == Severity::Critical;
        let offered = |decision: &Decision| {
            *decision == Decision::Deny
                || !elsewhere && !record.request.unseen && record.request.allowed_decisions.contains(decision)
        };
        let all = [Decision::AllowOnce, Decision::AllowAlways, Decision::Deny];
        Self { decisions: all.into_iter().filter(offered).collect(), elsewhere }
    }

    fn meant_by(&self, key: char) -> Option<Decision> {
        let decision = match key {
            'a' | 'y' => Decision::AllowOnce,
            'w' => Decision::AllowAlways,
            'd' | 'n' => Decision::Deny,
            _ => return None,
        };
        self.decisions.contains(&decision).then_some(decision)
    }

    fn keys(&self) -> String {
        let shown = self.decisions.iter().map(|decision| match decision {
            Decision::AllowOnce => "a allow once",
            Decision::AllowAlways => "w allow always, by a word",
            Decision::Deny => "d deny",
        });
        shown.collect::<Vec<_>>().join(" · ")
    }
}

/// The question on the screen; gone from it in one piece, however the asking ends.
struct Shown {
    paint: Paint,
    keys: Option<SingleKeys>,
}

impl Shown {
    fn begin(record: &ApprovalRecord, people: &People, offer: &Offer, is_asked: bool, paint: Paint) -> Self {
        let mut text = question(record, people, Timestamp::now(), paint);
        if !is_asked {
            let told = paint
                .with(Style::Bad, "not answered on this terminal: others are asked, and this waits for them");
            text.push_str(&format!("  {told}\n"));
        } else if offer.elsewhere {
            text.push_str(&format!(
                "  {}\n  in another: backstop approvals approve {code}, or deny {code}\n",
                paint.with(
                    Style::Bad,
                    "critical: not allowed on the agent's own terminal, which can be typed into"
                ),
                code = record.code,
            ));
        }
        // The terminal is ours: it may call whoever looks elsewhere.
        let _ = write!(io::stderr().lock(), "{CALL}\n{text}");
        Self { paint, keys: if is_asked { SingleKeys::on() } else { None } }
    }

    fn status(&self, record: &ApprovalRecord, offer: &Offer, word: Option<&Word>) {
        let now = Timestamp::now();
        let what = match word {
            Some(word) => {
                let ends = now.after(ApprovalSettings::default().grant_ttl).to_string();
                let ends = ends.split('T').next().unwrap_or_default();
                format!("type `{WORD}` and Enter to allow this exact call until {ends}: {}", word.typed())
            }
            None => {
                let expires = in_future(now, record.request.expires_at);
                format!("{} (expires {expires}) ", self.paint.with(Style::Name, offer.keys()))
            }
        };
        let mut talk = io::stderr().lock();
        // Back to the start of the line, and clear it: this is only reached where stderr is a terminal.
        let _ = write!(talk, "\r\u{1b}[2K  {what}").and_then(|()| talk.flush());
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.keys.take();
        let _ = writeln!(io::stderr().lock());
    }
}
