//! Fate of what was not synced before a crash.

/// Part of what was not synced that a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything, the operation at which the disk crashed included.
    Everything,
    /// Entries and lengths, but no bytes: files of zeros.
    Entries,
    /// Bytes and lengths, but no entries.
    Bytes,
    /// Everything, but only so many sectors of the write at which the disk crashed, from its begin.
    Torn {
        /// Number of sectors.
        sectors: usize,
    },
    /// Each sector, length and entry by chance, so that later ones may be there without earlier ones.
    Chance {
        /// Seed of the choice.
        seed: u64,
    },
}

/// Thing that survives a crash or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SurvivingItem {
    /// Change of a folder.
    Entry,
    /// Length of a file.
    Length,
    /// Sector of a write.
    Sector,
    /// Sector of this number of the write at which the disk crashed.
    SectorInFlight(usize),
}

/// Choice between what survives and what does not, one item after the other.
pub(super) struct Chooser {
    survival: Survival,
    state: u64,
}

impl Chooser {
    pub(super) fn new(survival: Survival) -> Chooser {
        let state = match survival {
            Survival::Chance { seed } => seed,
            Survival::Nothing | Survival::Everything | Survival::Entries | Survival::Bytes | Survival::Torn { .. } => 0,
        };
        Chooser { survival, state }
    }

    /// Returns true if the next item is there.
    pub(super) fn keeps(&mut self, item: SurvivingItem) -> bool {
        let is_entry = item == SurvivingItem::Entry;
        match self.survival {
            Survival::Nothing => false,
            Survival::Everything => true,
            Survival::Entries => is_entry || item == SurvivingItem::Length,
            Survival::Bytes => !is_entry,
            Survival::Torn { sectors } => match item {
                SurvivingItem::SectorInFlight(sector) => sector < sectors,
                SurvivingItem::Entry | SurvivingItem::Length | SurvivingItem::Sector => true,
            },
            Survival::Chance { .. } => self.next() & 1 == 0,
        }
    }

    /// Returns the next number of SplitMix64 (Steele et al., OOPSLA 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
