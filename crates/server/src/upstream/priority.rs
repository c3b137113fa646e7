//! The class of a client's transactions, and the few commands that the front answers itself.
//!
//! **Invariant:** only a query that is one such command and nothing else is answered here; everything else is the server's, which
//! takes `overtake.priority` for a setting of two parts like any other. By the extended protocol the server is sent a statement
//! in place of such a SET that is answered alike and sets nothing.

use super::target::{self, Target};
use crate::backend::{Column, Format};
use crate::frame::HEAD;
use crate::reply::{Formats, Replies};
use sql::{SqlError, SqlState};
use stage::Class;

/// A client's class.
#[derive(Clone, Debug)]
pub(crate) struct Priority {
    /// Of its login.
    default: Class,
    session: Class,
    /// Until the transaction ends.
    local: Option<Class>,
    /// What it was before the open transaction.
    before: Option<Class>,
}

/// A command of the front's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Set(Set),
    /// Of one statement.
    Deallocate(Vec<u8>),
    Show,
}

/// What the front answers, before it is ready again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Tag(&'static str),
    /// A row with the class.
    Shows(Class),
    /// A row with the target.
    Aims(Target),
}

/// SET or RESET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    is_local: bool,
    /// `SET … TO DEFAULT`.
    is_default: bool,
    /// None: the default.
    value: Option<String>,
}

/// The setting's name.
const NAME: &str = "overtake.priority";
/// `text`'s number as a type.
const TEXT: u32 = 25;

impl Answer {
    pub(crate) fn write(self, replies: &mut Replies) {
        match self {
            Answer::Tag(tag) => replies.command(tag),
            Answer::Shows(class) => show(replies, NAME, class.name()),
            Answer::Aims(target) => show(replies, target::NAME, target.name()),
        }
    }
}

fn show(replies: &mut Replies, name: &str, value: &str) {
    let column = Column { name, table: 0, number: 0, oid: TEXT, length: -1, typmod: -1 };
    replies.columns(Some(vec![column]), &Formats::All(Format::Text));
    replies.text_row([Some(value)].into_iter());
    replies.command("SHOW");
}

impl Set {
    /// What the server is sent in its place: it has the same tag.
    pub(crate) fn for_server(&self) -> &'static [u8] {
        if self.value.is_some() || self.is_default { SET_NOTHING } else { RESET_NOTHING }
    }
}

const SET_NOTHING: &[u8] = b"SET overtake.priority TO DEFAULT";
const RESET_NOTHING: &[u8] = b"RESET overtake.priority";

/// Whether a text is one of those that stand for others.
pub(crate) fn is_for_server(text: &[u8]) -> bool {
    text == SET_NOTHING || text == RESET_NOTHING
}

/// The SET that a text is, with a value that there is, and nothing else.
pub(crate) fn set_of(text: &[u8]) -> Option<Set> {
    match command(text)? {
        Command::Set(set) if set.value.as_deref().is_none_or(|value| class_of(value).is_ok()) => Some(set),
        _ => None,
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

impl Priority {
    pub(crate) fn new(default: Class) -> Priority {
        Priority { default, session: default, local: None, before: None }
    }

    /// The class of a transaction that begins with this message, a hint before its text included.
    pub(crate) fn class(&self, body: &[u8]) -> Class {
        hint(body).unwrap_or_else(|| self.current())
    }

    pub(crate) fn set(&mut self, set: Set, is_open: bool) -> Result<&'static str, SqlError> {
        let class = set.value.as_deref().map_or(Ok(self.default), class_of)?;
        let tag = if set.value.is_some() || set.is_default { "SET" } else { "RESET" };
        if set.is_local {
            self.local = Some(class);
        } else {
            if is_open {
                self.before.get_or_insert(self.session);
            }
            self.session = class;
        }
        Ok(tag)
    }

    /// The class of the next transaction, if it says nothing itself.
    pub(crate) fn current(&self) -> Class {
        self.local.unwrap_or(self.session)
    }

    /// The server says that it has this.
    pub(crate) fn follow(&mut self, value: &str) {
        if let Ok(class) = class_of(value) {
            self.session = class;
        }
    }

    /// The transaction was rolled back.
    pub(crate) fn undo(&mut self) {
        self.session = self.before.take().unwrap_or(self.session);
    }

    /// It has ended.
    pub(crate) fn settle(&mut self) {
        self.before = None;
        self.local = None;
    }
}

/// `/*+ priority=high */` before the text of a `Query`, or of a `Parse`, whose name stands before it.
fn hint(body: &[u8]) -> Option<Class> {
    let begin = body.iter().take(2 * HEAD).position(|&byte| byte == b'/')?;
    let text = body[begin..].strip_prefix(b"/*+")?;
    let end = text.windows(2).position(|window| window == b"*/")?;
    let mut words = text[..end].split(u8::is_ascii_whitespace);
    let value = words.find_map(|word| word.strip_prefix(b"priority="))?;
    class_of(std::str::from_utf8(value).ok()?).ok()
}

/// The command that a text is, if it is one of the front's and nothing else.
pub(crate) fn command(text: &[u8]) -> Option<Command> {
    // Almost no text gets further than this.
    let text = text.trim_ascii_start();
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
    if 256 < text.len() || !(begins(b"set") || begins(b"show") || begins(b"reset") || begins(b"deallocate")) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_suffix(';').unwrap_or(text).replace('=', " = ");
    let mut words = text.split_whitespace();
    let first = words.next()?.to_ascii_lowercase();
    let mut next = words.next()?.to_owned();
    let is_setting = |word: &str| word.eq_ignore_ascii_case(NAME);
    match &*first {
        "deallocate" => {
            if next.eq_ignore_ascii_case("prepare") {
                words.next()?.clone_into(&mut next);
            }
            let name = match next.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                Some(name) => name.replace("\"\"", "\""),
                None => next.to_ascii_lowercase(),
            };
            words.next().is_none().then(|| Command::Deallocate(name.into_bytes()))
        }
        "show" => (is_setting(&next) && words.next().is_none()).then_some(Command::Show),
        "reset" => {
            let set = Set { is_local: false, is_default: false, value: None };
            (is_setting(&next) && words.next().is_none()).then_some(Command::Set(set))
        }
        "set" => {
            let is_local = next.eq_ignore_ascii_case("local");
            if is_local || next.eq_ignore_ascii_case("session") {
                words.next()?.clone_into(&mut next);
            }
            let sign = words.next()?;
            let value = words.next()?;
            let is_whole =
                is_setting(&next) && (sign == "=" || sign.eq_ignore_ascii_case("to")) && words.next().is_none();
            let value = value.trim_matches(['\'', '"']);
            let is_default = value.eq_ignore_ascii_case("default");
            let value = (!is_default).then(|| value.to_owned());
            is_whole.then_some(Command::Set(Set { is_local, is_default, value }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_commands_are_ours() {
        let set = |is_local, value: Option<&str>| {
            let is_default = value.is_none();
            Some(Command::Set(Set { is_local, is_default, value: value.map(str::to_owned) }))
        };
        assert_eq!(command(b" SET overtake.priority = 'high';"), set(false, Some("high")));
        assert_eq!(command(b"set local overtake.priority to low"), set(true, Some("low")));
        assert_eq!(command(b"set session overtake.priority=default"), set(false, None));
        let reset = Set { is_local: false, is_default: false, value: None };
        assert_eq!(reset.for_server(), b"RESET overtake.priority");
        assert_eq!(command(b"reset overtake.priority"), Some(Command::Set(reset)));
        assert_eq!(command(b"SHOW overtake.priority;"), Some(Command::Show));
        assert!(set_of(b"set overtake.priority = urgent").is_none() && set_of(b"show overtake.priority").is_none());
        assert_eq!(command(b"deallocate \"P 1\""), None);
        assert_eq!(command(b"deallocate prepare \"P\""), Some(Command::Deallocate(b"P".to_vec())));
        for text in ["set overtake.priority = high; select 1", "select 1", "set work_mem = 1", "update t set a = 1", ""]
        {
            assert_eq!(command(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_class_is_undone_with_its_transaction() {
        let mut priority = Priority::new(Class::Normal);
        let set = |text: &str| match command(text.as_bytes()) {
            Some(Command::Set(set)) => set,
            other => panic!("{other:?}"),
        };
        priority.set(set("set overtake.priority = high"), true).expect("a class");
        assert_eq!(priority.class(b"select"), Class::High);
        priority.undo();
        priority.settle();
        assert_eq!(priority.class(b"select"), Class::Normal);
        assert_eq!(priority.class(b"/*+ priority=low */ select"), Class::Low);
        assert_eq!(priority.class(b"\0/*+ priority=high */ select\0\0\0"), Class::High);
        assert!(priority.set(set("set overtake.priority = urgent"), false).is_err());
    }
}
