//! Statements that a project's files cannot have, because the command that runs a file would not do what they say.
//!
//! **Invariant:** `procedures.sql` is one transaction: no statement in it ends the one that the command has begun.

use crate::script::{lexemes, statements};
use host::refusal::Refusal;
use std::path::Path;
use syntax::lex::{Keyword, Lexeme};

/// File of statements, by the way in which it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptKind {
    /// `procedures.sql`, in one transaction with the module.
    Procedures,
    /// `schema.sql`, statement by statement as psql does it. Procedures are installed behind it, by the same session.
    Schema,
    /// Test, statement by statement. It may try transactions.
    Test,
}

/// Statement that is more than one of the transaction around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    /// Begins a block.
    Begins(&'static str),
    /// Ends a block, and begins none.
    Ends(&'static str),
    /// Ends a block, and begins the next one; or moves within one.
    Stays(&'static str),
    /// Wants rows from the client.
    TakesRows,
    /// Sends rows to the client, which are no result.
    GivesRows,
}

/// Checks the statements of a file.
///
/// # Errors
/// Names the first one that is refused, with its line.
pub(crate) fn check(path: &Path, text: &str, kind: ScriptKind) -> Result<(), Refusal> {
    let mut open = None;
    for statement in statements(text) {
        let Some(control) = control(statement) else { continue };
        let begin = (statement.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let line = text.get(..begin).unwrap_or_default().matches('\n').count() + 1;
        let refused =
            |what: &str, why: &str| Err(Refusal::new(format!("{}:{line}: {what} is refused: {why}", path.display())));
        match control {
            Control::TakesRows => {
                return refused("COPY ... FROM STDIN", "no rows are sent behind a statement; use INSERT");
            }
            Control::GivesRows => {
                return refused("COPY ... TO STDOUT", "only rows of queries are shown; use SELECT");
            }
            Control::Begins(word) | Control::Ends(word) | Control::Stays(word) if kind == ScriptKind::Procedures => {
                return refused(word, "the file is run in one transaction, together with the module");
            }
            Control::Begins(word) => open = open.or(Some((word, line))),
            Control::Ends(_) => open = None,
            Control::Stays(_) => {}
        }
    }
    match open {
        Some((word, line)) if kind == ScriptKind::Schema => {
            let path = path.display();
            Err(Refusal::new(format!("{path}:{line}: {word} is refused: the file does not end the transaction")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns what a statement does with transactions or the connection; `None` for an ordinary one.
fn control(statement: &str) -> Option<Control> {
    use Keyword::{
        Abort, And, Begin, Chain, Commit, Copy, End, From, Prepare, Prepared, Release, Rollback, Savepoint, Start,
        Stdin, Stdout, To, Transaction,
    };
    let words: Vec<Option<Keyword>> = words(statement);
    let has = |pair: [Keyword; 2]| words.windows(2).any(|window| window == pair.map(Some));
    let second = words.get(1).copied().flatten();
    let ends = |word| {
        let stays = second == Some(Prepared) || words.contains(&Some(To)) || has([And, Chain]);
        Some(if stays { Control::Stays(word) } else { Control::Ends(word) })
    };
    match words.first().copied().flatten()? {
        Begin => Some(Control::Begins("BEGIN")),
        Start if second == Some(Transaction) => Some(Control::Begins("START TRANSACTION")),
        Commit => ends("COMMIT"),
        End => ends("END"),
        Rollback => ends("ROLLBACK"),
        Abort => ends("ABORT"),
        // A statement may have this name: PREPARE transaction AS ...
        Prepare if second == Some(Transaction) && words.get(2) == Some(&None) => {
            Some(Control::Ends("PREPARE TRANSACTION"))
        }
        Savepoint => Some(Control::Stays("SAVEPOINT")),
        Release => Some(Control::Stays("RELEASE")),
        Copy => {
            let at = words.iter().position(|word| matches!(word, Some(From | To)))?;
            let way = words.get(at).copied().flatten();
            match words.get(at + 1).copied().flatten() {
                // The grammar takes either word for both directions.
                Some(Stdin | Stdout) if way == Some(From) => Some(Control::TakesRows),
                Some(Stdin | Stdout) => Some(Control::GivesRows),
                Some(_) | None => None,
            }
        }
        _ => None,
    }
}

/// Returns the tokens of a statement outside of parentheses, the keywords by name.
fn words(statement: &str) -> Vec<Option<Keyword>> {
    let mut depth = 0_usize;
    let mut words = Vec::new();
    for lexeme in lexemes(statement) {
        match lexeme {
            Lexeme::LeftParen => depth += 1,
            Lexeme::RightParen => depth = depth.saturating_sub(1),
            Lexeme::Keyword(word) if depth == 0 => words.push(Some(word)),
            _ if depth == 0 => words.push(None),
            _ => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str, kind: ScriptKind) -> String {
        check(Path::new("f.sql"), text, kind).map_or_else(|refusal| refusal.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn procedures_are_one_transaction() {
        for (text, word) in [
            ("COMMIT", "COMMIT"),
            ("commit work and no chain", "COMMIT"),
            ("END TRANSACTION", "END"),
            ("rollback", "ROLLBACK"),
            ("ROLLBACK AND CHAIN", "ROLLBACK"),
            ("ROLLBACK TO SAVEPOINT s", "ROLLBACK"),
            ("ROLLBACK PREPARED 'x'", "ROLLBACK"),
            ("Abort", "ABORT"),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", "BEGIN"),
            ("/* a; */ START TRANSACTION", "START TRANSACTION"),
            ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION"),
            ("SAVEPOINT s", "SAVEPOINT"),
            ("RELEASE s", "RELEASE"),
        ] {
            let refused =
                format!("f.sql:3: {word} is refused: the file is run in one transaction, together with the module");
            let text = format!("SELECT ';';\n-- a comment; COMMIT\n{text};");
            assert_eq!(told(&text, ScriptKind::Procedures), refused, "{text}");
        }
        let body = "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END;\n";
        let refused = "f.sql:2: COMMIT is refused: the file is run in one transaction, together with the module";
        assert_eq!(told(&format!("{body}COMMIT"), ScriptKind::Procedures), refused);
        // A column's name and its label are no body.
        assert_eq!(told("SELECT begin atomic FROM t;\nCOMMIT;", ScriptKind::Procedures), refused);
    }

    #[test]
    fn other_statements_with_the_same_words_stay() {
        let text = "CREATE PROCEDURE p() BEGIN ATOMIC INSERT INTO t VALUES (1); END;
            CREATE OR REPLACE PROCEDURE p() LANGUAGE sql AS $$BEGIN; COMMIT; COPY t FROM STDIN; $$;
            SELECT 'COMMIT' AS commit, begin FROM savepoint;
            PREPARE transaction AS SELECT 1;
            PREPARE transaction (int) AS SELECT $1;
            COPY t FROM '/tmp/x' WHERE a IS DISTINCT FROM stdin;
            COPY t FROM '/tmp/stdin';
            COPY (SELECT * FROM stdin) TO '/tmp/x';
            SET TRANSACTION READ WRITE;";
        for kind in [ScriptKind::Procedures, ScriptKind::Schema, ScriptKind::Test] {
            assert_eq!(told(text, kind), "ok");
        }
    }

    #[test]
    fn rows_are_neither_sent_nor_taken() {
        for kind in [ScriptKind::Procedures, ScriptKind::Schema, ScriptKind::Test] {
            for text in ["COPY t (a, b) FROM STDIN;\n1\t'\n\\.\n", "copy binary t from stdin", "copy t from stdout"] {
                let refused =
                    "f.sql:2: COPY ... FROM STDIN is refused: no rows are sent behind a statement; use INSERT";
                assert_eq!(told(&format!("SELECT 1;\n{text}"), kind), refused);
            }
            for text in ["COPY t TO STDOUT", "COPY (SELECT 1) TO STDOUT WITH (FORMAT csv)", "COPY t TO stdin"] {
                let refused = "f.sql:1: COPY ... TO STDOUT is refused: only rows of queries are shown; use SELECT";
                assert_eq!(told(text, kind), refused);
            }
        }
    }

    #[test]
    fn a_schema_ends_what_it_begins() {
        for text in ["BEGIN; SELECT 1; COMMIT", "BEGIN; SAVEPOINT s; ROLLBACK TO s; END", "COMMIT; BEGIN; ROLLBACK"] {
            assert_eq!(told(text, ScriptKind::Schema), "ok", "{text}");
        }
        let refused = "f.sql:2: BEGIN is refused: the file does not end the transaction";
        for text in ["\nBEGIN; SELECT 1", "\nBEGIN; COMMIT AND CHAIN", "\nBEGIN; SAVEPOINT s;\nROLLBACK TO s;"] {
            assert_eq!(told(text, ScriptKind::Schema), refused, "{text}");
            assert_eq!(told(text, ScriptKind::Test), "ok", "{text}");
        }
    }
}
