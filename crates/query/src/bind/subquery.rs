//! Subqueries in expressions, and comparisons of rows.
//!
//! An uncorrelated subquery is shared: the executor runs it once in a statement.

use super::expr::{HASHED_MIN, hashed, not, operator_name, truth};
use super::place::start;
use super::typing::{Equality, equality};
use super::{Binder, BoundQuery, NameScope, settled};
use crate::plan::ColumnInfo;
use crate::plan::{Expr, Over, Plan, Slots, Typed, new_id, slots_of_plan};
use crate::rewrite::{drop_unused, lifted};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{self, ExprKind, OperatorName, QuantifiedOf, Quantifier};
use syntax::fingerprint::of_bytes;
use types::datum::Datum;
use types::ops::{Callee, CastContext};
use types::{Kind, SqlType};

/// Maximal number of fields in a row, as in PostgreSQL.
const ROW_MAX: usize = 1664;

/// Limits a plan to this number of rows.
pub(super) fn first_of(plan: Plan, rows: i64) -> Plan {
    Plan::Limit { input: Box::new(plan), limit: Some(Expr::Constant(Datum::Int8(rows))), offset: None }
}

fn wrong_count(found: usize, wanted: usize) -> Option<SqlError> {
    let message = match found.cmp(&wanted) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => "subquery has too many columns",
        std::cmp::Ordering::Less => "subquery has too few columns",
    };
    Some(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// True if an expression is a row constructor.
pub(super) fn is_row(expr: &ast::Expr) -> bool {
    matches!(expr.kind, ExprKind::Row { .. })
}

impl Binder<'_> {
    /// Binds a subquery in an expression.
    pub(super) fn subquery(&self, query: &ast::Query, scope: &NameScope<'_>) -> SqlResult<BoundQuery> {
        refuse!(!query.locking.is_empty() => "FOR UPDATE in a subquery");
        if let Some(what) = scope.clause.get().refuses_queries() {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot use subquery in {what}")));
        }
        let outside = self.names.take();
        let mut bound = self.within("a subquery", || self.query(query, Some(scope)))?;
        bound.names = self.names.replace(outside);
        self.names.set(of_bytes([outside, bound.names].map(u64::to_be_bytes).iter().map(|part| &part[..])));
        bound.columns.iter_mut().for_each(|column| column.kind = settled(column.kind));
        Ok(bound)
    }

    /// Makes the plan of an uncorrelated subquery shared. `names` is the hash of the names in it.
    pub(super) fn shared(&self, plan: Plan, names: u64) -> Plan {
        if matches!(plan, Plan::Shared { .. }) {
            return plan;
        }
        let slots = slots_of_plan(&plan, 1);
        if !slots.is_empty() || slots.looks_out {
            return plan;
        }
        let id = new_id();
        self.named.borrow_mut().insert(id, names);
        Plan::Shared { id, plan: Arc::new(plan) }
    }

    pub(super) fn exists(&self, query: &ast::Query, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let bound = self.subquery(query, scope)?;
        let mut plan = first_of(bound.plan, 1);
        drop_unused(&mut plan, &Slots::default());
        Ok(truth(Expr::Exists(Box::new(self.shared(plan, bound.names)))))
    }

    pub(super) fn scalar(&self, query: &ast::Query, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let bound = self.subquery(query, scope)?;
        let [column] = &bound.columns[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        // A second row is fetched because it is an error.
        Ok(Typed::new(Expr::Scalar(Box::new(self.shared(first_of(bound.plan, 2), bound.names))), column.kind))
    }

    pub(super) fn array_query(&self, query: &ast::Query, scope: &NameScope<'_>) -> SqlResult<Typed> {
        let bound = self.subquery(query, scope)?;
        let [column] = &bound.columns[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let Some(kind) = column.kind.kind.array_of() else {
            return Err(SqlError::unsupported(format_args!("an array of {}", column.kind.kind.name())));
        };
        let kind = SqlType { kind, ..column.kind };
        Ok(Typed::new(Expr::ArrayQuery(Box::new(self.shared(bound.plan, bound.names))), kind))
    }

    /// Binds `x IN (query)`, for values or rows.
    pub(super) fn in_query(&self, left: &ast::Expr, query: &ast::Query, scope: &NameScope<'_>) -> SqlResult<Typed> {
        self.any_query(left, "=", false, query, scope)
    }

    /// Binds `x operator ANY (query)`, or `ALL`.
    pub(super) fn any_query(
        &self,
        left: &ast::Expr,
        operator: &str,
        all: bool,
        query_written: &ast::Query,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let arguments = if is_row(left) { self.row_values(left, scope)? } else { vec![self.expr(left, scope)?] };
        let bound = self.subquery(query_written, scope)?;
        if let Some(error) = wrong_count(bound.columns.len(), arguments.len()) {
            return Err(error);
        }
        // Equality becomes a lookup in a hash table, if each value and its column can be compared as one type.
        let one_kind = |(argument, column): (&Typed, &ColumnInfo)| match equality(argument.kind.kind, column.kind.kind)
        {
            Ok(Equality::One(kind)) => Some(kind),
            Ok(Equality::Two) | Err(_) => None,
        };
        if ((operator == "=" && !all) || (operator == "<>" && all))
            && let Some(kinds) = arguments.iter().zip(&bound.columns).map(one_kind).collect::<Option<Vec<Kind>>>()
        {
            let values = arguments.into_iter().zip(&kinds).map(|(argument, kind)| self.argument(argument, *kind));
            let arguments = values.collect::<SqlResult<_>>()?;
            let from: Vec<SqlType> = bound.columns.iter().map(|column| column.kind).collect();
            let to: Vec<SqlType> = kinds.iter().map(|kind| (*kind).into()).collect();
            let query = self.converted(bound.plan, &from, &to, Some(query_written))?;
            let query = Box::new(self.shared(query, bound.names));
            let found = truth(Expr::InQuery { kinds, arguments, query });
            return Ok(if all { not(found) } else { found });
        }
        let count = arguments.len();
        // The types of the columns are known, so parameters and literals of unknown type get theirs from them.
        let arguments: Vec<Typed> = arguments
            .into_iter()
            .zip(&bound.columns)
            .map(|(argument, column)| match argument.kind.kind {
                Kind::Unknown => self.coerce(argument, column.kind, CastContext::Implicit),
                _ => Ok(argument),
            })
            .collect::<SqlResult<_>>()?;
        let own = |at: usize| Typed::new(Expr::Column(at), arguments[at].kind);
        let theirs = |at: usize| Typed::new(Expr::Column(count + at), bound.columns[at].kind);
        let condition = self.compare_rows(operator, (0..count).map(own).collect(), (0..count).map(theirs).collect())?;
        let over = Over::Query(Box::new(self.shared(bound.plan, bound.names)));
        let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
        Ok(truth(Expr::Quantified { all, arguments, over, condition: Box::new(condition.expr), hashed: None }))
    }

    /// Binds `x operator ANY (array or query)`, or `ALL`.
    pub(super) fn quantified(
        &self,
        value: &ast::Expr,
        operator: &OperatorName,
        quantifier: Quantifier,
        of: &QuantifiedOf,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let all = match quantifier {
            Quantifier::Any => false,
            Quantifier::All => true,
        };
        let operator = operator_name(operator)?;
        match of {
            QuantifiedOf::Query(query) => self.any_query(value, operator, all, query, scope),
            QuantifiedOf::Array(array) => self.any_element(value, operator, all, array, scope),
        }
    }

    /// Binds `x operator ANY (array)`, or `ALL`.
    fn any_element(
        &self,
        left: &ast::Expr,
        operator: &str,
        all: bool,
        array: &ast::Expr,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let (left, mut array) = (self.expr(left, scope)?, self.expr(array, scope)?);
        // A literal or parameter is read as an array of the left operand's type.
        if array.kind.kind == Kind::Unknown {
            let element = settled(left.kind).kind;
            let Some(kind) = element.array_of() else {
                return Err(SqlError::unsupported(format_args!("an array of {}", element.name())));
            };
            array = self.coerce(array, kind.into(), CastContext::Implicit)?;
        }
        let Some(element) = array.kind.element() else {
            let message = "op ANY/ALL (array) requires array on right side";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let left = match left.kind.kind {
            Kind::Unknown => self.coerce(left, element.kind.into(), CastContext::Implicit)?,
            _ => left,
        };
        let place = left.place;
        let own = Typed::new(Expr::Column(0), left.kind);
        let condition = self.operator(operator, Some(own), Typed::new(Expr::Column(1), element))?;
        if condition.kind.kind != Kind::Bool {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let over = Over::Array(Box::new(array.expr));
        let condition = Box::new(condition.expr);
        let hashed = hashed(is_hashed(&over, &condition, all));
        Ok(truth(Expr::Quantified { all, arguments: vec![left.expr], over, condition, hashed }).at(place))
    }

    /// Binds `(a, b) operator (c, d)`, or a comparison with a subquery of one row.
    pub(super) fn row_comparison(
        &self,
        operator: &str,
        left: &ast::Expr,
        right: &ast::Expr,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        if let ExprKind::Subquery(query) = &right.kind {
            return self.row_and_query(operator, left, query, scope);
        }
        refuse!(!is_row(right) => "a comparison of a row with a value");
        let values = |expr: &ast::Expr| self.row_values(expr, scope);
        let (left, right) = (values(left)?, values(right)?);
        if left.len() != right.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"));
        }
        if left.is_empty() {
            return Err(SqlError::unsupported("a comparison of empty rows"));
        }
        self.compare_rows(operator, left, right)
    }

    /// Binds `(a, b) operator (query)`: null if the query returns no row, an error if it returns several.
    fn row_and_query(
        &self,
        operator: &str,
        left: &ast::Expr,
        query: &ast::Query,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let arguments = self.row_values(left, scope)?;
        let bound = self.subquery(query, scope)?;
        if let Some(error) = wrong_count(bound.columns.len(), arguments.len()) {
            return Err(error);
        }
        let theirs = |(at, column): (usize, &ColumnInfo)| Typed::new(Expr::Column(at), column.kind);
        let columns: Vec<Typed> = bound.columns.iter().enumerate().map(theirs).collect();
        // The comparison is evaluated inside the subquery, so its left side refers to the row of the enclosing query.
        let outside = |typed: Typed| Ok(Typed { expr: lifted(typed.expr)?, ..typed });
        let arguments = arguments.into_iter().map(outside).collect::<SqlResult<Vec<_>>>()?;
        let is_volatile = arguments.iter().any(|argument| argument.expr.is_volatile());
        let compared = self.compare_rows(operator, arguments, columns)?.expr;
        let row = Box::new(self.shared(first_of(bound.plan, 2), bound.names));
        let plan = Plan::Project { input: row, columns: vec![compared] };
        // A volatile left side must be evaluated for each row of the enclosing query.
        let plan = if is_volatile { plan } else { self.shared(plan, bound.names) };
        Ok(truth(Expr::Scalar(Box::new(plan))))
    }

    /// Binds the fields of a row constructor.
    pub(crate) fn row_values(&self, expr: &ast::Expr, scope: &NameScope<'_>) -> SqlResult<Vec<Typed>> {
        let ExprKind::Row { fields, is_explicit: _ } = &expr.kind else {
            return Err(SqlError::unsupported("a row of this kind"));
        };
        if ROW_MAX < fields.len() {
            let message = format!("ROW expressions can have at most {ROW_MAX} entries");
            return Err(self.at_expr(SqlError::new(SqlState::TOO_MANY_COLUMNS, message), expr));
        }
        statement::stack::deeper(fields.len(), || self.exprs(fields, scope))
    }

    /// Binds a comparison of rows, which the first unequal fields decide; null if a field up to them is null.
    pub(super) fn compare_rows(&self, operator: &str, left: Vec<Typed>, right: Vec<Typed>) -> SqlResult<Typed> {
        let mut pairs: Vec<(Typed, Typed)> = left.into_iter().zip(right).collect();
        let one = |name: &str, (left, right): (Typed, Typed)| {
            let compared = self.operator(name, Some(left), right)?;
            self.condition(compared, "a row comparison")
        };
        if pairs.len() == 1
            && let Some(pair) = pairs.pop()
        {
            return Ok(truth(one(operator, pair)?));
        }
        Ok(truth(match operator {
            "=" => Expr::And(pairs.into_iter().map(|pair| one("=", pair)).collect::<SqlResult<_>>()?),
            "<>" => Expr::Or(pairs.into_iter().map(|pair| one("<>", pair)).collect::<SqlResult<_>>()?),
            "<" | "<=" | ">" | ">=" => {
                let strict = &operator[..1];
                let mut result: Option<Expr> = None;
                for pair in pairs.into_iter().rev() {
                    result = Some(match result {
                        None => one(operator, pair)?,
                        // Each field is computed once, and no field after the deciding one is evaluated.
                        Some(rest) => {
                            let either = self.once([pair.0, pair.1], |_, [left, right]| {
                                let equal = one("=", (left.clone(), right.clone()))?;
                                let decided = one(strict, (left, right))?;
                                Ok(truth(Expr::Or(vec![decided, Expr::And(vec![equal, rest])])))
                            });
                            either?.expr
                        }
                    });
                }
                result.ok_or_else(|| SqlError::unsupported("a comparison of empty rows"))?
            }
            other => {
                let message = format!("could not determine interpretation of row comparison operator {other}");
                let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
                return Err(error.hint("Row comparison operators must be associated with btree operator families."));
            }
        }))
    }

    /// Binds `ARRAY[...]` inside a cast to an array type: each element is cast on its own, so elements need no common
    /// type.
    pub(super) fn array_as(
        &self,
        items: &[ast::Expr],
        to: SqlType,
        element: SqlType,
        array: &ast::Expr,
        scope: &NameScope<'_>,
    ) -> SqlResult<Typed> {
        let one = |item: &ast::Expr| {
            let value = self.expr(item, scope)?;
            if value.kind.kind.element().is_some() {
                return Err(SqlError::unsupported(format_args!("an array of {}", value.kind.kind.name())));
            }
            let place = value.place;
            let value =
                self.coerce(value, element, CastContext::Explicit).map_err(|error| self.at_place(error, place))?;
            Ok(value.expr)
        };
        let items = items.iter().map(one).collect::<SqlResult<_>>()?;
        Ok(Typed::new(Expr::Array(items), to).at(start(array)))
    }

    /// Binds `ARRAY[...]`.
    pub(super) fn array(&self, items: &[ast::Expr], scope: &NameScope<'_>) -> SqlResult<Typed> {
        let items = self.exprs(items, scope)?;
        if items.is_empty() {
            return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, "cannot determine type of empty array")
                .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let (items, kind) = self.common(items, "ARRAY")?;
        let Some(array) = kind.kind.array_of() else {
            return Err(SqlError::unsupported(format_args!("an array of {}", kind.kind.name())));
        };
        // A type modifier that all elements share applies to the array, too.
        Ok(Typed::new(Expr::Array(items), SqlType { kind: array, ..kind }))
    }
}

/// True if the executor may use a hash table of an array's elements: the array is the same for all rows, and the
/// operator is an equality with consistent hashes, or its negation.
fn is_hashed(over: &Over, condition: &Expr, all: bool) -> bool {
    let (Over::Array(array), Expr::Call { callee: Callee::Operator(operator), .. }) = (over, condition) else {
        return false;
    };
    let Some(left) = operator.left else { return false };
    let is_integer = |kind: Kind| matches!(kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
    let is_float = |kind: Kind| matches!(kind, Kind::Float4 | Kind::Float8);
    let right = operator.right;
    let is_long = match &**array {
        Expr::Constant(Datum::Array(items)) => HASHED_MIN <= items.len(),
        array => array.is_fixed(),
    };
    is_long
        && operator.name == if all { "<>" } else { "=" }
        && (left == right || (is_integer(left) && is_integer(right)) || (is_float(left) && is_float(right)))
}
