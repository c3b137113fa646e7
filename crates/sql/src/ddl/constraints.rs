//! Keys, checks and foreign keys of a table that is being defined.
//!
//! **Invariant:** a valid constraint of a table holds for all its rows. Adding one to a table with rows, or validating
//! it, verifies the rows ([`Ddl::verify`]).

use super::Ddl;
use super::columns::{TableDraft, scope_of};
use catalog::storage::column_type;
use catalog::{
    CheckConstraint, ColumnDef, Constraint, ConstraintKind, ForeignAction, ForeignKey, IndexInfo, IndexMethod,
    Relation, TableInfo,
};
use engine::TableLock;
use query::bind::{Binder, Clause};
use query::constraints::compared;
use query::planner::Planner;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{
    ConstraintTiming, Expr, ExprKind, KeptExpr, KeyOptions, MatchKind, Name, Reference, ReferenceAction,
    TableConstraint, TableConstraintKind, visit,
};
use syntax::edit::{Edits, clause_words};
use syntax::grammar;
use syntax::lex::Span;
use syntax::names::quoted_name;
use types::datum::Datum;
use types::forms::Forms;
use types::ops::{CastContext, find_cast, resolve_operator};
use types::{Kind, text};

/// Names of keys in messages.
const PRIMARY_KEY: &str = "primary key";
const UNIQUE: &str = "unique";

/// Constraint that a table is to get.
#[derive(Clone)]
pub(super) struct NewConstraint<'a> {
    pub(super) name: Option<String>,
    pub(super) what: NewConstraintKind<'a>,
    /// Clauses such as `DEFERRABLE`, in order.
    pub(super) timing: Vec<ConstraintTiming>,
    /// True if existing rows may violate the constraint.
    pub(super) is_not_valid: bool,
    /// Position of the constraint; unknown if it is copied from another table.
    pub(super) span: Span,
}

/// Meaning of a new constraint.
#[derive(Clone)]
pub(super) enum NewConstraintKind<'a> {
    Check {
        condition: &'a KeptExpr,
        no_inherit: bool,
    },
    /// Condition copied from another table.
    Copied(CheckConstraint),
    Key {
        options: KeyOptions,
        columns: Vec<Name>,
    },
    Foreign {
        columns: Vec<Name>,
        reference: &'a Reference,
    },
    KeyUsingIndex,
    Exclude,
}

impl<'a> From<&'a TableConstraint> for NewConstraint<'a> {
    fn from(constraint: &'a TableConstraint) -> NewConstraint<'a> {
        let TableConstraint { name, kind, timing, is_not_valid, span } = constraint;
        let what = match kind {
            TableConstraintKind::Check { condition, no_inherit } => {
                NewConstraintKind::Check { condition, no_inherit: *no_inherit }
            }
            TableConstraintKind::Key(options, columns) => {
                NewConstraintKind::Key { options: options.clone(), columns: columns.clone() }
            }
            TableConstraintKind::Foreign(columns, reference) => {
                NewConstraintKind::Foreign { columns: columns.clone(), reference }
            }
            TableConstraintKind::KeyUsingIndex(..) => NewConstraintKind::KeyUsingIndex,
            TableConstraintKind::Exclude => NewConstraintKind::Exclude,
        };
        let (name, timing) = (name.as_ref().map(ToString::to_string), timing.clone());
        NewConstraint { name, what, timing, is_not_valid: *is_not_valid, span: *span }
    }
}

/// Returns the name of a key in messages.
pub(super) fn key_word(options: &KeyOptions) -> &'static str {
    if options.is_primary { PRIMARY_KEY } else { UNIQUE }
}

impl Ddl<'_> {
    /// Adds a constraint to the draft. Foreign keys are left to [`Ddl::add_reference`], which needs both tables.
    pub(super) fn add_constraint(&mut self, draft: &mut TableDraft, constraint: &NewConstraint<'_>) -> SqlResult<()> {
        match &constraint.what {
            NewConstraintKind::Key { options, columns } => self.add_key(draft, constraint, options, columns),
            NewConstraintKind::Check { condition, no_inherit } => {
                if is_deferrable(&constraint.timing) {
                    let message = "CHECK constraints cannot be marked DEFERRABLE";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                refuse!(*no_inherit => "NO INHERIT");
                self.add_check(draft, constraint.name.as_deref(), condition)
            }
            NewConstraintKind::Copied(check) => {
                let name = self.constraint_name(draft, constraint.name.as_deref(), &[&draft.name], "check")?;
                let what = ConstraintKind::Check(Box::new(check.clone()));
                draft.constraints.push(Constraint::new(self.catalog.oid()?, name, what));
                Ok(())
            }
            NewConstraintKind::Foreign { .. } => Ok(()),
            NewConstraintKind::KeyUsingIndex | NewConstraintKind::Exclude => {
                Err(SqlError::unsupported(clause_words(constraint.span.of(self.text))))
            }
        }
    }

    fn add_key(
        &mut self,
        draft: &mut TableDraft,
        constraint: &NewConstraint<'_>,
        options: &KeyOptions,
        columns: &[Name],
    ) -> SqlResult<()> {
        let KeyOptions { is_primary, nulls_not_distinct, included, parameters, tablespace } = options;
        refuse!(
            is_deferrable(&constraint.timing) => "a deferrable constraint",
            !parameters.is_empty() => "a storage parameter without a value, or of a key's index",
            tablespace.is_some() => "TABLESPACE of a key's index",
            *nulls_not_distinct => "NULLS NOT DISTINCT",
        );
        if *is_primary && draft.indexes.iter().any(|index| index.is_primary) {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", draft.name);
            let error = SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
            return Err(self.binder().at_place(error, constraint.span));
        }
        let columns = self.key_columns(draft, columns, constraint.span, key_word(options))?;
        if *is_primary {
            columns.iter().for_each(|at| draft.columns[*at].not_null = true);
        }
        let include = self.included(draft, included, constraint.span)?;
        self.add_key_of(draft, constraint.name.as_deref(), [columns, include], *is_primary)
    }

    /// Checks a key of ALTER TABLE before the statement changes the columns that the key names: no column appears
    /// twice, and the columns of a primary key, which become NOT NULL first, exist.
    pub(super) fn check_key(&self, draft: &TableDraft, columns: &[Name], at: Span, word: &str) -> SqlResult<()> {
        for (position, name) in columns.iter().enumerate() {
            if columns[..position].contains(name) {
                return Err(self.twice(name, at, word));
            }
        }
        if word == PRIMARY_KEY {
            columns.iter().try_for_each(|name| draft.need_column(name).map(drop))?;
        }
        Ok(())
    }

    /// Error for a column that appears twice in a key. Its position is that of the whole constraint.
    fn twice(&self, column: &str, at: Span, word: &str) -> SqlError {
        let message = format!("column \"{column}\" appears twice in {word} constraint");
        self.binder().at_place(SqlError::new(SqlState::DUPLICATE_COLUMN, message), at)
    }

    /// Returns the position of a column of a key. `at` is the position of the key's constraint in the text.
    fn key_column(&self, draft: &TableDraft, name: &str, at: Span) -> SqlResult<usize> {
        draft.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist");
            self.binder().at_place(SqlError::new(SqlState::UNDEFINED_COLUMN, message), at)
        })
    }

    fn key_columns(&self, draft: &TableDraft, of: &[Name], at: Span, word: &str) -> SqlResult<Vec<usize>> {
        let mut positions: Vec<usize> = Vec::new();
        for name in of {
            let position = self.key_column(draft, name, at)?;
            if positions.contains(&position) {
                return Err(self.twice(name, at, word));
            }
            positions.push(position);
        }
        Ok(positions)
    }

    /// Returns the positions of the included columns of a key's index.
    fn included(&self, draft: &TableDraft, of: &[Name], at: Span) -> SqlResult<Vec<usize>> {
        of.iter().map(|name| self.key_column(draft, name, at)).collect()
    }

    /// Adds an index to the draft, over its key columns and its included columns. Returns the index's position.
    pub(super) fn add_index(
        &mut self,
        draft: &mut TableDraft,
        name: String,
        [columns, include]: [Vec<usize>; 2],
        [is_unique, is_primary]: [bool; 2],
    ) -> SqlResult<usize> {
        for at in &columns {
            let column = &draft.columns[*at];
            let is_free = column.kind.kind == Kind::Numeric && column_type(column.kind)? == engine::Type::Bytes;
            refuse!(is_free => "a key on numeric of more than 38 digits, or without a precision");
        }
        let (oid, method, order) = (self.catalog.oid()?, IndexMethod::BTree, Vec::new());
        let index = IndexInfo { oid, name, method, columns, include, order, is_unique, is_primary };
        // The engine takes the first index, if it is unique, for the primary key.
        if is_primary {
            draft.indexes.insert(0, index);
            for constraint in &mut draft.constraints {
                if let ConstraintKind::Unique { index } | ConstraintKind::PrimaryKey { index } = &mut constraint.what {
                    *index += 1;
                }
            }
            return Ok(0);
        }
        draft.indexes.push(index);
        Ok(draft.indexes.len() - 1)
    }

    fn add_key_of(
        &mut self,
        draft: &mut TableDraft,
        name: Option<&str>,
        [columns, include]: [Vec<usize>; 2],
        is_primary: bool,
    ) -> SqlResult<()> {
        let is_taken = |name: &str| self.is_taken_beside(draft, name) || self.is_constraint(draft, name);
        let name = match name {
            Some(name) => {
                if self.is_taken_beside(draft, name) {
                    let message = format!("relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
                }
                check_name(draft, name)?;
                name.to_owned()
            }
            None if is_primary => self.free_name(&[&draft.name], "pkey", is_taken),
            None => {
                let mut parts = vec![&*draft.name];
                parts.extend(columns.iter().chain(&include).map(|at| &*draft.columns[*at].name));
                self.free_name(&parts, "key", is_taken)
            }
        };
        let index = self.add_index(draft, name.clone(), [columns, include], [true, is_primary])?;
        let what = if is_primary { ConstraintKind::PrimaryKey { index } } else { ConstraintKind::Unique { index } };
        draft.constraints.push(Constraint::new(self.catalog.oid()?, name, what));
        Ok(())
    }

    fn constraint_name(
        &self,
        draft: &TableDraft,
        name: Option<&str>,
        parts: &[&str],
        suffix: &str,
    ) -> SqlResult<String> {
        let Some(name) = name else {
            return Ok(self.free_name(parts, suffix, |name| self.is_constraint(draft, name)));
        };
        check_name(draft, name)?;
        Ok(name.to_owned())
    }

    /// Returns true if a table of the draft's schema has a constraint of this name. A generated name must not be one of
    /// those.
    fn is_constraint(&self, draft: &TableDraft, name: &str) -> bool {
        let has_it = |constraints: &[Constraint]| constraints.iter().any(|constraint| constraint.name == name);
        let is_other = |table: &&Arc<TableInfo>| table.schema == draft.schema && table.oid != draft.oid;
        has_it(&draft.constraints) || self.state.tables().filter(is_other).any(|table| has_it(&table.constraints))
    }

    fn add_check(&mut self, draft: &mut TableDraft, name: Option<&str>, condition: &KeptExpr) -> SqlResult<()> {
        let used = bind_check(&self.binder(), &draft.name, &draft.columns, &condition.value)?;
        // The default name is that of the only column the condition uses, wherever the constraint is written.
        let mut parts = vec![&*draft.name];
        if let [at] = used[..] {
            parts.push(&*draft.columns[at].name);
        }
        let name = self.constraint_name(draft, name, &parts, "check")?;
        let scope = scope_of(&self.binder(), &draft.name, &draft.columns)?;
        let (text, uses) = self.binder().kept(condition, &scope, Kind::Bool.into())?;
        // The text must not contain the table's name, which may change.
        let what = ConstraintKind::Check(Box::new(CheckConstraint { text: unqualified(&text)?, uses }));
        draft.constraints.push(Constraint::new(self.catalog.oid()?, name, what));
        Ok(())
    }

    /// Returns the columns that a condition uses, if a table of this name and with these columns has it.
    ///
    /// # Errors
    /// Errors of binding the condition: the columns have other types now.
    pub(super) fn columns_of_check(
        &self,
        table: &str,
        columns: &[ColumnDef],
        check: &CheckConstraint,
    ) -> SqlResult<Vec<usize>> {
        let condition = grammar::expression(&check.text)?;
        bind_check(&self.binder_of(&check.text), table, columns, &condition).map_err(SqlError::nowhere)
    }

    /// Adds a foreign key to the draft. The referenced table may be the draft's own. Both tables block writers until
    /// the end of the transaction.
    pub(super) fn add_reference(&mut self, draft: &mut TableDraft, constraint: &NewConstraint<'_>) -> SqlResult<()> {
        let NewConstraintKind::Foreign { columns, reference } = &constraint.what else { return Ok(()) };
        let Reference { table: foreign_table, columns: referred_columns, matching, on_delete, on_update } = reference;
        refuse!(
            is_deferrable(&constraint.timing) => "a deferrable constraint",
            *matching == MatchKind::Partial => "MATCH PARTIAL",
        );
        let (on_delete, on_update) = (action(on_delete, "DELETE")?, action(on_update, "UPDATE")?);
        let name = constraint.name.as_deref();
        if let Some(name) = name {
            check_name(draft, name)?;
        }
        let own = columns.iter().map(|name| referencing(&draft.columns, name)).collect::<SqlResult<Vec<_>>>()?;
        // A new table is not in the catalog yet, so a reference to its own name is resolved by the draft.
        let (parent_oid, parent_name, parent_columns, parent_indexes) = {
            let binder = self.binder();
            let qualified = binder.qualified(foreign_table)?;
            binder.check_lookup(&qualified)?;
            let found = binder.find(&qualified).map(Relation::oid);
            if found == Some(draft.oid) || (found.is_none() && qualified.name == draft.name) {
                (draft.oid, draft.name.clone(), draft.columns.clone(), draft.indexes.clone())
            } else {
                let parent = match binder.relation_named(foreign_table)? {
                    Relation::Table(table) => Arc::clone(table),
                    other => {
                        let message = format!("referenced relation \"{}\" is not a table", other.name());
                        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
                    }
                };
                self.lock(&parent, TableLock::ShareRowExclusive)?;
                (parent.oid, parent.name.clone(), parent.columns.clone(), parent.indexes.clone())
            }
        };
        let referred: Vec<usize> = if referred_columns.is_empty() {
            let primary = parent_indexes.iter().find(|index| index.is_primary).ok_or_else(|| {
                let message = format!("there is no primary key for referenced table \"{parent_name}\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            })?;
            primary.columns.clone()
        } else {
            referred_columns.iter().map(|name| referencing(&parent_columns, name)).collect::<SqlResult<_>>()?
        };
        let invalid = |message: String| SqlError::new(SqlState::INVALID_FOREIGN_KEY, message);
        // The key and the reference may list the columns in different orders.
        let is_key = |index: &&IndexInfo| {
            index.is_unique
                && index.columns.len() == referred.len()
                && index.columns.iter().all(|column| referred.contains(column))
        };
        if parent_oid != draft.oid {
            self.check_references(parent_oid, &parent_columns, &referred)?;
        }
        if parent_indexes.iter().find(is_key).is_none() {
            let message =
                format!("there is no unique constraint matching given keys for referenced table \"{parent_name}\"");
            return Err(invalid(message));
        }
        if referred.len() != own.len() {
            return Err(invalid("number of referencing and referenced columns for foreign key disagree".to_owned()));
        }
        let mut parts = vec![&*draft.name];
        parts.extend(own.iter().map(|at| &*draft.columns[*at].name));
        let name = self.constraint_name(draft, name, &parts, "fkey")?;
        for (from, to) in own.iter().zip(&referred) {
            let (from, to) = (&draft.columns[*from], &parent_columns[*to]);
            if !can_refer(from.kind.kind, to.kind.kind) {
                let message = format!("foreign key constraint \"{name}\" cannot be implemented");
                let detail = format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    from.name,
                    to.name,
                    from.kind.kind.name(),
                    to.kind.kind.name()
                );
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).detail(detail));
            }
        }
        let foreign = ForeignKey {
            columns: own,
            parent: parent_oid,
            parent_columns: referred.iter().map(|at| parent_columns[*at].number).collect(),
            on_delete,
            on_update,
            match_full: *matching == MatchKind::Full,
        };
        let what = ConstraintKind::ForeignKey(foreign);
        draft.constraints.push(Constraint::new(self.catalog.oid()?, name, what));
        Ok(())
    }

    /// Verifies that all rows of a table satisfy its new constraints. The table is part of the state already.
    pub(super) fn verify(&self, table: &TableInfo, is_new: impl Fn(&Constraint) -> bool) -> SqlResult<()> {
        let quoted = quoted_name;
        let full = |table: &TableInfo| {
            let schema = self.state.schema_numbered(table.schema).map_or("public", |schema| &schema.name);
            format!("{}.{}", quoted(schema), quoted(&table.name))
        };
        for constraint in table.constraints.iter().filter(|constraint| is_new(constraint)) {
            match &constraint.what {
                ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } => {}
                ConstraintKind::Check(check) => {
                    let text = format!("SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1", full(table), check.text);
                    if !self.rows_of(&text)?.is_empty() {
                        let message = format!(
                            "check constraint \"{}\" of relation \"{}\" is violated by some row",
                            constraint.name, table.name
                        );
                        let error = SqlError::new(SqlState::CHECK_VIOLATION, message);
                        return Err(self.state.about(error, table).about_constraint(&constraint.name));
                    }
                }
                ConstraintKind::ForeignKey(key) => {
                    let Some(parent) = self.state.table_numbered(key.parent) else { continue };
                    let own: Vec<String> =
                        key.columns.iter().map(|at| format!("c.{}", quoted(&table.columns[*at].name))).collect();
                    let referred = key.parent_columns.iter().filter_map(|number| parent.column_numbered(*number));
                    let pair = |((at, own), other): ((&usize, &String), usize)| {
                        let other = &parent.columns[other];
                        let kind = table.columns[*at].kind.kind;
                        let compared = compared(kind, other.kind.kind);
                        // The same comparison as in the lookup of a key by statements that change rows.
                        let cast = if compared == kind { "" } else { "::bpchar" };
                        format!("{own}{cast} = p.{}", quoted(&other.name))
                    };
                    let pairs: Vec<String> = key.columns.iter().zip(&own).zip(referred).map(pair).collect();
                    let each = |test: &str, by: &str| {
                        own.iter().map(|own| format!("{own} IS {test}")).collect::<Vec<_>>().join(by)
                    };
                    let there = if key.match_full {
                        format!("NOT ({})", each("NULL", " AND "))
                    } else {
                        each("NOT NULL", " AND ")
                    };
                    let text = format!(
                        "SELECT {} FROM {} c WHERE ({there}) AND NOT EXISTS (SELECT 1 FROM {} p WHERE {}) LIMIT 1",
                        own.join(", "),
                        full(table),
                        full(parent),
                        pairs.join(" AND ")
                    );
                    let Some(row) = self.rows_of(&text)?.into_iter().next() else { continue };
                    let message = format!(
                        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                        table.name, constraint.name
                    );
                    let columns: Vec<&str> = key.columns.iter().map(|at| &*table.columns[*at].name).collect();
                    let values: Vec<String> = row
                        .iter()
                        .zip(&key.columns)
                        .map(|(value, at)| shown(value, &table.columns[*at], &self.run.env.forms))
                        .collect();
                    let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message).detail(format!(
                        "Key ({})=({}) is not present in table \"{}\".",
                        columns.join(", "),
                        values.join(", "),
                        parent.name
                    ));
                    return Err(self.state.about(error, table).about_constraint(&constraint.name));
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of an internal query.
    fn rows_of(&self, text: &str) -> SqlResult<Vec<Box<[Datum]>>> {
        let bound = self.binder_of(text).query(&grammar::query(text)?, None)?;
        self.run.collect(&Planner::default().query(bound.plan)?)
    }
}

/// Returns true if values of a column can be looked up among those of a key: an operator compares both as they are, or
/// the column's after a cast to the key's type.
fn can_refer(from: Kind, to: Kind) -> bool {
    let plain = |kind: Kind| if kind == Kind::Varchar { Kind::Text } else { kind };
    let (from, to) = (plain(from), plain(to));
    resolve_operator("=", Some(to), from).is_ok_and(|found| {
        let is_direct = (found.operator.left, found.operator.right) == (Some(to), from);
        is_direct || from == to || find_cast(from, to, CastContext::Implicit).is_some()
    })
}

/// Checks that a constraint's name is free.
///
/// # Errors
/// `42710`: the table has a constraint of this name.
fn check_name(draft: &TableDraft, name: &str) -> SqlResult<()> {
    if draft.constraints.iter().all(|constraint| constraint.name != name) {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", draft.name);
    Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
}

/// Binds a condition over one row. Returns the columns that it uses.
fn bind_check(binder: &Binder<'_>, table: &str, columns: &[ColumnDef], condition: &Expr) -> SqlResult<Vec<usize>> {
    let scope = scope_of(binder, table, columns)?;
    scope.clause.set(Clause::Check);
    let bound = binder.expr(condition, &scope)?;
    let bound = binder.condition(bound, "CHECK")?;
    binder.without_parameters()?;
    let mut used = Vec::new();
    columns_in(&bound, &mut used);
    Ok(used)
}

/// Returns the position of a column that a foreign key names.
fn referencing(columns: &[ColumnDef], name: &str) -> SqlResult<usize> {
    columns.iter().position(|column| column.name == name).ok_or_else(|| {
        let message = format!("column \"{name}\" referenced in foreign key constraint does not exist");
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// Returns a condition without the table's name before its columns, so that it holds whatever the name of the table.
fn unqualified(condition: &str) -> SqlResult<String> {
    struct ColumnUnqualifier<'t> {
        text: &'t str,
        edits: Edits,
    }
    impl visit::Visitor for ColumnUnqualifier<'_> {
        fn expr(&mut self, expr: &Expr) {
            if let ExprKind::Column(name) = &expr.kind
                && let [_, .., own] = &name.parts[..]
            {
                self.edits.replace(name.span(), own.span.of(self.text));
            }
        }
    }
    let mut names = ColumnUnqualifier { text: condition, edits: Edits::default() };
    visit::expr(&grammar::expression(condition)?, &mut names);
    Ok(names.edits.apply(condition, Span::new(0, condition.len())))
}

fn shown(value: &Datum, column: &ColumnDef, forms: &Forms) -> String {
    if value.is_null() { "null".to_owned() } else { text::to_string(value, column.kind, forms) }
}

/// Collects the columns of the row that an expression uses.
fn columns_in(expr: &query::plan::Expr, found: &mut Vec<usize>) {
    if let query::plan::Expr::Column(at) = expr
        && !found.contains(at)
    {
        found.push(*at);
    }
    expr.parts().into_iter().for_each(|part| columns_in(part, found));
}

fn action(action: &ReferenceAction, when: &str) -> SqlResult<ForeignAction> {
    let (words, columns, action) = match action {
        ReferenceAction::NoAction => return Ok(ForeignAction::NoAction),
        ReferenceAction::Restrict => return Ok(ForeignAction::Restrict),
        ReferenceAction::Cascade => return Ok(ForeignAction::Cascade),
        ReferenceAction::SetNull(columns) => ("SET NULL", columns, ForeignAction::SetNull),
        ReferenceAction::SetDefault(columns) => ("SET DEFAULT", columns, ForeignAction::SetDefault),
    };
    refuse!(!columns.is_empty() => format_args!("ON {when} {words} with columns"));
    Ok(action)
}

/// Returns true if a clause makes the constraint deferrable, which it is not by default.
fn is_deferrable(timing: &[ConstraintTiming]) -> bool {
    timing.iter().any(|one| match one {
        ConstraintTiming::Deferrable | ConstraintTiming::InitiallyDeferred => true,
        ConstraintTiming::NotDeferrable | ConstraintTiming::InitiallyImmediate => false,
    })
}
