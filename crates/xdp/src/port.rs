//! Port whose TCP comes to this process: its socket, and the program that diverts frames to it.

use crate::capture::{Capture, CaptureFile};
use crate::count::{Counted, Memory};
use crate::program::{Diversion, Mode};
use crate::socket::{self, Receiver, Sender};
use crate::system;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// Bytes of the headers of IPv4 and TCP.
const IP_HEADERS: usize = 40;
/// Pause before a busy queue is tried again, and the number of pauses.
const BUSY_PAUSE: Duration = Duration::from_millis(20);
const BUSY_LOOKS: usize = 100;
/// Least size of packets with which TCP is worth it.
const MTU_MIN: usize = 576;

/// Wish for a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// Name of the interface.
    pub interface: String,
    /// Number of its queue.
    pub queue: u32,
    /// Address; without one, the first of the interface.
    pub address: Option<Ipv4Addr>,
    /// Number of the port.
    pub port: u16,
    /// Way in which frames are diverted.
    pub mode: Mode,
    /// Connections that there may be at the same time.
    pub connections_max: usize,
    /// File to which the frames are written.
    pub capture: Option<CaptureFile>,
}

/// Facts about a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) address: SocketAddrV4,
    /// Largest IP packet, and largest segment.
    pub(crate) mtu: usize,
    pub(crate) mss: u16,
}

/// Port that is open: from now on, its frames come here. Dropping it gives the port back to the kernel.
#[derive(Debug)]
pub struct Port {
    /// Ends first, so that no frame is diverted to a socket that has gone.
    _diversion: Diversion,
    pub(crate) receiver: Receiver,
    pub(crate) sender: Sender,
    pub(crate) socket: OwnedFd,
    pub(crate) facts: Facts,
    pub(crate) connections_max: usize,
    pub(crate) memory: Memory,
    name: String,
    queue: u32,
    mode: Mode,
    _counted: Counted,
}

fn named<R>(what: &str, result: io::Result<R>) -> io::Result<R> {
    result.map_err(|error| {
        let denied = match error.kind() {
            io::ErrorKind::PermissionDenied => " (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF are needed)",
            _ => "",
        };
        io::Error::new(error.kind(), format!("{what}: {error}{denied}"))
    })
}

/// Returns an error that names the queues of an interface, if this one is not among them.
fn no_queue(interface: &str, queue: u32) -> Option<io::Error> {
    let count = system::interface_queues(interface).ok().filter(|count| *count <= queue)?;
    let has = match count {
        1 => "one queue, number 0".to_owned(),
        count => format!("{count} queues, numbers 0 to {}", count.saturating_sub(1)),
    };
    Some(io::Error::new(io::ErrorKind::InvalidInput, format!("interface \"{interface}\" has {has}")))
}

/// Opens something that may still belong to a process that has just ended: the kernel takes a queue back a little later.
fn patiently<R>(open: impl Fn() -> io::Result<R>) -> io::Result<R> {
    for _ in 0..BUSY_LOOKS {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(BUSY_PAUSE),
            opened => return opened,
        }
    }
    open()
}

impl Port {
    /// Opens a port, in the network of this thread. Its memory, and that of its connections, is counted.
    ///
    /// # Errors
    /// The process may not do that, the kernel or the interface cannot, another program has the interface's XDP, or the
    /// file for the frames cannot be written.
    pub fn open(options: PortOptions, memory: Memory) -> io::Result<Port> {
        let PortOptions { interface: name, queue, mode, .. } = options;
        let interface = named(&format!("interface \"{name}\""), system::interface_index(&name))?;
        let ip = match options.address {
            Some(ip) => ip,
            None => named(&format!("IPv4 address of interface \"{name}\""), system::interface_address(&name))?,
        };
        if options.port == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "port 0 is no port that clients can connect to"));
        }
        let (frame_bytes, bytes, mtu) = socket::frame_bytes(system::interface_mtu(&name)?);
        if mtu < MTU_MIN {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("interface \"{name}\" has an MTU of {mtu}"),
            ));
        }
        let facts = Facts { address: SocketAddrV4::new(ip, options.port), mtu, mss: (mtu - IP_HEADERS) as u16 };
        let _counted = Counted::new(memory, bytes);
        let opened = patiently(|| socket::open(interface, queue, frame_bytes, mode == Mode::Generic));
        // What is wrong with the queue, the kernel does not say.
        let opened = opened.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => no_queue(&name, queue).unwrap_or(error),
            _ => error,
        });
        let (socket, receiver, mut sender) = named(&format!("AF_XDP socket at queue {queue}"), opened)?;
        if let Some(file) = options.capture {
            let path = file.path.display().to_string();
            sender.set_capture(named(&path, Capture::start(file))?);
        }
        let diversion = patiently(|| Diversion::start(interface, queue, facts.address, &socket, mode));
        let _diversion = named(&format!("interface \"{name}\""), diversion)?;
        let connections_max = options.connections_max;
        Ok(Port { _diversion, receiver, sender, socket, facts, connections_max, memory, name, queue, mode, _counted })
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddrV4 {
        self.facts.address
    }

    /// Returns the number of its queue.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Returns the way in which its frames are diverted.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the name of its interface.
    pub fn interface(&self) -> &str {
        &self.name
    }
}
