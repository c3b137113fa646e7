//! Rules of PostgreSQL's `pg_hba.conf`, as far as they are needed: which clients may connect from where, and how they
//! prove their identity.
//!
//! **Invariant:** the first rule that matches decides. A connection without a matching rule is refused.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Address of the client; `None` for the unix socket.
    pub address: Option<IpAddr>,
    /// True if the connection is encrypted.
    pub is_encrypted: bool,
}

/// Kind of connections that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionKind {
    /// Connections by the unix socket.
    Local,
    /// Connections by TCP.
    Host,
    /// Connections by TCP with TLS.
    HostSsl,
    /// Connections by TCP without TLS.
    HostNoSsl,
}

/// Databases or users that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleNames {
    /// Every name.
    All,
    /// Listed names.
    These(Vec<RuleName>),
}

/// Name of a database or user in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleName {
    /// Database or user of this name.
    Is(String),
    /// Database named like the user.
    SameUser,
}

/// Authentication method of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No proof is needed.
    Trust,
    /// The client proves its password by SCRAM-SHA-256.
    ScramSha256,
    /// The connection is refused.
    Reject,
}

/// Rule of `pg_hba.conf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbaRule {
    /// Kind of the connections that it matches.
    pub kind: ConnectionKind,
    /// Databases that it matches.
    pub databases: RuleNames,
    /// Users that it matches.
    pub users: RuleNames,
    /// Addresses that it matches, with the length of their prefix in bits; `None`: all.
    pub network: Option<(IpAddr, u8)>,
    /// Authentication method.
    pub method: Method,
}

/// Error of a line that is not a rule, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl HbaRule {
    /// Rules of a fresh server: trust by the unix socket and on the loopback.
    pub fn of_a_fresh_server() -> Vec<HbaRule> {
        HbaRule::built_in(&["local all all trust", "host all all 127.0.0.0/8 trust", "host all all ::1/128 trust"])
    }

    /// Rules of a gate before a server that asks for passwords: as that server does, the gate asks every client for one,
    /// also for the role whose password it knows. The administration database is the gate's own.
    pub fn of_a_gate_with_passwords() -> Vec<HbaRule> {
        HbaRule::built_in(&[
            "local overtake postgres trust",
            "host overtake postgres 127.0.0.0/8 trust",
            "host overtake postgres ::1/128 trust",
            "local all all scram-sha-256",
            "host all all 127.0.0.0/8 scram-sha-256",
            "host all all ::1/128 scram-sha-256",
        ])
    }

    /// Rules that need no file. The tests count them, so each line is a rule.
    fn built_in(lines: &[&str]) -> Vec<HbaRule> {
        lines.iter().filter_map(|line| line.parse().ok()).collect()
    }

    /// Parses the rules of a text, one in each line. `#` outside of quotes begins a comment.
    ///
    /// # Errors
    /// A line is not a rule; the error names its number.
    pub fn parse_all(text: &str) -> Result<Vec<HbaRule>, RuleError> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let rules = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        rules.map(|(number, line)| line.parse().map_err(|error| RuleError(format!("line {number}: {error}")))).collect()
    }

    /// True if the rule matches this connection.
    pub fn fits(&self, origin: &Origin, database: &str, user: &str) -> bool {
        let kind = match (self.kind, origin.address) {
            (ConnectionKind::Local, None) | (ConnectionKind::Host, Some(_)) => true,
            (ConnectionKind::HostSsl, Some(_)) => origin.is_encrypted,
            (ConnectionKind::HostNoSsl, Some(_)) => !origin.is_encrypted,
            (ConnectionKind::Local, Some(_))
            | (ConnectionKind::Host | ConnectionKind::HostSsl | ConnectionKind::HostNoSsl, None) => false,
        };
        kind && names_fit(&self.databases, database, Some(user))
            && names_fit(&self.users, user, None)
            && self.network.is_none_or(|network| origin.address.is_some_and(|address| is_in(network, address)))
    }
}

fn names_fit(names: &RuleNames, name: &str, same: Option<&str>) -> bool {
    match names {
        RuleNames::All => true,
        RuleNames::These(names) => names.iter().any(|one| match one {
            RuleName::Is(one) => one == name,
            RuleName::SameUser => same.is_some_and(|same| same == name),
        }),
    }
}

fn is_in((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    // An IPv4 client of an IPv6 socket counts as an IPv4 client.
    match (network, address.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differ = network.to_bits() ^ address.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        _ => false,
    }
}

fn network(text: &str) -> Option<Option<(IpAddr, u8)>> {
    if text == "all" {
        return Some(None);
    }
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|&bits: &u8| bits <= bits_max)?;
    Some(Some((address, bits)))
}

/// Word of a line. A word that begins with a quote is not a keyword.
struct HbaToken {
    text: String,
    is_quoted: bool,
}

/// Splits a line, up to a comment, into its fields. Each is a list that commas separate.
fn fields(line: &str) -> Result<Vec<Vec<HbaToken>>, &'static str> {
    let mut fields: Vec<Vec<HbaToken>> = Vec::new();
    let mut letters = line.chars().peekable();
    let mut goes_on = false;
    loop {
        while letters.next_if(|&letter| letter.is_whitespace() || letter == ',').is_some() {}
        let Some(&first) = letters.peek().filter(|&&first| first != '#') else { return Ok(fields) };
        let mut token = HbaToken { text: String::new(), is_quoted: first == '"' };
        let (mut is_within, mut is_part) = (false, false);
        while let Some(letter) = letters.next_if(|&letter| is_within || (letter != '#' && !letter.is_whitespace())) {
            match letter {
                // Two quotes in a row stand for one literal quote.
                '"' if is_within && letters.next_if_eq(&'"').is_some() => token.text.push('"'),
                '"' => is_within = !is_within,
                ',' if !is_within => {
                    is_part = true;
                    break;
                }
                _ => token.text.push(letter),
            }
        }
        if is_within {
            return Err("a quotation without an end");
        }
        match fields.last_mut().filter(|_| goes_on) {
            Some(field) => field.push(token),
            None => fields.push(vec![token]),
        }
        goes_on = is_part;
    }
}

/// Parses the databases or users that a field names.
fn names(field: Vec<HbaToken>, are_databases: bool) -> Result<RuleNames, String> {
    let (mut all, mut are_all) = (Vec::new(), false);
    for HbaToken { text, is_quoted } in field {
        let unknown = |what: &str| Err(format!("\"{text}\", which is not supported ({what}),"));
        match &*text {
            _ if is_quoted => all.push(RuleName::Is(text)),
            "all" => are_all = true,
            "sameuser" if are_databases => all.push(RuleName::SameUser),
            "samerole" | "samegroup" if are_databases => {
                return unknown("databases of roles that the user is a member of");
            }
            "replication" if are_databases => return unknown("connections of replication"),
            _ if text.starts_with('+') && !are_databases => return unknown("members of a role"),
            _ if text.starts_with('@') => return unknown("names in a file"),
            _ if text.starts_with('/') => return unknown("regular expressions"),
            _ => all.push(RuleName::Is(text)),
        }
    }
    Ok(if are_all { RuleNames::All } else { RuleNames::These(all) })
}

impl FromStr for HbaRule {
    type Err = RuleError;

    fn from_str(line: &str) -> Result<HbaRule, RuleError> {
        let wrong = |what: &str| RuleError(format!("{what} in the rule \"{line}\""));
        let mut fields = fields(line).map_err(wrong)?.into_iter();
        let mut field = |what: &str| fields.next().ok_or_else(|| wrong(&format!("there is no {what}")));
        let one = |field: Vec<HbaToken>, what: &str| match <[HbaToken; 1]>::try_from(field) {
            Ok([token]) => Ok(token.text),
            Err(_) => Err(wrong(&format!("more than one {what}"))),
        };
        let kind = match &*one(field("kind")?, "kind")? {
            "local" => ConnectionKind::Local,
            "host" => ConnectionKind::Host,
            "hostssl" => ConnectionKind::HostSsl,
            "hostnossl" => ConnectionKind::HostNoSsl,
            _ => return Err(wrong("an unknown kind of connection")),
        };
        let databases = names(field("database")?, true).map_err(|what| wrong(&what))?;
        let users = names(field("user")?, false).map_err(|what| wrong(&what))?;
        let network = match kind {
            ConnectionKind::Local => None,
            ConnectionKind::Host | ConnectionKind::HostSsl | ConnectionKind::HostNoSsl => {
                network(&one(field("address")?, "address")?)
                    .ok_or_else(|| wrong("an address that is neither `all` nor ADDRESS/BITS"))?
            }
        };
        let method = match &*one(field("method")?, "method")? {
            "trust" => Method::Trust,
            "scram-sha-256" => Method::ScramSha256,
            "reject" => Method::Reject,
            _ => return Err(wrong("an unknown method")),
        };
        match fields.next() {
            None => Ok(HbaRule { kind, databases, users, network, method }),
            Some(_) => Err(wrong("more than is understood")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Origin {
        Origin { address: Some(address.parse().expect("an address")), is_encrypted: false }
    }

    #[test]
    fn a_gate_with_passwords_trusts_the_administrator_of_its_own_machine_alone() {
        let rules = HbaRule::of_a_gate_with_passwords();
        assert_eq!(rules.len(), 6);
        let method = |origin: &Origin, database: &str, user: &str| {
            rules.iter().find(|rule| rule.fits(origin, database, user)).map(|rule| rule.method)
        };
        for ours in [Origin { address: None, is_encrypted: false }, from("127.0.0.1"), from("::1")] {
            assert_eq!(method(&ours, "overtake", "postgres"), Some(Method::Trust));
            assert_eq!(method(&ours, "shop", "postgres"), Some(Method::ScramSha256));
            assert_eq!(method(&ours, "overtake", "app"), Some(Method::ScramSha256));
        }
        assert_eq!(method(&from("10.0.0.1"), "overtake", "postgres"), None);
    }

    #[test]
    fn a_fresh_server_trusts_its_own_machine() {
        let rules = HbaRule::of_a_fresh_server();
        assert_eq!(rules.len(), 3);
        let is_let_in = |origin: &Origin| rules.iter().any(|rule| rule.fits(origin, "postgres", "postgres"));
        assert!(is_let_in(&Origin { address: None, is_encrypted: false }));
        for ours in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(is_let_in(&from(ours)), "{ours}");
        }
        for other in ["10.0.0.1", "128.0.0.1", "::2"] {
            assert!(!is_let_in(&from(other)), "{other}");
        }
    }

    #[test]
    fn rules_are_read_and_fit() {
        let text = "# comment\n\nhostssl sales,sameuser ann 10.1.0.0/16 scram-sha-256 # ann\nhost all all all reject\n";
        let rules = HbaRule::parse_all(text).expect("rules");
        let secure = Origin { is_encrypted: true, ..from("10.1.7.7") };
        let first = |origin: &Origin, database: &str, user: &str| {
            rules.iter().find(|rule| rule.fits(origin, database, user)).map(|rule| rule.method)
        };
        assert_eq!(first(&secure, "sales", "ann"), Some(Method::ScramSha256));
        assert_eq!(first(&secure, "ann", "ann"), Some(Method::ScramSha256));
        assert_eq!(first(&secure, "bob", "ann"), Some(Method::Reject));
        assert_eq!(first(&secure, "sales", "bob"), Some(Method::Reject));
        assert_eq!(first(&from("10.1.7.7"), "sales", "ann"), Some(Method::Reject));
        assert_eq!(first(&from("10.2.0.0"), "sales", "ann"), Some(Method::Reject));
        assert_eq!(first(&Origin { address: None, is_encrypted: false }, "sales", "ann"), None);
        for wrong in [
            "host",
            "host all all trust",
            "host all all 1.2.3.4/33 trust",
            "local all all md5",
            "local all all trust x",
            "host all all 1.2.3.4/32,1.2.3.5/32 trust",
            "host all \"ann all trust",
        ] {
            assert!(wrong.parse::<HbaRule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_those_that_are_quoted() {
        let fits = |line: &str, database: &str, user: &str| {
            let rules = HbaRule::parse_all(line).expect("a rule");
            rules.len() == 1 && rules[0].fits(&from("10.1.7.7"), database, user)
        };
        assert!(fits("host all \"bob\" all reject", "sales", "bob"));
        assert!(!fits("host all \"bob\" all reject", "sales", "\"bob\""));
        for user in ["Bob Smith", "a,b", "all", "+x", "#1", "say \"so\""] {
            let line = format!("host all eve, \"{}\" all trust # \"", user.replace('"', "\"\""));
            assert!(
                fits(&line, "sales", user) && fits(&line, "sales", "eve") && !fits(&line, "sales", "bob"),
                "{line}"
            );
        }
        assert!(fits("host sales, all all all trust", "x", "bob"));
        assert!(fits("host +sales all all trust", "+sales", "bob"));
        assert!(!fits("host \"sameuser\" all all trust", "bob", "bob"));
        assert!(fits("host \"sameuser\" all all trust", "sameuser", "bob"));
        assert!(fits("host all sameuser all trust", "x", "sameuser"));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (line, what) in [
            ("host all +contractors all reject", "\"+contractors\", which is not supported (members of a role)"),
            ("host all bob,@users all reject", "\"@users\", which is not supported (names in a file)"),
            ("host @databases all all reject", "\"@databases\""),
            ("host all /^b.* all reject", "\"/^b.*\", which is not supported (regular expressions)"),
            ("host samerole all all reject", "\"samerole\""),
            ("host samegroup all all reject", "\"samegroup\""),
            ("host all,replication all all trust", "\"replication\", which is not supported"),
        ] {
            let error = HbaRule::parse_all(&format!("host all ann all trust\n{line}\n")).expect_err(line).to_string();
            assert!(error.contains(what) && error.contains(line), "{error}");
        }
    }
}
