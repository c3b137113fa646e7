//! A row of stock as the stores receive it and return it.

use crate::tpcc::Random;

/// Number of integer columns: item, warehouse, quantity, year to date, order count, remote count.
pub(super) const INTEGERS: usize = 6;
/// Position of the quantity among the integers.
pub(super) const QUANTITY: usize = 2;
/// Position of the year to date among the integers.
pub(super) const YTD: usize = 3;
/// Position of the order count among the integers.
pub(super) const ORDER_COUNT: usize = 4;
/// Number of text columns: ten districts and the data.
pub(super) const TEXTS: usize = 11;

/// Row of stock.
#[derive(Debug, Clone)]
pub(super) struct Stock {
    pub(super) integers: [i64; INTEGERS],
    pub(super) texts: [String; TEXTS],
}

/// Copy of a row: its integers, and its texts one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) integers: [i64; INTEGERS],
    pub(super) text: Vec<u8>,
}

/// Returns rows with the lengths of clause 4.3.3.1, the same ones at each call.
pub(super) fn samples(count: usize) -> Vec<Stock> {
    let mut random = Random::new(17);
    let sample = |item: usize| {
        let mut texts: [String; TEXTS] = std::array::from_fn(|_| random.a_string(24, 24));
        texts[TEXTS - 1] = random.data();
        Stock { integers: [item as i64 + 1, 1, i64::from(random.uniform(10, 100)), 0, 0, 0], texts }
    };
    (0..count).map(sample).collect()
}
