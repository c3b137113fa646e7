//! Expressions of definitions as PostgreSQL writes them, with every implicit cast and with parentheses.
//!
//! **Invariant:** the text has the same meaning when it is parsed again. An expression of an unknown kind is written as
//! its author wrote it.

use crate::context::Env;
use catalog::{CatalogSnapshot, CheckConstraint, ColumnDef, DefaultExpr, ParameterMode, RoutineResult, TableInfo};
use query::bind::{Binder, NameScope, columns_of};
use query::plan::{Expr, RoutineCall, SequenceCall};
use statement::error::SqlResult;
use statement::pulse;
use syntax::grammar;
use types::datum::Datum;
use types::ops::Callee;
use types::text::to_string;
use types::{Kind, SqlType};

/// Precedence class of a written expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrecedenceClass {
    /// Name, value or call.
    Simple,
    /// Arithmetic operator, with its precedence.
    Arithmetic(u8),
    /// Other operators.
    Operator,
    And,
    Or,
    Not,
}

pub(super) struct Deparser<'w> {
    pub(super) snapshot: &'w CatalogSnapshot,
    pub(super) env: &'w Env,
    /// Columns by their positions in the row.
    pub(super) columns: &'w [DeparsedColumn],
    /// True if redundant parentheses are omitted.
    pub(super) pretty: bool,
}

/// Written form of a column of the row.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeparsedColumn {
    pub(crate) text: String,
    pub(crate) kind: Option<Kind>,
    /// True if the text is more than a name or a call.
    pub(crate) is_compound: bool,
}

/// Returns the text of an expression over a row; `None` if a part of it is of an unknown kind.
pub(crate) fn shown(
    snapshot: &CatalogSnapshot,
    env: &Env,
    columns: &[DeparsedColumn],
    expr: &Expr,
    kind: Kind,
) -> Option<DeparsedColumn> {
    let writer = Deparser { snapshot, env, columns, pretty: false };
    let (text, form) = writer.write(expr, kind)?;
    Some(DeparsedColumn { text, kind: writer.kind_of(expr), is_compound: form != PrecedenceClass::Simple })
}

fn shown_columns(columns: &[ColumnDef]) -> Vec<DeparsedColumn> {
    let one = |column: &ColumnDef| {
        let (text, kind) = (super::quoted(&column.name), Some(column.kind.kind));
        DeparsedColumn { text, kind, is_compound: false }
    };
    columns.iter().map(one).collect()
}

/// Returns the condition of a CHECK, without the outer parentheses.
///
/// # Errors
/// Errors of parsing its text.
pub(super) fn check(
    snapshot: &CatalogSnapshot,
    env: &Env,
    table: &TableInfo,
    check: &CheckConstraint,
    pretty: bool,
) -> SqlResult<String> {
    let binder = || Binder::new(&snapshot.state, &snapshot.path, &check.text, env, Vec::new()).of_stored_text();
    // The call of a function is shown, not its body.
    let binder = || binder().without_expansion();
    let mut scope = NameScope::default();
    let columns = columns_of(table);
    let width = columns.len();
    if scope.add(binder().row_of(&table.name, columns), width).is_err() {
        return Ok(check.text.clone());
    }
    let whole = || {
        let tree = grammar::expression(&check.text).ok()?;
        let typed = binder().expr(&tree, &scope).ok()?;
        let writer = Deparser { snapshot, env, columns: &shown_columns(&table.columns), pretty };
        writer.whole(&typed.expr, Kind::Bool)
    };
    let kept = || binder().kept_text(&scope, Kind::Bool.into(), |oid| super::reg::relation_shown(snapshot, oid));
    statement::stack::on_large(|| whole().map_or_else(kept, Ok))
}

/// Returns the text of a column's default.
///
/// # Errors
/// Errors of parsing its text.
pub(super) fn default(
    snapshot: &CatalogSnapshot,
    env: &Env,
    column: &ColumnDef,
    default: &DefaultExpr,
    pretty: bool,
) -> SqlResult<String> {
    written(snapshot, env, &default.text, column.kind, pretty)
}

/// Returns the text of a kept expression that is converted to this type.
///
/// # Errors
/// Errors of parsing its text.
pub(super) fn written(
    snapshot: &CatalogSnapshot,
    env: &Env,
    text: &str,
    kind: SqlType,
    pretty: bool,
) -> SqlResult<String> {
    let kept = || {
        let binder = Binder::new(&snapshot.state, &snapshot.path, text, env, Vec::new()).of_stored_text();
        binder.kept_text(&NameScope::default(), kind, |oid| super::reg::relation_shown(snapshot, oid))
    };
    statement::stack::on_large(|| expression(snapshot, env, text, kind, pretty).map_or_else(kept, Ok))
}

fn expression(snapshot: &CatalogSnapshot, env: &Env, text: &str, to: SqlType, pretty: bool) -> Option<String> {
    let binder = Binder::new(&snapshot.state, &snapshot.path, text, env, Vec::new()).of_stored_text();
    let binder = binder.without_expansion();
    let mut typed = binder.expr(&grammar::expression(text).ok()?, &NameScope::default()).ok()?;
    if typed.kind.kind == Kind::Unknown {
        typed = binder.coerce(typed, to.kind.into(), types::ops::CastContext::Assignment).ok()?;
    }
    Deparser { snapshot, env, columns: &[], pretty }.whole(&typed.expr, typed.kind.kind)
}

impl Deparser<'_> {
    pub(super) fn whole(&self, expr: &Expr, kind: Kind) -> Option<String> {
        let (text, form) = self.write(expr, kind)?;
        Some(if self.pretty { text } else { wrapped(text, form != PrecedenceClass::Simple) })
    }

    /// Returns the actual type of an expression, if it is known.
    fn kind_of(&self, expr: &Expr) -> Option<Kind> {
        match expr {
            Expr::Column(at) => self.columns.get(*at)?.kind,
            Expr::Cast { to, .. } => Some(to.kind),
            Expr::Call { callee, .. } => Some(callee.callable().result()),
            Expr::Routine(call) => match call.routine.result {
                RoutineResult::Value(kind) => Some(kind),
                RoutineResult::Nothing | RoutineResult::Row | RoutineResult::Relation(_) | RoutineResult::Record => {
                    None
                }
            },
            _ => None,
        }
    }

    /// Writes an argument of a function that is declared with this type.
    fn argument(&self, argument: &Expr, declared: Kind) -> Option<String> {
        let (text, form) = self.write(argument, declared)?;
        // The binder omits casts that change nothing.
        let is_cut = declared == Kind::Text && self.kind_of(argument) == Some(Kind::Varchar);
        Some(match is_cut {
            true => format!("{}::text", wrapped(text, !self.pretty || form != PrecedenceClass::Simple)),
            false => wrapped(text, !self.pretty && form != PrecedenceClass::Simple),
        })
    }

    /// Writes the call of a user's function. `None` if its arguments are not those that were written.
    fn routine(&self, call: &RoutineCall) -> Option<String> {
        let routine = &call.routine;
        let is_whole = routine.inputs().all(|input| input.default.is_none());
        // The name alone would mean the system's function.
        let is_hidden = super::arguments_of(&routine.name).next().is_some();
        if !is_whole || is_hidden {
            return None;
        }
        let mut written = Vec::with_capacity(call.arguments.len());
        for (argument, input) in call.arguments.iter().zip(routine.inputs()) {
            let text = self.argument(argument, input.kind)?;
            let is_variadic = input.mode == ParameterMode::Variadic;
            written.push(if is_variadic { format!("VARIADIC {text}") } else { text });
        }
        let name = super::reg::routine_name(&self.snapshot.state, &self.snapshot.path, routine);
        Some(format!("{name}({})", written.join(", ")))
    }

    /// Writes an expression as an operand, in parentheses if it needs them.
    fn part(&self, expr: &Expr, kind: Kind, parent: PrecedenceClass) -> Option<String> {
        let (text, form) = self.write(expr, kind)?;
        // The binder omits casts that change nothing.
        if kind == Kind::Text && self.kind_of(expr) == Some(Kind::Varchar) {
            let inner = wrapped(text, !self.pretty || form != PrecedenceClass::Simple);
            return Some(format!("{inner}::text"));
        }
        let needs = match (form, parent) {
            (PrecedenceClass::Simple, _) => false,
            _ if !self.pretty => true,
            (PrecedenceClass::Arithmetic(inner), PrecedenceClass::Arithmetic(outer)) => inner <= outer,
            (
                PrecedenceClass::Arithmetic(_) | PrecedenceClass::Operator | PrecedenceClass::Not,
                PrecedenceClass::And | PrecedenceClass::Or,
            ) => false,
            (PrecedenceClass::And, PrecedenceClass::Or) => false,
            _ => true,
        };
        Some(wrapped(text, needs))
    }

    fn write(&self, expr: &Expr, kind: Kind) -> Option<(String, PrecedenceClass)> {
        let simple = |text: String| Some((text, PrecedenceClass::Simple));
        pulse::walk(pulse::ITEM).ok()?;
        match expr {
            Expr::Constant(datum) => simple(self.constant(datum, kind)),
            Expr::Column(at) => {
                let column = self.columns.get(*at)?;
                pulse::walk(column.text.len()).ok()?;
                Some((
                    column.text.clone(),
                    if column.is_compound { PrecedenceClass::Operator } else { PrecedenceClass::Simple },
                ))
            }
            Expr::Parameter(at) => simple(format!("${}", at + 1)),
            Expr::Call { callee: Callee::Operator(operator), arguments } => {
                let form = match operator.name {
                    "+" | "-" => PrecedenceClass::Arithmetic(1),
                    "*" | "/" | "%" => PrecedenceClass::Arithmetic(2),
                    _ => PrecedenceClass::Operator,
                };
                match (&arguments[..], operator.left) {
                    ([left, right], Some(kind)) => {
                        let (left, right) = (self.part(left, kind, form)?, self.part(right, operator.right, form)?);
                        Some((format!("{left} {} {right}", operator.name), form))
                    }
                    ([right], None) => {
                        Some((format!("{} {}", operator.name, self.part(right, operator.right, form)?), form))
                    }
                    _ => None,
                }
            }
            Expr::Call { callee: Callee::Function(function), arguments } => {
                let mut written = Vec::with_capacity(arguments.len());
                for (at, argument) in arguments.iter().enumerate() {
                    let declared = function.arguments.get(at).or(function.arguments.last()).copied()?;
                    if declared == Kind::Void {
                        return None;
                    }
                    written.push(self.argument(argument, declared)?);
                }
                // These functions are written as keywords, not as calls.
                if let "current_user" | "session_user" | "user" | "current_role" | "current_catalog" = function.name {
                    return simple(function.name.to_uppercase());
                }
                // POSITION has no other syntax.
                if let ("position", [whole, part]) = (function.name, &written[..]) {
                    return simple(format!("POSITION(({part}) IN ({whole}))"));
                }
                simple(format!("{}({})", function.name, written.join(", ")))
            }
            Expr::Cast { to, argument, eval: _ } => {
                let from = self.kind_of(argument).unwrap_or(match &**argument {
                    Expr::Constant(datum) => natural(datum)?,
                    _ => return None,
                });
                let (text, form) = self.write(argument, from)?;
                let is_plain = self.pretty && form == PrecedenceClass::Simple;
                simple(format!("{}::{}", wrapped(text, !is_plain), to.name()))
            }
            Expr::And(parts) => self.connected(parts, "AND", PrecedenceClass::And),
            Expr::Or(parts) => self.connected(parts, "OR", PrecedenceClass::Or),
            Expr::Not(inner) => match &**inner {
                Expr::IsNull(inner) => self.tested(inner, "IS NOT NULL"),
                Expr::IsBool(inner, Some(true)) => self.tested(inner, "IS NOT TRUE"),
                Expr::IsBool(inner, Some(false)) => self.tested(inner, "IS NOT FALSE"),
                Expr::IsBool(inner, None) => self.tested(inner, "IS NOT UNKNOWN"),
                Expr::InList { kind, argument, list, hashed: _ } => self.listed(*kind, argument, list, "<> ALL"),
                inner => {
                    Some((format!("NOT {}", self.part(inner, Kind::Bool, PrecedenceClass::Not)?), PrecedenceClass::Not))
                }
            },
            Expr::IsNull(inner) => self.tested(inner, "IS NULL"),
            Expr::IsBool(inner, Some(true)) => self.tested(inner, "IS TRUE"),
            Expr::IsBool(inner, Some(false)) => self.tested(inner, "IS FALSE"),
            Expr::IsBool(inner, None) => self.tested(inner, "IS UNKNOWN"),
            Expr::InList { kind, argument, list, hashed: _ } => self.listed(*kind, argument, list, "= ANY"),
            Expr::Now { to } => simple(
                match to.kind {
                    Kind::Timestamptz => "CURRENT_TIMESTAMP",
                    Kind::Date => "CURRENT_DATE",
                    _ => "LOCALTIMESTAMP",
                }
                .to_owned(),
            ),
            Expr::Coalesce(parts) => {
                let written: Option<Vec<_>> = parts.iter().map(|part| Some(self.write(part, kind)?.0)).collect();
                simple(format!("COALESCE({})", written?.join(", ")))
            }
            Expr::Array(parts) => {
                let element = kind.element()?;
                let written: Option<Vec<_>> = parts.iter().map(|part| Some(self.write(part, element)?.0)).collect();
                simple(match written? {
                    written if written.is_empty() => format!("ARRAY[]::{}", kind.name()),
                    written => format!("ARRAY[{}]", written.join(", ")),
                })
            }
            Expr::Routine(call) => simple(self.routine(call)?),
            Expr::Sequence {
                call: call @ (SequenceCall::Next | SequenceCall::Identity | SequenceCall::Current),
                arguments,
            } => {
                let [Expr::Constant(Datum::Oid(oid))] = &arguments[..] else { return None };
                let name = super::reg::relation_shown(self.snapshot, *oid)?.replace('\'', "''");
                let function = if *call == SequenceCall::Current { "currval" } else { "nextval" };
                simple(format!("{function}('{name}'::regclass)"))
            }
            _ => None,
        }
    }

    fn connected(&self, parts: &[Expr], word: &str, form: PrecedenceClass) -> Option<(String, PrecedenceClass)> {
        fn flat<'e>(parts: &'e [Expr], form: PrecedenceClass, all: &mut Vec<&'e Expr>) {
            for part in parts {
                match part {
                    Expr::And(inner) if form == PrecedenceClass::And => flat(inner, form, all),
                    Expr::Or(inner) if form == PrecedenceClass::Or => flat(inner, form, all),
                    part => all.push(part),
                }
            }
        }
        let mut all = Vec::new();
        flat(parts, form, &mut all);
        let written: Option<Vec<_>> = all.into_iter().map(|part| self.part(part, Kind::Bool, form)).collect();
        Some((written?.join(&format!(" {word} ")), form))
    }

    fn tested(&self, inner: &Expr, words: &str) -> Option<(String, PrecedenceClass)> {
        let kind = self.kind_of(inner).unwrap_or(Kind::Bool);
        Some((format!("{} {words}", self.part(inner, kind, PrecedenceClass::Operator)?), PrecedenceClass::Operator))
    }

    fn listed(&self, kind: Kind, argument: &Expr, list: &[Expr], words: &str) -> Option<(String, PrecedenceClass)> {
        let items: Option<Vec<_>> = list.iter().map(|item| Some(self.write(item, kind)?.0)).collect();
        let items = format!("ARRAY[{}]", items?.join(", "));
        // `varchar` is compared as text.
        let (argument, items) = if kind == Kind::Varchar {
            let argument = self.part(argument, Kind::Text, PrecedenceClass::Operator)?;
            (argument, if self.pretty { format!("{items}::text[]") } else { format!("({items})::text[]") })
        } else {
            (self.part(argument, kind, PrecedenceClass::Operator)?, items)
        };
        Some((format!("{argument} {words} ({items})"), PrecedenceClass::Operator))
    }

    fn constant(&self, datum: &Datum, kind: Kind) -> String {
        let text = to_string(datum, kind.into(), &self.env.forms);
        let is_number =
            !text.starts_with('-') && text.bytes().all(|byte| byte.is_ascii_digit() || b"+e.".contains(&byte));
        match (datum, kind) {
            (Datum::Null, Kind::Unknown) => "NULL".to_owned(),
            (Datum::Null, kind) => format!("NULL::{}", kind.name()),
            (Datum::Bool(value), _) => value.to_string(),
            (Datum::Int4(_), _) if is_number => text,
            (Datum::Numeric(_), _) if is_number && text.contains('.') => text,
            (Datum::Numeric(_), _) if is_number => format!("{text}::numeric"),
            (_, Kind::Unknown) => format!("'{}'", text.replace('\'', "''")),
            (_, Kind::Bpchar) => format!("'{}'::bpchar", text.replace('\'', "''")),
            (_, kind) => format!("'{}'::{}", text.replace('\'', "''"), kind.name()),
        }
    }
}

/// Returns the type of a literal that is written without one.
fn natural(datum: &Datum) -> Option<Kind> {
    Some(match datum {
        Datum::Int4(_) => Kind::Int4,
        Datum::Int8(_) => Kind::Int8,
        Datum::Numeric(_) => Kind::Numeric,
        Datum::Bool(_) => Kind::Bool,
        Datum::Text(_) => Kind::Text,
        Datum::Date(_) => Kind::Date,
        _ => return None,
    })
}

fn wrapped(text: String, needs: bool) -> String {
    if needs { format!("({text})") } else { text }
}
