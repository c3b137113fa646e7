//! The binder: names and types of a syntax tree become a typed plan.
//!
//! **Invariant:** every field of the tree is used or refused with `0A000`, so that nothing a client wrote is dropped
//! silently. Patterns on the trees therefore name all fields; there is no `..`.

mod advisory;
mod body_result;
mod calls;
mod columns;
mod conflict;
mod constraints;
mod copy;
mod expr;
mod from;
mod functions;
mod group;
mod inline;
mod interval;
mod join;
mod json;
pub mod kept;
mod names;
mod near;
mod needs;
mod once;
mod place;
mod query;
mod recursion;
mod routine_from;
mod routines;
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
use catalog::rights::RelationNeed;
use catalog::{CatalogState, Routine, TableInfo};
use statement::error::{SqlError, SqlResult, SqlState};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use syntax::ast;
use syntax::fingerprint::of_bytes;
use syntax::lex::Span;
use types::{Kind, SqlType};

pub use body_result::{as_result, converted, has_result, no_result, result_kinds};
pub use calls::Clause;
use calls::QueryCalls;
pub use copy::{CopyFrom, CopySource, CopyTo};
pub use names::no_relation;
pub use sequences::not_a_sequence;
pub use special::{no_collation, not_collated, takes_collation};
pub use write::BoundChange;

/// Query of `WITH`: name, plan, columns, and the depth of the chain of `WITH` queries and views that it refers to.
pub type WithQuery = (String, Plan, Vec<ColumnInfo>, usize);

/// Binder of one statement: name resolution, typing and the state of both.
pub struct Binder<'c> {
    /// Catalog in which names are looked up.
    pub catalog: &'c CatalogState,
    /// Schemas that are searched for unqualified names.
    pub path: &'c [String],
    /// Text of the statement, to which the spans of its tree refer.
    pub text: &'c str,
    /// State of the session. Literals are read by its settings, so a plan depends on them.
    pub env: &'c dyn SessionContext,
    /// Types of the parameters, as far as they are known.
    parameters: RefCell<Vec<Option<SqlType>>>,
    /// Queries of `WITH` in scope. The last one of a name hides those before it.
    with: RefCell<Vec<WithQuery>>,
    /// Maximal height of the `WITH` queries and views that were named so far; see [`WithQuery`].
    height: Cell<usize>,
    /// Indexes of the `WITH` queries that refer to an enclosing query, with the depth of the query that defines them.
    depths: RefCell<Vec<(usize, usize)>>,
    /// Recursive queries whose terms are being bound.
    recursions: RefCell<Vec<recursion::BindingRecursion>>,
    /// True until the first query of the statement is bound, so that it is known to be the outermost one.
    is_top: Cell<bool>,
    /// Data-modifying statements in `WITH` so far.
    modifies: RefCell<Vec<Arc<Modify>>>,
    /// Tables that were named so far.
    tables: RefCell<Vec<Arc<TableInfo>>>,
    /// Tables that the statement locks, as far as it is bound.
    uses: RefCell<Vec<TableUse>>,
    /// Objects of names, if the caller asked for them by [`Binder::noting`].
    notes: RefCell<Option<Vec<NameReference>>>,
    views: ViewExpansion,
    /// Rights that the statement needs so far.
    needs: RefCell<Vec<RelationNeed>>,
    /// True for the text of a stored definition: its names were checked when it was made.
    is_stored: bool,
    /// Position of the name of the statement's target table, which never refers to a `WITH` query.
    target: Cell<Option<u32>>,
    /// Hash of the names in the subquery that is being bound.
    names: Cell<u64>,
    /// Routine whose body is bound.
    body: Option<Arc<Routine>>,
    /// Routines whose bodies are being inlined, outermost first.
    inlining: Vec<u32>,
    /// Hashes of names of uncorrelated subqueries, by the ids of their plans.
    named: RefCell<HashMap<u64, u64>>,
}

/// Treatment of views in a query.
#[derive(Clone, Debug)]
pub enum ViewExpansion {
    /// A view is replaced by its query. The list has the views around the current query, outermost first.
    Expanded(Vec<u32>),
    /// A view has the columns of its definition, and a plan that is never run but distinguishes it from other views.
    Opaque,
}

/// Reference from a name in the text to an object.
#[derive(Debug, Clone, PartialEq)]
pub struct NameReference {
    /// Position of the name in the text.
    pub span: Span,
    /// Object that the name refers to.
    pub of: NameTarget,
}

/// Target of a [`NameReference`].
#[derive(Debug, Clone, PartialEq)]
pub enum NameTarget {
    /// Relation of the catalog, by OID.
    Relation(u32),
    /// Relation that a literal names, by OID.
    Literal(u32),
    /// Literal whose value depends on settings or the clock, in a form that does not.
    Moment(String),
    /// Column of a table, by OID and number.
    Column(u32, i16),
    /// Routine by OID, with its name as a text of any search path has it.
    Routine {
        /// OID of the routine.
        oid: u32,
        /// Name with its schema.
        name: String,
    },
    /// Expansion of `*`: for each column its qualifier in FROM, if there is one, and its name.
    Star(Vec<(Option<String>, String)>),
}

/// Relation in the name space of a FROM: a table, query or join.
#[derive(Clone, Debug)]
pub struct FromRelation {
    /// Name that qualifies the columns.
    pub alias: String,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
    /// Value of each column.
    pub values: Vec<Expr>,
    /// Slot of the first column in the row, unless the relation is a join.
    pub first: usize,
    /// Table, if the relation is one.
    pub table: Option<Arc<TableInfo>>,
    /// True if the alias can be used as a qualifier.
    pub is_named: bool,
    /// True if the columns can be named without a qualifier.
    pub is_open: bool,
    /// Expressions that may refer to the relation.
    pub reach: Visibility,
    /// OID of the catalog's relation, if it goes by its own name.
    pub own: Option<u32>,
    /// OID of the system table, if its first column is never null.
    pub system: Option<u32>,
    /// True for a function's values, where the whole row is the value of its column.
    pub is_value: bool,
    /// Place of the rights that the statement needs on the relation; `None` for one that needs none.
    pub need: Option<usize>,
}

/// Visibility of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Visible everywhere in the query.
    All,
    /// Visible to LATERAL items, if the join allows it.
    Lateral {
        /// False if the join type forbids it, so that a reference is an error.
        is_allowed: bool,
    },
}

impl FromRelation {
    /// Relation whose columns are adjacent in the row.
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
            need: None,
        }
    }
}

/// Scope of names: the relations of one query, and the enclosing scope.
pub struct NameScope<'p> {
    /// Relations of the FROM.
    pub relations: Vec<FromRelation>,
    /// Width of the row.
    pub width: usize,
    /// Scope of the enclosing query.
    parent: Option<&'p NameScope<'p>>,
    /// True while a LATERAL item is bound, which sees relations that others do not.
    is_lateral: Cell<bool>,
    /// Clause that is being bound.
    pub clause: Cell<Clause>,
    /// Aggregates, window functions and set-returning functions so far.
    calls: RefCell<QueryCalls>,
    /// Definitions of the `WINDOW` clause.
    windows: Vec<ast::WindowDefinition>,
    /// Columns that were named outside of aggregates, with their positions.
    uses: RefCell<Vec<(usize, Span)>>,
    /// Lower bound of the ids of this query's subqueries. Two subqueries can be copies of one another, for expression
    /// equality, only if both are at or above it.
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

/// Bound query.
pub struct BoundQuery {
    /// Plan of the query.
    pub plan: Plan,
    /// Columns of its result.
    pub columns: Vec<ColumnInfo>,
    /// Hash of the names in it, if it is a subquery.
    pub names: u64,
}

impl BoundQuery {
    fn new(plan: Plan, columns: Vec<ColumnInfo>) -> BoundQuery {
        BoundQuery { plan, columns, names: 0 }
    }
}

impl<'c> Binder<'c> {
    /// Binder of one statement. `parameters` are the types that the client has declared.
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
            needs: RefCell::default(),
            is_stored: false,
            target: Cell::default(),
            names: Cell::new(0),
            named: RefCell::default(),
            body: None,
            inlining: Vec::new(),
        }
    }

    /// Makes views opaque, for callers that need names and types but no rows: as in PostgreSQL, a definition does not
    /// depend on whether the views that it names can be used.
    pub fn without_expansion(self) -> Self {
        Binder { views: ViewExpansion::Opaque, ..self }
    }

    /// Makes the binder note the objects of names; see [`Binder::take_notes`].
    pub fn noting(self) -> Self {
        *self.notes.borrow_mut() = Some(Vec::new());
        self.without_expansion()
    }

    /// Returns the notes.
    pub fn take_notes(&self) -> Vec<NameReference> {
        self.notes.take().unwrap_or_default()
    }

    fn note(&self, span: Span, of: impl FnOnce() -> NameTarget) {
        if let Some(notes) = self.notes.borrow_mut().as_mut() {
            notes.push(NameReference { span, of: of() });
        }
    }

    /// Returns the position of the last part of a qualified name.
    pub fn span_of(name: &ast::ObjectName) -> Span {
        name.parts.last().map_or(Span::NOWHERE, |part| part.span)
    }

    /// Adds names to the hash of the subquery that is being bound.
    fn add_names<'n>(&self, names: impl IntoIterator<Item = &'n String>) {
        for name in names {
            self.names.set(of_bytes([&self.names.get().to_be_bytes()[..], name.as_bytes()]));
        }
    }

    /// True if two expressions of a query are equal.
    fn are_same(&self, left: &Expr, right: &Expr, scope: &NameScope<'_>) -> bool {
        is_same(left, right, Some(QueryCopies { since: scope.since, names: &self.named.borrow() }))
    }

    /// True if two calls of set-returning functions are equal.
    fn are_same_sets(&self, left: &SetCall, right: &SetCall, scope: &NameScope<'_>) -> bool {
        is_same_set(left, right, Some(QueryCopies { since: scope.since, names: &self.named.borrow() }))
    }

    /// Returns the data-modifying statements of `WITH`, which the outermost statement runs.
    pub fn take_modifies(&self) -> Vec<Arc<Modify>> {
        self.modifies.take()
    }

    /// Notes that a name refers to this table.
    pub fn names(&self, table: &Arc<TableInfo>) {
        let mut tables = self.tables.borrow_mut();
        if !tables.iter().any(|one| Arc::ptr_eq(one, table)) {
            tables.push(Arc::clone(table));
        }
    }

    /// Returns the tables that were named, also in views.
    pub fn take_tables(&self) -> Vec<Arc<TableInfo>> {
        self.tables.take()
    }

    /// Notes that the statement locks this table before it starts.
    pub fn will_hold(&self, table: &Arc<TableInfo>, hold: Hold) {
        let mut uses = self.uses.borrow_mut();
        if !uses.iter().any(|one| one.hold == hold && Arc::ptr_eq(&one.table, table)) {
            uses.push(TableUse { table: Arc::clone(table), hold });
        }
    }

    /// Returns the tables that the statement locks before it starts.
    pub fn take_uses(&self) -> Vec<TableUse> {
        self.uses.take()
    }

    /// Returns the types of the parameters. A parameter whose type is still unknown is text.
    ///
    /// # Errors
    /// Fails with `42P18` for a parameter without a declared type that does not occur.
    pub fn parameter_types(&self) -> SqlResult<Vec<SqlType>> {
        let kind_of = |(at, kind): (usize, &Option<SqlType>)| kind.map(settled).ok_or_else(|| undetermined(at));
        self.parameters.borrow().iter().enumerate().map(kind_of).collect()
    }

    /// # Errors
    /// Fails with `42P02` at the first parameter, for statements that take none.
    pub fn without_parameters(&self) -> SqlResult<()> {
        if self.parameters.borrow().is_empty() {
            return Ok(());
        }
        let first = syntax::lex::first_parameter(self.text);
        let name = first.map_or("$1", |first| first.of(self.text));
        let error = SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
        Err(self.at_place(error, first.unwrap_or_default()))
    }

    /// Adds the position of a qualified name to an error.
    pub fn at_name(&self, error: SqlError, name: &ast::ObjectName) -> SqlError {
        self.at_place(error, name.span())
    }

    /// Adds the position of a name to an error.
    pub fn at(&self, error: SqlError, name: &ast::Name) -> SqlError {
        self.at_place(error, name.span)
    }

    /// Adds the position of an expression to an error that has none.
    pub(crate) fn at_expr(&self, error: SqlError, expr: &ast::Expr) -> SqlError {
        if error.is_placed() { error } else { self.at_place(error, place::start(expr)) }
    }

    /// Adds a position to an error that has none, if the position is known.
    pub fn at_place(&self, error: SqlError, place: Span) -> SqlError {
        if error.is_placed() || !place.is_known() { error } else { error.at(place.position(self.text)) }
    }
}

impl<'p> NameScope<'p> {
    /// Empty scope inside another one.
    pub fn inside(parent: Option<&'p NameScope<'p>>) -> NameScope<'p> {
        NameScope { parent, ..NameScope::default() }
    }

    /// Returns the number of enclosing queries.
    pub fn depth(&self) -> usize {
        self.parent.map_or(0, |parent| parent.depth() + 1)
    }

    /// Appends a relation.
    pub fn add(&mut self, relation: FromRelation, width: usize) -> SqlResult<()> {
        statement::pulse::tick(self.relations.len())?;
        // Tables of two schemas may have the same name, unless one of them has an alias.
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

/// Column of a result that comes from no table.
pub fn column_info(name: impl Into<String>, kind: SqlType) -> ColumnInfo {
    ColumnInfo { name: name.into(), kind, table: 0, number: 0 }
}

/// Returns the columns of a table.
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

/// Returns the type of a value whose type is still unknown at the end: text.
pub fn settled(kind: SqlType) -> SqlType {
    if kind.kind == Kind::Unknown { Kind::Text.into() } else { kind }
}
