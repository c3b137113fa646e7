//! Queries.

use super::{Delete, Expr, FunctionCall, Insert, Name, ObjectName, TypeName, Update, WindowSpec};
use crate::lex::Span;

/// Query: a SELECT, VALUES, or a set operation, with its order and limit.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Query {
    /// `WITH`
    pub with: Option<With>,
    /// Rows of the query.
    pub body: QueryBody,
    /// `ORDER BY`
    pub order_by: Vec<SortBy>,
    /// `LIMIT` or `FETCH FIRST`, and `OFFSET`.
    pub limit: Limit,
    /// `FOR UPDATE` and the like.
    pub locking: Vec<Locking>,
    /// Place of the query, without parentheses around it.
    pub span: Span,
}

/// Rows of a query.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum QueryBody {
    /// `SELECT`
    Select(Box<Select>),
    /// `VALUES`
    Values(Vec<Vec<Expr>>),
    /// `UNION`, `INTERSECT`, `EXCEPT`
    SetOperation {
        /// Operator.
        operator: SetOperator,
        /// True with `ALL`.
        is_all: bool,
        /// Left operand.
        left: Box<Query>,
        /// Right operand.
        right: Box<Query>,
    },
}

/// Set operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum SetOperator {
    Union,
    Intersect,
    Except,
}

/// SELECT without its order and limit. `TABLE name` is one, too.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Select {
    /// `DISTINCT`
    pub distinct: Distinct,
    /// List of columns.
    pub list: Vec<SelectItem>,
    /// `INTO`
    pub into: Option<SelectInto>,
    /// `FROM`
    pub from: Vec<FromItem>,
    /// `WHERE`
    pub condition: Option<Expr>,
    /// `GROUP BY`; empty without it.
    pub group_by: Vec<GroupItem>,
    /// True with `GROUP BY DISTINCT`.
    pub is_group_distinct: bool,
    /// `HAVING`
    pub having: Option<Expr>,
    /// `WINDOW`
    pub windows: Vec<WindowDefinition>,
}

/// `DISTINCT` of a SELECT.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Distinct {
    /// All rows.
    No,
    /// `DISTINCT`
    Rows,
    /// `DISTINCT ON (keys)`
    On(Vec<Expr>),
}

/// Column of a list.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct SelectItem {
    /// Value.
    pub value: Expr,
    /// Label.
    pub label: Option<Name>,
    /// Place of the item, with parentheses around the value.
    pub span: Span,
}

/// Table that a SELECT creates.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SelectInto {
    /// Name of the table.
    pub name: ObjectName,
    /// True with `TEMP`.
    pub is_temporary: bool,
    /// True with `UNLOGGED`.
    pub is_unlogged: bool,
}

/// `WITH`
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct With {
    /// True with `RECURSIVE`.
    pub is_recursive: bool,
    /// Queries in order.
    pub tables: Vec<CommonTable>,
    /// Place of the clause.
    pub span: Span,
}

/// Query of `WITH`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct CommonTable {
    /// Name of the query.
    pub name: Name,
    /// Names of its columns.
    pub columns: Vec<Name>,
    /// `MATERIALIZED`, if it is given.
    pub materialized: Materialized,
    /// Statement.
    pub statement: CommonStatement,
    /// `SEARCH` or `CYCLE`: the feature's name.
    pub unsupported: Option<(&'static str, Span)>,
}

/// Statement of a query of `WITH`.
#[derive(Clone, Debug, PartialEq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CommonStatement {
    Query(Box<Query>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    /// `MERGE`, and other syntax that is not supported here.
    Unsupported(&'static str),
}

/// `MATERIALIZED` of a query of `WITH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum Materialized {
    Default,
    Always,
    Never,
}

/// Key of an order.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct SortBy {
    /// Value.
    pub value: Expr,
    /// Direction.
    pub order: SortOrder,
    /// Place of nulls.
    pub nulls: NullsOrder,
}

/// Direction of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum SortOrder {
    Default,
    Ascending,
    Descending,
    /// `USING operator`
    Using(super::OperatorName),
}

/// Place of nulls in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum NullsOrder {
    Default,
    First,
    Last,
}

/// Limit on the rows of a result.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct Limit {
    /// Greatest number of rows.
    pub count: Option<RowCount>,
    /// Rows to skip.
    pub offset: Option<Expr>,
    /// True with `FETCH FIRST … WITH TIES`.
    pub with_ties: bool,
}

/// Number of rows.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum RowCount {
    /// `LIMIT ALL`
    All,
    /// `LIMIT count`, `FETCH FIRST count ROWS`
    Expr(Expr),
}

/// `FOR UPDATE` and the like.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Locking {
    /// Strength of the locks.
    pub strength: LockStrength,
    /// Tables; all if none are named.
    pub of: Vec<ObjectName>,
    /// Behaviour on a locked row.
    pub wait: LockWait,
    /// Place of the clause.
    pub span: Span,
}

/// Strength of row locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum LockStrength {
    Update,
    NoKeyUpdate,
    Share,
    KeyShare,
}

/// Behaviour on a locked row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum LockWait {
    Block,
    NoWait,
    SkipLocked,
}

/// Item of `GROUP BY`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum GroupItem {
    /// Key.
    Expr(Expr),
    /// `()`
    Empty(Span),
    /// `ROLLUP (keys)`
    Rollup(Vec<Expr>, Span),
    /// `CUBE (keys)`
    Cube(Vec<Expr>, Span),
    /// `GROUPING SETS (items)`
    Sets(Vec<GroupItem>, Span),
}

/// Window of the clause `WINDOW`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct WindowDefinition {
    /// Name of the window.
    pub name: Name,
    /// Window.
    pub window: WindowSpec,
}

/// Item of `FROM`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum FromItem {
    /// Table or view.
    Table(TableItem),
    /// Query in parentheses.
    Query {
        /// Query.
        query: Box<Query>,
        /// Alias.
        alias: Option<Alias>,
        /// True with `LATERAL`.
        is_lateral: bool,
        /// Place of the item.
        span: Span,
    },
    /// Functions.
    Functions {
        /// Functions; more than one with `ROWS FROM`.
        functions: Vec<FunctionItem>,
        /// True with `ROWS FROM`.
        is_rows_from: bool,
        /// True with `WITH ORDINALITY`.
        with_ordinality: bool,
        /// Alias.
        alias: Option<Alias>,
        /// True with `LATERAL`.
        is_lateral: bool,
        /// Place of the item.
        span: Span,
    },
    /// Join.
    Join(Box<JoinItem>),
    /// Syntax of PostgreSQL that is not supported here: the name of the feature.
    Unsupported(&'static str, Span),
}

/// Table or view of `FROM`, or the table that a statement changes.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct TableItem {
    /// Name of the table.
    pub name: ObjectName,
    /// True with `ONLY`.
    pub is_only: bool,
    /// Alias.
    pub alias: Option<Alias>,
    /// True with `TABLESAMPLE`.
    pub is_sampled: bool,
    /// Place of the item.
    pub span: Span,
}

/// Function of `FROM`.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct FunctionItem {
    /// Call, or another expression that looks like one.
    pub call: Expr,
    /// Definitions of the columns.
    pub columns: Vec<TableFunctionColumn>,
}

/// Column in the definition of a function's rows.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct TableFunctionColumn {
    /// Name of the column.
    pub name: Name,
    /// Type of the column.
    pub kind: TypeName,
    /// Collation of the column.
    pub collation: Option<ObjectName>,
}

/// Alias of an item.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Alias {
    /// Name; `None` where only columns are defined.
    pub name: Option<Name>,
    /// Names of the columns, with types where they are defined.
    pub columns: Vec<AliasColumn>,
}

/// Column of an alias.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct AliasColumn {
    /// Name of the column.
    pub name: Name,
    /// Type of the column, where it is defined.
    pub kind: Option<TypeName>,
}

/// Join of two items.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct JoinItem {
    /// Kind of the join.
    pub kind: JoinKind,
    /// Left side.
    pub left: FromItem,
    /// Right side.
    pub right: FromItem,
    /// Condition.
    pub condition: JoinCondition,
    /// Alias of the join.
    pub alias: Option<Alias>,
    /// Place of the join.
    pub span: Span,
}

/// Kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

/// Condition of a join.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum JoinCondition {
    /// None: `CROSS JOIN`.
    None,
    /// `ON`
    On(Expr),
    /// `USING (columns) AS alias`
    Using(Vec<Name>, Option<Name>),
    /// `NATURAL`
    Natural,
}

/// Wraps a call of a function, as most items are, without definitions of columns.
impl From<FunctionCall> for FunctionItem {
    fn from(call: FunctionCall) -> FunctionItem {
        let span = call.name.span();
        let call = Expr { kind: super::ExprKind::Call(Box::new(call)), span };
        FunctionItem { call, columns: Vec::new() }
    }
}
