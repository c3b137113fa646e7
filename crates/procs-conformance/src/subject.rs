//! Code at one level, over one channel; and the engine that the suite's module expects.

use crate::model::{ModelEngine, ModelStatement, ModelTable};
use procs::{Channel, CodeTenant, Instance, Invocation, Level, Limits, Manifest, Program, Tenant};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use types::datum::Datum;
use types::{Kind, SqlType};

/// Loaded code at one level, over one channel.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name for messages.
    pub name: String,
    /// Level.
    pub level: Level,
    /// Channel.
    pub channel: Channel,
    /// Code.
    pub program: Arc<dyn Program>,
    /// Interface of the code.
    pub manifest: Arc<Manifest>,
    /// Owner of its instances.
    pub tenant: CodeTenant,
}

impl Subject {
    /// Creates a subject.
    pub fn new(level: Level, channel: Channel, program: &Arc<dyn Program>, manifest: &Arc<Manifest>) -> Subject {
        let name = format!("{level} over {channel}");
        let tenant = CodeTenant::alone(Tenant(10));
        Subject { name, level, channel, program: Arc::clone(program), manifest: Arc::clone(manifest), tenant }
    }

    /// Creates an instance.
    ///
    /// # Errors
    /// Those of the level.
    pub fn open(&self, limits: &Limits) -> SqlResult<Box<dyn Instance>> {
        self.program.open(&self.tenant, self.channel, limits)
    }

    /// Runs an entry in an instance. Each row has a single argument.
    ///
    /// # Errors
    /// Those of the level and of the code.
    ///
    /// # Panics
    /// If there is no such entry.
    pub fn invoke(
        &self,
        instance: &mut dyn Instance,
        entry: &str,
        rows: &[Datum],
        types: (SqlType, SqlType),
        limits: Limits,
        engine: &mut ModelEngine,
    ) -> SqlResult<Vec<Vec<Datum>>> {
        let entry = self.manifest.entry(entry).expect("an entry of the suite");
        let rows: Vec<&[Datum]> = rows.iter().map(std::slice::from_ref).collect();
        let (arguments, result) = ([types.0], [types.1]);
        instance.invoke(&Invocation { entry, rows: &rows, arguments: &arguments, result: &result, limits }, engine)
    }

    /// Runs an entry with a bigint, for a bigint, in an instance of its own.
    ///
    /// # Errors
    /// Those of the level and of the code.
    pub fn run(&self, entry: &str, argument: i64, limits: Limits, engine: &mut ModelEngine) -> SqlResult<i64> {
        let types = (Kind::Int8.into(), Kind::Int8.into());
        let mut instance = self.open(&limits)?;
        let rows = self.invoke(&mut *instance, entry, &[Datum::Int8(argument)], types, limits, engine)?;
        match rows.as_slice() {
            [row] => match row.as_slice() {
                [Datum::Int8(result)] => Ok(*result),
                other => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("a row {other:?}"))),
            },
            other => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("{} rows", other.len()))),
        }
    }

    /// Runs an entry with a text, for a text, in an instance of its own.
    ///
    /// # Errors
    /// Those of the level and of the code.
    pub fn ask(&self, entry: &str, argument: &str, engine: &mut ModelEngine) -> SqlResult<String> {
        let types = (Kind::Text.into(), Kind::Text.into());
        let mut instance = self.open(&Limits::default())?;
        let arguments = [Datum::text(argument)];
        let rows = self.invoke(&mut *instance, entry, &arguments, types, Limits::default(), engine)?;
        match rows.first().and_then(|row| row.first()) {
            Some(Datum::Text(text)) => Ok(text.to_string()),
            other => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("{other:?} is no text"))),
        }
    }
}

/// Returns an engine with the tables and statements of the suite's module. The table `every` keeps values of this type.
pub fn engine(kept: SqlType) -> ModelEngine {
    let (int, text, numeric) = (Kind::Int8.into(), Kind::Text.into(), Kind::Numeric.into());
    let double = ModelStatement::new(&[], &[], |tables, _| {
        let rows: Vec<Vec<Datum>> = tables[0].rows().cloned().collect();
        for mut row in rows.iter().cloned() {
            if let Datum::Numeric(amount) = &row[2] {
                row[2] = Datum::Numeric(amount.add(amount)?);
            }
            tables[0].put(row)?;
        }
        Ok((rows.len() as u64, None))
    });
    let names = ModelStatement::new(&[int], &[text], |tables, parameters| {
        let is_below = |row: &&Vec<Datum>| match (&row[0], &parameters[0]) {
            (Datum::Int8(id), Datum::Int8(end)) => id < end,
            _ => false,
        };
        let found: Vec<Vec<Datum>> = tables[0].rows().filter(is_below).map(|row| vec![row[1].clone()]).collect();
        Ok((found.len() as u64, Some(found)))
    });
    let fails =
        ModelStatement::new(&[], &[], |_, _| Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")));
    let mut engine = ModelEngine::default();
    engine.tables = vec![
        ModelTable::new(&[int, text, numeric], 1),
        ModelTable::new(&[int, text, int], 2),
        ModelTable::new(&[int, kept], 1),
    ];
    engine.statements = vec![double, names, fails];
    engine.result = vec![int];
    engine
}
