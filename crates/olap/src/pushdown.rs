//! Filters of a query that a scan can use, as conditions of the engine.
//!
//! **Invariant:** a row that satisfies a filter satisfies all conditions made of it. The reverse need not hold, so the
//! filter stays in the plan: the engine only leaves out blocks that cannot have such rows.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use engine::{Comparison, Condition, Table, Value};

/// Returns the conditions that `filter` implies; none unless it compares a column with a constant.
pub(crate) fn conditions(table: &Table, filter: &Expr) -> Vec<Condition> {
    let mut found = Vec::new();
    add(table, filter, &mut found);
    found
}

fn add(table: &Table, filter: &Expr, found: &mut Vec<Condition>) {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            add(table, left, found);
            add(table, right, found);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let Some(comparison) = comparison(*op) else { return };
            // `5 < a` is `a > 5`.
            found.extend(compare(table, left, comparison, right));
            found.extend(compare(table, right, mirrored(comparison), left));
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            found.extend(compare(table, expr, Comparison::GreaterOrEqual, low));
            found.extend(compare(table, expr, Comparison::LessOrEqual, high));
        }
        Expr::IsNull(expr) => found.extend(column(table, expr).map(Condition::is_null)),
        Expr::IsNotNull(expr) => found.extend(column(table, expr).map(Condition::is_not_null)),
        _ => {}
    }
}

fn compare(table: &Table, expr: &Expr, comparison: Comparison, constant: &Expr) -> Option<Condition> {
    let column = column(table, expr)?;
    let Expr::Literal(scalar, _) = constant else { return None };
    let wanted = table.schema().field(column).data_type();
    let fitting = scalar.cast_to(wanted).ok()?;
    // The column must hold the constant exactly: `a < 1.5` is not `a < 1`.
    if fitting.is_null() || fitting.cast_to(&scalar.data_type()).ok()? != *scalar {
        return None;
    }
    Some(Condition::compare(column, comparison, value(&fitting)?))
}

fn column(table: &Table, expr: &Expr) -> Option<usize> {
    let Expr::Column(column) = expr else { return None };
    table.column(&column.name)
}

fn value(scalar: &ScalarValue) -> Option<Value<'_>> {
    match scalar {
        ScalarValue::Int32(Some(value)) => Some(Value::Int32(*value)),
        ScalarValue::Int64(Some(value)) => Some(Value::Int64(*value)),
        ScalarValue::Decimal128(Some(value), _, _) => Some(Value::Decimal(*value)),
        ScalarValue::Utf8View(Some(value)) => Some(Value::Text(value)),
        ScalarValue::Date32(Some(value)) => Some(Value::Date(*value)),
        ScalarValue::TimestampMicrosecond(Some(value), None) => Some(Value::Timestamp(*value)),
        _ => None,
    }
}

fn comparison(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same @ (Comparison::Equal | Comparison::NotEqual) => same,
    }
}
