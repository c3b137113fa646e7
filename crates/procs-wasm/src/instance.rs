//! Instances of a module.
//!
//! **Invariant:** an instance whose invocation has failed runs no other one.

use crate::faults;
use crate::lent;
use crate::module::{STACK_BYTES, WasmCode};
use crate::state::{self, StoreState};
use crate::ticker::LentTicking;
use procs::ends::{self, Deadline};
use procs::format::garbled;
use procs::wire::{self, AREA_BYTES};
use procs::{EngineCalls, Instance, InstanceShare, Invocation, Limits};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::stack;
use std::sync::Arc;
use types::datum::Datum;
use wasmtime::{Memory, Store, TypedFunc};

/// Instance of a module, with its memory.
pub(crate) struct WasmInstance {
    code: Arc<WasmCode>,
    store: Store<StoreState>,
    memory: Memory,
    invoke: TypedFunc<(i32, i32), i32>,
    is_spent: bool,
    /// Clock of an invocation in an urgent context, which cannot start it.
    armed: Option<LentTicking>,
}

/// Returns the error for an epoch without a thread.
pub(crate) fn no_thread(error: &std::io::Error) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_RESOURCES, format!("the thread of wasm's epochs cannot start: {error}"))
}

impl WasmInstance {
    /// Creates an instance, and runs the module's start function.
    pub(crate) fn open(code: Arc<WasmCode>, share: InstanceShare, limits: &Limits) -> SqlResult<WasmInstance> {
        stack::with_bytes(STACK_BYTES, || WasmInstance::create(code, share, limits))?
    }

    fn create(code: Arc<WasmCode>, share: InstanceShare, limits: &Limits) -> SqlResult<WasmInstance> {
        let mut store = Store::new(code.engine(), StoreState::new(limits.memory, share, code.is_urgent()));
        store.limiter(|state| state);
        store.epoch_deadline_callback(|mut context| context.data_mut().at_epoch());
        store.set_epoch_deadline(1);
        store.data_mut().deadline = Deadline::from_now(limits.time);
        let ticking = code.ticker().run().map_err(|error| no_thread(&error))?;
        let made = code.instantiate(&mut store);
        drop(ticking);
        let (memory, area, invoke) = match made {
            Ok(made) => made,
            Err(error) => return Err(faults::ended(&mut store, &error, code.instances_max())),
        };
        let area = area as u32 as usize;
        if memory.data_size(&store) < area.saturating_add(AREA_BYTES) {
            return Err(garbled("the exchange area is beyond the memory"));
        }
        let state = store.data_mut();
        (state.memory, state.area) = (Some(memory), area);
        Ok(WasmInstance { code, store, memory, invoke, is_spent: false, armed: None })
    }

    fn run(&mut self, invocation: &Invocation<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>> {
        engine.look()?;
        let (bytes, state) = self.memory.data_and_store_mut(&mut self.store);
        wire::put_arguments(invocation.rows, invocation.arguments, &mut state.answer)?;
        let len = state::put(bytes, state.area, &state.answer)?;
        state.deadline = Deadline::from_now(invocation.limits.time);
        self.store.set_epoch_deadline(1);
        let ticking = match self.armed {
            Some(_) => None,
            None => Some(self.code.ticker().run().map_err(|error| no_thread(&error))?),
        };
        let called = lent::call(&mut self.store, &self.invoke, (i32::from(invocation.entry), len), engine);
        drop(ticking);
        let len = match called {
            Ok(len) => len,
            Err(error) => return Err(faults::ended(&mut self.store, &error, self.code.instances_max())),
        };
        let area = self.store.data().area;
        let len = usize::try_from(len).map_err(|_| ends::failed(&format!("its result is {len}")))?;
        let bytes = self.memory.data(&self.store).get(area..area + len.min(AREA_BYTES + 1));
        match bytes {
            Some(bytes) if bytes.len() <= AREA_BYTES => wire::result(bytes, invocation.result),
            _ => Err(garbled("the length of a result")),
        }
    }
}

impl Instance for WasmInstance {
    fn invoke(&mut self, invocation: &Invocation<'_>, engine: &mut dyn EngineCalls) -> SqlResult<Vec<Vec<Datum>>> {
        if self.is_spent {
            return Err(ends::spent());
        }
        self.is_spent = true;
        let result = match self.code.is_urgent() {
            // The stack of the context has room for the code's; nobody else knows that stack.
            true => self.run(invocation, engine),
            false => stack::with_bytes(STACK_BYTES, || self.run(invocation, engine)).flatten(),
        };
        let result = result?;
        self.is_spent = false;
        Ok(result)
    }

    fn arm(&mut self) -> SqlResult<()> {
        self.armed = Some(self.code.ticker().run_elsewhere().map_err(|error| no_thread(&error))?);
        Ok(())
    }

    fn disarm(&mut self) {
        self.armed = None;
    }

    fn idle_bytes(&self) -> usize {
        self.store.data().bytes()
    }
}
