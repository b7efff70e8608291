//! Random choices that the same seed repeats.

pub(crate) struct Random(fastrand::Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        *self.0.choice(choices).expect("there are choices")
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}
