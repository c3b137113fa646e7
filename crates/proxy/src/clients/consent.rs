//! Check at login that the server still accepts a pool's user, and its credentials.
//!
//! **Invariant:** an answer is trusted for a few seconds ([`FRESH`]), and one client asks at a time. A user whom the
//! catalog would refuse is refused by the server itself, in its own words. Where the defaults of the role or of the
//! database have changed, connections that were made before serve nobody any more.

use crate::Upstream;
use crate::clients::leftovers;
use crate::clients::priority;
use crate::servers::pool::{LoginParameters, Pool};
use crate::servers::server_conn::QuestionFailed;
use crate::servers::target::TargetRole;
use crate::setup::roles::FRESH;
use crate::setup::sessions;
use crate::statements::session_settings::{SessionSettings, WITHOUT_DEADLINE, literal};
use locked::Locked;
use stage::Class;
use statement::{SqlError, SqlState};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time for which a login waits for an answer before the last one is trusted on: a pool whose connections are all busy
/// is no reason to refuse logins.
const PATIENCE: Duration = Duration::from_secs(1);

/// Condition on the defaults `s`: those of all roles and of role `r`, in all databases and in database `d`.
const OF_BOTH: &str = "s.setrole OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid, r.oid]) \
     AND s.setdatabase OPERATOR(pg_catalog.=) ANY (ARRAY[0::pg_catalog.oid, d.oid])";

/// Index of the last column of the question.
const DEADLINE: usize = 5;

/// Rows of the server's answer.
type AnswerRows = Vec<Vec<Option<String>>>;

/// Servers' acceptance of the users of pools.
#[derive(Debug, Default)]
pub(crate) struct Consent {
    /// Lock whose holder asks the server.
    asking: tokio::sync::Mutex<()>,
    last: Mutex<LastAnswer>,
}

#[derive(Debug, Default)]
struct LastAnswer {
    asked: Option<Instant>,
    words: Option<AnswerRows>,
    /// True if sessions of its user may begin with a `statement_timeout`.
    has_deadline: bool,
}

impl Consent {
    fn last(&self) -> MutexGuard<'_, LastAnswer> {
        self.last.locked()
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.last().asked.is_some_and(|asked| now.saturating_duration_since(asked) < FRESH)
    }

    /// Forgets the time of the last answer, so that the next login asks.
    pub(crate) fn forget(&self) {
        self.last().asked = None;
    }

    /// True if the server says that its user is a superuser.
    pub(crate) fn is_superuser(&self) -> bool {
        self.word(3).as_deref() == Some("t")
    }

    /// True if sessions of its user may begin with a `statement_timeout`, from the server, the role or the database.
    pub(crate) fn has_deadline(&self) -> bool {
        self.last().has_deadline
    }

    /// Highest class that the server has for its user.
    pub(crate) fn class_max(&self, pool: &Pool) -> Option<Class> {
        let value = self.word(4)?;
        let class = settings::priority::class_of(&value);
        if class.is_err() {
            tracing::warn!(user = %pool.user, value, "the server's overtake.priority_max of a role or a database is no class");
        }
        class.ok()
    }

    fn word(&self, column: usize) -> Option<String> {
        self.last().words.as_ref()?.first()?.get(column)?.clone()
    }

    /// Notes an answer of the server; returns true if it differs from the one before.
    fn heard(&self, mut words: AnswerRows, now: Instant) -> bool {
        let mut last = self.last();
        last.asked = Some(now);
        // The settings of an existing session say nothing about those of later ones.
        let deadline = words.first_mut().filter(|row| DEADLINE < row.len()).map(|row| row.swap_remove(DEADLINE));
        last.has_deadline = deadline.flatten().as_deref() == Some("t");
        let before = last.words.replace(words);
        before.is_some_and(|before| last.words.as_ref() != Some(&before))
    }
}

/// Question for the role, with these columns: if it may log in to this database with a password; the defaults of both;
/// if it is a superuser; its highest class, if it has one, which only a superuser may set, as no server knows the
/// setting; and if this session, or one by these defaults, begins with a `statement_timeout`. All names are qualified
/// with `pg_catalog`.
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
    /// Returns the parameters that a client is told at its login with these settings. The server is asked if they are
    /// not known.
    pub(crate) async fn welcome(
        &self,
        pool: &Arc<Pool>,
        asked: SessionSettings,
        target: TargetRole,
    ) -> Result<LoginParameters, SqlError> {
        confirm(pool, target).await?;
        if let Some(welcome) = pool.welcome(&asked) {
            return Ok(welcome);
        }
        let (mut taken, _passage) = pool.take_open(target).await?;
        let server = &mut taken.server;
        // The client's settings come last: its `statement_timeout` does not apply to the proxy's statements for it.
        let begin = sessions::begin(&self.0.options().sessions, &asked);
        let (change, _) = asked.change_from(&server.settings);
        server.ask_again(&format!("{WITHOUT_DEADLINE}{begin}{change}")).await?;
        let found = leftovers::ask(server, &asked, &pool.user).await?;
        server.settings = Arc::new(found.settings);
        let welcome = LoginParameters { settings: Arc::clone(&server.settings), params: Arc::clone(&server.params) };
        pool.put(taken, pool.nodes.time().now());
        pool.remember(asked, welcome.clone());
        Ok(welcome)
    }
}

/// Asks, if the last answer is too old.
async fn confirm(pool: &Arc<Pool>, target: TargetRole) -> Result<(), SqlError> {
    let (consent, time) = (&pool.consent, pool.nodes.time());
    if consent.is_fresh(time.now()) {
        return Ok(());
    }
    let _asking = consent.asking.lock().await;
    if consent.is_fresh(time.now()) {
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
            // Other logins need not wait as long.
            consent.last().asked = Some(time.now());
            Ok(())
        }
    }
}

async fn ask(pool: &Arc<Pool>, target: TargetRole) -> Result<(), SqlError> {
    let begun = pool.nodes.time().now();
    let (mut taken, _passage) = pool.take_open(target).await?;
    let words = match taken.server.ask_again(&format!("{WITHOUT_DEADLINE}{}", question(&pool.user))).await {
        Ok(words) => words,
        // The server is not PostgreSQL then, and decides on its own which users it lets in.
        Err(QuestionFailed::Said(error)) if is_foreign(error.state()) => Vec::new(),
        Err(failed) => return Err(failed.into()),
    };
    let was_let_in = begun <= taken.server.born;
    let node = Arc::clone(&taken.node);
    pool.put(taken, pool.nodes.time().now());
    let may = words.first().and_then(|row| row.get(1)).and_then(Option::as_deref) == Some("t");
    if !may && !was_let_in {
        pool.is_let_in(&node).await?;
    }
    if pool.consent.heard(words, pool.nodes.time().now()) {
        pool.reconnect();
        pool.forget_welcomes();
    }
    Ok(())
}

/// True if a server that reports this error has another catalog than PostgreSQL.
fn is_foreign(state: SqlState) -> bool {
    matches!(
        state,
        SqlState::FEATURE_NOT_SUPPORTED
            | SqlState::INVALID_SCHEMA_NAME
            | SqlState::SYNTAX_ERROR
            | SqlState::UNDEFINED_COLUMN
            | SqlState::UNDEFINED_OBJECT
            | SqlState::UNDEFINED_FUNCTION
            | SqlState::UNDEFINED_TABLE
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_words_are_news() {
        let (consent, now) = (Consent::default(), Instant::now());
        let words = |text: &str| vec![vec![Some(text.to_owned())]];
        assert!(!consent.is_fresh(now));
        assert!(!consent.heard(words("a"), now) && !consent.heard(words("a"), now) && consent.is_fresh(now));
        assert!(consent.heard(words("b"), now) && consent.heard(Vec::new(), now));
        assert!(consent.is_fresh(now + FRESH - Duration::from_millis(1)) && !consent.is_fresh(now + FRESH));
        consent.forget();
        assert!(!consent.is_fresh(now) && !consent.heard(Vec::new(), now));
        // One connection is older than its role's time limit, and one is younger.
        let words = |deadline: &str| vec![["1", "t", "", "f", "", deadline].map(|word| Some(word.to_owned())).to_vec()];
        assert!(consent.heard(words("f"), now) && !consent.has_deadline());
        assert!(!consent.heard(words("t"), now) && consent.has_deadline());
        assert!(consent.heard(Vec::new(), now) && !consent.has_deadline());
    }
}
