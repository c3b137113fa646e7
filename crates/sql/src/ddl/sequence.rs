//! Sequences: `CREATE SEQUENCE`, and the numbers that `serial` and identity columns take.
//!
//! **Invariant:** a sequence's value lies between its least and its greatest.

use super::{Ddl, Defined};
use catalog::{Identity, Relation, Sequence, SequenceValue, SharedSequence, TableInfo};
use engine::{TableDef, TableLock};
use query::bind::{Binder, Scope, not_a_sequence};
use query::plan::Expr;
use sqlparser::ast::{self, SequenceOptions, Statement};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::{Arc, Mutex, PoisonError};
use syntax::parse::{folded, sequences};
use types::datum::Datum;
use types::{Kind, SqlType};

/// What a statement says of a sequence.
pub(super) struct Numbers {
    kind: SqlType,
    pub(super) start: Option<i64>,
    increment: i64,
    min: Option<i64>,
    max: Option<i64>,
    cycle: bool,
    cache: i64,
    /// Where it is, if that is not where it starts.
    pub(super) value: Option<SequenceValue>,
}

impl Numbers {
    pub(super) fn of(kind: SqlType) -> Numbers {
        Numbers { kind, start: None, increment: 1, min: None, max: None, cycle: false, cache: 1, value: None }
    }

    /// Those of a sequence that is there; of another type, its bounds are the new one's where they were the old one's.
    pub(super) fn of_sequence(sequence: &Sequence, kind: SqlType) -> Numbers {
        let Sequence { start, increment, min, max, cycle, cache, .. } = *sequence;
        let value = *sequence.value.lock().unwrap_or_else(PoisonError::into_inner);
        let (least, greatest) = bounds(sequence.kind);
        let (new_least, new_greatest) = bounds(kind);
        Numbers {
            kind,
            start: Some(start),
            increment,
            min: Some(if min == least { new_least } else { min }),
            max: Some(if max == greatest { new_greatest } else { max }),
            cycle,
            cache,
            value: Some(value),
        }
    }

    pub(super) fn set(&mut self, binder: &Binder<'_>, options: &[SequenceOptions]) -> SqlResult<()> {
        for option in options {
            match option {
                SequenceOptions::IncrementBy(value, _) => {
                    self.increment = number(binder, value)?;
                    if self.increment == 0 {
                        return Err(invalid("INCREMENT must not be zero"));
                    }
                }
                SequenceOptions::MinValue(value) => {
                    self.min = value.as_ref().map(|value| number(binder, value)).transpose()?;
                }
                SequenceOptions::MaxValue(value) => {
                    self.max = value.as_ref().map(|value| number(binder, value)).transpose()?;
                }
                SequenceOptions::StartWith(value, _) => self.start = Some(number(binder, value)?),
                SequenceOptions::Cache(value) => {
                    let cache = number(binder, value)?;
                    if cache < 1 {
                        return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
                    }
                    self.cache = cache;
                }
                SequenceOptions::Cycle(no) => self.cycle = !*no,
            }
        }
        Ok(())
    }

    /// The sequence, its numbers settled.
    pub(super) fn sequence(self, sequence: Sequence) -> SqlResult<Sequence> {
        let (least, greatest) = bounds(self.kind);
        let is_up = 0 < self.increment;
        let min = self.min.unwrap_or(if is_up { 1 } else { least });
        let max = self.max.unwrap_or(if is_up { greatest } else { -1 });
        for (value, word) in [(min, "MINVALUE"), (max, "MAXVALUE")] {
            if !(least..=greatest).contains(&value) {
                let name = self.kind.name();
                return Err(invalid(format!("{word} ({value}) is out of range for sequence data type {name}")));
            }
        }
        if max <= min {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = self.start.unwrap_or(if is_up { min } else { max });
        if start < min {
            return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
        }
        if max < start {
            return Err(invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
        }
        let value = self.value.unwrap_or(SequenceValue { last: start, is_called: false });
        let last = value.last;
        if last < min {
            return Err(invalid(format!("RESTART value ({last}) cannot be less than MINVALUE ({min})")));
        }
        if max < last {
            return Err(invalid(format!("RESTART value ({last}) cannot be greater than MAXVALUE ({max})")));
        }
        let value = Arc::new(Mutex::new(value));
        let (kind, increment, cycle, cache) = (self.kind, self.increment, self.cycle, self.cache);
        Ok(Sequence { kind, start, increment, min, max, cycle, cache, value, ..sequence })
    }
}

/// The least and the greatest value of a sequence's type.
fn bounds(kind: SqlType) -> (i64, i64) {
    match kind.kind {
        Kind::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Kind::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Tells whether a sequence can have values of this type.
fn counts(kind: SqlType) -> bool {
    matches!(kind.kind, Kind::Int2 | Kind::Int4 | Kind::Int8)
}

/// # Errors
/// `22023`: a column of this type cannot be an identity.
pub(super) fn check_identity(kind: SqlType) -> SqlResult<()> {
    if counts(kind) { Ok(()) } else { Err(invalid("identity column type must be smallint, integer, or bigint")) }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn number(binder: &Binder<'_>, value: &ast::Expr) -> SqlResult<i64> {
    let bound = binder.expr(value, &Scope::default())?;
    let bound = binder.coerce(bound, Kind::Int8.into(), types::ops::Context::Assignment)?;
    match bound.expr {
        Expr::Constant(Datum::Int8(value)) => Ok(value),
        Expr::Cast { eval, to, argument } => match *argument {
            Expr::Constant(value) => match eval(&value, to, binder.env)? {
                Datum::Int8(value) => Ok(value),
                _ => Err(SqlError::unsupported("this number of a sequence")),
            },
            _ => Err(SqlError::unsupported("an expression for a number of a sequence")),
        },
        _ => Err(SqlError::unsupported("an expression for a number of a sequence")),
    }
}

impl Ddl<'_> {
    pub(super) fn create_sequence(&mut self, statement: &Statement) -> SqlResult<Defined> {
        let Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
            statement
        else {
            return Err(SqlError::unsupported("this statement"));
        };
        refuse!(*temporary => "CREATE TEMPORARY SEQUENCE");
        let kind = data_type.as_ref().map(|data_type| self.binder().type_of(data_type)).transpose()?;
        if kind.is_some_and(|kind| !counts(kind)) {
            return Err(invalid("sequence type must be smallint, integer, or bigint"));
        }
        if let Some(altered) = sequences::altered(name) {
            return self.alter_sequence(&altered, kind, sequence_options, owned_by.as_ref(), *if_not_exists);
        }
        let kind = kind.unwrap_or_else(|| Kind::Int8.into());
        let (schema, own_name) = self.place(name).map_err(SqlError::nowhere)?;
        if *if_not_exists && self.is_taken(schema, &own_name) {
            let message = format!("relation \"{own_name}\" already exists, skipping");
            self.notice(SqlState::DUPLICATE_TABLE, message);
            return Ok("CREATE SEQUENCE".into());
        }
        let mut numbers = Numbers::of(kind);
        numbers.set(&self.binder(), sequence_options)?;
        let shared = self.shared_sequence(schema, &own_name)?;
        let sequence = numbers.sequence(Sequence {
            oid: self.catalog.oid()?,
            schema,
            name: own_name,
            owner: self.user(),
            kind,
            start: 1,
            increment: 1,
            min: 1,
            max: 1,
            cycle: false,
            cache: 1,
            owned_by: None,
            value: Arc::new(Mutex::new(SequenceValue { last: 1, is_called: false })),
            shared,
            version: 0,
        })?;
        let sequence = match owned_by {
            Some(column) => self.owned(sequence, column)?,
            None => sequence,
        };
        self.state.add(Relation::Sequence(Arc::new(sequence)))?;
        Ok("CREATE SEQUENCE".into())
    }

    /// What a new sequence and its later definitions share.
    pub(super) fn shared_sequence(&mut self, schema: u32, name: &str) -> SqlResult<Arc<SharedSequence>> {
        let schema = self.schema_of(schema)?.name;
        let name = format!("sequence {schema}.{name}");
        let lock = self.engine_table(TableDef { name, columns: Vec::new(), indexes: Vec::new() })?;
        Ok(SharedSequence::new(lock))
    }

    /// `ALTER SEQUENCE`. It waits for who has taken values, and who wants some waits for it. What it says of numbers is undone with the transaction, numbers that were taken meanwhile are not.
    fn alter_sequence(
        &mut self,
        altered: &sequences::Altered,
        kind: Option<SqlType>,
        options: &[SequenceOptions],
        owned_by: Option<&ast::ObjectName>,
        if_exists: bool,
    ) -> SqlResult<Defined> {
        let sequences::Altered { name, restart } = altered;
        let found = self.binder().relation_named(name).cloned();
        let sequence = match found {
            Ok(Relation::Sequence(sequence)) => sequence,
            Ok(other) => return Err(not_a_sequence(&other)),
            Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
                self.notice(SqlState("00000"), format!("{}, skipping", error.message()));
                return Ok("ALTER SEQUENCE".into());
            }
            Err(error) => return Err(error),
        };
        self.lock_engine_table(&sequence.shared.lock, TableLock::ShareRowExclusive)?;
        let mut changed = if kind.is_some() || !options.is_empty() || restart.is_some() {
            self.renumbered(&sequence, kind.unwrap_or(sequence.kind), options, *restart)?
        } else {
            sequence.next_version()
        };
        if let Some(column) = owned_by {
            changed = self.owned(changed, column)?;
        }
        self.state.replace(Relation::Sequence(Arc::new(changed)))?;
        Ok("ALTER SEQUENCE".into())
    }

    /// The next definition of a sequence, with these numbers. It is locked against who takes values.
    pub(super) fn renumbered(
        &mut self,
        sequence: &Sequence,
        kind: SqlType,
        options: &[SequenceOptions],
        restart: Option<Option<i64>>,
    ) -> SqlResult<Sequence> {
        self.lock_engine_table(&sequence.shared.lock, TableLock::ShareRowExclusive)?;
        let mut numbers = Numbers::of_sequence(sequence, kind);
        numbers.set(&self.binder(), options)?;
        if let Some(at) = restart {
            let last = at.or(numbers.start).unwrap_or(sequence.start);
            numbers.value = Some(SequenceValue { last, is_called: false });
        }
        numbers.sequence(sequence.next_version())
    }

    /// The sequence of an identity.
    pub(super) fn sequence_of(&self, identity: Identity) -> SqlResult<Arc<Sequence>> {
        match self.state.relation_numbered(identity.sequence) {
            Some(Relation::Sequence(sequence)) => Ok(Arc::clone(sequence)),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "an identity has no sequence")),
        }
    }

    /// The sequence, gone with this column; or with none.
    fn owned(&self, sequence: Sequence, column: &ast::ObjectName) -> SqlResult<Sequence> {
        let is_identity = |table: &TableInfo| {
            table.columns.iter().any(|column| column.identity.is_some_and(|identity| identity.sequence == sequence.oid))
        };
        if let Some(table) = self.state.tables().find(|table| is_identity(table)) {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot change ownership of identity sequence")
                .detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name)));
        }
        if sequences::is_none(column) {
            return Ok(Sequence { owned_by: None, ..sequence });
        }
        let mut parts = column.0.clone();
        let (Some(ast::ObjectNamePart::Identifier(own)), false) = (parts.pop(), parts.is_empty()) else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."));
        };
        let table = self.binder().table(&ast::ObjectName(parts))?;
        if table.owner != sequence.owner {
            let message = "sequence must have same owner as table it is linked to";
            return Err(SqlError::new(SqlState("55000"), message));
        }
        if table.schema != sequence.schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(SqlState("55000"), message));
        }
        let own = folded(&own);
        let Some(at) = table.column(&own) else {
            let message = format!("column \"{own}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        Ok(Sequence { owned_by: Some((table.oid, table.columns[at].number)), ..sequence })
    }
}
