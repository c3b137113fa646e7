//! Places for workers: so many for each tenant, and for all.
//!
//! **Invariant:** a place is free again when its value is dropped, which is after its worker was reaped.

use locked::{Locked, LockedResult};
use procs::Tenant;
use procs::ends;
use statement::error::SqlResult;
use statement::pulse;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Time in which a place becomes free, if workers are about to end.
const PLACE_WAIT: Duration = Duration::from_millis(200);
/// Time between two looks while somebody waits for a place.
const PLACE_LOOK: Duration = Duration::from_millis(5);

/// Number of workers of each tenant.
#[derive(Debug, Default)]
struct Counts {
    tenants: HashMap<Tenant, usize>,
    all: usize,
    /// Workers whose instance is gone.
    ending: usize,
}

/// Places for workers.
#[derive(Debug)]
pub(crate) struct Places {
    counts: Mutex<Counts>,
    changed: Condvar,
    tenant_max: usize,
    server_max: usize,
}

/// Place of one worker.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    tenant: Tenant,
    is_ending: bool,
}

impl Places {
    pub(crate) fn new(tenant_max: usize, server_max: usize) -> Places {
        Places { counts: Mutex::default(), changed: Condvar::new(), tenant_max, server_max }
    }

    /// Returns a place for a worker of a tenant.
    ///
    /// # Errors
    /// `53000` if there is none; those of the statement's pulse.
    pub(crate) fn take(self: &Arc<Places>, tenant: Tenant) -> SqlResult<Place> {
        let begin = Instant::now();
        loop {
            let mut counts = self.counts.locked_anyway();
            let of_tenant = counts.tenants.get(&tenant).copied().unwrap_or(0);
            let refused = if self.tenant_max <= of_tenant {
                ends::exhausted("workers of one role", self.tenant_max)
            } else if self.server_max <= counts.all {
                ends::exhausted("workers of stored code", self.server_max)
            } else {
                counts.all += 1;
                *counts.tenants.entry(tenant).or_default() += 1;
                return Ok(Place { places: Arc::clone(self), tenant, is_ending: false });
            };
            if counts.ending == 0 || PLACE_WAIT < begin.elapsed() {
                return Err(refused);
            }
            // A look may take long, and no other tenant waits for it.
            drop(self.changed.wait_timeout(counts, PLACE_LOOK).anyway());
            pulse::look()?;
        }
    }
}

impl Place {
    /// Notes that the worker's instance is gone.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        self.places.counts.locked_anyway().ending += 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.places.counts.locked_anyway();
        counts.all -= 1;
        counts.ending -= usize::from(self.is_ending);
        if let Some(count) = counts.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.tenants.remove(&self.tenant);
            }
        }
        self.places.changed.notify_all();
    }
}
