//! Typed expressions.

use super::{Child, Plan, RoutineCall, children_of_expr, visit};
use syntax::lex::Span;
use types::datum::Datum;
use types::ops::Callee;
use types::ops::casts::CastEval;
use types::{Kind, SqlType};

/// Typed expression over a row.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Expr {
    Constant(Datum),
    /// Parameter, counted from 0.
    Parameter(usize),
    /// Value in this slot of the row.
    Column(usize),
    /// Value in the row of an enclosing query, `level` queries out, from 1.
    Outer {
        level: usize,
        column: usize,
    },
    /// Call of a function or operator; a strict one is null if any argument is.
    Call {
        callee: Callee,
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
    /// `IS TRUE`, `IS FALSE` or, without a value, `IS UNKNOWN`, which does not equal `IS NULL` as an expression.
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
    /// Body that refers to these values as [`Expr::Local`]; each is computed once.
    Let {
        values: Vec<Expr>,
        body: Box<Expr>,
    },
    /// Value of the innermost enclosing [`Expr::Let`].
    Local(usize),
    Coalesce(Vec<Expr>),
    /// `GREATEST` or `LEAST`; nulls are ignored.
    Extreme {
        greatest: bool,
        kind: Kind,
        arguments: Vec<Expr>,
    },
    /// Value of a subquery of one row; null if it returns none.
    Scalar(Box<Plan>),
    Exists(Box<Plan>),
    /// `IN` with a subquery: equality of a row of arguments with any of its rows, column by column as values of these
    /// types.
    InQuery {
        kinds: Vec<Kind>,
        arguments: Vec<Expr>,
        query: Box<Plan>,
    },
    InList {
        kind: Kind,
        argument: Box<Expr>,
        list: Vec<Expr>,
        /// Hash table for the list, if it is long and the same for all rows.
        hashed: Option<ListId>,
    },
    /// `ANY` and `ALL`. The condition has a row of its own: the values of the arguments, then the columns of the
    /// subquery or the element of the array.
    Quantified {
        all: bool,
        arguments: Vec<Expr>,
        over: Over,
        condition: Box<Expr>,
        /// Hash table for the elements, for `= ANY` or `<> ALL` of an array that is the same for all rows.
        hashed: Option<ListId>,
    },
    /// `ARRAY[...]`
    Array(Vec<Expr>),
    /// `ARRAY(query)`
    ArrayQuery(Box<Plan>),
    /// Start time of the transaction.
    Now {
        to: SqlType,
    },
    /// Function of a sequence. The first argument is the sequence, by OID, or by name as text.
    Sequence {
        call: SequenceCall,
        arguments: Vec<Expr>,
    },
    /// Value of a function that the database stores; null if it returns no row.
    Routine(Box<RoutineCall>),
    /// Function of an advisory lock. The arguments are its key, one or two integers.
    Advisory {
        call: AdvisoryCall,
        arguments: Vec<Expr>,
    },
}

/// Function of advisory locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryCall {
    /// `pg_advisory_lock` and its variants.
    Lock {
        /// True if the lock is shared.
        shared: bool,
        /// True if it does not wait for another holder.
        tries: bool,
        /// Scope at whose end the lock is released.
        scope: engine::AdvisoryScope,
    },
    /// `pg_advisory_unlock`, `pg_advisory_unlock_shared`
    Unlock {
        /// True if the lock is shared.
        shared: bool,
    },
    /// `pg_advisory_unlock_all`, without arguments.
    UnlockAll,
}

impl AdvisoryCall {
    /// True if the function returns void.
    pub fn is_void(self) -> bool {
        matches!(self, AdvisoryCall::Lock { tries: false, .. } | AdvisoryCall::UnlockAll)
    }
}

/// Function of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceCall {
    /// `nextval`
    Next,
    /// Next value of an identity column's sequence, which needs no right on the sequence.
    Identity,
    /// `currval`
    Current,
    /// `setval`, with two arguments or three.
    Set,
    /// `lastval`, without arguments.
    Last,
}

/// Operand of `ANY` and `ALL`.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Over {
    Query(Box<Plan>),
    Array(Box<Expr>),
}

impl Expr {
    /// True if the expression contains a subquery.
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

    /// True if the expression refers to the row of an enclosing query; subqueries are not searched.
    pub fn looks_out(&self) -> bool {
        matches!(self, Expr::Outer { .. }) || self.parts().into_iter().any(Expr::looks_out)
    }

    /// True if the expression is volatile: two evaluations over the same row may differ, or have an effect (`random()`,
    /// `nextval`).
    pub fn is_volatile(&self) -> bool {
        let mut found = false;
        visit(self, 0, &mut |expr, _| {
            found |= match expr {
                Expr::Sequence { .. } | Expr::Advisory { .. } => true,
                Expr::Routine(call) => call.is_volatile(),
                Expr::Call { callee, arguments: _ } => callee.callable().is_volatile(),
                Expr::Constant(_)
                | Expr::Parameter(_)
                | Expr::Column(_)
                | Expr::Outer { .. }
                | Expr::Cast { .. }
                | Expr::And(_)
                | Expr::Or(_)
                | Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::IsBool(..)
                | Expr::IsSame { .. }
                | Expr::Case { .. }
                | Expr::Let { .. }
                | Expr::Local(_)
                | Expr::Coalesce(_)
                | Expr::Extreme { .. }
                | Expr::Scalar(_)
                | Expr::Exists(_)
                | Expr::InQuery { .. }
                | Expr::InList { .. }
                | Expr::Quantified { .. }
                | Expr::Array(_)
                | Expr::ArrayQuery(_)
                | Expr::Now { .. } => false,
            };
        });
        found
    }

    /// True if the value is the same wherever the statement evaluates it.
    pub fn is_fixed(&self) -> bool {
        let is_own = match self {
            Expr::Column(_)
            | Expr::Outer { .. }
            | Expr::Local(_)
            | Expr::Sequence { .. }
            | Expr::Advisory { .. }
            | Expr::Routine(_)
            | Expr::Scalar(_)
            | Expr::Exists(_)
            | Expr::InQuery { .. }
            | Expr::Quantified { over: Over::Query(_), .. }
            | Expr::ArrayQuery(_) => false,
            Expr::Call { callee, .. } => !callee.callable().is_volatile(),
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

    /// True if the expression refers to the row.
    pub fn looks_at_row(&self) -> bool {
        matches!(self, Expr::Column(_)) || self.parts().into_iter().any(Expr::looks_at_row)
    }

    /// Returns the number of nodes of the expression, without those of subqueries.
    pub fn size(&self) -> usize {
        1 + self.parts().into_iter().map(Expr::size).sum::<usize>()
    }

    /// Returns the direct children of the expression, without those of subqueries.
    pub fn parts(&self) -> Vec<&Expr> {
        let mut parts = Vec::new();
        // The walk fails only if the statement is cancelled, which the next check finds again.
        let _ = children_of_expr(self, &mut |child, _| {
            match child {
                Child::Expr(part) => parts.push(part),
                Child::Plan(_) => {}
            }
            Ok(())
        });
        parts
    }
}

/// Id by which the executor finds the hash table of a list. Expression equality ignores it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ListId(pub u64);

impl std::fmt::Debug for ListId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ListId")
    }
}

/// Expression with its type and its position in the text.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Typed {
    pub expr: Expr,
    pub kind: SqlType,
    pub place: Span,
}

impl Typed {
    /// Expression without a position.
    pub fn new(expr: Expr, kind: impl Into<SqlType>) -> Typed {
        Typed { expr, kind: kind.into(), place: Span::NOWHERE }
    }

    /// Sets the position.
    #[must_use]
    pub fn at(self, place: Span) -> Typed {
        Typed { place, ..self }
    }
}
