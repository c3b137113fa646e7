//! The module `account`.

use crate::host::Worker;
use procs::Channel;
use std::path::Path;

pub fn worker(channel: Channel) -> Worker {
    Worker::start(Path::new(env!("CARGO_BIN_EXE_account")), channel)
}

/// Number of an entry of the module `account`.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Entry {
    Transfer,
    Fee,
    FeeOfRows,
    EveryCall,
    Echo,
    Numbers,
    Panics,
    GoesOn,
    Unknown = 99,
}

impl From<Entry> for u32 {
    fn from(entry: Entry) -> u32 {
        entry as u32
    }
}
