//! Schemas, tables, views, sequences, routines: the objects that names stand for.
//!
//! A [`CatalogState`] is the whole catalog at one moment, and never changes. A statement is bound against one state. A
//! transaction that defines something works on its own copy, which becomes visible to all sessions when it commits
//! ([`Publication`]).
//!
//! **Invariant:** a transaction that changes the catalog holds the lock [`ORDER`] until its end, so there is
//! one such transaction at a time, and no change is lost. (PostgreSQL lets transactions define different things side by
//! side; here the second waits. Transactions that only read or write rows do not wait for it.) A table's description
//! that is out of date is *retired* before the locks of the transaction that changed it are released: a session that
//! has waited to write to the table finds that out under the lock.
//!
//! # Layers
//!
//! - definitions: `acl`, `relation`, `module`, `routine`, `storage`, `provider`
//! - states: `state`, `catalog`, `publication`
//! - statements: `snapshot`, `context`, `system`, `rights`

pub mod acl;
mod catalog;
mod context;
mod module;
mod provider;
mod publication;
mod relation;
pub mod rights;
mod routine;
mod snapshot;
mod state;
pub mod storage;
pub mod system;

pub use catalog::{Catalog, DATABASE, DATABASE_OID, FIRST_OID, ORDER, OWNER, PUBLIC};
pub use context::SessionContext;
pub use module::Module;
pub use provider::Provider;
pub use publication::Publication;
pub use relation::{
    CheckConstraint, ColumnDef, Constraint, ConstraintKind, DefaultExpr, ForeignAction, ForeignKey, IdentityColumn,
    IndexInfo, IndexMethod, IndexOrder, Relation, Sequence, SequenceValue, SharedSequence, TableInfo, TableRowCount,
    ViewInfo,
};
pub use routine::{
    Isolation, Language, Parallel, ParameterMode, Routine, RoutineBody, RoutineKind, RoutineParameter, RoutineResult,
    Volatility,
};
pub use snapshot::CatalogSnapshot;
pub use state::{CatalogState, DefaultRights, DefaultRightsKey, Schema};
pub use system::{SystemColumn, SystemTable};
