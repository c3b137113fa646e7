//! Errors of stored code.

use std::fmt;

/// Error that ends an invocation.
///
/// It does not implement [`std::error::Error`], so that `?` turns any such error into one with SQLSTATE `38000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<ErrorKind>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// The database has ended the invocation, and knows why.
    Aborted(String),
    Raised(Raised),
}

/// Fields of an error that the code raises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raised {
    pub state: [u8; 5],
    pub message: String,
    pub detail: String,
    pub hint: String,
}

/// Result of stored code.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error with this SQLSTATE and message, as `RAISE` does. A text that is no SQLSTATE counts as `P0001`.
    pub fn new(state: &str, message: impl Into<String>) -> Error {
        let state = state.as_bytes().try_into().unwrap_or(*b"P0001");
        Error(Box::new(ErrorKind::Raised(Raised { state, message: message.into(), ..Raised::default() })))
    }

    /// Creates the error for an invocation that the database has ended.
    #[cfg_attr(target_arch = "wasm32", expect(dead_code, reason = "the database ends the whole module"))]
    pub(crate) fn aborted(message: impl Into<String>) -> Error {
        Error(Box::new(ErrorKind::Aborted(message.into())))
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Error {
        if let ErrorKind::Raised(raised) = &mut *self.0 {
            raised.detail = detail.into();
        }
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        if let ErrorKind::Raised(raised) = &mut *self.0 {
            raised.hint = hint.into();
        }
        self
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        match &*self.0 {
            ErrorKind::Aborted(message) => message,
            ErrorKind::Raised(raised) => &raised.message,
        }
    }

    /// Returns the fields of an error that the code has raised; `None` if the database has ended the invocation.
    pub(crate) fn raised(&self) -> Option<&Raised> {
        match &*self.0 {
            ErrorKind::Aborted(_) => None,
            ErrorKind::Raised(raised) => Some(raised),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Error {
        Error::new("38000", error.to_string())
    }
}
