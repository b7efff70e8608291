//! The slots of a Redis Cluster, which keeps each key on the server that owns the key's slot.

use std::sync::LazyLock;

/// A slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u16);

impl Slot {
    pub(super) const COUNT: u16 = 16_384;

    #[cfg(test)]
    pub(super) fn numbered(number: u16) -> Self {
        Self(number)
    }

    /// The slot of a key: of what stands in its first braces, if there is something; else of all.
    pub(super) fn of(key: &str) -> Self {
        Self(crc16(0, hash_tag(key).unwrap_or(key).as_bytes()) % Self::COUNT)
    }

    pub(super) fn number(self) -> u16 {
        self.0
    }

    /// A short text of this slot. In braces, it takes any key there.
    pub(super) fn tag(self) -> usize {
        static TAGS: LazyLock<Vec<usize>> = LazyLock::new(|| {
            let mut tags = vec![None; Slot::COUNT.into()];
            let mut missing = Slot::COUNT;
            // Of each number; all but its last digit is a number before it.
            let mut crcs = Vec::new();
            while missing > 0 {
                let number = crcs.len();
                let begun = if number < 10 { 0 } else { crcs[number / 10] };
                let crc = crc16(begun, &[b"0123456789"[number % 10]]);
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

/// What Redis Cluster looks at instead of the whole key.
pub(super) fn hash_tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// The CRC of the XMODEM protocol, as the specification of Redis Cluster has it, of what begins with
/// something whose CRC is `begun`.
fn crc16(begun: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(begun, |crc, byte| {
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

    /// The check value of the specification, and slots that a server gave.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(0, b"123456789"), 0x31C3);
        let slots = [("", 0), ("foo", 12_182), ("{foo}bar", 12_182), ("order:42", 8_691)];
        for (key, slot) in slots {
            assert_eq!(Slot::of(key), Slot(slot), "{key}");
        }
        assert_eq!(Slot::of("a{}b"), Slot(crc16(0, b"a{}b") % Slot::COUNT));
        assert_eq!(Slot::of("}{"), Slot(crc16(0, b"}{") % Slot::COUNT));
    }

    #[test]
    fn a_tag_of_each_slot_is_short_and_leads_there() {
        for number in 0..Slot::COUNT {
            let tag = format!("{{{}}}x", Slot(number).tag());
            assert!(tag.len() <= 9, "{tag}");
            assert_eq!(Slot::of(&tag), Slot(number));
        }
    }
}
