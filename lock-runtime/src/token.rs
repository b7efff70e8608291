//! [`Token`]: the random value that identifies a holder.

use std::fmt;
use std::sync::OnceLock;

use crate::store::error::StoreError;

/// Bytes of the process name in a [`Token`].
const PROCESS: usize = 6;
/// Bytes of randomness in a [`Token`].
const RANDOM: usize = 16;
const LEN: usize = 2 * PROCESS + 1 + 2 * RANDOM;

/// The content of a lock's key while it is held: `<process>-<random>`, 12 and 32 hexadecimal
/// digits.
///
/// The first part is the same for all tokens of a process and part of the name of its connections,
/// so that `CLIENT LIST` shows which process holds a lock. The second part is 128 bits from the
/// operating system.
///
/// Each attempt to take a lock has a token of its own, so a client never renews or releases the
/// lock of another holder. The bits come from the operating system each time, because a generator
/// inside the process would repeat itself in a forked child or a restored snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token([u8; LEN]);

impl Token {
    /// Makes a new token.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] when the operating system cannot provide random bits.
    pub fn random() -> Result<Self, StoreError> {
        let mut bits = [0; RANDOM];
        getrandom::fill(&mut bits).map_err(|error| StoreError::Refused(error.into()))?;
        Ok(Self::from_bits(process(), bits))
    }

    fn from_bits(process: [u8; PROCESS], bits: [u8; RANDOM]) -> Self {
        let mut text = [b'-'; LEN];
        let (head, tail) = text.split_at_mut(2 * PROCESS);
        write_hex(head, &process);
        write_hex(&mut tail[1..], &bits);
        Self(text)
    }

    /// Parses a token; `None` if the text is not one.
    #[cfg(feature = "redis")]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text: [u8; LEN] = text.as_bytes().try_into().ok()?;
        let is_token = |(place, byte): (usize, &u8)| match place {
            place if place == 2 * PROCESS => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        text.iter().enumerate().all(is_token).then_some(Self(text))
    }

    /// A number that differs from token to token, as a seed for jitter.
    pub(crate) fn seed(&self) -> u64 {
        self.0.iter().fold(0, |seed, &digit| seed.rotate_left(5) ^ u64::from(digit))
    }

    /// The token as the store keeps it.
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

/// The name of this process's connections: `lock-runtime:<process>`.
#[cfg(feature = "redis")]
pub(crate) fn process_name() -> String {
    let mut digits = [0; 2 * PROCESS];
    write_hex(&mut digits, &process());
    format!("lock-runtime:{}", String::from_utf8_lossy(&digits))
}

/// The random name of this process; a process id would be the same in many containers. It is
/// neither secret nor unique, so zeros suffice without randomness: each token has its own bits.
fn process() -> [u8; PROCESS] {
    static PROCESS_ID: OnceLock<[u8; PROCESS]> = OnceLock::new();
    *PROCESS_ID.get_or_init(|| {
        let mut bits = [0; PROCESS];
        let _ = getrandom::fill(&mut bits);
        bits
    })
}

fn write_hex(digits: &mut [u8], bytes: &[u8]) {
    let digit = |bits: u8| b"0123456789abcdef"[usize::from(bits & 0xf)];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;

    #[test]
    fn writes_and_reads_hexadecimal() {
        let bits = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.to_be_bytes();
        let token = Token::from_bits([0xff, 0, 1, 2, 3, 4], bits);
        assert_eq!(token.to_string(), "ff0001020304-0123456789abcdeffedcba9876543210");
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        for other in ["", "0123456789abcdeffedcba9876543210", &token.to_string()[1..]] {
            assert_eq!(Token::parse(other), None, "{other}");
        }
    }

    #[test]
    fn begins_with_the_name_of_the_process() {
        let token = Token::random().unwrap().to_string();
        let (process, _) = token.split_once('-').unwrap();
        assert_eq!(process_name(), format!("lock-runtime:{process}"));
    }

    #[test]
    fn differs_each_time() {
        assert_ne!(Token::random().unwrap(), Token::random().unwrap());
    }
}
