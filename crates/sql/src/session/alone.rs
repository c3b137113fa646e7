//! Queries without a session, for programs that read the tables that sessions use.
//!
//! **Invariant:** the query only reads, has no parameters, and is bound with the settings of a new session of the
//! database's owner. Its clock is that of the binding.

use super::Database;
use crate::session::action::Action;
use catalog::DATABASE;
use query::analytics::AnalyticsQuery;
use query::plan::ColumnInfo;
use query::plan::Plan;
use settings::Connect;
use settings::roles::FIRST;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::SqlType;
use types::ops::CallContext;

/// Query bound without a session.
#[derive(Clone, Debug)]
pub struct QueryAlone {
    plan: Plan,
    columns: Vec<ColumnInfo>,
    kinds: Vec<SqlType>,
    context: Arc<dyn CallContext>,
}

impl QueryAlone {
    /// Returns the query, for a caller that runs plans.
    pub fn query(&self) -> AnalyticsQuery<'_> {
        let (plan, columns, context) = (&self.plan, &self.kinds, &self.context);
        AnalyticsQuery { plan, parameters: &[], columns, context, code: None }
    }

    /// Returns the columns of its result.
    pub fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }
}

impl Database {
    /// Binds one query by the current catalog.
    ///
    /// # Errors
    /// Errors of syntax, names and types; `0A000` for a statement that is not a query, has parameters, or does more
    /// than read.
    pub fn query_alone(&self, text: &str) -> SqlResult<QueryAlone> {
        let (user, database) = (FIRST.to_owned(), DATABASE.to_owned());
        let mut session = self.connect(Connect { user, database, ..Connect::default() })?;
        let statement = session.prepare(text, &[])?;
        if !statement.parameters().is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let bound = statement.bound();
        let (Action::Query(query), Some(columns)) = (&*bound.action, statement.columns()) else {
            return Err(SqlError::unsupported("anything but a query by itself"));
        };
        if statement.known().does_more(&query.rows) {
            return Err(SqlError::unsupported("a query by itself that does more than read rows"));
        }
        let kinds = columns.iter().map(|column| column.kind).collect();
        let context: Arc<dyn CallContext> = session.env_at(self.time.unix_us());
        Ok(QueryAlone { plan: query.logical.clone(), columns: columns.to_vec(), kinds, context })
    }
}
