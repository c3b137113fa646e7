//! Modules that ask much of the compiler: those above its limits are refused, and those just below them are compiled in
//! a bounded time.

use crate::{load_bytes, tenant};
use statement::error::{Cancellation, SqlError, SqlResult};
use statement::pulse::{self, Watch};
use std::sync::Arc;
use std::time::Instant;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, ElementSection, Elements, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, Instruction as I, MemArg, MemorySection, MemoryType, Module, RefType,
    TableSection, TableType, TypeSection, ValType,
};

/// Address of the stack's bottom.
const AT: MemArg = MemArg { offset: 0, align: 2, memory_index: 0 };

/// Parts of a module.
#[derive(Default)]
struct Parts {
    /// Numbers of parameters and results of types beyond the first: none and one.
    types: Vec<(usize, usize)>,
    bodies: Vec<(u32, Function)>,
    globals: Option<GlobalSection>,
    data: Option<DataSection>,
    /// True if all functions are in a segment of elements.
    has_elements: bool,
}

impl Parts {
    fn bytes(&self) -> Vec<u8> {
        let (mut types, mut functions, mut code) = (TypeSection::new(), FunctionSection::new(), CodeSection::new());
        types.ty().function([], [ValType::I32]);
        types.ty().function([ValType::I32; 2], [ValType::I32]);
        for (parameters, results) in &self.types {
            types.ty().function(vec![ValType::I32; *parameters], vec![ValType::I32; *results]);
        }
        functions.function(0);
        code.function(&entry());
        functions.function(1);
        code.function(&entry());
        let count = 2 + self.bodies.len() as u32;
        for (of, body) in &self.bodies {
            functions.function(*of);
            code.function(body);
        }
        let (mut tables, mut memories) = (TableSection::new(), MemorySection::new());
        tables.table(TableType {
            element_type: RefType::FUNCREF,
            table64: false,
            minimum: 10_000,
            maximum: None,
            shared: false,
        });
        memories.memory(MemoryType {
            minimum: 17,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        let mut exports = ExportSection::new();
        exports.export("memory", ExportKind::Memory, 0);
        exports.export("overtake_area", ExportKind::Func, 0);
        exports.export("overtake_invoke", ExportKind::Func, 1);
        let mut elements = ElementSection::new();
        if self.has_elements {
            let all: Vec<u32> = (0..count).collect();
            elements.passive(Elements::Functions(all.into()));
        }
        let mut module = Module::new();
        module.section(&types).section(&functions).section(&tables).section(&memories);
        if let Some(globals) = &self.globals {
            module.section(globals);
        }
        module.section(&exports).section(&elements).section(&code);
        if let Some(data) = &self.data {
            module.section(data);
        }
        module.finish()
    }
}

fn entry() -> Function {
    body(0, |f| {
        f.instruction(&I::I32Const(0));
    })
}

fn body(locals: u32, code: impl FnOnce(&mut Function)) -> Function {
    let mut function = Function::new([(locals, ValType::I32)]);
    code(&mut function);
    function.instruction(&I::End);
    function
}

/// Sets all locals to values that the compiler does not know.
fn set_all(f: &mut Function, locals: u32) {
    for at in 0..locals {
        f.instruction(&I::I32Const(at as i32 * 4)).instruction(&I::I32Load(AT)).instruction(&I::LocalSet(at));
    }
}

/// Stores all locals.
fn use_all(f: &mut Function, locals: u32) {
    for at in 0..locals {
        f.instruction(&I::I32Const(at as i32 * 4)).instruction(&I::LocalGet(at)).instruction(&I::I32Store(AT));
    }
}

fn loads(f: &mut Function, count: u32) {
    for at in 0..count {
        f.instruction(&I::I32Const(at as i32 % 1_000_000)).instruction(&I::I32Load(AT));
    }
}

fn one(locals: u32, code: impl FnOnce(&mut Function)) -> Vec<u8> {
    let body = body(locals, |f| {
        code(f);
        f.instruction(&I::I32Const(0));
    });
    Parts { bodies: vec![(0, body)], ..Parts::default() }.bytes()
}

/// Returns a module of a kind, with two sizes.
fn make(kind: &str, a: u32, b: u32) -> Vec<u8> {
    match kind {
        // Locals that live through a chain of loops.
        "loops" => one(a, |f| {
            set_all(f, a);
            for _ in 0..b {
                f.instruction(&I::Loop(BlockType::Empty)).instruction(&I::LocalGet(0)).instruction(&I::BrIf(0));
                f.instruction(&I::End);
            }
            use_all(f, a);
        }),
        // The same, each loop within the one before.
        "nested_loops" => one(a, |f| {
            set_all(f, a);
            for _ in 0..b {
                f.instruction(&I::Loop(BlockType::Empty)).instruction(&I::LocalGet(0)).instruction(&I::BrIf(0));
            }
            use_all(f, a);
            for _ in 0..b {
                f.instruction(&I::End);
            }
        }),
        // Locals that live through a chain of decisions, of which each sets one.
        "ifs" => one(a, |f| {
            set_all(f, a);
            for at in 0..b {
                f.instruction(&I::LocalGet(at % a)).instruction(&I::If(BlockType::Empty));
                f.instruction(&I::I32Const(at as i32))
                    .instruction(&I::I32Load(AT))
                    .instruction(&I::LocalSet((at * 7) % a));
                f.instruction(&I::End);
            }
            use_all(f, a);
        }),
        "br_ifs" => one(a, |f| {
            set_all(f, a);
            f.instruction(&I::Block(BlockType::Empty));
            for at in 0..b {
                f.instruction(&I::LocalGet(at % a)).instruction(&I::BrIf(0));
                f.instruction(&I::I32Const(at as i32))
                    .instruction(&I::I32Load(AT))
                    .instruction(&I::LocalSet((at * 7) % a));
            }
            f.instruction(&I::End);
            use_all(f, a);
        }),
        "br_table_outer" => one(a, |f| {
            set_all(f, a);
            f.instruction(&I::Block(BlockType::Empty));
            f.instruction(&I::LocalGet(0)).instruction(&I::If(BlockType::Empty));
            f.instruction(&I::LocalGet(0)).instruction(&I::BrTable(vec![1; b as usize].into(), 1)).instruction(&I::End);
            set_all(f, a);
            f.instruction(&I::End);
            use_all(f, a);
        }),
        "live_loops" => one(1, |f| {
            loads(f, a);
            for _ in 0..b {
                f.instruction(&I::Loop(BlockType::Empty)).instruction(&I::LocalGet(0)).instruction(&I::BrIf(0));
                f.instruction(&I::End);
            }
            for _ in 0..a {
                f.instruction(&I::LocalSet(0));
                f.instruction(&I::I32Const(0)).instruction(&I::LocalGet(0)).instruction(&I::I32Store(AT));
            }
        }),
        // Straight code of several kinds.
        "adds" => one(1, |f| {
            f.instruction(&I::LocalGet(0));
            for at in 0..a {
                f.instruction(&I::I32Const(at as i32 * 4)).instruction(&I::I32Load(AT)).instruction(&I::I32Add);
            }
            f.instruction(&I::LocalSet(0));
        }),
        "chain" => one(2, |f| {
            f.instruction(&I::I32Const(0)).instruction(&I::I32Load(AT)).instruction(&I::LocalSet(1));
            f.instruction(&I::LocalGet(0));
            for at in 0..a {
                f.instruction(&I::LocalGet(1));
                f.instruction(
                    &[
                        I::I32Add,
                        I::I32Xor,
                        I::I32Mul,
                        I::I32Sub,
                        I::I32Or,
                        I::I32Shl,
                        I::I32And,
                        I::I32Rotl,
                        I::I32LtS,
                        I::I32Eq,
                    ][(at * 7 + at / 13) as usize % 10],
                );
            }
            f.instruction(&I::LocalSet(0))
                .instruction(&I::I32Const(0))
                .instruction(&I::LocalGet(0))
                .instruction(&I::I32Store(AT));
        }),
        "f32" => one(1, |f| {
            f.instruction(&I::I32Const(0)).instruction(&I::F32Load(AT));
            for at in 0..a {
                f.instruction(&[I::F32Sqrt, I::F32Nearest, I::F32Neg, I::F32Abs][at as usize % (b.max(1) as usize)]);
            }
            f.instruction(&I::F32Const(0.0.into())).instruction(&I::F32Eq).instruction(&I::LocalSet(0));
            f.instruction(&I::I32Const(0)).instruction(&I::LocalGet(0)).instruction(&I::I32Store(AT));
        }),
        "nops" => one(1, |f| {
            for _ in 0..a {
                f.instruction(&I::Nop);
            }
            for _ in 0..b {
                f.instruction(&I::F32Const(0.0.into())).instruction(&I::F32Sqrt).instruction(&I::Drop);
            }
        }),
        "deep" => one(1, |f| {
            loads(f, a);
            for _ in 1..a {
                f.instruction(&I::I32Add);
            }
            f.instruction(&I::LocalSet(0));
            f.instruction(&I::I32Const(0)).instruction(&I::LocalGet(0)).instruction(&I::I32Store(AT));
        }),
        "indirect" => one(1, |f| {
            for _ in 0..a {
                f.instruction(&I::LocalGet(0)).instruction(&I::CallIndirect { type_index: 0, table_index: 0 });
                f.instruction(&I::LocalSet(0));
            }
        }),
        // Calls and blocks of many values.
        "wide_calls" => Parts {
            types: vec![(a as usize, a as usize)],
            bodies: vec![(
                2,
                body(0, |f| {
                    for at in 0..a {
                        f.instruction(&I::LocalGet(at));
                    }
                    for _ in 0..b {
                        f.instruction(&I::Call(2));
                    }
                }),
            )],
            ..Parts::default()
        }
        .bytes(),
        "wide_blocks" => Parts {
            types: vec![(a as usize, a as usize)],
            bodies: vec![(
                2,
                body(0, |f| {
                    for at in 0..a {
                        f.instruction(&I::LocalGet(at));
                    }
                    for _ in 0..b {
                        let of = BlockType::FunctionType(2);
                        f.instruction(&I::Block(of));
                        f.instruction(&I::End);
                    }
                }),
            )],
            ..Parts::default()
        }
        .bytes(),
        // Many functions.
        "functions" | "functions_used" => Parts {
            bodies: (0..a)
                .map(|_| {
                    (
                        0,
                        body(b, |f| {
                            f.instruction(&I::I32Const(0));
                        }),
                    )
                })
                .collect(),
            has_elements: kind == "functions_used",
            ..Parts::default()
        }
        .bytes(),
        "functions_wide" => Parts {
            types: vec![(b as usize, b as usize)],
            bodies: (0..a)
                .map(|_| {
                    (
                        2,
                        body(0, |f| {
                            f.instruction(&I::Unreachable);
                        }),
                    )
                })
                .collect(),
            has_elements: true,
            ..Parts::default()
        }
        .bytes(),
        "functions_of" => {
            let bodies = (0..a).map(|_| {
                (
                    0,
                    body(1, |f| {
                        f.instruction(&I::LocalGet(0));
                        for at in 0..b {
                            f.instruction(&I::I32Const(at as i32 * 4))
                                .instruction(&I::I32Load(AT))
                                .instruction(&I::I32Add);
                        }
                    }),
                )
            });
            Parts { bodies: bodies.collect(), ..Parts::default() }.bytes()
        }
        "types" => {
            Parts { types: (0..a).map(|at| ((at % b) as usize, (at / b % b) as usize)).collect(), ..Parts::default() }
                .bytes()
        }
        _ => panic!("{kind}"),
    }
}

/// Returns a module with globals, whose initial values are sums of so many numbers.
fn with_globals(globals: u32, count: u32) -> Vec<u8> {
    let value = (0..count).fold(ConstExpr::i32_const(0), |sum, _| sum.with_i32_const(1).with_i32_add());
    let mut section = GlobalSection::new();
    for _ in 0..globals {
        section.global(GlobalType { val_type: ValType::I32, mutable: true, shared: false }, &value);
    }
    Parts { globals: Some(section), ..Parts::default() }.bytes()
}

/// Returns a module with segments of a byte that are far from each other.
fn with_data(count: u32) -> Vec<u8> {
    let mut section = DataSection::new();
    for at in 0..count {
        section.active(0, &ConstExpr::i32_const((at * 11_000 % 1_000_000) as i32), [1]);
    }
    Parts { data: Some(section), ..Parts::default() }.bytes()
}

/// Returns the greatest resident memory of this process in MB.
fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a greatest size");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

fn refusal(bytes: Vec<u8>) -> SqlError {
    load_bytes(bytes).map(drop).expect_err("too complex")
}

pub fn what_is_too_complex_to_compile_is_refused() {
    // The compiler would take from seconds to minutes, or gigabytes, for each of them.
    for (kind, a, b) in [
        ("loops", 1_000, 2_000),
        ("nested_loops", 1_000, 2_000),
        ("ifs", 10, 10_000),
        ("br_ifs", 12, 10_000),
        ("br_ifs", 3_000, 3_000),
        ("br_table_outer", 1_000, 20_000),
        ("live_loops", 5_000, 5_000),
        ("deep", 20_000, 0),
        ("f32", 200_000, 0),
        ("chain", 5_000_000, 0),
        ("indirect", 20_000, 0),
        ("wide_calls", 100, 10_000),
        ("wide_blocks", 2, 25_000),
    ] {
        let error = refusal(make(kind, a, b));
        assert_eq!(
            (error.state().0, error.message()),
            ("54000", "a function of the wasm module is too complex to compile")
        );
        let detail = error.detail_text().expect("a detail");
        assert!(
            detail.starts_with("Function 2 has a weight of ") && detail.ends_with("; the limit is 1500000."),
            "{detail}"
        );
    }
    for (kind, a, b) in [
        ("functions_used", 60_000, 0),
        ("functions", 10_000, 50_000),
        ("functions_wide", 10_000, 100),
        ("functions_of", 10_000, 200),
        ("types", 100_000, 90),
    ] {
        let error = refusal(make(kind, a, b));
        assert_eq!(
            (error.state().0, error.message()),
            ("54000", "the wasm module is too complex to compile"),
            "{kind}"
        );
        let detail = error.detail_text().expect("a detail");
        assert!(
            detail.starts_with("Its weight is at least ") && detail.ends_with("; the limit is 10000000."),
            "{detail}"
        );
    }
    // A few initial values take no time, many become a function that takes more than linear time.
    load_bytes(with_globals(1, 1_000)).expect("a short expression");
    load_bytes(with_globals(1_000, 1)).expect("a few globals");
    load_bytes(with_data(1_000)).expect("a few segments");
    for bytes in [with_globals(1, 2_000_000), with_globals(100_000, 1), with_data(90_000)] {
        let error = refusal(bytes);
        assert_eq!((error.state().0, error.message()), ("54000", "the wasm module is too complex to compile"));
        let detail = error.detail_text().expect("a detail");
        assert!(detail.starts_with("Its initial values have a weight of "), "{detail}");
    }
    let error = refusal(make("functions_wide", 1, 101));
    assert_eq!(error.state().0, "54000");
    assert_eq!(error.detail_text(), Some("Type 2 has 101 parameters or results; the limit is 100."));
}

/// Goal: code for urgent contexts, with its checks, has the same limits, although it takes the compiler longer.
pub fn code_for_urgent_contexts_weighs_more() {
    let program = load_bytes(make("adds", 50_000, 0)).expect("a module");
    let error = program.compile_for_urgent(&tenant(1)).expect_err("too complex");
    assert_eq!(
        (error.state().0, error.message()),
        ("54000", "a function of the wasm module is too complex to compile")
    );
    assert!(!program.is_ready_for_urgent());
    load_bytes(make("adds", 5_000, 0)).expect("a module").compile_for_urgent(&tenant(1)).expect("a smaller one");
}

/// Prints time and memory for modules just below the limits.
pub fn the_heaviest_modules_are_compiled_in_bounded_memory() {
    crate::runtime();
    for (kind, a, b) in [
        ("loops", 1_000, 550),
        ("ifs", 14, 3_300),
        ("br_ifs", 1_000, 1_150),
        ("chain", 480_000, 0),
        ("f32", 56_000, 0),
        ("functions_used", 20_000, 0),
    ] {
        let bytes = make(kind, a, b);
        let (len, before, began) = (bytes.len(), resident_mb(), Instant::now());
        load_bytes(bytes).expect(kind);
        let (seconds, more) = (began.elapsed().as_secs_f64(), resident_mb() - before);
        println!("{kind} {a} {b}: {len} bytes, {seconds:.2} s, {more} MB more than {before} MB");
        assert!(more < 600, "{kind}: {more} MB");
    }
}

/// Watch of a statement that has been cancelled.
struct Cancelled;

impl Watch for Cancelled {
    fn look(&self) -> SqlResult<()> {
        Err(SqlError::cancelled(Cancellation::UserRequest))
    }
}

/// Goal: weighing ends with its statement. It would find that the module is too complex only at its end.
pub fn weighing_ends_with_its_statement() {
    let bytes = make("nops", 1_000_000, 200_000);
    assert_eq!(refusal(bytes.clone()).state().0, "54000");
    let error = pulse::during(Arc::new(Cancelled), || refusal(bytes));
    assert_eq!(error.state().0, "57014");
}

pub fn what_is_no_module_is_refused_as_before() {
    let bytes = make("ifs", 10, 3);
    load_bytes(bytes.clone()).expect("a module");
    for len in 0..bytes.len() - 1 {
        let error = load_bytes(bytes[..len].to_vec()).map(drop).expect_err("a part of a module");
        assert_eq!(error.state().0, "42P13", "{len}: {}", error.message());
    }
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        if let Err(error) = load_bytes(bytes) {
            assert!(["42P13", "54000"].contains(&error.state().0), "{at}: {}", error.message());
        }
    }
    let component = b"\0asm\x0d\0\x01\0".to_vec();
    assert_eq!(load_bytes(component).map(drop).expect_err("a component").state().0, "42P13");
}
