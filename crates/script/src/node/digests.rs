//! Digests, authentication codes and randomness for `node:crypto`, and compressed data for `node:zlib`.
//!
//! `ring` does what it has. It has no MD5, which programs use to name things and not to protect them, so that is
//! here; its round constants are the integer parts of sines, as RFC 1321 says.

use std::io::Read;
use std::sync::Arc;

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{digest, hmac};
use rquickjs::{Ctx, Function, Object, TypedArray};

use super::bytes::{from_binary, hex};
use super::fault::Fault;

/// Bytes of randomness that one call gives.
const MOST_RANDOM: u32 = 1 << 20;
/// Bytes that compressed data may become.
const MOST_INFLATED: u64 = 32 << 20;

fn unknown(algorithm: &str) -> Fault {
    Fault::new("ERR_CRYPTO_INVALID_DIGEST", format!("Digest method not supported: {algorithm}"))
}

fn hash(algorithm: &str, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let of = match algorithm {
        "md5" => return Ok(md5(bytes).to_vec()),
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        _ => return Err(unknown(algorithm)),
    };
    Ok(digest::digest(of, bytes).as_ref().to_vec())
}

fn authenticate(algorithm: &str, key: &[u8], bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let of = match algorithm {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => return Err(unknown(algorithm)),
    };
    Ok(hmac::sign(&hmac::Key::new(of, key), bytes).as_ref().to_vec())
}

const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

fn md5(bytes: &[u8]) -> [u8; 16] {
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let mut state: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    for block in padded.chunks_exact(64) {
        let words: Vec<u32> =
            block.chunks_exact(4).filter_map(|word| word.try_into().ok().map(u32::from_le_bytes)).collect();
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0_usize..64 {
            let (mixed, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), (7 * step) % 16),
            };
            let turn =
                TURNS.get(step / 16).and_then(|turns| turns.get(step % 4)).copied().unwrap_or_default();
            let sum = a
                .wrapping_add(mixed)
                .wrapping_add(sine(step))
                .wrapping_add(words.get(word).copied().unwrap_or_default());
            (a, d, c, b) = (d, c, b, b.wrapping_add(sum.rotate_left(turn)));
        }
        for (part, add) in state.iter_mut().zip([a, b, c, d]) {
            *part = part.wrapping_add(add);
        }
    }
    let mut out = [0; 16];
    for (to, from) in out.iter_mut().zip(state.into_iter().flat_map(u32::to_le_bytes)) {
        *to = from;
    }
    out
}

fn sine(step: usize) -> u32 {
    let value = (f64::from(u32::try_from(step + 1).unwrap_or_default())).sin().abs() * 4_294_967_296.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sine times 2^32 is below 2^32"
    )]
    let whole = value as u32;
    whole
}

fn inflate(kind: &str, bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let mut out = Vec::new();
    let mut reader: Box<dyn Read + '_> = match kind {
        "gzip" => return bounded(&mut GzEncoder::new(bytes, Compression::default()), &mut out).map(|()| out),
        "deflate" => {
            return bounded(&mut ZlibEncoder::new(bytes, Compression::default()), &mut out).map(|()| out);
        }
        "deflateRaw" => {
            return bounded(&mut DeflateEncoder::new(bytes, Compression::default()), &mut out).map(|()| out);
        }
        "gunzip" => Box::new(MultiGzDecoder::new(bytes)),
        "inflate" => Box::new(ZlibDecoder::new(bytes)),
        "inflateRaw" => Box::new(DeflateDecoder::new(bytes)),
        "unzip" if bytes.starts_with(&[0x1f, 0x8b]) => Box::new(MultiGzDecoder::new(bytes)),
        "unzip" => Box::new(ZlibDecoder::new(bytes)),
        _ => {
            return Err(Fault::new(
                "ERR_METHOD_NOT_IMPLEMENTED",
                format!("zlib.{kind} is not provided to scripts"),
            ));
        }
    };
    bounded(&mut *reader, &mut out)?;
    Ok(out)
}

fn bounded(reader: &mut dyn Read, out: &mut Vec<u8>) -> Result<(), Fault> {
    reader
        .take(MOST_INFLATED + 1)
        .read_to_end(out)
        .map_err(|error| Fault::new("Z_DATA_ERROR", format!("the data is not what it should be: {error}")))?;
    if out.len() as u64 > MOST_INFLATED {
        let message = format!("Cannot create a Buffer larger than {MOST_INFLATED} bytes");
        return Err(Fault::new("ERR_BUFFER_TOO_LARGE", message));
    }
    Ok(())
}

/// Randomness, as many bytes as asked for.
fn random(source: &SystemRandom, bytes: u32) -> Result<Vec<u8>, Fault> {
    if bytes > MOST_RANDOM {
        return Err(Fault::new(
            "ERR_OUT_OF_RANGE",
            format!("at most {MOST_RANDOM} random bytes are given at once"),
        ));
    }
    let mut out = vec![0; usize::try_from(bytes).unwrap_or_default()];
    source
        .fill(&mut out)
        .map_err(|_| Fault::new("ERR_OPERATION_FAILED", "the system gives no randomness"))?;
    Ok(out)
}

fn uuid(source: &SystemRandom) -> Result<String, Fault> {
    let mut bytes = random(source, 16)?;
    for (at, byte) in bytes.iter_mut().enumerate() {
        match at {
            6 => *byte = *byte & 0x0f | 0x40,
            8 => *byte = *byte & 0x3f | 0x80,
            _ => {}
        }
    }
    let mut text = hex(&bytes);
    for at in [20, 16, 12, 8] {
        text.insert(at, '-');
    }
    Ok(text)
}

/// Puts the functions of this module on `host`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> rquickjs::Result<()> {
    let digest =
        |ctx: Ctx<'js>, algorithm: String, binary: String| -> rquickjs::Result<TypedArray<'js, u8>> {
            let made = hash(&algorithm, &from_binary(&binary)).map_err(|fault| fault.throw(&ctx))?;
            TypedArray::new(ctx, made)
        };
    host.set("digest", Function::new(ctx.clone(), digest)?)?;
    let code = |ctx: Ctx<'js>,
                algorithm: String,
                key: String,
                binary: String|
     -> rquickjs::Result<TypedArray<'js, u8>> {
        let made = authenticate(&algorithm, &from_binary(&key), &from_binary(&binary));
        TypedArray::new(ctx.clone(), made.map_err(|fault| fault.throw(&ctx))?)
    };
    host.set("hmac", Function::new(ctx.clone(), code)?)?;
    let zip = |ctx: Ctx<'js>, kind: String, binary: String| -> rquickjs::Result<TypedArray<'js, u8>> {
        let made = inflate(&kind, &from_binary(&binary)).map_err(|fault| fault.throw(&ctx))?;
        TypedArray::new(ctx, made)
    };
    host.set("zip", Function::new(ctx.clone(), zip)?)?;
    let source = Arc::new(SystemRandom::new());
    let from = Arc::clone(&source);
    let randoms = move |ctx: Ctx<'js>, bytes: u32| -> rquickjs::Result<TypedArray<'js, u8>> {
        let made = random(&from, bytes).map_err(|fault| fault.throw(&ctx))?;
        TypedArray::new(ctx, made)
    };
    host.set("random", Function::new(ctx.clone(), randoms)?)?;
    let from = Arc::clone(&source);
    let uuids = move |ctx: Ctx<'js>| uuid(&from).map_err(|fault| fault.throw(&ctx));
    host.set("uuid", Function::new(ctx.clone(), uuids)?)?;
    // Six letters, as `mkdtemp` puts behind a name.
    let letters = move |ctx: Ctx<'js>| -> rquickjs::Result<String> {
        let bytes = random(&source, 6).map_err(|fault| fault.throw(&ctx))?;
        Ok(bytes.into_iter().map(|byte| char::from(b'a' + byte % 26)).collect())
    };
    host.set("letters", Function::new(ctx.clone(), letters)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_their_standards() {
        let cases = [
            ("md5", "", "d41d8cd98f00b204e9800998ecf8427e"),
            ("md5", "message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "md5",
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a",
            ),
            ("sha1", "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha256", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ];
        for (algorithm, text, expected) in cases {
            assert_eq!(hex(&hash(algorithm, text.as_bytes()).unwrap()), expected, "{algorithm} of {text:?}");
        }
        assert!(hash("md4", b"").is_err());
    }

    #[test]
    fn what_is_compressed_comes_back_and_a_bomb_does_not() {
        let text = b"again and again and again".repeat(20);
        for (there, back) in
            [("gzip", "gunzip"), ("deflate", "inflate"), ("deflateRaw", "inflateRaw"), ("gzip", "unzip")]
        {
            assert_eq!(inflate(back, &inflate(there, &text).unwrap()).unwrap(), text);
        }
        let half = usize::try_from(MOST_INFLATED / 2).unwrap();
        let mut bomb = inflate("gzip", &vec![0; half]).unwrap();
        bomb.extend(bomb.clone());
        bomb.extend(inflate("gzip", b"!").unwrap());
        assert_eq!(inflate("gunzip", &bomb).unwrap_err().code, "ERR_BUFFER_TOO_LARGE");
    }
}
