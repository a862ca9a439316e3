//! A provider as fast as one core allows: answers are rendered once and written in one piece.
//!
//! Speaks just enough HTTP/1.1 for the load: requests with a length, connections kept open. At a pace, each token
//! carries the time at which it was written, so that the reader knows how long it was under way.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Deltas of a streamed answer.
pub(crate) const DELTAS: usize = 200;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: ";

/// Listens on a free port, which it prints, and answers until it is ended. `pace_ms` 0 is without pauses.
pub(crate) fn serve(pace_ms: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        std::io::stdout().flush().unwrap();
        let answers: &'static Answers = Box::leak(Box::new(Answers::render()));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(connection(stream, answers, Duration::from_millis(pace_ms)));
        }
    });
}

struct Answers {
    whole: Vec<u8>,
    streamed: Vec<u8>,
}

impl Answers {
    fn render() -> Self {
        let body = concat!(
            r#"{"id":"chatcmpl-1","object":"chat.completion","created":1760000000,"model":"bench-model","choices":"#,
            r#"[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog, "#,
            r#"and then it sleeps until noon because there is nothing else to do on such a day.","refusal":null},"#,
            r#""logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":25,"completion_tokens":22,"#,
            r#""total_tokens":47},"system_fingerprint":"fp_1"}"#
        );
        let whole =
            format!("{HEAD}application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes();
        let mut streamed = stream_head();
        chunk(&mut streamed, &event(r#"{"role":"assistant","content":""}"#, "null"));
        for word in 0..DELTAS {
            chunk(&mut streamed, &delta(&letters(word as u64 % 97)));
        }
        end(&mut streamed);
        Self { whole, streamed }
    }
}

fn stream_head() -> Vec<u8> {
    format!("{HEAD}text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes()
}

fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\
         \"model\":\"bench-model\",\"system_fingerprint\":\"fp_1\",\"choices\":[{{\"index\":0,\
         \"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn delta(word: &str) -> String {
    event(&format!("{{\"content\":\" {word}\"}}"), "null")
}

fn chunk(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}

fn end(out: &mut Vec<u8>) {
    chunk(out, &event("{}", "\"stop\""));
    chunk(out, "data: [DONE]\n\n");
    out.extend_from_slice(b"0\r\n\r\n");
}

/// A number in letters, since digits are what scanners look at.
pub(crate) fn letters(mut number: u64) -> String {
    let mut word = String::new();
    loop {
        word.push(char::from(b'a' + u8::try_from(number % 26).unwrap()));
        number /= 26;
        if number == 0 {
            return word;
        }
    }
}

/// Microseconds since the epoch.
pub(crate) fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

async fn connection(mut stream: TcpStream, answers: &'static Answers, pace: Duration) {
    let mut buffer = Vec::with_capacity(16 * 1024);
    while let Some(request) = request(&mut stream, &mut buffer).await {
        let streamed = request.windows(13).any(|bytes| bytes == br#""stream":true"#);
        let sent = match (streamed, pace.is_zero()) {
            (false, _) => stream.write_all(&answers.whole).await,
            (true, true) => stream.write_all(&answers.streamed).await,
            (true, false) => paced(&mut stream, pace).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn paced(stream: &mut TcpStream, pace: Duration) -> std::io::Result<()> {
    let mut first = stream_head();
    chunk(&mut first, &event(r#"{"role":"assistant","content":""}"#, "null"));
    stream.write_all(&first).await?;
    let mut ticks = tokio::time::interval(pace);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut piece = Vec::new();
    for _ in 0..DELTAS {
        ticks.tick().await;
        piece.clear();
        // A token of its own: a word and the space behind it.
        chunk(&mut piece, &event(&format!("{{\"content\":\"{} \"}}", letters(now())), "null"));
        stream.write_all(&piece).await?;
    }
    let mut last = Vec::new();
    end(&mut last);
    stream.write_all(&last).await
}

/// Reads one request: head and body. `None` when the client has gone.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(head) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let length = length(&buffer[..head]).unwrap_or(0);
            let end = head + 4 + length;
            if buffer.len() >= end {
                return Some(buffer.drain(..end).collect());
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

fn length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("content-length:"))?;
    line.split_once(':')?.1.trim().parse().ok()
}
