//! URL of the servers: `postgres://user:password@host:port,host:port/database?target_session_attrs=primary`, as libpq
//! reads it.
//!
//! **Invariant:** a part that is not understood is refused: an ignored parameter may have been meant to protect
//! something.

use crate::servers::target::TargetRole;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Default port of PostgreSQL.
const PORT: u16 = 5432;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// Name or IP address, and port.
    Tcp(String, u16),
    /// Path of a unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(name, port) => write!(f, "{name}:{port}"),
            ServerAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Encryption that is required of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// No encryption.
    Disable,
    /// Encryption, if the server supports it.
    Prefer,
    /// Encryption is required; the certificate is not verified.
    Require,
    /// The certificate must be of a configured issuer.
    VerifyCa,
    /// The certificate must be of a configured issuer, and must name the host.
    VerifyFull,
}

impl SslMode {
    const ALL: [SslMode; 5] =
        [SslMode::Disable, SslMode::Prefer, SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull];

    fn name(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }

    fn named(name: &str) -> Result<SslMode, UrlError> {
        SslMode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            let all = SslMode::ALL.map(SslMode::name).join(", ");
            wrong(format!("sslmode={name} is not supported; it is one of {all}"))
        })
    }

    /// Effective mode with trusted certificates or without. With them, `require` verifies the certificate, as libpq
    /// does.
    fn with(self, root_cert: Option<&Path>) -> Result<SslMode, UrlError> {
        match (self, root_cert) {
            (SslMode::VerifyCa | SslMode::VerifyFull, None) => {
                Err(wrong(format!("sslmode={} needs sslrootcert", self.name())))
            }
            (SslMode::Disable | SslMode::Prefer, Some(_)) => Err(wrong(format!(
                "sslrootcert means nothing with sslmode={}, which verifies no certificate; say require, verify-ca or verify-full",
                self.name()
            ))),
            // libpq 16 uses this name for the system's own certificates.
            (_, Some(path)) if path == Path::new("system") => {
                Err(wrong("sslrootcert=system is not supported; name a file"))
            }
            (SslMode::Require, Some(_)) => Ok(SslMode::VerifyCa),
            (mode, _) => Ok(mode),
        }
    }
}

/// Contents of the URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// Servers; among equals the first is preferred.
    pub hosts: Vec<ServerAddress>,
    /// User for the proxy's own questions, to whom the password belongs.
    pub user: String,
    /// Password of that user.
    pub password: Option<String>,
    /// File in which that password is looked up, in place of `~/.pgpass`.
    pub password_file: Option<PathBuf>,
    /// Database for the proxy's own questions.
    pub database: String,
    /// Encryption.
    pub ssl_mode: SslMode,
    /// PEM file with the certificates of trusted issuers.
    pub ssl_root_cert: Option<PathBuf>,
    /// Target of transactions whose clients have not asked for another: `target_session_attrs`.
    pub target: Option<TargetRole>,
    /// Time that a server may take to complete a login.
    pub connect_timeout: Option<Duration>,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Url").field("hosts", &self.hosts).field("user", &self.user).finish_non_exhaustive()
    }
}

/// Reason why a text is no URL of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

fn wrong(what: impl Into<String>) -> UrlError {
    UrlError(what.into())
}

/// Decodes `%41` into `A`.
fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let hex = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|&byte| byte != 0);
        bytes.push(byte.ok_or_else(|| wrong("a % is not followed by two hexadecimal digits"))?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))
}

/// Splits the name of a host and its port, which may be empty, in front of the database.
fn name_and_port(text: &str) -> Result<(String, &str), UrlError> {
    let (name, port) = match text.rsplit_once(':') {
        // Colons of an address in brackets do not separate a port.
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (text, ""),
    };
    Ok((decoded(name.trim_start_matches('[').trim_end_matches(']'))?, port))
}

/// Returns the hosts of these names, with a port for each, or one for all.
fn hosts(names: &[String], ports: &[&str]) -> Result<Vec<ServerAddress>, UrlError> {
    if ports.len() != 1 && ports.len() != names.len() {
        return Err(wrong(format!("there are {} ports for {} hosts", ports.len(), names.len())));
    }
    let one = |(at, name): (usize, &String)| {
        let port: u16 = match ports.get(at).or(ports.first()).copied().unwrap_or_default() {
            "" => PORT,
            port => port.parse().map_err(|_| wrong(format!("the port \"{port}\" of \"{name}\" is no number")))?,
        };
        Ok(match name.as_str() {
            "" => ServerAddress::Tcp("localhost".to_owned(), port),
            path if path.starts_with('/') => ServerAddress::Unix(PathBuf::from(format!("{path}/.s.PGSQL.{port}"))),
            _ => ServerAddress::Tcp(name.clone(), port),
        })
    };
    names.iter().enumerate().map(one).collect()
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Url, UrlError> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| wrong("it does not begin with postgres://"))?;
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (places, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, places) = places.rsplit_once('@').unwrap_or(("", places));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (login, None),
        };
        let mut user = decoded(user)?;
        if user.is_empty() {
            "postgres".clone_into(&mut user);
        }
        let mut database = decoded(database)?;
        if database.is_empty() {
            database.clone_from(&user);
        }
        let places = places.split(',').map(name_and_port).collect::<Result<Vec<_>, _>>()?;
        let (mut names, mut ports): (Vec<String>, Vec<&str>) = places.into_iter().unzip();
        let (mut ssl_mode, mut ssl_root_cert, mut port) = (SslMode::Prefer, None::<PathBuf>, None);
        let mut password_file = None::<PathBuf>;
        let (mut named, mut target, mut connect_timeout) = (None, None, None);
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').ok_or_else(|| wrong(format!("{parameter} has no value")))?;
            let value = decoded(value)?;
            match name {
                "host" => named = Some(value),
                "port" => port = Some(value),
                "target_session_attrs" => {
                    let known =
                        "target_session_attrs is one of any, read-write, read-only, primary, standby, prefer-standby";
                    target = Some(TargetRole::named(&value).ok_or_else(|| wrong(known))?);
                }
                "connect_timeout" => {
                    let seconds: u64 = value.parse().map_err(|_| wrong("connect_timeout is no number of seconds"))?;
                    connect_timeout = (0 < seconds).then(|| Duration::from_secs(seconds));
                }
                "sslrootcert" => ssl_root_cert = Some(PathBuf::from(value)),
                "sslmode" => ssl_mode = SslMode::named(&value)?,
                "passfile" => password_file = Some(PathBuf::from(value)),
                _ => return Err(wrong(format!("the parameter {name} is not known"))),
            }
        }
        // Each of the two parameters replaces its part in front of the database.
        if let Some(named) = &named {
            names = named.split(',').map(str::to_owned).collect();
        }
        if let Some(port) = &port {
            ports = port.split(',').collect();
        }
        let hosts = hosts(&names, &ports)?;
        // As with libpq, an empty parameter counts as absent.
        let ssl_root_cert = ssl_root_cert.filter(|path| !path.as_os_str().is_empty());
        let password_file = password_file.filter(|path| !path.as_os_str().is_empty());
        let password = password.filter(|password| !password.is_empty());
        let ssl_mode = ssl_mode.with(ssl_root_cert.as_deref())?;
        Ok(Url { hosts, user, password, password_file, database, ssl_mode, ssl_root_cert, target, connect_timeout })
    }
}

impl Url {
    /// Joins the servers of several URLs, which must agree on the rest.
    ///
    /// # Errors
    /// The URLs disagree, or there is none.
    pub fn joined(urls: impl IntoIterator<Item = Url>) -> Result<Url, UrlError> {
        let mut urls = urls.into_iter();
        let mut all = urls.next().ok_or_else(|| wrong("there is none"))?;
        for mut url in urls {
            let hosts = std::mem::take(&mut url.hosts);
            if (Url { hosts: all.hosts.clone(), ..url }) != all {
                return Err(wrong(
                    "servers of one upstream differ in their hosts and ports only, not in anything else",
                ));
            }
            all.hosts.extend(hosts);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_libpq_does() {
        let url: Url = "postgres://ann:p%40ss@a:1,[::1]:2,c/sales?sslmode=require".parse().expect("a URL");
        let tcp = |name: &str, port| ServerAddress::Tcp(name.to_owned(), port);
        assert_eq!(url.hosts, [tcp("a", 1), tcp("::1", 2), tcp("c", 5432)]);
        assert_eq!((&*url.user, url.password.as_deref(), &*url.database), ("ann", Some("p@ss"), "sales"));
        assert_eq!(url.ssl_mode, SslMode::Require);
        let url: Url = "postgresql:///?host=/tmp/pg&port=7".parse().expect("a URL");
        assert_eq!(url.hosts, [ServerAddress::Unix("/tmp/pg/.s.PGSQL.7".into())]);
        assert_eq!((&*url.user, &*url.database), ("postgres", "postgres"));
        let url: Url =
            "postgres:///?host=a,b&port=7,8&target_session_attrs=read-write&connect_timeout=3".parse().expect("a URL");
        assert_eq!(url.hosts, [tcp("a", 7), tcp("b", 8)]);
        assert_eq!((url.target, url.connect_timeout), (Some(TargetRole::Primary), Some(Duration::from_secs(3))));
        let url: Url = "postgres:///?host=::1,/tmp&port=7&target_session_attrs=prefer-standby".parse().expect("a URL");
        assert_eq!(url.hosts, [tcp("::1", 7), ServerAddress::Unix("/tmp/.s.PGSQL.7".into())]);
        assert_eq!(url.target, Some(TargetRole::PreferStandby));
        let url: Url = "postgres://localhost:7/d?host=/tmp".parse().expect("a URL");
        assert_eq!(url.hosts, [ServerAddress::Unix("/tmp/.s.PGSQL.7".into())]);
        let url: Url = "postgres://a:1,b:2/d?port=7".parse().expect("a URL");
        assert_eq!(url.hosts, [tcp("a", 7), tcp("b", 7)]);
        let urls = ["postgres://u@a/d", "postgres://u@b:6/d"].map(|url| url.parse::<Url>().expect("a URL"));
        assert_eq!(Url::joined(urls).expect("one").hosts, [tcp("a", 5432), tcp("b", 6)]);
        let urls = ["postgres://u@a/d", "postgres://v@b/d"].map(|url| url.parse::<Url>().expect("a URL"));
        assert!(Url::joined(urls).is_err());
        let url: Url = "postgres://%2Ftmp:7".parse().expect("a URL");
        assert_eq!(url.hosts, [ServerAddress::Unix("/tmp/.s.PGSQL.7".into())]);
        for wrong in [
            "mysql://a",
            "postgres:///?host=a,b&port=1,2,3",
            "postgres://a:1,b:2/d?host=c,d,e",
            "postgres://a?target_session_attrs=x",
            "postgres://a:b",
            "postgres://a?x=1",
            "postgres://a?sslmode=verify-full",
            "postgres://%zz",
        ] {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn certificates_are_verified_as_the_mode_says() {
        let mode = |parameters: &str| {
            let url = format!("postgres://a?{parameters}").parse::<Url>();
            url.map(|url| url.ssl_mode).map_err(|error| error.to_string())
        };
        for (parameters, wanted) in [
            ("", SslMode::Prefer),
            ("sslmode=disable", SslMode::Disable),
            ("sslmode=require&sslrootcert=", SslMode::Require),
            ("sslmode=require&sslrootcert=ca.pem", SslMode::VerifyCa),
            ("sslrootcert=ca.pem&sslmode=verify-ca", SslMode::VerifyCa),
            ("sslmode=verify-full&sslrootcert=ca.pem", SslMode::VerifyFull),
        ] {
            assert_eq!(mode(parameters), Ok(wanted), "{parameters}");
        }
        for (parameters, why) in [
            ("sslmode=allow", "sslmode=allow is not supported; it is one of disable, prefer,"),
            ("sslmode=verify-ca", "sslmode=verify-ca needs sslrootcert"),
            ("sslrootcert=ca.pem", "sslrootcert means nothing with sslmode=prefer"),
            ("sslmode=disable&sslrootcert=ca.pem", "sslrootcert means nothing with sslmode=disable"),
            ("sslmode=verify-full&sslrootcert=system", "sslrootcert=system is not supported"),
            ("sslcert=a.pem", "the parameter sslcert is not known"),
        ] {
            let error = mode(parameters).expect_err(parameters);
            assert!(error.starts_with(why), "{parameters}: {error}");
        }
    }
}
