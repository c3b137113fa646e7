//! List of the specs that are not equal, and the check that it is right.

use super::SpecOutcome;
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;

/// Specs that are not equal, with the outcome of each: spec, `refused`, message; or spec, `differs`, equal/all
/// permutations, reason.
#[derive(Default)]
pub struct KnownDifferences {
    outcomes: BTreeMap<String, SpecOutcome>,
}

impl KnownDifferences {
    /// Reads the list of this program.
    ///
    /// # Errors
    /// If a line of it has another form.
    pub fn read() -> anyhow::Result<KnownDifferences> {
        KnownDifferences::parse(include_str!("known.tsv"))
    }

    fn parse(text: &str) -> anyhow::Result<KnownDifferences> {
        let mut outcomes = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<&str> = line.split('\t').collect();
            let outcome = match fields[..] {
                [_, "refused", message] => SpecOutcome::Refused(message.to_owned()),
                [_, "differs", count, reason] if !reason.is_empty() => {
                    let (equal, of) = count.split_once('/').with_context(|| line.to_owned())?;
                    SpecOutcome::Differs { equal: equal.parse()?, of: of.parse()? }
                }
                _ => bail!("known.tsv has a line of another form: {line}"),
            };
            let before = outcomes.insert(fields[0].to_owned(), outcome);
            ensure!(before.is_none(), "known.tsv names {} twice", fields[0]);
        }
        Ok(KnownDifferences { outcomes })
    }

    /// Returns a line for each spec whose outcome is not that of the list.
    pub fn changes(&self, found: &BTreeMap<String, SpecOutcome>, is_whole_suite: bool) -> Vec<String> {
        let mut changes = Vec::new();
        for (name, outcome) in found {
            let listed = self.outcomes.get(name).unwrap_or(&SpecOutcome::Equal);
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
    use super::{KnownDifferences, SpecOutcome};
    use std::collections::BTreeMap;

    #[test]
    fn the_list_has_its_form() {
        KnownDifferences::read().expect("the list can be read");
    }

    #[test]
    fn changes_to_both_sides_are_found() {
        let known =
            KnownDifferences::parse("a\trefused\tMERGE is not supported\nb\tdiffers\t2/3\twhy\n").expect("a list");
        let refused = || SpecOutcome::Refused("MERGE is not supported".to_owned());
        let found = |a: SpecOutcome, b: SpecOutcome, c: SpecOutcome| {
            BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b), ("c".to_owned(), c)])
        };
        let differs = |equal| SpecOutcome::Differs { equal, of: 3 };
        assert!(known.changes(&found(refused(), differs(2), SpecOutcome::Equal), true).is_empty());
        let changes = known.changes(&found(SpecOutcome::Equal, differs(1), refused()), true);
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert!(known.changes(&BTreeMap::new(), false).is_empty());
        assert_eq!(known.changes(&BTreeMap::new(), true).len(), 2);
        assert!(KnownDifferences::parse("a\tdiffers\t2/3\t").is_err());
    }
}
