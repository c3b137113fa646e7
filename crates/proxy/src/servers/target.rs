//! Choice of server for a client's transactions: the setting `overtake.target`.
//!
//! **Invariant:** to a server it is a setting of two parts like any other, so it follows its client and its
//! transactions wherever they go. The proxy itself answers commands that are one SET, RESET or SHOW of it and nothing
//! else, without a server and between transactions only: a client that is bound to unreachable servers must be able to
//! choose others.

use statement::{SqlError, SqlState};

/// Role of the server that transactions need. The names are those of libpq's `target_session_attrs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TargetRole {
    /// Server that says that it is the primary.
    #[default]
    Primary,
    /// Server that says that it is a standby.
    Standby,
    /// Standby, or else the primary.
    PreferStandby,
    /// Either of them.
    Any,
}

/// Name of the setting.
pub(crate) const NAME: &str = "overtake.target";

impl TargetRole {
    const ALL: [TargetRole; 4] = [TargetRole::Primary, TargetRole::Standby, TargetRole::PreferStandby, TargetRole::Any];

    /// Name of the target as a value of the setting.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TargetRole::Primary => "primary",
            TargetRole::Standby => "standby",
            TargetRole::PreferStandby => "prefer_standby",
            TargetRole::Any => "any",
        }
    }

    /// Parses a name of the setting or of libpq.
    pub(crate) fn named(name: &str) -> Option<TargetRole> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        match &*name {
            "read_write" => Some(TargetRole::Primary),
            "read_only" => Some(TargetRole::Standby),
            name => TargetRole::ALL.into_iter().find(|target| target.name() == name),
        }
    }

    /// Returns the target of this name.
    ///
    /// # Errors
    /// `22023`: there is none.
    pub(crate) fn of(name: &str) -> Result<TargetRole, SqlError> {
        TargetRole::named(name).ok_or_else(|| {
            let message = format!("invalid value for parameter \"{NAME}\": \"{name}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .hint("Available values: primary, standby, prefer_standby, any.")
        })
    }
}

/// Targets of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTargets {
    /// Target at login.
    default: TargetRole,
    session: TargetRole,
    /// Target of the next transaction only.
    local: Option<TargetRole>,
}

/// Command of the proxy about the target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetCommand {
    /// SET; `None` is the default.
    Set {
        is_local: bool,
        tag: &'static str,
        value: Option<String>,
    },
    Show,
}

impl ClientTargets {
    pub(crate) fn new(default: TargetRole) -> ClientTargets {
        ClientTargets { default, session: default, local: None }
    }

    /// Target of the next transaction.
    pub(crate) fn current(&self) -> TargetRole {
        self.local.unwrap_or(self.session)
    }

    /// Runs a SET, `None` being the default, and returns the target that it means.
    ///
    /// # Errors
    /// `22023`: there is no such target.
    pub(crate) fn set(&mut self, is_local: bool, value: Option<&str>) -> Result<TargetRole, SqlError> {
        let target = value.map_or(Ok(self.default), TargetRole::of)?;
        if is_local {
            self.local = Some(target);
        } else {
            self.session = target;
        }
        Ok(target)
    }

    /// Adopts the value that the server reports for the session; `None`: it has none of its own.
    pub(crate) fn follow(&mut self, value: Option<&str>) {
        self.session = value.map_or(Some(self.default), TargetRole::named).unwrap_or(self.session);
    }

    /// Target of a transaction that begins with this text.
    pub(crate) fn for_text(&self, text: &str) -> TargetRole {
        if is_named_in(text.as_bytes()) { TargetRole::Any } else { self.current() }
    }

    /// Notes that a transaction has begun.
    pub(crate) fn begun(&mut self) {
        self.local = None;
    }
}

/// True if a text is a SET, a RESET or a SHOW of the setting: a text that may change it must not wait for a server of
/// its current value.
pub(crate) fn is_named_in(text: &[u8]) -> bool {
    // Almost no text gets further than this.
    let text = text.trim_ascii_start();
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
    let may_be = text.len() <= 256 && (begins(b"set") || begins(b"show") || begins(b"reset"));
    may_be && text.windows(NAME.len()).any(|part| part.eq_ignore_ascii_case(NAME.as_bytes()))
}

/// Parses a text that is one of the proxy's commands and nothing else.
pub(crate) fn command(text: &[u8]) -> Option<TargetCommand> {
    if !is_named_in(text) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_suffix(';').unwrap_or(text).replace('=', " = ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let set = |is_local, value: &str| {
        let value = value.trim_matches(['\'', '"']);
        let value = (!value.eq_ignore_ascii_case("default")).then(|| value.to_owned());
        Some(TargetCommand::Set { is_local, tag: "SET", value })
    };
    match lower[..] {
        ["show", NAME] => Some(TargetCommand::Show),
        ["reset", NAME] => Some(TargetCommand::Set { is_local: false, tag: "RESET", value: None }),
        ["set", NAME, "=" | "to", value] | ["set", "session", NAME, "=" | "to", value] => set(false, value),
        ["set", "local", NAME, "=" | "to", value] => set(true, value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_commands_are_ours() {
        let set = |is_local, value: Option<&str>| {
            Some(TargetCommand::Set { is_local, tag: "SET", value: value.map(str::to_owned) })
        };
        assert_eq!(command(b" SET overtake.target = 'standby';"), set(false, Some("standby")));
        assert_eq!(command(b"set local Overtake.Target to any"), set(true, Some("any")));
        assert_eq!(command(b"set session overtake.target=default"), set(false, None));
        let reset = TargetCommand::Set { is_local: false, tag: "RESET", value: None };
        assert_eq!(command(b"reset overtake.target"), Some(reset));
        assert_eq!(command(b"SHOW overtake.target"), Some(TargetCommand::Show));
        for text in ["set overtake.target = any; select 1", "select 1", "set work_mem = 1", "show overtake.priority"] {
            assert_eq!(command(text.as_bytes()), None, "{text}");
        }
        let targets = ClientTargets::new(TargetRole::Standby);
        assert_eq!(targets.for_text("RESET overtake.target"), TargetRole::Any);
        assert_eq!(targets.for_text("select 'overtake.target'"), TargetRole::Standby);
    }

    #[test]
    fn a_target_is_the_sessions_or_the_next_transactions() {
        let mut targets = ClientTargets::new(TargetRole::Primary);
        assert_eq!(targets.set(false, Some("prefer-standby")), Ok(TargetRole::PreferStandby));
        assert_eq!(targets.set(true, Some("any")), Ok(TargetRole::Any));
        assert_eq!(targets.current(), TargetRole::Any);
        targets.begun();
        assert_eq!(targets.current(), TargetRole::PreferStandby);
        targets.follow(Some("standby"));
        targets.follow(Some("nonsense"));
        assert_eq!(targets.current(), TargetRole::Standby);
        targets.follow(None);
        assert_eq!(targets.current(), TargetRole::Primary);
        assert_eq!(targets.set(false, Some("slave")).map_err(|error| error.state().0), Err("22023"));
    }
}
