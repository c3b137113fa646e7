//! Where the parts of a statement stand, as PostgreSQL's errors name places (`exprLocation`): a value stands where its leftmost
//! part does, parentheses aside.

use super::Binder;
use super::subquery::unnested;
use sqlparser::ast::{self, SetExpr, Spanned};
use sqlparser::tokenizer::Span;
use statement::error::{SqlError, SqlState};
use statement::pulse;
use syntax::place::Place;

/// What an expression begins with.
enum Leftmost<'e> {
    /// A part of it.
    Part(&'e ast::Expr),
    /// The nearest of these words before a part of it.
    Behind(&'static [&'static str], &'e ast::Expr),
    /// What the tree gives the place of.
    Place(Place),
}

impl Binder<'_> {
    /// The error with this place, if it has none.
    pub fn at_place(&self, error: SqlError, place: Place) -> SqlError {
        self.source.at(error, place)
    }

    /// The error with the place of this expression.
    pub(crate) fn at_expr(&self, error: SqlError, expr: &ast::Expr) -> SqlError {
        if error.is_placed() { error } else { self.at_place(error, self.start(expr)) }
    }

    /// The error with the place of the operator before this operand.
    #[inline(never)]
    pub(super) fn at_operator(&self, error: SqlError, op: &str, right: &ast::Expr) -> SqlError {
        if error.is_placed() {
            return error;
        }
        let words = [op, if op == "<>" { "!=" } else { op }];
        let place = self.source.word_before(self.start(right), &words);
        self.at_place(error, self.source.of_operator(place))
    }

    /// The error with the place of the words before this operand.
    pub(super) fn at_words(&self, error: SqlError, words: &[&str], right: &ast::Expr) -> SqlError {
        if error.is_placed() {
            return error;
        }
        self.at_place(error, self.source.words_before(self.start(right), words))
    }

    /// The error of a key of an order: it is about what is ordered, or about the operator that orders.
    pub(super) fn at_key(&self, error: SqlError, key: &ast::Expr) -> SqlError {
        let place = match error.state() {
            SqlState::WRONG_OBJECT_TYPE => self.source.next(self.source.word_after(self.start(key), &["USING"])),
            _ => self.start(key),
        };
        self.at_place(error, place)
    }

    /// The error with the place of the type that a cast of a value is to.
    #[inline(never)]
    pub(super) fn at_type(&self, error: SqlError, cast: &ast::Expr, value: Place) -> SqlError {
        if error.is_placed() { error } else { self.at_place(error, self.source.next(self.cast_word(cast, value))) }
    }

    /// The error with the place of the cast of a value.
    #[inline(never)]
    pub(super) fn at_cast(&self, error: SqlError, cast: &ast::Expr, value: Place) -> SqlError {
        if error.is_placed() {
            return error;
        }
        let place = match cast {
            ast::Expr::Cast { kind: ast::CastKind::DoubleColon, .. } => self.cast_word(cast, value),
            _ => self.start(cast),
        };
        self.at_place(error, place)
    }

    /// Where `::` of a cast stands, or `AS`.
    fn cast_word(&self, cast: &ast::Expr, value: Place) -> Place {
        let ast::Expr::Cast { kind, expr: inner, .. } = cast else { return value };
        let behind = match unnested(inner) {
            // Its own is not this one.
            inner @ ast::Expr::Cast { .. } => self.source.next(self.cast_word(inner, value)),
            expr => {
                let end = expr.span().end;
                Place::from(Span { start: end, end }).or(|| value)
            }
        };
        self.source.word_after(behind, &[if *kind == ast::CastKind::DoubleColon { "::" } else { "AS" }])
    }

    /// Where an expression begins. It is looked for level by level: an expression whose leftmost part has been bound begins at
    /// `Binder::start_from`.
    pub fn start(&self, expr: &ast::Expr) -> Place {
        // Whoever looks next finds that the statement must end.
        let _ = pulse::walk(pulse::ITEM);
        match self.leftmost(expr) {
            Leftmost::Part(inner) => self.start(inner),
            Leftmost::Behind(words, inner) => self.source.leading(self.start(inner), words),
            Leftmost::Place(place) => place,
        }
    }

    /// Where an expression begins whose leftmost part begins at this place.
    pub(super) fn start_from(&self, expr: &ast::Expr, part: Place) -> Place {
        match self.leftmost(expr) {
            Leftmost::Part(_) => part,
            Leftmost::Behind(words, _) => self.source.leading(part, words),
            Leftmost::Place(place) => place,
        }
    }

    fn leftmost<'e>(&self, expr: &'e ast::Expr) -> Leftmost<'e> {
        use ast::Expr;
        let place = match expr {
            Expr::Identifier(ident) => ident.span.into(),
            Expr::CompoundIdentifier(parts) => parts.first().map_or(Place::NOWHERE, |part| part.span.into()),
            Expr::Value(value) => value.span.into(),
            Expr::TypedString(ast::TypedString { value, .. }) => value.span.into(),
            Expr::Nested(inner)
            | Expr::Cast { kind: ast::CastKind::DoubleColon, expr: inner, .. }
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner)
            | Expr::IsDistinctFrom(inner, _)
            | Expr::IsNotDistinctFrom(inner, _)
            | Expr::BinaryOp { left: inner, .. }
            | Expr::AnyOp { left: inner, .. }
            | Expr::AllOp { left: inner, .. }
            | Expr::InList { expr: inner, .. }
            | Expr::InSubquery { expr: inner, .. }
            | Expr::Between { expr: inner, .. }
            | Expr::Like { expr: inner, .. }
            | Expr::ILike { expr: inner, .. }
            | Expr::SimilarTo { expr: inner, .. }
            | Expr::Collate { expr: inner, .. }
            | Expr::AtTimeZone { timestamp: inner, .. }
            | Expr::CompoundFieldAccess { root: inner, .. } => return Leftmost::Part(inner),
            Expr::UnaryOp { op, expr: inner } => {
                let words: &[&str] = match op {
                    ast::UnaryOperator::Minus => &["-"],
                    ast::UnaryOperator::Plus => &["+"],
                    ast::UnaryOperator::Not => &["NOT"],
                    _ => &["~", "@", "|/", "||/", "!!"],
                };
                return Leftmost::Behind(words, inner);
            }
            Expr::Cast { expr: inner, .. } => return Leftmost::Behind(&["CAST"], inner),
            Expr::Case { case_token, .. } => case_token.0.span.into(),
            Expr::Exists { subquery, .. } => self.source.leading(self.query_start(subquery), &["EXISTS"]),
            Expr::Subquery(query) => self.source.parenthesis(self.query_start(query)),
            Expr::Array(ast::Array { elem, .. }) => match elem.first() {
                Some(first) => return Leftmost::Behind(&["ARRAY"], first),
                // Which of several is not known.
                None => self.source.all(&["ARRAY", "[", "]"]).first().copied().unwrap_or_default(),
            },
            Expr::Tuple(parts) => match parts.first() {
                Some(first) => self.source.parenthesis(self.start(first)),
                None => Place::NOWHERE,
            },
            Expr::Extract { expr: inner, .. } => return Leftmost::Behind(&["EXTRACT"], inner),
            Expr::Substring { expr: inner, .. } => return Leftmost::Behind(&["SUBSTRING", "SUBSTR"], inner),
            Expr::Trim { expr: inner, .. } => return Leftmost::Behind(&["TRIM"], inner),
            Expr::Position { expr: inner, .. } => return Leftmost::Behind(&["POSITION"], inner),
            Expr::Overlay { expr: inner, .. } => return Leftmost::Behind(&["OVERLAY"], inner),
            Expr::Ceil { expr: inner, .. } => return Leftmost::Behind(&["CEIL", "CEILING"], inner),
            Expr::Floor { expr: inner, .. } => return Leftmost::Behind(&["FLOOR"], inner),
            Expr::Interval(interval) => return Leftmost::Part(&interval.value),
            Expr::Function(function) => Place::from(function.name.span()),
            other => other.span().into(),
        };
        Leftmost::Place(place)
    }

    /// Where a query begins.
    pub(super) fn query_start(&self, query: &ast::Query) -> Place {
        match &query.with {
            Some(with) => with.with_token.0.span.into(),
            None => self.body_start(&query.body),
        }
    }

    fn body_start(&self, body: &SetExpr) -> Place {
        match body {
            SetExpr::Select(select) => select.select_token.0.span.into(),
            SetExpr::Query(query) => self.source.parenthesis(self.query_start(query)),
            SetExpr::SetOperation { left, .. } => self.body_start(left),
            SetExpr::Values(values) => {
                let first = values.rows.first().and_then(|row| row.content.first());
                let first = first.map_or(Place::NOWHERE, |first| self.start(first));
                self.source.leading(first, &["VALUES"])
            }
            other => other.span().into(),
        }
    }

    /// Where the value of a query's column is written, as far as the tree says it.
    pub(super) fn column_start(&self, body: &SetExpr, at: usize) -> Place {
        match body {
            SetExpr::Select(select) => self.item_start(&select.projection, at),
            SetExpr::Query(query) => self.column_start(&query.body, at),
            SetExpr::SetOperation { left, .. } => self.column_start(left, at),
            SetExpr::Values(values) => {
                let first = values.rows.first().and_then(|row| row.content.get(at));
                first.map_or(Place::NOWHERE, |first| self.start(first))
            }
            _ => Place::NOWHERE,
        }
    }

    /// Where the value of a column of this select list is written.
    pub(super) fn item_start(&self, items: &[ast::SelectItem], at: usize) -> Place {
        let is_wildcard = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        // The columns of a `*` stand where it does; what is behind one is not counted.
        let wildcard = items.iter().take(at + 1).position(is_wildcard);
        match items.get(wildcard.unwrap_or(at)) {
            Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) => self.start(expr),
            Some(other) => other.span().into(),
            None => Place::NOWHERE,
        }
    }
}
