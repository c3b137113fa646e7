//! Scripts: an interpreter with its libraries within the container.

use crate::load;
use procs::{Channel, Level, Limits, Manifest};
use procs_conformance::{Subject, engine};
use std::path::Path;
use std::sync::Arc;
use types::Kind;
use types::datum::Datum;

/// Answers each invocation with its arguments, after a notice.
const SCRIPT: &str = r#"#!/usr/bin/python3
import os, socket, struct
name, fd = os.environ["OVERTAKE_CHANNEL"].split(":")
channel = socket.socket(fileno=int(fd))
def send(kind, contents):
    channel.sendall(struct.pack("<III", kind, 0, len(contents)) + contents)
def receive():
    head = channel.recv(12, socket.MSG_WAITALL)
    kind, entry, length = struct.unpack("<III", head)
    return kind, channel.recv(length, socket.MSG_WAITALL) if length else b""
send(4, b"")
while True:
    kind, contents = receive()
    text = ("uid %d, files %s" % (os.getuid(), sorted(os.listdir("/")))).encode()
    send(5, struct.pack("<BBI", 8, 3, len(text)) + text)
    receive()
    send(6, contents)
"#;

#[test]
fn a_script_is_a_worker() {
    if !Path::new("/usr/bin/python3").exists() {
        println!("SKIPPED: there is no /usr/bin/python3");
        return;
    }
    for level in [Level::Process, Level::Container] {
        let Some(program) = load(level, SCRIPT.as_bytes()) else { continue };
        let manifest = Arc::new(Manifest::parse("overtake 1\nentry any\n").expect("a manifest"));
        let subject = Subject::new(level, Channel::UnixSocket, &program, &manifest);
        let mut engine = engine(Kind::Int8.into());
        let mut instance = subject.open(&Limits::default()).expect("a worker");
        let types = (Kind::Int8.into(), Kind::Int8.into());
        let rows = subject.invoke(&mut *instance, "any", &[Datum::Int8(5)], types, Limits::default(), &mut engine);
        assert_eq!(rows.expect("a result"), [[Datum::Int8(5)]]);
        let told = &engine.notices[0].1;
        if level == Level::Container {
            assert!(told.starts_with("uid 65534, files ['bin', 'dev', 'etc', "), "{told}");
            assert!(!told.contains("home") && !told.contains("proc") && !told.contains("root"), "{told}");
        }
    }
}
