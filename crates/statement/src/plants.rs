//! Planted bugs that random queries have to find: `cargo xtask differential --plant NAME`.
//!
//! **Invariant:** an ordinary build has none of them. A build with `OVERTAKE_PLANT=chosen` has all of them, and each of
//! its processes shows the one that the variable `PLANTED_BUG` names. So one build serves for all.

use std::sync::LazyLock;

static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("PLANTED_BUG").ok());

/// Returns true if the process has this planted bug.
#[inline]
pub fn is_planted(name: &str) -> bool {
    cfg!(overtake_plant = "chosen") && CHOSEN.as_deref() == Some(name)
}
