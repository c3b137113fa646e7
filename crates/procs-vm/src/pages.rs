//! Page tables of a machine, and the pages that its code has.
//!
//! **Invariant:** an entry maps a page to itself. Code can use only pages of its own memory, the gate, and the channel:
//! no entry ever maps a page table.

use crate::layout::{CHANNEL_BYTES, FIRST, Layout, PAGE};

/// Present.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
/// Of ring 3.
const USER: u64 = 1 << 2;
/// Accessed and dirty, so that the processor need not say so.
const TOUCHED: u64 = 1 << 5 | 1 << 6;
/// Taken by code, present or not. The processor ignores this bit.
const TAKEN: u64 = 1 << 9;
const NOT_EXECUTABLE: u64 = 1 << 63;

/// Rights to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Code may read it.
    pub read: bool,
    /// Code may write it.
    pub write: bool,
    /// Code may execute it.
    pub execute: bool,
}

impl Rights {
    /// To read and to write.
    pub const DATA: Rights = Rights { read: true, write: true, execute: false };

    /// Returns the rights of `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`.
    pub fn of_protection(bits: u64) -> Rights {
        Rights { read: bits & 1 != 0, write: bits & 2 != 0, execute: bits & 4 != 0 }
    }

    /// Returns the rights of either.
    pub fn and(self, other: Rights) -> Rights {
        Rights {
            read: self.read || other.read,
            write: self.write || other.write,
            execute: self.execute || other.execute,
        }
    }

    fn bits(self) -> u64 {
        let is_present = self.read || self.write || self.execute;
        let flag = |is_set, bit| if is_set { bit } else { 0 };
        TAKEN
            | flag(is_present, PRESENT | USER | TOUCHED)
            | flag(self.write, WRITABLE)
            | flag(is_present && !self.execute, NOT_EXECUTABLE)
    }
}

/// Entries of the first level, by the number of their page.
#[derive(Debug)]
pub struct Pages<'m> {
    entries: &'m mut [u64],
    /// Number of pages of the code's memory.
    count: u64,
}

/// Range of pages: the number of the first, and their number.
pub type PageRange = (u64, u64);

/// Returns the pages that hold so many bytes from an address on; `None` beyond all addresses.
pub fn pages_of(address: u64, len: u64) -> Option<PageRange> {
    let end = address.checked_add(len)?.checked_next_multiple_of(PAGE)?;
    let first = address / PAGE;
    Some((first, (end / PAGE).checked_sub(first)?))
}

impl<'m> Pages<'m> {
    /// Writes the page tables into empty memory. `tables` is what lies between the root and the gate.
    pub fn new(layout: &Layout, tables: &'m mut [u64]) -> Option<Pages<'m>> {
        let upper = usize::try_from((layout.entries - layout.tables) / 8).ok()?;
        let (upper, entries) = tables.split_at_mut_checked(upper)?;
        let link = PRESENT | WRITABLE | USER | TOUCHED;
        let (root, upper) = upper.split_first_chunk_mut::<512>()?;
        let (third, second) = upper.split_first_chunk_mut::<512>()?;
        root[0] = (layout.tables + PAGE) | link;
        let tables_of_second = second.len() / 512;
        for (at, entry) in third.iter_mut().take(tables_of_second).enumerate() {
            *entry = (layout.tables + (2 + at as u64) * PAGE) | link;
        }
        for (at, entry) in second.iter_mut().take(entries.len() / 512).enumerate() {
            *entry = (layout.entries + at as u64 * PAGE) | link;
        }
        let mut pages = Pages { entries, count: layout.memory / PAGE };
        pages.set((layout.gate / PAGE, 1), Rights { read: true, write: false, execute: true })?;
        // Only the processor itself uses the state segment.
        *pages.entries.get_mut((layout.state / PAGE) as usize)? = layout.state | PRESENT | TOUCHED | NOT_EXECUTABLE;
        pages.set((0, FIRST / PAGE), Rights::default())?;
        Some(pages)
    }

    /// Returns the pages whose tables were written before. `entries` are those of the first level.
    pub fn of(layout: &Layout, entries: &'m mut [u64]) -> Pages<'m> {
        Pages { entries, count: layout.memory / PAGE }
    }

    /// Lets the code use the channel.
    pub fn map_channel(&mut self, layout: &Layout) -> Option<()> {
        self.set((layout.channel / PAGE, CHANNEL_BYTES.div_ceil(PAGE)), Rights::DATA)
    }

    fn set(&mut self, (first, count): PageRange, rights: Rights) -> Option<()> {
        let end = first.checked_add(count)?;
        let entries = self.entries.get_mut(first as usize..end as usize)?;
        for (page, entry) in (first..end).zip(entries) {
            *entry = (page * PAGE) | rights.bits();
        }
        Some(())
    }

    /// Returns the entries of pages of the code's memory.
    fn own(&mut self, (first, count): PageRange) -> Option<&mut [u64]> {
        let end = first.checked_add(count).filter(|end| *end <= self.count && FIRST / PAGE <= first)?;
        self.entries.get_mut(first as usize..end as usize)
    }

    /// Takes these pages; `None` if they are not all free.
    pub fn take(&mut self, range: PageRange, rights: Rights) -> Option<()> {
        let are_free = self.own(range)?.iter().all(|entry| *entry == 0);
        if are_free { self.set(range, rights) } else { None }
    }

    /// Takes so many contiguous pages, as high as possible. Returns the number of the first.
    pub fn take_any(&mut self, count: u64, rights: Rights) -> Option<u64> {
        let mut free = 0;
        for page in (0..self.count).rev() {
            free = if self.entries.get(page as usize) == Some(&0) { free + 1 } else { 0 };
            if free == count {
                self.set((page, count), rights)?;
                return Some(page);
            }
        }
        None
    }

    /// Adds rights to pages that are taken. Takes those that are free.
    pub fn extend(&mut self, (first, count): PageRange, rights: Rights) -> Option<()> {
        for page in first..first.checked_add(count)? {
            let has = Pages::rights(*self.own((page, 1))?.first()?);
            self.set((page, 1), has.and(rights))?;
        }
        Some(())
    }

    fn rights(entry: u64) -> Rights {
        let read = entry & PRESENT != 0;
        Rights { read, write: entry & WRITABLE != 0, execute: read && entry & NOT_EXECUTABLE == 0 }
    }

    /// Changes the rights to pages; `None` if they are not all taken. Returns true if the processor may know other rights
    /// to one of them: it keeps what it has read in an entry that was present. The caller makes it forget the pages then.
    pub fn protect(&mut self, range: PageRange, rights: Rights) -> Option<bool> {
        let entries = self.own(range)?;
        let are_taken = entries.iter().all(|entry| entry & TAKEN != 0);
        let now = Pages::rights(rights.bits());
        let are_known = entries.iter().any(|entry| entry & PRESENT != 0 && Pages::rights(*entry) != now);
        if are_taken { self.set(range, rights).map(|()| are_known) } else { None }
    }

    /// Frees pages. The caller empties them, which also makes the processor forget them.
    pub fn free(&mut self, range: PageRange) -> Option<()> {
        self.own(range)?.fill(0);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_taken_from_the_top_and_come_back() {
        let layout = Layout::of(8 << 20);
        let mut tables = vec![0; ((layout.gate - layout.tables) / 8) as usize];
        let mut pages = Pages::new(&layout, &mut tables).expect("tables");
        let count = layout.memory / PAGE;
        assert_eq!(pages.take_any(3, Rights::DATA), Some(count - 3));
        assert_eq!(pages.take((count - 4, 2), Rights::DATA), None);
        assert_eq!(pages.take((count - 4, 1), Rights::DATA), Some(()));
        assert_eq!(pages.free((count - 3, 3)), Some(()));
        assert_eq!(pages.take_any(2, Rights::default()), Some(count - 2));
        // All but the pages around the null pointer, one page, and two.
        assert_eq!(pages.take_any(count - 16 - 4, Rights::DATA), Some(16));
        assert_eq!(pages.take_any(2, Rights::DATA), None);
        assert_eq!(pages.take_any(1, Rights::DATA), Some(count - 3));
    }

    #[test]
    fn the_processor_may_know_what_was_present() {
        let layout = Layout::of(0);
        let mut tables = vec![0; ((layout.gate - layout.tables) / 8) as usize];
        let mut pages = Pages::new(&layout, &mut tables).expect("tables");
        let of = Rights::of_protection;
        assert_eq!(pages.take((20, 2), of(0)), Some(()));
        // Rights before, rights now: the processor keeps nothing of an entry that was not present.
        for (before, now, are_known) in [
            (0, 0, false),
            (0, 3, false),
            (3, 3, false),
            (3, 1, true),
            (1, 3, true),
            (3, 7, true),
            (7, 5, true),
            (5, 0, true),
            (0, 2, false),
            (2, 3, false),
            (3, 2, false),
            (2, 0, true),
            (0, 0, false),
        ] {
            assert_eq!(pages.protect((20, 2), of(before)).map(drop), Some(()));
            assert_eq!(pages.protect((20, 2), of(now)), Some(are_known), "{before} {now}");
        }
        // One of them is enough.
        assert_eq!(pages.protect((21, 1), of(3)), Some(false));
        assert_eq!(pages.protect((20, 2), of(1)), Some(true));
        assert_eq!(pages.protect((20, 3), of(1)), None);
    }

    #[test]
    fn no_entry_maps_a_table() {
        let layout = Layout::of(64 << 20);
        let mut tables = vec![0; ((layout.gate - layout.tables) / 8) as usize];
        let mut pages = Pages::new(&layout, &mut tables).expect("tables");
        pages.map_channel(&layout).expect("entries");
        let beyond = layout.memory / PAGE;
        for range in
            [(0, 1), (15, 2), (beyond, 1), (beyond - 1, 2), (u64::MAX, 1), (0, u64::MAX), (layout.gate / PAGE, 1)]
        {
            assert_eq!(pages.protect(range, Rights::DATA), None);
            assert_eq!(pages.take(range, Rights::DATA), None);
            assert_eq!(pages.free(range), None);
        }
        for page in layout.tables / PAGE..layout.gate / PAGE {
            assert_eq!(pages.entries[page as usize], 0);
        }
        let gate = pages.entries[(layout.gate / PAGE) as usize];
        assert_eq!((gate & WRITABLE, gate & NOT_EXECUTABLE), (0, 0));
        assert_eq!(pages.entries[(layout.state / PAGE) as usize] & (USER | WRITABLE), 0);
    }

    #[test]
    fn segments_may_meet_in_a_page() {
        let layout = Layout::of(8 << 20);
        let mut tables = vec![0; ((layout.gate - layout.tables) / 8) as usize];
        Pages::new(&layout, &mut tables).expect("tables");
        let upper = ((layout.entries - layout.tables) / 8) as usize;
        let mut pages = Pages::of(&layout, &mut tables[upper..]);
        let code = Rights::of_protection(5);
        let (first, second) = (pages_of(0x40_0000, 0x1800), pages_of(0x40_1800, 0x100));
        assert_eq!((first, second), (Some((0x400, 2)), Some((0x401, 1))));
        assert_eq!(pages.extend((0x400, 2), code), Some(()));
        assert_eq!(pages.extend((0x401, 1), Rights::DATA), Some(()));
        assert_eq!(Pages::rights(pages.entries[0x400]), code);
        assert_eq!(Pages::rights(pages.entries[0x401]), code.and(Rights::DATA));
        assert_eq!(pages.extend((0, 1), code), None);
        assert_eq!((pages_of(u64::MAX, 2), pages_of(u64::MAX - 1, 1)), (None, None));
        assert_eq!(pages_of(1, 0), Some((0, 1)));
    }
}
