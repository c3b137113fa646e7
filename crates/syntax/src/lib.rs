//! Text of statements: syntax trees, positions, tags and fingerprints.
//!
//! # Layers
//!
//! - words: `names`, `lex`, `tags`, `fingerprint`, `normalised`
//! - grammar: `ast`, `grammar`
//! - the parser before it: `tree`, `parse`, `overriding`
//! - positions: `place`

pub mod ast;
pub mod fingerprint;
pub mod grammar;
pub mod lex;
pub mod names;
mod normalised;
pub mod overriding;
pub mod parse;
pub mod place;
pub mod tags;
pub mod tree;

pub use normalised::normalised;
