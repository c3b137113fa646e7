//! Predefined roles of PostgreSQL 15: names and OIDs.
//!
//! **Invariant:** each of them exists on every server, and no statement changes or drops one.

use super::{FIRST_OID, Membership, Role};

/// OID of `pg_database_owner`, whose only member is the owner of the database.
pub const DATABASE_OWNER: u32 = 6171;
/// OID of `pg_read_all_data`, which may read all tables.
pub const READ_ALL_DATA: u32 = 6181;
/// OID of `pg_read_all_stats`, which sees what all sessions run.
pub const READ_ALL_STATS: u32 = 3375;
/// OID of `pg_write_all_data`, which may write to all tables.
pub const WRITE_ALL_DATA: u32 = 6182;
/// OID of `pg_signal_backend`, which may cancel statements and sessions of others.
pub const SIGNAL_BACKEND: u32 = 4200;

/// OID of `pg_checkpoint`, which may run CHECKPOINT.
pub const CHECKPOINT: u32 = 4544;

const MONITOR: u32 = 3373;

const ALL: [(u32, &str); 12] = [
    (DATABASE_OWNER, "pg_database_owner"),
    (READ_ALL_DATA, "pg_read_all_data"),
    (WRITE_ALL_DATA, "pg_write_all_data"),
    (MONITOR, "pg_monitor"),
    (3374, "pg_read_all_settings"),
    (READ_ALL_STATS, "pg_read_all_stats"),
    (3377, "pg_stat_scan_tables"),
    (4569, "pg_read_server_files"),
    (4570, "pg_write_server_files"),
    (4571, "pg_execute_server_program"),
    (SIGNAL_BACKEND, "pg_signal_backend"),
    (CHECKPOINT, "pg_checkpoint"),
];

/// Roles that `pg_monitor` is a member of.
const OF_MONITOR: [u32; 3] = [3374, 3375, 3377];

/// Returns true for the OID of a predefined role.
pub fn is_predefined(oid: u32) -> bool {
    ALL.iter().any(|(own, _)| *own == oid)
}

/// Returns the predefined roles, by name.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Role)> {
    ALL.into_iter().map(|(oid, name)| {
        let of = OF_MONITOR.into_iter().filter(|_| oid == MONITOR);
        let member_of = of.map(|role| Membership { role, grantor: FIRST_OID, is_admin: false }).collect();
        (name, Role { oid, member_of, ..Role::default() })
    })
}
