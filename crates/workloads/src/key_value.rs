//! Reads and updates by key, as code that is linked into a server: the least that a stored procedure does.

use procs::calls::{ComingCall, ComingKind};
use procs::{EngineCalls, NativeCall, NativeModule, StatementHandle, TableHandle};
use statement::error::{SqlError, SqlResult, SqlState};
use std::ops::ControlFlow;
use types::datum::Datum;

/// One call in this many of the mix is an update.
const UPDATE_EVERY: usize = 5;
/// Table of the manifest.
const TABLE: TableHandle = TableHandle(0);
/// Statement of the manifest that updates a row.
const ADD: StatementHandle = StatementHandle(0);
/// Number of the entry whose look-ups are foreseen.
const TOGETHER: u16 = 3;

/// Native module `key_value`.
///
/// The entries take an array of keys and make a call for each: `read`, `update`, `mix`, which updates each fifth,
/// and `read_together`, whose look-ups are foreseen. They return the last value that was read, or the number of rows that were updated.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyValueModule;

impl NativeModule for KeyValueModule {
    fn name(&self) -> &'static str {
        "key_value"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1\n\
         table key_value glass_kv (k, v)\n\
         statement add UPDATE glass_kv SET v = v + 1 WHERE k = $1\n\
         entry read\n\
         entry update\n\
         entry mix\n\
         entry read_together\n"
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let [Datum::Array(keys)] = call.arguments else {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "an array of keys is needed"));
        };
        // As a batch of sandboxed code does: the look-ups wait for memory together.
        if call.entry == TOGETHER {
            let get = ComingKind::Get { table: TABLE, locks: false };
            let coming: Vec<ComingCall> =
                (0..keys.len()).map(|at| ComingCall { what: get, values: at..at + 1 }).collect();
            engine.foresee(&coming, keys);
        }
        let mut last = 0;
        for (number, key) in (1_usize..).zip(keys) {
            let is_update = match call.entry {
                0 | TOGETHER => false,
                1 => true,
                2 => number.is_multiple_of(UPDATE_EVERY),
                entry => return Err(procs::format::garbled(&format!("{entry} is the number of no entry"))),
            };
            last = if is_update { update(engine, key)? } else { read(engine, key)? };
        }
        Ok(vec![Datum::Int4(last)])
    }
}

/// Native module `touch`, whose calls may interrupt queries: its entry `touch` adds one to the value of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct TouchModule;

impl NativeModule for TouchModule {
    fn name(&self) -> &'static str {
        "touch"
    }

    fn manifest(&self) -> &'static str {
        "overtake 1\n\
         table key_value glass_kv (k, v)\n\
         entry touch\n"
    }

    fn call(&self, call: NativeCall<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Datum>> {
        let [key] = call.arguments else {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "a key is needed"));
        };
        let value = read_for(engine, key, true)?;
        let more = value
            .checked_add(1)
            .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
        engine.put(TABLE, &[key.clone(), Datum::Int4(more)], false)?;
        Ok(Vec::new())
    }

    fn is_urgent(&self) -> bool {
        true
    }
}

fn read(engine: &mut dyn EngineCalls, key: &Datum) -> SqlResult<i32> {
    read_for(engine, key, false)
}

/// Returns the value of a key, whose row is locked if the value is to be changed.
fn read_for(engine: &mut dyn EngineCalls, key: &Datum, locks: bool) -> SqlResult<i32> {
    let mut value = None;
    engine.get(TABLE, std::slice::from_ref(key), locks, &mut |row| {
        if let [_, Datum::Int4(found)] = row {
            value = Some(*found);
        }
        Ok(ControlFlow::Break(()))
    })?;
    value.ok_or_else(|| SqlError::new(SqlState::NO_DATA, "the row does not exist"))
}

fn update(engine: &mut dyn EngineCalls, key: &Datum) -> SqlResult<i32> {
    Ok(engine.execute(ADD, std::slice::from_ref(key))?.rows as i32)
}
