//! The stack that a statement may use.
//!
//! Recursion over trees and plans is as deep as what a client wrote, or as what views and queries of `WITH` unfold to.
//!
//! **Invariant:** no statement overflows the stack. The binder asks [`check`] on its way down and leaves half of the stack to
//! those that go through what it made (rewrites, EXPLAIN, lowering, execution, clones, drops), which need less for each level
//! than it does; the parser refuses trees that are deeper than [`TREE_MAX`] before it makes them. What does not fit the
//! thread's stack is done again on a large one ([`bounded`]), and everything that was made there is run and dropped there,
//! too. What does not fit that one is `54001`. Functions that bind a definition while a statement runs, as those of the catalog
//! do, go to a large stack at once ([`on_large`]); what forgets to is refused before it overflows (`RESERVE_BYTES`).
//!
//! A large stack is mapped when it is needed and unmapped afterwards, so a page that was not touched costs nothing. Nothing
//! here may run in an urgent context, whose stack these functions do not know; such a context neither parses nor plans.

use crate::error::{SqlError, SqlResult, SqlState};
use std::cell::Cell;

/// Size of a large stack. Only pages that were touched take memory.
const LARGE_BYTES: usize = 512 << 20;
/// Greatest depth of a statement's tree: operators in a row, and parentheses.
pub const TREE_MAX: usize = 50_000;
/// Greatest number of open parentheses; each costs the parser more than an operator.
pub const NESTING_MAX: usize = 10_000;
/// Stack that the binder leaves to the last level of what it does, wherever it is called.
const RESERVE_BYTES: usize = 512 << 10;
/// Stack that those who go through an expression take for a level of it, at most.
const LEVEL_BYTES: usize = 1 << 10;
/// Stack that a level of queries that refer to one another takes when they are run, at most.
const QUERY_BYTES: usize = 48 << 10;

thread_local! {
    /// The binder goes down until only so many bytes are left.
    static FLOOR: Cell<usize> = const { Cell::new(RESERVE_BYTES) };
    static IS_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// Sets both for a while.
struct Scope(usize, bool);

impl Scope {
    fn enter(is_large: bool) -> Scope {
        let left = stacker::remaining_stack().unwrap_or(0);
        Scope(FLOOR.replace(left / 2), IS_LARGE.replace(is_large))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        FLOOR.set(self.0);
        IS_LARGE.set(self.1);
    }
}

/// Tells whether this is a large stack.
pub fn is_large() -> bool {
    IS_LARGE.get()
}

/// `54001`
pub fn exceeded() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("The statement nests, or strings together, too many expressions or queries.")
        .nowhere()
}

/// To be asked at each level of a recursion.
///
/// # Errors
/// `54001`
pub fn check() -> SqlResult<()> {
    crate::planning::check()?;
    match stacker::remaining_stack() {
        Some(left) if left < FLOOR.get() => Err(exceeded()),
        _ => Ok(()),
    }
}

/// Calls `f` to bind what stands so many levels deep in what is made of it, though it stands side by side in the text: the
/// values of a row that is compared by order are each inside the comparison of those before.
///
/// # Errors
/// `54001`, and those of `f`.
pub fn deeper<R>(levels: usize, f: impl FnOnce() -> SqlResult<R>) -> SqlResult<R> {
    let floor = FLOOR.get().saturating_add(levels.saturating_mul(LEVEL_BYTES));
    let _scope = Scope(FLOOR.replace(floor), IS_LARGE.get());
    check()?;
    f()
}

/// Tells whether there is room to run queries that refer to one another, so many in a row.
///
/// # Errors
/// `54001`
pub fn check_queries(depth: usize) -> SqlResult<()> {
    match stacker::remaining_stack() {
        Some(left) if left / QUERY_BYTES < depth => Err(exceeded()),
        _ => Ok(()),
    }
}

/// Calls `f` on a large stack: this one, if it is one.
pub fn on_large<R>(f: impl FnOnce() -> R) -> R {
    if is_large() {
        return f();
    }
    stacker::grow(LARGE_BYTES, || {
        let _scope = Scope::enter(true);
        f()
    })
}

/// Calls `f` on a large stack if what it is about was made on one.
pub fn fitting<R>(is_deep: bool, f: impl FnOnce() -> R) -> R {
    if is_deep { on_large(f) } else { f() }
}

/// Calls `f`, and once more on a large stack if this one is too small for it: so it must have no effect when it fails. Says
/// whether it was a large one.
///
/// # Errors
/// Those of `f`.
pub fn bounded<R>(mut f: impl FnMut() -> SqlResult<R>) -> SqlResult<(R, bool)> {
    if is_large() {
        return f().map(|made| (made, true));
    }
    let first = {
        let _scope = Scope::enter(false);
        f()
    };
    match first {
        Err(error) if error.state() == SqlState::STATEMENT_TOO_COMPLEX => on_large(f).map(|made| (made, true)),
        first => first.map(|made| (made, false)),
    }
}
