//! `ALTER`, `DROP` and `COMMENT ON` of routines.

use super::drop::DroppedObjects;
use super::routine_names::{NamedRoutine, word_of};
use super::{Ddl, DdlResult, verb};
use catalog::{ConstraintKind, Routine, RoutineKind};
use statement::error::{SqlError, SqlResult, SqlState};
use statement::refuse;
use std::sync::Arc;
use syntax::ast::{
    AlterRoutine, DropRoutines, RoutineAction, RoutineComment, RoutineName, RoutineOption, RoutineWord, Statement,
};

impl Ddl<'_> {
    pub(super) fn alter_routine(&mut self, statement: &Statement, alter: &AlterRoutine) -> SqlResult<DdlResult> {
        let AlterRoutine { word, name, action } = alter;
        if let RoutineAction::Depends(is_no, _) = action {
            let no = if *is_no { "NO " } else { "" };
            return Err(SqlError::unsupported(format_args!("{} {no}DEPENDS ON EXTENSION", verb(statement))));
        }
        let owner = match action {
            RoutineAction::Owner(to) => Some(self.role(to)?),
            _ => None,
        };
        let routine = self.users_routine(*word, name, verb(statement))?;
        // PostgreSQL's refusals differ with the action: most are about a "function" without its schema.
        let is_own = |ddl: &Ddl<'_>| ddl.check_routine_owner(&routine, ("function", &routine.name));
        match action {
            RoutineAction::Options(options) => {
                self.check_routine_owner(&routine, (word_of(*word), &name.name.to_string()))?;
                self.alter_options(&routine, options)?;
            }
            RoutineAction::Rename(to) => {
                is_own(self)?;
                self.rename_routine(&routine, to)?;
            }
            RoutineAction::Owner(_) => {
                is_own(self)?;
                owner.map_or(Ok(()), |owner| self.own_routine_by(&routine, owner))?;
            }
            RoutineAction::SetSchema(to) => {
                let schema = self.schema_to_move_to(to)?;
                if schema != routine.schema {
                    is_own(self)?;
                    self.move_routine(&routine, schema)?;
                }
            }
            RoutineAction::Depends(..) => {}
        }
        Ok(verb(statement).into())
    }

    /// Returns the routine that a statement names, which must not be the system's.
    fn users_routine(&mut self, word: RoutineWord, name: &RoutineName, tag: &str) -> SqlResult<Arc<Routine>> {
        match self.routine_named(word, name)? {
            NamedRoutine::Own(routine) => Ok(routine),
            NamedRoutine::System(shown) => {
                Err(SqlError::unsupported(format_args!("{tag} of the system's function {shown}")))
            }
        }
    }

    fn alter_options(&mut self, old: &Routine, options: &[RoutineOption]) -> SqlResult<()> {
        let said = self.routine_options(options, old.kind == RoutineKind::Procedure)?;
        let mut new = old.clone();
        self.apply_routine_options(&said, &mut new)?;
        said.check_rows(old.is_set)?;
        if new.isolation != old.isolation || new.isolation.is_urgent {
            self.check_level(&new)?;
            self.check_code_of(&new)?;
        }
        self.state.replace_routine(new)
    }

    fn rename_routine(&mut self, old: &Routine, to: &str) -> SqlResult<()> {
        if let Some(schema) = self.state.schema_numbered(old.schema) {
            self.check_create(schema)?;
        }
        let renamed = Routine { name: to.to_owned(), ..old.clone() };
        self.check_free_routine(&renamed)?;
        refuse!(self.is_routine_used(old.oid) => "to rename a function that other objects use");
        self.state.replace_routine(renamed)
    }

    fn own_routine_by(&mut self, old: &Routine, owner: u32) -> SqlResult<()> {
        self.check_new_routine_owner(old, owner)?;
        self.give_routine(old, owner)
    }

    /// Makes a role the owner of a routine, with its privileges.
    pub(super) fn give_routine(&mut self, old: &Routine, owner: u32) -> SqlResult<()> {
        self.own_rights(old.oid, &[], old.owner, owner);
        self.state.replace_routine(Routine { owner, ..old.clone() })
    }

    /// Checks that the current role may make another the owner of a routine, and that the new owner may create objects
    /// in its schema.
    fn check_new_routine_owner(&self, old: &Routine, owner: u32) -> SqlResult<()> {
        let Some(rights) = self.rights() else { return Ok(()) };
        if rights.is_superuser() || old.owner == owner {
            return Ok(());
        }
        self.check_may_become(owner)?;
        match self.state.schema_numbered(old.schema) {
            Some(schema) => self.check_create_as(schema, owner),
            None => Ok(()),
        }
    }

    fn move_routine(&mut self, old: &Routine, schema: u32) -> SqlResult<()> {
        let moved = Routine { schema, ..old.clone() };
        self.check_free_routine(&moved)?;
        refuse!(self.is_routine_used(old.oid) => "to move a function that other objects use");
        self.state.replace_routine(moved)
    }

    /// Refuses the name and schema of another routine with the same types.
    fn check_free_routine(&self, wanted: &Routine) -> SqlResult<()> {
        let kinds = wanted.input_kinds();
        if self.state.routines_named(wanted.schema, &wanted.name).all(|other| other.input_kinds() != kinds) {
            return Ok(());
        }
        let schema = self.state.schema_numbered(wanted.schema).map_or("", |schema| &schema.name);
        let message = format!("function {} already exists in schema \"{schema}\"", wanted.signature());
        Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message))
    }

    /// Returns true if the text of a view, a default or a constraint uses a routine: it would lose it by a new name.
    fn is_routine_used(&self, oid: u32) -> bool {
        let in_tables = self.state.tables().any(|table| {
            let in_defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
            let in_checks = table.constraints.iter().any(|constraint| match &constraint.what {
                ConstraintKind::Check(check) => check.uses.contains(&oid),
                ConstraintKind::PrimaryKey { .. } | ConstraintKind::Unique { .. } | ConstraintKind::ForeignKey(_) => {
                    false
                }
            });
            in_checks || in_defaults.into_iter().any(|default| default.uses.contains(&oid))
        });
        in_tables || self.state.views().any(|view| view.uses.contains(&oid))
    }

    pub(super) fn drop_routines(&mut self, statement: &Statement, drop: &DropRoutines) -> SqlResult<DdlResult> {
        let DropRoutines { word, names, if_exists, is_cascading } = drop;
        let mut doomed = DroppedObjects::default();
        for name in names {
            let found = match if_exists {
                true => self.routine_if_exists(*word, name)?,
                false => Some(self.routine_named(*word, name)?),
            };
            match found {
                Some(NamedRoutine::Own(routine)) => {
                    self.check_may_drop_routine(&routine, (word_of(*word), &name.name.to_string()))?;
                    doomed.add_routine(routine);
                }
                Some(NamedRoutine::System(shown)) => {
                    let message = format!("cannot drop function {shown} because it is required by the database system");
                    return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                }
                None => {}
            }
        }
        let asked: Vec<String> =
            doomed.routines.iter().map(|one| format!("function {}", self.shown_routine(one))).collect();
        self.follow(&mut doomed)?;
        self.drop_followed(doomed, &asked, *is_cascading)?;
        Ok(verb(statement).into())
    }

    /// Checks that the current role owns a routine or its schema.
    ///
    /// # Errors
    /// `42501`
    fn check_may_drop_routine(&self, routine: &Routine, shown: (&str, &str)) -> SqlResult<()> {
        match self.state.schema_numbered(routine.schema) {
            Some(schema) if self.check_schema_owner(schema).is_ok() => Ok(()),
            Some(_) | None => self.check_routine_owner(routine, shown),
        }
    }

    pub(super) fn comment_on_routine(&mut self, comment: &RoutineComment) -> SqlResult<DdlResult> {
        let RoutineComment { word, name, text } = comment;
        let routine = self.users_routine(*word, name, "COMMENT")?;
        self.check_routine_owner(&routine, (word_of(*word), &name.name.to_string()))?;
        // An empty comment removes the comment.
        let text = text.as_deref().filter(|text| !text.is_empty());
        self.state.set_comment(routine.oid, 0, text);
        Ok("COMMENT".into())
    }
}
