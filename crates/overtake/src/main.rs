//! The binary `overtake`.
//!
//! **Invariant:** every allocation of this process goes through [`preempt::Heap`], which is checked before anything
//! else happens; without it the first interrupt inside the allocator would corrupt memory.

use std::process::ExitCode;

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() -> ExitCode {
    overtake::run_command_line()
}
