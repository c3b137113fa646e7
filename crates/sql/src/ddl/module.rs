//! `CREATE MODULE`, `ALTER MODULE`, `DROP MODULE`.
//!
//! **Invariant:** each routine whose code is in a module names an entry of its manifest, and runs at a level for which
//! the module has an artifact.

use super::drop::DroppedObjects;
use super::{CodeToLoad, Ddl, DdlResult};
use crate::context::{no_artifact, no_module, tenant_of};
use catalog::acl::Privileges;
use catalog::rights::not_owner;
use catalog::{Language, Module, Routine};
use procs::{Artifact, ArtifactKind, Level, Limits, Manifest};
use statement::error::{RetryReason, SqlError, SqlResult, SqlState};
use std::sync::Arc;
use syntax::ast::{CreateModule, DropModules, OwnModule};

impl Ddl<'_> {
    pub(super) fn create_module(&mut self, create: &CreateModule) -> SqlResult<DdlResult> {
        let CreateModule { or_replace, name, manifest, artifacts } = create;
        let existing = self.state.module(name).cloned();
        match &existing {
            Some(_) if !or_replace => {
                let message = format!("module \"{}\" already exists", &**name);
                return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            }
            Some(existing) => self.check_module_owner(existing)?,
            None => {
                if let Some(rights) = self.rights() {
                    rights.check_database(Privileges::CREATE)?;
                }
            }
        }
        let module = Module {
            oid: existing.as_ref().map_or_else(|| self.catalog.oid(), |existing| Ok(existing.oid))?,
            name: name.to_string(),
            owner: existing.as_ref().map_or_else(|| self.user(), |existing| existing.owner),
            text: manifest.to_string(),
            manifest: Manifest::parse(manifest)?,
            artifacts: self.artifacts(artifacts)?,
        };
        self.check_users(&module)?;
        self.state.put_module(module);
        Ok("CREATE MODULE".into())
    }

    /// Reads the artifacts of a statement.
    fn artifacts(&self, given: &[(syntax::ast::Name, Box<str>)]) -> SqlResult<Vec<Artifact>> {
        let mut artifacts: Vec<Artifact> = Vec::new();
        for (kind, code) in given {
            let Some(kind) = ArtifactKind::named(kind) else {
                let message = format!("unknown kind of artifact \"{}\"", &**kind);
                let kinds: Vec<&str> = ArtifactKind::ALL.into_iter().map(ArtifactKind::name).collect();
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .hint(format!("Valid kinds are {}.", kinds.join(", "))));
            };
            if kind.needs_superuser() && !self.is_superuser() {
                let message = format!("permission denied to create {kind} artifact");
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .hint("Must be superuser to create code that can run outside of a sandbox."));
            }
            if artifacts.iter().any(|other| other.kind() == kind) {
                let message = format!("artifact \"{kind}\" specified more than once");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            let bytes = match kind {
                ArtifactKind::Native => code.as_bytes().to_vec(),
                ArtifactKind::Wasm | ArtifactKind::Exec | ArtifactKind::Guest => decoded(code)?,
            };
            if let Some(fault) = kind.fault_of(&bytes) {
                let message = format!("invalid {kind} artifact");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).detail(fault));
            }
            let artifact = Artifact::for_statement(kind, bytes)?;
            if kind == ArtifactKind::Native {
                // The name must be one that the server has.
                self.run.env.code.runtimes().program(Level::Native, &artifact, tenant_of(self.run.env))?;
            }
            artifacts.push(artifact);
        }
        Ok(artifacts)
    }

    /// Checks that the routines of a module still have their entries and artifacts.
    fn check_users(&mut self, module: &Module) -> SqlResult<()> {
        let routines: Vec<Arc<Routine>> = self.state.routines_of_module(&module.name).cloned().collect();
        for routine in &routines {
            self.check_code(routine, module)?;
            if routine.is_security_definer {
                // New code would have the rights of that role.
                self.check_routine_owner(routine, (routine.kind.word(), &routine.name))?;
            }
            self.load(routine, module)?;
            self.check_urgent(routine, module)?;
        }
        Ok(())
    }

    /// Loads the code of a routine, once for all sessions that call it. That may take seconds, in which other definitions
    /// go on: the statement is undone, loads the code, and is run again. They wait if its transaction has defined something
    /// before.
    fn load(&mut self, routine: &Routine, module: &Module) -> SqlResult<()> {
        let Some((level, _)) = routine.level() else { return Ok(()) };
        let Some(artifact) = module.artifact(level.artifact()) else { return Ok(()) };
        let runtimes = self.run.env.code.runtimes();
        let (is_urgent, tenant) = (routine.isolation.is_urgent, tenant_of(self.run.env));
        if runtimes.has_program(level, artifact)
            && (!is_urgent || runtimes.program(level, artifact, tenant)?.is_ready_for_urgent())
        {
            return Ok(());
        }
        self.made.to_load = Some(CodeToLoad { level, artifact: artifact.clone(), is_urgent, tenant });
        Err(SqlError::again(RetryReason::Locked))
    }

    /// Checks that a new or changed routine can run: its module has the entry, and an artifact for its level.
    ///
    /// # Errors
    /// `42704`, `42883`; `0A000` for a level without an artifact, or one that this machine lacks.
    pub(super) fn check_code_of(&mut self, routine: &Routine) -> SqlResult<()> {
        let Some((name, _)) = routine.module() else { return Ok(()) };
        let module = Arc::clone(self.state.module(name).ok_or_else(|| no_module(name))?);
        self.check_module_owner(&module)?;
        self.check_code(routine, &module)?;
        self.load(routine, &module)?;
        self.check_urgent(routine, &module)
    }

    /// Checks that a module has a routine's entry, and an artifact for its level.
    fn check_code(&self, routine: &Routine, module: &Module) -> SqlResult<()> {
        let Some((_, entry)) = routine.module() else { return Ok(()) };
        if module.manifest.entry(entry).is_none() {
            let message = format!("module \"{}\" has no entry \"{entry}\"", module.name);
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        match routine.level() {
            Some((level, _)) if module.artifact(level.artifact()).is_none() => {
                let error = no_artifact(&module.name, level);
                Err(match self.way_from_level(routine, module) {
                    Some(hint) => error.hint(hint),
                    None => error,
                })
            }
            Some((Level::Native, _)) if routine.isolation.limits.memory != Limits::default().memory => {
                Err(SqlError::unsupported("a memory limit of native code"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns what lets a routine go with a module that has no artifact for the level to which it was moved before:
    /// back to the level of its language, if the module that it has now and this one can run there.
    fn way_from_level(&self, routine: &Routine, module: &Module) -> Option<String> {
        let old = self.state.routine_numbered(routine.oid)?;
        old.isolation.level.filter(|level| Some(*level) == routine.isolation.level)?;
        let (current, _) = old.module()?;
        let runs = |routine: &Routine, module: &Module| {
            routine.language.level().is_some_and(|level| module.artifact(level.artifact()).is_some())
        };
        if !runs(old, self.state.module(current)?) || !runs(routine, module) {
            return None;
        }
        // Native code has no limit of memory.
        if old.language.level() == Some(Level::Native) && old.isolation.limits.memory != Limits::default().memory {
            return None;
        }
        let kind = old.kind.word().to_uppercase();
        Some(format!("Use ALTER {kind} {} RESET (isolation) first.", self.shown_routine(old)))
    }

    /// Checks that the current role may define routines in a language.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_language(&self, language: Language) -> SqlResult<()> {
        if language.is_trusted() || self.is_superuser() {
            return Ok(());
        }
        let message = format!("permission denied for language {}", language.name());
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .hint("Must be superuser to use an untrusted language."))
    }

    /// Checks that the current role may let a routine run at its level.
    ///
    /// # Errors
    /// `42501`
    pub(super) fn check_level(&self, routine: &Routine) -> SqlResult<()> {
        let is_sandboxed = match routine.level() {
            None | Some((Level::Wasm | Level::Container | Level::Gvisor | Level::Vm, _)) => true,
            Some((Level::Native | Level::Process, _)) => false,
        };
        if is_sandboxed || self.is_superuser() {
            return Ok(());
        }
        let message =
            format!("permission denied to run {} \"{}\" without a sandbox", routine.kind.word(), routine.name);
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .hint("Must be superuser to use the isolation levels \"native\" and \"process\"."))
    }

    fn check_module_owner(&self, module: &Module) -> SqlResult<()> {
        match self.rights() {
            Some(rights) if !rights.owns(module.owner) => Err(not_owner("module", &module.name)),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn own_module(&mut self, command: &OwnModule) -> SqlResult<DdlResult> {
        let module = self.state.module(&command.name).cloned().ok_or_else(|| no_module(&command.name))?;
        self.check_module_owner(&module)?;
        let owner = self.role(&command.owner)?;
        if owner != module.owner && !self.is_superuser() {
            self.check_may_become(owner)?;
        }
        self.give_module(&module, owner);
        Ok("ALTER MODULE".into())
    }

    /// Makes a role the owner of a module.
    pub(super) fn give_module(&mut self, module: &Module, owner: u32) {
        self.state.put_module(Module { owner, ..module.clone() });
    }

    pub(super) fn drop_modules(&mut self, drop: &DropModules) -> SqlResult<DdlResult> {
        let DropModules { names, if_exists, is_cascading } = drop;
        let mut doomed = DroppedObjects::default();
        let mut asked = Vec::new();
        let mut modules: Vec<Arc<Module>> = Vec::new();
        for name in names {
            let Some(module) = self.state.module(name).cloned() else {
                if !if_exists {
                    return Err(no_module(name));
                }
                let message = format!("module \"{}\" does not exist, skipping", &**name);
                self.notice(SqlState::SUCCESSFUL_COMPLETION, message);
                continue;
            };
            self.check_module_owner(&module)?;
            asked.push(format!("module {}", module.name));
            modules.push(module);
        }
        modules.iter().for_each(|module| self.add_users(module, 0, &mut doomed));
        self.follow(&mut doomed)?;
        self.drop_followed(doomed, &asked, *is_cascading)?;
        modules.iter().for_each(|module| self.state.remove_module(&module.name));
        Ok("DROP MODULE".into())
    }

    /// Adds the routines whose code is in a module to what is dropped, as dependents unless this role owns them.
    pub(super) fn add_users(&self, module: &Module, role: u32, doomed: &mut DroppedObjects) {
        for routine in self.state.routines_of_module(&module.name) {
            if routine.owner != role {
                let shown = format!("function {}", self.shown_routine(routine));
                doomed.depends(shown, &format!("module {}", module.name));
            }
            doomed.add_routine(Arc::clone(routine));
        }
    }
}

/// Returns the bytes of a text in base64, or in the hex format of bytea.
fn decoded(code: &str) -> SqlResult<Vec<u8>> {
    match code.strip_prefix("\\x") {
        Some(digits) => types::ops::decoded(digits, true),
        None => types::ops::decoded(code, false),
    }
}
