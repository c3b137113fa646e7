//! `INSERT`, `UPDATE`, `DELETE`.

use super::from::{all_of, split};
use super::{Binder, Relation, Scope, columns_of, refuse};
use crate::catalog::TableInfo;
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::Context;
use crate::parse::folded;
use crate::plan::{Change, Expr, OnConflict, Plan, Target, Typed};
use crate::session::ColumnInfo;
use crate::types::Kind;
use sqlparser::ast::{self, SetExpr};
use std::sync::Arc;

/// A change, and what it returns of each row: expressions over the table's columns.
pub(crate) struct Written {
    pub(crate) change: Change,
    pub(crate) returning: Option<(Vec<ColumnInfo>, Vec<Expr>)>,
}

impl Binder<'_> {
    pub(crate) fn insert(&self, insert: &ast::Insert) -> SqlResult<Written> {
        let ast::Insert {
            insert_token: _,
            optimizer_hints,
            or,
            ignore,
            into: _,
            table,
            table_alias,
            columns,
            overwrite,
            source,
            assignments,
            partitioned,
            after_columns,
            has_table_keyword,
            on,
            returning,
            output,
            replace_into,
            priority,
            insert_alias,
            settings,
            format_clause,
            multi_table_insert_type,
            multi_table_into_clauses,
            multi_table_when_clauses,
            multi_table_else_clause,
        } = insert;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", or.is_some() => "INSERT OR", *ignore => "INSERT IGNORE",
            *overwrite => "INSERT OVERWRITE", !assignments.is_empty() => "INSERT SET",
            partitioned.is_some() => "PARTITION", !after_columns.is_empty() => "columns behind PARTITION",
            *has_table_keyword => "INSERT TABLE", output.is_some() => "OUTPUT", *replace_into => "REPLACE",
            priority.is_some() => "a priority of INSERT", insert_alias.is_some() => "an alias of the new row",
            settings.is_some() => "SETTINGS", format_clause.is_some() => "FORMAT",
            multi_table_insert_type.is_some() || !multi_table_into_clauses.is_empty()
                || !multi_table_when_clauses.is_empty() || multi_table_else_clause.is_some() => "INSERT ALL",
        );
        let ast::TableObject::TableName(name) = table else {
            return Err(SqlError::unsupported("INSERT into a function or query"));
        };
        let table = self.table(name)?;
        let alias = match table_alias {
            Some(ast::TableAliasWithoutColumns { explicit: _, alias }) => folded(alias),
            None => table.name.clone(),
        };
        let places = self.places(&table, columns)?;
        let input = match source {
            None => {
                let all = (0..table.columns.len()).map(|at| self.default(&table, at)).collect::<SqlResult<_>>()?;
                Plan::Values(vec![all])
            }
            Some(source) => self.inserted(&table, &places, !columns.is_empty(), source)?,
        };
        let conflict = match on {
            None => None,
            Some(ast::OnInsert::OnConflict(ast::OnConflict {
                conflict_target: None,
                action: ast::OnConflictAction::DoNothing,
            })) => Some(OnConflict::Nothing),
            Some(_) => return Err(SqlError::unsupported("ON CONFLICT with a target or DO UPDATE")),
        };
        let returning = self.returning(returning.as_deref(), &table, alias)?;
        Ok(Written { change: Change::Insert { table, input, conflict }, returning })
    }

    /// Which columns the statement gives, in its order.
    fn places(&self, table: &TableInfo, columns: &[ast::ObjectName]) -> SqlResult<Vec<usize>> {
        if columns.is_empty() {
            return Ok((0..table.columns.len()).collect());
        }
        let mut places: Vec<usize> = Vec::new();
        for column in columns {
            let at = self.column_of(table, column)?;
            if places.contains(&at) {
                let message = format!("column \"{}\" specified more than once", table.columns[at].name);
                return Err(self.at_name(SqlError::new(SqlState::DUPLICATE_COLUMN, message), column));
            }
            places.push(at);
        }
        Ok(places)
    }

    fn column_of(&self, table: &TableInfo, name: &ast::ObjectName) -> SqlResult<usize> {
        let parts = self.name_parts(name)?;
        let [column] = &parts[..] else { return Err(SqlError::unsupported("a field of a column")) };
        table.column(column).ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            self.at_name(SqlError::new(SqlState::UNDEFINED_COLUMN, message), name)
        })
    }

    /// The rows to be inserted, all columns in the table's order.
    fn inserted(&self, table: &TableInfo, places: &[usize], named: bool, source: &ast::Query) -> SqlResult<Plan> {
        let ast::Query {
            with,
            body: _,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = source;
        let is_plain = with.is_none()
            && order_by.is_none()
            && limit_clause.is_none()
            && fetch.is_none()
            && locks.is_empty()
            && for_clause.is_none()
            && settings.is_none()
            && format_clause.is_none()
            && pipe_operators.is_empty();
        let count = |width: usize| {
            if places.len() < width {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more expressions than target columns"));
            }
            if named && width < places.len() {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "INSERT has more target columns than expressions"));
            }
            Ok(())
        };
        if let SetExpr::Values(ast::Values { explicit_row: false, value_keyword: false, rows }) = &*source.body
            && is_plain
        {
            // Each value by itself: DEFAULT is allowed, and a literal becomes the column's type, not a common one.
            let scope = Scope::default();
            let mut bound = Vec::with_capacity(rows.len());
            for row in rows {
                count(row.content.len())?;
                let mut values =
                    (0..table.columns.len()).map(|at| self.default(table, at)).collect::<SqlResult<Vec<_>>>()?;
                for (value, at) in row.content.iter().zip(places) {
                    if !is_default(value) {
                        values[*at] = self.assigned(table, *at, self.expr(value, &scope)?)?;
                    }
                }
                bound.push(values);
            }
            return Ok(Plan::Values(bound));
        }
        let query = self.query(source, None)?;
        count(query.columns.len())?;
        let mut values = (0..table.columns.len()).map(|at| self.default(table, at)).collect::<SqlResult<Vec<_>>>()?;
        for ((from, column), at) in query.columns.iter().enumerate().zip(places) {
            let typed = Typed { expr: Expr::Column(from), kind: column.kind };
            values[*at] = self.assigned(table, *at, typed)?;
        }
        Ok(Plan::Project { input: Box::new(query.plan), columns: values })
    }

    /// A value as one of the column.
    fn assigned(&self, table: &TableInfo, at: usize, value: Typed) -> SqlResult<Expr> {
        let column = &table.columns[at];
        let kind = value.kind;
        match self.coerce(value, column.kind, Context::Assignment) {
            Ok(typed) => Ok(typed.expr),
            Err(error) if error.state() == SqlState::CANNOT_COERCE => {
                let message = format!(
                    "column \"{}\" is of type {} but expression is of type {}",
                    column.name,
                    SqlTypeName(column.kind.kind),
                    kind.name()
                );
                Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("You will need to rewrite or cast the expression."))
            }
            Err(error) => Err(error),
        }
    }

    fn default(&self, table: &TableInfo, at: usize) -> SqlResult<Expr> {
        match &table.columns[at].default {
            None => Ok(Expr::Constant(Datum::Null)),
            Some(default) => self.assigned(table, at, self.expr(default, &Scope::default())?),
        }
    }

    pub(crate) fn update(&self, update: &ast::Update) -> SqlResult<Written> {
        let ast::Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", output.is_some() => "OUTPUT", or.is_some() => "UPDATE OR",
            !order_by.is_empty() => "ORDER BY in UPDATE", limit.is_some() => "LIMIT in UPDATE",
            from.is_some() => "UPDATE FROM",
        );
        let (target, scope) = self.target(std::slice::from_ref(table), selection.as_ref())?;
        let info = Arc::clone(&target.table);
        let mut values: Vec<(usize, Expr)> = Vec::new();
        for ast::Assignment { target: name, value } in assignments {
            let ast::AssignmentTarget::ColumnName(name) = name else {
                return Err(SqlError::unsupported("an assignment to several columns"));
            };
            let at = self.column_of(&info, name)?;
            if values.iter().any(|(other, _)| *other == at) {
                let message = format!("multiple assignments to same column \"{}\"", info.columns[at].name);
                return Err(self.at_name(SqlError::new(SqlState::SYNTAX_ERROR, message), name));
            }
            let value = if is_default(value) {
                self.default(&info, at)?
            } else {
                self.assigned(&info, at, self.expr(value, &scope)?)?
            };
            values.push((at, value));
        }
        let alias = scope.relations[0].alias.clone();
        let returning = self.returning(returning.as_deref(), &info, alias)?;
        Ok(Written { change: Change::Update { target, values }, returning })
    }

    pub(crate) fn delete(&self, delete: &ast::Delete) -> SqlResult<Written> {
        let ast::Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        refuse!(
            !optimizer_hints.is_empty() => "an optimizer hint", !tables.is_empty() => "DELETE of several tables",
            using.is_some() => "DELETE USING", output.is_some() => "OUTPUT",
            !order_by.is_empty() => "ORDER BY in DELETE", limit.is_some() => "LIMIT in DELETE",
        );
        let ast::FromTable::WithFromKeyword(from) = from else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "DELETE needs FROM"));
        };
        let (target, scope) = self.target(from, selection.as_ref())?;
        let alias = scope.relations[0].alias.clone();
        let returning = self.returning(returning.as_deref(), &target.table, alias)?;
        Ok(Written { change: Change::Delete { target }, returning })
    }

    /// The rows of one table that a condition chooses.
    fn target(
        &self,
        from: &[ast::TableWithJoins],
        selection: Option<&ast::Expr>,
    ) -> SqlResult<(Target, Scope<'static>)> {
        refuse!(from.len() != 1 || !from[0].joins.is_empty() => "a change of several tables");
        let mut scope = Scope::default();
        let steps = self.from(from, &mut scope)?;
        let Some(table) = scope.relations[0].table.clone() else {
            return Err(SqlError::unsupported("a change of a query"));
        };
        let conditions = match selection {
            Some(selection) => {
                let condition = self.expr(selection, &scope)?;
                split(self.condition(condition, "WHERE")?)
            }
            None => Vec::new(),
        };
        let condition = all_of(conditions.clone());
        let input = self.join(steps, conditions);
        Ok((Target { table, input, first: 0, condition }, scope))
    }

    fn returning(
        &self,
        returning: Option<&[ast::SelectItem]>,
        table: &Arc<TableInfo>,
        alias: String,
    ) -> SqlResult<Option<(Vec<ColumnInfo>, Vec<Expr>)>> {
        let Some(returning) = returning else { return Ok(None) };
        let mut scope = Scope::default();
        let relation = Relation {
            alias,
            columns: columns_of(table),
            first: 0,
            table: Some(Arc::clone(table)),
            hidden: Vec::new(),
            merged: Vec::new(),
        };
        scope.add(relation, table.columns.len())?;
        let (mut columns, values): (Vec<_>, Vec<_>) = self.projection(returning, &scope)?.into_iter().unzip();
        columns.iter_mut().for_each(|column: &mut ColumnInfo| column.kind = super::settled(column.kind));
        // It would see the changes of this statement, which it must not.
        refuse!(values.iter().any(Expr::has_query) => "a query in RETURNING");
        Ok(Some((columns, values)))
    }
}

fn is_default(value: &ast::Expr) -> bool {
    matches!(value, ast::Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// A kind without modifier, for messages.
struct SqlTypeName(Kind);

impl std::fmt::Display for SqlTypeName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::types::SqlType::from(self.0).name())
    }
}
