//! The keyboard: one reader, for lines and for single keys.
//!
//! A thread reads stdin from the first time somebody wants input; it can't be interrupted, and goes with the
//! process. Whoever wants input waits for the next bytes of it, so that a question in the middle of a turn and the
//! prompt after it do not steal from each other.

use std::io::{self, Read as _};
use std::sync::Arc;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::{Mutex, OnceCell, mpsc};

/// The longest line; what is beyond it is another line.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// The keyboard. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keyboard(Arc<Reader>);

#[derive(Debug, Default)]
struct Reader {
    input: OnceCell<Mutex<Input>>,
}

#[derive(Debug)]
struct Input {
    bytes: mpsc::Receiver<Vec<u8>>,
    pending: std::collections::VecDeque<u8>,
}

impl Keyboard {
    /// The next line, without its end; `None` at the end of input.
    pub(super) async fn line(&self) -> Option<String> {
        let mut input = self.input().await.lock().await;
        let mut line = Vec::new();
        while let Some(byte) = input.next().await {
            if byte == b'\n' || line.len() >= MAX_LINE_BYTES {
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            line.push(byte);
        }
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }

    /// The next key; `None` at the end of input. What was typed before the question is forgotten: it was not
    /// meant as an answer.
    pub(super) async fn key(&self, forget: bool) -> Option<u8> {
        let mut input = self.input().await.lock().await;
        if forget {
            input.pending.clear();
            while input.bytes.try_recv().is_ok() {}
        }
        input.next().await
    }

    async fn input(&self) -> &Mutex<Input> {
        self.0.input.get_or_init(async || Mutex::new(Input::start())).await
    }
}

impl Input {
    fn start() -> Self {
        let (sender, bytes) = mpsc::channel(16);
        std::thread::spawn(move || {
            let mut buffer = [0_u8; 4096];
            while let Ok(length @ 1..) = io::stdin().lock().read(&mut buffer) {
                let read = buffer.get(..length).unwrap_or_default().to_vec();
                if sender.blocking_send(read).is_err() {
                    return;
                }
            }
        });
        Self { bytes, pending: std::collections::VecDeque::new() }
    }

    async fn next(&mut self) -> Option<u8> {
        loop {
            if let Some(byte) = self.pending.pop_front() {
                return Some(byte);
            }
            self.pending.extend(self.bytes.recv().await?);
        }
    }
}

/// The terminal gives each key at once and shows none of them, until this is dropped. Ctrl-C stays Ctrl-C.
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
        Some(Self { before })
    }
}

impl Drop for SingleKeys {
    fn drop(&mut self) {
        // A terminal that is gone needs no setting back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
