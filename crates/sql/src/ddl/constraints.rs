//! Keys, checks and references of a table being defined.
//!
//! **Invariant:** a valid constraint of a table holds for all its rows: who adds one to a table with rows, or validates it,
//! looks ([`Ddl::verify`]).

use super::Ddl;
use super::columns::{Draft, scope_of};
use catalog::storage::column_type;
use catalog::{
    Check, ColumnDef, Constraint, ConstraintKind, ForeignAction, ForeignKey, IndexInfo, IndexMethod, Relation,
    TableInfo,
};
use engine::TableLock;
use query::bind::Clause;
use query::constraints::compared;
use sqlparser::ast::{self, ReferentialAction, TableConstraint};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::ops::ControlFlow;
use std::sync::Arc;
use syntax::parse::folded;
use types::datum::Datum;
use types::forms::Forms;
use types::ops::{Context, find_cast, resolve_operator};
use types::{Kind, text};

/// Names of keys in messages.
pub(super) const PRIMARY_KEY: &str = "primary key";
pub(super) const UNIQUE: &str = "unique";

impl Ddl<'_> {
    /// Adds a constraint to the draft. References to others are left to [`Ddl::add_reference`], for which both tables must
    /// be there.
    pub(super) fn add_constraint(&mut self, draft: &mut Draft, constraint: &TableConstraint) -> SqlResult<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                refuse!(
                    is_deferrable(key.characteristics) => "a deferrable constraint",
                    !key.index_options.is_empty() || key.index_type.is_some() || key.index_name.is_some() =>
                        "an option of a key's index",
                );
                if draft.indexes.iter().any(|index| index.is_primary) {
                    let message = format!("multiple primary keys for table \"{}\" are not allowed", draft.name);
                    let (error, binder) = (SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message), self.binder());
                    let place = binder.source.all(&["PRIMARY", "KEY"]).get(1).copied().unwrap_or_default();
                    return Err(binder.at_place(error, place));
                }
                let columns = self.key_columns(draft, &key.columns, PRIMARY_KEY)?;
                columns.iter().for_each(|at| draft.columns[*at].not_null = true);
                let include = self.included(draft, &key.include)?;
                self.add_key(draft, key.name.as_ref(), [columns, include], true)
            }
            TableConstraint::Unique(key) => {
                refuse!(
                    is_deferrable(key.characteristics) => "a deferrable constraint",
                    !key.index_options.is_empty() || key.index_type.is_some() || key.index_name.is_some() =>
                        "an option of a key's index",
                    key.nulls_distinct == ast::NullsDistinctOption::NotDistinct => "NULLS NOT DISTINCT",
                );
                let columns = self.key_columns(draft, &key.columns, UNIQUE)?;
                let include = self.included(draft, &key.include)?;
                self.add_key(draft, key.name.as_ref(), [columns, include], false)
            }
            TableConstraint::Check(check) => self.add_check(draft, check),
            TableConstraint::ForeignKey(_) => Ok(()),
            other => Err(SqlError::unsupported(format_args!("{other}"))),
        }
    }

    /// Looks at what ALTER TABLE says of a key before it changes what the key may name: no column stands there twice, and those of a
    /// primary key, which become NOT NULL first, are there.
    pub(super) fn check_key(&self, draft: &Draft, columns: &[ast::IndexColumn], word: &str) -> SqlResult<()> {
        let mut names: Vec<String> = Vec::new();
        for column in columns {
            let ast::Expr::Identifier(ident) = &column.column.expr else { continue };
            let name = folded(ident);
            if names.contains(&name) {
                return Err(self.twice(ident, word));
            }
            names.push(name);
        }
        if word == PRIMARY_KEY {
            names.iter().try_for_each(|name| draft.need_column(name).map(drop))?;
        }
        Ok(())
    }

    /// An error at a key's column. The place is that of the whole constraint.
    fn at_key(&self, error: SqlError, column: &ast::Ident) -> SqlError {
        let binder = self.binder();
        let place = binder.source.constraint_before(column.span.into(), &["PRIMARY", "UNIQUE"]);
        binder.at_place(error, place)
    }

    fn twice(&self, column: &ast::Ident, word: &str) -> SqlError {
        let message = format!("column \"{}\" appears twice in {word} constraint", folded(column));
        self.at_key(SqlError::new(SqlState::DUPLICATE_COLUMN, message), column)
    }

    fn key_columns(&self, draft: &Draft, of: &[ast::IndexColumn], word: &str) -> SqlResult<Vec<usize>> {
        let mut positions: Vec<usize> = Vec::new();
        for column in of {
            let ast::IndexColumn {
                column: ast::OrderByExpr { expr, options: _, with_fill: None },
                operator_class: None,
            } = column
            else {
                return Err(SqlError::unsupported("an option of a key's column"));
            };
            let ast::Expr::Identifier(ident) = expr else {
                return Err(SqlError::unsupported("an expression in a key"));
            };
            let wanted = folded(ident);
            let at = draft.column(&wanted).ok_or_else(|| {
                let message = format!("column \"{wanted}\" named in key does not exist");
                self.at_key(SqlError::new(SqlState::UNDEFINED_COLUMN, message), ident)
            })?;
            if positions.contains(&at) {
                return Err(self.twice(ident, word));
            }
            positions.push(at);
        }
        Ok(positions)
    }

    /// Positions of the columns that a key's index has beside the key.
    fn included(&self, draft: &Draft, of: &[ast::Ident]) -> SqlResult<Vec<usize>> {
        let place = |ident: &ast::Ident| {
            let wanted = folded(ident);
            draft.column(&wanted).ok_or_else(|| {
                let message = format!("column \"{wanted}\" named in key does not exist");
                let binder = self.binder();
                let place = binder.source.constraint_before(ident.span.into(), &["PRIMARY", "UNIQUE"]);
                binder.at_place(SqlError::new(SqlState::UNDEFINED_COLUMN, message), place)
            })
        };
        of.iter().map(place).collect()
    }

    /// Adds an index of these columns, those of its key and others, to the draft. Returns its position.
    pub(super) fn add_index(
        &mut self,
        draft: &mut Draft,
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

    fn add_key(
        &mut self,
        draft: &mut Draft,
        name: Option<&ast::Ident>,
        [columns, include]: [Vec<usize>; 2],
        is_primary: bool,
    ) -> SqlResult<()> {
        let is_taken = |name: &str| self.is_taken_beside(draft, name) || self.is_constraint(draft, name);
        let name = match name {
            Some(name) => {
                let name = folded(name);
                if self.is_taken_beside(draft, &name) {
                    let message = format!("relation \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
                }
                check_name(draft, &name)?;
                name
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
        draft: &Draft,
        name: Option<&ast::Ident>,
        parts: &[&str],
        suffix: &str,
    ) -> SqlResult<String> {
        let Some(name) = name else {
            return Ok(self.free_name(parts, suffix, |name| self.is_constraint(draft, name)));
        };
        let name = folded(name);
        check_name(draft, &name)?;
        Ok(name)
    }

    /// Tells whether a table of the draft's schema has a constraint of this name. A name that nobody has said is not one of those.
    fn is_constraint(&self, draft: &Draft, name: &str) -> bool {
        let has_it = |constraints: &[Constraint]| constraints.iter().any(|constraint| constraint.name == name);
        let is_other = |table: &&Arc<TableInfo>| table.schema == draft.schema && table.oid != draft.oid;
        has_it(&draft.constraints) || self.state.tables().filter(is_other).any(|table| has_it(&table.constraints))
    }

    fn add_check(&mut self, draft: &mut Draft, check: &ast::CheckConstraint) -> SqlResult<()> {
        let ast::CheckConstraint { name, expr, no_inherit, enforced } = check;
        refuse!(*no_inherit => "NO INHERIT", enforced.is_some() => "ENFORCED");
        let used = self.bind_check(&draft.name, &draft.columns, expr)?;
        // Named after its only column, wherever it stands.
        let mut parts = vec![&*draft.name];
        if let [at] = used[..] {
            parts.push(&*draft.columns[at].name);
        }
        let name = self.constraint_name(draft, name.as_ref(), &parts, "check")?;
        // Nothing in it stands for the table's name, which may change.
        let binder = self.binder();
        let scope = scope_of(&binder, &draft.name, &draft.columns)?;
        let (tree, uses) = self.binder().kept(&unqualified(expr), &scope, Kind::Bool.into())?;
        let check = Check { tree, uses };
        let what = ConstraintKind::Check(Box::new(check));
        draft.constraints.push(Constraint::new(self.catalog.oid()?, name, what));
        Ok(())
    }

    /// Binds a condition over one row. Returns the columns that it looks at.
    pub(super) fn bind_check(&self, table: &str, columns: &[ColumnDef], expr: &ast::Expr) -> SqlResult<Vec<usize>> {
        let binder = self.binder();
        let scope = scope_of(&binder, table, columns)?;
        scope.clause.set(Clause::Check);
        let bound = binder.expr(expr, &scope)?;
        let bound = binder.condition(bound, "CHECK")?;
        binder.without_parameters()?;
        let mut used = Vec::new();
        columns_in(&bound, &mut used);
        Ok(used)
    }

    /// Adds a reference to the draft, whose table may be the draft's own. Both tables keep writers out until the end.
    pub(super) fn add_reference(&mut self, draft: &mut Draft, key: &ast::ForeignKeyConstraint) -> SqlResult<()> {
        let ast::ForeignKeyConstraint {
            name,
            index_name,
            columns,
            foreign_table,
            referred_columns,
            on_delete,
            on_update,
            match_kind,
            characteristics,
        } = key;
        refuse!(
            index_name.is_some() => "an index name of a reference", is_deferrable(*characteristics) => "a deferrable constraint",
            *match_kind == Some(ast::ConstraintReferenceMatchKind::Partial) => "MATCH PARTIAL",
        );
        if let Some(name) = name {
            check_name(draft, &folded(name))?;
        }
        let mut own: Vec<usize> = Vec::new();
        for ident in columns {
            let wanted = folded(ident);
            own.push(draft.column(&wanted).ok_or_else(|| {
                let message = format!("column \"{wanted}\" referenced in foreign key constraint does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })?);
        }
        let (parent_oid, parent_name, parent_columns, parent_indexes) = {
            let binder = self.binder();
            let qualified = binder.qualified(foreign_table)?;
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
            let place = |ident: &ast::Ident| {
                let wanted = folded(ident);
                parent_columns.iter().position(|column| column.name == wanted).ok_or_else(|| {
                    let message = format!("column \"{wanted}\" referenced in foreign key constraint does not exist");
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })
            };
            referred_columns.iter().map(place).collect::<SqlResult<_>>()?
        };
        let invalid = |message: String| SqlError::new(SqlState("42830"), message);
        let is_key = |index: &&IndexInfo| {
            index.is_unique
                && index.columns.len() == referred.len()
                && index.columns.iter().all(|column| referred.contains(column))
        };
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
        let name = self.constraint_name(draft, name.as_ref(), &parts, "fkey")?;
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
            on_delete: action(*on_delete),
            on_update: action(*on_update),
            match_full: *match_kind == Some(ast::ConstraintReferenceMatchKind::Full),
        };
        let what = ConstraintKind::ForeignKey(foreign);
        draft.constraints.push(Constraint::new(self.catalog.oid()?, name, what));
        Ok(())
    }

    /// Looks whether all rows of a table satisfy the constraints that it did not have before. The table is part of the
    /// state already.
    pub(super) fn verify(&self, table: &TableInfo, is_new: impl Fn(&Constraint) -> bool) -> SqlResult<()> {
        let quoted = |name: &str| ast::Ident::with_quote('"', name).to_string();
        let full = |table: &TableInfo| {
            let schema = self.state.schema_numbered(table.schema).map_or("public", |schema| &schema.name);
            format!("{}.{}", quoted(schema), quoted(&table.name))
        };
        for constraint in table.constraints.iter().filter(|constraint| is_new(constraint)) {
            match &constraint.what {
                ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } => {}
                ConstraintKind::Check(check) => {
                    let text = format!("SELECT 1 FROM {} WHERE NOT ({}) LIMIT 1", full(table), check.tree);
                    if !self.rows_of(&text)?.is_empty() {
                        let message = format!(
                            "check constraint \"{}\" of relation \"{}\" is violated by some row",
                            constraint.name, table.name
                        );
                        let error = SqlError::new(SqlState("23514"), message);
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
                        // As those who change rows look for the key.
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
                    let error = SqlError::new(SqlState("23503"), message).detail(format!(
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

    /// The rows of a query of ours.
    fn rows_of(&self, text: &str) -> SqlResult<Vec<Box<[Datum]>>> {
        let parsed = syntax::parse::parse(text)?;
        let [syntax::parse::Parsed { tree: ast::Statement::Query(query), .. }] = &parsed[..] else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a query of ours does not parse"));
        };
        let binder = query::bind::Binder::new(&self.state, self.path, text, self.run.env, Vec::new());
        let bound = binder.query(query, None)?;
        self.run.collect(&bound.plan, None)
    }
}

/// Tells whether values of a column can be looked up among those of a key: an operator compares both as they are, or the column's as
/// the key's.
fn can_refer(from: Kind, to: Kind) -> bool {
    let plain = |kind: Kind| if kind == Kind::Varchar { Kind::Text } else { kind };
    let (from, to) = (plain(from), plain(to));
    resolve_operator("=", Some(to), from).is_ok_and(|found| {
        let is_direct = (found.operator.left, found.operator.right) == (Some(to), from);
        is_direct || from == to || find_cast(from, to, Context::Implicit).is_some()
    })
}

/// # Errors
/// `42710`: the table has a constraint of this name.
fn check_name(draft: &Draft, name: &str) -> SqlResult<()> {
    if draft.constraints.iter().all(|constraint| constraint.name != name) {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", draft.name);
    Err(SqlError::new(SqlState("42710"), message))
}

/// A condition without the table's name before its columns': it holds for a row of whatever name.
fn unqualified(tree: &ast::Expr) -> ast::Expr {
    let mut tree = tree.clone();
    let _ = ast::visit_expressions_mut(&mut tree, |expr| {
        if let ast::Expr::CompoundIdentifier(parts) = expr
            && let Some(last) = parts.pop()
        {
            *expr = ast::Expr::Identifier(last);
        }
        ControlFlow::<()>::Continue(())
    });
    tree
}

fn shown(value: &Datum, column: &ColumnDef, forms: &Forms) -> String {
    if value.is_null() { "null".to_owned() } else { text::to_string(value, column.kind, forms) }
}

/// The columns of the row that an expression looks at.
fn columns_in(expr: &query::plan::Expr, found: &mut Vec<usize>) {
    if let query::plan::Expr::Column(at) = expr
        && !found.contains(at)
    {
        found.push(*at);
    }
    expr.parts().into_iter().for_each(|part| columns_in(part, found));
}

fn action(action: Option<ReferentialAction>) -> ForeignAction {
    match action {
        None | Some(ReferentialAction::NoAction) => ForeignAction::NoAction,
        Some(ReferentialAction::Restrict) => ForeignAction::Restrict,
        Some(ReferentialAction::Cascade) => ForeignAction::Cascade,
        Some(ReferentialAction::SetNull) => ForeignAction::SetNull,
        Some(ReferentialAction::SetDefault) => ForeignAction::SetDefault,
    }
}

/// Whether it says anything but what is so anyway.
fn is_deferrable(characteristics: Option<ast::ConstraintCharacteristics>) -> bool {
    let Some(ast::ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics else {
        return false;
    };
    deferrable == Some(true) || initially == Some(ast::DeferrableInitial::Deferred) || enforced.is_some()
}
