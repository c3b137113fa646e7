//! Stored code and its isolation: `overtake.modules`, `overtake.isolation_levels`, `overtake.isolated_routines`,
//! `overtake.tenants`.

use super::{SystemContext, SystemRows, array, int, oid, or_null, reg, text, yes};
use procs::{Availability, Channel};
use statement::error::SqlResult;
use types::datum::Datum;

pub(super) fn filled(name: &str) -> Option<super::TableFill> {
    match name {
        "modules" => Some(modules),
        "isolation_levels" => Some(levels),
        "isolated_routines" => Some(routines),
        "tenants" => Some(tenants),
        _ => None,
    }
}

/// Adds the rows of `overtake.modules`: one for each artifact.
fn modules(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for module in source.state().modules() {
        for artifact in &module.artifacts {
            rows.add([
                ("oid", oid(module.oid)),
                ("name", text(&module.name)),
                ("owner", text(super::server::owner_name(source.snapshot, module.owner))),
                ("artifact", text(artifact.kind().name())),
                ("bytes", int(artifact.bytes().len() as i64)),
                ("sha256", Datum::Bytes(artifact.digest().into())),
                ("entries", array(module.manifest.entries.iter().map(text))),
                ("manifest", text(&module.text)),
            ]);
        }
    }
    Ok(())
}

/// Adds the rows of `overtake.isolation_levels`.
fn levels(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let runtimes = source.env.code.runtimes();
    for (level, availability) in runtimes.levels() {
        let reason = match &availability {
            Availability::Ready => None,
            Availability::Missing(reason) => Some(reason),
        };
        rows.add([
            ("isolation", text(level.name())),
            ("available", yes(reason.is_none())),
            ("reason", or_null(reason, text)),
            ("means", or_null(runtimes.means(level), text)),
            ("artifact", text(level.artifact().name())),
            ("channels", array(level.channels().iter().map(|channel: &Channel| text(channel.name())))),
        ]);
    }
    Ok(())
}

/// Adds the rows of `overtake.isolated_routines`: the routines whose code is in a module.
fn routines(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    for routine in source.state().routines() {
        let (Some((module, entry)), Some((level, channel))) = (routine.module(), routine.level()) else { continue };
        let limits = routine.isolation.limits;
        rows.add([
            ("oid", oid(routine.oid)),
            ("schema", or_null(reg::schema_name(source.snapshot, routine.schema), text)),
            ("name", text(&routine.name)),
            ("language", text(routine.language.name())),
            ("module", text(module)),
            ("entry", text(entry)),
            ("isolation", text(level.name())),
            ("channel", text(channel.name())),
            ("time_limit_ms", or_null(limits.time, |time| int(time.as_millis() as i64))),
            ("memory_limit", int(limits.memory as i64)),
            ("row_limit", or_null(limits.rows, |rows| int(rows as i64))),
            ("urgent", yes(routine.isolation.is_urgent)),
        ]);
    }
    Ok(())
}

/// Adds the rows of `overtake.tenants`: all roles but the predefined ones.
fn tenants(source: &SystemContext<'_>, rows: &mut SystemRows<'_>) -> SqlResult<()> {
    let roles = &source.snapshot.roles;
    for (name, role) in roles.all() {
        if settings::roles::is_predefined(role.oid) {
            continue;
        }
        // The role of a tenant cannot be dropped while others belong to it.
        let tenant = role.tenant.and_then(|oid| roles.name_of(oid));
        rows.add([("role", text(&name)), ("tenant", text(tenant.as_deref().unwrap_or(&name)))]);
    }
    Ok(())
}
