//! Socket of a queue, with its frames: what was received, and what is to be sent.
//!
//! **Invariant:** each frame has its use for good: so many receive, so many send. Neither side can take frames from the
//! other, whatever the peers do.

use crate::capture::Capture;
use crate::count;
use crate::ring::{Descriptor, Frame, Frames, Ring};
use crate::system;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Frames that receive, and frames that send.
const RECEIVING: u32 = 2048;
const SENDING: u32 = 2048;
/// Bytes of a frame: half a page if that is enough.
const FRAME_BYTES: [usize; 2] = [2048, 4096];
/// Bytes that the kernel keeps free before a received frame, and bytes of the Ethernet header.
const RESERVED: usize = 256 + 14;
/// Bytes that all frames take.
pub(crate) const MEMORY: [usize; 2] =
    [(RECEIVING + SENDING) as usize * FRAME_BYTES[0], (RECEIVING + SENDING) as usize * FRAME_BYTES[1]];
/// Option that lets a call send more than 32 frames, and the number that it is asked for. Older kernels lack it.
const XDP_MAX_TX_BUDGET: libc::c_int = 9;
const BUDGET: u32 = 256;
/// Calls that try to send what waits.
const TRIES: u32 = SENDING / 32 + 8;

/// Returns the bytes of frames for an interface whose packets have this size at most, the memory that they take, and
/// the size of packets that fit.
pub(crate) fn frame_bytes(mtu: usize) -> (usize, usize, usize) {
    let which = usize::from(FRAME_BYTES[0] < mtu + RESERVED);
    (FRAME_BYTES[which], MEMORY[which], mtu.min(FRAME_BYTES[which] - RESERVED))
}

/// Received frame.
#[derive(Debug)]
pub(crate) struct Received {
    frame: Frame,
    offset: usize,
    length: usize,
}

/// Side that receives.
#[derive(Debug)]
pub(crate) struct Receiver {
    ring: Ring<Descriptor>,
    fill: Ring<u64>,
    frames: Frames,
}

/// Side that sends.
#[derive(Debug)]
pub(crate) struct Sender {
    ring: Ring<Descriptor>,
    completions: Ring<u64>,
    frames: Frames,
    here: Vec<Frame>,
    /// True if frames wait that the kernel has not taken.
    is_waiting: bool,
    /// File to which frames are written, in both directions.
    capture: Option<Capture>,
}

/// Makes a socket with its rings, bound to a queue of an interface.
pub(crate) fn open(
    interface: u32,
    queue: u32,
    frame_bytes: usize,
    copies: bool,
) -> io::Result<(OwnedFd, Receiver, Sender)> {
    let socket = system::xdp_socket()?;
    let [(mut receiving, frames), (sending, here)] = Frames::create(&socket, frame_bytes, [RECEIVING, SENDING])?;
    for (option, size) in [
        (libc::XDP_UMEM_FILL_RING, RECEIVING),
        (libc::XDP_UMEM_COMPLETION_RING, SENDING),
        (libc::XDP_RX_RING, RECEIVING),
        (libc::XDP_TX_RING, SENDING),
    ] {
        system::set_xdp_number(&socket, option, size)?;
    }
    let offsets = system::ring_offsets(&socket)?;
    let (of_fill, of_completions) =
        (libc::XDP_UMEM_PGOFF_FILL_RING as i64, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64);
    let mut fill = Ring::map(&socket, of_fill, &offsets.fr, RECEIVING)?;
    let completions = Ring::map(&socket, of_completions, &offsets.cr, SENDING)?;
    let received = Ring::map(&socket, libc::XDP_PGOFF_RX_RING, &offsets.rx, RECEIVING)?;
    let sent = Ring::map(&socket, libc::XDP_PGOFF_TX_RING, &offsets.tx, SENDING)?;
    for frame in frames {
        fill.push(receiving.give(frame));
    }
    fill.publish();
    let copy = if copies { libc::XDP_COPY } else { 0 };
    system::bind_xdp(&socket, interface, queue, libc::XDP_USE_NEED_WAKEUP | copy)?;
    // Without it, sending takes more calls.
    let _ = system::set_xdp_number(&socket, XDP_MAX_TX_BUDGET, BUDGET);
    let receiver = Receiver { ring: received, fill, frames: receiving };
    Ok((socket, receiver, Sender { ring: sent, completions, frames: sending, here, is_waiting: false, capture: None }))
}

impl Receiver {
    /// Takes a frame that has come.
    pub(crate) fn take(&mut self) -> Option<Received> {
        loop {
            let descriptor = self.ring.pop()?;
            // The kernel names only what it was given.
            let Some((frame, offset)) = self.frames.take(descriptor.address) else { continue };
            return Some(Received { frame, offset, length: descriptor.length as usize });
        }
    }

    /// Returns the bytes of a frame.
    pub(crate) fn bytes(&mut self, received: &mut Received) -> &mut [u8] {
        let bytes = self.frames.bytes(&mut received.frame);
        bytes.get_mut(received.offset..received.offset + received.length).unwrap_or_default()
    }

    /// Lets the kernel receive with this frame again.
    pub(crate) fn give_back(&mut self, received: Received) {
        let address = self.frames.give(received.frame);
        // The ring has as many places as there are frames.
        self.fill.push(address);
    }

    /// Shows the kernel what was taken and what was given back.
    pub(crate) fn publish(&mut self, socket: BorrowedFd<'_>) {
        self.ring.release();
        self.fill.publish();
        if self.fill.needs_wakeup() {
            let begun = Instant::now();
            system::wake_receiver(socket);
            count::kernel(begun);
        }
    }
}

impl Sender {
    /// Returns true if a frame is here.
    pub(crate) fn has_frame(&mut self) -> bool {
        if self.here.is_empty() {
            self.reclaim();
        }
        !self.here.is_empty()
    }

    /// Takes a frame to write to, if one is here.
    pub(crate) fn frame(&mut self) -> Option<Frame> {
        if self.has_frame() { self.here.pop() } else { None }
    }

    /// Returns the bytes of a frame.
    pub(crate) fn bytes(&mut self, frame: &mut Frame) -> &mut [u8] {
        self.frames.bytes(frame)
    }

    /// Lets a frame of this length be sent by the next [`Sender::flush`].
    pub(crate) fn send(&mut self, frame: Frame, length: usize) {
        let mut frame = frame;
        if let Some(capture) = &mut self.capture {
            let written = capture.write(&self.frames.bytes(&mut frame)[..length]);
            self.captured(written);
        }
        let address = self.frames.give(frame);
        // The ring has as many places as there are frames.
        self.ring.push(Descriptor { address, length: length as u32, options: 0 });
        self.is_waiting = true;
        count::SENT.add(1);
    }

    /// Writes frames to a file from now on.
    pub(crate) fn set_capture(&mut self, capture: Capture) {
        self.capture = Some(capture);
    }

    /// Writes a frame that has come to the file, if there is one.
    pub(crate) fn capture(&mut self, frame: &[u8]) {
        if let Some(capture) = &mut self.capture {
            let written = capture.write(frame);
            self.captured(written);
        }
    }

    /// Writes what is still in memory.
    pub(crate) fn flush_capture(&mut self) {
        if let Some(capture) = &mut self.capture {
            let flushed = capture.flush();
            self.captured(flushed);
        }
    }

    /// Ends the capture if the disk refuses it.
    fn captured(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(%error, "the capture of diverted frames has ended: its file cannot be written");
            self.capture = None;
        }
    }

    fn reclaim(&mut self) {
        while let Some(address) = self.completions.pop() {
            self.here.extend(self.frames.take(address).map(|(frame, _)| frame));
        }
        self.completions.release();
    }

    /// Returns true if frames wait that the kernel has not taken.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Lets the kernel send what waits. A call takes some of the frames only, 32 by default, so it is repeated until it
    /// has taken all. What the device has no room for waits on.
    ///
    /// # Errors
    /// The interface is gone.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> io::Result<()> {
        if !self.is_waiting {
            return Ok(());
        }
        self.ring.publish();
        for _ in 0..TRIES {
            if self.ring.needs_wakeup() {
                let begun = Instant::now();
                let sent = system::send_frames(socket.as_fd());
                count::kernel(begun);
                match sent.map_err(|error| (error.raw_os_error(), error)) {
                    Ok(()) | Err((Some(libc::EAGAIN | libc::EINTR), _)) => {}
                    // The device is full, or down.
                    Err((Some(libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN | libc::ENOMEM), _)) => break,
                    Err((_, error)) => return Err(error),
                }
            }
            if self.ring.is_consumed() {
                self.is_waiting = false;
                break;
            }
        }
        self.reclaim();
        Ok(())
    }
}
