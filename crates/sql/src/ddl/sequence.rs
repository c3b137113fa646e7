//! Sequences: `CREATE SEQUENCE`, and the numbers that `serial` and identity columns take.
//!
//! **Invariant:** a sequence's value lies between its least and its greatest.

use super::{Ddl, Defined};
use crate::bind::{Binder, Scope, refuse};
use crate::catalog::{Relation, Sequence, SequenceValue};
use crate::datum::Datum;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::plan::Expr;
use crate::types::{Kind, SqlType};
use sqlparser::ast::{self, SequenceOptions, Statement};
use std::sync::{Arc, Mutex};

/// What a statement says of a sequence.
pub(super) struct Numbers {
    kind: SqlType,
    start: Option<i64>,
    increment: i64,
    min: Option<i64>,
    max: Option<i64>,
    cycle: bool,
}

impl Numbers {
    pub(super) fn of(kind: SqlType) -> Numbers {
        Numbers { kind, start: None, increment: 1, min: None, max: None, cycle: false }
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
                    // Values are not taken ahead: that changes which numbers are left out, and these are nobody's to count on.
                }
                SequenceOptions::Cycle(no) => self.cycle = !*no,
            }
        }
        Ok(())
    }

    /// The sequence, its numbers settled.
    pub(super) fn sequence(self, sequence: Sequence) -> SqlResult<Sequence> {
        let (least, greatest) = match self.kind.kind {
            Kind::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            Kind::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
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
        let value = Arc::new(Mutex::new(SequenceValue { last: start, is_called: false }));
        let (kind, increment, cycle) = (self.kind, self.increment, self.cycle);
        Ok(Sequence { kind, start, increment, min, max, cycle, value, ..sequence })
    }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn number(binder: &Binder<'_>, value: &ast::Expr) -> SqlResult<i64> {
    let bound = binder.expr(value, &Scope::default())?;
    let bound = binder.coerce(bound, Kind::Int8.into(), crate::ops::Context::Assignment)?;
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
        refuse!(*temporary => "CREATE TEMPORARY SEQUENCE", owned_by.is_some() => "OWNED BY");
        let (schema, own_name) = self.place(name)?;
        let kind = match data_type {
            Some(data_type) => self.binder().type_of(data_type)?,
            None => Kind::Int8.into(),
        };
        if !matches!(kind.kind, Kind::Int2 | Kind::Int4 | Kind::Int8) {
            return Err(invalid("sequence type must be smallint, integer, or bigint"));
        }
        if *if_not_exists && self.is_taken(schema, &own_name) {
            let message = format!("relation \"{own_name}\" already exists, skipping");
            self.notice(SqlState::DUPLICATE_TABLE, message);
            return Ok("CREATE SEQUENCE".into());
        }
        let mut numbers = Numbers::of(kind);
        numbers.set(&self.binder(), sequence_options)?;
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
            owned_by: None,
            value: Arc::new(Mutex::new(SequenceValue { last: 1, is_called: false })),
        })?;
        self.state.add(Relation::Sequence(Arc::new(sequence)))?;
        Ok("CREATE SEQUENCE".into())
    }
}
