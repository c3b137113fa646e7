//! Stack that a statement may use.
//!
//! Recursion over trees and plans is as deep as the client's text, or as the views and queries
//! of `WITH` that it unfolds.
//!
//! **Invariant:** no statement overflows the stack. The binder calls [`check`] on its way down and leaves half of the
//! stack to the later passes over its result (rewrites, EXPLAIN, lowering, execution, clones, drops), which need less
//! for each level than it does. The parser refuses trees that are deeper than [`TREE_MAX`] before it makes them. Work
//! that does not fit the thread's stack is done again on a large one ([`bounded`]), and everything that was made there
//! is run and dropped there, too. Work that does not fit the large stack fails with `54001`. Functions that bind a
//! definition while a statement runs, such as those of the catalog, go to a large stack at once ([`on_large`]). A
//! function that forgets to is refused before it overflows (`RESERVE_BYTES`).
//!
//! A large stack is mapped when it is needed and unmapped afterwards, so an untouched page costs nothing. Nothing here
//! may run in an urgent context, whose stack these functions do not know. Such a context neither parses nor plans.

use crate::error::{SqlError, SqlResult, SqlState};
use std::cell::Cell;

/// Size of a large stack in bytes. Only touched pages take memory.
const LARGE_BYTES: usize = 512 << 20;
/// Greatest depth of a statement's tree: operators in a row, and parentheses.
pub const TREE_MAX: usize = 50_000;
/// Greatest number of open parentheses. Each costs the parser more than an operator.
pub const NESTING_MAX: usize = 10_000;
/// Stack that the binder leaves to the last level of its work, wherever it is called.
const RESERVE_BYTES: usize = 512 << 10;
/// Upper bound on the stack that the later passes take for one level of an expression.
const LEVEL_BYTES: usize = 1 << 10;
/// Upper bound on the stack that one level of queries that refer to one another takes when they are run.
const QUERY_BYTES: usize = 48 << 10;

thread_local! {
    /// Number of bytes that must be left for the binder to go down another level.
    static FLOOR: Cell<usize> = const { Cell::new(RESERVE_BYTES) };
    static IS_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// Sets both thread-local values, and restores them when it is dropped.
struct StackGuard(usize, bool);

impl StackGuard {
    fn enter(is_large: bool) -> StackGuard {
        let left = stacker::remaining_stack().unwrap_or(0);
        StackGuard(FLOOR.replace(left / 2), IS_LARGE.replace(is_large))
    }
}

impl Drop for StackGuard {
    fn drop(&mut self) {
        FLOOR.set(self.0);
        IS_LARGE.set(self.1);
    }
}

/// Returns true if the thread runs on a large stack.
pub fn is_large() -> bool {
    IS_LARGE.get()
}

/// Returns `54001`.
pub fn exceeded() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("The statement nests, or strings together, too many expressions or queries.")
        .nowhere()
}

/// Returns an error if the stack is exhausted. Every recursion calls this at each level.
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

/// Calls `f` to bind an expression that stands so many levels deep in the result, though it stands side by side in the
/// text. The values of a row that is compared by order are an example: each is inside the comparison of those before.
///
/// # Errors
/// `54001`, and those of `f`.
pub fn deeper<R>(levels: usize, f: impl FnOnce() -> SqlResult<R>) -> SqlResult<R> {
    let floor = FLOOR.get().saturating_add(levels.saturating_mul(LEVEL_BYTES));
    let _guard = StackGuard(FLOOR.replace(floor), IS_LARGE.get());
    check()?;
    f()
}

/// Returns an error if there is no room to run so many queries in a row that refer to one another.
///
/// # Errors
/// `54001`
pub fn check_queries(depth: usize) -> SqlResult<()> {
    match stacker::remaining_stack() {
        Some(left) if left / QUERY_BYTES < depth => Err(exceeded()),
        _ => Ok(()),
    }
}

/// Calls `f` on a large stack: the current one, if that is large.
pub fn on_large<R>(f: impl FnOnce() -> R) -> R {
    if is_large() {
        return f();
    }
    stacker::grow(LARGE_BYTES, || {
        let _guard = StackGuard::enter(true);
        f()
    })
}

/// Calls `f` on a large stack if its input was made on one.
pub fn fitting<R>(is_deep: bool, f: impl FnOnce() -> R) -> R {
    if is_deep { on_large(f) } else { f() }
}

/// Calls `f`, which needs so many bytes of stack besides those that its statement needs: on a large stack if the current
/// one has no room for both.
///
/// # Errors
/// `54001` if a large stack has no room either.
pub fn with_bytes<R>(bytes: usize, f: impl FnOnce() -> R) -> SqlResult<R> {
    match stacker::remaining_stack() {
        Some(left) if left < bytes.saturating_add(RESERVE_BYTES) => {
            if is_large() {
                Err(exceeded())
            } else {
                Ok(on_large(f))
            }
        }
        _ => Ok(f()),
    }
}

/// Calls `f`, and once more on a large stack if the current one is too small for it. So `f` must have no effect when it
/// fails. Returns true with the result if the stack was a large one.
///
/// # Errors
/// Those of `f`.
pub fn bounded<R>(mut f: impl FnMut() -> SqlResult<R>) -> SqlResult<(R, bool)> {
    if is_large() {
        return f().map(|made| (made, true));
    }
    let first = {
        let _guard = StackGuard::enter(false);
        f()
    };
    match first {
        Err(error) if error.state() == SqlState::STATEMENT_TOO_COMPLEX => on_large(f).map(|made| (made, true)),
        first => first.map(|made| (made, false)),
    }
}
