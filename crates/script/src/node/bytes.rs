//! Text and bytes, as Node turns one into the other.
//!
//! QuickJS lends bytes to safe Rust in one direction only, so bytes come from JavaScript as a *binary text*: one
//! character, U+0000 to U+00FF, for each byte. What goes back is an `Uint8Array`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rquickjs::{Ctx, Function, Object, TypedArray};

use super::fault::Fault;

/// The bytes of a binary text.
pub(super) fn from_binary(text: &str) -> Vec<u8> {
    // INVARIANT: `binary` of `encoding.js` makes characters up to U+00FF only; what a script gives wraps.
    text.chars().map(|char| (u32::from(char) & 0xff).try_into().unwrap_or_default()).collect()
}

fn to_binary(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

fn encode(text: &str, encoding: &str) -> Result<Vec<u8>, Fault> {
    Ok(match encoding {
        "utf8" => text.as_bytes().to_vec(),
        "hex" => from_hex(text),
        "base64" | "base64url" => from_base64(text),
        _ => return Err(Fault::new("ERR_UNKNOWN_ENCODING", format!("Unknown encoding: {encoding}"))),
    })
}

fn decode(bytes: &[u8], encoding: &str, fatal: bool) -> Result<String, Fault> {
    Ok(match encoding {
        "utf8" if fatal => std::str::from_utf8(bytes)
            .map_err(|_| Fault::new("ERR_ENCODING_INVALID_ENCODED_DATA", "the bytes are no UTF-8"))?
            .to_owned(),
        "utf8" => String::from_utf8_lossy(bytes).into_owned(),
        "utf16le" => {
            let units: Vec<u16> = bytes
                .chunks_exact(2)
                .filter_map(|pair| pair.try_into().ok().map(u16::from_le_bytes))
                .collect();
            String::from_utf16_lossy(&units)
        }
        "latin1" => to_binary(bytes),
        "ascii" => bytes.iter().map(|byte| char::from(byte & 0x7f)).collect(),
        "hex" => hex(bytes),
        "base64" => STANDARD.encode(bytes),
        "base64url" => URL_SAFE_NO_PAD.encode(bytes),
        _ => return Err(Fault::new("ERR_UNKNOWN_ENCODING", format!("Unknown encoding: {encoding}"))),
    })
}

/// `bytes` as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

/// As Node reads it: up to the first pair that is none.
fn from_hex(text: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    text.as_bytes()
        .chunks_exact(2)
        .map_while(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

/// As Node reads it: either alphabet, whatever else stands between is passed over, and `=` ends it.
fn from_base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => break,
            _ => continue,
        };
        held = (held << 6 | u32::from(value)) & 0x00ff_ffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap_or_default());
        }
    }
    bytes
}

/// Puts `encode`, `decode` and `gzip`, `gunzip` on `host`.
pub(super) fn install<'js>(ctx: &Ctx<'js>, host: &Object<'js>) -> rquickjs::Result<()> {
    let encoder = |ctx: Ctx<'js>, text: String, encoding: String| -> rquickjs::Result<TypedArray<'js, u8>> {
        let bytes = encode(&text, &encoding).map_err(|fault| fault.throw(&ctx))?;
        TypedArray::new(ctx, bytes)
    };
    host.set("encode", Function::new(ctx.clone(), encoder)?)?;
    let decoder =
        |ctx: Ctx<'js>, binary: String, encoding: String, fatal: bool| -> rquickjs::Result<String> {
            decode(&from_binary(&binary), &encoding, fatal).map_err(|fault| fault.throw(&ctx))
        };
    host.set("decode", Function::new(ctx.clone(), decoder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        for encoding in ["hex", "base64", "base64url"] {
            let text = decode(&bytes, encoding, false).unwrap();
            assert_eq!(encode(&text, encoding).unwrap(), bytes, "{encoding}");
        }
        assert_eq!(from_binary(&to_binary(&bytes)), bytes);
    }
}
