//! The rows of a table as Arrow batches, in parts that can be made independently.
//!
//! Invariant: the parts of a table, one after the other, are the same rows however many threads made them, because their
//! number depends on the scale factor alone. A part is about one block of the engine.

use super::tables::TpchTable;
use arrow_array::RecordBatch;
use std::sync::OnceLock;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// Source of the comment columns. The pool of text stays in memory until the process ends, which is the generator's
/// choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Comments {
    /// The specification's pool of 300 MiB: the rows are those of every other TPC-H generator.
    #[default]
    Specified,
    /// The first 8 MiB of that pool: opens faster and is smaller. Comments repeat more often, all else is the same.
    Short,
}

const SHORT_POOL_BYTES: i32 = 8 << 20;

impl Comments {
    fn pool(self) -> &'static TextPool {
        static SHORT: OnceLock<TextPool> = OnceLock::new();
        match self {
            Comments::Specified => TextPool::get_or_init_default(),
            Comments::Short => SHORT.get_or_init(|| TextPool::new(SHORT_POOL_BYTES, Distributions::static_default())),
        }
    }
}

/// Maximum number of rows of the engine's blocks; a larger batch would be split into one big and one small block.
const BATCH_ROWS_MAX: usize = 65_536;

/// Number of rows that a part aims at. Line items vary by some hundred rows per part, and must not exceed a batch.
const PART_ROWS: u64 = 62_000;

/// Returns the number of parts of the table at this scale factor.
pub(crate) fn parts_count(table: TpchTable, scale_factor: f64) -> i32 {
    let rows_count = table.rows_expected(scale_factor);
    i32::try_from(rows_count.div_ceil(PART_ROWS).max(1)).expect("scale factors are far below 10,000")
}

/// Generates one part of a table, `part` counting from 1.
pub(crate) fn generate_part(
    table: TpchTable,
    scale_factor: f64,
    comments: Comments,
    part: i32,
) -> Box<dyn Iterator<Item = RecordBatch>> {
    let parts = parts_count(table, scale_factor);
    let words = Distributions::static_default();
    let pool = comments.pool();
    // The generators share no trait, so a macro states once what happens to each of them.
    macro_rules! batches {
        ($arrow:ident, $generator:expr) => {
            Box::new(
                $arrow::new($generator)
                    .with_batch_size(BATCH_ROWS_MAX)
                    .map(|batch| batch.expect("the generator makes its columns of one length")),
            )
        };
    }
    macro_rules! scaled {
        ($arrow:ident, $generator:ident) => {
            batches!($arrow, $generator::new_with_distributions_and_text_pool(scale_factor, part, parts, words, pool))
        };
    }
    match table {
        TpchTable::Region => {
            batches!(RegionArrow, RegionGenerator::new_with_distributions_and_text_pool(words, pool))
        }
        TpchTable::Nation => {
            batches!(NationArrow, NationGenerator::new_with_distributions_and_text_pool(words, pool))
        }
        TpchTable::Supplier => scaled!(SupplierArrow, SupplierGenerator),
        TpchTable::Customer => scaled!(CustomerArrow, CustomerGenerator),
        TpchTable::Part => scaled!(PartArrow, PartGenerator),
        TpchTable::PartSupp => {
            batches!(PartSuppArrow, PartSuppGenerator::new_with_text_pool(scale_factor, part, parts, pool))
        }
        TpchTable::Orders => scaled!(OrderArrow, OrderGenerator),
        TpchTable::LineItem => scaled!(LineItemArrow, LineItemGenerator),
    }
}

/// Generates all rows of a table, in the order in which [`super::load()`] loads them.
pub fn generate(table: TpchTable, scale_factor: f64, comments: Comments) -> impl Iterator<Item = RecordBatch> {
    (1..=parts_count(table, scale_factor)).flat_map(move |part| generate_part(table, scale_factor, comments, part))
}
