//! Set of free numbers. A thread takes the number that it gave back last, so that the memory that belongs to the number
//! stays warm in its cache, and no two threads meet on one line of memory; else the lowest, so that few are ever used.
//!
//! **Invariant:** a set bit is a free number. The thread that clears it owns the number until it sets it again. No
//! thread waits: a caller that is paused between two steps has either taken a number or not.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Words, each on a line of its own. Number `n` is bit `n / WORDS` of word `n % WORDS`: neighbours share no line.
const WORDS: usize = 64;
const NO_HINT: usize = usize::MAX;

thread_local! {
    /// Number that this thread tries first. An urgent context may change it between any two instructions of the one
    /// that it interrupted, which costs a miss and nothing else.
    static HINT: Cell<usize> = const { Cell::new(NO_HINT) };
}

/// Number of threads so far. Each begins two numbers after the one before: a nested context finds the neighbour free.
static THREADS: AtomicUsize = AtomicUsize::new(0);

#[repr(align(64))]
struct Word(AtomicU64);

pub(super) struct Bitmap {
    words: Box<[Word]>,
    /// One past the highest number ever taken.
    high_water: AtomicUsize,
}

impl Bitmap {
    /// Creates the set of the numbers from 0 to `count`, all free.
    pub(super) fn new(count: usize) -> Bitmap {
        assert!(count <= WORDS * u64::BITS as usize);
        let word = |index: usize| {
            let numbers = count.saturating_sub(index).div_ceil(WORDS);
            Word(AtomicU64::new(if numbers == 64 { u64::MAX } else { (1 << numbers) - 1 }))
        };
        Bitmap { words: (0..WORDS).map(word).collect(), high_water: AtomicUsize::new(0) }
    }

    /// Returns one past the highest number ever taken. Sequentially consistent: see `Registry::register`.
    #[inline]
    pub(super) fn high_water(&self) -> usize {
        self.high_water.load(Ordering::SeqCst)
    }

    /// Takes a free number.
    #[inline]
    pub(super) fn acquire(&self) -> Option<usize> {
        HINT.with(|hint| {
            let first = hint.get();
            if first != NO_HINT && self.acquire_at(first) {
                return Some(first);
            }
            self.acquire_other(hint)
        })
    }

    #[cold]
    fn acquire_other(&self, hint: &Cell<usize>) -> Option<usize> {
        if hint.get() == NO_HINT {
            hint.set(2 * THREADS.fetch_add(1, Ordering::Relaxed) % WORDS);
            if self.acquire_at(hint.get()) {
                return Some(hint.get());
            }
        }
        // The hint stays: it is the neighbour, or the lowest, only for as long as its own number is in use.
        let neighbour = (hint.get() + 1) % WORDS;
        if self.acquire_at(neighbour) { Some(neighbour) } else { self.acquire_lowest() }
    }

    fn acquire_lowest(&self) -> Option<usize> {
        loop {
            let lowest = |index: usize| {
                let free = self.words[index].0.load(Ordering::Relaxed);
                (free != 0).then(|| free.trailing_zeros() as usize * WORDS + index)
            };
            let number = (0..WORDS).filter_map(lowest).min()?;
            if self.acquire_at(number) {
                return Some(number);
            }
        }
    }

    /// Takes this number, if it is free.
    #[inline]
    pub(super) fn acquire_at(&self, number: usize) -> bool {
        let word = &self.words[number % WORDS].0;
        let bit = 1 << (number / WORDS);
        // Looked at first: a number that is in use costs no write.
        let taken = word.load(Ordering::Relaxed) & bit != 0 && word.fetch_and(!bit, Ordering::Acquire) & bit != 0;
        if taken {
            self.raise_high_water(number);
        }
        taken
    }

    #[inline]
    fn raise_high_water(&self, number: usize) {
        if self.high_water.load(Ordering::Relaxed) <= number {
            self.high_water.fetch_max(number + 1, Ordering::SeqCst);
        }
    }

    /// Gives a number back.
    #[inline]
    pub(super) fn release(&self, number: usize) {
        self.words[number % WORDS].0.fetch_or(1 << (number / WORDS), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_taken_once() {
        for count in [1, 2, 8, 63, 64, 65, 1_024, 4_096] {
            let bitmap = Bitmap::new(count);
            let mut taken: Vec<usize> = core::iter::from_fn(|| bitmap.acquire()).collect();
            taken.sort_unstable();
            assert_eq!(taken, (0..count).collect::<Vec<_>>());
            assert_eq!(bitmap.high_water(), count);
            bitmap.release(count - 1);
            assert!((0..count - 1).all(|number| !bitmap.acquire_at(number)));
            assert_eq!(bitmap.acquire(), Some(count - 1));
        }
    }

    #[test]
    fn a_thread_takes_its_own_again() {
        let bitmap = Bitmap::new(64);
        let first = bitmap.acquire().expect("all are free");
        let nested = bitmap.acquire().expect("one is taken");
        assert_ne!(first, nested);
        bitmap.release(nested);
        bitmap.release(first);
        assert_eq!(bitmap.acquire(), Some(first));
        assert!(bitmap.high_water() <= first.max(nested) + 1);
    }
}
