//! Bounded queue between the thread or task that makes a result and the task that sends it.
//!
//! **Invariant:** a queue holds at most its capacity, or one piece that is larger. When its receiver has gone, it takes
//! nothing more, and its sender ends.

use crate::error::{SqlError, SqlResult};
use engine::Wake;
use locked::{Locked, LockedResult};
use stage::turn;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Time after which a sender that waits for room looks whether its statement is still wanted.
const LOOK: Duration = Duration::from_millis(5);

/// Queue of pieces of a result.
#[derive(Debug)]
pub struct Stream<T> {
    state: Mutex<StreamState<T>>,
    room: Condvar,
    /// Greatest number of bytes.
    capacity: usize,
}

#[derive(Debug)]
struct StreamState<T> {
    pieces: VecDeque<(T, usize)>,
    bytes: usize,
    /// True if a piece was ever put in.
    has_begun: bool,
    /// True if the receiver has gone.
    is_closed: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl<T> Stream<T> {
    /// Creates an empty queue of this capacity in bytes.
    pub fn new(capacity: usize) -> Stream<T> {
        let (pieces, bytes, has_begun, is_closed) = (VecDeque::new(), 0, false, false);
        let state = StreamState { pieces, bytes, has_begun, is_closed, receiver: None, sender: None };
        Stream { state: Mutex::new(state), room: Condvar::new(), capacity }
    }

    fn state(&self) -> MutexGuard<'_, StreamState<T>> {
        self.state.locked_anyway()
    }

    /// Returns true if a piece was ever put in: the result can not be made again.
    pub fn has_begun(&self) -> bool {
        self.state().has_begun
    }

    /// Returns true if no piece is there now.
    pub fn is_empty(&self) -> bool {
        self.state().pieces.is_empty()
    }

    /// Ends the queue from the receiver's side.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.pieces.clear();
        state.bytes = 0;
        let sender = state.sender.take();
        drop(state);
        self.room.notify_all();
        sender.into_iter().for_each(Waker::wake);
    }

    /// Puts in a piece of so many bytes. Blocks while there is no room, and calls `look` now and then.
    ///
    /// # Errors
    /// `57014` when the receiver has gone, and those of `look`.
    pub fn push(&self, piece: T, bytes: usize, look: impl Fn() -> SqlResult<()>) -> SqlResult<()> {
        let mut state = self.state();
        while !self.has_room(&state, bytes)? {
            state = turn::outside(|| self.room.wait_timeout(state, LOOK)).anyway().0;
            drop(state);
            look()?;
            state = self.state();
        }
        put(state, piece, bytes);
        Ok(())
    }

    /// Puts in a piece of so many bytes. Blocks while there is no room, for as long as the receiver is there.
    ///
    /// # Errors
    /// `57014` when the receiver has gone.
    pub fn push_until_closed(&self, piece: T, bytes: usize) -> SqlResult<()> {
        let mut state = self.state();
        while !self.has_room(&state, bytes)? {
            state = self.room.wait(state).anyway();
        }
        put(state, piece, bytes);
        Ok(())
    }

    /// Puts in a piece of so many bytes as soon as there is room. It is taken out of `piece` then.
    ///
    /// # Errors
    /// `57014` when the receiver has gone.
    pub fn poll_push(&self, context: &mut Context<'_>, piece: &mut Option<T>, bytes: usize) -> Poll<SqlResult<()>> {
        let mut state = self.state();
        match self.has_room(&state, bytes) {
            Ok(true) => {
                if let Some(piece) = piece.take() {
                    put(state, piece, bytes);
                }
                Poll::Ready(Ok(()))
            }
            Ok(false) => {
                state.sender = Some(context.waker().clone());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn has_room(&self, state: &StreamState<T>, bytes: usize) -> SqlResult<bool> {
        if state.is_closed {
            return Err(SqlError::from(engine::Error::Cancelled));
        }
        Ok(state.pieces.is_empty() || state.bytes + bytes <= self.capacity)
    }

    /// Takes the next piece out, if there is one.
    pub fn next_now(&self) -> Option<T> {
        let mut state = self.state();
        let (piece, bytes) = state.pieces.pop_front()?;
        state.bytes -= bytes;
        let sender = state.sender.take();
        drop(state);
        self.room.notify_one();
        sender.into_iter().for_each(Waker::wake);
        Some(piece)
    }

    /// Takes the next piece out as soon as there is one. The end of the result is told elsewhere.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<T> {
        if let Some(piece) = self.next_now() {
            return Poll::Ready(piece);
        }
        self.wake_with(context.waker().clone());
        Poll::Pending
    }

    /// Calls `wake` once when there is a piece: at once if there is one now.
    pub fn on_ready(&self, wake: Arc<dyn Wake>) {
        self.wake_with(Waker::from(Arc::new(TaskWake(wake))));
    }

    fn wake_with(&self, waker: Waker) {
        let mut state = self.state();
        if state.pieces.is_empty() {
            state.receiver = Some(waker);
        } else {
            drop(state);
            waker.wake();
        }
    }
}

/// Puts a piece into a queue that has room, and wakes the receiver.
fn put<T>(mut state: MutexGuard<'_, StreamState<T>>, piece: T, bytes: usize) {
    state.pieces.push_back((piece, bytes));
    state.bytes += bytes;
    state.has_begun = true;
    let receiver = state.receiver.take();
    drop(state);
    receiver.into_iter().for_each(Waker::wake);
}

/// Wake of a session as one of a task.
struct TaskWake(Arc<dyn Wake>);

impl std::task::Wake for TaskWake {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    fn wanted() -> SqlResult<()> {
        Ok(())
    }

    /// Goal: a queue is bounded, loses nothing and keeps the order. Method: a sender far ahead of its receiver.
    #[test]
    fn pieces_arrive_in_order_and_within_the_capacity() {
        let stream = Arc::new(Stream::new(10));
        let (own, made) = (Arc::clone(&stream), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&made);
        let sender = thread::spawn(move || {
            for piece in 0..1000 {
                own.push(piece, 3, wanted).unwrap();
                count.store(piece + 1, SeqCst);
            }
        });
        let mut received = 0;
        while received < 1000 {
            let Some(piece) = stream.next_now() else {
                thread::yield_now();
                continue;
            };
            assert_eq!(piece, received);
            received += 1;
            assert!(made.load(SeqCst) <= received + 4, "at most three pieces fit, and one is under way");
        }
        sender.join().unwrap();
    }

    /// Goal: a sender whose receiver has gone, or whose statement is not wanted any more, ends. Method: a full queue.
    #[test]
    fn senders_end_with_their_receivers_and_statements() {
        let stream = Arc::new(Stream::new(1));
        stream.push("large", 100, wanted).unwrap();
        let error = stream.push("next", 1, || Err(SqlError::from(engine::Error::Cancelled))).unwrap_err();
        assert_eq!(error.state(), SqlState::QUERY_CANCELED);
        let (own, other) = (Arc::clone(&stream), Arc::clone(&stream));
        let senders = [
            thread::spawn(move || own.push("next", 1, wanted)),
            thread::spawn(move || other.push_until_closed("next", 1)),
        ];
        stream.close();
        for sender in senders {
            assert_eq!(sender.join().unwrap().unwrap_err().state(), SqlState::QUERY_CANCELED);
        }
        assert_eq!(stream.next_now(), None);
    }

    /// Goal: tasks on both sides are woken. Method: wakers that count.
    #[test]
    fn tasks_are_woken_when_there_is_a_piece_or_room() {
        struct Counting(AtomicUsize);
        impl Wake for Counting {
            fn wake(&self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let stream = Stream::new(1);
        let (receiver, sender) = (Arc::new(Counting(AtomicUsize::new(0))), Arc::new(Counting(AtomicUsize::new(0))));
        stream.on_ready(Arc::clone(&receiver) as _);
        assert_eq!(receiver.0.load(SeqCst), 0);
        let waker = Waker::from(Arc::new(TaskWake(Arc::clone(&sender) as _)));
        let mut context = Context::from_waker(&waker);
        assert!(stream.poll_push(&mut context, &mut Some(1), 1).is_ready());
        assert_eq!(receiver.0.load(SeqCst), 1);
        let mut second = Some(2);
        assert!(stream.poll_push(&mut context, &mut second, 1).is_pending());
        assert_eq!((second, sender.0.load(SeqCst)), (Some(2), 0));
        assert_eq!(stream.next_now(), Some(1));
        assert_eq!(sender.0.load(SeqCst), 1);
        assert!(stream.poll_push(&mut context, &mut second, 1).is_ready());
        stream.on_ready(Arc::clone(&receiver) as _);
        assert_eq!((stream.next_now(), receiver.0.load(SeqCst)), (Some(2), 2));
    }
}
