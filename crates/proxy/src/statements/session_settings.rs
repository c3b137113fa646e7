//! Settings of a session: those of a client, and those of a server connection.
//!
//! **Invariant:** names are in lower case and in order, so two lists mean the same exactly if they are equal. A value
//! is the one that the server itself reports (`pg_settings`), except for those that a client has just asked for at its
//! login.

use std::fmt::Write;
use std::sync::Arc;

/// Names and values, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SessionSettings(Vec<(Box<str>, Box<str>)>);

/// Settings whose values may be refused though they were good before, and those that decide what a statement may do.
/// Messages behind them in the line wait until they are known to be accepted.
const CAREFUL: &[&str] = &[
    "role",
    "session_authorization",
    "default_tablespace",
    "temp_tablespaces",
    "default_table_access_method",
    "default_text_search_config",
    "row_security",
];

/// Statements that reset state which cannot be asked for: settings of two parts that nobody has named, the last values
/// of sequences.
pub(crate) const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; DISCARD SEQUENCES; ";

/// Statement before questions and changes of the proxy's own: they are no statements of the client, so its
/// `statement_timeout` does not apply to them. This first statement is still under it, so the whole may have to be
/// repeated.
pub(crate) const WITHOUT_DEADLINE: &str = "SET LOCAL statement_timeout = 0; ";

/// Setting that ends statements by time.
const DEADLINE: &str = "statement_timeout";

/// Appends a literal of SQL.
pub(crate) fn literal(out: &mut String, text: &str) {
    // The form with E is read in the same way whatever standard_conforming_strings says.
    out.push_str("E'");
    for letter in text.chars() {
        if matches!(letter, '\'' | '\\') {
            out.push(letter);
        }
        out.push(letter);
    }
    out.push('\'');
}

impl SessionSettings {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        self.0.get(at).map(|(_, value)| &**value)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        let name = name.to_ascii_lowercase();
        match self.0.binary_search_by(|(own, _)| (**own).cmp(&*name)) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (name.into(), value.into())),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Box<str>> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(self.0.remove(at).1)
    }

    /// Tells if statements are ended by time; `None` if the server's defaults decide.
    pub(crate) fn has_deadline(&self) -> Option<bool> {
        self.get(DEADLINE).map(|value| value != "0")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Settings that decide how a text is parsed and planned, as one text. Few are left out, those that differ for each
    /// client: a setting that is not known to change nothing counts. Settings of two parts are read when a statement
    /// runs.
    pub(crate) fn context(&self) -> Arc<str> {
        const OTHERS: &[&str] = &[
            "application_name",
            "client_min_messages",
            "idle_in_transaction_session_timeout",
            "idle_session_timeout",
            "lock_timeout",
            "statement_timeout",
        ];
        let is_of_it = |name: &str| !name.contains('.') && !OTHERS.contains(&name);
        let mut text = String::new();
        for (name, value) in self.iter().filter(|(name, _)| is_of_it(name)) {
            text.extend([name, "\0", value, "\0"]);
        }
        text.into()
    }

    /// Returns the statements that make these settings from those of a connection, and true if the next message must
    /// wait for their end.
    pub(crate) fn change_from(&self, had: &SessionSettings) -> (String, bool) {
        let mut text = String::new();
        let mut is_careful = false;
        let is_user = |name: &str| matches!(name, "role" | "session_authorization");
        let users_differ = ["role", "session_authorization"].iter().any(|&name| self.get(name) != had.get(name));
        if users_differ && (had.get("role").is_some() || had.get("session_authorization").is_some()) {
            // The session's former user may not be allowed to do the rest.
            text.push_str("RESET SESSION AUTHORIZATION; RESET ROLE; ");
        }
        for (name, _) in had.iter().filter(|(name, _)| !is_user(name) && self.get(name).is_none()) {
            text.push_str("RESET ");
            // A name may be of two parts.
            for (at, part) in name.split('.').enumerate() {
                // Writing to a string cannot fail.
                let _ = write!(text, "{}\"{}\"", if at == 0 { "" } else { "." }, part.replace('"', "\"\""));
            }
            text.push_str("; ");
        }
        let mut set = |name: &str, value: &str| {
            is_careful |= CAREFUL.contains(&name);
            text.push_str("SELECT pg_catalog.set_config(");
            literal(&mut text, name);
            text.push_str(", ");
            literal(&mut text, value);
            text.push_str(", false); ");
        };
        let differs = |name: &str, value: &str| had.get(name) != Some(value);
        let is_later = |name: &str| is_user(name) || name == DEADLINE;
        for (name, value) in self.iter().filter(|&(name, value)| !is_later(name) && differs(name, value)) {
            set(name, value);
        }
        if users_differ {
            for name in ["session_authorization", "role"] {
                if let Some(value) = self.get(name) {
                    set(name, value);
                }
            }
        }
        // The setting takes effect from the next statement on.
        if let Some(value) = self.get(DEADLINE).filter(|value| differs(DEADLINE, value)) {
            set(DEADLINE, value);
        }
        (text, is_careful || users_differ)
    }
}

impl FromIterator<(String, String)> for SessionSettings {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> SessionSettings {
        let mut settings = SessionSettings::default();
        pairs.into_iter().for_each(|(name, value)| settings.set(&name, &value));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> SessionSettings {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn only_the_difference_is_sent() {
        let (had, wants) =
            (of(&[("DateStyle", "ISO"), ("a.b", "1")]), of(&[("datestyle", "ISO"), ("work_mem", "1'\\")]));
        let (text, is_careful) = wants.change_from(&had);
        assert_eq!(text, "RESET \"a\".\"b\"; SELECT pg_catalog.set_config(E'work_mem', E'1''\\\\', false); ");
        assert!(!is_careful);
        assert_eq!(wants.change_from(&wants), (String::new(), false));
        let (text, _) = of(&[("timezone", "UTC"), ("statement_timeout", "1"), ("a", "b")]).change_from(&of(&[]));
        assert!(text.ends_with("set_config(E'statement_timeout', E'1', false); "), "{text}");
        let (text, is_careful) = of(&[("role", "bob")]).change_from(&of(&[("role", "ann")]));
        assert!(text.starts_with("RESET SESSION AUTHORIZATION; RESET ROLE; ") && text.contains("E'bob'"), "{text}");
        assert!(is_careful);
    }
}
