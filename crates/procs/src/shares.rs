//! Shares of tenants in what stored code may take: instances, their memory, and compilers.
//!
//! **Invariant:** a tenant never has more than its share of anything, whether its instances run or are idle; and if all
//! is taken, an idle instance of the tenant that has the most makes room for others. So no tenant shuts out another.
//!
//! Memory is a share of the server's limit ([`memory::limit_bytes`]): a tenant's code may take a quarter of it, and all
//! code a half. The memory of a worker counts from its start, as much as it may use, because it grows in another
//! process; that of WebAssembly counts as it grows.

use crate::ends;
use crate::level::ArtifactKind;
use locked::{Locked, LockedResult};
use preempt::memory::{self, HeldMapping};
use stage::turn;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

/// Part of the server's memory that the code of one tenant may take.
const TENANT_PART: usize = 4;
/// Part of the server's memory that all code may take.
const CODE_PART: usize = 2;
/// Time in which a place becomes free, if instances are about to end.
const PLACE_WAIT: Duration = Duration::from_millis(200);
/// Time between two looks for the end of a statement that waits.
const LOOK: Duration = Duration::from_millis(5);

/// Owner of instances: no two share a pool, a ring, or memory. The OID of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(pub u32);

/// Tenant, and the shares of the server in which it has its own.
#[derive(Clone, Debug)]
pub struct CodeTenant {
    /// Shares of all tenants.
    pub shares: Arc<CodeShares>,
    /// The one that takes.
    pub tenant: Tenant,
}

impl CodeTenant {
    /// Returns a tenant with shares that it has alone, for code outside of a server.
    pub fn alone(tenant: Tenant) -> CodeTenant {
        CodeTenant { shares: CodeShares::new(ShareLimits::default()), tenant }
    }

    /// Takes a share for an instance, as [`CodeShares::take`] does.
    ///
    /// # Errors
    /// Those of [`CodeShares::take`].
    pub fn take(&self, kind: InstanceKind, bytes: u64) -> SqlResult<InstanceShare> {
        self.shares.take(self.tenant, kind, bytes)
    }

    /// Waits for the place of a compiler, as [`CodeShares::compiler`] does.
    ///
    /// # Errors
    /// Those of [`CodeShares::compiler`].
    pub fn compiler(&self) -> SqlResult<CompilerShare> {
        self.shares.compiler(self.tenant)
    }
}

/// Kind of an instance, by what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceKind {
    /// Code within the server's process, without memory of its own.
    Linked,
    /// Memory within the server's process.
    Wasm,
    /// Process.
    Worker,
}

impl InstanceKind {
    /// Returns the kind of the instances of an artifact.
    pub fn of(artifact: ArtifactKind) -> InstanceKind {
        match artifact {
            ArtifactKind::Native => InstanceKind::Linked,
            ArtifactKind::Wasm => InstanceKind::Wasm,
            ArtifactKind::Exec | ArtifactKind::Guest => InstanceKind::Worker,
        }
    }

    fn index(self) -> usize {
        match self {
            InstanceKind::Linked => 0,
            InstanceKind::Wasm => 1,
            InstanceKind::Worker => 2,
        }
    }
}

/// Greatest number of something, for one tenant and for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimit {
    /// For one tenant.
    pub tenant: usize,
    /// For all tenants together.
    pub server: usize,
}

/// Limits of all shares, besides that of memory.
#[derive(Clone, Copy, Debug)]
pub struct ShareLimits {
    /// Instances of WebAssembly.
    pub wasm: ShareLimit,
    /// Workers.
    pub workers: ShareLimit,
    /// Modules that are compiled at a time.
    pub compilers: ShareLimit,
}

impl Default for ShareLimits {
    fn default() -> ShareLimits {
        ShareLimits {
            wasm: ShareLimit { tenant: 250, server: 1_000 },
            workers: ShareLimit { tenant: 64, server: 512 },
            compilers: ShareLimit { tenant: 1, server: 2 },
        }
    }
}

/// Sessions' idle instances, which are taken back when others need their places or their memory.
pub trait IdleInstances: Send + Sync {
    /// Drops an idle instance of this tenant and one of these kinds. Returns false if there is none.
    fn give_up(&self, tenant: Tenant, of: &[InstanceKind]) -> bool;
}

/// Account of one tenant.
#[derive(Debug)]
struct TenantAccount {
    tenant: Tenant,
    /// Memory of its instances in bytes.
    bytes: AtomicUsize,
}

/// Numbers of a tenant's instances, by kind, and of its compilers.
#[derive(Debug)]
struct TenantCounts {
    account: Arc<TenantAccount>,
    instances: [usize; 3],
    compilers: usize,
}

#[derive(Debug, Default)]
struct Counts {
    tenants: HashMap<Tenant, TenantCounts>,
    instances: [usize; 3],
    compilers: usize,
    /// Instances that are about to end, by kind.
    ending: [usize; 3],
}

/// Shares of all tenants of a server.
pub struct CodeShares {
    limits: ShareLimits,
    counts: Mutex<Counts>,
    /// Notified when something was given back.
    changed: Condvar,
    /// Memory of all instances in bytes.
    bytes: AtomicUsize,
    /// Sessions that keep instances.
    idle: Mutex<Vec<Weak<dyn IdleInstances>>>,
}

impl std::fmt::Debug for CodeShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeShares").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Thing of which there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    /// Place for an instance of this kind.
    Place(InstanceKind),
    /// Memory of the share.
    Memory,
    /// Memory of the server's process.
    Held,
}

impl Missing {
    /// Returns the kinds of instances that have it.
    fn kinds(self) -> &'static [InstanceKind] {
        match self {
            Missing::Place(InstanceKind::Linked) => &[InstanceKind::Linked],
            Missing::Place(InstanceKind::Worker) => &[InstanceKind::Worker],
            Missing::Place(InstanceKind::Wasm) | Missing::Held => &[InstanceKind::Wasm],
            Missing::Memory => &[InstanceKind::Wasm, InstanceKind::Worker],
        }
    }
}

/// Refusal by a limit.
struct Reached {
    missing: Missing,
    /// True if the limit is that of the tenant: others' instances would not help it.
    is_of_tenant: bool,
    error: SqlError,
}

impl Reached {
    fn of_tenant(missing: Missing, error: SqlError) -> Reached {
        Reached { missing, is_of_tenant: true, error }
    }

    fn of_server(missing: Missing, error: SqlError) -> Reached {
        Reached { missing, is_of_tenant: false, error }
    }
}

/// Returns the error for a share of memory that is used up.
fn no_memory(whose: &str, bytes: usize) -> SqlError {
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for stored code")
        .detail(format!("The code of {whose} may use {} kB, a part of overtake.memory.", bytes >> 10))
}

/// Share of one instance, which is given back when the value is dropped.
#[derive(Debug)]
pub struct InstanceShare {
    shares: Arc<CodeShares>,
    account: Arc<TenantAccount>,
    kind: InstanceKind,
    /// Memory in bytes.
    bytes: usize,
    /// Memory within the server's process.
    held: HeldMapping,
    is_ending: bool,
}

/// Place of a compiler, which is given back when the value is dropped.
#[derive(Debug)]
pub struct CompilerShare {
    shares: Arc<CodeShares>,
    tenant: Tenant,
}

impl CodeShares {
    /// Creates the shares.
    pub fn new(limits: ShareLimits) -> Arc<CodeShares> {
        let (counts, changed, bytes, idle) = Default::default();
        Arc::new(CodeShares { limits, counts, changed, bytes, idle })
    }

    /// Adds a session that keeps idle instances.
    pub fn keep(&self, idle: Weak<dyn IdleInstances>) {
        let mut all = self.idle.locked();
        if all.len() == all.capacity() {
            all.retain(|session| session.strong_count() != 0);
        }
        all.push(idle);
    }

    /// Takes a share for an instance of a tenant, which begins with this memory in bytes. Idle instances make room for
    /// it.
    ///
    /// # Errors
    /// `53000` for too many instances, `53200` for too much memory; those of the statement's pulse.
    pub fn take(self: &Arc<CodeShares>, tenant: Tenant, kind: InstanceKind, bytes: u64) -> SqlResult<InstanceShare> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut waits_since = Instant::now();
        loop {
            let reached = match self.try_take(tenant, kind, bytes) {
                Ok(share) => return Ok(share),
                Err(reached) => reached,
            };
            let kinds = reached.missing.kinds();
            let counts = self.counts.locked();
            // What is about to be given back may be enough: no other instance goes before.
            if kinds.iter().any(|kind| 0 < counts.ending[kind.index()]) && waits_since.elapsed() < PLACE_WAIT {
                // A look may take long, and no other tenant waits for it.
                drop(self.changed.wait_timeout(counts, LOOK).or_end_process());
                pulse::look()?;
                continue;
            }
            drop(counts);
            if !self.make_room(&reached, tenant, kinds) {
                return Err(reached.error);
            }
            waits_since = Instant::now();
        }
    }

    fn try_take(
        self: &Arc<CodeShares>,
        tenant: Tenant,
        kind: InstanceKind,
        bytes: usize,
    ) -> Result<InstanceShare, Reached> {
        let limit = match kind {
            InstanceKind::Linked => None,
            InstanceKind::Wasm => Some((self.limits.wasm, "wasm instances", "instances of wasm modules")),
            InstanceKind::Worker => Some((self.limits.workers, "workers", "workers of stored code")),
        };
        let mut share = {
            let mut counts = self.counts.locked();
            let all = counts.instances[kind.index()];
            let of_tenant = counts.tenants.get(&tenant).map_or(0, |one| one.instances[kind.index()]);
            if let Some((limit, of_one, of_all)) = limit {
                if limit.tenant <= of_tenant {
                    let error = ends::exhausted(&format!("{of_one} of one tenant"), limit.tenant);
                    return Err(Reached::of_tenant(Missing::Place(kind), error));
                }
                if limit.server <= all {
                    return Err(Reached::of_server(Missing::Place(kind), ends::exhausted(of_all, limit.server)));
                }
            }
            counts.instances[kind.index()] += 1;
            let of_tenant = counts.of(tenant);
            of_tenant.instances[kind.index()] += 1;
            let account = Arc::clone(&of_tenant.account);
            let held = HeldMapping::default();
            InstanceShare { shares: Arc::clone(self), account, kind, bytes: 0, held, is_ending: false }
        };
        share.try_resize(bytes)?;
        Ok(share)
    }

    /// Has a session drop an idle instance of these kinds that has what is missing. Returns false if there is none.
    fn make_room(&self, reached: &Reached, tenant: Tenant, of: &[InstanceKind]) -> bool {
        let all: Vec<_> = self.idle.locked().iter().filter_map(Weak::upgrade).collect();
        let gives = |tenant: Tenant| all.iter().any(|session| session.give_up(tenant, of));
        if reached.is_of_tenant { gives(tenant) } else { self.by_size(reached.missing).into_iter().any(gives) }
    }

    /// Returns the tenants that have what is missing, the one with the most first.
    fn by_size(&self, missing: Missing) -> Vec<Tenant> {
        let counts = self.counts.locked();
        let size = |one: &TenantCounts| match missing {
            Missing::Place(kind) => one.instances[kind.index()],
            Missing::Memory | Missing::Held => one.account.bytes.load(Relaxed),
        };
        let mut all: Vec<_> = counts.tenants.iter().map(|(tenant, one)| (size(one), *tenant)).collect();
        all.retain(|(size, _)| 0 < *size);
        all.sort_by_key(|(size, tenant)| (std::cmp::Reverse(*size), *tenant));
        all.into_iter().map(|(_, tenant)| tenant).collect()
    }

    /// Waits for the place of a compiler.
    ///
    /// # Errors
    /// `57014` if the statement is cancelled.
    pub fn compiler(self: &Arc<CodeShares>, tenant: Tenant) -> SqlResult<CompilerShare> {
        let limit = self.limits.compilers;
        loop {
            let mut counts = self.counts.locked();
            let of_tenant = counts.tenants.get(&tenant).map_or(0, |one| one.compilers);
            if counts.compilers < limit.server && of_tenant < limit.tenant {
                counts.compilers += 1;
                counts.of(tenant).compilers += 1;
                return Ok(CompilerShare { shares: Arc::clone(self), tenant });
            }
            drop(turn::outside(|| self.changed.wait_timeout(counts, LOOK)).or_end_process());
            pulse::look()?;
        }
    }
}

impl Counts {
    fn of(&mut self, tenant: Tenant) -> &mut TenantCounts {
        self.tenants.entry(tenant).or_insert_with(|| TenantCounts {
            account: Arc::new(TenantAccount { tenant, bytes: AtomicUsize::new(0) }),
            instances: [0; 3],
            compilers: 0,
        })
    }

    /// Forgets a tenant that has nothing.
    fn leave(&mut self, tenant: Tenant) {
        if self.tenants.get(&tenant).is_some_and(|one| one.instances == [0; 3] && one.compilers == 0) {
            self.tenants.remove(&tenant);
        }
    }
}

impl InstanceShare {
    /// Returns the memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts this memory from now on, in bytes. Takes no lock, so it may be called in an urgent context.
    ///
    /// # Errors
    /// `53200`
    pub fn resize(&mut self, bytes: usize) -> SqlResult<()> {
        self.try_resize(bytes).map_err(|reached| reached.error)
    }

    /// Counts this memory from now on as [`InstanceShare::resize`] does. Idle instances that end at once make room for it.
    ///
    /// # Errors
    /// `53200`
    pub fn resize_with_room(&mut self, bytes: usize) -> SqlResult<()> {
        loop {
            let Err(reached) = self.try_resize(bytes) else { return Ok(()) };
            if !self.shares.make_room(&reached, self.account.tenant, &[InstanceKind::Wasm]) {
                return Err(reached.error);
            }
        }
    }

    fn try_resize(&mut self, bytes: usize) -> Result<(), Reached> {
        let more = bytes.saturating_sub(self.bytes);
        let limit = memory::limit_bytes();
        let of_tenant = self.account.bytes.fetch_add(more, Relaxed) + more;
        let of_all = self.shares.bytes.fetch_add(more, Relaxed) + more;
        let is_here = match self.kind {
            InstanceKind::Linked | InstanceKind::Wasm => true,
            InstanceKind::Worker => false,
        };
        let reached = if 0 < more && limit / TENANT_PART < of_tenant {
            Some(Reached::of_tenant(Missing::Memory, no_memory("one tenant", limit / TENANT_PART)))
        } else if 0 < more && limit / CODE_PART < of_all {
            Some(Reached::of_server(Missing::Memory, no_memory("all tenants", limit / CODE_PART)))
        } else if is_here && !self.held.resize(bytes) {
            Some(Reached::of_server(Missing::Held, SqlError::no_room()))
        } else {
            None
        };
        let less = match &reached {
            Some(_) => more,
            None => self.bytes.saturating_sub(bytes),
        };
        self.account.bytes.fetch_sub(less, Relaxed);
        self.shares.bytes.fetch_sub(less, Relaxed);
        match reached {
            Some(reached) => Err(reached),
            None => {
                self.bytes = bytes;
                Ok(())
            }
        }
    }

    /// Notes that the instance is gone, though what it takes is not given back yet.
    pub fn end(&mut self) {
        self.is_ending = true;
        self.shares.counts.locked().ending[self.kind.index()] += 1;
    }
}

impl Drop for InstanceShare {
    fn drop(&mut self) {
        self.account.bytes.fetch_sub(self.bytes, Relaxed);
        self.shares.bytes.fetch_sub(self.bytes, Relaxed);
        let mut counts = self.shares.counts.locked_anyway();
        counts.instances[self.kind.index()] -= 1;
        counts.ending[self.kind.index()] -= usize::from(self.is_ending);
        counts.of(self.account.tenant).instances[self.kind.index()] -= 1;
        counts.leave(self.account.tenant);
        drop(counts);
        self.shares.changed.notify_all();
    }
}

impl Drop for CompilerShare {
    fn drop(&mut self) {
        // The drop may be part of the unwinding of a compiler's panic.
        let mut counts = self.shares.counts.locked_anyway();
        counts.compilers -= 1;
        counts.of(self.tenant).compilers -= 1;
        counts.leave(self.tenant);
        drop(counts);
        self.shares.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ShareLimits = ShareLimits {
        wasm: ShareLimit { tenant: 2, server: 3 },
        workers: ShareLimit { tenant: 1, server: 1 },
        compilers: ShareLimit { tenant: 1, server: 2 },
    };

    /// Session whose idle instances are shares.
    #[derive(Default)]
    struct Session(Mutex<Vec<InstanceShare>>);

    impl IdleInstances for Session {
        fn give_up(&self, tenant: Tenant, of: &[InstanceKind]) -> bool {
            let mut all = self.0.locked_anyway();
            let at = all.iter().position(|share| share.account.tenant == tenant && of.contains(&share.kind));
            at.map(|at| all.remove(at)).is_some()
        }
    }

    fn session(shares: &Arc<CodeShares>) -> Arc<Session> {
        let session = Arc::new(Session::default());
        let idle: Weak<Session> = Arc::downgrade(&session);
        shares.keep(idle);
        session
    }

    fn refusal(taken: SqlResult<InstanceShare>) -> String {
        let error = taken.expect_err("nothing is left");
        format!("{} {}", error.state().0, error.message())
    }

    #[test]
    fn no_tenant_takes_all_places() {
        let shares = CodeShares::new(LIMITS);
        let take = |tenant| shares.take(Tenant(tenant), InstanceKind::Wasm, 0);
        let first = [take(1), take(1)].map(|share| share.expect("a place"));
        assert_eq!(refusal(take(1)), "53000 too many wasm instances of one tenant");
        let other = take(2).expect("a place of its own");
        assert_eq!(refusal(take(2)), "53000 too many instances of wasm modules");
        drop(first);
        assert!(take(1).is_ok() && shares.take(Tenant(1), InstanceKind::Worker, 0).is_ok());
        drop(other);
        assert!(shares.counts.locked_anyway().tenants.is_empty(), "nothing is left of those that have nothing");
    }

    /// Goal: idle instances shut nobody out. Those of the tenant itself go for its own limit, and for that of the server
    /// one of the tenant that has the most.
    #[test]
    fn idle_instances_make_room() {
        let shares = CodeShares::new(LIMITS);
        let take = |tenant| shares.take(Tenant(tenant), InstanceKind::Wasm, 0);
        let (many, few) = (session(&shares), session(&shares));
        few.0.locked_anyway().push(take(2).expect("a place"));
        for _ in 0..2 {
            let share = take(1).expect("a place");
            many.0.locked_anyway().push(share);
        }
        let kept = || (many.0.locked_anyway().len(), few.0.locked_anyway().len());
        let own = take(1).expect("its own idle instance makes room");
        assert_eq!(kept(), (1, 1));
        let third = take(3).expect("one of the tenant with the most makes room");
        assert_eq!(kept(), (0, 1));
        drop((own, third));
    }

    /// Goal: for a place that is about to be free, no idle instance goes.
    #[test]
    fn an_end_under_way_is_awaited() {
        let shares = CodeShares::new(ShareLimits { workers: ShareLimit { tenant: 3, server: 3 }, ..LIMITS });
        let take = |tenant| shares.take(Tenant(tenant), InstanceKind::Worker, 0).expect("a place");
        let session = session(&shares);
        session.0.locked_anyway().extend([take(1), take(1)]);
        let mut ending = take(1);
        ending.end();
        let reaped = std::thread::spawn(move || {
            std::thread::sleep(PLACE_WAIT / 10);
            drop(ending);
        });
        drop(take(1));
        assert_eq!(session.0.locked_anyway().len(), 2);
        reaped.join().expect("no panic");
    }

    #[test]
    fn memory_is_shared() {
        let shares = CodeShares::new(ShareLimits { wasm: ShareLimit { tenant: 9, server: 9 }, ..LIMITS });
        let before = memory::held_bytes();
        memory::set_limit_bytes(before + (1 << 30));
        let part = memory::limit_bytes() / TENANT_PART;
        let take = |tenant| shares.take(Tenant(tenant), InstanceKind::Wasm, 0).expect("a place");
        let mut all = [take(1), take(1), take(2), take(3)];
        all[0].resize(part - 10).expect("room");
        let error = all[1].resize(11).expect_err("more than the share");
        assert_eq!((error.state().0, error.message()), ("53200", "out of memory for stored code"));
        all[1].resize(10).expect("the rest of the share");
        all[2].resize(part).expect("a share of its own");
        assert!(all[3].resize(10).is_err(), "all shares together are too large");
        // What is idle goes, whosever it is.
        let idle = session(&shares);
        let [first, second, third, mut last] = all;
        idle.0.locked_anyway().extend([first, second, third]);
        last.resize_with_room(10).expect("room was made");
        assert_eq!((idle.0.locked_anyway().len(), last.bytes()), (2, 10));
        assert!(before + part < memory::held_bytes(), "it counts as the process's");
        drop((last, idle));
        memory::set_limit_bytes(usize::MAX);
        assert_eq!(shares.bytes.load(Relaxed), 0);
        assert!(memory::held_bytes() < before + part);
    }

    #[test]
    fn a_tenant_has_one_compiler() {
        let shares = CodeShares::new(LIMITS);
        let first = shares.compiler(Tenant(1)).expect("a place");
        let waits = Arc::clone(&shares);
        let other = std::thread::spawn(move || waits.compiler(Tenant(1)).map(drop));
        drop(shares.compiler(Tenant(2)).expect("a place of its own"));
        assert!(!other.is_finished());
        drop(first);
        other.join().expect("no panic").expect("the place of the first");
    }
}
