//! Ring of one thread, with the memory of its operations.
//!
//! **Invariant:** a buffer that receives is either the kernel's or this side's: it is read between the completion that
//! names it and its return. Bytes that are sent stay where they are until the completion.
#![allow(unsafe_code)]

use io_uring::types::{BufRingEntry, CancelBuilder, Fd};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Release, SeqCst};
use std::sync::atomic::{AtomicU16, fence};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Operations that can wait for submission.
const ENTRIES: u32 = 256;
/// Completions that can wait for this side.
const COMPLETIONS: u32 = 4096;
/// Buffers that receive, and the bytes of each.
const BUFFERS: u16 = 256;
const BUFFER_BYTES: usize = 4096;
/// Bytes of the ring of buffers, before the buffers.
const HEAD_BYTES: usize = BUFFERS as usize * size_of::<BufRingEntry>();
const ALL_BYTES: usize = HEAD_BYTES + BUFFERS as usize * BUFFER_BYTES;
/// Group of the buffers.
const GROUP: u16 = 0;

/// Kinds of operations, in the upper half of a token. The lower half is the number of the connection.
const RECEIVE: u64 = 0;
const SEND: u64 = 1 << 32;
const CANCEL: u64 = 2 << 32;

/// End of an operation, or news of one that goes on.
pub(crate) enum Completion<'b> {
    /// Bytes have come. Without `goes_on`, the operation is over.
    Received { bytes: &'b [u8], goes_on: bool },
    /// The receiving operation is over: the peer has ended its bytes (0), or an error of the system.
    ReceiveOver { error: i32 },
    /// A sending operation is over: the number of bytes, or the negative error. The bytes are given back.
    Sent { result: i32, bytes: Vec<u8> },
    /// A request to cancel is over.
    Cancelled,
}

/// Ring of this thread.
pub(crate) struct Ring {
    ring: mem::ManuallyDrop<IoUring>,
    memory: NonNull<u8>,
    tail: u16,
    /// Bytes on their way, by the number of the connection.
    sending: Vec<Option<Vec<u8>>>,
    /// Operations that are not over.
    in_flight: usize,
    /// Number of the next operations that are refused, as a full ring refuses them.
    #[cfg(test)]
    pub(crate) refuses: usize,
}

// SAFETY: the mapping belongs to the value.
unsafe impl Send for Ring {}

impl Ring {
    /// Creates the ring and its buffers.
    ///
    /// # Errors
    /// The kernel does not have what is needed (6.1 has), or forbids it.
    pub(crate) fn new() -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_cqsize(COMPLETIONS);
        let ring: IoUring = builder.build(ENTRIES)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let memory = unsafe { libc::mmap(ptr::null_mut(), ALL_BYTES, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))?;
        let ring = mem::ManuallyDrop::new(ring);
        let mut ring = Ring {
            ring,
            memory,
            tail: 0,
            sending: Vec::new(),
            in_flight: 0,
            #[cfg(test)]
            refuses: 0,
        };
        // SAFETY: the mapping begins with this many entries, at a page's begin. It is unmapped after the ring, or never.
        unsafe { ring.ring.submitter().register_buf_ring_with_flags(memory.as_ptr() as u64, BUFFERS, GROUP, 0)? };
        (0..BUFFERS).for_each(|buffer| ring.give(buffer));
        Ok(ring)
    }

    /// Returns a descriptor for the reactor of this thread's runtime: it has news whenever the kernel has some. Of the
    /// ring's own descriptor, the kernel tells only what this thread has already asked for.
    pub(crate) fn watched(&self) -> io::Result<AsyncFd<OwnedFd>> {
        // SAFETY: takes numbers only.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        self.ring.submitter().register_eventfd(event.as_raw_fd())?;
        // SAFETY: the value owns the descriptor, which stays the same and open.
        Ok(unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) }?)
    }

    /// Returns the number of operations that are not over.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, buffer: u16) {
        let at = usize::from(self.tail % BUFFERS);
        let data = HEAD_BYTES + usize::from(buffer) * BUFFER_BYTES;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: entry and data are within the mapping. The kernel reads an entry only once the tail is beyond it, and
        // the tail is within the first entry, where nothing else that is written here lies.
        unsafe {
            let entries = self.memory.as_ptr().cast::<BufRingEntry>();
            let entry = &mut *entries.add(at);
            entry.set_addr(self.memory.as_ptr().add(data) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Release);
        }
    }

    /// Submits an operation. One that is refused has not begun.
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        #[cfg(test)]
        if 0 < self.refuses {
            self.refuses -= 1;
            return Err(io::Error::other("the test refuses it"));
        }
        for _ in 0..2 {
            // SAFETY: what the entry names stays where it is until the completion: buffers that receive belong to the
            // mapping, and bytes that are sent to `sending`.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                self.in_flight += 1;
                return Ok(());
            }
            self.enter()?;
        }
        Err(io::Error::other("the ring is full"))
    }

    /// Replaces the ring's descriptor by one of another file, so that the kernel refuses to be entered.
    #[cfg(test)]
    pub(crate) fn break_down(&self) {
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: takes numbers only. The ring's memory keeps its file.
        assert!(unsafe { libc::dup3(null.as_raw_fd(), self.ring.as_raw_fd(), libc::O_CLOEXEC) } >= 0);
    }

    /// Receives for a connection until it ends, or is cancelled.
    pub(crate) fn receive(&mut self, slot: u32, fd: RawFd) -> io::Result<()> {
        self.push(&opcode::RecvMulti::new(Fd(fd), GROUP).build().user_data(RECEIVE | u64::from(slot)))
    }

    /// Ends receiving for a connection.
    pub(crate) fn cancel_receive(&mut self, slot: u32) -> io::Result<()> {
        let builder = CancelBuilder::user_data(RECEIVE | u64::from(slot));
        self.push(&opcode::AsyncCancel2::new(builder).build().user_data(CANCEL | u64::from(slot)))
    }

    /// Ends all operations of a connection.
    pub(crate) fn cancel_all(&mut self, slot: u32, fd: RawFd) -> io::Result<()> {
        let builder = CancelBuilder::fd(Fd(fd)).all();
        self.push(&opcode::AsyncCancel2::new(builder).build().user_data(CANCEL | u64::from(slot)))
    }

    /// Sends bytes from this offset on. A connection has one such operation at a time.
    pub(crate) fn send(&mut self, slot: u32, fd: RawFd, bytes: Vec<u8>, from: usize) -> io::Result<()> {
        let at = slot as usize;
        if self.sending.len() <= at {
            self.sending.resize_with(at + 1, || None);
        }
        let rest = bytes.get(from..).unwrap_or_default();
        let send = opcode::Send::new(Fd(fd), rest.as_ptr(), rest.len() as u32).flags(libc::MSG_NOSIGNAL);
        let entry = send.build().user_data(SEND | u64::from(slot));
        // The vector moves, its bytes do not. The kernel may still read those of another send.
        match self.sending.get_mut(at) {
            Some(place @ None) => *place = Some(bytes),
            _ => return Err(io::Error::other("two sends of one connection")),
        }
        let pushed = self.push(&entry);
        if pushed.is_err()
            && let Some(place) = self.sending.get_mut(at)
        {
            *place = None;
        }
        pushed
    }

    /// Sends as many bytes as there is room for, by a call of its own.
    pub(crate) fn send_now(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: the bytes outlive the call.
        let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Returns true if the kernel has to be entered.
    pub(crate) fn has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    /// Submits all operations, and lets the kernel complete what it has.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        // What the kernel completes here is taken below, so it need not be told.
        self.ring.completion().disable_eventfd();
        let waiting = self.ring.submission().len() as u32;
        // SAFETY: without an argument, the call takes numbers only.
        let entered =
            unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, EnterFlags::GETEVENTS.bits(), None) };
        match entered {
            Ok(_) => Ok(()),
            // Completions have to be taken first, or it is tried again at the next turn.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::EINTR)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lets the kernel tell of news from now on. Returns true if there are some already, or if operations still wait for
    /// submission.
    pub(crate) fn listen(&mut self) -> bool {
        self.ring.completion().enable_eventfd();
        // The kernel leaves its mark and then reads whether to tell; here, the order is the other one.
        fence(SeqCst);
        let queue = self.ring.submission();
        let has_work = !queue.is_empty() || queue.taskrun();
        drop(queue);
        has_work || !self.ring.completion().is_empty()
    }

    /// Takes the next completion, and hands it to `each` with the number of its connection. Returns false if there is
    /// none.
    pub(crate) fn complete(&mut self, each: impl FnOnce(u32, Completion<'_>)) -> bool {
        let Some(entry) = self.ring.completion().next() else { return false };
        let (slot, result, goes_on) = (entry.user_data() as u32, entry.result(), cqueue::more(entry.flags()));
        self.in_flight -= usize::from(!goes_on);
        match entry.user_data() & !u64::from(u32::MAX) {
            RECEIVE => match (usize::try_from(result), cqueue::buffer_select(entry.flags())) {
                (Ok(count), Some(buffer)) if buffer < BUFFERS && count <= BUFFER_BYTES => {
                    let at = HEAD_BYTES + usize::from(buffer) * BUFFER_BYTES;
                    // SAFETY: within the mapping; the kernel has filled this buffer, and does not use it until `give`.
                    let bytes = unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), count) };
                    match count {
                        0 => each(slot, Completion::ReceiveOver { error: 0 }),
                        _ => each(slot, Completion::Received { bytes, goes_on }),
                    }
                    self.give(buffer);
                }
                _ => each(slot, Completion::ReceiveOver { error: -result.min(0) }),
            },
            SEND => {
                let bytes = self.sending.get_mut(slot as usize).and_then(Option::take).unwrap_or_default();
                each(slot, Completion::Sent { result, bytes });
            }
            _ => each(slot, Completion::Cancelled),
        }
        true
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let is_idle = self.in_flight == 0;
        // SAFETY: it is dropped here, once.
        unsafe { mem::ManuallyDrop::drop(&mut self.ring) };
        if is_idle {
            // SAFETY: the mapping is ours, the kernel uses it no more, and no reference to it outlives the value.
            unsafe { libc::munmap(self.memory.as_ptr().cast(), ALL_BYTES) };
        } else {
            // The kernel ends operations some time after the ring.
            mem::forget(mem::take(&mut self.sending));
        }
    }
}
