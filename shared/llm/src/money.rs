//! Amounts of money, exact.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Nano-dollars in a dollar.
const NANO: u64 = 1_000_000_000;

/// US dollars in billionths: whole numbers, since sums of floats differ by their order, and fine enough that the
/// smallest call has a price above nothing. The largest amount is about 18 billion dollars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money {
    nano_usd: u64,
}

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self { nano_usd: 0 };

    /// An amount in billionths of a dollar.
    pub const fn from_nano_usd(nano_usd: u64) -> Self {
        Self { nano_usd }
    }

    /// The amount in billionths of a dollar.
    pub const fn nano_usd(self) -> u64 {
        self.nano_usd
    }

    /// Both together; the largest amount where that is more.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { nano_usd: self.nano_usd.saturating_add(other.nano_usd) }
    }

    /// What is left of this after `other` is taken from it; nothing where that is more.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self { nano_usd: self.nano_usd.saturating_sub(other.nano_usd) }
    }
}

/// Dollars as a decimal number, without zeros at its end: `0.0125`.
impl fmt::Display for Money {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.nano_usd / NANO, self.nano_usd % NANO);
        if rest == 0 {
            return write!(formatter, "{whole}");
        }
        let digits = format!("{rest:09}");
        write!(formatter, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// A text that is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no amount of dollars: digits, and at most nine behind a point, are wanted")]
pub struct NoMoney {
    text: String,
}

impl FromStr for Money {
    type Err = NoMoney;

    fn from_str(text: &str) -> Result<Self, NoMoney> {
        let error = || NoMoney { text: text.to_owned() };
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(rest) || rest.len() > 9 {
            return Err(error());
        }
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let rest: u64 = format!("{rest:0<9}").parse().map_err(|_| error())?;
        let nano_usd = whole.checked_mul(NANO).and_then(|nano| nano.checked_add(rest)).ok_or_else(error)?;
        Ok(Self { nano_usd })
    }
}
