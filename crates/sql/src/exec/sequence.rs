//! Sequence functions.
//!
//! **Invariant:** a value is returned once, regardless of the transaction's outcome, until the sequence cycles or is
//! set. `currval` is local to the session.

use super::{RowStack, Run};
use crate::context::Env;
use catalog::acl::Privileges;
use catalog::rights::Rights;
use catalog::{CatalogState, Relation, Sequence, SequenceValue};
use locked::Locked;
use query::bind::not_a_sequence;
use query::plan::{Expr, SequenceCall};
use statement::error::{SqlError, SqlResult, SqlState};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use types::datum::Datum;
use types::ops::impossible;

/// Last values of a session, by sequence.
#[derive(Debug, Default)]
pub(crate) struct SessionSequences(RefCell<SequenceValues>);

#[derive(Debug, Default)]
struct SequenceValues {
    by_sequence: HashMap<u32, i64>,
    last: Option<u32>,
    /// Values that the statement under way has obtained, by sequence.
    given: HashMap<u32, Repeated<i64>>,
    /// Values that the statement has set sequences to, likewise.
    set: HashMap<u32, Repeated<SequenceValue>>,
    /// True while statements repeat an undone one in parts.
    is_repeating: bool,
}

/// Values of a statement in order, which it reuses when it begins again.
#[derive(Debug)]
struct Repeated<T> {
    values: Vec<T>,
    /// Number of values that the statement has used so far.
    used: usize,
    /// Number of values that earlier parts have used.
    before: usize,
}

impl<T> Default for Repeated<T> {
    fn default() -> Repeated<T> {
        Repeated { values: Vec::new(), used: 0, before: 0 }
    }
}

impl<T> Repeated<T> {
    /// Begins the next part.
    fn go_on(&mut self) {
        self.before = self.used;
    }

    /// Begins the part again.
    fn begin_again(&mut self) {
        self.used = self.before;
    }

    /// Begins with the first value.
    fn repeat(&mut self) {
        (self.used, self.before) = (0, 0);
    }
}

impl SessionSequences {
    /// Forgets the values, for `DISCARD SEQUENCES`.
    pub(crate) fn forget(&self) {
        self.0.take();
    }

    /// Begins a statement.
    pub(crate) fn begin(&self) {
        let mut got = self.0.borrow_mut();
        if got.is_repeating {
            got.given.values_mut().for_each(Repeated::go_on);
            got.set.values_mut().for_each(Repeated::go_on);
            return;
        }
        if !got.given.is_empty() {
            got.given.clear();
        }
        if !got.set.is_empty() {
            got.set.clear();
        }
    }

    /// Restarts a statement after its wait: it reuses the values obtained before.
    pub(crate) fn begin_again(&self) {
        let mut got = self.0.borrow_mut();
        got.given.values_mut().for_each(Repeated::begin_again);
        got.set.values_mut().for_each(Repeated::begin_again);
    }

    /// Lets the next statements together repeat the one that has ended, and was undone.
    pub(crate) fn repeat(&self) {
        let mut got = self.0.borrow_mut();
        got.is_repeating = true;
        got.given.values_mut().for_each(Repeated::repeat);
        got.set.values_mut().for_each(Repeated::repeat);
    }

    /// Ends the repetition.
    pub(crate) fn end_repeat(&self) {
        self.0.borrow_mut().is_repeating = false;
    }

    /// Sets a sequence, unless the statement did so before its wait: others may have taken values since.
    fn set(&self, sequence: &Arc<Sequence>, value: SequenceValue) {
        let mut got = self.0.borrow_mut();
        let Repeated { values, used, .. } = got.set.entry(sequence.oid).or_default();
        if values.get(*used) != Some(&value) {
            *sequence.value.locked() = value;
            if values.len() < GIVEN_MAX {
                values.truncate(*used);
                values.push(value);
            }
        }
        *used += 1;
        if value.is_called {
            got.by_sequence.insert(sequence.oid, value.last);
        }
    }

    fn next(&self, sequence: &Arc<Sequence>) -> SqlResult<i64> {
        let mut got = self.0.borrow_mut();
        let Repeated { values, used, .. } = got.given.entry(sequence.oid).or_default();
        let value = match values.get(*used) {
            Some(value) => *value,
            None => {
                let value = next(sequence)?;
                if values.len() < GIVEN_MAX {
                    values.push(value);
                }
                value
            }
        };
        *used += 1;
        got.by_sequence.insert(sequence.oid, value);
        got.last = Some(sequence.oid);
        Ok(value)
    }
}

/// Maximum number of values of one sequence that a statement reuses after a wait. Beyond that it obtains new ones.
const GIVEN_MAX: usize = 1 << 16;

/// Checks that the current role may use the schema of a sequence that a text names.
///
/// # Errors
/// `42501`
fn check_usage(state: &CatalogState, env: &Env, text: &str) -> SqlResult<()> {
    match syntax::names::name_parts(text).as_deref() {
        Some([.., schema, _]) => {
            Rights::of_session(state, env).map_or(Ok(()), |rights| rights.check_schema(schema, Privileges::USAGE))
        }
        Some(_) | None => Ok(()),
    }
}

/// `55000`
fn not_yet(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

impl Run<'_> {
    pub(super) fn sequence(&self, call: SequenceCall, arguments: &[Expr], rows: &RowStack<'_>) -> SqlResult<Datum> {
        if call == SequenceCall::Last {
            let got = self.numbers.0.borrow();
            let last = got.last.and_then(|oid| Some((oid, got.by_sequence.get(&oid)?)));
            let (sequence, value) =
                last.ok_or_else(|| not_yet("lastval is not yet defined in this session".to_owned()))?;
            self.check_sequence(call, sequence)?;
            return Ok(Datum::Int8(*value));
        }
        let values = arguments.iter().map(|one| self.value(one, rows)).collect::<SqlResult<Vec<_>>>()?;
        if values.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        let relation = match &values[..] {
            [Datum::Oid(oid), ..] => self.catalog.relation_numbered(*oid).ok_or_else(|| {
                SqlError::new(SqlState::INTERNAL_ERROR, format!("could not open relation with OID {oid}"))
            })?,
            [Datum::Text(name), ..] => {
                check_usage(self.catalog, self.env, name)?;
                self.catalog.relation_written(self.path, name)?
            }
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a sequence is named by its number or its name")),
        };
        let Relation::Sequence(sequence) = relation else { return Err(not_a_sequence(relation)) };
        self.check_sequence(call, sequence.oid)?;
        let newest;
        let sequence = match call {
            SequenceCall::Next | SequenceCall::Identity | SequenceCall::Set => {
                // A definition of the sequence under way is waited for, and a later one waits for this transaction. So
                // this is the latest definition, regardless of the statement's snapshot.
                self.txn.announce(&sequence.shared.lock)?;
                newest = sequence.newest().ok_or_else(|| {
                    let message = format!("could not open relation with OID {}", sequence.oid);
                    SqlError::new(SqlState::INTERNAL_ERROR, message)
                })?;
                &newest
            }
            SequenceCall::Current | SequenceCall::Last => sequence,
        };
        match (call, &values[1..]) {
            (SequenceCall::Next | SequenceCall::Identity, _) => Ok(Datum::Int8(self.numbers.next(sequence)?)),
            (SequenceCall::Set, [Datum::Int8(value), rest @ ..]) => {
                let is_called = !matches!(rest, [Datum::Bool(false)]);
                if !(sequence.min..=sequence.max).contains(value) {
                    let message = format!(
                        "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                        sequence.name, sequence.min, sequence.max
                    );
                    return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
                }
                self.numbers.set(sequence, SequenceValue { last: *value, is_called });
                Ok(Datum::Int8(*value))
            }
            (SequenceCall::Set | SequenceCall::Last, _) => {
                Err(impossible("a sequence function is given other values than it takes"))
            }
            (SequenceCall::Current, _) => {
                let got = self.numbers.0.borrow();
                got.by_sequence.get(&sequence.oid).map(|value| Datum::Int8(*value)).ok_or_else(|| {
                    not_yet(format!("currval of sequence \"{}\" is not yet defined in this session", sequence.name))
                })
            }
        }
    }

    /// Checks that the current role may call a function of a sequence.
    ///
    /// # Errors
    /// `42501`
    fn check_sequence(&self, call: SequenceCall, sequence: u32) -> SqlResult<()> {
        let wanted = match call {
            SequenceCall::Next => Privileges::USAGE | Privileges::UPDATE,
            SequenceCall::Current | SequenceCall::Last => Privileges::USAGE | Privileges::SELECT,
            SequenceCall::Set => Privileges::UPDATE,
            // The right to write to the table is enough.
            SequenceCall::Identity => return Ok(()),
        };
        Rights::of_session(self.catalog, self.env).map_or(Ok(()), |rights| rights.check_any(sequence, wanted))
    }
}

fn next(sequence: &Arc<Sequence>) -> SqlResult<i64> {
    let mut value = sequence.value.locked();
    let next = if value.is_called { step(sequence, value.last)? } else { value.last };
    *value = SequenceValue { last: next, is_called: true };
    Ok(next)
}

fn step(sequence: &Sequence, last: i64) -> SqlResult<i64> {
    let is_up = 0 < sequence.increment;
    if let Some(next) = last.checked_add(sequence.increment).filter(|next| (sequence.min..=sequence.max).contains(next))
    {
        return Ok(next);
    }
    if sequence.cycle {
        return Ok(if is_up { sequence.min } else { sequence.max });
    }
    let (word, limit) = if is_up { ("maximum", sequence.max) } else { ("minimum", sequence.min) };
    let message = format!("nextval: reached {word} value of sequence \"{}\" ({limit})", sequence.name);
    Err(SqlError::new(SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED, message))
}
