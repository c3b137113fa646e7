//! Loading of an image: its segments, and the stack with which it begins.

use crate::image::{Image, Segment};
use crate::kernel;
use crate::layout::PAGE;
use crate::layout::channel::VARIABLES;
use crate::memory::Guest;
use crate::pages::{Rights, pages_of};

/// Place where the code begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Address of its first instruction.
    pub entry: u64,
    /// Stack pointer.
    pub stack: u64,
}

const NO_ROOM: &str = "the image does not fit into the memory";

/// Name and environment of the code.
const ARGUMENTS: [&[u8]; 1] = [b"overtake-worker\0"];
const PATH: &[u8] = b"PATH=/usr/local/bin:/usr/bin:/bin\0";
const LANGUAGE: &[u8] = b"LANG=C.UTF-8\0";
const SHARED: [&[u8]; 3] = [VARIABLES[0], PATH, LANGUAGE];
const SOCKET: [&[u8]; 3] = [VARIABLES[1], PATH, LANGUAGE];
/// User and group of the code.
pub const NOBODY: u64 = 65_534;
/// Bytes of random data at the beginning.
const RANDOM_BYTES: u64 = 16;

/// Loads an image.
///
/// # Errors
/// The reason if it is none, or does not fit.
pub fn load(file: &[u8], guest: &mut Guest) -> Result<Start, &'static str> {
    let image = Image::read(file)?;
    let mut end = 0;
    for at in 0..image.headers {
        let Some(segment) = image.segment(at)? else { continue };
        load_segment(&segment, guest).ok_or(NO_ROOM)?;
        end = end.max(segment.address + segment.len);
    }
    let heap = end.checked_next_multiple_of(PAGE).ok_or(NO_ROOM)?;
    guest.heap = (heap, heap);
    let stack = guest.layout.stack;
    let pages = pages_of(stack, guest.layout.memory - stack).ok_or(NO_ROOM)?;
    guest.pages().take(pages, Rights::DATA).ok_or(NO_ROOM)?;
    // A page below the stack that nobody can use.
    guest.pages().take((stack / PAGE - 1, 1), Rights::default()).ok_or(NO_ROOM)?;
    let stack = build_stack(&image, guest).ok_or(NO_ROOM)?;
    Ok(Start { entry: image.entry, stack })
}

fn load_segment(segment: &Segment<'_>, guest: &mut Guest) -> Option<()> {
    let rights = Rights { read: true, write: segment.flags & 2 != 0, execute: segment.flags & 1 != 0 };
    // Two segments may meet in one page.
    guest.pages().extend(pages_of(segment.address, segment.len)?, rights)?;
    let place = guest.range(segment.address, segment.contents.len() as u64)?;
    place.copy_from_slice(segment.contents);
    Some(())
}

/// Stack that grows downwards.
struct Stack<'g> {
    guest: &'g mut Guest,
    top: u64,
}

impl Stack<'_> {
    /// Puts bytes onto the stack. Returns their address.
    fn push(&mut self, bytes: &[u8]) -> Option<u64> {
        self.top = self.top.checked_sub(bytes.len() as u64)?;
        self.guest.range(self.top, bytes.len() as u64)?.copy_from_slice(bytes);
        Some(self.top)
    }

    fn push_word(&mut self, word: u64) -> Option<()> {
        self.push(&word.to_le_bytes()).map(drop)
    }
}

/// Builds the stack that a program of Linux finds. Returns its top.
fn build_stack(image: &Image<'_>, guest: &mut Guest) -> Option<u64> {
    let variables = if guest.channel.is_some() { SHARED } else { SOCKET };
    let top = guest.layout.memory - RANDOM_BYTES;
    kernel::random(guest.range(top, RANDOM_BYTES)?);
    let random = top;
    let mut stack = Stack { guest, top };
    let name = stack.push(ARGUMENTS[0])?;
    let mut places = [0; 3];
    for (place, variable) in places.iter_mut().zip(variables) {
        *place = stack.push(variable)?;
    }
    // Types and values of the auxiliary vector.
    let vector = [
        (3, image.headers_address()),
        (4, 56),
        (5, u64::from(image.headers)),
        (6, PAGE),
        (9, image.entry),
        (11, NOBODY),
        (12, NOBODY),
        (13, NOBODY),
        (14, NOBODY),
        (17, 100),
        (23, 0),
        (25, random),
        (31, name),
        (0, 0),
    ];
    // Number of arguments, their pointers, those of the environment, two null pointers, and the vector: an even number
    // of words leaves the top aligned.
    let words = 1 + ARGUMENTS.len() + 1 + places.len() + 1 + 2 * vector.len();
    stack.top = stack.top / 16 * 16;
    if !words.is_multiple_of(2) {
        stack.push_word(0)?;
    }
    for (kind, value) in vector.into_iter().rev() {
        stack.push_word(value)?;
        stack.push_word(kind)?;
    }
    stack.push_word(0)?;
    for place in places.into_iter().rev() {
        stack.push_word(place)?;
    }
    stack.push_word(0)?;
    stack.push_word(name)?;
    stack.push_word(ARGUMENTS.len() as u64)?;
    Some(stack.top)
}
