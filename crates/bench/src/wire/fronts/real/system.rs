//! System that runs a set-up's transactions, and the limit before it.

use super::super::super::client::Control;
use super::super::super::postgres::free_port;
use super::super::super::servers::{Server, Target, Transport};
use super::super::{CLIENTS_MAX, gate};
use super::load::Load;
use anyhow::Context;
use std::sync::Arc;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

/// System that runs the transactions.
pub enum Place {
    /// Server with tables, and gates that share it.
    Upstream(Target),
    /// Overtake's engine, one for each gate: its tables end with it.
    Engine,
}

impl Place {
    /// Returns the address for clients where this setting is in force, and the address of its metrics.
    ///
    /// # Errors
    /// If it does not start, or its tables cannot be made.
    pub fn behind(&self, setting: &str, load: &Load<'_>) -> anyhow::Result<(Target, String)> {
        match self {
            Place::Upstream(server) => gate(server, &[setting]),
            Place::Engine => {
                let metrics = format!("127.0.0.1:{}", free_port()?);
                let server = Server::serve(CLIENTS_MAX, Transport::Tcp, |command| {
                    command.args(["--metrics", &metrics, "-c", setting]);
                })?;
                let url = format!("{}/postgres", server.base_url);
                let server = Arc::new(server);
                let target = Target { key: "engine", title: "Overtake", url, is_unlogged: false, server };
                target.wait()?;
                load.fill(&target)?;
                Ok((target, metrics))
            }
        }
    }

    /// Returns the rows of a view of the schema `overtake`.
    ///
    /// # Errors
    /// If the view is not available.
    pub fn view(&self, gated: &Target, name: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
        match self {
            Place::Upstream(_) => view(gated, name),
            Place::Engine => rows(gated, &format!("select * from overtake.{name}")),
        }
    }

    /// Returns C² of the demands, of the class that all transactions are in.
    ///
    /// # Errors
    /// If the gate does not show it.
    pub fn c2(&self, gated: &Target) -> anyhow::Result<f64> {
        let classes = self.view(gated, "gate")?;
        let normal = classes.iter().find(|row| row.get("class") == Some("normal"));
        normal.and_then(|row| row.get("c2")).context("the gate shows no class")?.parse().context("C²")
    }
}

/// Returns the console of a gate before a server of another vendor.
///
/// # Errors
/// If the proxy has no address.
pub fn console(gated: &Target) -> anyhow::Result<Target> {
    let (base, _) = gated.url.rsplit_once('/').context("the front's address")?;
    Ok(Target { url: format!("{base}/overtake"), ..gated.clone() })
}

/// Returns the rows of a view, as the console of a gate before a server of another vendor shows them.
///
/// # Errors
/// If the console does not show it.
pub fn view(gated: &Target, name: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
    rows(&console(gated)?, &format!("show {}", name.replace('_', " ")))
}

fn rows(target: &Target, question: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
    let messages = Control::connect(target)?.with(async |client| Ok(client.simple_query(question).await?))?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}
