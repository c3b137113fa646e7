//! Proxy in front of a real PostgreSQL 15.

use proxy::{PoolLimits, Upstream, UpstreamOptions};
use server::{Admission, AdmissionOptions, Config, Mode, Server};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};
use wirekit::cluster::Cluster;
use wirekit::raw::{PATIENCE, Raw};

/// Proxy in front of the servers of any URL.
pub struct Gate {
    pub runtime: Runtime,
    pub upstream: Upstream,
    pub admission: Admission,
    pub address: SocketAddr,
}

/// Proxy in front of a cluster.
pub struct Front {
    pub gate: Gate,
    pub cluster: Cluster,
}

impl std::ops::Deref for Front {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.gate
    }
}

impl Front {
    /// Proxy with this many connections to the server.
    pub fn new(size: usize) -> Option<Front> {
        Front::with(size, 1_000, |_| {})
    }

    /// Proxy that prepares repeated unnamed statements.
    pub fn preparing(size: usize) -> Option<Front> {
        let cluster = Cluster::start("")?;
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
        let limits = PoolLimits { size, ..PoolLimits::default() };
        let options = UpstreamOptions { prepare: true, ..limits.into() };
        Some(Front::over(cluster, &url, options, 1_000, |_| {}))
    }

    pub fn with(size: usize, slots: usize, change: impl FnOnce(&mut Config)) -> Option<Front> {
        let cluster = Cluster::start("")?;
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", cluster.port);
        Some(Front::over(cluster, &url, PoolLimits { size, ..PoolLimits::default() }, slots, change))
    }

    pub fn over(
        cluster: Cluster,
        url: &str,
        options: impl Into<UpstreamOptions>,
        slots: usize,
        change: impl FnOnce(&mut Config),
    ) -> Front {
        let gate = ::gate::GateSettings::of_priorities(u32::try_from(slots).unwrap());
        Front::gated(cluster, url, options, gate, change)
    }

    /// Proxy behind such a gate.
    pub fn gated(
        cluster: Cluster,
        url: &str,
        options: impl Into<UpstreamOptions>,
        gate: ::gate::GateSettings,
        change: impl FnOnce(&mut Config),
    ) -> Front {
        Front::behind(
            cluster,
            url,
            options,
            &AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() },
            change,
        )
    }

    /// Proxy with this admission control.
    pub fn behind(
        cluster: Cluster,
        url: &str,
        options: impl Into<UpstreamOptions>,
        admission: &AdmissionOptions,
        change: impl FnOnce(&mut Config),
    ) -> Front {
        Front { gate: Gate::behind(url, options, admission, change), cluster }
    }
}

impl Gate {
    pub fn over(
        url: &str,
        options: impl Into<UpstreamOptions>,
        slots: usize,
        change: impl FnOnce(&mut Config),
    ) -> Gate {
        let gate = ::gate::GateSettings::of_priorities(u32::try_from(slots).unwrap());
        Gate::behind(url, options, &AdmissionOptions { mode: Mode::Fixed, gate, ..AdmissionOptions::default() }, change)
    }

    /// Proxy with this admission control.
    pub fn behind(
        url: &str,
        options: impl Into<UpstreamOptions>,
        admission: &AdmissionOptions,
        change: impl FnOnce(&mut Config),
    ) -> Gate {
        Gate::served(url, options, admission, change, std::future::pending())
    }

    /// Proxy that serves until this future is ready.
    pub fn until(
        url: &str,
        options: impl Into<UpstreamOptions>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Gate {
        let admission = AdmissionOptions { mode: Mode::Fixed, ..AdmissionOptions::default() };
        Gate::served(url, options, &admission, |_| {}, end)
    }

    fn served(
        url: &str,
        options: impl Into<UpstreamOptions>,
        admission: &AdmissionOptions,
        change: impl FnOnce(&mut Config),
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Gate {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let admission = Admission::new(admission).unwrap();
        let upstream = Upstream::new(url.parse().unwrap(), options, admission.clone()).unwrap();
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let mut config = Config { listen, admission: admission.clone(), ..Config::default() };
        change(&mut config);
        let server = Server::bind(config, upstream.clone()).unwrap();
        let address = server.addresses().unwrap()[0];
        runtime.spawn(server.run(end));
        Gate { runtime, upstream, admission, address }
    }

    /// Connects a driver.
    pub async fn client(&self) -> Client {
        self.try_client("").await.unwrap()
    }

    pub async fn try_client(&self, more: &str) -> Result<Client, tokio_postgres::Error> {
        let config = format!("user=postgres host=127.0.0.1 port={} {more}", self.address.port());
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(async { drop(connection.await) });
        Ok(client)
    }

    /// Connects a client of the wire protocol, with its session.
    pub fn raw(&self) -> Raw<TcpStream> {
        let mut raw = Raw::connect(self.address);
        raw.start(&[("user", "postgres")]);
        raw
    }

    /// Waits until all connections are idle, and returns their number.
    pub fn all_idle(&self) -> usize {
        let begun = Instant::now();
        loop {
            let (all, idle) = self.upstream.connections();
            if all == idle {
                return all;
            }
            assert!(begun.elapsed() < PATIENCE, "{idle} of {all} connections are idle");
            std::thread::yield_now();
        }
    }
}

/// Value of one row of a simple query.
pub async fn value(client: &Client, text: &str) -> String {
    try_value(client, text).await.unwrap()
}

pub async fn try_value(client: &Client, text: &str) -> Result<String, tokio_postgres::Error> {
    let messages = client.simple_query(text).await?;
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
        _ => None,
    });
    Ok(row.unwrap_or_default())
}

/// Value of a query that neither a late cancel of the client's own nor its `statement_timeout` has ended, as they may
/// at any server.
pub async fn spared(client: &Client, text: &str) -> String {
    let begun = Instant::now();
    loop {
        match try_value(client, text).await {
            Err(error) if error.code().is_some_and(|code| code.code() == "57014") => {
                assert!(begun.elapsed() < PATIENCE, "never done in time: {text}");
            }
            said => return said.unwrap(),
        }
    }
}
