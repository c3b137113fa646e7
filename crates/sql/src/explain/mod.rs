//! `EXPLAIN`: the operators of a plan by rows, and how operators are written.

mod options;
mod rows;
mod write;

pub(crate) use options::ExplainOptions;
pub(crate) use rows::Explainer;
pub(crate) use write::{ExplainOutput, json, text};
