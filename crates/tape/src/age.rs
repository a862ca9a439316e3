//! The format: [age](https://c2sp.org/age), version 1, with one X25519 recipient.
//!
//! A file key is wrapped for the recipient in the header, which an HMAC of the file key closes. The payload is cut into chunks of
//! 64 KiB, each sealed with ChaCha20-Poly1305 under a key derived from the file key, with a counter and a mark of the last one as nonce.

use std::cmp::Ordering;
use std::fmt;
use std::io::{self, BufRead, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac;

use crate::keys::{Identity, KEY_BYTES, Recipient, ephemeral, random};

const INTRO: &str = "age-encryption.org/v1";
const X25519: &str = "X25519";
const FILE_KEY: usize = 16;
const TAG: usize = 16;
const PAYLOAD_NONCE: usize = 16;
/// The bytes of a chunk that is not the last one.
const CHUNK: usize = 64 * 1024;
/// The letters of a line in the body of a recipient, other than the last one.
const BODY_LINE: usize = 64;
/// The most bytes of a header that is read. One for one recipient has 200.
const MOST_HEADER: usize = 16 * 1024;

/// Why a file can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// The file system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The folder is none in which anything may be recorded.
    #[error("{0}\nhint: name a folder of this account alone in `tape.path`")]
    Folder(&'static str),
    /// The system has no randomness.
    #[error("the system gives no random bytes")]
    Random,
    /// Nothing secret can be agreed on with this recipient.
    #[error("the recipient is no key that anybody could have")]
    Recipient,
    /// It is no file of this format.
    #[error("this is no age file of version 1: {0}")]
    Format(&'static str),
    /// It ends before its first chunk begins: whoever wrote it was killed.
    #[error("it is cut off before anything in it begins")]
    CutOff,
    /// The identity is not the recipient's.
    #[error("the identity does not open it: it was recorded to another recipient")]
    OtherKey,
    /// Something in it is not what was written.
    #[error("it was changed, or is damaged: {0}")]
    Damaged(&'static str),
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF with SHA-256, to 32 bytes.
fn derive(secret: &[u8], salt: &[u8], info: &[u8]) -> Result<[u8; KEY_BYTES], TapeError> {
    let mut key = [0; KEY_BYTES];
    Salt::new(HKDF_SHA256, salt)
        .extract(secret)
        .expand(&[info], Length(KEY_BYTES))
        .and_then(|derived| derived.fill(&mut key))
        .map_err(|_| TapeError::Format("no key can be derived"))?;
    Ok(key)
}

fn cipher(key: &[u8; KEY_BYTES]) -> Result<LessSafeKey, TapeError> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key)
        .map_err(|_| TapeError::Format("the key has another length"))?;
    Ok(LessSafeKey::new(key))
}

fn wrap_key(shared: &[u8], share: &[u8; KEY_BYTES], recipient: &Recipient) -> Result<LessSafeKey, TapeError> {
    let salt = [share.as_slice(), recipient.bytes()].concat();
    cipher(&derive(shared, &salt, b"age-encryption.org/v1/X25519")?)
}

fn header_mac(file_key: &[u8; FILE_KEY]) -> Result<hmac::Key, TapeError> {
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &derive(file_key, &[], b"header")?))
}

/// The nonce of a chunk: its number in eleven bytes, and whether it is the last one.
struct Counter(u64);

impl Counter {
    fn next(&mut self, is_last: bool) -> Result<Nonce, TapeError> {
        let mut nonce = [0; NONCE_LEN];
        let (number, last) = nonce.split_at_mut(NONCE_LEN - 1);
        for (place, byte) in number.iter_mut().rev().zip(self.0.to_le_bytes()) {
            *place = byte;
        }
        last.fill(u8::from(is_last));
        self.0 = self.0.checked_add(1).ok_or(TapeError::Format("it is too long"))?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// Writes a file to one recipient.
pub struct Encryptor<W: Write> {
    to: W,
    key: LessSafeKey,
    counter: Counter,
    chunk: Vec<u8>,
}

impl<W: Write> fmt::Debug for Encryptor<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryptor(..)")
    }
}

impl<W: Write> Encryptor<W> {
    /// Returns how many chunks were written. What was pushed behind the last one waits.
    pub(crate) fn chunks(&self) -> u64 {
        self.counter.0
    }

    /// Writes the header.
    ///
    /// # Errors
    ///
    /// [`TapeError`] if the file can't be written, or nobody could read it.
    pub fn new(mut to: W, recipient: &Recipient) -> Result<Self, TapeError> {
        let file_key = random::<FILE_KEY>()?;
        let (share, shared) = ephemeral(recipient)?.ok_or(TapeError::Recipient)?;
        let mut wrapped = file_key.to_vec();
        wrap_key(shared.as_bytes(), &share, recipient)?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key([0; NONCE_LEN]),
                Aad::empty(),
                &mut wrapped,
            )
            .map_err(|_| TapeError::Format("the key can't be wrapped"))?;
        let header =
            format!("{INTRO}\n-> {X25519} {}\n{}\n---", BASE64.encode(share), BASE64.encode(wrapped));
        let mac = hmac::sign(&header_mac(&file_key)?, header.as_bytes());
        let nonce = random::<PAYLOAD_NONCE>()?;
        to.write_all(format!("{header} {}\n", BASE64.encode(mac)).as_bytes())?;
        to.write_all(&nonce)?;
        let key = cipher(&derive(&file_key, &nonce, b"payload")?)?;
        Ok(Self { to, key, counter: Counter(0), chunk: Vec::with_capacity(CHUNK + TAG) })
    }

    /// Writes more. What does not fill a chunk waits.
    ///
    /// # Errors
    ///
    /// [`TapeError`] if the file can't be written.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<(), TapeError> {
        while !bytes.is_empty() {
            // A full chunk may be the last one, and goes only when there is more.
            if self.chunk.len() == CHUNK {
                self.seal(false)?;
            }
            let room = CHUNK - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Writes the end.
    ///
    /// # Errors
    ///
    /// [`TapeError`] if the file can't be written.
    pub fn finish(mut self) -> Result<W, TapeError> {
        self.seal(true)?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn seal(&mut self, is_last: bool) -> Result<(), TapeError> {
        let nonce = self.counter.next(is_last)?;
        self.key
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut self.chunk)
            .map_err(|_| TapeError::Format("a chunk can't be sealed"))?;
        self.to.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

/// Reads a file with an identity.
pub struct Decryptor<R: BufRead> {
    from: R,
    key: LessSafeKey,
    counter: Counter,
    has_ended: bool,
}

impl<R: BufRead> fmt::Debug for Decryptor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decryptor(..)")
    }
}

impl<R: BufRead> Decryptor<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`TapeError`] if it is none, ends too early, was changed, or is to another recipient.
    pub fn new(mut from: R, identity: &Identity) -> Result<Self, TapeError> {
        let Header { stanzas, sealed, mac } = Header::read(&mut from)?;
        let mut file_key = None;
        for stanza in &stanzas {
            file_key = file_key.or(stanza.file_key(identity)?);
        }
        let file_key = file_key.ok_or(TapeError::OtherKey)?;
        hmac::verify(&header_mac(&file_key)?, &sealed, &mac).map_err(|_| TapeError::Damaged("its header"))?;
        let mut nonce = [0; PAYLOAD_NONCE];
        from.read_exact(&mut nonce).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TapeError::CutOff,
            _ => TapeError::Io(error),
        })?;
        let key = cipher(&derive(&file_key, &nonce, b"payload")?)?;
        Ok(Self { from, key, counter: Counter(0), has_ended: false })
    }

    /// Returns whether the end was read: a file that was cut off has none.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reads the next chunk; `None` behind the last one that is whole.
    ///
    /// # Errors
    ///
    /// [`TapeError`] if the file can't be read, or was changed.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, TapeError> {
        if self.has_ended {
            return Ok(None);
        }
        let mut sealed = Vec::new();
        let most = u64::try_from(CHUNK + TAG).unwrap_or_default();
        (&mut self.from).take(most).read_to_end(&mut sealed)?;
        let is_last = self.from.fill_buf()?.is_empty();
        if is_last && sealed.len() < TAG {
            // Cut off between two chunks, or a few bytes behind one.
            return Ok(None);
        }
        let number = self.counter.0;
        let open =
            |counter: &mut Counter, sealed: &mut Vec<u8>, last: bool| -> Result<Option<usize>, TapeError> {
                let opened = self.key.open_in_place(counter.next(last)?, Aad::empty(), sealed);
                Ok(opened.ok().map(|plain| plain.len()))
            };
        if is_last {
            let mut copy = sealed.clone();
            if let Some(length) = open(&mut self.counter, &mut copy, true)? {
                copy.truncate(length);
                if copy.is_empty() && number > 0 {
                    return Err(TapeError::Damaged("its last chunk is empty"));
                }
                self.has_ended = true;
                return Ok(Some(copy));
            }
            self.counter = Counter(number);
        }
        match open(&mut self.counter, &mut sealed, false)? {
            Some(length) if length == CHUNK => {
                sealed.truncate(length);
                Ok(Some(sealed))
            }
            // In the middle of a chunk a file was cut off; a whole one was changed.
            None if is_last && sealed.len() < CHUNK + TAG => Ok(None),
            _ => Err(TapeError::Damaged("a chunk of it")),
        }
    }
}

/// To whom a file is, in as many stanzas as there are recipients.
struct Header {
    stanzas: Vec<Stanza>,
    /// What the seal is of: all of it up to the seal.
    sealed: Vec<u8>,
    mac: Vec<u8>,
}

struct Stanza {
    arguments: Vec<String>,
    body: Vec<u8>,
}

impl Header {
    fn read(from: &mut impl BufRead) -> Result<Self, TapeError> {
        let mut text = Vec::new();
        match line(from, &mut text) {
            Ok(first) if first == INTRO => {}
            Err(TapeError::CutOff) if INTRO.as_bytes().starts_with(&text) => return Err(TapeError::CutOff),
            Err(TapeError::Io(error)) => return Err(TapeError::Io(error)),
            _ => return Err(TapeError::Format("it begins otherwise")),
        }
        let mut stanzas = Vec::new();
        loop {
            let next = line(from, &mut text)?;
            let Some(arguments) = next.strip_prefix("-> ") else {
                let mac = next.strip_prefix("--- ").ok_or(TapeError::Format("its header has no end"))?;
                let mac = BASE64.decode(mac).map_err(|_| TapeError::Format("its seal is no Base64"))?;
                if mac.len() != KEY_BYTES || stanzas.is_empty() {
                    return Err(TapeError::Format("its header has no seal, or no recipient"));
                }
                text.truncate(text.len() - next.len() - 1 + "---".len());
                return Ok(Self { stanzas, sealed: text, mac });
            };
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let is_argument =
                |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
            if !arguments.iter().all(is_argument) {
                return Err(TapeError::Format("its recipient is malformed"));
            }
            let mut body = String::new();
            // A body ends with a line that is not full, which may be empty.
            loop {
                let part = line(from, &mut text)?;
                body.push_str(&part);
                match part.len().cmp(&BODY_LINE) {
                    Ordering::Less => break,
                    Ordering::Equal => {}
                    Ordering::Greater => return Err(TapeError::Format("a line is too long")),
                }
            }
            let body = BASE64.decode(body).map_err(|_| TapeError::Format("its recipient is malformed"))?;
            stanzas.push(Stanza { arguments, body });
        }
    }
}

/// Reads a line of a header, and adds it to what was read of it.
fn line(from: &mut impl BufRead, header: &mut Vec<u8>) -> Result<String, TapeError> {
    let start = header.len();
    let left = u64::try_from(MOST_HEADER.saturating_sub(start)).unwrap_or_default();
    from.by_ref().take(left).read_until(b'\n', header)?;
    let text = header.get(start..).unwrap_or_default();
    let Some(text) = text.strip_suffix(b"\n") else {
        let is_long = header.len() >= MOST_HEADER;
        return Err(if is_long { TapeError::Format("its header does not end") } else { TapeError::CutOff });
    };
    String::from_utf8(text.to_vec()).map_err(|_| TapeError::Format("its header is no text"))
}

impl Stanza {
    /// The file key, if the stanza is to this identity.
    fn file_key(&self, identity: &Identity) -> Result<Option<[u8; FILE_KEY]>, TapeError> {
        const WRONG: TapeError = TapeError::Format("its recipient is malformed");
        let Some((X25519, arguments)) =
            self.arguments.split_first().map(|(kind, rest)| (kind.as_str(), rest))
        else {
            return Ok(None);
        };
        let [share] = arguments else { return Err(WRONG) };
        let share: [u8; KEY_BYTES] =
            BASE64.decode(share).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(WRONG)?;
        // Before anything is opened: a longer key could be made to open with several identities.
        if self.body.len() != FILE_KEY + TAG {
            return Err(WRONG);
        }
        let shared = identity.agree(share).ok_or(WRONG)?;
        let mut wrapped = self.body.clone();
        let opened = wrap_key(shared.as_bytes(), &share, &identity.recipient())?.open_in_place(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            Aad::empty(),
            &mut wrapped,
        );
        Ok(opened.ok().and_then(|plain| <[u8; FILE_KEY]>::try_from(&*plain).ok()))
    }
}
