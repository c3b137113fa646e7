//! How many pages are open.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;

use crate::Refusal;

/// Pages open at once.
const PAGES_MAX: usize = 16;

/// Counts them; clones are one count.
#[derive(Clone, Debug, Default)]
pub struct OpenPages(Arc<AtomicUsize>);

/// One of them, for as long as it lives.
#[derive(Debug)]
pub struct OpenPage(Arc<AtomicUsize>);

impl OpenPages {
    /// One more.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(&self) -> Result<OpenPage, Refusal> {
        // Relaxed: a bare count, nothing is published by it.
        let page = OpenPage(self.0.clone());
        if PAGES_MAX <= self.0.fetch_add(1, Ordering::Relaxed) {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_pages",
                format!("{PAGES_MAX} pages are open already"),
            )
            .hint("Close one of them."));
        }
        Ok(page)
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
