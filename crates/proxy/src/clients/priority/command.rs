//! Texts that are commands of the proxy.
//!
//! **Invariant:** a text that is not for certain one such command and nothing else is not taken for one.

use super::{SetCommand, Setting};
use std::sync::Arc;

/// Command of the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PriorityCommand {
    Set(SetCommand),
    /// SET of another setting whose name begins with `overtake.`.
    SetOther(String),
    /// DEALLOCATE of one statement.
    Deallocate(Vec<u8>),
    /// SHOW of the setting of this name, which begins with `overtake.`.
    Show(Arc<str>),
}

/// Length in bytes above which a text is no command of the proxy.
const TEXT_MAX: usize = 1_024;
/// Prefix of all settings of the proxy.
const PREFIX: &str = "overtake.";

/// Splits off the next word, in lower case.
fn word(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let end = text.find(|letter: char| letter.is_whitespace() || letter == '=').unwrap_or(text.len());
    (0 < end).then(|| (text[..end].to_ascii_lowercase(), &text[end..]))
}

/// Parses a value that is the whole text: a word, or a quoted string.
fn value(text: &str) -> Option<(String, bool)> {
    let text = text.trim();
    for quote in ['\'', '"'] {
        if let Some(rest) = text.strip_prefix(quote) {
            let inside = rest.strip_suffix(quote)?;
            let whole = inside.replace(&format!("{quote}{quote}"), "");
            return (!whole.contains(quote))
                .then(|| (inside.replace(&format!("{quote}{quote}"), &quote.to_string()), true));
        }
    }
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '.' | '-');
    (!text.is_empty() && text.chars().all(is_word)).then(|| (text.to_owned(), false))
}

/// Parses a text that is one of the proxy's commands and nothing else.
pub(crate) fn command(text: &[u8]) -> Option<PriorityCommand> {
    // Almost no text gets further than this.
    let text = text.trim_ascii_start();
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|own| own.eq_ignore_ascii_case(word));
    if TEXT_MAX < text.len() || !(begins(b"set") || begins(b"show") || begins(b"reset") || begins(b"deallocate")) {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let (first, rest) = word(text)?;
    match &*first {
        "deallocate" => deallocate(rest),
        "show" => {
            let (name, rest) = word(rest)?;
            (name.starts_with(PREFIX) && rest.trim().is_empty()).then(|| PriorityCommand::Show(name.into()))
        }
        "reset" => {
            let (name, rest) = word(rest)?;
            let setting = Setting::of(&name).filter(|_| rest.trim().is_empty())?;
            Some(PriorityCommand::Set(SetCommand { setting, is_local: false, is_default: false, value: None }))
        }
        "set" => {
            let (mut name, mut rest) = word(rest)?;
            let is_local = name == "local";
            if is_local || name == "session" {
                (name, rest) = word(rest)?;
            }
            let setting = Setting::of(&name);
            if setting.is_none() && !name.starts_with(PREFIX) {
                return None;
            }
            let rest = rest.trim_start();
            let rest = match rest.strip_prefix('=') {
                Some(rest) => rest,
                None => word(rest).filter(|(to, _)| to == "to")?.1,
            };
            let (value, is_quoted) = value(rest)?;
            let Some(setting) = setting else { return Some(PriorityCommand::SetOther(name)) };
            let is_default = !is_quoted && value.eq_ignore_ascii_case("default");
            Some(PriorityCommand::Set(SetCommand {
                setting,
                is_local,
                is_default,
                value: (!is_default).then_some(value),
            }))
        }
        _ => None,
    }
}

fn deallocate(rest: &str) -> Option<PriorityCommand> {
    let mut words = rest.split_whitespace();
    let mut name = words.next()?;
    if name.eq_ignore_ascii_case("prepare") {
        name = words.next()?;
    }
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(name) => name.replace("\"\"", "\""),
        None => name.to_ascii_lowercase(),
    };
    words.next().is_none().then(|| PriorityCommand::Deallocate(name.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_commands_are_ours() {
        let set = |setting, is_local, value: Option<&str>| {
            let is_default = value.is_none();
            Some(PriorityCommand::Set(SetCommand { setting, is_local, is_default, value: value.map(str::to_owned) }))
        };
        let (class, key) = (Setting::Priority, Setting::HotKey);
        assert_eq!(command(b" SET overtake.priority = 'high';"), set(class, false, Some("high")));
        assert_eq!(command(b"set local overtake.priority to low"), set(class, true, Some("low")));
        assert_eq!(command(b"set session overtake.priority=default"), set(class, false, None));
        assert_eq!(command(b"set overtake.hot_key = 'it''s = 7; x'"), set(key, false, Some("it's = 7; x")));
        assert_eq!(command(b"set overtake.hot_key to 'default'"), set(key, false, Some("default")));
        assert_eq!(command(b"set overtake.hot_key = ''"), set(key, false, Some("")));
        let reset = SetCommand { setting: class, is_local: false, is_default: false, value: None };
        assert_eq!(command(b"reset Overtake.Priority"), Some(PriorityCommand::Set(reset)));
        assert_eq!(command(b"SHOW overtake.Priority;"), Some(PriorityCommand::Show("overtake.priority".into())));
        assert_eq!(command(b"set local overtake.MPL to 1"), Some(PriorityCommand::SetOther("overtake.mpl".to_owned())));
        assert_eq!(command(b"deallocate \"P 1\""), None);
        assert_eq!(command(b"deallocate prepare \"P\""), Some(PriorityCommand::Deallocate(b"P".to_vec())));
        for text in [
            "set overtake.priority = high; select 1",
            "set overtake.hot_key = 'a', 'b'",
            "set overtake.hot_key = 'a'; select 'b'",
            "set overtake.hot_key = 'a",
            "set overtake.hot_key",
            "set overtake.hot_key a",
            "show overtake.priority; show work_mem",
            "show work_mem",
            "select 1",
            "set work_mem = 1",
            "update t set a = 1",
            "",
        ] {
            assert_eq!(command(text.as_bytes()), None, "{text}");
        }
    }
}
