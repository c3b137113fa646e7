//! The paper's 17 set-ups (its Tables 1 and 2), for the simulator.
//!
//! The paper names workloads and hardware, not demands; those here are made so that each has the bottleneck, the variability
//! and the locking that the paper reports: TPC-C's C² is 1 to 1.5, that of TPC-W's browsing 15, ordering is bound by locks under
//! repeatable read and less so under uncommitted read.
//!
//! **Invariant:** their order and their names, `s01` to `s17`, do not change: figures are called after them.

use super::workload::{Locks, Workload};
use crate::model::{Network, Station};
use std::fmt;

/// Resource that limits a set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// Processors.
    Processor,
    /// Disks.
    Disk,
    /// Processors and disks, about equally.
    Both,
    /// Rows that are locked.
    Locks,
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bottleneck::Processor => "processor",
            Bottleneck::Disk => "disk",
            Bottleneck::Both => "processor and disk",
            Bottleneck::Locks => "locks",
        })
    }
}

/// A machine and its workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Name: `s01` to `s17`.
    pub name: String,
    /// The paper's workload, and the isolation level if it varies.
    pub description: String,
    /// Processors.
    pub processors: u32,
    /// Disks for data.
    pub disks: u32,
    /// Resource that limits it by design.
    pub bottleneck: Bottleneck,
    /// Workload.
    pub workload: Workload,
}

/// Milliseconds.
const MS: f64 = 1e-3;

/// Returns the workload of TPC-C in memory.
fn inventory(locks: Locks) -> Workload {
    Workload { processor: 10.0 * MS, disk: 1.0 * MS, visits: 10.0, c2: 1.2, locks }
}

/// Locks with many warehouses: rows are seldom wanted by two.
const MANY_WAREHOUSES: Locks = Locks { rows: 400, each: 2, overhead: 0.0 };
/// Locks under uncommitted read: readers lock nothing.
const READS_LOCK_NOTHING: Locks = Locks { rows: 400, each: 1, overhead: 0.0 };

/// Returns the workload of TPC-C out of memory.
fn inventory_on_disk() -> Workload {
    Workload { processor: 1.0 * MS, disk: 30.0 * MS, visits: 10.0, c2: 1.2, locks: MANY_WAREHOUSES }
}

/// Returns the workload of TPC-W browsing: a few queries are very long.
fn browsing(processor: f64, disk: f64) -> Workload {
    Workload { processor, disk, visits: 20.0, c2: 15.0, locks: Locks::NONE }
}

/// Returns the workload of TPC-W ordering: many update few rows.
fn ordering(each: u32) -> Workload {
    let locks = Locks { rows: 10, each, overhead: 0.01 };
    Workload { processor: 5.0 * MS, disk: 0.5 * MS, visits: 8.0, c2: 2.0, locks }
}

impl Setup {
    /// Returns the 17 set-ups.
    pub fn all() -> Vec<Setup> {
        use Bottleneck::{Both, Disk, Locks as OnLocks, Processor};
        let both = || Workload { processor: 15.0 * MS, disk: 15.0 * MS, ..inventory_on_disk() };
        let both_striped = || Workload { processor: 15.0 * MS, disk: 60.0 * MS, ..inventory_on_disk() };
        let all = [
            ("CPU-inventory", 1, 1, Processor, inventory(MANY_WAREHOUSES)),
            ("CPU-inventory", 2, 1, Processor, inventory(MANY_WAREHOUSES)),
            ("CPU-browsing", 1, 1, Processor, browsing(40.0 * MS, 2.0 * MS)),
            ("CPU-browsing", 2, 1, Processor, browsing(40.0 * MS, 2.0 * MS)),
            ("IO-inventory", 1, 1, Disk, inventory_on_disk()),
            ("IO-inventory", 1, 2, Disk, inventory_on_disk()),
            ("IO-inventory", 1, 3, Disk, inventory_on_disk()),
            ("IO-inventory", 1, 4, Disk, inventory_on_disk()),
            ("IO-browsing", 1, 1, Disk, browsing(2.0 * MS, 60.0 * MS)),
            ("IO-browsing", 1, 4, Disk, browsing(2.0 * MS, 60.0 * MS)),
            ("CPU+IO-inventory", 1, 1, Both, both()),
            ("CPU+IO-inventory", 1, 4, Both, both_striped()),
            ("CPU-ordering, repeatable read", 1, 1, OnLocks, ordering(3)),
            ("CPU-ordering, uncommitted read", 1, 1, Processor, ordering(1)),
            ("CPU-ordering, repeatable read", 2, 1, OnLocks, ordering(3)),
            ("CPU-ordering, uncommitted read", 2, 1, OnLocks, ordering(1)),
            ("CPU-inventory, uncommitted read", 1, 1, Processor, inventory(READS_LOCK_NOTHING)),
        ];
        let setup = |(at, (description, processors, disks, bottleneck, workload)): (usize, (&str, u32, u32, _, _))| {
            let (name, description) = (format!("s{:02}", at + 1), description.to_owned());
            Setup { name, description, processors, disks, bottleneck, workload }
        };
        all.into_iter().enumerate().map(setup).collect()
    }

    /// Returns the resources, as the model of section 4.1 has them; locks are none.
    ///
    /// # Panics
    /// If it asks nothing of them, or no distribution has its sizes.
    pub fn network(&self) -> Network {
        let Workload { processor, disk, visits, .. } = self.workload;
        let each = disk / visits * self.workload.visits_mean() / f64::from(self.disks.max(1));
        let disks = (0..self.disks).map(|_| Station::queue(each, 1));
        let stations = [Station::queue(processor, self.processors)].into_iter().chain(disks).collect();
        Network::new(stations, 0.0).expect("a set-up asks something of its resources")
    }

    /// Creates a set-up with one station for each resource and no locks, the case of the model of section 4.1.
    /// Balanced: `count` disks do all.
    pub fn balanced_disks(count: u32, seconds: f64) -> Setup {
        Setup {
            name: format!("balanced{count:02}"),
            description: format!("{count} disks, nothing else"),
            processors: 1,
            disks: count,
            bottleneck: Bottleneck::Disk,
            workload: Workload { processor: 0.0, disk: seconds, visits: 20.0, c2: 1.0, locks: Locks::NONE },
        }
    }

    /// Creates a set-up with one processor and nothing else, for demands of this C², the case of the model of section
    /// 4.2.
    pub fn one_processor(seconds: f64, c2: f64) -> Setup {
        Setup {
            name: "processor".to_owned(),
            description: "one processor, nothing else".to_owned(),
            processors: 1,
            disks: 0,
            bottleneck: Bottleneck::Processor,
            workload: Workload { processor: seconds, disk: 0.0, visits: 1.0, c2, locks: Locks::NONE },
        }
    }
}
