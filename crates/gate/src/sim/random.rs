//! Random numbers that a seed repeats: `xoshiro256++` (Blackman and Vigna 2019), seeded by splitmix64.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct SimRandom([u64; 4]);

impl SimRandom {
    /// Creates the stream of this seed.
    pub fn new(seed: u64) -> SimRandom {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        SimRandom([next(), next(), next(), next()])
    }

    fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a uniform number, from 0 to less than 1.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a uniform number below `most`.
    pub fn below(&mut self, most: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(most)) >> 64) as u32
    }

    /// Returns an exponential number of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Returns true with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}
