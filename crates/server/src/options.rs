//! The server's settings from a file, the environment and flags, and what they make of the server.
//!
//! **Invariant:** the same names everywhere; a name that does not exist is an error that names the nearest.

use crate::config::Config;
use crate::rules::Rule;
use crate::tls;
use sql::session::{Defaults, Source};
use statement::SqlError;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// What is wrong with the settings, and where.
#[derive(Debug)]
pub struct OptionError(String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionError {}

impl OptionError {
    /// What is wrong with the value of this setting.
    pub(crate) fn of(name: &str, why: String) -> OptionError {
        OptionError(format!("{name}: {why}"))
    }
}

fn wrong(place: impl fmt::Display, error: &SqlError) -> OptionError {
    let more = [error.detail_text(), error.hint_text()].into_iter().flatten().map(|text| format!(" {text}"));
    OptionError(format!("{place}: {}.{}", error.message(), more.collect::<String>()))
}

/// The prefix of environment variables: `OVERTAKE_PORT`; `OVERTAKE_PRIORITY` stands for `overtake.priority`.
pub const PREFIX: &str = "OVERTAKE_";
/// Those that are no settings: of the log, the tests and the build.
const OTHERS: &[&str] = &["LOG", "CI", "SLT_URL", "SLT_ONLY", "PLANT", "BLESS", "CHROMIUM", "CLIENTS", "PICTURES"];

/// Reads lines `name = value` of a configuration file, in the form of `postgresql.conf`.
///
/// # Errors
/// With the number of the line.
pub fn read_file(path: &Path, into: &mut Defaults) -> Result<(), OptionError> {
    let text = fs::read_to_string(path).map_err(|error| OptionError(format!("{}: {error}", path.display())))?;
    for (at, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), at + 1);
        let Some((name, value)) = assignment(line).map_err(|what| OptionError(format!("{}: {what}", place())))? else {
            continue;
        };
        into.set(&name, &value, Source::File).map_err(|error| wrong(place(), &error))?;
    }
    Ok(())
}

/// The name and the value of a line; nothing of an empty one or a comment.
fn assignment(line: &str) -> Result<Option<(String, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|letter: char| letter == '=' || letter.is_whitespace()).ok_or("a value is missing")?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let Some(quoted) = rest.strip_prefix('\'') else {
        let value = rest.split('#').next().unwrap_or("").trim();
        return if value.is_empty() {
            Err("a value is missing")
        } else {
            Ok(Some((name.to_owned(), value.to_owned())))
        };
    };
    let (mut value, mut letters) = (String::new(), quoted.chars());
    loop {
        match letters.next().ok_or("a quote is not closed")? {
            '\'' if letters.as_str().starts_with('\'') => {
                letters.next();
                value.push('\'');
            }
            '\'' => break,
            letter => value.push(letter),
        }
    }
    let rest = letters.as_str().trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(Some((name.to_owned(), value)))
    } else {
        Err("more follows the value")
    }
}

/// Takes the variables that begin with [`PREFIX`]. Other programs may have such variables, too: one that is no setting is left
/// out, and told in words for the log.
///
/// # Errors
/// A value that its setting does not take.
pub fn read_environment(
    variables: impl Iterator<Item = (String, String)>,
    into: &mut Defaults,
) -> Result<Vec<String>, OptionError> {
    let mut unknown = Vec::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix(PREFIX).filter(|name| !OTHERS.contains(name)) else { continue };
        let name = name.to_lowercase();
        let own = format!("overtake.{name}");
        let name = if into.has(&own) { own } else { name };
        if into.has(&name) {
            into.set(&name, &value, Source::Environment).map_err(|error| wrong(&variable, &error))?;
            continue;
        }
        let near = into.nearest_short(&name).map(|near| near.strip_prefix("overtake.").unwrap_or(near).to_uppercase());
        let meant = near.map_or_else(String::new, |near| format!("; perhaps you meant {PREFIX}{near}"));
        unknown.push(format!("the environment variable {variable} is no setting and is ignored{meant}"));
    }
    Ok(unknown)
}

/// Takes one flag's `name=value`.
///
/// # Errors
/// As for files.
pub fn read_flag(assignment: &str, into: &mut Defaults) -> Result<(), OptionError> {
    let (name, value) =
        assignment.split_once('=').ok_or_else(|| OptionError(format!("\"{assignment}\" is no NAME=VALUE")))?;
    into.set(name.trim(), value.trim(), Source::CommandLine)
        .map_err(|error| wrong(format_args!("-c {assignment}"), &error))
}

/// `ADDRESS`, `ADDRESS:PORT`, `*`, or a name, which stands for all its addresses, with a port or without.
fn addresses(text: &str, port: u16) -> Result<Vec<SocketAddr>, OptionError> {
    let mut all = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let ip = |ip: IpAddr| SocketAddr::new(ip, port);
        match word {
            "*" => all.push(ip(Ipv6Addr::UNSPECIFIED.into())),
            word => match (word.parse::<SocketAddr>(), word.trim_matches(['[', ']']).parse::<IpAddr>()) {
                (Ok(address), _) => all.push(address),
                (Err(_), Ok(address)) => all.push(ip(address)),
                (Err(_), Err(_)) => {
                    let no_address = |why: &dyn fmt::Display| {
                        OptionError(format!("listen_addresses: \"{word}\" is no address: {why}"))
                    };
                    let (name, port) = match word.rsplit_once(':') {
                        Some((name, port)) => (name, port.parse().map_err(|error| no_address(&error))?),
                        None => (word, port),
                    };
                    if name == "localhost" {
                        // The other one, ::1, is not there on every machine.
                        all.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
                        continue;
                    }
                    all.extend((name, port).to_socket_addrs().map_err(|error| no_address(&error))?);
                }
            },
        }
    }
    Ok(all)
}

impl Config {
    /// What the settings say. Reads the files that they name; relative paths begin where the configuration file is.
    ///
    /// # Errors
    /// A file that cannot be read or is not what it should be; addresses that are none.
    pub fn from_settings(settings: &Defaults) -> Result<Config, OptionError> {
        let beside = Path::new(settings.get("config_file")).parent().map(Path::to_path_buf).unwrap_or_default();
        let path = |name: &str| -> PathBuf { beside.join(settings.get(name)) };
        let port = u16::try_from(settings.number("port")).unwrap_or(0);
        let rules = match settings.get("hba_file") {
            "" => Rule::of_a_fresh_server(),
            _ => {
                let path = path("hba_file");
                let place = |error: &dyn fmt::Display| OptionError(format!("{}: {error}", path.display()));
                let text = fs::read_to_string(&path).map_err(|error| place(&error))?;
                Rule::parse_all(&text).map_err(|error| place(&error))?
            }
        };
        let tls = match settings.is_on("ssl") {
            false => None,
            true => {
                let (certificate, key) = (path("ssl_cert_file"), path("ssl_key_file"));
                let place = |error| OptionError(format!("{}, {}: {error}", certificate.display(), key.display()));
                Some(tls::load(&certificate, &key).map_err(place)?)
            }
        };
        let unix = match settings.get("unix_socket_directories") {
            "" => None,
            directory if Path::new(directory).is_dir() => Some((PathBuf::from(directory), port)),
            other => return Err(OptionError(format!("unix_socket_directories: \"{other}\" is no directory"))),
        };
        let metrics = match settings.get("overtake.metrics") {
            "" => None,
            text => match text.parse() {
                Ok(address) => Some(address),
                Err(_) => return Err(OptionError(format!("overtake.metrics: \"{text}\" is no ADDRESS:PORT"))),
            },
        };
        let default = Config::default();
        let network_threads = match settings.number("overtake.network_threads") {
            0 => default.network_threads,
            count => usize::try_from(count).unwrap_or(1),
        };
        Ok(Config {
            listen: addresses(settings.get("listen_addresses"), port)?,
            unix,
            metrics,
            network_threads,
            connections_max: usize::try_from(settings.number("max_connections")).unwrap_or(1),
            message_max: settings.bytes("overtake.message_max"),
            session_memory_max: settings.bytes("overtake.session_memory"),
            authentication_timeout: settings.duration("authentication_timeout"),
            send_timeout: Some(settings.duration("overtake.send_timeout")).filter(|time| !time.is_zero()),
            shutdown_grace: settings.duration("overtake.shutdown_grace"),
            log_connections: settings.is_on("log_connections"),
            rules,
            tls,
            ..default
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_postgresql_does() {
        let is = |line, name: &str, value: &str| {
            assert_eq!(assignment(line), Ok(Some((name.to_owned(), value.to_owned()))), "{line}");
        };
        is("port = 5433 # comment", "port", "5433");
        is("  port 5433", "port", "5433");
        is("listen_addresses='*'", "listen_addresses", "*");
        is("a.b = 'it''s # no comment' # one", "a.b", "it's # no comment");
        assert_eq!(assignment(" # port = 1"), Ok(None));
        for wrong in ["port", "port =", "port = 'x", "port = 'x' y", "port = # x"] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sources_have_an_order_and_errors_a_place() {
        let mut settings = Defaults::default();
        let variables = [("OVERTAKE_PORT", "6000"), ("OVERTAKE_PRIORITY", "low"), ("PATH", "/"), ("OVERTAKE_LOG", "x")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let unknown = read_environment(variables.into_iter(), &mut settings).expect("settings");
        assert!(unknown.is_empty(), "{unknown:?}");
        read_flag("max_connections=7", &mut settings).expect("a setting");
        assert_eq!((settings.number("port"), settings.get("overtake.priority")), (6000, "low"));
        let error = read_flag("max_conections=7", &mut settings).expect_err("a slip");
        assert!(error.to_string().contains("Perhaps you meant \"max_connections\""), "{error}");
        let told = |variable: &str, settings: &mut Defaults| {
            read_environment([(variable.to_owned(), "1".to_owned())].into_iter(), settings)
        };
        for (variable, more) in [
            ("OVERTAKE_PROT", "; perhaps you meant OVERTAKE_PORT"),
            ("OVERTAKE_UPSTREAM_POOLS", "; perhaps you meant OVERTAKE_UPSTREAM_POOL"),
            ("OVERTAKE_OF_ANOTHER_PROGRAM", ""),
        ] {
            let message = format!("the environment variable {variable} is no setting and is ignored{more}");
            assert_eq!(told(variable, &mut settings).expect("a warning"), [message]);
        }
        assert!(told("OVERTAKE_MPL_LOSS", &mut settings).is_ok_and(|unknown| unknown.is_empty()));
        assert!(told("OVERTAKE_PRIORITY", &mut settings).is_err());
        let config = Config::from_settings(&settings).expect("a configuration");
        assert_eq!(
            (config.connections_max, &config.listen[..]),
            (7, &["127.0.0.1:6000".parse().expect("it is one")][..])
        );
        read_flag("listen_addresses=*, ::1, 10.0.0.1:77, localhost, localhost:78", &mut settings).expect("a setting");
        let listen: Vec<String> =
            Config::from_settings(&settings).expect("one").listen.iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["[::]:6000", "[::1]:6000", "10.0.0.1:77", "127.0.0.1:6000", "127.0.0.1:78"]);
        for wrong in [
            "listen_addresses=nowhere.invalid",
            "listen_addresses=localhost:x",
            "unix_socket_directories=/does/not/exist",
            "hba_file=/does/not/exist",
            "ssl=on",
            "overtake.metrics=1",
        ] {
            let mut settings = settings.clone();
            read_flag(wrong, &mut settings).expect("a setting");
            assert!(Config::from_settings(&settings).is_err(), "{wrong}");
        }
    }
}
