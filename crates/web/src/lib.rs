//! Common parts of this program's pages: the server and its shutdown ([`serve`]), the checks of requests ([`guarded`]),
//! the form of errors ([`Refusal`]), and the limit of open pages ([`OpenPages`]).
//!
//! **Invariant:** only pages that this program itself has served can talk to it, and each response tells the browser
//! its restrictions; nothing is fetched from elsewhere.
//!
//! `chromium` (a feature, for tests) drives a headless browser over a page.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - answers: `refusal`
//! - checks of requests: `guard`, `pages`
//! - the server: `serve`
//! - tests: `chromium`

mod guard;
mod pages;
mod refusal;
mod serve;

#[cfg(feature = "chromium")]
pub mod chromium;

pub use guard::guarded;
pub use pages::{OpenPage, OpenPages};
pub use refusal::Refusal;
pub use serve::{Shutdown, serve, shutdown_on_ctrl_c};

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Content types of a page's files.
pub mod kind {
    /// Content type of a page.
    pub const HTML: &str = "text/html; charset=utf-8";
    /// Content type of a style sheet.
    pub const CSS: &str = "text/css; charset=utf-8";
    /// Content type of a script.
    pub const SCRIPT: &str = "text/javascript; charset=utf-8";
}

/// Returns the response with a file that is compiled in.
pub fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
