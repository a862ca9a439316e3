//! A vector in Base64: 32-bit numbers, the lowest byte first, as OpenAI writes them.
//!
//! Numbers of a vector are neither huge nor nearly nothing. The bytes of a text are: read as numbers they have exponents that no
//! vector has.

/// The largest number of a vector, and the smallest that is not zero.
const LARGEST: f32 = 1e4;
const SMALLEST: f32 = 1e-12;

/// A vector that comes letter by letter.
#[derive(Debug, Default)]
pub(super) struct Vector {
    /// Bits that make no byte yet, and how many.
    bits: u32,
    count: u32,
    bytes: [u8; 4],
    filled: usize,
    letters: usize,
    padding: usize,
}

impl Vector {
    /// Reads a letter; whether it may stand there.
    pub(super) fn read(&mut self, letter: u8) -> bool {
        if letter == b'=' {
            self.padding += 1;
            return self.padding <= 2;
        }
        let Some(value) = value(letter).filter(|_| self.padding == 0) else { return false };
        self.letters += 1;
        self.bits = (self.bits << 6 | value) & 0xFFFF;
        self.count += 6;
        if self.count < 8 {
            return true;
        }
        self.count -= 8;
        let [.., byte] = (self.bits >> self.count & 0xFF).to_be_bytes();
        if let Some(place) = self.bytes.get_mut(self.filled) {
            *place = byte;
        }
        self.filled += 1;
        if self.filled < self.bytes.len() {
            return true;
        }
        self.filled = 0;
        is_of_vector(f32::from_le_bytes(self.bytes))
    }

    /// Whether all of it is numbers.
    pub(super) fn is_whole(&self) -> bool {
        let rest = self.bits & ((1 << self.count) - 1);
        let is_padded = self.padding == 0 || (self.letters + self.padding).is_multiple_of(4);
        self.filled == 0 && rest == 0 && self.letters % 4 != 1 && is_padded
    }
}

fn is_of_vector(number: f32) -> bool {
    number == 0.0 || (SMALLEST..=LARGEST).contains(&number.abs())
}

fn value(letter: u8) -> Option<u32> {
    Some(u32::from(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}
