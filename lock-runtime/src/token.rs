//! The random value that tells holders apart.

use std::fmt;

use crate::store::StoreError;

/// Bits of randomness in a [`Token`].
const BITS: usize = 128;

/// What a lock's key holds while it is taken: 128 bits from the operating system, as hexadecimal
/// digits.
///
/// Every attempt to take a lock has its own, so nobody ever renews or releases a lock that is not
/// theirs. The bits come from the operating system each time because a generator inside the process
/// repeats itself in a forked child or a restored snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token([u8; BITS / 4]);

impl Token {
    /// A new token.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] when the operating system has no random bits to give.
    pub fn random() -> Result<Self, StoreError> {
        let mut bits = [0; BITS / 8];
        getrandom::fill(&mut bits).map_err(|error| StoreError::Refused(error.into()))?;
        Ok(Self::from_bits(bits))
    }

    pub(crate) fn from_bits(bits: [u8; BITS / 8]) -> Self {
        let digit = |bits: u8| b"0123456789abcdef"[usize::from(bits & 0xf)];
        let mut digits = [0; BITS / 4];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bits) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
        Self(digits)
    }

    /// A number that differs from token to token, for choices that need not be secret.
    pub(crate) fn seed(&self) -> u64 {
        self.0.iter().fold(0, |seed, &digit| seed.rotate_left(5) ^ u64::from(digit))
    }

    /// The token as it stands in the store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_its_bits_in_hexadecimal() {
        let token = Token::from_bits(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.to_be_bytes());
        assert_eq!(token.to_string(), "0123456789abcdeffedcba9876543210");
    }

    #[test]
    fn differs_each_time() {
        assert_ne!(Token::random().unwrap(), Token::random().unwrap());
    }
}
