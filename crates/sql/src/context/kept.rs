//! Catalog as a transaction sees it that keeps tables in the version of its snapshot.

use catalog::{Catalog, CatalogState, Relation, TableInfo};
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns the state with these tables in place of those that replaced them; `None` if there are no such tables.
///
/// The tables are retired, so they cannot be written. Neither can a table to which a successor of theirs refers by a
/// foreign key that they lack, because the actions of that key could not be taken: the state has a retired description
/// of it.
///
/// # Errors
/// `40001` if a name belongs to another table now.
pub(crate) fn with_kept(
    state: &CatalogState,
    kept: &[Arc<TableInfo>],
    catalog: &Catalog,
) -> SqlResult<Option<CatalogState>> {
    if kept.is_empty() {
        return Ok(None);
    }
    let mut seen = state.next(catalog.version());
    for table in kept.iter().filter(|table| state.table_numbered(table.oid).is_some()) {
        seen.replace(Relation::Table(Arc::clone(table))).map_err(|_| SqlError::changed_since())?;
    }
    for table in kept {
        let Some(now) = state.table_numbered(table.oid) else { continue };
        let is_known = |oid| table.foreign_keys().any(|(known, _)| known.oid == oid);
        for (_, key) in now.foreign_keys().filter(|(constraint, _)| !is_known(constraint.oid)) {
            if let Some(parent) = seen.table_numbered(key.parent).filter(|parent| !parent.is_retired()) {
                let parent = TableInfo { retired: AtomicBool::new(true), ..parent.copy() };
                seen.replace(Relation::Table(Arc::new(parent)))?;
            }
        }
    }
    Ok(Some(seen))
}
