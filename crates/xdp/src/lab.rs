//! Networks for tests and benchmarks: two that know nothing of the machine's, with a cable between them.
//!
//! **Invariant:** nothing has a name outside. The networks end with the processes that are in them, in whichever way
//! these end.

use crate::{program, system};
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Commands of ethtool: transmit checksums, scatter and gather, segmentation by the device, and by the kernel.
const OFFLOADS: [u32; 4] = [0x17, 0x1f, 0x24, 0x19];
/// Address of the end that is the server's, and of the other one.
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// Names of the ends.
const ENDS: [&str; 2] = ["server0", "client0"];

/// Names of the ends in the middle: towards the server, and towards the clients.
const MIDDLE: [&str; 2] = ["middle0", "middle1"];

/// Two networks with a cable (a veth pair) between them: the server's and the clients'.
#[derive(Debug)]
pub struct Lab {
    server: File,
    clients: File,
    /// Network in the middle of the cable: a bridge, and the programs that lose packets there.
    _middle: Option<(File, Vec<OwnedFd>)>,
}

/// Makes a network on a thread of its own, which ends.
fn network() -> io::Result<File> {
    let make = || {
        system::leave_network()?;
        File::open("/proc/thread-self/ns/net")
    };
    thread::spawn(make).join().map_err(|_| io::Error::other("a thread has panicked"))?
}

/// Runs a job on a thread that is in a network.
fn within<R: Send>(network: &File, job: impl FnOnce() -> R + Send) -> io::Result<R> {
    thread::scope(|scope| {
        let run = || {
            system::enter_network(network.as_fd())?;
            Ok(job())
        };
        scope.spawn(run).join().map_err(|_| io::Error::other("a thread has panicked"))?
    })
}

/// Runs `ip` with several commands.
fn ip(commands: &str) -> io::Result<()> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| io::Error::new(error.kind(), format!("ip: {error}")))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(commands.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("ip: {}", String::from_utf8_lossy(&output.stderr).trim()))),
    }
}

/// Lays a cable between two networks, by the names of its ends there.
fn cable(mtu: usize, [(one, first), (other, second)]: [(&File, &str); 2]) -> io::Result<()> {
    // The other network has no name, but a process of it could have one; so the cable is made in the first one, and an
    // end is moved into the network of a process that waits.
    let mut waits = within(other, || Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn())??;
    let made = within(one, || {
        ip(&format!("link add {first} mtu {mtu} type veth peer name {second} mtu {mtu} netns {}\n", waits.id()))
    });
    drop(waits.stdin.take());
    waits.wait()?;
    made??;
    for (network, end) in [(one, first), (other, second)] {
        let up = || {
            // No device computes sums or cuts segments behind the kernel here.
            for command in OFFLOADS {
                system::ethtool_off(end, command)?;
            }
            ip(&format!("link set {end} up\nlink set lo up\n"))
        };
        within(network, up)??;
    }
    Ok(())
}

impl Lab {
    /// Makes both networks. Packets are at most this large.
    ///
    /// # Errors
    /// The process may not do that, the kernel cannot, or there is no program `ip`.
    pub fn new(mtu: usize) -> io::Result<Lab> {
        let lab = Lab { server: network()?, clients: network()?, _middle: None };
        cable(mtu, [(&lab.server, ENDS[0]), (&lab.clients, ENDS[1])])?;
        lab.addressed()
    }

    /// Makes both networks with a cable that loses one packet in so many in each direction, also those of AF_XDP, which
    /// pass [`Lab::lose`] by.
    ///
    /// # Errors
    /// Those of [`Lab::new`] and of [`Lab::lose`].
    pub fn losing(mtu: usize, one_in: u32) -> io::Result<Lab> {
        let (lab, middle) = (Lab { server: network()?, clients: network()?, _middle: None }, network()?);
        cable(mtu, [(&lab.server, ENDS[0]), (&middle, MIDDLE[0])])?;
        cable(mtu, [(&lab.clients, ENDS[1]), (&middle, MIDDLE[1])])?;
        let bridge = || {
            let [server, client] = MIDDLE;
            ip(&format!(
                "link add bridge0 type bridge\nlink set {server} master bridge0\nlink set {client} master bridge0\n\
                 link set bridge0 up\n"
            ))?;
            program::lose(system::interface_index(server)?, one_in)
        };
        let losing = within(&middle, bridge)??;
        Lab { _middle: Some((middle, losing)), ..lab }.addressed()
    }

    /// Gives both ends their addresses.
    fn addressed(self) -> io::Result<Lab> {
        for (network, end, address) in [(&self.server, ENDS[0], ADDRESSES[0]), (&self.clients, ENDS[1], ADDRESSES[1])] {
            within(network, || ip(&format!("addr add {address}/24 dev {end}\n")))??;
        }
        Ok(self)
    }

    /// Returns the address of the server's end.
    pub fn server_address(&self) -> Ipv4Addr {
        ADDRESSES[0]
    }

    /// Returns the address of the clients' end.
    pub fn client_address(&self) -> Ipv4Addr {
        ADDRESSES[1]
    }

    /// Returns the name of the server's end.
    pub fn server_interface(&self) -> &'static str {
        ENDS[0]
    }

    /// Returns the name of the clients' end.
    pub fn client_interface(&self) -> &'static str {
        ENDS[1]
    }

    /// Runs a job in the server's network, on a thread of its own. Sockets and processes that it makes stay there.
    ///
    /// # Errors
    /// The job has panicked.
    pub fn at_server<R: Send>(&self, job: impl FnOnce() -> R + Send) -> io::Result<R> {
        within(&self.server, job)
    }

    /// Runs a job in the clients' network, on a thread of its own.
    ///
    /// # Errors
    /// The job has panicked.
    pub fn at_clients<R: Send>(&self, job: impl FnOnce() -> R + Send) -> io::Result<R> {
        within(&self.clients, job)
    }

    /// Moves this thread, and those that it starts, into the clients' network for good.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn join_clients(&self) -> io::Result<()> {
        system::enter_network(self.clients.as_fd())
    }

    /// Returns true if the server's end answers an ICMP echo request within a second.
    ///
    /// # Errors
    /// The process may not send any.
    pub fn pings(&self) -> io::Result<bool> {
        let ping = || {
            // A socket of another protocol is written and read alike.
            let socket = UdpSocket::from(system::icmp_socket()?);
            socket.set_read_timeout(Some(Duration::from_secs(1)))?;
            // Ports mean nothing here.
            socket.connect((ADDRESSES[0], 0))?;
            // Request 7 of sender 7, with its checksum.
            socket.send(&[8, 0, 0xf7, 0xf1, 0, 7, 0, 7])?;
            let mut answer = [0; 64];
            let length = match socket.recv(&mut answer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            };
            Ok(answer[..length].ends_with(&[0, 0, 0xff, 0xf1, 0, 7, 0, 7]))
        };
        self.at_clients(ping)?
    }

    /// Returns a socket by which whole frames are sent from the clients' end.
    ///
    /// # Errors
    /// The process may not send any.
    pub fn raw(&self) -> io::Result<UdpSocket> {
        let make = || system::packet_socket(system::interface_index(ENDS[1])?).map(UdpSocket::from);
        self.at_clients(make)?
    }

    /// Returns the Ethernet addresses of both ends, the server's first.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn ethernet(&self) -> io::Result<[[u8; 6]; 2]> {
        let of = |end: &'static str| move || system::interface_ethernet(end);
        Ok([self.at_server(of(ENDS[0]))??, self.at_clients(of(ENDS[1]))??])
    }

    /// Loses one packet in so many at the clients' end, in both directions, until the result is dropped. Only the
    /// kernel's own packets pass there.
    ///
    /// # Errors
    /// The kernel cannot (6.6 can).
    pub fn lose(&self, one_in: u32) -> io::Result<Loss> {
        let lose = || program::lose(system::interface_index(ENDS[1])?, one_in);
        Ok(Loss { _links: self.at_clients(lose)?? })
    }
}

/// Loss of packets.
#[derive(Debug)]
pub struct Loss {
    _links: Vec<OwnedFd>,
}
