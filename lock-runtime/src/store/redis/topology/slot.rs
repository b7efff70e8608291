//! [`Slot`]: the slots of a Redis Cluster, which keeps each key on the node that owns the key's
//! slot.

use std::sync::LazyLock;

/// A slot of the key space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u16);

impl Slot {
    pub(crate) const COUNT: u16 = 16_384;

    #[cfg(test)]
    pub(crate) fn numbered(number: u16) -> Self {
        Self(number)
    }

    /// Returns the slot of a key: of its hash tag if it has one, or else of the whole key.
    pub(crate) fn of(key: &str) -> Self {
        Self(crc16(0, hash_tag(key).unwrap_or(key).as_bytes()) % Self::COUNT)
    }

    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// Returns a short number whose digits are in this slot: as a hash tag, it puts any key there.
    pub(crate) fn tag(self) -> usize {
        static TAGS: LazyLock<Vec<usize>> = LazyLock::new(|| {
            let mut tags = vec![None; Slot::COUNT.into()];
            let mut missing = Slot::COUNT;
            // One CRC for each number; the digits before its last one are an earlier number.
            let mut crcs = Vec::new();
            while missing > 0 {
                let number = crcs.len();
                let prefix = if number < 10 { 0 } else { crcs[number / 10] };
                let crc = crc16(prefix, &[b"0123456789"[number % 10]]);
                crcs.push(crc);
                let tag = &mut tags[usize::from(crc % Slot::COUNT)];
                if tag.is_none() {
                    *tag = Some(number);
                    missing -= 1;
                }
            }
            tags.into_iter().flatten().collect()
        });
        TAGS[usize::from(self.0)]
    }
}

/// The part of a key that Redis Cluster hashes instead of the whole key.
pub(crate) fn hash_tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// Extends the CRC of a prefix by some bytes. It is the CRC of XMODEM, as the Redis Cluster
/// specification demands.
fn crc16(prefix: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(prefix, |crc, byte| {
        let [high, low] = crc.to_be_bytes();
        u16::from(low) << 8 ^ CRCS[usize::from(high ^ byte)]
    })
}

/// The CRC of each single byte.
const CRCS: [u16; 256] = {
    let mut crcs = [0; 256];
    let mut byte = 0;
    loop {
        let mut crc = u16::from_be_bytes([byte, 0]);
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        crcs[byte as usize] = crc;
        if byte == u8::MAX {
            break crcs;
        }
        byte += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the check value of the specification, and with slots that a server reported.
    #[test]
    fn slots_equal_those_of_redis() {
        assert_eq!(crc16(0, b"123456789"), 0x31C3);
        let slots = [("", 0), ("foo", 12_182), ("{foo}bar", 12_182), ("order:42", 8_691)];
        for (key, slot) in slots {
            assert_eq!(Slot::of(key), Slot(slot), "{key}");
        }
        assert_eq!(Slot::of("a{}b"), Slot(crc16(0, b"a{}b") % Slot::COUNT));
        assert_eq!(Slot::of("}{"), Slot(crc16(0, b"}{") % Slot::COUNT));
    }

    #[test]
    fn every_slot_has_a_short_tag() {
        for number in 0..Slot::COUNT {
            let tag = format!("{{{}}}x", Slot(number).tag());
            assert!(tag.len() <= 9, "{tag}");
            assert_eq!(Slot::of(&tag), Slot(number));
        }
    }
}
