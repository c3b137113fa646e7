//! Hint for an unknown column: similar names, as in PostgreSQL's `errorMissingColumn`.

use super::{FromRelation, NameScope};

/// Maximal edit distance of a suggestion.
const DISTANCE_MAX: usize = 3;

/// Nearest candidates so far: one column, or two at the same distance, each with its table's name.
struct NearestColumns {
    distance: usize,
    found: Vec<(String, String)>,
}

impl NearestColumns {
    /// Considers a column, as PostgreSQL's `updateFuzzyAttrMatchState` does.
    fn look(&mut self, table: &str, column: &str, wanted: &str, penalty: usize) {
        if self.distance < penalty || column.is_empty() {
            return;
        }
        let distance = distance(column, wanted);
        // A name that differs in more than half of its letters is not a misspelling.
        if wanted.len() / 2 < distance {
            return;
        }
        let distance = distance + penalty;
        let one = (table.to_owned(), column.to_owned());
        if distance < self.distance {
            (self.distance, self.found) = (distance, vec![one]);
        } else if distance == self.distance {
            match self.found.len() {
                // A third candidate makes the hint useless, so only nearer ones count from now on.
                2.. => self.found.clear(),
                1 => self.found.push(one),
                _ => {}
            }
        }
    }
}

/// Returns the hint, if a column has a similar name. `table` is the qualifier in the statement.
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

/// True if a relation is a join, which has no columns of its own.
fn is_join(relation: &FromRelation) -> bool {
    let is_own = |(at, value): (usize, &crate::plan::Expr)| matches!(value, crate::plan::Expr::Column(own) if *own == relation.first + at);
    !relation.values.iter().enumerate().all(is_own)
}

/// Returns the Levenshtein distance of two names.
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
