//! SQL sessions behind the server's listeners.

use crate::backend::{Backend, Backends};
use crate::session::Session;
use server::front::{Front, Opened, Site};
use settings::Connect;
use settings::roles::Role;
use statement::SqlResult;
use std::borrow::Cow;
use std::sync::Arc;
use wire::Cancel;
use wire::conn::Conn;
use wire::scram::Keys;

/// Front of the server that gives each client an SQL session of its own.
#[derive(Clone, Debug)]
pub struct Sessions<D>(pub D);

/// Session of one client, not served yet.
pub struct Unserved<B>(B);

impl<D: Backends> Front for Sessions<D> {
    type Opened = Unserved<D::Backend>;

    async fn open(&self, connect: Connect, _: &Role, _: Option<Keys>) -> SqlResult<Unserved<D::Backend>> {
        self.0.connect(connect).map(Unserved)
    }
}

impl<B: Backend> Opened for Unserved<B> {
    fn canceller(&self) -> Arc<dyn Cancel> {
        self.0.canceller()
    }

    fn take_reports(&mut self) -> Vec<(Cow<'static, str>, String)> {
        self.0.take_reports().into_iter().map(|(name, value)| (name.into(), value)).collect()
    }

    async fn serve(self, conn: Conn, site: Site) {
        Session::new(conn, self.0, site.waiter, site.limits, (site.stats, site.seen)).serve().await;
    }
}
