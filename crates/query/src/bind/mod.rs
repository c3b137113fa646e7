//! The binder: names and types of a syntax tree become a typed plan.
//!
//! **Invariant:** every field of the tree is used or refused with `0A000`, so that nothing a client wrote is dropped
//! silently. Patterns on the trees therefore name all fields; there is no `..`.

mod advisory;
mod calls;
mod columns;
mod conflict;
mod constraints;
mod copy;
mod expr;
mod from;
mod functions;
mod group;
mod interval;
mod join;
mod json;
pub mod kept;
mod names;
mod near;
mod once;
mod place;
mod query;
mod recursion;
mod select;
mod sequences;
mod sets;
mod special;
mod subquery;
mod typing;
mod vectors;
mod window;
mod write;

use crate::change::Modify;
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Hold, Plan, QueryCopies, SetCall, TableUse, is_same, is_same_set, new_id};
use catalog::SessionContext;
use catalog::{CatalogState, TableInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use syntax::ast;
use syntax::fingerprint::of_bytes;
use syntax::lex::Span;
use types::{Kind, SqlType};

pub use calls::Clause;
use calls::QueryCalls;
pub use copy::{CopyFrom, CopySource, CopyTo};
pub use names::no_relation;
pub use sequences::not_a_sequence;
pub use special::{no_collation, not_collated, takes_collation};
pub use write::BoundChange;

/// A query of `WITH`: its name, plan and columns, and how many queries refer to one another from it on.
pub type WithQuery = (String, Plan, Vec<ColumnInfo>, usize);

/// What one statement is bound with.
pub struct Binder<'c> {
    /// Catalog by which names are found.
    pub catalog: &'c CatalogState,
    /// Schemas where names without one are looked up.
    pub path: &'c [String],
    /// Text of the statement, in which spans of its tree are places.
    pub text: &'c str,
    /// The session's state: literals are read by its settings, so a plan is bound to them.
    pub env: &'c dyn SessionContext,
    /// What is known of the parameters' types.
    parameters: RefCell<Vec<Option<SqlType>>>,
    /// Queries of `WITH`, by name; inner ones hide outer ones.
    with: RefCell<Vec<WithQuery>>,
    /// The highest of the queries of `WITH` that were named so far; a view counts with those inside.
    height: Cell<usize>,
    /// Those that look at an enclosing query, with the number of queries that they stand in.
    depths: RefCell<Vec<(usize, usize)>>,
    /// Recursive queries whose terms are being bound.
    recursions: RefCell<Vec<recursion::BindingRecursion>>,
    /// Nothing of the statement has been bound yet: what is bound next is the whole.
    is_top: Cell<bool>,
    /// Statements of `WITH` that change rows, so far.
    modifies: RefCell<Vec<Arc<Modify>>>,
    /// Tables that names stand for, so far.
    tables: RefCell<Vec<Arc<TableInfo>>>,
    /// Tables that the statement locks, so far.
    uses: RefCell<Vec<TableUse>>,
    /// What names stand for, if somebody wants to know.
    notes: RefCell<Option<Vec<NameReference>>>,
    views: ViewExpansion,
    /// First byte of the name of the table that the statement changes, which is never a query of WITH.
    target: Cell<Option<u32>>,
    /// Names that are written in the subquery that is being bound, as one number.
    names: Cell<u64>,
    /// Those of subqueries that look at no row, by the numbers of their plans.
    named: RefCell<HashMap<u64, u64>>,
}

/// Treatment of a view that a query names.
#[derive(Clone, Debug)]
pub enum ViewExpansion {
    /// The view's query takes its place. These are the views inside of which the query stands, outermost first.
    Expanded(Vec<u32>),
    /// It has the columns of its definition, and a plan that only tells it from others: nobody runs it.
    Opaque,
}

/// What a name stands for, and where it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct NameReference {
    /// Place of the name in the text.
    pub span: Span,
    /// Object that the name stands for.
    pub of: NameTarget,
}

/// See [`NameReference`].
#[derive(Debug, Clone, PartialEq)]
pub enum NameTarget {
    /// A relation of the catalog.
    Relation(u32),
    /// A relation that a literal names.
    Literal(u32),
    /// A literal that is read by settings or the clock, as any settings read it.
    Moment(String),
    /// A column of a table: their numbers.
    Column(u32, i16),
    /// All columns: the relations' names in FROM, if they have any, and theirs.
    Star(Vec<(Option<String>, String)>),
}

/// A table, query or join of `FROM`, as names see it.
#[derive(Clone, Debug)]
pub struct FromRelation {
    /// Name by which columns are qualified.
    pub alias: String,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
    /// What each column stands for.
    pub values: Vec<Expr>,
    /// Where its columns begin in the row, unless it is a join.
    pub first: usize,
    /// The table, if it is one.
    pub table: Option<Arc<TableInfo>>,
    /// Whether its alias can be used.
    pub is_named: bool,
    /// Whether its columns can be named without it.
    pub is_open: bool,
    /// Places that see the relation.
    pub reach: Visibility,
    /// The number of the relation of the catalog by whose name it goes.
    pub own: Option<u32>,
    /// The number of the system table that it is, if that one's first column is never null.
    pub system: Option<u32>,
    /// It is a function's values, so that its row as a whole is the value of its column.
    pub is_value: bool,
}

/// From where a relation is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Everywhere.
    All,
    /// From what is LATERAL, if the join allows it.
    Lateral {
        /// False if the join does not allow it: the reference is an error.
        is_allowed: bool,
    },
}

impl FromRelation {
    /// One whose columns stand side by side in the row.
    pub fn new(
        alias: impl Into<String>,
        columns: Vec<ColumnInfo>,
        first: usize,
        table: Option<&Arc<TableInfo>>,
    ) -> FromRelation {
        let values = (first..first + columns.len()).map(Expr::Column).collect();
        let (alias, table) = (alias.into(), table.cloned());
        let (is_named, is_open, reach, own) = (true, true, Visibility::All, None);
        FromRelation {
            alias,
            columns,
            values,
            first,
            table,
            is_named,
            is_open,
            reach,
            own,
            system: None,
            is_value: false,
        }
    }
}

/// Where names are looked up.
pub struct NameScope<'p> {
    /// Relations of the FROM.
    pub relations: Vec<FromRelation>,
    /// Columns of a row.
    pub width: usize,
    /// The enclosing query's.
    parent: Option<&'p NameScope<'p>>,
    /// What is being bound sees relations that only LATERAL sees.
    is_lateral: Cell<bool>,
    /// Which part of the query is being bound.
    pub clause: Cell<Clause>,
    /// Aggregates, window functions and sets, as they are met.
    calls: RefCell<QueryCalls>,
    /// `WINDOW`
    windows: Vec<ast::WindowDefinition>,
    /// Columns that were named outside of aggregates, and where.
    uses: RefCell<Vec<(usize, Span)>>,
    /// Of queries that may be copies of one another, none has a smaller number.
    since: u64,
}

impl Default for NameScope<'_> {
    fn default() -> Self {
        NameScope {
            relations: Vec::new(),
            width: 0,
            parent: None,
            is_lateral: Cell::default(),
            clause: Cell::default(),
            calls: RefCell::default(),
            windows: Vec::new(),
            uses: RefCell::default(),
            since: new_id(),
        }
    }
}

/// A query, bound.
pub struct BoundQuery {
    /// Plan of the query.
    pub plan: Plan,
    /// Columns of its result.
    pub columns: Vec<ColumnInfo>,
    /// Of a subquery, the names in it, as one number.
    pub names: u64,
}

impl BoundQuery {
    fn new(plan: Plan, columns: Vec<ColumnInfo>) -> BoundQuery {
        BoundQuery { plan, columns, names: 0 }
    }
}

impl<'c> Binder<'c> {
    /// Binder of one statement. `parameters` are the types that the client gave.
    pub fn new(
        catalog: &'c CatalogState,
        path: &'c [String],
        text: &'c str,
        env: &'c dyn SessionContext,
        parameters: Vec<Option<SqlType>>,
    ) -> Binder<'c> {
        Binder {
            catalog,
            path,
            text,
            env,
            parameters: RefCell::new(parameters),
            with: RefCell::default(),
            height: Cell::new(0),
            depths: RefCell::default(),
            recursions: RefCell::default(),
            is_top: Cell::new(true),
            modifies: RefCell::default(),
            tables: RefCell::default(),
            uses: RefCell::default(),
            notes: RefCell::default(),
            views: ViewExpansion::Expanded(Vec::new()),
            target: Cell::default(),
            names: Cell::new(0),
            named: RefCell::default(),
        }
    }

    /// Takes views by their definitions only, for whoever needs names and types, not rows: a definition, as in
    /// PostgreSQL, does not depend on whether the views that it names can be used.
    pub fn without_expansion(self) -> Self {
        Binder { views: ViewExpansion::Opaque, ..self }
    }

    /// Also notes what names stand for; see [`Binder::take_notes`].
    pub fn noting(self) -> Self {
        *self.notes.borrow_mut() = Some(Vec::new());
        self.without_expansion()
    }

    /// What was noted.
    pub fn take_notes(&self) -> Vec<NameReference> {
        self.notes.take().unwrap_or_default()
    }

    fn note(&self, span: Span, of: impl FnOnce() -> NameTarget) {
        if let Some(notes) = self.notes.borrow_mut().as_mut() {
            notes.push(NameReference { span, of: of() });
        }
    }

    /// Where a name of several parts is written: its last part.
    pub fn span_of(name: &ast::ObjectName) -> Span {
        name.parts.last().map_or(Span::NOWHERE, |part| part.span)
    }

    /// These names are written in the subquery that is being bound.
    fn add_names<'n>(&self, names: impl IntoIterator<Item = &'n String>) {
        for name in names {
            self.names.set(of_bytes([&self.names.get().to_be_bytes()[..], name.as_bytes()]));
        }
    }

    /// Says whether two expressions of a query say the same.
    fn are_same(&self, left: &Expr, right: &Expr, scope: &NameScope<'_>) -> bool {
        is_same(left, right, Some(QueryCopies { since: scope.since, names: &self.named.borrow() }))
    }

    /// Says whether two calls of functions that return sets say the same.
    fn are_same_sets(&self, left: &SetCall, right: &SetCall, scope: &NameScope<'_>) -> bool {
        is_same_set(left, right, Some(QueryCopies { since: scope.since, names: &self.named.borrow() }))
    }

    /// The statements of `WITH` that change rows, for whoever runs the whole.
    pub fn take_modifies(&self) -> Vec<Arc<Modify>> {
        self.modifies.take()
    }

    /// A name stands for this table.
    pub fn names(&self, table: &Arc<TableInfo>) {
        let mut tables = self.tables.borrow_mut();
        if !tables.iter().any(|one| Arc::ptr_eq(one, table)) {
            tables.push(Arc::clone(table));
        }
    }

    /// The tables that names stand for, those of views included.
    pub fn take_tables(&self) -> Vec<Arc<TableInfo>> {
        self.tables.take()
    }

    /// The statement locks this table before it begins.
    pub fn will_hold(&self, table: &Arc<TableInfo>, hold: Hold) {
        let mut uses = self.uses.borrow_mut();
        if !uses.iter().any(|one| one.hold == hold && Arc::ptr_eq(&one.table, table)) {
            uses.push(TableUse { table: Arc::clone(table), hold });
        }
    }

    /// The tables that the statement locks before it begins.
    pub fn take_uses(&self) -> Vec<TableUse> {
        self.uses.take()
    }

    /// Returns the types of the parameters. What nothing decides is text.
    ///
    /// # Errors
    /// `42P18` for a parameter without a given type that does not occur.
    pub fn parameter_types(&self) -> SqlResult<Vec<SqlType>> {
        let kind_of = |(at, kind): (usize, &Option<SqlType>)| kind.map(settled).ok_or_else(|| undetermined(at));
        self.parameters.borrow().iter().enumerate().map(kind_of).collect()
    }

    /// # Errors
    /// `42P02` where a parameter stands that must not.
    pub fn without_parameters(&self) -> SqlResult<()> {
        if self.parameters.borrow().is_empty() {
            return Ok(());
        }
        let first = syntax::lex::first_parameter(self.text);
        let name = first.map_or("$1", |first| first.of(self.text));
        let error = SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
        Err(self.at_place(error, first.unwrap_or_default()))
    }

    /// Adds the place of a qualified name to an error.
    pub fn at_name(&self, error: SqlError, name: &ast::ObjectName) -> SqlError {
        self.at_place(error, name.span())
    }

    /// Adds the place of a name to an error.
    pub fn at(&self, error: SqlError, name: &ast::Name) -> SqlError {
        self.at_place(error, name.span)
    }

    /// Adds the place of an expression's value to an error.
    pub(crate) fn at_expr(&self, error: SqlError, expr: &ast::Expr) -> SqlError {
        if error.is_placed() { error } else { self.at_place(error, place::start(expr)) }
    }

    /// Adds a place to an error that has none, if the place is known.
    pub fn at_place(&self, error: SqlError, place: Span) -> SqlError {
        if error.is_placed() || !place.is_known() { error } else { error.at(place.position(self.text)) }
    }
}

impl<'p> NameScope<'p> {
    /// Empty scope within another.
    pub fn inside(parent: Option<&'p NameScope<'p>>) -> NameScope<'p> {
        NameScope { parent, ..NameScope::default() }
    }

    /// Number of queries that it stands in.
    pub fn depth(&self) -> usize {
        self.parent.map_or(0, |parent| parent.depth() + 1)
    }

    /// Adds a relation behind the others.
    pub fn add(&mut self, relation: FromRelation, width: usize) -> SqlResult<()> {
        statement::pulse::tick(self.relations.len())?;
        // Tables of two schemas are told apart by these, unless one has an alias.
        let are_apart = |other: &FromRelation| match (relation.own, other.own) {
            (Some(own), Some(other)) => own != other,
            _ => false,
        };
        let is_taken = |other: &FromRelation| other.is_named && other.alias == relation.alias && !are_apart(other);
        if relation.is_named && self.relations.iter().any(is_taken) {
            let message = format!("table name \"{}\" specified more than once", relation.alias);
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        self.width += width;
        self.relations.push(relation);
        Ok(())
    }
}

/// A result's columns of these names and types.
pub fn column_info(name: impl Into<String>, kind: SqlType) -> ColumnInfo {
    ColumnInfo { name: name.into(), kind, table: 0, number: 0 }
}

/// A table's columns.
pub fn columns_of(table: &TableInfo) -> Vec<ColumnInfo> {
    let column = |(at, column): (usize, &catalog::ColumnDef)| ColumnInfo {
        name: column.name.clone(),
        kind: column.kind,
        table: table.oid,
        number: at as i16 + 1,
    };
    table.columns.iter().enumerate().map(column).collect()
}

fn undetermined(parameter: usize) -> SqlError {
    let message = format!("could not determine data type of parameter ${}", parameter + 1);
    SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)
}

/// A type for what is still unknown at the end: text.
pub fn settled(kind: SqlType) -> SqlType {
    if kind.kind == Kind::Unknown { Kind::Text.into() } else { kind }
}
