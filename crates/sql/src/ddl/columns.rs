//! A table being defined: its columns, and what stands with them.
//!
//! **Invariant:** positions of columns in indexes and constraints are those of the draft's columns, whatever order its parts come in.

use super::Ddl;
use super::sequence::{Numbers, check_identity};
use catalog::storage::column_type;
use catalog::{
    ColumnDef, Constraint, Counted, DefaultExpr, Identity, IndexInfo, Relation, Schema, Sequence, SequenceValue,
    TableInfo,
};
use engine::{Column, IndexDef, Table, TableDef};
use query::bind::{Binder, Clause, Scope, no_collation, not_collated, takes_collation};
use query::plan::Place;
use sqlparser::ast::{self, ColumnOption, GeneratedAs, Spanned, TableConstraint};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use syntax::parse::folded;
use types::{Kind, SqlType};

/// A table's description without the table.
pub(super) struct Draft {
    pub(super) oid: u32,
    pub(super) schema: u32,
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) columns: Vec<ColumnDef>,
    pub(super) indexes: Vec<IndexInfo>,
    pub(super) constraints: Vec<Constraint>,
    pub(super) next_column: i16,
    pub(super) counted: Arc<Counted>,
}

impl Draft {
    pub(super) fn of(table: &TableInfo) -> Draft {
        Draft {
            oid: table.oid,
            schema: table.schema,
            name: table.name.clone(),
            owner: table.owner.clone(),
            columns: table.columns.clone(),
            indexes: table.indexes.clone(),
            constraints: table.constraints.clone(),
            next_column: table.next_column,
            counted: Arc::clone(&table.counted),
        }
    }

    pub(super) fn finish(self, table: Arc<Table>) -> TableInfo {
        TableInfo {
            oid: self.oid,
            schema: self.schema,
            name: self.name,
            owner: self.owner,
            columns: self.columns,
            indexes: self.indexes,
            constraints: self.constraints,
            next_column: self.next_column,
            table,
            is_adopted: false,
            counted: self.counted,
            retired: AtomicBool::new(false),
        }
    }

    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// # Errors
    /// `42703`
    pub(super) fn need_column(&self, name: &str) -> SqlResult<usize> {
        self.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// The engine's table for it. `schema` is the name of its schema.
    pub(super) fn engine_def(&self, schema: &Schema) -> SqlResult<TableDef> {
        let of_engine = self.columns.iter().map(|column| {
            let kind = column_type(column.kind)?;
            Ok(Column { name: column.name.clone(), kind, nullable: !column.not_null })
        });
        let name =
            if schema.name == catalog::PUBLIC { self.name.clone() } else { format!("{}.{}", schema.name, self.name) };
        let index = |index: &IndexInfo| IndexDef {
            name: index.name.clone(),
            columns: index.columns.clone(),
            unique: index.is_unique,
        };
        Ok(TableDef {
            name,
            columns: of_engine.collect::<SqlResult<_>>()?,
            indexes: self.indexes.iter().map(index).collect(),
        })
    }
}

/// The whole-number type that `serial` and its kin stand for.
fn serial(data_type: &ast::DataType) -> Option<Kind> {
    let ast::DataType::Custom(name, parameters) = data_type else { return None };
    let [ast::ObjectNamePart::Identifier(ident)] = &name.0[..] else { return None };
    if !parameters.is_empty() {
        return None;
    }
    match &*folded(ident) {
        "smallserial" | "serial2" => Some(Kind::Int2),
        "serial" | "serial4" => Some(Kind::Int4),
        "bigserial" | "serial8" => Some(Kind::Int8),
        _ => None,
    }
}

impl Ddl<'_> {
    /// Adds a column to the draft. Constraints that stand with it are left in `pending`.
    pub(super) fn add_column(
        &mut self,
        draft: &mut Draft,
        column: &ast::ColumnDef,
        pending: &mut Vec<TableConstraint>,
    ) -> SqlResult<()> {
        let ast::ColumnDef { name, data_type, options } = column;
        syntax::parse::check_name(self.text, name)?;
        let own_name = folded(name);
        let at = draft.columns.len();
        if draft.column(&own_name).is_some() {
            let message = format!("column \"{own_name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        if 1600 <= at {
            return Err(SqlError::new(SqlState("54011"), "tables can have at most 1600 columns"));
        }
        let serial = serial(data_type);
        let kind = match serial {
            Some(kind) => kind.into(),
            None => {
                let binder = self.binder();
                // The type stands behind the name.
                binder
                    .type_of(data_type)
                    .map_err(|error| binder.at_place(error, binder.source.next(name.span.into())))?
            }
        };
        column_type(kind)?;
        let mut def = ColumnDef {
            name: own_name,
            number: draft.next_column,
            kind,
            not_null: serial.is_some(),
            default: None,
            identity: None,
            collation: None,
        };
        draft.next_column += 1;
        let mut says_null = false;
        let mut numbers = serial.map(|kind| (None, Numbers::of(kind.into())));
        let mut is_identity = false;
        // What `serial` stands for is written nowhere.
        let written = |place: Place| if serial.is_some() { Place::NOWHERE } else { place };
        let mut sequence_name = None;
        for ast::ColumnOptionDef { name: constraint, option } in options {
            match option {
                ColumnOption::Null => says_null = true,
                ColumnOption::NotNull => def.not_null = true,
                ColumnOption::Default(value) => {
                    let too_many = if def.default.is_some() || serial.is_some() {
                        Some("multiple default values specified")
                    } else {
                        is_identity.then_some("both default and identity specified")
                    };
                    if let Some(what) = too_many {
                        let (error, binder) = (contradiction(what, &def.name, &draft.name), self.binder());
                        let place = binder.source.constraint_before(binder.start(value), &["DEFAULT"]);
                        return Err(binder.at_place(error, written(place)));
                    }
                    def.default = Some(self.default(value, kind, &def.name)?);
                }
                ColumnOption::PrimaryKey(key) => {
                    let mut key = key.clone();
                    key.columns = vec![name.clone().into()];
                    key.name = key.name.or_else(|| constraint.clone());
                    pending.push(TableConstraint::PrimaryKey(key));
                }
                ColumnOption::Unique(key) => {
                    let mut key = key.clone();
                    key.columns = vec![name.clone().into()];
                    key.name = key.name.or_else(|| constraint.clone());
                    pending.push(TableConstraint::Unique(key));
                }
                ColumnOption::ForeignKey(key) => {
                    let mut key = key.clone();
                    key.columns = vec![name.clone()];
                    key.name = key.name.or_else(|| constraint.clone());
                    pending.push(TableConstraint::ForeignKey(key));
                }
                ColumnOption::Check(check) => {
                    let mut check = check.clone();
                    check.name = check.name.or_else(|| constraint.clone());
                    pending.push(TableConstraint::Check(check));
                }
                ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr,
                    generation_expr_mode: _,
                    generated_keyword: _,
                } => {
                    refuse!(
                        generation_expr.is_some() || matches!(generated_as, GeneratedAs::ExpStored) =>
                            "GENERATED ALWAYS AS (expression) STORED"
                    );
                    let too_many = if is_identity {
                        Some("multiple identity specifications")
                    } else {
                        (def.default.is_some() || serial.is_some()).then_some("both default and identity specified")
                    };
                    if let Some(what) = too_many {
                        let (error, binder) = (contradiction(what, &def.name, &draft.name), self.binder());
                        let after = |place: Place| binder.source.word_after(place, &["GENERATED"]);
                        let first = after(name.span.into());
                        let word = if is_identity { after(binder.source.next(first)) } else { first };
                        return Err(binder.at_place(error, written(binder.source.constraint_of(word))));
                    }
                    is_identity = true;
                    let always = matches!(generated_as, GeneratedAs::Always);
                    let mut own = Numbers::of(kind);
                    own.set(&self.binder(), sequence_options.as_deref().unwrap_or_default())?;
                    numbers = Some((Some(always), own));
                    def.not_null = true;
                }
                ColumnOption::Collation(name) => {
                    let collation = self.binder().name_parts(name)?.join(".");
                    let number =
                        crate::system::collation_named(collation.strip_prefix("pg_catalog.").unwrap_or(&collation));
                    let binder = self.binder();
                    let at = |error| {
                        let place = name.0.first().map_or(Place::NOWHERE, |first| first.span().into());
                        binder.at_place(error, binder.source.word_before(place, &["COLLATE"]))
                    };
                    let Some(number) = number else { return Err(at(no_collation(&collation))) };
                    if !takes_collation(kind.kind) {
                        return Err(at(not_collated(kind.kind)));
                    }
                    def.collation = Some(number);
                }
                ColumnOption::Comment(comment) if syntax::parse::alters::sequence_of_identity(comment).is_some() => {
                    sequence_name = syntax::parse::alters::sequence_of_identity(comment);
                }
                other => return Err(SqlError::unsupported(format_args!("the column option {other}"))),
            }
        }
        if says_null && def.not_null {
            let error = contradiction("conflicting NULL/NOT NULL declarations", &def.name, &draft.name);
            let binder = self.binder();
            return Err(binder.at_place(error, written(binder.source.other_nullness(name.span.into()))));
        }
        if let Some((always, numbers)) = numbers {
            self.number(draft, &mut def, always, numbers)?;
        }
        if let (Some(name), Some(identity)) = (sequence_name, def.identity) {
            self.name_sequence(identity.sequence, draft, &name)?;
        }
        draft.columns.push(def);
        Ok(())
    }

    /// Gives a column a sequence of its own: an identity, or a default.
    pub(super) fn number(
        &mut self,
        draft: &Draft,
        def: &mut ColumnDef,
        always: Option<bool>,
        numbers: Numbers,
    ) -> SqlResult<()> {
        if always.is_some() {
            check_identity(def.kind)?;
        }
        let schema = draft.schema;
        let name = self.free_name(&[&draft.name, &def.name], "seq", |name| self.is_taken_beside(draft, name));
        let shared = self.shared_sequence(schema, &name)?;
        let sequence = numbers.sequence(Sequence {
            oid: self.catalog.oid()?,
            schema,
            name,
            owner: draft.owner.clone(),
            kind: def.kind,
            start: 1,
            increment: 1,
            min: 1,
            max: 1,
            cycle: false,
            cache: 1,
            owned_by: Some((draft.oid, def.number)),
            value: Arc::new(Mutex::new(SequenceValue { last: 1, is_called: false })),
            shared,
            version: 0,
        })?;
        let oid = sequence.oid;
        self.state.add(Relation::Sequence(Arc::new(sequence)))?;
        match always {
            Some(always) => def.identity = Some(Identity { always, sequence: oid }),
            None => def.default = Some(next_of(oid)?),
        }
        Ok(())
    }

    /// A default for a column of this type. What is no value of the type is refused now; what has no room in the column, when the
    /// default is used.
    pub(super) fn default(&self, value: &ast::Expr, kind: SqlType, column: &str) -> SqlResult<DefaultExpr> {
        let binder = self.binder();
        let scope = Scope::default();
        scope.clause.set(Clause::Default);
        let bound = binder.expr(value, &scope)?;
        let of = bound.kind;
        binder.coerce_default(bound, kind).map_err(|error| {
            if error.state() != SqlState::CANNOT_COERCE {
                return error;
            }
            let message = format!(
                "column \"{column}\" is of type {} but default expression is of type {}",
                kind.name(),
                of.name()
            );
            SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint("You will need to rewrite or cast the expression.")
        })?;
        binder.without_parameters()?;
        let (tree, uses) = self.binder().kept(value, &Scope::default(), kind)?;
        Ok(DefaultExpr { tree, uses })
    }
}

/// `42601`: parts of a column's definition do not go together.
fn contradiction(what: &str, column: &str, table: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} for column \"{column}\" of table \"{table}\""))
}

/// The next value of a sequence, as a default.
fn next_of(sequence: u32) -> SqlResult<DefaultExpr> {
    let tree = syntax::parse::expression(&format!("nextval('{sequence}'::regclass)"))?;
    Ok(DefaultExpr { tree, uses: vec![sequence] })
}

/// The scope of one row of a table.
pub(crate) fn scope_of(binder: &Binder<'_>, name: &str, columns: &[ColumnDef]) -> SqlResult<Scope<'static>> {
    let mut scope = Scope::default();
    let columns: Vec<_> =
        columns.iter().map(|column| query::bind::column_info(column.name.clone(), column.kind)).collect();
    let width = columns.len();
    scope.add(binder.row_of(name, columns), width)?;
    Ok(scope)
}
