//! SQL sessions behind the server's listeners.

use crate::session::{Session, canceller};
use server::service::{Opened, Service, Site};
use settings::Connect;
use settings::roles::Role;
use sql::session::Database;
use statement::SqlResult;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Cancel;
use wire::conn::Conn;
use wire::scram::Keys;

/// Service of the server that gives each client an SQL session of its own.
#[derive(Clone)]
pub struct Sessions(pub Database);

/// Session of one client, not served yet.
pub struct Unserved(sql::session::Session);

impl Service for Sessions {
    type Opened = Unserved;

    async fn open(&self, connect: Connect, _: &Role, _: Option<Keys>) -> SqlResult<Unserved> {
        self.0.connect(connect).map(Unserved)
    }
}

impl Opened for Unserved {
    fn canceller(&self) -> Arc<dyn Cancel> {
        canceller(&self.0)
    }

    fn take_reports(&mut self) -> Vec<(Cow<'static, str>, String)> {
        self.0.take_reports().into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    async fn serve(self, conn: Conn, site: Site) {
        Session::new(conn, self.0, site.waiter, site.limits, (site.stats, site.activity)).serve().await;
    }
}
