//! What travels over the socket.
//!
//! A connection carries one question. Each message is a header (`BKST`, the version of this protocol as 16 bits, the
//! length as 32 bits, both with the high byte first) and that many bytes. The hook sends two: a [`Question`] as JSON,
//! and the client's payload as it came. The daemon answers with [`Word`]s as JSON: at once that it has the question,
//! or that it declines it; then the answer.
//!
//! Behind each of the daemon's words stands its signature (see [`key`](super::key)), which the length does not count: over
//! the word and the question's `nonce`.
//!
//! A header of another version is understood as such, and nothing behind it is read: the two are told apart from a
//! program that speaks something else.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use backstop::clients::{Answer, Attended, Client, MAX_PAYLOAD_BYTES};
use backstop::hooks::TraceParent;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Said;
use super::key::{Key, TAG_BYTES};
use crate::session::Surroundings;

const MAGIC: [u8; 4] = *b"BKST";
const VERSION: u16 = 4;
const HEADER_BYTES: usize = 10;

/// The longest question, the payload aside.
const MAX_QUESTION_BYTES: usize = 512 * 1024;
/// The longest report of what was seen: a file that is looked into, with room for escapes.
const MAX_SIGHTING_BYTES: usize = 512 * 1024;
/// The longest answer: changed arguments or a changed result of the largest payload, with room for escapes.
const MAX_WORD_BYTES: usize = 8 * MAX_PAYLOAD_BYTES;

/// What a message can be.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Question,
    Payload,
    Word,
    Sighting,
}

impl Kind {
    const fn most(self) -> usize {
        match self {
            Self::Question => MAX_QUESTION_BYTES,
            Self::Payload => MAX_PAYLOAD_BYTES,
            Self::Word => MAX_WORD_BYTES,
            Self::Sighting => MAX_SIGHTING_BYTES,
        }
    }
}

/// Why a message can't be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it speaks version {0} of the protocol")]
    OtherVersion(u16),
    #[error("it does not speak the protocol")]
    Nonsense,
    #[error("its message is too long")]
    TooLong,
    #[error("what it says is not signed with the daemon's key")]
    Unsigned,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What decides which configuration holds, besides the folder. Two processes with the same viewpoint load the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Viewpoint {
    /// The program's version: another one may have other guards.
    version: String,
    /// The operator's file, where one is named on the command line.
    config: Option<String>,
    /// The user's folders.
    home: Option<String>,
    operator: Option<String>,
    data: Option<String>,
}

impl Viewpoint {
    /// That of this process.
    pub(crate) fn of(surroundings: &Surroundings) -> Self {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let config = surroundings.explicit_config().map(text);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config,
            home: surroundings.home().map(text),
            operator: surroundings.operator_folder().map(text),
            data: surroundings.data_folder().ok().map(text),
        }
    }

    /// That of a hook that asks the service of all users, which knows where everything is by itself.
    pub(crate) fn of_version() -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { version, config: None, home: None, operator: None, data: None }
    }

    /// Whether the other is of the same version of this program.
    pub(super) fn has_version_of(&self, other: &Self) -> bool {
        self.version == other.version
    }

    /// Why a hook with the other viewpoint is to judge alone, if it is. In a run, whose daemon hooks are sent to,
    /// those that name no file of their own are judged by the run's.
    pub(super) fn difference(&self, other: &Self, is_run: bool) -> Option<&'static str> {
        let inherits = is_run && other.config.is_none();
        if self.version != other.version {
            Some("it is another version")
        } else if !inherits && self.config != other.config {
            Some("it has another operator's file")
        } else if (&self.home, &self.operator, &self.data) != (&other.home, &other.operator, &other.data) {
            Some("its user's folders are elsewhere")
        } else {
            None
        }
    }
}

/// What a hook asks, beside the payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) viewpoint: Viewpoint,
    /// What makes this question differ from every other.
    pub(crate) nonce: String,
    /// Whether the configuration must be the pinned one.
    pub(crate) pinned: bool,
    /// The client's name.
    pub(crate) client: String,
    /// The event's name from the command line.
    pub(crate) event: Option<String>,
    /// The hook's working directory, for payloads that name no folder.
    pub(crate) folder: String,
    /// Whether a person attends the client, as the hook's environment says.
    pub(crate) attended: Presence,
    /// How long the hook will wait for the answer, in milliseconds.
    pub(crate) patience_ms: u64,
    /// Below which span of its client the event stands, as the hook's environment says.
    #[serde(default)]
    pub(crate) trace_parent: Option<String>,
    /// What the hook says of its user's surroundings, for the service of all users.
    #[serde(default)]
    pub(crate) claims: Option<Claims>,
}

/// What a hook says of surroundings that the service of all users can't see. None of it is believed where it loosens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    /// Configuration texts with their names: the user's, then those of the workspace from the outermost to the nearest.
    pub(crate) layers: Vec<(String, String)>,
}

/// What the service wants a hook to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lookup {
    /// A file's text.
    File(String),
    /// Where a path leads.
    Links(String),
}

/// What a hook has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sighting {
    /// The file's text.
    Text(String),
    /// There is no such file.
    Missing,
    /// It can't be read.
    Unreadable,
    /// Where the path leads, if that can be told.
    LeadsTo(Option<String>),
}

/// [`Attended`], as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Presence {
    Unsaid,
    Yes,
    No,
}

impl From<Attended> for Presence {
    fn from(attended: Attended) -> Self {
        match attended {
            Attended::Unsaid => Self::Unsaid,
            Attended::Yes => Self::Yes,
            Attended::No => Self::No,
        }
    }
}

impl From<Presence> for Attended {
    fn from(presence: Presence) -> Self {
        match presence {
            Presence::Unsaid => Self::Unsaid,
            Presence::Yes => Self::Yes,
            Presence::No => Self::No,
        }
    }
}

impl Question {
    pub(super) fn client(&self) -> Option<Client> {
        self.client.parse().ok()
    }

    /// The span of the client, if what was said of it is one.
    pub(super) fn parent(&self) -> Option<TraceParent> {
        self.trace_parent.as_deref().and_then(TraceParent::parse)
    }
}

/// What the daemon says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Word {
    /// The question is there and being judged.
    Accepted,
    /// The hook is to judge alone.
    Declined { why: String },
    /// The hook is to look at something and to say what it saw; more words follow.
    Look(Lookup),
    /// The answer.
    Answered { stdout: String, stderr: String, exit_code: u8, remark: Option<String> },
    /// It can't be judged, for this reason: the event is refused.
    Failed { why: String },
}

impl Word {
    pub(super) fn answered(said: &Said) -> Self {
        let answer = &said.answer;
        Self::Answered {
            stdout: String::from_utf8_lossy(answer.stdout()).into_owned(),
            stderr: answer.stderr().to_owned(),
            exit_code: answer.exit_code(),
            remark: said.remark.clone(),
        }
    }
}

/// What is said if these are the words of an answer that a client can be given.
pub(super) fn said(
    stdout: String,
    stderr: String,
    exit_code: u8,
    remark: Option<String>,
) -> Result<Said, Unreadable> {
    let answer = Answer::from_parts(stdout, stderr, exit_code).ok_or(Unreadable::Nonsense)?;
    Ok(Said { answer, remark })
}

fn header(length: usize, kind: Kind) -> Result<[u8; HEADER_BYTES], Unreadable> {
    let short = u32::try_from(length).ok().filter(|_| length <= kind.most());
    let mut header = [0; HEADER_BYTES];
    let parts = MAGIC.into_iter().chain(VERSION.to_be_bytes());
    let parts = parts.chain(short.ok_or(Unreadable::TooLong)?.to_be_bytes());
    header.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    Ok(header)
}

/// The length that a header announces.
fn length(header: [u8; HEADER_BYTES], kind: Kind) -> Result<usize, Unreadable> {
    let [m0, m1, m2, m3, v0, v1, l0, l1, l2, l3] = header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(Unreadable::Nonsense);
    }
    match u16::from_be_bytes([v0, v1]) {
        VERSION => {}
        other => return Err(Unreadable::OtherVersion(other)),
    }
    let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    if length > kind.most() { Err(Unreadable::TooLong) } else { Ok(length) }
}

fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(bytes).map_err(|_| Unreadable::Nonsense)
}

fn written(value: &impl Serialize, kind: Kind) -> Result<Vec<u8>, Unreadable> {
    let body = serde_json::to_vec(value).map_err(|_| Unreadable::Nonsense)?;
    Ok([header(body.len(), kind)?.as_slice(), &body].concat())
}

// ==== the hook's side, which waits ====

/// Asks, in one write.
pub(super) fn write_question(
    out: &mut impl Write,
    question: &Question,
    payload: &[u8],
) -> Result<(), Unreadable> {
    let mut bytes = written(question, Kind::Question)?;
    bytes.extend(header(payload.len(), Kind::Payload)?);
    bytes.extend(payload);
    Ok(out.write_all(&bytes)?)
}

/// Says what was seen.
pub(super) fn write_sighting(out: &mut impl Write, sighting: &Sighting) -> Result<(), Unreadable> {
    Ok(out.write_all(&written(sighting, Kind::Sighting)?)?)
}

/// The next word, if it is the daemon's.
pub(super) fn read_word(from: &mut impl Read, key: &Key, nonce: &str) -> Result<Word, Unreadable> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let length = length(header, Kind::Word)?;
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(Unreadable::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    let mut tag = [0; TAG_BYTES];
    from.read_exact(&mut tag)?;
    if tag == key.tag(nonce, &body) { parsed(&body) } else { Err(Unreadable::Unsigned) }
}

// ==== the daemon's side ====

/// The next question.
pub(super) async fn read_question(from: &mut (impl AsyncRead + Unpin)) -> Result<Question, Unreadable> {
    let length = announced(from, Kind::Question).await?;
    parsed(&read_body(from, length).await?)
}

/// How long the payload is that follows.
pub(super) async fn payload_length(from: &mut (impl AsyncRead + Unpin)) -> Result<usize, Unreadable> {
    announced(from, Kind::Payload).await
}

/// A message's bytes.
pub(super) async fn read_body(
    from: &mut (impl AsyncRead + Unpin),
    length: usize,
) -> Result<Vec<u8>, Unreadable> {
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    Ok(body)
}

/// What the hook has seen.
pub(super) async fn read_sighting(from: &mut (impl AsyncRead + Unpin)) -> Result<Sighting, Unreadable> {
    let length = announced(from, Kind::Sighting).await?;
    parsed(&read_body(from, length).await?)
}

async fn announced(from: &mut (impl AsyncRead + Unpin), kind: Kind) -> Result<usize, Unreadable> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header).await?;
    length(header, kind)
}

/// Says a word to whoever asked with that `nonce`.
pub(super) async fn write_word(
    out: &mut (impl AsyncWrite + Unpin),
    word: &Word,
    key: &Key,
    nonce: &str,
) -> Result<(), Unreadable> {
    let mut bytes = written(word, Kind::Word)?;
    let tag = key.tag(nonce, bytes.get(HEADER_BYTES..).unwrap_or_default());
    bytes.extend(tag);
    out.write_all(&bytes).await?;
    Ok(out.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn viewpoint() -> Viewpoint {
        Viewpoint {
            version: "1.2.3".to_owned(),
            config: None,
            home: Some("/home/me".to_owned()),
            operator: None,
            data: None,
        }
    }

    fn question() -> Question {
        Question {
            viewpoint: viewpoint(),
            nonce: "n".to_owned(),
            pinned: false,
            client: "claude".to_owned(),
            event: None,
            folder: "/work".to_owned(),
            attended: Presence::Unsaid,
            patience_ms: 1000,
            trace_parent: None,
            claims: None,
        }
    }

    #[tokio::test]
    async fn a_question_arrives_as_it_was_asked() {
        let mut bytes = Vec::new();
        write_question(&mut bytes, &question(), b"{}\xff").unwrap();
        let mut from = bytes.as_slice();
        let read = read_question(&mut from).await.unwrap();
        assert_eq!((&read.viewpoint, read.client()), (&viewpoint(), Some(Client::Claude)));
        let length = payload_length(&mut from).await.unwrap();
        assert_eq!(read_body(&mut from, length).await.unwrap(), b"{}\xff");
        assert!(from.is_empty());
    }

    #[tokio::test]
    async fn what_is_no_message_is_told_from_one_of_another_version() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::create(&folder.path().join("s")).unwrap();
        let read = |mut bytes: &[u8]| read_word(&mut bytes, &key, "n");
        let mut word = Vec::new();
        write_word(&mut word, &Word::Accepted, &key, "n").await.unwrap();
        assert!(matches!(read(&word), Ok(Word::Accepted)));
        for cut in 0..word.len() {
            assert!(matches!(read(&word[..cut]), Err(Unreadable::Io(_))), "{cut}");
        }
        let mut other = word.clone();
        other[5] = 9;
        assert!(matches!(read(&other), Err(Unreadable::OtherVersion(9))));
        let mut long = word.clone();
        long[6] = 0xff;
        assert!(matches!(read(&long), Err(Unreadable::TooLong)));
        assert!(matches!(read(b"HTTP/1.1 200 OK\r\n\r\n"), Err(Unreadable::Nonsense)));
        let mut unsigned = word.clone();
        *unsigned.last_mut().unwrap() ^= 1;
        assert!(matches!(read(&unsigned), Err(Unreadable::Unsigned)));
        assert!(
            matches!(read_word(&mut word.as_slice(), &key, "m"), Err(Unreadable::Unsigned)),
            "said to another"
        );
        let other = Key::create(&folder.path().join("t")).unwrap();
        assert!(matches!(read_word(&mut word.as_slice(), &other, "n"), Err(Unreadable::Unsigned)));
        let mut signed = b"BKST\0\x04\0\0\0\x02{}".to_vec();
        signed.extend(key.tag("n", b"{}"));
        assert!(matches!(read(&signed), Err(Unreadable::Nonsense)));
    }

    #[test]
    fn only_what_a_client_can_be_told_is_an_answer() {
        let text = str::to_owned;
        assert!(said(String::new(), String::new(), 0, None).is_ok());
        assert!(said(text("{\"a\": 1}"), text("why"), 2, None).is_ok());
        for (stdout, stderr, exit_code) in
            [("", "", 2), ("hello", "", 0), ("[]", "", 0), ("{", "", 0), ("{}{}", "", 0), ("", "", 1)]
        {
            assert!(said(text(stdout), text(stderr), exit_code, None).is_err(), "{stdout:?} {exit_code}");
        }
    }

    #[test]
    fn who_would_load_another_configuration_judges_alone() {
        let ours = viewpoint();
        assert_eq!(ours.difference(&viewpoint(), false), None);
        let others = [
            Viewpoint { version: "1.2.4".to_owned(), ..viewpoint() },
            Viewpoint { home: None, ..viewpoint() },
            Viewpoint { operator: Some("/elsewhere".to_owned()), ..viewpoint() },
            Viewpoint { data: Some("/elsewhere".to_owned()), ..viewpoint() },
            Viewpoint { config: Some("/a.yaml".to_owned()), ..viewpoint() },
        ];
        for other in others {
            for is_run in [false, true] {
                assert!(ours.difference(&other, is_run).is_some(), "{other:?}");
            }
        }
        let run = Viewpoint { config: Some("/a.yaml".to_owned()), ..viewpoint() };
        assert!(run.difference(&viewpoint(), false).is_some());
        assert_eq!(run.difference(&viewpoint(), true), None);
    }
}
