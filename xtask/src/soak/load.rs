//! Clients that ask for everything at random, and often go away.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::upstream::secret;

/// How long a client thinks between two requests.
const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Counts {
    answers: AtomicU64,
    blocked: AtomicU64,
    gone: AtomicU64,
    wrong: AtomicU64,
    first_wrong: Mutex<Option<String>>,
}

impl Counts {
    pub(super) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    pub(super) fn line(&self) -> String {
        let [answers, blocked, gone, wrong] = [&self.answers, &self.blocked, &self.gone, &self.wrong]
            .map(|count| count.load(Ordering::Relaxed));
        format!("{answers:9} {blocked:9} {gone:9} {wrong:9}")
    }

    pub(super) fn first_wrong(&self) -> Option<String> {
        self.first_wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_wrong(&self, what: String) {
        self.wrong.fetch_add(1, Ordering::Relaxed);
        self.first_wrong.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
    }
}

/// Where the load goes.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) port: u16,
    pub(super) token: &'static str,
    pub(super) counts: Arc<Counts>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    ReadsAll,
    /// Goes after so many bytes of the answer.
    GoesAfter(usize),
    /// Goes in the middle of its request.
    SendsHalf,
}

/// Small and repeatable: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T], otherwise: T) -> T {
        let index = self.below(all.len() as u64);
        usize::try_from(index).ok().and_then(|index| all.get(index)).copied().unwrap_or(otherwise)
    }
}

impl Load {
    /// Asks until the process ends. `client` makes its requests its own.
    pub(super) fn run(&self, client: u64) {
        let mut random = Random(client.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for number in 0_u64.. {
            if let Err(error) = self.ask(&mut random, &format!("{client}-{number}")) {
                self.counts.note_wrong(error.to_string());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask(&self, random: &mut Random, name: &str) -> io::Result<()> {
        let manner = match random.below(10) {
            0 => Manner::SendsHalf,
            1 => Manner::GoesAfter(0),
            2 => Manner::GoesAfter(usize::try_from(random.below(4_000)).unwrap_or_default()),
            _ => Manner::ReadsAll,
        };
        let kind = random.one_of(&["text", "tools", "secret", "blocked"], "text");
        let wire = random.one_of(&["anthropic", "chat", "responses", "gemini"], "chat");
        let request = self.request(wire, kind, random.below(2) == 1, name);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if manner == Manner::SendsHalf {
            stream.write_all(request.as_bytes().get(..request.len() / 2).unwrap_or_default())?;
            self.counts.gone.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        stream.write_all(request.as_bytes())?;
        if let Manner::GoesAfter(bytes) = manner {
            let mut read = Vec::new();
            (&mut stream).take(bytes as u64).read_to_end(&mut read)?;
            self.counts.gone.fetch_add(1, Ordering::Relaxed);
            // What was not read makes it a reset.
            let _ = stream.shutdown(Shutdown::Both);
            return Ok(());
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        self.check(wire, kind, &String::from_utf8_lossy(&answer));
        Ok(())
    }

    fn request(&self, wire: &str, kind: &str, streamed: bool, name: &str) -> String {
        let said = format!("{kind} please, says {name}");
        let messages = format!("[{{\"role\":\"user\",\"content\":\"{said}\"}}]");
        let (path, body) = match wire {
            "anthropic" => (
                "/v1/messages",
                format!(
                    "{{\"model\":\"m\",\"stream\":{streamed},\"max_tokens\":99,\"messages\":{messages}}}"
                ),
            ),
            "responses" => {
                ("/v1/responses", format!("{{\"model\":\"m\",\"stream\":{streamed},\"input\":\"{said}\"}}"))
            }
            "gemini" => (
                if streamed {
                    "/v1beta/models/m:streamGenerateContent?alt=sse"
                } else {
                    "/v1beta/models/m:generateContent"
                },
                format!("{{\"contents\":[{{\"role\":\"user\",\"parts\":[{{\"text\":\"{said}\"}}]}}]}}"),
            ),
            _ => (
                "/v1/chat/completions",
                format!("{{\"model\":\"m\",\"stream\":{streamed},\"messages\":{messages}}}"),
            ),
        };
        let agent = if kind == "blocked" { "/a/blocked" } else { "" };
        format!(
            "POST /t/{}{agent}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        )
    }

    fn check(&self, wire: &str, kind: &str, answer: &str) {
        let is_blocked = answer.contains("[backstop] blocked");
        let fits = answer.starts_with("HTTP/1.1 200")
            && !answer.contains(&secret())
            && is_blocked == (kind == "blocked")
            && !answer.contains("\"error\":{");
        if !fits {
            return self.counts.note_wrong(format!("{wire}, {kind}: {answer}"));
        }
        let count = if is_blocked { &self.counts.blocked } else { &self.counts.answers };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
