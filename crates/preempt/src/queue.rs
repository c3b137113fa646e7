//! A bounded queue for many producers and consumers in which no thread ever waits for another.
//!
//! The algorithm is Vyukov's bounded MPMC queue (1024cores.net, 2010). Each slot carries a turn: `position` when it may
//! be written, `position + 1` when it may be read, and `position + capacity` after that. A producer that is descheduled
//! between taking a position and publishing it makes the queue look *empty* from there on: a consumer goes away instead of
//! spinning (a spinning real-time consumer once kept its own producer off the processor for 220 ms). The producer
//! asks for delivery after it has published, so what stood behind it is found then.

use crate::sync::{AtomicUsize, Ordering::*};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

struct QueueSlot<T> {
    turn: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

#[repr(align(128))]
struct Position(AtomicUsize);

/// A first-in-first-out queue of fixed capacity.
pub struct BoundedQueue<T> {
    head: Position,
    tail: Position,
    mask: usize,
    slots: Box<[QueueSlot<T>]>,
}

// SAFETY: a slot's value is touched only by the one thread that won its position by compare-and-swap, and the turn's
// release and acquire order its write before its read.
unsafe impl<T: Send> Sync for BoundedQueue<T> {}
// SAFETY: the queue owns its values.
unsafe impl<T: Send> Send for BoundedQueue<T> {}

impl<T> BoundedQueue<T> {
    /// Creates an empty queue for at least `capacity` values (the next power of two, at least 2).
    pub fn new(capacity: usize) -> BoundedQueue<T> {
        let capacity = capacity.max(2).next_power_of_two();
        let slot = |turn| QueueSlot { turn: AtomicUsize::new(turn), value: UnsafeCell::new(MaybeUninit::uninit()) };
        BoundedQueue {
            head: Position(AtomicUsize::new(0)),
            tail: Position(AtomicUsize::new(0)),
            mask: capacity - 1,
            slots: (0..capacity).map(slot).collect(),
        }
    }

    /// Returns the number of values that fit.
    pub fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Returns the approximate number of queued values.
    pub fn len(&self) -> usize {
        self.tail.0.load(SeqCst).saturating_sub(self.head.0.load(SeqCst)).min(self.capacity())
    }

    /// Returns true if nothing is queued, or being queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.0.load(SeqCst) >= self.tail.0.load(SeqCst)
    }

    /// Appends `value`, or gives it back if the queue is full.
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut position = self.tail.0.load(Relaxed);
        loop {
            let slot = &self.slots[position & self.mask];
            // Acquire: the consumer that freed the slot has read it.
            let ahead = slot.turn.load(Acquire).wrapping_sub(position) as isize;
            if ahead < 0 {
                return Err(value);
            }
            if ahead > 0 {
                position = self.tail.0.load(Relaxed);
                continue;
            }
            // SeqCst: a producer's "push, then look at the worker's mode" is one half of a Dekker pair; `is_empty` and
            // `pop` are the other.
            match self.tail.0.compare_exchange_weak(position, position.wrapping_add(1), SeqCst, Relaxed) {
                Ok(_) => {
                    // SAFETY: winning the position makes this thread the slot's only writer, and the turn said that it
                    // has been read.
                    unsafe { (*slot.value.get()).write(value) };
                    slot.turn.store(position.wrapping_add(1), SeqCst);
                    return Ok(());
                }
                Err(now) => position = now,
            }
        }
    }

    /// Takes the oldest value. Returns `None` also if the oldest one is still being written.
    pub fn pop(&self) -> Option<T> {
        let mut position = self.head.0.load(Relaxed);
        loop {
            let slot = &self.slots[position & self.mask];
            let ahead = slot.turn.load(SeqCst).wrapping_sub(position.wrapping_add(1)) as isize;
            if ahead < 0 {
                return None;
            }
            if ahead > 0 {
                position = self.head.0.load(Relaxed);
                continue;
            }
            match self.head.0.compare_exchange_weak(position, position.wrapping_add(1), SeqCst, Relaxed) {
                Ok(_) => {
                    // SAFETY: winning the position makes this thread the slot's only reader, and the turn said that it
                    // is written.
                    let value = unsafe { (*slot.value.get()).assume_init_read() };
                    slot.turn.store(position.wrapping_add(self.capacity()), Release);
                    return Some(value);
                }
                Err(now) => position = now,
            }
        }
    }
}

impl<T> Drop for BoundedQueue<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
