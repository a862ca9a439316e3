//! The keyboard: one reader, for lines and for single keys.
//!
//! A thread reads stdin when somebody wants input, and only then: what nobody waits for stays with the terminal, so that
//! a question in the middle of a turn and the prompt after it do not steal from each other. A line that is being read
//! can't be given up, which the end of the process does.
//!
//! Keys come from `crossterm`, which knows sequences of escape, other letters than ours and bracketed paste. Two of its
//! traps shape this: it takes what was typed before as well, so that the terminal's buffer and its own are emptied
//! first; and it waits inside of a letter of which it has read the first bytes only, so that deadlines are kept by
//! whoever waits for keys, and not by the reader.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::sync::{Arc, OnceLock, mpsc as requests};
use std::time::{Duration, Instant};

use crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEventKind};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use tokio::sync::{mpsc, oneshot};

/// The longest line; what is beyond it is another line.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// How soon the reader notices that nobody waits for keys any more.
const NOTICE: Duration = Duration::from_millis(50);

/// Something that came from the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// One character, pressed without Ctrl, Alt, Shift or the like.
    Plain(char),
    /// The end of a line.
    Enter,
    /// Takes the last character back.
    Backspace,
    /// Anything else: arrows, functions, with modifiers, pasted text.
    Other,
}

impl Key {
    /// What an event is; `None` for those that nobody made by typing.
    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Press => None,
            Event::Key(key) if key.modifiers.is_empty() => Some(match key.code {
                KeyCode::Char(c) => Self::Plain(c),
                KeyCode::Enter => Self::Enter,
                KeyCode::Backspace => Self::Backspace,
                _ => Self::Other,
            }),
            Event::Resize(..) | Event::FocusGained | Event::FocusLost => None,
            Event::Key(_) | Event::Mouse(_) | Event::Paste(_) => Some(Self::Other),
        }
    }
}

/// A key, and when it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressed {
    pub(super) key: Key,
    pub(super) at: Instant,
}

/// The keyboard. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyboard(Arc<OnceLock<requests::Sender<Wanted>>>);

#[derive(Debug)]
enum Wanted {
    Line(oneshot::Sender<Option<String>>),
    Keys(mpsc::Sender<Pressed>),
}

impl Keyboard {
    /// The next line, without its end; `None` at the end of input.
    pub(super) async fn line(&self) -> Option<String> {
        let (answer, line) = oneshot::channel();
        self.want(Wanted::Line(answer))?;
        line.await.ok().flatten()
    }

    /// The keys that are pressed from now on, for as long as they are waited for. What was typed before is forgotten,
    /// and the first that comes is [`Key::Other`], which says when that was done.
    pub(super) fn keys(&self) -> Option<mpsc::Receiver<Pressed>> {
        let (sender, keys) = mpsc::channel(64);
        self.want(Wanted::Keys(sender))?;
        Some(keys)
    }

    fn want(&self, wanted: Wanted) -> Option<()> {
        let reader = self.0.get_or_init(|| {
            let (sender, wanted) = requests::channel();
            std::thread::spawn(move || read(&wanted));
            sender
        });
        reader.send(wanted).ok()
    }
}

fn read(wanted: &requests::Receiver<Wanted>) {
    let mut rest = VecDeque::new();
    while let Ok(wanted) = wanted.recv() {
        match wanted {
            Wanted::Line(answer) => drop(answer.send(read_line(&mut rest))),
            Wanted::Keys(keys) => {
                rest.clear();
                read_keys(&keys);
            }
        }
    }
}

fn read_line(rest: &mut VecDeque<u8>) -> Option<String> {
    let mut line = Vec::new();
    loop {
        while let Some(byte) = rest.pop_front() {
            if byte == b'\n' || line.len() >= MAX_LINE_BYTES {
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            line.push(byte);
        }
        let mut buffer = [0_u8; 4096];
        match io::stdin().lock().read(&mut buffer) {
            Ok(length @ 1..) => rest.extend(buffer.iter().take(length)),
            _ => return (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()),
        }
    }
}

fn read_keys(keys: &mpsc::Sender<Pressed>) {
    if forget_what_was_typed().is_err() {
        return;
    }
    let tell = |key| keys.blocking_send(Pressed { key, at: Instant::now() }).is_ok();
    if !tell(Key::Other) {
        return;
    }
    while !keys.is_closed() {
        let event = match event::poll(NOTICE) {
            Ok(false) => continue,
            Ok(true) => event::read(),
            Err(error) => Err(error),
        };
        match event.map(|event| Key::of(&event)) {
            Ok(None) => {}
            Ok(Some(key)) if tell(key) => {}
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// Empties what the terminal holds, and what `crossterm` has taken from it.
fn forget_what_was_typed() -> io::Result<()> {
    tcflush(io::stdin(), QueueSelector::IFlush)?;
    while event::poll(Duration::ZERO)? {
        drop(event::read()?);
    }
    Ok(())
}

/// The terminal gives each key at once, shows none of them and marks what is pasted, until this is dropped. Ctrl-C stays
/// Ctrl-C.
#[derive(Debug)]
pub(super) struct SingleKeys {
    before: Termios,
}

impl SingleKeys {
    /// Switches the terminal over; `None` where stdin is no terminal.
    pub(super) fn on() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut single = before.clone();
        single.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        single.special_codes[SpecialCodeIndex::VMIN] = 1;
        single.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &single).ok()?;
        // A terminal that does not know of it pastes as if typed, which is told by how fast it comes.
        let _ = crossterm::execute!(io::stderr(), EnableBracketedPaste);
        Some(Self { before })
    }
}

impl Drop for SingleKeys {
    fn drop(&mut self) {
        // A terminal that is gone needs no setting back. What was typed to nobody is not the next command.
        let _ = crossterm::execute!(io::stderr(), DisableBracketedPaste);
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyEvent, KeyModifiers};

    use super::*;

    #[test]
    fn only_a_plain_character_that_is_pressed_is_one() {
        let of = |code, modifiers, kind| Key::of(&Event::Key(KeyEvent::new_with_kind(code, modifiers, kind)));
        let (none, press) = (KeyModifiers::NONE, KeyEventKind::Press);
        assert_eq!(of(KeyCode::Char('a'), none, press), Some(Key::Plain('a')));
        assert_eq!(of(KeyCode::Char('a'), none, KeyEventKind::Release), None);
        assert_eq!(of(KeyCode::Char('a'), none, KeyEventKind::Repeat), None);
        for modifiers in [KeyModifiers::CONTROL, KeyModifiers::ALT, KeyModifiers::SHIFT, KeyModifiers::SUPER]
        {
            assert_eq!(of(KeyCode::Char('a'), modifiers, press), Some(Key::Other), "{modifiers:?}");
        }
        for code in [KeyCode::Up, KeyCode::Esc, KeyCode::F(1), KeyCode::Tab, KeyCode::Null] {
            assert_eq!(of(code, none, press), Some(Key::Other), "{code:?}");
        }
        assert_eq!(Key::of(&Event::Paste("a".to_owned())), Some(Key::Other));
        assert_eq!(Key::of(&Event::Resize(80, 24)), None);
    }
}
