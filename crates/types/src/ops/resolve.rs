//! Resolution of operators and functions by the rules of PostgreSQL's manual, chapter 10.
//!
//! The selection is `func_select_candidate` of PostgreSQL's parser, step for step. The comments name its steps.

use super::casts::{self, Cast, CastContext, find_cast};
use super::{Function, FunctionTable, Operator, operators_named, polymorphic};
use crate::Kind;
use crate::datum::Datum;
use statement::error::{SqlError, SqlResult, SqlState};

/// An operator with the casts of its operands.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedOperator {
    /// Chosen operator.
    pub operator: &'static Operator,
    /// Cast of the left operand, if it needs one.
    pub left: Option<&'static Cast>,
    /// Cast of the right operand, if it needs one.
    pub right: Option<&'static Cast>,
}

/// A function with the casts of its arguments.
#[derive(Clone, Debug)]
pub struct ResolvedFunction {
    /// Chosen function.
    pub function: &'static Function,
    /// Casts, one for each argument.
    pub casts: Vec<Option<&'static Cast>>,
}

impl ResolvedFunction {
    /// Returns the values to pass after arguments of these kinds: the OIDs of their types, if the function takes them.
    pub fn told_types(&self, given: &[Kind]) -> impl Iterator<Item = Datum> + use<> {
        let told = if self.function.told_types { self.function.arguments } else { &[] };
        debug_assert!(told.is_empty() || told.len() == given.len());
        told.iter().map(|kind| Datum::Oid(kind.oid()))
    }
}

/// Returns true if a value of one kind may be used in place of another without a written cast.
pub fn can_coerce(from: Kind, to: Kind) -> bool {
    // Void stands for any type in the table.
    from == to || to == Kind::Void || find_cast(from, to, CastContext::Implicit).is_some()
}

fn coerces(given: &[Kind], declared: &[Kind]) -> bool {
    given.len() == declared.len() && given.iter().zip(declared).all(|(from, to)| can_coerce(*from, *to))
}

/// Returns the cast of an argument to its declared kind.
fn argument_cast(from: Kind, to: Kind) -> Option<&'static Cast> {
    if to == Kind::Void { casts::shown(from) } else { find_cast(from, to, CastContext::Implicit) }
}

/// Keeps the candidates with the best score.
fn keep_best(candidates: &mut Vec<Vec<Kind>>, score: impl Fn(&[Kind]) -> usize) {
    let best = candidates.iter().map(|candidate| score(candidate)).max().unwrap_or(0);
    candidates.retain(|candidate| score(candidate) == best);
}

/// Returns the best of several lists of declared kinds, if there is one. Of equal lists it returns none.
pub fn select_candidate(given: &[Kind], candidates: Vec<Vec<Kind>>) -> Option<Vec<Kind>> {
    let mut candidates: Vec<Vec<Kind>> = candidates.into_iter().filter(|declared| coerces(given, declared)).collect();
    let only = |candidates: &mut Vec<Vec<Kind>>| (candidates.len() == 1).then(|| candidates.swap_remove(0));
    if candidates.len() <= 1 {
        return candidates.pop();
    }
    let known = |index: usize| given[index] != Kind::Unknown;
    // Most exact matches.
    keep_best(&mut candidates, |declared| {
        (0..given.len()).filter(|index| known(*index) && declared[*index] == given[*index]).count()
    });
    if let Some(found) = only(&mut candidates) {
        return Some(found);
    }
    // Most exact matches or preferred types of the argument's category.
    keep_best(&mut candidates, |declared| {
        let preferred =
            |index: usize| declared[index].is_preferred() && declared[index].category() == given[index].category();
        (0..given.len())
            .filter(|index| known(*index) && (declared[*index] == given[*index] || preferred(*index)))
            .count()
    });
    if let Some(found) = only(&mut candidates) {
        return Some(found);
    }
    let unknown: Vec<usize> = (0..given.len()).filter(|index| !known(*index)).collect();
    if unknown.is_empty() {
        return None;
    }
    // A category for each unknown argument: string if any candidate has it, otherwise the one
    // that all candidates share.
    let slots: Option<Vec<(usize, char, bool)>> = unknown
        .iter()
        .map(|&index| {
            let mut categories = candidates.iter().map(|declared| declared[index].category());
            let first = categories.next()?;
            let category = if first == 'S' || categories.clone().any(|category| category == 'S') {
                'S'
            } else if categories.all(|category| category == first) {
                first
            } else {
                return None;
            };
            let is_preferred =
                |declared: &Vec<Kind>| declared[index].category() == category && declared[index].is_preferred();
            Some((index, category, candidates.iter().any(is_preferred)))
        })
        .collect();
    if let Some(slots) = slots {
        let fits = |declared: &Vec<Kind>| {
            slots.iter().all(|&(index, category, preferred)| {
                declared[index].category() == category && (!preferred || declared[index].is_preferred())
            })
        };
        if candidates.iter().any(fits) {
            candidates.retain(fits);
        }
        if let Some(found) = only(&mut candidates) {
            return Some(found);
        }
    }
    // Last resort: if all known arguments have one type, the unknown ones are assumed to have it, too.
    let mut kinds = given.iter().filter(|kind| **kind != Kind::Unknown);
    let first = *kinds.next()?;
    if !kinds.all(|kind| *kind == first) {
        return None;
    }
    let assumed = vec![first; given.len()];
    candidates.retain(|declared| coerces(&assumed, declared));
    only(&mut candidates)
}

fn operator_error(name: &str, left: Option<Kind>, right: Kind, ambiguous: bool) -> SqlError {
    let written = match left {
        Some(left) => format!("{} {name} {}", left.name(), right.name()),
        None => format!("{name} {}", right.name()),
    };
    if ambiguous {
        let error = SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {written}"));
        return error.hint("Could not choose a best candidate operator. You might need to add explicit type casts.");
    }
    let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {written}"));
    error.hint(match left {
        Some(_) => "No operator matches the given name and argument types. You might need to add explicit type casts.",
        None => "No operator matches the given name and argument type. You might need to add an explicit type cast.",
    })
}

/// Returns true if the arrays' items fit without a cast. Only the operator `||` casts the items of arrays.
fn arrays_fit(name: &str, given: &[Kind], declared: &[Kind]) -> bool {
    let fits = |(from, to): (&Kind, &Kind)| match (from.element(), to.element()) {
        (Some(from), Some(to)) => name == "||" || from == to,
        _ => true,
    };
    given.iter().zip(declared).all(fits)
}

/// Resolves `||` with an array, using the common type of all items.
fn concatenation<'o>(
    left: Kind,
    right: Kind,
    exact: impl Fn(Option<Kind>, Kind) -> Option<&'o &'static Operator>,
) -> Option<&'o &'static Operator> {
    if left.element().is_none() && right.element().is_none() {
        return None;
    }
    let common = common_kind(&[left.element().unwrap_or(left), right.element().unwrap_or(right)], "").ok()?;
    let to = |kind: Kind| if kind.element().is_some() { common.array_of() } else { Some(common) };
    exact(Some(to(left)?), to(right)?)
}

/// Resolves an operator by its name and its operands' kinds. `!=` is `<>`.
///
/// # Errors
/// `42883`, `42725`.
pub fn resolve_operator(name: &str, left: Option<Kind>, right: Kind) -> SqlResult<ResolvedOperator> {
    let name = if name == "!=" { "<>" } else { name };
    let lines = operators_named(name);
    let exact = |left: Option<Kind>, right: Kind| lines.iter().find(|line| line.left == left && line.right == right);
    // An unknown operand is first assumed to have the type of the other.
    let assumed = match left {
        Some(Kind::Unknown) if right != Kind::Unknown => exact(Some(right), right),
        Some(left) if right == Kind::Unknown => exact(Some(left), left),
        Some(left) if name == "||" => exact(Some(left), right).or_else(|| concatenation(left, right, exact)),
        left => exact(left, right),
    };
    let found = match assumed {
        Some(found) => found,
        None => {
            let given: Vec<Kind> = left.into_iter().chain([right]).collect();
            let candidates: Vec<Vec<Kind>> = lines
                .iter()
                .filter(|line| line.left.is_some() == left.is_some())
                .map(|line| line.left.into_iter().chain([line.right]).collect())
                .filter(|declared: &Vec<Kind>| coerces(&given, declared) && arrays_fit(name, &given, declared))
                .collect();
            let is_ambiguous = !candidates.is_empty();
            let chosen = select_candidate(&given, candidates);
            let line = chosen.and_then(|chosen| match chosen[..] {
                [left, right] => exact(Some(left), right),
                [right] => exact(None, right),
                _ => None,
            });
            line.ok_or_else(|| operator_error(name, left, right, is_ambiguous))?
        }
    };
    Ok(ResolvedOperator {
        operator: found,
        left: left.zip(found.left).and_then(|(from, to)| argument_cast(from, to)),
        right: argument_cast(right, found.right),
    })
}

/// Returns a function in the form in which errors show it.
pub(super) fn signature(name: &str, arguments: &[Kind]) -> String {
    let kinds: Vec<String> = arguments.iter().map(|kind| kind.name()).collect();
    format!("{name}({})", kinds.join(", "))
}

/// Returns the error for a name that matches no function, or several.
pub fn function_error(name: &str, arguments: &[Kind], ambiguous: bool) -> SqlError {
    // The parser library takes these forms of PostgreSQL's grammar for functions.
    match name {
        "row" => return SqlError::unsupported("a row as a value"),
        "normalize" => return SqlError::unsupported("normalize"),
        "json_to_record" | "json_to_recordset" | "json_populate_record" | "json_populate_recordset" => {
            return SqlError::unsupported(format_args!("function {name}"));
        }
        "treat" => return SqlError::unsupported("TREAT"),
        _ => {}
    }
    let written = signature(name, arguments);
    if ambiguous {
        let error = SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("function {written} is not unique"));
        return error.hint("Could not choose a best candidate function. You might need to add explicit type casts.");
    }
    let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {written} does not exist"));
    error.hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

/// Returns the declared kinds of a function for so many arguments.
fn declared(function: &Function, count: usize) -> Option<Vec<Kind>> {
    let mut kinds = function.arguments.to_vec();
    if function.variadic {
        let last = *kinds.last()?;
        if count < kinds.len() {
            return None;
        }
        kinds.resize(count, last);
    }
    (kinds.len() == count).then_some(kinds)
}

/// Returns the declared kinds of the functions of a name that take so many arguments.
pub fn declared_kinds(functions: &FunctionTable, name: &str, count: usize) -> Vec<Vec<Kind>> {
    functions.named(name).iter().filter_map(|function| declared(function, count)).collect()
}

/// Returns true if there is a function of this name.
pub fn is_function(functions: &FunctionTable, name: &str) -> bool {
    !functions.named(name).is_empty() || polymorphic::is_function(name)
}

/// Resolves a function by its name, in lower case, and its arguments' kinds.
///
/// # Errors
/// `42883`, `42725`.
pub fn resolve_function(functions: &FunctionTable, name: &str, arguments: &[Kind]) -> SqlResult<ResolvedFunction> {
    let candidates: Vec<(&'static Function, Vec<Kind>)> = functions
        .named(name)
        .iter()
        .filter_map(|function| declared(function, arguments.len()).map(|kinds| (*function, kinds)))
        .filter(|(_, kinds)| coerces(arguments, kinds))
        .collect();
    let is_ambiguous = !candidates.is_empty();
    let exact = candidates.iter().find(|(_, kinds)| kinds == arguments);
    let chosen = match exact {
        Some((_, kinds)) => Some(kinds.clone()),
        None => select_candidate(arguments, candidates.iter().map(|(_, kinds)| kinds.clone()).collect()),
    };
    let found = chosen.and_then(|chosen| candidates.into_iter().find(|(_, kinds)| *kinds == chosen));
    let (function, kinds) = match found {
        Some(found) => found,
        None => match polymorphic::resolve(name, arguments)? {
            Some(function) => (function, function.arguments.to_vec()),
            None => return Err(function_error(name, arguments, is_ambiguous)),
        },
    };
    let casts = arguments.iter().zip(kinds).map(|(from, to)| argument_cast(*from, to)).collect();
    Ok(ResolvedFunction { function, casts })
}

/// Returns the common type of several values, for `UNION`, `CASE`, `VALUES` and the like. `what`
/// begins the error message.
///
/// # Errors
/// `42804` if they are of different categories; `42846` if one cannot be made the chosen type.
pub fn common_kind(kinds: &[Kind], what: &str) -> SqlResult<Kind> {
    common_kind_of(kinds, what).map_err(|(_, error)| error)
}

/// Returns the same as [`common_kind`]. An error comes with the index of the value that does not fit.
pub fn common_kind_of(kinds: &[Kind], what: &str) -> Result<Kind, (usize, SqlError)> {
    let mut chosen = Kind::Unknown;
    for (at, &kind) in kinds.iter().enumerate() {
        if kind == Kind::Unknown || kind == chosen {
            continue;
        }
        if chosen == Kind::Unknown {
            chosen = kind;
        } else if chosen.category() != kind.category() {
            let message = format!("{what} types {} and {} cannot be matched", chosen.name(), kind.name());
            return Err((at, SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
        } else if !chosen.is_preferred() && can_coerce(chosen, kind) && !can_coerce(kind, chosen) {
            chosen = kind;
        }
    }
    if chosen == Kind::Unknown {
        return Ok(Kind::Text);
    }
    match kinds.iter().enumerate().find(|(_, kind)| !can_coerce(**kind, chosen)) {
        None => Ok(chosen),
        Some((at, kind)) => {
            let message = format!("{what} could not convert type {} to {}", kind.name(), chosen.name());
            Err((at, SqlError::new(SqlState::CANNOT_COERCE, message)))
        }
    }
}
