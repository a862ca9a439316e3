//! What models cost.
//!
//! Money is counted in whole millionths of the operator's currency, whichever that is. The operator sets the prices;
//! none are built in.

use std::fmt;

use backstop_hooks::conversation::TokenUsage;

use super::pattern::Pattern;

/// Millionths of the operator's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:06}");
        let digits = digits.trim_end_matches('0');
        write!(f, "{whole}.{digits:0<2}")
    }
}

/// What a million tokens of some models cost.
#[derive(Clone, Debug)]
pub struct ModelPrice {
    /// The models.
    pub model: Pattern,
    /// Tokens read.
    pub input: Micros,
    /// Tokens written.
    pub output: Micros,
    /// Tokens read from the provider's cache.
    pub cache_read: Micros,
    /// Tokens written to the provider's cache.
    pub cache_write: Micros,
}

/// The prices of all models; the first that matches counts.
#[derive(Clone, Debug, Default)]
pub struct Prices(Vec<ModelPrice>);

impl Prices {
    /// Creates a price list; prices are looked up in this order.
    pub fn new(prices: Vec<ModelPrice>) -> Self {
        Self(prices)
    }

    /// Returns what tokens of a model cost, rounded up; `None` if the model has no price.
    pub fn cost(&self, model: &str, usage: TokenUsage) -> Option<Micros> {
        let price = self.0.iter().find(|price| price.model.matches(model))?;
        let parts = [
            (usage.input, price.input),
            (usage.output, price.output),
            (usage.cache_read, price.cache_read),
            (usage.cache_write, price.cache_write),
        ];
        let sum: u128 =
            parts.iter().map(|(tokens, Micros(price))| u128::from(*tokens) * u128::from(*price)).sum();
        Some(Micros(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_sums_rounded_up() {
        let price = |model: &str, input| ModelPrice {
            model: Pattern::new(model).unwrap(),
            input: Micros(input),
            output: Micros(15_000_000),
            cache_read: Micros(300_000),
            cache_write: Micros(0),
        };
        let prices = Prices::new(vec![price("claude-*", 3_000_000), price("*", 1)]);
        let usage = TokenUsage { input: 1_000, output: 100, cache_read: 10, cache_write: 5 };
        assert_eq!(prices.cost("claude-x", usage), Some(Micros(3_000 + 1_500 + 3)));
        assert_eq!(prices.cost("other", TokenUsage { input: 1, ..TokenUsage::default() }), Some(Micros(1)));
        assert_eq!(Prices::default().cost("claude-x", usage), None);
        let most = TokenUsage { input: u64::MAX, output: u64::MAX, cache_read: 0, cache_write: 0 };
        assert_eq!(prices.cost("claude-x", most), Some(Micros(u64::MAX)));
    }

    #[test]
    fn money_reads_like_money() {
        let shown = |micros| Micros(micros).to_string();
        assert_eq!(
            [shown(0), shown(5_000_000), shown(5_500_000), shown(1), shown(12_345_678)],
            ["0", "5", "5.50", "0.000001", "12.345678"]
        );
    }
}
