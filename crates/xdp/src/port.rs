//! Port whose TCP comes to this process: its socket, and the program that diverts frames to it. It is that of a server,
//! or that of the clients of one.
//!
//! **Invariant:** ports of clients are none that the kernel hands out, so neither takes the other's connections.

use crate::capture::{Capture, CaptureFile};
use crate::count::{Counted, Memory};
use crate::frame::{CLIENT_BITS, Diverted, Macs};
use crate::neighbour;
use crate::program::{Diversion, Mode};
use crate::socket::{self, Receiver, Sender};
use crate::system;
use std::fs;
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
    /// Number of a server's port; clients have a range of ports.
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
    pub(crate) diverted: Diverted,
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
    /// For clients: their server, and the Ethernet addresses of what is sent to it.
    pub(crate) server: Option<(SocketAddrV4, Macs)>,
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
        0 => "no queue".to_owned(),
        1 => "one queue, number 0".to_owned(),
        count => format!("{count} queues, numbers 0 to {}", count - 1),
    };
    Some(io::Error::new(io::ErrorKind::InvalidInput, format!("interface \"{interface}\" has {has}")))
}

/// Returns the number of the interface, and the address that is wished or its first one.
///
/// # Errors
/// There is no such interface; it is a loopback interface, whose clients would be cut off.
fn place(options: &PortOptions) -> io::Result<(u32, Ipv4Addr)> {
    let name = &options.interface;
    let interface = named(&format!("interface \"{name}\""), system::interface_index(name))?;
    if system::interface_is_loopback(name)? {
        let why = "segments on a loopback interface have no checksums, so none would be taken";
        return Err(io::Error::new(io::ErrorKind::Unsupported, format!("interface \"{name}\": {why}")));
    }
    let address = match options.address {
        Some(address) => address,
        None => named(&format!("IPv4 address of interface \"{name}\""), system::interface_address(name))?,
    };
    Ok((interface, address))
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

/// Makes sure that the kernel hands out no port of the clients.
fn ports_are_apart() -> io::Result<()> {
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    let text = named(RANGE, fs::read_to_string(RANGE))?;
    match text.split_whitespace().last().and_then(|last| last.parse::<u16>().ok()) {
        Some(last) if last < CLIENT_BITS => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("{RANGE} is {}: it has to end below {CLIENT_BITS}", text.trim_end().replace('\t', " ")),
        )),
    }
}

impl Port {
    /// Opens the port of a server, in the network of this thread. Its memory, and that of its connections, is counted.
    ///
    /// # Errors
    /// The process may not do that, the kernel or the interface cannot (a loopback interface), another program has the
    /// interface's XDP, or the file for the frames cannot be written.
    pub fn open(options: PortOptions, memory: Memory) -> io::Result<Port> {
        if options.port == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "port 0 is no port that clients can connect to"));
        }
        let (interface, ip) = place(&options)?;
        let diverted = Diverted::To(SocketAddrV4::new(ip, options.port));
        Port::divert(options, interface, diverted, memory)
    }

    /// Opens the port of a server's clients, in the network of this thread, where the server is a neighbour. The
    /// kernel's clients of the same server keep theirs.
    ///
    /// # Errors
    /// Those of [`Port::open`]; the server's Ethernet address is not found, or the kernel hands out the clients' ports.
    pub fn open_clients(options: PortOptions, server: SocketAddrV4, memory: Memory) -> io::Result<Port> {
        ports_are_apart()?;
        let (interface, to) = place(&options)?;
        let theirs = neighbour::ethernet(&options.interface, to, *server.ip());
        let theirs = named(&format!("Ethernet address of {}", server.ip()), theirs)?;
        let ours = system::interface_ethernet(&options.interface)?;
        let mut macs: Macs = [0; 12];
        macs[..6].copy_from_slice(&theirs);
        macs[6..].copy_from_slice(&ours);
        let port = Port::divert(options, interface, Diverted::From { server, to }, memory)?;
        Ok(Port { server: Some((server, macs)), ..port })
    }

    fn divert(options: PortOptions, interface: u32, diverted: Diverted, memory: Memory) -> io::Result<Port> {
        let PortOptions { interface: name, queue, mode, .. } = options;
        let (frame_bytes, bytes, mtu) = socket::frame_bytes(system::interface_mtu(&name)?);
        if mtu < MTU_MIN {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("interface \"{name}\" has an MTU of {mtu}"),
            ));
        }
        let facts = Facts { diverted, mtu, mss: (mtu - IP_HEADERS) as u16 };
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
        let diversion = patiently(|| Diversion::start(interface, queue, &diverted, &socket, mode));
        let _diversion = named(&format!("interface \"{name}\""), diversion)?;
        let connections_max = options.connections_max;
        let server = None;
        Ok(Port {
            _diversion,
            receiver,
            sender,
            socket,
            facts,
            server,
            connections_max,
            memory,
            name,
            queue,
            mode,
            _counted,
        })
    }

    /// Returns its address; the port is 0 for clients, each of which has its own.
    pub fn address(&self) -> SocketAddrV4 {
        self.facts.diverted.local()
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
