//! Server connections of one user to one database.
//!
//! **Invariant:** as many connections at most as there is room for, idle ones included: whoever has one has a place, and an idle
//! one stands in a place that nobody has taken. What is put back is idle in every respect.

use super::database::{Database, Passage};
use super::login::Servers;
use super::params::Params;
use super::proof::Secret;
use super::server_conn::{ServerConn, Settled};
use super::settings::Settings;
use super::sight::Sight;
use crate::scram::Keys;
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One that is idle for longer is asked whether it is still there.
const CHECK_AFTER: Duration = Duration::from_secs(30);
/// And has so long to answer.
const CHECK_TIME: Duration = Duration::from_secs(5);
/// Between two looks at who is idle.
const SWEEP: Duration = Duration::from_secs(1);
/// Logins that are remembered.
const WELCOMES_MAX: usize = 1_000;

/// How many connections a pool has, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Server connections of one user to one database.
    pub size: usize,
    /// One that is idle for longer is closed.
    pub idle: Duration,
    /// One that is older is closed when it is idle.
    pub lifetime: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        // The gate limits transactions, not the pool.
        Limits { size: 100, idle: Duration::from_mins(10), lifetime: Duration::from_hours(1) }
    }
}

/// What a client is told that logs in with certain settings.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    pub(crate) settings: Arc<Settings>,
    pub(crate) params: Arc<Params>,
}

pub(crate) struct Pool {
    servers: Arc<Servers>,
    pub(crate) user: Arc<str>,
    /// The database's.
    pub(crate) name: Arc<str>,
    pub(crate) database: Arc<Database>,
    secret: Mutex<Secret>,
    limits: Mutex<Limits>,
    /// Counts RECONNECTs: connections of an earlier one serve nobody any more.
    generation: AtomicU64,
    sights: Mutex<Vec<Weak<Sight>>>,
    room: Arc<Semaphore>,
    #[expect(clippy::vec_box, reason = "they come and go with each transaction, and are large to be moved")]
    idle: Mutex<Vec<Box<ServerConn>>>,
    /// By what clients have asked.
    welcomes: Mutex<HashMap<Settings, Welcome>>,
    /// Connections there are.
    pub(crate) count: Arc<AtomicUsize>,
}

/// A connection that somebody has, with its place.
pub(crate) struct Taken {
    pub(crate) server: Box<ServerConn>,
    place: OwnedSemaphorePermit,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// In a runtime: idle connections are looked after there.
    pub(crate) fn new(
        servers: Arc<Servers>,
        (user, name): (&str, &str),
        database: Arc<Database>,
        secret: Secret,
        limits: Limits,
    ) -> Arc<Pool> {
        let pool = Arc::new(Pool {
            servers,
            user: user.into(),
            name: name.into(),
            database,
            secret: Mutex::new(secret),
            limits: Mutex::new(limits),
            generation: AtomicU64::new(0),
            sights: Mutex::default(),
            room: Arc::new(Semaphore::new(limits.size)),
            idle: Mutex::default(),
            welcomes: Mutex::default(),
            count: Arc::default(),
        });
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// Connections prove themselves with this from now on, unless the URL has a password for them.
    pub(crate) fn learn(&self, keys: Keys) {
        let mut secret = lock(&self.secret);
        if !matches!(*secret, Secret::Password(_)) {
            *secret = Secret::Keys(keys);
        }
    }

    /// Waits for a connection, in the runtime of the caller.
    pub(crate) async fn take(&self, now: Instant) -> Result<Taken, SqlError> {
        let place = Arc::clone(&self.room).acquire_owned().await;
        let place = place.map_err(|_| SqlError::new(SqlState("57P01"), "the server is about to end"))?;
        while let Some(mut server) = self.pick() {
            match server.settle() {
                Ok(Settled::Here) => {}
                // The runtime looks once whether anything has come of it.
                Ok(Settled::Moved) => tokio::task::yield_now().await,
                Err(_) => continue,
            }
            if !server.is_quiet() {
                continue;
            }
            if CHECK_AFTER < now.saturating_duration_since(server.rested) {
                // In boxes, as is all that happens seldom: a future is as large as the largest of its waits, and is moved.
                let asked = Box::pin(tokio::time::timeout(CHECK_TIME, server.ask(""))).await;
                if !matches!(asked, Ok(Ok(_))) {
                    continue;
                }
            }
            return Ok(Taken { server, place });
        }
        let (secret, generation) = (lock(&self.secret).clone(), self.generation.load(SeqCst));
        let mut server = Box::new(Box::pin(self.servers.connect(&self.user, &self.name, &secret)).await?);
        server.counted_by(&self.count);
        server.generation = generation;
        let sight = server.show();
        let mut sights = lock(&self.sights);
        sights.retain(|sight| 0 < sight.strong_count());
        sights.push(sight);
        drop(sights);
        Ok(Taken { server, place })
    }

    /// For a question of the front's own, which a pause holds up, too.
    pub(crate) async fn take_open(&self) -> Result<(Taken, Passage), SqlError> {
        loop {
            self.database.opened().await;
            let mut taken = self.take(Instant::now()).await?;
            taken.server.lever.release();
            if let Some(passage) = self.database.begin() {
                return Ok((taken, passage));
            }
        }
    }

    /// The idle one that suits best: of this thread, the last one used.
    fn pick(&self) -> Option<Box<ServerConn>> {
        let here = thread::current().id();
        let mut idle = lock(&self.idle);
        let at = idle.iter().rposition(|server| server.home == here).or_else(|| idle.len().checked_sub(1))?;
        Some(idle.remove(at))
    }

    /// Takes one back that is idle in every respect.
    pub(crate) fn put(&self, Taken { mut server, place }: Taken, now: Instant) {
        server.rest(now);
        let mut idle = lock(&self.idle);
        // Under the lock: a RECONNECT closes it here, or there.
        if server.generation == self.generation.load(SeqCst) {
            idle.push(server);
        }
        drop(idle);
        drop(place);
    }

    /// How many are idle.
    pub(crate) fn idle_count(&self) -> usize {
        lock(&self.idle).len()
    }

    /// What is said to a client that asks for these settings, if that is known.
    pub(crate) fn welcome(&self, asked: &Settings) -> Option<Welcome> {
        lock(&self.welcomes).get(asked).cloned()
    }

    pub(crate) fn remember(&self, asked: Settings, welcome: Welcome) {
        let mut welcomes = lock(&self.welcomes);
        if WELCOMES_MAX <= welcomes.len() {
            welcomes.clear();
        }
        welcomes.insert(asked, welcome);
    }

    /// Forgets what clients were told that logged in.
    pub(crate) fn forget_welcomes(&self) {
        lock(&self.welcomes).clear();
    }

    /// Its connections, as they are shown.
    pub(crate) fn sights(&self) -> Vec<Arc<Sight>> {
        lock(&self.sights).iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes the idle ones now, others when they are put back.
    pub(crate) fn reconnect(&self) {
        self.generation.fetch_add(1, SeqCst);
        self.close_all_idle();
    }

    pub(crate) fn close_all_idle(&self) {
        lock(&self.idle).clear();
    }

    /// Other limits count from now on. Places too many go as they become free.
    pub(crate) fn set_limits(&self, limits: Limits) {
        let before = std::mem::replace(&mut *lock(&self.limits), limits);
        self.room.add_permits(limits.size.saturating_sub(before.size));
        lock(&self.idle).truncate(limits.size);
        for _ in limits.size..before.size {
            let room = Arc::clone(&self.room);
            // Whoever waits already has its turn first.
            tokio::spawn(async move { room.acquire_owned().await.into_iter().for_each(OwnedSemaphorePermit::forget) });
        }
    }

    fn close_idle(&self) {
        let Limits { idle: longest, lifetime, .. } = *lock(&self.limits);
        let is_old = |server: &ServerConn| longest < server.rested.elapsed() || lifetime < server.born.elapsed();
        let mut idle = lock(&self.idle);
        idle.retain(|server| !is_old(server));
        // Who is not used any more has no reason to stay low.
        let rested = idle.iter_mut().filter(|server| SWEEP < server.rested.elapsed());
        rested.for_each(|server| server.lever.release());
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        match pool.upgrade() {
            Some(pool) => pool.close_idle(),
            None => return,
        }
    }
}
