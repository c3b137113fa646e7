//! Signals between sessions: `pg_cancel_backend`, `pg_terminate_backend`.
//!
//! **Invariant:** only a superuser cancels or terminates a superuser's session. Another session belongs to its role and
//! the members of it, and `pg_signal_backend` may end any.

use super::functions::{integer, line, session, snapshot};
use catalog::rights::role_named;
use procs::NoticeLevel;
use settings::roles::SIGNAL_BACKEND;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::outcome::Signal;
use types::Kind;
use types::datum::Datum;
use types::ops::{CallContext, Function};

fn signal(args: &[Datum], env: &dyn CallContext, signal: Signal) -> SqlResult<Datum> {
    let snapshot = snapshot(env)?;
    let pid = integer(args.first())? as i32;
    let provider = snapshot.provider.as_ref();
    let Some((provider, whose)) = provider.and_then(|provider| Some((provider, provider.role_of(pid)?))) else {
        let message = format!("PID {pid} is not a PostgreSQL backend process");
        session(env)?.code.notice(NoticeLevel::Warning, &message)?;
        return Ok(Datum::Bool(false));
    };
    let is_superuser = |name: &str| snapshot.roles.get(name).is_some_and(|role| role.is_superuser);
    let what = match signal {
        Signal::Cancel => "cancel",
        Signal::Terminate => "terminate",
    };
    let refused = |message: String| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    if !is_superuser(env.user()) {
        if is_superuser(&whose) {
            let of = if signal == Signal::Cancel { "query" } else { "process" };
            return refused(format!("must be a superuser to {what} superuser {of}"));
        }
        let own = role_named(&snapshot.roles, env.user());
        let may = |role: u32| snapshot.roles.has_rights_of(own, role);
        if !snapshot.roles.oid_of(&whose).is_some_and(may) && !may(SIGNAL_BACKEND) {
            let of = if signal == Signal::Cancel { "query is being canceled" } else { "process is being terminated" };
            return refused(format!("must be a member of the role whose {of} or member of pg_signal_backend"));
        }
    }
    Ok(Datum::Bool(session(env)?.signal(pid, signal, || provider.signal(pid, signal))))
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Int4, Int8};
    let volatile = |function: Function| Function { volatile: true, ..function };
    vec![
        volatile(line("pg_cancel_backend", &[Int4], Bool, |a, env| signal(a, env, Signal::Cancel))),
        volatile(line("pg_terminate_backend", &[Int4], Bool, |a, env| signal(a, env, Signal::Terminate))),
        // The function does not wait, so it supports no timeout but 0.
        volatile(line("pg_terminate_backend", &[Int4, Int8], Bool, |a, env| match integer(a.get(1))? {
            0 => signal(a, env, Signal::Terminate),
            _ => Err(SqlError::unsupported("to wait for a session's end")),
        })),
    ]
}
