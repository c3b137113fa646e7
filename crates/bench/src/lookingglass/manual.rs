//! Tables of the documentation: the attacks that a test makes, and the levels at which languages run.
//!
//! **Invariant:** nothing is repeated here. The page of stored procedures has both tables; the test of hostile tenants
//! writes and compares the first one.

/// Page of stored procedures.
const PAGE: &str = include_str!("../../../../docs/procedures.md");
/// Mark before the table of attacks.
const ATTACKS: &str = "<!-- attacks: begin -->";
/// Begin of the table of languages.
const LANGUAGES: &str = "| language | ";
/// Cell of an attack that has been successful.
const SUCCEEDS: &str = "**succeeds**";

/// Attacks at one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attacks {
    /// Number of attacks that get nothing.
    pub stopped: usize,
    /// Number of attacks that were made.
    pub made: usize,
}

/// Returns what came of the attacks at a level; `None` if none were made there: the code is the server's own, or is
/// not in the database.
pub fn attacks(level: &str) -> Option<Attacks> {
    let (_, rest) = PAGE.split_once(ATTACKS)?;
    let cells = column(rest.trim_start(), level)?;
    let stopped = cells.iter().filter(|cell| **cell != SUCCEEDS).count();
    Some(Attacks { stopped, made: cells.len() })
}

/// Returns true if code in a language can run at a level.
pub fn runs_at(language: &str, level: &str) -> bool {
    let Some(at) = PAGE.find(LANGUAGES) else { return false };
    let table = &PAGE[at..];
    let languages = first_column(table);
    let cell = languages.iter().position(|name| *name == language).zip(column(table, level));
    cell.is_some_and(|(at, cells)| cells.get(at).is_some_and(|cell| cell.starts_with("yes")))
}

/// Returns the rows of the table with which a text begins, without the header and the line below it.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().take_while(|line| line.starts_with('|')).map(cells)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

fn first_column(text: &str) -> Vec<&str> {
    rows(text).skip(2).filter_map(|cells| cells.first().copied()).collect()
}

/// Returns the column of a level. A heading may name several.
fn column<'t>(text: &'t str, level: &str) -> Option<Vec<&'t str>> {
    let header = rows(text).next()?;
    let is_level = |heading: &&str| heading.split(", ").any(|name| name.trim_matches('`') == level);
    let at = header.iter().position(is_level)?;
    rows(text).skip(2).map(|cells| cells.get(at).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_attacks_at_all_sandboxed_levels() {
        for level in ["wasm", "process", "container", "gvisor", "vm"] {
            let attacks = attacks(level).unwrap_or_else(|| panic!("{level} is in the table"));
            assert!(20 <= attacks.made && attacks.stopped <= attacks.made, "{level}: {attacks:?}");
            assert_eq!(attacks.stopped == attacks.made, level != "process", "{level}: {attacks:?}");
        }
        assert_eq!((attacks("native"), attacks("client")), (None, None));
    }

    #[test]
    fn the_page_says_where_languages_run() {
        assert!(runs_at("Rust", "wasm") && runs_at("Rust", "vm") && runs_at("Rust", "gvisor"));
        assert!(runs_at("TypeScript", "container") && !runs_at("TypeScript", "vm") && !runs_at("Python", "wasm"));
        assert!(!runs_at("Cobol", "wasm") && !runs_at("Rust", "client"));
    }
}
