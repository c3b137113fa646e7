//! Functions of advisory locks.

use super::Binder;
use super::functions::no_function;
use crate::plan::{AdvisoryCall, Expr, Typed};
use engine::AdvisoryScope;
use statement::error::SqlResult;
use types::Kind;
use types::ops::CastContext;

/// Returns the advisory call that a function name stands for.
pub(super) fn call_named(name: &str) -> Option<AdvisoryCall> {
    let lock = |tries, scope, shared| Some(AdvisoryCall::Lock { shared, tries, scope });
    let (transaction, session) = (AdvisoryScope::Transaction, AdvisoryScope::Session);
    match name {
        "pg_advisory_lock" => lock(false, session, false),
        "pg_advisory_lock_shared" => lock(false, session, true),
        "pg_advisory_xact_lock" => lock(false, transaction, false),
        "pg_advisory_xact_lock_shared" => lock(false, transaction, true),
        "pg_try_advisory_lock" => lock(true, session, false),
        "pg_try_advisory_lock_shared" => lock(true, session, true),
        "pg_try_advisory_xact_lock" => lock(true, transaction, false),
        "pg_try_advisory_xact_lock_shared" => lock(true, transaction, true),
        "pg_advisory_unlock" => Some(AdvisoryCall::Unlock { shared: false }),
        "pg_advisory_unlock_shared" => Some(AdvisoryCall::Unlock { shared: true }),
        "pg_advisory_unlock_all" => Some(AdvisoryCall::UnlockAll),
        _ => None,
    }
}

impl Binder<'_> {
    pub(super) fn advisory_call(&self, name: &str, call: AdvisoryCall, arguments: Vec<Typed>) -> SqlResult<Typed> {
        let count = arguments.len();
        let kind = match (call, count) {
            (AdvisoryCall::UnlockAll, 0) | (_, 1) => Kind::Int8,
            (_, 2) => Kind::Int4,
            _ => return Err(no_function(name, &arguments)),
        };
        if call == AdvisoryCall::UnlockAll && count != 0 {
            return Err(no_function(name, &arguments));
        }
        let fits = |argument: &Typed| self.coerce(argument.clone(), kind.into(), CastContext::Implicit);
        let bound: Result<Vec<Expr>, _> = arguments.iter().map(|argument| Ok(fits(argument)?.expr)).collect();
        let arguments = match bound {
            Ok(bound) => bound,
            // An invalid literal must report its own error, as in PostgreSQL.
            Err(error) if arguments.iter().any(|argument| argument.kind.kind == Kind::Unknown) => return Err(error),
            Err(_) => return Err(no_function(name, &arguments)),
        };
        let kind = if call.is_void() { Kind::Void } else { Kind::Bool };
        Ok(Typed::new(Expr::Advisory { call, arguments }, kind))
    }
}
