use crate::child;
use procs::abi::{
    CHANNEL_VARIABLE, CONTENTS, HOST, HOST_SLEEPS, IN_MACHINE, LAYOUT, MESSAGE, MessageKind, OTHER_KERNEL, PLACE,
    SHARED_BYTES, TURN, WORKER, WORKER_SLEEPS,
};
use procs::wire::AREA_BYTES;
use procs_vm::channel::VARIABLES;

/// Bytes of the shared memory before the area's size is added.
const HEAD: usize = SHARED_BYTES - AREA_BYTES;

/// Kinds of messages that libraries know.
const INVOKE: u32 = MessageKind::Invoke as u32;
const ANSWER: u32 = MessageKind::Answer as u32;
const ABORT: u32 = MessageKind::Abort as u32;
const READY: u32 = MessageKind::Ready as u32;
const CALL: u32 = MessageKind::Call as u32;
const RETURN: u32 = MessageKind::Return as u32;
const FAIL: u32 = MessageKind::Fail as u32;

/// Asserts that sources have all of these statements.
fn assert_say(sources: &[&str], statements: &[String]) {
    for statement in statements {
        assert!(sources.iter().any(|source| source.contains(statement)), "no source says: {statement}");
    }
}

/// Returns the area's size as all sources write it.
fn area() -> String {
    assert!(AREA_BYTES.is_power_of_two());
    format!("<< {}", AREA_BYTES.ilog2())
}

/// Libraries that count the kinds, instead of naming their numbers, have them in this order.
#[test]
fn kinds_are_counted_from_one() {
    assert_eq!([INVOKE, ANSWER, ABORT, READY, CALL, RETURN, FAIL], [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_monitor_names_the_channel() {
    let named = |channel: &str| format!("{CHANNEL_VARIABLE}={channel}:{}\0", child::CHANNEL_FD);
    assert_eq!(VARIABLES, [named("shared_memory").as_bytes(), named("unix_socket").as_bytes()]);
}

#[test]
fn the_library_for_rust_agrees() {
    let sources = [
        include_str!("../../../guest/src/shared.rs"),
        include_str!("../../../guest/src/bytes.rs"),
        include_str!("../../../guest/src/worker.rs"),
    ];
    let mut statements: Vec<String> = vec![
        format!("const AREA_BYTES: usize = 1 {};", area()),
        format!("const BYTES: usize = {}_{:03} + AREA_BYTES;", HEAD / 1_000, HEAD % 1_000),
        format!("const CHANNEL_VARIABLE: &str = \"{CHANNEL_VARIABLE}\";"),
        format!("const VERSION: u32 = {LAYOUT};"),
        format!("const IN_MACHINE: u32 = {IN_MACHINE};"),
        format!("const OTHER_KERNEL: u32 = {OTHER_KERNEL};"),
        format!("const HOST: u32 = {HOST};"),
        format!("const WORKER: u32 = {WORKER};"),
    ];
    for (name, offset) in [
        ("TURN", TURN),
        ("HOST_SLEEPS", HOST_SLEEPS),
        ("WORKER_SLEEPS", WORKER_SLEEPS),
        ("PLACE", PLACE),
        ("MESSAGE", MESSAGE),
        ("CONTENTS", CONTENTS),
    ] {
        statements.push(format!("const {name}: usize = {offset};"));
    }
    for (name, kind) in [
        ("INVOKE", INVOKE),
        ("ANSWER", ANSWER),
        ("ABORT", ABORT),
        ("READY", READY),
        ("CALL", CALL),
        ("RETURN", RETURN),
        ("FAIL", FAIL),
    ] {
        statements.push(format!("const {name}: u32 = {kind};"));
    }
    assert_say(&sources, &statements);
}

#[test]
fn the_library_for_c_agrees() {
    let sources = [include_str!("../../../../sdk/c/overtake.c"), include_str!("../../../../sdk/c/overtake.h")];
    let offsets = format!(
        "enum {{ TURN = {TURN}, HOST_SLEEPS = {HOST_SLEEPS}, WORKER_SLEEPS = {WORKER_SLEEPS}, PLACE = {PLACE}, \
         MESSAGE = {MESSAGE}, CONTENTS = {CONTENTS}, "
    );
    let statements = [
        format!("#define OT_AREA_BYTES (1u {})", area()),
        format!("enum {{ SHARED_BYTES = {HEAD} + OT_AREA_BYTES }};"),
        format!("enum {{ INVOKE = {INVOKE}, ANSWER, ABORT, READY, CALL, RETURN, FAIL }};"),
        offsets,
        format!("enum {{ IN_MACHINE = {IN_MACHINE}, OTHER_KERNEL = {OTHER_KERNEL} }};"),
        format!("getenv(\"{CHANNEL_VARIABLE}\")"),
        format!("atomic_load(word(0)) != {LAYOUT})"),
        format!("atomic_store(word(TURN), {HOST});"),
        format!("while (atomic_load(word(TURN)) != {WORKER})"),
        format!("syscall(SYS_futex, word(TURN), FUTEX_WAIT, {HOST}, "),
    ];
    assert_say(&sources, &statements);
}

#[test]
fn the_library_for_python_agrees() {
    let sources = [include_str!("../../../../sdk/python/overtake.py")];
    // It sees the head as words.
    let [turn, host_sleeps, worker_sleeps, message] = [TURN, HOST_SLEEPS, WORKER_SLEEPS, MESSAGE].map(|at| at / 4);
    let statements = [
        format!("AREA_BYTES = 1 {}\n", area()),
        "_INVOKE, _ANSWER, _ABORT, _READY, _CALL, _RETURN, _FAIL = range(1, 8)\n".to_owned(),
        format!(
            "BYTES, TURN, HOST_SLEEPS, WORKER_SLEEPS, MESSAGE, CONTENTS = {HEAD} + AREA_BYTES, {turn}, {host_sleeps}, \
             {worker_sleeps}, {message}, {CONTENTS}\n"
        ),
        format!("if self.words[0] != {LAYOUT}:"),
        format!("self.words[self.TURN] = {HOST}\n"),
        format!("while self.words[self.TURN] != {WORKER}:"),
        format!("self.syscall(self.futex, ctypes.c_void_p(self.turn), 0, {HOST}, None)"),
        format!("\"{CHANNEL_VARIABLE}\""),
    ];
    assert_say(&sources, &statements);
}

#[test]
fn the_library_for_java_agrees() {
    let sources = [include_str!("../../../../sdk/java/Overtake.java")];
    let statements = [
        format!("int AREA_BYTES = 1 {};", area()),
        format!(
            "int INVOKE = {INVOKE}, ANSWER = {ANSWER}, READY = {READY}, CALL = {CALL}, RETURN = {RETURN}, \
             FAIL = {FAIL};"
        ),
        format!("int TURN = {TURN}, MESSAGE = {MESSAGE}, CONTENTS = {CONTENTS}, "),
        format!("0, {HEAD} + AREA_BYTES);"),
        format!("if (memory.getInt(0) != {LAYOUT})"),
        format!("WORDS.setVolatile(memory, TURN, {HOST});"),
        format!("while ((int) WORDS.getVolatile(memory, TURN) != {WORKER})"),
        format!("\"{CHANNEL_VARIABLE}\""),
    ];
    assert_say(&sources, &statements);
}

#[test]
fn the_libraries_for_typescript_agree() {
    let channels = [include_str!("../../../../sdk/typescript/overtake/channels.ts")];
    let statements = [
        format!(
            "const [INVOKE, ANSWER, READY, CALL, RETURN, FAIL] = [{INVOKE}, {ANSWER}, {READY}, {CALL}, {RETURN}, \
             {FAIL}];"
        ),
        format!("const [TURN, MESSAGE, CONTENTS] = [{TURN}, {MESSAGE}, {CONTENTS}];"),
        format!("if (this.u32(0) !== {LAYOUT})"),
        format!("new Writer().u32({HOST}).all(), 0, 4, TURN);"),
        format!("while (this.u32(TURN) !== {WORKER})"),
        format!("process.env.{CHANNEL_VARIABLE} "),
    ];
    assert_say(&channels, &statements);
    for (source, statement) in [
        (include_str!("../../../../sdk/typescript/overtake/wire.ts"), format!("const AREA_BYTES = 1 {};", area())),
        (include_str!("../../../../sdk/typescript/engine/engine.c"), format!("#define AREA_BYTES (1 {})\n", area())),
        (include_str!("../../../../sdk/typescript/engine/load.js"), format!("overtake_area(), 1 {});", area())),
        (
            include_str!("../../../../sdk/assemblyscript/assembly/overtake.ts"),
            format!("const AREA_BYTES: i32 = 1 {};", area()),
        ),
    ] {
        assert_say(&[source], &[statement]);
    }
}
