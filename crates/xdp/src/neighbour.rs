//! Ethernet address of a neighbour, as the kernel has found it.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::Duration;

/// Neighbours of this thread's network. That of the process's first thread may be another one.
const TABLE: &str = "/proc/thread-self/net/arp";
/// Port to which datagrams are sent that nobody is to read.
const DISCARD: u16 = 9;
/// Pause between two looks at the table, their number, and the number of looks for each datagram.
const PAUSE: Duration = Duration::from_millis(5);
const LOOKS: usize = 600;
const LOOKS_EACH: usize = 100;
/// Flag of an entry that has an address.
const COMPLETE: u32 = 2;

/// Returns the Ethernet address of a neighbour at an interface. The kernel asks for it, because it has a datagram to
/// send.
pub(crate) fn ethernet(interface: &str, ours: Ipv4Addr, theirs: Ipv4Addr) -> io::Result<[u8; 6]> {
    let socket = UdpSocket::bind((ours, 0))?;
    for look in 0..LOOKS {
        if look % LOOKS_EACH == 0 {
            socket.send_to(&[], (theirs, DISCARD))?;
        }
        if let Some(found) = entry(&fs::read_to_string(TABLE)?, interface, theirs) {
            return Ok(found);
        }
        thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::HostUnreachable, format!("no neighbour at interface \"{interface}\" has it")))
}

/// Returns the Ethernet address of an entry of the table.
fn entry(table: &str, interface: &str, address: Ipv4Addr) -> Option<[u8; 6]> {
    let of_line = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [ip, _kind, flags, ethernet, _mask, device] = cells[..] else { return None };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        let is_it = ip.parse() == Ok(address) && device == interface && flags & COMPLETE != 0;
        is_it.then(|| ethernet.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<Vec<u8>>>())?
    };
    table.lines().find_map(of_line)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_of_its_interface_and_complete() {
        let table = "IP address       HW type     Flags       HW address            Mask     Device\n\
                     10.0.0.2         0x1         0x0         00:00:00:00:00:00     *        eth0\n\
                     10.0.0.3         0x1         0x2         02:00:00:00:00:aF     *        eth1\n\
                     10.0.0.3         0x1         0x6         02:00:00:00:00:01     *        eth0\n";
        let of = |interface, last| entry(table, interface, Ipv4Addr::new(10, 0, 0, last));
        assert_eq!((of("eth1", 3), of("eth0", 3)), (Some([2, 0, 0, 0, 0, 0xaf]), Some([2, 0, 0, 0, 0, 1])));
        assert_eq!((of("eth0", 2), of("eth0", 4), of("eth2", 3)), (None, None, None));
    }
}
