//! Calls of the kernel that the standard library does not offer.
//!
//! **Invariant:** every call gets memory that outlives it, of the size that it is told.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

/// Commands of the BPF system call.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(crate) enum Bpf {
    MapCreate = 0,
    MapUpdate = 2,
    ProgramLoad = 5,
    LinkCreate = 28,
}

/// Words of the argument of a BPF system call. The kernel takes those behind its own for zero.
pub(crate) type BpfWords = [u64; 16];

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    let descriptor = checked(result)?;
    // SAFETY: the kernel has just made it, so it is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Calls the kernel's BPF. Addresses in the words are those of `parts`, in this order: the first word that is
/// `u64::MAX` stands for the first part, and so on. Returns the result, which is a descriptor for some commands.
pub(crate) fn bpf(command: Bpf, words: BpfWords, parts: &[&[u8]]) -> io::Result<libc::c_int> {
    let mut words = words;
    let mut parts = parts.iter();
    for word in words.iter_mut().filter(|word| **word == u64::MAX) {
        *word = parts.next().map_or(0, |part| part.as_ptr() as u64);
    }
    // SAFETY: the words are of this size. The parts that they name outlive the call, and no command above writes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command as i32, words.as_ptr(), size_of::<BpfWords>()) };
    checked(i32::try_from(result).unwrap_or(-1))
}

/// Does the same for a command that makes a descriptor.
pub(crate) fn bpf_descriptor(command: Bpf, words: BpfWords, parts: &[&[u8]]) -> io::Result<OwnedFd> {
    owned(bpf(command, words, parts)?)
}

/// Makes an AF_XDP socket that is not bound.
pub(crate) fn xdp_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
}

/// Sets a number of an AF_XDP socket.
pub(crate) fn set_xdp_number(socket: &OwnedFd, option: libc::c_int, value: u32) -> io::Result<()> {
    let value = &raw const value;
    let length = size_of::<u32>() as u32;
    // SAFETY: the value is a local of this length.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value.cast(), length) };
    checked(set).map(drop)
}

/// Registers memory of frames. It must stay mapped for as long as the socket is open.
pub(crate) fn register_frames(socket: &OwnedFd, base: NonNull<u8>, bytes: usize, frame: usize) -> io::Result<()> {
    let registered = libc::xdp_umem_reg {
        addr: base.as_ptr() as u64,
        len: bytes as u64,
        chunk_size: frame as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let length = size_of::<libc::xdp_umem_reg>() as u32;
    let value = &raw const registered;
    // SAFETY: the value is a local of this length. The kernel pins the memory that it names.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, value.cast(), length) };
    checked(set).map(drop)
}

/// Returns where the words of each ring stand in its mapping.
pub(crate) fn ring_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: numbers only, for which zeros are valid.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::xdp_mmap_offsets>() as u32;
    let (value, size) = (&raw mut offsets, &raw mut length);
    // SAFETY: the value is a local of this length.
    let got =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, value.cast(), size) };
    checked(got)?;
    if length as usize != size_of::<libc::xdp_mmap_offsets>() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's AF_XDP is too old (5.4 is needed)"));
    }
    Ok(offsets)
}

/// Binds an AF_XDP socket to a queue of an interface.
pub(crate) fn bind_xdp(socket: &OwnedFd, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as u32;
    // SAFETY: the address is a local of this length.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) }).map(drop)
}

/// Lets the kernel send the frames of the ring, as many as it takes at once.
pub(crate) fn send_frames(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no memory is named.
    let sent = unsafe { libc::sendto(socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the driver of the interface take empty frames.
pub(crate) fn wake_receiver(socket: BorrowedFd<'_>) {
    let (none, zero) = (ptr::null_mut::<libc::sockaddr>(), ptr::null_mut::<u32>());
    // SAFETY: no memory is named. The driver is woken whatever the result.
    unsafe { libc::recvfrom(socket.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_DONTWAIT, none, zero) };
}

/// Maps a part of a socket, or memory of this process if there is none, for reading and writing.
pub(crate) fn map(socket: Option<(&OwnedFd, i64)>, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (kind, descriptor, offset) = match socket {
        Some((socket, offset)) => (libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE, -1, 0),
    };
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, descriptor, offset) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("a mapping at address 0"))
}

/// Ends a mapping.
///
/// # Safety
/// The mapping has this address and size, and no reference into it is left.
pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: by the caller.
    unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// Returns the number of an interface.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: reads a text that ends with zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Asks the kernel something about an interface. The answer is in the request.
fn ask(name: &str, question: libc::Ioctl, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
    // SAFETY: takes numbers only.
    let socket = owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: numbers and addresses, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if request.ifr_name.len() <= name.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of the interface is too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    fill(&mut request);
    // SAFETY: the request is a local, of the type that all these questions take. What it points to is the caller's.
    checked(unsafe { libc::ioctl(socket.as_raw_fd(), question, &raw mut request) })?;
    Ok(request)
}

/// Returns the largest packet that an interface sends.
pub(crate) fn interface_mtu(name: &str) -> io::Result<usize> {
    let request = ask(name, libc::SIOCGIFMTU, |_| {})?;
    // SAFETY: this question is answered by a number.
    Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// Returns true for a loopback interface.
pub(crate) fn interface_is_loopback(name: &str) -> io::Result<bool> {
    let request = ask(name, libc::SIOCGIFFLAGS, |_| {})?;
    // SAFETY: this question is answered by flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_LOOPBACK != 0)
}

/// Returns the first IPv4 address of an interface.
pub(crate) fn interface_address(name: &str) -> io::Result<Ipv4Addr> {
    let request = ask(name, libc::SIOCGIFADDR, |_| {})?;
    // SAFETY: this question is answered by an address.
    let address = unsafe { request.ifr_ifru.ifru_addr };
    // The port stands before the address.
    let [_, _, a, b, c, d, ..] = address.sa_data.map(i8::cast_unsigned);
    Ok(Ipv4Addr::new(a, b, c, d))
}

/// Returns the Ethernet address of an interface.
pub(crate) fn interface_ethernet(name: &str) -> io::Result<[u8; 6]> {
    let request = ask(name, libc::SIOCGIFHWADDR, |_| {})?;
    // SAFETY: this question is answered by an address.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let [a, b, c, d, e, f, ..] = address.sa_data.map(i8::cast_unsigned);
    Ok([a, b, c, d, e, f])
}

/// Argument of the kernel's `SIOCETHTOOL` for a switch.
#[repr(C)]
struct EthtoolSwitch {
    command: u32,
    is_on: u32,
}

/// Switches a property of an interface off, by the number of ethtool's command.
pub(crate) fn ethtool_off(name: &str, command: u32) -> io::Result<()> {
    let mut switch = EthtoolSwitch { command, is_on: 0 };
    let data = &raw mut switch;
    ask(name, libc::SIOCETHTOOL as libc::Ioctl, |request| request.ifr_ifru.ifru_data = data.cast()).map(drop)
}

/// Argument of the kernel's `SIOCETHTOOL` for numbers of queues: the command, four maxima, and the numbers of queues
/// that receive, that send, that do neither, and that do both.
type EthtoolChannels = [u32; 9];

/// Number of ethtool's command for [`EthtoolChannels`].
const GET_CHANNELS: u32 = 0x3c;

/// Returns the number of queues of an interface.
pub(crate) fn interface_queues(name: &str) -> io::Result<u32> {
    let mut channels: EthtoolChannels = [0; 9];
    channels[0] = GET_CHANNELS;
    let data = &raw mut channels;
    match ask(name, libc::SIOCETHTOOL as libc::Ioctl, |request| request.ifr_ifru.ifru_data = data.cast()) {
        Ok(_) => Ok(channels[5].max(channels[6]).saturating_add(channels[8])),
        // A driver without this command. The folder is that of the network in which /sys was mounted.
        Err(_) => {
            let names = std::fs::read_dir(format!("/sys/class/net/{name}/queues"))?;
            let is_receiving = |entry: &io::Result<std::fs::DirEntry>| {
                entry.as_ref().is_ok_and(|entry| entry.file_name().as_encoded_bytes().starts_with(b"rx-"))
            };
            Ok(u32::try_from(names.filter(is_receiving).count()).unwrap_or(u32::MAX))
        }
    }
}

/// Moves this thread, and those that it will start, into a network of its own, with nothing but a loopback interface.
pub(crate) fn leave_network() -> io::Result<()> {
    // SAFETY: changes which network the kernel shows to this thread; no memory.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this thread into a network.
pub(crate) fn enter_network(network: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: as above.
    checked(unsafe { libc::setns(network.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Makes a socket that sends ICMP, and receives it with its IP headers.
pub(crate) fn icmp_socket() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMP) })
}

/// Makes a socket that sends whole frames by an interface.
pub(crate) fn packet_socket(interface: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    let socket = owned(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: numbers only, for which zeros are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = interface.cast_signed();
    let length = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the address is a local of this length.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
    Ok(socket)
}
