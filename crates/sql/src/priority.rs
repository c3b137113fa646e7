//! Classes by rule and by hint.
//!
//! A rule names a class and what it is for: `low user=report; high application=till%; low statement="%from lineitem%"`.
//! The first that fits decides. A hint is a comment before a statement: `/*+ priority=high */`.
//!
//! **Invariant:** rules are the administrator's and may give any class; a hint gives no more than the role's highest.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::ops::like;
use crate::settings::class_named;
use stage::Class;

/// All rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// One rule; what it does not say fits all. Patterns are those of `LIKE`, statements' without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    class: Class,
    user: Option<String>,
    database: Option<String>,
    application: Option<String>,
    statement: Option<String>,
}

fn wrong(text: &str, why: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid priority rule \"{}\"", text.trim()))
        .detail(why)
        .hint("A rule is CLASS [user=NAME] [database=NAME] [application=PATTERN] [statement=PATTERN].")
}

fn class(name: &str) -> Option<Class> {
    ["low", "normal", "high"].contains(&name).then(|| class_named(name))
}

/// Cuts at a character that stands outside of quotes.
fn cut(text: &str, at: impl Fn(char) -> bool) -> Vec<&str> {
    let (mut quoted, mut parts, mut begin) = (false, Vec::new(), 0);
    for (position, letter) in text.char_indices() {
        if letter == '"' {
            quoted = !quoted;
        } else if !quoted && at(letter) {
            parts.push(&text[begin..position]);
            begin = position + letter.len_utf8();
        }
    }
    parts.push(&text[begin..]);
    parts
}

impl Rules {
    /// Reads rules with semicolons between them.
    ///
    /// # Errors
    /// `22023`, with the rule that is none.
    pub fn parse(text: &str) -> SqlResult<Rules> {
        let rules = cut(text, |letter| letter == ';').into_iter().filter(|rule| !rule.trim().is_empty());
        rules.map(Rule::parse).collect::<SqlResult<_>>().map(Rules)
    }

    /// The class of a session's statements that have none of their own.
    pub fn of_session(&self, user: &str, database: &str, application: &str) -> Option<Class> {
        let mut fit = self.0.iter().filter(|rule| rule.statement.is_none());
        fit.find(|rule| rule.fits(user, database, application)).map(|rule| rule.class)
    }

    /// The class of a statement.
    pub(crate) fn of_statement(&self, user: &str, database: &str, application: &str, text: &str) -> Option<Class> {
        let mut fit = self.0.iter().filter(|rule| rule.fits(user, database, application));
        let matches = |rule: &&Rule| {
            let pattern = rule.statement.as_deref();
            pattern.is_some_and(|pattern| like::matches(text.trim(), pattern, true).unwrap_or(false))
        };
        fit.find(matches).map(|rule| rule.class)
    }

    /// Whether any is about statements.
    pub fn are_about_statements(&self) -> bool {
        self.0.iter().any(|rule| rule.statement.is_some())
    }
}

impl Rule {
    fn parse(text: &str) -> SqlResult<Rule> {
        let mut words = cut(text, char::is_whitespace).into_iter().filter(|word| !word.is_empty());
        let class = words.next().and_then(class);
        let class = class.ok_or_else(|| wrong(text, "It does not begin with low, normal or high."))?;
        let mut rule = Rule { class, user: None, database: None, application: None, statement: None };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| wrong(text, "A part of it has no \"=\"."))?;
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            let part = match name {
                "user" => &mut rule.user,
                "database" => &mut rule.database,
                "application" => &mut rule.application,
                "statement" => &mut rule.statement,
                _ => return Err(wrong(text, "Only user, database, application and statement can be named.")),
            };
            if part.replace(value.to_owned()).is_some() {
                return Err(wrong(text, "A part of it is there twice."));
            }
            if matches!(name, "application" | "statement") {
                // Whether it is a pattern shows with any text.
                like::matches(&"x".repeat(value.len()), value, true).map_err(|error| wrong(text, error.message()))?;
            }
        }
        Ok(rule)
    }

    fn fits(&self, user: &str, database: &str, application: &str) -> bool {
        let pattern = |pattern: &Option<String>, text: &str| {
            pattern.as_deref().is_none_or(|pattern| like::matches(text, pattern, false).unwrap_or(false))
        };
        self.user.as_deref().is_none_or(|own| own == user)
            && self.database.as_deref().is_none_or(|own| own == database)
            && pattern(&self.application, application)
    }
}

/// The class that a comment before the statement asks for.
///
/// # Errors
/// `22023` for one that is none.
pub(crate) fn hint(text: &str) -> SqlResult<Option<Class>> {
    let Some((hint, _)) = text.trim_start().strip_prefix("/*+").and_then(|rest| rest.split_once("*/")) else {
        return Ok(None);
    };
    for word in hint.split_whitespace() {
        if let Some(value) = word.strip_prefix("priority=") {
            let error = || {
                let message = format!("invalid value for parameter \"overtake.priority\": \"{value}\"");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint("Available values: low, normal, high.")
            };
            return class(value).map(Some).ok_or_else(error);
        }
    }
    // Another program's.
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let text = "low user=report application=nightly%; high user=till; normal user=report;
                    low statement=\"%FROM lineitem%\"";
        let rules = Rules::parse(text).expect("rules");
        assert_eq!(rules.of_session("report", "d", "nightly 7"), Some(Class::Low));
        assert_eq!(rules.of_session("report", "d", "daily"), Some(Class::Normal));
        assert_eq!(rules.of_session("till", "d", ""), Some(Class::High));
        assert_eq!(rules.of_session("ann", "d", ""), None);
        assert_eq!(rules.of_statement("till", "d", "", "select 1\nfrom lineitem"), Some(Class::Low));
        assert_eq!(rules.of_statement("till", "d", "", "select 1 from orders"), None);
        assert_eq!(rules.of_statement("till", "d", "", " select 1 from LINEITEM where x"), Some(Class::Low));
        assert!(rules.are_about_statements());
        for wrong in ["urgent user=x", "low user", "low role=x", "low user=a user=b", "low statement=x\\"] {
            assert_eq!(Rules::parse(wrong).expect_err(wrong).state().0, "22023");
        }
        assert_eq!(Rules::parse(" ; "), Ok(Rules::default()));
    }

    #[test]
    fn hints_stand_before_the_statement() {
        assert_eq!(hint(" /*+ priority=high */ select 1"), Ok(Some(Class::High)));
        assert_eq!(hint("/*+ SeqScan(t) priority=low*/select 1"), Ok(Some(Class::Low)));
        for none in ["select 1", "/* priority=high */ select 1", "/*+ IndexScan(t) */ select 1", "/*+ priority=high"] {
            assert_eq!(hint(none), Ok(None));
        }
        assert!(hint("/*+ priority=urgent */ select 1").is_err());
    }
}
