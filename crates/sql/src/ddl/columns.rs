//! A table that is being defined: its columns and their clauses.
//!
//! **Invariant:** positions of columns in indexes and constraints are those of the draft's columns, whatever the order
//! in which its parts arrive.

use super::Ddl;
use super::constraints::{NewConstraint, NewConstraintKind};
use super::sequence::{SequenceOptions, SequenceParameters, SequenceStatement, check_identity};
use catalog::storage::column_type;
use catalog::{
    ColumnDef, Constraint, DefaultExpr, IdentityColumn, IndexInfo, Relation, Schema, Sequence, SequenceValue,
    TableInfo, TableRowCount,
};
use engine::{Column, IndexDef, Table, TableDef};
use query::bind::{Binder, Clause, NameScope, no_collation, not_collated, takes_collation};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use syntax::ast::{
    ColumnClause, ColumnClauseKind, ColumnDefinition, ConstraintTiming, KeptExpr, ObjectName, SequenceOption, TypeName,
};
use syntax::grammar;
use syntax::lex::Span;
use types::{Kind, SqlType};

/// Description of a table that is not in the engine yet.
pub(super) struct TableDraft {
    pub(super) oid: u32,
    pub(super) schema: u32,
    pub(super) name: String,
    pub(super) owner: u32,
    pub(super) columns: Vec<ColumnDef>,
    pub(super) indexes: Vec<IndexInfo>,
    pub(super) constraints: Vec<Constraint>,
    pub(super) next_column: i16,
    pub(super) counted: Arc<TableRowCount>,
}

impl TableDraft {
    pub(super) fn of(table: &TableInfo) -> TableDraft {
        TableDraft {
            oid: table.oid,
            schema: table.schema,
            name: table.name.clone(),
            owner: table.owner,
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

    /// Returns the position of a column.
    ///
    /// # Errors
    /// `42703`
    pub(super) fn need_column(&self, name: &str) -> SqlResult<usize> {
        self.column(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })
    }

    /// Returns the definition of the engine's table. `schema` is the schema of the table.
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

/// Returns the integer type that `serial` and its variants stand for.
fn serial(kind: &TypeName) -> Option<Kind> {
    let TypeName { name, is_builtin, modifiers, fields, dimensions, is_set, is_of_column, span: _ } = kind;
    let [name] = &name.parts[..] else { return None };
    let is_plain = !*is_builtin && modifiers.is_empty() && fields.is_none() && dimensions.is_empty();
    if !is_plain || *is_set || *is_of_column {
        return None;
    }
    match &**name {
        "smallserial" | "serial2" => Some(Kind::Int2),
        "serial" | "serial4" => Some(Kind::Int4),
        "bigserial" | "serial8" => Some(Kind::Int8),
        _ => None,
    }
}

/// Clauses of a column, as far as they do not contradict one another.
#[derive(Default)]
struct ColumnClauses<'a> {
    default: Option<&'a KeptExpr>,
    /// True for `ALWAYS`, and options of the sequence.
    identity: Option<(bool, &'a [SequenceOption])>,
    collation: Option<(&'a ObjectName, Span)>,
    /// True for `NOT NULL`, false for `NULL`, if one is given.
    not_null: Option<bool>,
    constraints: Vec<NewConstraint<'a>>,
    /// True if `DEFERRABLE` and the like may follow the previous clause.
    takes_timing: bool,
}

impl<'a> ColumnClauses<'a> {
    /// Collects the clauses of a column.
    ///
    /// # Errors
    /// `42601`: they contradict one another, or contradict the meaning of `serial`. `0A000`
    fn of(binder: &Binder<'_>, column: &'a ColumnDefinition, table: &str) -> SqlResult<ColumnClauses<'a>> {
        let is_serial = serial(&column.kind).is_some();
        let mut clauses = ColumnClauses::default();
        for clause in &column.clauses {
            let added = clauses.add(column, clause, table);
            added.map_err(|error| binder.at_place(error, clause.span))?;
        }
        // The clauses that `serial` implies are not in the text, so these errors have no position.
        if is_serial && clauses.default.is_some() {
            return Err(contradiction("multiple default values specified", column, table).nowhere());
        }
        if is_serial && clauses.identity.is_some() {
            return Err(contradiction("both default and identity specified", column, table).nowhere());
        }
        if is_serial && clauses.not_null == Some(false) {
            return Err(contradiction(NULLNESS, column, table).nowhere());
        }
        Ok(clauses)
    }

    fn add(&mut self, column: &ColumnDefinition, clause: &'a ColumnClause, table: &str) -> SqlResult<()> {
        let ColumnClause { name, kind, span } = clause;
        let wrong = |what: &str| Err(contradiction(what, column, table));
        let takes_timing = std::mem::take(&mut self.takes_timing);
        let what = match kind {
            ColumnClauseKind::Null | ColumnClauseKind::NotNull => {
                return self.says_nulls(*kind == ColumnClauseKind::NotNull).or_else(|()| wrong(NULLNESS));
            }
            ColumnClauseKind::Default(value) => {
                if self.default.replace(value).is_some() {
                    return wrong("multiple default values specified");
                }
                return if self.identity.is_some() { wrong("both default and identity specified") } else { Ok(()) };
            }
            ColumnClauseKind::Identity { is_always, options } => {
                if self.identity.replace((*is_always, options)).is_some() {
                    return wrong("multiple identity specifications");
                }
                self.says_nulls(true).or_else(|()| wrong(NULLNESS))?;
                return if self.default.is_some() { wrong("both default and identity specified") } else { Ok(()) };
            }
            ColumnClauseKind::Collate(collation) => {
                if self.collation.replace((collation, *span)).is_some() {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "multiple COLLATE clauses not allowed"));
                }
                // COLLATE may stand between a constraint and its timing, but is not a constraint.
                self.takes_timing = takes_timing;
                return Ok(());
            }
            ColumnClauseKind::Timing(timing) => {
                let Some(constraint) = self.constraints.last_mut().filter(|_| takes_timing) else {
                    let message = format!("misplaced {} clause", timing_words(*timing));
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                };
                constraint.timing.push(*timing);
                self.takes_timing = true;
                return Ok(());
            }
            ColumnClauseKind::Generated(_) => {
                return Err(SqlError::unsupported("GENERATED ALWAYS AS (expression) STORED"));
            }
            ColumnClauseKind::Compression(_) => return Err(SqlError::unsupported("COMPRESSION of a column")),
            ColumnClauseKind::Check { condition, no_inherit } => {
                NewConstraintKind::Check { condition, no_inherit: *no_inherit }
            }
            ColumnClauseKind::Key(options) => {
                NewConstraintKind::Key { options: options.clone(), columns: vec![column.name.clone()] }
            }
            ColumnClauseKind::References(reference) => {
                NewConstraintKind::Foreign { columns: vec![column.name.clone()], reference }
            }
        };
        self.takes_timing = !matches!(what, NewConstraintKind::Check { .. });
        let name = name.as_ref().map(ToString::to_string);
        self.constraints.push(NewConstraint { name, what, timing: Vec::new(), is_not_valid: false, span: *span });
        Ok(())
    }

    /// Notes whether the column accepts nulls. Fails if the opposite was declared before.
    fn says_nulls(&mut self, not_null: bool) -> Result<(), ()> {
        match self.not_null.replace(not_null) {
            Some(before) if before != not_null => Err(()),
            _ => Ok(()),
        }
    }
}

const NULLNESS: &str = "conflicting NULL/NOT NULL declarations";

/// Returns the words of a constraint's timing in messages.
fn timing_words(timing: ConstraintTiming) -> &'static str {
    match timing {
        ConstraintTiming::Deferrable => "DEFERRABLE",
        ConstraintTiming::NotDeferrable => "NOT DEFERRABLE",
        ConstraintTiming::InitiallyDeferred => "INITIALLY DEFERRED",
        ConstraintTiming::InitiallyImmediate => "INITIALLY IMMEDIATE",
    }
}

impl Ddl<'_> {
    /// Adds a column to the draft. Its constraints are appended to `pending`.
    pub(super) fn add_column<'c>(
        &mut self,
        draft: &mut TableDraft,
        column: &'c ColumnDefinition,
        pending: &mut Vec<NewConstraint<'c>>,
    ) -> SqlResult<()> {
        check_new_column(draft, &column.name)?;
        let serial = serial(&column.kind);
        let kind = match serial {
            Some(kind) => kind.into(),
            None => self.kind_of_column(&column.kind)?,
        };
        let ColumnClauses { default, identity, collation, not_null, constraints, takes_timing: _ } =
            ColumnClauses::of(&self.binder(), column, &draft.name)?;
        let mut def = ColumnDef {
            name: column.name.to_string(),
            number: draft.next_column,
            kind,
            not_null: serial.is_some() || not_null == Some(true),
            default: None,
            identity: None,
            collation: None,
        };
        draft.next_column += 1;
        if let Some((name, at)) = collation {
            let collation = collation_of(name, kind.kind).map_err(|error| self.binder().at_place(error, at))?;
            def.collation = Some(collation);
        }
        if let Some(value) = default {
            def.default = Some(self.default(value, kind, &def.name)?);
        }
        // The sequence of a `serial` or an identity is owned by the column, so the column has its number already.
        if serial.is_some() {
            self.number(draft, &mut def, None, SequenceParameters::of(kind))?;
        }
        if let Some((always, options)) = identity {
            self.identify(draft, &mut def, always, options)?;
        }
        pending.extend(constraints);
        draft.columns.push(def);
        Ok(())
    }

    /// Returns the type of a new column.
    fn kind_of_column(&self, written: &TypeName) -> SqlResult<SqlType> {
        let binder = self.binder();
        if written.is_set {
            return Err(binder.at_place(SqlError::unsupported("SETOF of a column"), written.span));
        }
        let kind = binder.type_of(written)?;
        column_type(kind)?;
        Ok(kind)
    }

    /// Makes a column an identity, with a sequence of these options.
    pub(super) fn identify(
        &mut self,
        draft: &TableDraft,
        def: &mut ColumnDef,
        always: bool,
        options: &[SequenceOption],
    ) -> SqlResult<()> {
        let options = SequenceOptions::of(&self.binder(), options, SequenceStatement::Identity)?;
        let mut numbers = SequenceParameters::of(def.kind);
        numbers.set(&self.binder(), &options)?;
        def.not_null = true;
        self.number(draft, def, Some(always), numbers)?;
        match (options.name, def.identity) {
            (Some(name), Some(identity)) => self.name_sequence(identity.sequence, draft, name),
            _ => Ok(()),
        }
    }

    /// Gives a column a sequence of its own, for an identity or as its default.
    pub(super) fn number(
        &mut self,
        draft: &TableDraft,
        def: &mut ColumnDef,
        always: Option<bool>,
        numbers: SequenceParameters,
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
            owner: draft.owner,
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
        self.add_relation(Relation::Sequence(Arc::new(sequence)))?;
        match always {
            Some(always) => def.identity = Some(IdentityColumn { always, sequence: oid }),
            None => def.default = Some(next_of(oid)),
        }
        Ok(())
    }

    /// Returns a default for a column of this type. A value that is not of the type is refused now, one that does not
    /// fit into the column when the default is used.
    pub(super) fn default(&self, value: &KeptExpr, kind: SqlType, column: &str) -> SqlResult<DefaultExpr> {
        self.default_in(self.text, value, kind, column)
    }

    /// Returns an existing default for a column that gets another type.
    pub(super) fn default_again(&self, default: &DefaultExpr, kind: SqlType, column: &str) -> SqlResult<DefaultExpr> {
        let text = &default.text;
        let value = KeptExpr { value: grammar::expression(text)?, extent: Span::new(0, text.len()) };
        self.default_in(text, &value, kind, column)
    }

    fn default_in(&self, text: &str, value: &KeptExpr, kind: SqlType, column: &str) -> SqlResult<DefaultExpr> {
        let binder = self.binder_of(text);
        let scope = NameScope::default();
        scope.clause.set(Clause::Default);
        let bound = binder.expr(&value.value, &scope)?;
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
        let (text, uses) = self.binder_of(text).kept(value, &NameScope::default(), kind)?;
        Ok(DefaultExpr { text, uses })
    }
}

/// Returns the collation of a column of this kind.
///
/// # Errors
/// `42704`, `42804`
pub(super) fn collation_of(name: &ObjectName, kind: Kind) -> SqlResult<u32> {
    let name = name.to_string();
    let number = crate::system::collation_named(name.strip_prefix("pg_catalog.").unwrap_or(&name));
    match number {
        None => Err(no_collation(&name)),
        Some(_) if !takes_collation(kind) => Err(not_collated(kind)),
        Some(number) => Ok(number),
    }
}

/// Checks that the table has room for a column of this name.
///
/// # Errors
/// `42701`, `54011`
fn check_new_column(draft: &TableDraft, name: &str) -> SqlResult<()> {
    if draft.column(name).is_some() {
        let message = format!("column \"{name}\" specified more than once");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if 1600 <= draft.columns.len() {
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, "tables can have at most 1600 columns"));
    }
    Ok(())
}

/// Error for clauses of a column that contradict one another. `42601`
fn contradiction(what: &str, column: &ColumnDefinition, table: &str) -> SqlError {
    let message = format!("{what} for column \"{}\" of table \"{table}\"", column.name);
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Returns the next value of a sequence, as a default.
fn next_of(sequence: u32) -> DefaultExpr {
    DefaultExpr { text: format!("nextval('{sequence}'::regclass)"), uses: vec![sequence] }
}

/// Returns the scope of one row of a table.
pub(crate) fn scope_of(binder: &Binder<'_>, name: &str, columns: &[ColumnDef]) -> SqlResult<NameScope<'static>> {
    let mut scope = NameScope::default();
    let columns: Vec<_> =
        columns.iter().map(|column| query::bind::column_info(column.name.clone(), column.kind)).collect();
    let width = columns.len();
    scope.add(binder.row_of(name, columns), width)?;
    Ok(scope)
}
