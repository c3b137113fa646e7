//! Administration database: `overtake`, or `pgbouncer` for programs that expect PgBouncer's.
//!
//! The tables are those of PgBouncer 1.18, with the same names and columns, plus tables of our own. Unknown values are
//! 0 or empty.
//!
//! **Invariant:** it needs no server and no admission, so it answers when nobody else gets in. Only superusers among
//! the proxy's own roles are let in. It takes simple queries of one command each.

mod clients;
mod command;
mod config;
mod control;
mod databases;
mod gate;
mod help;
mod lists;
mod pools;
mod servers;
mod stats;
mod table;
mod upstream;

use super::ProxyState;
use bytes::Buf;
use command::{AdminCommand, Show};
use server::service::Site;
use server::stats::Stats;
pub(super) use servers::place;
use settings::Defaults;
use settings::roles::Role;
use statement::outcome::TransactionStatus;
use statement::{SqlError, SqlState};
use std::borrow::Cow;
use std::sync::Arc;
use table::ResultTable;
pub(super) use upstream::metrics;
use wire::Stop;
use wire::conn::Conn;
use wire::errors;
use wire::frame::HEAD;
use wire::wait::Gone;

/// Names of the administration database.
const NAMES: [&str; 2] = ["overtake", "pgbouncer"];

/// Client of the administration database.
pub(crate) struct Admin {
    shared: Arc<ProxyState>,
    application: Box<str>,
}

/// Session of such a client while it is served.
struct AdminSession {
    shared: Arc<ProxyState>,
    conn: Conn,
    site: Site,
    /// True if messages are ignored until `Sync`.
    skips: bool,
}

/// True if this is a name of the administration database.
pub(crate) fn is_name(database: &str) -> bool {
    NAMES.contains(&database)
}

impl Admin {
    /// Opens a session for this role.
    ///
    /// # Errors
    /// `42501`: the role is no superuser.
    pub(crate) fn open(
        shared: Arc<ProxyState>,
        role: &Role,
        database: &str,
        application: &str,
    ) -> Result<Admin, SqlError> {
        if role.is_superuser {
            return Ok(Admin { shared, application: application.into() });
        }
        let message = format!("permission denied for administration database \"{database}\"");
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .detail("Only superusers of the proxy itself may connect to it.")
            .hint("Connect as postgres."))
    }

    /// Returns the settings that the client is told before it may send requests.
    pub(crate) fn reports(&self) -> Vec<(Cow<'static, str>, String)> {
        let version = Defaults::default().get("server_version").to_owned();
        let fixed = [
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "UTC"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", "on"),
            ("application_name", &*self.application),
        ];
        let fixed = fixed.into_iter().map(|(name, value)| (name.into(), value.to_owned()));
        std::iter::once(("server_version".into(), version)).chain(fixed).collect()
    }

    pub(crate) async fn serve(self, conn: Conn, site: Site) {
        let mut session = AdminSession { shared: self.shared, conn, site, skips: false };
        session.ready();
        let last_words = match session.serve().await {
            Ok(()) | Err(Stop::Gone(Gone::Client)) => None,
            Err(Stop::Gone(gone)) => errors::gone(gone),
            Err(Stop::Error(error)) => Some(error),
        };
        session.site.stats.leave(&session.site.activity);
        if let Some(error) = last_words {
            session.conn.replies.error("FATAL", &error);
        }
        session.conn.close().await;
    }
}

impl AdminSession {
    fn ready(&mut self) {
        self.site.activity.rest(TransactionStatus::Idle);
        self.conn.replies.ready(TransactionStatus::Idle);
        self.conn.is_due = true;
    }

    fn error(&mut self, error: &SqlError) {
        self.conn.replies.error("ERROR", error);
        self.conn.is_due = true;
    }

    async fn serve(&mut self) -> Result<(), Stop> {
        loop {
            let (kind, length) = match self.conn.next(self.site.limits.message_max).await? {
                Ok(found) => found,
                Err(broken) => return Err(errors::broken(broken).into()),
            };
            if self.site.activity.end.is_ended() {
                return Err(Gone::Server.into());
            }
            match kind {
                b'X' => return Ok(()),
                b'p' => return Err(errors::unexpected(b'p').into()),
                b'S' => {
                    self.skips = false;
                    self.ready();
                }
                // There is no COPY for these messages, and nothing to flush.
                b'd' | b'c' | b'f' | b'H' => {}
                _ if self.skips => {}
                b'Q' => {
                    let body = &self.conn.input[HEAD..length];
                    let text = String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body)).into_owned();
                    self.conn.input.advance(length);
                    self.query(&text).await?;
                    continue;
                }
                kind => {
                    let error = SqlError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "the administration database takes simple queries, not the extended protocol",
                    );
                    self.error(&error);
                    match kind {
                        b'F' => self.ready(),
                        _ => self.skips = true,
                    }
                }
            }
            self.conn.input.advance(length);
        }
    }

    async fn query(&mut self, text: &str) -> Result<(), Gone> {
        match AdminCommand::of(text) {
            Err(error) => self.error(&error),
            Ok(None) => self.conn.replies.empty(),
            Ok(Some(command)) => match self.run(command).await {
                Ok(tag) => self.conn.replies.command(tag),
                Err(Stop::Error(error)) => self.error(&error),
                Err(Stop::Gone(gone)) => return Err(gone),
            },
        }
        self.ready();
        Ok(())
    }

    /// Runs a command and returns its tag.
    async fn run(&mut self, command: AdminCommand) -> Result<&'static str, Stop> {
        let tag = command.tag();
        match command {
            AdminCommand::Show(Show::Help) => self.conn.replies.notice("NOTICE", &help::help()),
            AdminCommand::Show(what) => {
                table_of(&self.shared, &self.site.stats, what).await?.write(&mut self.conn.replies)
            }
            AdminCommand::Pause(database) => self.pause(database.as_deref()).await?,
            AdminCommand::Resume(database) => self.shared.resume(database.as_deref())?,
            AdminCommand::Reconnect(database) => self.shared.reconnect(database.as_deref())?,
            AdminCommand::Accept(server) => {
                let (timeline, latest) = self.shared.nodes.accept(&server)?;
                let (user, client) = (self.site.activity.user(), self.site.activity.client().unwrap_or("unix"));
                tracing::warn!(server, timeline, latest, user, client, "a server was accepted as the primary");
                self.conn.replies.notice("NOTICE", &help::accepted(&server, timeline, latest));
            }
            AdminCommand::Reload => {
                // The files are read on a blocking thread.
                let shared = Arc::clone(&self.shared);
                let read = tokio::task::spawn_blocking(move || shared.reload()).await;
                let read =
                    read.map_err(|_| SqlError::new(SqlState::INTERNAL_ERROR, "the settings could not be read"))?;
                self.conn.replies.notice("NOTICE", &help::reloaded(read.map_err(|error| help::unreadable(&error))?));
            }
        }
        Ok(tag)
    }
}

async fn table_of(shared: &ProxyState, stats: &Stats, what: Show) -> Result<ResultTable, SqlError> {
    Ok(match what {
        Show::Pools => pools::table(shared, stats),
        Show::PoolsByServer => pools::by_server(shared),
        Show::Clients => clients::table(shared, stats),
        Show::Servers => servers::table(shared),
        Show::Stats => stats::table(shared),
        Show::StatsTotals => stats::totals_by_database(shared),
        Show::Totals => stats::totals(shared),
        Show::Lists => lists::lists(shared, stats),
        Show::Users => lists::of_users(shared, stats),
        Show::Databases => databases::table(shared),
        Show::Config => config::table(shared),
        Show::Upstream => upstream::table(shared),
        Show::Help | Show::Version => help::version(),
        Show::History(seconds) => gate::history(&shared.nodes, seconds),
        Show::Gate(table) => {
            // The forecast of other limits takes long to compute.
            let nodes = Arc::clone(&shared.nodes);
            let found = tokio::task::spawn_blocking(move || gate::table(&nodes, table)).await;
            found.map_err(|_| SqlError::new(SqlState::INTERNAL_ERROR, "the table could not be computed"))?
        }
    })
}
