//! Workloads as libraries: TPC-C, TPC-H, and the comparison of layouts. They own no thread but those they are asked for.

pub mod layout;
pub mod tpcc;
pub mod tpch;
