//! Amounts: numbers that can be added up without rounding.

use std::fmt;
use std::str::FromStr;

use backstop_hooks::Digest;
use serde::{Deserialize, Serialize};

/// Most digits in front of the point.
const MOST_DIGITS: usize = 18;
/// Most digits behind it.
const MOST_PLACES: usize = 9;
/// 10 to the power of [`MOST_PLACES`].
const ONE: u128 = 1_000_000_000;

/// An amount that is not negative: 18 digits and 9 places at most, kept exactly.
///
/// ```
/// use backstop_store::Amount;
/// let sum = "19.99".parse::<Amount>()?.plus("0.01".parse()?);
/// assert_eq!(sum.to_string(), "20");
/// assert!("1e3".parse::<Amount>().is_err() && "-1".parse::<Amount>().is_err());
/// # Ok::<(), backstop_store::NotAnAmount>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount(u128);

/// A text that is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an amount is a number that is not negative, with {MOST_DIGITS} digits and {MOST_PLACES} places at most, such as 19.99"
)]
pub struct NotAnAmount;

impl Amount {
    /// Returns the sum; stops at the end of the range, which no bound reaches.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl FromStr for Amount {
    type Err = NotAnAmount;

    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        let (digits, places) = match text.split_once('.') {
            Some((digits, places)) if !places.is_empty() => (digits, places),
            Some(_) => return Err(NotAnAmount),
            None => (text, ""),
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let fits = (1..=MOST_DIGITS).contains(&digits.len()) && places.len() <= MOST_PLACES;
        if !fits || !is_number(digits) || !is_number(places) {
            return Err(NotAnAmount);
        }
        let parsed = format!("{digits}{places:0<MOST_PLACES$}").parse();
        parsed.map(Self).map_err(|_| NotAnAmount)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / ONE, self.0 % ONE);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let part = format!("{part:0MOST_PLACES$}");
        write!(f, "{whole}.{}", part.trim_end_matches('0'))
    }
}

impl TryFrom<String> for Amount {
    type Error = NotAnAmount;

    fn try_from(text: String) -> Result<Self, NotAnAmount> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.to_string()
    }
}

/// An argument of a call that is an amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AmountArgument {
    /// Its name.
    pub argument: String,
    /// How much it is.
    pub amount: Amount,
    /// The digest of the call without it: of all that stays the same where only the amount is another.
    pub without: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_plain_numbers_are_amounts() {
        for text in ["0", "19.99", "0.000000001", "999999999999999999.999999999"] {
            assert_eq!(text.parse::<Amount>().unwrap().to_string(), text);
        }
        assert_eq!("007.50".parse::<Amount>().unwrap().to_string(), "7.5");
        for text in
            ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "1.0000000001", "1000000000000000000", "٣"]
        {
            assert_eq!(text.parse::<Amount>(), Err(NotAnAmount), "{text}");
        }
        assert_eq!(Amount(u128::MAX).plus(Amount(1)), Amount(u128::MAX));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_whole_numbers(a in 0..u64::MAX / 2, b in 0..u64::MAX / 2) {
            let of = |number: u64| Amount(number.into()).to_string().parse::<Amount>().unwrap();
            prop_assert_eq!(of(a).plus(of(b)), of(a + b));
            prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
        }
    }
}
