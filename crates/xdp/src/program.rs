//! Program that the kernel runs for each frame of the interface, and its attachment.
//!
//! **Invariant:** only whole TCP segments of what is diverted leave the kernel's way, in plain IPv4 packets. The
//! attachment lives as long as its descriptor: when the process ends in whichever way, the kernel has the port again.

use crate::frame::{CLIENT_BITS, Diverted, HEADERS};
use crate::system::{self, Bpf, BpfWords};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Instruction: code, registers (source in the upper half), offset, and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction(pub(crate) u8, pub(crate) u8, pub(crate) i16, pub(crate) i32);

/// Codes of instructions.
const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const LOAD_MAP: u8 = 0x18;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const JUMP_ABOVE_REGISTER: u8 = 0x2d;
/// Compares the lower halves.
const JUMP_OTHER: u8 = 0x56;
const JUMP_LESS: u8 = 0xa6;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Kind of a number that stands for the descriptor of a map.
const PSEUDO_MAP: u8 = 1;
/// Numbers of the kernel's functions.
const GET_RANDOM: i32 = 7;
const REDIRECT_MAP: i32 = 51;
/// Results of the program: the frame goes on to the kernel.
const XDP_PASS: i32 = 2;
/// Results of a program in the way of packets behind that.
const TC_NEXT: i32 = -1;
const TC_DROP: i32 = 2;

const MAP_XSK: u64 = 17;
const PROGRAM_TC: u64 = 3;
const PROGRAM_XDP: u64 = 6;
const ATTACH_XDP: u64 = 37;
const ATTACH_TC: [u64; 2] = [46, 47];
const LICENSE: &[u8] = b"Apache-2.0\0";

/// Way in which the program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By the kernel, behind the driver: every interface has it.
    #[default]
    Generic,
    /// By the driver, before the kernel makes anything of a frame.
    Driver,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Generic => "generic",
            Mode::Driver => "driver",
        })
    }
}

impl Mode {
    fn flags(self) -> u64 {
        match self {
            Mode::Generic => 1 << 1,
            Mode::Driver => 1 << 2,
        }
    }
}

const fn registers(to: u8, from: u8) -> u8 {
    from << 4 | to
}

/// Returns a number that in memory has these bytes, as a load sees them.
fn as_loaded<const N: usize>(bytes: [u8; N]) -> i32 {
    let mut all = [0; 4];
    all[..N].copy_from_slice(&bytes);
    i32::from_le_bytes(all)
}

/// Writes the program that diverts TCP to the sockets of a map.
pub(crate) fn diverting(diverted: &Diverted, map: i32) -> Vec<Instruction> {
    // Register 6 is the context, 2 the frame's begin, 3 its end, 5 the field at hand.
    let field = |load: u8, offset: i16| Instruction(load, registers(5, 2), offset, 0);
    let checks = vec![
        // Ethernet: IPv4.
        (vec![field(LOAD_HALF, 12)], as_loaded([0x08, 0x00])),
        // Version 4, no options.
        (vec![field(LOAD_BYTE, 14)], 0x45),
        // No fragment: neither an offset nor more of them.
        (vec![field(LOAD_HALF, 20), Instruction(AND, registers(5, 0), 0, as_loaded([0x3f, 0xff]))], 0),
        // TCP.
        (vec![field(LOAD_BYTE, 23)], 6),
    ];
    let ends = match *diverted {
        Diverted::To(address) => vec![
            (vec![field(LOAD_WORD, 30)], as_loaded(address.ip().octets())),
            (vec![field(LOAD_HALF, 36)], as_loaded(address.port().to_be_bytes())),
        ],
        Diverted::From { server, to } => {
            let bits = as_loaded(CLIENT_BITS.to_be_bytes());
            vec![
                (vec![field(LOAD_WORD, 26)], as_loaded(server.ip().octets())),
                (vec![field(LOAD_HALF, 34)], as_loaded(server.port().to_be_bytes())),
                (vec![field(LOAD_WORD, 30)], as_loaded(to.octets())),
                (vec![field(LOAD_HALF, 36), Instruction(AND, registers(5, 0), 0, bits)], bits),
            ]
        }
    };
    let mut program = vec![
        Instruction(MOVE_REGISTER, registers(6, 1), 0, 0),
        Instruction(LOAD_WORD, registers(2, 1), 0, 0),
        Instruction(LOAD_WORD, registers(3, 1), 4, 0),
        Instruction(MOVE_REGISTER, registers(4, 2), 0, 0),
        Instruction(ADD, registers(4, 0), 0, HEADERS as i32),
        Instruction(JUMP_ABOVE_REGISTER, registers(4, 3), 0, 0),
    ];
    for (loads, wanted) in checks.into_iter().chain(ends) {
        program.extend(loads);
        program.push(Instruction(JUMP_OTHER, registers(5, 0), 0, wanted));
    }
    program.extend([
        Instruction(LOAD_MAP, registers(1, PSEUDO_MAP), 0, map),
        Instruction(0, 0, 0, 0),
        // The queue at which the frame came. Without a socket there, the frame goes on to the kernel.
        Instruction(LOAD_WORD, registers(2, 6), 16, 0),
        Instruction(MOVE, registers(3, 0), 0, XDP_PASS),
        Instruction(CALL, 0, 0, REDIRECT_MAP),
        Instruction(EXIT, 0, 0, 0),
        Instruction(MOVE, registers(0, 0), 0, XDP_PASS),
        Instruction(EXIT, 0, 0, 0),
    ]);
    // All jumps go to the last two instructions.
    let pass = program.len() - 2;
    for (at, instruction) in program.iter_mut().enumerate() {
        if matches!(instruction.0, JUMP_ABOVE_REGISTER | JUMP_OTHER) {
            instruction.2 = (pass - at - 1) as i16;
        }
    }
    program
}

/// Writes a program that drops one packet in so many.
fn losing(one_in: u32) -> Vec<Instruction> {
    let limit = (u32::MAX / one_in.max(1)).cast_signed();
    vec![
        Instruction(CALL, 0, 0, GET_RANDOM),
        Instruction(JUMP_LESS, registers(0, 0), 2, limit),
        Instruction(MOVE, registers(0, 0), 0, TC_NEXT),
        Instruction(EXIT, 0, 0, 0),
        Instruction(MOVE, registers(0, 0), 0, TC_DROP),
        Instruction(EXIT, 0, 0, 0),
    ]
}

fn bytes(program: &[Instruction]) -> Vec<u8> {
    let bytes = program.iter().flat_map(|Instruction(code, registers, offset, number)| {
        let ([o1, o2], [n1, n2, n3, n4]) = (offset.to_le_bytes(), number.to_le_bytes());
        [*code, *registers, o1, o2, n1, n2, n3, n4]
    });
    bytes.collect()
}

fn halves(first: u64, second: u64) -> u64 {
    first | second << 32
}

fn load(kind: u64, attach: u64, program: &[Instruction]) -> io::Result<OwnedFd> {
    let bytes = bytes(program);
    let mut words: BpfWords = [0; 16];
    (words[0], words[1], words[2]) = (halves(kind, program.len() as u64), u64::MAX, u64::MAX);
    // The kind of attachment stands behind four words of numbers, and the name.
    words[8] = halves(0, attach);
    system::bpf_descriptor(Bpf::ProgramLoad, words, &[&bytes, LICENSE])
}

/// Program that is attached, with the map of its sockets.
#[derive(Debug)]
pub(crate) struct Diversion {
    _link: OwnedFd,
    _program: OwnedFd,
    _map: OwnedFd,
}

fn step<R>(what: &str, result: io::Result<R>) -> io::Result<R> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{what}: {error}")))
}

impl Diversion {
    /// Diverts TCP that comes to a queue of an interface to a socket that is bound there.
    pub(crate) fn start(
        interface: u32,
        queue: u32,
        diverted: &Diverted,
        socket: &OwnedFd,
        mode: Mode,
    ) -> io::Result<Diversion> {
        let mut words: BpfWords = [0; 16];
        (words[0], words[1]) = (halves(MAP_XSK, 4), halves(4, u64::from(queue) + 1));
        let map = step("BPF map", system::bpf_descriptor(Bpf::MapCreate, words, &[]))?;
        let (key, value) = (queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes());
        let mut words: BpfWords = [0; 16];
        (words[0], words[1], words[2]) = (map.as_raw_fd() as u64, u64::MAX, u64::MAX);
        step("BPF map", system::bpf(Bpf::MapUpdate, words, &[&key, &value]))?;
        let program =
            step("BPF program", load(PROGRAM_XDP, ATTACH_XDP, &diverting(diverted, map.as_fd().as_raw_fd())))?;
        let mut words: BpfWords = [0; 16];
        words[0] = halves(program.as_raw_fd() as u64, interface.into());
        words[1] = halves(ATTACH_XDP, mode.flags());
        let link = step("attaching the BPF program", system::bpf_descriptor(Bpf::LinkCreate, words, &[]))?;
        Ok(Diversion { _link: link, _program: program, _map: map })
    }
}

/// Lets an interface lose one packet in so many, in both directions, until the result is dropped.
pub(crate) fn lose(interface: u32, one_in: u32) -> io::Result<Vec<OwnedFd>> {
    let links = ATTACH_TC.map(|attach| {
        let program = load(PROGRAM_TC, attach, &losing(one_in))?;
        let mut words: BpfWords = [0; 16];
        (words[0], words[1]) = (halves(program.as_raw_fd() as u64, interface.into()), attach);
        system::bpf_descriptor(Bpf::LinkCreate, words, &[])
    });
    links.into_iter().collect()
}
