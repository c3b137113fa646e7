//! Tests of locks whose holders have panicked.

use crate::{Locked, LockedResult, RwLocked};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Condvar, Mutex, RwLock};
use std::time::Duration;

/// Variable that names the use of a poisoned lock that a child process tries.
const CHILD: &str = "OVERTAKE_LOCKED_CHILD";
const SIGABRT: i32 = 6;

fn poisoned() -> Mutex<u32> {
    let lock = Mutex::new(1);
    let half = catch_unwind(AssertUnwindSafe(|| {
        let mut value = lock.locked();
        *value = 2;
        panic!("on purpose");
    }));
    assert!(half.is_err() && lock.is_poisoned());
    lock
}

fn poisoned_for_readers() -> RwLock<u32> {
    let lock = RwLock::new(1);
    let half = catch_unwind(AssertUnwindSafe(|| {
        let mut value = lock.write_locked();
        *value = 2;
        panic!("on purpose");
    }));
    assert!(half.is_err() && lock.is_poisoned());
    lock
}

/// Name of a use of a poisoned lock, and the use itself.
type Use = (&'static str, fn());

/// Uses that end the process.
const ENDING: [Use; 5] = [
    ("locked", || drop(poisoned().locked())),
    ("read_locked", || drop(poisoned_for_readers().read_locked())),
    ("write_locked", || drop(poisoned_for_readers().write_locked())),
    ("wait", || {
        let (lock, changed) = (poisoned(), Condvar::new());
        drop(changed.wait_timeout(lock.locked_anyway(), Duration::ZERO).or_end_process());
    }),
    ("into_inner", || assert_eq!(poisoned().into_inner().or_end_process(), 0)),
];

/// Goal: a shared lock that a panic has poisoned ends the process and says where. Method: a child process for each way
/// to come to it, which would succeed if it went on.
#[test]
fn shared_state_that_is_half_changed_ends_the_process() {
    if let Ok(name) = std::env::var(CHILD) {
        let (_, act) = ENDING.into_iter().find(|(own, _)| *own == name).expect("a use");
        return act();
    }
    for (name, _) in ENDING {
        let test = "tests::shared_state_that_is_half_changed_ends_the_process";
        let program = std::env::current_exe().expect("the path of this program");
        let output = Command::new(program).args(["--exact", test]).env(CHILD, name).output().expect("a child");
        assert_eq!(output.status.signal(), Some(SIGABRT), "{name}: {output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.starts_with("a panic has left shared state half changed: "));
        let line = line.unwrap_or_else(|| panic!("{name} says nothing: {text}"));
        assert!(line.contains("tests.rs:") && line.ends_with(", the process ends"), "{line}");
    }
}

#[test]
fn state_of_one_alone_is_locked_after_its_panic() {
    let lock = poisoned();
    assert_eq!(*lock.locked_anyway(), 2);
    assert_eq!(lock.try_locked_anyway().map(|value| *value), Some(2));
    let held = lock.locked_anyway();
    assert!(lock.try_locked_anyway().is_none());
    let (held, _) = Condvar::new().wait_timeout(held, Duration::ZERO).anyway();
    drop(held);
    assert_eq!(lock.into_inner().anyway(), 2);
    let lock = poisoned_for_readers();
    assert_eq!(*lock.read_locked_anyway(), 2);
    *lock.write_locked_anyway() = 3;
    assert_eq!(lock.into_inner().anyway(), 3);
}

#[test]
fn a_lock_without_a_panic_is_locked() {
    let lock = Mutex::new(1);
    *lock.locked() += 1;
    assert_eq!(lock.into_inner().or_end_process(), 2);
    let lock = RwLock::new(1);
    *lock.write_locked() += 1;
    assert_eq!(*lock.read_locked(), 2);
}
