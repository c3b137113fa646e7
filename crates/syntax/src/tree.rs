//! Syntax trees that may be deep.

use crate::ast::{DiscardTarget, Statement};
use statement::stack::{is_large, on_large};
use std::ops::Deref;

/// Statement that any stack has room for.
const SHALLOW: Statement = Statement::Discard(DiscardTarget::All);

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

    /// Returns true if the tree was made on a large stack, and must be used on one.
    pub fn is_deep(&self) -> bool {
        self.is_deep
    }

    /// Returns the tree without its owner, on a stack that has room for it.
    pub fn into_statement(mut self) -> Statement {
        std::mem::replace(&mut self.statement, SHALLOW)
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
            let statement = std::mem::replace(&mut self.statement, SHALLOW);
            on_large(move || drop(statement));
        }
    }
}
