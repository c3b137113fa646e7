//! Set of the ids that a block has among those that it covers, and their positions.
//!
//! **Invariant:** it never changes. Ids that a block leaves out take no place in its columns, so that a scan of a block
//! with holes copies nothing either.

/// A bit for each id, and the number of bits set before each word.
#[derive(Debug)]
pub(crate) struct Present {
    words: Box<[u64]>,
    ranks: Box<[u32]>,
}

impl Present {
    /// Creates the set from a sequence of flags.
    pub(crate) fn new(present: impl ExactSizeIterator<Item = bool>) -> Present {
        let mut words = vec![0; present.len().div_ceil(64)];
        for (at, present) in present.enumerate() {
            words[at / 64] |= u64::from(present) << (at % 64);
        }
        let ranks = words.iter().scan(0, |before, word: &u64| {
            let rank = *before;
            *before += word.count_ones();
            Some(rank)
        });
        Present { ranks: ranks.collect(), words: words.into() }
    }

    /// Returns the position of this id, if it has one.
    pub(crate) fn position(&self, at: usize) -> Option<usize> {
        let word = self.words.get(at / 64)?;
        let bit = 1 << (at % 64);
        (word & bit != 0).then(|| self.ranks[at / 64] as usize + (word & (bit - 1)).count_ones() as usize)
    }

    /// Returns the number of ids before this one that have a position.
    pub(crate) fn count_before(&self, at: usize) -> usize {
        match self.words.get(at / 64) {
            Some(word) => self.ranks[at / 64] as usize + (word & ((1 << (at % 64)) - 1)).count_ones() as usize,
            None => self
                .words
                .last()
                .map_or(0, |word| self.ranks[self.ranks.len() - 1] as usize + word.count_ones() as usize),
        }
    }

    /// Returns the greatest multiple of 64 ids, or the end, before which at most `count` have a position.
    pub(crate) fn end_of(&self, count: usize) -> usize {
        64 * self.ranks.partition_point(|rank| *rank as usize <= count).saturating_sub(1)
    }

    /// Returns the bytes that the set holds.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_as_one_by_one() {
        for step in [1, 2, 3, 7, 64, 65, 1000] {
            let flags: Vec<bool> = (0..1000).map(|at| at % step == 0 || (200..300).contains(&at)).collect();
            let present = Present::new(flags.iter().copied());
            let mut count = 0;
            for (at, flag) in flags.iter().enumerate() {
                assert_eq!(present.count_before(at), count);
                assert_eq!(present.position(at), flag.then_some(count));
                count += usize::from(*flag);
            }
            assert_eq!((present.count_before(1000), present.position(1000)), (count, None));
            assert_eq!(present.count_before(100_000), count);
            for wanted in 0..count {
                let end = present.end_of(wanted);
                assert!(present.count_before(end) <= wanted && end.is_multiple_of(64));
                assert!(wanted < present.count_before(end + 64));
            }
        }
    }
}
