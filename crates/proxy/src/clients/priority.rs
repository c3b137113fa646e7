//! Settings of a client that belong to the proxy, and the few commands that it answers itself: the class of the
//! client's transactions, their hot key, and the values that the proxy was told.
//!
//! **Invariant:** only a query that is one such command and nothing else is answered here. Everything else goes to the
//! server, which takes `overtake.priority` for a setting of two parts like any other. By the extended protocol, the
//! server is sent a statement in place of such a command that is described alike and does nothing; its answer is
//! corrected on its way back.

use settings::priority::class_of;
use stage::Class;
use statement::{SqlError, SqlState};
use std::borrow::Cow;
use std::sync::Arc;
use syntax::fingerprint;
use wire::reply::Column;
use wire::reply::Format;
use wire::reply::{Formats, Replies};

mod command;
pub(crate) use command::{PriorityCommand, command};

/// Setting of a client that belongs to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Priority,
    HotKey,
}

impl Setting {
    pub(crate) const ALL: [Setting; 2] = [Setting::Priority, Setting::HotKey];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Setting::Priority => "overtake.priority",
            Setting::HotKey => "overtake.hot_key",
        }
    }

    fn of(name: &str) -> Option<Setting> {
        Setting::ALL.into_iter().find(|setting| setting.name().eq_ignore_ascii_case(name))
    }
}

/// Value that follows transactions as settings do.
#[derive(Clone, Debug)]
struct TransactionalValue<T> {
    /// Value at login.
    default: T,
    session: T,
    /// Value until the transaction ends.
    local: Option<T>,
    /// Value before the open transaction.
    before: Option<T>,
}

impl<T: Clone> TransactionalValue<T> {
    fn new(default: T) -> TransactionalValue<T> {
        TransactionalValue { session: default.clone(), default, local: None, before: None }
    }

    fn current(&self) -> &T {
        self.local.as_ref().unwrap_or(&self.session)
    }

    fn set(&mut self, value: Option<T>, is_local: bool, is_open: bool) {
        let value = value.unwrap_or_else(|| self.default.clone());
        if is_local {
            self.local = Some(value);
            return;
        }
        let before = std::mem::replace(&mut self.session, value);
        if is_open {
            self.before.get_or_insert(before);
        }
    }

    fn undo(&mut self) {
        if let Some(before) = self.before.take() {
            self.session = before;
        }
    }

    fn settle(&mut self) {
        self.before = None;
        self.local = None;
    }
}

/// Name of the setting of the highest class that a role may have.
pub(crate) const MAX: &str = "overtake.priority_max";

/// Class of a client, its highest allowed class, and its hot key.
#[derive(Clone, Debug)]
pub(crate) struct Priority {
    class: TransactionalValue<Class>,
    max: Class,
    hot_key: TransactionalValue<Arc<str>>,
}

/// Answer of the proxy, before `ReadyForQuery`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandResult {
    Tag(&'static str),
    /// Row with the value of this setting.
    Shows(Arc<str>, Arc<str>),
}

/// SET or RESET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetCommand {
    setting: Setting,
    is_local: bool,
    /// True for `SET … TO DEFAULT`.
    is_default: bool,
    /// New value; `None` for the default.
    value: Option<String>,
}

/// Prepared statement that the proxy serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalStatement {
    Set(SetCommand),
    /// SHOW of the setting of this name.
    Show(Arc<str>),
}

impl SetCommand {
    /// Returns the setting, if the value is to outlast the transaction.
    pub(crate) fn of_session(&self) -> Option<Setting> {
        (!self.is_local).then_some(self.setting)
    }
}

/// OID of the type `text`.
const TEXT: u32 = 25;

impl CommandResult {
    pub(crate) fn write(self, replies: &mut Replies) {
        match self {
            CommandResult::Tag(tag) => replies.command(tag),
            CommandResult::Shows(name, value) => {
                let column = Column { name: &name, table: 0, number: 0, oid: TEXT, length: -1, typmod: -1 };
                replies.columns(Some(vec![column]), &Formats::All(Format::Text));
                replies.text_row([Some(&*value)].into_iter());
                replies.command("SHOW");
            }
        }
    }
}

impl LocalStatement {
    /// Returns the statement that is sent to the server in its place: it is described alike.
    pub(crate) fn for_server(&self) -> Cow<'static, [u8]> {
        match self {
            LocalStatement::Set(set) if set.value.is_some() || set.is_default => SET_NOTHING.into(),
            LocalStatement::Set(_) => RESET_NOTHING.into(),
            LocalStatement::Show(name) => format!("SELECT NULL::pg_catalog.text AS \"{name}\"").into_bytes().into(),
        }
    }
}

const SET_NOTHING: &[u8] = b"SET overtake.priority TO DEFAULT";
const RESET_NOTHING: &[u8] = b"RESET overtake.priority";

/// True if a text is one of these replacements, which would be taken to leave state behind.
pub(crate) fn is_for_server(text: &[u8]) -> bool {
    text == SET_NOTHING || text == RESET_NOTHING
}

/// Parses a text that is one of the proxy's statements, with a valid value, and nothing else; `has` tells which
/// settings can be shown.
pub(crate) fn served(text: &[u8], has: impl Fn(&str) -> bool) -> Option<LocalStatement> {
    match command(text)? {
        PriorityCommand::Set(SetCommand { setting: Setting::Priority, value: Some(value), .. })
            if class_of(&value).is_err() =>
        {
            None
        }
        PriorityCommand::Set(set) => Some(LocalStatement::Set(set)),
        PriorityCommand::Show(name) if has(&name) => Some(LocalStatement::Show(name)),
        PriorityCommand::Show(_) | PriorityCommand::SetOther(_) | PriorityCommand::Deallocate(_) => None,
    }
}

/// Error for a client that may not have a class above its highest.
pub(crate) fn denied(max: Class) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to set parameter \"overtake.priority\"")
        .detail(format!("The highest class of this role is {}.", max.name()))
        .hint("A superuser of the server raises it by ALTER ROLE ... SET overtake.priority_max.")
}

/// Error for a statement that may not have this class by a hint.
pub(crate) fn denied_hint(class: Class, max: Class) -> SqlError {
    let message = format!("permission denied to give a statement the class \"{}\"", class.name());
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .detail(format!("The highest class of this role is {}.", max.name()))
}

impl Priority {
    pub(crate) fn new(class: Class, max: Class, hot_key: &str) -> Priority {
        Priority { class: TransactionalValue::new(class), max, hot_key: TransactionalValue::new(hot_key.into()) }
    }

    /// Highest class that the client may have.
    pub(crate) fn max(&self) -> Class {
        self.max
    }

    /// True if a SET asks for a class that the client may not have.
    pub(crate) fn denies(&self, set: &SetCommand) -> bool {
        let class = set.value.as_deref().filter(|_| set.setting == Setting::Priority).map(class_of);
        class.is_some_and(|class| class.is_ok_and(|class| class.outranks(self.max)))
    }

    /// Sets a value and returns the command's tag.
    ///
    /// # Errors
    /// `22023`: there is no such class; `42501`: it is above the client's highest.
    pub(crate) fn set(&mut self, set: SetCommand, is_open: bool) -> Result<&'static str, SqlError> {
        let tag = if set.value.is_some() || set.is_default { "SET" } else { "RESET" };
        match set.setting {
            Setting::Priority => {
                if self.denies(&set) {
                    return Err(denied(self.max));
                }
                let class = set.value.as_deref().map(class_of).transpose()?;
                self.class.set(class, set.is_local, is_open);
            }
            Setting::HotKey => self.hot_key.set(set.value.map(Arc::from), set.is_local, is_open),
        }
        Ok(tag)
    }

    /// Resets all values to those of the login.
    pub(crate) fn reset(&mut self, is_open: bool) {
        self.class.set(None, false, is_open);
        self.hot_key.set(None, false, is_open);
    }

    /// Class of the next transaction, unless it names one itself.
    pub(crate) fn class(&self) -> Class {
        *self.class.current()
    }

    /// Hot key of the next transaction, unless it names one itself.
    pub(crate) fn hot_key(&self) -> Option<u64> {
        fingerprint::of_key(self.hot_key.current())
    }

    /// Returns the value of this setting for SHOW, if it is one of these.
    pub(crate) fn shown(&self, name: &str) -> Option<Arc<str>> {
        if name.eq_ignore_ascii_case(MAX) {
            return Some(self.max.name().into());
        }
        Some(match Setting::of(name)? {
            Setting::Priority => self.class().name().into(),
            Setting::HotKey => Arc::clone(self.hot_key.current()),
        })
    }

    /// Adopts the value that the server reports; `None` stands for the server's default.
    pub(crate) fn follow(&mut self, setting: Setting, value: Option<&str>) {
        match setting {
            Setting::Priority => {
                let class = value.map_or(Ok(self.class.default), class_of);
                // The server accepts any value: a class that is too high becomes the highest allowed one.
                self.class.session = class.map_or(self.class.session, |class| class.max(self.max));
            }
            Setting::HotKey => {
                self.hot_key.session = value.map_or_else(|| Arc::clone(&self.hot_key.default), Arc::from);
            }
        }
    }

    /// Undoes changes of a transaction that was rolled back.
    pub(crate) fn undo(&mut self) {
        self.class.undo();
        self.hot_key.undo();
    }

    /// Ends the transaction.
    pub(crate) fn settle(&mut self) {
        self.class.settle();
        self.hot_key.settle();
    }
}

/// Returns true if a text may begin with a BEGIN or a SET.
pub(crate) fn may_open(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"begin"[..], b"start", b"set"]
        .iter()
        .any(|word| text.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word)))
}

/// Returns the class that a text sets, if it is a SET of the class and nothing else.
pub(crate) fn class_set(text: &[u8]) -> Option<Result<Class, SqlError>> {
    match command(text)? {
        PriorityCommand::Set(SetCommand { setting: Setting::Priority, value: Some(value), .. }) => {
            Some(class_of(&value))
        }
        PriorityCommand::Set(_)
        | PriorityCommand::SetOther(_)
        | PriorityCommand::Show(_)
        | PriorityCommand::Deallocate(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> SetCommand {
        match command(text.as_bytes()) {
            Some(PriorityCommand::Set(set)) => set,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_stands_for_others_is_described_alike() {
        let of = |text: &str| {
            let served = served(text.as_bytes(), |name| name == "overtake.mpl")?;
            Some(String::from_utf8(served.for_server().into_owned()).expect("a text"))
        };
        assert_eq!(of("set overtake.priority = low").as_deref(), Some("SET overtake.priority TO DEFAULT"));
        assert_eq!(of("reset overtake.hot_key").as_deref(), Some("RESET overtake.priority"));
        assert_eq!(of("SHOW Overtake.MPL;").as_deref(), Some("SELECT NULL::pg_catalog.text AS \"overtake.mpl\""));
        for none in ["set overtake.priority = urgent", "show overtake.nothing", "deallocate p", "select 1"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn values_are_undone_with_their_transaction() {
        let mut priority = Priority::new(Class::Normal, Class::High, "");
        priority.set(set("set overtake.priority = high"), true).expect("a class");
        priority.set(set("set overtake.hot_key = 'a:7'"), true).expect("a key");
        assert_eq!((priority.class(), priority.hot_key()), (Class::High, fingerprint::of_key("a:7")));
        assert_eq!(priority.shown("Overtake.Hot_Key").as_deref(), Some("a:7"));
        priority.undo();
        priority.settle();
        assert_eq!((priority.class(), priority.hot_key()), (Class::Normal, None));
        priority.set(set("set local overtake.hot_key = b"), true).expect("a key");
        assert!(priority.hot_key().is_some());
        priority.settle();
        assert_eq!(priority.hot_key(), None);
        assert!(priority.set(set("set overtake.priority = urgent"), false).is_err());
    }

    #[test]
    fn nobody_raises_itself_above_its_highest_class() {
        let mut priority = Priority::new(Class::Low, Class::Normal, "");
        assert!(
            priority.denies(&set("set overtake.priority = high"))
                && !priority.denies(&set("set overtake.hot_key = high"))
        );
        let refused = priority.set(set("set overtake.priority = high"), false).map_err(|error| error.state().0);
        assert_eq!((refused, priority.class()), (Err("42501"), Class::Low));
        priority.set(set("set overtake.priority = normal"), false).expect("a class");
        priority.follow(Setting::Priority, Some("high"));
        assert_eq!((priority.class(), priority.shown(MAX).as_deref()), (Class::Normal, Some("normal")));
    }
}
