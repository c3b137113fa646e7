//! Which numbers are free: taken lowest first, so that few are ever used and those stay warm in the cache.
//!
//! **Invariant:** a set bit is a free number. Whoever clears it owns the number until it sets it again. Nobody waits: a
//! caller that is paused between two steps has either taken a number or not.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) struct Bitmap {
    words: Box<[AtomicU64]>,
    /// One past the highest number ever taken.
    high_water: AtomicUsize,
}

impl Bitmap {
    pub(super) fn new(count: usize) -> Bitmap {
        let word = |index: usize| match count - index * 64 {
            64.. => AtomicU64::new(u64::MAX),
            rest => AtomicU64::new((1 << rest) - 1),
        };
        Bitmap { words: (0..count.div_ceil(64)).map(word).collect(), high_water: AtomicUsize::new(0) }
    }

    /// One past the highest number ever taken. Sequentially consistent: see `Registry::register`.
    #[inline]
    pub(super) fn high_water(&self) -> usize {
        self.high_water.load(Ordering::SeqCst)
    }

    /// Takes the lowest free number.
    #[inline]
    pub(super) fn acquire(&self) -> Option<usize> {
        for (index, word) in self.words.iter().enumerate() {
            let mut free = word.load(Ordering::Relaxed);
            while free != 0 {
                let rest = free & (free - 1);
                match word.compare_exchange_weak(free, rest, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Some(self.taken(index * 64 + free.trailing_zeros() as usize)),
                    Err(now) => free = now,
                }
            }
        }
        None
    }

    /// Takes this number, if it is free.
    pub(super) fn acquire_at(&self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        let taken = self.words[number / 64].fetch_and(!bit, Ordering::Acquire) & bit != 0;
        if taken {
            self.taken(number);
        }
        taken
    }

    #[inline]
    fn taken(&self, number: usize) -> usize {
        if self.high_water.load(Ordering::Relaxed) <= number {
            self.high_water.fetch_max(number + 1, Ordering::SeqCst);
        }
        number
    }

    /// Gives a number back.
    #[inline]
    pub(super) fn release(&self, number: usize) {
        self.words[number / 64].fetch_or(1 << (number % 64), Ordering::Release);
    }
}
