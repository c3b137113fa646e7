//! Calls of the kernel that the standard library does not offer.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::{self, NonNull};

/// Seals of a file whose size never changes.
const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
/// Bytes for the control message with one descriptor.
const CONTROL_BYTES: usize = 64;

/// Buffer of control messages, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Creates a file in memory that nothing names, of this size for ever.
pub(crate) fn memory_file(name: &CStr, bytes: usize) -> io::Result<File> {
    let base = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: reads a text that ends with zero.
    let create = |flags| checked(unsafe { libc::memfd_create(name.as_ptr(), flags) });
    // Kernels before 6.3 do not know the kind.
    let file = create(base | libc::MFD_NOEXEC_SEAL).or_else(|_| create(base))?;
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { File::from_raw_fd(file) };
    file.set_len(bytes as u64)?;
    // SAFETY: takes numbers only.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SIZE_SEALS | libc::F_SEAL_SEAL) })?;
    Ok(file)
}

/// Returns true if the size of a file in memory never changes.
pub(crate) fn is_sealed(file: &File) -> bool {
    // SAFETY: takes numbers only.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    0 <= seals && seals & SIZE_SEALS == SIZE_SEALS
}

/// Maps the first bytes of a file for reading and writing.
pub(crate) fn map(file: &File, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))
}

/// Sends bytes with a descriptor.
pub(crate) fn send_file(socket: &UnixStream, bytes: &[u8], file: &File) -> io::Result<()> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero header is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE and CMSG_LEN compute with numbers only. One descriptor needs less than CONTROL_BYTES, so the
    // first header and its data are within the aligned buffer.
    let sent = unsafe {
        header.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as usize;
        let first = libc::CMSG_FIRSTHDR(&raw const header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        libc::CMSG_DATA(first).cast::<RawFd>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    match usize::try_from(sent) {
        Ok(count) if count == bytes.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Receives bytes, and a descriptor if one comes with them. Further descriptors are closed.
pub(crate) fn receive_file(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<File>)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero header is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_BYTES);
    // SAFETY: the header names buffers that outlive the call.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
    let Ok(count) = usize::try_from(count) else { return Err(io::Error::last_os_error()) };
    let mut files = Vec::new();
    // SAFETY: the kernel has filled the buffer with whole control messages. Each descriptor is new and nobody else's.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while !next.is_null() {
            if ((*next).cmsg_level, (*next).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                let length = ((*next).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let owned = |at| OwnedFd::from_raw_fd(data.add(at).read_unaligned());
                files.extend((0..length / size_of::<RawFd>()).map(owned));
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    Ok((count, files.into_iter().next().map(File::from)))
}

/// Sends a byte, if there is room for it.
pub(crate) fn send_byte(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the byte is a constant.
    let sent = unsafe { libc::send(socket.as_raw_fd(), [0_u8].as_ptr().cast(), 1, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the number of processors of the machine.
pub(crate) fn processors() -> usize {
    // SAFETY: takes a number only.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Ends a mapping.
///
/// # Safety
/// The mapping has this address and size, and no reference into it is left.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: by the caller.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// Waits until a socket can be read, for this time in milliseconds at most; -1: for ever.
pub(crate) fn wait_readable(socket: &UnixStream, milliseconds: i32) -> io::Result<bool> {
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `polled` is a local.
    Ok(0 < checked(unsafe { libc::poll(&raw mut polled, 1, milliseconds) })?)
}
