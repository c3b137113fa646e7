//! Queries as trees, so that a failing one can be taken apart, and their SQL.

use super::rng::Rng;
use super::types::{Ty, quoted};
use std::fmt::{self, Display, Formatter, Write as _};

/// Expression with the type that it has.
#[derive(Clone, Debug)]
pub struct Expr {
    pub node: ExprNode,
    pub ty: Ty,
    /// True if the value's last digits, or the choice among several equal values, are not determined: it is compared by
    /// value.
    pub vague: bool,
}

#[derive(Clone, Debug)]
pub enum ExprNode {
    Literal {
        raw: &'static str,
        choices: Choices,
        form: Form,
    },
    Column(String),
    Call {
        template: String,
        args: Vec<Expr>,
    },
    /// Query where `$q` stands; the arguments stand before it.
    Query {
        template: String,
        args: Vec<Expr>,
        query: Box<QueryTree>,
    },
}

/// Literals that can replace a literal.
#[derive(Clone, Copy, Debug)]
pub enum Choices {
    Type(Ty),
    Pool(&'static [&'static str]),
}

/// Notation of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Typed,
    /// Quoted literal without a type.
    Unknown,
    /// Literal as it is written.
    Word,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub expr: Expr,
    pub name: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Distinct {
    No,
    Yes,
    On(Vec<Expr>),
}

#[derive(Clone, Debug)]
pub enum FromItem {
    Table {
        name: String,
        alias: String,
    },
    Sub {
        query: Box<QueryTree>,
        alias: String,
        columns: Vec<String>,
        lateral: bool,
    },
    /// Call in FROM: `unnest(…)`, `generate_series(…)` and others.
    Call {
        call: Expr,
        alias: String,
        columns: Vec<String>,
        ordinality: bool,
    },
    Join {
        kind: &'static str,
        left: Box<FromItem>,
        right: Box<FromItem>,
        on: Vec<Expr>,
    },
}

#[derive(Clone, Debug)]
pub enum Group {
    Keys(Vec<Expr>),
    Rollup(Vec<Expr>),
    Cube(Vec<Expr>),
    Sets(Vec<Vec<Expr>>),
    /// Keys that are in all sets, and sets.
    Beside(Vec<Expr>, Box<Group>),
}

#[derive(Clone, Debug)]
pub struct Select {
    pub distinct: Distinct,
    pub items: Vec<Item>,
    pub from: Vec<FromItem>,
    pub filter: Vec<Expr>,
    pub group: Option<Group>,
    pub having: Vec<Expr>,
}

impl Select {
    /// Returns a query without DISTINCT, GROUP BY and HAVING.
    pub fn plain(items: Vec<Item>, from: Vec<FromItem>, filter: Vec<Expr>) -> Select {
        Select { distinct: Distinct::No, items, from, filter, group: None, having: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set { operator: &'static str, left: Box<QueryTree>, right: Box<QueryTree> },
}

#[derive(Clone, Debug)]
pub struct Cte {
    pub name: String,
    pub columns: Vec<String>,
    pub query: QueryTree,
    pub recursive: bool,
    pub materialized: &'static str,
}

#[derive(Clone, Debug)]
pub struct QueryTree {
    pub with: Vec<Cte>,
    pub body: Body,
    pub order: Vec<(Expr, &'static str)>,
    pub limit: Option<usize>,
    pub offset: Option<usize>,
    /// True if the keys of ORDER BY determine the order of all rows.
    pub total: bool,
    /// True if no plan may raise another error, or none: nothing stands beside an expression that can fail, or a guard
    /// stands before it.
    pub strict: bool,
}

impl Expr {
    /// Replaces every literal by another of its choices.
    pub fn vary(&mut self, rng: &mut Rng) {
        match &mut self.node {
            ExprNode::Literal { raw, choices, .. } => {
                *raw = match choices {
                    Choices::Type(ty) => ty.random(rng),
                    Choices::Pool(pool) => rng.word(pool),
                }
            }
            ExprNode::Column(_) => {}
            ExprNode::Call { args, .. } | ExprNode::Query { args, .. } => args.iter_mut().for_each(|arg| arg.vary(rng)),
        }
    }

    /// Returns true if the value depends on the row.
    pub fn has_column(&self) -> bool {
        match &self.node {
            ExprNode::Literal { .. } => false,
            ExprNode::Column(_) => true,
            ExprNode::Call { args, .. } => args.iter().any(Expr::has_column),
            ExprNode::Query { .. } => true,
        }
    }

    /// Returns true if a literal is in the expression.
    pub fn has_literal(&self) -> bool {
        match &self.node {
            ExprNode::Literal { .. } => true,
            ExprNode::Column(_) => false,
            ExprNode::Call { args, .. } | ExprNode::Query { args, .. } => args.iter().any(Expr::has_literal),
        }
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: &[T], between: &str) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if 0 < at {
            f.write_str(between)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

fn filled(f: &mut Formatter<'_>, template: &str, args: &[Expr], query: Option<&QueryTree>) -> fmt::Result {
    let mut rest = template;
    while let Some(at) = rest.find('$') {
        f.write_str(&rest[..at])?;
        let place = rest.as_bytes().get(at + 1).copied().unwrap_or_default();
        match (place, query) {
            (b'q', Some(query)) => write!(f, "{query}")?,
            (b'0'..=b'9', _) => write!(f, "{}", args[usize::from(place - b'0')])?,
            _ => {
                f.write_char('$')?;
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 2..];
    }
    f.write_str(rest)
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.node {
            ExprNode::Literal { raw, form: Form::Typed, .. } => f.write_str(&self.ty.literal(raw)),
            ExprNode::Literal { raw, form: Form::Unknown, .. } => f.write_str(&quoted(raw)),
            ExprNode::Literal { raw, form: Form::Word, .. } if raw.starts_with('-') => write!(f, "({raw})"),
            ExprNode::Literal { raw, form: Form::Word, .. } => f.write_str(raw),
            ExprNode::Column(name) => f.write_str(name),
            ExprNode::Call { template, args } => filled(f, template, args, None),
            ExprNode::Query { template, args, query } => filled(f, template, args, Some(query)),
        }
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} as {name}", self.expr),
            None => write!(f, "{}", self.expr),
        }
    }
}

impl Display for FromItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FromItem::Table { name, alias } => write!(f, "{name} {alias}"),
            FromItem::Sub { query, alias, columns, lateral } => {
                let lateral = if *lateral { "lateral " } else { "" };
                write!(f, "{lateral}({query}) {alias}({})", columns.join(", "))
            }
            FromItem::Call { call, alias, columns, ordinality } => {
                let ordinality = if *ordinality { " with ordinality" } else { "" };
                write!(f, "{call}{ordinality} {alias}({})", columns.join(", "))
            }
            FromItem::Join { kind, left, right, on } => {
                write!(f, "{left} {kind} join ")?;
                if matches!(**right, FromItem::Join { .. }) {
                    write!(f, "({right})")?
                } else {
                    write!(f, "{right}")?
                }
                if !on.is_empty() {
                    f.write_str(" on ")?;
                    list(f, on, " and ")?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Group {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Group::Keys(keys) => list(f, keys, ", "),
            Group::Rollup(keys) | Group::Cube(keys) => {
                f.write_str(if matches!(self, Group::Cube(_)) { "cube (" } else { "rollup (" })?;
                list(f, keys, ", ")?;
                f.write_str(")")
            }
            Group::Sets(sets) => {
                f.write_str("grouping sets (")?;
                for (at, set) in sets.iter().enumerate() {
                    f.write_str(if at == 0 { "(" } else { ", (" })?;
                    list(f, set, ", ")?;
                    f.write_str(")")?;
                }
                f.write_str(")")
            }
            Group::Beside(keys, sets) => {
                list(f, keys, ", ")?;
                write!(f, ", {sets}")
            }
        }
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("select ")?;
        match &self.distinct {
            Distinct::No => {}
            Distinct::Yes => f.write_str("distinct ")?,
            Distinct::On(keys) => {
                f.write_str("distinct on (")?;
                list(f, keys, ", ")?;
                f.write_str(") ")?;
            }
        }
        list(f, &self.items, ", ")?;
        for (word, between, empty) in
            [(" from ", ", ", self.from.is_empty()), (" where ", " and ", self.filter.is_empty())]
        {
            if !empty {
                f.write_str(word)?;
                if word == " from " { list(f, &self.from, between)? } else { list(f, &self.filter, between)? }
            }
        }
        if let Some(group) = &self.group {
            write!(f, " group by {group}")?;
        }
        if !self.having.is_empty() {
            f.write_str(" having ")?;
            list(f, &self.having, " and ")?;
        }
        Ok(())
    }
}

impl Display for QueryTree {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.with.is_empty() {
            f.write_str(if self.with.iter().any(|cte| cte.recursive) { "with recursive " } else { "with " })?;
            for (at, Cte { name, columns, query, materialized, .. }) in self.with.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(f, "{comma}{name}({}) as {materialized}({query})", columns.join(", "))?;
            }
            f.write_str(" ")?;
        }
        match &self.body {
            Body::Select(select) => write!(f, "{select}")?,
            Body::Values(rows) => {
                for (at, row) in rows.iter().enumerate() {
                    f.write_str(if at == 0 { "values (" } else { ", (" })?;
                    list(f, row, ", ")?;
                    f.write_str(")")?;
                }
            }
            Body::Set { operator, left, right } => write!(f, "({left}) {operator} ({right})")?,
        }
        for (at, (key, direction)) in self.order.iter().enumerate() {
            write!(f, "{} {key}{direction}", if at == 0 { " order by" } else { "," })?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " offset {offset}")?;
        }
        Ok(())
    }
}

impl Expr {
    fn has_query(&self) -> bool {
        match &self.node {
            ExprNode::Literal { .. } | ExprNode::Column(_) => false,
            ExprNode::Call { args, .. } => args.iter().any(Expr::has_query),
            ExprNode::Query { .. } => true,
        }
    }
}

impl QueryTree {
    /// Returns true if every plan evaluates the same expressions over the same rows, so that an error has to be the
    /// same, too.
    pub fn is_simple(&self) -> bool {
        let Body::Select(select) = &self.body else { return false };
        let Select { distinct, items, from, filter, group, having } = &**select;
        let is_table = matches!(from[..], [FromItem::Table { .. }]);
        let is_cut = self.limit.is_some() || self.offset.is_some();
        is_table
            && !is_cut
            && self.with.is_empty()
            && filter.is_empty()
            && having.is_empty()
            && group.is_none()
            && matches!(distinct, Distinct::No)
            && items.len() == 1
            && !items[0].expr.has_query()
            && self.order.is_empty()
    }

    /// Returns a query of a body alone.
    pub fn of(body: Body) -> QueryTree {
        QueryTree { with: Vec::new(), body, order: Vec::new(), limit: None, offset: None, total: false, strict: false }
    }

    /// Returns the columns of the result, by type and vagueness.
    pub fn outputs(&self) -> Vec<(Ty, bool)> {
        match &self.body {
            Body::Select(select) => select.items.iter().map(|item| (item.expr.ty, item.expr.vague)).collect(),
            Body::Values(rows) => {
                (0..rows[0].len()).map(|at| (rows[0][at].ty, rows.iter().any(|row| row[at].vague))).collect()
            }
            Body::Set { operator, left, right } => {
                let is_plain = *operator == "union all";
                let pairs = left.outputs().into_iter().zip(right.outputs());
                // Branches pad a char(n) to widths of their own, so that equal ones print differently.
                let vague = |ty: Ty| ty == Ty::Bpchar || !is_plain && !ty.is_clean();
                pairs.map(|((ty, one), (_, two))| (ty, one || two || vague(ty))).collect()
            }
        }
    }
}
