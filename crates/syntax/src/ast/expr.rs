//! Expressions.

use super::{Name, ObjectName, Query, SortBy, TypeName};
use crate::lex::Span;

/// Expression.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Expr {
    /// Meaning of the expression.
    pub kind: ExprKind,
    /// Place of the expression, without parentheses around it.
    pub span: Span,
}

/// Expression that a definition keeps as text.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct KeptExpr {
    /// Expression.
    pub value: Expr,
    /// Place of its text, with the parentheses around parts of it.
    pub extent: Span,
}

/// Meaning of an expression.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum ExprKind {
    /// Literal.
    Constant(Constant),
    /// `$1`
    Parameter(i32),
    /// Column, perhaps qualified: `table.column`.
    Column(ObjectName),
    /// `*`, or `table.*`.
    AllColumns(Option<ObjectName>),
    /// Field, all fields or elements of a value: `(value).field`, `(value)[1]`.
    Indirection {
        /// Value.
        of: Box<Expr>,
        /// Steps into it, in order.
        steps: Vec<Indirection>,
    },
    /// `value::type`, `CAST (value AS type)`, `type 'literal'`
    Cast {
        /// Value.
        value: Box<Expr>,
        /// Type.
        to: TypeName,
        /// Way in which the cast is written.
        style: CastStyle,
    },
    /// `value COLLATE collation`
    Collate {
        /// Value.
        value: Box<Expr>,
        /// Name of the collation.
        collation: ObjectName,
        /// Place of `COLLATE`.
        at: Span,
    },
    /// Operator before its operand.
    Prefix {
        /// Operator.
        operator: OperatorName,
        /// Operand.
        operand: Box<Expr>,
    },
    /// Operator between its operands.
    Infix {
        /// Left operand.
        left: Box<Expr>,
        /// Operator.
        operator: OperatorName,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `AND` of two or more.
    And(Vec<Expr>),
    /// `OR` of two or more.
    Or(Vec<Expr>),
    /// `NOT`
    Not(Box<Expr>),
    /// `IS NULL`, `IS TRUE` and the like.
    Is {
        /// Value.
        value: Box<Expr>,
        /// Test.
        test: IsTest,
        /// True with `NOT`.
        is_not: bool,
        /// Place of `IS`.
        at: Span,
    },
    /// `left IS [NOT] DISTINCT FROM right`
    IsDistinct {
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
        /// True with `NOT`.
        is_not: bool,
        /// Place of `IS`.
        at: Span,
    },
    /// `LIKE`, `ILIKE`, `SIMILAR TO`
    Like {
        /// Kind of the pattern.
        kind: LikeKind,
        /// Value.
        value: Box<Expr>,
        /// Pattern.
        pattern: Box<Expr>,
        /// Character of `ESCAPE`.
        escape: Option<Box<Expr>>,
        /// True with `NOT`.
        is_not: bool,
        /// Place of the first word.
        at: Span,
    },
    /// `value [NOT] BETWEEN [SYMMETRIC] low AND high`
    Between {
        /// Value.
        value: Box<Expr>,
        /// Lower bound.
        low: Box<Expr>,
        /// Upper bound.
        high: Box<Expr>,
        /// True with `NOT`.
        is_not: bool,
        /// True with `SYMMETRIC`.
        is_symmetric: bool,
        /// Place of the first word.
        at: Span,
    },
    /// `value [NOT] IN (list)`
    InList {
        /// Value.
        value: Box<Expr>,
        /// Values of the list.
        list: Vec<Expr>,
        /// True with `NOT`.
        is_not: bool,
        /// Place of the first word.
        at: Span,
    },
    /// `value [NOT] IN (query)`
    InQuery {
        /// Value.
        value: Box<Expr>,
        /// Query.
        query: Box<Query>,
        /// True with `NOT`.
        is_not: bool,
        /// Place of the first word.
        at: Span,
    },
    /// `value operator ANY (array)`, `value operator ALL (query)`
    Quantified {
        /// Left operand.
        value: Box<Expr>,
        /// Operator.
        operator: OperatorName,
        /// `ANY` or `ALL`.
        quantifier: Quantifier,
        /// Query, or expression of an array.
        of: Box<QuantifiedOf>,
    },
    /// Query with one value.
    Subquery(Box<Query>),
    /// `EXISTS (query)`
    Exists(Box<Query>),
    /// `ARRAY (query)`
    ArrayQuery(Box<Query>),
    /// `ARRAY [elements]`
    Array(Vec<Expr>),
    /// `ROW (fields)`, or `(fields)` of two or more.
    Row {
        /// Fields.
        fields: Vec<Expr>,
        /// True with the word `ROW`.
        is_explicit: bool,
    },
    /// `CASE`
    Case {
        /// Operand to compare with the conditions.
        operand: Option<Box<Expr>>,
        /// Branches in order.
        branches: Vec<CaseBranch>,
        /// Value of `ELSE`.
        otherwise: Option<Box<Expr>>,
    },
    /// Call of a function or an aggregate.
    Call(Box<FunctionCall>),
    /// `COALESCE`
    Coalesce(Vec<Expr>),
    /// `NULLIF`
    NullIf(Box<[Expr; 2]>),
    /// `GREATEST`
    Greatest(Vec<Expr>),
    /// `LEAST`
    Least(Vec<Expr>),
    /// `GROUPING`
    Grouping(Vec<Expr>),
    /// `CURRENT_DATE` and the like.
    Session(SessionValue),
    /// `DEFAULT`, where a statement may give it as a value.
    Default,
    /// `CURRENT OF cursor`
    CurrentOf(Name),
    /// Syntax of PostgreSQL that is not supported here: the name of the feature.
    Unsupported(&'static str),
}

/// Literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// Number that fits an `integer`.
    Integer(i32),
    /// Any other number, as it is written.
    Number(Box<str>),
    /// Text.
    Text(Box<str>),
    /// Digits of `B'…'`.
    Bits(Box<str>),
    /// Digits of `X'…'`.
    Hex(Box<str>),
    /// `TRUE`, `FALSE`
    Boolean(bool),
    /// `NULL`
    Null,
}

/// Step into a value.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Indirection {
    /// `.field`
    Field(Name),
    /// `.*`
    All(Span),
    /// `[index]`
    Element(Box<Expr>),
    /// `[lower : upper]`
    Slice(Option<Box<Expr>>, Option<Box<Expr>>),
}

/// Way in which a cast is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastStyle {
    /// `CAST (value AS type)`
    Function,
    /// `value::type`, with the place of the sign.
    Sign(Span),
    /// `type 'literal'`
    Literal,
}

/// Name of an operator, perhaps qualified: `OPERATOR (schema.+)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OperatorName {
    /// Schemas that qualify it.
    pub schemas: Vec<Name>,
    /// The operator's own signs.
    pub signs: Box<str>,
    /// Place of the operator.
    pub span: Span,
}

/// Test of `IS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum IsTest {
    Null,
    True,
    False,
    Unknown,
    /// `IS NORMALIZED`
    Normalized,
    Document,
}

/// Kind of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum LikeKind {
    Like,
    ILike,
    SimilarTo,
}

/// `ANY` (or `SOME`), and `ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum Quantifier {
    Any,
    All,
}

/// Right operand of a quantified comparison.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum QuantifiedOf {
    /// Rows of a query.
    Query(Box<Query>),
    /// Elements of an array.
    Array(Expr),
}

/// `WHEN condition THEN value`
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct CaseBranch {
    /// Condition, or value to compare with the operand.
    pub condition: Expr,
    /// Value.
    pub value: Expr,
    /// Place of the branch.
    pub span: Span,
}

/// Call of a function or an aggregate.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct FunctionCall {
    /// Name of the function.
    pub name: ObjectName,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
    /// True for `function(*)`.
    pub is_star: bool,
    /// True with `DISTINCT`.
    pub is_distinct: bool,
    /// True if the last argument is `VARIADIC`.
    pub is_variadic: bool,
    /// `ORDER BY` among the arguments, or behind `WITHIN GROUP`.
    pub order_by: Vec<SortBy>,
    /// True with `WITHIN GROUP`.
    pub is_within_group: bool,
    /// Condition of `FILTER`.
    pub filter: Option<Box<Expr>>,
    /// Window of `OVER`.
    pub over: Option<Over>,
    /// True for a syntax of its own, as `EXTRACT (field FROM value)`. The function is one of `pg_catalog`.
    pub is_special: bool,
}

/// Argument of a call.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Argument {
    /// Name of the parameter: `name => value`.
    pub name: Option<Name>,
    /// Value.
    pub value: Expr,
}

impl Argument {
    /// Returns the place of the argument, which begins with its name.
    pub fn span(&self) -> Span {
        self.name.as_ref().map_or(self.value.span, |name| name.span)
    }
}

/// Window of a call.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Over {
    /// Window of this name.
    Name(Name),
    /// Window that is defined in place.
    Spec(WindowSpec),
}

/// Window.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct WindowSpec {
    /// Name of the window that this one extends.
    pub base: Option<Name>,
    /// `PARTITION BY`
    pub partition_by: Vec<Expr>,
    /// `ORDER BY`
    pub order_by: Vec<SortBy>,
    /// Frame, if one is given.
    pub frame: Option<Frame>,
    /// Place of the window.
    pub span: Span,
}

/// Frame of a window.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Frame {
    /// Unit of the bounds.
    pub unit: FrameUnit,
    /// First bound.
    pub start: FrameBound,
    /// Second bound; `None` without `BETWEEN`.
    pub end: Option<FrameBound>,
    /// Rows that are left out.
    pub exclusion: FrameExclusion,
    /// Place of the frame.
    pub span: Span,
}

/// Unit of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum FrameUnit {
    Rows,
    Range,
    Groups,
}

/// Bound of a frame.
#[derive(Clone, Debug, PartialEq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Box<Expr>),
    CurrentRow,
    Following(Box<Expr>),
    UnboundedFollowing,
}

/// Rows that a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum FrameExclusion {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

/// Value of the session that has a syntax of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's words")]
pub enum SessionValue {
    CurrentDate,
    /// `CURRENT_TIME` with a precision, if one is given, like the next ones.
    CurrentTime(Option<i32>),
    CurrentTimestamp(Option<i32>),
    LocalTime(Option<i32>),
    LocalTimestamp(Option<i32>),
    CurrentRole,
    CurrentUser,
    User,
    SessionUser,
    CurrentCatalog,
    CurrentSchema,
}
