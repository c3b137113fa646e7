//! Modes of locks, and their conflicts: PostgreSQL's two tables ("Explicit Locking", 13.3.1 and 13.3.2).

/// Mode of a row lock. Each mode excludes the modes that its documentation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowLock {
    /// FOR KEY SHARE: the row stays, and so do its keys. Excludes `Update`.
    KeyShare,
    /// FOR SHARE: the row stays as it is. Excludes `NoKeyUpdate` and `Update`.
    Share,
    /// FOR NO KEY UPDATE, and any update that leaves the keys alone. Excludes all but `KeyShare`.
    NoKeyUpdate,
    /// FOR UPDATE, a delete, an update of a key. Excludes all.
    Update,
}

impl RowLock {
    /// Every mode, the weakest first.
    pub const ALL: [RowLock; 4] = [RowLock::KeyShare, RowLock::Share, RowLock::NoKeyUpdate, RowLock::Update];

    /// Returns the name of the mode in SQL.
    pub fn name(self) -> &'static str {
        ["for key share", "for share", "for no key update", "for update"][self as usize]
    }
}

/// Mode of a table lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableLock {
    /// ACCESS SHARE. Reads need no lock here, and take none: this is for a caller that wants to keep the table.
    /// Statements take it by [`crate::Txn::share_table`], which costs less.
    AccessShare,
    /// ROW SHARE: for statements that lock rows.
    RowShare,
    /// ROW EXCLUSIVE: for statements that write rows.
    RowExclusive,
    /// SHARE UPDATE EXCLUSIVE.
    ShareUpdateExclusive,
    /// SHARE: excludes writers.
    Share,
    /// SHARE ROW EXCLUSIVE.
    ShareRowExclusive,
    /// EXCLUSIVE: only plain reads go on.
    Exclusive,
    /// ACCESS EXCLUSIVE. Excludes every mode, also readers that have announced themselves
    /// ([`crate::Txn::share_table`]). Reads that have not go on all the same: they see their snapshot.
    AccessExclusive,
}

impl TableLock {
    /// Every mode, the weakest first.
    pub const ALL: [TableLock; 8] = [
        TableLock::AccessShare,
        TableLock::RowShare,
        TableLock::RowExclusive,
        TableLock::ShareUpdateExclusive,
        TableLock::Share,
        TableLock::ShareRowExclusive,
        TableLock::Exclusive,
        TableLock::AccessExclusive,
    ];

    /// Returns the name of the mode in SQL.
    pub fn name(self) -> &'static str {
        [
            "access share",
            "row share",
            "row exclusive",
            "share update exclusive",
            "share",
            "share row exclusive",
            "exclusive",
            "access exclusive",
        ][self as usize]
    }
}

/// Reaction to a lock that another transaction has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Wait for it: the session is parked. Without a session: [`crate::Error::WriteConflict`].
    Block,
    /// NOWAIT: [`crate::Error::LockNotAvailable`].
    NoWait,
    /// SKIP LOCKED: the row is treated as if it did not exist. For a table equal to `NoWait`.
    SkipLocked,
}

/// A mode of a lock on anything: 0 to 3 rows, 4 to 11 tables, 12 a transaction until its end, 13 the wait for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mode(u8);

const TABLES: u8 = 4;
const LIFE: u8 = 12;
const END: u8 = 13;

/// Modes, by bits, that each mode excludes.
const EXCLUDES: [u16; 14] = [
    0b1000,
    0b1100,
    0b1110,
    0b1111,
    0b1000_0000 << TABLES,
    0b1100_0000 << TABLES,
    0b1111_0000 << TABLES,
    0b1111_1000 << TABLES,
    0b1110_1100 << TABLES,
    0b1111_1100 << TABLES,
    0b1111_1110 << TABLES,
    0b1111_1111 << TABLES,
    1 << END,
    1 << LIFE,
];

impl Mode {
    /// Number of modes.
    pub(crate) const COUNT: usize = EXCLUDES.len();
    pub(crate) const NO_KEY_UPDATE: Mode = Mode::row(RowLock::NoKeyUpdate);
    pub(crate) const UPDATE: Mode = Mode::row(RowLock::Update);
    pub(crate) const ACCESS_SHARE: Mode = Mode::table(TableLock::AccessShare);
    pub(crate) const ROW_SHARE: Mode = Mode::table(TableLock::RowShare);
    pub(crate) const ROW_EXCLUSIVE: Mode = Mode::table(TableLock::RowExclusive);
    /// Mode of an advisory lock that others may have, too, and mode of one that excludes all others.
    pub(crate) const SHARED: Mode = Mode::table(TableLock::Share);
    pub(crate) const EXCLUSIVE: Mode = Mode::table(TableLock::Exclusive);
    /// Mode of a transaction, until its end.
    pub(crate) const LIFE: Mode = Mode(LIFE);
    /// Mode of a waiter for that. Any number may wait.
    pub(crate) const END: Mode = Mode(END);

    pub(crate) const fn row(lock: RowLock) -> Mode {
        Mode(lock as u8)
    }

    pub(crate) const fn table(lock: TableLock) -> Mode {
        Mode(TABLES + lock as u8)
    }

    /// Returns the mode of a transaction that changes a row.
    pub(crate) const fn of_write(strong: bool) -> Mode {
        if strong { Mode::UPDATE } else { Mode::NO_KEY_UPDATE }
    }

    pub(crate) const fn excludes(self, other: Mode) -> bool {
        other.is_in(EXCLUDES[self.0 as usize])
    }

    pub(crate) const fn number(self) -> usize {
        self.0 as usize
    }

    /// Returns the modes that exclude this mode and that it excludes, by bits: the tables are symmetric.
    pub(crate) const fn excluded(self) -> u16 {
        EXCLUDES[self.0 as usize]
    }

    /// Returns true if this mode is one of these.
    pub(crate) const fn is_in(self, modes: u16) -> bool {
        modes & (1 << self.0) != 0
    }

    /// Returns true if a holder of this mode has no need of `other`: it excludes at least as much.
    pub(crate) const fn covers(self, other: Mode) -> bool {
        EXCLUDES[other.0 as usize] & !EXCLUDES[self.0 as usize] == 0
    }

    /// Returns the name of the mode in views.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            LIFE | END => "transaction",
            row if row < TABLES => RowLock::ALL[row as usize].name(),
            table => TableLock::ALL[(table - TABLES) as usize].name(),
        }
    }
}
