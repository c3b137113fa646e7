//! Commands of the administration database.
//!
//! **Invariant:** a text is one whole command, or none.

use statement::{SqlError, SqlState};

/// Command of the administration database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AdminCommand {
    Show(Show),
    /// PAUSE of one database, or of all.
    Pause(Option<String>),
    Resume(Option<String>),
    Reconnect(Option<String>),
    Reload,
    /// ACCEPT: the named server becomes the primary.
    Accept(String),
}

/// Object of a SHOW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    Pools,
    PoolsByServer,
    Clients,
    Servers,
    Stats,
    StatsTotals,
    Totals,
    Lists,
    Users,
    Databases,
    Config,
    Upstream,
    Version,
    Help,
    /// Table of the schema `overtake`.
    Gate(&'static str),
    /// History of the gates over the last seconds, or all of it.
    History(Option<u32>),
}

impl AdminCommand {
    /// Parses the command of a text; `None` if the text is empty.
    ///
    /// # Errors
    /// `42601`: there is no such command.
    pub(super) fn of(text: &str) -> Result<Option<AdminCommand>, SqlError> {
        let whole = text.trim().trim_end_matches(';').trim_end();
        let words: Vec<&str> = whole.split_whitespace().collect();
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        let name = |at: usize| {
            let word = words.get(at)?;
            let quoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
            Some(quoted.map_or_else(|| (*word).to_owned(), |name| name.replace("\"\"", "\"")))
        };
        Ok(Some(match lower[..] {
            [] => return Ok(None),
            ["show", ref what @ ..] => AdminCommand::Show(Show::of(what).ok_or_else(|| invalid(whole))?),
            ["pause"] | ["pause", _] => AdminCommand::Pause(name(1)),
            ["resume"] | ["resume", _] => AdminCommand::Resume(name(1)),
            ["reconnect"] | ["reconnect", _] => AdminCommand::Reconnect(name(1)),
            ["reload"] => AdminCommand::Reload,
            ["accept", ..] => AdminCommand::Accept(literal(&whole["accept".len()..]).ok_or_else(|| invalid(whole))?),
            _ => return Err(invalid(whole)),
        }))
    }

    pub(super) fn tag(&self) -> &'static str {
        match self {
            AdminCommand::Show(_) => "SHOW",
            AdminCommand::Pause(_) => "PAUSE",
            AdminCommand::Resume(_) => "RESUME",
            AdminCommand::Reconnect(_) => "RECONNECT",
            AdminCommand::Reload => "RELOAD",
            AdminCommand::Accept(_) => "ACCEPT",
        }
    }
}

impl Show {
    fn of(words: &[&str]) -> Option<Show> {
        Some(match words {
            ["pools"] => Show::Pools,
            ["pools", "by", "server"] => Show::PoolsByServer,
            ["clients"] => Show::Clients,
            ["servers"] => Show::Servers,
            ["stats"] => Show::Stats,
            ["stats_totals"] => Show::StatsTotals,
            ["totals"] => Show::Totals,
            ["lists"] => Show::Lists,
            ["users"] => Show::Users,
            ["databases"] => Show::Databases,
            ["config"] => Show::Config,
            ["upstream"] => Show::Upstream,
            ["version"] => Show::Version,
            ["help"] => Show::Help,
            ["gate"] => Show::Gate("gate"),
            ["mpl"] => Show::Gate("mpl"),
            ["gate", "histogram"] => Show::Gate("gate_histogram"),
            ["mpl", "history"] => Show::History(None),
            ["mpl", "history", seconds] => Show::History(Some(seconds.parse().ok()?)),
            ["mpl", "log"] => Show::Gate("mpl_log"),
            ["forecast"] => Show::Gate("mpl_forecast"),
            ["verdict"] => Show::Gate("mpl_verdict"),
            ["resources"] => Show::Gate("gate_resources"),
            _ => return None,
        })
    }
}

/// Value of a text that consists of one string literal.
fn literal(text: &str) -> Option<String> {
    let inside = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let is_whole = !inside.is_empty() && !inside.replace("''", "").contains('\'');
    is_whole.then(|| inside.replace("''", "'"))
}

fn invalid(text: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid command '{text}', use SHOW HELP;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_whole() {
        let is = |text: &str, wanted: Option<AdminCommand>| assert_eq!(AdminCommand::of(text), Ok(wanted), "{text}");
        is(" ; ", None);
        is("show Pools;", Some(AdminCommand::Show(Show::Pools)));
        is("SHOW MPL", Some(AdminCommand::Show(Show::Gate("mpl"))));
        is("show mpl  log ;", Some(AdminCommand::Show(Show::Gate("mpl_log"))));
        is("show mpl history", Some(AdminCommand::Show(Show::History(None))));
        is("show mpl history 60", Some(AdminCommand::Show(Show::History(Some(60)))));
        is("pause", Some(AdminCommand::Pause(None)));
        is("RESUME \"Sales\"", Some(AdminCommand::Resume(Some("Sales".to_owned()))));
        is("reconnect sales", Some(AdminCommand::Reconnect(Some("sales".to_owned()))));
        is("accept 'db:5432';", Some(AdminCommand::Accept("db:5432".to_owned())));
        is("ACCEPT '/a b/it''s.5432'", Some(AdminCommand::Accept("/a b/it's.5432".to_owned())));
        for wrong in [
            "select 1",
            "accept",
            "accept db:5432",
            "accept ''",
            "accept 'a' 'b'",
            "accept 'a",
            "accept '",
            "show",
            "show pools; show stats",
            "show foo",
            "show mpl history x",
            "pause a b",
            "set a = 1",
            "reload x",
        ] {
            assert_eq!(AdminCommand::of(wrong).expect_err(wrong).state().0, "42601", "{wrong}");
        }
    }
}
