//! Digest of all visible rows.

use super::TpccTables;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use engine::{Snapshot, Table};
use std::sync::Arc;

/// Returns a digest of the visible rows of all nine tables that does not depend on their order or their row IDs.
pub fn digest(snapshot: &Arc<Snapshot>, tables: &TpccTables) -> u64 {
    tables.all().into_iter().fold(0, |digest: u64, table| {
        let name = mix_bytes(0, table.name().as_bytes());
        digest.wrapping_add(mix(name, table_digest(snapshot, table)))
    })
}

fn table_digest(snapshot: &Arc<Snapshot>, table: &Arc<Table>) -> u64 {
    let columns: Vec<usize> = (0..table.columns().len()).collect();
    rows_digest(snapshot.scan(table, &columns, 1_024).split(1).into_iter().flatten())
}

fn rows_digest(batches: impl Iterator<Item = RecordBatch>) -> u64 {
    let mut sum = 0_u64;
    for batch in batches {
        let mut rows = vec![0; batch.num_rows()];
        for column in batch.columns() {
            add_column(&mut rows, column);
        }
        sum = rows.into_iter().fold(sum, u64::wrapping_add);
    }
    sum
}

fn add_column(rows: &mut [u64], column: &dyn Array) {
    for (at, row) in rows.iter_mut().enumerate() {
        *row = if column.is_null(at) {
            mix(!*row, NULL)
        } else {
            match column.data_type() {
                DataType::Int32 => mix(*row, column.as_primitive::<Int32Type>().value(at) as u64),
                DataType::Timestamp(..) => {
                    mix(*row, column.as_primitive::<TimestampMicrosecondType>().value(at) as u64)
                }
                DataType::Decimal128(..) => {
                    let value = column.as_primitive::<Decimal128Type>().value(at);
                    mix(mix(*row, value as u64), (value >> 64) as u64)
                }
                DataType::Utf8View => mix_bytes(*row, column.as_string_view().value(at).as_bytes()),
                other => unreachable!("no table of TPC-C has a column of type {other}"),
            }
        };
    }
}

/// Placeholder of a null, mixed in together with the complement of the state before: no value is mixed in that way.
const NULL: u64 = 0x6e75_6c6c;

/// Mixes the value into the state, by one step of SplitMix64's finaliser.
fn mix(before: u64, value: u64) -> u64 {
    let mut z = (before ^ value).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn mix_bytes(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(mix(before, bytes.len() as u64), |digest, byte| mix(digest, u64::from(*byte)))
}
