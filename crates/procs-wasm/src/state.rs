//! Data of a store: what host functions and limits need.

use crate::lent::Lent;
use procs::InstanceShare;
use procs::ends::{self, Deadline};
use procs::wire::{self, AREA_BYTES, ServeRoom};
use statement::error::{SqlError, SqlResult};
use statement::pulse;
use wasmtime::{Caller, Memory, ResourceLimiter, Result, UpdateDeadline};

/// Greatest number of elements of a table.
pub(crate) const TABLE_MAX: usize = 65_536;

/// Data of a store.
pub(crate) struct StoreState {
    pub(crate) lent: Lent,
    /// Error with which code was ended.
    pub(crate) error: Option<SqlError>,
    /// Memory of the instance; `None` until it is created.
    pub(crate) memory: Option<Memory>,
    /// Address of the exchange area.
    pub(crate) area: usize,
    /// Bytes on their way to the guest.
    pub(crate) answer: Vec<u8>,
    room: ServeRoom,
    pub(crate) deadline: Option<Deadline>,
    /// Greatest memory in bytes.
    pub(crate) memory_max: u64,
    /// Share of the instance, with its memory.
    share: InstanceShare,
    /// True if the code may run in an urgent context, which takes no locks.
    is_urgent: bool,
}

impl StoreState {
    pub(crate) fn new(memory_max: u64, share: InstanceShare, is_urgent: bool) -> StoreState {
        let (lent, error, memory, area) = (Lent::none(), None, None, 0);
        let (answer, room) = (Vec::new(), ServeRoom::default());
        StoreState { lent, error, memory, area, answer, room, deadline: None, memory_max, share, is_urgent }
    }

    /// Returns the size of the memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.share.bytes()
    }

    /// Notes the error with which the code ends. Returns one for wasmtime.
    fn end(&mut self, error: SqlError) -> wasmtime::Error {
        let told = wasmtime::Error::msg(error.message().to_owned());
        self.error.get_or_insert(error);
        told
    }

    fn look(&mut self) -> SqlResult<()> {
        if let Some(deadline) = &self.deadline {
            deadline.look()?;
        }
        // No engine is lent while an instance is created.
        self.lent.with(|engine| engine.look()).unwrap_or_else(pulse::look)
    }

    /// Looks whether the code may go on for another epoch.
    pub(crate) fn at_epoch(&mut self) -> Result<UpdateDeadline> {
        match self.look() {
            Ok(()) => Ok(UpdateDeadline::Continue(1)),
            Err(error) => Err(self.end(error)),
        }
    }
}

impl ResourceLimiter for StoreState {
    fn memory_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        let fits = if self.memory_max < desired as u64 {
            Err(ends::out_of_memory(self.memory_max))
        } else if self.is_urgent {
            self.share.resize(desired)
        } else {
            self.share.resize_with_room(desired)
        };
        // A refusal that the code sees would have it go on in a way that depends on the server's load.
        fits.map(|()| true).map_err(|error| self.end(error))
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        if desired <= TABLE_MAX { Ok(true) } else { Err(self.end(ends::out_of_memory(self.memory_max))) }
    }
}

/// Serves the import `overtake.call`: replaces `len` bytes of the exchange area by their answer. Returns its length.
pub(crate) fn serve(mut caller: Caller<'_, StoreState>, len: i32) -> Result<i32> {
    let Some(memory) = caller.data().memory else {
        return Err(caller.data_mut().end(procs::format::garbled("a call before the first invocation")));
    };
    let (bytes, state) = memory.data_and_store_mut(&mut caller);
    match answer(bytes, state, len) {
        Ok(len) => Ok(len),
        Err(error) => Err(state.end(error)),
    }
}

fn answer(bytes: &mut [u8], state: &mut StoreState, len: i32) -> SqlResult<i32> {
    let len = usize::try_from(len).ok().filter(|len| *len <= AREA_BYTES);
    let request = len.and_then(|len| bytes.get(state.area..state.area + len));
    let request = request.ok_or_else(|| procs::format::garbled("the length of a request"))?;
    let StoreState { lent, answer, room, .. } = &mut *state;
    let served = lent.with(|engine| wire::serve_within(engine, request, answer, room));
    served.unwrap_or_else(|| Err(procs::format::garbled("a call outside of an invocation")))?;
    put(bytes, state.area, &state.answer)
}

/// Copies bytes into the exchange area. Returns their number.
pub(crate) fn put(memory: &mut [u8], area: usize, bytes: &[u8]) -> SqlResult<i32> {
    let place = memory.get_mut(area..area + bytes.len());
    place.ok_or_else(|| procs::format::garbled("the exchange area"))?.copy_from_slice(bytes);
    // At most the size of the area.
    Ok(bytes.len() as i32)
}
