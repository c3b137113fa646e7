//! Options of `EXPLAIN`.

use statement::error::{SqlError, SqlResult, SqlState};
use syntax::ast::{CommandOption, OptionValue};

/// Options of an `EXPLAIN`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExplainOptions {
    /// True if the statement is to be run.
    pub(crate) analyze: bool,
    /// `VERBOSE`
    pub(crate) verbose: bool,
    /// `COSTS`
    pub(crate) costs: bool,
    timing: Option<bool>,
    summary: Option<bool>,
    /// `STAGES`
    pub(crate) stages: bool,
    /// `FORMAT JSON`
    pub(crate) is_json: bool,
}

impl ExplainOptions {
    /// Reads the options of a statement with this text.
    ///
    /// # Errors
    /// `42601`, `22023`, `0A000`
    pub(crate) fn of(options: &[CommandOption], text: &str) -> SqlResult<ExplainOptions> {
        let mut all = ExplainOptions {
            analyze: false,
            verbose: false,
            costs: true,
            timing: None,
            summary: None,
            stages: false,
            is_json: false,
        };
        for option in options {
            all.set(option, text)?;
        }
        for (name, is_on) in [("TIMING", all.timing == Some(true)), ("STAGES", all.stages)] {
            if is_on && !all.analyze {
                let message = format!("EXPLAIN option {name} requires ANALYZE");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(all)
    }

    /// Returns true if the time of each operator is measured.
    pub(crate) fn timing(&self) -> bool {
        self.timing.unwrap_or(self.analyze)
    }

    /// Returns true if total times are shown.
    pub(crate) fn summary(&self) -> bool {
        self.summary.unwrap_or(self.analyze)
    }

    fn set(&mut self, option: &CommandOption, text: &str) -> SqlResult<()> {
        let name = &*option.name;
        let position = option.name.span.position(text);
        let value = value_of(option)?;
        let switch = || switch(name, value);
        match name {
            "analyze" => self.analyze = switch()?,
            "verbose" => self.verbose = switch()?,
            "costs" => self.costs = switch()?,
            "timing" => self.timing = Some(switch()?),
            "stages" => self.stages = switch()?,
            "summary" => self.summary = Some(switch()?),
            // There are no buffers to count; the only setting that changes plans is `overtake.path`, and the path is
            // shown.
            "buffers" | "settings" => drop(switch()?),
            "wal" if !switch()? => {}
            "wal" => return Err(SqlError::unsupported("EXPLAIN option WAL")),
            "format" => self.is_json = is_json(value, position)?,
            other => {
                let message = format!("unrecognized EXPLAIN option \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
            }
        }
        Ok(())
    }
}

fn value_of(option: &CommandOption) -> SqlResult<Option<&str>> {
    match &option.value {
        None => Ok(None),
        Some(OptionValue::Text(value) | OptionValue::Number(value)) => Ok(Some(value)),
        Some(OptionValue::Star | OptionValue::List(_)) => Err(SqlError::unsupported("a list as an option of EXPLAIN")),
    }
}

fn switch(name: &str, value: Option<&str>) -> SqlResult<bool> {
    match value.map(str::to_lowercase).as_deref() {
        None | Some("true" | "on" | "1") => Ok(true),
        Some("false" | "off" | "0") => Ok(false),
        Some(_) => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}

/// Reads the value of `FORMAT`.
fn is_json(value: Option<&str>, position: usize) -> SqlResult<bool> {
    let Some(value) = value else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "format requires a parameter"));
    };
    match &*value.to_lowercase() {
        "text" => Ok(false),
        "json" => Ok(true),
        other @ ("xml" | "yaml") => Err(SqlError::unsupported(format_args!("EXPLAIN format {}", other.to_uppercase()))),
        _ => {
            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).at(position))
        }
    }
}
