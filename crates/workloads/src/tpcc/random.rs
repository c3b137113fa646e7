//! Random numbers and texts (clauses 2.1.5, 2.1.6, 4.3.2).

/// Random number generator: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number uniform in `low..=high` (Lemire's multiplication; the bias is below 2^-32).
    #[inline]
    pub fn uniform(&mut self, low: i32, high: i32) -> i32 {
        debug_assert!(low <= high);
        let span = (i64::from(high) - i64::from(low) + 1) as u64;
        (i64::from(low) + ((u128::from(self.word()) * u128::from(span)) >> 64) as i64) as i32
    }

    /// Returns true in `percent` of a hundred cases.
    #[inline]
    pub fn percent(&mut self, percent: i32) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// Returns the skewed number NURand(a, low, high) with constant `c` (clause 2.1.6).
    #[inline]
    pub fn nurand(&mut self, a: i32, c: i32, low: i32, high: i32) -> i32 {
        let mixed = self.uniform(0, a) | self.uniform(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// Appends `low` to `high` letters and digits.
    pub fn letters(&mut self, text: &mut String, low: i32, high: i32) {
        for _ in 0..self.uniform(low, high) {
            text.push(LETTERS[self.uniform(0, LETTERS.len() as i32 - 1) as usize] as char);
        }
    }

    /// Returns `low` to `high` letters and digits.
    pub fn a_string(&mut self, low: i32, high: i32) -> String {
        let mut text = String::with_capacity(high as usize);
        self.letters(&mut text, low, high);
        text
    }

    /// Returns `count` digits.
    pub fn n_string(&mut self, count: i32) -> String {
        (0..count).map(|_| (b'0' + self.uniform(0, 9) as u8) as char).collect()
    }

    /// Returns four digits and `11111` (clause 4.3.2.7).
    pub fn zip(&mut self) -> String {
        self.n_string(4) + "11111"
    }

    /// Returns 26 to 50 letters; in a tenth of the cases with `ORIGINAL` inside (clause 4.3.3.1).
    pub fn data(&mut self) -> String {
        let mut text = self.a_string(26, 50);
        if self.percent(10) {
            let at = self.uniform(0, text.len() as i32 - 8) as usize;
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    /// Returns the numbers `1..=count` in a random order.
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut numbers: Vec<i32> = (1..=count).collect();
        self.shuffle(&mut numbers);
        numbers
    }

    /// Brings the elements into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for at in (1..things.len()).rev() {
            things.swap(at, self.uniform(0, at as i32) as usize);
        }
    }
}

/// Returns a last name from a number below 1,000 (clause 4.3.2.3). At most 15 bytes.
pub(crate) fn last_name(number: i32) -> LastName {
    let mut name = LastName::default();
    for digit in [number / 100, number / 10 % 10, number % 10] {
        name.push(SYLLABLES[digit as usize]);
    }
    name
}

/// Last name without a heap block, because inputs are made by the million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastName {
    bytes: [u8; 15],
    count: u8,
}

impl LastName {
    fn push(&mut self, syllable: &str) {
        let from = usize::from(self.count);
        self.bytes[from..from + syllable.len()].copy_from_slice(syllable.as_bytes());
        self.count += syllable.len() as u8;
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.count)]).expect("syllables are ASCII")
    }
}

/// Constants of NURand, which differ between load and run (clause 2.1.6.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    pub(crate) last_name: i32,
    pub(crate) customer: i32,
    pub(crate) item: i32,
}

/// `A` of NURand for last names.
pub(crate) const LAST_NAME_SKEW: i32 = 255;
/// Constant of last names at load; the run's is [65, 119] away from it, and neither 96 nor 112.
pub(crate) const LOAD_LAST_NAME: i32 = 123;

impl Constants {
    /// Draws the constants of a run.
    pub(crate) fn of_run(random: &mut Random, customer_skew: i32, item_skew: i32) -> Constants {
        let distance = loop {
            match random.uniform(65, 119) {
                96 | 112 => continue,
                distance => break distance,
            }
        };
        Constants {
            last_name: LOAD_LAST_NAME + distance,
            customer: random.uniform(0, customer_skew),
            item: random.uniform(0, item_skew),
        }
    }
}
