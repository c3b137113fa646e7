//! Options of routines.
//!
//! **Invariant:** each option is given at most once, except for `SET` and `RESET`.

use super::routine_parameters::invalid;
use super::{Ddl, routine_isolation};
use crate::context::{value_of, zone_value};
use catalog::{Language, Parallel, Routine, Volatility};
use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{ObjectName, RoutineOption, RoutineOptionKind, SetTarget, SettingName};

/// Languages of PostgreSQL that bodies cannot have here.
const OTHER_LANGUAGES: [&str; 3] = ["c", "internal", "plpgsql"];

/// Estimated rows of a set, unless the definition says otherwise.
const ROWS: f32 = 1000.0;

/// Options of a statement by their subject.
#[derive(Default)]
pub(super) struct RoutineOptions<'o> {
    /// Body, and the symbol behind it.
    pub(super) body: Option<(&'o str, Option<&'o str>)>,
    language: Option<&'o str>,
    has_transform: bool,
    is_window: bool,
    volatility: Option<Volatility>,
    is_strict: Option<bool>,
    is_security_definer: Option<bool>,
    is_leakproof: Option<bool>,
    parallel: Option<&'o str>,
    cost: Option<&'o str>,
    rows: Option<&'o str>,
    support: Option<&'o ObjectName>,
    settings: Vec<&'o RoutineOptionKind>,
}

impl<'o> RoutineOptions<'o> {
    /// Adds an option. Returns false if there is one of the same subject already.
    fn add(&mut self, option: &'o RoutineOptionKind) -> bool {
        match option {
            RoutineOptionKind::As(body, symbol) => self.body.replace((body, symbol.as_deref())).is_none(),
            RoutineOptionKind::Language(name) => self.language.replace(name).is_none(),
            RoutineOptionKind::Transform(_) => !std::mem::replace(&mut self.has_transform, true),
            RoutineOptionKind::Window => !std::mem::replace(&mut self.is_window, true),
            RoutineOptionKind::Immutable => self.volatility.replace(Volatility::Immutable).is_none(),
            RoutineOptionKind::Stable => self.volatility.replace(Volatility::Stable).is_none(),
            RoutineOptionKind::Volatile => self.volatility.replace(Volatility::Volatile).is_none(),
            RoutineOptionKind::Strict(is) => self.is_strict.replace(*is).is_none(),
            RoutineOptionKind::SecurityDefiner(is) => self.is_security_definer.replace(*is).is_none(),
            RoutineOptionKind::Leakproof(is) => self.is_leakproof.replace(*is).is_none(),
            RoutineOptionKind::Parallel(word) => self.parallel.replace(word).is_none(),
            RoutineOptionKind::Cost(number) => self.cost.replace(number).is_none(),
            RoutineOptionKind::Rows(number) => self.rows.replace(number).is_none(),
            RoutineOptionKind::Support(name) => self.support.replace(name).is_none(),
            RoutineOptionKind::Set(_)
            | RoutineOptionKind::Reset(_)
            | RoutineOptionKind::SetParameters(_)
            | RoutineOptionKind::ResetParameters(_)
            | RoutineOptionKind::Unsupported(_) => {
                self.settings.push(option);
                true
            }
        }
    }

    /// Returns the language of the body.
    ///
    /// # Errors
    /// `42P13`: none is given. `42704`: it does not exist. `0A000`
    pub(super) fn language(&self, has_sql_body: bool) -> SqlResult<Language> {
        match self.language {
            None if has_sql_body => Ok(Language::Sql),
            None => Err(invalid("no language specified")),
            Some(other) if OTHER_LANGUAGES.contains(&other) => {
                Err(SqlError::unsupported(format_args!("LANGUAGE {other}")))
            }
            Some(other) => Language::named(other).ok_or_else(|| {
                let message = format!("language \"{other}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            }),
        }
    }

    /// Returns an error if the routine must return a set for the option `ROWS`, and does not.
    pub(super) fn check_rows(&self, is_set: bool) -> SqlResult<()> {
        if self.rows.is_none() || is_set {
            return Ok(());
        }
        let message = "ROWS is not applicable when function does not return a set";
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
}

/// Returns true if procedures do not take the option.
fn is_of_functions(option: &RoutineOptionKind) -> bool {
    match option {
        RoutineOptionKind::As(..)
        | RoutineOptionKind::Language(_)
        | RoutineOptionKind::Transform(_)
        | RoutineOptionKind::SecurityDefiner(_)
        | RoutineOptionKind::Set(_)
        | RoutineOptionKind::Reset(_)
        | RoutineOptionKind::SetParameters(_)
        | RoutineOptionKind::ResetParameters(_)
        | RoutineOptionKind::Unsupported(_) => false,
        RoutineOptionKind::Window
        | RoutineOptionKind::Immutable
        | RoutineOptionKind::Stable
        | RoutineOptionKind::Volatile
        | RoutineOptionKind::Strict(_)
        | RoutineOptionKind::Leakproof(_)
        | RoutineOptionKind::Parallel(_)
        | RoutineOptionKind::Cost(_)
        | RoutineOptionKind::Rows(_)
        | RoutineOptionKind::Support(_) => true,
    }
}

/// Returns the number of `COST` or `ROWS`.
fn positive(word: &str, number: &str) -> SqlResult<f32> {
    match number.parse::<f32>() {
        Ok(number) if 0.0 < number => Ok(number),
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("{word} must be positive"))),
    }
}

impl Ddl<'_> {
    /// Collects the options of a statement.
    ///
    /// # Errors
    /// `42601`: two options contradict each other. `42P13`: a procedure does not take one.
    pub(super) fn routine_options<'o>(
        &self,
        options: &'o [RoutineOption],
        is_procedure: bool,
    ) -> SqlResult<RoutineOptions<'o>> {
        let mut said = RoutineOptions::default();
        for RoutineOption { kind, span } in options {
            let error = if is_procedure && is_of_functions(kind) {
                invalid("invalid attribute in procedure definition")
            } else if said.add(kind) {
                continue;
            } else {
                SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")
            };
            return Err(self.binder().at_place(error, *span));
        }
        Ok(said)
    }

    /// Gives a routine what the options say. Whether it returns a set is known by then.
    ///
    /// # Errors
    /// `22023`, `42601`, `42704`, `42501`; `0A000`
    pub(super) fn apply_routine_options(&self, said: &RoutineOptions<'_>, to: &mut Routine) -> SqlResult<()> {
        if said.has_transform {
            return Err(SqlError::unsupported("TRANSFORM"));
        }
        if said.is_window {
            return Err(SqlError::unsupported("WINDOW"));
        }
        to.volatility = said.volatility.unwrap_or(to.volatility);
        to.is_strict = said.is_strict.unwrap_or(to.is_strict);
        to.is_security_definer = said.is_security_definer.unwrap_or(to.is_security_definer);
        if said.is_leakproof == Some(true) && !self.is_superuser() {
            let message = "only superuser can define a leakproof function";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        to.is_leakproof = said.is_leakproof.unwrap_or(to.is_leakproof);
        self.apply_settings(&said.settings, &mut to.settings)?;
        for option in &said.settings {
            match option {
                RoutineOptionKind::SetParameters(parameters) => routine_isolation::set(to, parameters)?,
                RoutineOptionKind::ResetParameters(names) => routine_isolation::reset(to, names)?,
                _ => {}
            }
        }
        if let Some(number) = said.cost {
            to.cost = positive("COST", number)?;
        }
        if let Some(number) = said.rows {
            to.rows = positive("ROWS", number)?;
        }
        if said.support.is_some() {
            return Err(SqlError::unsupported("SUPPORT"));
        }
        if let Some(word) = said.parallel {
            to.parallel = match word {
                "safe" => Parallel::Safe,
                "unsafe" => Parallel::Unsafe,
                "restricted" => Parallel::Restricted,
                _ => {
                    let message = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
        }
        Ok(())
    }

    pub(super) fn is_superuser(&self) -> bool {
        let roles = self.run.env.catalog_snapshot.as_ref().map(|snapshot| &snapshot.roles);
        roles.and_then(|roles| roles.get(&self.run.env.user)).is_some_and(|role| role.is_superuser)
    }

    /// Changes the settings of a routine in the order of the options.
    fn apply_settings(&self, said: &[&RoutineOptionKind], to: &mut Vec<(String, String)>) -> SqlResult<()> {
        for option in said {
            let (name, value) = match option {
                RoutineOptionKind::Set(target) => self.routine_setting(target)?,
                RoutineOptionKind::Reset(SettingName::All) => {
                    to.clear();
                    continue;
                }
                RoutineOptionKind::Reset(SettingName::Named(name)) => (name.to_string(), None),
                RoutineOptionKind::Unsupported(feature) => return Err(SqlError::unsupported(feature)),
                _ => continue,
            };
            // Checks the name and the value.
            self.run.env.settings.would_show(&name, value.as_deref())?;
            let name = settings::title(&name).map_or(name, str::to_owned);
            if value.is_some() && acts_on_session(&name) {
                return Err(SqlError::unsupported(format_args!("SET {name} of a routine")));
            }
            let at = to.iter().position(|(own, _)| own.eq_ignore_ascii_case(&name));
            match (at, value) {
                (Some(at), Some(value)) => to[at].1 = value,
                (None, Some(value)) => to.push((name, value)),
                (Some(at), None) => drop(to.remove(at)),
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Returns the name and the value of a setting; without a value the routine no longer sets it.
    fn routine_setting(&self, target: &SetTarget) -> SqlResult<(String, Option<String>)> {
        Ok(match target {
            SetTarget::Setting(name, values) => {
                let name = name.to_string();
                let value = value_of(&name, values)?;
                (name, value)
            }
            SetTarget::TimeZone(zone) => ("timezone".to_owned(), zone_value(&self.binder(), zone.as_ref())?),
            SetTarget::FromCurrent(name) => {
                let name = name.to_string();
                let value = self.run.env.settings.show(&name)?.to_owned();
                (name, Some(value))
            }
            // The grammar has no such options.
            SetTarget::Transaction(_) | SetTarget::Characteristics(_) => {
                return Err(SqlError::unsupported("SET TRANSACTION of a routine"));
            }
        })
    }
}

/// Returns the estimated number of rows of a routine without the option.
pub(super) fn default_rows(is_set: bool) -> f32 {
    if is_set { ROWS } else { 0.0 }
}

/// Returns true for a setting that acts on the session or its transaction, and has no effect within a routine.
fn acts_on_session(name: &str) -> bool {
    let all = [
        "role",
        "session_authorization",
        "transaction_isolation",
        "transaction_read_only",
        "transaction_deferrable",
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
    ];
    all.iter().any(|one| one.eq_ignore_ascii_case(name))
}
