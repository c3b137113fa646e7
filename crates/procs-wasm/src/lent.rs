//! Engine lent to a store for one invocation.
//!
//! Host functions find the engine in the store's data. The data must be `'static`, and the engine is borrowed by the
//! caller of the invocation, so the store holds a pointer.
//!
//! **Invariant:** the pointer is in the store only within [`call`], which borrows the engine mutably for all that time;
//! and it is taken out while somebody uses it, so no two references to the engine exist at a time.
#![allow(unsafe_code)]

use crate::state::StoreState;
use procs::EngineCalls;
use std::mem;
use std::ptr::NonNull;
use wasmtime::{Store, TypedFunc};

/// Place for the engine within the data of a store.
pub(crate) struct Lent(Option<NonNull<dyn EngineCalls>>);

// SAFETY: the place is empty but within `call`, which does not return before it has emptied it. So the pointer never
// goes to another thread with the store: the store is borrowed by the call that runs on this one.
unsafe impl Send for Lent {}

impl Lent {
    /// Returns an empty place.
    pub(crate) fn none() -> Lent {
        Lent(None)
    }

    /// Calls `f` with the engine. Returns `None` if none is lent, or it is in use.
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut dyn EngineCalls) -> R) -> Option<R> {
        let mut engine = self.0.take()?;
        // SAFETY: `call` has put the pointer here and has not ended, since it empties the place. It holds the only
        // reference to the engine, and does not use it. The place is empty meanwhile, so `f` cannot get another.
        let result = f(unsafe { engine.as_mut() });
        self.0 = Some(engine);
        Some(result)
    }
}

/// Empties the place, however the call ends.
struct LentGuard<'a>(&'a mut Store<StoreState>);

impl Drop for LentGuard<'_> {
    fn drop(&mut self) {
        self.0.data_mut().lent = Lent::none();
    }
}

/// Calls a function of the guest, whose host functions use the engine meanwhile.
pub(crate) fn call(
    store: &mut Store<StoreState>,
    function: &TypedFunc<(i32, i32), i32>,
    parameters: (i32, i32),
    engine: &mut dyn EngineCalls,
) -> wasmtime::Result<i32> {
    let pointer: NonNull<dyn EngineCalls + '_> = NonNull::from(engine);
    // SAFETY: only the lifetime changes. The guard removes the pointer from the store before this function returns or
    // unwinds, while the engine is still borrowed.
    let pointer =
        unsafe { mem::transmute::<NonNull<dyn EngineCalls + '_>, NonNull<dyn EngineCalls + 'static>>(pointer) };
    let guard = LentGuard(store);
    guard.0.data_mut().lent = Lent(Some(pointer));
    function.call(&mut *guard.0, parameters)
}
