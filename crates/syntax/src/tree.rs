//! Syntax trees that may be deep.

use crate::ast::{DiscardTarget, Statement};
use statement::stack::{is_large, on_large};
use std::ops::Deref;

/// Syntax tree of a statement. It is dropped on a large stack if it was made on one.
#[derive(Clone, Debug)]
pub struct Tree {
    statement: Statement,
    is_deep: bool,
}

impl Tree {
    /// Creates the owner of a tree that was made on this stack.
    pub fn new(statement: Statement) -> Tree {
        Tree { statement, is_deep: is_large() }
    }
}

impl Deref for Tree {
    type Target = Statement;

    fn deref(&self) -> &Statement {
        &self.statement
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.is_deep {
            let shallow = Statement::Discard(DiscardTarget::All);
            let statement = std::mem::replace(&mut self.statement, shallow);
            on_large(move || drop(statement));
        }
    }
}
