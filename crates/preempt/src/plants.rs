//! Planted bugs, which a test or a random query has to find: `cargo xtask plants`, `cargo xtask differential --plant NAME`.
//!
//! **Invariant:** an ordinary build has none of them. A build with `OVERTAKE_PLANT=chosen` has all of them, and each of
//! its processes shows the one that the variable `PLANTED_BUG` names. So one build serves for all.

use crate::os;

/// Returns true if the process has this planted bug. Allowed in an urgent context, and within the allocator.
#[inline]
pub fn is_planted(name: &str) -> bool {
    cfg!(overtake_plant = "chosen") && os::planted_bug() == name.as_bytes()
}
