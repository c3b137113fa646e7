//! The progress of long work, for people who wait for it.

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar of this many steps on standard error, if that is a terminal.
///
/// # Panics
/// Never: the template is constant.
pub fn bar(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:<16} [{bar:40}] {percent:>3} %  {elapsed}");
    ProgressBar::new(steps).with_style(style.expect("the template is sound").progress_chars("=> "))
}
