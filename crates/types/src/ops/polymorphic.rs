//! Functions whose declared types depend on each other: `array_append(anycompatiblearray, anycompatible)` and the like.
//!
//! **Invariant:** an entry becomes an ordinary [`Function`] once the types are known, made once for each list of types.

use super::resolve::can_coerce;
use super::{Eval, Function, arrays, common_kind, text_functions};
use crate::Kind;
use locked::Locked;
use statement::error::{SqlError, SqlResult, SqlState};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// A pseudo-type or a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ParameterType {
    /// Exactly this type.
    Is(Kind),
    /// Type without restriction, passed as it is. An unknown one is passed as text, or as it is, too.
    Any,
    Raw,
    /// Type without restriction, passed as its text.
    Shown,
    /// `anyarray`, `anyelement`: exactly these types.
    Array,
    Element,
    /// `anycompatiblearray`, `anycompatible`: with casts.
    Arrays,
    Compatible,
}

/// Entry of the table.
#[derive(Debug)]
pub(super) struct PolymorphicFunction {
    pub(super) name: &'static str,
    pub(super) arguments: &'static [ParameterType],
    /// True if the last argument may be repeated, or left out.
    pub(super) variadic: bool,
    pub(super) result: ParameterType,
    pub(super) strict: bool,
    pub(super) told_types: bool,
    pub(super) eval: Eval,
}

static TABLE: LazyLock<HashMap<&'static str, Vec<PolymorphicFunction>>> = LazyLock::new(|| {
    let mut table: HashMap<_, Vec<PolymorphicFunction>> = HashMap::new();
    for line in arrays::lines().into_iter().chain(text_functions::lines()) {
        table.entry(line.name).or_default().push(line);
    }
    table
});

/// Functions that were made from entries, by name, position and types.
type FunctionInstances = HashMap<(&'static str, usize, Vec<Kind>), &'static Function>;
static MADE: LazyLock<Mutex<FunctionInstances>> = LazyLock::new(Mutex::default);

/// Returns true if there is a polymorphic function of this name.
pub(super) fn is_function(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// Returns the types of an entry's arguments and result, if arguments of these kinds fit.
fn fitted(line: &PolymorphicFunction, given: &[Kind]) -> Option<(Vec<Kind>, Kind)> {
    let mut declared = line.arguments.to_vec();
    if line.variadic {
        let last = declared.pop()?;
        if given.len() < declared.len() {
            return None;
        }
        declared.resize(given.len(), last);
    }
    if declared.len() != given.len() {
        return None;
    }
    let pairs = || declared.iter().copied().zip(given.iter().copied());
    // The single element type of anyarray and anyelement.
    let mut exact: Option<Kind> = None;
    for (pseudo, kind) in pairs().filter(|(_, kind)| *kind != Kind::Unknown) {
        let element = match pseudo {
            ParameterType::Array => kind.element()?,
            ParameterType::Element => kind,
            ParameterType::Is(_)
            | ParameterType::Any
            | ParameterType::Raw
            | ParameterType::Shown
            | ParameterType::Arrays
            | ParameterType::Compatible => continue,
        };
        if exact.is_some_and(|exact| exact != element) {
            return None;
        }
        exact = Some(element);
    }
    let mut all = Vec::new();
    for (pseudo, kind) in pairs() {
        match pseudo {
            ParameterType::Arrays if kind == Kind::Unknown => {}
            ParameterType::Arrays => all.push(kind.element()?),
            ParameterType::Compatible => all.push(kind),
            ParameterType::Is(_)
            | ParameterType::Any
            | ParameterType::Raw
            | ParameterType::Shown
            | ParameterType::Array
            | ParameterType::Element => {}
        }
    }
    let common = common_kind(&all, "").ok()?;
    let concrete = |pseudo: ParameterType, kind: Option<Kind>| match pseudo {
        ParameterType::Is(kind) => Some(kind),
        ParameterType::Any => kind.map(|kind| if kind == Kind::Unknown { Kind::Text } else { kind }),
        ParameterType::Raw => kind,
        ParameterType::Shown => Some(Kind::Void),
        ParameterType::Array => exact?.array_of(),
        ParameterType::Element => exact,
        ParameterType::Arrays => common.array_of(),
        ParameterType::Compatible => Some(common),
    };
    let arguments = pairs().map(|(pseudo, kind)| concrete(pseudo, Some(kind))).collect::<Option<Vec<_>>>()?;
    if !given.iter().zip(&arguments).all(|(from, to)| can_coerce(*from, *to)) {
        return None;
    }
    Some((arguments, concrete(line.result, None)?))
}

/// Resolves a function by its name and its arguments' kinds, if an entry fits.
///
/// # Errors
/// `42804` if the type cannot be determined.
pub(super) fn resolve(name: &str, given: &[Kind]) -> SqlResult<Option<&'static Function>> {
    let Some(lines) = TABLE.get(name) else { return Ok(None) };
    for (at, line) in lines.iter().enumerate() {
        let Some((arguments, result)) = fitted(line, given) else { continue };
        let mut made = MADE.locked();
        let function = made.entry((line.name, at, arguments)).or_insert_with_key(|(_, _, arguments)| {
            Box::leak(Box::new(Function {
                name: line.name,
                arguments: Box::leak(arguments.clone().into_boxed_slice()),
                variadic: false,
                result,
                strict: line.strict,
                volatile: false,
                told_types: line.told_types,
                eval: line.eval,
            }))
        });
        return Ok(Some(*function));
    }
    let is_open = |line: &PolymorphicFunction| {
        line.arguments.len() == given.len()
            && line.arguments.iter().any(|pseudo| matches!(pseudo, ParameterType::Array | ParameterType::Element))
            && line.arguments.iter().zip(given).all(|(pseudo, kind)| match pseudo {
                ParameterType::Array | ParameterType::Element => *kind == Kind::Unknown,
                ParameterType::Is(to) => can_coerce(*kind, *to),
                ParameterType::Any
                | ParameterType::Raw
                | ParameterType::Shown
                | ParameterType::Arrays
                | ParameterType::Compatible => true,
            })
    };
    if lines.iter().any(is_open) {
        let message = "could not determine polymorphic type because input has type unknown";
        // PostgreSQL gives no position here.
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).nowhere());
    }
    Ok(None)
}
