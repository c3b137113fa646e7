//! Redo records, decoded again.

use crate::freeze::{kinds, row};
use crate::support::*;
use engine::{Column, Engine, EngineConfig, Error, IndexDef, Log, LogPosition, RedoWhat, Table, TableDef, Type, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Keeps every record.
#[derive(Default)]
struct Kept(Mutex<Vec<Vec<u8>>>);

impl Log for Kept {
    fn append(&self, record: &[u8]) -> LogPosition {
        let mut records = self.0.lock().unwrap();
        records.push(record.to_vec());
        LogPosition(records.len() as u64)
    }

    fn end(&self) -> LogPosition {
        LogPosition(self.0.lock().unwrap().len() as u64)
    }

    fn reached(&self, _position: LogPosition) -> bool {
        true
    }
}

fn wide() -> TableDef {
    let mut columns = vec![Column::required("k", Type::Int32), Column::nullable("t", Type::Text)];
    columns.extend((2..70).map(|n| Column::nullable(&format!("c{n}"), Type::Int64)));
    TableDef { name: "wide".to_owned(), columns, indexes: vec![IndexDef::unique("wide_pkey", &[0])] }
}

type State = BTreeMap<(usize, u64), Vec<String>>;

/// The tables as the records say.
fn replay(engine: &Engine, records: &[Vec<u8>]) -> State {
    let mut decoded: Vec<_> = records.iter().map(|record| engine.decode_redo(record).unwrap()).collect();
    decoded.sort_by_key(|(timestamp, _)| *timestamp);
    let mut state = State::new();
    for change in decoded.into_iter().flat_map(|(_, changes)| changes) {
        let place = (change.table as usize, change.row.0);
        match change.what {
            RedoWhat::Insert(values) => {
                let before = state.insert(place, values.iter().map(|value| format!("{value:?}")).collect());
                assert!(before.is_none());
            }
            RedoWhat::Update(values) => {
                let row = state.get_mut(&place).unwrap();
                values.iter().for_each(|(column, value)| row[*column] = format!("{value:?}"));
            }
            RedoWhat::Delete => assert!(state.remove(&place).is_some()),
        }
    }
    state
}

/// The tables as they are.
fn state(engine: &Engine) -> State {
    let txn = engine.begin(NORMAL);
    let mut state = State::new();
    for (number, table) in engine.tables().iter().enumerate() {
        for row in (0..table.rows_bound()).filter_map(|row| txn.get_row(table, engine::RowId(row)).unwrap()) {
            let values = (0..table.columns().len()).map(|column| format!("{:?}", row.get(column))).collect();
            state.insert((number, row.row_id().0), values);
        }
    }
    state
}

/// Random inserts, updates (of some columns, of all, of the 64th and beyond, of the same row twice) and deletes, committed
/// or not: applying the records gives the tables as they are. Goal: redo says all that a commit did and nothing else.
pub fn records_replay_to_the_same_tables() {
    let log = Arc::new(Kept::default());
    let engine = Engine::new(EngineConfig { log: log.clone(), ..EngineConfig::in_memory() });
    let table: Arc<Table> = engine.create_table(wide()).unwrap();
    let other = engine.create_table(TableDef { name: "other".to_owned(), ..wide() }).unwrap();
    let mut random = Random(42);
    for round in 0..300 {
        let txn = engine.begin(NORMAL);
        for _ in 0..random.below(6) {
            let table = if random.below(2) == 0 { &table } else { &other };
            let key = random.below(40) as i32;
            let found = txn.get(table, 0, &[Value::Int32(key)]).unwrap().map(|row| row.row_id());
            match (found, random.below(4)) {
                (None, _) => {
                    let mut values = vec![Value::Null; 70];
                    values[0] = Value::Int32(key);
                    values[1] = if round % 3 == 0 { Value::Null } else { Value::Text("first") };
                    values[69] = Value::Int64(round);
                    txn.insert(table, &values).unwrap();
                }
                (Some(row), 0) => txn.delete(table, row).unwrap(),
                (Some(row), kind) => txn
                    .update(table, row, |row| {
                        let column = 2 + random.below(60) as usize;
                        row.set_i64(column, round);
                        match kind {
                            1 => row.set_i64(68, -round),
                            2 => row.set_text(1, "a longer text"),
                            _ => row.set_null(1),
                        }
                    })
                    .unwrap(),
            }
        }
        if random.below(4) == 0 {
            txn.abort();
        } else {
            txn.commit().unwrap();
        }
    }
    let records = log.0.lock().unwrap();
    assert!(100 < records.len());
    assert_eq!(replay(&engine, &records), state(&engine));
    // A record cut short or changed in its length is refused, at any place.
    let longest = records.iter().max_by_key(|record| record.len()).unwrap();
    for cut in 0..longest.len() {
        assert!(matches!(engine.decode_redo(&longest[..cut]), Err(Error::CorruptRedo(_))), "cut at {cut}");
    }
}

/// A commit returns the position behind its record; a reader the position of what it may have seen. A log that keeps no
/// records gets none.
pub fn commits_return_positions() {
    let engine = Engine::new(EngineConfig { log: Arc::new(Kept::default()), ..EngineConfig::in_memory() });
    let columns = vec![Column::required("id", Type::Int32)];
    let def = TableDef { name: "numbers".to_owned(), columns, indexes: Vec::new() };
    let table = engine.create_table(def).unwrap();
    let before = engine.log().end();
    let txn = engine.begin(NORMAL);
    txn.insert(&table, &[Value::Int32(1)]).unwrap();
    let position = txn.commit().unwrap();
    assert!(before < position);
    assert!(engine.log().reached(position));
    assert_eq!(engine.begin(NORMAL).commit().unwrap(), position);

    let (engine, table) = bank_of(1);
    let txn = engine.begin(NORMAL);
    pay(&txn, &table, 0, 1).unwrap();
    assert_eq!(txn.commit().unwrap(), engine.log().end());
    assert!(engine.log().reached(engine.log().end()));
}

/// Values of every type, and nulls, come out of a record as they went in: of whole rows and of single columns.
pub fn all_types_are_decoded() {
    let log = Arc::new(Kept::default());
    let engine = Engine::new(EngineConfig { log: log.clone(), ..EngineConfig::in_memory() });
    let columns = kinds().iter().enumerate().map(|(n, kind)| Column::nullable(&format!("c{n}"), *kind)).collect();
    let table = engine.create_table(TableDef { name: "t".to_owned(), columns, indexes: Vec::new() }).unwrap();
    let txn = engine.begin(NORMAL);
    let id = txn.insert(&table, &row(3)).unwrap();
    for (column, value) in row(4).into_iter().enumerate() {
        txn.update(&table, id, |row| row.set(column, value)).unwrap();
    }
    txn.commit().unwrap();
    let records = log.0.lock().unwrap();
    let (_, changes) = engine.decode_redo(&records[0]).unwrap();
    assert_eq!(changes[0].what, RedoWhat::Insert(row(3)));
    let updates: Vec<_> = changes[1..].iter().map(|change| change.what.clone()).collect();
    let wanted = row(4).into_iter().enumerate().map(|(column, value)| RedoWhat::Update(vec![(column, value)]));
    assert_eq!(updates, wanted.collect::<Vec<_>>());
}
