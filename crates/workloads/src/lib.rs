//! Workloads as libraries: TPC-C, TPC-H, CH-benCHmark, the history checker, the replay of redo records, and the
//! comparison of layouts. They start no threads except where a function is asked for them.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - workloads: `tpcc`, `tpch`, `key_value`
//! - on top of them: `ch`, `history`, `layout`
//! - redo records: `replay`

/// Expands to the texts of 22 files whose paths are `$before`, a number from 01 to 22, `$after`, relative to the
/// calling file.
macro_rules! texts_of_22 {
    ($before:literal, $after:literal) => {
        texts_of_22!(@ $before, $after: "01" "02" "03" "04" "05" "06" "07" "08" "09" "10" "11" "12" "13" "14" "15" "16" "17"
            "18" "19" "20" "21" "22")
    };
    (@ $before:literal, $after:literal: $($number:literal)*) => {
        [$(include_str!(concat!($before, $number, $after))),*]
    };
}

pub mod ch;
pub mod history;
pub mod key_value;
pub mod layout;
pub mod replay;
pub mod tpcc;
pub mod tpch;
