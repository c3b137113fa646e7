//! Destination of an authenticated client: servers, or the proxy's admin console.
//!
//! **Invariant:** the administration database needs no server, and no admission.

use crate::admin::Admin;
use crate::clients::client::Client;
use crate::clients::session;
use server::service::{self, Site};
use std::borrow::Cow;
use std::sync::Arc;
use wire::Cancel;
use wire::conn::Conn;

/// Destination of an authenticated client.
pub struct Opened(pub(crate) Destination);

pub(crate) enum Destination {
    Servers(Box<Client>),
    Admin(Admin),
}

/// Cancel handle where only waits can be cancelled, which are notified elsewhere.
struct NoCancel;

impl Cancel for NoCancel {
    fn cancel(&self) {}
}

impl service::Opened for Opened {
    fn canceller(&self) -> Arc<dyn Cancel> {
        match &self.0 {
            Destination::Servers(client) => client.canceller(),
            Destination::Admin(_) => Arc::new(NoCancel),
        }
    }

    fn take_reports(&mut self) -> Vec<(Cow<'static, str>, String)> {
        match &self.0 {
            Destination::Servers(client) => {
                client.told.iter().map(|(name, value)| (name.to_owned().into(), value.to_owned())).collect()
            }
            Destination::Admin(admin) => admin.reports(),
        }
    }

    async fn serve(self, mut conn: Conn, site: Site) {
        if let Err(error) = conn.settle() {
            tracing::warn!(%error, "a client could not be taken over by its thread");
            site.stats.leave(&site.activity);
            return;
        }
        match self.0 {
            Destination::Servers(client) => session::serve(*client, conn, site).await,
            Destination::Admin(admin) => admin.serve(conn, site).await,
        }
    }
}
