//! Rights that a statement needs, noted while its names are bound.
//!
//! **Invariant:** each relation of a FROM and each target of a change has a need of its own, and a column that an
//! expression names is noted in it. What is needed is checked when the statement runs: see [`catalog::rights`].

use super::names::QualifiedName;
use super::{Binder, FromRelation, NameScope};
use crate::plan::{Expr, slots_of};
use catalog::acl::Privileges;
use catalog::rights::{RelationNeed, Rights};
use catalog::{TableInfo, ViewInfo};
use statement::error::SqlResult;
use syntax::ast;

impl Binder<'_> {
    /// Makes the binder take its text as that of a stored definition, whose names were checked when it was made.
    #[must_use]
    pub fn of_stored_text(self) -> Self {
        Binder { is_stored: true, ..self }
    }

    /// Notes that the statement needs privileges on a relation. Returns the place of the need, for its columns.
    pub fn need(&self, relation: u32, privileges: Privileges) -> usize {
        let mut needs = self.needs.borrow_mut();
        needs.push(RelationNeed { relation, privileges, ..RelationNeed::default() });
        needs.len() - 1
    }

    /// Adds to a need.
    pub fn extend_need(&self, at: usize, extend: impl FnOnce(&mut RelationNeed)) {
        if let Some(need) = self.needs.borrow_mut().get_mut(at) {
            extend(need);
        }
    }

    /// Returns the needs of the statement.
    pub fn take_needs(&self) -> Vec<RelationNeed> {
        self.needs.take()
    }

    /// Takes over the needs of a view's query, which are those of the view's owner.
    pub(super) fn need_as_owner(&self, view: &ViewInfo, inner: &Binder<'_>) {
        let own = |need: RelationNeed| RelationNeed { role: need.role.or(Some(view.owner)), ..need };
        self.needs.borrow_mut().extend(inner.take_needs().into_iter().map(own));
    }

    /// Notes that an expression over the row of this scope reads the columns that it has slots of.
    pub(super) fn note_reads(&self, value: &Expr, scope: &NameScope<'_>) {
        let of_need = scope.relations.iter().filter_map(|relation| Some((relation.need?, relation)));
        match value {
            Expr::Column(slot) => of_need.for_each(|(need, relation)| self.note_read(need, relation, *slot)),
            Expr::Constant(_) => {}
            other => {
                let slots = slots_of(other);
                for (need, relation) in of_need {
                    let own = relation.first..relation.first + relation.columns.len();
                    own.filter(|slot| slots.has(*slot)).for_each(|slot| self.note_read(need, relation, slot));
                }
            }
        }
    }

    fn note_read(&self, need: usize, relation: &FromRelation, slot: usize) {
        let Some(at) = slot.checked_sub(relation.first).filter(|at| *at < relation.columns.len()) else { return };
        let number = match &relation.table {
            Some(table) => table.columns.get(at).map_or(0, |column| column.number),
            None => i16::try_from(at + 1).unwrap_or(0),
        };
        self.extend_need(need, |need| add_read(need, number));
    }

    /// Notes that the statement reads these columns of a table.
    pub(super) fn note_columns_read(&self, need: usize, table: &TableInfo, places: &[usize]) {
        let numbers = places.iter().filter_map(|at| table.columns.get(*at)).map(|column| column.number);
        self.extend_need(need, |need| numbers.for_each(|number| add_read(need, number)));
    }

    /// Checks that the current role may look up names in the schema of a name that has one.
    ///
    /// # Errors
    /// `42501` with a position.
    pub(super) fn check_usage(&self, schema: &str, name: &ast::ObjectName) -> SqlResult<()> {
        self.check_schema_usage(schema).map_err(|error| self.at_name(error, name))
    }

    /// Checks that the current role may look up a name, for definitions.
    ///
    /// # Errors
    /// `42501` without a position.
    pub fn check_lookup(&self, name: &QualifiedName) -> SqlResult<()> {
        name.schema.as_ref().map_or(Ok(()), |schema| self.check_schema_usage(schema))
    }

    /// Checks the schema of a name that is written in a text.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_written_usage(&self, text: &str) -> SqlResult<()> {
        match syntax::names::name_parts(text).as_deref() {
            Some([.., schema, _]) => self.check_schema_usage(schema),
            Some(_) | None => Ok(()),
        }
    }

    fn check_schema_usage(&self, schema: &str) -> SqlResult<()> {
        if self.is_stored {
            return Ok(());
        }
        Rights::of_session(self.catalog, self.env)
            .map_or(Ok(()), |rights| rights.check_schema(schema, Privileges::USAGE))
    }

    /// Returns the need of a relation in FROM. For the target of a change it begins empty: the change adds to it.
    pub(super) fn need_in_from(&self, oid: u32, name: &ast::ObjectName) -> usize {
        let is_target = name.parts.last().is_some_and(|name| self.target.get() == Some(name.span.start));
        self.need(oid, if is_target { Privileges::NONE } else { Privileges::SELECT })
    }
}

fn add_read(need: &mut RelationNeed, number: i16) {
    need.privileges |= Privileges::SELECT;
    if !need.reads.contains(&number) {
        need.reads.push(number);
    }
}

/// Returns the attribute numbers of these columns.
pub(super) fn numbers_of(table: &TableInfo, places: &[usize]) -> Vec<i16> {
    places.iter().filter_map(|at| table.columns.get(*at)).map(|column| column.number).collect()
}
