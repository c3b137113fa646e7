//! What is the front's of a client's settings, and the few commands that it answers itself: the class of the client's transactions,
//! what they meet others at, and what the front was told.
//!
//! **Invariant:** only a query that is one such command and nothing else is answered here; everything else is the server's, which
//! takes `overtake.priority` for a setting of two parts like any other. By the extended protocol the server is sent a statement
//! in place of such a command that is described alike and does nothing; what it answers is put right on its way back.

use stage::Class;
use statement::{SqlError, SqlState};
use std::borrow::Cow;
use std::sync::Arc;
use syntax::fingerprint;
use wire::reply::Column;
use wire::reply::Format;
use wire::reply::{Formats, Replies};

mod command;
pub(crate) use command::{Command, command};

/// One of the front's settings of a client.
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

/// A value that follows transactions as settings do.
#[derive(Clone, Debug)]
struct Follows<T> {
    /// Of its login.
    default: T,
    session: T,
    /// Until the transaction ends.
    local: Option<T>,
    /// What it was before the open transaction.
    before: Option<T>,
}

impl<T: Clone> Follows<T> {
    fn new(default: T) -> Follows<T> {
        Follows { session: default.clone(), default, local: None, before: None }
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

/// The setting of the highest class that a role may have.
pub(crate) const MAX: &str = "overtake.priority_max";

/// A client's class, the highest that it may have, and its hot key.
#[derive(Clone, Debug)]
pub(crate) struct Priority {
    class: Follows<Class>,
    max: Class,
    hot_key: Follows<Arc<str>>,
}

/// What the front answers, before it is ready again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Tag(&'static str),
    /// A row with the value of this setting.
    Shows(Arc<str>, Arc<str>),
}

/// SET or RESET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    setting: Setting,
    is_local: bool,
    /// `SET … TO DEFAULT`.
    is_default: bool,
    /// None: the default.
    value: Option<String>,
}

/// A prepared statement that is the front's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Set(Set),
    /// The setting of this name.
    Show(Arc<str>),
}

impl Set {
    /// Which one, if it is to stay so.
    pub(crate) fn of_session(&self) -> Option<Setting> {
        (!self.is_local).then_some(self.setting)
    }
}

/// `text`'s number as a type.
const TEXT: u32 = 25;

impl Answer {
    pub(crate) fn write(self, replies: &mut Replies) {
        match self {
            Answer::Tag(tag) => replies.command(tag),
            Answer::Shows(name, value) => {
                let column = Column { name: &name, table: 0, number: 0, oid: TEXT, length: -1, typmod: -1 };
                replies.columns(Some(vec![column]), &Formats::All(Format::Text));
                replies.text_row([Some(&*value)].into_iter());
                replies.command("SHOW");
            }
        }
    }
}

impl Served {
    /// What the server is sent in its place: it is described alike.
    pub(crate) fn for_server(&self) -> Cow<'static, [u8]> {
        match self {
            Served::Set(set) if set.value.is_some() || set.is_default => SET_NOTHING.into(),
            Served::Set(_) => RESET_NOTHING.into(),
            Served::Show(name) => format!("SELECT NULL::pg_catalog.text AS \"{name}\"").into_bytes().into(),
        }
    }
}

const SET_NOTHING: &[u8] = b"SET overtake.priority TO DEFAULT";
const RESET_NOTHING: &[u8] = b"RESET overtake.priority";

/// Whether a text is one of those that stand for others and would be taken to leave something behind.
pub(crate) fn is_for_server(text: &[u8]) -> bool {
    text == SET_NOTHING || text == RESET_NOTHING
}

/// The front's statement that a text is, with a value that there is, and nothing else; `has` says which settings can be shown.
pub(crate) fn served(text: &[u8], has: impl Fn(&str) -> bool) -> Option<Served> {
    match command(text)? {
        Command::Set(Set { setting: Setting::Priority, value: Some(value), .. }) if class_of(&value).is_err() => None,
        Command::Set(set) => Some(Served::Set(set)),
        Command::Show(name) if has(&name) => Some(Served::Show(name)),
        Command::Show(_) | Command::SetOther(_) | Command::Deallocate(_) => None,
    }
}

/// The class of this name.
///
/// # Errors
/// `22023`: there is none.
pub(crate) fn class_of(value: &str) -> Result<Class, SqlError> {
    Class::ALL.into_iter().find(|class| class.name().eq_ignore_ascii_case(value)).ok_or_else(|| {
        let message = format!("invalid value for parameter \"overtake.priority\": \"{value}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint("Available values: low, normal, high.")
    })
}

/// Why a client may not have a class above its highest.
pub(crate) fn denied(max: Class) -> SqlError {
    SqlError::new(SqlState("42501"), "permission denied to set parameter \"overtake.priority\"")
        .detail(format!("The highest class of this role is {}.", max.name()))
        .hint("A superuser of the server raises it by ALTER ROLE ... SET overtake.priority_max.")
}

/// Why a statement may not have this class by a hint.
pub(crate) fn denied_hint(class: Class, max: Class) -> SqlError {
    let message = format!("permission denied to give a statement the class \"{}\"", class.name());
    SqlError::new(SqlState("42501"), message).detail(format!("The highest class of this role is {}.", max.name()))
}

impl Priority {
    pub(crate) fn new(class: Class, max: Class, hot_key: &str) -> Priority {
        Priority { class: Follows::new(class), max, hot_key: Follows::new(hot_key.into()) }
    }

    /// The highest class that the client may have.
    pub(crate) fn max(&self) -> Class {
        self.max
    }

    /// Whether a SET is of a class that the client may not have.
    pub(crate) fn denies(&self, set: &Set) -> bool {
        let class = set.value.as_deref().filter(|_| set.setting == Setting::Priority).map(class_of);
        class.is_some_and(|class| class.is_ok_and(|class| class.outranks(self.max)))
    }

    /// # Errors
    /// `22023`: there is no such class; `42501`: it is above the client's highest.
    pub(crate) fn set(&mut self, set: Set, is_open: bool) -> Result<&'static str, SqlError> {
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

    /// All is what it was at login.
    pub(crate) fn reset(&mut self, is_open: bool) {
        self.class.set(None, false, is_open);
        self.hot_key.set(None, false, is_open);
    }

    /// The class of the next transaction, if it says nothing itself.
    pub(crate) fn class(&self) -> Class {
        *self.class.current()
    }

    /// What the next transaction meets others at, if it says nothing itself.
    pub(crate) fn hot_key(&self) -> Option<u64> {
        fingerprint::of_key(self.hot_key.current())
    }

    /// How this setting is shown, if it is one of these.
    pub(crate) fn shown(&self, name: &str) -> Option<Arc<str>> {
        if name.eq_ignore_ascii_case(MAX) {
            return Some(self.max.name().into());
        }
        Some(match Setting::of(name)? {
            Setting::Priority => self.class().name().into(),
            Setting::HotKey => Arc::clone(self.hot_key.current()),
        })
    }

    /// The server says that it has this now; nothing: what it has by itself.
    pub(crate) fn follow(&mut self, setting: Setting, value: Option<&str>) {
        match setting {
            Setting::Priority => {
                let class = value.map_or(Ok(self.class.default), class_of);
                // The server takes any: what is too high becomes the highest.
                self.class.session = class.map_or(self.class.session, |class| class.max(self.max));
            }
            Setting::HotKey => {
                self.hot_key.session = value.map_or_else(|| Arc::clone(&self.hot_key.default), Arc::from);
            }
        }
    }

    /// The transaction was rolled back.
    pub(crate) fn undo(&mut self) {
        self.class.undo();
        self.hot_key.undo();
    }

    /// It has ended.
    pub(crate) fn settle(&mut self) {
        self.class.settle();
        self.hot_key.settle();
    }
}

/// `/*+ priority=high */` before a text.
pub(crate) fn hint(text: &[u8]) -> Option<Class> {
    let text = text.trim_ascii_start().strip_prefix(b"/*+")?;
    let end = text.windows(2).position(|window| window == b"*/")?;
    let mut words = text[..end].split(u8::is_ascii_whitespace);
    let value = words.find_map(|word| word.strip_prefix(b"priority="))?;
    class_of(std::str::from_utf8(value).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> Set {
        match command(text.as_bytes()) {
            Some(Command::Set(set)) => set,
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

    #[test]
    fn hints_stand_before_the_text() {
        assert_eq!(hint(b" /*+ priority=low */ select"), Some(Class::Low));
        for none in
            ["select /*+ priority=low */", "/* priority=low */ select", "/*+ priority=urgent */", "/*+ priority=low"]
        {
            assert_eq!(hint(none.as_bytes()), None, "{none}");
        }
    }
}
