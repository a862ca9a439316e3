//! A collector on the loopback, which reads what it is sent with a reader of its own: fields by their numbers, as
//! `opentelemetry/proto/trace/v1/trace.proto` has them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a collector does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It takes it.
    Takes,
    /// It never answers.
    Hangs,
    /// It answers with this status.
    Refuses(u16),
}

/// A span, as it was received. Ids are hex.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Received {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) status: u64,
    pub(crate) flags: u64,
    /// Lists have their members joined by a comma.
    pub(crate) attributes: BTreeMap<String, String>,
    pub(crate) resource: BTreeMap<String, String>,
}

impl Received {
    #[track_caller]
    pub(crate) fn get(&self, key: &str) -> &str {
        self.attributes.get(key).unwrap_or_else(|| panic!("`{key}` is missing in {self:?}"))
    }
}

#[derive(Default)]
struct Seen {
    spans: Vec<Received>,
    bodies: Vec<Vec<u8>>,
    heads: Vec<String>,
}

/// A collector.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    seen: Arc<Mutex<Seen>>,
    manner: Arc<Mutex<Manner>>,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let (seen, manner) = (Arc::<Mutex<Seen>>::default(), Arc::new(Mutex::new(manner)));
        let (all, how) = (Arc::clone(&seen), Arc::clone(&manner));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (all, how) = (Arc::clone(&all), Arc::clone(&how));
                std::thread::spawn(move || while serve(&stream, &all, &how).is_some() {});
            }
        });
        Self { endpoint, seen, manner }
    }

    pub(crate) fn change(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    pub(crate) fn spans(&self) -> Vec<Received> {
        self.seen.lock().unwrap().spans.clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.lock().unwrap().bodies.len()
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().heads.clone()
    }

    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().bodies.clone()
    }

    /// Waits until it has a span that fits, and gives all that it has.
    #[track_caller]
    pub(crate) fn until(&self, fits: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let spans = self.spans();
            if fits(&spans) {
                return spans;
            }
            assert!(Instant::now() < end, "what was waited for did not come: {spans:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Reads a request and answers it; `None` at the end of the connection.
fn serve(stream: &TcpStream, seen: &Mutex<Seen>, manner: &Mutex<Manner>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let manner = *manner.lock().unwrap();
    {
        let mut seen = seen.lock().unwrap();
        if manner == Manner::Takes {
            seen.spans.extend(spans(&body));
        }
        seen.bodies.push(body);
        seen.heads.push(head);
    }
    let status = match manner {
        Manner::Takes => 200,
        Manner::Refuses(status) => status,
        Manner::Hangs => {
            // Until the other side goes.
            let _ = reader.read_to_end(&mut Vec::new());
            return None;
        }
    };
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} -\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
        .ok()
}

/// A value of a field.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, with their numbers. What is malformed fails the test.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let mut take = |length: usize| {
            let (taken, rest) = bytes.split_at(length);
            bytes = rest;
            taken
        };
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(8).try_into().unwrap())),
            5 => Field::Number(u32::from_le_bytes(take(4).try_into().unwrap()).into()),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                let (taken, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(taken)
            }
            other => panic!("no field has the type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn messages(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter_map(move |(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn value(bytes: &[u8]) -> String {
    match fields(bytes).as_slice() {
        [(1, Field::Bytes(words))] => text(words),
        [(2 | 3, Field::Number(number))] => number.to_string(),
        [(5, Field::Bytes(list))] => messages(list, 1).map(value).collect::<Vec<_>>().join(","),
        _ => panic!("no such value is sent"),
    }
}

fn attributes(of: &[u8], number: u64) -> BTreeMap<String, String> {
    let pairs = messages(of, number).map(|pair| {
        let key = messages(pair, 1).next().map(text).unwrap();
        (key, messages(pair, 2).next().map(value).unwrap())
    });
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans of a request.
fn spans(body: &[u8]) -> Vec<Received> {
    let mut found = Vec::new();
    for of_resource in messages(body, 1) {
        let resource = messages(of_resource, 1).next().map(|resource| attributes(resource, 1));
        for of_scope in messages(of_resource, 2) {
            assert_eq!(messages(of_scope, 1).count(), 1, "one scope");
            found.extend(
                messages(of_scope, 2).map(|span| Received {
                    resource: resource.clone().unwrap_or_default(),
                    ..received(span)
                }),
            );
        }
    }
    found
}

fn received(span: &[u8]) -> Received {
    let mut received = Received { attributes: attributes(span, 9), ..Received::default() };
    for (number, field) in fields(span) {
        match (number, field) {
            (1, Field::Bytes(id)) => received.trace = hex(id),
            (2, Field::Bytes(id)) => received.id = hex(id),
            (4, Field::Bytes(id)) => received.parent = hex(id),
            (5, Field::Bytes(name)) => received.name = text(name),
            (6, Field::Number(kind)) => received.kind = kind,
            (7, Field::Number(start)) => received.start = start,
            (8, Field::Number(end)) => received.end = end,
            (9, Field::Bytes(_)) => {}
            (15, Field::Bytes(status)) => {
                received.status = match fields(status).as_slice() {
                    [(3, Field::Number(code))] => *code,
                    _ => panic!("a status is a code and no text"),
                };
            }
            (16, Field::Number(flags)) => received.flags = flags,
            (other, _) => panic!("field {other} of a span is not sent"),
        }
    }
    let lengths = (received.trace.len(), received.id.len(), received.parent.len());
    assert!(matches!(lengths, (32, 16, 0 | 16)), "ids have their sizes: {received:?}");
    assert!(received.start <= received.end && received.start > 1_700_000_000_000_000_000, "{received:?}");
    received
}
