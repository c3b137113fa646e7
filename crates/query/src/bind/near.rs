//! Which column was perhaps meant by a name that is none: the hint of PostgreSQL's `errorMissingColumn`.

use super::{FromRelation, NameScope};

/// How many letters may be different at most.
const DISTANCE_MAX: usize = 3;

/// What is nearest so far: one column, or two at the same distance, of the tables by these names.
struct NearestColumns {
    distance: usize,
    found: Vec<(String, String)>,
}

impl NearestColumns {
    /// `updateFuzzyAttrMatchState`
    fn look(&mut self, table: &str, column: &str, wanted: &str, penalty: usize) {
        if self.distance < penalty || column.is_empty() {
            return;
        }
        let distance = distance(column, wanted);
        // More than half of it would be another name.
        if wanted.len() / 2 < distance {
            return;
        }
        let distance = distance + penalty;
        let one = (table.to_owned(), column.to_owned());
        if distance < self.distance {
            (self.distance, self.found) = (distance, vec![one]);
        } else if distance == self.distance {
            match self.found.len() {
                // Too many: only nearer ones are of interest from now on.
                2.. => self.found.clear(),
                1 => self.found.push(one),
                _ => {}
            }
        }
    }
}

/// The hint, if there is a column whose name is like this one; `table` is the qualifier that was written.
pub(super) fn hint(table: Option<&str>, wanted: &str, scope: &NameScope<'_>) -> Option<String> {
    let mut nearest = NearestColumns { distance: DISTANCE_MAX + 1, found: Vec::new() };
    let mut at = Some(scope);
    while let Some(here) = at {
        for relation in here.relations.iter().filter(|one| one.is_named && !is_join(one)) {
            let penalty = table.map_or(0, |table| distance(&relation.alias, table).min(DISTANCE_MAX + 2));
            for column in &relation.columns {
                nearest.look(&relation.alias, &column.name, wanted, penalty);
            }
        }
        at = here.parent;
    }
    match &nearest.found[..] {
        [(table, column)] => Some(format!("Perhaps you meant to reference the column \"{table}.{column}\".")),
        [(table, column), (other, second)] => Some(format!(
            "Perhaps you meant to reference the column \"{table}.{column}\" or the column \"{other}.{second}\"."
        )),
        _ => None,
    }
}

/// A join has no columns of its own.
fn is_join(relation: &FromRelation) -> bool {
    let is_own = |(at, value): (usize, &crate::plan::Expr)| matches!(value, crate::plan::Expr::Column(own) if *own == relation.first + at);
    !relation.values.iter().enumerate().all(is_own)
}

/// How many letters must be put in, taken out or exchanged to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (place, own) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *own);
            diagonal = row[place + 1];
            row[place + 1] = exchanged.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}
