//! Bodies of routines, and their check.

use super::Ddl;
use super::routine_parameters::invalid;
use catalog::{Language, Routine, RoutineBody};
use query::routine::plan_body;
use statement::error::{SqlError, SqlResult};
use std::sync::Arc;
use syntax::ast::SqlBody;

impl Ddl<'_> {
    /// Returns the body of a new routine: that of `AS`, or the one that the grammar has parsed.
    ///
    /// # Errors
    /// `42P13`
    pub(super) fn routine_body(
        &self,
        text: Option<(&str, Option<&str>)>,
        body: Option<&SqlBody>,
        (language, name): (Language, &str),
    ) -> SqlResult<RoutineBody> {
        match (text, body) {
            (Some(_), Some(_)) => Err(invalid("duplicate function body specified")),
            (None, None) => Err(invalid("no function body specified")),
            (None, Some(_)) if language != Language::Sql => {
                Err(invalid("inline SQL function body only valid for language SQL"))
            }
            (None, Some(SqlBody::Return(value))) => Ok(RoutineBody::Return(value.extent.of(self.text).to_owned())),
            (None, Some(SqlBody::Atomic { statements: _, extent })) => {
                Ok(RoutineBody::Atomic(extent.of(self.text).to_owned()))
            }
            (Some((_, Some(_))), None) if language == Language::Sql => {
                Err(invalid(format!("only one AS item needed for language \"{}\"", language.name())))
            }
            (Some((text, None)), None) if language == Language::Sql => Ok(RoutineBody::Text(text.to_owned())),
            // As in PostgreSQL's language C, the routine's own name is the one that is looked up.
            (Some((module, entry)), None) => {
                Ok(RoutineBody::Code { module: module.to_owned(), entry: entry.unwrap_or(name).to_owned() })
            }
        }
    }

    /// Checks the body of a new routine, unless `check_function_bodies` is off.
    ///
    /// # Errors
    /// Those of the grammar, at their place in the statement.
    pub(super) fn check_body(&mut self, routine: &Routine) -> SqlResult<()> {
        if routine.module().is_some() {
            return self.check_code_of(routine);
        }
        if self.run.env.settings.show("check_function_bodies")? != "on" {
            return Ok(());
        }
        // The body may call the routine itself.
        let mut state = self.state.next(self.state.version());
        state.remove_routine(routine.oid);
        state.add_routine(routine.clone())?;
        let of_routine = self.run.env.bodies.env_of(routine, &state, self.run.env)?;
        let (env, path) = of_routine.as_ref().map_or((self.run.env, self.path), |(env, path)| (env, &**path));
        let path = routine.path.as_deref().unwrap_or(path);
        let planned = plan_body(&Arc::new(routine.clone()), &state, path, env).map(drop);
        planned.map_err(|error| {
            // An error with a place is one of the statement, as in PostgreSQL.
            let error = if error.position().is_some() {
                error
            } else {
                error.within(format!("SQL function \"{}\"", routine.name))
            };
            match &routine.body {
                RoutineBody::Text(body) => self.in_body(error, body),
                RoutineBody::Return(body) | RoutineBody::Atomic(body) => self.in_part(error, body),
                RoutineBody::Code { .. } => error.nowhere(),
            }
        })
    }

    /// Moves an error of a body that is a part of the statement to its place there.
    fn in_part(&self, error: SqlError, body: &str) -> SqlError {
        let mut places = self.text.match_indices(body);
        match (places.next(), places.next()) {
            (Some((at, _)), None) => error.moved(self.text[..at].chars().count()),
            _ => error.nowhere(),
        }
    }

    /// Moves an error of a body to its place in the statement. An error without a place is about the function.
    fn in_body(&self, error: SqlError, body: &str) -> SqlError {
        let Some(position) = error.position() else { return error };
        match place_in_literal(self.text, body, position) {
            // The literal begins before its value, so the place is a later one.
            Some(place) => error.moved(place.saturating_sub(position)),
            None => error.nowhere(),
        }
    }
}

/// Returns the position in a statement of a character of the body that is one of its literals: PostgreSQL's
/// `match_prosrc_to_query`. `None` if no literal is the body, or more than one is. Positions count from 1.
fn place_in_literal(text: &str, body: &str, position: usize) -> Option<usize> {
    let mut found = None;
    for (number, (at, sign)) in text.char_indices().enumerate() {
        let rest = &text[at + sign.len_utf8()..];
        let inside = match sign {
            '$' => rest.strip_prefix(body).filter(|rest| rest.starts_with('$')).map(|_| position),
            '\'' => place_in_quotes(rest, body, position),
            _ => None,
        };
        if let Some(inside) = inside
            && found.replace(number + 1 + inside).is_some()
        {
            return None;
        }
    }
    found
}

/// Returns the position in a quoted literal, from behind its quote on, of a character of its value. `None` if the
/// literal has another value.
fn place_in_quotes(literal: &str, body: &str, position: usize) -> Option<usize> {
    let mut letters = literal.chars().peekable();
    let mut place = position;
    for (number, wanted) in body.chars().enumerate() {
        let mut letter = letters.next()?;
        let follows = letters.peek().copied();
        let is_escape = letter == '\\' || letter == '\'' && follows == Some('\'');
        if is_escape {
            letter = letters.next()?;
            // The sign before counts for every later character.
            if number + 1 < position {
                place += 1;
            }
        } else if letter == '\'' {
            return None;
        }
        if letter != wanted {
            return None;
        }
    }
    let ends = letters.next() == Some('\'') && letters.peek() != Some(&'\'');
    ends.then_some(place)
}

#[cfg(test)]
mod tests {
    use super::place_in_literal;

    #[test]
    fn places_in_literals_are_found() {
        let place = |text, body, position| place_in_literal(text, body, position);
        assert_eq!(place("as 'ab'", "ab", 2), Some(6));
        assert_eq!(place("as $$ab$$", "ab", 1), Some(6));
        assert_eq!(place("as $x$ab$x$", "ab", 2), Some(8));
        assert_eq!(place("é 'a''b'", "a'b", 3), Some(7));
        assert_eq!(place("as 'ab', 'ab'", "ab", 1), None);
        assert_eq!(place("as 'abc'", "ab", 1), None);
        assert_eq!(place("as 'a", "a", 1), None);
    }
}
