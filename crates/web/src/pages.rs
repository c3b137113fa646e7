//! Limit on the number of open pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::StatusCode;

use crate::Refusal;

/// Most pages open at once.
const PAGES_MAX: usize = 16;

/// Counter of open pages; clones share one count.
#[derive(Clone, Debug, Default)]
pub struct OpenPages(Arc<AtomicUsize>);

/// An open page, counted until it is dropped.
#[derive(Debug)]
pub struct OpenPage(Arc<AtomicUsize>);

impl OpenPages {
    /// Counts one more page.
    ///
    /// # Errors
    /// `503` if too many are open.
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

    /// Returns the number of open pages.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
