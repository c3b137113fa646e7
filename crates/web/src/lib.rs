//! What pages of this program share: their server and its end ([`serve`]), who may talk to it ([`guarded`]), what a refusal looks
//! like ([`Refusal`]), how many may look at once ([`OpenPages`]).
//!
//! **Invariant:** only pages that this program itself has served can talk to it, and each of its answers says what a browser may do
//! with it; nothing is fetched from elsewhere.
//!
//! `chromium` (a feature, for tests) drives a headless browser over a page.

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

/// The types of a page's files.
pub mod kind {
    /// Of a page.
    pub const HTML: &str = "text/html; charset=utf-8";
    /// Of styles.
    pub const CSS: &str = "text/css; charset=utf-8";
    /// Of scripts.
    pub const SCRIPT: &str = "text/javascript; charset=utf-8";
}

/// A file that is compiled in.
pub fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
