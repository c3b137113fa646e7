//! `LIKE` in `CREATE TABLE`: columns copied from another relation, and what `INCLUDING` adds to them.

use super::Ddl;
use super::columns::TableDraft;
use super::constraints::{NewConstraint, NewConstraintKind};
use super::sequence::SequenceParameters;
use catalog::acl::Privileges;
use catalog::{ColumnDef, ConstraintKind, IdentityColumn, IndexMethod, Relation, TableInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{KeyOptions, LikeOption, Name, ObjectName};
use syntax::lex::Span;

/// Index to be created once the table has its columns.
pub(super) struct LikeIndex {
    method: IndexMethod,
    columns: Vec<String>,
    include: Vec<String>,
    order: Vec<catalog::IndexOrder>,
    is_unique: bool,
}

/// Properties to be copied beside names and types.
struct LikeProperties<'o>(&'o [(bool, LikeOption)]);

impl LikeProperties<'_> {
    /// Returns true if the property is included. The last option that mentions it decides.
    fn has(&self, what: LikeOption) -> bool {
        let said = self.0.iter().rev().find(|(_, of)| *of == what || *of == LikeOption::All);
        said.is_some_and(|(is_included, _)| *is_included)
    }
}

impl Ddl<'_> {
    /// Adds the columns of another relation to the draft. `options` are the `INCLUDING` (true) and `EXCLUDING` clauses.
    pub(super) fn add_like(
        &mut self,
        draft: &mut TableDraft,
        name: &ObjectName,
        options: &[(bool, LikeOption)],
        pending: &mut Vec<NewConstraint<'_>>,
        indexes: &mut Vec<LikeIndex>,
    ) -> SqlResult<()> {
        let including = LikeProperties(options);
        let relation = self.binder().relation_named(name)?.clone();
        if relation.as_table().is_some() || relation.as_view().is_some() {
            self.check_privilege(relation.oid(), Privileges::SELECT)?;
        }
        match &relation {
            Relation::Table(table) => {
                for column in &table.columns {
                    self.add_like_column(draft, table, column, &including)?;
                }
                // Defaults, identities and comments are copied with each column; the rest belongs to the table as a
                // whole.
                if including.has(LikeOption::Constraints) {
                    let checks = table.checks();
                    pending.extend(
                        checks.map(|(one, check)| copied(Some(&one.name), NewConstraintKind::Copied(check.clone()))),
                    );
                }
                if including.has(LikeOption::Indexes) {
                    like_indexes(table, pending, indexes);
                }
            }
            Relation::View(view) => {
                for (name, kind) in &view.columns {
                    let number = self.like_number(draft, name)?;
                    draft.columns.push(ColumnDef {
                        name: name.clone(),
                        number,
                        kind: *kind,
                        not_null: false,
                        default: None,
                        identity: None,
                        collation: None,
                    });
                }
            }
            other => {
                let message = format!("relation \"{}\" is invalid in LIKE clause", other.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
        Ok(())
    }

    /// Returns the number of a new column of this name.
    fn like_number(&self, draft: &mut TableDraft, name: &str) -> SqlResult<i16> {
        if draft.column(name).is_some() {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        draft.next_column += 1;
        Ok(draft.next_column - 1)
    }

    fn add_like_column(
        &mut self,
        draft: &mut TableDraft,
        table: &TableInfo,
        column: &ColumnDef,
        including: &LikeProperties<'_>,
    ) -> SqlResult<()> {
        let number = self.like_number(draft, &column.name)?;
        let default = column.default.clone().filter(|_| including.has(LikeOption::Defaults));
        let mut own = ColumnDef { number, default, identity: None, ..column.clone() };
        if let Some(IdentityColumn { always, sequence }) = column.identity
            && including.has(LikeOption::Identity)
            && let Some(Relation::Sequence(sequence)) = self.state.relation_numbered(sequence)
        {
            let mut numbers = SequenceParameters::of_sequence(sequence, sequence.kind);
            // The copy gets a sequence of its own, which starts anew.
            numbers.value = None;
            self.number(draft, &mut own, Some(always), numbers)?;
        }
        if including.has(LikeOption::Comments) {
            let comment = self.state.comment(table.oid, column.number).map(str::to_owned);
            self.state.set_comment(draft.oid, number, comment.as_deref());
        }
        draft.columns.push(own);
        Ok(())
    }

    /// Creates the indexes that belong to no constraint, with names of their own.
    pub(super) fn add_like_indexes(&mut self, draft: &mut TableDraft, indexes: Vec<LikeIndex>) -> SqlResult<()> {
        for LikeIndex { method, columns, include, order, is_unique } in indexes {
            let positions = columns.iter().map(|name| draft.need_column(name)).collect::<SqlResult<Vec<_>>>()?;
            let include = include.iter().map(|name| draft.need_column(name)).collect::<SqlResult<Vec<_>>>()?;
            let mut parts = vec![&*draft.name];
            parts.extend(positions.iter().chain(&include).map(|at| &*draft.columns[*at].name));
            let name = self.free_name(&parts, "idx", |name| self.is_taken_beside(draft, name));
            let at = self.add_index(draft, name, [positions, include], [is_unique, false])?;
            (draft.indexes[at].order, draft.indexes[at].method) = (order, method);
        }
        Ok(())
    }
}

/// Collects the indexes of a table. Keys become constraints, and get names as if they had been written in the
/// statement.
fn like_indexes(table: &TableInfo, pending: &mut Vec<NewConstraint<'_>>, indexes: &mut Vec<LikeIndex>) {
    for (position, index) in table.indexes.iter().enumerate() {
        let names = |of: &[usize]| of.iter().map(|at| table.columns[*at].name.clone()).collect::<Vec<String>>();
        let (columns, include) = (names(&index.columns), names(&index.include));
        let is_primary = table.constraints.iter().find_map(|constraint| match constraint.what {
            ConstraintKind::PrimaryKey { index } if index == position => Some(true),
            ConstraintKind::Unique { index } if index == position => Some(false),
            ConstraintKind::PrimaryKey { .. }
            | ConstraintKind::Unique { .. }
            | ConstraintKind::Check(_)
            | ConstraintKind::ForeignKey(_) => None,
        });
        let Some(is_primary) = is_primary else {
            let (method, order, is_unique) = (index.method, index.order.clone(), index.is_unique);
            indexes.push(LikeIndex { method, columns, include, order, is_unique });
            continue;
        };
        let named = |names: Vec<String>| {
            names.into_iter().map(|text| Name { text: text.into(), span: Span::NOWHERE }).collect::<Vec<Name>>()
        };
        let options = KeyOptions { is_primary, included: named(include), ..KeyOptions::default() };
        pending.push(copied(None, NewConstraintKind::Key { options, columns: named(columns) }));
    }
}

/// Returns a constraint copied from another table.
fn copied(name: Option<&str>, what: NewConstraintKind<'static>) -> NewConstraint<'static> {
    let (name, timing, span) = (name.map(str::to_owned), Vec::new(), Span::NOWHERE);
    NewConstraint { name, what, timing, is_not_valid: false, span }
}
