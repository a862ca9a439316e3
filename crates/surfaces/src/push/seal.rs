//! Encrypting a message for one browser (RFC 8291): P-256, HKDF with SHA-256, and one record of `aes128gcm` (RFC 8188).
//!
//! The push service sees the length and nothing else. Each message has a key pair and a salt of its own.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The bytes of a public key: an uncompressed point.
pub(super) const PUBLIC: usize = 65;
/// The bytes of what a browser shares with us besides (`auth`).
pub(super) const AUTH: usize = 16;
const SALT: usize = 16;
/// The size of records that the header names. There is one, which is shorter (RFC 8291, section 4).
const RECORD: u32 = 4_096;
/// What stands behind the text of the last record (RFC 8188, section 2).
const LAST: u8 = 2;

/// What a browser gave us to encrypt with. It is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Receiver {
    /// Its public key (`p256dh`).
    pub(super) public: [u8; PUBLIC],
    /// What only it and we know (`auth`).
    pub(super) auth: [u8; AUTH],
}

/// What is other in each message.
struct Fresh {
    salt: [u8; SALT],
    public: [u8; PUBLIC],
}

/// How many bytes are derived.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Returns the body of a message that says this to a browser. `None` if its key is no point of the curve, or the system has no randomness.
pub(super) fn seal(text: &[u8], to: &Receiver) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    let mut salt = [0; SALT];
    random.fill(&mut salt).ok()?;
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &random).ok()?;
    let public = own.compute_public_key().ok()?.as_ref().try_into().ok()?;
    let theirs = UnparsedPublicKey::new(&ECDH_P256, &to.public);
    agree_ephemeral(own, &theirs, |shared| seal_with(text, to, &Fresh { salt, public }, shared)).ok()?
}

fn seal_with(text: &[u8], to: &Receiver, fresh: &Fresh, shared: &[u8]) -> Option<Vec<u8>> {
    let info = [b"WebPush: info\0".as_slice(), &to.public, &fresh.public];
    let secret: [u8; 32] = derive(&to.auth, shared, &info)?;
    let key: [u8; 16] = derive(&fresh.salt, &secret, &[b"Content-Encoding: aes128gcm\0"])?;
    let nonce: [u8; 12] = derive(&fresh.salt, &secret, &[b"Content-Encoding: nonce\0"])?;
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    let mut record = [text, &[LAST]].concat();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record).ok()?;
    let length = u8::try_from(PUBLIC).ok()?;
    Some([&fresh.salt, RECORD.to_be_bytes().as_slice(), &[length], &fresh.public, &record].concat())
}

/// HKDF (RFC 5869).
fn derive<const LENGTH: usize>(salt: &[u8], secret: &[u8], info: &[&[u8]]) -> Option<[u8; LENGTH]> {
    let mut derived = [0; LENGTH];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    extracted.expand(info, Bytes(LENGTH)).ok()?.fill(&mut derived).ok()?;
    Some(derived)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;

    use super::*;

    fn bytes<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
        BASE64_URL_SAFE_NO_PAD.decode(text).unwrap().try_into().unwrap()
    }

    #[test]
    fn the_example_of_the_standard_comes_out_to_the_byte() {
        // RFC 8291, appendix A.
        let to = Receiver {
            public: bytes(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            ),
            auth: bytes("BTBZMqHH6r4Tts7J_aSIgg"),
        };
        let fresh = Fresh {
            salt: bytes("DGv6ra1nlYgDCS1FRnbzlw"),
            public: bytes(
                "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
            ),
        };
        let shared: [u8; 32] = bytes("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs");
        let text = b"When I grow up, I want to be a watermelon";
        let body = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(BASE64_URL_SAFE_NO_PAD.encode(seal_with(text, &to, &fresh, &shared).unwrap()), body);
    }

    #[test]
    fn a_key_that_is_no_point_gets_nothing_and_no_message_is_like_another() {
        let own = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
        let public = own.compute_public_key().unwrap().as_ref().try_into().unwrap();
        let to = Receiver { public, auth: [7; AUTH] };
        let (one, other) = (seal(b"text", &to).unwrap(), seal(b"text", &to).unwrap());
        assert_eq!(one.len(), SALT + 4 + 1 + PUBLIC + 4 + 1 + 16);
        assert_ne!(one[..SALT], other[..SALT]);
        assert_ne!(one[SALT + 5..SALT + 5 + PUBLIC], other[SALT + 5..SALT + 5 + PUBLIC]);
        let mut off = public;
        off[PUBLIC - 1] ^= 1;
        for public in [off, [0; PUBLIC], [4; PUBLIC]] {
            assert!(seal(b"text", &Receiver { public, auth: [7; AUTH] }).is_none());
        }
    }
}
