//! Limits of what a module may ask of the compiler.
//!
//! A compiler cannot be ended, and it takes more than linear time: each local lives in each block of its function, and
//! the allocator of registers looks at the branches of a function again for each of them. A function of 12 kB takes it
//! 8 s. So a module is weighed before it is compiled. A weight is about the compiler's time in microseconds, as it was
//! measured with modules that do much of one kind (`tests/it/hostile.rs`); it bounds memory as well, at about 300 bytes
//! for each microsecond. Code that compilers make is far from the worst of its kinds: it weighs up to four times its
//! time.
//!
//! **Invariant:** weighing takes time that is linear in the size of a module, and ends with its statement. A weight is at
//! most the limit before the module's next function is read.

use procs::ends;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use wasmparser::{
    BinaryReaderError, BlockType, ContType, DataKind, ElementItems, ElementKind, Encoding, FrameKind, FuncType,
    FunctionBody, ModuleArity, Operator, Parser, Payload, RefType, SubType, TypeRef,
};

/// Greatest weight of a function. That of the JavaScript engine's interpreter is a quarter of it.
const FUNCTION_MAX: u64 = 1_500_000;
/// Greatest weight of a module. That of the JavaScript engine with a script is a quarter of it.
const MODULE_MAX: u64 = 10_000_000;
/// Greatest number of parameters, and of results, of a function or block.
const VALUES_MAX: u32 = 100;
/// Weights are added up in thousandths.
const SCALE: u64 = 1_000;

// Weights, in thousandths.
/// A byte of a module, which may be copied a few times.
const BYTE: u64 = 20;
/// A global, a segment or an import.
const ITEM: u64 = 2_000;
/// A byte of an expression for an initial value or an offset, which may be an operator.
const EXPRESSION: u64 = 1_000;
/// A global or table with its initial value.
const GLOBAL: u64 = 20_000;
/// A type of functions, and the functions that convert its values.
const TYPE: u64 = 150_000;
/// A function.
const FUNCTION: u64 = 130_000;
/// An entry of a function from outside, by a table or an export.
const ENTRY: u64 = 120_000;
/// A parameter or result of a type or function.
const SIGNATURE: u64 = 15_000;
/// A local.
const LOCAL: u64 = 70;
/// An operator that the compiler forgets once it has read it.
const FREE: u64 = 500;
/// An operation on integers.
const PLAIN: u64 = 2_500;
/// An access of memory.
const ACCESS: u64 = 8_000;
/// An access of memory or a division in code for urgent contexts, which checks bounds and divisors.
const CHECKED: u64 = 60_000;
/// A call.
const CALL: u64 = 9_000;
/// A value of a call that is not passed in registers.
const ARGUMENT: u64 = 6_000;
/// Values of a call that are passed in registers.
const IN_REGISTERS: u64 = 8;
/// An operation on floating-point numbers, whose result gets one form of a NaN, or on vectors.
const WIDE: u64 = 26_000;
/// An operation with a slow path, such as a call by a table.
const SLOW: u64 = 60_000;
/// A loop, which looks at the epoch.
const LOOP: u64 = 30_000;
/// A branch.
const EDGE: u64 = 1_500;
/// A value that a branch or the begin of a block carries.
const CARRIED: u64 = 20_000;
/// A value beneath an operator on the stack.
const BENEATH: u64 = 30;
/// A value or local that lives beyond a branch.
const LIVE: u64 = 500;
/// A value or local that lives in a loop.
const LIVE_IN_LOOP: u64 = 2_000;
/// A pair of branches.
const EDGES: u64 = 30;
/// A pair of branches with the same target.
const MEETING: u64 = 600;
/// A pair of loops.
const LOOPS: u64 = 80;
/// A pair of a branch and a carried value.
const CARRYING: u64 = 50;

/// Weight of a module so far, with the state of the function that is read.
#[derive(Default)]
struct Weigher {
    types: Vec<SubType>,
    /// Types of functions by their index.
    functions: Vec<u32>,
    /// Functions that have been read.
    next: usize,
    labels: Vec<Label>,
    /// Sums of the function that gives memory, tables and globals their initial values.
    start: Sums,
    /// Weight of the module in thousandths.
    weight: u64,
    is_urgent: bool,
}

/// Block that is not closed.
struct Label {
    of: BlockType,
    kind: FrameKind,
    /// Values on the stack beneath it.
    height: u64,
    /// Branches to its end, or to its begin if it is a loop.
    degree: u64,
}

/// Sums of a function.
#[derive(Default)]
struct Sums {
    /// Weight of what is linear.
    weight: u64,
    locals: u64,
    edges: u64,
    loops: u64,
    carried: u64,
    /// Pairs of branches with the same target.
    meeting: u64,
    /// Values on the stack.
    height: u64,
}

/// Weighs a module, for urgent contexts or for others.
///
/// # Errors
/// `54000` if it is too heavy, `42P13` if it cannot be read, `57014` if the statement is cancelled.
pub(crate) fn vet(bytes: &[u8], is_urgent: bool) -> SqlResult<()> {
    let mut weigher = Weigher { weight: BYTE * bytes.len() as u64, is_urgent, ..Weigher::default() };
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(unreadable)?;
        if let Payload::Version { encoding: Encoding::Component, .. } = payload {
            return Err(ends::not_loadable("it is a component"));
        }
        weigher.section(payload)?;
    }
    let weight = weigher.start.total();
    if FUNCTION_MAX < weight / SCALE {
        let detail = format!("Its initial values have a weight of {}; the limit is {FUNCTION_MAX}.", weight / SCALE);
        return Err(too_complex("the wasm module", detail));
    }
    weigher.add(weight)
}

/// Returns the error for a module that is no module.
fn unreadable(error: BinaryReaderError) -> SqlError {
    ends::not_loadable(&format!("failed to parse the module: {error}"))
}

fn too_complex(what: &str, detail: String) -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("{what} is too complex to compile")).detail(detail)
}

impl Weigher {
    fn section(&mut self, payload: Payload<'_>) -> SqlResult<()> {
        match payload {
            Payload::TypeSection(groups) => {
                for group in groups {
                    for one in group.map_err(unreadable)?.into_types() {
                        self.add_type(one)?;
                    }
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    if let TypeRef::Func(of) = import.map_err(unreadable)?.ty {
                        self.functions.push(of);
                        self.next += 1;
                    }
                    self.add(ITEM)?;
                }
            }
            Payload::FunctionSection(functions) => {
                for of in functions {
                    self.functions.push(of.map_err(unreadable)?);
                    self.add(FUNCTION)?;
                }
            }
            Payload::GlobalSection(globals) => {
                self.add_items(globals.count())?;
                self.start.initial(globals.count(), GLOBAL, globals.range().len());
            }
            Payload::ExportSection(exports) => self.add_entries(exports.count())?,
            Payload::TableSection(tables) => self.start.initial(tables.count(), GLOBAL, tables.range().len()),
            Payload::ElementSection(segments) => {
                for segment in segments {
                    self.add(ITEM)?;
                    let segment = segment.map_err(unreadable)?;
                    if let ElementKind::Active { offset_expr, .. } = segment.kind {
                        self.start.initial(0, 0, offset_expr.get_binary_reader().bytes_remaining());
                    }
                    match segment.items {
                        ElementItems::Functions(functions) => self.add_entries(functions.count())?,
                        ElementItems::Expressions(_, expressions) => self.add_entries(expressions.count())?,
                    }
                }
            }
            Payload::DataSection(segments) => {
                for segment in segments {
                    self.add(ITEM)?;
                    if let DataKind::Active { offset_expr, .. } = segment.map_err(unreadable)?.kind {
                        self.start.initial(1, SLOW, offset_expr.get_binary_reader().bytes_remaining());
                    }
                }
            }
            Payload::CodeSectionEntry(body) => self.function(&body)?,
            _ => {}
        }
        Ok(())
    }

    /// Adds to the weight of the module.
    fn add(&mut self, weight: u64) -> SqlResult<()> {
        pulse::tick(pulse::ITEM)?;
        self.weight = self.weight.saturating_add(weight);
        if self.weight / SCALE <= MODULE_MAX {
            return Ok(());
        }
        let detail = format!("Its weight is at least {}; the limit is {MODULE_MAX}.", self.weight / SCALE);
        Err(too_complex("the wasm module", detail))
    }

    fn add_items(&mut self, count: u32) -> SqlResult<()> {
        self.add(ITEM.saturating_mul(u64::from(count)))
    }

    fn add_entries(&mut self, count: u32) -> SqlResult<()> {
        self.add(ENTRY.saturating_mul(u64::from(count)))
    }

    fn add_type(&mut self, one: SubType) -> SqlResult<()> {
        let (parameters, results) = self.sub_type_arity(&one).unwrap_or((0, 0));
        if VALUES_MAX < parameters.max(results) {
            let (index, most) = (self.types.len(), parameters.max(results));
            let detail = format!("Type {index} has {most} parameters or results; the limit is {VALUES_MAX}.");
            return Err(too_complex("a function type of the wasm module", detail));
        }
        self.types.push(one);
        self.add(TYPE + SIGNATURE * u64::from(parameters + results))
    }

    /// Returns the numbers of parameters and results.
    fn arity(&self, of: BlockType) -> (u64, u64) {
        let (parameters, results) = self.block_type_arity(of).unwrap_or((0, 0));
        (parameters.into(), results.into())
    }

    fn function(&mut self, body: &FunctionBody<'_>) -> SqlResult<()> {
        let index = self.next;
        self.next += 1;
        let of = self.functions.get(index).map_or(BlockType::Empty, |of| BlockType::FuncType(*of));
        let (parameters, results) = self.arity(of);
        let mut sums = Sums { locals: parameters, ..Sums::default() };
        for group in body.get_locals_reader().map_err(unreadable)? {
            sums.locals = sums.locals.saturating_add(group.map_err(unreadable)?.0.into());
        }
        sums.weight = SIGNATURE * (parameters + results) + LOCAL.saturating_mul(sums.locals);
        self.labels.clear();
        self.labels.push(Label { of, kind: FrameKind::Block, height: 0, degree: 0 });
        for operator in body.get_operators_reader().map_err(unreadable)? {
            let operator = operator.map_err(unreadable)?;
            self.operator(&operator, &mut sums)?;
        }
        let weight = sums.total();
        if FUNCTION_MAX < weight / SCALE {
            let detail = format!("Function {index} has a weight of {}; the limit is {FUNCTION_MAX}.", weight / SCALE);
            return Err(too_complex("a function of the wasm module", detail));
        }
        self.add(weight)
    }

    fn operator(&mut self, operator: &Operator<'_>, sums: &mut Sums) -> SqlResult<()> {
        let (pops, pushes) = operator.operator_arity(self).unwrap_or((0, 0));
        let (pops, pushes) = (u64::from(pops), u64::from(pushes));
        pulse::tick(pulse::ITEM)?;
        sums.height = sums.height.saturating_sub(pops);
        let alone = cost(operator);
        sums.edges += u64::from(alone == SLOW);
        let own = if self.is_urgent && alone == ACCESS { CHECKED } else { alone };
        let mut weight = own + BENEATH * sums.height;
        match operator {
            Operator::Block { blockty } => self.open(*blockty, FrameKind::Block, sums),
            Operator::Loop { blockty } => {
                self.open(*blockty, FrameKind::Loop, sums);
                sums.loops += 1;
                sums.edges += 1;
                weight += LIVE_IN_LOOP * (sums.locals + sums.height);
            }
            Operator::If { blockty } => {
                self.open(*blockty, FrameKind::If, sums);
                sums.edges += 2;
                weight += 2 * (EDGE + LIVE * (sums.locals + sums.height));
            }
            Operator::TryTable { try_table } => {
                self.open(try_table.ty, FrameKind::TryTable, sums);
                sums.edges += 1 + try_table.catches.len() as u64;
            }
            Operator::Else => sums.height = self.labels.last().map_or(0, |label| label.height),
            Operator::End => {
                let label = self.labels.pop();
                sums.height = label.as_ref().map_or(0, |label| label.height);
                let degree = label.map_or(0, |label| label.degree);
                sums.meeting = sums.meeting.saturating_add(degree * degree);
            }
            Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::ReturnCall { .. } => {
                weight += ARGUMENT * (pops + pushes).saturating_sub(IN_REGISTERS);
            }
            Operator::BrTable { targets } => {
                pulse::tick(targets.len() as usize)?;
                for depth in targets.targets() {
                    weight += self.branch(depth.map_err(unreadable)?, pops, sums);
                }
                weight += self.branch(targets.default(), pops, sums);
            }
            Operator::Br { relative_depth: depth }
            | Operator::BrIf { relative_depth: depth }
            | Operator::BrOnNull { relative_depth: depth }
            | Operator::BrOnNonNull { relative_depth: depth } => weight += self.branch(*depth, pops, sums),
            _ => {}
        }
        sums.height += pushes;
        sums.weight = sums.weight.saturating_add(weight);
        Ok(())
    }

    fn open(&mut self, of: BlockType, kind: FrameKind, sums: &mut Sums) {
        let (parameters, results) = self.arity(of);
        sums.carried += parameters + results.saturating_sub(1);
        sums.edges += u64::from(0 < parameters);
        self.labels.push(Label { of, kind, height: sums.height, degree: 0 });
    }

    /// Counts a branch. Returns its weight.
    fn branch(&mut self, depth: u32, values: u64, sums: &mut Sums) -> u64 {
        sums.edges += 1;
        sums.carried += values.saturating_sub(1);
        let at = self.labels.len().checked_sub(depth as usize + 1);
        if let Some(label) = at.and_then(|at| self.labels.get_mut(at)) {
            label.degree += 1;
        }
        EDGE + LIVE * (sums.locals + sums.height)
    }
}

impl Sums {
    /// Counts initial values, of which each has a weight, and their expressions.
    fn initial(&mut self, count: u32, weight: u64, bytes: usize) {
        self.edges += u64::from(count);
        let weight = weight.saturating_mul(count.into()).saturating_add(EXPRESSION.saturating_mul(bytes as u64));
        self.weight = self.weight.saturating_add(weight);
    }

    /// Returns the weight of the function in thousandths.
    fn total(&self) -> u64 {
        let pairs = |weight: u64, one: u64, other: u64| weight.saturating_mul(one).saturating_mul(other);
        [
            pairs(EDGES, self.edges, self.edges),
            pairs(LOOPS, self.loops, self.loops),
            pairs(MEETING, self.meeting, 1),
            pairs(CARRYING, self.carried, self.edges),
            pairs(CARRIED, self.carried, 1),
        ]
        .into_iter()
        .fold(self.weight, u64::saturating_add)
    }
}

impl ModuleArity for Weigher {
    fn sub_type_at(&self, index: u32) -> Option<&SubType> {
        self.types.get(index as usize)
    }

    // Tags, continuations and references to them are of proposals that the level does not have.
    fn tag_type_arity(&self, _: u32) -> Option<(u32, u32)> {
        None
    }

    fn type_index_of_function(&self, index: u32) -> Option<u32> {
        self.functions.get(index as usize).copied()
    }

    fn func_type_of_cont_type(&self, _: &ContType) -> Option<&FuncType> {
        None
    }

    fn sub_type_of_ref_type(&self, _: &RefType) -> Option<&SubType> {
        None
    }

    fn control_stack_height(&self) -> u32 {
        self.labels.len() as u32
    }

    fn label_block(&self, depth: u32) -> Option<(BlockType, FrameKind)> {
        let at = self.labels.len().checked_sub(depth as usize + 1)?;
        self.labels.get(at).map(|label| (label.of, label.kind))
    }
}

/// Returns the weight of an operator alone.
fn cost(operator: &Operator<'_>) -> u64 {
    use Operator as O;
    match operator {
        O::LocalGet { .. } | O::LocalSet { .. } | O::LocalTee { .. } | O::Drop | O::Nop | O::Unreachable => FREE,
        O::I32Const { .. } | O::I64Const { .. } | O::F32Const { .. } | O::F64Const { .. } | O::Return => FREE,
        O::Block { .. } | O::If { .. } | O::Else | O::End | O::Br { .. } | O::BrIf { .. } | O::BrTable { .. } => FREE,
        O::Loop { .. } => LOOP,
        O::Call { .. } | O::ReturnCall { .. } => CALL,
        O::I32Load { .. } | O::I64Load { .. } | O::F32Load { .. } | O::F64Load { .. } => ACCESS,
        O::I32Load8S { .. } | O::I32Load8U { .. } | O::I32Load16S { .. } | O::I32Load16U { .. } => ACCESS,
        O::I64Load8S { .. } | O::I64Load8U { .. } | O::I64Load16S { .. } | O::I64Load16U { .. } => ACCESS,
        O::I64Load32S { .. } | O::I64Load32U { .. } | O::I64Store32 { .. } => ACCESS,
        O::I32Store { .. } | O::I64Store { .. } | O::F32Store { .. } | O::F64Store { .. } => ACCESS,
        O::I32Store8 { .. } | O::I32Store16 { .. } | O::I64Store8 { .. } | O::I64Store16 { .. } => ACCESS,
        O::GlobalGet { .. } | O::GlobalSet { .. } | O::Select | O::MemorySize { .. } => PLAIN,
        O::I32Eqz | O::I32Eq | O::I32Ne | O::I64Eqz | O::I64Eq | O::I64Ne => PLAIN,
        O::I32LtS | O::I32LtU | O::I32GtS | O::I32GtU | O::I32LeS | O::I32LeU | O::I32GeS | O::I32GeU => PLAIN,
        O::I64LtS | O::I64LtU | O::I64GtS | O::I64GtU | O::I64LeS | O::I64LeU | O::I64GeS | O::I64GeU => PLAIN,
        O::F32Eq | O::F32Ne | O::F32Lt | O::F32Gt | O::F32Le | O::F32Ge => PLAIN,
        O::F64Eq | O::F64Ne | O::F64Lt | O::F64Gt | O::F64Le | O::F64Ge => PLAIN,
        O::I32Add | O::I32Sub | O::I32Mul | O::I32And | O::I32Or | O::I32Xor | O::I32Clz | O::I32Ctz => PLAIN,
        O::I32Shl | O::I32ShrS | O::I32ShrU | O::I32Rotl | O::I32Rotr | O::I32Popcnt => PLAIN,
        O::I64Add | O::I64Sub | O::I64Mul | O::I64And | O::I64Or | O::I64Xor | O::I64Clz | O::I64Ctz => PLAIN,
        O::I64Shl | O::I64ShrS | O::I64ShrU | O::I64Rotl | O::I64Rotr | O::I64Popcnt => PLAIN,
        O::I32DivS | O::I32DivU | O::I32RemS | O::I32RemU => ACCESS,
        O::I64DivS | O::I64DivU | O::I64RemS | O::I64RemU => ACCESS,
        O::I32WrapI64 | O::I64ExtendI32S | O::I64ExtendI32U | O::I32Extend8S | O::I32Extend16S => PLAIN,
        O::I64Extend8S | O::I64Extend16S | O::I64Extend32S => PLAIN,
        O::I32ReinterpretF32 | O::I64ReinterpretF64 | O::F32ReinterpretI32 | O::F64ReinterpretI64 => PLAIN,
        O::CallIndirect { .. } | O::ReturnCallIndirect { .. } | O::CallRef { .. } | O::ReturnCallRef { .. } => SLOW,
        O::TableGet { .. } | O::TableSet { .. } | O::TableGrow { .. } | O::TableFill { .. } | O::TableCopy { .. } => {
            SLOW
        }
        O::TableInit { .. } | O::ElemDrop { .. } | O::RefFunc { .. } | O::TryTable { .. } => SLOW,
        O::MemoryGrow { .. } | O::MemoryFill { .. } | O::MemoryCopy { .. } | O::MemoryInit { .. } => SLOW,
        _ => WIDE,
    }
}
