//! Tests that the same inputs in the same order leave the same rows.

use crate::support::{SCALE, loaded, patch};
use engine::Begin;
use stage::Class;
use workloads::tpcc::columns::stock;
use workloads::tpcc::{Inputs, Mix, attempt, digest};

/// Returns the digest after loading from one seed, and after 200 transactions from another.
fn digests(load_seed: u64, run_seed: u64) -> (u64, u64) {
    let (engine, tables) = loaded(load_seed);
    let before = digest(&engine.snapshot(), &tables);
    let mut inputs = Inputs::new(SCALE, run_seed, 0);
    for turn in 0..200 {
        let input = inputs.next(Mix::Standard, turn % SCALE.warehouses + 1);
        attempt(&engine, Begin::new(Class::Normal), &tables, &input).unwrap();
    }
    (before, digest(&engine.snapshot(), &tables))
}

/// Goal: preemption must be invisible, so runs must be comparable. Method: digests of equal and of different seeds.
pub fn the_same_seed_leaves_the_same_rows() {
    let (loaded, run) = digests(1, 2);
    assert_eq!(digests(1, 2), (loaded, run));
    let (loaded_same, run_other) = digests(1, 3);
    assert_eq!(loaded_same, loaded);
    assert_ne!(run_other, run);
    assert_ne!(digests(4, 2).0, loaded);
}

/// Goal: the digest looks at every row. Method: one row changes by one, and back.
pub fn the_digest_sees_one_changed_row() {
    let (engine, tables) = loaded(1);
    let before = digest(&engine.snapshot(), &tables);
    let add = |count| {
        patch(&engine, &tables.stock, &[2, 50], |row| {
            row.set_i32(stock::S_ORDER_CNT, row.get_i32(stock::S_ORDER_CNT) + count);
        });
    };
    add(1);
    assert_ne!(digest(&engine.snapshot(), &tables), before);
    add(-1);
    // The row has other versions now, and the same values.
    assert_eq!(digest(&engine.snapshot(), &tables), before);
}
