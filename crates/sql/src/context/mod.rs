//! State that statements run with: settings, clocks, role, chance, sleeps, the catalog.
//!
//! A session makes it for its statements. Executors, definitions and system views know their session by it alone.

mod code;
mod env;
mod kept;
mod names;
mod planned;
mod routines;
mod set_values;
mod sleeps;
mod urgent;

pub(crate) use code::{
    InstancePlace, ModuleCode, PlannedTable, SessionCode, check_notices, no_artifact, no_cursor, no_handle, no_module,
    notice_bytes,
};
pub(crate) use env::{Env, ROLE, SESSION_USER};
pub(crate) use kept::with_kept;
pub(crate) use names::{ListedPortal, ListedStatement, SessionObjects};
pub(crate) use planned::{PlannedRoutine, tenant_of};
pub(crate) use set_values::{value_of, zone_value};
pub(crate) use sleeps::{Sleeps, TakeBackReason};
pub(crate) use urgent::{PreparedUrgent, UrgentCode, UrgentTable, refuse_urgent_table};
