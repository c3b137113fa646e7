//! Resolution of column names.

use super::{Binder, Clause, FromRelation, NameScope, NameTarget, Visibility};
use crate::plan::{Expr, Typed};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{Name, ObjectName};
use types::datum::Datum;
use types::{Kind, SqlType};

impl NameScope<'_> {
    /// True if the expression that is being bound may refer to the relation.
    fn sees(&self, relation: &FromRelation) -> bool {
        match relation.reach {
            Visibility::All => true,
            Visibility::Lateral { .. } => self.is_lateral.get(),
        }
    }

    /// Returns `table.column` of a slot of the row, for messages.
    pub(super) fn name_of(&self, slot: usize) -> String {
        let named = self.relations.iter().find_map(|relation| {
            let at = relation.values.iter().position(|value| matches!(value, Expr::Column(at) if *at == slot))?;
            Some(format!("{}.{}", relation.alias, relation.columns.get(at)?.name))
        });
        named.unwrap_or_default()
    }
}

/// The `tableoid` column of a system table, which psql selects with each row. It is null in rows that an outer join
/// extends with nulls.
fn tableoid(relation: &FromRelation) -> Option<(Expr, SqlType)> {
    let number = relation.system?;
    let key = Box::new(relation.values.first()?.clone());
    let whens = vec![(Expr::IsNull(key), Expr::Constant(Datum::Null))];
    Some((Expr::Case { whens, otherwise: Box::new(Expr::Constant(Datum::Oid(number))) }, Kind::Oid.into()))
}

/// Returns the only column of a function in FROM whose row is named as a value: `e` in `unnest(...) e (v)`.
fn value_of_row(name: &Name, scope: &NameScope<'_>) -> Option<Name> {
    let is_it = |one: &FromRelation| one.is_named && one.is_value && one.alias == **name;
    let (_, relation) = all_relations(scope).find(|(scope, one)| is_it(one) && scope.sees(one))?;
    Some(Name { text: relation.columns.first()?.name.as_str().into(), span: name.span })
}

/// Qualifier of a column name or of `*`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Qualifier {
    /// Alias of a relation in FROM.
    Alias(String),
    /// OID of a relation named with its schema. It matches only an entry of FROM without an alias.
    Own(u32),
}

impl Qualifier {
    pub(super) fn is(&self, relation: &FromRelation) -> bool {
        match self {
            Qualifier::Alias(alias) => relation.is_named && *alias == relation.alias,
            Qualifier::Own(oid) => relation.is_named && relation.own == Some(*oid),
        }
    }
}

impl Binder<'_> {
    /// Returns the qualifier that these parts form; `None` if they name nothing that can stand in FROM.
    pub(super) fn qualifier(&self, parts: &[Name]) -> Option<Qualifier> {
        match parts {
            [alias] => Some(Qualifier::Alias(alias.to_string())),
            [schema, table] => self.relation_number(schema, table).map(Qualifier::Own),
            [database, schema, table] if **database == *catalog::DATABASE => {
                self.relation_number(schema, table).map(Qualifier::Own)
            }
            _ => None,
        }
    }

    /// Binds a column by its name, in this query or an enclosing one.
    pub fn column(&self, name: &ObjectName, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let (parts, place) = (&name.parts[..], name.span());
        if scope.clause.get() == Clause::Default {
            let message = "cannot use column reference in DEFAULT expression";
            return Err(self.at_name(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), name));
        }
        let qualifier = match parts {
            [_] | [] => None,
            [before @ .., _] => match self.qualifier(before) {
                Some(qualifier) => Some(qualifier),
                None => return Err(self.at_name(self.no_column(name, scope), name)),
            },
        };
        let mut level = 0;
        let mut at = Some(scope);
        while let Some(here) = at {
            qualifier.as_ref().map_or(Ok(()), |qualifier| self.is_one(qualifier, here, &parts[0]))?;
            if let Some((value, kind)) = self.column_here(name, qualifier.as_ref(), here)? {
                if let Expr::Column(slot) = value
                    && !matches!(here.clause.get(), Clause::Aggregate | Clause::Filter)
                {
                    here.uses.borrow_mut().push((slot, place));
                }
                return Ok(Typed::new(outward(value, level), kind).at(place));
            }
            // A qualifier hides relations of the same name in enclosing queries, even if its columns do not match.
            if let Some(qualifier) = &qualifier
                && here.relations.iter().any(|one| qualifier.is(one) && here.sees(one))
            {
                break;
            }
            at = here.parent;
            level += 1;
        }
        if let [row] = parts
            && let Some(own) = value_of_row(row, scope)
        {
            return self.column(&ObjectName { parts: vec![row.clone(), own] }, scope);
        }
        if let Some(parameter) = self.parameter_named(parts) {
            return Ok(parameter.at(place));
        }
        Err(self.at_name(self.no_column(name, scope), name))
    }

    /// Checks that a qualifier matches at most one relation of a FROM.
    ///
    /// # Errors
    /// Fails with `42P09` if it matches several.
    pub(super) fn is_one(&self, qualifier: &Qualifier, scope: &NameScope<'_>, name: &Name) -> SqlResult<()> {
        let Qualifier::Alias(alias) = qualifier else { return Ok(()) };
        if scope.relations.iter().filter(|one| qualifier.is(one) && scope.sees(one)).nth(1).is_none() {
            return Ok(());
        }
        let message = format!("table reference \"{alias}\" is ambiguous");
        Err(self.at(SqlError::new(SqlState::AMBIGUOUS_ALIAS, message), name))
    }

    fn no_column(&self, written: &ObjectName, scope: &NameScope<'_>) -> SqlError {
        let no_column = |message: String| SqlError::new(SqlState::UNDEFINED_COLUMN, message);
        match &written.parts[..] {
            [name] => {
                let relations = || all_relations(scope).map(|(_, relation)| relation);
                if relations().any(|relation| relation.is_named && relation.alias == **name) {
                    return SqlError::unsupported("a whole row as a value");
                }
                let error = no_column(format!("column \"{name}\" does not exist"));
                let has = |relation: &&FromRelation| relation.columns.iter().any(|column| column.name == **name);
                // Like PostgreSQL, the hint names a table whose column is out of reach, and similar names only if there
                // is none.
                match relations().find(has) {
                    Some(relation) if relation.is_named => error.hint(format!(
                        "There is a column named \"{name}\" in table \"{}\", but it cannot be referenced from this part of the \
                         query.",
                        relation.alias
                    )),
                    _ => match super::near::hint(None, name, scope) {
                        Some(hint) => error.hint(hint),
                        None => error,
                    },
                }
            }
            [database, _, _, _] if **database != *catalog::DATABASE => {
                let message = format!("cross-database references are not implemented: {written}");
                SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            }
            [_, _, _, _, _, ..] => {
                let message = format!("improper qualified name (too many dotted names): {written}");
                SqlError::new(SqlState::SYNTAX_ERROR, message)
            }
            [before @ .., name] if let Some(table) = before.last().filter(|_| self.sees(before, scope)) => {
                let error = no_column(format!("column {table}.{name} does not exist"));
                match super::near::hint(Some(table), name, scope) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            parts => self.no_relation(&parts[parts.len().saturating_sub(2)], scope),
        }
    }

    /// Returns the error `42P01` for a table that is missing in FROM or cannot be referenced here.
    pub(super) fn no_relation(&self, table: &str, scope: &NameScope<'_>) -> SqlError {
        for (_, relation) in all_relations(scope) {
            let is_table = relation.table.as_ref().is_some_and(|own| own.name == table);
            if relation.alias != table && !is_table {
                continue;
            }
            let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
            let error = SqlError::new(SqlState::UNDEFINED_TABLE, message);
            if relation.alias != table && self.sees_relation(&relation.alias, scope) {
                return error.hint(format!("Perhaps you meant to reference the table alias \"{}\".", relation.alias));
            }
            return error.hint(format!(
                "There is an entry for table \"{}\", but it cannot be referenced from this part of the query.",
                relation.alias
            ));
        }
        let message = format!("missing FROM-clause entry for table \"{table}\"");
        SqlError::new(SqlState::UNDEFINED_TABLE, message)
    }

    /// Improves the error of a subquery in FROM that refers to its siblings without LATERAL.
    pub(super) fn aside(&self, error: SqlError, scope: &NameScope<'_>) -> SqlError {
        let quoted = |message: &str, before: &str, after: &str| {
            message.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).map(str::to_owned)
        };
        let beside = |of: &dyn Fn(&&FromRelation) -> bool| scope.relations.iter().filter(|one| one.is_named).find(of);
        if let Some(table) = quoted(error.message(), "missing FROM-clause entry for table \"", "\"")
            && beside(&|one| one.alias == table).is_some()
        {
            let better = self.no_relation(&table, scope);
            return error.position().into_iter().fold(better, SqlError::at);
        }
        if let Some(column) = quoted(error.message(), "column \"", "\" does not exist")
            && let Some(relation) = beside(&|one| one.columns.iter().any(|own| own.name == column))
        {
            return error.hint(format!(
                "There is a column named \"{column}\" in table \"{}\", but it cannot be referenced from this part of the \
                 query.",
                relation.alias
            ));
        }
        error
    }

    /// True if these parts of a name, without the column's, match a relation that can be referenced here.
    fn sees(&self, parts: &[Name], scope: &NameScope<'_>) -> bool {
        let qualifier = self.qualifier(parts);
        let is_it = |of: &Qualifier| all_relations(scope).any(|(scope, one)| of.is(one) && scope.sees(one));
        qualifier.as_ref().is_some_and(is_it)
    }

    fn sees_relation(&self, alias: &str, scope: &NameScope<'_>) -> bool {
        all_relations(scope).any(|(scope, one)| one.is_named && one.alias == alias && scope.sees(one))
    }

    fn column_here(
        &self,
        written: &ObjectName,
        qualifier: Option<&Qualifier>,
        scope: &NameScope<'_>,
    ) -> SqlResult<Option<(Expr, SqlType)>> {
        let Some(name) = written.parts.last() else { return Ok(None) };
        let is_meant = |relation: &&FromRelation| {
            scope.sees(relation) && qualifier.map_or(relation.is_open, |qualifier| qualifier.is(relation))
        };
        let mut found = None;
        for relation in scope.relations.iter().filter(is_meant) {
            for (column, value) in relation.columns.iter().zip(&relation.values) {
                if column.name != **name {
                    continue;
                }
                if found.is_some() {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(self.at_name(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message), written));
                }
                if relation.reach == (Visibility::Lateral { is_allowed: false }) {
                    let message = format!("invalid reference to FROM-clause entry for table \"{}\"", relation.alias);
                    let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                        .detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference.");
                    return Err(self.at_name(error, written));
                }
                found = Some((value.clone(), column.kind));
                self.note_reads(value, scope);
                // Stored texts follow renames of their tables and columns, so the object behind each name is noted.
                if let Some(table) = &relation.table {
                    self.note(name.span, || NameTarget::Column(table.oid, column.number));
                }
                if let (Some(oid), [.., qualifier, _]) = (relation.own, &written.parts[..]) {
                    self.note(qualifier.span, || NameTarget::Relation(oid));
                }
            }
        }
        // A column of a subquery with this name hides the system column, so the latter is tried last.
        if found.is_none() && **name == *"tableoid" {
            return Ok(scope.relations.iter().filter(is_meant).find_map(tableoid));
        }
        Ok(found)
    }
}

/// Iterates over the relations of a scope and of its enclosing scopes.
fn all_relations<'s>(scope: &'s NameScope<'s>) -> impl Iterator<Item = (&'s NameScope<'s>, &'s FromRelation)> {
    let mut at = Some(scope);
    let scopes = std::iter::from_fn(move || {
        let scope = at?;
        at = scope.parent;
        Some(scope)
    });
    scopes.flat_map(|scope| scope.relations.iter().map(move |relation| (scope, relation)))
}

/// Turns a value of the row into a reference from a query nested `level` deep.
fn outward(mut value: Expr, level: usize) -> Expr {
    if level == 0 {
        return value;
    }
    // The closure returns no error, so there is none to report.
    let _ = crate::plan::rewrite(&mut value, 0, &mut |expr, depth| {
        if let Expr::Column(column) = expr
            && depth == 0
        {
            *expr = Expr::Outer { level, column: *column };
            return Ok(true);
        }
        Ok(false)
    });
    value
}
