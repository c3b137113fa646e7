//! Priority classes by rule and by hint.
//!
//! A rule names a class and its conditions: `low user=report; high application=till%; low statement="%from lineitem%";
//! high tag.action=pay%`. The first rule that fits decides. A hint is a comment before a statement: `/*+ priority=high
//! */`.
//!
//! **Invariant:** rules are the administrator's and may give any class; a hint gives no more than the role's highest.
//! Of a session's properties, only its application's name may change which rules about statements fit it.

use crate::class_named;
use stage::Class;
use statement::error::{SqlError, SqlResult, SqlState};
use std::cell::OnceCell;
use syntax::fingerprint;
use syntax::tags::Tags;
use types::ops::like;

/// Priority rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<PriorityRule>);

/// A priority rule; a condition that it does not have fits all. Patterns are those of `LIKE`; those of statements
/// ignore case.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PriorityRule {
    class: Class,
    user: Option<String>,
    database: Option<String>,
    application: Option<String>,
    statement: Option<String>,
    /// Names of a statement's tags, with the patterns of their values.
    tags: Vec<(String, String)>,
    /// Fingerprint of the statement that the rule names.
    fingerprint: Option<u64>,
}

fn wrong(text: &str, why: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid priority rule \"{}\"", text.trim()))
        .detail(why)
        .hint(
            "A rule is CLASS [user=NAME] [database=NAME] [application=PATTERN] [tag.NAME=PATTERN] [statement=PATTERN] \
             [fingerprint=STATEMENT].",
        )
}

fn class(name: &str) -> Option<Class> {
    ["low", "normal", "high"].contains(&name).then(|| class_named(name))
}

/// Returns the class that a value of `overtake.priority` names, regardless of case.
///
/// # Errors
/// `22023` for a class that does not exist.
pub fn class_of(value: &str) -> SqlResult<Class> {
    class(&value.to_ascii_lowercase()).ok_or_else(|| {
        let message = format!("invalid value for parameter \"overtake.priority\": \"{value}\"");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint("Available values: low, normal, high.")
    })
}

/// Splits a text at the characters that stand outside of quotes.
pub fn cut(text: &str, at: impl Fn(char) -> bool) -> Vec<&str> {
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
    /// Parses rules with semicolons between them.
    ///
    /// # Errors
    /// `22023`, with the rule that is invalid.
    pub fn parse(text: &str) -> SqlResult<Rules> {
        let rules = cut(text, |letter| letter == ';').into_iter().filter(|rule| !rule.trim().is_empty());
        rules.map(PriorityRule::parse).collect::<SqlResult<_>>().map(Rules)
    }

    /// Returns the class of a session's statements that have no class of their own.
    pub fn of_session(&self, user: &str, database: &str, application: &str) -> Option<Class> {
        let mut fit = self.0.iter().filter(|rule| !rule.is_about_statements());
        fit.find(|rule| rule.fits(user, database, application)).map(|rule| rule.class)
    }

    /// Returns the class of a statement.
    pub fn of_statement(&self, user: &str, database: &str, application: &str, text: &str) -> Option<Class> {
        let statement = MatchedStatement { text, tags: OnceCell::new(), fingerprint: OnceCell::new() };
        let mut about = self.0.iter().filter(|rule| rule.is_about_statements());
        about
            .find(|rule| rule.fits(user, database, application) && rule.fits_statement(&statement))
            .map(|rule| rule.class)
    }

    /// Returns true if any rule is about statements.
    pub fn are_about_statements(&self) -> bool {
        self.0.iter().any(PriorityRule::is_about_statements)
    }
}

/// Properties of a statement, computed when the first rule needs them.
struct MatchedStatement<'t> {
    text: &'t str,
    tags: OnceCell<Option<Tags<'t>>>,
    fingerprint: OnceCell<u64>,
}

impl PriorityRule {
    fn parse(text: &str) -> SqlResult<PriorityRule> {
        let mut words = cut(text, char::is_whitespace).into_iter().filter(|word| !word.is_empty());
        let class = words.next().and_then(class);
        let class = class.ok_or_else(|| wrong(text, "It does not begin with low, normal or high."))?;
        let mut rule = PriorityRule {
            class,
            user: None,
            database: None,
            application: None,
            statement: None,
            tags: Vec::new(),
            fingerprint: None,
        };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| wrong(text, "A part of it has no \"=\"."))?;
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            let is_pattern = matches!(name, "application" | "statement") || name.starts_with("tag.");
            if is_pattern {
                // Any text shows whether the pattern is valid.
                like::matches(&"x".repeat(value.len()), value, true).map_err(|error| wrong(text, error.message()))?;
            }
            let is_twice = match (name, name.strip_prefix("tag.")) {
                ("user", _) => rule.user.replace(value.to_owned()).is_some(),
                ("database", _) => rule.database.replace(value.to_owned()).is_some(),
                ("application", _) => rule.application.replace(value.to_owned()).is_some(),
                ("statement", _) => rule.statement.replace(value.to_owned()).is_some(),
                ("fingerprint", _) => rule.fingerprint.replace(fingerprint::of(value.as_bytes())).is_some(),
                (_, Some(tag)) if !tag.is_empty() => {
                    rule.tags.push((tag.to_owned(), value.to_owned()));
                    rule.tags.iter().filter(|(own, _)| own == tag).count() == 2
                }
                _ => {
                    let why = "Only user, database, application, tag.NAME, statement and fingerprint can be named.";
                    return Err(wrong(text, why));
                }
            };
            if is_twice {
                return Err(wrong(text, "A part of it is there twice."));
            }
        }
        Ok(rule)
    }

    fn is_about_statements(&self) -> bool {
        self.statement.is_some() || !self.tags.is_empty() || self.fingerprint.is_some()
    }

    fn fits_statement(&self, statement: &MatchedStatement<'_>) -> bool {
        let matches = |pattern: &str, text: &str, folds| like::matches(text, pattern, folds).unwrap_or(false);
        let tag = |name: &str| (*statement.tags.get_or_init(|| Tags::of(statement.text)))?.get(name);
        let own = || *statement.fingerprint.get_or_init(|| fingerprint::of(statement.text.as_bytes()));
        self.statement.as_deref().is_none_or(|pattern| matches(pattern, statement.text.trim(), true))
            && self.tags.iter().all(|(name, pattern)| tag(name).is_some_and(|value| matches(pattern, &value, false)))
            && self.fingerprint.is_none_or(|fingerprint| fingerprint == own())
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

/// Returns the class that a hint before the statement asks for.
///
/// # Errors
/// `22023` for a class that does not exist.
pub fn hint(text: &str) -> SqlResult<Option<Class>> {
    let Some((hint, _)) = text.trim_start().strip_prefix("/*+").and_then(|rest| rest.split_once("*/")) else {
        return Ok(None);
    };
    for word in hint.split_whitespace() {
        if let Some(value) = word.strip_prefix("priority=") {
            return class_of(value).map(Some);
        }
    }
    // The hint is another program's.
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
    fn rules_look_at_tags_and_fingerprints() {
        let text = "high tag.action=pay% tag.application=till; low user=report tag.action=%;
                    normal fingerprint=\"update t set a = 1 where id = 2\"";
        let rules = Rules::parse(text).expect("rules");
        let class = |user: &str, text: &str| rules.of_statement(user, "d", "", text);
        assert_eq!(class("ann", "update t set a = 2 /*action='pay%20out',application='till'*/"), Some(Class::High));
        assert_eq!(class("ann", "update t set a = 2 /*action='pay',application='web'*/"), None);
        assert_eq!(class("report", "select 1 /*action='list'*/"), Some(Class::Low));
        assert_eq!(class("ann", "UPDATE t SET a = $1 WHERE id=$2"), Some(Class::Normal));
        assert_eq!(class("ann", "update t set b = 1 where id = 2"), None);
        assert!(rules.are_about_statements());
        assert_eq!(rules.of_session("report", "d", ""), None);
        for wrong in ["low tag.=x", "low tag.a=x tag.a=y", "low fingerprint=x fingerprint=x", "low tag.a=x\\"] {
            assert_eq!(Rules::parse(wrong).expect_err(wrong).state().0, "22023");
        }
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
