//! Handlers of faults: wasmtime's, those of `preempt`, and that of the standard library, in either order.

use crate::{module, run};
use procs::Limits;

#[test]
fn placeholder() {
    assert!(run("local.get $len", Limits::default()).is_ok());
    assert!(module("").contains("memory"));
}
