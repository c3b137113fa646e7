//! Check of SERIALIZABLE without expectations: the committed sessions must give the results of some serial order.

use super::explore::{Executor, InterleavingOutcome, run};
use super::{Level, Script, ScriptStatement, ScriptStep, Wait};
use std::collections::HashMap;

/// Describes each outcome at SERIALIZABLE that equals no serial order of the sessions that committed; empty if all do.
/// A session counts if all its transactions committed and none met a conflict; statements that a savepoint undid do no
/// harm. Scripts with several transactions in a session, with sessions of a level of their own, or with SKIP LOCKED,
/// which is not serializable, are not checked.
pub fn check_serial(script: &Script, outcomes: &[InterleavingOutcome], executor: &mut dyn Executor) -> String {
    let mut words = String::new();
    if !is_serial(script) {
        return words;
    }
    let mut known: HashMap<Vec<usize>, InterleavingOutcome> = HashMap::new();
    for outcome in outcomes {
        let committed: Vec<usize> = (0..script.sessions.len()).filter(|session| outcome.committed[*session]).collect();
        let equal = orders(&committed).into_iter().any(|order| {
            let serial = known.entry(order.clone()).or_insert_with(|| {
                let steps = |session: &usize| vec![*session; script.sessions[*session].steps.len()];
                let one_by_one: Vec<usize> = order.iter().flat_map(steps).collect();
                run(script, Level::Serializable, executor, &one_by_one)
            });
            serial.rows == outcome.rows
                && order.iter().all(|session| serial.replies[*session] == outcome.replies[*session])
        });
        if !equal {
            words.push_str(&format!("{}: no serial order gives   {}\n", script.name, outcome.line));
        }
    }
    words
}

fn is_serial(script: &Script) -> bool {
    let ends = |step: &&ScriptStep| matches!(step.statement, ScriptStatement::Commit | ScriptStatement::Rollback);
    let skips =
        |step: &ScriptStep| matches!(step.statement, ScriptStatement::Read { lock: Some((_, Wait::SkipLocked)), .. });
    let is_mixed =
        script.sessions.iter().any(|session| session.begin.level.is_some_and(|own| own != Level::Serializable));
    !is_mixed
        && script.sessions.iter().all(|session| session.steps.iter().filter(ends).count() <= 1)
        && !script.sessions.iter().flat_map(|session| &session.steps).any(skips)
}

/// Returns all permutations of these sessions.
fn orders(all: &[usize]) -> Vec<Vec<usize>> {
    if all.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: &usize| {
        let others: Vec<usize> = all.iter().copied().filter(|other| other != first).collect();
        orders(&others).into_iter().map(|order| [&[*first][..], &order].concat()).collect::<Vec<_>>()
    };
    all.iter().flat_map(with_first).collect()
}
