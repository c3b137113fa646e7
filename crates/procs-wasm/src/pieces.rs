//! Long operations on memory, cut into pieces.
//!
//! `memory.fill`, `memory.copy` and `memory.init` are calls of a library function, which look at no epoch: to fill 1 GB
//! takes a second. So before a module is compiled, they become calls of functions that are appended to it. Those do
//! the same in a loop, and compiled code reads the epoch at its back edge. Operations on tables stay as they are: a
//! table has at most [`TABLE_MAX`](crate::state::TABLE_MAX) elements.
//!
//! **Invariant:** a module computes the same as before. Bounds are checked as a whole before anything is written: what
//! is out of bounds is left to the original operation, which traps. Copies that overlap are cut in the direction in
//! which no piece overwrites the source of a later one. Only valid modules are rewritten, so an index that is beyond a
//! module's functions or types never means an appended one.

use std::ops::Range;
use wasm_encoder::{BlockType, CodeSection, Encode, Function, FunctionSection, Instruction, RawSection, SectionId};
use wasmparser::{BinaryReaderError, DataKind, Encoding, Operator, Parser, Payload, TypeRef};
use wasmtime::{Engine, Module};

/// Greatest number of bytes of an operation. The first touch of so much memory takes less than an epoch.
const PIECE_BYTES: u32 = 256 << 10;
/// Binary logarithm of the size of a page.
const PAGE_BITS: i64 = 16;

/// Compiles a module whose operations on memory are short.
pub(crate) fn compile(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Module> {
    // What cannot be read has no pieces; the compiler says why it is refused.
    match cut(bytes).ok().flatten() {
        Some(module) => {
            Module::validate(engine, bytes)?;
            Module::from_binary(engine, &module)
        }
        None => Module::from_binary(engine, bytes),
    }
}

/// Operation that may be long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Long {
    Fill,
    Copy,
    /// Index of the segment and its length.
    Init(u32, u32),
}

/// Place of an operation in a module.
struct Found {
    at: Range<usize>,
    long: Long,
}

/// Sections, types and long operations of a module that was read.
#[derive(Default)]
struct Layout {
    /// Ids of the sections and their places, without ids and lengths.
    sections: Vec<(u8, Range<usize>)>,
    types: u32,
    functions: u32,
    /// Types of the module's own functions.
    own: Vec<u32>,
    bodies: Vec<Range<usize>>,
    found: Vec<Found>,
    /// Lengths of segments that are not active.
    segments: Vec<Option<u32>>,
}

/// Returns the module with functions for its long operations, or `None` if it has no such operation.
fn cut(bytes: &[u8]) -> Result<Option<Vec<u8>>, BinaryReaderError> {
    let mut layout = read(bytes)?;
    let segments = std::mem::take(&mut layout.segments);
    layout.found.retain_mut(|found| match &mut found.long {
        Long::Fill | Long::Copy => true,
        Long::Init(segment, len) => {
            *len = segments.get(*segment as usize).copied().flatten().unwrap_or(0);
            PIECE_BYTES < *len
        }
    });
    let mut kinds: Vec<Long> = Vec::new();
    for found in &layout.found {
        if !kinds.contains(&found.long) {
            kinds.push(found.long);
        }
    }
    Ok((!kinds.is_empty()).then(|| write(bytes, &layout, &kinds)))
}

fn read(bytes: &[u8]) -> Result<Layout, BinaryReaderError> {
    let mut layout = Layout::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload?;
        // Hints about code name its offsets.
        let is_hint = matches!(&payload, Payload::CustomSection(custom) if custom.name().starts_with("metadata.code."));
        if let Some(section) = payload.as_section().filter(|_| !is_hint) {
            layout.sections.push(section);
        }
        match payload {
            Payload::Version { encoding: Encoding::Component, .. } => return Ok(Layout::default()),
            Payload::TypeSection(groups) => {
                for group in groups {
                    layout.types += group?.types().len() as u32;
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    layout.functions += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                }
            }
            Payload::FunctionSection(functions) => {
                layout.own = functions.into_iter().collect::<Result<_, _>>()?;
                layout.functions += layout.own.len() as u32;
            }
            Payload::DataSection(segments) => {
                for segment in segments {
                    let segment = segment?;
                    let is_passive = matches!(segment.kind, DataKind::Passive);
                    layout.segments.push(is_passive.then_some(segment.data.len() as u32));
                }
            }
            Payload::CodeSectionEntry(body) => {
                layout.bodies.push(body.range());
                let mut known = None;
                let mut operators = body.get_operators_reader()?;
                while !operators.eof() {
                    let from = operators.original_position();
                    let operator = operators.read()?;
                    let long = match &operator {
                        Operator::MemoryFill { mem: 0 } => Some(Long::Fill),
                        Operator::MemoryCopy { dst_mem: 0, src_mem: 0 } => Some(Long::Copy),
                        Operator::MemoryInit { data_index, mem: 0 } => Some(Long::Init(*data_index, 0)),
                        _ => None,
                    };
                    // A length that is known to be short needs no function.
                    if let Some(long) = long.filter(|_| known.is_none_or(|len| PIECE_BYTES < len)) {
                        layout.found.push(Found { at: from..operators.original_position(), long });
                    }
                    known = match operator {
                        Operator::I32Const { value } => Some(value as u32),
                        _ => None,
                    };
                }
            }
            _ => {}
        }
    }
    Ok(layout)
}

fn write(bytes: &[u8], layout: &Layout, kinds: &[Long]) -> Vec<u8> {
    let mut module = wasm_encoder::Module::new();
    for (id, range) in &layout.sections {
        let contents = &bytes[range.clone()];
        match *id {
            id if id == SectionId::Type as u8 => {
                module.section(&RawSection { id, data: &with_type(contents) });
            }
            id if id == SectionId::Function as u8 => {
                let mut functions = FunctionSection::new();
                layout.own.iter().for_each(|of| {
                    functions.function(*of);
                });
                kinds.iter().for_each(|_| {
                    functions.function(layout.types);
                });
                module.section(&functions);
            }
            id if id == SectionId::Code as u8 => {
                module.section(&code(bytes, layout, kinds));
            }
            id => {
                module.section(&RawSection { id, data: contents });
            }
        }
    }
    module.finish()
}

/// Returns the section of types with the type of the appended functions.
fn with_type(contents: &[u8]) -> Vec<u8> {
    let mut reader = wasmparser::BinaryReader::new(contents, 0);
    let mut section = Vec::with_capacity(contents.len() + 8);
    // The section has been read before.
    let count = reader.read_var_u32().unwrap_or(0);
    (count + 1).encode(&mut section);
    section.extend_from_slice(&contents[reader.original_position()..]);
    section.extend_from_slice(&[0x60, 3, 0x7f, 0x7f, 0x7f, 0]);
    section
}

fn code(bytes: &[u8], layout: &Layout, kinds: &[Long]) -> CodeSection {
    let mut code = CodeSection::new();
    let mut found = layout.found.iter().peekable();
    for body in &layout.bodies {
        let (mut new, mut at) = (Vec::with_capacity(body.len()), body.start);
        while let Some(one) = found.next_if(|one| one.at.end <= body.end) {
            new.extend_from_slice(&bytes[at..one.at.start]);
            let kind = kinds.iter().position(|kind| *kind == one.long).unwrap_or(0);
            Instruction::Call(layout.functions + kind as u32).encode(&mut new);
            at = one.at.end;
        }
        new.extend_from_slice(&bytes[at..body.end]);
        code.raw(&new);
    }
    for kind in kinds {
        code.function(&function(*kind));
    }
    code
}

// Parameters of an appended function.
const TO: u32 = 0;
/// Address of the source, or the value to fill with.
const FROM: u32 = 1;
const LEN: u32 = 2;

/// Returns a function that does an operation in pieces.
fn function(long: Long) -> Function {
    use Instruction as I;
    let piece = I::I32Const(PIECE_BYTES as i32);
    let original = match long {
        Long::Fill => I::MemoryFill(0),
        Long::Copy => I::MemoryCopy { src_mem: 0, dst_mem: 0 },
        Long::Init(data_index, _) => I::MemoryInit { mem: 0, data_index },
    };
    let mut code = vec![I::Block(BlockType::Empty)];
    // The block ends where the original operation does the rest: all that is short or out of bounds.
    code.extend([I::LocalGet(LEN), piece.clone(), I::I32LeU, I::BrIf(0)]);
    code.extend(end_of(TO));
    code.extend([I::MemorySize(0), I::I64ExtendI32U, I::I64Const(PAGE_BITS), I::I64Shl, I::I64GtU, I::BrIf(0)]);
    match long {
        Long::Fill => {}
        Long::Copy => {
            code.extend(end_of(FROM));
            code.extend([I::MemorySize(0), I::I64ExtendI32U, I::I64Const(PAGE_BITS), I::I64Shl, I::I64GtU, I::BrIf(0)]);
        }
        // A segment that was dropped is empty, so that the first piece traps.
        Long::Init(_, len) => {
            code.extend(end_of(FROM));
            code.extend([I::I64Const(i64::from(len)), I::I64GtU, I::BrIf(0)]);
        }
    }
    let backward = [
        I::LocalGet(LEN),
        piece.clone(),
        I::I32Sub,
        I::LocalSet(LEN),
        I::LocalGet(TO),
        I::LocalGet(LEN),
        I::I32Add,
        I::LocalGet(FROM),
        I::LocalGet(LEN),
        I::I32Add,
        piece.clone(),
        original.clone(),
    ];
    if long == Long::Copy {
        // A target behind its source is written from its end.
        code.extend([I::LocalGet(TO), I::LocalGet(FROM), I::I32GtU, I::If(BlockType::Empty)]);
        repeat(&mut code, backward, &piece);
        // The rest is short.
        code.extend([I::Br(1), I::End]);
    }
    let mut forward = vec![I::LocalGet(TO), I::LocalGet(FROM), piece.clone(), original.clone()];
    forward.extend([I::LocalGet(TO), piece.clone(), I::I32Add, I::LocalSet(TO)]);
    if long != Long::Fill {
        forward.extend([I::LocalGet(FROM), piece.clone(), I::I32Add, I::LocalSet(FROM)]);
    }
    forward.extend([I::LocalGet(LEN), piece.clone(), I::I32Sub, I::LocalSet(LEN)]);
    repeat(&mut code, forward, &piece);
    code.extend([I::End, I::LocalGet(TO), I::LocalGet(FROM), I::LocalGet(LEN), original, I::End]);
    let mut function = Function::new([]);
    code.iter().for_each(|one| {
        function.instruction(one);
    });
    function
}

/// Returns code for the end of a range, which needs more than 32 bits.
fn end_of(begin: u32) -> [Instruction<'static>; 5] {
    use Instruction as I;
    [I::LocalGet(begin), I::I64ExtendI32U, I::LocalGet(LEN), I::I64ExtendI32U, I::I64Add]
}

/// Appends a loop that ends when the rest is a piece or less.
fn repeat(
    code: &mut Vec<Instruction<'static>>,
    body: impl IntoIterator<Item = Instruction<'static>>,
    piece: &Instruction<'static>,
) {
    use Instruction as I;
    code.push(I::Loop(BlockType::Empty));
    code.extend(body);
    code.extend([I::LocalGet(LEN), piece.clone(), I::I32GtU, I::BrIf(0), I::End]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::{Config, Instance, Memory, Store, TypedFunc};

    /// Pages of the memory of a test.
    const PAGES: u64 = 40;
    const BYTES: u64 = PAGES << 16;
    /// Bytes of the segment that is copied into memory.
    const SEGMENT: u64 = 1_000_000;

    type Operation = TypedFunc<(i32, i32, i32), ()>;

    struct Guest {
        store: Store<()>,
        memory: Memory,
        operations: Vec<Operation>,
    }

    impl Guest {
        fn new(engine: &Engine, module: &Module) -> Guest {
            let mut store = Store::new(engine, ());
            store.set_epoch_deadline(u64::MAX / 2);
            let instance = Instance::new(&mut store, module, &[]).expect("an instance");
            let memory = instance.get_memory(&mut store, "memory").expect("a memory");
            let names = ["fill", "copy", "init", "drop"];
            let operations =
                names.map(|name| instance.get_typed_func(&mut store, name).expect("a function")).into_iter().collect();
            Guest { store, memory, operations }
        }

        /// Does an operation. Returns the reason of its trap.
        fn run(&mut self, which: usize, (to, from, len): (u32, u32, u32)) -> Option<wasmtime::Trap> {
            let called = self.operations[which].call(&mut self.store, (to as i32, from as i32, len as i32));
            called.err().map(|error| *error.downcast_ref().expect("a trap"))
        }
    }

    fn engine() -> Engine {
        Engine::new(Config::new().epoch_interruption(true)).expect("an engine")
    }

    fn guest() -> Vec<u8> {
        let segment = "\\01\\02\\03\\04\\05\\06\\07\\08\\09\\0a".repeat(SEGMENT as usize / 10);
        let text = format!(
            r#"(module
            (memory (export "memory") {PAGES})
            (data $segment "{segment}")
            (data $short "abc")
            (func (export "fill") (param i32 i32 i32)
                (memory.fill (local.get 0) (local.get 1) (local.get 2)))
            (func (export "copy") (param i32 i32 i32)
                (block (br_if 0 (i32.eqz (local.get 2)))
                    (memory.copy (local.get 0) (local.get 1) (local.get 2)) (return))
                (memory.copy (local.get 0) (local.get 1) (local.get 2)))
            (func (export "init") (param i32 i32 i32)
                (memory.init $segment (local.get 0) (local.get 1) (local.get 2)))
            (func (export "drop") (param i32 i32 i32)
                (memory.init $short (i32.const 0) (i32.const 0) (i32.const 3))
                (memory.fill (i32.const 5) (i32.const 1) (i32.const 100))
                (data.drop $segment)))"#
        );
        wat::parse_str(text).expect("a text")
    }

    /// Returns the next number of a sequence.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    /// Returns an address or length below, at or a little beyond a limit.
    fn number(state: &mut u64, limit: u64) -> u32 {
        let piece = u64::from(PIECE_BYTES);
        let number = match next(state) % 10 {
            0 => 0,
            1 => limit - next(state) % 3,
            2 => limit + 1,
            3 => u64::from(u32::MAX) - next(state) % 3,
            4 => piece * (next(state) % 6) + next(state) % 3,
            5 => (piece * (1 + next(state) % 6)).saturating_sub(1),
            _ => next(state) % limit,
        };
        number as u32
    }

    #[test]
    fn operations_in_pieces_do_the_same() {
        let (engine, bytes) = (engine(), guest());
        let original = Module::from_binary(&engine, &bytes).expect("a module");
        let cut = compile(&engine, &bytes).expect("a module");
        let mut state = 42;
        let (mut traps, mut long) = (0, 0);
        for _ in 0..8 {
            let mut guests = [Guest::new(&engine, &original), Guest::new(&engine, &cut)];
            for at in 0..200 {
                let which = if at == 150 { 3 } else { next(&mut state) as usize % 3 };
                let (to, len) = (number(&mut state, BYTES), number(&mut state, BYTES / 2));
                let from = match (which, next(&mut state) % 3) {
                    (0, _) => next(&mut state) as u32,
                    // Ranges that overlap closely.
                    (1, 0) => to.wrapping_add((next(&mut state) % 600_000) as u32).wrapping_sub(300_000),
                    (1, _) => number(&mut state, BYTES),
                    _ => number(&mut state, SEGMENT),
                };
                let ended = guests.each_mut().map(|guest| guest.run(which, (to, from, len)));
                assert_eq!(ended[0], ended[1], "operation {which}: {to}, {from}, {len}");
                traps += u64::from(ended[0].is_some());
                long += u64::from(ended[0].is_none() && PIECE_BYTES < len);
                let [one, other] = guests.each_ref().map(|guest| guest.memory.data(&guest.store));
                assert!(one == other, "memory differs after operation {which}: {to}, {from}, {len}");
            }
        }
        assert!(100 < traps && 100 < long, "{traps} traps, {long} long operations");
    }

    /// Returns the operations on memory outside and inside appended functions.
    fn operations(bytes: &[u8], own: usize) -> (usize, usize) {
        let (mut index, mut counts) = (0, (0, 0));
        for payload in Parser::new(0).parse_all(bytes) {
            let Payload::CodeSectionEntry(body) = payload.expect("a module") else { continue };
            for operator in body.get_operators_reader().expect("code") {
                use Operator as O;
                if let O::MemoryFill { .. } | O::MemoryCopy { .. } | O::MemoryInit { .. } = operator.expect("code") {
                    *(if index < own { &mut counts.0 } else { &mut counts.1 }) += 1;
                }
            }
            index += 1;
        }
        counts
    }

    #[test]
    fn no_long_operation_is_left() {
        let bytes = guest();
        assert_eq!(operations(&bytes, 4), (6, 0));
        let module = cut(&bytes).expect("a module").expect("long operations");
        // Those of a known short length remain. Each appended function has a piece and the rest, or two kinds of pieces.
        assert_eq!(operations(&module, 4), (2, 2 + 3 + 2));
        // A second time finds the operations of the appended functions alone.
        let short =
            wat::parse_str("(module (memory 1) (func (memory.fill (i32.const 1) (i32.const 2) (i32.const 3))))");
        assert!(cut(&short.expect("a text")).expect("a module").is_none());
    }

    #[test]
    fn a_module_that_is_invalid_remains_so() {
        for text in [
            "(module (memory 1) (func (memory.fill (i64.const 1) (i32.const 2) (i32.const 3))))",
            // The index of the first appended function, and of the appended type.
            "(module (memory 1) (func (param i32) (memory.fill (local.get 0) (local.get 0) (local.get 0))) (start 1))",
            "(module (memory 1) (func (param i32) (memory.fill (local.get 0) (local.get 0) (local.get 0)) (call 1)))",
            "(module (memory 1) (func (param i32) (memory.fill (local.get 0) (local.get 0) (local.get 0)) (block (type 1))))",
        ] {
            let bytes = wat::parse_str(text).expect("a text");
            assert!(compile(&engine(), &bytes).is_err(), "{text}");
        }
    }
}
