//! What the binder makes and the executor runs: typed expressions, and plans that pass rows on one at a time.
//!
//! **Invariant:** types are settled: each call has arguments of the kinds it was declared with, casts included. A row of `FROM`
//! has a place for every column of every source, in the order in which the statement names them, whatever the order in which
//! they are joined; each table has, behind its columns, one more that no query can name: the row's id.

mod same;
mod walk;
mod window;

pub use crate::change::{Assignments, Change, ConflictUpdate, Modify, NewValue, OnConflict, Target};
pub use catalog::{ColumnDef, TableInfo};
use catalog::{SystemColumn, SystemTable};
use engine::{RowLock, TableLock, Txn, Wait};
use statement::pulse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use syntax::lex::Span;
use types::datum::Datum;
pub use types::ops::Eval;
/// What computes a cast; it is given the type to cast to.
pub use types::ops::casts::Convert as CastEval;
use types::ops::{Aggregate, Function, Operator};
use types::{Kind, SqlType};

pub use same::is_same_constant;
pub(crate) use same::{Copies, is_same, is_same_set};
pub(crate) use walk::{
    PLACEHOLDERS, has_working, is_volatile_plan, move_inward, rewrite_plan, slots_of_plan, source_has_working,
    visit_plan,
};
pub use walk::{Slots, rewrite, slots_of, substitute, visit};
pub use window::{Exclude, Frame, FrameBound, FrameUnit, RangeSteps, WindowCall, WindowFunction};

/// Column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name of the column.
    pub name: String,
    /// Type of the values.
    pub kind: SqlType,
    /// OID of the table, 0 if it is no table's column.
    pub table: u32,
    /// Number of the column in the table, from 1; 0 likewise.
    pub number: i16,
}

/// Columns of a result that has those of a table.
pub(crate) fn columns_of_system(table: &SystemTable) -> Vec<ColumnInfo> {
    let column = |(at, column): (usize, &SystemColumn)| ColumnInfo {
        name: column.name.clone(),
        kind: SqlType::from(column.kind),
        table: table.oid,
        number: at as i16 + 1,
    };
    table.columns.iter().enumerate().map(column).collect()
}

/// An expression.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Expr {
    Constant(Datum),
    /// From 0.
    Parameter(usize),
    /// Of the row.
    Column(usize),
    /// Of the row of an enclosing query, so many levels out, from 1.
    Outer {
        level: usize,
        column: usize,
    },
    /// Strict: null if any argument is.
    Call {
        eval: Eval,
        strict: bool,
        operator: Option<&'static Operator>,
        /// Its line in the table of functions, if it is one's call.
        function: Option<&'static Function>,
        arguments: Vec<Expr>,
    },
    Cast {
        eval: CastEval,
        to: SqlType,
        argument: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// `IS TRUE`, `IS FALSE`, or, without a value, `IS UNKNOWN`, which is another expression than `IS NULL`.
    IsBool(Box<Expr>, Option<bool>),
    /// `IS NOT DISTINCT FROM`.
    IsSame {
        kind: Kind,
        arguments: Box<[Expr; 2]>,
    },
    Case {
        whens: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    /// The body, which names these values: they are computed once, however often it does.
    Let {
        values: Vec<Expr>,
        body: Box<Expr>,
    },
    /// A value of the innermost [`Expr::Let`] around it.
    Local(usize),
    Coalesce(Vec<Expr>),
    /// `GREATEST` or `LEAST`; nulls do not count.
    Extreme {
        greatest: bool,
        kind: Kind,
        arguments: Vec<Expr>,
    },
    /// The one value of a query, null if it has no row.
    Scalar(Box<Plan>),
    Exists(Box<Plan>),
    /// Equality of a row of arguments with any row of the query, column by column as values of these kinds; of a value with any
    /// of the list.
    InQuery {
        kinds: Vec<Kind>,
        arguments: Vec<Expr>,
        query: Box<Plan>,
    },
    InList {
        kind: Kind,
        argument: Box<Expr>,
        list: Vec<Expr>,
        /// The list is long, and the same for all rows: a run keeps it in a hash table of this number.
        hashed: Option<ListId>,
    },
    /// `ANY` and `ALL`. The condition is over a row of its own: the arguments' values, then the query's columns or the array's
    /// element.
    Quantified {
        all: bool,
        arguments: Vec<Expr>,
        over: Over,
        condition: Box<Expr>,
        /// `= ANY` or `<> ALL` of an array that is the same for all rows: a run keeps it in a hash table of this number.
        hashed: Option<ListId>,
    },
    /// `ARRAY[...]`
    Array(Vec<Expr>),
    /// `ARRAY(query)`
    ArrayQuery(Box<Plan>),
    /// When the transaction began.
    Now {
        to: SqlType,
    },
    /// A function of a sequence, which is the first argument: by its number, or by its name as text.
    Sequence {
        call: SequenceCall,
        arguments: Vec<Expr>,
    },
    /// A function of an advisory lock, whose number, or two, are the arguments.
    Advisory {
        call: AdvisoryCall,
        arguments: Vec<Expr>,
    },
}

/// What is done to an advisory lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryCall {
    /// `pg_advisory_lock` and its kin.
    Lock {
        /// Whether others may have it shared, too.
        shared: bool,
        /// Whether it is left if another has it.
        tries: bool,
        /// How long it is had.
        scope: engine::AdvisoryScope,
    },
    /// `pg_advisory_unlock`, `pg_advisory_unlock_shared`
    Unlock {
        /// Whether the lock is a shared one.
        shared: bool,
    },
    /// `pg_advisory_unlock_all`, without arguments.
    UnlockAll,
}

impl AdvisoryCall {
    /// Tells whether it gives nothing.
    pub fn is_void(self) -> bool {
        matches!(self, AdvisoryCall::Lock { tries: false, .. } | AdvisoryCall::UnlockAll)
    }
}

/// What is asked of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCall {
    /// `nextval`
    Next,
    /// `currval`
    Current,
    /// `setval`, with two arguments or three.
    Set,
    /// `lastval`, without arguments.
    Last,
}

/// What `ANY` and `ALL` go over.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Over {
    Query(Box<Plan>),
    Array(Box<Expr>),
}

impl Expr {
    /// Whether there is a query in it.
    pub fn has_query(&self) -> bool {
        match self {
            Expr::Scalar(_)
            | Expr::Exists(_)
            | Expr::InQuery { .. }
            | Expr::ArrayQuery(_)
            | Expr::Quantified { over: Over::Query(_), .. } => true,
            other => other.parts().into_iter().any(Expr::has_query),
        }
    }

    /// Whether it looks at the row of an enclosing query, queries inside not counted.
    pub fn looks_out(&self) -> bool {
        matches!(self, Expr::Outer { .. }) || self.parts().into_iter().any(Expr::looks_out)
    }

    /// Says whether two evaluations over the same row may differ, or change something: `random()`, `nextval`.
    pub fn is_volatile(&self) -> bool {
        let mut found = false;
        visit(self, 0, &mut |expr, _| {
            found |= matches!(expr, Expr::Sequence { .. } | Expr::Advisory { .. })
                || matches!(expr, Expr::Call { function: Some(function), .. } if function.volatile);
        });
        found
    }

    /// Says whether its value is the same wherever a run of the statement evaluates it.
    pub fn is_fixed(&self) -> bool {
        let is_own = match self {
            Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Local(_)
            | Expr::Sequence { .. }
            | Expr::Advisory { .. }
            | Expr::Scalar(_)
            | Expr::Exists(_)
            | Expr::InQuery { .. }
            | Expr::Quantified { over: Over::Query(_), .. }
            | Expr::ArrayQuery(_) => false,
            Expr::Call { function, .. } => !function.is_some_and(|function| function.volatile),
            Expr::Constant(_)
            | Expr::Parameter(_)
            | Expr::Cast { .. }
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsBool(..)
            | Expr::IsSame { .. }
            | Expr::Case { .. }
            | Expr::Let { .. }
            | Expr::Coalesce(_)
            | Expr::Extreme { .. }
            | Expr::InList { .. }
            | Expr::Quantified { over: Over::Array(_), .. }
            | Expr::Array(_)
            | Expr::Now { .. } => true,
        };
        is_own && self.parts().into_iter().all(Expr::is_fixed)
    }

    /// Whether it looks at the row.
    pub fn looks_at_row(&self) -> bool {
        matches!(self, Expr::Column(_)) || self.parts().into_iter().any(Expr::looks_at_row)
    }

    /// Number of expressions that it is made of, itself included, queries inside not counted.
    pub fn size(&self) -> usize {
        1 + self.parts().into_iter().map(Expr::size).sum::<usize>()
    }

    /// What it is made of.
    pub fn parts(&self) -> Vec<&Expr> {
        // Whoever looks next finds that the statement must end.
        let _ = pulse::walk(pulse::ITEM);
        match self {
            Expr::Constant(_)
            | Expr::Parameter(_)
            | Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Local(_)
            | Expr::Now { .. }
            | Expr::Scalar(_)
            | Expr::Exists(_)
            | Expr::ArrayQuery(_) => Vec::new(),
            Expr::Quantified { arguments, over, .. } => {
                let array = match over {
                    Over::Array(array) => Some(&**array),
                    Over::Query(_) => None,
                };
                arguments.iter().chain(array).collect()
            }
            Expr::Call { arguments, .. }
            | Expr::Sequence { arguments, .. }
            | Expr::Advisory { arguments, .. }
            | Expr::And(arguments)
            | Expr::Or(arguments)
            | Expr::Coalesce(arguments)
            | Expr::Array(arguments)
            | Expr::InQuery { arguments, .. }
            | Expr::Extreme { arguments, .. } => arguments.iter().collect(),
            Expr::IsSame { arguments, .. } => arguments.iter().collect(),
            Expr::Cast { argument, .. } | Expr::Not(argument) | Expr::IsNull(argument) | Expr::IsBool(argument, _) => {
                vec![argument]
            }
            Expr::InList { argument, list, .. } => std::iter::once(&**argument).chain(list).collect(),
            Expr::Let { values, body } => values.iter().chain([&**body]).collect(),
            Expr::Case { whens, otherwise } => {
                whens.iter().flat_map(|(when, then)| [when, then]).chain([&**otherwise]).collect()
            }
        }
    }
}

/// With its type, and where it is written.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Typed {
    pub expr: Expr,
    pub kind: SqlType,
    pub place: Span,
}

impl Typed {
    /// One that is written nowhere.
    pub fn new(expr: Expr, kind: impl Into<SqlType>) -> Typed {
        Typed { expr, kind: kind.into(), place: Span::NOWHERE }
    }

    /// That is written there.
    #[must_use]
    pub fn at(self, place: Span) -> Typed {
        Typed { place, ..self }
    }
}

/// A source of rows.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Plan {
    /// One row without columns.
    Unit,
    Values(Vec<Vec<Expr>>),
    /// `FROM`
    Joins(Joins),
    Filter {
        input: Box<Plan>,
        condition: Expr,
    },
    Project {
        input: Box<Plan>,
        columns: Vec<Expr>,
    },
    /// The groups' values, then the aggregates'; with grouping sets, then the number of the set, an `int4`.
    Aggregate {
        input: Box<Plan>,
        groups: Vec<(Expr, Kind)>,
        /// Each by the numbers of the groups that are in it; the others are null in its rows.
        sets: Option<Vec<Vec<usize>>>,
        calls: Vec<AggregateCall>,
    },
    /// The window functions' values behind each row.
    Windows {
        input: Box<Plan>,
        calls: Vec<WindowCall>,
    },
    /// For each row its sets' values, side by side behind the row, a shorter set filled up with nulls.
    Sets {
        input: Box<Plan>,
        calls: Vec<SetCall>,
    },
    Sort {
        input: Box<Plan>,
        keys: Vec<SortKey>,
        /// The row executor makes the rows in this order, by an index.
        is_given: bool,
    },
    /// Each row once, by its first columns, of these kinds.
    Distinct {
        input: Box<Plan>,
        kinds: Vec<Kind>,
    },
    /// The first row of each run of rows with the same values.
    DistinctOn {
        input: Box<Plan>,
        values: Vec<(Expr, Kind)>,
    },
    Limit {
        input: Box<Plan>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    /// `FETCH FIRST ... WITH TIES` of rows in this order.
    Ties {
        input: Box<Plan>,
        keys: Vec<SortKey>,
        limit: Option<Expr>,
        offset: Option<Expr>,
    },
    Set {
        operation: SetOperation,
        all: bool,
        kinds: Vec<Kind>,
        left: Box<Plan>,
        right: Box<Plan>,
    },
    /// Locks rows of the tables. A row with one that has changed meanwhile is judged anew: its outer joins, each behind those
    /// that it looks at, then the condition.
    Lock {
        input: Box<Plan>,
        locks: Vec<Lock>,
        joins: Vec<OuterJoin>,
        condition: Option<Expr>,
    },
    /// Rows of a table that are made when they are asked for.
    System(Arc<SystemTable>),
    /// Rows of a query that does not depend on where it stands: of `WITH`, or a subquery. They are made once in a run of the
    /// statement, which knows them by this number.
    Shared {
        id: u64,
        plan: Arc<Plan>,
    },
    /// `WITH RECURSIVE`
    Recursive(Arc<Recursive>),
    /// The rows of the last round of the recursive query of this number.
    Working(u64),
    /// What a statement of `WITH` that changes rows returns; it is run once, when somebody first asks.
    Modified(Arc<Modify>),
    /// A query with statements in its `WITH` that change rows: those that nobody has asked for are run at its end.
    Modifying {
        modifies: Vec<Arc<Modify>>,
        input: Box<Plan>,
    },
}

/// A query that goes on with its own rows.
#[derive(Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Recursive {
    pub id: u64,
    /// Otherwise each row comes once.
    pub all: bool,
    pub kinds: Vec<Kind>,
    /// The first round.
    pub first: Plan,
    /// A round over the rows of the one before; the one without rows is the last.
    pub step: Plan,
    /// How often the statement names it. Rows of one that is named once need not be kept.
    pub references: AtomicUsize,
    /// It looks at the row of an enclosing query, so its rows are made again for each.
    pub looks_out: bool,
}

impl Clone for Recursive {
    fn clone(&self) -> Recursive {
        let Recursive { id, all, kinds, first, step, references, looks_out } = self;
        Recursive {
            id: *id,
            all: *all,
            kinds: kinds.clone(),
            first: first.clone(),
            step: step.clone(),
            references: AtomicUsize::new(references.load(Ordering::Relaxed)),
            looks_out: *looks_out,
        }
    }
}

/// A number for what is kept while a statement runs. No two plans of the process have the same one.
pub fn new_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Sources, one joined to the next.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Joins {
    /// A condition that looks at no row: without it there are none.
    pub when: Option<Expr>,
    /// In the order in which the row executor goes.
    pub steps: Vec<Step>,
    /// Places of the row.
    pub width: usize,
}

/// One source: each of its rows is joined to each row of the steps before it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Step {
    pub source: Source,
    /// A row without a match is kept, with nulls for the source's columns.
    pub is_outer: bool,
    /// What makes a match.
    pub on: Option<Expr>,
    /// Of an outer step: what is asked of the row afterwards.
    pub filter: Option<Expr>,
    /// The source's places of the row.
    pub first: usize,
    pub width: usize,
    /// Of a source that depends on nothing before it: its rows are made once, and found by their keys.
    pub kept: Option<Kept>,
}

/// How the rows of a source are kept.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Kept {
    pub id: u64,
    /// Nothing in it depends on an enclosing query, so that one making is enough for the whole statement.
    pub is_constant: bool,
    /// Of `on`: what looks at the source alone, and chooses which rows are kept.
    pub condition: Option<Expr>,
    /// Equalities of `on`. Without any, all kept rows are gone through.
    pub keys: Vec<JoinKey>,
}

/// An equality between what is known before a source and its own columns.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct JoinKey {
    pub before: Expr,
    pub own: Expr,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// Where rows of `FROM` come from.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Source {
    Table {
        table: Arc<TableInfo>,
        access: Access,
        /// The columns that are looked at, its row's id counted as one behind the last; all, if it does not say.
        columns: Option<Vec<usize>>,
    },
    /// A query; a lateral one looks at what is known before it, as the row of its enclosing query.
    Query { plan: Box<Plan>, is_lateral: bool },
    /// Functions that return sets, side by side, a shorter one filled up with nulls; then perhaps the row's number.
    Functions { calls: Vec<SetCall>, is_numbered: bool },
    /// Joins in parentheses, or those on the nullable side of an outer join.
    Group(Vec<Step>),
    /// `FULL JOIN`. The right side is kept.
    Full(Box<Full>),
}

/// A call of a function that returns a set of values.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SetCall {
    pub function: SetFunction,
    pub arguments: Vec<Expr>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum SetFunction {
    /// `generate_series`: from, to, step; what adds a step, and a step of nothing.
    Series { kind: Kind, step: Kind, add: Eval, zero: Datum },
    /// An array's elements.
    Unnest,
    /// `generate_subscripts(array, dimension, reverse)`, of an array that begins at this place.
    Subscripts { first: i32 },
    /// `string_to_table(text, delimiter, null)`
    StringToTable,
    /// A function of one value: a set of one.
    One,
}

/// See [`Source::Full`].
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Full {
    pub left: Side,
    pub right: Side,
    pub on: Option<Expr>,
    pub keys: Vec<JoinKey>,
}

/// A side of a full join, with its places of the row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Side {
    pub steps: Vec<Step>,
    pub first: usize,
    pub width: usize,
}

/// How rows of a table are found. The expressions are over what is known before it.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Access {
    All,
    /// The leading columns of an index are equal to these; the next one is between the bounds.
    Index {
        index: usize,
        prefix: Vec<KeyValue>,
        lower: Option<Box<Limit>>,
        upper: Option<Box<Limit>>,
        /// From the greatest key down.
        backward: bool,
    },
    /// The leading columns of an index are equal to these, and the next one to any of the list's values.
    AnyOf {
        index: usize,
        prefix: Vec<KeyValue>,
        list: List,
    },
}

/// A value that is searched among an index's keys. Its kind may be another than theirs; see `storage::search`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct KeyValue {
    pub value: Expr,
    pub kind: Kind,
}

/// Values that an index's keys may be equal to.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum List {
    Values(Vec<KeyValue>),
    /// An array's elements, of this kind.
    Array {
        array: Expr,
        kind: Kind,
    },
}

/// The number by which a run of a statement knows the hash table of a list. It is no part of what an expression says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListId(pub u64);

impl std::fmt::Debug for ListId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ListId")
    }
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Limit {
    pub value: KeyValue,
    pub inclusive: bool,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AggregateCall {
    pub aggregate: &'static Aggregate,
    pub arguments: Vec<Expr>,
    pub argument_kinds: Vec<Kind>,
    pub is_distinct: bool,
    /// The order in which it is given the rows.
    pub order: Vec<SortKey>,
    /// The keys of the order are over the arguments and not over the row, as those of DISTINCT and of WITHIN GROUP.
    pub orders_arguments: bool,
    pub filter: Option<Expr>,
}

#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SortKey {
    pub value: Expr,
    pub kind: Kind,
    pub descending: bool,
    pub nulls_first: bool,
}

/// Rows of one table, by the column that has their ids, and where its other columns begin.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Lock {
    pub table: Arc<TableInfo>,
    pub first: usize,
    pub mode: RowLock,
    pub wait: Wait,
}

impl Lock {
    /// The column that has the row's id.
    pub fn row_id(&self) -> usize {
        self.first + self.table.columns.len()
    }
}

/// Condition of an outer join, and the places of its nullable side.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct OuterJoin {
    pub on: Option<Expr>,
    pub first: usize,
    pub width: usize,
}

/// A lock of a table that a statement takes before its snapshot.
#[derive(Clone, Debug)]
pub struct TableUse {
    /// The table, as the statement was bound to it.
    pub table: Arc<TableInfo>,
    /// Use of the table.
    pub hold: Hold,
}

/// Hold of a statement on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// As one that writes to it: in mode ROW EXCLUSIVE.
    Write,
    /// In this mode.
    Lock(TableLock, Wait),
    /// In mode ROW SHARE, as one that waits for no row: its statement takes no table from less important transactions.
    Hasty,
}

impl TableUse {
    /// Takes the lock, for the rest of the transaction.
    ///
    /// # Errors
    /// Those of [`Txn::announce`] and [`Txn::lock_table`].
    pub fn take(&self, txn: &Txn<'_>) -> engine::Result<()> {
        self.hold.take(txn, &self.table)
    }
}

impl Hold {
    /// Takes this lock of the table, for the rest of the transaction.
    ///
    /// # Errors
    /// Those of [`Txn::announce`] and [`Txn::lock_table`].
    pub fn take(self, txn: &Txn<'_>, table: &TableInfo) -> engine::Result<()> {
        match self {
            Hold::Write => txn.announce(&table.table),
            Hold::Lock(mode, wait) => txn.lock_table(&table.table, mode, wait),
            Hold::Hasty => txn.lock_table(&table.table, TableLock::RowShare, Wait::Block),
        }
    }
}
