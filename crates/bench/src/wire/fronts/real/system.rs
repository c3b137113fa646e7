//! System that runs a set-up's transactions, and the limit before it.

use super::super::super::client::Control;
use super::super::super::links::Link;
use super::super::super::postgres::free_port;
use super::super::super::servers::{MeasuredServer, Server, Transport};
use super::super::{CLIENTS_MAX, gate};
use super::load::SetupLoad;
use anyhow::Context;
use std::sync::Arc;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

/// System that runs the transactions.
pub enum SystemUnderTest {
    /// Server with tables, and gates that share it.
    Upstream(MeasuredServer),
    /// Overtake's engine, one for each gate: its tables end with it.
    Engine,
}

impl SystemUnderTest {
    /// Returns the address for clients where this setting is in force, and the address of its metrics.
    ///
    /// # Errors
    /// If it does not start, or its tables cannot be made.
    pub fn behind(&self, setting: &str, load: &SetupLoad<'_>) -> anyhow::Result<(MeasuredServer, String)> {
        match self {
            SystemUnderTest::Upstream(server) => gate(server, &[setting]),
            SystemUnderTest::Engine => {
                let metrics = format!("127.0.0.1:{}", free_port()?);
                let server = Server::serve(CLIENTS_MAX, Transport::Tcp, |command| {
                    command.args(["--metrics", &metrics, "-c", setting]);
                })?;
                let url = format!("{}/postgres", server.base_url);
                let server = Arc::new(server);
                let target = MeasuredServer {
                    key: "engine",
                    title: "Overtake",
                    url,
                    is_unlogged: false,
                    link: Link::Address,
                    server,
                };
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
    pub fn view(&self, gated: &MeasuredServer, name: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
        match self {
            SystemUnderTest::Upstream(_) => view(gated, name),
            SystemUnderTest::Engine => rows(gated, &format!("select * from overtake.{name}")),
        }
    }

    /// Returns C² of the demands, of the class that all transactions are in.
    ///
    /// # Errors
    /// If the gate does not show it.
    pub fn c2(&self, gated: &MeasuredServer) -> anyhow::Result<f64> {
        let classes = self.view(gated, "gate")?;
        let normal = classes.iter().find(|row| row.get("class") == Some("normal"));
        normal.and_then(|row| row.get("c2")).context("the gate shows no class")?.parse().context("C²")
    }
}

/// Returns the console of a gate before a server of another vendor.
///
/// # Errors
/// If the proxy has no address.
pub fn console(gated: &MeasuredServer) -> anyhow::Result<MeasuredServer> {
    let (base, _) = gated.url.rsplit_once('/').context("the front's address")?;
    Ok(MeasuredServer { url: format!("{base}/overtake"), ..gated.clone() })
}

/// Returns the rows of a view, as the console of a gate before a server of another vendor shows them.
///
/// # Errors
/// If the console does not show it.
pub fn view(gated: &MeasuredServer, name: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
    rows(&console(gated)?, &format!("show {}", name.replace('_', " ")))
}

fn rows(target: &MeasuredServer, question: &str) -> anyhow::Result<Vec<SimpleQueryRow>> {
    let messages = Control::connect(target)?.with(async |client| Ok(client.simple_query(question).await?))?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}
