//! `WITH RECURSIVE`.
//!
//! **Invariant:** while the recursive term is bound, the query's name refers to the working table, the rows of the last
//! iteration. It may be used once, and only where more rows there can only add rows to the result.

use super::place::start;
use super::{Binder, BoundQuery, NameScope, settled};
use crate::plan::ColumnInfo;
use crate::plan::{Plan, Recursive, new_id, slots_of_plan};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use syntax::ast::visit::{self, Visitor};
use syntax::ast::{self, CommonStatement, QueryBody, RowCount, SetOperator};
use syntax::lex::Span;
use types::SqlType;

const INVALID_RECURSION: SqlState = SqlState::INVALID_RECURSION;

/// A recursive query whose terms are being bound.
pub(super) struct BindingRecursion {
    id: u64,
    name: String,
    /// Construct around the current position in which a self-reference is illegal.
    within: Option<&'static str>,
    references: usize,
}

/// Visitor of the relations that a statement names outside its own WITH queries, as PostgreSQL's
/// `makeDependencyGraphWalker`.
struct FreeRelations<F> {
    found: F,
    /// Names of the WITH queries in scope.
    hidden: Vec<String>,
    /// For each enclosing `WITH`: the number of names in scope before it, and whether it is `RECURSIVE`.
    around: Vec<(usize, bool)>,
}

impl<F: FnMut(&str)> Visitor for FreeRelations<F> {
    fn relation(&mut self, name: &ast::ObjectName) {
        if let [own] = &name.parts[..]
            && pulse::walk(pulse::ITEM).is_ok()
            && !self.hidden.iter().any(|hidden| **hidden == **own)
        {
            (self.found)(own);
        }
    }

    fn with_begins(&mut self, with: &ast::With) {
        self.around.push((self.hidden.len(), with.is_recursive));
        if with.is_recursive {
            self.hidden.extend(with.tables.iter().map(|table| table.name.to_string()));
        }
    }

    fn common_table_ends(&mut self, table: &ast::CommonTable) {
        // Without RECURSIVE a WITH query sees only those before it.
        if let Some((_, false)) = self.around.last() {
            self.hidden.push(table.name.to_string());
        }
    }

    fn with_ends(&mut self, _: &ast::With) {
        let before = self.around.pop().map_or(0, |(before, _)| before);
        self.hidden.truncate(before);
    }
}

/// Calls `found` with the names of the relations of a statement that are not its own WITH queries.
fn visit_free(statement: &CommonStatement, found: impl FnMut(&str)) {
    let mut visitor = FreeRelations { found, hidden: Vec::new(), around: Vec::new() };
    visit::common_statement(statement, &mut visitor);
}

/// True if a statement refers to a relation of this name outside its own WITH queries.
fn names(statement: &CommonStatement, wanted: &str) -> bool {
    let mut is_there = false;
    visit_free(statement, |name| is_there |= name == wanted);
    is_there
}

/// Sorts the queries topologically, so that each refers only to those before it and possibly to itself.
///
/// # Errors
/// Fails with `0A000` for mutual recursion.
pub(super) fn in_order(tables: &[ast::CommonTable]) -> SqlResult<Vec<&ast::CommonTable>> {
    let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, table) in tables.iter().enumerate() {
        numbers.entry(&table.name).or_default().push(at);
    }
    // For each query: the queries that refer to it, and the number of its references that are not in order yet.
    let mut named_by: Vec<Vec<usize>> = vec![Vec::new(); tables.len()];
    let mut left = vec![0_usize; tables.len()];
    for (at, table) in tables.iter().enumerate() {
        let mut before = HashSet::new();
        visit_free(&table.statement, |name| {
            before.extend(numbers.get(name).into_iter().flatten().filter(|other| **other != at).copied());
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

/// True if a plan refers to the row of an enclosing query.
pub(super) fn looks_out(plan: &Plan) -> bool {
    let slots = slots_of_plan(plan, 1);
    !slots.is_empty() || slots.looks_out
}

fn misplaced(name: &str, what: &str) -> SqlError {
    let message = format!("recursive reference to query \"{name}\" must not appear {what}");
    SqlError::new(INVALID_RECURSION, message)
}

impl Binder<'_> {
    /// Binds a construct in which a recursive reference is illegal.
    pub(super) fn within<R>(&self, what: &'static str, bind: impl FnOnce() -> R) -> R {
        let before: Vec<_> = self.recursions.borrow().iter().map(|one| one.within).collect();
        self.recursions.borrow_mut().iter_mut().for_each(|one| one.within = Some(what));
        let result = bind();
        self.recursions.borrow_mut().iter_mut().zip(before).for_each(|(one, before)| one.within = before);
        result
    }

    /// Returns the numbers of recursive references so far.
    pub(super) fn recursive_references(&self) -> Vec<usize> {
        self.recursions.borrow().iter().map(|one| one.references).collect()
    }

    /// Refuses recursive references that were bound since `before`, in a construct that turned out to forbid them.
    ///
    /// # Errors
    /// Fails with `42P19` if there is one.
    pub(super) fn none_named_since(&self, before: &[usize], what: &str) -> SqlResult<()> {
        let recursions = self.recursions.borrow();
        match recursions.iter().zip(before).find(|(one, before)| **before < one.references) {
            Some((one, _)) => Err(misplaced(&one.name, &format!("within {what}"))),
            None => Ok(()),
        }
    }

    /// Counts a reference, if the plan is that of a recursive query.
    ///
    /// # Errors
    /// Fails with `42P19` where a recursive reference is illegal.
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

    /// Binds a query of `WITH RECURSIVE`; `None` if it does not refer to itself.
    pub(super) fn recursive(
        &self,
        table: &ast::CommonTable,
        parent: Option<&NameScope<'_>>,
    ) -> SqlResult<Option<BoundQuery>> {
        let name = &table.name;
        if !names(&table.statement, name) {
            return Ok(None);
        }
        let wrong = |message: String| self.at(SqlError::new(INVALID_RECURSION, message), name);
        let query = match &table.statement {
            CommonStatement::Query(query) => query,
            CommonStatement::Insert(_) | CommonStatement::Update(_) | CommonStatement::Delete(_) => {
                return Err(wrong(format!("recursive query \"{name}\" must not contain data-modifying statements")));
            }
            CommonStatement::Unsupported(feature) => return Err(SqlError::unsupported(feature)),
        };
        let QueryBody::SetOperation { operator: SetOperator::Union, is_all, left, right } = &query.body else {
            return Err(wrong(format!(
                "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
            )));
        };
        self.check_bare(query)?;
        let before = self.with.borrow().len();
        if let Some(with) = &query.with {
            self.bind_with(with, parent, false, None)?;
        }
        let bound = self.recursive_union(table, (left, right, *is_all), parent);
        self.with.borrow_mut().truncate(before);
        bound
    }

    /// # Errors
    /// Fails with `0A000` for a clause behind the union of a recursive query.
    fn check_bare(&self, query: &ast::Query) -> SqlResult<()> {
        let ast::Query { with: _, body: _, order_by, limit, locking, span: _ } = query;
        let count = limit.count.as_ref().map(|count| match count {
            RowCount::All => Span::NOWHERE,
            RowCount::Expr(count) => start(count),
        });
        let clauses = [
            (order_by.first().map(|key| start(&key.value)), "ORDER BY"),
            (limit.offset.as_ref().map(start), "OFFSET"),
            (count, "LIMIT"),
            (locking.first().map(|_| Span::NOWHERE), "FOR UPDATE/SHARE"),
        ];
        for (place, what) in clauses {
            if let Some(place) = place {
                let message = format!("{what} in a recursive query is not implemented");
                return Err(self.at_place(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message), place));
            }
        }
        Ok(())
    }

    fn recursive_union(
        &self,
        table: &ast::CommonTable,
        (left, right, all): (&ast::Query, &ast::Query, bool),
        parent: Option<&NameScope<'_>>,
    ) -> SqlResult<Option<BoundQuery>> {
        let id = new_id();
        let name = table.name.to_string();
        let term = |term: &ast::Query, columns: Vec<ColumnInfo>, within: Option<&'static str>| {
            self.recursions.borrow_mut().push(BindingRecursion { id, name: name.clone(), within, references: 0 });
            self.with.borrow_mut().push((name.clone(), Plan::Working(id), columns, 0));
            let bound = self.query(term, parent);
            self.with.borrow_mut().pop();
            let recursion = self.recursions.borrow_mut().pop();
            bound.map(|bound| (bound, recursion.map_or(0, |recursion| recursion.references)))
        };
        // The name is in scope in the first term as well, so that a reference there gets its own error.
        let (first, _) = term(left, Vec::new(), Some("its non-recursive term"))?;
        let mut columns = first.columns.clone();
        for column in &mut columns {
            column.kind = settled(column.kind);
            (column.table, column.number) = (0, 0);
        }
        for (column, named) in columns.iter_mut().zip(&table.columns) {
            column.name = named.to_string();
        }
        let (step, references) = term(right, columns.clone(), None)?;
        // A query without a reference to itself is an ordinary UNION, which the caller binds.
        if references == 0 {
            return Ok(None);
        }
        if first.columns.len() != step.columns.len() {
            let message = "each UNION query must have the same number of columns";
            let error = SqlError::new(SqlState::SYNTAX_ERROR, message);
            return Err(self.at_place(error, self.column_start(right, 0)));
        }
        let types = |bound: &BoundQuery| bound.columns.iter().map(|column| column.kind).collect::<Vec<SqlType>>();
        let (from_first, from_step) = (types(&first), types(&step));
        let to: Vec<SqlType> = columns.iter().map(|column| column.kind).collect();
        self.check_types(&table.name, [&to, &from_step], [left, right])?;
        let kinds = to.iter().map(|kind| if all { Ok(kind.kind) } else { self.groupable(kind.kind) });
        let kinds = kinds.collect::<SqlResult<_>>()?;
        let first = self.converted(first.plan, &from_first, &to, Some(left))?;
        let step = self.converted(step.plan, &from_step, &to, Some(right))?;
        let looks_out = looks_out(&first) || looks_out(&step);
        let references = AtomicUsize::new(0);
        let plan = Plan::Recursive(Arc::new(Recursive { id, all, kinds, first, step, references, looks_out }));
        Ok(Some(BoundQuery::new(plan, columns)))
    }

    /// # Errors
    /// Fails with `42804` if the union would change the type of a column of the non-recursive term.
    fn check_types(
        &self,
        name: &str,
        [first, step]: [&[SqlType]; 2],
        [left, right]: [&ast::Query; 2],
    ) -> SqlResult<()> {
        for (at, (own, theirs)) in first.iter().zip(step).enumerate() {
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
        Ok(())
    }
}
