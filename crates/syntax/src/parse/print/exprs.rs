//! Expressions.

use super::{Printer, refused};
use crate::parse::rewrite::{VALUES, marked, symmetric};
use sqlparser::ast::{self, Expr, UnaryOperator};
use statement::error::SqlResult;

impl Printer {
    /// Something, and words behind it.
    fn then(&mut self, expr: &Expr, words: &str) -> SqlResult<()> {
        self.expr(expr)?;
        self.put(words);
        Ok(())
    }

    /// `a NOT LIKE b ESCAPE c`
    fn like(
        &mut self,
        (expr, negated, words): (&Expr, bool, &str),
        pattern: &Expr,
        escape: Option<&Expr>,
    ) -> SqlResult<()> {
        self.then(expr, if negated { " NOT " } else { " " })?;
        self.put(words);
        self.put(" ");
        self.expr(pattern)?;
        if let Some(escape) = escape {
            self.put(" ESCAPE ");
            self.expr(escape)?;
        }
        Ok(())
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> SqlResult<()> {
        statement::stack::check()?;
        match expr {
            Expr::Identifier(ident) => self.ident(ident),
            Expr::CompoundIdentifier(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if 0 < at {
                        self.put(".");
                    }
                    self.ident(part)?;
                }
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.expr(root)?;
                access_chain.iter().try_for_each(|access| self.access(access))
            }
            Expr::IsFalse(inner) => self.then(inner, " IS FALSE"),
            Expr::IsNotFalse(inner) => self.then(inner, " IS NOT FALSE"),
            Expr::IsTrue(inner) => self.then(inner, " IS TRUE"),
            Expr::IsNotTrue(inner) => self.then(inner, " IS NOT TRUE"),
            Expr::IsNull(inner) => self.then(inner, " IS NULL"),
            Expr::IsNotNull(inner) => self.then(inner, " IS NOT NULL"),
            Expr::IsUnknown(inner) => self.then(inner, " IS UNKNOWN"),
            Expr::IsNotUnknown(inner) => self.then(inner, " IS NOT UNKNOWN"),
            Expr::IsDistinctFrom(left, right) => {
                self.then(left, " IS DISTINCT FROM ")?;
                self.expr(right)
            }
            Expr::IsNotDistinctFrom(left, right) => {
                self.then(left, " IS NOT DISTINCT FROM ")?;
                self.expr(right)
            }
            Expr::InList { expr, list, negated } => {
                self.then(expr, if *negated { " NOT IN " } else { " IN " })?;
                match list.split_first() {
                    Some((first, rest)) if marked(first) == Some(VALUES) => self.bracketed(rest),
                    _ => self.bracketed(list),
                }
            }
            Expr::InSubquery { expr, subquery, negated } => {
                self.then(expr, if *negated { " NOT IN " } else { " IN " })?;
                self.subquery(subquery)
            }
            Expr::Between { expr, negated, low, high } => {
                self.then(expr, if *negated { " NOT BETWEEN " } else { " BETWEEN " })?;
                match symmetric(low) {
                    Some(low) => {
                        self.put("SYMMETRIC ");
                        self.expr(low)?;
                    }
                    None => self.expr(low)?,
                }
                self.put(" AND ");
                self.expr(high)
            }
            Expr::BinaryOp { left, op, right } => {
                self.expr(left)?;
                self.put(format!(" {op} "));
                self.expr(right)
            }
            Expr::Like { negated, any, expr, pattern, escape_char } => {
                let words = if *any { "LIKE ANY" } else { "LIKE" };
                self.like((expr, *negated, words), pattern, escape_char.as_deref())
            }
            Expr::ILike { negated, any, expr, pattern, escape_char } => {
                let words = if *any { "ILIKE ANY" } else { "ILIKE" };
                self.like((expr, *negated, words), pattern, escape_char.as_deref())
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                self.like((expr, *negated, "SIMILAR TO"), pattern, escape_char.as_deref())
            }
            Expr::AnyOp { left, compare_op, right, is_some: _ } => {
                self.expr(left)?;
                self.put(format!(" {compare_op} ANY "));
                self.quantified(right)
            }
            Expr::AllOp { left, compare_op, right } => {
                self.expr(left)?;
                self.put(format!(" {compare_op} ALL "));
                self.quantified(right)
            }
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::Cast { kind, expr: inner, data_type, format } => {
                absent!(format.is_some() => "FORMAT");
                match kind {
                    ast::CastKind::Cast => {
                        self.put("CAST(");
                        self.expr(inner)?;
                        self.put(" AS ");
                        self.kind(data_type);
                        self.put(")");
                        Ok(())
                    }
                    ast::CastKind::DoubleColon => {
                        self.expr(inner)?;
                        self.put("::");
                        self.kind(data_type);
                        Ok(())
                    }
                    ast::CastKind::TryCast | ast::CastKind::SafeCast => refused(format_args!("the expression {expr}")),
                }
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                self.then(timestamp, " AT TIME ZONE ")?;
                self.expr(time_zone)
            }
            Expr::Extract { field, syntax, expr } => {
                absent!(*syntax != ast::ExtractSyntax::From => "EXTRACT with a comma");
                self.put(format!("EXTRACT({field} FROM "));
                self.then(expr, ")")
            }
            Expr::Ceil { expr: inner, field } | Expr::Floor { expr: inner, field } => {
                absent!(
                    *field != ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime)
                        => format_args!("the expression {expr}")
                );
                self.put(if matches!(expr, Expr::Ceil { .. }) { "ceil(" } else { "floor(" });
                self.then(inner, ")")
            }
            Expr::Position { expr, r#in } => {
                self.put("POSITION(");
                self.then(expr, " IN ")?;
                self.then(r#in, ")")
            }
            Expr::Substring { expr, substring_from, substring_for, special, shorthand } => {
                self.put(if *shorthand { "substr(" } else { "SUBSTRING(" });
                self.expr(expr)?;
                for (words, part) in [(" FROM ", substring_from), (" FOR ", substring_for)] {
                    if let Some(part) = part {
                        self.put(if *special { ", " } else { words });
                        self.expr(part)?;
                    }
                }
                self.put(")");
                Ok(())
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                self.put("TRIM(");
                self.put(match trim_where {
                    None => "",
                    Some(ast::TrimWhereField::Both) => "BOTH ",
                    Some(ast::TrimWhereField::Leading) => "LEADING ",
                    Some(ast::TrimWhereField::Trailing) => "TRAILING ",
                });
                if let Some(what) = trim_what {
                    self.then(what, " FROM ")?;
                }
                self.expr(expr)?;
                if let Some(characters) = trim_characters {
                    self.put(", ");
                    self.exprs(characters)?;
                }
                self.put(")");
                Ok(())
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                self.put("OVERLAY(");
                self.then(expr, " PLACING ")?;
                self.then(overlay_what, " FROM ")?;
                self.expr(overlay_from)?;
                if let Some(count) = overlay_for {
                    self.put(" FOR ");
                    self.expr(count)?;
                }
                self.put(")");
                Ok(())
            }
            Expr::Collate { expr, collation } => {
                self.then(expr, " COLLATE ")?;
                self.name(collation)
            }
            Expr::Nested(inner) => {
                self.put("(");
                self.then(inner, ")")
            }
            Expr::Value(value) => self.value(&value.value),
            Expr::TypedString(ast::TypedString { data_type, value, uses_odbc_syntax }) => {
                absent!(*uses_odbc_syntax => format_args!("the expression {expr}"));
                self.kind(data_type);
                self.put(" ");
                self.value(&value.value)
            }
            Expr::Function(function) => self.function(function),
            Expr::Case { case_token: _, end_token: _, operand, conditions, else_result } => {
                self.put("CASE");
                if let Some(operand) = operand {
                    self.put(" ");
                    self.expr(operand)?;
                }
                for ast::CaseWhen { condition, result } in conditions {
                    self.put(" WHEN ");
                    self.then(condition, " THEN ")?;
                    self.expr(result)?;
                }
                if let Some(otherwise) = else_result {
                    self.put(" ELSE ");
                    self.expr(otherwise)?;
                }
                self.put(" END");
                Ok(())
            }
            Expr::Exists { subquery, negated } => {
                self.put(if *negated { "NOT EXISTS " } else { "EXISTS " });
                self.subquery(subquery)
            }
            Expr::Subquery(query) => self.subquery(query),
            Expr::GroupingSets(sets) => self.sets("GROUPING SETS ", sets),
            Expr::Cube(sets) => self.sets("CUBE ", sets),
            Expr::Rollup(sets) => self.sets("ROLLUP ", sets),
            Expr::Tuple(items) => self.bracketed(items),
            Expr::Array(ast::Array { elem, named }) => {
                self.put(if *named { "ARRAY[" } else { "[" });
                self.exprs(elem)?;
                self.put("]");
                Ok(())
            }
            Expr::Interval(interval) => self.interval(interval),
            Expr::Wildcard(_) => {
                self.put("*");
                Ok(())
            }
            Expr::QualifiedWildcard(name, _) => {
                self.name(name)?;
                self.put(".*");
                Ok(())
            }
            Expr::JsonAccess { .. }
            | Expr::IsJson { .. }
            | Expr::IsNormalized { .. }
            | Expr::InUnnest { .. }
            | Expr::RLike { .. }
            | Expr::Convert { .. }
            | Expr::Prefixed { .. }
            | Expr::Struct { .. }
            | Expr::Named { .. }
            | Expr::Dictionary(_)
            | Expr::Map(_)
            | Expr::MatchAgainst { .. }
            | Expr::OuterJoin(_)
            | Expr::Prior(_)
            | Expr::Lambda(_)
            | Expr::MemberOf(_) => refused(format_args!("the expression {expr}")),
        }
    }

    /// The right side of ANY and ALL.
    fn quantified(&mut self, right: &Expr) -> SqlResult<()> {
        match right {
            Expr::Subquery(query) => self.subquery(query),
            right => {
                self.put("(");
                self.then(right, ")")
            }
        }
    }

    fn unary(&mut self, op: UnaryOperator, expr: &Expr) -> SqlResult<()> {
        self.put(match op {
            UnaryOperator::Plus => "+",
            UnaryOperator::Minus => "-",
            UnaryOperator::Not => "NOT",
            UnaryOperator::BitwiseNot => "~",
            UnaryOperator::PGAbs => "@",
            UnaryOperator::PGSquareRoot => "|/",
            UnaryOperator::PGCubeRoot => "||/",
            UnaryOperator::AtDashAt
            | UnaryOperator::BangNot
            | UnaryOperator::DoubleAt
            | UnaryOperator::Hash
            | UnaryOperator::PGPostfixFactorial
            | UnaryOperator::PGPrefixFactorial
            | UnaryOperator::QuestionDash
            | UnaryOperator::QuestionPipe => return refused(format_args!("the operator {op}")),
        });
        // Two signs side by side would be a comment, or an operator of their own.
        if !matches!((op, expr), (UnaryOperator::Minus, Expr::Value(_))) {
            self.put(" ");
        }
        self.expr(expr)
    }

    fn access(&mut self, access: &ast::AccessExpr) -> SqlResult<()> {
        match access {
            ast::AccessExpr::Dot(field) => {
                self.put(".");
                self.expr(field)
            }
            ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                self.put("[");
                self.then(index, "]")
            }
            ast::AccessExpr::Subscript(ast::Subscript::Slice { lower_bound, upper_bound, stride }) => {
                absent!(stride.is_some() => "a slice with a stride");
                self.put("[");
                if let Some(lower) = lower_bound {
                    self.expr(lower)?;
                }
                self.put(":");
                if let Some(upper) = upper_bound {
                    self.expr(upper)?;
                }
                self.put("]");
                Ok(())
            }
        }
    }

    /// The items of ROLLUP and its like: an item in parentheses of its own is a list.
    fn sets(&mut self, words: &str, sets: &[Vec<Expr>]) -> SqlResult<()> {
        self.put(words);
        self.put("(");
        self.list(sets, |printer, set| printer.bracketed(set))?;
        self.put(")");
        Ok(())
    }

    fn interval(&mut self, interval: &ast::Interval) -> SqlResult<()> {
        let ast::Interval { value, leading_field, leading_precision, last_field, fractional_seconds_precision } =
            interval;
        absent!(
            leading_precision.is_some() && fractional_seconds_precision.is_some() => "an interval with two precisions",
        );
        self.put("INTERVAL ");
        self.expr(value)?;
        if let Some(field) = leading_field {
            self.put(format!(" {field}"));
        }
        if let Some(precision) = leading_precision {
            self.put(format!("({precision})"));
        }
        if let Some(field) = last_field {
            self.put(format!(" TO {field}"));
        }
        if let Some(precision) = fractional_seconds_precision {
            self.put(format!("({precision})"));
        }
        Ok(())
    }

    fn value(&mut self, value: &ast::Value) -> SqlResult<()> {
        match value {
            ast::Value::SingleQuotedString(text)
            | ast::Value::EscapedStringLiteral(text)
            | ast::Value::DollarQuotedString(ast::DollarQuotedString { value: text, tag: _ }) => {
                // Not by the library, which takes two quotes in a row for one that is escaped.
                self.put(format!("'{}'", text.replace('\'', "''")));
                Ok(())
            }
            ast::Value::Number(_, false) | ast::Value::Boolean(_) | ast::Value::Null | ast::Value::Placeholder(_) => {
                self.put(value.to_string());
                Ok(())
            }
            ast::Value::Number(_, true)
            | ast::Value::TripleSingleQuotedString(_)
            | ast::Value::TripleDoubleQuotedString(_)
            | ast::Value::UnicodeStringLiteral(_)
            | ast::Value::SingleQuotedByteStringLiteral(_)
            | ast::Value::DoubleQuotedByteStringLiteral(_)
            | ast::Value::TripleSingleQuotedByteStringLiteral(_)
            | ast::Value::TripleDoubleQuotedByteStringLiteral(_)
            | ast::Value::SingleQuotedRawStringLiteral(_)
            | ast::Value::DoubleQuotedRawStringLiteral(_)
            | ast::Value::TripleSingleQuotedRawStringLiteral(_)
            | ast::Value::TripleDoubleQuotedRawStringLiteral(_)
            | ast::Value::NationalStringLiteral(_)
            | ast::Value::QuoteDelimitedStringLiteral(_)
            | ast::Value::NationalQuoteDelimitedStringLiteral(_)
            | ast::Value::HexStringLiteral(_)
            | ast::Value::DoubleQuotedString(_) => refused(format_args!("the literal {value}")),
        }
    }
}
