//! Check at login that the server still accepts a pool's user, and its credentials.
//!
//! **Invariant:** what was learned is believed for a few seconds ([`FRESH`]), and one asks at a time. Whoever the catalog would
//! turn away is turned away by the server itself, in its own words. Where the defaults of the role or of the database are
//! others, connections that were made before serve nobody any more.

use crate::Upstream;
use crate::clients::check;
use crate::clients::priority;
use crate::servers::pool::{Pool, Welcome};
use crate::servers::server_conn::Failed;
use crate::servers::target::Target;
use crate::setup::roles::FRESH;
use crate::setup::sessions;
use crate::statements::session_settings::{Settings, WITHOUT_DEADLINE, literal};
use stage::Class;
use statement::{SqlError, SqlState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who can be believed still is after so long: a pool whose connections are all at work is no reason to let nobody in.
const PATIENCE: Duration = Duration::from_secs(1);

/// Condition on the defaults `s`: those of all roles and of role `r`, in all databases and in database `d`.
const OF_BOTH: &str = "s.setrole OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid, r.oid]) \
     AND s.setdatabase OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid, d.oid])";

/// The last column of the question.
const DEADLINE: usize = 5;

/// What the server has said.
type Words = Vec<Vec<Option<String>>>;

/// Servers' acceptance of the users of pools.
#[derive(Debug, Default)]
pub(crate) struct Consent {
    /// Whoever has it asks.
    asking: tokio::sync::Mutex<()>,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    asked: Option<Instant>,
    words: Option<Words>,
    /// True if sessions of its user may begin with a `statement_timeout`.
    has_deadline: bool,
}

impl Consent {
    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_fresh(&self) -> bool {
        self.last().asked.is_some_and(|asked| asked.elapsed() < FRESH)
    }

    /// The next one asks, however short the time.
    pub(crate) fn forget(&self) {
        self.last().asked = None;
    }

    /// Whether the server says that its user is a superuser.
    pub(crate) fn is_superuser(&self) -> bool {
        self.word(3).as_deref() == Some("t")
    }

    /// Tells whether sessions of its user may begin with a `statement_timeout`: one that its server, its role or its database has.
    pub(crate) fn has_deadline(&self) -> bool {
        self.last().has_deadline
    }

    /// The highest class that the server has for its user.
    pub(crate) fn class_max(&self, pool: &Pool) -> Option<Class> {
        let value = self.word(4)?;
        let class = priority::class_of(&value);
        if class.is_err() {
            tracing::warn!(user = %pool.user, value, "the server's overtake.priority_max of a role or a database is no class");
        }
        class.ok()
    }

    fn word(&self, column: usize) -> Option<String> {
        self.last().words.as_ref()?.first()?.get(column)?.clone()
    }

    /// The server has said this; says whether it had said something else.
    fn heard(&self, mut words: Words) -> bool {
        let mut last = self.last();
        last.asked = Some(Instant::now());
        // What a session has begun with says nothing of those to come.
        let deadline = words.first_mut().filter(|row| DEADLINE < row.len()).map(|row| row.swap_remove(DEADLINE));
        last.has_deadline = deadline.flatten().as_deref() == Some("t");
        let before = last.words.replace(words);
        before.is_some_and(|before| last.words.as_ref() != Some(&before))
    }
}

/// The role; whether it may log in to this database with a password; the defaults that both have; whether it is a superuser, and its
/// highest class, if it has one: only a superuser may give it that, as no server knows the setting; and whether this session, or one
/// by these defaults, begins with a `statement_timeout`. All names are those of `pg_catalog`.
fn question(user: &str) -> String {
    let (mut name, mut max) = (String::new(), String::new());
    literal(&mut name, user);
    literal(&mut max, &format!("{}=", priority::MAX));
    format!(
        "SELECT r.oid, r.rolcanlogin AND d.datallowconn AND pg_catalog.has_database_privilege(r.oid, d.oid, 'CONNECT') \
         AND (r.rolvaliduntil IS NULL OR r.rolvaliduntil OPERATOR(pg_catalog.>) pg_catalog.now()), \
         (SELECT pg_catalog.string_agg(s::pg_catalog.text, ' ' ORDER BY s::pg_catalog.text) \
         FROM pg_catalog.pg_db_role_setting s \
         WHERE {OF_BOTH}), r.rolsuper, \
         (SELECT pg_catalog.substr(c, 1 OPERATOR(pg_catalog.+) pg_catalog.length({max})) \
         FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c \
         WHERE {OF_BOTH} \
         AND pg_catalog.lower(pg_catalog.left(c, pg_catalog.length({max}))) OPERATOR(pg_catalog.=) {max} \
         ORDER BY s.setrole OPERATOR(pg_catalog.=) 0::pg_catalog.oid, s.setdatabase OPERATOR(pg_catalog.=) 0::pg_catalog.oid LIMIT 1), \
         EXISTS (SELECT FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'statement_timeout' \
         AND reset_val OPERATOR(pg_catalog.<>) '0') OR EXISTS (SELECT FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c \
         WHERE {OF_BOTH} \
         AND c OPERATOR(pg_catalog.~) '^statement_timeout=' AND c OPERATOR(pg_catalog.<>) 'statement_timeout=0') \
         FROM pg_catalog.pg_roles r, pg_catalog.pg_database d WHERE r.rolname OPERATOR(pg_catalog.=) {name} \
         AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
    )
}

impl Upstream {
    /// What a client is told that asks for these settings. The server is asked when that is not known.
    pub(crate) async fn welcome(&self, pool: &Arc<Pool>, asked: Settings, target: Target) -> Result<Welcome, SqlError> {
        confirm(pool, target).await?;
        if let Some(welcome) = pool.welcome(&asked) {
            return Ok(welcome);
        }
        let (mut taken, _passage) = pool.take_open(target).await?;
        let server = &mut taken.server;
        // What the client has asked for goes last: its `statement_timeout` is not for what is said for it.
        let begin = sessions::begin(&self.0.options().sessions, &asked);
        let (change, _) = asked.change_from(&server.settings);
        server.ask_again(&format!("{WITHOUT_DEADLINE}{begin}{change}")).await?;
        let found = check::ask(server, &asked, &pool.user).await?;
        server.settings = Arc::new(found.settings);
        let welcome = Welcome { settings: Arc::clone(&server.settings), params: Arc::clone(&server.params) };
        pool.put(taken, Instant::now());
        pool.remember(asked, welcome.clone());
        Ok(welcome)
    }
}

/// Asks, if it is time.
async fn confirm(pool: &Arc<Pool>, target: Target) -> Result<(), SqlError> {
    let consent = &pool.consent;
    if consent.is_fresh() {
        return Ok(());
    }
    let _asking = consent.asking.lock().await;
    if consent.is_fresh() {
        return Ok(());
    }
    let is_known = consent.last().words.is_some();
    if !is_known {
        return ask(pool, target).await;
    }
    if pool.database.is_paused() {
        return Ok(());
    }
    match tokio::time::timeout(PATIENCE, ask(pool, target)).await {
        Ok(asked) => asked,
        Err(_) => {
            // Nobody else is to wait as long.
            consent.last().asked = Some(Instant::now());
            Ok(())
        }
    }
}

async fn ask(pool: &Arc<Pool>, target: Target) -> Result<(), SqlError> {
    let begun = Instant::now();
    let (mut taken, _passage) = pool.take_open(target).await?;
    let words = match taken.server.ask_again(&format!("{WITHOUT_DEADLINE}{}", question(&pool.user))).await {
        Ok(words) => words,
        // It is no PostgreSQL, then, and lets in whom it lets in.
        Err(Failed::Said(error)) if is_foreign(error.state()) => Vec::new(),
        Err(failed) => return Err(failed.into()),
    };
    let was_let_in = begun <= taken.server.born;
    let node = Arc::clone(&taken.node);
    pool.put(taken, Instant::now());
    let may = words.first().and_then(|row| row.get(1)).and_then(Option::as_deref) == Some("t");
    if !may && !was_let_in {
        pool.is_let_in(&node).await?;
    }
    if pool.consent.heard(words) {
        pool.reconnect();
        pool.forget_welcomes();
    }
    Ok(())
}

/// Whether a server that says this has another catalog than PostgreSQL.
fn is_foreign(state: SqlState) -> bool {
    matches!(state.0, "0A000" | "3F000" | "42601" | "42703" | "42704" | "42883" | "42P01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_words_are_news() {
        let consent = Consent::default();
        let words = |text: &str| vec![vec![Some(text.to_owned())]];
        assert!(!consent.is_fresh());
        assert!(!consent.heard(words("a")) && !consent.heard(words("a")) && consent.is_fresh());
        assert!(consent.heard(words("b")) && consent.heard(Vec::new()));
        consent.forget();
        assert!(!consent.is_fresh() && !consent.heard(Vec::new()));
        // A connection that is older than its role's time limit, and one that is younger.
        let words = |deadline: &str| vec![["1", "t", "", "f", "", deadline].map(|word| Some(word.to_owned())).to_vec()];
        assert!(consent.heard(words("f")) && !consent.has_deadline());
        assert!(!consent.heard(words("t")) && consent.has_deadline());
        assert!(consent.heard(Vec::new()) && !consent.has_deadline());
    }
}
