//! Check constraints and foreign keys, with their actions.
//!
//! **Invariant:** foreign keys are checked at the end of the statement, in the order of its changes, against the
//! latest committed rows and all changes of the statement. Changes by actions are checked in turn. A referenced row is
//! locked FOR KEY SHARE until the end of the transaction.

use super::{RowStack, Run};
use catalog::storage::search::{KeyPosition, sought};
use catalog::storage::{datum, store};
use catalog::{ForeignAction, TableInfo};
use engine::{Row, RowId, RowLock, TableLock, Value, Wait};
use query::constraints::{ConstraintRules, IncomingReference, OutgoingReference, TableRules, compared};
use query::plan::{Hold, is_same_constant};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::datum::Datum;
use types::ops::is_same;
use types::ops::{self, CastContext};
use types::{Kind, SqlType};

/// Change whose foreign keys are to be checked.
#[derive(Clone, Debug)]
pub(crate) struct ConstraintEvent {
    rules: Arc<ConstraintRules>,
    table: u32,
    what: ConstraintEventKind,
}

#[derive(Clone, Debug)]
enum ConstraintEventKind {
    /// A row has a new reference, by the foreign key at this position.
    Refers { reference: usize, row: RowId },
    /// A key was removed or changed that may be referenced by the foreign key at this position.
    Gone { referenced: usize, old: Vec<Datum>, new: Option<Vec<Datum>> },
}

/// Returns the values of some columns of a row.
fn key_of(row: &[Datum], columns: &[usize]) -> Vec<Datum> {
    columns.iter().map(|at| row.get(*at).cloned().unwrap_or_default()).collect()
}

pub(super) fn row_of(table: &TableInfo, row: &Row<'_>) -> Vec<Datum> {
    table.columns.iter().enumerate().map(|(at, column)| datum(row.get(at), column.kind)).collect()
}

/// Returns true if a row has this key in these columns, compared as these types.
fn has_key(table: &TableInfo, row: &Row<'_>, columns: &[usize], kinds: &[Kind], key: &[Datum]) -> bool {
    columns.iter().zip(kinds).zip(key).all(|((at, kind), value)| {
        let own = datum(row.get(*at), table.columns[*at].kind);
        !own.is_null() && is_same(&own, value, *kind)
    })
}

/// Returns the types of some columns of a table.
fn kinds_of(table: &TableInfo, columns: &[usize]) -> Vec<Kind> {
    columns.iter().map(|at| table.columns[*at].kind.kind).collect()
}

/// Lock on a table that is checked for the presence or absence of rows.
const READS: Hold = Hold::Lock(TableLock::RowShare, Wait::Block);

impl Run<'_> {
    /// Checks the check constraints.
    ///
    /// # Errors
    /// `23514`
    pub(super) fn check(&self, rules: &TableRules, row: &[Datum]) -> SqlResult<()> {
        for (name, condition) in &rules.checks {
            if self.truth(condition, &RowStack { row, outer: None })? == Some(false) {
                let of = &rules.table.name;
                let message = format!("new row for relation \"{of}\" violates check constraint \"{name}\"");
                let error = SqlError::new(SqlState::CHECK_VIOLATION, message).detail(self.failing(&rules.table, row));
                return Err(self.catalog.about(error, &rules.table).about_constraint(name));
            }
        }
        Ok(())
    }

    fn event(&self, rules: &Arc<ConstraintRules>, table: u32, what: ConstraintEventKind) {
        self.changes().events.borrow_mut().push_back(ConstraintEvent { rules: Arc::clone(rules), table, what });
    }

    /// Notes an inserted row.
    pub(super) fn inserted(&self, rules: &Arc<ConstraintRules>, table: &TableInfo, row: RowId) {
        let Some(own) = rules.tables.get(&table.oid) else { return };
        for reference in 0..own.references.len() {
            self.event(rules, table.oid, ConstraintEventKind::Refers { reference, row });
        }
    }

    /// Notes an updated row.
    pub(super) fn updated(
        &self,
        rules: &Arc<ConstraintRules>,
        table: &TableInfo,
        row: RowId,
        old: &[Datum],
        new: &[Datum],
    ) {
        let Some(own) = rules.tables.get(&table.oid) else { return };
        let differ = |columns: &[usize], is_same: &dyn Fn(&Datum, &Datum, Kind) -> bool| {
            columns.iter().any(|at| match (old.get(*at), new.get(*at), table.columns.get(*at)) {
                (Some(old), Some(new), Some(column)) => !is_same(old, new, column.kind.kind),
                _ => true,
            })
        };
        for (referenced, of) in own.referenced.iter().enumerate() {
            // A value that is equal but looks different is passed on to referencing rows as well.
            if differ(&of.columns, &|old, new, _| is_same_constant(old, new)) {
                let (old, new) = (key_of(old, &of.columns), Some(key_of(new, &of.columns)));
                self.event(rules, table.oid, ConstraintEventKind::Gone { referenced, old, new });
            }
        }
        for (reference, of) in own.references.iter().enumerate() {
            if differ(&of.columns, &is_same) {
                self.event(rules, table.oid, ConstraintEventKind::Refers { reference, row });
            }
        }
    }

    /// Notes a deleted row.
    pub(super) fn deleted(&self, rules: &Arc<ConstraintRules>, table: &TableInfo, old: &[Datum]) {
        let Some(own) = rules.tables.get(&table.oid) else { return };
        for (referenced, of) in own.referenced.iter().enumerate() {
            self.event(
                rules,
                table.oid,
                ConstraintEventKind::Gone { referenced, old: key_of(old, &of.columns), new: None },
            );
        }
    }

    /// Checks all changes of the statement, and those that their actions make.
    pub(super) fn look_after(&self) -> SqlResult<()> {
        let Some(changes) = self.changes.get() else { return Ok(()) };
        loop {
            let Some(ConstraintEvent { rules, table, what }) = changes.events.borrow_mut().pop_front() else {
                return Ok(());
            };
            self.goes_on()?;
            let Some(own) = rules.tables.get(&table) else { continue };
            match what {
                ConstraintEventKind::Refers { reference, row } => {
                    let Some(reference) = own.references.get(reference) else { continue };
                    // If the row was changed or deleted since, that was noted separately.
                    let Some(row) = self.txn.get_row(&own.table.table, row)? else { continue };
                    let kind = |at: &usize| own.table.columns[*at].kind;
                    let key = reference.columns.iter().map(|at| datum(row.get(*at), kind(at))).collect();
                    self.find_parent(&own.table, reference, key)?;
                }
                ConstraintEventKind::Gone { referenced, old, new } => {
                    let Some(referenced) = own.referenced.get(referenced) else { continue };
                    // A key with a null is not referenced.
                    if !old.iter().any(Datum::is_null) {
                        self.parent_gone(&rules, &own.table, referenced, &old, new.as_deref())?;
                    }
                }
            }
        }
    }

    /// Checks that the referenced row exists, and locks it.
    ///
    /// # Errors
    /// `23503`
    fn find_parent(&self, child: &TableInfo, reference: &OutgoingReference, key: Vec<Datum>) -> SqlResult<()> {
        let OutgoingReference { name, columns, parent, parent_columns, parent_index, match_full } = reference;
        let refused = |detail: String| {
            let of = &child.name;
            let message = format!("insert or update on table \"{of}\" violates foreign key constraint \"{name}\"");
            let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail);
            self.catalog.about(error, child).about_constraint(name)
        };
        let nulls = key.iter().filter(|value| value.is_null()).count();
        if nulls == key.len() || 0 < nulls && !match_full {
            return Ok(());
        }
        if 0 < nulls {
            return Err(refused("MATCH FULL does not allow mixing of null and nonnull key values.".to_owned()));
        }
        let absent = |key: &[Datum]| {
            let mut row = vec![Datum::Null; child.columns.len()];
            columns.iter().zip(key).for_each(|(at, value)| row[*at] = value.clone());
            let text = self.key_text(child, columns, &row);
            refused(format!("Key {text} is not present in table \"{}\".", parent.name))
        };
        let kinds = kinds_of(parent, parent_columns);
        let own = kinds_of(child, columns);
        let compared: Vec<Kind> = own.iter().zip(&kinds).map(|(own, parent)| compared(*own, *parent)).collect();
        let Some(wanted) = self.as_others(&key, (child, columns, &compared), parent, parent_columns)? else {
            return Err(absent(&key));
        };
        self.hold(parent, READS)?;
        loop {
            self.txn.check_active()?;
            let found = self.with_key(parent, *parent_index, parent_columns, &wanted, &mut |values| {
                // Above READ COMMITTED, it is looked up in the snapshot, as in PostgreSQL.
                let row = match self.txn.reads_latest() {
                    true => self.txn.newest(&parent.table, *parent_index, values)?,
                    false => self.txn.get(&parent.table, *parent_index, values)?,
                };
                Ok(row.map(|row| row.row_id()))
            })?;
            let Some(id) = found else { return Err(absent(&key)) };
            let locked = self.txn.lock_row(&parent.table, id, RowLock::KeyShare, Wait::Block)?;
            // After the wait, the row may have another key, and the key another row.
            if locked.is_some_and(|row| has_key(parent, &row, parent_columns, &kinds, &wanted)) {
                return Ok(());
            }
        }
    }

    /// Converts the values to the types of the other table's columns; `None` if one cannot be. Values of the own table
    /// are compared as these types.
    fn as_others(
        &self,
        key: &[Datum],
        (table, columns, compared): (&TableInfo, &[usize], &[Kind]),
        other: &TableInfo,
        other_columns: &[usize],
    ) -> SqlResult<Option<Vec<Datum>>> {
        let mut made = Vec::with_capacity(key.len());
        for (((value, at), compared), other_at) in key.iter().zip(columns).zip(compared).zip(other_columns) {
            let (from, to) = (table.columns[*at].kind, other.columns[*other_at].kind);
            let Some(value) = self.as_other(value, from, to, *compared)? else { return Ok(None) };
            match sought(value, to.kind, to, &self.env.forms)? {
                KeyPosition::Exactly(value) => made.push(value),
                KeyPosition::Between(..) | KeyPosition::Below | KeyPosition::Above => return Ok(None),
            }
        }
        Ok(Some(made))
    }

    fn as_other(&self, value: &Datum, from: SqlType, to: SqlType, compared: Kind) -> SqlResult<Option<Datum>> {
        if from.kind == to.kind {
            return Ok(Some(value.clone()));
        }
        let none = || SqlError::unsupported("a reference between these types");
        let there = ops::find_cast(from.kind, to.kind, CastContext::Explicit).ok_or_else(none)?;
        let back = ops::find_cast(to.kind, from.kind, CastContext::Explicit).ok_or_else(none)?;
        // A value that does not survive the conversion back does not exist in the other type.
        let Ok(other) = (there.eval)(value, to.kind.into(), self.env) else { return Ok(None) };
        let Ok(again) = (back.eval)(&other, from.kind.into(), self.env) else { return Ok(None) };
        Ok(is_same(value, &again, compared).then_some(other))
    }

    /// Passes the leading values of an index on these columns to `then`, for a key in any order of columns.
    fn with_key<R>(
        &self,
        table: &TableInfo,
        index: usize,
        columns: &[usize],
        key: &[Datum],
        then: &mut dyn FnMut(&[Value<'_>]) -> SqlResult<R>,
    ) -> SqlResult<R> {
        let of = &table.table.indexes()[index].columns;
        let mut buffers = vec![Vec::new(); key.len()];
        let mut values = Vec::with_capacity(key.len());
        for (at, buffer) in of.iter().zip(&mut buffers) {
            let place = columns.iter().position(|column| column == at);
            let value = place.and_then(|place| key.get(place)).ok_or_else(|| {
                SqlError::new(SqlState::INTERNAL_ERROR, "a foreign key and its index have other columns")
            })?;
            values.push(store(value, table.columns[*at].kind, buffer)?);
        }
        then(&values)
    }

    /// Returns the child rows that reference this key, by the latest state.
    fn children(&self, referenced: &IncomingReference, key: &[Datum]) -> SqlResult<Vec<RowId>> {
        let IncomingReference { child, child_columns, compared, child_index, .. } = referenced;
        let mut found = Vec::new();
        let mut each = |row: &Row<'_>| {
            if has_key(child, row, child_columns, compared, key) {
                found.push(row.row_id());
            }
            true
        };
        match child_index {
            Some(index) => self.with_key(child, *index, child_columns, key, &mut |values| {
                Ok(self.txn.each_newest(&child.table, Some((*index, values)), &mut each)?)
            })?,
            None => self.txn.each_newest(&child.table, None, &mut each)?,
        }
        Ok(found)
    }

    /// Takes the action for a key that was removed or changed.
    fn parent_gone(
        &self,
        rules: &Arc<ConstraintRules>,
        parent: &TableInfo,
        referenced: &IncomingReference,
        old: &[Datum],
        new: Option<&[Datum]>,
    ) -> SqlResult<()> {
        let IncomingReference { columns, child, child_columns, on_delete, on_update, .. } = referenced;
        let own = (parent, &**columns, &*kinds_of(parent, columns));
        let Some(key) = self.as_others(old, own, child, child_columns)? else { return Ok(()) };
        let action = if new.is_some() { *on_update } else { *on_delete };
        let is_read = matches!(action, ForeignAction::NoAction | ForeignAction::Restrict);
        self.hold(child, if is_read { READS } else { Hold::Write })?;
        let values = match (action, new) {
            (ForeignAction::NoAction | ForeignAction::Restrict, _) => {
                return self.no_children(parent, referenced, old, &key, action == ForeignAction::NoAction);
            }
            (ForeignAction::Cascade, None) => {
                for id in self.children(referenced, &key)? {
                    self.delete_child(rules, referenced, id, &key)?;
                }
                return Ok(());
            }
            (ForeignAction::Cascade, Some(new)) => {
                let mut values = Vec::with_capacity(new.len());
                for ((value, at), child_at) in new.iter().zip(columns).zip(child_columns) {
                    let (from, to) = (parent.columns[*at].kind, child.columns[*child_at].kind);
                    values.push(self.assigned_value(value, from, to)?);
                }
                values
            }
            (ForeignAction::SetNull, _) => vec![Datum::Null; child_columns.len()],
            (ForeignAction::SetDefault, _) => {
                let nothing = RowStack { row: &[], outer: None };
                let defaults = referenced.defaults.iter().map(|value| self.value(value, &nothing));
                defaults.collect::<SqlResult<_>>()?
            }
        };
        for id in self.children(referenced, &key)? {
            self.change_child(rules, referenced, id, &key, &values)?;
        }
        if action == ForeignAction::SetDefault {
            // The default may be the removed key itself.
            self.no_children(parent, referenced, old, &key, true)?;
        }
        Ok(())
    }

    /// Converts a value as an assignment does.
    fn assigned_value(&self, value: &Datum, from: SqlType, to: SqlType) -> SqlResult<Datum> {
        if value.is_null() || from == to {
            return Ok(value.clone());
        }
        let value = match from.kind == to.kind {
            true => value.clone(),
            false => {
                let none = || SqlError::unsupported("a reference between these types");
                let cast = ops::find_cast(from.kind, to.kind, CastContext::Assignment).ok_or_else(none)?;
                (cast.eval)(value, to, self.env)?
            }
        };
        types::modifier::apply(value, to, false)
    }

    /// # Errors
    /// `23503`; with `may_come_back`, only if no other row has the key now.
    fn no_children(
        &self,
        parent: &TableInfo,
        referenced: &IncomingReference,
        old: &[Datum],
        key: &[Datum],
        may_come_back: bool,
    ) -> SqlResult<()> {
        let IncomingReference { name, columns, index, child, child_columns, compared, .. } = referenced;
        if may_come_back {
            let found = self.with_key(parent, *index, columns, old, &mut |values| {
                Ok(self.txn.newest(&parent.table, *index, values)?.is_some())
            })?;
            if found {
                return Ok(());
            }
        }
        for id in self.children(referenced, key)? {
            // The latest row decides, not that of the snapshot: the reference may have been set since.
            let mut refers = |row: &Row<'_>| has_key(child, row, child_columns, compared, key);
            if !self.txn.lock_newest(&child.table, id, RowLock::KeyShare, &mut refers)? {
                continue;
            }
            let mut row = vec![Datum::Null; parent.columns.len()];
            columns.iter().zip(old).for_each(|(at, value)| row[*at] = value.clone());
            let message = format!(
                "update or delete on table \"{}\" violates foreign key constraint \"{name}\" on table \"{}\"",
                parent.name, child.name
            );
            let text = self.key_text(parent, columns, &row);
            let detail = format!("Key {text} is still referenced from table \"{}\".", child.name);
            let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(detail);
            return Err(self.catalog.about(error, child).about_constraint(name));
        }
        Ok(())
    }

    fn delete_child(
        &self,
        rules: &Arc<ConstraintRules>,
        of: &IncomingReference,
        id: RowId,
        key: &[Datum],
    ) -> SqlResult<()> {
        let child = &*of.child;
        let mut old = None;
        let deleted = self.txn.delete_if(&child.table, id, |row| {
            let is_it = has_key(child, row, &of.child_columns, &of.compared, key);
            old = is_it.then(|| row_of(child, row));
            is_it
        });
        match deleted {
            Err(engine::Error::NoSuchRow { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => {
                if let Some(old) = old {
                    self.deleted(rules, child, &old);
                }
                Ok(())
            }
        }
    }

    fn change_child(
        &self,
        rules: &Arc<ConstraintRules>,
        of: &IncomingReference,
        id: RowId,
        key: &[Datum],
        values: &[Datum],
    ) -> SqlResult<()> {
        let child = &*of.child;
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut patch = |writer: &mut engine::RowWriter<'_>| {
            old = child.columns.iter().enumerate().map(|(at, column)| datum(writer.get(at), column.kind)).collect();
            new.clone_from(&old);
            let same = |((at, kind), value): ((&usize, &Kind), &Datum)| is_same(&old[*at], value, *kind);
            if !of.child_columns.iter().zip(&of.compared).zip(key).all(same) {
                return Ok(false);
            }
            self.assign(child, 0, (&of.child_columns, values.to_vec()), &mut new, writer)?;
            rules.tables.get(&child.oid).map_or(Ok(()), |own| self.check(own, &new))?;
            Ok(true)
        };
        let changed = self.patch(child, id, &mut patch);
        if changed.map_err(|error| self.describe(error, child, &new))? {
            self.updated(rules, child, id, &old, &new);
        }
        Ok(())
    }
}
