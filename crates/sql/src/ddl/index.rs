//! `CREATE INDEX`, `ALTER INDEX`, and dropping one.
//!
//! **Invariant:** an index stands at the same position in the description and in the engine's table, so a table that gets or loses one is copied.

use super::columns::Draft;
use super::rewrite::Source;
use super::{Ddl, Defined};
use crate::system::classes;
use catalog::{ConstraintKind, IndexMethod, IndexOrder, Relation};
use sqlparser::ast;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use syntax::parse::{alters, folded};
use types::Kind;

impl Ddl<'_> {
    pub(super) fn create_index(&mut self, create: &ast::CreateIndex) -> SqlResult<Defined> {
        let ast::CreateIndex {
            name,
            table_name,
            using,
            columns,
            unique,
            concurrently,
            r#async,
            if_not_exists,
            include,
            nulls_distinct,
            with,
            predicate,
            index_options,
            alter_options,
        } = create;
        refuse!(
            *r#async => "CREATE INDEX ASYNC",
            *nulls_distinct == Some(false) => "NULLS NOT DISTINCT", predicate.is_some() => "a partial index",
            !index_options.is_empty() || !alter_options.is_empty() => "an option of CREATE INDEX",
        );
        let method = match using {
            None | Some(ast::IndexType::BTree) => IndexMethod::BTree,
            Some(ast::IndexType::Hash) => IndexMethod::Hash,
            Some(other) => return Err(SqlError::unsupported(format_args!("an index of the kind {other}"))),
        };
        if method == IndexMethod::Hash {
            let options = || columns.iter().map(|column| &column.column.options);
            for (is_said, what) in [
                (*unique, "unique indexes"),
                (!include.is_empty(), "included columns"),
                (1 < columns.len(), "multicolumn indexes"),
                (options().any(|options| options.sort.is_some()), "ASC/DESC options"),
                (options().any(|options| options.nulls_first.is_some()), "NULLS FIRST/LAST options"),
            ] {
                if is_said {
                    let message = format!("access method \"hash\" does not support {what}");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
            }
        }
        if *concurrently {
            self.notice(
                SqlState("01000"),
                "CONCURRENTLY is ignored: others that write to the table or lock it wait".to_owned(),
            );
        }
        if !with.is_empty() {
            self.notice(SqlState("01000"), "storage parameters are ignored".to_owned());
        }
        let table =
            self.binder().table(table_name).map_err(|error| match self.binder().relation_named(table_name) {
                Ok(Relation::View(view)) => {
                    let message = format!("cannot create index on relation \"{}\"", view.name);
                    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .detail("This operation is not supported for views.")
                }
                _ => error,
            })?;
        let (mut positions, mut order) = (Vec::new(), Vec::new());
        for ast::IndexColumn { column, operator_class } in columns {
            let ast::OrderByExpr { expr, options: ast::OrderByOptions { sort, nulls_first }, with_fill: _ } = column;
            let descends = match sort {
                None | Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                Some(ast::OrderBySort::Using(_)) => return Err(SqlError::unsupported("USING in an index")),
            };
            let nulls_first = nulls_first.unwrap_or(descends);
            if descends || nulls_first {
                let word = if descends { "DESC" } else { "NULLS FIRST" };
                let message = format!(
                    "{word} has no effect in an index here: its columns ascend, and it is read in both directions"
                );
                self.notice(SqlState("00000"), message);
            }
            let ast::Expr::Identifier(ident) = expr else {
                return Err(SqlError::unsupported("an expression in an index"));
            };
            let wanted = folded(ident);
            let position = table.column(&wanted).ok_or_else(|| no_column(&wanted))?;
            let kind = table.columns[position].kind.kind;
            let class = operator_class.as_ref().map(|class| self.operator_class(class, kind, method)).transpose()?;
            positions.push(position);
            order.push(IndexOrder { descends, nulls_first, class: class.flatten() });
        }
        let beside = |ident: &ast::Ident| {
            let wanted = folded(ident);
            table.column(&wanted).ok_or_else(|| no_column(&wanted))
        };
        let include = include.iter().map(beside).collect::<SqlResult<Vec<_>>>()?;
        let name = match name {
            Some(name) => match &self.binder().name_parts(name)?[..] {
                [name] => name.clone(),
                _ => return Err(SqlError::new(SqlState::SYNTAX_ERROR, "an index is in the schema of its table")),
            },
            None => {
                let mut parts = vec![&*table.name];
                parts.extend(positions.iter().chain(&include).map(|at| &*table.columns[*at].name));
                self.free_name(&parts, "idx", |name| self.is_taken(table.schema, name))
            }
        };
        if self.is_taken(table.schema, &name) {
            let message = format!("relation \"{name}\" already exists");
            if !if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok("CREATE INDEX".into());
        }
        let mut draft = Draft::of(&table);
        let at = self.add_index(&mut draft, name, [positions, include], [*unique, false])?;
        draft.indexes[at].method = method;
        if order.iter().any(|one| *one != IndexOrder::default()) {
            draft.indexes[at].order = order;
        }
        self.rebuild(&table, draft, &same_columns(&table))?;
        Ok("CREATE INDEX".into())
    }

    /// The operator class of an index's column; nothing if it is its type's own.
    fn operator_class(&self, name: &ast::ObjectName, kind: Kind, method: IndexMethod) -> SqlResult<Option<u32>> {
        let parts = self.binder().name_parts(name)?;
        match &parts[..] {
            [class] => classes::named(class, kind, method),
            [schema, class] if schema == "pg_catalog" => classes::named(class, kind, method),
            [schema, ..] if self.state.schema(schema).is_none() => {
                let message = format!("schema \"{schema}\" does not exist");
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
            }
            parts => classes::named(&parts.join("."), kind, method),
        }
    }

    /// Takes an index from its table.
    pub(super) fn drop_index(&mut self, table: u32, index: u32) -> SqlResult<()> {
        let Some(table) = self.state.table_numbered(table).cloned() else { return Ok(()) };
        let mut draft = Draft::of(&table);
        let Some(position) = draft.indexes.iter().position(|one| one.oid == index) else { return Ok(()) };
        remove_index(&mut draft, position);
        self.rebuild(&table, draft, &same_columns(&table))?;
        Ok(())
    }

    pub(super) fn alter_index(
        &mut self,
        name: &ast::ObjectName,
        operation: &ast::AlterIndexOperation,
    ) -> SqlResult<Defined> {
        let ast::AlterIndexOperation::RenameIndex { index_name } = operation;
        let (name, if_exists) = alters::index(name);
        let relation = match self.binder().relation_named(&name).cloned() {
            Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
                self.notice(SqlState("00000"), format!("{}, skipping", error.message()));
                return Ok("ALTER INDEX".into());
            }
            found => found?,
        };
        let Relation::Index { table, position } = relation else {
            let message = format!("\"{}\" is not an index", relation.name());
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        if alters::sets_options(index_name) {
            self.notice(SqlState("01000"), "storage parameters are ignored".to_owned());
            return Ok("ALTER INDEX".into());
        }
        let parts = self.binder().name_parts(index_name)?;
        let [new] = &parts[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "an index is in the schema of its table"));
        };
        let mut renamed = table.copy();
        for constraint in &mut renamed.constraints {
            if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = constraint.what
                && index == position
            {
                constraint.name.clone_from(new);
            }
        }
        renamed.indexes[position].name.clone_from(new);
        // Its name in the engine is in messages, so it is renamed there, too: by a copy.
        self.rebuild(&table, Draft::of(&renamed), &same_columns(&table))?;
        Ok("ALTER INDEX".into())
    }
}

fn no_column(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
}

/// For a copy that has the columns of the old one.
pub(super) fn same_columns(table: &catalog::TableInfo) -> Vec<Source> {
    (0..table.columns.len()).map(Source::Column).collect()
}

/// A column gets another type: the operator classes that its indexes name must fit that.
pub(super) fn settle_classes(draft: &mut Draft, column: usize, kind: Kind) -> SqlResult<()> {
    for index in &mut draft.indexes {
        let own = index.columns.iter().zip(&mut index.order).filter(|(position, _)| **position == column);
        for (_, order) in own {
            if let Some(class) = order.class {
                order.class = classes::named(classes::name_of(class), kind, index.method)?;
            }
        }
    }
    Ok(())
}

/// Takes an index out of a draft; constraints keep theirs.
pub(super) fn remove_index(draft: &mut Draft, position: usize) {
    draft.indexes.remove(position);
    for constraint in &mut draft.constraints {
        if let ConstraintKind::PrimaryKey { index } | ConstraintKind::Unique { index } = &mut constraint.what
            && position < *index
        {
            *index -= 1;
        }
    }
}
