//! The browser's half of web push (RFC 8291), written for itself: P-256 by the curve's formulas, and HKDF by HMAC.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use num_bigint::BigUint;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

/// A point of the curve; `None` is the one at infinity.
type Point = Option<(BigUint, BigUint)>;

fn number(hex: &str) -> BigUint {
    BigUint::parse_bytes(hex.as_bytes(), 16).unwrap()
}

fn prime() -> BigUint {
    number("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff")
}

fn generator() -> Point {
    let x = number("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296");
    let y = number("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5");
    Some((x, y))
}

fn add(one: &Point, other: &Point, prime: &BigUint) -> Point {
    let (Some((x1, y1)), Some((x2, y2))) = (one, other) else { return one.clone().or_else(|| other.clone()) };
    let minus = |a: &BigUint, b: &BigUint| (a + prime - b) % prime;
    let (above, below) = if x1 != x2 {
        (minus(y2, y1), minus(x2, x1))
    } else if y1 == y2 {
        // The curve's `a` is -3.
        (minus(&(x1 * x1 * 3_u32 % prime), &BigUint::from(3_u32)), y1 * 2_u32 % prime)
    } else {
        return None;
    };
    let slope = above * below.modpow(&(prime - 2_u32), prime) % prime;
    let x = minus(&minus(&(&slope * &slope % prime), x1), x2);
    let y = minus(&(slope * minus(x1, &x) % prime), y1);
    Some((x, y))
}

fn times(factor: &BigUint, point: &Point) -> Point {
    let (prime, mut sum) = (prime(), None);
    for bit in (0..factor.bits()).rev() {
        sum = add(&sum, &sum, &prime);
        if factor.bit(bit) {
            sum = add(&sum, point, &prime);
        }
    }
    sum
}

fn bytes(number: &BigUint) -> Vec<u8> {
    let bytes = number.to_bytes_be();
    [vec![0; 32 - bytes.len()], bytes].concat()
}

fn derive(salt: &[u8], secret: &[u8], info: &[u8], length: usize) -> Vec<u8> {
    let sign =
        |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec();
    sign(&sign(salt, secret), &[info, &[1]].concat())[..length].to_vec()
}

/// A browser that subscribed.
pub(crate) struct Browser {
    secret: BigUint,
    public: Vec<u8>,
    auth: Vec<u8>,
}

impl Browser {
    pub(crate) fn new() -> Self {
        let (mut secret, mut auth) = ([0; 32], [0; 16]);
        SystemRandom::new().fill(&mut secret[1..]).unwrap();
        SystemRandom::new().fill(&mut auth).unwrap();
        Self::of(&secret, &auth)
    }

    fn of(secret: &[u8], auth: &[u8]) -> Self {
        let secret = BigUint::from_bytes_be(secret);
        let (x, y) = times(&secret, &generator()).unwrap();
        Self { secret, public: [vec![4], bytes(&x), bytes(&y)].concat(), auth: auth.to_vec() }
    }

    pub(crate) fn p256dh(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.public)
    }

    pub(crate) fn auth(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.auth)
    }

    /// Reads the body of a push, of one record.
    pub(crate) fn read(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (salt, size, length) =
            (&body[..16], u32::from_be_bytes(body[16..20].try_into().unwrap()), body[20]);
        assert_eq!(usize::from(length), 65);
        let (sender, record) = (&body[21..86], &body[86..]);
        assert!(record.len() <= usize::try_from(size).unwrap() && body.len() <= 4_096, "{}", body.len());
        let point = (BigUint::from_bytes_be(&sender[1..33]), BigUint::from_bytes_be(&sender[33..]));
        let (shared, _) = times(&self.secret, &Some(point)).unwrap();
        let info = [b"WebPush: info\0".as_slice(), &self.public, sender].concat();
        let secret = derive(&self.auth, &bytes(&shared), &info, 32);
        let key = derive(salt, &secret, b"Content-Encoding: aes128gcm\0", 16);
        let nonce = derive(salt, &secret, b"Content-Encoding: nonce\0", 12);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).unwrap());
        let nonce = Nonce::assume_unique_for_key(nonce.try_into().unwrap());
        let mut record = record.to_vec();
        let text = key.open_in_place(nonce, Aad::empty(), &mut record).ok()?;
        let (last, text) = text.split_last().unwrap();
        assert_eq!(*last, 2, "it is the last record, without padding");
        Some(text.to_vec())
    }
}

#[test]
fn this_browser_reads_the_example_of_the_standard() {
    // RFC 8291, appendix A.
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let browser = Browser::of(
        &decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"),
        &decode("BTBZMqHH6r4Tts7J_aSIgg"),
    );
    let public = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    assert_eq!(browser.p256dh(), public);
    let body = decode(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
    );
    assert_eq!(browser.read(&body).unwrap(), b"When I grow up, I want to be a watermelon");
    assert!(Browser::new().read(&body).is_none());
}
