//! The end by Ctrl-C, each in a process of its own.

use std::net::TcpListener;
use std::process::{self, Command};
use std::sync::Arc;

use demo::{Shutdown, shutdown_on_ctrl_c};

use crate::fake::Fake;

fn interrupt_myself() {
    let sent = Command::new("kill").args(["-INT", &process::id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Goal: Ctrl-C ends the server and the program goes on to its own end. Method: a process that interrupts itself.
pub fn one_ends_it_cleanly() {
    let output = testkit::run_case("ctrl_c::one");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("served and ended"), "{output:?}");
}

pub fn one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shutdown = Shutdown::new();
    shutdown_on_ctrl_c(&shutdown).unwrap();
    interrupt_myself();
    demo::serve(listener, Arc::new(Fake::new()), shutdown).unwrap();
    println!("served and ended");
}

/// Goal: a program that does not come to its end after Ctrl-C is ended by the next. Method: one that only interrupts itself.
pub fn a_second_ends_it_at_once() {
    let output = testkit::run_case("ctrl_c::many");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
}

pub fn many() {
    shutdown_on_ctrl_c(&Shutdown::new()).unwrap();
    loop {
        interrupt_myself();
    }
}
