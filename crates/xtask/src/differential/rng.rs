//! Seeded random numbers: xoshiro256**, filled by splitmix64. The same seed gives the same queries on every machine.

/// Stream of random numbers that a seed determines.
pub struct Rng([u64; 4]);

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Rng {
    /// Returns the stream of the query with this index under this seed. Streams of different indexes are independent, so
    /// that one query can be replayed without those before it.
    pub fn new(seed: u64, index: u64) -> Rng {
        let mut state = seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Rng(std::array::from_fn(|_| splitmix(&mut state)))
    }

    fn next(&mut self) -> u64 {
        let Rng(s) = self;
        let found = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        found
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(0 < bound, "there is no number below 0");
        usize::try_from(self.next() % bound as u64).expect("it is below a usize")
    }

    /// Returns true in this many of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices, of which there is at least one.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Returns one of the words.
    pub fn word(&mut self, words: &'static [&'static str]) -> &'static str {
        words[self.below(words.len())]
    }
}
