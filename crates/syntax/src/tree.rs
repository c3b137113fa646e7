//! Syntax trees that may be deep.

use sqlparser::ast;
use statement::stack::{is_large, on_large};
use std::ops::Deref;

/// A syntax tree, which is dropped on a large stack if it was made on one.
#[derive(Clone, Debug)]
pub struct Tree {
    tree: ast::Statement,
    is_deep: bool,
}

impl Tree {
    /// Of a tree that was made on this stack.
    pub fn new(tree: ast::Statement) -> Tree {
        Tree { tree, is_deep: is_large() }
    }
}

impl Deref for Tree {
    type Target = ast::Statement;

    fn deref(&self) -> &ast::Statement {
        &self.tree
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.is_deep {
            let shallow = ast::Statement::Commit { chain: false, end: false, modifier: None };
            let tree = std::mem::replace(&mut self.tree, shallow);
            on_large(move || drop(tree));
        }
    }
}
