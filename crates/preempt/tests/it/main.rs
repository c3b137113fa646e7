//! Integration tests of `preempt`.
fn main() {}
