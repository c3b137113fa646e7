//! Redo records, replayed in another engine.

use crate::support::SCALE;
use engine::{Engine, EngineConfig, Error, Log};
use stage::Class;
use std::sync::Arc;
use workloads::replay::{Records, Replay, TakenRecords};
use workloads::tpcc::{Inputs, TpccTables, attempt_payment, digest, load, run_new_order, run_payment};

/// Returns an engine whose records are kept, loaded, and an empty one with the same tables.
fn engines() -> (Engine, TpccTables, Arc<Records>, Replay, TpccTables) {
    let records = Arc::new(Records::with_room(1 << 20));
    let engine = Engine::new(EngineConfig { log: records.clone(), ..EngineConfig::in_memory() });
    let tables = load(&engine, SCALE, 1, &mut |_| {}).unwrap();
    let other = Engine::new(EngineConfig::in_memory());
    let others = TpccTables::create(&other).unwrap();
    (engine, tables, records, Replay::new(other), others)
}

/// Goal: a snapshot of the replay is the snapshot of the same number. Method: two terminals run at once; snapshots taken
/// among their transactions have the digest that the other engine has after a replay up to their numbers, the records
/// being taken out in two portions and the numbers being met in order.
pub fn a_replay_gives_every_snapshot_again() {
    let (engine, tables, records, mut replay, others) = engines();
    replay.add(records.take()).unwrap();
    let mut snapshots = Vec::new();
    for portion in 0..2 {
        std::thread::scope(|scope| {
            for terminal in 0..2 {
                let (engine, tables) = (&engine, &tables);
                scope.spawn(move || {
                    let mut inputs = Inputs::new(SCALE, portion, terminal);
                    for turn in 0..200 {
                        let warehouse = inputs.warehouse();
                        if turn % 2 == 0 {
                            let order = inputs.new_order(warehouse);
                            run_new_order(engine, tables, Class::Normal, &order, u32::MAX).unwrap();
                        } else {
                            let payment = inputs.payment(warehouse);
                            run_payment(engine, tables, Class::Normal, &payment, u32::MAX).unwrap();
                        }
                    }
                });
            }
            for _ in 0..10 {
                snapshots.push(engine.snapshot());
                std::thread::yield_now();
            }
        });
        snapshots.push(engine.snapshot());
        replay.add(records.take()).unwrap();
        for snapshot in snapshots.drain(..) {
            replay.apply_up_to(snapshot.number()).unwrap();
            assert_eq!(digest(&replay.engine().snapshot(), &others), digest(&snapshot, &tables));
        }
    }
    assert!(600 < replay.applied());
    assert_eq!(digest(&replay.engine().snapshot(), &others), digest(&engine.snapshot(), &tables));
}

/// Goal: a replay does not make up rows. Method: records without the load that they build on.
pub fn a_replay_refuses_changes_of_unknown_rows() {
    let (engine, tables, records, mut replay, _) = engines();
    assert!(0 < records.take().bytes());
    let mut inputs = Inputs::new(SCALE, 7, 7);
    attempt_payment(&engine, Class::Normal, &tables, &inputs.payment(1)).unwrap();
    let kept = records.take();
    assert_eq!(kept.iter().count(), 1);
    replay.add(kept).unwrap();
    assert!(matches!(replay.apply_up_to(u64::MAX), Err(Error::CorruptRedo(_))));
}

/// Goal: no record is lost or torn, however long, and nothing is kept twice. Method: records of all lengths, several
/// pieces of memory, taken out in between.
pub fn records_come_out_as_they_went_in() {
    let records = Records::with_room(1 << 20);
    let record = |at: usize| {
        let mut record = vec![at as u8; 16 + (at * 7_919) % 40_000];
        let length = record.len() as u32;
        record[..4].copy_from_slice(&length.to_le_bytes());
        record
    };
    let mut bytes = 0;
    let check = |from: usize, kept: &TakenRecords, to: usize| {
        assert!(kept.iter().eq((from..to).map(record).collect::<Vec<_>>().iter().map(Vec::as_slice)));
    };
    let mut from = 0;
    for to in [1, 40, 41, 300] {
        for at in from..to {
            bytes += record(at).len() as u64;
            assert_eq!(records.append(&record(at)).0, bytes);
        }
        check(from, &records.take(), to);
        from = to;
    }
    let huge = [&(3_u32 << 20).to_le_bytes()[..], &vec![9; (3 << 20) - 4]].concat();
    records.append(&huge);
    assert!(records.take().iter().eq([huge.as_slice()]));
    assert_eq!(records.take().bytes(), 0);
}
