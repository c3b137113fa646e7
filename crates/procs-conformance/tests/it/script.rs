//! Scripts: an interpreter with its libraries within the container.

use crate::load;
use procs::level::ELF;
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

/// Answers each invocation with its arguments, after a notice with the error for a write behind the shared memory. It
/// reads and writes the memory as a file, as runtimes do that cannot map it: Node.js.
const SHARED_SCRIPT: &str = r#"#!/usr/bin/python3
import errno, os, struct, time
name, fd = os.environ["OVERTAKE_CHANNEL"].split(":")
assert name == "shared_memory"
fd = int(fd)
assert struct.unpack("<I", os.pread(fd, 4, 0)) == (2,)
def send(kind, contents):
    os.pwrite(fd, contents, 96)
    os.pwrite(fd, struct.pack("<III", kind, 0, len(contents)), 80)
    os.pwrite(fd, struct.pack("<I", 0), 64)
def receive():
    while os.pread(fd, 4, 64) != struct.pack("<I", 1):
        time.sleep(0.0001)
    kind, entry, length = struct.unpack("<III", os.pread(fd, 12, 80))
    return kind, os.pread(fd, length, 96)
send(4, b"")
while True:
    kind, contents = receive()
    try:
        text = b"%d bytes" % os.pwrite(fd, b"more", os.fstat(fd).st_size)
    except OSError as error:
        text = errno.errorcode[error.errno].encode()
    send(5, struct.pack("<BBI", 8, 3, len(text)) + text)
    receive()
    send(6, contents)
"#;

fn has_python() -> bool {
    let has = Path::new("/usr/bin/python3").exists();
    if !has {
        println!("SKIPPED: there is no /usr/bin/python3");
    }
    has
}

/// Goal: code that cannot map its shared memory can write it, and nothing behind it.
#[test]
fn shared_memory_is_written_as_a_file() {
    if !has_python() {
        return;
    }
    for (level, refusal) in [(Level::Process, "EPERM"), (Level::Container, "EFBIG")] {
        let Some(program) = load(level, SHARED_SCRIPT.as_bytes()) else { continue };
        let manifest = Arc::new(Manifest::parse("overtake 1\nentry any\n").expect("a manifest"));
        let subject = Subject::new(level, Channel::SharedMemory, &program, &manifest);
        let mut engine = engine(Kind::Text.into());
        let mut instance = subject.open(&Limits::default()).expect("a worker");
        let types = (Kind::Text.into(), Kind::Text.into());
        // Several pages.
        let text = Datum::text("x".repeat(100_000));
        let rows =
            subject.invoke(&mut *instance, "any", std::slice::from_ref(&text), types, Limits::default(), &mut engine);
        assert_eq!(rows.expect("a result"), [[text]], "{level}");
        assert_eq!(engine.notices[0].1, refusal, "{level}");
    }
}

#[test]
fn a_script_is_a_worker() {
    if !has_python() {
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

/// Goal: an executable that the kernel refuses is an invalid definition, not a lack of resources.
#[test]
fn an_executable_without_its_interpreter_is_refused() {
    let mut cut = ELF.to_vec();
    cut.extend([2, 1, 1]);
    cut.resize(64, 0);
    cut[16..20].copy_from_slice(&[2, 0, 62, 0]);
    for level in [Level::Process, Level::Container] {
        for bytes in [&b"#!/no/such/interpreter\n"[..], b"#!/etc\n", &cut] {
            let Some(program) = load(level, bytes) else { continue };
            let manifest = Arc::new(Manifest::parse("overtake 1\nentry any\n").expect("a manifest"));
            let subject = Subject::new(level, Channel::UnixSocket, &program, &manifest);
            let error = subject.open(&Limits::default()).err().expect("no worker");
            assert_eq!(error.state().0, "42P13", "{level}: {error}");
        }
    }
}
