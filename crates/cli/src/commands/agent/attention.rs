//! What counts as an answer from a keyboard.
//!
//! A key press is no answer: keys are typed ahead, pasted, held down, sent by an arrow, or meant for what was on the
//! screen a moment ago. The law: *an answer is one plain character that stands alone*. Nothing was typed for
//! [`QUIET`] before it, counted from the last thing that came after the question was painted, and nothing comes for
//! [`ALONE`] after it. What is to hold from now on wants a word, typed one character after the other, and Enter.
//!
//! Limits: who types into the terminal on somebody's behalf, and takes their time, is not told from a person. So grave
//! questions are not answered on the terminal of the agent.

use std::time::{Duration, Instant};

use super::keyboard::{Key, Pressed};

/// How long nothing must have come before a key counts.
pub(super) const QUIET: Duration = Duration::from_millis(500);

/// How long nothing may come after it.
pub(super) const ALONE: Duration = Duration::from_millis(150);

/// What comes faster than this was not typed.
const TYPED: Duration = Duration::from_millis(15);

/// The word by which something is allowed from now on.
pub(super) const WORD: &str = "always";

/// Waits for a key that stands alone.
#[derive(Debug)]
pub(super) struct Attention {
    last: Instant,
    alone: Option<(char, Instant)>,
}

impl Attention {
    /// Nothing that was typed before `painted` counts.
    pub(super) fn since(painted: Instant) -> Self {
        Self { last: painted, alone: None }
    }

    pub(super) fn hear(&mut self, pressed: Pressed) {
        let quiet = pressed.at.saturating_duration_since(self.last) >= QUIET;
        self.last = self.last.max(pressed.at);
        self.alone = match pressed.key {
            Key::Plain(c) if quiet => Some((c, pressed.at)),
            _ => None,
        };
    }

    /// When it is known that the last key stands alone, if it may.
    pub(super) fn settles_at(&self) -> Option<Instant> {
        self.alone.map(|(_, at)| at + ALONE)
    }

    /// The key that stands alone, once that is known. It is given once.
    pub(super) fn settled(&mut self, now: Instant) -> Option<char> {
        let (c, at) = self.alone?;
        (now.saturating_duration_since(at) >= ALONE).then(|| {
            self.alone = None;
            c
        })
    }
}

/// A word that is being typed.
#[derive(Debug)]
pub(super) struct Word {
    typed: String,
    last: Instant,
}

/// How far a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typing {
    /// More is to come.
    Goes,
    /// It is there, and Enter.
    Done,
    /// It is another one, or it was not typed.
    Dropped,
}

impl Word {
    /// The first character counts when nothing came for [`QUIET`] after `asked`.
    pub(super) fn since(asked: Instant) -> Self {
        Self { typed: String::new(), last: asked }
    }

    /// What is there of it.
    pub(super) fn typed(&self) -> &str {
        &self.typed
    }

    pub(super) fn hear(&mut self, pressed: Pressed) -> Typing {
        let gap = pressed.at.saturating_duration_since(self.last);
        let least = if self.typed.is_empty() { QUIET } else { TYPED };
        self.last = self.last.max(pressed.at);
        if gap < least {
            return Typing::Dropped;
        }
        match pressed.key {
            Key::Plain(c) if self.typed.len() < WORD.len() => self.typed.push(c),
            Key::Backspace if !self.typed.is_empty() => drop(self.typed.pop()),
            Key::Enter if self.typed == WORD => return Typing::Done,
            _ => return Typing::Dropped,
        }
        Typing::Goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What is answered when these keys come so long after the question was painted.
    fn answer(keys: &[(u64, Key)]) -> Option<char> {
        let painted = Instant::now();
        let mut attention = Attention::since(painted);
        for (at, key) in keys {
            let at = painted + ms(*at);
            if let Some(answer) = attention.settled(at) {
                return Some(answer);
            }
            attention.hear(Pressed { key: *key, at });
        }
        attention.settled(painted + ms(1_000_000))
    }

    #[test]
    fn a_key_that_stands_alone_is_an_answer() {
        assert_eq!(answer(&[(500, Key::Plain('a'))]), Some('a'));
        assert_eq!(answer(&[(100, Key::Other), (650, Key::Plain('d'))]), Some('d'));
        assert_eq!(
            answer(&[(600, Key::Plain('a')), (800, Key::Plain('d'))]),
            Some('a'),
            "the first one stood alone"
        );
    }

    #[test]
    fn what_comes_with_or_soon_after_something_else_is_none() {
        assert_eq!(answer(&[(499, Key::Plain('a'))]), None, "typed ahead");
        assert_eq!(
            answer(&[(400, Key::Plain('x')), (800, Key::Plain('a'))]),
            None,
            "counted from the last one"
        );
        assert_eq!(answer(&[(600, Key::Plain('a')), (601, Key::Plain('b'))]), None, "pasted");
        assert_eq!(answer(&[(600, Key::Plain('a')), (700, Key::Enter)]), None, "a line");
        assert_eq!(
            answer(&[(600, Key::Other), (620, Key::Plain('[')), (640, Key::Plain('a'))]),
            None,
            "cut escape"
        );
        assert_eq!(answer(&[(600, Key::Other)]), None);
    }

    fn word(keys: &[(u64, Key)]) -> Typing {
        let asked = Instant::now();
        let mut word = Word::since(asked);
        let mut typing = Typing::Goes;
        for (at, key) in keys {
            typing = word.hear(Pressed { key: *key, at: asked + ms(*at) });
            if typing == Typing::Dropped {
                return typing;
            }
        }
        typing
    }

    #[test]
    fn a_word_is_typed_and_ended() {
        let typed = |text: &str, from: u64, gap: u64| -> Vec<(u64, Key)> {
            text.chars().zip(0..).map(|(c, n)| (from + n * gap, Key::Plain(c))).collect()
        };
        let mut always = typed(WORD, 600, 40);
        assert_eq!(word(&always), Typing::Goes);
        always.push((1_000, Key::Enter));
        assert_eq!(word(&always), Typing::Done);
        let pasted = [typed(WORD, 600, 0), vec![(600, Key::Enter)]].concat();
        assert_eq!(word(&pasted), Typing::Dropped);
        let ahead = [typed(WORD, 100, 40), vec![(1_000, Key::Enter)]].concat();
        assert_eq!(word(&ahead), Typing::Dropped);
        let other = [typed("allway", 600, 40), vec![(1_000, Key::Enter)]].concat();
        assert_eq!(word(&other), Typing::Dropped);
        let mended = [
            typed("alx", 600, 40),
            vec![(800, Key::Backspace)],
            typed("ways", 900, 40),
            vec![(1_200, Key::Enter)],
        ]
        .concat();
        assert_eq!(word(&mended), Typing::Done);
    }
}
