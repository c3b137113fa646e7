//! Pulse of long computations: code that may take long asks here whether its statement is still wanted.
//!
//! Work is counted in units of about one to ten nanoseconds: a byte that is looked at, sixteen bytes that are copied,
//! a call of a cheap function. After `UNITS` of them the thread looks at the [`Watch`] of its statement, which knows
//! of cancels, `statement_timeout`, and the end of the session. It then also asks for room if it has taken much
//! memory since it last asked, whatever the memory is for. So code that counts its work exceeds the limit by no more
//! than it takes in a millisecond.
//!
//! **Invariant:** between two looks lie at most `UNITS` units and what one call of [`tick`] counts: about a
//! millisecond. So a caller cuts long input into slices (`slices`, [`SLICE`]) and counts each before it works on it.
//!
//! The counter and the watch belong to the thread. An urgent context interrupts the code to which they belong, and what
//! it runs is within [`unwatched`]. Where a thread takes turns between statements, each turn runs within its own
//! [`during`].

pub mod steps;

use crate::error::{SqlError, SqlResult};
use engine::memory::{self, SMALL_BYTES};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

/// Source of the answer whether a statement is still wanted.
pub trait Watch: Send + Sync {
    /// Looks whether the statement is still wanted.
    ///
    /// # Errors
    /// The reason for which the statement must end: `57014` and the like.
    fn look(&self) -> SqlResult<()>;
}

/// Units of work between two looks.
const UNITS: usize = 1 << 17;
/// Bytes of a slice that is worked on byte by byte.
pub const SLICE: usize = 1 << 16;
/// Units of work for one item of a walk.
pub const ITEM: usize = 8;
/// Bytes that are copied within one unit.
const COPIED: usize = 16;

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(UNITS) };
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
    /// Bytes that the thread had taken when it last asked for room.
    static ASKED: Cell<isize> = const { Cell::new(0) };
    /// True while the thread may take memory from the reserve.
    static HAS_RESERVE: Cell<bool> = const { Cell::new(false) };
    /// Bytes promised to the thread.
    static PROMISED: Cell<usize> = const { Cell::new(0) };
    /// True if a look has found that the statement is being ended.
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    /// True while nobody watches the thread's work.
    static IS_UNWATCHED: Cell<bool> = const { Cell::new(false) };
    /// Error of a [`preparing`] that a look has ended, if any.
    static PREPARING: RefCell<Option<PreparationWatch>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct PreparationWatch {
    ended: Option<SqlError>,
}

/// Restores the previous watch when it is dropped.
pub(crate) struct WatchGuard(Option<Arc<dyn Watch>>);

impl Drop for WatchGuard {
    fn drop(&mut self) {
        WATCH.set(self.0.take());
    }
}

/// Calls `f`, whose work `watch` watches.
pub fn during<R>(watch: Arc<dyn Watch>, f: impl FnOnce() -> R) -> R {
    let _guard = watching(watch);
    f()
}

/// Calls `f`, whose work `watch` watches beside the one that watches the thread's work already.
pub fn also<R>(watch: Arc<dyn Watch>, f: impl FnOnce() -> R) -> R {
    match WATCH.with_borrow(Option::clone) {
        Some(present) => during(Arc::new(Both(present, watch)), f),
        None => during(watch, f),
    }
}

/// Two watches of the same work.
struct Both(Arc<dyn Watch>, Arc<dyn Watch>);

impl Watch for Both {
    fn look(&self) -> SqlResult<()> {
        self.0.look()?;
        self.1.look()
    }
}

/// Calls `f`, whose work nobody watches, in place of the work that the thread has in hand. `f` may interrupt that work at
/// any instruction, because it touches neither the watch nor any other value with a destructor: the counter does not run
/// out meanwhile, and a look finds nothing.
pub fn unwatched<R>(f: impl FnOnce() -> R) -> R {
    struct UnwatchedGuard(usize, bool);
    impl Drop for UnwatchedGuard {
        fn drop(&mut self) {
            IS_UNWATCHED.set(self.1);
            LEFT.set(self.0);
        }
    }
    let _guard = UnwatchedGuard(LEFT.replace(usize::MAX), IS_UNWATCHED.replace(true));
    f()
}

/// Has the thread's work watched until the guard is dropped.
pub(crate) fn watching(watch: Arc<dyn Watch>) -> WatchGuard {
    let guard = WatchGuard(WATCH.replace(Some(watch)));
    HAS_ENDED.set(false);
    guard
}

/// Returns true if a look has found that the current or last statement of this thread must end because it is
/// cancelled or out of time. A statement for which there is no room ends as well, but must not keep what it
/// holds for a moment longer.
pub fn has_ended() -> bool {
    HAS_ENDED.get()
}

/// Calls `f`, which makes a plan and does nothing else. Once a look has found that it must end, every later look finds
/// the same at once. So a walk that cannot return an error may stop in the middle (`walk`): its result is never used.
///
/// # Errors
/// Those of `f`, and of [`look`].
pub fn preparing<R>(f: impl FnOnce() -> SqlResult<R>) -> SqlResult<R> {
    struct PreparationGuard(Option<PreparationWatch>);
    impl Drop for PreparationGuard {
        fn drop(&mut self) {
            let own = PREPARING.replace(self.0.take());
            if own.is_some_and(|own| own.ended.is_some()) {
                LEFT.set(UNITS);
            }
        }
    }
    let is_inner = PREPARING.with_borrow(Option::is_some);
    let _guard = (!is_inner).then(|| PreparationGuard(PREPARING.replace(Some(PreparationWatch::default()))));
    let made = f();
    // A stopped walk may have led to any error, so the recorded one takes its place.
    match PREPARING.with_borrow(|own| own.as_ref().and_then(|own| own.ended.clone())) {
        Some(ended) => Err(ended),
        None => made,
    }
}

/// Counts units of work of a walk through what is made while a statement is prepared. At other times walks are
/// short, and no look happens.
///
/// # Errors
/// Those of [`Watch::look`]. The walk may ignore them, as the next look finds the same.
#[inline]
pub fn walk(units: usize) -> SqlResult<()> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None if PREPARING.with_borrow(Option::is_some) => look(),
        None => Ok(()),
    }
}

/// Returns the items of a statement that is being prepared, such as tokens. They stop when the statement must end; the
/// next look finds the same.
pub fn walked<T>(items: &[T]) -> impl Iterator<Item = &T> {
    items.iter().take_while(|_| walk(ITEM).is_ok())
}

/// Starts a new share of work, whatever was done before. Memory taken before is charged to no statement.
pub fn restart() {
    HAS_ENDED.set(false);
    LEFT.set(UNITS);
    ASKED.set(memory::thread_bytes());
}

/// Calls `f`, which gives memory back when it is done and may take some of the reserve for that.
pub fn with_reserve<R>(f: impl FnOnce() -> R) -> R {
    struct ReserveGuard(bool);
    impl Drop for ReserveGuard {
        fn drop(&mut self) {
            HAS_RESERVE.set(self.0);
        }
    }
    let _guard = ReserveGuard(HAS_RESERVE.replace(true));
    f()
}

/// Calls `f`, which is going to take about so many bytes for a while. Others that ask for room at the same
/// moment do not get these bytes.
///
/// # Errors
/// Those of `f`, and `53200` if there is no room for the bytes.
pub fn with_room<R>(bytes: usize, f: impl FnOnce() -> SqlResult<R>) -> SqlResult<R> {
    struct PromiseGuard(usize);
    impl Drop for PromiseGuard {
        fn drop(&mut self) {
            PROMISED.set(self.0);
        }
    }
    if bytes <= SMALL_BYTES || HAS_RESERVE.get() {
        return f();
    }
    let promise = memory::promise(bytes).ok_or_else(SqlError::no_room)?;
    let _guard = PromiseGuard(PROMISED.replace(PROMISED.get() + promise.bytes()));
    f()
}

/// Asks for room if this thread has taken much memory since it last asked.
///
/// # Errors
/// `53200` if the process holds as much as it may.
pub fn room() -> SqlResult<()> {
    let (now, asked) = (memory::thread_bytes(), ASKED.get());
    if now < asked {
        // The thread has given memory back.
        ASKED.set(now);
    } else if asked.saturating_add(SMALL_BYTES as isize) < now {
        ASKED.set(now);
        return check_room(0);
    }
    Ok(())
}

/// Asks for room for `more` bytes.
///
/// # Errors
/// `53200` if there is none.
pub fn check_room(more: usize) -> SqlResult<()> {
    let has_room = match HAS_RESERVE.get() {
        true => memory::has_reserve(more),
        false => memory::has_room_beside(PROMISED.get(), more),
    };
    if has_room { Ok(()) } else { Err(SqlError::no_room()) }
}

/// Counts units of work that are about to be done.
///
/// # Errors
/// Those of [`Watch::look`].
#[inline]
pub fn tick(units: usize) -> SqlResult<()> {
    match LEFT.get().checked_sub(units) {
        Some(left) => {
            LEFT.set(left);
            Ok(())
        }
        None => look(),
    }
}

/// Counts bytes that are about to be copied.
///
/// # Errors
/// Those of [`Watch::look`].
#[inline]
pub fn copies(bytes: usize) -> SqlResult<()> {
    tick(1 + bytes / COPIED)
}

/// Returns a copy of a text.
///
/// # Errors
/// Those of [`Watch::look`].
pub fn copied(text: &str) -> SqlResult<String> {
    let mut copy = String::with_capacity(text.len());
    for slice in slices(text) {
        copies(slice.len())?;
        copy.push_str(slice);
    }
    Ok(copy)
}

/// Looks now, whatever is left of the share of work.
///
/// # Errors
/// Those of [`Watch::look`], and `53200` if the process holds as much as it may.
#[cold]
pub fn look() -> SqlResult<()> {
    if IS_UNWATCHED.get() {
        return Ok(());
    }
    steps::look();
    if let Some(ended) = PREPARING.with_borrow(|own| own.as_ref().and_then(|own| own.ended.clone())) {
        return Err(ended);
    }
    LEFT.set(UNITS);
    let has_room = room();
    let is_full = has_room.is_err();
    let looked = has_room.and_then(|()| WATCH.with_borrow(|watch| watch.as_ref().map_or(Ok(()), |watch| watch.look())));
    if let Err(error) = &looked {
        HAS_ENDED.set(!is_full);
        PREPARING.with_borrow_mut(|own| {
            if let Some(own) = own {
                own.ended = Some(error.clone());
                LEFT.set(0);
            }
        });
    }
    looked
}

/// Returns slices of a text, none longer than [`SLICE`] and none cutting a character.
pub fn slices(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE));
        rest = after;
        Some(slice)
    })
}

/// Number of rows that are sorted without a look.
const RUN: usize = 1 << 10;

/// Sorts like [`slice::sort_by`]: equal rows keep their order. Short runs are sorted, and merged two by two.
///
/// # Errors
/// Those of [`look`]. The order is then undefined, and nothing is lost.
pub fn sort_by<T>(all: &mut Vec<T>, mut by: impl FnMut(&T, &T) -> Ordering) -> SqlResult<()> {
    if all.len() <= RUN {
        all.sort_by(by);
        return tick(all.len());
    }
    // Memory for the merged rows, and for the two runs from which they are merged.
    let scratch = size_of_val(all.as_slice()).saturating_mul(2);
    if SMALL_BYTES < scratch {
        check_room(scratch)?;
    }
    for run in all.chunks_mut(RUN) {
        tick(run.len() * 16)?;
        run.sort_by(&mut by);
    }
    let mut width = RUN;
    while width < all.len() {
        let mut merged = Vec::with_capacity(all.len());
        let mut rest = std::mem::take(all).into_iter();
        let mut is_stopped = Ok(());
        while 0 < rest.len() {
            // Both runs are taken out: the rest of a run is as cheap to move as to keep.
            let left: Vec<T> = rest.by_ref().take(width).collect();
            let right: Vec<T> = rest.by_ref().take(width).collect();
            let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
            while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
                is_stopped = tick(8);
                if is_stopped.is_err() {
                    break;
                }
                let is_right = by(second, first).is_lt();
                merged.extend(if is_right { right.next() } else { left.next() });
            }
            merged.extend(left);
            merged.extend(right);
            if is_stopped.is_err() {
                merged.extend(rest.by_ref());
            }
        }
        *all = merged;
        is_stopped?;
        width *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Cancellation;
    use crate::error::SqlError;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Ends the statement after so many looks.
    struct After(AtomicUsize);

    impl Watch for After {
        fn look(&self) -> SqlResult<()> {
            let left = self.0.load(Relaxed);
            self.0.store(left.saturating_sub(1), Relaxed);
            if left == 0 { Err(SqlError::cancelled(Cancellation::UserRequest)) } else { Ok(()) }
        }
    }

    fn after(looks: usize) -> Arc<dyn Watch> {
        Arc::new(After(AtomicUsize::new(looks)))
    }

    #[test]
    fn work_is_looked_at_whatever_its_pieces_are() {
        for piece in [1, 1000, UNITS, 10 * UNITS] {
            let worked = during(after(3), || (0..=5 * UNITS / piece + 5).try_for_each(|_| tick(piece)));
            assert!(worked.is_err(), "{piece}");
        }
        let (outer, inner) = (after(0), after(usize::MAX));
        during(Arc::clone(&outer), || {
            assert!(during(inner, look).is_ok());
            assert!(look().is_err());
        });
        assert!(look().is_ok());
    }

    #[test]
    fn a_preparation_that_must_end_is_not_used() {
        let (made, walked) = during(after(0), || {
            let mut walked = 0;
            let made = preparing(|| {
                while walk(1000).is_ok() {
                    walked += 1;
                }
                // A walk that stops here reports it to no caller.
                assert!(walk(1).is_err() && tick(1).is_err());
                Ok(walked)
            });
            (made, walked)
        });
        assert!(made.is_err() && walked <= UNITS / 1000, "{walked}");
        assert!((0..=UNITS / 1000).all(|_| tick(1000).is_ok()), "it has ended");
        during(after(0), || {
            assert!((0..10).all(|_| walk(UNITS).is_ok()), "nothing is prepared");
            assert!(tick(UNITS + 1).is_err());
        });
    }

    #[test]
    fn slices_are_the_text() {
        let text = "añ€😀".repeat(SLICE / 4);
        assert_eq!(slices(&text).collect::<String>(), text);
        assert!(slices(&text).all(|slice| !slice.is_empty() && slice.len() <= SLICE));
    }

    #[test]
    fn a_sort_is_stable_and_can_be_stopped() {
        for count in [0, 1, RUN, RUN + 1, 5 * RUN + 3, 64 * RUN] {
            let mut all: Vec<(u64, usize)> =
                (0..count).map(|at| ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56, at)).collect();
            let mut expected = all.clone();
            expected.sort_by_key(|(key, _)| *key);
            sort_by(&mut all, |(a, _), (b, _)| a.cmp(b)).expect("nobody stops it");
            assert!(all == expected, "{count} are not in order");
        }
        let mut all: Vec<usize> = (0..200 * RUN).rev().collect();
        assert!(during(after(0), || sort_by(&mut all, Ord::cmp)).is_err());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..200 * RUN), "some are lost");
    }
}
