//! Queues: one queue for each class and worker, and one more set for requests that fit in none of them.
//!
//! **Invariant:** a request that was pushed stays visible, as head or in the queue, until one taker has it. The queue
//! cannot show its oldest entry, so a queue keeps that one apart, under a latch, with its place beside it for readers
//! that only look.

use crate::policy::class_index;
use crate::request::Request;
use crate::sync::{AtomicU64, Latch, Ordering};
use preempt::{BoundedQueue, no_preempt};
use stage::Class;
use std::sync::Arc;

const NO_HEAD: u64 = u64::MAX;
/// Mark that an entry is on its way from the queue to the head: the queue is not empty.
const COMING: u64 = u64::MAX - 1;

/// A bounded first-in-first-out queue that shows its oldest entry. Any thread may push and take.
#[doc(hidden)]
pub struct RequestQueue {
    head: Latch<Option<Arc<Request>>>,
    /// Place of `head`, written under its latch.
    head_place: AtomicU64,
    queue: BoundedQueue<Arc<Request>>,
}

impl RequestQueue {
    /// Creates an empty queue for `capacity` requests.
    pub fn new(capacity: usize) -> RequestQueue {
        RequestQueue { head: Latch::new(None), head_place: AtomicU64::new(NO_HEAD), queue: BoundedQueue::new(capacity) }
    }

    /// Appends a request, or gives it back if the queue is full.
    pub fn push(&self, request: Arc<Request>) -> Result<(), Arc<Request>> {
        self.queue.push(request)
    }

    /// Returns the place of the oldest request in the line of submissions.
    pub fn peek(&self) -> Option<u64> {
        let place = self.head_place.load(Ordering::SeqCst);
        if place < COMING {
            return Some(place);
        }
        if place == NO_HEAD && self.queue.is_empty() {
            return None;
        }
        no_preempt(|no_preempt| {
            let mut head = self.head.lock(no_preempt);
            if head.is_none() {
                // Before the pop, so that no thread finds the queue empty in between and goes to sleep.
                self.head_place.store(COMING, Ordering::SeqCst);
                *head = self.queue.pop();
                let place = head.as_ref().map_or(NO_HEAD, |request| request.place());
                self.head_place.store(place, Ordering::SeqCst);
            }
            head.as_ref().map(|request| request.place())
        })
    }

    /// Takes the oldest request.
    pub fn take(&self) -> Option<Arc<Request>> {
        no_preempt(|no_preempt| {
            let mut head = self.head.lock(no_preempt);
            match head.take() {
                Some(request) => {
                    self.head_place.store(NO_HEAD, Ordering::SeqCst);
                    Some(request)
                }
                None => self.queue.pop(),
            }
        })
    }

    /// Returns the place of the oldest request and the time since which it is queued.
    pub(crate) fn peek_since(&self) -> Option<(u64, u64)> {
        self.peek()?;
        no_preempt(|no_preempt| self.head.lock(no_preempt).as_ref().map(|head| (head.place(), head.queued_ns())))
    }

    /// Takes the oldest request if it is queued since `before_ns` or longer.
    pub(crate) fn take_since(&self, before_ns: u64) -> Option<Arc<Request>> {
        self.peek()?;
        no_preempt(|no_preempt| {
            let mut head = self.head.lock(no_preempt);
            let late = head.take_if(|request| request.queued_ns() <= before_ns)?;
            self.head_place.store(NO_HEAD, Ordering::SeqCst);
            Some(late)
        })
    }

    /// Returns true if nothing is queued, or being queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // The queue first: an entry that moves to the head meanwhile is then seen there.
        self.queue.is_empty() && self.head_place.load(Ordering::SeqCst) == NO_HEAD
    }

    /// Returns the approximate number of queued requests.
    pub fn len(&self) -> usize {
        self.queue.len() + usize::from(self.head_place.load(Ordering::SeqCst) != NO_HEAD)
    }
}

/// Set of queues, one for each class.
pub(crate) struct RequestQueues([RequestQueue; 3]);

impl RequestQueues {
    pub(crate) fn new(capacity: usize) -> RequestQueues {
        RequestQueues(Class::ALL.map(|_| RequestQueue::new(capacity)))
    }

    pub(crate) fn of(&self, class: Class) -> &RequestQueue {
        &self.0[class_index(class)]
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(RequestQueue::is_empty)
    }

    pub(crate) fn has_urgent(&self) -> bool {
        !(self.of(Class::High).is_empty() && self.of(Class::Normal).is_empty())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(RequestQueue::len).sum()
    }
}
