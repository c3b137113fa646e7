//! `CREATE FUNCTION` and `CREATE PROCEDURE`.
//!
//! **Invariant:** a routine that is replaced keeps its OID, owner, kind, result and the names of its input parameters,
//! so that whoever uses it may go on.

use super::routine_options::default_rows;
use super::routine_parameters::invalid;
use super::{Ddl, DdlResult, verb};
use catalog::{Parallel, ParameterMode, Routine, RoutineKind, RoutineParameter, RoutineResult, Volatility};
use statement::error::{SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{CreateRoutine, Statement};
use types::Kind;

impl Ddl<'_> {
    pub(super) fn create_routine(&mut self, statement: &Statement, create: &CreateRoutine) -> SqlResult<DdlResult> {
        let (schema, name) = self.place(&create.name).map_err(SqlError::nowhere)?;
        let said = self.routine_options(&create.options, create.is_procedure)?;
        let language = said.language(create.body.is_some())?;
        self.check_language(language)?;
        let mut routine = Routine {
            oid: 0,
            schema,
            name,
            owner: self.user(),
            kind: if create.is_procedure { RoutineKind::Procedure } else { RoutineKind::Function },
            parameters: Vec::new(),
            result: RoutineResult::Nothing,
            is_set: false,
            language,
            volatility: Volatility::Volatile,
            is_strict: false,
            is_leakproof: false,
            is_security_definer: false,
            parallel: Parallel::Unsafe,
            cost: 100.0,
            rows: 0.0,
            settings: Vec::new(),
            body: catalog::RoutineBody::Text(String::new()),
            isolation: catalog::Isolation::default(),
            path: create.body.as_ref().map(|_| self.path.into()),
        };
        self.apply_routine_options(&said, &mut routine)?;
        routine.parameters = self.routine_parameters(create, language)?;
        (routine.result, routine.is_set) = self.routine_result(create, &routine.parameters, language)?;
        routine.body = self.routine_body(said.body, create.body.as_ref(), (language, &routine.name))?;
        said.check_rows(routine.is_set)?;
        if routine.rows == 0.0 {
            routine.rows = default_rows(routine.is_set);
        }
        self.check_level(&routine)?;
        self.put_routine(routine, create.or_replace)?;
        Ok(verb(statement).into())
    }

    /// Adds a routine, or puts it in the place of the one with the same name and types.
    fn put_routine(&mut self, mut routine: Routine, may_replace: bool) -> SqlResult<()> {
        let kinds = routine.input_kinds();
        let existing =
            self.state.routines_named(routine.schema, &routine.name).find(|one| one.input_kinds() == kinds).cloned();
        match existing {
            Some(old) if may_replace => {
                self.check_routine_owner(&old, ("function", &old.name))?;
                self.check_replaced(&old, &routine)?;
                routine.oid = old.oid;
                routine.owner = old.owner;
                // Code that was moved to another level stays there, with its limits: a new version of it must not come
                // to run with less isolation because nobody said so again, whatever its language.
                let is_code = routine.language.level().is_some() && old.language.level().is_some();
                if routine.isolation == catalog::Isolation::default() && is_code {
                    routine.isolation = old.isolation;
                    self.check_level(&routine)?;
                }
                self.check_body(&routine)?;
                self.state.replace_routine(routine)
            }
            other => {
                routine.oid = self.catalog.oid()?;
                let checked = if other.is_some() { Ok(()) } else { self.check_body(&routine) };
                checked?;
                let (of, schema) = (routine.securable(), routine.schema);
                self.state.add_routine(routine)?;
                self.give_default_rights(of, schema);
                Ok(())
            }
        }
    }

    /// Checks that the uses of a routine stay valid with its new description.
    ///
    /// # Errors
    /// `42809`, `42P13`
    fn check_replaced(&self, old: &Arc<Routine>, new: &Routine) -> SqlResult<()> {
        if old.kind != new.kind {
            let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, "cannot change routine kind");
            return Err(error.detail(format!("\"{}\" is a {}.", old.name, old.kind.word())));
        }
        let first = format!("Use DROP {} {} first.", old.kind.word().to_uppercase(), self.shown_routine(old));
        let refused = |message: String| Err(invalid(message).hint(&*first));
        if result_of(old) != result_of(new) || old.is_set != new.is_set {
            return refused(match old.kind {
                RoutineKind::Procedure => "cannot change whether a procedure has output parameters".to_owned(),
                RoutineKind::Function => "cannot change return type of existing function".to_owned(),
            });
        }
        if row_of(old) != row_of(new) {
            return Err(invalid("cannot change return type of existing function")
                .detail("Row type defined by OUT parameters is different.")
                .hint(first));
        }
        for (old, new) in old.inputs().zip(new.inputs()) {
            if let Some(name) = &old.name
                && new.name.as_ref() != Some(name)
            {
                return refused(format!("cannot change name of input parameter \"{name}\""));
            }
        }
        let defaults = |routine: &Routine| routine.inputs().filter(|one| one.default.is_some()).count();
        if defaults(new) < defaults(old) {
            return refused("cannot remove parameter defaults from existing function".to_owned());
        }
        Ok(())
    }

    /// Returns the name and input types of a routine as PostgreSQL's `format_procedure` writes them: with the schema
    /// if the search path does not find the routine.
    pub(super) fn shown_routine(&self, routine: &Routine) -> String {
        crate::system::shown_routine(&self.state, self.path, routine)
    }
}

/// Result of a routine as `pg_proc.prorettype` tells results apart.
fn result_of(routine: &Routine) -> RoutineResult {
    match routine.result {
        RoutineResult::Row => RoutineResult::Record,
        RoutineResult::Nothing => RoutineResult::Value(Kind::Void),
        other => other,
    }
}

/// Returns the names and types of the columns that output parameters define.
fn row_of(routine: &Routine) -> Vec<(String, Kind)> {
    if routine.result != RoutineResult::Row {
        return Vec::new();
    }
    let column = |(at, one): (usize, &RoutineParameter)| {
        debug_assert!(one.mode != ParameterMode::In, "it is an output");
        (one.name.clone().unwrap_or_else(|| format!("column{}", at + 1)), one.kind)
    };
    routine.outputs().enumerate().map(column).collect()
}
