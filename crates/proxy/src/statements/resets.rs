//! Rules about clients that leave state which no text has named: `overtake.upstream_reset`, by user and database.
//!
//! **Invariant:** the first rule that matches decides.

use settings::priority::cut;

/// Occasion at which a connection is asked for state that its client has left, beside the texts that name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reset {
    /// Never.
    Never,
    /// After a transaction in which the server has reported a setting that no text explains.
    #[default]
    Unexplained,
    /// After every transaction; and before the next one, all state that cannot be asked for is reset.
    Always,
}

/// Rules, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resets(Vec<ResetRule>);

/// Rule, which matches every user or database that it does not name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResetRule {
    reset: Reset,
    user: Option<String>,
    database: Option<String>,
}

impl Resets {
    /// Parses `MODE [user=NAME] [database=NAME]; …`.
    ///
    /// # Errors
    /// A rule is invalid.
    pub fn parse(text: &str) -> Result<Resets, String> {
        let rules = cut(text, |letter| letter == ';').into_iter().filter(|rule| !rule.trim().is_empty());
        rules.map(ResetRule::parse).collect::<Result<_, _>>().map(Resets)
    }

    pub(crate) fn of(&self, user: &str, database: &str) -> Reset {
        let is = |own: &Option<String>, name: &str| own.as_ref().is_none_or(|own| own == name);
        let fits = |rule: &&ResetRule| is(&rule.user, user) && is(&rule.database, database);
        self.0.iter().find(fits).map_or_else(Reset::default, |rule| rule.reset)
    }
}

impl ResetRule {
    fn parse(text: &str) -> Result<ResetRule, String> {
        let wrong = |why: &str| format!("\"{}\": {why}. A rule is MODE [user=NAME] [database=NAME]", text.trim());
        let mut words = cut(text, char::is_whitespace).into_iter().filter(|word| !word.is_empty());
        let reset = match words.next().unwrap_or_default() {
            "never" => Reset::Never,
            "unexplained" => Reset::Unexplained,
            "always" => Reset::Always,
            _ => return Err(wrong("it does not begin with never, unexplained or always")),
        };
        let mut rule = ResetRule { reset, user: None, database: None };
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| wrong("a part of it has no \"=\""))?;
            let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            let place = match name {
                "user" => &mut rule.user,
                "database" => &mut rule.database,
                _ => return Err(wrong(&format!("\"{name}\" is not known"))),
            };
            *place = Some(value.to_owned());
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let resets = Resets::parse("never user=batch database=shop; always database=\"my shop\"; always user=batch;")
            .expect("rules");
        assert_eq!(resets.of("batch", "shop"), Reset::Never);
        assert_eq!(resets.of("ann", "my shop"), Reset::Always);
        assert_eq!(resets.of("batch", "other"), Reset::Always);
        assert_eq!(resets.of("ann", "shop"), Reset::Unexplained);
        assert_eq!(Resets::parse("always").map(|all| all.of("a", "b")), Ok(Reset::Always));
        for wrong in ["sometimes", "always user", "always application=x"] {
            assert!(Resets::parse(wrong).is_err_and(|error| error.starts_with(&format!("\"{wrong}\": "))), "{wrong}");
        }
    }
}
