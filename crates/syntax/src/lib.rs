//! Text of statements: syntax trees, positions, tags and fingerprints.
//!
//! # Layers
//!
//! - words: `names`, `lex`, `edit`, `tags`, `fingerprint`, `normalised`
//! - grammar: `ast`, `grammar`
//! - owners of trees: `tree`

pub mod ast;
pub mod edit;
pub mod fingerprint;
pub mod grammar;
pub mod lex;
pub mod names;
mod normalised;
pub mod tags;
pub mod tree;

pub use normalised::normalised;
