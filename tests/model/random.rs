//! Random choices that the same seed makes again.

/// A generator (`SplitMix64`).
pub(crate) struct Random(pub u64);

impl Random {
    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let place = self.below(choices.len() as u64);
        choices[usize::try_from(place).expect("it is below a length")]
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
