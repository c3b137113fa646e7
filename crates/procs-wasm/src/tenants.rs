//! Shares of tenants in the pool of instances.
//!
//! **Invariant:** no tenant has more instances than its share, so that one alone cannot take all of them.

use locked::Locked;
use procs::{Tenant, ends};
use statement::error::SqlResult;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Parts of the pool, of which a tenant gets one.
const PARTS: u32 = 4;
/// Number of instances that a tenant may have in any case, if the pool has as many.
const SHARE_MIN: u32 = 16;

/// Numbers of instances by tenant.
#[derive(Debug)]
pub(crate) struct Tenants {
    counts: Mutex<HashMap<Tenant, u32>>,
    share: u32,
}

/// Place of one instance.
#[derive(Debug)]
pub(crate) struct TenantPlace {
    tenants: Arc<Tenants>,
    tenant: Tenant,
}

impl Tenants {
    /// Creates the shares of a pool of so many instances.
    pub(crate) fn new(instances_max: u32) -> Arc<Tenants> {
        let share = (instances_max / PARTS).max(SHARE_MIN).min(instances_max);
        Arc::new(Tenants { counts: Mutex::default(), share })
    }

    /// Takes a place for an instance of a tenant.
    ///
    /// # Errors
    /// `53000`
    pub(crate) fn take(self: &Arc<Tenants>, tenant: Tenant) -> SqlResult<TenantPlace> {
        let mut counts = self.counts.locked_anyway();
        let count = counts.entry(tenant).or_default();
        if self.share <= *count {
            return Err(ends::exhausted("wasm instances of one tenant", self.share as usize));
        }
        *count += 1;
        Ok(TenantPlace { tenants: Arc::clone(self), tenant })
    }
}

impl Drop for TenantPlace {
    fn drop(&mut self) {
        let mut counts = self.tenants.counts.locked_anyway();
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tenant_takes_all_places() {
        let tenants = Tenants::new(100);
        let places: Vec<TenantPlace> = (0..25).map(|_| tenants.take(Tenant(1)).expect("a place")).collect();
        assert_eq!(tenants.take(Tenant(1)).expect_err("too many").state().0, "53000");
        let other = tenants.take(Tenant(2)).expect("a place of its own");
        drop(places);
        drop(other);
        assert!(tenants.take(Tenant(1)).is_ok());
        assert!(tenants.counts.locked_anyway().is_empty());
    }
}
