//! Sequences: `CREATE SEQUENCE`, and the values that `serial` and identity columns take.
//!
//! **Invariant:** a sequence's value lies between its minimum and its maximum.

use super::{Ddl, DdlResult};
use catalog::{IdentityColumn, Relation, Sequence, SequenceValue, SharedSequence, TableInfo};
use engine::{TableDef, TableLock};
use locked::Locked;
use query::bind::Binder;
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::{Arc, Mutex};
use syntax::ast::{
    ObjectKind, ObjectName, Persistence, SequenceDefinition, SequenceOption, SequenceOptionKind, TypeName,
};
use types::datum::Datum;
use types::{Kind, SqlType, text};

/// Kind of a statement with options of a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceStatement {
    /// `CREATE SEQUENCE`
    Create,
    /// `ALTER SEQUENCE`, or a change of an identity.
    Alter,
    /// Definition of an identity. The sequence belongs to the column, and has the column's type.
    Identity,
}

/// Options of a sequence in a statement, each at most once. Numbers are as they are written.
#[derive(Default)]
pub(super) struct SequenceOptions<'o> {
    kind: Option<&'o TypeName>,
    increment: Option<&'o str>,
    /// Inner `None` for `NO MINVALUE`; `max` is alike.
    min: Option<Option<&'o str>>,
    max: Option<Option<&'o str>>,
    start: Option<&'o str>,
    cache: Option<&'o str>,
    cycle: Option<bool>,
    /// Number from which the sequence restarts; its start if none is given.
    restart: Option<Option<&'o str>>,
    owned_by: Option<&'o ObjectName>,
    /// Name of an identity's sequence.
    pub(super) name: Option<&'o ObjectName>,
}

impl<'o> SequenceOptions<'o> {
    /// Collects the options of a statement.
    ///
    /// # Errors
    /// `42601`: an option is given twice, or is not allowed in such a statement. `0A000`
    pub(super) fn of(
        binder: &Binder<'_>,
        options: &'o [SequenceOption],
        says: SequenceStatement,
    ) -> SqlResult<SequenceOptions<'o>> {
        let mut said = SequenceOptions::default();
        for SequenceOption { kind, span } in options {
            let added = said.add(kind, says).and_then(|is_new| match is_new {
                true => Ok(()),
                false => Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")),
            });
            added.map_err(|error| binder.at_place(error, *span))?;
        }
        Ok(said)
    }

    /// Adds an option. Returns false if it is there already.
    fn add(&mut self, option: &'o SequenceOptionKind, says: SequenceStatement) -> SqlResult<bool> {
        Ok(match option {
            // The column's type determines it already.
            SequenceOptionKind::As(_) if says == SequenceStatement::Identity => false,
            SequenceOptionKind::As(kind) => self.kind.replace(kind).is_none(),
            SequenceOptionKind::Increment(number) => self.increment.replace(number).is_none(),
            SequenceOptionKind::MinValue(number) => self.min.replace(Some(number)).is_none(),
            SequenceOptionKind::NoMinValue => self.min.replace(None).is_none(),
            SequenceOptionKind::MaxValue(number) => self.max.replace(Some(number)).is_none(),
            SequenceOptionKind::NoMaxValue => self.max.replace(None).is_none(),
            SequenceOptionKind::Start(number) => self.start.replace(number).is_none(),
            SequenceOptionKind::Cache(number) => self.cache.replace(number).is_none(),
            SequenceOptionKind::Cycle(cycles) => self.cycle.replace(*cycles).is_none(),
            SequenceOptionKind::Restart(number) => self.restart.replace(number.as_deref()).is_none(),
            SequenceOptionKind::OwnedBy(_) if says == SequenceStatement::Identity => {
                return Err(SqlError::unsupported("OWNED BY of an identity"));
            }
            SequenceOptionKind::OwnedBy(column) => self.owned_by.replace(column).is_none(),
            SequenceOptionKind::SequenceName(name) if says == SequenceStatement::Identity => {
                self.name.replace(name).is_none()
            }
            SequenceOptionKind::SequenceName(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid sequence option SEQUENCE NAME"));
            }
            SequenceOptionKind::Logged | SequenceOptionKind::Unlogged => {
                let verb = if says == SequenceStatement::Alter { "ALTER SEQUENCE SET " } else { "" };
                let word = if *option == SequenceOptionKind::Logged { "LOGGED" } else { "UNLOGGED" };
                return Err(SqlError::unsupported(format_args!("{verb}{word}")));
            }
        })
    }

    /// Returns true if an option changes the sequence's numbers.
    pub(super) fn say_numbers(&self) -> bool {
        let SequenceOptions { kind, increment, min, max, start, cache, cycle, restart, owned_by: _, name: _ } = self;
        kind.is_some()
            || increment.or(*start).or(*cache).is_some()
            || min.or(*max).is_some()
            || cycle.is_some()
            || restart.is_some()
    }

    /// Returns the type of the sequence's values, if it is given.
    ///
    /// # Errors
    /// `22023`: a sequence cannot have values of this type.
    fn kind(&self, binder: &Binder<'_>) -> SqlResult<Option<SqlType>> {
        let kind = self.kind.map(|kind| binder.type_of(kind)).transpose()?;
        if kind.is_some_and(|kind| !counts(kind)) {
            return Err(invalid("sequence type must be smallint, integer, or bigint"));
        }
        Ok(kind)
    }
}

/// Numbers of a sequence that is created or changed.
pub(super) struct SequenceParameters {
    kind: SqlType,
    pub(super) start: Option<i64>,
    increment: i64,
    min: Option<i64>,
    max: Option<i64>,
    cycle: bool,
    cache: i64,
    /// Current value; the start if none is given.
    pub(super) value: Option<SequenceValue>,
    /// Number from which the sequence restarts; its start if none is given.
    restart: Option<Option<i64>>,
}

impl SequenceParameters {
    pub(super) fn of(kind: SqlType) -> SequenceParameters {
        let (start, min, max, value, restart) = (None, None, None, None, None);
        SequenceParameters { kind, start, increment: 1, min, max, cycle: false, cache: 1, value, restart }
    }

    /// Returns the numbers of an existing sequence. If the type changes, bounds that are those of the old type become
    /// those of the new one.
    pub(super) fn of_sequence(sequence: &Sequence, kind: SqlType) -> SequenceParameters {
        let Sequence { start, increment, min, max, cycle, cache, .. } = *sequence;
        let value = *sequence.value.locked();
        let (least, greatest) = bounds(sequence.kind);
        let (new_least, new_greatest) = bounds(kind);
        SequenceParameters {
            kind,
            start: Some(start),
            increment,
            min: Some(if min == least { new_least } else { min }),
            max: Some(if max == greatest { new_greatest } else { max }),
            cycle,
            cache,
            value: Some(value),
            restart: None,
        }
    }

    pub(super) fn set(&mut self, binder: &Binder<'_>, options: &SequenceOptions<'_>) -> SqlResult<()> {
        let number = |written: &str| number(binder, written);
        let number_or_none = |written: Option<&str>| written.map(number).transpose();
        if let Some(increment) = options.increment {
            self.increment = number(increment)?;
            if self.increment == 0 {
                return Err(invalid("INCREMENT must not be zero"));
            }
        }
        self.cycle = options.cycle.unwrap_or(self.cycle);
        if let Some(max) = options.max {
            self.max = number_or_none(max)?;
        }
        if let Some(min) = options.min {
            self.min = number_or_none(min)?;
        }
        if let Some(start) = options.start {
            self.start = Some(number(start)?);
        }
        self.restart = options.restart.map(number_or_none).transpose()?;
        if let Some(cache) = options.cache {
            self.cache = number(cache)?;
            if self.cache < 1 {
                return Err(invalid(format!("CACHE ({}) must be greater than zero", self.cache)));
            }
        }
        Ok(())
    }

    /// Returns the sequence with these numbers, after checking them and filling in the defaults.
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
        let value = match (self.restart, self.value) {
            (None, Some(value)) => value,
            (restart, _) => SequenceValue { last: restart.flatten().unwrap_or(start), is_called: false },
        };
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

/// Returns the least and the greatest value of a sequence's type.
fn bounds(kind: SqlType) -> (i64, i64) {
    match kind.kind {
        Kind::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Kind::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        // Int8, the only other type that a sequence can have.
        _ => (i64::MIN, i64::MAX),
    }
}

/// Returns true if a sequence can have values of this type.
fn counts(kind: SqlType) -> bool {
    matches!(kind.kind, Kind::Int2 | Kind::Int4 | Kind::Int8)
}

/// Checks that a column of this type can be an identity.
///
/// # Errors
/// `22023`
pub(super) fn check_identity(kind: SqlType) -> SqlResult<()> {
    if counts(kind) { Ok(()) } else { Err(invalid("identity column type must be smallint, integer, or bigint")) }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.into())
}

fn number(binder: &Binder<'_>, written: &str) -> SqlResult<i64> {
    match text::input(written, Kind::Int8.into(), binder.env.forms())? {
        Datum::Int8(number) => Ok(number),
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "a bigint is none")),
    }
}

impl Ddl<'_> {
    pub(super) fn create_sequence(&mut self, create: &SequenceDefinition) -> SqlResult<DdlResult> {
        let SequenceDefinition { name, persistence, has_condition: if_not_exists, options } = create;
        match persistence {
            Persistence::Permanent => {}
            Persistence::Temporary => return Err(SqlError::unsupported("CREATE TEMPORARY SEQUENCE")),
            Persistence::Unlogged => return Err(SqlError::unsupported("CREATE UNLOGGED SEQUENCE")),
        }
        let options = SequenceOptions::of(&self.binder(), options, SequenceStatement::Create)?;
        let kind = options.kind(&self.binder())?;
        let kind = kind.unwrap_or_else(|| Kind::Int8.into());
        let (schema, own_name) = self.place(name).map_err(SqlError::nowhere)?;
        if *if_not_exists && self.is_taken(schema, &own_name) {
            let message = format!("relation \"{own_name}\" already exists, skipping");
            self.notice(SqlState::DUPLICATE_TABLE, message);
            return Ok("CREATE SEQUENCE".into());
        }
        let mut numbers = SequenceParameters::of(kind);
        numbers.set(&self.binder(), &options)?;
        let shared = self.shared_sequence(schema, &own_name)?;
        // The numbers below are placeholders that `numbers` overrides.
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
        let sequence = match options.owned_by {
            Some(column) => self.owned(sequence, column)?,
            None => sequence,
        };
        self.add_relation(Relation::Sequence(Arc::new(sequence)))?;
        Ok("CREATE SEQUENCE".into())
    }

    /// Creates the state that all definitions of a sequence share.
    pub(super) fn shared_sequence(&mut self, schema: u32, name: &str) -> SqlResult<Arc<SharedSequence>> {
        let schema = self.schema_of(schema)?.name;
        let name = format!("sequence {schema}.{name}");
        let lock = self.engine_table(TableDef { name, columns: Vec::new(), indexes: Vec::new() })?;
        Ok(SharedSequence::new(lock))
    }

    /// Executes `ALTER SEQUENCE`. The statement waits for transactions that have taken values, and transactions that
    /// want some wait for it. Its changes of numbers are undone with the transaction; numbers taken meanwhile are not
    /// given back.
    pub(super) fn alter_sequence(&mut self, alter: &SequenceDefinition) -> SqlResult<DdlResult> {
        // ALTER SEQUENCE has no persistence.
        let SequenceDefinition { name, persistence: _, has_condition: if_exists, options } = alter;
        let found = self.altered(ObjectKind::Sequence, name, *if_exists)?;
        let Some(Relation::Sequence(sequence)) = found else { return Ok("ALTER SEQUENCE".into()) };
        self.lock_engine_table(&sequence.shared.lock, TableLock::ShareRowExclusive)?;
        let options = SequenceOptions::of(&self.binder(), options, SequenceStatement::Alter)?;
        let kind = options.kind(&self.binder())?.unwrap_or(sequence.kind);
        let mut changed = match options.say_numbers() {
            true => self.renumbered(&sequence, kind, &options)?,
            false => sequence.next_version(),
        };
        if let Some(column) = options.owned_by {
            changed = self.owned(changed, column)?;
        }
        self.state.replace(Relation::Sequence(Arc::new(changed)))?;
        Ok("ALTER SEQUENCE".into())
    }

    /// Returns the next definition of a sequence, with these numbers, and locks it against transactions that take
    /// values.
    pub(super) fn renumbered(
        &mut self,
        sequence: &Sequence,
        kind: SqlType,
        options: &SequenceOptions<'_>,
    ) -> SqlResult<Sequence> {
        self.lock_engine_table(&sequence.shared.lock, TableLock::ShareRowExclusive)?;
        let mut numbers = SequenceParameters::of_sequence(sequence, kind);
        numbers.set(&self.binder(), options)?;
        numbers.sequence(sequence.next_version())
    }

    /// Returns the sequence of an identity.
    pub(super) fn sequence_of(&self, identity: IdentityColumn) -> SqlResult<Arc<Sequence>> {
        match self.state.relation_numbered(identity.sequence) {
            Some(Relation::Sequence(sequence)) => Ok(Arc::clone(sequence)),
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "an identity has no sequence")),
        }
    }

    /// Returns the sequence, owned by this column, or by none.
    fn owned(&self, sequence: Sequence, column: &ObjectName) -> SqlResult<Sequence> {
        let is_identity = |table: &TableInfo| {
            table.columns.iter().any(|column| column.identity.is_some_and(|identity| identity.sequence == sequence.oid))
        };
        if let Some(table) = self.state.tables().find(|table| is_identity(table)) {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot change ownership of identity sequence")
                .detail(format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name, table.name)));
        }
        let (own, table) = match &column.parts[..] {
            [none] if &**none == "none" => return Ok(Sequence { owned_by: None, ..sequence }),
            [table @ .., own] if !table.is_empty() => (own, ObjectName { parts: table.to_vec() }),
            _ => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                    .hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
        };
        let table = self.binder().table(&table)?;
        if table.owner != sequence.owner {
            let message = "sequence must have same owner as table it is linked to";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        if table.schema != sequence.schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let Some(at) = table.column(own) else {
            let message = format!("column \"{own}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        Ok(Sequence { owned_by: Some((table.oid, table.columns[at].number)), ..sequence })
    }
}
