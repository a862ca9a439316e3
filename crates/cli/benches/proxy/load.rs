//! The load: many connections that ask, read the whole answer, and ask again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::targets::{Address, Said};
use crate::upstream::now;

/// So many answers, so many at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) streamed: bool,
    /// What each request repeats.
    pub(crate) before: Said,
    pub(crate) at_once: usize,
    pub(crate) answers: usize,
}

/// What came of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// CPU time of the proxy per answer.
    pub(crate) cpu: Duration,
    /// Median time to the first byte of the answer.
    pub(crate) first_byte: Duration,
    pub(crate) per_second: f64,
    answers: usize,
}

/// Delays of tokens at the pace of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paced {
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
    /// That of the tokens in the middle half of each stream: while they are under way no stream begins or ends.
    pub(crate) steady_p99: Duration,
}

impl Measured {
    pub(crate) fn with_cpu(self, cpu: Duration) -> Self {
        Self { cpu: cpu / u32::try_from(self.answers).unwrap(), ..self }
    }
}

/// The median of what several rounds found.
pub(crate) fn median(mut found: Vec<f64>) -> f64 {
    found.sort_unstable_by(f64::total_cmp);
    found[found.len() / 2]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

impl Load {
    /// Asks for `answers` answers and waits for all.
    pub(crate) fn run(&self, address: Address, answers: usize) -> Measured {
        runtime().block_on(async {
            let left = Arc::new(AtomicUsize::new(answers));
            let begin = Instant::now();
            let clients: Vec<_> =
                (0..self.at_once).map(|_| tokio::spawn(client(address, *self, Arc::clone(&left)))).collect();
            let mut first_bytes = Vec::with_capacity(answers);
            for client in clients {
                first_bytes.extend(client.await.unwrap());
            }
            assert_eq!(first_bytes.len(), answers, "some answers are missing");
            let elapsed = begin.elapsed();
            first_bytes.sort_unstable();
            Measured {
                cpu: Duration::ZERO,
                first_byte: first_bytes[answers / 2],
                per_second: answers as f64 / elapsed.as_secs_f64(),
                answers,
            }
        })
    }
}

/// The number of the next request: none is sent twice in a run.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

async fn client(address: Address, load: Load, left: Arc<AtomicUsize>) -> Vec<Duration> {
    let mut stream = connect(address).await;
    let mut buffer = Vec::with_capacity(128 * 1024);
    let mut times = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let request = address.request(load.streamed, load.before, number);
        let begin = Instant::now();
        stream.write_all(&request).await.unwrap();
        buffer.clear();
        let mut first = None;
        while !is_whole(&buffer) {
            let read = stream.read_buf(&mut buffer).await.unwrap();
            assert!(read > 0, "the connection was closed: {}", String::from_utf8_lossy(&buffer));
            first.get_or_insert_with(|| begin.elapsed());
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer));
        times.push(first.unwrap());
    }
    times
}

async fn connect(address: Address) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", address.port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Whether the answer has come to its end: all bytes of its length, or the last chunk.
fn is_whole(answer: &[u8]) -> bool {
    if answer.ends_with(b"0\r\n\r\n") {
        return true;
    }
    let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length =
        text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head + 4 + length)
}

/// `streams` answers at once, at the pace of a model: how long each token was under way.
pub(crate) fn paced(address: Address, streams: usize, tokens: usize) -> Paced {
    runtime().block_on(async {
        let request = address.request(true, Said::Nothing, 0);
        let mut readers = Vec::with_capacity(streams);
        for _ in 0..streams {
            readers.push(tokio::spawn(tokens_of(address, request.clone())));
            // Spread over the pause between two tokens.
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let mut delays = Vec::with_capacity(streams * tokens);
        let mut steady = Vec::with_capacity(streams * tokens / 2);
        for reader in readers {
            let of_stream = reader.await.unwrap();
            assert_eq!(of_stream.len(), tokens, "some tokens are missing");
            steady.extend_from_slice(&of_stream[tokens / 4..tokens * 3 / 4]);
            delays.extend(of_stream);
        }
        Paced { median: at(&mut delays, 0.5), p99: at(&mut delays, 0.99), steady_p99: at(&mut steady, 0.99) }
    })
}

/// The delay that this part of all do not exceed.
fn at(delays: &mut [u64], part: f64) -> Duration {
    delays.sort_unstable();
    Duration::from_micros(delays[(delays.len() as f64 * part) as usize])
}

async fn tokens_of(address: Address, request: Vec<u8>) -> Vec<u64> {
    const BEFORE: &[u8] = br#""content":""#;
    let mut stream = connect(address).await;
    stream.write_all(&request).await.unwrap();
    let mut buffer = Vec::with_capacity(128 * 1024);
    let (mut delays, mut seen) = (Vec::new(), 0);
    while !is_whole(&buffer) {
        let read = stream.read_buf(&mut buffer).await.unwrap();
        assert!(read > 0, "the connection was closed early");
        let arrived = now();
        while let Some(at) = buffer[seen..].windows(BEFORE.len()).position(|bytes| bytes == BEFORE) {
            let word = &buffer[seen + at + BEFORE.len()..];
            let Some(end) = word.iter().position(|byte| *byte == b'"') else { break };
            delays.extend(number(&word[..end]).map(|sent| arrived.saturating_sub(sent)));
            seen += at + BEFORE.len() + end;
        }
    }
    delays
}

/// The number that `letters` wrote, with the space behind it.
fn number(word: &[u8]) -> Option<u64> {
    let word = word.strip_suffix(b" ")?;
    word.iter()
        .rev()
        .try_fold(0_u64, |number, letter| Some(number * 26 + u64::from(letter.checked_sub(b'a')?)))
}
