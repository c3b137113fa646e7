//! A row of stock as the stores get it, and as they give it back.

use crate::tpcc::Random;

/// Integer columns: item, warehouse, quantity, year to date, order count, remote count.
pub(super) const INTEGERS: usize = 6;
/// Where the quantity stands among the integers.
pub(super) const QUANTITY: usize = 2;
/// Where the year to date stands among the integers.
pub(super) const YTD: usize = 3;
/// Where the order count stands among the integers.
pub(super) const ORDER_COUNT: usize = 4;
/// Text columns: ten districts and the data.
pub(super) const TEXTS: usize = 11;

/// A row of stock.
#[derive(Debug, Clone)]
pub(super) struct Stock {
    pub(super) integers: [i64; INTEGERS],
    pub(super) texts: [String; TEXTS],
}

/// A copy of a row: its integers, and its texts one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) integers: [i64; INTEGERS],
    pub(super) text: Vec<u8>,
}

/// Rows with the lengths of clause 4.3.3.1, always the same.
pub(super) fn samples(count: usize) -> Vec<Stock> {
    let mut random = Random::new(17);
    let sample = |item: usize| {
        let mut texts: [String; TEXTS] = std::array::from_fn(|_| random.a_string(24, 24));
        texts[TEXTS - 1] = random.data();
        Stock { integers: [item as i64 + 1, 1, i64::from(random.uniform(10, 100)), 0, 0, 0], texts }
    };
    (0..count).map(sample).collect()
}
