//! Server to connect to: psql's options and the environment variables of libpq.
//!
//! Without either, the defaults are those that `overtake serve` prints at its start: `postgres` on this machine, port
//! 5432. (psql would take the name of the system's user, which a fresh Overtake does not know.)

use crate::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_rustls::rustls::ClientConfig;

/// Time limit of an attempt to connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address, user and password of the server to connect to.
#[derive(Clone, Debug)]
pub struct Target {
    config: Config,
    /// TLS configuration, used if the server supports encryption.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// Reads a URL (`postgresql://user@host:port/database`) or a connection string (`host=… port=…`). Parts that are
    /// missing there come from variables (`PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`, `PGSSLMODE`).
    ///
    /// # Errors
    /// [`Error::Target`].
    pub fn new(url: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Target, Error> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut config = match url {
            Some(url) => Config::from_str(url).map_err(|error| {
                // The error's text alone, without the URL: a password may be in it.
                Error::Target(format!("the URL is no postgresql://user@host:port/database: {}", cause(&error)))
            })?,
            None => Config::new(),
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            config.host(variable("PGHOST").unwrap_or_else(|| "127.0.0.1".to_owned()));
        }
        if config.get_ports().is_empty()
            && let Some(port) = variable("PGPORT")
        {
            let number = port.parse().map_err(|_| Error::Target(format!("PGPORT: \"{port}\" is no port")))?;
            config.port(number);
        }
        if config.get_user().is_none() {
            config.user(variable("PGUSER").unwrap_or_else(|| "postgres".to_owned()));
        }
        if config.get_password().is_none()
            && let Some(password) = variable("PGPASSWORD")
        {
            config.password(password);
        }
        if config.get_dbname().is_none() {
            config.dbname(variable("PGDATABASE").unwrap_or_else(|| "postgres".to_owned()));
        }
        if !url.is_some_and(|url| url.contains("sslmode"))
            && let Some(mode) = variable("PGSSLMODE")
        {
            config.ssl_mode(match &*mode {
                "disable" => SslMode::Disable,
                "allow" | "prefer" => SslMode::Prefer,
                "require" => SslMode::Require,
                _ => return Err(Error::Target(format!("PGSSLMODE: \"{mode}\" is not disable, prefer or require"))),
            });
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        config.application_name("overtake top");
        Ok(Target { config, tls: None })
    }

    /// Encrypts the connection with this configuration, if the server supports that and `sslmode` is not `disable`;
    /// with `require`, an unencrypted connection is refused.
    #[must_use]
    pub fn encrypted_by(self, tls: Arc<ClientConfig>) -> Target {
        Target { tls: Some(tls), ..self }
    }

    /// Returns the connection settings.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// Returns the TLS configuration, if connections are encrypted.
    pub fn encryption(&self) -> Option<Arc<ClientConfig>> {
        self.tls.clone()
    }

    /// Returns the connection settings for another database.
    pub(crate) fn of(&self, database: &str) -> Config {
        let mut config = self.config.clone();
        config.dbname(database);
        config
    }

    pub(crate) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or("postgres")
    }
}

fn cause(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Shows the target without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => self.config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
        };
        write!(
            f,
            "{}@{host}:{}",
            self.config.get_user().unwrap_or_default(),
            self.config.get_ports().first().copied().unwrap_or(5432)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: Option<&str>, variables: &[(&str, &str)]) -> Result<(String, String), String> {
        let variable =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        let target = Target::new(url, variable).map_err(|error| error.to_string())?;
        Ok((target.to_string(), target.database().to_owned()))
    }

    #[test]
    fn urls_count_before_variables_before_defaults() {
        let is = |target: &str, database: &str| Ok((target.to_owned(), database.to_owned()));
        assert_eq!(of(None, &[]), is("postgres@127.0.0.1:5432", "postgres"));
        let variables = [("PGHOST", "/run"), ("PGPORT", "6432"), ("PGUSER", "till"), ("PGDATABASE", "sales")];
        assert_eq!(of(None, &variables), is("till@/run:6432", "sales"));
        let url = "postgresql://me:secret@db.example:7000/other";
        assert_eq!(of(Some(url), &variables), is("me@db.example:7000", "other"));
        assert_eq!(of(Some("host=localhost user=x"), &[("PGPORT", "1")]), is("x@localhost:1", "postgres"));
        for (url, variables, told) in [
            (Some("postgresql://h:x/"), &[][..], "is no postgresql://"),
            (Some("5432"), &[][..], "is no postgresql://"),
            (None, &[("PGPORT", "x")][..], "PGPORT"),
        ] {
            let error = of(url, variables).expect_err("it makes no sense");
            assert!(error.contains(told), "{error}");
        }
    }
}
