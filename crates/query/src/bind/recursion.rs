//! `WITH RECURSIVE`.
//!
//! **Invariant:** while the recursive term is bound, the query's name stands for the rows of the last round, and may be named
//! once, where more rows there can only mean more rows of the result.

use super::query::Tail;
use super::{Binder, Bound, Scope, settled};
use crate::plan::ColumnInfo;
use crate::plan::{Plan, Recursive, new_id, slots_of_plan};
use sqlparser::ast::{self, SetExpr, SetOperator, SetQuantifier};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use syntax::parse::folded;
use types::SqlType;

const INVALID_RECURSION: SqlState = SqlState("42P19");

/// A recursive query whose terms are being bound.
pub(super) struct Recursion {
    id: u64,
    name: String,
    /// What its name stands in, where it may not.
    within: Option<&'static str>,
    references: usize,
}

/// Walk over the relations that a query names and that are none of its own WITH queries, as PostgreSQL's
/// `makeDependencyGraphWalker`.
struct Free<F> {
    found: F,
    /// Names of the WITH queries that are in view.
    hidden: Vec<String>,
    /// Of each query around: the number of names that it has hidden.
    counts: Vec<usize>,
    /// WITH queries that were walked over when those beside them were not in view.
    walked: HashSet<*const ast::Query>,
    /// Number of those around.
    within: usize,
}

impl<F: FnMut(&str) -> ControlFlow<()>> ast::Visitor for Free<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.within += usize::from(self.walked.contains(&std::ptr::from_ref(query)));
        let before = self.hidden.len();
        if let Some(with) = &query.with
            && self.within == 0
        {
            let names = with.cte_tables.iter().map(|cte| folded(&cte.alias.name));
            if with.recursive {
                self.hidden.extend(names);
            } else {
                // Each sees only those before it. The library goes through all of them once more.
                for (cte, name) in with.cte_tables.iter().zip(names) {
                    ast::Visit::visit(&*cte.query, self)?;
                    self.walked.insert(std::ptr::from_ref(&*cte.query));
                    self.hidden.push(name);
                }
            }
        }
        self.counts.push(self.hidden.len() - before);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let count = self.counts.pop().unwrap_or_default();
        self.hidden.truncate(self.hidden.len() - count);
        self.within -= usize::from(self.walked.contains(&std::ptr::from_ref(query)));
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
        match &name.0[..] {
            [ast::ObjectNamePart::Identifier(ident)] if self.within == 0 && pulse::walk(pulse::ITEM).is_ok() => {
                let name = folded(ident);
                if self.hidden.contains(&name) { ControlFlow::Continue(()) } else { (self.found)(&name) }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Calls this with the names of the relations of a query that are none of its own WITH queries.
fn visit_free(query: &ast::Query, found: impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    ast::Visit::visit(
        query,
        &mut Free { found, hidden: Vec::new(), counts: Vec::new(), walked: HashSet::new(), within: 0 },
    )
}

/// Tells whether a query names a relation so that is none of its own.
fn names(query: &ast::Query, wanted: &str) -> bool {
    visit_free(query, |name| if name == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }).is_break()
}

/// The queries in an order in which each names only those before it, and perhaps itself.
///
/// # Errors
/// `0A000` if two name each other.
pub(super) fn in_order(tables: &[ast::Cte]) -> SqlResult<Vec<&ast::Cte>> {
    let mut numbers: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, table) in tables.iter().enumerate() {
        numbers.entry(folded(&table.alias.name)).or_default().push(at);
    }
    // Of each query, those that name it, and how many it names that are not yet in order.
    let mut named_by: Vec<Vec<usize>> = vec![Vec::new(); tables.len()];
    let mut left = vec![0_usize; tables.len()];
    for (at, table) in tables.iter().enumerate() {
        let mut before = HashSet::new();
        let _ = visit_free(&table.query, |name| {
            before.extend(numbers.get(name).into_iter().flatten().filter(|other| **other != at).copied());
            ControlFlow::Continue(())
        });
        pulse::tick(pulse::ITEM)?;
        left[at] = before.len();
        before.into_iter().for_each(|other| named_by[other].push(at));
    }
    let mut free: BTreeSet<usize> = (0..tables.len()).filter(|at| left[*at] == 0).collect();
    let mut ordered = Vec::with_capacity(tables.len());
    while let Some(next) = free.pop_first() {
        ordered.push(&tables[next]);
        for other in &named_by[next] {
            left[*other] -= 1;
            if left[*other] == 0 {
                free.insert(*other);
            }
        }
    }
    if ordered.len() < tables.len() {
        return Err(SqlError::unsupported("mutual recursion between WITH items")
            .with_message("mutual recursion between WITH items is not implemented"));
    }
    Ok(ordered)
}

/// Says whether a plan looks at the row of an enclosing query.
pub(super) fn looks_out(plan: &Plan) -> bool {
    let slots = slots_of_plan(plan, 1);
    !slots.is_empty() || slots.looks_out
}

fn misplaced(name: &str, what: &str) -> SqlError {
    let message = format!("recursive reference to query \"{name}\" must not appear {what}");
    SqlError::new(INVALID_RECURSION, message)
}

impl Binder<'_> {
    /// Binds what stands in this; a recursive query may not be named there.
    pub(super) fn within<R>(&self, what: &'static str, bind: impl FnOnce() -> R) -> R {
        let before: Vec<_> = self.recursions.borrow().iter().map(|one| one.within).collect();
        self.recursions.borrow_mut().iter_mut().for_each(|one| one.within = Some(what));
        let result = bind();
        self.recursions.borrow_mut().iter_mut().zip(before).for_each(|(one, before)| one.within = before);
        result
    }

    /// How often recursive queries have been named so far.
    pub(super) fn recursive_references(&self) -> Vec<usize> {
        self.recursions.borrow().iter().map(|one| one.references).collect()
    }

    /// What was bound since turns out to stand in this.
    ///
    /// # Errors
    /// `42P19` if a recursive query was named in it.
    pub(super) fn none_named_since(&self, before: &[usize], what: &str) -> SqlResult<()> {
        let recursions = self.recursions.borrow();
        match recursions.iter().zip(before).find(|(one, before)| **before < one.references) {
            Some((one, _)) => Err(misplaced(&one.name, &format!("within {what}"))),
            None => Ok(()),
        }
    }

    /// A recursive query is named.
    ///
    /// # Errors
    /// `42P19` where it may not be.
    pub(super) fn note_reference(&self, plan: &Plan, name: &str) -> SqlResult<()> {
        match plan {
            Plan::Recursive(recursive) => {
                recursive.references.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Plan::Working(id) => {
                let mut recursions = self.recursions.borrow_mut();
                let Some(recursion) = recursions.iter_mut().find(|one| one.id == *id) else { return Ok(()) };
                if let Some(what) = recursion.within {
                    return Err(misplaced(name, &format!("within {what}")));
                }
                recursion.references += 1;
                if 1 < recursion.references { Err(misplaced(name, "more than once")) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// A query of `WITH RECURSIVE`, if it names itself.
    pub(super) fn recursive(
        &self,
        alias: &ast::TableAlias,
        query: &ast::Query,
        parent: Option<&Scope<'_>>,
    ) -> SqlResult<Option<Bound>> {
        let name = folded(&alias.name);
        if !names(query, &name) {
            return Ok(None);
        }
        let ast::Query { with, body, order_by, limit_clause, fetch, locks, .. } = query;
        let SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } = &**body else {
            let message = format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            );
            return Err(self.at(SqlError::new(INVALID_RECURSION, message), &alias.name));
        };
        for (is_there, what) in [
            (order_by.is_some(), "ORDER BY"),
            (limit_clause.is_some() || fetch.is_some(), "LIMIT"),
            (!locks.is_empty(), "FOR UPDATE/SHARE"),
        ] {
            if is_there {
                let message = format!("{what} in a recursive query is not implemented");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        let before = self.with.borrow().len();
        if let Some(with) = with {
            self.bind_with(with, parent, false, None)?;
        }
        let bound = self.recursive_union(&name, alias, (left, right, *set_quantifier), parent);
        self.with.borrow_mut().truncate(before);
        bound
    }

    fn recursive_union(
        &self,
        name: &str,
        alias: &ast::TableAlias,
        (left, right, quantifier): (&SetExpr, &SetExpr, SetQuantifier),
        parent: Option<&Scope<'_>>,
    ) -> SqlResult<Option<Bound>> {
        let all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::Distinct | SetQuantifier::None => false,
            _ => return Err(SqlError::unsupported("BY NAME")),
        };
        let id = new_id();
        let term = |term: &SetExpr, columns: Vec<ColumnInfo>, within: Option<&'static str>| {
            self.recursions.borrow_mut().push(Recursion { id, name: name.to_owned(), within, references: 0 });
            self.with.borrow_mut().push((name.to_owned(), Plan::Working(id), columns, 0));
            let bound = self.set_expr(term, Tail::default(), parent);
            self.with.borrow_mut().pop();
            let recursion = self.recursions.borrow_mut().pop();
            bound.map(|bound| (bound, recursion.map_or(0, |recursion| recursion.references)))
        };
        let (first, _) = term(left, Vec::new(), Some("its non-recursive term"))?;
        let mut columns = first.columns.clone();
        for column in &mut columns {
            column.kind = settled(column.kind);
            (column.table, column.number) = (0, 0);
        }
        for (column, named) in columns.iter_mut().zip(&alias.columns) {
            column.name = folded(&named.name);
        }
        let (step, references) = term(right, columns.clone(), None)?;
        if references == 0 {
            return Ok(None);
        }
        if first.columns.len() != step.columns.len() {
            let message = "each UNION query must have the same number of columns";
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            return Err(self.at_place(error, self.column_start(right, 0)));
        }
        let types = |bound: &Bound| bound.columns.iter().map(|column| column.kind).collect::<Vec<SqlType>>();
        let (from_first, from_step) = (types(&first), types(&step));
        let to: Vec<SqlType> = columns.iter().map(|column| column.kind).collect();
        for (at, (own, theirs)) in to.iter().zip(&from_step).enumerate() {
            let common = match own == theirs {
                true => *own,
                false => types::ops::common_kind(&[own.kind, theirs.kind], "UNION")
                    .map(SqlType::from)
                    .map_err(|error| self.at_place(error, self.column_start(right, at)))?,
            };
            if common != *own {
                let message = format!(
                    "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall",
                    at + 1,
                    own.name(),
                    common.name()
                );
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("Cast the output of the non-recursive term to the correct type.");
                return Err(self.at_place(error, self.column_start(left, at)));
            }
        }
        let kinds = to.iter().map(|kind| if all { Ok(kind.kind) } else { self.groupable(kind.kind) });
        let kinds = kinds.collect::<SqlResult<_>>()?;
        let first = self.converted(first.plan, &from_first, &to, Some(left))?;
        let step = self.converted(step.plan, &from_step, &to, Some(right))?;
        let looks_out = looks_out(&first) || looks_out(&step);
        let references = AtomicUsize::new(0);
        let plan = Plan::Recursive(Arc::new(Recursive { id, all, kinds, first, step, references, looks_out }));
        Ok(Some(Bound::new(plan, columns)))
    }
}
