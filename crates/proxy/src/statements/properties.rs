//! Properties of a statement that admission needs.

use server::admission::{Hot, Marks};
use stage::Class;
use statement::SqlResult;

/// Properties of a statement, as far as they are known.
#[derive(Clone, Debug)]
pub(crate) struct StatementProperties {
    /// Class that a hint, a rule or a SET gives, or the refusal of what was asked for.
    pub(crate) class: SqlResult<Option<Class>>,
    pub(crate) marks: Marks,
    /// Version of the settings and the application on which these depend.
    pub(crate) by: u64,
}

impl Default for StatementProperties {
    fn default() -> StatementProperties {
        StatementProperties { class: Ok(None), marks: Marks::default(), by: 0 }
    }
}

impl StatementProperties {
    /// Combines the properties of a BEGIN with those of the first statement behind it; those of the BEGIN take
    /// precedence.
    pub(crate) fn and(self, first: StatementProperties) -> StatementProperties {
        let hot = if matches!(self.marks.hot, Hot::Unknown) { first.marks.hot } else { self.marks.hot };
        let class = match self.class {
            Ok(None) => first.class,
            Ok(Some(_)) | Err(_) => self.class,
        };
        StatementProperties { class, marks: Marks { hot, ..first.marks }, by: first.by }
    }
}
