//! List of the specs that are not equal, and the check that it is right.

use super::Outcome;
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;

/// Specs that are not equal, with the outcome of each: spec, `refused`, message; or spec, `differs`, equal/all
/// permutations, reason.
#[derive(Default)]
pub struct Known {
    outcomes: BTreeMap<String, Outcome>,
}

impl Known {
    /// Reads the list of this program.
    ///
    /// # Errors
    /// If a line of it has another form.
    pub fn read() -> anyhow::Result<Known> {
        Known::parse(include_str!("known.tsv"))
    }

    fn parse(text: &str) -> anyhow::Result<Known> {
        let mut outcomes = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let outcome = match fields[..] {
                [_, "refused", message] => Outcome::Refused(message.to_owned()),
                [_, "differs", count, reason] if !reason.is_empty() => {
                    let (equal, of) = count.split_once('/').with_context(|| line.to_owned())?;
                    Outcome::Differs { equal: equal.parse()?, of: of.parse()? }
                }
                _ => bail!("known.tsv has a line of another form: {line}"),
            };
            let before = outcomes.insert(fields[0].to_owned(), outcome);
            ensure!(before.is_none(), "known.tsv names {} twice", fields[0]);
        }
        Ok(Known { outcomes })
    }

    /// Returns a line for each spec whose outcome is not that of the list.
    pub fn changes(&self, found: &BTreeMap<String, Outcome>, is_whole_suite: bool) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, outcome) in found {
            let listed = self.outcomes.get(name).unwrap_or(&Outcome::Equal);
            if listed != outcome {
                changes.push(format!("{name}\t{outcome}\t(listed: {listed})"));
            }
        }
        let is_missing = |name: &&String| is_whole_suite && !found.contains_key(*name);
        changes.extend(self.outcomes.keys().filter(is_missing).map(|name| format!("{name} is not in the suite")));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::{Known, Outcome};
    use std::collections::BTreeMap;

    #[test]
    fn the_list_has_its_form() {
        Known::read().expect("the list can be read");
    }

    #[test]
    fn changes_to_both_sides_are_found() {
        let known = Known::parse("a\trefused\tMERGE is not supported\nb\tdiffers\t2/3\twhy\n").expect("a list");
        let refused = || Outcome::Refused("MERGE is not supported".to_owned());
        let found = |a: Outcome, b: Outcome, c: Outcome| {
            BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b), ("c".to_owned(), c)])
        };
        let differs = |equal| Outcome::Differs { equal, of: 3 };
        assert!(known.changes(&found(refused(), differs(2), Outcome::Equal), true).is_empty());
        let changes = known.changes(&found(Outcome::Equal, differs(1), refused()), true);
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(known.changes(&BTreeMap::new(), false).is_empty());
        assert_eq!(known.changes(&BTreeMap::new(), true).len(), 2);
        assert!(Known::parse("a\tdiffers\t2/3\t").is_err());
    }
}
