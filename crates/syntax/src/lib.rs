//! Text of statements: syntax trees, positions, tags and fingerprints.
//!
//! # Layers
//!
//! - words: `names`, `tags`, `fingerprint`
//! - trees: `tree`, `parse`, `overriding`, `place`

pub mod fingerprint;
pub mod names;
pub mod overriding;
pub mod parse;
pub mod place;
pub mod tags;
pub mod tree;
