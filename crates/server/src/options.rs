//! Configuration of a server by its settings.

use crate::config::Config;
use crate::network::NetworkInterface;
use crate::rules::HbaRule;
use settings::Defaults;
use settings::sources::OptionError;
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::{Path, PathBuf};
use wire::tls;
use xdp::{CaptureFile, Mode, PortOptions};

/// Resolves `ADDRESS`, `ADDRESS:PORT`, `*`, or a name, which stands for all its addresses, with a port or without.
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
                        OptionError::new(format!("listen_addresses: \"{word}\" is no address: {why}"))
                    };
                    let (name, port) = match word.rsplit_once(':') {
                        Some((name, port)) => (name, port.parse().map_err(|error| no_address(&error))?),
                        None => (word, port),
                    };
                    if name == "localhost" {
                        // The other loopback address, ::1, does not exist on every machine.
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

/// Reads `INTERFACE[:QUEUE] [ADDRESS[:PORT]]`.
fn xdp_port(text: &str, port: u16) -> Result<PortOptions, OptionError> {
    let wrong = || {
        let form = "INTERFACE[:QUEUE] [ADDRESS[:PORT]] with an IPv4 address";
        OptionError::new(format!("overtake.listen_xdp: \"{text}\" is not {form}"))
    };
    let mut words = text.split_whitespace();
    let interface = words.next().ok_or_else(wrong)?;
    let (interface, queue) = match interface.rsplit_once(':') {
        Some((interface, queue)) => (interface, queue.parse().map_err(|_| wrong())?),
        None => (interface, 0),
    };
    let (address, port) = match words.next().map(|word| (word.parse::<SocketAddrV4>(), word.parse::<Ipv4Addr>())) {
        Some((Ok(address), _)) if address.port() == 0 => {
            let why =
                "port 0 is not supported: give the one that clients connect to, or none for that of the setting port";
            return Err(OptionError::new(format!("overtake.listen_xdp: \"{text}\": {why}")));
        }
        Some((Ok(address), _)) => (Some(*address.ip()), address.port()),
        Some((Err(_), Ok(address))) => (Some(address), port),
        Some((Err(_), Err(_))) => return Err(wrong()),
        None => (None, port),
    };
    let interface = interface.to_owned();
    match words.next() {
        Some(_) => Err(wrong()),
        None => Ok(PortOptions { interface, queue, address, port, ..PortOptions::default() }),
    }
}

impl Config {
    /// Reads the configuration from the settings, and the files that they name. Relative paths start at the folder of
    /// the configuration file.
    ///
    /// # Errors
    /// A file cannot be read or has invalid contents; an address is invalid.
    pub fn from_settings(settings: &Defaults) -> Result<Config, OptionError> {
        let beside = Path::new(settings.get("config_file")).parent().map(Path::to_path_buf).unwrap_or_default();
        let path = |name: &str| -> PathBuf { beside.join(settings.get(name)) };
        let port = u16::try_from(settings.number("port")).unwrap_or(0);
        // Without a file, a fresh server trusts its own machine.
        let rules = match settings.get("hba_file") {
            "" => HbaRule::of_a_fresh_server(),
            _ => {
                let path = path("hba_file");
                let place = |error: &dyn fmt::Display| OptionError::new(format!("{}: {error}", path.display()));
                let text = fs::read_to_string(&path).map_err(|error| place(&error))?;
                HbaRule::parse_all(&text).map_err(|error| place(&error))?
            }
        };
        let tls = match settings.is_on("ssl") {
            false => None,
            true => {
                let (certificate, key) = (path("ssl_cert_file"), path("ssl_key_file"));
                let place = |error| OptionError::new(format!("ssl_cert_file, ssl_key_file: {error}"));
                Some(tls::load(&certificate, &key).map_err(place)?)
            }
        };
        let unix = match settings.get("unix_socket_directories") {
            "" => None,
            directory if Path::new(directory).is_dir() => Some((PathBuf::from(directory), port)),
            other => return Err(OptionError::new(format!("unix_socket_directories: \"{other}\" is no directory"))),
        };
        let shared = match settings.get("overtake.listen_shared") {
            "" => None,
            path => Some(PathBuf::from(path)),
        };
        let xdp = match settings.get("overtake.listen_xdp") {
            "" => None,
            text => {
                let bytes_max = settings.bytes("overtake.xdp_capture_size") as u64;
                let capture = Some(settings.get("overtake.xdp_capture")).filter(|path| !path.is_empty());
                Some(PortOptions {
                    mode: if settings.get("overtake.xdp_mode") == "driver" { Mode::Driver } else { Mode::Generic },
                    capture: capture.map(|path| CaptureFile { path: PathBuf::from(path), bytes_max }),
                    ..xdp_port(text, port)?
                })
            }
        };
        let metrics = match settings.get("overtake.metrics") {
            "" => None,
            text => match text.parse() {
                Ok(address) => Some(address),
                Err(_) => return Err(OptionError::new(format!("overtake.metrics: \"{text}\" is no ADDRESS:PORT"))),
            },
        };
        let default = Config::default();
        let network_threads = match settings.number("overtake.network_threads") {
            0 => default.network_threads,
            count => usize::try_from(count).unwrap_or(1),
        };
        let network = match settings.get("overtake.network") {
            "io_uring" => NetworkInterface::IoUring,
            "epoll" => NetworkInterface::Epoll,
            other => return Err(OptionError::new(format!("overtake.network: \"{other}\" is no interface"))),
        };
        Ok(Config {
            listen: addresses(settings.get("listen_addresses"), port)?,
            unix,
            shared,
            xdp,
            metrics,
            network_threads,
            network,
            // A number that does not fit falls back to 1, not to "no limit".
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
    use settings::sources::{read_environment, read_flag};

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
        for (text, expected) in [
            ("eth0", ("eth0", 0, None, 6000)),
            ("eth0.7:3 10.0.0.5", ("eth0.7", 3, Some("10.0.0.5"), 6000)),
            ("eth0 10.0.0.5:77", ("eth0", 0, Some("10.0.0.5"), 77)),
        ] {
            let port = xdp_port(text, 6000).expect("a port");
            let address = port.address.map(|address| address.to_string());
            assert_eq!((port.interface.as_str(), port.queue, address.as_deref(), port.port), expected);
        }
        for wrong in [
            "listen_addresses=nowhere.invalid",
            "listen_addresses=localhost:x",
            "unix_socket_directories=/does/not/exist",
            "hba_file=/does/not/exist",
            "ssl=on",
            "overtake.metrics=1",
            "overtake.listen_xdp=eth0:first",
            "overtake.listen_xdp=eth0 ::1",
            "overtake.listen_xdp=eth0 10.0.0.1 5432",
            "overtake.listen_xdp=eth0 10.0.0.1:0",
        ] {
            let mut settings = settings.clone();
            read_flag(wrong, &mut settings).expect("a setting");
            assert!(Config::from_settings(&settings).is_err(), "{wrong}");
        }
    }
}
