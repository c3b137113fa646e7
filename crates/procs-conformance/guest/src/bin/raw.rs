//! Worker that breaks the protocol in the way that it is told by a text within its own file: the test writes it there.
#![allow(unsafe_code, reason = "the memory of the channel")]

use std::ffi::{c_int, c_void};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// Place for the name of the attack, which ends with a dot.
#[used]
static ATTACK: [u8; 48] = *b"OVERTAKE-ATTACK:................................";

const SHARED: usize = 4_096 + (1 << 20);
/// Offsets of the turn, of the message's kind and length, and of its contents.
const TURN: usize = 64;
const KIND: usize = 80;
const LENGTH: usize = 88;
const CONTENTS: usize = 96;
const CALL: u32 = 5;
const RETURN: u32 = 6;
const READY: u32 = 4;

unsafe extern "C" {
    fn mmap(address: *mut c_void, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn ftruncate(fd: c_int, len: i64) -> c_int;
    fn syscall(number: i64, ...) -> i64;
}

enum Link {
    Memory(*mut u8),
    Socket(UnixStream),
}

impl Link {
    fn word(&self, at: usize) -> &AtomicU32 {
        let Link::Memory(base) = self else { panic!("no memory") };
        // SAFETY: within the mapping.
        unsafe { AtomicU32::from_ptr(base.add(at).cast()) }
    }

    /// Sends a message that claims this length.
    fn send(&mut self, kind: u32, claimed: u32, contents: &[u8]) {
        match self {
            Link::Memory(base) => {
                // SAFETY: within the mapping.
                unsafe { ptr::copy_nonoverlapping(contents.as_ptr(), base.add(CONTENTS), contents.len()) };
                self.word(KIND).store(kind, SeqCst);
                self.word(LENGTH).store(claimed, SeqCst);
                self.turn(0);
            }
            Link::Socket(socket) => {
                let mut bytes = Vec::new();
                for number in [kind, 0, claimed] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                bytes.extend_from_slice(contents);
                let _ = socket.write_all(&bytes);
            }
        }
    }

    fn turn(&self, turn: u32) {
        self.word(TURN).store(turn, SeqCst);
        // SAFETY: a futex of the mapping.
        unsafe { syscall(202, self.word(TURN).as_ptr(), 1_i64, 100_i64) };
    }

    fn receive(&mut self) {
        match self {
            Link::Memory(_) => {
                while self.word(TURN).load(SeqCst) != 1 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
            Link::Socket(socket) => {
                let mut head = [0; 12];
                socket.read_exact(&mut head).expect("a head");
                let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
                let mut rest = vec![0; len as usize];
                socket.read_exact(&mut rest).expect("a message");
            }
        }
    }
}

fn open() -> (Link, c_int) {
    let channel = std::env::var("OVERTAKE_CHANNEL").expect("a channel");
    let (name, fd) = channel.split_once(':').expect("a descriptor");
    let fd: c_int = fd.parse().expect("a number");
    if name == "unix_socket" {
        // SAFETY: the descriptor was inherited for this.
        return (Link::Socket(unsafe { UnixStream::from_raw_fd(fd) }), fd);
    }
    // SAFETY: a new mapping.
    let base = unsafe { mmap(ptr::null_mut(), SHARED, 3, 1, fd, 0) };
    (Link::Memory(base.cast()), fd)
}

fn stop() -> ! {
    std::process::exit(9)
}

fn wait() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(100));
    }
}

fn main() {
    // SAFETY: the text is there; the compiler must not know it.
    let text = unsafe { ptr::read_volatile(&raw const ATTACK) };
    let text = String::from_utf8_lossy(&text[16..]).into_owned();
    let attack = text.trim_end_matches('.');
    let (mut link, fd) = open();
    match attack {
        "dies before ready" => stop(),
        "never ready" => wait(),
        "returns before ready" => link.send(RETURN, 0, &[]),
        "no kind" => link.send(77, 0, &[]),
        "too long" => link.send(READY, u32::MAX, &[]),
        _ => link.send(READY, 0, &[]),
    }
    link.receive();
    let get = [1, 0, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0];
    match attack {
        "dies at invoke" => stop(),
        "never answers" => wait(),
        "garbage call" => link.send(CALL, 64, &[0xa5; 64]),
        "empty call" => link.send(CALL, 0, &[]),
        "garbage result" => link.send(RETURN, 64, &[0x5a; 64]),
        "endless rows" => link.send(RETURN, 6, &[0xff, 0xff, 0xff, 0xff, 0, 0]),
        "long call" => link.send(CALL, (1 << 20) + 1, &[]),
        "ready again" => link.send(READY, 0, &[]),
        "answer of the host" => link.send(2, 0, &[]),
        "half a message" => {
            if let Link::Socket(socket) = &mut link {
                let _ = socket.write_all(&[5, 0, 0]);
            }
            stop();
        }
        "closes the channel" => {
            if let Link::Socket(socket) = &mut link {
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
            wait();
        }
        "turns without end" => loop {
            if let Link::Memory(_) = &link {
                link.turn(0);
                link.word(LENGTH).store(u32::MAX, SeqCst);
            }
        },
        "changes the message" => {
            link.send(CALL, get.len() as u32, &get);
            if let Link::Memory(base) = &link {
                for at in 0..50_000_000_usize {
                    // SAFETY: within the area.
                    unsafe { ptr::write_volatile(base.add(CONTENTS + at % 64), at as u8) };
                    link.word(LENGTH).store(at as u32, SeqCst);
                }
            }
        }
        "truncates" => {
            // SAFETY: calls with numbers.
            let is_refused = unsafe { ftruncate(fd, 0) != 0 && ftruncate(fd, SHARED as i64 * 2) != 0 };
            // A hole of the same length is allowed, and harmless.
            // SAFETY: a call with numbers.
            unsafe { syscall(285, i64::from(fd), 3_i64, 0_i64, SHARED as i64) };
            if !is_refused {
                stop();
            }
            link.send(RETURN, 6, &[0; 6]);
        }
        "dies after a call" => {
            link.send(CALL, get.len() as u32, &get);
            stop();
        }
        "dies after an answer" => {
            link.send(CALL, get.len() as u32, &get);
            link.receive();
            stop();
        }
        "ignores the abort" => {
            link.send(CALL, 1, &[99]);
            wait();
        }
        "fills the channel" => {
            // More answers than a socket takes, and then an error, of which the host tells. It reads nothing.
            if let Link::Socket(_) = &link {
                (0..278).for_each(|_| link.send(CALL, get.len() as u32, &get));
            }
            link.send(CALL, 1, &[99]);
            wait();
        }
        "calls after the abort" => {
            link.send(CALL, 1, &[99]);
            link.receive();
            loop {
                link.send(CALL, get.len() as u32, &get);
                link.receive();
            }
        }
        _ => link.send(RETURN, 6, &[0; 6]),
    }
    wait()
}
