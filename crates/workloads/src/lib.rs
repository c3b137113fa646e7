//! Workloads as libraries: TPC-C, TPC-H, CH-benCHmark, the history checker, the replay of redo records, and the comparison
//! of layouts. They own no thread but those they are asked for.

pub mod ch;
pub mod history;
pub mod layout;
pub mod replay;
pub mod tpcc;
pub mod tpch;
