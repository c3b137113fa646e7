//! Arguments of `serve`, and the settings that result from them.

use clap::Args;
use proxy::Url;
use settings::Defaults;
use settings::sources::{self, OptionError};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Examples of `serve --help`.
const EXAMPLES: &str = "\
Examples:
  overtake serve
      a database in memory; psql \"postgresql://postgres@127.0.0.1:5432/postgres\" connects to it
  overtake serve --listen 127.0.0.1:6432 --upstream postgres://postgres:secret@10.0.0.5:5432/shop
      the gate before a PostgreSQL; applications connect to port 6432
  overtake serve --config /etc/overtake.conf -c overtake.mpl=20 --check-config
      says if a configuration can be used";

/// Arguments of `serve`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// The configuration file: lines NAME = VALUE, the names being those of `pg_settings`. The same names count as
    /// environment variables (OVERTAKE_PORT; OVERTAKE_PRIORITY for overtake.priority) and after -c; the last of file,
    /// environment and flag counts.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Checks file, environment and flags, and ends: 0 if they can be used, 2 if not.
    #[arg(long)]
    pub check_config: bool,
    /// A setting; may be given several times.
    #[arg(short = 'c', long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Address for clients; may be given several times. Port 0 takes a free one. The setting listen_addresses.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: Vec<(String, u16)>,
    /// A directory for the unix socket `.s.PGSQL.PORT`, PORT being the first address's. The setting
    /// unix_socket_directories.
    #[arg(long, value_name = "DIRECTORY")]
    pub socket: Option<PathBuf>,
    /// A unix socket for clients of this machine that share memory with the server: those of the crate overtake-client, and
    /// `overtake shared-proxy`. The setting overtake.listen_shared.
    #[arg(long, value_name = "PATH")]
    pub shared: Option<PathBuf>,
    /// A network interface whose TCP the server handles itself, by AF_XDP, such as eth0, eth0:1 or
    /// "eth0 10.0.0.5:5432". The kernel keeps all its other traffic. The setting overtake.listen_xdp.
    #[arg(long, value_name = "INTERFACE")]
    pub xdp: Option<String>,
    /// Sessions at a time; more are turned away (SQLSTATE 53300). The setting max_connections.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: Option<u32>,
    /// Servers to stand before, in place of a database of its own: postgres://user:password@host:port/database. Clients share
    /// connections to them, transaction by transaction. Of several hosts, separated by commas or given by several of these, the
    /// one that says that it is the primary gets transactions; the others get those of clients that ask for a standby
    /// (overtake.target). The password is that of this user; others prove theirs.
    #[arg(long, value_name = "URL")]
    pub upstream: Vec<Url>,
    /// Address of metrics, /healthz and /readyz, by HTTP. The setting overtake.metrics.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// A page that shows what the gate does, for browsers on this machine: 127.0.0.1:PORT. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = loopback)]
    pub console: Option<SocketAddr>,
    /// Runs without the stage clock, and so without times of stages: `overtake bench lookingglass` measures the clock's
    /// cost by it. For this benchmark only.
    #[arg(long, hide = true)]
    pub without_stage_clock: bool,
}

/// Parses an address or a name with its port.
fn address(text: &str) -> Result<(String, u16), String> {
    let (name, port) = text.rsplit_once(':').ok_or("it is no ADDRESS:PORT")?;
    let port = port.parse().map_err(|error| format!("port \"{port}\": {error}"))?;
    if name.is_empty() || name.contains(',') {
        return Err("it is no ADDRESS:PORT".to_owned());
    }
    Ok((text.to_owned(), port))
}

/// Parses a loopback address. The console accepts no others because it has no password.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "it is no ADDRESS:PORT".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("the page has no password, so it is for this machine only: take 127.0.0.1".to_owned()),
    }
}

impl ServeArguments {
    /// Reads the settings of file, environment and flags.
    ///
    /// # Errors
    /// Fails if a setting is unknown or does not take its value.
    pub fn settings(&self) -> Result<Defaults, OptionError> {
        let mut settings = Defaults::default();
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        for unknown in sources::read_environment(variables, &mut settings)? {
            tracing::warn!("{unknown}");
        }
        let flag = |settings: &mut Defaults, name: &str, value: &dyn Display| {
            sources::read_flag(&format!("{name}={value}"), settings)
        };
        if let Some(file) = &self.config {
            sources::read_file(file, &mut settings)?;
            flag(&mut settings, "config_file", &file.display())?;
        }
        if let Some((_, port)) = self.listen.first() {
            let all: Vec<&str> = self.listen.iter().map(|(address, _)| &**address).collect();
            flag(&mut settings, "listen_addresses", &all.join(","))?;
            flag(&mut settings, "port", port)?;
        }
        if let Some(directory) = &self.socket {
            flag(&mut settings, "unix_socket_directories", &directory.display())?;
        }
        if let Some(path) = &self.shared {
            flag(&mut settings, "overtake.listen_shared", &path.display())?;
        }
        if let Some(interface) = &self.xdp {
            flag(&mut settings, "overtake.listen_xdp", interface)?;
        }
        if let Some(count) = &self.connections {
            flag(&mut settings, "max_connections", count)?;
        }
        if let Some(address) = &self.metrics {
            flag(&mut settings, "overtake.metrics", address)?;
        }
        for assignment in &self.set {
            sources::read_flag(assignment, &mut settings)?;
        }
        Ok(settings)
    }
}
