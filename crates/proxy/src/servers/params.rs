//! Parameters that a server has reported (`ParameterStatus`), and those reported to a client.
//!
//! **Invariant:** lists are shared and compared by address first: between one statement and the next they are mostly
//! the same one.

use bytes::BytesMut;
use std::sync::Arc;

/// Names and values, ordered by name: a server may report any number of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Params(Vec<(Box<str>, Box<str>)>);

/// Maximum number of parameters, which no server reaches. New names beyond it are ignored, and no client is told of
/// them.
const NAMES_MAX: usize = 200;

impl Params {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.at(name).ok().map(|at| &*self.0[at].1)
    }

    /// Index of a name, or the one at which it would be inserted.
    fn at(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| (**own).cmp(name))
    }

    /// True if the server sends UTF-8.
    pub(crate) fn is_utf8(&self) -> bool {
        self.get("client_encoding") == Some("UTF8")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Notes a report; returns true if it is news.
    pub(crate) fn note(all: &mut Arc<Params>, name: &str, value: &str) -> bool {
        match all.at(name) {
            Ok(at) if *all.0[at].1 == *value => return false,
            Ok(at) => Arc::make_mut(all).0[at].1 = value.into(),
            Err(_) if NAMES_MAX <= all.0.len() => return false,
            Err(at) => Arc::make_mut(all).0.insert(at, (name.into(), value.into())),
        }
        true
    }

    /// Reports to a client the values that differ from those in `told`.
    pub(crate) fn tell(here: &mut Arc<Params>, told: &mut Arc<Params>, out: &mut BytesMut) {
        if Arc::ptr_eq(here, told) {
            return;
        }
        if here == told {
            // Both become the one that stands first in memory, so that equal lists become one.
            match Arc::as_ptr(here) < Arc::as_ptr(told) {
                true => told.clone_from(here),
                false => here.clone_from(told),
            }
            return;
        }
        for (name, value) in here.iter().filter(|(name, value)| told.get(name) != Some(value)) {
            crate::statements::message::put(out, b'S', |out| {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(&[0]);
                out.extend_from_slice(value.as_bytes());
                out.extend_from_slice(&[0]);
            });
        }
        *told = Arc::clone(here);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_server_makes_a_list_long() {
        let mut all = Arc::default();
        let is_news: Vec<bool> = (0..300).map(|name| Params::note(&mut all, &name.to_string(), "a")).collect();
        assert_eq!(is_news.iter().filter(|&&is_news| is_news).count(), NAMES_MAX);
        assert!(Params::note(&mut all, "0", "b") && all.get("0") == Some("b") && all.iter().count() == NAMES_MAX);
    }
}
