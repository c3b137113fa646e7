//! DuckDB's answers over a small database, and their comparison with an answer of the engine under test.
//!
//! Invariant: as in TPC-H's comparison ([`crate::tpch::check_answer`]), every value of every row is compared, and the
//! order. The rows are those of [`known_database`]; `answers/regenerate_ch.py` makes the files under `answers/ch/`.

use super::QUERIES_COUNT;
use crate::tpch::answers::{OrderKey, compare};
use crate::tpch::{Mismatch, TextRow};
use OrderKey::{Down, Up};

/// Compares the answer of query `number` over [`super::known_database`] with DuckDB's, value by value.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If there is no such query.
pub fn check_answer(number: usize, answer: &[TextRow]) -> Result<(), Mismatch> {
    assert!((1..=QUERIES_COUNT).contains(&number), "CH-benCHmark has queries 1 to 22, not {number}");
    compare(EXPECTED[number - 1], ORDER[number - 1], answer).map_err(|what| Mismatch { query: number, what })
}

/// Sort keys of each query.
const ORDER: [&[OrderKey]; QUERIES_COUNT] = [
    &[Up(0)],
    &[Up(2), Up(1), Up(3)],
    &[Down(3), Up(4)],
    &[Up(0)],
    &[Down(1)],
    &[],
    &[Up(0), Up(1), Up(2)],
    &[Up(0)],
    &[Up(0), Down(1)],
    &[Down(2)],
    &[Down(1)],
    &[Up(0)],
    &[Down(1), Down(0)],
    &[],
    &[Up(0)],
    &[Down(3)],
    &[],
    &[Down(5), Up(3)],
    &[],
    &[Up(0)],
    &[Down(1), Up(0)],
    &[Up(0)],
];

const EXPECTED: [&str; QUERIES_COUNT] = texts_of_22!("../../answers/ch/q", ".txt");
