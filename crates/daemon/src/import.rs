//! `overtake import-pgbouncer`: converts a `pgbouncer.ini` to a configuration of `overtake serve`.
//!
//! **Invariant:** every line of the file is accounted for: it becomes a setting, a part of the command, or a comment with
//! the reason why it has no counterpart.

use clap::Args;
use host::refusal::Refusal;
use host::say::say;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Arguments of `import-pgbouncer`.
#[derive(Args, Clone, Debug)]
pub struct ImportArguments {
    /// The file `pgbouncer.ini`
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the configuration.
///
/// # Errors
/// Fails if the file cannot be read, or is not a configuration of PgBouncer.
pub fn run(arguments: &ImportArguments) -> anyhow::Result<()> {
    let name = arguments.file.display();
    let text = std::fs::read_to_string(&arguments.file).map_err(|error| Refusal::new(format!("{name}: {error}")))?;
    let file = Ini::parse(&text).map_err(|error| Refusal::new(format!("{name}: {error}")))?;
    say(converted(&file, &name.to_string()))
}

/// Sections of a file with their lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ini {
    databases: Vec<IniLine>,
    users: Vec<IniLine>,
    settings: Vec<IniLine>,
}

/// Line `name = value` with its number.
#[derive(Debug, PartialEq, Eq)]
struct IniLine {
    number: usize,
    name: String,
    value: String,
}

impl Ini {
    fn parse(text: &str) -> Result<Ini, String> {
        let mut ini = Ini::default();
        let mut section = None;
        for (at, line) in text.lines().enumerate() {
            let (number, line) = (at + 1, line.trim());
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                section = Some(name.trim().to_lowercase());
                continue;
            }
            if let Some(file) = line.strip_prefix("%include") {
                return Err(format!("line {number}: %include of {}: import that file, too", file.trim()));
            }
            let (name, value) = line.split_once('=').ok_or(format!("line {number} is no name = value"))?;
            let line =
                IniLine { number, name: name.trim().trim_matches('"').to_owned(), value: value.trim().to_owned() };
            match section.as_deref() {
                Some("databases") => ini.databases.push(line),
                Some("users") => ini.users.push(line),
                Some("pgbouncer") => ini.settings.push(IniLine { name: line.name.to_lowercase(), ..line }),
                Some(other) => return Err(format!("line {number}: section [{other}] is unknown")),
                None => return Err(format!("line {number} stands in no section")),
            }
        }
        match ini.databases.is_empty() && ini.settings.is_empty() {
            true => Err("it has neither [databases] nor [pgbouncer]".to_owned()),
            false => Ok(ini),
        }
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|line| line.name == name).map(|line| &*line.value)
    }
}

/// Counterpart of a PgBouncer setting.
enum Counterpart {
    /// Setting of this name with this value.
    Setting(&'static str, String),
    /// Setting of this name with this value, which needs another step; the text describes it.
    SettingAnd(&'static str, String, &'static str),
    /// No setting is needed, for this reason.
    Needless(&'static str),
    /// No counterpart exists; the text describes an alternative.
    Missing(&'static str),
}

/// Returns the text of the configuration.
fn converted(file: &Ini, name: &str) -> String {
    let mut text = format!("# Made from {name} by `overtake import-pgbouncer`.\n");
    let upstreams = upstreams(file, &mut text);
    text.push_str("\n# Start it with:\n");
    for upstream in &upstreams {
        let _ = writeln!(text, "#   overtake serve --config FILE --upstream '{upstream}'");
    }
    if 1 < upstreams.len() {
        text.push_str(
            "# Each of these is a server of its own: they serve different hosts, so give each its own port.\n",
        );
    }
    text.push('\n');
    for line in &file.settings {
        match counterpart(line, file) {
            Counterpart::Setting(name, value) => {
                let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
            }
            Counterpart::SettingAnd(name, value, more) => {
                let _ = writeln!(text, "# line {}, {} = {}: NOT CONVERTED: {more}", line.number, line.name, line.value);
                let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
            }
            Counterpart::Needless(why) => {
                let _ = writeln!(text, "# line {}, {} = {}: not needed: {why}", line.number, line.name, line.value);
            }
            Counterpart::Missing(why) => {
                let _ = writeln!(text, "# line {}, {} = {}: NOT CONVERTED: {why}", line.number, line.name, line.value);
            }
        }
    }
    for line in &file.users {
        let _ = writeln!(
            text,
            "# line {}, user {} = {}: NOT CONVERTED: ALTER ROLE {} SET … on the server says what a role begins with",
            line.number, line.name, line.value, line.name
        );
    }
    text
}

/// Returns the URLs of the servers, and adds comments on databases that cannot be reached by their names.
fn upstreams(file: &Ini, text: &mut String) -> Vec<String> {
    let mut hosts: BTreeMap<String, ()> = BTreeMap::new();
    for line in &file.databases {
        let words = parameters(&line.value);
        let get = |name: &str| words.iter().find(|(own, _)| own == name).map(|(_, value)| &**value);
        let user = get("auth_user").or(file.setting("auth_user")).or(get("user")).unwrap_or("USER");
        let port = get("port").unwrap_or("5432");
        let database = match (get("dbname"), &*line.name) {
            (Some(own), _) => own,
            (None, "*") => "postgres",
            (None, name) => name,
        };
        if line.name != "*" && database != line.name {
            let _ = writeln!(
                text,
                "# line {}: NOT CONVERTED: clients of the database {} must connect to {database}: a name is the server's own",
                line.number, line.name
            );
        }
        for (name, value) in &words {
            if !["host", "port", "dbname", "user", "auth_user", "password"].contains(&&**name) {
                let _ = writeln!(
                    text,
                    "# line {}: NOT CONVERTED: {name}={value} of the database {}; settings count for all databases",
                    line.number, line.name
                );
            }
        }
        let tls = file.setting("server_tls_sslmode").filter(|mode| *mode != "disable" && *mode != "allow");
        let mut query: Vec<String> = tls.map(|mode| format!("sslmode={mode}")).into_iter().collect();
        query.extend(file.setting("server_tls_ca_file").map(|file| format!("sslrootcert={file}")));
        let host = match get("host") {
            Some(host) if !host.starts_with('/') => host.to_owned(),
            directory => {
                query.push(format!("host={}", directory.unwrap_or("/var/run/postgresql")));
                String::new()
            }
        };
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let mut target = format!("postgres://{user}:PASSWORD@{host}:{port}");
        // There is one URL for each server; Overtake itself connects to the database in it.
        if !hosts.keys().any(|known| known.starts_with(&format!("{target}/")) && known.ends_with(&query)) {
            let _ = write!(target, "/{database}{query}");
            hosts.insert(target, ());
        }
    }
    hosts.into_keys().collect()
}

/// Parses the parameters of a database's connection string. Values may be in single quotes.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while let Some((name, behind)) = rest.split_once('=') {
        let behind = behind.trim_start();
        let (value, behind) = match behind.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap_or((quoted, "")),
            None => behind.split_once(char::is_whitespace).unwrap_or((behind, "")),
        };
        words.push((name.trim().to_owned(), value.to_owned()));
        rest = behind.trim_start();
    }
    words
}

/// Converts seconds of PgBouncer to a value with a unit.
fn seconds(line: &IniLine) -> String {
    if line.value.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
        format!("{}s", line.value)
    } else {
        line.value.clone()
    }
}

fn counterpart(line: &IniLine, file: &Ini) -> Counterpart {
    use Counterpart::{Missing, Needless, Setting, SettingAnd};
    let value = || line.value.clone();
    match &*line.name {
        "listen_addr" => Setting("listen_addresses", value()),
        "listen_port" => Setting("port", value()),
        // An empty directory and a timeout of 0 switch features off that are off by default here. The arms after them
        // convert all other values.
        "unix_socket_dir" if line.value.is_empty() => Needless("no socket is the default"),
        "unix_socket_dir" => Setting("unix_socket_directories", value()),
        "max_client_conn" => Setting("max_connections", value()),
        "default_pool_size" => Setting("overtake.upstream_pool", value()),
        "server_idle_timeout" => Setting("overtake.upstream_idle", seconds(line)),
        "server_lifetime" => Setting("overtake.upstream_lifetime", seconds(line)),
        "query_wait_timeout" => Setting("overtake.query_wait_timeout", seconds(line)),
        "client_login_timeout" => Setting("authentication_timeout", seconds(line)),
        "query_timeout" if line.value == "0" => Needless("no limit is the default"),
        "query_timeout" => Setting("statement_timeout", seconds(line)),
        "idle_transaction_timeout" if line.value == "0" => Needless("no limit is the default"),
        "idle_transaction_timeout" => Setting("idle_in_transaction_session_timeout", seconds(line)),
        "auth_query" => Missing(
            "overtake.upstream_auth_query has the query for the password of role $1; its default reads pg_authid",
        ),
        "auth_user" => Needless("the user of the URL reads passwords"),
        "auth_hba_file" => Setting("hba_file", value()),
        // No method of PgBouncer corresponds to a single line of `pg_hba.conf`: the import does not guess which clients
        // may connect from which addresses.
        "auth_type" => match &*line.value {
            "hba" => Needless("hba_file has the rules"),
            "trust" | "any" | "scram-sha-256" => Missing(
                "write a line into a file that hba_file names, for instance: host all all 0.0.0.0/0 scram-sha-256",
            ),
            _ => Missing(
                "roles prove themselves by SCRAM: password_encryption = scram-sha-256 on the server, and new passwords",
            ),
        },
        "auth_file" => Missing("passwords are the server's own, so none is kept here"),
        "pool_mode" => match &*line.value {
            "transaction" => Needless("connections are shared by transactions"),
            "session" => {
                Missing("connections are shared by transactions; what belongs to a session follows its client")
            }
            _ => Missing("there is no statement pooling: blocks of transactions work"),
        },
        "client_tls_sslmode" if line.value == "disable" => Needless("ssl is off by default"),
        // `ssl = on` without a certificate would keep the server from starting.
        "client_tls_sslmode" => match file.setting("client_tls_cert_file") {
            Some(_) if matches!(&*line.value, "allow" | "prefer") => Setting("ssl", "on".to_owned()),
            Some(_) => SettingAnd(
                "ssl",
                "on".to_owned(),
                "to refuse clients without TLS, write hostssl in place of host into the file that hba_file names",
            ),
            None => Missing("ssl needs ssl_cert_file and ssl_key_file"),
        },
        "client_tls_cert_file" => Setting("ssl_cert_file", value()),
        "client_tls_key_file" => Setting("ssl_key_file", value()),
        "server_tls_sslmode" | "server_tls_ca_file" => Needless("it stands in the URL"),
        "log_connections" => Setting("log_connections", value()),
        "max_prepared_statements" => Needless("prepared statements follow their client"),
        "server_reset_query" | "server_reset_query_always" => {
            Needless("overtake.upstream_reset says when a connection is asked what a client has left on it")
        }
        "server_check_query" | "server_check_delay" => Needless("servers are asked every overtake.upstream_check"),
        "server_connect_timeout" => Missing("?connect_timeout= of the URL is the counterpart"),
        "ignore_startup_parameters" | "track_extra_parameters" => Needless("all settings follow their client"),
        "admin_users" | "stats_users" => {
            Missing("superusers of Overtake's own roles administer it: psql -U postgres overtake -c 'SHOW MPL'")
        }
        "min_pool_size" | "reserve_pool_size" | "reserve_pool_timeout" => {
            Missing("the gate decides how many transactions run: overtake.mpl = auto finds the limit")
        }
        "max_db_connections" | "max_user_connections" => {
            Missing("overtake.upstream_pool is the bound of each user and database")
        }
        "client_idle_timeout" => Setting("idle_session_timeout", seconds(line)),
        "logfile" | "pidfile" | "syslog" | "syslog_ident" | "syslog_facility" | "user" | "daemon" | "verbose" => {
            Needless("the service manager starts the process and keeps its standard error")
        }
        "log_disconnections" | "log_pooler_errors" | "log_stats" | "stats_period" => {
            Needless("OVERTAKE_LOG filters the log, and overtake.metrics serves figures")
        }
        name if name.starts_with("tcp_") || name == "so_reuseport" || name == "listen_backlog" => {
            Needless("connections are kept alive")
        }
        _ => Missing("it has no counterpart"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Ini, converted, parameters};

    const FILE: &str = "\
[databases]
shop = host=10.0.0.1 port=5433 dbname=shop
report = host=10.0.0.1 port=5433 dbname=warehouse pool_size=5
* = host=db2

; comment
[pgbouncer]
listen_addr = *
listen_port = 6432
auth_type = md5
auth_user = pgbouncer
client_tls_sslmode = require
client_tls_cert_file = server.crt
pool_mode = transaction
default_pool_size = 20
server_idle_timeout = 600
max_client_conn = 500
novel_setting = 1
";

    #[test]
    fn settings_get_their_counterparts() {
        let text = converted(&Ini::parse(FILE).unwrap(), "pgbouncer.ini");
        for line in [
            "listen_addresses = '*'",
            "port = '6432'",
            "overtake.upstream_pool = '20'",
            "overtake.upstream_idle = '600s'",
            "max_connections = '500'",
            "#   overtake serve --config FILE --upstream 'postgres://pgbouncer:PASSWORD@10.0.0.1:5433/shop'",
            "#   overtake serve --config FILE --upstream 'postgres://pgbouncer:PASSWORD@db2:5432/postgres'",
            "# line 18, novel_setting = 1: NOT CONVERTED: it has no counterpart",
            "ssl = 'on'",
            "# line 12, client_tls_sslmode = require: NOT CONVERTED: to refuse clients without TLS, write hostssl in place of host into the file that hba_file names",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        assert!(text.contains("clients of the database report must connect to warehouse"), "{text}");
        assert!(text.contains("pool_size=5 of the database report"), "{text}");
    }

    /// Goal: the printed configuration can be used: all its settings are known and take their values.
    #[test]
    fn the_configuration_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("overtake.conf");
        std::fs::write(&file, converted(&Ini::parse(FILE).unwrap(), "pgbouncer.ini")).unwrap();
        let mut settings = settings::Defaults::default();
        settings::sources::read_file(&file, &mut settings).unwrap();
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for (text, wanted) in [
            ("", "it has neither [databases] nor [pgbouncer]"),
            ("a = b", "line 1 stands in no section"),
            ("[pgbouncer]\nlisten_port", "line 2 is no name = value"),
            ("[pgbouncer]\n%include other.ini", "line 2: %include of other.ini: import that file, too"),
            ("[peers]\n1 = host=a", "line 2: section [peers] is unknown"),
        ] {
            assert_eq!(Ini::parse(text).unwrap_err(), wanted);
        }
    }

    #[test]
    fn quoted_parameters_may_have_spaces() {
        let words = parameters("host=a  password='x y' dbname = b");
        let wanted = [("host", "a"), ("password", "x y"), ("dbname", "b")];
        assert_eq!(words, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
